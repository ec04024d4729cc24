"""What is computed from a schedule, a calendar or a file of events takes a bounded number of steps."""

from __future__ import annotations

import time as stopwatch
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta

import pytest

from quartzpy.budget import MAX_STEPS, Budget, spend
from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.days import AnnualCalendar, HolidayCalendar, WeeklyCalendar
from quartzpy.calendars.times import CronCalendar, DailyCalendar
from quartzpy.errors import InvalidCalendarError, QuartzpyError, ScheduleTooCostlyError, TriggerNeverFiresError
from quartzpy.ics import calendar_from_ics
from quartzpy.triggers.business_days import BusinessDayTrigger, Rolled
from quartzpy.triggers.combined import AllOf, AnyOf, Jitter
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.misfire import misfired
from quartzpy.triggers.recurrence import RecurrenceTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import prepare
from tests.protocol.options import is_long

NOW = datetime(2026, 11, 28, 1, 2, 3, tzinfo=UTC)
SECONDS_OF_WORK = 60
"""Far above a second, of processor time: the machine may be slow, or busy, and an unbounded search takes
hours."""
SHARE = 10
"""Most tests of schedules have this part of the steps, and of the time: what is bounded is so in any number of them."""
EVERY_SECOND = CronTrigger("* * * * * ?")
LEAP_DAY = CronTrigger("0 0 0 29 2 ?")
ALL_SECONDS = "BYSECOND=" + ",".join(map(str, range(60)))
ALL_TIMES = "BYHOUR={};BYMINUTE={};BYSECOND={}".format(
    *(",".join(map(str, range(count))) for count in (24, 60, 60)),
)


def rule(*lines: str) -> RecurrenceTrigger:
    return RecurrenceTrigger("t", rule="\n".join(lines))


def nested(combined: Callable[[Trigger], Trigger], inner: Trigger, depth: int) -> Trigger:
    for _ in range(depth):
        inner = combined(inner)
    return inner


def chain(*expressions: str, zones: tuple[str, ...] = ("UTC",)) -> BaseCalendar:
    calendar: BaseCalendar | None = None
    for number, expression in enumerate(expressions):
        calendar = CronCalendar(expression, base=calendar, time_zone=zones[number % len(zones)])
    assert calendar is not None
    return calendar


