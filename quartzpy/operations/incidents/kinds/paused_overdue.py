"""Triggers miss fires because of one pause (of everything, a group, a job or a trigger), or because of a mode.

A pause becomes an incident once it is older than [`pause_grace`](../settings.md), an hour. A pause with an
[end](../how-to/time-off.md) becomes one only if its end has passed by a minute. The incident says who paused it, when
and why. One remedy ends the pause and lets the misfire instructions decide about missed fires, the other skips them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.incidents.cluster_facts import MAX_DUE, ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind, Remedy, Rounds
from quartzpy.operations.incidents.words import named_first
from quartzpy.operations.read_context import MAX_COUNTED
from quartzpy.operations.selection import Selection
from quartzpy.scheduler.singles import mode_of_job
from quartzpy.states import JobMode, TriggerState
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import PausedOverdue
from quartzpy.store.queries import TriggerQuery
from quartzpy.store.records import Pauses, TriggerRecord
from quartzpy.texts import instant_text, numbered

MANUAL_MODE = "manual mode"
LATE_END = timedelta(minutes=1)
"""How long after its stated end a pause counts as one that has not ended: a node ends it within seconds."""
OF_ONE_ACTION = timedelta(seconds=2)
"""The longest time between two triggers that one action pauses."""


@dataclass
class _Pause:
    """One pause, and the triggers that have missed fires because of it."""

    kind: str
    name: Any
    rows: list[PausedOverdue] = field(default_factory=list)

    @property
    def number(self) -> int:
        return sum(row.number for row in self.rows)

    @property
    def jobs(self) -> list[JobKey]:
        return list(dict.fromkeys(row.job_key for row in self.rows))

    @property
    def since(self) -> datetime:
        return min(row.due_at for row in self.rows)

    ends_at: datetime | None = None
    """Its stated end, which has passed."""

    @property
    def paused_at(self) -> datetime | None:
        """The instant of the pause, if it is recorded."""
        return min((row.paused_at for row in self.rows if row.paused_at), default=None)


def judge(facts: ClusterFacts) -> Rounds:
    paused = facts.reading.defer(lambda store: admin(store).paused_overdue(MAX_DUE, most=MAX_COUNTED))
    yield
    rows, now = paused(), facts.now
    records: Callable[[], list[TriggerRecord]] = list
    if rows:
        query = TriggerQuery(states=frozenset({TriggerState.PAUSED}), until=now)
        records = facts.reading.defer(lambda store: store.find(query, MAX_DUE))
    # Where a mode holds a trigger, nobody paused it.
    jobs = {row.job_key for row in rows if row.paused_at is None}
    modes = {job: facts.reading.defer(partial(mode_of_job, key=job)) for job in sorted(jobs)[:MAX_DUE]}
    begun_before = now - facts.nodes.setting("pause_grace", facts.context.config.pause_grace)
    yield
    of_jobs = {job: mode() for job, mode in modes.items()}
    return paused_overdue(rows, records(), facts.pauses(), of_jobs, begun_before=begun_before, now=now)


def paused_overdue(
    rows: Sequence[PausedOverdue],
    records: Sequence[TriggerRecord],
    pauses: Pauses,
    modes: Mapping[JobKey, JobMode | None],
    *,
    begun_before: datetime,
    now: datetime,
) -> list[Incident]:
    """Return an incident for each pause by which fires have been missed, the longest first.

    Only those are incidents that are older than `begun_before`: most pauses are meant, and end soon. A pause with an
    end, such as that of a maintenance window, is meant until then, however long it is. `records` are the first of the
    triggers that `rows` count, and `modes` those of their jobs.
    """
    rows = [row for row in rows if not _is_meant(row, pauses, modes, now)]
    by_pause: dict[Any, _Pause] = {}
    singles = _together([row for row in rows if _cause(row, pauses, modes)[0] == "triggers"])
    for row in rows:
        kind, name = _cause(row, pauses, modes)
        if kind == "triggers":
            name = singles[id(row)]
        pause = by_pause.setdefault((kind, name), _Pause(kind, name))
        pause.rows.append(row)
        pause.ends_at = _end(row, pauses)
    jobs = [job for pause in by_pause.values() for job in pause.jobs]
    return [
        _incident(pause, _keys(pause, records), is_only=jobs.count(pause.jobs[0]) == 1)
        for pause in by_pause.values()
        if (pause.paused_at or pause.since) < begun_before
    ]


def _is_meant(row: PausedOverdue, pauses: Pauses, modes: Mapping[JobKey, JobMode | None], now: datetime) -> bool:
    """Return True while all that holds these triggers has an end, which has not passed."""
    if pauses.is_manual or modes.get(row.job_key) not in (None, JobMode.ENABLED):
        return False
    end = _end(row, pauses)
    return end is not None and now < end + LATE_END


def _end(row: PausedOverdue, pauses: Pauses) -> datetime | None:
    return pauses.until(row.trigger_key, row.job_key, alone=row.is_alone, end=row.pause_until)


def _together(rows: Sequence[PausedOverdue]) -> dict[int, int]:
    """Return a number for each row, by its id: the same for those that one action paused, one after the other."""
    numbers: dict[int, int] = {}
    before: PausedOverdue | None = None
    for row in sorted(rows, key=lambda row: (row.paused_by or "", row.pause_reason or "", row.paused_at or row.due_at)):
        if before is None or _who_and_why(row) != _who_and_why(before) or not _is_soon_after(row, before):
            numbers[id(row)] = len(numbers)
        else:
            numbers[id(row)] = numbers[id(before)]
        before = row
    return numbers


def _who_and_why(row: PausedOverdue) -> tuple[str | None, str | None]:
    return row.paused_by, row.pause_reason


def _is_soon_after(row: PausedOverdue, before: PausedOverdue) -> bool:
    if row.paused_at is None or before.paused_at is None:
        return row.paused_at is before.paused_at and row.job_key == before.job_key
    return row.paused_at - before.paused_at <= OF_ONE_ACTION


def _cause(row: PausedOverdue, pauses: Pauses, modes: Mapping[JobKey, JobMode | None]) -> tuple[str, Any]:
    """Return the widest pause that holds these triggers: lifting a narrower one would not let them fire."""
    if pauses.everything:
        return "everything", None
    if pauses.is_manual:
        return MANUAL_MODE, None
    if modes.get(row.job_key) not in (None, JobMode.ENABLED):
        return "mode", row.job_key
    if row.trigger_key.group in pauses.trigger_groups:
        return "trigger group", row.trigger_key.group
    if row.job_key.group in pauses.job_groups:
        return "job group", row.job_key.group
    return "triggers", None


def _keys(pause: _Pause, records: Sequence[TriggerRecord]) -> list[TriggerKey]:
    pauses = {
        (row.trigger_key.group, row.job_key, row.paused_at, row.paused_by, row.pause_reason) for row in pause.rows
    }
    return [
        record.key
        for record in records
        if (record.key.group, record.job_key, record.paused_at, record.paused_by, record.pause_reason) in pauses
    ]


def _incident(pause: _Pause, keys: Sequence[TriggerKey], *, is_only: bool) -> Incident:
    number, jobs = pause.number, pause.jobs
    missed = f"missed fires since {instant_text(pause.since)}"
    triggers = numbered(number, "trigger", "triggers")
    have = "has" if number == 1 else "have"
    one_job = jobs[0] if len(jobs) == 1 else None
    first = pause.rows[0].trigger_key
    selection: Any
    match pause.kind:
        case "everything":
            subject, selection, what = "everything", Selection.everything(), "Everything is paused, and fires have been"
            what = f"{what} missed since {instant_text(pause.since)}."
        case "manual mode":
            subject, selection = MANUAL_MODE, None
            what = f"The scheduler is in manual mode, and {triggers} {have} {missed}."
        case "mode":
            subject, selection = str(pause.name), pause.name
            what = f"Job {pause.name} is disabled or manual, and {triggers} of it {have} {missed}."
        case "trigger group":
            subject, selection = pause.name, Selection.trigger_group(pause.name)
            what = f"The group {pause.name!r} of triggers is paused, and {triggers} of it {have} {missed}."
        case "job group":
            subject, selection = pause.name, Selection.job_group(pause.name)
            what = f"The group {pause.name!r} of jobs is paused, and {triggers} of it {have} {missed}."
        case _ if number == 1:
            subject, selection, what = str(first), first, f"Trigger {first} is paused, and has {missed}."
        case _ if one_job is not None:
            subject, selection = str(one_job), one_job if is_only else keys
            what = f"{triggers} of job {one_job} are paused, and have {missed}."
        case _:
            subject, selection = f"{number:,} triggers", keys
            what = f"{triggers} of {len(jobs):,} jobs are paused, and have {missed}."
    names = [] if number == 1 and pause.kind == "triggers" else [f"Triggers: {named_first(keys or [first], number)}."]
    return Incident(
        Severity.WARNING,
        "paused-overdue",
        subject,
        what,
        (*_who(pause), *names),
        pause.since,
        _remedies(pause, selection, number),
        first if number == 1 and pause.kind == "triggers" else None,
        one_job if pause.kind in ("triggers", "mode") and number > 1 else None,
        lasting=_lasting(pause),
    )


def _lasting(pause: _Pause) -> str:
    """Return what tells this pause from others, however many of its triggers have missed fires."""
    if pause.kind != "triggers":
        return f"{pause.kind} {pause.name or ''}"
    at = pause.paused_at
    # The triggers of one action were paused one after the other, and not all of them have missed a fire yet.
    when = str(pause.rows[0].job_key) if at is None else at.replace(second=0, microsecond=0).isoformat()
    return f"triggers\n{pause.rows[0].paused_by or ''}\n{pause.rows[0].pause_reason or ''}\n{when}"


def _who(pause: _Pause) -> list[str]:
    """Return who paused it, when and why, as its first trigger tells."""
    row = min((row for row in pause.rows if row.paused_at), key=lambda row: row.paused_at or row.due_at, default=None)
    if row is None or row.paused_at is None:
        return []
    by = f" by {row.paused_by}" if row.paused_by else ""
    reason = f": {row.pause_reason.rstrip('.')}" if row.pause_reason else ""
    paused = f"It was paused at {instant_text(row.paused_at)}{by}{reason}."
    if pause.ends_at is None:
        return [paused]
    return [paused, f"It was to end at {instant_text(pause.ends_at)}, and no node has ended it."]


def _remedies(pause: _Pause, selection: Any, number: int) -> tuple[Remedy, ...]:
    if selection is None or selection == []:
        return ()
    if pause.kind == "mode":
        return (Remedy("enable", {"selection": selection}, f"enable job {pause.name}"),)
    match selection:
        case Selection():
            them = "everything" if pause.kind == "everything" else f"the group {pause.name}"
        case JobKey():
            them = f"job {selection}"
        case TriggerKey():
            them = "it"
        case _:
            them = f"these {len(selection)}"
    return (
        Remedy("resume", {"selection": selection, "missed": "misfire"}, f"resume {them}"),
        Remedy("resume", {"selection": selection, "missed": "skip"}, f"resume {them}, and skip the missed fires"),
    )


KIND = IncidentKind(("paused-overdue",), About.JOBS, __doc__, judge)
