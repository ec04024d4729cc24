"""One-shot triggers that run a job again (recovery, retry), or after another one (continuation)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from quartzpy.job_data import encode
from quartzpy.jobs.continuation import Predecessor
from quartzpy.jobs.internal_entries import (
    RecoveredExecution,
    continuation_data,
    nominal_entry,
    nominal_fire,
    recovery_data,
    repeats,
)
from quartzpy.keys import CONTINUATIONS, RECOVERING_JOBS, RETRYING_JOBS
from quartzpy.states import Outcome, TriggerState
from quartzpy.store.memory.rows import FiredRow, JobRow, TriggerRow, concurrency_key
from quartzpy.store.memory.tables import Tables
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.upcoming import UpcomingFireTimes


def repeat(tables: Tables, row: FiredRow, job: JobRow, after: timedelta, outcome: Outcome) -> TriggerRow:
    """Store a trigger that fires once: for the next attempt at an execution that failed, or that was snoozed, or at its
    own instant and under Quartz's names for one whose node died.
    """
    if outcome is Outcome.TERMINATED:
        original = recovery_data(RecoveredExecution(row.trigger_key, row.fire_time, row.scheduled_time))
        name = f"recover_{row.instance_id[:150]}_{row.fire_id}"
        return store_once(tables, row, job, RECOVERING_JOBS, name, row.scheduled_time, row.attempt, original)
    original = repeats(row.trigger_key, row.scheduled_time, {})
    attempt = row.attempt + (outcome is Outcome.FAILED)
    name = f"retry_{row.attempt}_{row.fire_id}"
    at = tables.now() + after
    return store_once(tables, row, job, RETRYING_JOBS, name, at, attempt, original)


def follow(tables: Tables, row: FiredRow, job: JobRow, outcome: Outcome, result: str | None) -> list[TriggerRow]:
    """Store a trigger that fires once for each job that runs after an execution which ended so."""
    stored = []
    for place, link in enumerate(job.continuations, start=1):
        target = tables.jobs.get(link.key)
        if target is None or outcome not in link.outcomes:
            continue
        ended = Predecessor(job.key, row.fire_id, outcome, None if result is None else json.loads(result))
        data = {**json.loads(encode(link.data) or "{}"), **nominal_entry(instant_of(row))}
        after = replace(row, job_key=target.key, trigger_data=json.dumps(data, ensure_ascii=False), fired=None)
        name = f"after_{row.fire_id}_{place}"
        stored.append(store_once(tables, after, target, CONTINUATIONS, name, tables.now(), 1, continuation_data(ended)))
    return stored


def instant_of(row: FiredRow) -> datetime:
    """Return the scheduled instant for which an execution counts."""
    coalesced = () if row.fired is None else row.fired.coalesced_fire_times
    if coalesced:
        return coalesced[-1]
    return nominal_fire(row.trigger_key, row.scheduled_time, json.loads(row.trigger_data or "{}"))[1]


def store_once(
    tables: Tables,
    row: FiredRow,
    job: JobRow,
    group: str,
    name: str,
    at: datetime,
    attempt: int,
    original: Mapping[str, Any],
) -> TriggerRow:
    """Store a trigger that fires a job once."""
    trigger = SimpleTrigger(
        name=name,
        group=group,
        job_key=row.job_key,
        start_time=at,
        repeat_count=0,
        priority=row.priority,
        misfire="ignore",
    )
    again = TriggerRow(trigger, job, tables.next_number(), trigger.started(), UpcomingFireTimes(is_complete=True))
    # An execution that is itself a repetition already carries the keys of the first original; those are kept.
    again.data = json.dumps({**original, **json.loads(row.trigger_data or "{}")}, ensure_ascii=False)
    again.attempt = attempt
    again.concurrency_key = concurrency_key(job.concurrency_key, job.data, again.data)
    again.coalesced_fire_times = () if row.fired is None else row.fired.coalesced_fire_times
    paused = tables.pauses.cover(again.key, job)
    tables.add_trigger(again, TriggerState.PAUSED if paused else TriggerState.WAITING)
    return again
