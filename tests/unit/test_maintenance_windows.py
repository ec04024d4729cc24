"""When maintenance windows begin and end, also where the clock is changed, and how files declare them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy import CronTrigger, MaintenanceWindow
from quartzpy.calendars.maintenance_window import WINDOW_LEAD, window_due_at
from quartzpy.cron_expressions.schedule import DaylightSaving
from quartzpy.definitions.files import definitions
from quartzpy.errors import SettingsError
from quartzpy.instants import zone

BERLIN = "Europe/Berlin"
DAY = timedelta(days=1)
SPRING, AUTUMN, SUMMER = (datetime(2026, *day, tzinfo=UTC) for day in ((3, 29), (10, 25), (6, 7)))


def window(cron: str = "0 2 * * *", duration: str = "1h", **values: Any) -> MaintenanceWindow:
    return MaintenanceWindow("w", cron=cron, duration=duration, **{"time_zone": BERLIN, **values})


@pytest.mark.parametrize(
    ("cron", "duration", "day", "start", "end", "hours"),
    [
        ("0 2 * * *", "1h", SUMMER, "02:00", "03:00", 1),
        ("0 2 * * *", "1h", SPRING, "03:00", "04:00", 1),
        ("0 2 * * *", "1h", AUTUMN, "02:00", "03:00", 2),
        ("30 2 * * *", "15m", SPRING, "03:00", "03:15", 0.25),
        ("30 2 * * *", "15m", AUTUMN, "02:30", "02:45", 0.25),
        ("0 1 * * *", "4h", SPRING, "01:00", "05:00", 3),
        ("0 1 * * *", "4h", AUTUMN, "01:00", "05:00", 5),
        ("0 0 2 ? * SUN", "4h", SUMMER, "02:00", "06:00", 4),
        ("@weekly", "4h", SUMMER, "00:00", "04:00", 4),
        (" @Daily ", "4h", SUMMER, "00:00", "04:00", 4),
    ],
)
def test_a_window_follows_the_clock_of_its_zone(
    cron: str, duration: str, day: datetime, start: str, end: str, hours: float
) -> None:
    span = window(cron, duration).next_span(day - timedelta(hours=3))
    assert span is not None
    assert [f"{instant.astimezone(zone(BERLIN)):%H:%M}" for instant in span] == [start, end]
    assert span[1] - span[0] == timedelta(hours=hours)


@pytest.mark.parametrize("day", [SPRING, AUTUMN, SUMMER], ids=["spring", "autumn", "summer"])
@pytest.mark.parametrize("dst", list(DaylightSaving))
def test_what_fires_between_two_and_three_is_within_a_window_of_that_time(day: datetime, dst: str) -> None:
    span = window().next_span(day - timedelta(hours=2))
    assert span is not None
    trigger = CronTrigger("0 30 2 * * ?", "half", time_zone=BERLIN, dst=dst)
    assert all(span[0] <= fire < span[1] for fire in trigger.fire_times(day - timedelta(hours=2), day + DAY / 2))


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(["0 2 * * *", "*/20 * * * *", "0 2 * * SUN", "30 1 1 * *"]),
    st.timedeltas(timedelta(minutes=1), timedelta(days=3)),
    st.sampled_from([BERLIN, "UTC", "America/New_York", "Australia/Lord_Howe"]),
)
def test_a_window_ends_after_it_begins_and_after_the_instant(
    instant: datetime, cron: str, duration: timedelta, zone_name: str
) -> None:
    made = MaintenanceWindow("w", cron=cron, duration=duration, time_zone=zone_name, trigger_group="g")
    assert MaintenanceWindow.from_json("w", made.as_json(), trigger_group="g", job_group=None) == made
    span = made.next_span(instant)
    assert span is not None
    start, end = span
    assert instant < end
    assert timedelta() < end - start <= duration + timedelta(hours=1)
    following = made.next_span(end)
    assert following is not None
    assert following[0] > start


def test_a_window_of_one_span_comes_once() -> None:
    start, end = SUMMER, SUMMER + DAY
    once = MaintenanceWindow("w", start=start, end=end)
    assert once.next_span(start - DAY) == once.next_span(end - timedelta.resolution) == (start, end)
    assert once.next_span(end) is None


def test_a_node_acts_a_minute_and_five_seconds_before_and_at_the_beginning() -> None:
    instants, now = [], SUMMER - DAY
    while now < SUMMER:
        now = window_due_at(SUMMER, now)
        instants.append(SUMMER - now)
    assert instants == [WINDOW_LEAD, timedelta(seconds=5), timedelta()]


def test_files_declare_windows_by_their_names() -> None:
    declared = {"database": {"cron": "0 2 * * *", "duration": "1h", "time_zone": BERLIN}}
    assert definitions({"job": [], "window": declared}, "f.yaml").windows == [
        MaintenanceWindow("database", cron="0 2 * * *", duration="1h", time_zone=BERLIN)
    ]


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        ({"w": {"crn": "0 2 * * *"}}, "f.yaml: window 'w': 'crn' is not known; did you mean cron"),
        ({"w": {"cron": "0 2", "duration": "1h"}}, "f.yaml: window 'w': expected"),
        ({"w": 5}, "f.yaml: window 'w': must be a mapping (got 5)"),
        ([1], "f.yaml: window is a mapping of mappings"),
        ({"w": {"start": "soon", "end": "2026-01-01T00:00Z"}}, "f.yaml: window 'w': "),
    ],
)
def test_a_wrong_window_of_a_file_is_named(declared: object, wrong: str) -> None:
    with pytest.raises(SettingsError) as error:
        definitions({"job": [], "window": declared}, "f.yaml")
    assert str(error.value).startswith(wrong)
