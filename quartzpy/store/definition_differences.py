"""Compares declared jobs, triggers and calendars with stored ones, and lists the differences. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.registry import calendar_to_json, storable_json
from quartzpy.errors import ObjectAlreadyExistsError
from quartzpy.expect import Expect
from quartzpy.jobs.internal_entries import without_trace
from quartzpy.jobs.job import JobDetail
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import quoted
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import PreparedTrigger

_NOT_SCHEDULE = {
    *("description", "priority", "misfire", "misfire_threshold", "catch_up_max", "catch_up_within", "expect"),
    *("data", "job_key"),
}
_REPLACE = "pass replace=True to replace it"


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """A value of a job, trigger or calendar whose stored and declared forms differ."""

    name: str
    stored: Any
    declared: Any

    def __str__(self) -> str:
        return f"{self.name} is {_shown(self.stored)}, not {_shown(self.declared)}"


def _shown(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, timedelta | Expect) else quoted(value)


def job_differences(declared: JobDetail, stored: JobDetail) -> list[ValueDifference]:
    """Return the values in which a declared job differs from the stored one.

    The data of a job that persists its data, both as declared and as stored, is not compared: executions change it.
    """
    left_out = {"job", "data"} if persists_data(declared, stored) else {"job"}
    differences = [
        ValueDifference(field.name, getattr(stored, field.name), getattr(declared, field.name))
        for field in fields(declared)
        if field.name not in left_out and _differs(declared, stored, field.name)
    ]
    if declared.job_type != stored.job_type:
        differences.insert(0, ValueDifference("job", stored.job_type, declared.job_type))
    return differences


def persists_data(declared: JobDetail, stored: JobDetail | None) -> bool:
    """Return True if the job persists its data, both as declared and as stored."""
    return bool(stored is not None and stored.persist_data and declared.persist_data)


def trigger_differences(
    declared: Trigger, stored: Trigger, declared_hash: int | None, stored_hash: int | None
) -> list[ValueDifference]:
    """Return the values in which a declared trigger differs from the stored one.

    If the hashes show that the same schedule was declared before, a start time and a repeat count that a misfire has
    changed since are not differences. A declared trigger without a start time starts when it is stored, so a stored
    start time is no difference either.
    """
    same_schedule = declared_hash is not None and declared_hash == stored_hash
    if not same_schedule and type(declared) is not type(stored):
        return [ValueDifference("kind", stored.kind, declared.kind)]
    names = [field.name for field in fields(declared) if field.compare or field.name == "data"]
    return [
        ValueDifference(name, getattr(stored, name), getattr(declared, name))
        for name in names
        if not (same_schedule and name not in _NOT_SCHEDULE)
        and not (name == "start_time" and declared.start_time is None)
        and _differs(declared, stored, name)
    ]


def calendar_differences(declared: Calendar, stored: Calendar | None) -> list[ValueDifference]:
    """Return the values in which a declared calendar differs from the stored one, in their stored form.

    Of lists that differ, such as dates, only the elements that are not in both are returned. `stored` is None for a
    calendar that cannot be read in this process.

    Raises:
        InvalidCalendarError: the declared calendar cannot be stored.
    """
    new = storable_json(declared)
    if stored is None:
        return [ValueDifference("kind", None, new["kind"])]
    old = calendar_to_json(stored)
    names = dict.fromkeys((*new, *old))
    return [_value_difference(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def _value_difference(name: str, stored: Any, declared: Any) -> ValueDifference:
    if not isinstance(stored, list) or not isinstance(declared, list):
        return ValueDifference(name, stored, declared)
    return ValueDifference(name, _without(stored, declared), _without(declared, stored))


def _without(elements: list[Any], others: list[Any]) -> list[Any]:
    excluded = set(map(json.dumps, others))
    return [element for element in elements if json.dumps(element) not in excluded]


def _differs(declared: object, stored: object, name: str) -> bool:
    declared_value, stored_value = getattr(declared, name), getattr(stored, name)
    if name == "data":
        return without_trace(declared_value or {}) != without_trace(stored_value or {})
    return bool(declared_value != stored_value)


def refuse_other_job(declared: JobDetail, stored: JobDetail | None) -> None:
    """Raise an error if a job is stored with different values.

    Raises:
        ObjectAlreadyExistsError: the job is stored with different values; the message names the differences.
    """
    if stored is None:
        # Another program stored the job and removed it again.
        raise ObjectAlreadyExistsError(f"job {declared.key} was stored by another program at the same time; try again")
    _refuse("job", declared.key, job_differences(declared, stored))


def refuse_other_trigger(declared: PreparedTrigger, stored: TriggerRecord | None) -> None:
    """Raise an error if a trigger is stored with different values. Raises as `refuse_other_job`."""
    key = declared.trigger.key
    if stored is None:
        raise ObjectAlreadyExistsError(f"trigger {key} was stored by another program at the same time; try again")
    differences = trigger_differences(declared.declared, stored.trigger, declared.schedule_hash, stored.schedule_hash)
    _refuse("trigger", key, differences)


def _refuse(kind: str, key: object, differences: Sequence[ValueDifference]) -> None:
    if differences:
        raise ObjectAlreadyExistsError(
            f"{kind} {key} exists already and is different: {'; '.join(map(str, differences))}; {_REPLACE}"
        )
