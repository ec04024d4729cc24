"""`context.transaction()`: a job's own rows and its completion are one transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Engine, text

from quartzpy import Job, JobDetail, RetryPolicy, Scheduler, SimpleTrigger
from quartzpy.errors import InvalidValueError, LeaseLostError
from quartzpy.states import Outcome
from tests.facade import jobs

SOON = timedelta(seconds=30)


@pytest.fixture
def url(postgres_dsn: str) -> str:
    return postgres_dsn


def payments(engine: Engine) -> int:
    with engine.begin() as connection:
        return int(connection.execute(text("SELECT count(*) FROM payments")).scalar_one())


def run(
    scheduler: Scheduler, how: str, executions: int = 1, *, job_class: type[Job] = jobs.Paying, **values: object
) -> list[Outcome]:
    job = JobDetail(job_class, "job", data={"how": how}, durable=True, **values)  # type: ignore[arg-type]
    scheduler.schedule_job(job, SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(executions, SOON)
    return [execution.outcome for execution in reversed(scheduler.executions())]


def test_work_and_completion_are_committed_together(scheduler: Scheduler, engine: Engine) -> None:
    assert run(scheduler, "well") == [Outcome.SUCCEEDED]
    assert payments(engine) == 1
    assert scheduler.running() == []
    assert scheduler.trigger_keys() == set()
    context = jobs.next_run()
    assert context.get("after") == [Outcome.SUCCEEDED], "recorded when the block ended"


def test_an_error_in_the_block_rolls_back_and_is_retried(scheduler: Scheduler, engine: Engine) -> None:
    policy = RetryPolicy(attempts=2, delay=timedelta())
    assert run(scheduler, "raise at first", 2, retry=policy) == [Outcome.FAILED, Outcome.SUCCEEDED]
    assert payments(engine) == 1


def test_an_error_after_the_block_changes_nothing(scheduler: Scheduler, engine: Engine) -> None:
    policy = RetryPolicy(attempts=2, delay=timedelta())
    assert run(scheduler, "raise afterwards", retry=policy) == [Outcome.SUCCEEDED]
    assert payments(engine) == 1
    assert scheduler.trigger_keys() == set()


@pytest.mark.parametrize("fails", [False, True])
def test_a_job_triggers_the_next_one_together_with_its_own_end(scheduler: Scheduler, fails: bool) -> None:
    scheduler.add_job(JobDetail(jobs.Recorded, "next", durable=True))
    scheduler.schedule_job(JobDetail(jobs.TriggeringNext, "first", data={"fails": fails}), SimpleTrigger("t"))
    assert jobs.next_run().job_key.name == "first"
    assert scheduler.wait_until_recorded(1 if fails else 2, SOON)
    if fails:
        assert jobs.nothing_ran()
    else:
        assert jobs.next_run().job_data == {"after": "first"}


def test_a_second_transaction_is_refused(scheduler: Scheduler, engine: Engine) -> None:
    assert run(scheduler, "twice") == [Outcome.SUCCEEDED]
    assert payments(engine) == 1
    assert "already committed its transaction" in str(jobs.next_run().get("error"))


def test_a_serial_job_releases_its_triggers_and_keeps_its_data(scheduler: Scheduler, engine: Engine) -> None:
    job = JobDetail(jobs.Paying, "job", data={"how": "well"}, durable=True, disallow_concurrent=True, persist_data=True)
    scheduler.schedule_job(job, [SimpleTrigger("a"), SimpleTrigger("b"), SimpleTrigger("c")])
    assert scheduler.wait_until_recorded(3, SOON)
    assert payments(engine) == 3
    stored = scheduler.get_job_detail(job.key)
    assert stored is not None
    assert (stored.data or {})["paid"] == 3


def test_a_node_that_was_declared_dead_commits_nothing(
    scheduler: Scheduler, engine: Engine, make_scheduler: Callable[..., Scheduler]
) -> None:
    job = JobDetail(jobs.Paying, "job", data={"how": "wait"}, requests_recovery=True, durable=True)
    scheduler.schedule_job(job, SimpleTrigger("t"))
    first = jobs.next_run()
    with engine.begin() as connection:
        # As recovery does it: the epoch goes, and with it the claim.
        connection.execute(text("DELETE FROM qrtz_scheduler_state"))
        connection.execute(text("DELETE FROM qrtz_fired_triggers"))
    jobs.go_on.set()
    assert scheduler.wait_until_recorded(1, SOON)
    assert payments(engine) == 0
    assert "no longer this node's" in str(first.get("error"))


def test_fenced_transactions_commit_one_by_one_and_the_execution_continues(
    scheduler: Scheduler, engine: Engine
) -> None:
    assert run(scheduler, "well", job_class=jobs.Saving) == [Outcome.SUCCEEDED]
    assert payments(engine) == 2
    assert jobs.next_run().get("running") == ["EXECUTING"], "not recorded by a commit"
    assert scheduler.running() == []
    assert scheduler.trigger_keys() == set()


def test_an_error_in_a_fenced_block_rolls_back_that_block(scheduler: Scheduler, engine: Engine) -> None:
    assert run(scheduler, "raise", job_class=jobs.Saving) == [Outcome.SUCCEEDED]
    assert payments(engine) == 1
    assert "not this one" in str(jobs.next_run().get("error"))


def test_nothing_is_fenced_once_the_execution_is_recorded(scheduler: Scheduler, engine: Engine) -> None:
    assert run(scheduler, "after its transaction", job_class=jobs.Saving) == [Outcome.SUCCEEDED]
    assert payments(engine) == 1
    error = jobs.next_run().get("error")
    assert isinstance(error, InvalidValueError)
    assert "recorded" in str(error)


@pytest.mark.parametrize("gone", ["the epoch", "the claim"])
def test_a_node_that_was_declared_dead_commits_nothing_more(scheduler: Scheduler, engine: Engine, gone: str) -> None:
    job = JobDetail(jobs.Saving, "job", data={"how": "wait"}, durable=True)
    scheduler.schedule_job(job, SimpleTrigger("t"))
    context = jobs.next_run()
    with engine.begin() as connection:
        # Halves of a recovery: each is enough.
        table = "qrtz_scheduler_state" if gone == "the epoch" else "qrtz_fired_triggers"
        connection.execute(text(f"DELETE FROM {table}"))
    jobs.go_on.set()
    assert jobs.next_run() is context
    assert isinstance(context.get("error"), LeaseLostError)
    assert payments(engine) == 1, "what was committed before stays"


@pytest.mark.parametrize("job_class", [jobs.Paying, jobs.Saving])
def test_memory_has_no_transactions(job_class: type[Job]) -> None:
    with Scheduler("memory://", **jobs.arguments()) as scheduler:
        jobs.reset()
        job = JobDetail(job_class, "job", data={"how": "well"})
        scheduler.schedule_job(job, SimpleTrigger("t"))
        assert scheduler.wait_until_recorded(1, SOON)
        [execution] = scheduler.executions()
        assert execution.outcome is Outcome.FAILED
        assert "memory://" in (execution.error or "")
