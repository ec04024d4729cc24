"""Recurrence rules: the examples of RFC 5545, changes of the clock, ends, wrong rules, and speed."""

from __future__ import annotations

import json
import re
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

from quartzpy.calendars.days import WeeklyCalendar
from quartzpy.errors import InvalidTriggerError, TriggerNeverFiresError, UnknownTimeZoneError
from quartzpy.installing import install_line
from quartzpy.instants import zone
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.recurrence import RecurrenceTrigger
from quartzpy.triggers.registry import trigger_kind
from tests.fire_times import first_fire_times
from tests.unit.instants import utc

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def recurrence(rule: str, start: str | None = None, time_zone: str = "UTC", **more: Any) -> RecurrenceTrigger:
    """A trigger whose start is given on the wall clock of its zone."""
    at = None if start is None else datetime.fromisoformat(start).replace(tzinfo=zone(time_zone))
    return RecurrenceTrigger("t", rule=rule, start_time=at, time_zone=time_zone, **more)


def local(trigger: RecurrenceTrigger, count: int, after: str | None = None) -> list[str]:
    fired = first_fire_times(trigger, count, None if after is None else utc(after))
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
    assert trigger.final_fire_time == first_fire_times(trigger, 20)[-1]


@pytest.mark.parametrize(
    ("start", "rule", "expected"),
    [
        ("1997-03-10", "FREQ=YEARLY;INTERVAL=2;BYMONTH=1,2,3", "1997-03-10 1999-01-10 1999-02-10 1999-03-10"),
        ("1997-01-01", "FREQ=YEARLY;INTERVAL=3;BYYEARDAY=1,100,200", "1997-01-01 1997-04-10 1997-07-19 2000-01-01"),
        ("1997-05-19", "FREQ=YEARLY;BYDAY=20MO", "1997-05-19 1998-05-18 1999-05-17"),
        ("1997-05-12", "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1997-05-12 1998-05-11 1999-05-17"),
        ("1997-03-13", "FREQ=YEARLY;BYMONTH=3;BYDAY=TH", "1997-03-13 1997-03-20 1997-03-27 1998-03-05"),
        ("1997-12-30", "FREQ=DAILY;BYMONTH=1,2", "1998-01-01 1998-01-02 1998-01-03"),
        ("1997-09-02", "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "1998-02-13 1998-03-13 1998-11-13 1999-08-13"),
        ("1997-09-10", "FREQ=MONTHLY;INTERVAL=18;BYMONTHDAY=10,11", "1997-09-10 1997-09-11 1999-03-10 1999-03-11"),
        (
            "1996-11-05", "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
            "1996-11-05 2000-11-07 2004-11-02",
        ),
        ("1997-08-05", "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=MO", "1997-08-05 1997-08-10 1997-08-19 1997-08-24"),
        ("1997-08-05", "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU", "1997-08-05 1997-08-17 1997-08-19 1997-08-31"),
        # What does not exist is left out, not cut short; and the start is a fire only where the rule has it.
        ("2007-01-31", "FREQ=MONTHLY", "2007-01-31 2007-03-31 2007-05-31"),
        ("1998-01-01", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "2000-02-29 2004-02-29"),
    ],
)  # fmt: skip
def test_rules_that_go_on_for_years(start: str, rule: str, expected: str) -> None:
    trigger = recurrence(rule, f"{start} 09:00", NEW_YORK)
    wanted = expected.split()
    assert days(trigger, len(wanted)) == wanted
    assert trigger.final_fire_time is None


def test_rules_of_hours_and_minutes() -> None:
    assert local(recurrence("FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T170000", "1997-09-02 09:00"), 9) == [
        "1997-09-02 09:00", "1997-09-02 12:00", "1997-09-02 15:00",
    ]  # fmt: skip
    assert local(recurrence("FREQ=MINUTELY;INTERVAL=90;COUNT=3", "1997-09-02 09:00"), 9) == [
        "1997-09-02 09:00", "1997-09-02 10:30", "1997-09-02 12:00",
    ]  # fmt: skip
    hourly = recurrence("FREQ=HOURLY;BYMINUTE=10,20,40;BYSETPOS=-1,4", "1997-09-02 09:30")
    assert local(hourly, 2) == ["1997-09-02 09:40", "1997-09-02 10:40"]
    daily = recurrence("FREQ=DAILY;BYHOUR=9,10;BYMINUTE=0,20,40", "1997-09-02 09:00")
    minutely = recurrence("FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10", "1997-09-02 09:00")
    assert local(daily, 30) == local(minutely, 30)


@pytest.mark.parametrize(
    ("time_zone", "start", "rule", "expected"),
    [
        # 02:30 does not exist: the end of the gap, and back to 02:30 the day after.
        (BERLIN, "2026-03-28 02:30", "FREQ=DAILY", "28 01:30, 29 01:00, 30 00:30"),
        (NEW_YORK, "2026-03-07 02:30", "FREQ=DAILY", "07 07:30, 08 07:00, 09 06:30"),
        # All that the gap swallows comes once, and with what is due at its end anyway.
        (BERLIN, "2026-03-29 01:40", "FREQ=MINUTELY;INTERVAL=20", "29 00:40, 29 01:00, 29 01:20, 29 01:40"),
        (NEW_YORK, "2026-03-08 01:30", "FREQ=MINUTELY;INTERVAL=45", "08 06:30, 08 07:00, 08 07:45"),
        (BERLIN, "2026-03-29 01:00", "RDATE:20260329T023000,20260329T030000", "29 01:00"),
        # 02:30 comes twice, 01:30 in New York: the first pass.
        (BERLIN, "2026-10-24 02:30", "FREQ=DAILY", "24 00:30, 25 00:30, 26 01:30"),
        (NEW_YORK, "2026-10-31 01:30", "FREQ=DAILY", "31 05:30, 01 05:30, 02 06:30"),
        (BERLIN, "2026-10-25 01:30", "FREQ=HOURLY", "24 23:30, 25 00:30, 25 02:30"),
        (NEW_YORK, "2026-11-01 00:30", "FREQ=HOURLY", "01 04:30, 01 05:30, 01 07:30"),
        # A whole day was left out: what was due on it comes when the next begins.
        ("Pacific/Apia", "2011-12-29 10:00", "FREQ=DAILY", "29 20:00, 30 10:00, 30 20:00, 31 20:00"),
    ],
)
def test_changes_of_the_clock(time_zone: str, start: str, rule: str, expected: str) -> None:
    fired = first_fire_times(recurrence(rule, start, time_zone), len(expected.split(", ")))
    assert ", ".join(f"{at:%d %H:%M}" for at in fired) == expected


def test_a_start_on_the_second_pass_is_where_it_is() -> None:
    for start in ("2026-10-25 01:30", "2026-10-25 01:00"):
        trigger = RecurrenceTrigger("t", rule="FREQ=MINUTELY;INTERVAL=20", start_time=utc(start), time_zone=BERLIN)
        assert first_fire_times(trigger, 3) == [utc(start) + number * timedelta(minutes=20) for number in range(3)]


def test_an_end_of_the_rule_on_the_second_pass_leaves_the_first_alone() -> None:
    trigger = recurrence("FREQ=DAILY;UNTIL=20261025T011000Z", "2026-10-24 02:30", BERLIN)
    assert first_fire_times(trigger, 9) == [utc("2026-10-24 00:30"), utc("2026-10-25 00:30")]
    assert trigger.final_fire_time == utc("2026-10-25 00:30")


def test_the_end_is_a_fire_and_none_is_later() -> None:
    trigger = recurrence("FREQ=DAILY", "2026-05-01 09:00", end_time=utc("2026-05-03 09:00"))
    assert days(trigger, 9) == ["2026-05-01", "2026-05-02", "2026-05-03"]
    assert trigger.final_fire_time == utc("2026-05-03 09:00")
    earlier = replace(trigger, end_time=utc("2026-05-03 08:59"))
    assert earlier.final_fire_time == utc("2026-05-02 09:00")
    assert recurrence("FREQ=DAILY", "2026-05-01 09:00").final_fire_time is None
    never = recurrence("FREQ=DAILY;BYHOUR=9", "2026-05-01 10:00", end_time=utc("2026-05-01 11:00"))
    assert never.final_fire_time is None


def test_a_count_is_counted_from_the_start_wherever_one_asks() -> None:
    trigger = recurrence("FREQ=DAILY;COUNT=3;BYDAY=MO,TU", "2026-05-01 09:00")
    assert trigger.next_after(utc("2026-05-05 08:59")) == utc("2026-05-05 09:00")
    assert trigger.next_after(utc("2026-05-05 09:00")) == utc("2026-05-11 09:00")
    assert trigger.next_after(utc("2026-05-11 09:00")) is None
    assert trigger.next_after(utc("2050-01-01 00:00")) is None
    assert trigger.final_fire_time == utc("2026-05-11 09:00")


def test_the_start_may_be_set_when_it_is_scheduled() -> None:
    trigger = recurrence("FREQ=MONTHLY;COUNT=2")
    with pytest.raises(InvalidTriggerError, match="anchored"):
        trigger.next_after(utc("2026-05-01"))
    anchored = trigger.anchored(utc("2026-05-15 12:00:01.5"))
    assert first_fire_times(anchored, 9) == [utc("2026-05-15 12:00:01"), utc("2026-06-15 12:00:01")]


def test_a_calendar_leaves_days_out() -> None:
    fired = first_fire_times(recurrence("FREQ=DAILY", "2026-05-15 12:00"), 3, calendar=WeeklyCalendar())
    assert [at.day for at in fired] == [15, 18, 19]


@pytest.mark.parametrize(
    ("misfire", "following"),
    [
        ("smart", "2026-05-20 12:00"),
        ("fire_once_now", "2026-05-20 12:00"),
        ("do_nothing", "2026-05-21 09:00"),
        ("ignore", "2026-05-15 09:00"),
    ],
)
def test_misfires_are_those_of_a_cron_trigger(misfire: str, following: str) -> None:
    trigger = recurrence("FREQ=DAILY", "2026-05-15 09:00", misfire=misfire)
    cron = CronTrigger("0 0 9 * * ?", "t", start_time=trigger.start_time, misfire=misfire)
    now = utc("2026-05-20 12:00")
    _, progress = trigger.after_misfire(trigger.started(), now=now)
    assert progress.next_fire_time == utc(following)
    assert progress == cron.after_misfire(cron.started(), now=now)[1]
    assert trigger.ignores_misfires == cron.ignores_misfires


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("", "RRULE such as"),
        ("EXDATE:20260101T000000", "RRULE such as"),
        ("BYDAY=MO", "FREQ: one of YEARLY, MONTHLY"),
        ("FREQ=FORTNIGHTLY", "FREQ: one of .* 'FORTNIGHTLY'"),
        ("FREQ=DAILY;;COUNT=1", "parts are FREQ"),
        ("FREQ=DAILY;BYEASTER=0", "parts are FREQ, .* 'BYEASTER'"),
        ("FREQ=DAILY;FREQ=WEEKLY", "FREQ is given twice"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL: 1 to"),
        ("FREQ=DAILY;INTERVAL=1.5", "INTERVAL: 1 to"),
        ("FREQ=DAILY;COUNT=0", "COUNT: 1 to 100000"),
        ("FREQ=DAILY;COUNT=100001", "COUNT: 1 to 100000"),
        ("FREQ=DAILY;COUNT=1;UNTIL=20260101T000000", "only one of them"),
        ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL: such as 20261231T235959"),
        ("FREQ=DAILY;UNTIL=20260230", "UNTIL: such as 20261231T235959"),
        ("FREQ=YEARLY;BYMONTH=13", "BYMONTH: 1 to 12 .*'13'"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY: 1 to 31, or -31 to -1"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR: 0 to 23"),
        ("FREQ=HOURLY;BYHOUR=25", "BYHOUR: 0 to 23"),
        ("FREQ=DAILY;BYHOUR=", "BYHOUR: 0 to 23"),
        ("FREQ=MONTHLY;BYDAY=XX", "BYDAY: MO, TU"),
        ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY: 1 to 53"),
        ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY: numbers are for MONTHLY"),
        ("FREQ=WEEKLY;WKST=1", "WKST: one of MO"),
        ("RRULE:FREQ=DAILY\nDTSTART:20260101T090000", "DTSTART must be its first line"),
        ("DTSTART:20260101T090000,20260102T090000\nRRULE:FREQ=DAILY", "DTSTART: one date is needed"),
        ("DTSTART:tomorrow\nRRULE:FREQ=DAILY", "DTSTART: such as 20261231T235959"),
        ("DTSTART;TZID=Mars:20260101T090000\nRRULE:FREQ=DAILY", "'Mars' is not known"),
        ("RRULE:FREQ=DAILY\nDURATION:PT1H", "lines are RRULE, EXRULE, RDATE, EXDATE .*'DURATION'"),
        ("RRULE;X=1:FREQ=DAILY", "takes no parameters"),
        ("RDATE;VALUE=PERIOD:20260101T090000/PT1H", "VALUE=PERIOD"),
        ("FREQ=DAILY\nEXDATE;TZID=Mars:20260101T090000", "'Mars' is not known"),
    ],
)
def test_a_wrong_rule_is_named_and_what_is_wrong(rule: str, words: str) -> None:
    with pytest.raises(InvalidTriggerError, match=words) as caught:
        recurrence(rule)
    assert f"rule {rule!r}: " in str(caught.value)


