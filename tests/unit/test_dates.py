"""Instants that people start schedules at."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy.dates import next_minute_divisible_by, today_at, tomorrow_at
from quartzpy.errors import InvalidValueError

NOW = datetime(2026, 3, 28, 22, 50, 7, 9, tzinfo=UTC)


def test_today_and_tomorrow_are_those_of_the_zone() -> None:
    assert today_at(9, now=NOW) == datetime(2026, 3, 28, 9, tzinfo=UTC)
    assert tomorrow_at(9, 30, 5, now=NOW) == datetime(2026, 3, 29, 9, 30, 5, tzinfo=UTC)
    assert today_at(9, time_zone="Asia/Tokyo", now=NOW) == datetime(2026, 3, 29, 0, tzinfo=UTC)
    assert tomorrow_at(2, 30, time_zone="Europe/Berlin", now=NOW) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert timedelta() < tomorrow_at(0) - datetime.now(UTC) <= timedelta(days=1)


@pytest.mark.parametrize(
    ("minutes", "seconds_on", "expected"),
    [
        (15, 0, "23:00"),
        (20, 0, "23:00"),
        (7, 0, "22:56"),
        (1, 0, "22:51"),
        (60, 0, "23:00"),
        (25, 0, "23:00"),
        (5, 590, "23:05"),
    ],
)
def test_the_next_minute_that_is_divisible(minutes: int, seconds_on: int, expected: str) -> None:
    now = NOW.replace(microsecond=0) + timedelta(seconds=seconds_on + (3 if seconds_on else 0))
    assert f"{next_minute_divisible_by(minutes, now=now):%H:%M:%S.%f}" == f"{expected}:00.000000"


def test_the_minutes_are_those_of_the_zone() -> None:
    assert f"{next_minute_divisible_by(60, time_zone='Asia/Kathmandu', now=NOW):%H:%M}" == "23:15"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: today_at(24), r"time of day: hour 0 to 23, minute and second 0 to 59 \(got \(24, 0, 0\)\)"),
        (lambda: tomorrow_at("9"), "time of day: hour 0 to 23"),
        (lambda: next_minute_divisible_by(0), r"minutes: must be an integer from 1 to 60 \(got 0\)"),
        (lambda: today_at(9, now=datetime(2026, 1, 1)), "now: needs a time zone"),
    ],
)
def test_what_is_wrong_is_named(made: Callable[[], datetime], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        made()
