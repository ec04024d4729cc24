"""Crontab lines: croniter says what they mean, and the day of two passes fires a fixed time once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from quartzpy import CronTrigger
from quartzpy.cron.crontab import CrontabExpression
from quartzpy.errors import InvalidCronError, InvalidTriggerError, UnknownTimeZoneError
from tests.fire_times import first_fire_times

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2026, 5, 15, 10, 20, 30, tzinfo=UTC)


def local(expression: CrontabExpression, start: datetime, count: int) -> list[str]:
    zone = ZoneInfo(expression.time_zone)
    return [f"{at.astimezone(zone):%d %H:%M:%S %Z}" for at in expression.upcoming(start, count)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/15 * * * *", ["10:30:00", "10:45:00", "11:00:00"]),
        ("5,10 11 * * *", ["11:05:00", "11:10:00", "11:05:00"]),
        ("@hourly", ["11:00:00", "12:00:00", "13:00:00"]),
        ("@daily", ["00:00:00"] * 3),
        ("@MIDNIGHT", ["00:00:00"] * 3),
        ("* * * * * */20", ["10:20:40", "10:21:00", "10:21:20"]),
    ],
)
def test_the_times_of_a_line(text: str, expected: list[str]) -> None:
    assert [f"{at:%H:%M:%S}" for at in CrontabExpression(text).upcoming(START, 3)] == expected


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("0 0 * * 0", "2026-05-17"),
        ("0 0 * * 7", "2026-05-17"),
        ("0 0 * * mon", "2026-05-18"),
        ("0 0 1 * mon", "2026-05-18"),  # either of the two day fields
        ("0 0 1 jan *", "2027-01-01"),
        ("0 0 L * *", "2026-05-31"),
        ("0 0 * * 5#3", "2026-06-19"),
        ("@weekly", "2026-05-17"),
        ("@monthly", "2026-06-01"),
        ("@yearly", "2027-01-01"),
        ("0 0 29 2 *", "2028-02-29"),
    ],
)
def test_the_first_day_of_a_line(text: str, first: str) -> None:
    found = CrontabExpression(text).next_after(START)
    assert found is not None
    assert f"{found:%Y-%m-%d}" == first


def test_a_sixth_field_is_seconds_last_or_first() -> None:
    last = CronTrigger.from_crontab("20 10 * * * 40", start_time=START)
    first = CronTrigger.from_crontab("40 20 10 * * *", start_time=START, seconds_first=True)
    assert (
        first_fire_times(last, 3)
        == first_fire_times(first, 3)
        == [START.replace(second=40) + n * timedelta(days=1) for n in range(3)]
    )
    again = CronTrigger.from_schedule(first.schedule(), start_time=START)
    assert first_fire_times(again, 3) == first_fire_times(first, 3)


def test_a_fixed_time_fires_once_on_the_day_of_two_passes_and_a_rhythm_goes_through_both() -> None:
    evening = datetime(2026, 10, 24, 20, tzinfo=UTC)
    fixed = CrontabExpression("30 2 * * *", "Europe/Berlin")
    assert local(fixed, evening, 2) == ["25 02:30:00 CEST", "26 02:30:00 CET"]
    assert fixed.previous_before(datetime(2026, 10, 25, 12, tzinfo=UTC)) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    rhythm = CrontabExpression("*/30 * * * *", "Europe/Berlin")
    assert local(rhythm, datetime(2026, 10, 24, 23, 45, tzinfo=UTC), 5) == [
        "25 02:00:00 CEST",
        "25 02:30:00 CEST",
        "25 02:00:00 CET",
        "25 02:30:00 CET",
        "25 03:00:00 CET",
    ]


def test_a_fixed_time_that_is_leapt_over_fires_at_the_end_of_the_gap() -> None:
    fixed = CrontabExpression("30 2 * * *", "Europe/Berlin")
    assert local(fixed, datetime(2026, 3, 28, 12, tzinfo=UTC), 2) == ["29 03:00:00 CEST", "30 02:30:00 CEST"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("61 * * * *", "out of range"),
        ("* * * *", r"expected 5 fields \(minutes, .*\) or 6 with seconds \(got 4\)"),
        ("0 0 12 * * ? *", r"got 7\); for Quartz's dialect use CronTrigger"),
        ("R * * * *", "would differ from node to node; spread with Jitter"),
        ("0 r(1-5) * * *", "would differ from node to node"),
        ("H * * * *", "hash"),
        ("@reboot", "crontab: "),
        ("", r"got 0"),
        (None, "must be str"),
        ("a b c d e", "crontab: "),
    ],
)
def test_a_wrong_line_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidCronError, match=message):
        CrontabExpression(text)


def test_wrong_zones_and_dialects_are_refused() -> None:
    with pytest.raises(UnknownTimeZoneError):
        CrontabExpression("* * * * *", "Mars/Olympus")
    with pytest.raises(InvalidTriggerError, match="dialect: quartz, crontab"):
        CronTrigger("* * * * *", dialect="vixie")


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("* * * * *", "2026-05-15 10:20:00", "2026-05-15 10:20:01"),
        ("* * * * *", "2026-05-15 10:20:59", "2026-05-15 10:21:01"),
        ("* * * * * *", "2026-05-15 10:20:00", None),
        ("10-12 * * * * *", "2026-05-15 10:10:30", "2026-05-15 10:13:00"),
        ("* 10-12 * * * *", "2026-05-15 10:10:30", "2026-05-15 13:00:00"),
        ("* * 15 * * *", "2026-05-15 10:10:30", "2026-05-16 00:00:00"),
    ],
)
def test_the_first_second_that_does_not_match(text: str, after: str, expected: str | None) -> None:
    found = CrontabExpression(text).next_invalid_after(datetime.fromisoformat(f"{after}+00:00"))
    assert (f"{found:%Y-%m-%d %H:%M:%S}" if found else None) == expected


@pytest.mark.parametrize(
    ("text", "before", "expected"),
    [
        ("0 0 * * *", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 2, 28, tzinfo=UTC)),
        ("0 2 * * mon-fri", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 2, 27, 2, tzinfo=UTC)),
        ("0 0 29 2 *", datetime(2026, 3, 1, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=UTC)),
        ("@yearly", datetime(2026, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
    ],
)
def test_times_of_day_are_found_backwards_too(text: str, before: datetime, expected: datetime) -> None:
    assert CrontabExpression(text).previous_before(before) == expected


@pytest.mark.parametrize("year", [1, 51, 9949, 9999])
def test_the_ends_of_the_calendar_are_no_error(year: int) -> None:
    at = datetime(year, 1, 1, tzinfo=UTC)
    for text in ("0 0 29 2 *", "* * * * *", "0 0 1 1 *"):
        found = CrontabExpression(text)
        assert (found.next_after(at) or datetime.max.replace(tzinfo=UTC)) > at
        assert (found.previous_before(at) or datetime.min.replace(tzinfo=UTC)) <= at