def test_other_wrong_values_are_named() -> None:
    with pytest.raises(InvalidTriggerError, match=r"rule: must be text .*list"):
        RecurrenceTrigger(rule=["FREQ=DAILY"])  # type: ignore[arg-type]
    with pytest.raises(InvalidTriggerError, match="smart, ignore, fire_once_now, do_nothing"):
        recurrence("FREQ=DAILY", misfire="reschedule")
    with pytest.raises(UnknownTimeZoneError):
        RecurrenceTrigger(rule="FREQ=DAILY", time_zone="Mars")


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = recurrence("FREQ=DAILY", "2026-05-15 09:00")
    monkeypatch.setitem(sys.modules, "dateutil.rrule", None)
    with pytest.raises(InvalidTriggerError, match=re.escape(install_line("rrule"))):
        trigger.first_progress()


def test_lines_may_be_indented_folded_and_in_small_letters() -> None:
    expected = recurrence("RRULE:FREQ=DAILY;BYHOUR=9\nEXDATE:20260502T090000,20260503T090000", "2026-05-01 09:00")
    for rule in (
        """
            rrule:freq=daily;byhour=9
            exdate:20260502T090000,20260503T090000
        """,
        "RRULE:FREQ=DAILY;\r\n BYHOUR=9\r\nEXDATE:20260502T090000,202605\r\n 03T090000\r\n",
        "FREQ=DAILY;BYHOUR=9;\nEXDATE:20260502T090000,20260503T090000",
    ):
        assert days(recurrence(rule, "2026-05-01 09:00"), 5) == days(expected, 5)


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;COUNT=9",
        "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=23",
        "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=23;BYMINUTE=59",
        "FREQ=DAILY;INTERVAL=7;BYDAY=TU",
        "FREQ=SECONDLY;INTERVAL=604800;BYDAY=TU",
        "FREQ=SECONDLY;INTERVAL=7200;BYMINUTE=30",
        "FREQ=HOURLY;INTERVAL=4;BYHOUR=2",
        "FREQ=HOURLY;BYMINUTE=0,30,30;BYSETPOS=3,-3",
        "FREQ=MINUTELY;BYSETPOS=-2",
        "FREQ=DAILY;BYMONTHDAY=31;BYSETPOS=2",
        "FREQ=SECONDLY\nEXRULE:FREQ=SECONDLY",
        "FREQ=DAILY\nEXRULE:FREQ=DAILY",
    ],
)
def test_a_search_without_result_ends_soon(rule: str) -> None:
    trigger = recurrence(rule, "2026-01-05 09:00", BERLIN)
    began = stopwatch.process_time()
    assert trigger.next_after(utc("2026-05-15 12:00")) is None
    assert stopwatch.process_time() - began < 5  # really at most some tenths
    with pytest.raises(TriggerNeverFiresError):
        trigger.first_progress()


