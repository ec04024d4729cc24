"""Whether the jobs with a limit that are due are free: no execution of them runs, and one trigger of each is due.

A batch of such jobs needs no counts and no order, so the acquire step has a shorter statement for it. What that leaves
costs another round trip. So it is sent after a full batch only, and the more rarely, the more often it takes less.
"""

from __future__ import annotations

LEAST = 50
"""The smallest batch that is worth it."""
MOST_BATCHES = 16
"""The largest number of full batches of the statement for all jobs before the next try of the shorter one."""


class FreeJobs:
    """What the last batches of a session tell about the next one."""

    def __init__(self) -> None:
        self._until_next_try = 1
        self._after_failure = 1

    def are_expected(self, limit: int) -> bool:
        """Return True if a batch of this size probably has free jobs only."""
        return self._until_next_try == 0 and limit >= LEAST

    def note(self, taken: int, limit: int, *, by_shorter: bool) -> None:
        """Note the size of a batch, and by which statement it was taken."""
        is_full = taken == limit
        if by_shorter and is_full:
            self._after_failure = max(1, self._after_failure // 2)
        elif by_shorter:
            # Others are due, or this was the end of a backlog.
            self._until_next_try = self._after_failure
            self._after_failure = min(2 * self._after_failure, MOST_BATCHES)
        elif is_full and limit >= LEAST:
            self._until_next_try = max(0, self._until_next_try - 1)
