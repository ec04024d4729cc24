"""Pausing with a reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import JobDetail, MaintenanceWindow, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.errors import InvalidValueError, ObjectAlreadyExistsError, ObjectNotFoundError
from quartzpy.instants import Span
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


@pytest.mark.parametrize("until", ["2h", 7200, timedelta(hours=2)])
def test_a_pause_ends_after_a_span_or_at_an_instant(stored: Scheduler, until: Span) -> None:
    before = datetime.now(UTC)
    stored.pause_trigger(KEY, until=until, missed="skip")
    [record] = stored.triggers()
    assert record.paused_until is not None
    assert timedelta() <= record.paused_until - before - timedelta(hours=2) < timedelta(minutes=1)
    end = datetime(2080, 1, 1, tzinfo=UTC)
    for pause in (stored.pause_job, stored.pause_trigger_group, stored.pause_job_group):
        pause("job" if pause == stored.pause_job else "DEFAULT", until=end)
    stored.pause_all(until=end)
    [record] = stored.triggers()
    assert record.paused_until == end
    assert "It is resumed at 2080-01-01T00:00:00+00:00, and its next fire time" in stored.why(KEY)[0]


def test_windows_are_stored_by_name(client: Scheduler) -> None:
    window = MaintenanceWindow("move", start=datetime(2090, 1, 1, tzinfo=UTC), end=datetime(2090, 1, 2, tzinfo=UTC))
    client.add_maintenance_window(window, by="ann")
    client.add_maintenance_window(window)
    [record] = client.maintenance_windows()
    assert (record.window, record.changed_by) == (window, "ann")
    with pytest.raises(ObjectAlreadyExistsError):
        client.add_maintenance_window(replace(window, reason="another one"))
    assert client.delete_maintenance_window("move")
    assert not client.delete_maintenance_window("move", missing_ok=True)
    with pytest.raises(ObjectNotFoundError, match="none is stored"):
        client.delete_maintenance_window("move")