@pytest.mark.parametrize("frequency", ["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"])
def test_searching_decades_costs_no_more_than_a_day(frequency: str) -> None:
    trigger = recurrence(f"FREQ={frequency};BYDAY=MO,FR", "1970-01-30 00:00:01", BERLIN)
    trigger.next_after(utc("2026-05-15 12:00"))
    began = stopwatch.process_time()
    for _ in range(20):
        trigger.next_after(utc("2026-05-15 12:00"))
    assert stopwatch.process_time() - began < 0.5  # really some tenths of a millisecond each


def test_nothing_is_found_beyond_a_hundred_years_and_the_end_of_time() -> None:
    assert days(recurrence("FREQ=YEARLY;INTERVAL=200", "2026-01-01 00:00"), 9) == ["2026-01-01"]
    for frequency in ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY"):
        late = recurrence(f"FREQ={frequency}", "9999-12-31 23:00")
        assert first_fire_times(late, 9) == [utc("9999-12-31 23:00")]
        assert first_fire_times(replace(late, time_zone="Asia/Tokyo"), 9) == []
        late = recurrence(f"FREQ={frequency};INTERVAL=2147483647", "9999-01-01 00:00")
        assert days(late, 9) == ["9999-01-01"]


def some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return st.lists(values, min_size=1, max_size=3, unique=True).map(lambda chosen: ",".join(map(str, chosen)))


