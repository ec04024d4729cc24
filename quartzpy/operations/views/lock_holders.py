"""Transactions that hold rows or tables of the store for long, by the names of their programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from quartzpy.store.postgresql.admin.records import LockRecord
from quartzpy.texts import instant_text

MAX_LOCKS = 100
_HARMLESS = frozenset({"AccessShareLock", "ShareUpdateExclusiveLock"})
"""The modes of readers and of maintenance, which keep no node from a trigger."""

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A transaction that can keep nodes from triggers."""

    pid: int
    application: str
    state: str
    since: datetime | None
    tables: tuple[str, ...]

    def __str__(self) -> str:
        name = f"{self.application!r} (process {self.pid})" if self.application else f"process {self.pid}"
        since = f" since {instant_text(self.since)}" if self.since else ""
        state = f", {self.state}," if self.state.startswith("idle") else ""
        return (
            f"A transaction of {name}{state} has held locks on {', '.join(self.tables)}{since}: nodes pass over the"
            " triggers whose rows it holds. End that transaction."
        )


def lock_holders(locks: Iterable[LockRecord]) -> tuple[LockHolder, ...]:
    """Return the transactions that hold such locks, the longest first."""
    by_process: defaultdict[int, list[LockRecord]] = defaultdict(list)
    for lock in locks:
        if lock.granted and lock.mode not in _HARMLESS:
            by_process[lock.pid].append(lock)
    holders = [
        LockHolder(pid, held[0].application, held[0].state, held[0].since, tuple(sorted({lock.table for lock in held})))
        for pid, held in by_process.items()
    ]
    return tuple(sorted(holders, key=lambda holder: (holder.since or _NEVER, holder.pid)))
