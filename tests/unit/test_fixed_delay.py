"""The values of a trigger with a fixed delay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import FixedDelayTrigger, Job, JobDetail, JobExecutionContext, WeeklyCalendar
from quartzpy.errors import InvalidTriggerError
from quartzpy.testing import SchedulerHarness
from quartzpy.triggers.registry import stored_schedule

START = datetime(2026, 1, 2, 23, 30, tzinfo=UTC)  # a Friday


class Nothing(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


def test_it_reads_back_what_was_stored() -> None:
    trigger = FixedDelayTrigger("1h30m", start_time=START)
    assert trigger == FixedDelayTrigger(5400, start_time=START)
    assert stored_schedule("fixed_delay", trigger.schedule(), start_time=START) == trigger


def test_a_calendar_moves_the_next_fire_to_the_first_instant_that_it_includes() -> None:
    trigger = FixedDelayTrigger("1h", start_time=START)
    assert trigger.next_by_end(START, None) == START + timedelta(hours=1)
    assert trigger.next_by_end(START, WeeklyCalendar()) == datetime(2026, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize("delay", [0, "-1s", "soon", timedelta(microseconds=3)])
def test_a_wrong_delay_is_refused(delay: object) -> None:
    with pytest.raises(InvalidTriggerError, match=r"^delay: "):
        FixedDelayTrigger(delay)  # type: ignore[arg-type]


def test_a_job_that_may_run_concurrently_is_refused() -> None:
    harness = SchedulerHarness(START)
    with pytest.raises(InvalidTriggerError, match="must disallow concurrent execution"):
        harness.schedule_job(JobDetail(Nothing, "job"), FixedDelayTrigger("1h"))
    harness.schedule_job(JobDetail(Nothing, "job", disallow_concurrent=True), FixedDelayTrigger("1h"))
    assert len(harness.advance("3h")) == 4
