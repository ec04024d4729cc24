"""What is wrong at this moment: the kinds of incidents ask and judge together, for pages, commands and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import Incident, by_severity, capped, recognized
from quartzpy.operations.incidents.kinds import all_kinds
from quartzpy.operations.read_context import ReadContext


@dataclass(frozen=True, slots=True)
class Incidents:
    """What is wrong at an instant."""

    now: datetime
    incidents: tuple[Incident, ...]
    """What nobody has taken note of, the worst first."""
    acknowledged: tuple[Incident, ...]
    """What somebody has taken note of."""


def told_apart(incidents: Sequence[Incident], now: datetime) -> Incidents:
    """Return incidents with those apart that somebody has taken note of."""
    noted = tuple(incident for incident in incidents if incident.acknowledgement is not None)
    others = [incident for incident in incidents if incident.acknowledgement is None]
    return Incidents(now, by_severity(capped(others)), noted)


def incidents(context: ReadContext) -> Incidents:
    """Return what is wrong; see `Operations.incidents`."""
    diagnosis = ClusterDiagnosis(context)
    return told_apart(diagnosis.incidents(), diagnosis.now)


class ClusterDiagnosis(ClusterFacts):
    """What is wrong at this moment."""

    def __init__(self, context: ReadContext) -> None:
        self._rounds = [kind.rounds(self) for kind in all_kinds()]
        self._judged: dict[int, Sequence[Incident]] = {}
        super().__init__(context)

    def _next_round(self) -> None:
        """Have each kind ask what it can ask by now, or judge."""
        for number, rounds in enumerate(self._rounds):
            if number not in self._judged:
                try:
                    next(rounds)
                except StopIteration as end:
                    self._judged[number] = end.value

    def incidents(self) -> list[Incident]:
        """Return what is wrong, the worst first, with what is recorded about each."""
        while len(self._judged) < len(self._rounds):
            self._next_round()
        wrong = [incident for number in range(len(self._rounds)) for incident in self._judged[number]]
        return recognized(by_severity(wrong), self.recorded(), self.now)
