"""Triggers: their states, schedules and fire times, and why they do not fire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from quartzpy.budget import Budget
from quartzpy.calendars.calendar import Calendar
from quartzpy.expect import BreachRecord, Expect
from quartzpy.instants import short
from quartzpy.jobs.internal_entries import actor_of
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import RETRYING_JOBS, JobKey, TriggerKey
from quartzpy.operations.read_context import (
    EXAMINED,
    ReadContext,
    attempt,
    examined_page,
    no_trigger,
    page_of,
    unreadable,
    view_of,
)
from quartzpy.operations.views import allowed_actions
from quartzpy.operations.views.agenda import calendar_of
from quartzpy.operations.views.executions import ExecutionSummary, MisfireView, misfire_view
from quartzpy.operations.views.executions import summary as execution_summary
from quartzpy.operations.views.internal_triggers import repeated_by, retries_of, without_internals
from quartzpy.operations.views.lock_holders import MAX_LOCKS, lock_holders
from quartzpy.operations.views.schedules import PlannedTime, planned, zone_text
from quartzpy.operations.views.waiting import WaitingFacts
from quartzpy.scheduler.batched_reads import BatchedReads, Deferred
from quartzpy.scheduler.explain import ClusterSnapshot, Explanation, misfire_effect
from quartzpy.scheduler.querying import Page
from quartzpy.states import JobMode, PublicState, TriggerState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import Health, LockRecord
from quartzpy.store.queries import MisfireQuery, TriggerQuery
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import error_summary
from quartzpy.triggers.trigger import Trigger

OVERDUE = timedelta(seconds=10)
"""The delay after its fire time from which a waiting trigger counts as late."""
NEXT_TIMES = 10
LAST_EXECUTIONS = 20
LAST_MISFIRES = 10
_NO_FIRE = (TriggerState.ERROR, TriggerState.COMPLETE)


@dataclass(frozen=True, slots=True)
class TriggerSummary:
    """A trigger, as a row of a list."""

    key: TriggerKey
    job: JobKey
    job_type: str
    kind: str
    state: TriggerState
    public_state: PublicState
    """The state in Quartz's terms."""
    schedule: str
    """The schedule in its own notation: "0 0 2 ? * MON-FRI". `unreadable` says why it could not be read."""
    words: str
    """The schedule in words: "at 02:00, Monday to Friday"."""
    zone: str | None
    """The time zone of the schedule; None if the schedule does not depend on one."""
    calendar: str | None
    priority: int
    description: str | None
    misfire: str | None
    """The misfire instruction, with the bounds of catching up: "fire_all max 9 within 1h"."""
    next_fire_time: datetime | None
    previous_fire_time: datetime | None
    times_triggered: int
    late: timedelta | None
    """How long a waiting trigger has been due, if that is more than 10 seconds; None otherwise."""
    error: str | None
    """The last line of the reason why the trigger is in ERROR."""
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    paused_until: datetime | None
    """The end of the pause of this trigger or its job, if it has one."""
    unreadable: str | None = None
    """The reason why this process cannot decode the trigger; None if it can."""
    health: Health | None = None
    """How its last runs went, as a list of triggers has it; None if it has none."""
    repeats: TriggerKey | None = None
    """The trigger whose execution this one repeats: as a retry, a recovery, or a run of the past."""
    retries: int | None = None
    """The number of retries that its job allows, if this is one."""
    triggered_by: str | None = None
    """Who asked for it, if it is a run by hand that names somebody, or repeats one."""
    waits_for: str | None = None
    """What it waits for, in a few words, as a list of triggers has it: "paused", "waits for its rate limit"; None if it
    waits for its next fire time only."""


def summary(record: TriggerRecord, now: datetime) -> TriggerSummary:
    trigger, problem = attempt(lambda: record.trigger)
    return view_of(
        TriggerSummary,
        record,
        job=record.job_key,
        schedule=problem or "" if trigger is None else trigger.text,
        words=problem or "" if trigger is None else trigger.words,
        zone=None if trigger is None else zone_text(trigger),
        misfire=None if trigger is None else _misfire(trigger),
        late=late_by(record, now),
        error=error_summary(record.error),
        unreadable=problem,
        repeats=repeated_by(record),
        triggered_by=None if trigger is None else actor_of(record.key, trigger.data or {}),
    )


def one_summary(reading: BatchedReads, key: TriggerKey) -> TriggerSummary:
    record = reading.defer(lambda store: store.triggers([key]).get(key))()
    if record is None:
        raise no_trigger(reading, key)
    return summary(record, reading.now())


