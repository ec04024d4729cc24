"""Intervals within hours of the day: windows, days of the week, counts and changes of the clock."""

from __future__ import annotations

import json
import time as stopwatch
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.calendars.days import MONDAY_TO_FRIDAY, DayOfWeek, WeeklyCalendar
from quartzpy.errors import InvalidTriggerError, UnknownTimeZoneError
from quartzpy.instants import zone
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from tests.fire_times import first_fire_times
from tests.unit.instants import instants, utc

ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia"]


MIDNIGHT = utc("2026-01-01")


def office_hours(**changed: Any) -> DailyTimeIntervalTrigger:
    values: dict[str, Any] = {
        "interval": 4,
        "unit": "hour",
        "start_time_of_day": time(9),
        "end_time_of_day": time(17),
        "days_of_week": MONDAY_TO_FRIDAY,
        "start_time": utc("2026-05-15 10:00"),  # a Friday
    }
    return DailyTimeIntervalTrigger(**{**values, **changed})


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (office_hours(), ["15 13:00", "15 17:00", "18 09:00", "18 13:00", "18 17:00"]),
        (
            office_hours(end_time_of_day=time(16, 59, 59)),
            ["15 13:00", "18 09:00", "18 13:00", "19 09:00", "19 13:00"],
        ),
        (office_hours(repeat_count=2), ["15 13:00", "15 17:00", "18 09:00"]),
        (office_hours(repeat_count=0), ["15 13:00"]),
        (office_hours(end_time=utc("2026-05-18 09:00")), ["15 13:00", "15 17:00", "18 09:00"]),
        (office_hours(end_time=utc("2026-05-18 08:59:59")), ["15 13:00", "15 17:00"]),
        (office_hours(start_time=utc("2026-05-15 17:00:00.5")), ["18 09:00", "18 13:00", "18 17:00"]),
        (office_hours(days_of_week={DayOfWeek.SATURDAY}), ["16 09:00", "16 13:00", "16 17:00", "23 09:00"]),
        (office_hours(end_time_of_day=time(9)), ["18 09:00", "19 09:00", "20 09:00"]),
    ],
)
def test_fires_on_the_chosen_days_within_the_hours(trigger: DailyTimeIntervalTrigger, expected: list[str]) -> None:
    fired = [at.strftime("%d %H:%M") for at in first_fire_times(trigger, len(expected) + 1)]
    assert fired[: len(expected)] == expected
    ends = trigger.repeat_count is not None or trigger.end_time is not None
    assert len(fired) == len(expected) + (not ends)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        # 02:00 does not exist on March 29: 03:00 is the start of that day. The next day is as ever.
        ("2026-03-28 12:00", ["03:00+02:00", "04:30+02:00", "02:00+02:00", "03:30+02:00"]),
        # 02:00 comes twice on October 25; the interval counts elapsed time from the first.
        ("2026-10-24 12:00", ["02:00+02:00", "02:30+01:00", "04:00+01:00", "02:00+01:00"]),
    ],
)
def test_the_day_of_a_change_of_the_clock(start: str, expected: list[str]) -> None:
    trigger = DailyTimeIntervalTrigger(
        interval=90,
        unit="minute",
        start_time_of_day=time(2),
        end_time_of_day=time(5),
        time_zone="Europe/Berlin",
        start_time=utc(start),
    )
    berlin = zone("Europe/Berlin")
    fired = [at.astimezone(berlin).isoformat(" ", "minutes")[11:] for at in first_fire_times(trigger, 4)]
    assert fired == expected


def test_a_search_jumps_over_excluded_times() -> None:
    every_second = DailyTimeIntervalTrigger(interval=1, unit="second", start_time=utc("2026-05-16 00:00"))
    began = stopwatch.process_time()
    assert every_second.started(WeeklyCalendar()).next_fire_time == utc("2026-05-18 00:00")
    assert stopwatch.process_time() - began < 0.3


def test_the_final_fire_is_the_last_before_the_end_and_not_known_with_a_count() -> None:
    assert office_hours(end_time=utc("2026-05-18 12:00")).final_fire_time == utc("2026-05-18 09:00")
    assert office_hours(end_time=utc("2026-05-18 08:00")).final_fire_time == utc("2026-05-15 17:00")
    assert office_hours(end_time=utc("2026-05-15 11:00")).final_fire_time is None
    assert office_hours(end_time=utc("2026-05-18 12:00"), repeat_count=1).final_fire_time is None
    assert office_hours().final_fire_time is None


SECONDS = st.integers(0, 86_399)
TRIGGERS = st.builds(
    lambda bounds, interval, unit, **rest: DailyTimeIntervalTrigger(
        interval=interval,
        unit=unit,
        start_time_of_day=_clock(min(bounds)),
        end_time_of_day=_clock(max(bounds)),
        **rest,
    ),
    st.tuples(SECONDS, SECONDS),
    st.integers(1, 24),
    st.sampled_from(["second", "minute", "hour"]),
    days_of_week=st.frozensets(st.sampled_from(DayOfWeek), min_size=1),
    time_zone=st.sampled_from(ZONES),
    start_time=instants(2008, 2027),
    end_time=st.none() | instants(2028, 2029),
    repeat_count=st.none(),
)


def _clock(seconds: int) -> time:
    return (MIDNIGHT + timedelta(seconds=seconds)).time()


@given(TRIGGERS, instants(2007, 2030))
def test_the_next_fire_is_later_and_on_a_chosen_day(trigger: DailyTimeIntervalTrigger, instant: datetime) -> None:
    following = trigger.next_after(instant)
    if following is None:
        assert trigger.end_time is not None
        return
    assert following > instant
    assert following >= trigger.anchor
    assert DayOfWeek.of(following.astimezone(zone(trigger.time_zone)).date()) in trigger.days_of_week
    assert trigger.first_from(following) == following
    if trigger.end_time is not None:
        assert following <= trigger.final_fire_time <= trigger.end_time
        assert trigger.next_after(trigger.final_fire_time) is None


@given(TRIGGERS)
def test_a_trigger_comes_back_from_its_schedule_as_it_was(trigger: DailyTimeIntervalTrigger) -> None:
    schedule = json.loads(json.dumps(trigger.schedule()))
    again = DailyTimeIntervalTrigger.from_schedule(
        schedule, name=trigger.name, start_time=trigger.start_time, end_time=trigger.end_time
    )
    assert again == trigger


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"interval": 0}, "interval"),
        ({"interval": 25}, "at most 24 hours"),
        ({"interval": 86_401, "unit": "second"}, "at most 24 hours"),
        ({"unit": "day"}, "second, minute, hour"),
        ({"repeat_count": -1}, "repeat_count"),
        ({"start_time_of_day": time(18)}, "before start_time_of_day"),
        ({"start_time_of_day": "09:00"}, "start_time_of_day"),
        ({"end_time_of_day": time(17, tzinfo=UTC)}, "end_time_of_day"),
        ({"end_time_of_day": time(17, 0, 0, 1)}, "whole seconds"),
        ({"days_of_week": ()}, "at least one day"),
        ({"days_of_week": {0}}, "days_of_week"),
    ],
)
def test_a_wrong_value_is_named(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidTriggerError, match=words):
        office_hours(**wrong)
    with pytest.raises(UnknownTimeZoneError):
        office_hours(time_zone="Mars")
