"""An expectation of what the next acquire step will find, from the answer of the last one.

It decides only which statements are sent. Each of them is right whatever it finds, so a wrong expectation, as after a
trigger was stored by another process, costs a round trip or some time of the server.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from quartzpy.store.protocol import FiredTrigger

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
class _Backlog:
    slots: Hashable
    taken_up_to: datetime
    passes: int
    """The number of passes since the last one that read what is left."""


@dataclass(frozen=True, slots=True)
class _Floor:
    slots: Hashable
    at: datetime
    """No trigger waited before this fire time."""
    until: float
    """The monotonic time of the next full read."""
    changes: int
    """The number of changes that were known when the read began. It holds until the next one: another thread may note
    a change at any moment."""


class NextDueRead(NamedTuple):
    """A read of the next fire times, which finds the soonest triggers."""

    changes: int
    """The number of changes that were known when it began."""
    since: datetime | None
    """The fire time at which a partial read begins; None if it is a full one."""
    valid_for: float
    """The seconds after which a read has to be a full one again."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _earliest(instants: Iterable[datetime | None]) -> datetime | None:
    return min((at for at in instants if at is not None), default=None)


class NextDueCache:
    """The soonest fire times that a session knows of; it may know nothing. Threads may share it."""

    def __init__(self) -> None:
        self._expectation: _Expectation | None = None
        self._backlog: _Backlog | None = None
        self._floor: _Floor | None = None
        self._changes = 0
        self._is_announced = False

    def forget(self) -> None:
        """Expect anything, after a change to triggers that was not read."""
        self._expectation = None
        self._backlog = None
        self.require_full_read()

    def note_announcement(self) -> None:
        """Note that another process has announced a trigger that is due."""
        self._is_announced = True
        self.require_full_read()

    def take_announcement(self) -> bool:
        """Return whether a trigger that is due was announced since the last call."""
        is_announced, self._is_announced = self._is_announced, False
        return is_announced

    def require_full_read(self) -> None:
        """Let the next read begin with the earliest fire time: another process has stored a trigger."""
        self._changes += 1
        self._floor = None

    def note(self, slots: Hashable, now: datetime, soonest: datetime | None, soonest_limited: datetime | None) -> None:
        """Note the soonest waiting triggers for these slots: of all jobs, and of jobs with a limit."""
        offset = now - _EPOCH - timedelta(seconds=time.monotonic())
        self._expectation = _Expectation(slots, offset, soonest, soonest_limited)
        self._backlog = None

    def next_read(self, slots: Hashable, *, full: bool) -> NextDueRead:
        """Return where the next read for these slots may begin, unless it has to be a full one."""
        floor, changes = None if full else self._floor, self._changes
        if (
            floor is None
            or floor.slots != slots
            or floor.changes != changes
            or (remaining := floor.until - time.monotonic()) <= 0
        ):
            return NextDueRead(changes, None, 0.0)
        return NextDueRead(changes, floor.at, remaining)

    def note_read(self, read: NextDueRead, slots: Hashable, at: datetime, took: float) -> None:
        """Note that a read, which took the server `took` seconds, found no trigger for these slots before `at`.

        If it was expensive, the reads of the next moments begin there: they pass over the dead entries of the index,
        which are as many as were fired since vacuum last removed them, or since the oldest transaction of the server
        began.
        """
        if read.changes != self._changes:
            # Another process has stored a trigger since, perhaps before this instant.
            return
        if read.since is not None:
            floor = self._floor
            if floor is not None:
                self._floor = replace(floor, at=at)
        elif took >= EXPENSIVE_READ:
            until = time.monotonic() + min(took / FULL_READ_SHARE, MOST_SECONDS_BETWEEN_FULL_READS)
            self._floor = _Floor(slots, at, until, read.changes)
        else:
            self._floor = None

    def note_moved(self, fired: Collection[FiredTrigger]) -> None:
        """Note triggers that this session has fired and that now wait for their next fire times."""
        floor = self._floor
        if floor is not None and any(trigger.next_fire_time and trigger.next_fire_time < floor.at for trigger in fired):
            # They were claimed during that read, and now wait before the instant at which the next one would begin.
            self.require_full_read()
        expectation = self._expectation
        if expectation is not None:
            limited = (trigger.next_fire_time for trigger in fired if trigger.max_concurrent is not None)
            self._expectation = replace(
                expectation,
                soonest=_earliest((expectation.soonest, *(trigger.next_fire_time for trigger in fired))),
                soonest_limited=_earliest((expectation.soonest_limited, *limited)),
            )

    def note_backlog(self, slots: Hashable, taken_up_to: datetime) -> None:
        """Note that a step took as many triggers as it could, and the fire time of the last one."""
        passes = 1 if self._backlog is None else self._backlog.passes + 1
        self._backlog = _Backlog(slots, taken_up_to, passes)

    def backlog(self, slots: Hashable) -> datetime | None:
        """Return the fire time from which more triggers are expected to be due; None if that has to be looked up."""
        backlog = self._backlog
        if backlog is None or backlog.slots != slots or backlog.passes > MOST_BLIND_PASSES:
            return None
        return backlog.taken_up_to

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
