"""The settings as keyword arguments, for type checkers, which so find a wrong name and a value of a wrong type.

`python -m tools.setting_types` writes this file. At run time `SchedulerConfig.of` checks the same.
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
    executors: Mapping[str, ExecutorConfig | Mapping[str, Any] | str]
    labels: Sequence[str]
    job_modules: Sequence[str]
    misfire_threshold: Span
    history_retention: Span | None
    schema: str | None
    log_executions: str | None
    debug: bool
    table_prefix: str
    pool_size: int
    pooled: bool
    listen_url: str | None
    password_command: str | None
    start_timeout: Span
    connect_timeout: Span
    lock_timeout: Span
    statement_timeout: Span
    batch_size: int
    idle_wait: Span
    misfire_batch_size: int
    execution_groups: Mapping[str, int]
    checkin_interval: Span
    failure_window: Span
    engine_window: Span
    max_node_deaths: int
    history_max_rows: int | None
    audit_retention: Span | None
    pause_grace: Span
    max_job_data_bytes: int
    max_captured_log_bytes: int
    commands: Sequence[str]
    command_environment: Sequence[str]
    command_variables: Mapping[str, Mapping[str, str]]
    http_hosts: Sequence[str]
    http_secrets: Mapping[str, str]
    notify_channels: Mapping[str, Channel | Mapping[str, Any] | str]
    monitors: Mapping[str, str]
    heartbeat_url: str | None
    heartbeat_interval: Span
    metrics_port: int | None
    metrics_host: str


class OutsideSettings(Settings, total=False):
    """The keyword arguments of `Scheduler.from_config` that are settings."""

    url: str
