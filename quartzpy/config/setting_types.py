"""The settings as keyword arguments, for type checkers, which so find a wrong name and a value of a wrong type.

At run time `SchedulerConfig.of` does. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from quartzpy.config.config import NodeRole
from quartzpy.config.notifying import Channel
from quartzpy.config.pools import ExecutorConfig
from quartzpy.instants import Span


class Settings(TypedDict, total=False):
    """The keyword arguments of `Scheduler` that are settings; `SchedulerConfig` says what they mean."""

    name: str
    instance_id: str
    role: NodeRole | Literal["both", "scheduler", "worker"]
    workers: int
    executors: Mapping[str, ExecutorConfig | str]
    execution_groups: Mapping[str, int]
    labels: Sequence[str]
    batch_size: int
    idle_wait: Span
    misfire_threshold: Span
    misfire_batch_size: int
    checkin_interval: Span
    failure_window: Span
    max_node_deaths: int
    lock_timeout: Span
    statement_timeout: Span
    start_timeout: Span
    connect_timeout: Span
    history_retention: Span | None
    history_max_rows: int | None
    audit_retention: Span | None
    pause_grace: Span
    max_job_data_bytes: int
    max_captured_log_bytes: int
    job_modules: Sequence[str]
    commands: Sequence[str]
    command_environment: Sequence[str]
    command_variables: Mapping[str, Mapping[str, str]]
    http_hosts: Sequence[str]
    http_secrets: Mapping[str, str]
    notify_channels: Mapping[str, Channel | Mapping[str, Any] | str]
    monitors: Mapping[str, str]
    heartbeat_url: str | None
    heartbeat_interval: Span
    schema: str | None
    log_executions: str | None
    debug: bool
    metrics_port: int | None
    metrics_host: str
    table_prefix: str
    pool_size: int
    pooled: bool
    listen_url: str | None


class OutsideSettings(Settings, total=False):
    """The keyword arguments of `Scheduler.from_config` that are settings."""

    url: str
