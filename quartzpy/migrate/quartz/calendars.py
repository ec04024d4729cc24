"""Calendars that Quartz stored as Java serialization."""

from __future__ import annotations

from collections.abc import Callable
from datetime import time
from typing import Any

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.days import AnnualCalendar, HolidayCalendar, MonthlyCalendar, WeeklyCalendar
from quartzpy.calendars.times import CronCalendar, DailyCalendar
from quartzpy.instants import zone
from quartzpy.migrate import java
from quartzpy.migrate.class_map import Undecided
from quartzpy.migrate.java import UnreadableError, as_python, class_name, fields_of

_PACKAGE = "org.quartz.impl.calendar."
NO_ZONE = "it has no time zone of its own; pass the zone of its Java programs as --java-time-zone"
# The positions of the month and of the day in the fields of a java.util.Calendar.
_MONTH, _DAY = 2, 5


def read_calendar(data: bytes, java_zone: str | None) -> BaseCalendar:
    """Return the calendar of a row of `calendars`.

    `java_zone` is the default time zone of the Java programs, for calendars without a zone of their own.

    Raises:
        UnreadableError: the calendar is of a class that Quartz does not have, or cannot be read.
        Undecided: the calendar has no zone, and `java_zone` is None.
    """
    return _calendar(java.read_object(data), java_zone)


def _calendar(java_object: Any, java_zone: str | None) -> BaseCalendar:
    name, parts = class_name(java_object), fields_of(java_object)
    base = None if parts.get("baseCalendar") is None else _calendar(parts["baseCalendar"], java_zone)
    description = parts.get("description")
    common: dict[str, Any] = {"base": base, "description": None if description is None else str(description)}
    if name == _PACKAGE + "BaseCalendar":
        # It excludes nothing.
        return HolidayCalendar(time_zone=_zone(parts, java_zone or "UTC"), **common)
    if name == _PACKAGE + "CronCalendar":
        expression = fields_of(parts["cronExpression"])
        return CronCalendar(
            expression=str(expression["cronExpression"]), time_zone=_zone(expression, java_zone), **common
        )
    if not name.startswith(_PACKAGE) or name.removeprefix(_PACKAGE) not in _KINDS:
        raise UnreadableError(f"it is of the Java class {name}, which is not one of Quartz's calendars")
    return _KINDS[name.removeprefix(_PACKAGE)](parts, time_zone=_zone(parts, java_zone), **common)


def _zone(parts: dict[str, Any], java_zone: str | None) -> str:
    own_zone = parts.get("timeZone")
    if own_zone is not None:
        return java.zone_name(str(fields_of(own_zone)["ID"]))
    if java_zone is None:
        raise Undecided(NO_ZONE)
    return java_zone


def _holiday(parts: dict[str, Any], time_zone: str, **common: Any) -> BaseCalendar:
    days = (as_python(date).astimezone(zone(time_zone)).date() for date in parts["dates"] if _is_date(date))
    return HolidayCalendar(excluded_dates=frozenset(days), time_zone=time_zone, **common)


def _is_date(java_object: object) -> bool:
    return class_name(java_object) == "java.util.Date"


def _annual(parts: dict[str, Any], **common: Any) -> BaseCalendar:
    days = [fields_of(java_calendar)["fields"] for java_calendar in parts["excludeDays"]]
    return AnnualCalendar(excluded_days=frozenset((day[_MONTH] + 1, day[_DAY]) for day in days), **common)


def _weekly(parts: dict[str, Any], **common: Any) -> BaseCalendar:
    # The array is indexed by java.util.Calendar's days, in which Sunday is 1.
    return WeeklyCalendar(excluded_days=frozenset(day for day in range(1, 8) if parts["excludeDays"][day]), **common)


def _monthly(parts: dict[str, Any], **common: Any) -> BaseCalendar:
    days = frozenset(day for day, excluded in enumerate(parts["excludeDays"], start=1) if excluded)
    return MonthlyCalendar(excluded_days=days, **common)


def _daily(parts: dict[str, Any], **common: Any) -> BaseCalendar:
    return DailyCalendar(
        start=_time(parts, "Starting"), end=_time(parts, "Ending"), invert=parts["invertTimeRange"], **common
    )


def _time(parts: dict[str, Any], which: str) -> time:
    begin = f"range{which}"
    return time(
        parts[f"{begin}HourOfDay"],
        parts[f"{begin}Minute"],
        parts[f"{begin}Second"],
        parts[f"{begin}Millis"] * 1000,
    )


_KINDS: dict[str, Callable[..., BaseCalendar]] = {
    "HolidayCalendar": _holiday,
    "AnnualCalendar": _annual,
    "WeeklyCalendar": _weekly,
    "MonthlyCalendar": _monthly,
    "DailyCalendar": _daily,
}
