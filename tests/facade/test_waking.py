"""A method that makes a trigger due wakes a node that rests: in another process, and in the same one for memory://."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import EVERYTHING, CronTrigger, HolidayCalendar, JobDetail, JobKey, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.operations.operations import Operations
from quartzpy.states import TriggerState
from tests.facade import jobs
from tests.waiting import wait_until

KEY, JOB = TriggerKey("t", "G"), JobKey("job", "J")
HOUR = timedelta(hours=1)
SETTLED = 1.0
"""The time, in seconds, without a pass after which a node that has started looks no more by itself."""


def now() -> datetime:
    return datetime.now(UTC)


def detail(kind: type = jobs.Recorded, **values: Any) -> JobDetail:
    return JobDetail(kind, JOB.name, JOB.group, durable=True, **values)


def due(**values: Any) -> SimpleTrigger:
    return SimpleTrigger(KEY.name, KEY.group, start_time=now(), **values)


class Case:
    """Prepares what waits, and makes it due."""

    def __init__(
        self, prepare: Callable[[Scheduler], object], act: Callable[[Scheduler], object], *, runs_before: int = 0
    ) -> None:
        self.prepare = prepare
        self.act = act
        self.runs_before = runs_before


def nothing(scheduler: Scheduler) -> None:
    """The method stores all that is needed."""


def job_only(scheduler: Scheduler) -> None:
    scheduler.add_job(detail())


def held_by(pause: Callable[[Scheduler], object]) -> Callable[[Scheduler], object]:
    def prepare(scheduler: Scheduler) -> None:
        scheduler.add_job(detail())
        pause(scheduler)
        scheduler.schedule(SimpleTrigger(KEY.name, KEY.group, start_time=now(), job_key=JOB))

    return prepare


def later(scheduler: Scheduler) -> None:
    scheduler.schedule_job(detail(), SimpleTrigger(KEY.name, KEY.group, start_time=now() + HOUR))


def in_error(scheduler: Scheduler) -> None:
    scheduler.pause_all()
    scheduler.schedule_job(detail(), due())
    store: Any = scheduler._usable_store()
    if hasattr(store, "_tables"):
        store._tables.move(store._tables.triggers[KEY], TriggerState.ERROR)
    else:
        with store._connections.checked_out() as connection:
            connection.execute("UPDATE qrtz_triggers SET trigger_state = 'ERROR' WHERE trigger_name = 't'")
            connection.commit()
    scheduler.resume_all()


def waits_for_a_rate_limit(scheduler: Scheduler) -> None:
    scheduler.schedule_job(
        detail(rate_limit="1/day"), [SimpleTrigger("first"), SimpleTrigger("second", start_time=now())]
    )


def waits_for_a_slot(scheduler: Scheduler) -> None:
    scheduler.schedule_job(
        detail(jobs.Waiting, max_concurrent=1), [SimpleTrigger("first"), SimpleTrigger("second", start_time=now())]
    )


def excluded(scheduler: Scheduler) -> None:
    days = {(now() + timedelta(days=number)).date() for number in range(-1, 3)}
    scheduler.add_calendar("c", HolidayCalendar(days))
    every_second = SimpleTrigger(KEY.name, KEY.group, interval=timedelta(seconds=1), repeat_count=None, calendar="c")
    scheduler.schedule_job(detail(), every_second)


def half_a_year_away(scheduler: Scheduler) -> None:
    month = (now().month + 5) % 12 + 1
    scheduler.schedule_job(detail(), CronTrigger(f"0 0 12 1 {month} ?", KEY.name, KEY.group))


def open_again(scheduler: Scheduler) -> None:
    scheduler.add_calendar("c", HolidayCalendar(()), replace=True, update_triggers=True)


def has_run(scheduler: Scheduler) -> None:
    scheduler.schedule_job(detail(), due())


def again(scheduler: Scheduler) -> None:
    record = wait_until(lambda: [one for one in scheduler.executions() if one.outcome is not None])[0]
    assert record.fire_id is not None
    scheduler.run_again(record.fire_id)


CASES: dict[str, Case] = {
    "schedule_job": Case(nothing, lambda s: s.schedule_job(detail(), due())),
    "schedule_jobs": Case(nothing, lambda s: s.schedule_jobs([(detail(), due())])),
    "schedule": Case(job_only, lambda s: s.schedule(SimpleTrigger("t", job_key=JOB))),
    "trigger_job": Case(job_only, lambda s: s.trigger_job(JOB)),
    "trigger_job, debounced": Case(job_only, lambda s: s.trigger_job(JOB, debounce_key="k")),
    "run_again": Case(has_run, again, runs_before=1),
    "backfill": Case(half_a_year_away, lambda s: s.backfill(KEY, now() - timedelta(days=400), now())),
    "sync": Case(nothing, lambda s: s.sync([(detail(), due())], owner="o")),
    "reschedule_job": Case(later, lambda s: s.reschedule_job(KEY, due())),
    "schedule_job, replaced": Case(later, lambda s: s.schedule_job(detail(), due(), replace=True)),
    "resume_trigger": Case(held_by(lambda s: s.pause_trigger_group("G")), lambda s: s.resume_trigger(KEY)),
    "resume_trigger_group": Case(held_by(lambda s: s.pause_trigger_group("G")), lambda s: s.resume_trigger_group("G")),
    "resume_job": Case(held_by(lambda s: s.pause_job_group("J")), lambda s: s.resume_job(JOB)),
    "resume_job_group": Case(held_by(lambda s: s.pause_job_group("J")), lambda s: s.resume_job_group("J")),
    "resume_all": Case(held_by(lambda s: s.pause_all()), lambda s: s.resume_all()),
    "enabling": Case(
        held_by(lambda s: s.set_mode(JOB, "DISABLED")), lambda s: s.set_mode(JOB, "ENABLED", missed="misfire")
    ),
    "enabling after by hand only": Case(
        held_by(lambda s: s.set_mode(JOB, "MANUAL")), lambda s: s.set_mode(JOB, "ENABLED", missed="misfire")
    ),
    "enabling everything": Case(
        held_by(lambda s: s.set_mode(EVERYTHING, "MANUAL")),
        lambda s: s.set_mode(EVERYTHING, "ENABLED", missed="misfire"),
    ),
    "reset_trigger_from_error": Case(in_error, lambda s: s.reset_trigger_from_error(KEY)),
    "modify_job, no rate limit": Case(
        waits_for_a_rate_limit, lambda s: s.modify_job(JOB, rate_limit=None), runs_before=1
    ),
    "add_job, no rate limit": Case(waits_for_a_rate_limit, lambda s: s.add_job(detail(), replace=True), runs_before=1),
    "add_calendar": Case(excluded, open_again),
    "cancel an execution": Case(waits_for_a_slot, lambda s: s.cancel_job(JOB), runs_before=1),
}


@pytest.mark.parametrize("method", CASES)
def test_it_wakes_a_node_that_rests(make_scheduler: Callable[..., Scheduler], url: str, method: str) -> None:
    wakes_a_node(make_scheduler, url, method, CASES[method])


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_reset_by_operators_wakes_a_node_that_rests(make_scheduler: Callable[..., Scheduler], url: str) -> None:
    case = Case(in_error, lambda s: Operations(s).actions.reset([KEY]))
    wakes_a_node(make_scheduler, url, "operations, reset", case)


def wakes_a_node(make_scheduler: Callable[..., Scheduler], url: str, method: str, case: Case) -> None:
    # Nothing else ends the node's rest within the test's time.
    node = make_scheduler(idle_wait="2h", checkin_interval="10min", failure_window="1h")
    client = node if url == "memory://" else make_scheduler()
    case.prepare(client)
    node.start()
    for _ in range(case.runs_before):
        jobs.ran.get(timeout=60)
    engine: Any = node._node
    # A node that starts looks again when it has begun to listen: what it finds then was not told to it.
    wait_until(
        lambda: (
            engine.parts.scheduler_thread.expected_at - time.monotonic() > 600
            and time.monotonic() - engine.parts.scheduler_thread.passed_at > (SETTLED if "reset" in method else 0)
        ),
        "the node's rest",
    )
    assert jobs.ran.empty()
    case.act(client)
    jobs.ran.get(timeout=60)
