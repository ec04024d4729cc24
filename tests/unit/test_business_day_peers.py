"""The arithmetic with business days agrees with QuantLib and exchange-calendars, over 20 years of their markets."""

from __future__ import annotations

from datetime import UTC, datetime, time
from importlib.util import find_spec

import pytest

from quartzpy import BusinessDays, BusinessDayTrigger, HolidayCalendar, Rolled
from quartzpy.triggers.simple import SimpleTrigger
from tests.protocol.options import is_long
from tests.unit.business_day_peers import (
    FIRST,
    LAST,
    RULES,
    Market,
    dates,
    exchange_markets,
    months,
    quantlib_markets,
    stored_market,
    stored_tables,
)

STORED = stored_tables()
PEERS = {"QuantLib": quantlib_markets, "exchange_calendars": exchange_markets}
INSTALLED = [source for package, source in PEERS.items() if find_spec(package) is not None]


def check_arithmetic(market: Market) -> None:
    calendar = HolidayCalendar(market.days_off)
    business = BusinessDays(calendar)
    for rule, moved in market.moved.items():
        if rule in RULES:
            assert [business.roll(day, rule) for day in dates()] == moved, (market.name, rule)
        else:
            assert [business.add(day, int(rule)) for day in dates()] == moved, (market.name, rule)
    # Athens had no session in July 2015.
    ends = [end if end >= first else None for (first, _), end in zip(months(), market.month_ends, strict=True)]
    assert [business.nth(-1, first, last) for first, last in months()] == ends, market.name


def test_there_are_enough_markets_and_years() -> None:
    libraries = [name.startswith("QuantLib") for name in STORED]
    assert libraries.count(True) >= 20
    assert libraries.count(False) >= 20
    assert LAST.year - FIRST.year + 1 == 20


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every third market, the same ones each time; `--long` takes all."""
    if "stored" in metafunc.fixturenames:
        metafunc.parametrize("stored", list(STORED)[:: 1 if is_long(metafunc.config) else 3])


def test_business_days_agree_with_the_stored_tables(stored: str) -> None:
    check_arithmetic(stored_market(stored))


@pytest.mark.parametrize("name", [name for name, tables in STORED.items() if tables["parts"]])
def test_calendars_have_their_days_off_together(name: str) -> None:
    market = stored_market(name)
    calendars = [HolidayCalendar(stored_market(part).days_off) for part in market.parts]
    together = BusinessDays(*calendars)
    joined = BusinessDays(calendars[0].joined(*calendars[1:]))
    for days in (together, joined):
        assert [days.roll(day, "modified_following") for day in dates()] == market.moved["modified_following"]


@pytest.mark.parametrize("name", ["QuantLib TARGET", "QuantLib China", "QuantLib Israel", "XTKS", "XNYS"])
def test_triggers_fire_on_the_days_of_the_tables(name: str, pytestconfig: pytest.Config) -> None:
    market = stored_market(name)
    calendar = HolidayCalendar(market.days_off)
    last = LAST if is_long(pytestconfig) else FIRST.replace(year=FIRST.year + 5)
    start, end = datetime.combine(FIRST, time(), UTC), datetime.combine(last, time(23), UTC)
    daily = SimpleTrigger(interval="1d", start_time=start)
    for rule in ("following", "modified_following", "nearest"):
        if rule in market.moved:
            trigger = Rolled(trigger=daily, roll=rule, calendar="c", start_time=start)
            expected = {day for day in market.moved[rule] if FIRST <= day <= last}
            assert [at.date() for at in trigger.fire_times(start, end, calendar)] == sorted(expected)
    month_end = BusinessDayTrigger(nth=-1, at="18:00", calendar="c", start_time=start)
    month_ends = [day for day in market.month_ends if day <= last]
    assert [at.date() for at in month_end.fire_times(start, end, calendar)] == month_ends


def test_business_days_agree_with_the_libraries_that_are_installed() -> None:
    for source in INSTALLED:
        for market in source(12):
            check_arithmetic(market)
