"""Triggers that the scheduler itself makes, in words: their keys say nothing to people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from quartzpy.job_data import INTERNAL_KEYS
from quartzpy.jobs.internal_entries import nominal_fire
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import CONTINUATIONS, MANUAL_TRIGGERS, RECOVERING_JOBS, RETRYING_JOBS, TriggerKey
from quartzpy.operations.read_context import attempt
from quartzpy.store.records import TriggerRecord

GROUPS: Mapping[str, str] = {
    MANUAL_TRIGGERS: "by hand",
    RETRYING_JOBS: "retries",
    RECOVERING_JOBS: "recoveries",
    CONTINUATIONS: "continuations",
}
"""The groups of these triggers, in words."""
_KINDS: Mapping[str, str] = {
    MANUAL_TRIGGERS: "by hand",
    RETRYING_JOBS: "retry",
    RECOVERING_JOBS: "recovery",
    CONTINUATIONS: "continuation",
}
_ANY_TIME = datetime.fromtimestamp(0, UTC)
_RETRY = re.compile(r"retry_(\d{1,6})_\d+")


def kind_of(key: TriggerKey, retries: int | None = None) -> str | None:
    """Return what a trigger is for: "by hand", "retry 2", or "retry 2 of 3" with the number that its job allows.

    None for one that somebody scheduled.
    """
    kind = _KINDS.get(key.group)
    number = _RETRY.fullmatch(key.name) if key.group == RETRYING_JOBS else None
    if number is None:
        return kind
    return f"{kind} {number[1]}" if retries is None else f"{kind} {number[1]} of {retries}"


def repeated_by(record: TriggerRecord) -> TriggerKey | None:
    """Return the trigger whose execution one of these repeats: by a retry, a recovery, a backfill; None for others."""
    if record.key.group not in GROUPS:
        return None
    trigger, _ = attempt(lambda: record.trigger)
    if trigger is None or not trigger.data:
        return None
    data = trigger.data
    first, _ = attempt(lambda: nominal_fire(record.key, _ANY_TIME, data)[0])
    return None if first == record.key else first


def retries_of(job: JobDetail | None) -> int | None:
    """Return the number of retries that a job allows."""
    return None if job is None or job.retry is None else job.retry.attempts - 1


def without_internals(data: Mapping[str, object]) -> dict[str, object]:
    """Return data without the entries by which the scheduler remembers what a trigger repeats or continues."""
    return {name: value for name, value in data.items() if name not in INTERNAL_KEYS}