def _misfire(trigger: Trigger) -> str:
    bounds = {
        "max": trigger.catch_up_max,
        "within": None if trigger.catch_up_within is None else short(trigger.catch_up_within),
    }
    return " ".join([trigger.misfire, *(f"{name} {bound}" for name, bound in bounds.items() if bound is not None)])


def late_by(record: TriggerRecord, now: datetime) -> timedelta | None:
    """Return how long a waiting trigger has been due; None if it is not late. A limit makes no trigger late."""
    at = record.next_fire_time
    if record.state is not TriggerState.WAITING or at is None:
        return None
    late = now - at
    return late if late > OVERDUE else None


def page(reading: BatchedReads, query: TriggerQuery, limit: int, after: str | None) -> Page[TriggerSummary]:
    """Return a page of triggers; see `Operations.triggers`."""
    query = replace(query, among=EXAMINED)
    health: list[Deferred[dict[TriggerKey, Health]]] = []
    jobs: list[Deferred[dict[JobKey, JobDetail]]] = []
    surroundings = WaitingFacts(reading)

    def ask_more(records: Page[TriggerRecord]) -> None:
        keys = [record.key for record in records]
        health.append(reading.defer(lambda store: admin(store).trigger_health(keys)))
        surroundings.ask_modes(records)
        retried = {record.job_key for record in records if record.key.group == RETRYING_JOBS}
        if retried:
            jobs.append(reading.defer(lambda store: store.jobs(retried)))

    def row(record: TriggerRecord) -> TriggerSummary:
        shown = replace(
            summary(record, reading.now()),
            health=health[0]().get(record.key),
            waits_for=surroundings.of_trigger(record),
        )
        if record.key.group != RETRYING_JOBS:
            return shown
        return replace(shown, retries=retries_of(attempt(lambda: jobs[0]().get(record.job_key))[0]))

    records = examined_page(reading, query, limit, after, ask_more=ask_more)
    return page_of(records, row)


@dataclass(frozen=True, slots=True)
class TriggerView:
    """One trigger with all that is known about it."""

    trigger: TriggerSummary
    job_display_name: str | None
    start_time: datetime | None
    end_time: datetime | None
    misfire_threshold: timedelta | None
    expect: str | None
    """What is expected of its fires, in words: its own expectation, or that of its job."""
    held_by: str | None
    """The kind of the limit for which it waits: SLOT, RATE or SHARED; None if it waits for none."""
    shared_limits: tuple[str, ...]
    """The limits for which it waits, where these are limits that jobs share."""
    opens_at: datetime | None
    """The instant at which the rate for which it waits admits the next fire, which need not be its own."""
    catch_up_until: datetime | None
    definition: Mapping[str, Any]
    """The values of the schedule as they are stored."""
    data: Mapping[str, Any]
    """The trigger's data, with secrets hidden."""
    error: str | None
    """The whole reason why the trigger is in ERROR."""
    next_times: tuple[PlannedTime, ...]
    misfire_effect: str | None
    """What the misfire instruction would do with a fire that is missed now, in words."""
    why: tuple[str, ...]
    last_executions: tuple[ExecutionSummary, ...]
    misfires: tuple[MisfireView, ...]
    actions: tuple[str, ...] = ()
    """The names of the actions that are possible now, whatever the role of the actor."""


def view(context: ReadContext, key: TriggerKey, *, next_times: int = NEXT_TIMES) -> TriggerView:
    reading = context.reading()
    answer = reading.defer(lambda store: store.triggers([key]).get(key))
    last = reading.defer(lambda store: admin(store).last_executions([key], LAST_EXECUTIONS))
    misfires = reading.defer(lambda store: store.find(MisfireQuery(trigger_key=key), LAST_MISFIRES))
    is_manual = reading.defer(lambda store: store.pauses().is_manual)
    locks = reading.defer(lambda store: admin(store).locks(MAX_LOCKS))
    breaches = reading.defer(lambda store: admin(store).breaches_of_trigger(key))
    snapshot = ClusterSnapshot(reading)
    record = answer()
    if record is None:
        raise no_trigger(reading, key)
    now = reading.now()
    explained = Explanation(snapshot, key, context.config.misfire_threshold, context.advice, record.job_key)
    snapshot.look_up_placements()
    trigger, _ = attempt(lambda: record.trigger)
    planned_times = next_times_of(reading, record, next_times)
    assert explained.of_job is not None, "its key is given"
    job, _ = attempt(explained.of_job.detail)
    mode = explained.of_job.mode()
    data, _ = attempt(lambda: dict(trigger.data or {}) if trigger is not None else {})
    is_paused = record.state in (TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED)
    return view_of(
        TriggerView,
        record,
        trigger=replace(summary(record, now), retries=retries_of(job) if record.key.group == RETRYING_JOBS else None),
        job_display_name=None if job is None else job.display_name,
        start_time=None if trigger is None else trigger.start_time,
        end_time=None if trigger is None else trigger.end_time,
        misfire_threshold=None if trigger is None else trigger.misfire_threshold,
        expect=None if trigger is None or (expect := expected_of(trigger, job)) is None else str(expect),
        definition={} if trigger is None else trigger.schedule(),
        data=context.shown(without_internals(data or {})),
        next_times=tuple(planned_times()),
        misfire_effect=_misfire_effect(record, trigger, now),
        why=(*_readable(explained), *_held_back(record, now, locks()), *_broken(breaches())),
        last_executions=tuple(map(execution_summary, last().get(key, ()))),
        misfires=tuple(map(misfire_view, misfires())),
        actions=allowed_actions.on_trigger(
            record.state,
            mode,
            is_held=is_paused and (mode is not JobMode.ENABLED or is_manual()),
            has_next=record.next_fire_time is not None,
            is_readable=trigger is not None,
        ),
    )


