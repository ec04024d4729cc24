"""Calendars: what they exclude, where they lead to, and how they are written down."""

from __future__ import annotations

import json
import re
import sys
import time as stopwatch
from datetime import UTC, date, datetime, time, timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.calendars.calendar import MAX_CHAINED, BaseCalendar
from quartzpy.calendars.days import AnnualCalendar, DayOfWeek, HolidayCalendar, MonthlyCalendar, WeeklyCalendar
from quartzpy.calendars.registry import calendar_from_json, calendar_to_json
from quartzpy.calendars.times import CronCalendar, DailyCalendar
from quartzpy.errors import InvalidCalendarError, InvalidCronError, UnknownTimeZoneError
from quartzpy.installing import install_line
from tests.unit.instants import instants, utc

# Clocks that are changed at midnight, by half an hour, twice around midnight, and by a whole day.
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "Pacific/Apia",
]


MIDNIGHT = utc("2026-01-01")
NAIVE = MIDNIGHT.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("calendar", "asked", "answer"),
    [
        (WeeklyCalendar(), "2026-05-15 12:00", "2026-05-15 12:00"),
        (WeeklyCalendar(), "2026-05-16 12:00", "2026-05-18 00:00"),
        (WeeklyCalendar({DayOfWeek.FRIDAY}), "2026-05-15 12:00", "2026-05-16 00:00"),
        (MonthlyCalendar(frozenset(range(1, 31))), "2026-06-30 12:00", "2026-07-31 00:00"),
        (MonthlyCalendar(frozenset(range(1, 31))), "2026-03-31 12:00", "2026-03-31 12:00"),
        (AnnualCalendar({(2, 29)}), "2028-02-29 12:00", "2028-03-01 00:00"),
        (AnnualCalendar({(2, 29)}), "2027-03-01 12:00", "2027-03-01 12:00"),
        (HolidayCalendar({date(2026, 12, 25), date(2026, 12, 26)}), "2026-12-25 12:00", "2026-12-27 00:00"),
        (DailyCalendar(time(8), time(17)), "2026-05-15 16:59:59.5", "2026-05-15 17:00:00.001"),
        (DailyCalendar(time(8), time(17)), "2026-05-15 17:00:00.0005", "2026-05-15 17:00:00.001"),
        (DailyCalendar(time(8), time(17)), "2026-05-15 00:00", "2026-05-15 00:00"),
        (DailyCalendar(time(8), time(17), invert=True), "2026-05-15 17:00:00.001", "2026-05-16 08:00"),
        (
            DailyCalendar(time(8), time(17), invert=True),
            "2026-05-15 17:00:00.0005",
            "2026-05-15 17:00:00.0005",
        ),
        (DailyCalendar(time(20), time(23, 59, 59, 999000)), "2026-05-15 21:00", "2026-05-16 00:00"),
        (DailyCalendar(time(8), time(17), base=WeeklyCalendar()), "2026-05-15 23:59", "2026-05-15 23:59"),
        (
            DailyCalendar(time(0), time(9), base=WeeklyCalendar()),
            "2026-05-16 00:00",
            "2026-05-18 09:00:00.001",
        ),
        (CronCalendar("* * 0-7,18-23 ? * *"), "2026-05-15 18:30", "2026-05-16 08:00"),
        (CronCalendar("* * 0-7,18-23 ? * *"), "2026-05-15 17:59:59.999", "2026-05-15 17:59:59.999"),
        # No midnight on October 16: that day begins at 01:00.
        (WeeklyCalendar({7}, time_zone="America/Sao_Paulo"), "2016-10-15 12:00", "2016-10-16 03:00"),
        # There was no December 30, the Friday, in Samoa.
        (WeeklyCalendar({1, 2, 3, 4, 5}, time_zone="Pacific/Apia"), "2011-12-29 12:00", "2011-12-30 10:00"),
        # 02:30 came twice; from 02:00 on everything is excluded, and then it is 02:00 again.
        (
            DailyCalendar(time(2, 30), time(9), time_zone="Europe/Berlin"),
            "2026-10-25 00:45",
            "2026-10-25 01:00",
        ),
        # 02:30 never came: nothing is excluded before 03:00.
        (
            DailyCalendar(time(2, 30), time(2, 45), time_zone="Europe/Berlin"),
            "2026-03-29 01:00",
            "2026-03-29 01:00",
        ),
    ],
)
def test_next_included_is_the_first_instant_that_is_not_excluded(
    calendar: BaseCalendar, asked: str, answer: str
) -> None:
    assert calendar.next_included(utc(asked)) == utc(answer)
    assert calendar.is_included(utc(asked)) == (asked == answer)


