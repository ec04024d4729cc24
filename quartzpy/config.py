"""The settings of a scheduler: one frozen value, checked whole."""

from __future__ import annotations

import difflib
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any, Self

from quartzpy.errors import InvalidKeyError, SettingsError
from quartzpy.instants import Converted, Span, as_span
from quartzpy.keys import check_name, unique_name
from quartzpy.placement import DEFAULT_EXECUTOR
from quartzpy.texts import quoted

AUTO = "AUTO"
DEFAULT_TABLE_PREFIX = "qrtz_"
# The longest name that follows it has 38 characters, and PostgreSQL keeps 63.
_TABLE_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,19}")
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_BYTES = re.compile(r"([0-9]{1,9})(KB|MB|GB)")
_BYTE_UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30}
LEAST_MEMORY = 128 * 2**20
# The server counts milliseconds in 32 bits.
_LONGEST_TIMEOUT = timedelta(days=24)
_A_YEAR = timedelta(days=366)


def as_bytes(value: object, subject: str) -> int:
    """A number of bytes, or a text such as "512MB" or "2GB".

    Raises:
        SettingsError: anything else.
    """
    if type(value) is int and value > 0:
        return value
    if isinstance(value, str) and (found := _BYTES.fullmatch(value.strip())):
        return int(found[1]) * _BYTE_UNITS[found[2]]
    raise SettingsError(f"{subject}: a number of bytes, or 512MB, 2GB (got {quoted(value)})")


def automatic_instance_id() -> str:
    """An instance id that no other node has: host, process and a random part."""
    host = socket.gethostname().split(".")[0][:100] or "host"
    return f"{host}-{os.getpid()}-{unique_name()[:6]}"


def checked_schema(schema: object) -> str | None:
    """A name for the schema of our tables, or None. It is used as it is written, so `order` and `Mixed` are names.

    Raises:
        SettingsError: no such name, or one that PostgreSQL keeps for itself.
    """
    if schema is None:
        return None
    if not (isinstance(schema, str) and _SCHEMA.fullmatch(schema)):
        raise SettingsError(
            f"schema: letters a-z, digits and _, upper case too, no digit first, at most 63 (got {quoted(schema)})"
        )
    if schema.startswith("pg_") or schema == "information_schema":
        raise SettingsError(f"schema: {schema!r} is a name that PostgreSQL keeps for itself")
    return schema


LOG_LEVELS = ("DEBUG", "INFO", "WARNING")


def checked_table_prefix(prefix: object) -> str:
    """A prefix for the names of our tables.

    Raises:
        SettingsError: names with it would not be valid without quotes, or would be too long.
    """
    if not (isinstance(prefix, str) and _TABLE_PREFIX.fullmatch(prefix)) or prefix.startswith("pg_"):
        raise SettingsError(
            "table_prefix: from 1 to 20 lower-case letters, digits and _, no digit first, not pg_..."
            f" (got {quoted(prefix)})"
        )
    return prefix


MOST_WORKERS = 5_000
MOST_OF_A_GROUP = 1_000_000


def checked_groups(limits: object) -> dict[str, int]:
    """The limits of execution groups, each a number from 0. Raises SettingsError."""
    if not isinstance(limits, Mapping):
        raise SettingsError(f"execution_groups: a mapping of groups to limits (got {quoted(limits)})")
    for group, limit in limits.items():
        _check_name(group, "execution_groups: a group")
        if type(limit) is not int or limit < 0:
            raise SettingsError(f"execution_groups: {group!r} needs a limit of 0 or more (got {quoted(limit)})")
        if limit > MOST_OF_A_GROUP:
            raise SettingsError(f"execution_groups: {group!r}: at most {MOST_OF_A_GROUP} (got {quoted(limit)})")
    return dict(limits)


def _check_name(name: object, subject: str) -> None:
    try:
        check_name(name, subject)
    except InvalidKeyError as error:
        raise SettingsError(str(error)) from None


