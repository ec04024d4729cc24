"""The worker pools of a node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Self

from quartzpy.config.engine_names import engine_names, engine_reference
from quartzpy.errors import SettingsError
from quartzpy.texts import did_you_mean, quoted

MAX_WORKERS = 5_000
LEAST_MEMORY = 128 * 2**20
_BYTES = re.compile(r"([0-9]{1,18})(KB|MB|GB|)")
_BYTE_UNITS = {"GB": 2**30, "MB": 2**20, "KB": 2**10, "": 1}


def as_bytes(value: object, subject: str) -> int:
    """Return a size in bytes, given as a number of bytes or as a string such as "512MB" or "2GB".

    Raises:
        SettingsError: `value` is neither.
    """
    if type(value) is int and value > 0:
        return value
    if isinstance(value, str) and (match := _BYTES.fullmatch(value.strip())) and int(match[1]):
        return int(match[1]) * _BYTE_UNITS[match[2]]
    raise SettingsError(f"{subject} must be a number of bytes, or a string such as 512MB or 2GB (got {quoted(value)})")


class ExecutorKind(StrEnum):
    """The kinds of pools that run jobs in the process of the node or in its children. Any other kind is an engine."""

    THREADS = "threads"
    ASYNCIO = "asyncio"
    """Slots on the node's event loop, for `async def` jobs only."""
    PROCESSES = "processes"
    """Child processes: for CPU-bound jobs, and for jobs that must be killed if they do not stop."""


_IN_THE_NODE = (ExecutorKind.THREADS, ExecutorKind.ASYNCIO)


@dataclass(frozen=True)
class ExecutorConfig:
    """The configuration of an executor: the kind and number of its workers, and the address of its engine."""

    kind: str
    """An `ExecutorKind`, or the name of an engine such as "dask"."""
    workers: int | None = None
    """The largest number of jobs that run at the same time. None, for an engine only: what the engine offers."""
    memory_limit: int | str | None = None
    """The largest address space of each process in a pool of processes, in bytes or as a string such as "512MB". A
    job that needs more fails with a MemoryError that names the limit, and a new process replaces its own."""
    address: str = ""
    """Where the engine is, in its own words: "tcp://scheduler:8786" for Dask, "module:function" for futures."""
    tickets: bool | None = None
    """Whether each call takes a ticket in the database before it runs the job. None: if the engine repeats calls."""

    def __post_init__(self) -> None:
        """Validate the values.

        Raises:
            SettingsError: a value is invalid.
        """
        if self.is_engine and not (isinstance(self.kind, str) and engine_reference(self.kind)):
            raise SettingsError(
                f"executors: {quoted(self.kind)} is neither a kind of executor nor an engine that an installed package"
                f" offers; {did_you_mean(str(self.kind), [*_IN_THE_NODE, *engine_names()], 'kinds')}"
            )
        object.__setattr__(self, "kind", str(self.kind))
        may_be_open = self.is_engine and self.kind != ExecutorKind.PROCESSES
        if not (self.workers is None and may_be_open) and not _is_number_of_workers(self.workers):
            raise SettingsError(f"executors: workers must be from 1 to {MAX_WORKERS} (got {quoted(self.workers)})")
        if self.memory_limit is not None:
            limit = as_bytes(self.memory_limit, "executors: memory_limit")
            object.__setattr__(self, "memory_limit", limit)
            if self.kind != ExecutorKind.PROCESSES:
                raise SettingsError(
                    f"executors: memory_limit applies to processes only (got {quoted(self.memory_limit)} for"
                    f" {self.kind})"
                )
            if limit < LEAST_MEMORY:
                raise SettingsError(
                    f"executors: memory_limit must be at least {LEAST_MEMORY // 2**20}MB, which Python itself needs"
                    f" (got {limit})"
                )
        if self.address and self.kind in list(ExecutorKind):
            raise SettingsError(f"executors: {self.kind} have no address (got {quoted(self.address)})")
        if not isinstance(self.address, str) or _leading_number(self.address) is not None:
            raise SettingsError(
                f"executors: address must be a text that does not begin with a number (got {quoted(self.address)})"
            )
        object.__setattr__(self, "address", self.address.strip())
        if self.tickets not in (None, False, True):
            raise SettingsError(f"executors: tickets must be True, False or None (got {quoted(self.tickets)})")
        if self.tickets and not may_be_open:
            raise SettingsError(f"executors: {self.kind} take no tickets, which are for other engines")

    @property
    def is_engine(self) -> bool:
        """True if the jobs run outside of the process of the node."""
        return self.kind not in _IN_THE_NODE

    def __str__(self) -> str:
        """Return the text by which a setting describes this pool."""
        limit = None if self.memory_limit is None else as_bytes(self.memory_limit, self.kind)
        unit = next((name for name, size in _BYTE_UNITS.items() if limit and limit % size == 0), "")
        memory = limit and f"{limit // _BYTE_UNITS[unit]}{unit}"
        return ":".join(str(part) for part in (self.kind, self.workers, memory, self.address) if part)

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the pool that a setting describes: an ExecutorConfig, a mapping of its fields, or a string.

        A string is "kind:workers", "processes:workers:memory_limit", "engine", "engine:address" or
        "engine:workers:address".

        Raises:
            SettingsError: `value` is none of these.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping) and "kind" in value:
            names = [each.name for each in fields(cls)]
            for name in value:
                if name not in names:
                    raise SettingsError(
                        f"executors: a pool has no {quoted(name)}; {did_you_mean(str(name), names, 'keys')}"
                    )
            return cls(**value)
        kind, colon, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
        kind = kind.strip()
        workers = _leading_number(rest)
        is_open = kind not in list(ExecutorKind)
        if not kind or (workers is None and not (is_open and (rest.strip() if colon else engine_reference(kind)))):
            raise SettingsError(
                "executors: a pool is written like threads:20, asyncio:500, processes:4 or dask:tcp://scheduler:8786"
                f" (got {quoted(value)})"
            )
        behind = rest if workers is None else rest.partition(":")[2]
        if is_open:
            return cls(kind, workers, address=behind)
        return cls(kind, workers, as_bytes(behind, "executors: memory_limit") if rest.count(":") else None)


def _leading_number(text: str) -> int | None:
    """Return the number before the first colon; None if something else is there."""
    first = text.partition(":")[0].strip()
    return int(first) if first.isdecimal() and len(first) < 10 else None


def _is_number_of_workers(value: object) -> bool:
    return type(value) is int and 1 <= value <= MAX_WORKERS


NOTIFIERS_POOL = ExecutorConfig(ExecutorKind.THREADS, 2)
