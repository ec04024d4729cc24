"""Crontab lines against two other readers: croniter, and cronsim, which follows Debian's cron.

The lines are drawn from what all three understand alike; docs/decisions/0020 lists where they differ, and the tests of
those places are in test_crontab.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from quartzpy import CrontabExpression
from quartzpy.cron_expressions.croniter_reading import croniter_times

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
TIMES = 6


def items(low: int, high: int, names: list[str] | None = None) -> st.SearchStrategy[str]:
    """Values, ranges, and steps from them, without wraps and without ranges of a single value."""
    number = st.integers(low, high)
    value = number.map(str)
    if names:
        value |= st.sampled_from(names)
    step = st.integers(1, high - low)
    # Never the whole field: croniter takes that for "*", which counts where both day fields are given.
    spans = st.tuples(st.integers(low, high - 2), st.integers(1, high - low - 1)).map(
        lambda t: f"{t[0]}-{min(high - 1, t[0] + t[1])}"
    )
    stepped = st.tuples(spans, step).map(lambda t: f"{t[0]}/{t[1]}")
    opened = st.tuples(st.integers(low, high - 1), step).map(lambda t: f"{t[0]}/{t[1]}")
    # Of the days of the week, "5/2" is Friday and Sunday here as in cronsim, and Friday in croniter.
    return st.one_of(value, spans, stepped) if names is WEEKDAYS else st.one_of(value, spans, stepped, opened)


def lists(low: int, high: int, names: list[str] | None = None) -> st.SearchStrategy[str]:
    return st.lists(items(low, high, names), min_size=1, max_size=3).map(",".join)


def fields(low: int, high: int, names: list[str] | None = None) -> st.SearchStrategy[str]:
    every = st.integers(2, high - low).map(lambda step: f"*/{step}")
    return st.one_of(st.just("*"), every, lists(low, high, names))


# Days that every month has: both peers look for a day that never comes until they are tired.
month_days = lists(1, 28)
weekday_lists = st.lists(st.one_of(st.integers(0, 7).map(str), st.sampled_from(WEEKDAYS)), min_size=1, max_size=2)
weekdays = st.one_of(weekday_lists.map(",".join), items(0, 6, WEEKDAYS), st.sampled_from(["5#2", "1#1", "0#3"]))
day_fields = st.one_of(
    st.tuples(fields(1, 28), st.just("*")),
    st.tuples(st.just("*"), weekdays),
    st.tuples(st.just("*"), st.sampled_from(["*/2", "*/3"])),
    st.tuples(month_days, lists(0, 6, WEEKDAYS)),
    st.tuples(st.just("L"), st.just("*")),
)
lines = st.tuples(fields(0, 59), fields(0, 23), day_fields, fields(1, 12, MONTHS)).map(
    lambda t: f"{t[0]} {t[1]} {t[2][0]} {t[3]} {t[2][1]}"
)
instants = st.integers(0, 8 * 365 * 86_400).map(
    lambda seconds: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)


@given(lines, instants)
@settings(max_examples=50, deadline=None)
def test_three_readers_agree_on_what_all_of_them_understand(line: str, start: datetime) -> None:
    ours = CrontabExpression(line).upcoming(start, TIMES)
    assert ours == list(islice(CronSim(line, start), TIMES)), "cronsim"
    assert ours == croniter_times(line, start, TIMES), "croniter"


@given(st.sampled_from(["0", "*/20", "5,35", "10-50/10"]), lines, instants)
@settings(max_examples=60, deadline=None)
def test_three_readers_agree_on_seconds_in_front(seconds: str, line: str, start: datetime) -> None:
    line = f"{seconds} {line}"
    ours = CrontabExpression(line).upcoming(start, TIMES)
    assert ours == list(islice(CronSim(line, start), TIMES)), "cronsim"
    assert ours == croniter_times(line, start, TIMES), "croniter"


@given(lines, instants)
@settings(max_examples=60, deadline=None)
def test_backwards_the_same_times_are_found(line: str, start: datetime) -> None:
    expression = CrontabExpression(line)
    at: datetime | None = start
    found = []
    for _ in range(TIMES):
        assert at is not None
        at = expression.previous_before(at)
        found.append(at)
    assert found == list(islice(CronSim(line, start, reverse=True), TIMES))


@given(st.tuples(fields(1, 28), items(0, 6, WEEKDAYS)), instants)
@settings(max_examples=50, deadline=None)
def test_with_day_or_false_the_days_are_those_of_both_fields(days: tuple[str, str], start: datetime) -> None:
    day, weekday = days
    both = CrontabExpression(f"0 0 {day} * {weekday}", day_or=False)
    by_day, by_weekday = CrontabExpression(f"0 0 {day} * *"), CrontabExpression(f"0 0 * * {weekday}")
    for at in both.upcoming(start, TIMES):
        assert by_day.is_satisfied_by(at)
        assert by_weekday.is_satisfied_by(at)
    midnight = start.replace(hour=0, minute=0, second=0) + timedelta(days=1)
    expected = [
        at
        for at in (midnight + n * timedelta(days=1) for n in range(400))
        if by_day.is_satisfied_by(at) and by_weekday.is_satisfied_by(at)
    ]
    assert [at for at in both.upcoming(start, 400) if at < midnight + timedelta(days=400)] == expected


CHANGES = [
    *(("Europe/Berlin", day) for day in ("2026-03-29", "2026-10-25")),
    *(("America/New_York", day) for day in ("2026-03-08", "2026-11-01")),
    *(("America/Havana", day) for day in ("2026-03-08", "2026-11-01")),
    *(("Africa/Casablanca", day) for day in ("2026-02-15", "2026-03-22")),
    *(("Australia/Lord_Howe", day) for day in ("2026-04-05", "2026-10-04")),
]


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_times_of_day_follow_debian_where_the_clock_is_changed(zone: str, day: str, data: st.DataObject) -> None:
    def few(high: int) -> str:
        drawn = data.draw(st.lists(st.integers(0, high), min_size=1, max_size=2, unique=True))
        return ",".join(map(str, drawn))

    line = f"{few(59)} {few(4)} * * *"
    start = datetime.fromisoformat(f"{day}T12:00+00:00") - timedelta(days=1)
    theirs = islice(CronSim(line, start.astimezone(ZoneInfo(zone))), TIMES)
    assert CrontabExpression(line, zone).upcoming(start, TIMES) == [at.astimezone(UTC) for at in theirs]


@pytest.mark.parametrize(("zone", "day"), CHANGES[:-2])
@given(st.sampled_from(["*/10", "*/15", "*/20", "*/30"]), st.sampled_from(["*", "1", "2", "0-4", "1,3"]))
@settings(max_examples=12, deadline=None)
def test_rhythms_follow_debian_where_the_clock_is_changed(zone: str, day: str, minutes: str, hours: str) -> None:
    """Lord Howe is left out: where the clock moves by half an hour, cronsim loses times."""
    line = f"{minutes} {hours} * * *"
    start = datetime.fromisoformat(f"{day}T12:00+00:00") - timedelta(days=1)
    theirs = islice(CronSim(line, start.astimezone(ZoneInfo(zone))), 30)
    assert CrontabExpression(line, zone).upcoming(start, 30) == [at.astimezone(UTC) for at in theirs]
