"""`context.snooze`: a job that asks to run again later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, RetryPolicy, Scheduler, SimpleTrigger
from quartzpy.errors import InvalidValueError, JobSnoozedError
from quartzpy.node.engines.process_messages import error_from_json, error_to_json
from quartzpy.testing.scheduler import SchedulerHarness

MINUTE = timedelta(minutes=1)
seen: list[Any] = []


class Waits(Job, type_name="snooze:waits"):
    """Snoozes twice, then succeeds."""

    def execute(self, context: JobExecutionContext) -> str:
        seen.append((context.attempt, context.execution_key, context.data["order"]))
        runs = context.job_detail_data.get("runs", 0) + 1
        context.job_detail_data["runs"] = runs
        if runs == 1:
            context.snooze("1m", reason="the file is not there")
        if runs == 2:
            context.snooze_until(context.fire_time + 2 * MINUTE)
        return "done"


class WaitsAsync(Job, type_name="snooze:waits-async"):
    async def execute(self, context: JobExecutionContext) -> None:
        context.snooze(0.02) if not seen else None
        seen.append(context.attempt)


class Wrong(Job, type_name="snooze:wrong"):
    def execute(self, context: JobExecutionContext) -> None:
        with pytest.raises(InvalidValueError, match="delay"):
            context.snooze("soon")
        with pytest.raises(InvalidValueError, match="instant: needs a time zone"):
            context.snooze_until(datetime(2026, 1, 1))
        with pytest.raises(InvalidValueError, match="reason: must be str"):
            context.snooze(1, reason=5)  # type: ignore[arg-type]
        seen.append("checked")


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


def test_a_snoozed_job_runs_again_and_no_attempt_is_used_up() -> None:
    scheduler = SchedulerHarness()
    detail = JobDetail(Waits, "waits", persist_data=True, data={"order": 7}, retry=RetryPolicy(attempts=2))
    scheduler.schedule_job(detail, SimpleTrigger("once"))
    began = scheduler.now
    records = scheduler.advance(timedelta(hours=1))
    assert [record.state for record in records] == ["SNOOZED", "SNOOZED", "SUCCEEDED"]
    assert [record.error for record in records] == ["the file is not there", None, None]
    assert [record.retry_at for record in records] == [began + MINUTE, began + 3 * MINUTE, None]
    assert records[-1].result == "done"
    keys = {execution_key for _, execution_key, _ in seen}
    assert (len(seen), len(keys)) == (3, 1)
    assert {(attempt, order) for attempt, _, order in seen} == {(1, 7)}


def test_an_async_job_on_a_node_is_snoozed(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(WaitsAsync, "waits"), SimpleTrigger("once"))
    assert scheduler.wait_until_recorded(1, timedelta(seconds=20))
    # The first raised before it was seen; every later one succeeds.
    seen.append("snoozed")
    assert scheduler.wait_until_recorded(2, timedelta(seconds=20))
    states = [record.state for record in scheduler.executions(job=JobKey("waits"))]
    assert states[-1] == "SNOOZED"


def test_what_cannot_be_snoozed_for_is_refused() -> None:
    scheduler = SchedulerHarness()
    scheduler.schedule_job(JobDetail(Wrong, "wrong"), SimpleTrigger("once"))
    [record] = scheduler.run_pending()
    assert (record.state, seen) == ("SUCCEEDED", ["checked"])


@pytest.mark.parametrize(
    "asked",
    [
        JobSnoozedError("why", delay=MINUTE),
        JobSnoozedError("", until=datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_worker_process_hands_it_on(asked: JobSnoozedError) -> None:
    again = error_from_json(error_to_json(asked))
    assert isinstance(again, JobSnoozedError)
    assert (str(again), again.delay, again.until) == (str(asked), asked.delay, asked.until)
