"""`pause_after_failures` with executions that end in the job's own transaction, and with others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, text

from quartzpy import Job, JobDetail, JobExecutionContext, PublicState, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.jobs.retry import RetryPolicy
from tests.waiting import wait_until

LONG = timedelta(seconds=60)
FAR = datetime(2100, 1, 1, tzinfo=UTC)


class Planned(Job, type_name="counted-transactions:planned"):
    """Ends as it is told: F and S plainly, f and s in a transaction, c cancelled, t by its timeout."""

    def execute(self, context: JobExecutionContext) -> None:
        how = str(context.job_data["how"])
        if how in "fs":
            with context.transaction() as connection:
                connection.execute(text("SELECT 1"))
                if how == "f":
                    raise ValueError("broken")
        elif how == "c":
            context.scheduler.cancel(context.fire_id)
            context.raise_if_cancelled()
        elif how == "t":
            context.wait_cancelled(60)
        elif how != "S":
            raise ValueError("broken")


@pytest.mark.parametrize(
    ("ends", "pauses"),
    [
        ("FsFsF", False),
        ("FFsFF", False),
        ("ffsff", False),
        ("FfSfF", False),
        ("FcsFF", False),
        ("FFF", True),
        ("fFf", True),
        ("FcFcF", True),
        ("sFtf", True),
    ],
)
def test_a_success_in_a_transaction_ends_a_row_of_failures(
    make_scheduler: Callable[..., Scheduler], url: str, ends: str, pauses: bool
) -> None:
    if url == "memory://" and not {"f", "s"}.isdisjoint(ends):
        pytest.skip("a transaction of the job's own needs a database")
    scheduler = make_scheduler(workers=1)
    scheduler.start()
    later = SimpleTrigger("later", interval=timedelta(days=1), start_time=FAR)
    timeout = timedelta(milliseconds=300) if "t" in ends else None
    scheduler.schedule_job(JobDetail(Planned, "job", durable=True, pause_after_failures=3, timeout=timeout), [later])
    for how in ends:
        assert scheduler.trigger_state(TriggerKey("later")) is PublicState.NORMAL
        record = scheduler.trigger_job("job", {"how": how}).wait(LONG)
        assert record.outcome == ("SUCCEEDED" if how in "sS" else "CANCELLED" if how == "c" else "FAILED")
    expected = PublicState.PAUSED if pauses else PublicState.NORMAL
    assert scheduler.trigger_state(TriggerKey("later")) is expected


def test_failures_that_are_retried_count_once(scheduler: Scheduler) -> None:
    later = SimpleTrigger("later", interval=timedelta(days=1), start_time=FAR)
    policy = RetryPolicy(attempts=2, delay=timedelta(milliseconds=10))
    scheduler.schedule_job(JobDetail(Planned, "job", durable=True, pause_after_failures=2, retry=policy), [later])
    scheduler.trigger_job("job", {"how": "F"})
    assert scheduler.wait_until_recorded(2, LONG)
    assert scheduler.trigger_state(TriggerKey("later")) is PublicState.NORMAL
    scheduler.trigger_job("job", {"how": "F"})
    assert scheduler.wait_until_recorded(4, LONG)
    assert scheduler.trigger_state(TriggerKey("later")) is PublicState.PAUSED


def test_a_transaction_whose_end_is_counted_waits_for_the_row_of_its_job(
    scheduler: Scheduler, url: str, engine: Engine
) -> None:
    if url == "memory://":
        pytest.skip("a transaction of the job's own needs a database")
    scheduler.add_job(JobDetail(Planned, "job", durable=True, pause_after_failures=2))
    with engine.connect() as connection, connection.begin():
        connection.execute(text("SELECT FROM qrtz_job_details WHERE job_name = 'job' FOR NO KEY UPDATE"))
        handle = scheduler.trigger_job("job", {"how": "s"})
        waits = text("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as watching:
            wait_until(lambda: watching.execute(waits).first())
    assert handle.wait(LONG).outcome == "SUCCEEDED"
