"""`context.transaction()`: a job's own rows and its completion are one transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Engine, text

from quartzpy import JobDetail, RetryPolicy, Scheduler, SimpleTrigger
from quartzpy.states import Outcome
from tests.facade import jobs

SOON = timedelta(seconds=10)


@pytest.fixture
def url(postgres_dsn: str) -> str:
    return postgres_dsn


def payments(engine: Engine) -> int:
    with engine.begin() as connection:
        return int(connection.execute(text("SELECT count(*) FROM payments")).scalar_one())


def run(scheduler: Scheduler, how: str, executions: int = 1, **values: object) -> list[Outcome]:
    job = JobDetail(jobs.Paying, "job", data={"how": how}, durable=True, **values)  # type: ignore[arg-type]
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


def test_a_second_transaction_is_refused(scheduler: Scheduler, engine: Engine) -> None:
    assert run(scheduler, "twice") == [Outcome.SUCCEEDED]
    assert payments(engine) == 1
    assert "committed one already" in str(jobs.next_run().get("error"))


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


def test_memory_has_no_transactions() -> None:
    with Scheduler("memory://", **jobs.arguments()) as scheduler:
        jobs.reset()
        job = JobDetail(jobs.Paying, "job", data={"how": "well"})
        scheduler.schedule_job(job, SimpleTrigger("t"))
        assert scheduler.wait_until_recorded(1, SOON)
        [execution] = scheduler.executions()
        assert execution.outcome is Outcome.FAILED
        assert "memory://" in (execution.error or "")
