"""Calendars that are written to a file are read back unchanged, and wrong tables are refused."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any, ClassVar, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quartzpy.calendars.calendar import MAX_CHAINED, BaseCalendar, WholeDayCalendar
from quartzpy.calendars.days import AnnualCalendar, HolidayCalendar, MonthlyCalendar, WeeklyCalendar
from quartzpy.calendars.times import CronCalendar, DailyCalendar
from quartzpy.definitions.files import definitions
from quartzpy.definitions.writer import exported
from quartzpy.errors import SettingsError


@dataclass(frozen=True)
class Tides(WholeDayCalendar):
    """A user's own calendar. Its fields have types that TOML has not, and a name that tables use otherwise."""

    kind: ClassVar[str] = "test-tides"

    high_water: tuple[date, ...] = ()
    every: timedelta | None = None

    def excludes_day(self, day: date) -> bool:
        return day in self.high_water


@dataclass(frozen=True)
class Odd(BaseCalendar):
    """A user's own calendar whose rules are written by itself, under a name that is quoted in TOML."""

    kind: ClassVar[str] = "test-odd"

    step: int | None = 1

    def next_wall_time(self, wall: datetime) -> datetime | None:
        return wall

    def rules(self) -> dict[str, Any]:
        return {"every 'n'.th": self.step}

    @classmethod
    def from_rules(cls, rules: Mapping[str, Any], **common: Any) -> Self:
        return cls(step=rules["every 'n'.th"], **common)


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/Sao_Paulo"])
times = st.times(max_value=time(12)).map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))


def layers() -> st.SearchStrategy[BaseCalendar]:
    common: dict[str, st.SearchStrategy[Any]] = {"time_zone": zones, "description": st.none() | texts}
    return st.one_of(
        st.builds(
            AnnualCalendar,
            excluded_days=st.sets(st.dates().map(lambda day: (day.month, day.day)), max_size=4),
            **common,
        ),
        st.builds(CronCalendar, st.sampled_from(["* * 0-7 * * ?", "0 0 12 ? * MON-FRI"]), **common),
        st.builds(DailyCalendar, times, st.just(time(23, 59, 59, 999000)), st.booleans(), **common),
        st.builds(HolidayCalendar, excluded_dates=st.sets(st.dates(), max_size=4), **common),
        st.builds(MonthlyCalendar, excluded_days=st.sets(st.integers(1, 31), max_size=4), **common),
        st.builds(WeeklyCalendar, excluded_days=st.sets(st.integers(1, 7), max_size=4), **common),
        st.builds(Odd, step=st.none() | st.integers(1, 5), **common),
        st.builds(
            Tides,
            high_water=st.lists(st.dates(), max_size=3).map(tuple),
            every=st.none() | st.timedeltas(timedelta(0), timedelta(days=9)),
            **common,
        ),
    )


def chained(parts: list[BaseCalendar]) -> BaseCalendar:
    base: BaseCalendar | None = None
    for one in parts:
        base = replace(one, base=base)
    assert base is not None
    return base


calendars = st.lists(layers(), min_size=1, max_size=3).map(chained)


@given(st.dictionaries(texts, calendars, max_size=2))
@settings(max_examples=50)
def test_calendars_of_all_kinds_and_their_bases_are_read_back(some: dict[str, BaseCalendar]) -> None:
    text = exported([], some)
    assert definitions(tomllib.loads(text), "exported.toml").calendars == some
    assert exported([], definitions(tomllib.loads(text), "exported.toml").calendars) == text


def test_the_longest_chain_is_read_back() -> None:
    chain: BaseCalendar | None = None
    for number in range(MAX_CHAINED):
        chain = WeeklyCalendar({number % 7 + 1}, base=chain)
    assert chain is not None
    assert definitions(tomllib.loads(exported([], {"long": chain})), "x").calendars == {"long": chain}


def test_a_file_may_be_written_by_hand() -> None:
    text = """
    [calendar.holidays]
    kind = "holiday"
    time_zone = "Europe/Berlin"
    excluded_dates = [2026-12-25, "2026-12-26"]

      [calendar.holidays.base]
      kind = "daily"
      start = 08:00:00
      end = 17:00:00
      invert = true

    [calendar.own]
    class = "tests.unit.test_calendar_tables:Odd"
    "every 'n'.th" = 2
    """
    found = definitions(tomllib.loads(text), "jobs.toml")
    assert list(found.jobs) == []
    assert found.calendars["holidays"] == HolidayCalendar(
        {date(2026, 12, 25), date(2026, 12, 26)},
        time_zone="Europe/Berlin",
        base=DailyCalendar(time(8), time(17), invert=True),
    )
    assert found.calendars["own"].rules() == {"every 'n'.th": 2}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "kind is missing; the kinds are annual, cron, "),
        ({"kind": "lunar"}, "no class of the kind 'lunar' is defined in this process; import the module"),
        ({"kind": "weekly", "excluded_days": [8]}, "days are 1 (Sunday) to 7 (Saturday)"),
        ({"kind": "weekly"}, "excluded_days is missing"),
        ({"kind": "weekly", "excluded_days": [], "excluded": []}, "unknown ['excluded']"),
        ({"kind": "weekly", "excluded_days": [], "time_zone": "Mars/Phobos"}, "Mars/Phobos"),
        ({"kind": "cron", "expression": "* * *"}, "expected 6 or 7 fields"),
        ({"kind": "weekly", "excluded_days": [1], "base": {"kind": "weekly"}}, "excluded_days is missing"),
        ({"kind": "weekly", "excluded_days": [1], "base": 7}, "base: a table is needed (got 7)"),
        ({"kind": "weekly", "class": "a:B"}, "give kind or class, not both"),
        ({"class": "no.such.module:Calendar"}, "cannot be imported: No module named 'no'"),
        ({"class": "tests.unit.test_calendar_tables:Nothing"}, "tests.unit.test_calendar_tables has no 'Nothing'"),
        (
            {"class": "tests.unit.test_calendar_tables"},
            "class: must be module:name, such as billing.calendars:Closings",
        ),
        ({"class": "quartzpy:Job"}, "is not a calendar with a kind of its own"),
        ({"class": "tests.unit.test_calendar_tables:Tides", "high_water": [date(2026, 1, 1)]}, "`quartzpy export`"),
        ({"kind": "weekly", "stored_rules": "{"}, "stored_rules: is not JSON"),
        ({"kind": "weekly", "stored_rules": "{}", "excluded_days": [1]}, "stored_rules has all rules; remove"),
        (7, "a table is needed (got 7)"),
    ],
)
def test_a_wrong_calendar_is_refused_with_its_name(table: object, message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        definitions({"calendar": {"closed": table}}, "jobs.toml")
    assert str(refused.value).startswith("jobs.toml: calendar 'closed'")
    assert message in str(refused.value)


def test_the_table_of_calendars_is_checked() -> None:
    with pytest.raises(SettingsError, match=r"calendar is a table of tables \(\[calendar.NAME\]\)"):
        definitions({"calendar": [{"kind": "weekly"}]}, "jobs.toml")
    deep: dict[str, Any] = {"kind": "weekly", "excluded_days": []}
    for _ in range(40):
        deep = {"kind": "weekly", "excluded_days": [], "base": deep}
    with pytest.raises(SettingsError, match="more than 32 calendars in one chain"):
        definitions({"calendar": {"deep": deep}}, "jobs.toml")