class Role(StrEnum):
    """The part that a started node has in its cluster."""

    BOTH = "both"
    """It runs jobs and keeps house: handles misfires, deletes old history and repairs rows."""
    SCHEDULER = "scheduler"
    """It keeps house, finds dead nodes and recovers their work, and never runs a job."""
    WORKER = "worker"
    """It runs jobs, and keeps house only while no node of another role is alive."""


class ExecutorKind(StrEnum):
    """The kinds of workers that a pool can have."""

    THREADS = "threads"
    ASYNCIO = "asyncio"
    """Slots on the node's event loop, for `async def` jobs only."""
    PROCESSES = "processes"
    """Processes of their own: for jobs that compute, and for those that must be cut off when they do not stop."""


@dataclass(frozen=True)
class ExecutorConfig:
    """A worker pool: what its workers are, and how many."""

    kind: ExecutorKind | str
    workers: int
    memory_limit: int | str | None = None
    """The address space that each process of a pool of processes may have, in bytes, or as a text such as "512MB". A
    job that needs more fails with a MemoryError that says so, and another process takes the place of its own."""

    def __post_init__(self) -> None:
        """Check the values. Raises SettingsError."""
        if self.kind not in list(ExecutorKind):
            raise SettingsError(f"executors: a kind is one of {', '.join(ExecutorKind)} (got {quoted(self.kind)})")
        object.__setattr__(self, "kind", ExecutorKind(self.kind))
        if type(self.workers) is not int or not 1 <= self.workers <= MOST_WORKERS:
            raise SettingsError(f"executors: workers must be from 1 to {MOST_WORKERS} (got {quoted(self.workers)})")
        if self.memory_limit is not None:
            limit = as_bytes(self.memory_limit, "executors: memory_limit")
            object.__setattr__(self, "memory_limit", limit)
            if self.kind is not ExecutorKind.PROCESSES:
                raise SettingsError(f"executors: memory_limit is for processes; {self.kind} share this one's memory")
            if limit < LEAST_MEMORY:
                raise SettingsError(
                    f"executors: memory_limit must be at least {LEAST_MEMORY // 2**20}MB, which Python itself needs"
                    f" (got {limit})"
                )

    @classmethod
    def of(cls, value: object) -> Self:
        """The pool that a setting says: itself, or a text: "processes:4", "processes:4:512MB". Raises SettingsError."""
        if isinstance(value, cls):
            return value
        kind, colon, rest = str(value).partition(":")
        workers, has_limit, limit = rest.partition(":")
        if not (isinstance(value, str) and colon and workers.strip().isdecimal() and len(workers) < 10):
            raise SettingsError(f"executors: threads:20, asyncio:500 or processes:4 (got {quoted(value)})")
        return cls(kind.strip(), int(workers), as_bytes(limit, "executors: memory_limit") if has_limit else None)


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """All settings with their defaults. A length of time is a timedelta, a number of seconds or a text such as "1h30m".

    Instants of the cluster are judged by the database's clock; waits by the node's own.
    """

    name: str = "quartzpy"
    """The logical scheduler: all nodes of this name on one database are one cluster."""

    instance_id: str = AUTO
    """This node's name in the cluster; AUTO makes a unique one at each start."""

    role: str = Role.BOTH
    """The part of this node in the cluster: "both", "scheduler" (runs no jobs) or "worker" (leaves misfires and the
    deletion of old history to other nodes while there are any). See "Roles" in docs/operating-a-node.md."""

    workers: int = 10
    """The most executions that this node runs at once in its default executor, on threads and on the event loop."""

    executors: Mapping[str, ExecutorConfig | str] = field(default_factory=dict, hash=False)
    """More worker pools, by the name that jobs give as `executor`: `{"cpu": "processes:4", "io": "asyncio:500"}`.
    `"processes:4:512MB"` also limits the memory of each process."""

    execution_groups: Mapping[str, int] = field(default_factory=dict, hash=False)
    """At most so many executions of a job's `execution_group` at once on this node: `{"reports": 2, "*": 10}`. "*" is
    the limit of each group that is not named, "_" that of jobs without a group; 0 leaves them to other nodes."""

    labels: tuple[str, ...] = ()
    """The labels of this node. A job whose `requires` names a label runs only on nodes that have it."""

    batch_size: int = 200
    """At most so many triggers are claimed by one transaction (never more than there are free workers)."""

    look_ahead: Converted[Span, timedelta] = Converted(timedelta(milliseconds=250))
    """Triggers due within this span are claimed before their instant."""

    idle_wait: Converted[Span, timedelta] = Converted(timedelta(seconds=15))
    """At the latest after this span a node looks for work, whatever it was told (the net under NOTIFY)."""

    misfire_threshold: Converted[Span, timedelta] = Converted(timedelta(seconds=60))
    """A trigger later than this has misfired (Quartz's default)."""

    misfire_batch_size: int = 500
    """Misfired triggers handled by one transaction."""

    checkin_interval: Converted[Span, timedelta] = Converted(timedelta(seconds=5))
    """The time between two check-ins, by which a node renews its lease."""

    failure_window: Converted[Span, timedelta] = Converted(timedelta(seconds=20))
    """Silence after which the others may declare this node dead, whatever their own settings. Its lease is three
    quarters of it."""

    max_node_deaths: int = 3
    """A job that so many nodes died of in a row is not run again: its triggers become ERROR. A success resets it."""

    lock_timeout: Converted[Span, timedelta] = Converted(timedelta(seconds=5))
    """The longest wait for a lock of the database."""

    statement_timeout: Converted[Span, timedelta] = Converted(timedelta(seconds=30))
    """The longest time a statement of ours may run."""

    start_timeout: Converted[Span, timedelta] = Converted(timedelta(seconds=30))
    """The longest time for which `start` tries to reach the database."""

    connect_timeout: Converted[Span, timedelta] = Converted(timedelta(seconds=5))
    """The longest time that one attempt to connect may take."""

    history_retention: Converted[Span | None, timedelta | None] = Converted(timedelta(days=7))
    """Ended executions, misfires and ended triggers are kept for so long. None keeps executions and misfires for ever,
    and ended triggers for seven days."""

    max_job_data_bytes: int = 65_536
    """The largest job data that is accepted, as stored."""

    job_modules: tuple[str, ...] = ()
    """Packages whose job types may be imported because a stored job names them."""

    schema: str | None = None
    """The database schema of our tables; None is the connection's own default."""

    log_executions: str | None = None
    """The level at which each execution is logged by the logger "quartzpy.executions": "DEBUG", "INFO" or "WARNING".
    Failures and misfires are warnings. None logs failures only."""

    debug: bool = False
    """True if this process looks for mistakes of its jobs: executions are logged at INFO unless `log_executions` says
    otherwise, and the event loop runs in asyncio's debug mode, which reports slow steps and coroutines that nobody
    awaited. It costs time."""
    table_prefix: str = DEFAULT_TABLE_PREFIX
    """The beginning of the names of our tables, sequences, indexes and constraints. Schedulers with different prefixes
    share a schema and never meet."""

    pool_size: int = 5
    """Connections for steps and calls, besides the three that a node keeps for check-in, misfires and LISTEN."""

    pooled: bool = False
    """True if the URL leads to a pooler that lends a connection for a transaction (PgBouncer, `pool_mode=transaction`):
    nothing is kept in sessions then, and LISTEN hears nothing."""

    listen_url: str | None = field(default=None, repr=False)
    """A way around the pooler, for the one connection of a node that listens. Without it a node hears of what others
    scheduled after `idle_wait`, and of what they cancelled after `checkin_interval`."""

    def __post_init__(self) -> None:
        """Check every value and how they fit together.

        Raises:
            SettingsError: names the setting, the value and the rule.
        """
        given = object.__setattr__
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(setting.default, timedelta) and not (value is None and setting.name == "history_retention"):
                span = as_span(value, setting.name, SettingsError, above_zero=True, longest=10 * _A_YEAR)
                given(self, setting.name, span)
            elif type(setting.default) is int and type(value) is not int:
                raise SettingsError(f"{setting.name}: a whole number is needed (got {quoted(value)})")
            elif type(setting.default) is bool and type(value) is not bool:
                raise SettingsError(f"{setting.name}: True or False is needed (got {quoted(value)})")
        for name in ("lock_timeout", "statement_timeout"):
            if getattr(self, name) > _LONGEST_TIMEOUT:
                raise SettingsError(
                    f"{name}={getattr(self, name)} must be at most {_LONGEST_TIMEOUT}: the server's limit"
                )
        _check_name(self.name, "name")
        _check_name(self.instance_id, "instance_id")
        if self.role not in list(Role):
            raise SettingsError(f"role: one of {', '.join(Role)} (got {quoted(self.role)})")
        given(self, "role", Role(self.role))
        if self.log_executions is not None:
            if self.log_executions not in LOG_LEVELS:
                raise SettingsError(
                    f"log_executions: {', '.join(LOG_LEVELS)}, or None (got {quoted(self.log_executions)})"
                )
        elif self.debug:
            given(self, "log_executions", "INFO")
        self._check_range("workers", 0, MOST_WORKERS)
        self._check_range("batch_size", 1, 10_000)
        self._check_range("misfire_batch_size", 1, 10_000)
        self._check_range("max_job_data_bytes", 2, 1_048_576)
        self._check_range("pool_size", 3, 1_000)
        self._check_range("max_node_deaths", 1, 1_000_000)
        checked_schema(self.schema)
        checked_table_prefix(self.table_prefix)
        if (
            not isinstance(self.job_modules, Sequence)
            or isinstance(self.job_modules, str)
            or not all(isinstance(module, str) and module for module in self.job_modules)
        ):
            raise SettingsError(f"job_modules: a tuple of module names (got {quoted(self.job_modules)})")
        given(self, "job_modules", tuple(self.job_modules))
        self._check_places()
        least = 3 * self.checkin_interval + self.lock_timeout
        if self.failure_window < least:
            raise SettingsError(
                f"failure_window {self.failure_window} must be at least checkin_interval x 3 + lock_timeout = {least}"
            )

    def _check_places(self) -> None:
        if not isinstance(self.labels, Sequence) or isinstance(self.labels, str):
            raise SettingsError(f"labels: a tuple of texts (got {quoted(self.labels)})")
        for label in self.labels:
            _check_name(label, "labels: a label")
        object.__setattr__(self, "labels", tuple(self.labels))
        if not isinstance(self.executors, Mapping):
            raise SettingsError(f"executors: a mapping of names to pools (got {quoted(self.executors)})")
        if DEFAULT_EXECUTOR in self.executors:
            raise SettingsError(f"executors: {DEFAULT_EXECUTOR!r} is the pool that the setting workers sizes")
        for name in self.executors:
            _check_name(name, "executors: a name")
        pools = {name: ExecutorConfig.of(value) for name, value in self.executors.items()}
        object.__setattr__(self, "executors", pools)
        object.__setattr__(self, "execution_groups", checked_groups(self.execution_groups))

    def _check_range(self, name: str, least: int, most: int) -> None:
        value = getattr(self, name)
        if not least <= value <= most:
            raise SettingsError(f"{name}={quoted(value)} must be from {least} to {most}")

    @property
    def lease(self) -> timedelta:
        """The time for which this node may act after a check-in was sent: a quarter less than other nodes wait."""
        return self.failure_window * 0.75

    def checkin_deadline(self, failures: int) -> timedelta:
        """Return how long a check-in may take, connecting included, after so many that failed in a row.

        An interval, so that two tries and more fit in the lease. Where intervals are much shorter than the lease, the
        second try may take a third of the lease: on a slow machine none might ever come through else.
        """
        return max(self.checkin_interval, self.lease / 3) if failures else self.checkin_interval

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> SchedulerConfig:
        """The configuration that these settings say.

        Raises:
            SettingsError: a wrong value, or an unknown name (the nearest right one is offered).
        """
        known = {setting.name for setting in fields(cls)}
        for name in settings:
            if name not in known:
                near = difflib.get_close_matches(name, sorted(known), n=1)
                hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(known))}"
                raise SettingsError(f"{name} is not a setting{hint}")
        return cls(**settings)
