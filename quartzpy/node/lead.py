"""How long before its instant a fire is to be committed, learned from what earlier steps took."""

from __future__ import annotations

from dataclasses import dataclass

from quartzpy.node.workers.execution import MAX_LEAD

MARGIN = 1.5
"""The lead as a multiple of what a step usually takes: a worker has to be woken after it."""
DEVIATIONS = 4
"""How many mean deviations are added: a late step makes a job late, and an early one lets a worker wait."""
MOST = MAX_LEAD / 2
"""The longest lead. A step fires what becomes due within twice the lead."""


@dataclass(frozen=True, slots=True)
class Lead:
    """What a step that fires usually takes, in seconds, from the planned begin to its answer, and its mean deviation.

    It is a few milliseconds before the first step is measured.
    """

    usual: float = 0.0
    deviation: float = 0.00125

    @property
    def seconds(self) -> float:
        return min(MARGIN * self.usual + DEVIATIONS * self.deviation, MOST)

    def after(self, seconds: float) -> Lead:
        """Return the lead after a step that took so long; as for the retransmissions of TCP (RFC 6298)."""
        differs_by = min(seconds, MOST) - self.usual
        return Lead(self.usual + differs_by / 8, self.deviation + (abs(differs_by) - self.deviation) / 4)
