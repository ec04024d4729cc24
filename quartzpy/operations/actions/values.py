"""The values that the audit log has from before and after a change, without secrets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.calendars.registry import calendar_to_json
from quartzpy.definitions.plain import window_table
from quartzpy.errors import InvalidValueError
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.actions.log import SubjectChange
from quartzpy.operations.views.schedules import zone_text
from quartzpy.scheduler import singles, sync
from quartzpy.scheduler.methods.queries import MAX_FIRE_ID
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.secret_texts import Redaction
from quartzpy.store.queries import TriggerQuery
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import quoted
from quartzpy.triggers.trigger import Trigger

_MAX_TRIGGERS = 20
"""The maximum number of a job's triggers whose values the audit log keeps."""
_MAX_VALUE = 1_000
"""The length, in characters of JSON, above which the audit log has only the beginning of a value."""


def checked_incident_id(incident_id: object) -> int:
    """Return the number of an incident.

    Raises:
        InvalidValueError: it cannot be one.
    """
    if type(incident_id) is not int or not 1 <= incident_id < MAX_FIRE_ID:
        raise InvalidValueError(f"incident: must be a whole number from 1 on (got {quoted(incident_id)})")
    return incident_id


def values_of(transaction: OwnTransactionMethods, key: JobKey | TriggerKey) -> dict[str, Any]:
    """Return the values of a job or a trigger that actions change, for the audit log; none if it is not stored."""
    if isinstance(key, JobKey):
        mode = singles.mode_of_job(transaction.store, key)
        triggers = transaction.store.find(TriggerQuery(job_key=key), _MAX_TRIGGERS)
        return {} if mode is None else {"mode": mode, "triggers": [_of_trigger(record) for record in triggers]}
    record = transaction.store.triggers([key]).get(key)
    return {} if record is None else _of_trigger(record)


def _of_trigger(record: TriggerRecord) -> dict[str, Any]:
    following = record.next_fire_time
    return {
        "trigger": str(record.key),
        "state": record.state,
        "next_fire_time": None if following is None else following.isoformat(),
    }


def schedule_values(trigger: Trigger) -> dict[str, Any]:
    """Return the schedule of a trigger with its time zone."""
    return {"schedule": trigger.text, "zone": zone_text(trigger)}


# --- changes of Scheduler.sync


@dataclass(frozen=True, slots=True)
class ChangedValue:
    """One value of a job, trigger, calendar or maintenance window, as it is stored and as it is declared."""

    name: str
    stored: Any
    declared: Any


def changed_values(change: sync.Change, redaction: Redaction) -> list[ChangedValue]:
    """Return the values that a change concerns: of a new object, its job type, schedule or kind; of a window, all."""
    match change.declared:
        case JobDetail(job_type=job_type) if change.sign == "+":
            return [ChangedValue("type", None, job_type)]
        case Trigger() as trigger if change.sign == "+":
            return [ChangedValue("schedule", None, trigger.text)]
        case BaseCalendar(kind=kind) if change.sign == "+":
            return [ChangedValue("kind", None, kind)]
        case MaintenanceWindow() as window if change.sign == "+":
            return [ChangedValue(name, None, value) for name, value in window_table(window).items()]
    return [
        ChangedValue(
            difference.name,
            _without_secrets(difference.name, difference.stored, redaction),
            _without_secrets(difference.name, difference.declared, redaction),
        )
        for difference in change.differences
    ]


def _without_secrets(name: str, value: Any, redaction: Redaction) -> Any:
    if name == "data":
        return redaction.of(dict(value or {}))
    if name == "continuations":
        return [_continuation(continuation, redaction) for continuation in value or ()]
    return value


def _continuation(continuation: Continuation, redaction: Redaction) -> dict[str, Any]:
    values = {"job": str(continuation.key), "outcomes": [str(outcome) for outcome in continuation.outcomes]}
    return values if not continuation.data else {**values, "data": redaction.of(dict(continuation.data))}


def before_and_after(
    transaction: OwnTransactionMethods, change: sync.Change, owner: str, redaction: Redaction
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the values before and after a change of `sync`, which is not made yet; long ones are cut."""
    if change.sign == "-":
        if change.kind == "window":
            windows = {record.window.name: record.window for record in transaction.maintenance_windows()}
            return {name: bounded(value) for name, value in window_table(windows[str(change.key)]).items()}, None
        return _before_removal(transaction, change.key), None
    values = changed_values(change, redaction)
    before = {value.name: bounded(value.stored) for value in values if change.sign == "~"}
    after = {value.name: bounded(value.declared) for value in values}
    return before or None, after or {"owner": owner}


def rows_of_plan(
    transaction: OwnTransactionMethods, plan: sync.SyncPlan, owner: str, redaction: Redaction
) -> list[tuple[str, SubjectChange]]:
    """Return the rows of the audit log about a plan of `sync`, which is not carried out yet."""
    return [
        (
            f"{change.kind} {change.key}",
            SubjectChange(str(change), *before_and_after(transaction, change, owner, redaction)),
        )
        for change in plan.changes
    ]


def _before_removal(transaction: OwnTransactionMethods, key: sync.Subject) -> dict[str, Any]:
    if isinstance(key, JobKey | TriggerKey):
        return values_of(transaction, key)
    calendar = transaction._readable_calendar(key)
    return {} if calendar is None else {name: bounded(value) for name, value in calendar_to_json(calendar).items()}


def bounded(value: Any) -> Any:
    """Return a value as JSON; of a long one only the beginning, as a text."""
    text = json.dumps(value, default=str)
    return json.loads(text) if len(text) <= _MAX_VALUE else quoted(value)
