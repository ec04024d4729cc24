"""Intervals of the calendar: months, changes of the clock, the end, and speed."""

from __future__ import annotations

import json
import time as stopwatch
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.calendars.days import WeeklyCalendar
from quartzpy.errors import InvalidTriggerError, UnknownTimeZoneError
from quartzpy.instants import zone
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger, IntervalUnit
from tests.fire_times import first_fire_times
from tests.unit.instants import instants, utc

ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia"]


def local(times: list[datetime], trigger: CalendarIntervalTrigger) -> list[str]:
    return [at.astimezone(zone(trigger.time_zone)).isoformat(" ", "minutes") for at in times]


@pytest.mark.parametrize(
    ("start", "interval", "unit", "zone", "skip", "expected"),
    [
        # A month is counted from the fire before: what was cut short stays short.
        (
            "2026-01-31 09:00", 1, "month", "UTC", False,
            ["2026-01-31 09:00", "2026-02-28 09:00", "2026-03-28 09:00"],
        ),
        (
            "2027-12-31 09:00", 2, "month", "UTC", False,
            ["2027-12-31 09:00", "2028-02-29 09:00", "2028-04-29 09:00"],
        ),
        (
            "2028-02-29 09:00", 1, "year", "UTC", False,
            ["2028-02-29 09:00", "2029-02-28 09:00", "2030-02-28 09:00"],
        ),
        (
            "2096-02-29 09:00", 4, "year", "UTC", False,
            ["2096-02-29 09:00", "2100-02-28 09:00", "2104-02-28 09:00"],
        ),
        # 02:30 does not exist on March 29: an hour later, or not at all. And back to 02:30 the day after.
        (
            "2026-03-28 01:30", 1, "day", "Europe/Berlin", False,
            ["2026-03-28 02:30+01:00", "2026-03-29 03:30+02:00", "2026-03-30 02:30+02:00"],
        ),
        (
            "2026-03-28 01:30", 1, "day", "Europe/Berlin", True,
            ["2026-03-28 02:30+01:00", "2026-03-30 02:30+02:00", "2026-03-31 02:30+02:00"],
        ),
        # 02:30 comes twice on October 25: the first one.
        (
            "2026-10-24 00:30", 1, "day", "Europe/Berlin", False,
            ["2026-10-24 02:30+02:00", "2026-10-25 02:30+02:00", "2026-10-26 02:30+01:00"],
        ),
        # But a start on the second pass is where it is.
        (
            "2026-10-25 01:30", 1, "day", "Europe/Berlin", False,
            ["2026-10-25 02:30+01:00", "2026-10-26 02:30+01:00", "2026-10-27 02:30+01:00"],
        ),
        # Hours are elapsed time.
        (
            "2026-03-28 12:00", 12, "hour", "Europe/Berlin", False,
            ["2026-03-28 13:00+01:00", "2026-03-29 01:00+01:00", "2026-03-29 14:00+02:00"],
        ),
        # Samoa had no December 30: the day after instead, and on from there.
        (
            "2011-12-28 10:00", 2, "day", "Pacific/Apia", False,
            ["2011-12-28 00:00-10:00", "2011-12-31 00:00+14:00", "2012-01-02 00:00+14:00"],
        ),
    ],
)  # fmt: skip
def test_intervals_are_counted_as_people_count_them(start, interval, unit, zone, skip, expected) -> None:
    trigger = CalendarIntervalTrigger(
        start_time=utc(start),
        interval=interval,
        unit=unit,
        time_zone=zone,
        skip_day_if_hour_does_not_exist=skip,
    )
    fired = [text.removesuffix("+00:00") for text in local(first_fire_times(trigger, 3), trigger)]
    assert fired == expected


def test_the_end_is_not_a_fire() -> None:
    trigger = CalendarIntervalTrigger(
        interval=10, unit="minute", start_time=utc("2026-01-01 00:00"), end_time=utc("2026-01-01 00:30")
    )
    assert first_fire_times(trigger, 9) == [utc("2026-01-01 00:00"), utc("2026-01-01 00:10"), utc("2026-01-01 00:20")]
    assert trigger.final_fire_time == utc("2026-01-01 00:20")