@pytest.mark.parametrize(
    "calendar",
    [
        WeeklyCalendar(frozenset(DayOfWeek)),
        MonthlyCalendar(frozenset(range(1, 32))),
        DailyCalendar(time(0), time(23, 59, 59, 999000)),
        WeeklyCalendar({1, 2, 3}, base=WeeklyCalendar({4, 5, 6, 7})),
        DailyCalendar(time(0), time(12), base=DailyCalendar(time(11), time(23, 59, 59, 999000))),
        CronCalendar("0-58 * * * * ?", base=CronCalendar("59 * * * * ?")),
        CronCalendar("* * * * * ?"),
    ],
    ids=lambda calendar: type(calendar).__name__,
)
def test_a_calendar_that_excludes_everything_ends_the_search_in_bounded_time(calendar: BaseCalendar) -> None:
    began = stopwatch.process_time()
    assert calendar.next_included(utc("2026-05-15 12:00")) is None
    assert stopwatch.process_time() - began < 10


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)


def calendars(depth: int = 2) -> st.SearchStrategy[BaseCalendar]:
    common = {
        "time_zone": st.sampled_from(ZONES),
        "description": st.none()
        | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5),
        "base": st.none() if depth == 0 else st.none() | calendars(depth - 1),
    }
    milliseconds = st.integers(0, 86_399_999)
    ranges = st.lists(milliseconds, min_size=2, max_size=2, unique=True).map(sorted)
    dates = st.dates(date(2010, 1, 1), date(2027, 12, 31))
    days = {
        AnnualCalendar: st.frozensets(dates.map(lambda day: (day.month, day.day)), max_size=8),
        HolidayCalendar: st.frozensets(dates, max_size=8),
        MonthlyCalendar: st.frozensets(st.integers(1, 31), max_size=25),
        WeeklyCalendar: st.frozensets(st.sampled_from(DayOfWeek), max_size=6),
    }
    daily = st.builds(
        lambda bounds, **rest: DailyCalendar(_clock(bounds[0]), _clock(bounds[1]), **rest),
        ranges,
        invert=st.booleans(),
        **common,
    )
    cron = st.builds(CronCalendar, st.sampled_from(["* * 8-16 ? * MON-FRI", "0/5 0 * * * ?"]), **common)
    return st.one_of(daily, cron, *(st.builds(kind, excluded, **common) for kind, excluded in days.items()))


def _clock(milliseconds: int) -> time:
    return (MIDNIGHT + timedelta(milliseconds=milliseconds)).time()


INSTANTS = st.one_of(
    instants(2010, 2027),
    # Where the clocks of `ZONES` are changed.
    st.sampled_from(["2026-03-29 00:45", "2026-10-25 00:30", "2010-11-07 02:15"]).map(utc),
)


@given(calendars(), INSTANTS, st.integers(0, 99))
def test_the_next_included_instant_is_included_and_none_before_it_is(
    calendar: BaseCalendar, instant: datetime, percent: int
) -> None:
    found = calendar.next_included(instant)
    assert calendar.is_included(instant) == (found == instant)
    if found is not None and found > instant:
        assert calendar.is_included(found)
        assert not calendar.is_included(found - timedelta.resolution)
        between = instant + percent * (found - instant) / 100
        assert not calendar.is_included(between)
        assert calendar.next_included(between) == found


@given(calendars(), INSTANTS)
def test_what_the_base_excludes_is_excluded(calendar: BaseCalendar, instant: datetime) -> None:
    if calendar.base is not None and not calendar.base.is_included(instant):
        assert not calendar.is_included(instant)


