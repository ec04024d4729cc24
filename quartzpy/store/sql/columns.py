"""Keys, jobs and triggers as columns: the values of a statement that takes a list for each column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from quartzpy import job_data
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.sql.db import rows
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger


def key_columns(keys: Iterable[JobKey] | Iterable[TriggerKey]) -> dict[str, list[str]]:
    """Return the columns of keys."""
    several = list(keys)
    return {"groups": [key.group for key in several], "names": [key.name for key in several]}


def copied_columns(jobs: Sequence[JobDetail]) -> dict[str, list[Any]]:
    """Return the keys of jobs, and the values of which their triggers have copies."""
    return {
        "groups": [job.group for job in jobs],
        "names": [job.name for job in jobs],
        "types": [job.job_type for job in jobs],
        "limits": [job.max_concurrent for job in jobs],
        "overlap_policy": [str(job.overlap_policy) for job in jobs],
        "placements": [job.placement.as_text() for job in jobs],
        "concurrency_keys": [job.concurrency_key for job in jobs],
        "rate_limits": [job.rate_limit.as_text() if job.rate_limit else None for job in jobs],
    }


def job_columns(jobs: Sequence[JobDetail]) -> dict[str, list[Any]]:
    """Return all values of jobs."""
    return {
        **copied_columns(jobs),
        "descriptions": [job.description for job in jobs],
        "durable": [job.durable for job in jobs],
        "persists": [job.persist_data for job in jobs],
        "recovery": [job.requests_recovery for job in jobs],
        "retries": [job.retry.as_text() if job.retry else None for job in jobs],
        "timeouts": [job.timeout for job in jobs],
        "pause_after": [job.pause_after_failures for job in jobs],
        "data": [job_data.encode(job.data) for job in jobs],
        "continuations": [job.continuations_text for job in jobs],
        "display_names": [job.display_name for job in jobs],
        "capture_logs": [job.capture_logs for job in jobs],
    }


def trigger_columns(prepared: Sequence[PreparedTrigger], *, are_settled_later: bool) -> dict[str, list[Any]]:
    """Return all values of triggers; no step takes those that are settled later (see `storing`)."""
    triggers = [one.trigger for one in prepared]
    keys = [trigger.job_key for trigger in triggers]
    return {
        "groups": [trigger.group for trigger in triggers],
        "names": [trigger.name for trigger in triggers],
        "job_groups": [key.group if key else None for key in keys],
        "job_names": [key.name if key else None for key in keys],
        "descriptions": [trigger.description for trigger in triggers],
        "kinds": [trigger.kind for trigger in triggers],
        "schedules": [rows.schedule_text(trigger) for trigger in triggers],
        "next": [one.progress.next_fire_time for one in prepared],
        "previous": [one.progress.previous_fire_time for one in prepared],
        "upcoming": [one.upcoming.instants for one in prepared],
        "complete": [one.upcoming.is_complete for one in prepared],
        "times": [one.progress.times_triggered for one in prepared],
        "starts": [trigger.start_time for trigger in triggers],
        "ends": [trigger.end_time for trigger in triggers],
        "priorities": [trigger.priority for trigger in triggers],
        "misfires": [str(trigger.misfire) for trigger in triggers],
        "rules": ["NEW" if are_settled_later else _misfire_rule(one) for one in prepared],
        "thresholds": [trigger.misfire_threshold for trigger in triggers],
        "calendars": [trigger.calendar for trigger in triggers],
        "data": [job_data.encode(trigger.data) for trigger in triggers],
        "hashes": [one.schedule_hash for one in prepared],
    }


def _misfire_rule(prepared: PreparedTrigger) -> str:
    if prepared.trigger.ignores_misfires:
        return "IGNORE"
    return "SCHEDULER" if prepared.trigger.misfire_threshold is None else "OWN"


def size_of_job(job: JobDetail) -> int:
    """Return roughly the number of bytes of a job's values of unlimited number."""
    return len(job_data.encode(job.data) or "") + len(job.continuations_text or "")


def size_of_trigger(one: PreparedTrigger | UnpreparedTrigger) -> int:
    """Return roughly the number of bytes of a trigger's largest value."""
    data = one.trigger.data
    return len(job_data.encode(data) or "") if data else 0
