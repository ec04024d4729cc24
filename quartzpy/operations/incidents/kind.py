"""What a kind of incident is. To add one, add a module to `kinds`: nothing else names it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from inspect import isgeneratorfunction
from typing import TypeAlias

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import Incident

Rounds: TypeAlias = Generator[None, None, Sequence[Incident]]
"""What a kind asks and judges. At each `yield`, the questions of all kinds are sent in one round trip.

Before the first `yield`, nothing is known; after it, the nodes, the numbers and what runs; after the second, also the
late triggers. After the third, each question is answered. Who yields once more is judged after the other kinds.
"""


class About(StrEnum):
    """What incidents are about, in the order in which those of one severity are listed."""

    CLUSTER = "The cluster"
    NODES = "Nodes"
    LATE = "Triggers that wait"
    JOBS = "Jobs and triggers"
    REST = "Clocks and the database"


@dataclass(frozen=True, slots=True)
class IncidentKind:
    """A kind of incident."""

    names: tuple[str, ...]
    """What programs call it; several if the same judgement has several results."""
    about: About
    runbook: str
    """Its section of the runbook, in Markdown: one sentence that says what is wrong, and below it what to do."""
    judge: Callable[[ClusterFacts], Rounds] | Callable[[ClusterFacts], Sequence[Incident]] = lambda facts: ()
    """Judges by the facts of the cluster. If it has questions of its own, it yields; see `Rounds`."""
    names_node: bool = False
    """True if the subject of its incidents is a node."""

    def rounds(self, facts: ClusterFacts) -> Rounds:
        """Ask and judge. What asks nothing is judged when all is known."""
        if isgeneratorfunction(self.judge):
            incidents: Sequence[Incident] = yield from self.judge(facts)
            return incidents
        for _ in range(3):
            yield
        return self.judge(facts)  # type: ignore[return-value]
