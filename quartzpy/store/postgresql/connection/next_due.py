"""An expectation of what the next acquire step will find, from the answer of the last one.

It decides only which statements are sent. Each of them is right whatever it finds, so a wrong expectation, as after a
trigger was stored by another process, costs a round trip or some time of the server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

ANY_TIME = "-infinity"
"""Where a read of fire times begins that is a full one."""
MOST_BLIND_PASSES = 4
"""The number of steps in a row that take triggers of a backlog without reading what is left or was stored before."""
EXPENSIVE_READ = 0.001
"""The time, in seconds, from which on a full read of the next fire times is expensive, and is done rarely."""
FULL_READ_SHARE = 0.05
"""The share of the time that full reads may take once they are expensive."""
MOST_SECONDS_BETWEEN_FULL_READS = 10.0
"""The longest time, in seconds, between two full reads."""
MARGIN = timedelta(milliseconds=5)
"""The inaccuracy of the server's time as it is estimated here."""


@dataclass(frozen=True, slots=True)
class _Expectation:
    slots: Hashable
    """Identifies the triggers that the step looked for."""
    offset: timedelta
    """The server's time minus the monotonic clock."""
    soonest: datetime | None
    soonest_limited: datetime | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a step left that took as many triggers as it could."""

    taken_up_to: datetime
    """The fire time of the last trigger that it took."""
    has_limits: bool
    """True if triggers of jobs with a limit are part of it."""
    passes: int
    """The number of passes since the last one that read what is left."""


@dataclass(frozen=True, slots=True)
class _Floor:
    at: datetime
    """No trigger waited before this fire time."""
    until: float
    """The monotonic time of the next full read."""


class NextDueRead(NamedTuple):
    """A read of the next fire times, which finds the soonest trigger of each slot pool."""

    changes: int
    """The number of changes that were known when it began."""
    sinces: tuple[datetime | None, ...]
    """For each slot pool the fire time at which a partial read begins; None if it is a full one."""
    valid_for: float | None
    """The seconds after which a read has to be a full one again; None if this is one."""


_EPOCH, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def _earliest(instants: Iterable[datetime | None]) -> datetime | None:
    return min((at for at in instants if at is not None), default=None)


class NextDueCache:
    """The soonest fire times that a session knows of; it may know nothing. Threads may share it.

    Below the floor of a slot pool, no trigger waits that the node can take. A step that begins there walks over neither
    dead entries of the index nor triggers that the node has refused.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expectation: _Expectation | None = None
        self._backlog: tuple[Hashable, Backlog] | None = None
        """What a step left, and what it looked for."""
        self._floors: dict[str, _Floor] = {}
        self._floors_of: Hashable = None
        """Identifies the triggers that the floors leave out of account, apart from the pools."""
        self._expensive: set[str] = set()
        """The pools whose last full read was expensive."""
        self._may_be_expensive = False
        """True if each slot pool may be, until the next full read."""
        self._changes = 0
        self.slot_pools: frozenset[str] = frozenset({""})
        """The slot pools for which triggers have waited."""
        self._fronts: dict[str, datetime] = {}
        """The soonest trigger of each slot pool at its last read."""

    def meet(self, slot_pools: Collection[str]) -> None:
        """Note slot pools for which triggers wait."""
        with self._lock:
            self.slot_pools = self.slot_pools.union(slot_pools)

    def forget(self) -> None:
        """Expect anything, after a change to triggers that was not read."""
        self._expectation = None
        self._backlog = None
        self.require_full_read()

    def forget_from(self, at: datetime | None) -> None:
        """Expect anything from a fire time on: the soonest of triggers that were stored, if there were any."""
        if at is None:
            return
        self._expectation = None
        self._backlog = None
        self.note_waiting(at)

    def note_announced(self, at: datetime | None = None) -> None:
        """Note that another process has stored triggers, and the soonest fire time, if it was told."""
        if at is None:
            self.require_full_read()
        else:
            self.note_waiting(at)

    def require_full_read(self) -> None:
        """Let the next read begin with the earliest fire time: triggers may wait at any time."""
        with self._lock:
            self._changes += 1
            self._floors = {}

    def note_waiting(self, at: datetime | None) -> None:
        """Let the next read begin no later than at this fire time, at which a trigger may have begun to wait."""
        if at is None:
            return
        with self._lock:
            # A read that began before this is not noted.
            self._changes += 1
            self._floors = {
                pool: floor if floor.at <= at else replace(floor, at=at) for pool, floor in self._floors.items()
            }

    def note(self, slots: Hashable, now: datetime, soonest: datetime | None, soonest_limited: datetime | None) -> None:
        """Note the soonest waiting triggers for these slots: of all jobs, and of jobs with a limit."""
        offset = now - _EPOCH - timedelta(seconds=time.monotonic())
        self._expectation = _Expectation(slots, offset, soonest, soonest_limited)
        self._backlog = None

    def next_read(self, pools: Sequence[str], others: Hashable) -> NextDueRead:
        """Return where the next read of these pools may begin."""
        with self._lock:
            if self._floors_of != others:
                return NextDueRead(self._changes, (None,) * len(pools), None)
            now = time.monotonic()
            floors = [self._floors.get(pool) for pool in pools]
            valid = [floor if floor is not None and floor.until > now else None for floor in floors]
            return NextDueRead(
                self._changes,
                tuple(None if floor is None else floor.at for floor in valid),
                min((floor.until - now for floor in valid if floor is not None), default=None),
            )

    def not_soonest(self, pools: Collection[str], most: int) -> Collection[str]:
        """Return the slot pools that were read, except the `most` that had the soonest triggers."""
        fronts = self._fronts
        return sorted(fronts.keys() & pools, key=lambda pool: (fronts[pool], pool))[most:]

    def is_costly(self, pools: Sequence[str], read: NextDueRead) -> bool:
        """Return True if a step that begins where this read does is to be preceded by one without the lock."""
        return any(
            since is None and (self._may_be_expensive or pool in self._expensive)
            for pool, since in zip(pools, read.sinces, strict=True)
        )

    def note_refused(self) -> None:
        """Note that the node passes over triggers from now on, which may be many."""
        self._may_be_expensive = True

    def note_read(
        self,
        read: NextDueRead,
        pools: Sequence[str],
        others: Hashable,
        now: datetime,
        soonest: Sequence[datetime | None],
        took: float,
    ) -> None:
        """Note the soonest trigger that a read, which took the server `took` seconds, found of each slot pool.

        If it was expensive, the reads of the next moments begin there, but not after the present: they pass over the
        dead entries of the index, which are as many as were fired since vacuum last removed them, or since the oldest
        transaction of the server began, and over the triggers that the node does not run.
        """
        with self._lock:
            self._fronts = {**self._fronts, **{pool: at or _LATEST for pool, at in zip(pools, soonest, strict=True)}}
            if read.changes != self._changes:
                # Triggers were stored since, perhaps before this instant.
                return
            if self._floors_of != others:
                self._floors, self._floors_of = {}, others
            until = time.monotonic() + min(took / FULL_READ_SHARE, MOST_SECONDS_BETWEEN_FULL_READS)
            floors = dict(self._floors)
            for pool, since, at in zip(pools, read.sinces, soonest, strict=True):
                to = now if at is None else min(now, at)
                if since is not None:
                    if pool in floors:
                        floors[pool] = replace(floors[pool], at=to)
                elif took >= EXPENSIVE_READ:
                    floors[pool] = _Floor(to, until)
                    self._expensive.add(pool)
                else:
                    floors.pop(pool, None)
                    self._expensive.discard(pool)
            self._floors = floors
            if None in read.sinces:
                self._may_be_expensive = False

    def note_backlog(self, slots: Hashable, taken_up_to: datetime, *, has_limits: bool) -> None:
        """Note that a step took as many triggers as it could, and the fire time of the last one."""
        before = self._of(slots)
        backlog = Backlog(taken_up_to, has_limits, 1 if before is None else before.passes + 1)
        self._backlog = slots, backlog

    def backlog(self, slots: Hashable) -> Backlog | None:
        """Return what more triggers are expected to be due of; None if that has to be looked up."""
        backlog = self._of(slots)
        return None if backlog is None or backlog.passes > MOST_BLIND_PASSES else backlog

    def _of(self, slots: Hashable) -> Backlog | None:
        noted = self._backlog
        return noted[1] if noted is not None and noted[0] == slots else None

    def is_due(self, slots: Hashable, look_ahead: timedelta) -> bool:
        """Return False if no trigger is expected to be due within `look_ahead`."""
        expectation = self._expectation
        return (
            expectation is None or expectation.slots != slots or _is_near(expectation, expectation.soonest, look_ahead)
        )

    def limited_is_due(self, slots: Hashable, look_ahead: timedelta) -> bool:
        """Return False if no trigger of a job with a limit is expected to be due within `look_ahead`."""
        expectation = self._expectation
        return (
            expectation is None
            or expectation.slots != slots
            or _is_near(expectation, expectation.soonest_limited, look_ahead)
        )


def _is_near(expectation: _Expectation, at: datetime | None, look_ahead: timedelta) -> bool:
    if at is None:
        return False
    now = expectation.offset + timedelta(seconds=time.monotonic())
    return at - _EPOCH <= now + look_ahead + MARGIN