@given(calendars())
def test_a_calendar_is_read_back_from_json_as_it_was(calendar: BaseCalendar) -> None:
    written = calendar_to_json(calendar)
    assert calendar_from_json(json.loads(json.dumps(written))) == calendar
    assert calendar_to_json(calendar_from_json(written)) == written


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: WeeklyCalendar({8}), "1 .Sunday. to 7"),
        (lambda: WeeklyCalendar("MON"), "must be a set"),
        (lambda: MonthlyCalendar({0}), "1 to 31"),
        (lambda: MonthlyCalendar({32}), "1 to 31"),
        (lambda: AnnualCalendar({(2, 30)}), "month, day"),
        (lambda: AnnualCalendar({7}), "month, day"),
        (lambda: HolidayCalendar({"2026-12-25"}), "datetime.date"),
        (lambda: HolidayCalendar({datetime(2026, 12, 25, tzinfo=UTC)}), "datetime.date"),
        (lambda: DailyCalendar(time(17), time(8)), "must be later"),
        (lambda: DailyCalendar("08:00", time(17)), "start"),
        (lambda: DailyCalendar(time(8), time(17, tzinfo=UTC)), "end"),
        (lambda: DailyCalendar(time(8), time(17, 0, 0, 1)), "milliseconds"),
        (lambda: DailyCalendar(time(8), time(17), invert="yes"), "invert"),
        (lambda: CronCalendar(5), "expression"),
        (lambda: WeeklyCalendar(base="weekends"), "base"),
        (lambda: WeeklyCalendar(description=5), "description"),
        (lambda: WeeklyCalendar().is_included(NAIVE), "time zone"),
        (lambda: WeeklyCalendar().next_included(NAIVE), "time zone"),
        (lambda: calendar_from_json([]), "object"),
        (lambda: calendar_from_json({"kind": "lunar"}), "kind"),
        (lambda: calendar_from_json({"kind": "weekly"}), "excluded_days is missing"),
        (lambda: calendar_from_json({"kind": "daily", "start": "x", "end": "y", "invert": False}), "daily"),
        (lambda: calendar_from_json({"kind": "weekly", "excluded_days": [], "colour": "red"}), "colour"),
        (lambda: calendar_to_json(object()), "stored"),
    ],
)
def test_a_wrong_value_is_named(make, words: str) -> None:
    with pytest.raises(InvalidCalendarError, match=words):
        make()


def test_a_chain_has_a_limit() -> None:
    calendar = WeeklyCalendar()
    for _ in range(MAX_CHAINED - 1):
        calendar = WeeklyCalendar(base=calendar)
    with pytest.raises(InvalidCalendarError, match="chain"):
        WeeklyCalendar(base=calendar)
    nested: dict[str, object] = {"kind": "weekly", "excluded_days": []}
    for _ in range(100):
        nested = {"kind": "weekly", "excluded_days": [], "base": nested}
    with pytest.raises(InvalidCalendarError, match="chain"):
        calendar_from_json(nested)


def test_errors_of_zone_and_expression_keep_their_own_class() -> None:
    with pytest.raises(UnknownTimeZoneError, match="Europe/Berlin"):
        WeeklyCalendar(time_zone="Europe/Berln")
    with pytest.raises(InvalidCronError):
        CronCalendar("* * *")


def test_public_holidays_come_from_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def country_holidays(country: str, *, subdiv: str | None, years: list[int]) -> dict[date, str]:
        if country != "DE":
            raise NotImplementedError(f"Entity {country} not available")
        return {date(year, 1, 6): "Heilige Drei Könige" for year in years if subdiv == "BY"}

    monkeypatch.setitem(sys.modules, "holidays", SimpleNamespace(country_holidays=country_holidays))
    bavaria = HolidayCalendar.country("DE", subdiv="BY", years=range(2026, 2028), time_zone="Europe/Berlin")
    assert bavaria.excluded_dates == {date(2026, 1, 6), date(2027, 1, 6)}
    assert bavaria.description == "Public holidays of DE-BY"
    assert not HolidayCalendar.country("DE", years=2026).excluded_dates
    with pytest.raises(InvalidCalendarError, match="'XX'"):
        HolidayCalendar.country("XX", years=2026)


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(InvalidCalendarError, match=re.escape(install_line("holidays"))):
        HolidayCalendar.country("DE", years=2026)
