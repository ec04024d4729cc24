"""The values before and after a change of `Scheduler.sync`, without secrets, for people and for the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.job import JobDetail
from quartzpy.operations.redaction import Redaction
from quartzpy.operations.schedules import schedule_text
from quartzpy.scheduler.sync import Change
from quartzpy.triggers.trigger import Trigger


@dataclass(frozen=True, slots=True)
class ChangedValue:
    """One value of a job, trigger or calendar, as it is stored and as it is declared."""

    name: str
    stored: Any
    declared: Any


def changed_values(change: Change, redaction: Redaction) -> list[ChangedValue]:
    """Return the values that a change concerns: of a new object, its job type, its schedule or its kind."""
    match change.declared:
        case JobDetail(job_type=job_type) if change.sign == "+":
            return [ChangedValue("type", None, job_type)]
        case Trigger() as trigger if change.sign == "+":
            return [ChangedValue("schedule", None, schedule_text(trigger))]
        case BaseCalendar(kind=kind) if change.sign == "+":
            return [ChangedValue("kind", None, kind)]
    return [
        ChangedValue(one.name, _shown(one.name, one.stored, redaction), _shown(one.name, one.declared, redaction))
        for one in change.differences
    ]


def _shown(name: str, value: Any, redaction: Redaction) -> Any:
    if name == "data":
        return redaction.of(dict(value or {}))
    if name == "continuations":
        return [_continuation(one, redaction) for one in value or ()]
    return value


def _continuation(one: Continuation, redaction: Redaction) -> dict[str, Any]:
    shown = {"job": str(one.key), "outcomes": [str(outcome) for outcome in one.outcomes]}
    return shown if not one.data else {**shown, "data": redaction.of(dict(one.data))}
