"""The settings of a scheduler: one frozen value, validated as a whole. Its worker pools are a part of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar, Literal, NamedTuple, cast

from quartzpy.config.notifying import NOTIFIERS, Channel, check_place
from quartzpy.config.pools import MAX_WORKERS, NOTIFIERS_POOL, ExecutorConfig
from quartzpy.config.setting_checks import (
    check_setting_name,
    checked_channels,
    checked_groups,
    checked_host,
    checked_monitors,
    checked_program,
    checked_schema,
    checked_secrets,
    checked_table_prefix,
    checked_texts,
    checked_variables,
    words_of_command,
)
from quartzpy.errors import SettingsError
from quartzpy.foreign_names import answer
from quartzpy.instants import Converted, Span, as_span
from quartzpy.keys import unique_name
from quartzpy.logs.captured import DEFAULT_LIMIT, SMALLEST_LIMIT
from quartzpy.name_hints import SETTING_NAMES
from quartzpy.placement import DEFAULT_EXECUTOR
from quartzpy.texts import did_you_mean, quoted

AUTO = "AUTO"
DEFAULT_TABLE_PREFIX = "qrtz_"
# The server counts milliseconds in 32 bits.
_MAX_TIMEOUT = timedelta(days=24)
_LEAST_HEARTBEAT = timedelta(seconds=5)
_A_YEAR = timedelta(days=366)
_FOR_EVER = ("history_retention", "audit_retention")
"""The spans of time that may be None, for what is kept for ever."""
LOG_LEVELS = ("DEBUG", "INFO", "WARNING")


def automatic_instance_id() -> str:
    """Return an instance id that no other node has, made of the host, the process id and a random part."""
    host = socket.gethostname().split(".")[0][:100] or "host"
    return f"{host}-{os.getpid()}-{unique_name()[:6]}"


class NodeRole(StrEnum):
    """The role of a started node in its cluster."""

    BOTH = "both"
    """The node runs jobs and does maintenance: it handles misfires, deletes old history and repairs rows."""
    SCHEDULER = "scheduler"
    """The node does maintenance, detects dead nodes and recovers their work, but never runs a job."""
    WORKER = "worker"
    """The node runs jobs, and does maintenance only while no node of another role is alive."""


class Table(NamedTuple):
    """A table of a file with settings."""

    name: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """All settings with their defaults.

    A length of time is a timedelta, a number of seconds, or a string such as "1h30m". The database's clock decides
    what is due in the cluster; a node measures its own waits by its monotonic clock.

    In a file, the settings that follow a `Table` here stand in that table, and the first ones before the tables.
    """

    name: str = "quartzpy"
    """The name of the logical scheduler: all nodes with the same name on one database form one cluster."""

    instance_id: str = AUTO
    """The node's name in the cluster; AUTO generates a unique one at each start."""

    role: Converted[NodeRole | Literal["both", "scheduler", "worker"], NodeRole] = Converted(NodeRole.BOTH)
    """The role of this node in the cluster: "both", "scheduler" (runs no jobs) or "worker" (leaves misfires and the
    deletion of old history to nodes with another role while there are any). See "Roles" in docs/operating-a-node.md."""

    workers: int = 10
    """The maximum number of executions that this node runs at the same time in its default executor, on threads and on
    the event loop."""

    executors: Mapping[str, ExecutorConfig | Mapping[str, Any] | str] = field(default_factory=dict, hash=False)
    """Additional worker pools, by the name that jobs give as `executor`: `{"cpu": "processes:4", "io": "asyncio:500"}`.
    `"processes:4:512MB"` also limits the memory of each process, and `"dask:tcp://scheduler:8786"` is an engine: see
    docs/engines/index.md. A pool may also be an `ExecutorConfig`, or a mapping of its fields."""

    labels: Converted[Sequence[str], tuple[str, ...]] = Converted(())
    """The labels of this node. A job runs only on nodes that have all labels in its `requires`."""

    job_modules: Converted[Sequence[str], tuple[str, ...]] = Converted(())
    """The packages from which job types may be imported because a stored job names them."""

    misfire_threshold: Converted[Span, timedelta] = Converted(timedelta(seconds=60))
    """A trigger that is overdue by more than this has misfired (Quartz's default)."""

    history_retention: Converted[Span | None, timedelta | None] = Converted(timedelta(days=7))
    """The time for which ended executions, misfires and ended triggers are kept. None keeps executions and misfires
    for ever, and ended triggers for seven days."""

    schema: str | None = None
    """The database schema of the tables; None uses the default schema of the connection."""

    log_executions: str | None = None
    """The level at which the logger "quartzpy.executions" logs each execution: "DEBUG", "INFO" or "WARNING".
    Failures and misfires are logged as warnings. None logs failures only."""

    debug: bool = False
    """True to look for mistakes in the jobs of this process: executions are logged at INFO unless `log_executions` is
    set, and the event loop runs in asyncio's debug mode, which reports slow callbacks and coroutines that were never
    awaited. It costs time."""

    DATABASE: ClassVar = Table("database", "How the scheduler reaches its database, and how long it waits for it.")

    table_prefix: str = DEFAULT_TABLE_PREFIX
    """The prefix of the names of all tables, sequences, indexes and constraints. Schedulers with different prefixes can
    share a schema without affecting each other."""

    pool_size: int = 5
    """The number of connections for steps and calls, besides the three that a node keeps for check-ins, misfires and
    LISTEN."""

    pooled: bool = False
    """True if the URL leads to a pooler in transaction mode (PgBouncer, `pool_mode=transaction`): sessions then keep no
    settings and no prepared statements, and LISTEN receives nothing."""

    listen_url: str | None = field(default=None, repr=False)
    """A direct URL, not through the pooler, for the one connection of a node that uses LISTEN. Without it a node learns
    of newly scheduled work after at most `idle_wait`, and of cancellations after at most `checkin_interval`."""

    password_command: str | None = None
    """The command that prints the password of the database, for passwords and tokens that expire: `"aws rds
    generate-db-auth-token --hostname db.example.com --port 5432 --username app"`. It is run without a shell, before a
    connection needs a password and none is younger than a minute, and again if the server refuses the password."""

    start_timeout: Converted[Span, timedelta] = Converted(timedelta(seconds=30))
    """The longest time for which `start` tries to reach the database."""

    connect_timeout: Converted[Span, timedelta] = Converted(timedelta(seconds=5))
    """The longest duration of one attempt to connect."""

    lock_timeout: Converted[Span, timedelta] = Converted(timedelta(seconds=5))
    """The longest wait for a lock of the database."""

    statement_timeout: Converted[Span, timedelta] = Converted(timedelta(seconds=30))
    """The longest run time of a statement of the scheduler."""

    TUNING: ClassVar = Table("tuning", "Sizes, intervals and limits. Their defaults suit most clusters.")

    batch_size: int = 200
    """The maximum number of triggers that one transaction fires, and that wait for a worker while jobs are short."""

    idle_wait: Converted[Span, timedelta] = Converted(timedelta(seconds=15))
    """The longest time between two searches for work, in case a notification (NOTIFY) is lost."""

    misfire_batch_size: int = 250
    """The maximum number of misfired triggers that one transaction handles."""

    execution_groups: Mapping[str, int] = field(default_factory=dict, hash=False)
    """The maximum number of executions of each `execution_group` at the same time on this node:
    `{"reports": 2, "*": 10}`. "*" is the limit of each group that is not named, "_" that of jobs without a group; 0
    leaves them to other nodes."""

    checkin_interval: Converted[Span, timedelta] = Converted(timedelta(seconds=5))
    """The time between two check-ins. Each check-in renews the node's lease."""

    failure_window: Converted[Span, timedelta] = Converted(timedelta(seconds=20))
    """Other nodes may declare this node dead after this time without a check-in. Their own setting does not matter.
    The node's lease is three quarters of it."""

    engine_window: Converted[Span, timedelta] = Converted(timedelta(seconds=60))
    """The time for which a worker of an engine, such as Dask, may be silent before its job counts as lost, if the
    engine does not say so earlier. What a worker does that cannot reach the database for so long is not recorded."""

    max_node_deaths: int = 3
    """The number of nodes in a row that may die while they run a job. Then the job's triggers go to ERROR. A success of
    the job resets the count."""

    history_max_rows: int | None = None
    """The number of ended executions that are kept, even if they are younger than `history_retention`: the oldest are
    deleted every five minutes. None sets no limit."""

    audit_retention: Converted[Span | None, timedelta | None] = Converted(timedelta(days=365))
    """The time for which the actions of operators are kept in the audit log. None keeps them for ever."""

    pause_grace: Converted[Span, timedelta] = Converted(timedelta(hours=1))
    """A pause becomes an incident if it has skipped fires and is older than this."""

    max_job_data_bytes: int = 65_536
    """The largest size of job data in bytes, as stored."""

    max_captured_log_bytes: int = DEFAULT_LIMIT
    """The largest size, in bytes, of the log lines that are kept of one execution (`capture_logs`). Of longer ones the
    first and the last lines are kept."""

    ALLOW: ClassVar = Table("allow", "What `CommandJob` and `HttpJob` may do on this node.")

    commands: Converted[Sequence[str], tuple[str, ...]] = Converted(())
    """The programs that `CommandJob` may run on this node: absolute paths, names that are looked up in PATH, or, with a
    slash at the end, directories whose programs are all allowed. A node without the setting runs no commands. Whoever
    may write jobs can pass any arguments to these programs; "/bin/sh" allows every command."""

    command_environment: Converted[Sequence[str], tuple[str, ...]] = Converted(
        ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
    )
    """The names of the environment variables of this node that the programs of `CommandJob` receive."""

    command_variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False, repr=False)
    """Further variables that the programs of `CommandJob` receive, by the job: `{"billing.export": {"PGPASSWORD":
    "..."}}`. They are in no table and on no page, and no other job's program sees them."""

    http_hosts: Converted[Sequence[str], tuple[str, ...]] = Converted(())
    """The hosts that `HttpJob` may call from this node: "api.example.com" (HTTPS at port 443), "*.example.com",
    "api.example.com:8443", "http://reports.internal:8080", and the private networks to which their names may lead:
    "10.1.0.0/16", "10.1.0.7/32". An address such as "http://10.1.0.7:8080" is a host by itself. A node
    without the setting makes no calls."""

    http_secrets: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The secrets that `HttpJob` may use on this node, by the names that jobs give: where each is, and the hosts that
    may receive it: `{"erp": "env:ERP_TOKEN@api.example.com", "bank": "file:/run/secrets/bank@*.bank.example"}`.
    Several hosts are separated by spaces."""

    TELL: ClassVar = Table("tell", "Notifications of incidents, and calls of outside monitors.")

    notify_channels: Mapping[str, Channel | Mapping[str, Any] | str] = field(default_factory=dict, hash=False)
    """The channels for notifications of incidents, by their names: a URL or its place, `{"ops": "env:OPS_URL"}`, or a
    `Channel` with routes, as a table in the file. All nodes should have the same channels; the
    messages of one are sent by nodes that can read its URL. See docs/how-to/notifications.md."""

    monitors: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    """The URLs of outside monitors to call at the starts and ends of jobs, by patterns of the keys of jobs: `{"*":
    "https://hc-ping.com/KEY/{job}"}`; the first that matches counts, and "none" is no monitor. A URL may be a place,
    `env:MONITOR_URL`. The service (healthchecks.io, Sentry, Cronitor) is recognized by the
    URL."""

    heartbeat_url: str | None = field(default=None, repr=False)
    """The URL of an outside monitor, or its place, that one node at a time calls while the cluster is in order."""

    heartbeat_interval: Converted[Span, timedelta] = Converted(timedelta(seconds=60))
    """The time between two calls of `heartbeat_url`; at least five seconds."""

    METRICS: ClassVar = Table("metrics", "Where a started node answers Prometheus and health checks.")

    metrics_port: int | None = None
    """The port at which a started node answers `/metrics` (Prometheus), `/healthz` and `/readyz`. 0 takes any free
    port; None: it does not listen."""

    metrics_host: str = "127.0.0.1"
    """The address for `metrics_port`. There is no authentication, so the default is reachable from this machine only;
    "0.0.0.0" is reachable from everywhere."""

    def __post_init__(self) -> None:
        """Validate every setting, and the rules between them.

        Raises:
            SettingsError: a value is invalid; the message names the setting, the value and the rule.
        """
        assign = object.__setattr__
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(setting.default, timedelta) and not (value is None and setting.name in _FOR_EVER):
                span = as_span(value, setting.name, SettingsError, above_zero=True, longest=10 * _A_YEAR)
                assign(self, setting.name, span)
            elif type(setting.default) is int and type(value) is not int:
                raise SettingsError(f"{setting.name} must be an integer (got {quoted(value)})")
            elif type(setting.default) is bool and type(value) is not bool:
                raise SettingsError(f"{setting.name} must be True or False (got {quoted(value)})")
        check_setting_name(self.name, "name")
        check_setting_name(self.instance_id, "instance_id")
        if self.role not in list(NodeRole):
            raise SettingsError(f"role must be one of {', '.join(NodeRole)} (got {quoted(self.role)})")
        assign(self, "role", NodeRole(self.role))
        if self.log_executions is not None:
            if self.log_executions not in LOG_LEVELS:
                raise SettingsError(
                    f"log_executions must be {', '.join(LOG_LEVELS)} or None (got {quoted(self.log_executions)})"
                )
        elif self.debug:
            assign(self, "log_executions", "INFO")
        self._check_range("workers", 0, MAX_WORKERS)
        checked_schema(self.schema)
        assign(self, "job_modules", checked_texts(self.job_modules, "job_modules", "module names"))
        self._check_capabilities()
        for name in ("lock_timeout", "statement_timeout"):
            if getattr(self, name) > _MAX_TIMEOUT:
                raise SettingsError(
                    f"{name}={getattr(self, name)} must be at most {_MAX_TIMEOUT}, the limit of PostgreSQL"
                )
        self._check_range("pool_size", 3, 1_000)
        checked_table_prefix(self.table_prefix)
        if self.password_command is not None:
            words_of_command(self.password_command)
        self._check_range("batch_size", 1, 10_000)
        self._check_range("misfire_batch_size", 1, 10_000)
        self._check_range("max_job_data_bytes", 2, 1_048_576)
        self._check_range("max_captured_log_bytes", SMALLEST_LIMIT, 1_048_576)
        self._check_range("max_node_deaths", 1, 1_000_000)
        self._check_optional("history_max_rows", 1, 1_000_000_000)
        assign(self, "execution_groups", checked_groups(self.execution_groups))
        assign(self, "commands", tuple(map(checked_program, checked_texts(self.commands, "commands"))))
        names = checked_texts(self.command_environment, "command_environment")
        for name in names:
            if "=" in name or not name.isprintable():
                raise SettingsError(f"command_environment: {quoted(name)} is not the name of a variable")
        assign(self, "command_environment", names)
        assign(self, "command_variables", checked_variables(self.command_variables))
        assign(self, "http_hosts", tuple(map(checked_host, checked_texts(self.http_hosts, "http_hosts"))))
        assign(self, "http_secrets", checked_secrets(self.http_secrets))
        assign(self, "notify_channels", checked_channels(self.notify_channels))
        assign(self, "monitors", checked_monitors(self.monitors))
        if self.heartbeat_url is not None:
            check_place(self.heartbeat_url, "heartbeat_url")
        if self.heartbeat_interval < _LEAST_HEARTBEAT:
            raise SettingsError(
                f"heartbeat_interval must be at least {_LEAST_HEARTBEAT} (got {self.heartbeat_interval})"
            )
        self._check_optional("metrics_port", 0, 65_535)
        if not isinstance(self.metrics_host, str) or not self.metrics_host:
            raise SettingsError(f"metrics_host must be an address (got {quoted(self.metrics_host)})")

        least = 3 * self.checkin_interval + self.lock_timeout
        if self.failure_window < least:
            raise SettingsError(
                f"failure_window {self.failure_window} must be at least checkin_interval x 3 + lock_timeout = {least}"
            )

    def _check_capabilities(self) -> None:
        if not isinstance(self.labels, Sequence) or isinstance(self.labels, str):
            raise SettingsError(f"labels must be a tuple of strings (got {quoted(self.labels)})")
        for label in self.labels:
            check_setting_name(label, "labels: a label")
        object.__setattr__(self, "labels", tuple(self.labels))
        if not isinstance(self.executors, Mapping):
            raise SettingsError(f"executors must be a mapping of names to pools (got {quoted(self.executors)})")
        if DEFAULT_EXECUTOR in self.executors:
            raise SettingsError(
                f"executors: the pool {DEFAULT_EXECUTOR!r} exists already; set its size with the setting workers"
            )
        for name in self.executors:
            check_setting_name(name, "executors: a name")
        pools = {name: ExecutorConfig.of(value) for name, value in self.executors.items()}
        object.__setattr__(self, "executors", pools)

    def _check_optional(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if value is None:
            return
        if type(value) is not int:
            raise SettingsError(f"{name} must be an integer or None (got {quoted(value)})")
        self._check_range(name, low, high)

    def _check_range(self, name: str, least: int, most: int) -> None:
        value = getattr(self, name)
        if not least <= value <= most:
            raise SettingsError(f"{name}={quoted(value)} must be from {least} to {most}")

    @property
    def all_executors(self) -> Mapping[str, ExecutorConfig | Mapping[str, Any] | str]:
        """The additional worker pools, with that of notifications if there are channels."""
        return {NOTIFIERS: NOTIFIERS_POOL, **self.executors} if self.notify_channels else self.executors

    @property
    def channels(self) -> Mapping[str, Channel]:
        """The channels of `notify_channels`, in whichever form they were written."""
        return cast(Mapping[str, Channel], self.notify_channels)

    @property
    def lease(self) -> timedelta:
        """The time after sending a check-in for which this node may act: a quarter less than other nodes wait."""
        return self.failure_window * 0.75

    def checkin_deadline(self, failures: int) -> timedelta:
        """Return the time limit of a check-in, including the connection, after `failures` failed check-ins in a row.

        The limit is one interval, so that at least two attempts fit in the lease. If intervals are much shorter than
        the lease, later attempts may take a third of the lease: on a slow machine no check-in might ever succeed
        otherwise.
        """
        return max(self.checkin_interval, self.lease / 3) if failures else self.checkin_interval

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> SchedulerConfig:
        """Return the configuration with these settings.

        Raises:
            SettingsError: a value is invalid or a name unknown; the message suggests the nearest valid name.
        """
        names = {setting.name for setting in fields(cls)}
        for name in settings:
            if name not in names:
                hint = hint_of_setting(name, names) or did_you_mean(name, sorted(names), "settings")
                raise SettingsError(f"{name} is not a setting; {hint}")
        return cls(**settings)


def hint_of_setting(name: str, names: Collection[str]) -> str | None:
    """Return what an error says about the name of a setting of another library; None if it is none."""
    return answer(name, names.__contains__, SETTING_NAMES, ("Properties",), only_methods=False)
