"""A backlog of fires that are skipped must not hold up what can fire behind it: their turns in the acquire step.

A fire of a job at its limit that is skipped costs about what a fire costs, and it stands at the front, because it is
due. So where a step finds many such fires, and more is due, the steps that follow take turns: most of them leave out
the triggers of jobs whose overlap policy skips fires (all but BLOCK), and every thirtieth one begins at the front, and
decides about few. Where nothing else is due, each decides about as many as it can. So skips are decided in their order,
each by the same statement as ever, and the front is never left alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from quartzpy.store.protocol import Acquisition

MOST_AT_THE_FRONT = 60
"""The number of triggers at the front about which a step decides beside others that can fire."""
LEAST_SHARE = 0.25
"""The least number of fires to skip, of those of other triggers, that holds these up noticeably."""
STEPS_FOR_OTHERS = 29
"""The number of steps in a row that leave out the triggers of jobs that skip fires."""


class Step(Protocol):
    """An acquire step."""

    def __call__(self, limit: int, *, spares_skips: bool, expects_full: bool) -> Acquisition:
        """Take at most `limit` triggers. With `spares_skips`, none of jobs whose policy skips fires.

        `expects_full`: the last step looked at the other part, and this one probably finds `limit` triggers.
        """
        ...


class SkipBacklog:
    """Which part of what is due the next acquire step of a node looks at."""

    def __init__(self) -> None:
        self._epoch = 0
        self._is_met = False
        """True if the last step at the front met fires to skip in numbers, and more is due."""
        self._steps = 0
        """The number of steps since then that left them out."""
        self._others_are_due = False
        """True if the last of these steps took as many triggers as it could."""

    def acquire(self, epoch: int, limit: int, step: Step) -> Acquisition:
        """Take one step, or two if nothing is due for the first one."""
        if epoch != self._epoch:
            self._epoch, self._is_met = epoch, False
        if not self._is_met:
            return self._at_the_front(limit, step)
        if self._steps < STEPS_FOR_OTHERS:
            others = step(limit, spares_skips=True, expects_full=self._steps == 0)
            taken = len(others.fired) + len(others.acquired)
            self._others_are_due = taken >= limit
            self._steps = self._steps + 1 if self._others_are_due else STEPS_FOR_OTHERS
            if taken or others.undecided:
                return _in_part(others)
        return self._at_the_front(limit, step, among_others=self._others_are_due)

    def _at_the_front(self, limit: int, step: Step, *, among_others: bool = False) -> Acquisition:
        most = min(limit, MOST_AT_THE_FRONT) if among_others else limit
        acquired = step(most, spares_skips=False, expects_full=among_others)
        skipped, others = len(acquired.skipped), len(acquired.fired) + len(acquired.acquired)
        more_is_due = acquired.next_due is not None and acquired.next_due <= acquired.now
        # Jobs with a limit that fire as often as they skip are not left out: theirs would be the fires that wait.
        self._is_met = (
            more_is_due
            and skipped > 0
            and skipped >= LEAST_SHARE * others
            and skipped > _of_jobs_with_a_limit(acquired)
        )
        self._steps, self._others_are_due = 0, False
        return _in_part(acquired) if self._is_met or (most < limit and more_is_due and skipped + others) else acquired


def _of_jobs_with_a_limit(acquired: Acquisition) -> int:
    """Return how many of the fires and claims are those of jobs with a limit."""
    return sum(
        trigger.max_concurrent is not None for triggers in (acquired.fired, acquired.acquired) for trigger in triggers
    )


def _in_part(acquired: Acquisition) -> Acquisition:
    next_due = acquired.now if acquired.next_due is None else min(acquired.next_due, acquired.now)
    return replace(acquired, next_due=next_due, is_partial=True)
