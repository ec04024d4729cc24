"""What a node expects of its next acquire step: a function of what its last one has read and of what it was told since.

Beside the soonest fire time it knows *floors*. After a read that took long, as over a million dead entries of the index
or over many triggers that the node does not run, the next reads and steps begin at the earliest trigger that it has
read, but not after the present. So do the batches of a backlog, which need not walk over the dead entries that those
before have left. What others tell of, or this node stores, lowers the floor to its fire time, and ends it where that is
not known. The rest waits for the next full read, which follows soon.

Nothing of this is stored. A wrong expectation costs a read or some time of the server, and never a fire.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from quartzpy.instants import EARLIEST, earliest, is_until
from quartzpy.store.protocol import Acquisition, Expectation

DEAR_READ = 0.001
"""The time, in seconds, from which on a full read is dear, and is done rarely."""
FULL_READ_SHARE = 0.05
"""The share of the time that dear full reads may take."""
SHORTEST_FLOOR = 1.0
"""The shortest time, in seconds, between two dear full reads."""
MAX_FLOOR = 10.0
"""The longest such time: what was stored below a floor is that late if its notification was lost."""
BACKLOG_FLOOR = 0.1
"""The longest time, in seconds, for which the batches of a backlog begin at the floor of a read that was not dear."""
MARGIN = timedelta(milliseconds=5)
"""The inaccuracy of the store's time as it is estimated here."""


@dataclass(frozen=True, slots=True)
class Floor:
    """Where the reads of a slot pool begin."""

    at: datetime
    """Nothing that this node can take waited before this instant."""
    until: float
    """The monotonic time until which they begin there."""
    is_dear: bool
    """True if the read took long. Otherwise only the batches of a backlog begin there."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the next acquire step is expected to meet. By default nothing is known, so that it reads first."""

    soonest: datetime | None = None
    limited: datetime | None = EARLIEST
    """The soonest instant at which a job with a limit has something to do: it is due, or a rate opens."""
    has_shared: bool = True
    """True if there are jobs with rates or shared limits, as far as is known."""
    has_new: bool = False
    floors: Mapping[str, Floor] = field(default_factory=dict)
    """For each slot pool that was read."""
    passed_over: frozenset[int] = frozenset()
    """The generations of triggers that the floors leave out of account."""

    def after(self, changes: Changed) -> Outlook:
        """Return the outlook after triggers have begun to wait."""
        if EARLIEST in (changes.own, changes.of_others):
            return Outlook()
        low = earliest(changes.own, changes.of_others)
        if low is None:
            return self
        return replace(
            self,
            # What others have stored, another node may take.
            soonest=earliest(self.soonest, changes.own),
            limited=earliest(self.limited, changes.own),
            floors=_lowered(self.floors, low),
        )

    def expectation(
        self,
        pools: Collection[str],
        *,
        met_pools: Collection[str],
        passed_over: Collection[int],
        is_on_time: bool,
        asks: bool,
        is_backlog: bool,
        until: datetime,
        monotonic: float,
    ) -> Expectation:
        """Return what a step expects that takes what is due in these slot pools until an instant.

        `asks` says that it looks at gates, or for slots that the last step did not have, and `is_backlog` that the
        last one took all that it could.
        """
        floors = {pool: self.floors[pool] for pool in pools if pool in self.floors}
        begins: frozenset[str] = frozenset()
        if self.passed_over.issubset(passed_over):
            begins = frozenset(
                pool for pool, floor in floors.items() if floor.until > monotonic and (floor.is_dear or is_backlog)
            )
        # Under the lock, a step must not walk as far as the last full read.
        is_dear = any(floor.is_dear and pool not in begins for pool, floor in floors.items())
        is_due = self.has_new or (asks and bool(self.floors)) or is_until(self.soonest, until + MARGIN)
        return Expectation(
            reads_first=is_dear or not (is_due and is_on_time),
            has_limited=asks or is_until(self.limited, until + MARGIN),
            has_shared=self.has_shared,
            has_new=self.has_new,
            fronts={pool: floor.at for pool, floor in self.floors.items()},
            begins=begins,
            met_pools=met_pools,
        )

    def after_step(
        self, acquired: Acquisition, expected: Expectation, passed_over: Collection[int], monotonic: float
    ) -> Outlook:
        """Return the outlook after a step."""
        front, is_dear = acquired.front, acquired.front.seconds >= DEAR_READ
        lasts = min(max(front.seconds / FULL_READ_SHARE, SHORTEST_FLOOR), MAX_FLOOR) if is_dear else BACKLOG_FLOOR
        read = {
            pool: replace(self.floors[pool], at=at)
            if pool in expected.begins
            else Floor(at, monotonic + lasts, is_dear)
            for pool, at in front.pools.items()
        }
        # A floor that leaves out more than it may is none.
        before = self.floors if self.passed_over.issubset(passed_over) else {}
        floors = {**before, **read}
        return Outlook(
            soonest=acquired.next_due,
            limited=front.limited,
            has_shared=front.has_shared,
            has_new=front.has_new,
            floors=floors if front.waits_from is None else _lowered(floors, front.waits_from),
            passed_over=frozenset(passed_over),
        )

    def next_full_read(self, expected: Expectation) -> float:
        """Return the monotonic time of the read that finds what a step with this expectation could not.

        After the last batch of a backlog, it follows at once.
        """
        floors = (self.floors[pool] for pool in expected.begins if pool in self.floors)
        return min((floor.until if floor.is_dear else 0.0 for floor in floors), default=float("inf"))


def _lowered(floors: Mapping[str, Floor], to: datetime) -> dict[str, Floor]:
    return {pool: floor if floor.at <= to else replace(floor, at=to) for pool, floor in floors.items()}


@dataclass(frozen=True, slots=True)
class Changed:
    """From which instants on triggers may have begun to wait; None where none have."""

    own: datetime | None = None
    """Those that this node has stored."""
    of_others: datetime | None = None


class Changes:
    """Collects from all threads what has begun to wait, until the scheduler thread takes it before a step."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = Changed()

    def add(self, *, own: datetime | None = None, of_others: datetime | None = None) -> None:
        with self._lock:
            before = self._changed
            self._changed = Changed(earliest(before.own, own), earliest(before.of_others, of_others))

    def take(self) -> Changed:
        """Return what was added since. What is added during the step may be missing in its answer, and stays."""
        with self._lock:
            changed, self._changed = self._changed, Changed()
            return changed
