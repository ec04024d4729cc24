"""When the report is written: a month of the schedule in milliseconds, and without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from quartzpy.testing import SchedulerHarness
from shop.scheduling import declare


def test_the_report_is_written_once_a_night_also_when_the_clock_changes() -> None:
    harness = SchedulerHarness(datetime(2026, 3, 15, 12, tzinfo=UTC))
    declare(harness)
    fires = [each.scheduled_fire_time for each in harness.advance(timedelta(days=31))]
    nights = {instant.astimezone(ZoneInfo("Europe/Berlin")).date() for instant in fires}
    assert len(fires) == len(nights) == 31


def test_declaring_again_changes_nothing() -> None:
    harness = SchedulerHarness()
    declare(harness)
    before = [each.trigger for each in harness.triggers()]
    declare(harness)
    assert [each.trigger for each in harness.triggers()] == before
