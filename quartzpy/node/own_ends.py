"""When a node waits for the ends of its own executions before it claims more triggers.

Where many jobs with a limit have several due triggers each, a claim that follows at once meets triggers of jobs whose
executions are just ending. Such a trigger is blocked, released by the end, and fired: three writes. If the node claims
a moment later, the executions have been recorded, and the same trigger is fired by one write.

So a node whose claim took little of what is due waits, for a while, for most of its executions with a limit to be
recorded before each claim. Long jobs do not end so soon: after a wait in vain, the node claims without one for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from quartzpy.store.protocol import FiredTrigger

LONGEST_WAIT = 0.02
"""The longest wait before a claim, in seconds."""
PERIOD = 1.0
"""The time, in seconds, for which a node waits before each claim, or does not wait after a wait in vain."""
FEW = 4
"""A node waits for as many executions as leave at most this part of a full batch: a fourth."""
MANY = 1_000
"""The number of executions from which on those that were recorded meanwhile are forgotten."""


class OwnEnds:
    """Decides how long to wait for the ends of own executions with a limit."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._limited: set[int] = set()
        """The ids of the executions of jobs with a limit, with some that were recorded since."""
        self._waits_until = self._never_until = float("-inf")
        self._since: float | None = None
        """The time since which the next claim waits."""

    def note_fired(self, fired: Iterable[FiredTrigger], unrecorded: Callable[[], Collection[int]]) -> None:
        """Note executions that a claim has started."""
        self._limited.update(trigger.fire_id for trigger in fired if trigger.max_concurrent is not None)
        if len(self._limited) > MANY:
            self._limited.intersection_update(unrecorded())

    def note_little(self) -> None:
        """Note that a claim took less than half of what it asked for, although more is due."""
        now = self._monotonic()
        if self._limited and now >= self._never_until:
            self._waits_until = now + PERIOD

    def wait(self, batch: int, unrecorded: Callable[[], Collection[int]]) -> float:
        """Return the seconds for which the next claim waits for the ends of own executions; 0 if it does not.

        `batch` is the size of a full batch, and `unrecorded` returns the executions whose ends are not recorded.
        """
        now = self._monotonic()
        if now >= self._waits_until:
            return 0.0
        self._limited.intersection_update(unrecorded())
        if len(self._limited) * FEW > batch:
            since = self._since = now if self._since is None else self._since
            if now < since + LONGEST_WAIT:
                return since + LONGEST_WAIT - now
            self._waits_until, self._never_until = float("-inf"), now + PERIOD
        self._since = None
        return 0.0
