"""Recurrence rules: the examples of RFC 5545, changes of the clock, ends, wrong rules, and speed."""

from __future__ import annotations

import json
import sys
import time as stopwatch
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.calendars.weekly import WeeklyCalendar
from quartzpy.errors import InvalidTriggerError, TriggerNeverFiresError, UnknownTimeZoneError
from quartzpy.instants import zone
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.kinds import trigger_kind
from quartzpy.triggers.recurrence import RecurrenceTrigger

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def recurrence(rule: str, start: str | None = None, time_zone: str = "UTC", **more: Any) -> RecurrenceTrigger:
    """A trigger whose start is given on the wall clock of its zone."""
    at = None if start is None else datetime.fromisoformat(start).replace(tzinfo=zone(time_zone))
    return RecurrenceTrigger("t", rule=rule, start_time=at, time_zone=time_zone, **more)


def local(trigger: RecurrenceTrigger, count: int, after: str | None = None) -> list[str]:
    fired = trigger.upcoming(count, None if after is None else utc(after))
    return [at.astimezone(zone(trigger.time_zone)).isoformat(" ", "minutes")[:16] for at in fired]


def days(trigger: RecurrenceTrigger, count: int) -> list[str]:
    return [at[:10] for at in local(trigger, count)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("FREQ=DAILY;COUNT=10", "09-02 09-03 09-04 09-05 09-06 09-07 09-08 09-09 09-10 09-11"),
        ("FREQ=DAILY;INTERVAL=10;COUNT=5", "09-02 09-12 09-22 10-02 10-12"),
        ("FREQ=WEEKLY;COUNT=4", "09-02 09-09 09-16 09-23"),
        ("FREQ=WEEKLY;UNTIL=19971007T000000Z;WKST=SU;BYDAY=TU,TH", "09-02 09-04 09-09 09-11 09-16 09-18 09-23 "
         "09-25 09-30 10-02"),
        ("FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH", "09-02 09-04 09-16 09-18 09-30 10-02 10-14 10-16"),
        ("FREQ=MONTHLY;COUNT=4;BYDAY=1FR", "09-05 10-03 11-07 12-05"),
        ("FREQ=MONTHLY;INTERVAL=2;COUNT=4;BYDAY=1SU,-1SU", "09-07 09-28 11-02 11-30"),
        ("FREQ=MONTHLY;COUNT=3;BYDAY=-2MO", "09-22 10-20 11-17"),
        ("FREQ=MONTHLY;BYMONTHDAY=-3;COUNT=3", "09-28 10-29 11-28"),
        ("FREQ=MONTHLY;COUNT=6;BYMONTHDAY=2,15", "09-02 09-15 10-02 10-15 11-02 11-15"),
        ("FREQ=MONTHLY;COUNT=5;BYMONTHDAY=1,-1", "09-30 10-01 10-31 11-01 11-30"),
        ("FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "09-04 10-07 11-06"),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2;COUNT=4", "09-29 10-30 11-27 12-30"),
        ("FREQ=YEARLY;BYMONTH=10;BYDAY=1MO,-1SU;COUNT=2", "10-06 10-26"),
        # A date alone is its midnight, and times that do not come are not counted.
        ("FREQ=DAILY;UNTIL=19970904", "09-02 09-03"),
        ("RRULE:FREQ=DAILY;COUNT=4\nEXDATE:19970903T090000", "09-02 09-04 09-05"),
        ("RRULE:FREQ=DAILY;COUNT=4\nEXDATE;TZID=America/New_York:19970903T090000", "09-02 09-04 09-05"),
        ("RRULE:FREQ=DAILY;COUNT=4\nEXDATE:19970903T130000Z,19970904T130000Z", "09-02 09-05"),
        ("RRULE:FREQ=DAILY;COUNT=9\nEXRULE:FREQ=WEEKLY;BYDAY=SA,SU", "09-02 09-03 09-04 09-05 09-08 09-09 09-10"),
        ("RDATE;VALUE=DATE-TIME:19970910T090000,19970903T090000", "09-03 09-10"),
        ("FREQ=WEEKLY;COUNT=2\nRDATE:19970905T090000,19970909T090000,19970101T090000", "09-02 09-05 09-09"),
        ("RRULE:FREQ=WEEKLY;COUNT=2\nRRULE:FREQ=DAILY;COUNT=3", "09-02 09-03 09-04 09-09"),
    ],
)  # fmt: skip
def test_the_examples_of_the_rfc(rule: str, expected: str) -> None:
    trigger = recurrence(rule, "1997-09-02 09:00", NEW_YORK)
    wanted = expected.split()
    fired = local(trigger, 20)
    assert fired == [f"1997-{day} 09:00" for day in wanted]
    assert trigger.final_fire_time == trigger.upcoming(20)[-1]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("FREQ=YEARLY;INTERVAL=2;COUNT=3;BYMONTH=1,2", "1998-01-02 1998-02-02 2000-01-02"),
        ("FREQ=YEARLY;INTERVAL=3;BYYEARDAY=1,100,200", "1998-01-01 1998-04-10 1998-07-19"),
        ("FREQ=YEARLY;BYDAY=20MO", "1998-05-18 1999-05-17 2000-05-15"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1998-05-11 1999-05-17 2000-05-15"),
        ("FREQ=YEARLY;BYMONTH=3;BYDAY=TH", "1998-03-05 1998-03-12 1998-03-19"),
        ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "1998-02-13 1998-03-13 1998-11-13"),
        ("FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8", "2000-11-07 2004-11-02 2008-11-04"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "2000-02-29 2004-02-29 2008-02-29"),
    ],
)  # fmt: skip
def test_rules_of_years(rule: str, expected: str) -> None:
    start = "1996-11-02 09:00" if "INTERVAL=4" in rule else "1997-12-20 09:00"
    if "BYMONTH=1,2" in rule:
        start = "1998-01-02 09:00"
    if "YEARDAY" in rule:
        start = "1998-01-01 09:00"
    trigger = recurrence(rule, start, NEW_YORK)
    assert days(replace(trigger, start_time=trigger.anchor + timedelta(hours=0)), 4)[-3:] == expected.split() or (
        days(trigger, 3) == expected.split()
    )


def test_rules_of_hours_and_minutes() -> None:
    assert local(recurrence("FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T170000", "1997-09-02 09:00"), 9) == [
        "1997-09-02 09:00", "1997-09-02 12:00", "1997-09-02 15:00",
    ]  # fmt: skip
    assert local(recurrence("FREQ=MINUTELY;INTERVAL=90;COUNT=3", "1997-09-02 09:00"), 9) == [
        "1997-09-02 09:00", "1997-09-02 10:30", "1997-09-02 12:00",
    ]  # fmt: skip
    daily = recurrence("FREQ=DAILY;BYHOUR=9,10;BYMINUTE=0,20,40", "1997-09-02 09:00")
    minutely = recurrence("FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10", "1997-09-02 09:00")
    assert local(daily, 30) == local(minutely, 30)