EXCLUDED_DAILY = ["EXRULE:FREQ=DAILY"] * 490
NEVER = "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"
SCHEDULES: dict[str, tuple[Callable[[], Trigger], BaseCalendar | None]] = {
    "each second excluded": (lambda: rule("RRULE:FREQ=YEARLY", "EXRULE:FREQ=SECONDLY"), None),
    "itself excluded": (lambda: rule("RRULE:FREQ=SECONDLY", "EXRULE:FREQ=SECONDLY"), None),
    "times of days excluded": (
        lambda: rule(f"RRULE:FREQ=DAILY;{ALL_TIMES}", f"EXRULE:FREQ=DAILY;{ALL_TIMES}"),
        None,
    ),
    "the last second of each minute": (
        lambda: rule(f"RRULE:FREQ=MINUTELY;BYSETPOS=-1;{ALL_SECONDS}", "EXRULE:FREQ=SECONDLY;BYSECOND=59"),
        None,
    ),
    "business days of hours": (
        lambda: BusinessDayTrigger(nth=-1, at="18:00", calendar="c"),
        CronCalendar("* * 0-7,18-23 ? * *"),
    ),
    "only in the hours of no fire": (lambda: CronTrigger("0 0 2 * * ?"), CronCalendar("* * 0-7,18-23 ? * *")),
    "many excluded rules": (lambda: rule("RRULE:FREQ=YEARLY", *EXCLUDED_DAILY), None),
    "many excluded rules that never match": (lambda: rule("RRULE:FREQ=DAILY", *[f"EXRULE:{NEVER}"] * 490), None),
    "many rules that never match": (lambda: rule(*[f"RRULE:{NEVER}"] * 490), None),
    "counted": (lambda: rule("RRULE:FREQ=SECONDLY;COUNT=100000"), None),
    "counted rules": (lambda: rule(*(f"RRULE:FREQ=DAILY;COUNT=100000;BYHOUR={n}" for n in range(24))), None),
    "all times of a year": (lambda: rule(f"RRULE:FREQ=YEARLY;BYDAY=MO;{ALL_TIMES};BYSETPOS=366"), None),
    "no such position": (lambda: rule("RRULE:FREQ=WEEKLY;BYMONTH=2;BYDAY=MO;BYSETPOS=2"), None),
    "a second of a leap day": (
        lambda: rule("RRULE:FREQ=SECONDLY;INTERVAL=86399;BYMONTH=2;BYMONTHDAY=29;BYDAY=SU;BYHOUR=3"),
        None,
    ),
    "many dates": (
        lambda: rule(
            "RRULE:FREQ=MINUTELY",
            "EXDATE:" + ",".join(f"{NOW + n * timedelta(minutes=1):%Y%m%dT%H%M%S}" for n in range(50_000)),
        ),
        None,
    ),
    "jitter of jitter": (lambda: nested(lambda t: Jitter(trigger=t, up_to="1h"), EVERY_SECOND, 8), None),
    "jitter of a rare trigger": (lambda: nested(lambda t: Jitter(trigger=t, up_to="366d"), LEAP_DAY, 8), None),
    "none agree": (
        lambda: nested(lambda t: AllOf(triggers=[t, CronTrigger("1 * * * * ?")], threshold=0), LEAP_DAY, 8),
        None,
    ),
    "hardly any agree": (
        lambda: nested(
            lambda t: AllOf(triggers=[t, rule("RRULE:FREQ=SECONDLY;INTERVAL=7")], threshold=0),
            rule("RRULE:FREQ=SECONDLY;INTERVAL=11", "EXRULE:FREQ=SECONDLY;INTERVAL=77"),
            4,
        ),
        None,
    ),
    "wide": (lambda: nested(lambda t: AnyOf(triggers=[t, t, t]), LEAP_DAY, 6), None),
    "rolled jitter": (
        lambda: Rolled(
            trigger=nested(lambda t: Jitter(trigger=t, up_to="1h"), EVERY_SECOND, 4),
            roll="nearest",
            offset=1_000,
            calendar="c",
        ),
        WeeklyCalendar(),
    ),
    "rolled between hours": (
        lambda: Rolled(trigger=EVERY_SECOND, roll="preceding", calendar="c"),
        WeeklyCalendar(base=CronCalendar("* * 0-22 * * ?")),
    ),
    "hardly any business day": (
        lambda: Rolled(trigger=CronTrigger("0 0 0 29 2 ? 2196"), offset=1_000, calendar="c"),
        AnnualCalendar(excluded_days=[(m, d) for m in range(1, 13) for d in range(1, 29)]),
    ),
    "a number that no week has": (
        lambda: BusinessDayTrigger(nth=366, at="18:00", period="week", calendar="c"),
        CronCalendar("* * 1-23 * * ?"),
    ),
    "a chain of hours": (lambda: EVERY_SECOND, chain(*(f"* * {n % 24} * * ?" for n in range(32)))),
    "a chain in zones": (
        lambda: EVERY_SECOND,
        chain(*["0-58 * * * * ?"] * 32, zones=("Europe/Berlin", "Asia/Kathmandu", "Africa/Casablanca")),
    ),
    "halves of minutes": (lambda: EVERY_SECOND, chain("0-29 * * * * ?", "30-59 * * * * ?")),
    "halves of minutes, by the millisecond": (
        lambda: SimpleTrigger(interval="1ms", repeat_count=None),
        chain("0-29 * * * * ?", "30-59 * * * * ?"),
    ),
    "everything but an hour of no day": (
        lambda: EVERY_SECOND,
        DailyCalendar(time(2), time(3), invert=True, base=CronCalendar("* * 2 * * ?")),
    ),
    "centuries of holidays": (
        lambda: CronTrigger("0 0 0 * * ?"),
        HolidayCalendar([date(2026, 11, 28) + timedelta(n) for n in range(100_000)]),
    ),
    "an impossible cron day": (lambda: CronTrigger("0 0 0 29 2 ? 2199"), None),
    "the last year": (lambda: CronTrigger("59 59 23 31 12 ? 2199"), None),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_first_fire_times_are_found_or_refused_in_a_bounded_number_of_steps(
    name: str, pytestconfig: pytest.Config
) -> None:
    make, calendar = SCHEDULES[name]
    share = 1 if is_long(pytestconfig) else SHARE
    trigger = make()
    began = stopwatch.process_time()
    with Budget(MAX_STEPS // share) as budget, suppress(TriggerNeverFiresError, ScheduleTooCostlyError):
        assert prepare(trigger, NOW, calendar).progress.next_fire_time is not None
    assert stopwatch.process_time() - began < SECONDS_OF_WORK / share
    # The last charge may exceed what was left.
    assert budget.spent <= (1 / share + 0.1) * MAX_STEPS


def test_a_rule_is_followed_although_everything_but_little_is_excluded() -> None:
    trigger = rule("RRULE:FREQ=MONTHLY", "EXRULE:FREQ=SECONDLY;BYMONTH=1,2,3,4,5,6,7,8,9,10,11")
    assert [at.month for at in trigger.upcoming(3, NOW)] == [12, 12, 12]


def test_a_search_opens_a_budget_of_its_own_and_a_nested_one_shares_it(monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = rule("RRULE:FREQ=YEARLY", *EXCLUDED_DAILY).anchored(NOW)
    with pytest.raises(ScheduleTooCostlyError, match=r"not found within 1,000,000 steps"):
        trigger.next_after(NOW)
    monkeypatch.setattr(Budget.__init__, "__defaults__", (MAX_STEPS // SHARE,))
    for search in (lambda: trigger.next_after(NOW), lambda: trigger.upcoming(1, NOW), lambda: trigger.started(None)):
        with pytest.raises(ScheduleTooCostlyError, match=r"not found within 100,000 steps"):
            search()
    with Budget(10) as outer, Budget() as inner:
        assert inner is outer
        with pytest.raises(ScheduleTooCostlyError, match="10 steps"):
            spend(11)
    spend(1)


def test_a_misfire_counts_no_more_than_it_records() -> None:
    """By the second, after a year's outage, with all fires of a month to catch up on."""
    trigger = CronTrigger("* * * * * ?", start_time=NOW, misfire="fire_all", catch_up_within="30d")
    misfire = misfired(trigger, TriggerProgress(NOW), None, now=NOW + timedelta(days=365))
    assert misfire.caught_up == 100_000
    assert misfire.to.progress.next_fire_time == NOW + timedelta(days=335)


def ics(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VCALENDAR", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR", ""])


@pytest.mark.parametrize(
    ("lines", "year", "answer"),
    [
        (["DTSTART:20260101", "RRULE:FREQ=YEARLY", "EXRULE:FREQ=SECONDLY"], 2026, {date(2026, 1, 1)}),
        (["DTSTART:20260101", "RRULE:FREQ=YEARLY", *EXCLUDED_DAILY], 2026, "line 2: .*too costly"),
        (["DTSTART:20260101", *[f"RRULE:{NEVER}"] * 490], 2026, "line 2: .*too costly"),
        (
            ["DTSTART:20260101", "RRULE:FREQ=SECONDLY", "EXRULE:FREQ=YEARLY", "DURATION:P99999W"],
            2026,
            "line 2: .*too costly",
        ),
        (["DTSTART:20260101T000000", "RDATE:" + ",".join(["20260101T000001"] * 200_000)], 2026, "line 2: .*too costly"),
        (
            ["DTSTART:20260101T000000", *["EXDATE:" + ",".join(["20260101T000001"] * 40_000)] * 5],
            2026,
            "line 2: .*too costly",
        ),
        (["DTSTART:20260101T000000", "RRULE:FREQ=MINUTELY;BYSETPOS=-1;" + ALL_SECONDS], 2026, "line 2: .*"),
        (["DTSTART:20260101T000000Z", "DTEND:99901231T000000Z", "RRULE:FREQ=YEARLY"], 9998, "line 2: .*year 9999"),
        (["DTSTART:99900101T000000Z", "DURATION:P99999W", "RRULE:FREQ=YEARLY"], 9990, "line 2: .*year 9999"),
        (["DTSTART:99900101", "DURATION:P99999W"], 9990, "line 2: .*year 9999"),
    ],
)
def test_a_file_of_events_is_read_or_refused_in_words(lines: list[str], year: int, answer: object) -> None:
    began = stopwatch.process_time()
    if isinstance(answer, str):
        with pytest.raises(InvalidCalendarError, match=answer):
            calendar_from_ics(ics(*lines), years=year)
    else:
        excluded = calendar_from_ics(ics(*lines), years=year).excluded_dates
        assert answer in (excluded, len(excluded))
    assert stopwatch.process_time() - began < SECONDS_OF_WORK


ENDS_OF_TIME = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]


@pytest.mark.parametrize("name", ["counted", "wide", "a chain in zones", "jitter of a rare trigger", "none agree"])
@pytest.mark.parametrize("instant", ENDS_OF_TIME)
def test_the_ends_of_time_are_no_foreign_errors(instant: datetime, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget.__init__, "__defaults__", (MAX_STEPS // SHARE,))
    make, calendar = SCHEDULES[name]
    for ask in (
        lambda: make().anchored(NOW).upcoming(3, instant, calendar),
        lambda: make().anchored(NOW).next_after(instant),
        lambda: prepare(make(), instant, calendar),
    ):
        with suppress(QuartzpyError):
            ask()
