"""The JSON documents of jobs, triggers and calendars that are stored, in the words of a declared file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quartzpy.definitions.documents import read_trigger_document
from quartzpy.definitions.faults import Faults
from quartzpy.definitions.forms import data_entry
from quartzpy.definitions.plain import continuation_table, definition_of, text_of_time, trigger_values
from quartzpy.errors import InvalidValueError
from quartzpy.jobs.job import JobDetail
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
            {**continuation_table(continuation), **data_entry(continuation.data)} for continuation in job.continuations
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
    data = data_entry(trigger.data)
    return trigger_values(
        trigger,
        {"name": trigger.name, "group": trigger.group, "job": job, "kind": trigger.kind},
        data,
        text_of=text_of_time,
        schedule_of=lambda schedule: schedule,
        reads_back=lambda values: _reads_back(
            {name: value for name, value in values.items() if name not in data}, trigger
        ),
    )


def _reads_back(values: Mapping[str, Any], trigger: Trigger) -> bool:
    try:
        json.dumps(values)
        faults = Faults()
        read = read_trigger_document(values, trigger.key, faults)
    except (TypeError, InvalidValueError):
        return False
    return not faults.entries and read == replace(trigger, data=None)
