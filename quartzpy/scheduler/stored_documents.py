"""The JSON documents of jobs, triggers and calendars that are stored, in the words of a declared file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import date, datetime, time
from typing import Any

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.registry import calendar_to_json
from quartzpy.errors import InvalidValueError
from quartzpy.jobs.job import JobDetail
from quartzpy.scheduler.declarations import SCHEDULE
from quartzpy.scheduler.document_faults import Faults
from quartzpy.scheduler.document_forms import data_entry
from quartzpy.scheduler.documents import read_trigger_document
from quartzpy.scheduler.exporting import definition_of, plain_value
from quartzpy.store.records import TriggerRecord
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import schedule_hash


def job_document(job: JobDetail) -> dict[str, Any]:
    """Return the document of a job. It does not depend on what this process has imported.

    Of a job that persists its data, the document has none: executions change it.
    """
    named = replace(job, job=job.job_type)
    values = {"name": job.name, "group": job.group, **definition_of(named)}
    values.pop("durable", None)
    if not job.durable:
        values["durable"] = False
    if job.concurrency_key is not None and job.max_concurrent is None:
        values["disallow_concurrent"] = job.disallow_concurrent
    if job.continuations:
        values["continuations"] = [
            {
                "job": continuation.key.name,
                "group": continuation.key.group,
                "outcomes": [str(outcome) for outcome in continuation.outcomes],
                **data_entry(continuation.data),
            }
            for continuation in job.continuations
        ]
    return values if job.persist_data else {**values, **data_entry(job.data)}


def trigger_document(record: TriggerRecord) -> dict[str, Any]:
    """Return the document of a trigger, as it was declared: without a start time if it had none."""
    trigger = record.trigger
    if record.schedule_hash is not None and trigger.start_time is not None:
        unbound = replace(trigger, start_time=None)
        trigger = unbound if schedule_hash(unbound) == record.schedule_hash else trigger
    return document_of_declared(trigger)


def document_of_declared(trigger: Trigger) -> dict[str, Any]:
    """Return the document that declares this trigger, which has a job."""
    assert trigger.job_key is not None
    job = {"name": trigger.job_key.name, "group": trigger.job_key.group}
    common: dict[str, Any] = {"name": trigger.name, "group": trigger.group, "job": job, "kind": trigger.kind}
    shared = {value_field.name for value_field in fields(Trigger)}
    own: dict[str, Any] = {}
    for value_field in fields(trigger):
        value = getattr(trigger, value_field.name)
        if value_field.name not in {*common, "job_key", "data", "rescheduled_from"} and value != value_field.default:
            own[value_field.name] = _json_of(plain_value(value))
    own = {name: value for name, value in own.items() if value is not None}
    data = data_entry(trigger.data)
    brief = {name: value for name, value in own.items() if name != "dialect"}
    for values in (brief, own):
        if _reads_back({**common, **values}, trigger):
            return {**common, **values, **data}
    shared_values = {name: value for name, value in own.items() if name in shared}
    return {**common, SCHEDULE: trigger.schedule(), **shared_values, **data}


def calendar_document(calendar: BaseCalendar) -> dict[str, Any]:
    """Return the document of a calendar. Raises InvalidCalendarError if it cannot be stored."""
    return calendar_to_json(calendar)


def _json_of(value: Any) -> Any:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case list() | tuple():
            return [_json_of(part) for part in value]
    return value


def _reads_back(values: Mapping[str, Any], trigger: Trigger) -> bool:
    try:
        json.dumps(values)
        faults = Faults()
        read = read_trigger_document(values, trigger.key, faults)
    except (TypeError, InvalidValueError):
        return False
    return not faults.entries and read == replace(trigger, data=None)
