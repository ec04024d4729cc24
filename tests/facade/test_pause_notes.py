"""Pausing with a reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.errors import InvalidValueError
from tests.facade import jobs

KEY = TriggerKey("t")


@pytest.fixture
def stored(client: Scheduler) -> Scheduler:
    later = datetime(2090, 1, 1, tzinfo=UTC)
    trigger = SimpleTrigger("t", start_time=later, interval=timedelta(hours=1))
    client.schedule_job(JobDetail(jobs.Recorded, "job"), trigger)
    return client


def test_the_record_and_the_explanation_say_who_paused_and_why(stored: Scheduler) -> None:
    stored.pause_trigger(KEY, reason="the warehouse is being moved", by="ann")
    [record] = stored.triggers()
    assert (record.paused_by, record.pause_reason) == ("ann", "the warehouse is being moved")
    assert record.paused_at is not None
    at = record.paused_at.isoformat(timespec="seconds")
    assert stored.why(KEY)[0].startswith(
        f"It has been paused since {at} by ann (the warehouse is being moved). Once it is resumed"
    )
    stored.resume_trigger(KEY)
    assert "ann" not in stored.why(KEY)[0]


def test_a_reason_is_a_text_that_can_be_stored(stored: Scheduler) -> None:
    for reason in (5, "x" * 1001, "a\0b"):
        with pytest.raises(InvalidValueError, match=r"^reason: "):
            stored.pause_job("job", reason=reason)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"^by: "):
        stored.pause_all(by=5)  # type: ignore[arg-type]
    [record] = stored.triggers()
    assert record.state == "WAITING"
