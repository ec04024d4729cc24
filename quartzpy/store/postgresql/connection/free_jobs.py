"""Whether the jobs with a limit that are due are free: no execution of them runs, and one trigger of each is due.

A batch of such jobs needs no counts and no order, so the acquire step has a shorter statement for it. What that leaves
costs another round trip. So it is sent after a full batch only, and not for a while after it has left something.
"""

from __future__ import annotations

BATCHES = 16
"""The number of full batches of the statement for all jobs after which the shorter one is tried again."""


class FreeJobs:
    """What the last batches of a session tell about the next one."""

    def __init__(self) -> None:
        self._batches = 1

    @property
    def are_expected(self) -> bool:
        """True if the next batch probably has free jobs only."""
        return self._batches == 0

    def note_full(self) -> None:
        """Note a full batch, by either statement."""
        self._batches = max(0, self._batches - 1)

    def note_others(self) -> None:
        """Note that the shorter statement has left triggers."""
        self._batches = BATCHES