WEEKDAYS = st.sampled_from(["MO", "TU", "WE", "TH", "FR", "SA", "SU"])
PARTS = {
    "BYMONTH": some(st.integers(1, 12)),
    "BYMONTHDAY": some(st.integers(1, 31) | st.integers(-31, -1)),
    "BYYEARDAY": some(st.integers(1, 366) | st.integers(-366, -1)),
    "BYDAY": some(WEEKDAYS),
    "BYHOUR": some(st.integers(0, 23)),
    "BYMINUTE": some(st.integers(0, 59)),
    "WKST": WEEKDAYS,
}


@st.composite
def rules(draw: st.DrawFn) -> str:
    parts = draw(st.fixed_dictionaries({}, optional=PARTS))
    if len(parts.keys() & {"BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYDAY"}) > 2:
        del parts[min(parts.keys() & {"BYYEARDAY", "BYDAY", "BYMONTHDAY"})]
    frequency = draw(st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"]))
    interval = draw(st.integers(1, 5))
    return ";".join(
        [f"FREQ={frequency}", f"INTERVAL={interval}", *(f"{part}={value}" for part, value in parts.items())]
    )


STARTS = st.datetimes(datetime(2015, 1, 1), datetime(2026, 1, 1)).map(lambda at: at.replace(microsecond=0))


@given(rules(), STARTS, st.timedeltas(timedelta(days=-9), timedelta(days=700)))
def test_without_changes_of_the_clock_it_fires_as_dateutil_says(rule: str, start: datetime, later: timedelta) -> None:
    trigger = RecurrenceTrigger(rule=rule, start_time=start.replace(tzinfo=UTC))
    after = start + later
    found = trigger.next_after(after.replace(tzinfo=UTC))
    if found is None:
        return
    assert found.replace(tzinfo=None) == rrulestr(rule, dtstart=start).after(after)


@given(rules(), st.sampled_from(["", ";COUNT=5", ";UNTIL=20270101T000000Z"]), STARTS,
       st.sampled_from(["UTC", BERLIN, NEW_YORK, "Australia/Lord_Howe"]))  # fmt: skip
def test_the_next_fire_is_later_and_none_lies_between(rule: str, end: str, start: datetime, time_zone: str) -> None:
    trigger = RecurrenceTrigger(rule=rule + end, start_time=start.replace(tzinfo=UTC), time_zone=time_zone)
    fired = first_fire_times(trigger, 4)
    assert fired == sorted(set(fired))
    assert all(at >= trigger.anchor for at in fired)
    for at, following in zip(fired, islice(fired, 1, None), strict=False):
        assert trigger.next_after(at) == following
        assert trigger.next_after(at + (following - at) / 2) == following
        assert trigger.next_after(following - timedelta.resolution) == following


@given(rules(), STARTS)
def test_a_trigger_comes_back_from_its_schedule_as_it_was(rule: str, start: datetime) -> None:
    trigger = RecurrenceTrigger("t", rule=rule, time_zone=BERLIN, start_time=start.replace(tzinfo=UTC))
    schedule = json.loads(json.dumps(trigger.schedule()))
    again = trigger_kind("recurrence").from_schedule(schedule, name="t", start_time=trigger.start_time)
    assert again == trigger


@pytest.mark.parametrize(
    ("dtstart", "time_zone", "first"),
    [
        ("DTSTART:20260701T090000", "UTC", "2026-07-01 09:00"),
        ("DTSTART:20260701T090000", "Europe/Berlin", "2026-07-01 07:00"),
        ("DTSTART:20260701T090000Z", "Europe/Berlin", "2026-07-01 09:00"),
        ("DTSTART;TZID=Europe/Berlin:20260701T090000", "UTC", "2026-07-01 07:00"),
        ("DTSTART;TZID=Europe/Berlin:\r\n 20260701T090000\r", "Europe/Berlin", "2026-07-01 07:00"),
        ("dtstart;value=date:20260701", "UTC", "2026-07-01 00:00"),
    ],
)
def test_a_pasted_rule_has_its_start(dtstart: str, time_zone: str, first: str) -> None:
    trigger = RecurrenceTrigger(rule=f"{dtstart}\nRRULE:FREQ=DAILY;COUNT=2", time_zone=time_zone)
    assert trigger.start_time == utc(first)
    assert trigger.time_zone == ("Europe/Berlin" if "Berlin" in dtstart else time_zone)
    assert first_fire_times(trigger, 9) == [utc(first), utc(first) + timedelta(days=1)]
    assert RecurrenceTrigger.from_schedule(trigger.schedule(), start_time=trigger.start_time) == trigger


def test_a_pasted_start_that_contradicts_the_trigger_is_refused() -> None:
    rule = "DTSTART;TZID=Europe/Berlin:20260701T090000\nRRULE:FREQ=DAILY"
    assert RecurrenceTrigger(rule=rule, start_time=utc("2026-07-01 07:00")).start_time == utc("2026-07-01 07:00")
    with pytest.raises(InvalidTriggerError, match=r"start_time: 2026-07-01 09:00.*but DTSTART of the rule is"):
        RecurrenceTrigger(rule=rule, start_time=utc("2026-07-01 09:00"))
    with pytest.raises(InvalidTriggerError, match="time_zone: 'Asia/Tokyo', but DTSTART of the rule has 'Europe/Berl"):
        RecurrenceTrigger(rule=rule, time_zone="Asia/Tokyo")