def test_a_calendar_leaves_days_out() -> None:
    trigger = CalendarIntervalTrigger(interval=1, unit="day", start_time=utc("2026-05-15 12:00"))
    fired = first_fire_times(trigger, 3, calendar=WeeklyCalendar())
    assert [at.day for at in fired] == [15, 18, 19]


TRIGGERS = st.builds(
    CalendarIntervalTrigger,
    interval=st.integers(1, 50),
    unit=st.sampled_from(IntervalUnit),
    time_zone=st.sampled_from(ZONES),
    preserve_hour_of_day=st.booleans(),
    skip_day_if_hour_does_not_exist=st.booleans(),
    start_time=instants(1970, 2030),
    end_time=st.none() | instants(2031, 2040),
)
INSTANTS = instants(1960, 2040)


@given(TRIGGERS, INSTANTS)
def test_the_next_fire_is_later_and_none_lies_between(trigger: CalendarIntervalTrigger, instant: datetime) -> None:
    following = trigger.next_after(instant)
    if following is None:
        assert trigger.end_time is not None
        assert trigger.final_fire_time is not None
        assert trigger.final_fire_time <= max(instant, trigger.anchor)
        return
    assert following > instant
    assert following >= trigger.anchor
    assert trigger.next_after(following - timedelta.resolution) == following
    assert trigger.next_after(instant + (following - instant) / 2) in {
        following,
        trigger.next_after(following),
    }
    if trigger.end_time is not None:
        assert following < trigger.end_time
        assert following <= trigger.final_fire_time
        assert trigger.next_after(trigger.final_fire_time) is None
        assert trigger.next_after(trigger.final_fire_time - timedelta.resolution) == trigger.final_fire_time


@given(TRIGGERS)
def test_a_trigger_comes_back_from_its_schedule_as_it_was(trigger: CalendarIntervalTrigger) -> None:
    schedule = json.loads(json.dumps(trigger.schedule()))
    again = CalendarIntervalTrigger.from_schedule(
        schedule, name=trigger.name, start_time=trigger.start_time, end_time=trigger.end_time
    )
    assert again == trigger


@pytest.mark.parametrize("unit", list(IntervalUnit))
def test_searching_decades_costs_no_more_than_a_day(unit: IntervalUnit) -> None:
    trigger = CalendarIntervalTrigger(
        interval=1, unit=unit, start_time=utc("1970-01-31 00:00:01"), time_zone="Europe/Berlin"
    )
    trigger.next_after(utc("2026-05-15 12:00"))
    began = stopwatch.process_time()
    for _ in range(100):
        trigger.next_after(utc("2026-05-15 12:00"))
    assert stopwatch.process_time() - began < 0.3  # some milliseconds each, and really some microseconds


def test_nothing_is_found_beyond_a_hundred_years_and_the_end_of_time() -> None:
    assert first_fire_times(CalendarIntervalTrigger(interval=200, unit="year", start_time=utc("2026-01-01")), 9) == [
        utc("2026-01-01")
    ]
    for unit in IntervalUnit:
        late = CalendarIntervalTrigger(interval=2**31 - 1, unit=unit, start_time=utc("9999-01-01"))
        assert first_fire_times(late, 9) == [utc("9999-01-01")]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"interval": 0}, "interval"),
        ({"interval": -1}, "interval"),
        ({"interval": 1.5}, "interval"),
        ({"interval": True}, "interval"),
        ({"unit": "fortnight"}, "second, minute, hour"),
        ({"preserve_hour_of_day": "yes"}, "preserve_hour_of_day"),
        ({"misfire": "reschedule"}, "smart, ignore, fire_once_now, do_nothing"),
    ],
)
def test_a_wrong_value_is_named(wrong, words) -> None:
    with pytest.raises(InvalidTriggerError, match=words):
        CalendarIntervalTrigger(**{"interval": 1, "unit": "day", **wrong})
    with pytest.raises(UnknownTimeZoneError):
        CalendarIntervalTrigger(interval=1, unit="day", time_zone="Mars")
