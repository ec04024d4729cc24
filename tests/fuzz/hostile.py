"""Schedules that are valid and cost much: rules that exclude or never match, sparse crons, chains of calendars."""

from __future__ import annotations

from datetime import date, time, timedelta
from random import Random

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.days import AnnualCalendar, HolidayCalendar, WeeklyCalendar
from quartzpy.calendars.times import CronCalendar, DailyCalendar

_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
_PARTS = {
    "BYMONTH": ("2", "1,2,3,4,5,6,7,8,9,10,11"),
    "BYMONTHDAY": ("29", "30", "31", "-31"),
    "BYDAY": ("MO", "MO,TU,WE,TH,FR,SA,SU"),
    "BYYEARDAY": ("366", "-366", "1,100,200"),
    "BYHOUR": ("2", ",".join(map(str, range(24)))),
    "BYMINUTE": ("30", ",".join(map(str, range(60)))),
    "BYSECOND": ("0", ",".join(map(str, range(60)))),
    "BYSETPOS": ("1", "-1", "366"),
    "COUNT": ("1", "100000"),
    "INTERVAL": ("1", "7", "86399", "2147483647"),
}
_CRONS = (
    "* * * * * ?", "0 0 0 29 2 ?", "0 0 0 ? * MON#5", "59 59 23 31 12 ? 2199", "0/7 * * * * ?", "0 0 0 L-30 2 ?",
    "0 0 12 ? * SUNL", "0 0 2 31 1,3,5,7,8,10,12 ?",
)  # fmt: skip
_ZONES = ("UTC", "Europe/Berlin", "Africa/Casablanca", "Pacific/Apia", "Australia/Lord_Howe")


def _line(random: Random, name: str) -> str:
    parts = [f"FREQ={random.choice(_FREQUENCIES)}"]
    chosen = random.sample(sorted(_PARTS), random.randrange(4))
    parts += [f"{part}={random.choice(_PARTS[part])}" for part in chosen]
    return f"{name}:{';'.join(parts)}"


def rule(random: Random) -> str:
    """Return the lines of a recurrence rule; empty for none."""
    if random.random() < 0.3:
        return ""
    many = random.choice((1, 1, 1, 3, 490))
    included, excluded = _line(random, "RRULE"), _line(random, "EXRULE")
    others = [_line(random, "EXRULE") for _ in range(random.randrange(3))]
    return "\n".join([*[included] * random.choice((1, 1, 2, many)), *[excluded] * random.choice((0, 1, many)), *others])


def cron(random: Random) -> str:
    return random.choice(_CRONS)


def calendar(random: Random) -> BaseCalendar:
    """Return a chain of one to 32 calendars."""
    made: BaseCalendar | None = None
    for number in range(random.choice((1, 1, 2, 3, 32))):
        zone = random.choice(_ZONES)
        match random.randrange(6):
            case 0:
                made = CronCalendar(random.choice(("* * * * * ?", "0-29 * * * * ?", "30-59 * * * * ?")), base=made)
            case 1:
                made = CronCalendar(f"* * {number % 24} * * ?", base=made, time_zone=zone)
            case 2:
                made = DailyCalendar(time(2), time(2, 0, 1), invert=random.random() < 0.5, base=made, time_zone=zone)
            case 3:
                made = WeeklyCalendar(random.sample(range(1, 8), random.randrange(8)), base=made, time_zone=zone)
            case 4:
                days = [(month, day) for month in range(1, 13) for day in range(1, 29)]
                made = AnnualCalendar(random.sample(days, random.choice((1, 300, len(days)))), base=made)
            case _:
                first = date(2026, 1, 1)
                dates = [first + timedelta(days=n) for n in range(random.choice((10, 20_000)))]
                made = HolidayCalendar(dates, base=made, time_zone=zone)
    assert made is not None
    return made
