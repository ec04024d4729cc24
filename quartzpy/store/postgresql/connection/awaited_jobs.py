"""The jobs for whose ends something waited lately: an end without the lock would be in vain.

Where triggers of few jobs with a limit are due in great number, an acquire step meets most of them while the executions
before them end. It can neither fire them nor let them wait, and has locked them in vain. So their ends take the lock
for a moment, as all ends do for which something waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable

from quartzpy.keys import JobKey

SECONDS = 1.0
"""The time, in seconds, for which the ends of such a job take the lock without another try."""
MOST = 1_000
"""The largest number of jobs that are kept."""


class AwaitedJobs(Container[JobKey]):
    """What the ends of executions have found. Threads may share it: a lost note costs a statement."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._until: dict[object, float] = {}
        self._all_until = float("-inf")

    def note(self, jobs: Iterable[JobKey]) -> None:
        """Note jobs of which something waits for an end."""
        now = self._monotonic()
        if len(self._until) >= MOST:
            self._until = {job: until for job, until in self._until.copy().items() if until > now}
        if len(self._until) < MOST:
            self._until |= dict.fromkeys(jobs, now + SECONDS)

    def note_all(self) -> None:
        """Note that triggers were due of jobs with a limit, and most of them could neither fire nor wait."""
        self._all_until = self._monotonic() + SECONDS

    def __contains__(self, job: object) -> bool:
        now = self._monotonic()
        return self._all_until > now or self._until.get(job, now) > now
