"""Recurrence rules with BYWEEKNO, against a plain reading of RFC 5545: a day, its week, whether the rule names it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.triggers.recurrence import RecurrenceTrigger
from tests.fire_times import first_fire_times

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
ONE_DAY = timedelta(days=1)
STARTS = st.datetimes(datetime(1999, 1, 1), datetime(2040, 1, 1)).map(lambda at: at.replace(microsecond=0, tzinfo=UTC))
# dateutil counts the last weeks of some years wrong (docs/conformance.md), so 52 and 53 are not compared.
WEEK_NUMBERS = st.integers(1, 51) | st.integers(-51, -1)


def first_day_of_weeks(year: int, first_weekday: int) -> date:
    """The beginning of a year's week 1, which is the first one with at least four days in the year."""
    fourth = date(year, 1, 4)
    return fourth - timedelta((fourth.weekday() - first_weekday) % 7)


def week_of(day: date, first_weekday: int) -> tuple[int, int]:
    """The number of a day's week in its year, from the beginning and from the end."""
    [year] = (
        year
        for year in (day.year - 1, day.year, day.year + 1)
        if first_day_of_weeks(year, first_weekday) <= day < first_day_of_weeks(year + 1, first_weekday)
    )
    begin, end = first_day_of_weeks(year, first_weekday), first_day_of_weeks(year + 1, first_weekday)
    number = (day - begin).days // 7 + 1
    return number, number - (end - begin).days // 7 - 1


def plain_days(
    start: datetime, numbers: set[int], weekdays: set[str], months: set[int], first_weekday: int, years: int
) -> list[date]:
    day, found = start.date(), []
    while day.year < start.year + years:
        is_named = not numbers.isdisjoint(week_of(day, first_weekday))
        if is_named and WEEKDAYS[day.weekday()] in weekdays and day.month in months:
            found.append(day)
        day += ONE_DAY
    return found


@pytest.mark.parametrize(
    ("rule", "start", "expected"),
    [
        ("FREQ=YEARLY;BYWEEKNO=20", "2026-01-05", "2026-05-11 2027-05-17 2028-05-15"),
        ("FREQ=YEARLY;BYWEEKNO=1", "2026-01-07", "2027-01-06 2028-01-05 2029-01-03"),
        ("FREQ=YEARLY;BYWEEKNO=1", "2024-06-03", "2024-12-30 2025-12-29 2027-01-04"),
        ("FREQ=YEARLY;BYWEEKNO=53", "2026-01-08", "2026-12-31 2032-12-30 2037-12-31"),
        ("FREQ=YEARLY;BYWEEKNO=18;BYMONTH=5", "2026-01-01", "2027-05-06 2028-05-04 2029-05-03"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO,TU", "2026-01-07", "2026-05-11 2026-05-12 2027-05-17"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYMONTHDAY=11,12", "2026-01-07", "2026-05-11 2026-05-12 2031-05-12"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYYEARDAY=131", "2026-01-07", "2026-05-11 2032-05-10 2037-05-11"),
        ("FREQ=MONTHLY;BYWEEKNO=20", "2026-01-05", "2026-05-11 2027-05-17 2028-05-15"),
        ("FREQ=WEEKLY;BYWEEKNO=20", "2026-01-05", "2026-05-11 2027-05-17 2028-05-15"),
        ("FREQ=DAILY;BYWEEKNO=20", "2026-05-15", "2026-05-15 2026-05-16 2026-05-17"),
        ("FREQ=YEARLY;BYWEEKNO=20,21,22;BYSETPOS=-1", "2026-01-05", "2026-05-25 2027-05-31 2028-05-29"),
        ("FREQ=YEARLY;BYWEEKNO=20;COUNT=2", "2026-01-05", "2026-05-11 2027-05-17"),
    ],
)
def test_a_week_without_days_takes_the_day_of_the_week_from_its_start(rule: str, start: str, expected: str) -> None:
    trigger = RecurrenceTrigger(rule=rule, start_time=datetime.fromisoformat(start).replace(tzinfo=UTC))
    assert " ".join(at.date().isoformat() for at in first_fire_times(trigger, 3)) == expected


@given(
    STARTS,
    st.sets(WEEK_NUMBERS, min_size=1, max_size=3),
    st.none() | st.sets(st.sampled_from(WEEKDAYS), min_size=1),
    st.none() | st.sets(st.integers(1, 12), min_size=1),
    st.sampled_from(WEEKDAYS),
)
def test_a_rule_of_weeks_fires_as_the_rfc_reads(
    start: datetime, numbers: set[int], weekdays: set[str] | None, months: set[int] | None, first_weekday: str
) -> None:
    rule = f"FREQ=YEARLY;WKST={first_weekday};BYWEEKNO={','.join(map(str, sorted(numbers)))}"
    rule += "" if weekdays is None else f";BYDAY={','.join(sorted(weekdays))}"
    rule += "" if months is None else f";BYMONTH={','.join(map(str, sorted(months)))}"
    trigger = RecurrenceTrigger(rule=rule, start_time=start)
    wanted = plain_days(
        start,
        numbers,
        weekdays or {WEEKDAYS[start.weekday()]},
        months or set(range(1, 13)),
        WEEKDAYS.index(first_weekday),
        years=4,
    )
    fired = first_fire_times(trigger, len(wanted))
    assert [at.date() for at in fired] == wanted
    assert all(at.time() == start.time() for at in islice(fired, 3))
    after = trigger.next_after(fired[-1] if fired else start - timedelta.resolution)
    assert after is None or after.year >= start.year + 4
