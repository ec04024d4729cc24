"""Time zones: names, fixed offsets, and zone objects wherever a zone is taken."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from quartzpy import (
    AnnualCalendar,
    CalendarIntervalTrigger,
    CronCalendar,
    CronTrigger,
    DailyTimeIntervalTrigger,
    HolidayCalendar,
    IntervalUnit,
    RecurrenceTrigger,
    WeeklyCalendar,
)
from quartzpy.errors import UnknownTimeZoneError
from quartzpy.instants import fixed_offset, zone_name
from tests.fire_times import first_fire_times

START = datetime(2026, 5, 14, 23, tzinfo=UTC)  # already Friday, May 15, at +02:00

TAKERS: dict[str, Callable[[Any], Any]] = {
    "cron": lambda zone: CronTrigger("0 30 2 * * ?", "t", time_zone=zone),
    "calendar interval": lambda zone: CalendarIntervalTrigger("t", interval=1, unit=IntervalUnit.DAY, time_zone=zone),
    "daily time interval": lambda zone: DailyTimeIntervalTrigger(
        "t", interval=1, unit=IntervalUnit.HOUR, time_zone=zone
    ),
    "recurrence": lambda zone: RecurrenceTrigger("t", rule="FREQ=DAILY", time_zone=zone),
    "weekly": lambda zone: WeeklyCalendar(time_zone=zone),
    "annual": lambda zone: AnnualCalendar([(5, 15)], time_zone=zone),
    "holidays": lambda zone: HolidayCalendar([date(2026, 5, 15)], time_zone=zone),
    "cron calendar": lambda zone: CronCalendar(expression="* * 0-7 * * ?", time_zone=zone),
}


@pytest.mark.parametrize("kind", TAKERS)
@pytest.mark.parametrize(
    ("zone", "name"),
    [
        ("+02:00", "+02:00"),
        (timezone(timedelta(hours=2)), "+02:00"),
        (timezone(-timedelta(hours=3, minutes=30)), "-03:30"),
        (UTC, "UTC"),
        (ZoneInfo("Europe/Berlin"), "Europe/Berlin"),
    ],
)
def test_a_zone_is_kept_by_its_name_wherever_one_is_taken(kind: str, zone: Any, name: str) -> None:
    taken = TAKERS[kind](zone)
    assert taken.time_zone == name
    assert taken == TAKERS[kind](name)


@pytest.mark.parametrize("kind", TAKERS)
@pytest.mark.parametrize("zone", ["Mars/Olympus", "+19:00", "+01:60", 3, timezone(timedelta(seconds=30)), None])
def test_what_is_no_zone_is_refused_wherever_one_is_taken(kind: str, zone: Any) -> None:
    with pytest.raises(UnknownTimeZoneError, match=r"^time zone: "):
        TAKERS[kind](zone)


def test_days_and_times_are_those_of_the_offset() -> None:
    assert not HolidayCalendar([date(2026, 5, 15)], time_zone="+02:00").is_included(START)
    assert HolidayCalendar([date(2026, 5, 15)], time_zone="-02:00").is_included(START)
    daily = CalendarIntervalTrigger("t", interval=1, unit=IntervalUnit.DAY, time_zone="+02:00", start_time=START)
    assert first_fire_times(daily, 2) == [START, START + timedelta(days=1)]
    rule = RecurrenceTrigger("t", rule="FREQ=DAILY;BYHOUR=2", time_zone="+02:00", start_time=START)
    assert first_fire_times(rule, 1) == [datetime(2026, 5, 15, 0, 0, tzinfo=UTC)]


def test_offsets() -> None:
    assert fixed_offset("+05:45") == timezone(timedelta(hours=5, minutes=45))
    assert fixed_offset("-18:00") == timezone(timedelta(hours=-18))
    assert fixed_offset("Europe/Berlin") is None
    assert fixed_offset("+5:45") is None
    assert zone_name(timezone(timedelta())) == "UTC"
