"""Running again what has ended, and what is the same in all attempts at one fire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import Continuation, JobDetail, RetryPolicy, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.errors import (
    ExecutionNotFoundError,
    IllegalStateChangeError,
    InvalidJobDataError,
    InvalidKeyError,
    InvalidValueError,
    JobNotFoundError,
)
from quartzpy.job_data import INTERNAL_KEYS, TRACE_PARENT, TRACE_STATE
from quartzpy.states import Outcome
from quartzpy.testing import SchedulerHarness
from tests.facade import jobs

LATER = datetime(2099, 1, 1, tzinfo=UTC)
SOON = timedelta(seconds=30)
MOMENT = timedelta(milliseconds=50)
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def ended(scheduler: Scheduler, count: int = 1) -> None:
    assert scheduler.wait_until_recorded(count, SOON)


def test_what_failed_runs_again_with_the_data_that_it_had(scheduler: Scheduler) -> None:
    job = JobDetail(jobs.FailingUntil, "job", data={"attempt": 9, "from": "job"}, durable=True)
    scheduler.schedule_job(job, SimpleTrigger("t", data={"from": "trigger"}))
    ended(scheduler)
    [failed] = scheduler.executions()
    first = jobs.next_run()
    scheduler.modify_job(job.key, data={"attempt": 1})

    key = scheduler.run_again(first.fire_id)

    ended(scheduler, 2)
    again = jobs.next_run()
    assert (again.trigger_key, again.job_data["from"], again.job_data["attempt"]) == (key.key, "trigger", 1)
    assert (again.attempt, again.retried_trigger_key) == (1, TriggerKey("t", "DEFAULT"))
    assert again.execution_key == first.execution_key
    assert again.nominal_fire_time == first.scheduled_fire_time
    assert [record.outcome for record in scheduler.executions()] == [Outcome.SUCCEEDED, Outcome.FAILED]
    assert scheduler.execution(first.fire_id) == failed


def test_a_run_by_hand_names_who_asked_for_it_and_so_do_its_retries(scheduler: Scheduler) -> None:
    job = JobDetail(
        jobs.FailingUntil, "job", data={"attempt": 2}, durable=True, retry=RetryPolicy(attempts=3, delay=MOMENT)
    )
    scheduler.add_job(job)
    scheduler.trigger_job("job", by="ann")
    ended(scheduler, 2)
    second, first = scheduler.executions()
    assert (first.triggered_by, second.triggered_by, second.attempt) == ("ann", "ann", 2)

    scheduler.run_again(second, by="bob")
    ended(scheduler, 4)
    assert [record.triggered_by for record in scheduler.executions()] == ["bob", "bob", "ann", "ann"]


def test_only_the_caller_of_a_run_by_hand_says_who_asked_for_it(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", durable=True), SimpleTrigger("t"))
    ended(scheduler)
    [scheduled] = scheduler.executions()
    scheduler.trigger_job("job")
    scheduler.run_again(scheduled)
    scheduler.trigger_job("job", by="ann")
    ended(scheduler, 4)
    assert sorted(record.triggered_by or "" for record in scheduler.executions()) == ["", "", "", "ann"]
    with pytest.raises(InvalidKeyError, match="by: must be str"):
        scheduler.trigger_job("job", by=5)  # type: ignore[arg-type]


def test_a_program_writes_no_entry_of_the_scheduler_itself(scheduler: Scheduler) -> None:
    stored = JobDetail(jobs.Recorded, "job", durable=True)
    scheduler.schedule_job(stored, SimpleTrigger("t", start_time=LATER))
    other = JobDetail(jobs.Recorded, "other", durable=True)
    for name in sorted(INTERNAL_KEYS - {TRACE_PARENT, TRACE_STATE}):
        forged = {name: "x"}
        trigger, followed = SimpleTrigger("u", data=forged), [Continuation("job", data=forged)]
        calls: list[Callable[[], object]] = [
            lambda forged=forged: scheduler.trigger_job("job", forged),
            lambda forged=forged: scheduler.trigger_job("job", forged, debounce_key="k"),
            lambda trigger=trigger: scheduler.schedule_job(other, trigger),
            lambda trigger=trigger: scheduler.schedule_jobs([(other, [trigger])]),
            lambda trigger=trigger: scheduler.reschedule_job("t", trigger),
            lambda forged=forged: scheduler.add_job(replace(other, data=forged)),
            lambda followed=followed: scheduler.add_job(replace(other, continuations=followed)),
            lambda forged=forged: scheduler.modify_job("job", data=forged),
            lambda followed=followed: scheduler.modify_job("job", continuations=followed),
            lambda trigger=trigger: scheduler.sync([(other, trigger)], owner="me"),
        ]
        for call in calls:
            with pytest.raises(InvalidJobDataError, match=f"data.*: {name} is an entry of the scheduler itself"):
                call()
    assert [trigger.name for trigger in scheduler.triggers_of_job(stored.key)] == ["t"]


def test_what_ran_again_runs_again(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", durable=True), SimpleTrigger("t"))
    ended(scheduler)
    contexts = [jobs.next_run()]
    for count in (2, 3):
        scheduler.run_again(contexts[-1].fire_id)
        ended(scheduler, count)
        contexts.append(jobs.next_run())
    assert len({context.fire_id for context in contexts}) == 3
    assert len({context.execution_key for context in contexts}) == 1
    assert {context.retried_trigger_key for context in contexts[1:]} == {TriggerKey("t", "DEFAULT")}


def test_it_may_wait(client: Scheduler, scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", durable=True), SimpleTrigger("t"))
    ended(scheduler)
    key = scheduler.run_again(jobs.next_run().fire_id, delay=timedelta(hours=1))
    record = scheduler.trigger_record(key)
    assert record is not None
    assert record.progress.next_fire_time is not None
    assert record.progress.next_fire_time > scheduler.nodes().now + timedelta(minutes=59)


def test_what_cannot_run_again_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(ExecutionNotFoundError, match="123456789"):
        scheduler.run_again("123456789")
    for wrong in ("mine", "-1", str(2**63), ""):
        with pytest.raises(InvalidValueError, match="fire_id"):
            scheduler.run_again(wrong)
    scheduler.schedule_job(JobDetail(jobs.Waiting, "job"), SimpleTrigger("t"))
    running = jobs.next_run().fire_id
    with pytest.raises(IllegalStateChangeError, match="PROCESSING"):
        scheduler.run_again(running)
    jobs.go_on.set()
    ended(scheduler)
    with pytest.raises(JobNotFoundError, match=r"DEFAULT\.job"):
        scheduler.run_again(running)


def test_a_disabled_job_does_not_run_again(scheduler: Scheduler) -> None:
    job = JobDetail(jobs.Recorded, "job", durable=True)
    scheduler.schedule_job(job, SimpleTrigger("t"))
    ended(scheduler)
    scheduler.set_mode(job.key, "DISABLED")
    with pytest.raises(IllegalStateChangeError, match="disabled"):
        scheduler.run_again(jobs.next_run().fire_id)


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        ({"rows": 3, "at": START}, {"rows": 3, "at": START}),
        (0, 0),
        ("x" * 8_000, "x" * 8_000),
        ("x" * 9_000, None),
        (object(), None),
        (float("nan"), None),
        ("nul\0", None),
        (None, None),
    ],
    ids=["values", "zero", "long", "too long", "object", "nan", "nul", "none"],
)
def test_the_history_keeps_results_that_can_be_stored(
    make_scheduler: Callable[..., Scheduler], result: Any, kept: Any
) -> None:
    scheduler = make_scheduler()
    scheduler.context["result"] = result
    scheduler.start()
    scheduler.schedule_job(JobDetail(jobs.Returning, "job"), SimpleTrigger("t"))
    ended(scheduler)
    [record] = scheduler.executions()
    assert (record.outcome, record.result) == (Outcome.SUCCEEDED, kept)
    assert (record.error or "").startswith("result not kept: result: " if result is not None and kept is None else "")


def test_retries_are_about_one_fire(scheduler: Scheduler) -> None:
    policy = RetryPolicy(attempts=3, delay=MOMENT, factor=1)
    job = JobDetail(jobs.FailingUntil, "job", data={"attempt": 3}, retry=policy)
    twice = SimpleTrigger("t", interval=timedelta(seconds=1), repeat_count=1)
    scheduler.schedule_job(job, twice)
    ended(scheduler, 6)
    contexts = [jobs.next_run() for _ in range(6)]
    by_attempt = {n: {one.execution_key for one in contexts if one.attempt == n} for n in (1, 2, 3)}
    assert len(by_attempt[1]) == 2
    assert by_attempt[1] == by_attempt[2] == by_attempt[3]


def test_its_nominal_time_is_that_of_the_first_whatever_repeats_it() -> None:
    harness = SchedulerHarness(START)
    job = JobDetail(jobs.Recorded, "job", durable=True)
    harness.schedule_job(job, SimpleTrigger("t", start_time=START + timedelta(microseconds=1_500)))
    jobs.reset()
    harness.advance(timedelta(seconds=1))
    first = jobs.next_run()
    assert first.nominal_fire_time == START + timedelta(microseconds=1_500)
    assert first.execution_key == "DEFAULT.t@2026-03-01T12:00:00.001+00:00"
    harness.run_again(first.fire_id)
    harness.run_pending()
    again = jobs.next_run()
    assert again.scheduled_fire_time == START + timedelta(seconds=1)
    assert again.nominal_fire_time == START + timedelta(microseconds=1_500)
    assert again.execution_key == first.execution_key
