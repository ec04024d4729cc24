"""The worker pools of a node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from quartzpy.errors import SettingsError
from quartzpy.texts import quoted

MAX_WORKERS = 5_000
LEAST_MEMORY = 128 * 2**20
_BYTES = re.compile(r"([0-9]{1,9})(KB|MB|GB)")
_BYTE_UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30}


def as_bytes(value: object, subject: str) -> int:
    """Return a size in bytes, given as a number of bytes or as a string such as "512MB" or "2GB".

    Raises:
        SettingsError: `value` is neither.
    """
    if type(value) is int and value > 0:
        return value
    if isinstance(value, str) and (match := _BYTES.fullmatch(value.strip())):
        return int(match[1]) * _BYTE_UNITS[match[2]]
    raise SettingsError(f"{subject} must be a number of bytes, or a string such as 512MB or 2GB (got {quoted(value)})")


class ExecutorKind(StrEnum):
    """The kind of the workers of a pool."""

    THREADS = "threads"
    ASYNCIO = "asyncio"
    """Slots on the node's event loop, for `async def` jobs only."""
    PROCESSES = "processes"
    """Child processes: for CPU-bound jobs, and for jobs that must be killed if they do not stop."""


@dataclass(frozen=True)
class ExecutorConfig:
    """The configuration of a worker pool: the kind and number of its workers."""

    kind: ExecutorKind | str
    workers: int
    memory_limit: int | str | None = None
    """The largest address space of each process in a pool of processes, in bytes or as a string such as "512MB". A
    job that needs more fails with a MemoryError that names the limit, and a new process replaces its own."""

    def __post_init__(self) -> None:
        """Validate the values.

        Raises:
            SettingsError: a value is invalid.
        """
        if self.kind not in list(ExecutorKind):
            raise SettingsError(f"executors: kind must be one of {', '.join(ExecutorKind)} (got {quoted(self.kind)})")
        object.__setattr__(self, "kind", ExecutorKind(self.kind))
        if type(self.workers) is not int or not 1 <= self.workers <= MAX_WORKERS:
            raise SettingsError(f"executors: workers must be from 1 to {MAX_WORKERS} (got {quoted(self.workers)})")
        if self.memory_limit is not None:
            limit = as_bytes(self.memory_limit, "executors: memory_limit")
            object.__setattr__(self, "memory_limit", limit)
            if self.kind is not ExecutorKind.PROCESSES:
                raise SettingsError(
                    f"executors: memory_limit applies to processes only; {self.kind} share the memory of this process"
                )
            if limit < LEAST_MEMORY:
                raise SettingsError(
                    f"executors: memory_limit must be at least {LEAST_MEMORY // 2**20}MB, which Python itself needs"
                    f" (got {limit})"
                )

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the pool that a setting describes: an ExecutorConfig, or a string such as "processes:4:512MB".

        Raises:
            SettingsError: `value` is neither.
        """
        if isinstance(value, cls):
            return value
        kind, colon, rest = str(value).partition(":")
        workers, has_limit, limit = rest.partition(":")
        if not (isinstance(value, str) and colon and workers.strip().isdecimal() and len(workers) < 10):
            raise SettingsError(
                f"executors: a pool is written like threads:20, asyncio:500 or processes:4 (got {quoted(value)})"
            )
        return cls(kind.strip(), int(workers), as_bytes(limit, "executors: memory_limit") if has_limit else None)


NOTIFIERS_POOL = ExecutorConfig(ExecutorKind.THREADS, 2)
