"""Calendar intervals that start near a change of the clock, against an oracle that searches instant by instant."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger

MINUTE = timedelta(minutes=1)
# Each pair is a zone and an instant within a day of which its clock changes.
CHANGES = [
    ("Europe/Berlin", datetime(2026, 10, 25, 1, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 3, 29, 1, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 15, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2012, 3, 31, 14, tzinfo=UTC)),
    ("America/St_Johns", datetime(2010, 11, 7, 2, 31, tzinfo=UTC)),
    ("America/St_Johns", datetime(2010, 3, 14, 3, 31, tzinfo=UTC)),
    ("Antarctica/Troll", datetime(2026, 10, 25, 1, tzinfo=UTC)),
    ("Antarctica/Troll", datetime(2026, 3, 29, 1, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2026, 2, 15, 2, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2026, 3, 22, 2, tzinfo=UTC)),
]


def oracle(day: date, wall: datetime, place: ZoneInfo) -> datetime:
    """The first instant of a day at which the clock shows the time, or that time later by the length of the gap."""
    wanted = datetime.combine(day, wall.time())
    at = wanted.replace(tzinfo=UTC) - timedelta(hours=15)
    before = at.astimezone(place).utcoffset()
    for _ in range(30 * 60):
        if at.astimezone(place).replace(tzinfo=None, fold=0) == wanted:
            return at
        at += MINUTE
    assert before is not None
    return (wanted - before).replace(tzinfo=UTC)


@given(
    st.sampled_from(CHANGES),
    st.integers(-180, 180),
    st.sampled_from([1, 2, 7]),
    st.integers(0, 40),
)
def test_a_day_has_its_first_pass_wherever_the_trigger_starts(
    change: tuple[str, datetime], minutes: int, interval: int, later: int
) -> None:
    name, instant = change
    place = ZoneInfo(name)
    start = instant + minutes * MINUTE
    wall = start.astimezone(place).replace(tzinfo=None, fold=0)
    trigger = CalendarIntervalTrigger("t", interval=interval, unit="day", time_zone=name, start_time=start)
    number = later // interval + 1
    for each in (number, number + 350 // interval):
        expected = oracle(wall.date() + timedelta(each * interval), wall, place)
        found = trigger.next_after(expected - MINUTE)
        assert found == expected
    ending = CalendarIntervalTrigger(
        "t", interval=interval, unit="day", time_zone=name, start_time=start, end_time=expected + MINUTE
    )
    assert ending.final_fire_time == expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("2026-10-25T01:00Z", "2026-10-25T01:30Z"),
        ("2026-10-25T01:30Z", "2026-10-26T01:30Z"),
        ("2027-03-27T12:00Z", "2027-03-28T01:30Z"),
        ("2027-10-30T12:00Z", "2027-10-31T00:30Z"),
    ],
)
def test_a_start_on_the_second_pass_is_the_only_fire_on_a_second_pass(after: str, expected: str) -> None:
    start = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    trigger = CalendarIntervalTrigger("d", interval=1, unit="day", time_zone="Europe/Berlin", start_time=start)
    assert trigger.next_after(datetime.fromisoformat(after)) == datetime.fromisoformat(expected)
