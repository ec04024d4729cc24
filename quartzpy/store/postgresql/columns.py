"""Keys, jobs and triggers as columns: the values of a statement that takes a list for each column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from quartzpy import job_data
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import Unreconciled
from quartzpy.store.postgresql.schema.rows import JobColumns, TriggerColumns
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger


def key_columns(keys: Iterable[JobKey] | Iterable[TriggerKey]) -> dict[str, list[str]]:
    """Return the columns of keys."""
    several = list(keys)
    return {"groups": [key.group for key in several], "names": [key.name for key in several]}


def _by_column(rows: Sequence[JobColumns] | Sequence[TriggerColumns], fields: Iterable[str]) -> dict[str, list[Any]]:
    """Return the list of each column; statements take the column `x` as the value `x_list`."""
    columns: Iterable[Iterable[Any]] = zip(*rows, strict=True) if rows else repeat(())
    return {f"{field}_list": list(column) for field, column in zip(fields, columns, strict=False)}


def job_columns(jobs: Sequence[JobDetail]) -> dict[str, list[Any]]:
    """Return all values of jobs."""
    return _by_column([JobColumns.of(job) for job in jobs], JobColumns._fields)


def trigger_columns(prepared: Sequence[PreparedTrigger], *, are_settled_later: bool) -> dict[str, Any]:
    """Return all values of triggers; no step takes those that are settled later (see the acquire step)."""
    return {
        **_by_column(
            [TriggerColumns.of(prepared_trigger.trigger) for prepared_trigger in prepared], TriggerColumns._fields
        ),
        "next": [prepared_trigger.progress.next_fire_time for prepared_trigger in prepared],
        "previous": [prepared_trigger.progress.previous_fire_time for prepared_trigger in prepared],
        "upcoming": [prepared_trigger.upcoming.instants for prepared_trigger in prepared],
        "complete": [prepared_trigger.upcoming.is_complete for prepared_trigger in prepared],
        "times": [prepared_trigger.progress.times_triggered for prepared_trigger in prepared],
        "unreconciled": Unreconciled.NEW if are_settled_later else None,
        "hashes": [prepared_trigger.schedule_hash for prepared_trigger in prepared],
    }


def size_of_job(job: JobDetail) -> int:
    """Return roughly the number of bytes of a job's values of unlimited number."""
    return len(job_data.encode(job.data) or "") + len(job.continuations_text or "")


def size_of_trigger(new_trigger: PreparedTrigger | UnpreparedTrigger) -> int:
    """Return roughly the number of bytes of a trigger's largest value."""
    data = new_trigger.trigger.data
    return len(job_data.encode(data) or "") if data else 0
