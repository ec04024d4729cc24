"""Values for the fuzzers: job data drawn by chance, triggers and calendars of every kind."""

from __future__ import annotations

import dataclasses
import enum
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

from quartzpy import Job, JobExecutionContext
from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.days import AnnualCalendar, HolidayCalendar, MonthlyCalendar, WeeklyCalendar
from quartzpy.calendars.times import CronCalendar, DailyCalendar
from quartzpy.jobs.job import JobTypes
from quartzpy.triggers.business_days import BusinessDayTrigger, Rolled
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger, IntervalUnit
from quartzpy.triggers.combined import AllOf, AnyOf, Jitter
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.recurrence import RecurrenceTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger
from tests.fuzz.mutation import ODD_CHARACTERS

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    at: Any = None


class Known(Job, type_name="known-to-the-fuzzer"):
    def execute(self, context: JobExecutionContext) -> None: ...


class OneType(JobTypes):
    """Knows one type, by every name, and imports nothing: file names that are made by chance lead nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.register(Known, "known")

    def load(self, name: str, allowed_modules: tuple[str, ...]) -> bool:
        return name == "known"


def triggers() -> list[Trigger]:
    cron = CronTrigger("0 0 12 * * ?", "t", start_time=NOW)
    return [
        cron,
        CronTrigger.from_crontab("*/5 * * * *", "t", start_time=NOW, time_zone="Europe/Berlin"),
        SimpleTrigger("t", start_time=NOW, interval=timedelta(seconds=5), repeat_count=7),
        CalendarIntervalTrigger("t", start_time=NOW, interval=2, unit=IntervalUnit.MONTH, time_zone="Asia/Tokyo"),
        DailyTimeIntervalTrigger("t", start_time=NOW, interval=90, unit=IntervalUnit.MINUTE, end_time_of_day=time(17)),
        RecurrenceTrigger("t", start_time=NOW, rule="FREQ=MONTHLY;BYDAY=-1FR"),
        AnyOf("t", start_time=NOW, triggers=(CronTrigger("0 0 12 * * ?"), CronTrigger("0 30 9 ? * MON"))),
        AllOf("t", start_time=NOW, triggers=(CronTrigger("0 0 12 1 * ?"), CronTrigger("0 0 12 ? * MON"))),
        Jitter("t", start_time=NOW, trigger=CronTrigger("0 0 12 * * ?"), up_to=timedelta(minutes=5)),
        Rolled("t", start_time=NOW, trigger=CronTrigger("0 0 12 L * ?"), roll="preceding", offset=-1, calendar="c"),
        BusinessDayTrigger("t", start_time=NOW, nth=(1, -1), at="18:00", calendar="c"),
    ]


def calendars() -> list[BaseCalendar]:
    weekly = WeeklyCalendar(time_zone="Europe/Berlin", description="weekends")
    return [
        weekly,
        AnnualCalendar(frozenset({(1, 1), (12, 25)}), base=weekly),
        MonthlyCalendar(frozenset({1, 31})),
        DailyCalendar(time(8), time(17, 0, 0, 1000), invert=True),
        CronCalendar("* * 0-7,18-23 ? * *"),
        HolidayCalendar(frozenset({date(2026, 1, 1), date(2026, 12, 25)}), base=MonthlyCalendar(base=weekly)),
    ]


def _text(random: Random) -> str:
    kinds = ("plain", "ü", "$x", *ODD_CHARACTERS) if random.random() < 0.15 else ("plain", "ü", "$x", "a", "")
    return "".join(random.choice(kinds) for _ in range(random.randrange(4)))


def _number(random: Random) -> int | float:
    whole = random.choice((0, 1, -1, 2**31, 2**63, 10**18, random.getrandbits(70), -random.getrandbits(300)))
    real = random.choice((0.0, -0.0, 1e22, 1e16, -1e300, 5e-324, 0.1, 1e-7, float(whole), random.random() * 1e17))
    return random.choice((whole, whole, real, real, float("nan")) if random.random() < 0.05 else (whole, real))


def _instant(random: Random) -> datetime:
    base = random.choice(
        (datetime(1, 1, 1), datetime(2026, 10, 25, 2, 30), datetime(9999, 12, 31, 23, 59, 59, 999_999))
    )
    offset = timezone(timedelta(minutes=random.randrange(-1_400, 1_400)))
    return base.replace(tzinfo=random.choice((UTC, offset)), fold=random.randrange(2))


def value(random: Random, depth: int = 0) -> Any:
    """A value that job data may hold, mostly."""
    inner = [lambda: value(random, depth + 1) for _ in range(random.randrange(3 if depth < 34 else 1))]
    makers = (
        lambda: _text(random),
        lambda: _number(random),
        lambda: random.choice((None, True, False)),
        lambda: [one() for one in inner],
        lambda: {_text(random): one() for one in inner},
        lambda: tuple(one() for one in inner),
        lambda: Point(*(one() for one in inner)) if inner else Colour.RED,
        lambda: _instant(random),
        lambda: random.choice(
            (date.min, date.max, time(1, 2, 3, 4), time(5, tzinfo=UTC), timedelta.max, timedelta.min)
        ),
        lambda: random.choice((Decimal("1.50"), Decimal("-0"), Decimal("1E+100"), UUID(int=random.getrandbits(128)))),
        lambda: random.randbytes(random.randrange(9)),
    )
    nested = makers[3:7]
    return random.choice(nested if depth and random.random() < 0.3 else makers)()


def data(random: Random) -> dict[str, Any]:
    found = {f"{_text(random)}{number}": value(random) for number in range(random.randrange(4))}
    if random.random() < 0.02:
        found["odd"] = random.choice((object(), {1, 2}, {3: 4}, 10**5_000, lambda: 1, range(3), "\ud800", b"x" * 2_000))
    return found
