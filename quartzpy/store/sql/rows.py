"""Decodes rows into the values that `acquire`, `fire` and the lookups return."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any

from quartzpy import job_data
from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.kinds import calendar_from_json
from quartzpy.continuation import continuations_from_text
from quartzpy.errors import InvalidCalendarError, InvalidTriggerError
from quartzpy.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.placement import placement_from_text
from quartzpy.rate_limit import RateLimit
from quartzpy.retry import RetryPolicy
from quartzpy.store.protocol import AcquiredTrigger, FiredTrigger, SkippedTrigger, no_calendar
from quartzpy.texts import reason, stored_object
from quartzpy.triggers.kinds import stored_schedule
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import UpcomingFireTimes

_CATCH_UP = "catch_up"


@lru_cache(maxsize=4096)
def _schedule(text: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Decode the column `schedule` into the values of the trigger's kind and the catch-up limits."""
    parsed = stored_object(text, "schedule", InvalidTriggerError)
    try:
        bounds = parsed.pop(_CATCH_UP, {})
        within = bounds.get("within_us")
        return parsed, {
            "catch_up_max": bounds.get("max"),
            "catch_up_within": None if within is None else timedelta(microseconds=within),
        }
    except (AttributeError, TypeError, OverflowError) as error:
        raise InvalidTriggerError(f"schedule: {_CATCH_UP} cannot be read: {reason(error)}") from error


def schedule_text(trigger: Trigger) -> str:
    """Return the column `schedule`: the values specific to the kind, and the catch-up limits if any."""
    schedule = trigger.schedule()
    if trigger.catches_up:
        within = trigger.catch_up_within
        schedule[_CATCH_UP] = {
            "max": trigger.catch_up_max,
            "within_us": None if within is None else within // timedelta.resolution,
        }
    return json.dumps(schedule)


def trigger(
    name: str,
    group: str,
    job_group: str,
    job_name: str,
    kind: str,
    schedule: str,
    description: str | None,
    start_time: datetime,
    end_time: datetime | None,
    priority: int,
    misfire: str,
    misfire_threshold: timedelta | None,
    calendar: str | None,
    data: str | None,
) -> Trigger:
    """Build a trigger from its columns. Raises InvalidValueError if the row does not describe a valid trigger."""
    of_kind, bounds = _schedule(schedule)
    return stored_schedule(
        kind,
        of_kind,
        name=name,
        group=group,
        job_key=JobKey(job_name, job_group),
        description=description,
        start_time=start_time,
        end_time=end_time,
        priority=priority,
        misfire=misfire,
        misfire_threshold=misfire_threshold,
        calendar=calendar,
        data=job_data.decode(data) or None,
        **bounds,
    )


def job(
    name: str,
    group: str,
    job_type: str,
    description: str | None,
    durable: bool,
    max_concurrent: int | None,
    overlap_policy: str,
    concurrency_key: str | None,
    placement: str,
    persist_data: bool,
    requests_recovery: bool,
    retry: str | None,
    timeout: timedelta | None,
    pause_after_failures: int | None,
    data: str | None,
    continuations: str | None,
    rate_limit: str | None,
    display_name: str | None,
    capture_logs: str | None,
) -> JobDetail:
    """Build a job from its columns."""
    where = placement_from_text(placement)
    return JobDetail(
        job_type,
        name,
        group,
        description=description,
        durable=durable,
        max_concurrent=max_concurrent,
        overlap_policy=overlap_policy,
        concurrency_key=concurrency_key,
        persist_data=persist_data,
        requests_recovery=requests_recovery,
        retry=RetryPolicy.from_text(retry) if retry else None,
        timeout=timeout,
        pause_after_failures=pause_after_failures,
        executor=where.executor or None,
        execution_group=where.group or None,
        requires=where.requires,
        data=job_data.decode(data) or None,
        continuations=continuations_from_text(continuations),
        rate_limit=RateLimit.from_text(rate_limit) if rate_limit else None,
        display_name=display_name,
        capture_logs=capture_logs,
    )


