"""Business days, and the triggers that know them, beside a plain enumeration of all fires."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from time import process_time
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from quartzpy import BusinessDays, BusinessDayTrigger, Roll, Rolled
from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.days import EVERY_DAY, HolidayCalendar, WeeklyCalendar
from quartzpy.calendars.registry import calendar_from_json
from quartzpy.calendars.times import CronCalendar, DailyCalendar
from quartzpy.definitions.faults import Faults
from quartzpy.definitions.forms import TOML, FileForm
from quartzpy.definitions.reader import read_trigger
from quartzpy.errors import InvalidCalendarError, InvalidTriggerError, TriggerNeverFiresError
from quartzpy.jobs.job import job_types
from quartzpy.operations.views.schedules import zone_text
from quartzpy.triggers.combined import AnyOf, Jitter
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.fixed_delay import FixedDelayTrigger
from quartzpy.triggers.registry import stored_schedule
from quartzpy.triggers.simple import SimpleTrigger, every
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import prepare
from tests.fire_times import first_fire_times

START = datetime(2026, 1, 1, tzinfo=UTC)
HOLIDAYS = frozenset({date(2026, 1, 1), date(2026, 4, 3), date(2026, 4, 6), date(2026, 5, 1), date(2026, 12, 25)})
TARGET = HolidayCalendar(HOLIDAYS, base=WeeklyCalendar())
NOTHING = WeeklyCalendar(EVERY_DAY)
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Havana"]


def rolled(part: Trigger | str, roll: str = "following", **more: Any) -> Rolled:
    trigger = CronTrigger(part) if isinstance(part, str) else part
    return Rolled(trigger=trigger, roll=roll, **{"calendar": "target", "start_time": START, **more})


def days(trigger: Trigger, count: int, calendar: BaseCalendar = TARGET) -> list[str]:
    return [f"{at:%m-%d %H}" for at in first_fire_times(trigger, count, calendar=calendar)]


@pytest.mark.parametrize(
    ("rule", "day"),
    [
        # Saturday, 31 January; the months end with it, or begin after it.
        ("following", date(2026, 2, 2)),
        ("preceding", date(2026, 1, 30)),
        ("modified_following", date(2026, 1, 30)),
        ("modified_preceding", date(2026, 1, 30)),
        ("nearest", date(2026, 1, 30)),
    ],
)
def test_a_day_off_is_moved_by_its_rule(rule: str, day: date) -> None:
    assert BusinessDays(TARGET).roll(date(2026, 1, 31), rule) == day
    assert BusinessDays(TARGET).roll(date(2026, 1, 30), rule) == date(2026, 1, 30)


def test_modified_rules_stay_in_the_month_at_either_end() -> None:
    business = BusinessDays(TARGET)
    assert business.roll(date(2026, 2, 1), Roll.MODIFIED_PRECEDING) == date(2026, 2, 2)
    assert business.roll(date(2026, 2, 1), Roll.MODIFIED_FOLLOWING) == date(2026, 2, 2)
    assert business.roll(date(2026, 2, 1), Roll.NEAREST) == date(2026, 2, 2)


def test_business_days_are_added_and_counted() -> None:
    business = BusinessDays(TARGET)
    assert business.add(date(2026, 4, 2), 2) == date(2026, 4, 8)  # over Easter
    assert business.add(date(2026, 4, 8), -2) == date(2026, 4, 2)
    assert business.add(date(2026, 4, 4), 1) == date(2026, 4, 7)
    assert business.add(date(2026, 4, 4), 0) == date(2026, 4, 7)
    assert business.nth(-1, date(2026, 5, 1), date(2026, 5, 31)) == date(2026, 5, 29)
    assert business.nth(1, date(2026, 5, 1), date(2026, 5, 31)) == date(2026, 5, 4)
    assert business.nth(3, date(2026, 4, 3), date(2026, 4, 7)) is None
    assert business.count(date(2026, 4, 1), date(2026, 4, 30)) == 20


def test_several_calendars_have_the_days_off_of_all() -> None:
    other = HolidayCalendar({date(2026, 4, 7)}, time_zone="America/New_York")
    assert BusinessDays(TARGET, other).add(date(2026, 4, 2), 1) == date(2026, 4, 8)
    joined = TARGET.joined(other)
    assert [type(layer) for layer in joined.chain()] == [HolidayCalendar, WeeklyCalendar, HolidayCalendar]
    assert BusinessDays(joined).add(date(2026, 4, 2), 1) == date(2026, 4, 8)
    with pytest.raises(InvalidCalendarError, match="joined: must be calendars"):
        TARGET.joined("target")  # type: ignore[arg-type]


def test_what_is_wrong_is_refused() -> None:
    business = BusinessDays(TARGET)
    with pytest.raises(InvalidCalendarError, match="at least one calendar"):
        BusinessDays()
    with pytest.raises(InvalidCalendarError, match=r"roll: one of following, .* \(got 'forward'\)"):
        business.roll(date(2026, 1, 1), "forward")
    with pytest.raises(InvalidCalendarError, match="count: a number of business days from -1000 to 1000"):
        business.add(date(2026, 1, 1), 1001)
    with pytest.raises(InvalidCalendarError, match="number: 1 for the first"):
        business.nth(0, date(2026, 1, 1), date(2026, 1, 31))
    with pytest.raises(InvalidCalendarError, match="period: at most 3660 days"):
        business.count(date(2026, 1, 1), date(2036, 12, 31))
    for day in (date(2026, 1, 1), date.max):
        with pytest.raises(InvalidCalendarError, match="no business day"):
            BusinessDays(NOTHING).first_from(day)


def test_fires_are_moved_to_the_next_business_day_at_the_same_time() -> None:
    assert days(rolled("0 0 9 1 * ?"), 5) == ["01-02 09", "02-02 09", "03-02 09", "04-01 09", "05-04 09"]


def test_month_ends_are_moved_back() -> None:
    assert days(rolled("0 0 18 L * ?", "preceding"), 5) == ["01-30 18", "02-27 18", "03-31 18", "04-30 18", "05-29 18"]


def test_an_offset_counts_business_days_after_the_move() -> None:
    monthly = "0 0 9 1 * ?"
    assert days(rolled(monthly, offset=2), 4) == ["01-06 09", "02-04 09", "03-04 09", "04-07 09"]
    assert days(rolled(monthly, offset=-1), 4) == ["01-30 09", "02-27 09", "03-31 09", "04-30 09"]


def test_fires_that_meet_are_one_and_those_at_other_times_stay() -> None:
    assert days(rolled("0 0 9 * * ?"), 3) == ["01-02 09", "01-05 09", "01-06 09"]
    twice = "0 0 9,17 ? * FRI-MON"
    assert days(rolled(twice), 6) == ["01-02 09", "01-02 17", "01-05 09", "01-05 17", "01-09 09", "01-09 17"]


def test_fires_of_several_days_are_sorted_by_their_instants() -> None:
    part = AnyOf(triggers=[CronTrigger("0 0 17 ? * SAT"), CronTrigger("0 0 8 ? * SUN"), CronTrigger("0 0 12 ? * MON")])
    assert days(rolled(part), 4) == ["01-05 08", "01-05 12", "01-05 17", "01-12 08"]


def test_start_and_end_bound_the_moved_fires() -> None:
    friday = datetime(2026, 1, 30, 18, tzinfo=UTC)
    # The fire of Saturday would be on Friday, before the start.
    late = rolled("0 0 18 L * ?", "preceding", start_time=friday + timedelta(hours=1))
    assert days(late, 1) == ["02-27 18"]
    assert first_fire_times(rolled("0 0 18 L * ?", "preceding", end_time=friday), 9, calendar=TARGET) == [friday]
    assert not first_fire_times(rolled("0 0 18 L * ?", end_time=friday), 9, calendar=TARGET)


def test_dates_are_compared_as_dates() -> None:
    trigger = rolled(CronTrigger("0 0 1 ? * MON", time_zone="Asia/Tokyo"))
    # On Monday at 01:00 in Tokyo it is Sunday by the clock of the calendar, which is UTC's.
    assert [
        f"{at.astimezone(ZoneInfo('Asia/Tokyo')):%a %H}" for at in first_fire_times(trigger, 2, calendar=TARGET)
    ] == [
        "Mon 01",
        "Mon 01",
    ]


def test_excluded_hours_exclude_fires() -> None:
    closed = DailyCalendar(time(12), time(14), base=TARGET)
    assert days(rolled("0 0 11,13,15 ? * SUN"), 3, closed) == ["01-05 11", "01-05 15", "01-12 11"]
    assert days(BusinessDayTrigger(nth=1, at=["11:00", "13:00"], calendar="c", start_time=START), 3, closed) == [
        "01-02 11",
        "02-02 11",
        "03-02 11",
    ]
    weekends = CronCalendar("* * * ? * SAT,SUN")
    assert days(rolled("0 0 9 ? * SAT"), 2, weekends) == ["01-05 09", "01-12 09"]


EVERY_MINUTE = [time(hour, minute) for hour in range(24) for minute in range(60)]
BOUNDED = [
    rolled("0 0 9 * * ?"),
    rolled("0 0 9 * * ?", "nearest", offset=-3),
    rolled("* * * * * ?", "preceding"),
    BusinessDayTrigger(nth=(1, -1), at="18:00", calendar="c", start_time=START),
    BusinessDayTrigger(at=EVERY_MINUTE, calendar="c"),
]
EXCLUDING = {
    "every-day": NOTHING,
    "every-second": CronCalendar("* * * * * ?"),
    "chained": NOTHING.joined(*[TARGET] * 15),
    # No day is off, and no time of these triggers is included.
    "all-but-some-hours": DailyCalendar(time(23, 30, 1), time(23, 30, 2), base=TARGET, invert=True),
}


@pytest.mark.parametrize("trigger", BOUNDED, ids=["daily", "nearest", "every-second", "nth", "every-minute"])
@pytest.mark.parametrize("calendar", [EXCLUDING[name] for name in EXCLUDING], ids=list(EXCLUDING))
def test_a_calendar_that_excludes_everything_ends_with_an_error(trigger: Trigger, calendar: BaseCalendar) -> None:
    if calendar.kind == "daily" and trigger is BOUNDED[2]:
        return  # This one has fires in those seconds.
    began = process_time()
    with pytest.raises(TriggerNeverFiresError, match="will never fire"):
        prepare(trigger, START, calendar)
    assert process_time() - began < 5


def test_the_nth_business_days_of_periods() -> None:
    def fires(count: int, **more: Any) -> list[str]:
        return days(BusinessDayTrigger(calendar="target", start_time=START, **more), count)

    assert fires(4, nth=-1, at="18:00") == ["01-30 18", "02-27 18", "03-31 18", "04-30 18"]
    assert fires(4, nth=[1, -2], at="18:00") == ["01-02 18", "01-29 18", "02-02 18", "02-26 18"]
    assert fires(3, nth=3, at=["17:00", "09:00"]) == ["01-06 09", "01-06 17", "02-04 09"]
    assert fires(3, nth=5, at="09:00", period="week") == ["01-09 09", "01-16 09", "01-23 09"]
    assert fires(3, nth=-1, at="09:00", period="quarter") == ["03-31 09", "06-30 09", "09-30 09"]
    assert fires(2, nth=1, at="09:00", period="year") == ["01-02 09", "01-01 09"]
    assert fires(3, at="09:00") == ["01-02 09", "01-05 09", "01-06 09"]
    assert fires(2, nth=23, at="09:00") == ["07-31 09", "03-31 09"]  # of the next year


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rolled("0 0 9 * * ?", "backward"), "roll: one of following, preceding"),
        (lambda: rolled("0 0 9 * * ?", offset=1001), "offset: a number of business days from -1000 to 1000"),
        (lambda: rolled("0 0 9 * * ?", offset=True), "offset: a number of business days"),
        (lambda: rolled(FixedDelayTrigger("5s")), "trigger: the fires of a fixed_delay trigger"),
        (lambda: AnyOf(triggers=[rolled("0 0 9 * * ?"), every("5s")]), "a rolled trigger has a calendar of its own"),
        (lambda: BusinessDayTrigger(nth=0, at="18:00", calendar="c"), "nth: 1 for the first"),
        (lambda: BusinessDayTrigger(nth=["1"], at="18:00", calendar="c"), "nth: 1 for the first"),  # type: ignore[list-item]
        (lambda: BusinessDayTrigger(at="6 pm", calendar="c"), 'at: times of day in whole seconds, such as "18:00"'),
        (lambda: BusinessDayTrigger(at=[], calendar="c"), "at: from 1 to 1440 times of day"),
        (lambda: BusinessDayTrigger(at="18:00", period="decade", calendar="c"), "period: one of week, month"),
    ],
)
def test_what_a_trigger_cannot_be_is_refused(make: Callable[[], Trigger], message: str) -> None:
    with pytest.raises(InvalidTriggerError, match=message):
        make()


def test_a_trigger_without_a_calendar_is_not_stored() -> None:
    for trigger in (Rolled("t", trigger=every("5s")), BusinessDayTrigger("t", at="18:00")):
        with pytest.raises(InvalidTriggerError, match=r"trigger DEFAULT\.t needs the name of a stored calendar"):
            prepare(trigger, START, None)


@pytest.mark.parametrize(
    "trigger",
    [
        rolled(CronTrigger("0 0 18 L * ?", time_zone="Europe/Berlin"), "modified_preceding", offset=-2),
        rolled(Jitter(trigger=SimpleTrigger(interval="1d"), up_to="1h"), "nearest", time_zone="Asia/Tokyo"),
        BusinessDayTrigger("t", "g", nth=[1, -1], at=[time(9), "17:30:05"], period="quarter", calendar="c"),
    ],
)
def test_a_stored_trigger_reads_back(trigger: Trigger) -> None:
    schedule = json.loads(json.dumps(trigger.schedule()))
    common = {
        "name": trigger.name,
        "group": trigger.group,
        "calendar": trigger.calendar,
        "start_time": trigger.start_time,
    }
    read = stored_schedule(trigger.kind, schedule, **common)
    assert read == trigger
    assert read.same_schedule(trigger)


def test_another_roll_is_another_schedule() -> None:
    assert not rolled("0 0 9 * * ?").same_schedule(rolled("0 0 9 * * ?", "preceding"))
    assert not rolled("0 0 9 * * ?").same_schedule(rolled("0 0 9 * * ?", offset=1))
    assert not rolled("0 0 9 * * ?").same_schedule(rolled("0 0 8 * * ?"))


def test_schedules_are_described() -> None:
    month_end = rolled(CronTrigger("0 0 18 L * ?", time_zone="Europe/Berlin"), "modified_preceding", offset=-2)
    assert month_end.text == (
        "0 0 18 L * ? (from a day off to the modified preceding business day, and 2 business days earlier)"
    )
    assert month_end.words.endswith("2 business days earlier, by the calendar target")
    assert zone_text(month_end) == "Europe/Berlin"
    payroll = BusinessDayTrigger(
        nth=[1, 2, -3, -1], at=["09:00", "18:00"], time_zone="Europe/Berlin", calendar="target"
    )
    assert payroll.text == (
        "at 09:00 and 18:00 on the 1st, the 2nd, the 3rd last and the last business day of the month"
    )
    assert payroll.words == f"{payroll.text}, by the calendar target (Europe/Berlin)"
    assert BusinessDayTrigger(at="09:00", calendar="c").text == "at 09:00 on every business day"


def read(declared: object) -> Trigger:
    faults = Faults()
    trigger = read_trigger(declared, "DEFAULT", FileForm(TOML, job_types), faults, ())
    faults.check()
    assert trigger is not None
    return trigger


def test_a_file_declares_them() -> None:
    part = {"expression": "0 0 18 L * ?", "time_zone": "Europe/Berlin"}
    declared = {"kind": "rolled", "trigger": part, "roll": "preceding", "offset": -1, "calendar": "target"}
    assert read(declared) == Rolled(
        trigger=CronTrigger("0 0 18 L * ?", time_zone="Europe/Berlin"), roll="preceding", offset=-1, calendar="target"
    )
    brief = {"kind": "rolled", "trigger": "0 0 18 L * ?", "calendar": "target"}
    assert read(brief) == Rolled(trigger=CronTrigger("0 0 18 L * ?"), calendar="target")
    nth = {"kind": "business_day", "nth": [1, -1], "at": ["09:00", "18:00"], "calendar": "target"}
    assert read(nth) == BusinessDayTrigger(nth=[1, -1], at=["09:00", "18:00"], calendar="target")
    several = {"kind": "any_of", "triggers": ["0 0 18 L * ?", {"every": "1h"}]}
    assert read(several) == AnyOf(triggers=[CronTrigger("0 0 18 L * ?"), every("1h")])


def test_the_file_of_the_how_to_page_declares_what_it_says() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "bank-calendar.md"
    declared = yaml.safe_load(page.read_text().split("```yaml\n")[1].split("```")[0])
    calendar = calendar_from_json(json.loads(json.dumps({**declared["calendar"]["target"]}, default=str)))
    fires = {each["name"]: days(read(each["trigger"]).anchored(START), 4, calendar) for each in declared["job"]}
    assert fires == {
        "close-month": ["01-30 17", "02-27 17", "03-31 16", "04-30 16"],
        "interest": ["01-15 06", "02-16 06", "03-16 06", "04-15 05"],
        "settle": ["01-06 05", "02-04 05", "03-04 05", "04-07 04"],
    }


def test_misfires_follow_the_moved_fires() -> None:
    trigger = rolled("0 0 9 ? * SAT", misfire="do_nothing")
    progress = trigger.started(TARGET)
    assert progress.next_fire_time == datetime(2026, 1, 5, 9, tzinfo=UTC)
    _, skipped = trigger.after_misfire(progress, TARGET, now=datetime(2026, 1, 5, 10, tzinfo=UTC))
    assert skipped.next_fire_time == datetime(2026, 1, 12, 9, tzinfo=UTC)
    catching = rolled("0 0 9 ? * SAT", misfire="fire_all", catch_up_max=2)
    _, caught = catching.after_misfire(catching.started(TARGET), TARGET, now=datetime(2026, 1, 27, 10, tzinfo=UTC))
    assert caught.next_fire_time == datetime(2026, 1, 19, 9, tzinfo=UTC)


def test_a_new_calendar_moves_the_next_fire() -> None:
    trigger = rolled("0 0 9 ? * SAT")
    progress = trigger.started(TARGET)
    later = HolidayCalendar({date(2026, 1, 5)}, base=TARGET)
    moved = trigger.with_new_calendar(progress, later, now=START, late_after=timedelta(minutes=1))
    assert moved.next_fire_time == datetime(2026, 1, 6, 9, tzinfo=UTC)


def enumerated(trigger: Rolled, calendar: BaseCalendar, until: datetime) -> list[datetime]:
    """All fires up to an instant, by moving every fire of the part and sorting them."""
    place = ZoneInfo(trigger.clock)
    business = BusinessDays(calendar)
    fires = set()
    for fire in trigger.trigger.fire_times(START, until + timedelta(days=60)):
        local = fire.astimezone(place)
        day = business.roll(local.date(), trigger.roll)
        day = business.add(day, trigger.offset)
        moved = fire
        if day != local.date():
            wall = datetime.combine(day, local.time().replace(fold=0), place)
            moved = wall.astimezone(UTC)
            while moved.astimezone(place).replace(tzinfo=None) > wall.replace(tzinfo=None):
                # Back to the end of the gap, second by second.
                earlier = moved - timedelta(seconds=60)
                if earlier.astimezone(place).utcoffset() != moved.astimezone(place).utcoffset():
                    break
                moved = earlier
        if START <= moved <= until:
            fires.add(moved)
    return sorted(fires)


@settings(deadline=None, max_examples=25)
@given(
    zone_name=st.sampled_from(ZONES),
    roll=st.sampled_from(list(Roll)),
    offset=st.integers(-3, 3),
    minutes=st.sampled_from([37, 90, 360, 1440, 2_000, 10_000]),
    off=st.sets(st.dates(date(2025, 12, 20), date(2026, 5, 20)), max_size=40),
    weekend=st.sets(st.integers(1, 7), max_size=3),
)
def test_fires_equal_an_enumeration_of_all(
    zone_name: str, roll: Roll, offset: int, minutes: int, off: set[date], weekend: set[int]
) -> None:
    calendar = HolidayCalendar(off, base=WeeklyCalendar(weekend))
    # Two weeks that have a change of the clock in most zones.
    start = datetime(2026, 3, 1, tzinfo=UTC)
    part = SimpleTrigger(interval=timedelta(minutes=minutes), start_time=START)
    trigger = Rolled(trigger=part, roll=roll, offset=offset, time_zone=zone_name, calendar="c", start_time=START)
    until = datetime(2026, 4, 30, tzinfo=UTC)
    expected = [fire for fire in enumerated(trigger, calendar, until) if fire >= start]
    fires = list(trigger.fire_times(start, until, calendar))
    assert fires == expected
