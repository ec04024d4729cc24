"""From a calendar as the recorded cases describe it to one of ours."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, time
from typing import Any

from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.days import WEEKEND, AnnualCalendar, HolidayCalendar, MonthlyCalendar, WeeklyCalendar
from quartzpy.calendars.times import CronCalendar, DailyCalendar


def calendar_from_case(described: Mapping[str, Any] | None) -> BaseCalendar | None:
    """The calendar that a case names; None for none."""
    return None if described is None else _build(described)


def _build(described: Mapping[str, Any]) -> BaseCalendar:
    common = {"time_zone": described["zone"], "base": calendar_from_case(described.get("base"))}
    match described["type"]:
        case "annual":
            return AnnualCalendar(frozenset((month, day) for month, day in described["excluded_days"]), **common)
        case "cron":
            return CronCalendar(described["expr"], **common)
        case "daily":
            start, end = _time_of_day(described["start"]), _time_of_day(described["end"])
            return DailyCalendar(start, end, invert=described["invert"], **common)
        case "holiday":
            dates = frozenset(date.fromisoformat(day) for day in described["excluded_dates"])
            return HolidayCalendar(dates, **common)
        case "monthly":
            return MonthlyCalendar(frozenset(described["excluded_days"]), **common)
        case "weekly":
            return WeeklyCalendar(frozenset(described.get("excluded_days", WEEKEND)), **common)
        case "base":
            return WeeklyCalendar(frozenset(), **common)  # excludes nothing itself
        case unknown:
            raise ValueError(f"calendar type {unknown!r}")


def _time_of_day(text: str) -> time:
    """'HH:MM[:SS[:mmm]]'"""
    hour, minute, *rest = map(int, text.split(":"))
    second, millisecond = (*rest, 0, 0)[:2]
    return time(hour, minute, second, millisecond * 1000)
