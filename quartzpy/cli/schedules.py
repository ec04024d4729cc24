"""Short texts for the schedules of triggers, for a column of a table."""

from __future__ import annotations

from datetime import timedelta

from quartzpy.calendars.weekly import EVERY_DAY
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger
from quartzpy.triggers.combined import AllOf, AnyOf, Jitter
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.recurrence import RecurrenceTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

_UNITS = (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)), ("s", timedelta(seconds=1)))


def schedule_text(trigger: Trigger) -> str:
    """Return the schedule of a trigger in a few words, or the name of its kind if that is unknown."""
    match trigger:
        case CronTrigger():
            return trigger.expression
        case SimpleTrigger():
            return _simple(trigger)
        case CalendarIntervalTrigger():
            return _every(trigger.interval, trigger.unit)
        case DailyTimeIntervalTrigger():
            days = "" if trigger.days_of_week == EVERY_DAY else ", some days"
            hours = f"{trigger.start_time_of_day:%H:%M}-{trigger.end_time_of_day:%H:%M}"
            return f"{_every(trigger.interval, trigger.unit)}, {hours}{days}"
        case RecurrenceTrigger():
            return " ".join(trigger.rule.split())
        case AnyOf() | AllOf():
            word = " or " if isinstance(trigger, AnyOf) else " and "
            return word.join(schedule_text(part) for part in trigger.triggers)
        case Jitter():
            return f"{schedule_text(trigger.trigger)} (up to {short(trigger.up_to)} later)"
    return trigger.kind


def zone_text(trigger: Trigger) -> str | None:
    """Return the time zone of a schedule, or None if the schedule does not depend on a zone."""
    zone = getattr(trigger, "time_zone", None)
    if isinstance(zone, str):
        return zone
    parts = [*getattr(trigger, "triggers", ()), *([trigger.trigger] if isinstance(trigger, Jitter) else [])]
    zones = dict.fromkeys(found for part in parts if (found := zone_text(part)) is not None)
    return ", ".join(zones) or None


def _simple(trigger: SimpleTrigger) -> str:
    if not trigger.interval or trigger.repeat_count == 0:
        return "once"
    times = "" if trigger.repeat_count is None else f", {trigger.repeat_count + 1} times"
    return f"every {short(trigger.interval)}{times}"


def _every(interval: int, unit: str) -> str:
    return f"every {unit}" if interval == 1 else f"every {interval} {unit}s"


def short(span: timedelta) -> str:
    """Format a span in the syntax of the settings: 90 seconds are "1m30s"."""
    rest, parts = abs(span), []
    for letter, unit in _UNITS[:-1]:
        count, rest = divmod(rest, unit)
        if count:
            parts.append(f"{count}{letter}")
    if rest or not parts:
        parts.append(f"{rest.total_seconds():g}s")
    return ("-" if span < timedelta() else "") + "".join(parts)