@lru_cache(maxsize=256)
def calendar_from_text(text: str) -> Calendar:
    """Decode a stored calendar."""
    return calendar_from_json(stored_object(text, "calendar", InvalidCalendarError))


def by_outcome(
    found: Iterable[tuple[Any, ...]],
) -> tuple[tuple[FiredTrigger, ...], tuple[AcquiredTrigger, ...], tuple[SkippedTrigger, ...]]:
    """Decode rows of `claims.CLAIMED`, grouped by outcome: fired, claimed, skipped."""
    values = [decode_row(row) for row in found]
    return (
        tuple(one for one in values if isinstance(one, FiredTrigger)),
        tuple(one for one in values if isinstance(one, AcquiredTrigger)),
        tuple(one for one in values if isinstance(one, SkippedTrigger)),
    )


def decode_row(row: tuple[Any, ...]) -> FiredTrigger | AcquiredTrigger | SkippedTrigger:
    """Decode a row of `claims.CLAIMED`."""
    (
        decision, fire_id, at, trigger_group, trigger_name, job_group, job_name, job_type, generation, scheduled,
        previous, following, upcoming, is_complete, times_triggered, attempt, max_concurrent, overlap_policy, placement,
        trigger_data, _, kind,
        schedule, description, start, end, priority, misfire, misfire_threshold, calendar, job_description,
        durable, persists_data, requests_recovery, retry, timeout, stored_data, calendar_text, calendar_revision,
        coalesced_fire_times, node_deaths, pause_after_failures, key_entry, continuations,
        rate_limit,
        display_name, capture_logs,
    ) = row  # fmt: skip
    load_trigger = partial(
        trigger, trigger_name, trigger_group, job_group, job_name, kind, schedule, description, start, end, priority,
        misfire, misfire_threshold, calendar,
    )  # fmt: skip
    load_calendar = partial(calendar_from_text, calendar_text) if calendar_text else no_calendar
    if decision == "SKIP":
        return SkippedTrigger(TriggerKey(trigger_name, trigger_group), JobKey(job_name, job_group), scheduled)
    if decision == "CLAIM":
        progress = TriggerProgress(scheduled, previous, times_triggered)
        return AcquiredTrigger(
            fire_id, trigger_group, trigger_name, progress, generation, partial(load_trigger, None), load_calendar,
            placement, overlap_policy, max_concurrent,
        )  # fmt: skip
    return FiredTrigger(
        fire_id=fire_id,
        trigger_group=trigger_group,
        trigger_name=trigger_name,
        job_group=job_group,
        job_name=job_name,
        job_type=job_type,
        generation=generation,
        fire_time=at,
        scheduled_fire_time=scheduled,
        previous_fire_time=previous,
        next_fire_time=following,
        upcoming=UpcomingFireTimes(tuple(upcoming), is_complete),
        times_triggered=times_triggered,
        attempt=attempt,
        placement=placement,
        coalesced_fire_times=tuple(coalesced_fire_times or ()),
        node_deaths=node_deaths,
        pause_after_failures=pause_after_failures,
        continues=continuations is not None,
        max_concurrent=max_concurrent,
        capture_logs=capture_logs,
        retry=retry,
        timeout=timeout,
        persists_data=persists_data,
        job_data=stored_data,
        trigger_data=trigger_data,
        calendar_revision=calendar_revision,
        load_trigger=partial(load_trigger, trigger_data),
        load_calendar=load_calendar,
        load_job=partial(
            job, job_name, job_group, job_type, job_description, durable, max_concurrent, overlap_policy,
            key_entry, placement,
            persists_data,
            requests_recovery, retry, timeout, pause_after_failures, stored_data, continuations, rate_limit,
            display_name, capture_logs,
        ),
    )  # fmt: skip
