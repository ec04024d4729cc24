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
from quartzpy.errors import InvalidCalendarError, InvalidTriggerError
from quartzpy.instants import as_instant
from quartzpy.jobs.continuation import continuations_from_text
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import JobKey, TriggerKey, unchecked_key
from quartzpy.placement import placement_from_text
from quartzpy.store.protocol import AcquiredTrigger, FiredTrigger, SkippedTrigger
from quartzpy.texts import reason, stored_object
from quartzpy.triggers.kinds import stored_schedule
from quartzpy.triggers.trigger import Trigger, TriggerProgress, is_copied, trigger_kind
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


@lru_cache(maxsize=4096)
def _pattern(kind: str, schedule: str, misfire: str) -> Trigger:
    """Return a trigger of this kind, schedule and misfire instruction, of which others with the same are copies.

    There are few different ones, so what can be wrong with them is checked once, and not for each trigger and fire.
    """
    values, bounds = _schedule(schedule)
    return stored_schedule(kind, values, misfire=misfire, **bounds)


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
    """Build a trigger from its columns, whose values were checked when it was stored.

    Raises:
        InvalidValueError: its kind, its schedule or its misfire instruction cannot be read.
    """
    common = {
        "name": name,
        "group": group,
        "job_key": unchecked_key(JobKey, job_name, job_group),
        "description": description,
        # A connection of a user may have another time zone, by whose wall clock Python would compute.
        "start_time": as_instant(start_time, "start_time"),
        "end_time": None if end_time is None else as_instant(end_time, "end_time"),
        "priority": priority,
        "misfire_threshold": misfire_threshold,
        "calendar": calendar,
        "data": job_data.decode(data) or None,
    }
    if is_copied(trigger_kind(kind)):
        return _pattern(kind, schedule, misfire).with_checked(common)
    values, bounds = _schedule(schedule)
    return stored_schedule(kind, values, misfire=misfire, **common, **bounds)


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


class _FiredRow(FiredTrigger):
    """A fire that is read from its row where it is asked. Few executions ask for more than the names and the times."""

    __slots__ = ("_row",)

    def __init__(self, row: tuple[Any, ...]) -> None:
        self._row = row
        (
            _, self.fire_id, self.fire_time, self.trigger_group, self.trigger_name, self.job_group, self.job_name,
            self.job_type, self.generation, self.scheduled_fire_time, self.previous_fire_time, self.next_fire_time,
            _, _, self.times_triggered, self.attempt, self.max_concurrent, _, self.placement, self.trigger_data, _, _,
            _, _, _, _, _, _, _, _, _,
            self.job_is_durable, self.persists_data, _, self.retry, self.timeout, self.job_data, _,
            self.calendar_revision,
            coalesced, self.node_deaths, self.pause_after_failures, _, continuations,
            _, _, self.capture_logs,
        ) = row  # fmt: skip
        self.coalesced_fire_times = tuple(coalesced) if coalesced else ()
        self.continues = continuations is not None
        self._nothing_is_built()

    def _built_upcoming(self) -> UpcomingFireTimes | None:
        instants = self._row[_UPCOMING]
        return None if instants is None else UpcomingFireTimes(tuple(instants), self._row[_UPCOMING + 1])

    def _built_trigger(self) -> Trigger:
        return _trigger_of(self._row, self.trigger_data)

    def _built_calendar(self) -> Calendar | None:
        return _calendar_of(self._row)

    def _built_job(self) -> JobDetail:
        (
            _, _, _, _, _, job_group, job_name, job_type, _, _,
            _, _, _, _, _, _, max_concurrent, overlap_policy, placement,
            _, _, _,
            _, _, _, _, _, _, _, _, description,
            durable, persists_data, requests_recovery, retry, timeout, data, _, _,
            _, _, pause_after_failures, concurrency_key, continuations,
            rate_limit, display_name, capture_logs,
        ) = self._row  # fmt: skip
        return job(
            job_name, job_group, job_type, description, durable, max_concurrent, overlap_policy, concurrency_key,
            placement, persists_data, requests_recovery, retry, timeout, pause_after_failures, data, continuations,
            rate_limit, display_name, capture_logs,
        )  # fmt: skip


_UPCOMING = 12
"""The place of the column `upcoming` in a row of `acquire.ACQUIRE`, before the one that says whether it is complete."""


def _trigger_of(row: tuple[Any, ...], data: str | None) -> Trigger:
    (
        _, _, _, group, name, job_group, job_name, _, _, _,
        _, _, _, _, _, _, _, _, _,
        _, _, kind,
        schedule, description, start, end, priority, misfire, misfire_threshold, calendar, _,
        _, _, _, _, _, _, _, _,
        _, _, _, _, _,
        _, _, _,
    ) = row  # fmt: skip
    return trigger(
        name, group, job_group, job_name, kind, schedule, description, start, end, priority, misfire,
        misfire_threshold, calendar, data,
    )  # fmt: skip


def _calendar_of(row: tuple[Any, ...]) -> Calendar | None:
    text = row[37]
    return calendar_from_text(text) if text else None


def by_outcome(
    found: Iterable[tuple[Any, ...]],
) -> tuple[tuple[FiredTrigger, ...], tuple[AcquiredTrigger, ...], tuple[SkippedTrigger, ...]]:
    """Decode rows of `acquire.ACQUIRE`, grouped by outcome: fired, claimed, skipped."""
    fired: list[FiredTrigger] = []
    claimed: list[AcquiredTrigger] = []
    skipped: list[SkippedTrigger] = []
    for row in found:
        decision = row[0]
        if decision == "FIRE":
            fired.append(_FiredRow(row))
        elif decision == "CLAIM":
            claimed.append(_claim(row))
        else:
            _, _, _, trigger_group, trigger_name, job_group, job_name, _, _, scheduled, _, next_fire_time, *_ = row
            trigger_key, job_key = TriggerKey(trigger_name, trigger_group), JobKey(job_name, job_group)
            skipped.append(SkippedTrigger(trigger_key, job_key, scheduled, next_fire_time))
    return tuple(fired), tuple(claimed), tuple(skipped)


def _claim(row: tuple[Any, ...]) -> AcquiredTrigger:
    (
        _, fire_id, _, trigger_group, trigger_name, _, _, _, generation, scheduled,
        previous, _, _, _, times_triggered, _, max_concurrent, overlap_policy, placement, *_,
    ) = row  # fmt: skip
    return AcquiredTrigger(
        fire_id,
        trigger_group,
        trigger_name,
        TriggerProgress(scheduled, previous, times_triggered),
        generation,
        partial(_trigger_of, row, None),
        partial(_calendar_of, row),
        placement,
        overlap_policy,
        max_concurrent,
    )
