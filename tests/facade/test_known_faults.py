"""Quartz's own defects that are not possible here; the others are in the contract, cluster and store_sql tests."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import JobDetail, PublicState, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.errors import CalendarNotFoundError
from tests.facade import jobs


def test_a_class_that_this_node_does_not_know_poisons_nothing(
    make_scheduler: Callable[..., Scheduler], caplog: pytest.LogCaptureFixture
) -> None:
    """Quartz sets all triggers of such a job to ERROR, on every node (quartz#638)."""
    scheduler = make_scheduler()
    unknown = JobDetail("billing.jobs:Elsewhere", "unknown")
    long_ago = datetime.now(UTC) - timedelta(seconds=5)
    scheduler.schedule_job(unknown, [SimpleTrigger(f"u{n}", start_time=long_ago) for n in range(20)])
    scheduler.schedule_job(JobDetail(jobs.Recorded, "known"), SimpleTrigger("k"))
    with caplog.at_level(logging.WARNING):
        scheduler.start()
        assert jobs.next_run().job_key.name == "known"
    assert {scheduler.trigger_state(TriggerKey(f"u{n}", "DEFAULT")) for n in range(20)} == {PublicState.NORMAL}
    assert "to other nodes: billing.jobs:Elsewhere" in caplog.text


def test_a_calendar_that_does_not_exist_is_refused_when_the_trigger_is_stored(client: Scheduler) -> None:
    """Quartz accepts it, and then acquires and releases the trigger in a hot loop."""
    with pytest.raises(CalendarNotFoundError, match="'holidays' is not stored"):
        client.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t", calendar="holidays"))
    assert list(client.jobs()) == []


def test_the_instruction_of_a_job_does_not_affect_a_trigger_that_replaced_its_own(scheduler: Scheduler) -> None:
    """Quartz completes by trigger key: a replacement that came while the job ran was ended with it."""
    job = JobDetail(jobs.Waiting, "job", durable=True)
    scheduler.schedule_job(job, SimpleTrigger("t"))
    jobs.next_run()
    later = datetime.now(UTC) + timedelta(hours=1)
    scheduler.schedule_job(job, SimpleTrigger("t", start_time=later), replace=True)
    jobs.go_on.set()
    assert scheduler.wait_until_recorded(1, timedelta(seconds=30))
    record = scheduler.trigger_record(TriggerKey("t", "DEFAULT"))
    assert record is not None
    assert record.progress.next_fire_time == later
    assert record.progress.times_triggered == 0


def test_pausing_a_trigger_while_its_serial_job_runs_leaves_it_paused_and_not_stuck(scheduler: Scheduler) -> None:
    job = JobDetail(jobs.SerialWaiting, "job")
    often = SimpleTrigger("often", interval=timedelta(milliseconds=50), repeat_count=None)
    scheduler.schedule_job(job, [often, SimpleTrigger("sibling", start_time=datetime.now(UTC) + timedelta(hours=1))])
    jobs.next_run()
    keys = [TriggerKey(name, "DEFAULT") for name in ("often", "sibling")]
    for key in keys:
        scheduler.pause_trigger(key)
    jobs.go_on.set()
    assert scheduler.wait_until_recorded(1, timedelta(seconds=30))
    records = [scheduler.trigger_record(key) for key in keys]
    assert [record.state for record in records if record] == ["PAUSED", "PAUSED"]
    scheduler.resume_trigger(keys[0])
    jobs.next_run()
