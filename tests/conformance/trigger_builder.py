"""From a trigger as the recorded cases describe it to one of ours."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any

from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import InvalidTriggerError
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger, IntervalUnit
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger
from tests.conformance.calendar_builder import calendar_from_case
from tests.conformance.loading import Case, instant

_INSTRUCTIONS = {"smart_policy": "smart", "ignore_misfire_policy": "ignore"}


def trigger_from_case(kind: str, case: Case, misfire: str = "smart") -> tuple[Trigger, Calendar | None]:
    """The trigger of a case, and the calendar that it goes by."""
    common: dict[str, Any] = {
        "start_time": instant(case["start"]),
        "end_time": instant(case["end"]),
        "misfire": misfire,
    }
    return _build(kind.removesuffix("_trigger"), case, common), calendar_from_case(case.get("calendar"))


def _build(kind: str, case: Case, common: dict[str, Any]) -> Trigger:
    match kind:
        case "simple":
            return SimpleTrigger(
                repeat_count=_count(case["repeat_count"]),
                interval=timedelta(milliseconds=case["repeat_interval_ms"]),
                **common,
            )
        case "calendar_interval":
            return CalendarIntervalTrigger(
                interval=case["interval"],
                unit=IntervalUnit(case["unit"].lower()),
                time_zone=case["zone"],
                preserve_hour_of_day=case["preserve_hour_of_day"],
                skip_day_if_hour_does_not_exist=case["skip_day_if_hour_does_not_exist"],
                **common,
            )
        case "daily_time_interval":
            return DailyTimeIntervalTrigger(
                dst="quartz",
                interval=case["interval"],
                unit=IntervalUnit(case["unit"].lower()),
                repeat_count=_count(case["repeat_count"]),
                start_time_of_day=_time(case["start_time_of_day"], time(0, 0, 0)),
                end_time_of_day=_time(case["end_time_of_day"], time(23, 59, 59)),
                days_of_week=frozenset(case["days_of_week"]),
                time_zone=case["zone"],
                **common,
            )
        case "cron":
            return CronTrigger(case["expr"], time_zone=case["zone"], dst="quartz", **common)
        case unknown:
            raise ValueError(f"trigger kind {unknown!r}")


def _count(recorded: int) -> int | None:
    return None if recorded == -1 else recorded


def _time(recorded: list[int] | None, default: time) -> time:
    """A time of day. Python's own type refuses one that there is none, as Quartz's does."""
    try:
        return time(*recorded) if recorded else default
    except ValueError as error:
        raise InvalidTriggerError(str(error)) from error


def misfire_of(instruction: str) -> str:
    """Our name of a misfire instruction."""
    name = instruction.removeprefix("MISFIRE_INSTRUCTION_").lower()
    return _INSTRUCTIONS.get(name, name)
