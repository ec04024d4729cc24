"""Retries, timeouts and cancelling."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from quartzpy import JobDetail, RetryPolicy, Scheduler, SimpleTrigger
from quartzpy.errors import ExecutionNotFoundError, InvalidJobError, InvalidValueError
from quartzpy.states import Outcome
from tests.facade import jobs

SOON = timedelta(seconds=30)
MOMENT = timedelta(milliseconds=50)


def run(scheduler: Scheduler, job: JobDetail, executions: int = 1) -> list[Outcome]:
    scheduler.schedule_job(job, SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(executions, SOON)
    return [execution.outcome for execution in reversed(scheduler.executions())]


def test_a_failed_job_is_tried_again_until_it_succeeds(scheduler: Scheduler) -> None:
    policy = RetryPolicy(attempts=5, delay=MOMENT, factor=1)
    job = JobDetail(jobs.FailingUntil, "job", data={"attempt": 3}, retry=policy)
    assert run(scheduler, job, 3) == [Outcome.FAILED, Outcome.FAILED, Outcome.SUCCEEDED]
    contexts = [jobs.next_run() for _ in range(3)]
    assert [context.attempt for context in contexts] == [1, 2, 3]
    assert [str(context.retried_trigger_key) for context in contexts] == ["None", "DEFAULT.t", "DEFAULT.t"]
    assert jobs.nothing_ran()


def test_it_is_not_tried_more_often_than_its_policy_says(scheduler: Scheduler) -> None:
    job = JobDetail(jobs.FailingUntil, "job", data={"attempt": 9}, retry=RetryPolicy(attempts=2, delay=MOMENT))
    assert run(scheduler, job, 2) == [Outcome.FAILED, Outcome.FAILED]
    assert not scheduler.trigger_keys()


def test_errors_that_its_policy_does_not_name_are_not_retried(scheduler: Scheduler) -> None:
    job = JobDetail(jobs.FailingUntil, "job", data={"attempt": 9}, retry=RetryPolicy(on=[KeyError], delay=MOMENT))
    assert run(scheduler, job) == [Outcome.FAILED]
    assert not scheduler.trigger_keys()


@pytest.mark.parametrize("kind", [jobs.Waiting, jobs.EndlessAsync])
def test_an_execution_that_takes_too_long_is_stopped_and_has_failed(
    scheduler: Scheduler, kind: type[jobs.Waiting]
) -> None:
    assert run(scheduler, JobDetail(kind, "job", timeout=MOMENT)) == [Outcome.FAILED]
    [execution] = scheduler.executions()
    assert "JobTimeoutError: took longer than its timeout of 0:00:00.05" in (execution.error or "")


def test_one_that_took_too_long_is_tried_again(scheduler: Scheduler) -> None:
    job = JobDetail(jobs.Waiting, "job", timeout=MOMENT, retry=RetryPolicy(attempts=2, delay=MOMENT))
    assert run(scheduler, job, 2) == [Outcome.FAILED, Outcome.FAILED]


def test_a_quick_execution_does_not_feel_its_timeout(scheduler: Scheduler) -> None:
    assert run(scheduler, JobDetail(jobs.Recorded, "job", timeout=timedelta(seconds=60))) == [Outcome.SUCCEEDED]


@pytest.mark.parametrize("kind", [jobs.Waiting, jobs.EndlessAsync])
def test_an_execution_is_cancelled_from_another_scheduler(
    scheduler: Scheduler, make_scheduler: Callable[..., Scheduler], url: str, kind: type[jobs.Waiting]
) -> None:
    scheduler.schedule_job(JobDetail(kind, "job", retry=RetryPolicy(delay=MOMENT)), SimpleTrigger("t"))
    identity = jobs.next_run().fire_id
    asking = scheduler if url == "memory://" else make_scheduler()
    assert asking.cancel(identity)
    assert scheduler.wait_until_recorded(1, SOON)
    assert [execution.outcome for execution in scheduler.executions()] == [Outcome.CANCELLED]
    assert not scheduler.trigger_keys()
    assert not asking.cancel(identity)


def test_what_does_not_look_whether_it_should_stop_succeeds(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Deaf, "job"), SimpleTrigger("t"))
    assert scheduler.cancel(jobs.next_run().fire_id)
    jobs.go_on.set()
    assert scheduler.wait_until_recorded(1, SOON)
    assert [execution.outcome for execution in scheduler.executions()] == [Outcome.SUCCEEDED]


def test_a_wrong_identity_is_refused(client: Scheduler) -> None:
    with pytest.raises(InvalidValueError, match="fire_id"):
        client.cancel("mine")
    with pytest.raises(ExecutionNotFoundError, match="fire_id 123456789"):
        client.cancel("123456789")


def test_a_job_is_run_by_hand_after_a_delay(scheduler: Scheduler) -> None:
    job = JobDetail(jobs.Recorded, "job", durable=True)
    scheduler.add_job(job)
    before = scheduler.nodes().now
    scheduler.trigger_job(job.key, {"a": 1}, delay=timedelta(milliseconds=300))
    context = jobs.next_run()
    assert context.job_data == {"a": 1}
    assert context.scheduled_fire_time >= before + timedelta(milliseconds=300)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_concurrent": 0},
        {"max_concurrent": "3"},
        {"max_concurrent": 3, "disallow_concurrent": True},
        {"max_concurrent": 1, "disallow_concurrent": False},
        {"retry": 3},
        {"timeout": timedelta()},
        {"timeout": "soon"},
    ],
)
def test_wrong_limits_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidJobError, match=next(iter(wrong))):
        JobDetail(jobs.Recorded, "job", **wrong)  # type: ignore[arg-type]


def test_limits_come_back_as_they_were(client: Scheduler) -> None:
    policy = RetryPolicy(attempts=7, delay=MOMENT, on=["ValueError"])
    job = JobDetail("x", "job", durable=True, max_concurrent=3, retry=policy, timeout=timedelta(minutes=5))
    client.add_job(job)
    stored = client.get_job_detail(job.key)
    assert stored is not None
    assert (stored.max_concurrent, stored.disallow_concurrent) == (3, False)
    assert (stored.retry, stored.timeout) == (policy, timedelta(minutes=5))
