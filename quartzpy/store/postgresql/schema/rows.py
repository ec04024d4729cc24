"""Jobs, triggers and fires as rows: the lists of their columns, and how values are encoded and decoded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple, cast

from quartzpy import job_data
from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.registry import calendar_from_json
from quartzpy.errors import InvalidCalendarError, InvalidTriggerError
from quartzpy.expect import Expect
from quartzpy.instants import as_instant
from quartzpy.jobs.continuation import continuations_from_text
from quartzpy.jobs.fired_trigger import FiredTrigger, FireFacts
from quartzpy.jobs.job import JobDetail, OverlapPolicyName
from quartzpy.jobs.join import join_from_text
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.jobs.shared_limit import names_from_text
from quartzpy.jobs.stored_options import options_from_text, options_text
from quartzpy.keys import JobKey, TriggerKey, unchecked_key
from quartzpy.placement import placement_from_text
from quartzpy.states import Unreconciled
from quartzpy.store.protocol import SkippedTrigger, UnfilledTrigger
from quartzpy.texts import reason, stored_object
from quartzpy.triggers.registry import stored_schedule
from quartzpy.triggers.trigger import Trigger, TriggerProgress, is_copied, trigger_kind
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger

ANY_TIME = "-infinity"
"""Where a read of all fire times begins."""
_CATCH_UP, _EXPECT = "catch_up", "expect"


@lru_cache(maxsize=4096)
def _schedule(text: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Decode the column `schedule` into the values of the trigger's kind, and the catch-up limits and expectation."""
    parsed = stored_object(text, "schedule", InvalidTriggerError)
    try:
        bounds = parsed.pop(_CATCH_UP, {})
        within, expect = bounds.get("within_us"), parsed.pop(_EXPECT, None)
        return parsed, {
            "catch_up_max": bounds.get("max"),
            "catch_up_within": None if within is None else timedelta(microseconds=within),
            "expect": None if expect is None else Expect.from_json(expect),
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
    """Return the column `schedule`: the values of the kind, and the catch-up limits and the expectation if any."""
    schedule = trigger.schedule()
    if trigger.catches_up:
        within = trigger.catch_up_within
        schedule[_CATCH_UP] = {
            "max": trigger.catch_up_max,
            "within_us": None if within is None else within // timedelta.resolution,
        }
    if trigger.expect is not None:
        schedule[_EXPECT] = json.loads(trigger.expect.as_text())
    return json.dumps(schedule)


class TriggerColumns(NamedTuple):
    """The columns of which a trigger is built: the one list of them."""

    trigger_name: str
    trigger_group: str
    job_group: str
    job_name: str
    kind: str
    schedule: str
    description: str | None
    start_time: datetime
    end_time: datetime | None
    priority: int
    misfire_instruction: str
    misfire_threshold: timedelta | None
    calendar_name: str | None
    trigger_data: str | None

    @classmethod
    def of(cls, trigger: Trigger) -> TriggerColumns:
        # What is stored has a name and a start time; the server refuses a trigger without a job.
        name: Any = trigger.name
        start_time: Any = trigger.start_time
        job_key: Any = trigger.job_key
        return cls(
            trigger_name=name,
            trigger_group=trigger.group,
            job_group=job_key and job_key.group,
            job_name=job_key and job_key.name,
            kind=trigger.kind,
            schedule=schedule_text(trigger),
            description=trigger.description,
            start_time=start_time,
            end_time=trigger.end_time,
            priority=trigger.priority,
            misfire_instruction=str(trigger.misfire),
            misfire_threshold=trigger.misfire_threshold,
            calendar_name=trigger.calendar,
            trigger_data=job_data.encode(trigger.data) if trigger.data else None,
        )

    def trigger(self, *, with_data: bool = True) -> Trigger:
        """Build the trigger, whose values were checked when it was stored.

        Raises:
            InvalidValueError: its kind, its schedule or its misfire instruction cannot be read.
        """
        common = {
            "name": self.trigger_name,
            "group": self.trigger_group,
            "job_key": unchecked_key(JobKey, self.job_name, self.job_group),
            "description": self.description,
            # A connection of a user may have another time zone, by whose wall clock Python would compute.
            "start_time": as_instant(self.start_time, "start_time"),
            "end_time": None if self.end_time is None else as_instant(self.end_time, "end_time"),
            "priority": self.priority,
            "misfire_threshold": self.misfire_threshold,
            "calendar": self.calendar_name,
            "data": (job_data.decode(self.trigger_data) or None) if with_data else None,
        }
        if is_copied(trigger_kind(self.kind)):
            return _pattern(self.kind, self.schedule, self.misfire_instruction).with_checked(common)
        values, bounds = _schedule(self.schedule)
        return stored_schedule(self.kind, values, misfire=self.misfire_instruction, **common, **bounds)


class JobColumns(NamedTuple):
    """The columns of a job: the one list of them."""

    job_name: str
    job_group: str
    job_type: str
    job_is_durable: bool
    max_concurrent: int | None
    overlap_policy: OverlapPolicyName
    placement: str
    persists_data: bool
    requests_recovery: bool
    definition: str | None
    pause_after_failures: int | None
    job_data: str | None
    continuations: str | None
    limits: str | None
    # The part `rest_of_job` of the SQL: what only the built job has.
    key_entry: str | None
    rate_limit: str | None
    after: str | None
    expect: str | None

    @classmethod
    def of(cls, job: JobDetail) -> JobColumns:
        return cls(
            job_name=job.name,
            job_group=job.group,
            job_type=job.job_type,
            job_is_durable=job.durable,
            max_concurrent=job.max_concurrent,
            overlap_policy=cast(OverlapPolicyName, str(job.overlap_policy)),
            placement=job.placement.text,
            persists_data=bool(job.persist_data),
            requests_recovery=job.requests_recovery,
            definition=options_text(job),
            pause_after_failures=job.pause_after_failures,
            job_data=job_data.encode(job.data),
            continuations=job.continuations_text,
            limits=job.limits_text,
            key_entry=job.concurrency_key,
            rate_limit=job.rate_limit.as_text() if job.rate_limit else None,
            after=job.after_text,
            expect=job.expect.as_text() if job.expect else None,
        )

    @property
    def has_rate(self) -> bool:
        """True if it has a rate limit of its own."""
        return self.rate_limit is not None

    def job(self) -> JobDetail:
        """Build the job."""
        where = placement_from_text(self.placement)
        return JobDetail(
            self.job_type,
            self.job_name,
            self.job_group,
            durable=self.job_is_durable,
            max_concurrent=self.max_concurrent,
            overlap_policy=self.overlap_policy,
            concurrency_key=self.key_entry,
            persist_data=self.persists_data,
            requests_recovery=self.requests_recovery,
            pause_after_failures=self.pause_after_failures,
            executor=where.executor or None,
            execution_group=where.group or None,
            requires=where.requires,
            data=job_data.decode(self.job_data) or None,
            continuations=continuations_from_text(self.continuations),
            rate_limit=RateLimit.from_text(self.rate_limit) if self.rate_limit else None,
            after=join_from_text(self.after),
            limits=names_from_text(self.limits),
            expect=Expect.from_text(self.expect) if self.expect else None,
            **options_from_text(self.definition),
        )


# --- as the values of a statement that takes a list for each column


def key_columns(several: Iterable[JobKey | TriggerKey | JobDetail | Trigger]) -> dict[str, list[Any]]:
    """Return the columns of keys, or of the keys of jobs or triggers."""
    keyed = list(several)
    return {"groups": [each.group for each in keyed], "names": [each.name for each in keyed]}


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
    return len(job_data.encode(job.data) or "") + len(job.continuations_text or "") + len(job.after_text or "")


def size_of_trigger(new_trigger: PreparedTrigger | UnpreparedTrigger) -> int:
    """Return roughly the number of bytes of a trigger's largest value."""
    data = new_trigger.trigger.data
    return len(job_data.encode(data) or "") if data else 0


# --- what the acquire step hands over


@lru_cache(maxsize=256)
def calendar_from_text(text: str) -> Calendar:
    """Decode a stored calendar."""
    return calendar_from_json(stored_object(text, "calendar", InvalidCalendarError))


class _Rest(NamedTuple):
    """What is neither a fact of the fire nor a column of its trigger or its job."""

    decision: str
    concurrency_key: str
    overlap_policy: OverlapPolicyName
    requests_recovery: bool
    calendar_text: str | None


# Each name once: what the fire, the trigger and the job have in common comes where it is first.
HANDED_OVER = tuple(dict.fromkeys((*FireFacts._fields, *_Rest._fields, *TriggerColumns._fields, *JobColumns._fields)))
"""The columns of the part `handed` of the steps, in their order."""


def _columns_at(fields: Sequence[str]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function that takes these columns from a row of the part `handed`."""
    return itemgetter(*map(HANDED_OVER.index, fields))


_decision = itemgetter(HANDED_OVER.index("decision"))
_overlap_policy = itemgetter(HANDED_OVER.index("overlap_policy"))
_calendar_text = itemgetter(HANDED_OVER.index("calendar_text"))
_trigger_columns = _columns_at(TriggerColumns._fields)
_job_columns = _columns_at(JobColumns._fields)


class _HandedRow(FiredTrigger):
    """A row of the part `handed`: it begins with the facts, and its other columns are read where they are asked for.

    Few executions ask for more than the names and the times.
    """

    def _built_trigger(self) -> Trigger:
        return TriggerColumns._make(_trigger_columns(self)).trigger()

    def built_trigger_without_data(self) -> Trigger:
        return TriggerColumns._make(_trigger_columns(self)).trigger(with_data=False)

    def built_calendar(self) -> Calendar | None:
        text = _calendar_text(self)
        return calendar_from_text(text) if text else None

    _built_calendar = built_calendar

    def _built_job(self) -> JobDetail:
        return JobColumns._make(_job_columns(self)).job()


def without_unparked(rows: Sequence[tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
    """Leave out the rows of triggers that were parked, and now wait for any node."""
    return [row for row in rows if _decision(row) != "UNPARK"]


def by_outcome(
    rows: Iterable[tuple[Any, ...]],
) -> tuple[tuple[FiredTrigger, ...], tuple[SkippedTrigger, ...], tuple[UnfilledTrigger, ...]]:
    """Decode rows of the part `handed`, grouped by outcome: fired, skipped, unfilled."""
    fired: list[FiredTrigger] = []
    skipped: list[SkippedTrigger] = []
    unfilled: list[UnfilledTrigger] = []
    for columns in rows:
        # A row is longer than the facts, so it is not made by the constructor of the facts.
        row = tuple.__new__(_HandedRow, columns)
        decision = _decision(columns)
        if decision == "FIRE":
            fired.append(row)
        elif decision == "REFILL":
            unfilled.append(_unfilled(row))
        elif decision == "SKIP":
            skipped.append(SkippedTrigger(row.trigger_key, row.job_key, row.scheduled_fire_time, row.next_fire_time))
    return tuple(fired), tuple(skipped), tuple(unfilled)


def _unfilled(row: _HandedRow) -> UnfilledTrigger:
    return UnfilledTrigger(
        row.trigger_group,
        row.trigger_name,
        TriggerProgress(row.scheduled_fire_time, row.previous_fire_time, row.times_triggered),
        row.generation,
        row.built_trigger_without_data,
        row.built_calendar,
        row.calendar_revision,
        _overlap_policy(row),
    )
