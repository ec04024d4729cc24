"""The builders of `quartzpy.cron`, and what a cron trigger can be asked."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from quartzpy import CronTrigger, DayOfWeek, HolidayCalendar, MonthlyCalendar, cron
from quartzpy.errors import InvalidCronError, InvalidTriggerError

START = datetime(2026, 5, 15, 10, 20, 30, tzinfo=UTC)  # a Friday


@pytest.mark.parametrize(
    ("trigger", "words", "times"),
    [
        (cron.every_seconds(20), "every 20 seconds", ["15 10:20:40", "15 10:21:00"]),
        (cron.every_minutes(15), "every 15 minutes", ["15 10:30:00", "15 10:45:00"]),
        (cron.every_minutes(1), "every minute", ["15 10:21:00", "15 10:22:00"]),
        (cron.every_hours(6, 30), "every 6 hours from 00:30", ["15 12:30:00", "15 18:30:00"]),
        (cron.hourly(), "every hour", ["15 11:00:00", "15 12:00:00"]),
        (cron.hourly(5), "every hour at minute 5", ["15 11:05:00", "15 12:05:00"]),
        (cron.daily_at(2, 30), "at 02:30", ["16 02:30:00", "17 02:30:00"]),
        (cron.daily_at(2, 30, 15), "at 02:30:15", ["16 02:30:15", "17 02:30:15"]),
        (cron.weekdays_at(9), "at 09:00, Monday to Friday", ["18 09:00:00", "19 09:00:00"]),
        (cron.weekends_at(9), "at 09:00, Saturday and Sunday", ["16 09:00:00", "17 09:00:00"]),
        (cron.weekly_on("MON", 9), "at 09:00, Monday", ["18 09:00:00", "25 09:00:00"]),
        (
            cron.weekly_on(["monday", DayOfWeek.FRIDAY], 9, 15),
            "at 09:15, Monday and Friday",
            ["18 09:15:00", "22 09:15:00"],
        ),
        (cron.monthly_on(1, 2, 30), "at 02:30, on day 1 of the month", ["01 02:30:00", "01 02:30:00"]),
        (cron.monthly_on(-1, 2), "at 02:00, on the last day of the month", ["31 02:00:00", "30 02:00:00"]),
        (cron.monthly_on(-3, 2), "at 02:00, on the day 2 before the last of the month", ["29 02:00:00", "28 02:00:00"]),
        (cron.last_day_of_month_at(23, 59), "at 23:59, on the last day of the month", ["31 23:59:00", "30 23:59:00"]),
        (
            cron.last_weekday_of_month_at(17),
            "at 17:00, on the last weekday (Monday to Friday) of the month",
            ["29 17:00:00", "30 17:00:00"],
        ),
        (
            cron.monthly_on_nth(2, "TUE", 9),
            "at 09:00, on the second Tuesday of the month",
            ["09 09:00:00", "14 09:00:00"],
        ),
        (
            cron.monthly_on_nth(-1, "Fri", 9),
            "at 09:00, on the last Friday of the month",
            ["29 09:00:00", "26 09:00:00"],
        ),
        (
            cron.yearly_on("December", 24, 18),
            "at 18:00, on day 24 of the month, in December",
            ["24 18:00:00", "24 18:00:00"],
        ),
        (cron.yearly_on(1, 1, 0), "at 00:00, on day 1 of the month, in January", ["01 00:00:00", "01 00:00:00"]),
    ],
)
def test_what_a_builder_makes(trigger: CronTrigger, words: str, times: list[str]) -> None:
    assert trigger.describe() == f"{words} (UTC)"
    found = trigger.cron.upcoming(START, 2)
    assert [f"{at:%d %H:%M:%S}" for at in found] == times


def test_a_builder_takes_all_that_a_trigger_takes() -> None:
    built = cron.daily_at(
        2,
        30,
        name="nightly",
        group="reports",
        time_zone="Europe/Berlin",
        dst="quartz",
        misfire="do_nothing",
        priority=7,
    )
    assert built == CronTrigger(
        "0 30 2 * * ?",
        "nightly",
        "reports",
        time_zone="Europe/Berlin",
        dst="quartz",
        misfire="do_nothing",
        priority=7,
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: cron.daily_at(24), r"hour: must be 0-23 \(got 24\)"),
        (lambda: cron.daily_at("2"), r"hour: must be 0-23 \(got '2'\)"),  # type: ignore[arg-type]
        (lambda: cron.daily_at(True), r"hour: must be 0-23 \(got True\)"),
        (lambda: cron.daily_at(2, 60), "minute: must be 0-59"),
        (lambda: cron.hourly(0, 61), "second: must be 0-59"),
        (lambda: cron.every_minutes(7), r"minutes: must divide 60, so one of 1, 2, 3, .*every\(minutes=...\)"),
        (lambda: cron.every_minutes(60), "minutes: must divide 60, so one of .* 30 "),
        (lambda: cron.every_hours(0), "hours: must divide 24"),
        (lambda: cron.weekly_on(1, 9), r"day: must be a name such as 'MON' or 'Monday', or a DayOfWeek \(got 1\)"),  # type: ignore[arg-type]
        (lambda: cron.weekly_on([], 9), "at least one day"),
        (lambda: cron.weekly_on("moonday", 9), "day: must be a name"),
        (lambda: cron.monthly_on(32, 9), "day: must be 1-31 or -31 to -1 from the end of the month"),
        (lambda: cron.monthly_on_nth(6, "MON", 9), "nth: must be 1-5, or -1"),
        (lambda: cron.yearly_on("Smarch", 1, 9), "month: must be 1-12 or JAN-DEC"),
    ],
)
def test_a_wrong_value_is_named(build: object, message: str) -> None:
    with pytest.raises(InvalidCronError, match=message):
        build()  # type: ignore[operator]


# --- questions (Quartz: isSatisfiedBy, getNextInvalidTimeAfter, getTimeBefore, willFireOn)


@pytest.mark.parametrize("text", ["0 0 12 ? * MON-FRI", "0 12 * * 1-5"])
def test_a_trigger_can_be_asked_about_its_times(text: str) -> None:
    trigger = CronTrigger(
        text, "t", start_time=datetime(2026, 5, 1, tzinfo=UTC), end_time=datetime(2026, 5, 20, 12, tzinfo=UTC)
    )
    noon = datetime(2026, 5, 15, 12, tzinfo=UTC)
    assert trigger.is_satisfied_by(noon)
    assert trigger.is_satisfied_by(noon.replace(microsecond=999))
    assert not trigger.is_satisfied_by(noon + timedelta(seconds=1))
    assert not trigger.is_satisfied_by(noon - timedelta(days=30))
    assert not trigger.is_satisfied_by(noon + timedelta(days=7))
    assert trigger.next_invalid_after(noon - timedelta(seconds=1)) == noon + timedelta(seconds=1)
    assert trigger.previous_before(noon) == noon - timedelta(days=1)
    assert trigger.previous_before(datetime(2027, 1, 1, tzinfo=UTC)) == datetime(2026, 5, 20, 12, tzinfo=UTC)
    assert trigger.previous_before(datetime(2026, 5, 1, 12, tzinfo=UTC)) is None


def test_a_trigger_can_be_asked_about_a_day_of_its_zone() -> None:
    trigger = cron.weekdays_at(23, 30, name="t", time_zone="America/New_York")
    assert trigger.will_fire_on(date(2026, 5, 15))
    assert not trigger.will_fire_on(date(2026, 5, 16))  # 03:30 UTC of that day belongs to Friday in New York
    assert trigger.will_fire_on(datetime(2026, 5, 16, 3, 30, tzinfo=UTC))
    assert not trigger.will_fire_on(datetime(2026, 5, 16, 3, 31, tzinfo=UTC))
    holidays = HolidayCalendar([date(2026, 5, 15)], time_zone="America/New_York")
    assert not trigger.will_fire_on(date(2026, 5, 15), holidays)
    assert trigger.will_fire_on(date(2026, 5, 14), holidays)
    assert not trigger.will_fire_on(datetime(2026, 5, 16, 3, 30, tzinfo=UTC), holidays)
    bounded = cron.weekdays_at(9, name="t", start_time=START, end_time=START + timedelta(days=5))
    assert [day for day in range(10, 28) if bounded.will_fire_on(date(2026, 5, day))] == [18, 19, 20]


@pytest.mark.parametrize(
    ("zone", "day", "fires"),
    [
        ("Pacific/Apia", date(2011, 12, 30), False),  # a day that was left out
        ("Pacific/Apia", date(2011, 12, 31), True),
        ("America/Sao_Paulo", date(2018, 11, 4), True),  # a day without a midnight
        ("America/Havana", date(2026, 11, 1), True),  # a midnight that comes twice
        ("Europe/Berlin", date(2026, 3, 29), True),
    ],
)
def test_a_day_of_an_odd_length(zone: str, day: date, fires: bool) -> None:
    assert cron.hourly(30, name="t", time_zone=zone).will_fire_on(day) is fires


@pytest.mark.parametrize("day", ["2026-05-15", datetime(2026, 5, 15, 3, 30), 15])
def test_what_is_no_day_is_refused(day: date) -> None:
    with pytest.raises(InvalidTriggerError, match="day: "):
        cron.hourly(name="t").will_fire_on(day)


def test_a_day_that_the_calendar_excludes_is_answered_in_bounded_time() -> None:
    """A calendar that excludes every day once made such searches endless."""
    nothing = MonthlyCalendar(set(range(1, 32)))
    trigger = CronTrigger("* * * * * ?", "t", start_time=START)
    assert not trigger.will_fire_on(date(2026, 5, 16), nothing)
    assert trigger.started(nothing).next_fire_time is None


def test_a_zone_object_may_be_given_to_a_builder() -> None:
    assert cron.daily_at(2, name="t", time_zone=ZoneInfo("Europe/Berlin")).time_zone == "Europe/Berlin"
    assert cron.daily_at(2, name="t", time_zone=timezone(timedelta(hours=-5))).time_zone == "-05:00"
