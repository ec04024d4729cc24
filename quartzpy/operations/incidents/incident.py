"""Incidents and their kinds: what is wrong now or soon will be, why, and the actions that mend it.

To add a kind, add a module to `kinds`: nothing else names it.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from inspect import isgeneratorfunction
from typing import Any, TypeAlias

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.words import named_first
from quartzpy.operations.views.executions import RunningView
from quartzpy.store.health_findings import Severity
from quartzpy.store.records import Acknowledgement, IncidentRecord

MAX_OF_A_KIND = 20
"""The largest number of incidents of one kind that are listed one by one."""
MORE = "more"
"""What stays the same about the incident that stands for those of its kind that are not listed."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """An action that mends an incident: a method of `Operations.actions` and its arguments."""

    action: str
    arguments: Mapping[str, Any]
    label: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that is wrong, or soon will be."""

    severity: Severity
    kind: str
    """The kind of incident, for programs; it never changes: "dead-node", "trigger-error", ..."""
    subject: str
    """The affected object: a key, a node, a pool or a job type."""
    what: str
    why: tuple[str, ...] = ()
    since: datetime | None = None
    remedies: tuple[Remedy, ...] = ()
    trigger: TriggerKey | None = None
    """The trigger, if the incident is about one."""
    job: JobKey | None = None
    """The job, if the incident is about one."""
    cause: str = ""
    """What tells one cause of it from another, for example the error; empty if nothing does."""
    lasting: str = ""
    """What stays the same about it while it lasts, if that is not the subject."""
    incident_id: int | None = None
    """The number under which it is recorded; None if no node has recorded it yet."""
    opened_at: datetime | None = None
    """The instant at which it was recorded."""
    acknowledgement: Acknowledgement | None = None
    """Who has taken note of it, if it has not become worse since."""

    @property
    def identity(self) -> str:
        """A digest by which it is recognized while it lasts."""
        return hashlib.sha256(f"{self.kind}\n{self.lasting or self.subject}".encode()).hexdigest()


def recognized(incidents: Iterable[Incident], records: Iterable[IncidentRecord], now: datetime) -> list[Incident]:
    """Return the incidents with what is recorded about them."""
    by_identity = {record.identity: record for record in records}
    return [_recognized(incident, by_identity.get(incident.identity), now) for incident in incidents]


def _recognized(incident: Incident, record: IncidentRecord | None, now: datetime) -> Incident:
    if record is None:
        return incident
    note = record.acknowledgement
    holds = note is not None and note.holds(incident.severity, incident.cause, now)
    return replace(
        incident,
        incident_id=record.incident_id,
        opened_at=record.opened_at,
        acknowledgement=note if holds else None,
    )


def by_severity(incidents: Iterable[Incident]) -> tuple[Incident, ...]:
    """Return incidents with the worst first."""
    return tuple(sorted(incidents, key=lambda incident: incident.severity.rank))


def capped(incidents: Sequence[Incident]) -> list[Incident]:
    """Return at most `MAX_OF_A_KIND` incidents of each kind, and one that says how many more there are."""
    by_kind: defaultdict[str, list[Incident]] = defaultdict(list)
    for incident in incidents:
        by_kind[incident.kind].append(incident)
    listed = []
    for kind, of_kind in by_kind.items():
        shown, rest = of_kind[:MAX_OF_A_KIND], of_kind[MAX_OF_A_KIND:]
        listed += shown
        if rest:
            subjects = named_first([incident.subject for incident in rest])
            what = f"And {len(rest):,} more of the same kind ({kind.replace('-', ' ')}): {subjects}."
            listed.append(Incident(rest[0].severity, kind, f"{len(rest)} more", what, lasting=MORE))
    return listed


def cancels(rows: Iterable[RunningView]) -> tuple[Remedy, ...]:
    """Return the remedies that cancel these executions one by one."""
    return tuple(
        Remedy("cancel", {"selection": row.fire_id}, f"cancel execution {row.fire_id} of {row.job}")
        for row in rows
        if "cancel" in row.actions
    )


# --- kinds

Rounds: TypeAlias = Generator[None, None, Sequence[Incident]]
"""What a kind asks and judges. At each `yield`, the questions of all kinds are sent in one round trip.

Before the first `yield`, nothing is known; after it, the nodes, the numbers and what runs; after the second, also the
late triggers. After the third, each question is answered. A kind that yields once more is judged after the others.
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