def expected_of(trigger: Trigger, job: JobDetail | None) -> Expect | None:
    """Return what is expected of the fires of a trigger: its own expectation, or else that of its job."""
    return trigger.expect or (None if job is None else job.expect)


def why(context: ReadContext, key: TriggerKey) -> Sequence[str]:
    """Explain why a trigger has not fired, or when it will; see `Scheduler.why`.

    A late one is also explained by the transactions that may hold its row.
    """
    reading = context.reading()
    record = reading.defer(lambda store: store.triggers([key]).get(key))
    locks = reading.defer(lambda store: admin(store).locks(MAX_LOCKS))
    breaches = reading.defer(lambda store: admin(store).breaches_of_trigger(key))
    sentences = _readable(Explanation(ClusterSnapshot(reading), key, context.config.misfire_threshold, context.advice))
    return [*sentences, *_held_back(record(), reading.now(), locks()), *_broken(breaches())]


def _broken(breaches: Sequence[BreachRecord]) -> list[str]:
    """Return what its fires have not done that is expected of them, as the incidents say it."""
    return [" ".join((breach.what, *breach.reasons)) for breach in breaches]


def _misfire_effect(record: TriggerRecord, trigger: Trigger | None, now: datetime) -> str | None:
    if trigger is None or trigger.ignores_misfires or record.next_fire_time is None:
        return None
    # A fire that is still to come is missed once it has passed.
    return misfire_effect(trigger, record.progress, now=max(now, record.next_fire_time))


def _held_back(record: TriggerRecord | None, now: datetime, locks: Sequence[LockRecord]) -> list[str]:
    if record is None or late_by(record, now) is None:
        return []
    return [str(holder) for holder in lock_holders(locks)]


def _readable(explained: Callable[[], list[str]]) -> list[str]:
    try:
        return explained()
    except (ValueError, TypeError, ArithmeticError) as error:
        # A row that cannot be decoded has no explanation, but it must not prevent the others from being shown.
        return [unreadable(error)]


def next_times_of(reading: BatchedReads, record: TriggerRecord, count: int) -> Callable[[], list[PlannedTime]]:
    """Ask for the calendar of a trigger, and return its next fire times by the wall clock of its zone.

    There are none if the trigger will not fire by itself.
    """
    at = record.next_fire_time
    if at is None or record.state in _NO_FIRE or count < 1:
        return list
    trigger, _ = attempt(lambda: record.trigger)
    if trigger is None:
        return lambda: planned([at], None)
    calendar = None if trigger.calendar is None else calendar_of(reading, trigger.calendar)

    def times() -> list[PlannedTime]:
        now = reading.now()

        def instants() -> list[datetime]:
            included = None if calendar is None else calendar()
            with Budget():
                if at > now:
                    return fire_times(record, trigger, included, count)
                # It waits for a fire that is due; the times that have passed meanwhile are none of its next ones.
                return [at, *islice(trigger.fire_times(now, calendar=included), count - 1)]

        return planned(attempt(instants)[0] or [at], zone_text(trigger), since=now)

    return times


def fire_times(record: TriggerRecord, trigger: Trigger, calendar: Calendar | None, count: int) -> list[datetime]:
    """Return the next `count` fire times of a trigger that has a next one."""
    at = record.next_fire_time
    assert at is not None
    return [at, *trigger.following(record.progress, calendar, count - 1)]
