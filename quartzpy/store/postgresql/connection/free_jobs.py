"""Whether the jobs with a limit that are due are free: no execution of them runs, and one trigger of each is due.

A batch of such jobs needs no counts and no order, so the acquire step has a shorter statement for it. What that leaves
costs another round trip. So it is sent after a full batch only, and not for a while after it has left something.
"""

from __future__ import annotations

LEAST = 50
"""The smallest batch that is worth it."""
BATCHES = 16
"""The number of full batches of the statement for all jobs after which the shorter one is tried again."""


class FreeJobs:
    """What the last batches of a session tell about the next one."""

    def __init__(self) -> None:
        self._batches = min(1, BATCHES)

    def are_expected(self, limit: int) -> bool:
        """Return True if a batch of this size probably has free jobs only."""
        return self._batches == 0 and limit >= LEAST

    def note(self, taken: int, limit: int, *, by_shorter: bool) -> None:
        """Note the size of a batch, and by which statement it was taken."""
        if by_shorter and taken < limit:
            self._batches = BATCHES
        elif taken == limit >= LEAST:
            self._batches = max(0, self._batches - 1)
