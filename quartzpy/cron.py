"""Builders of cron triggers for the schedules that are wanted most: `cron.daily_at(2, 30, time_zone="Europe/Berlin")`.

    from quartzpy import cron

    scheduler.schedule_job(report, cron.weekdays_at(9))

Each builder returns a CronTrigger. Beside the values named here it accepts all that a CronTrigger accepts by keyword:
`name`, `group`, `time_zone`, `dst`, `start_time`, `end_time`, `calendar`, `misfire`, ... Each raises InvalidCronError
for a value outside its range.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Unpack

from quartzpy.calendars.days import DayOfWeek
from quartzpy.cron_expressions.fields import (
    DAY_OF_MONTH,
    HOURS,
    MINUTES,
    MONTH,
    MONTH_NAMES,
    SECONDS,
    WEEKDAY_NAMES,
    FieldKind,
)
from quartzpy.errors import InvalidCronError
from quartzpy.name_hints import BuilderModule
from quartzpy.texts import quoted
from quartzpy.triggers.cron import CronOptions, CronTrigger

__all__ = [
    "daily_at",
    "every_hours",
    "every_minutes",
    "every_seconds",
    "hourly",
    "last_day_of_month_at",
    "last_weekday_of_month_at",
    "monthly_on",
    "monthly_on_nth",
    "weekdays_at",
    "weekends_at",
    "weekly_on",
    "yearly_on",
]

_LAST = -1


def every_seconds(seconds: int, **options: Unpack[CronOptions]) -> CronTrigger:
    """A trigger that fires at this interval, counted from the full minute; 60 must be a multiple of `seconds`."""
    return _built(f"{_step(seconds, SECONDS, 'seconds')} * * * * ?", options)


def every_minutes(minutes: int, **options: Unpack[CronOptions]) -> CronTrigger:
    """A trigger that fires at this interval, counted from the full hour; 60 must be a multiple of `minutes`."""
    return _built(f"0 {_step(minutes, MINUTES, 'minutes')} * * * ?", options)


def every_hours(hours: int, minute: int = 0, **options: Unpack[CronOptions]) -> CronTrigger:
    """A trigger that fires at this interval, counted from midnight; 24 must be a multiple of `hours`."""
    return _built(f"0 {_number(minute, MINUTES, 'minute')} {_step(hours, HOURS, 'hours')} * * ?", options)


def hourly(minute: int = 0, second: int = 0, **options: Unpack[CronOptions]) -> CronTrigger:
    """A trigger that fires once an hour, at this minute."""
    return _built(f"{_number(second, SECONDS, 'second')} {_number(minute, MINUTES, 'minute')} * * * ?", options)


def daily_at(hour: int, minute: int = 0, second: int = 0, **options: Unpack[CronOptions]) -> CronTrigger:
    """A trigger that fires every day at this time."""
    return _built(f"{_time(hour, minute, second)} * * ?", options)


def weekdays_at(hour: int, minute: int = 0, second: int = 0, **options: Unpack[CronOptions]) -> CronTrigger:
    """A trigger that fires from Monday to Friday at this time."""
    return _built(f"{_time(hour, minute, second)} ? * MON-FRI", options)


def weekends_at(hour: int, minute: int = 0, second: int = 0, **options: Unpack[CronOptions]) -> CronTrigger:
    """A trigger that fires on Saturday and Sunday at this time."""
    return _built(f"{_time(hour, minute, second)} ? * SAT,SUN", options)


def weekly_on(
    days: str | DayOfWeek | Iterable[str | DayOfWeek],
    hour: int,
    minute: int = 0,
    second: int = 0,
    **options: Unpack[CronOptions],
) -> CronTrigger:
    """A trigger that fires at this time on one day of the week or several: "MON", "monday", DayOfWeek.MONDAY.

    Numbers are refused, because cron dialects disagree on which day they mean.
    """
    several = [days] if isinstance(days, str | DayOfWeek) or not isinstance(days, Iterable) else list(days)
    if not several:
        raise InvalidCronError("days: at least one day of the week is needed", expression="", allowed="SUN-SAT")
    named = ",".join(_weekday(day) for day in several)
    return _built(f"{_time(hour, minute, second)} ? * {named}", options)


def monthly_on(day: int, hour: int, minute: int = 0, second: int = 0, **options: Unpack[CronOptions]) -> CronTrigger:
    """A trigger that fires at this time on this day of every month; months that lack the day are left out.

    Days from -1 down are counted from the end of the month: -1 is the last day, -2 the one before it.
    """
    if type(day) is int and -DAY_OF_MONTH.high <= day <= _LAST:
        text = "L" if day == _LAST else f"L-{_LAST - day}"
    else:
        text = _number(day, DAY_OF_MONTH, "day", or_else=" or -31 to -1 from the end of the month")
    return _built(f"{_time(hour, minute, second)} {text} * ?", options)


def monthly_on_nth(
    nth: int, day: str | DayOfWeek, hour: int, minute: int = 0, second: int = 0, **options: Unpack[CronOptions]
) -> CronTrigger:
    """A trigger that fires at this time on the `nth` such weekday of every month; -1 is the last one.

    If `nth` is 5, months without a fifth one are left out.
    """
    if type(nth) is not int or not (nth == _LAST or 1 <= nth <= 5):
        raise InvalidCronError(
            f"nth: must be 1-5, or -1 for the last one (got {quoted(nth)})", expression="", allowed="1-5"
        )
    chosen = f"{_weekday(day)}L" if nth == _LAST else f"{_weekday(day)}#{nth}"
    return _built(f"{_time(hour, minute, second)} ? * {chosen}", options)


def last_day_of_month_at(hour: int, minute: int = 0, second: int = 0, **options: Unpack[CronOptions]) -> CronTrigger:
    """A trigger that fires at this time on the last day of every month."""
    return monthly_on(_LAST, hour, minute, second, **options)


def last_weekday_of_month_at(
    hour: int, minute: int = 0, second: int = 0, **options: Unpack[CronOptions]
) -> CronTrigger:
    """A trigger that fires at this time on the last Monday to Friday of every month."""
    return _built(f"{_time(hour, minute, second)} LW * ?", options)


def yearly_on(
    month: int | str, day: int, hour: int, minute: int = 0, second: int = 0, **options: Unpack[CronOptions]
) -> CronTrigger:
    """A trigger that fires once a year, on this day of this month (1-12 or "JAN"-"DEC"), at this time."""
    if isinstance(month, str) and month.upper()[:3] in MONTH_NAMES:
        month = MONTH_NAMES.index(month.upper()[:3]) + 1
    chosen = _number(month, MONTH, "month", or_else=" or JAN-DEC")
    return _built(f"{_time(hour, minute, second)} {_number(day, DAY_OF_MONTH, 'day')} {chosen} ?", options)


def _built(expression: str, options: CronOptions) -> CronTrigger:
    return CronTrigger(expression, **options)


def _time(hour: int, minute: int, second: int) -> str:
    seconds, minutes = _number(second, SECONDS, "second"), _number(minute, MINUTES, "minute")
    return f"{seconds} {minutes} {_number(hour, HOURS, 'hour')}"


def _number(value: object, kind: FieldKind, subject: str, *, or_else: str = "") -> str:
    if type(value) is not int or not kind.low <= value <= kind.high:
        allowed = f"{kind.low}-{kind.high}{or_else}"
        raise InvalidCronError(f"{subject}: must be {allowed} (got {quoted(value)})", expression="", allowed=allowed)
    return str(value)


def _step(value: object, kind: FieldKind, unit: str) -> str:
    if type(value) is int and 1 <= value < kind.size and kind.size % value == 0:
        return f"0/{value}"
    allowed = ", ".join(str(n) for n in range(1, kind.size) if kind.size % n == 0)
    raise InvalidCronError(
        f"{unit}: must divide {kind.size}, so one of {allowed} (got {quoted(value)});"
        f" every({unit}=...) takes any interval",
        expression="",
        allowed=allowed,
    )


def _weekday(day: object) -> str:
    if isinstance(day, DayOfWeek):
        return WEEKDAY_NAMES[day - 1]
    if isinstance(day, str):
        name = day.strip().upper()
        for member in DayOfWeek:
            if name in (member.name, member.name[:3]):
                return member.name[:3]
    raise InvalidCronError(
        f"day: must be a name such as 'MON' or 'Monday', or a DayOfWeek (got {quoted(day)})",
        expression="",
        allowed="SUN-SAT",
    )


sys.modules[__name__].__class__ = BuilderModule
