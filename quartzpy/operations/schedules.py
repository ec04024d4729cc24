"""The schedules of triggers as text, short or in words, and their fire times by the wall clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from quartzpy.calendars.days import EVERY_DAY, DayOfWeek
from quartzpy.errors import InvalidTriggerError
from quartzpy.instants import as_span, zone
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger
from quartzpy.triggers.combined import AllOf, AnyOf, Jitter
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.fixed_delay import FixedDelayTrigger
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
        case FixedDelayTrigger():
            return f"{short(as_span(trigger.delay, 'delay', InvalidTriggerError))} after each end"
        case RecurrenceTrigger():
            return " ".join(trigger.rule.split())
        case AnyOf() | AllOf():
            word = " or " if isinstance(trigger, AnyOf) else " and "
            return word.join(schedule_text(part) for part in trigger.triggers)
        case Jitter():
            return f"{schedule_text(trigger.trigger)} (up to {short(trigger.up_to)} later)"
    return trigger.kind


def in_words(trigger: Trigger) -> str:
    """Return the schedule of a trigger as a phrase for people: "at 02:00, Monday to Friday"."""
    match trigger:
        case CronTrigger():
            return trigger.describe()
        case DailyTimeIntervalTrigger():
            hours = f"from {trigger.start_time_of_day:%H:%M} to {trigger.end_time_of_day:%H:%M}"
            days = "" if trigger.days_of_week == EVERY_DAY else f", on {_days(trigger.days_of_week)}"
            return f"{_every(trigger.interval, trigger.unit)} {hours}{days}"
        case SimpleTrigger():
            if trigger.interval and trigger.repeat_count != 0:
                return _simple(trigger)
            return "once" if trigger.start_time is None else f"once, at {trigger.start_time.isoformat()}"
        case AnyOf():
            return " or ".join(in_words(part) for part in trigger.triggers)
        case AllOf():
            return " and also ".join(in_words(part) for part in trigger.triggers)
        case Jitter():
            return f"{in_words(trigger.trigger)}, up to {short(trigger.up_to)} later"
    return schedule_text(trigger)


def _days(days: frozenset[DayOfWeek]) -> str:
    return ", ".join(day.name.capitalize() for day in sorted(days))


@dataclass(frozen=True, slots=True)
class PlannedTime:
    """A fire time, with its wall-clock time in the zone of its schedule."""

    at: datetime
    local: str
    """The wall-clock time and its offset from UTC: "2026-10-25 02:30:00+01:00"."""
    zone: str
    clock_change: str | None = None
    """A note if the clock of the zone is moved between the fire time before and this one; None otherwise."""


def planned(instants: Sequence[datetime], zone_name: str | None, *, since: datetime | None = None) -> list[PlannedTime]:
    """Return fire times by the wall clock of a zone, each with a note if the clock is moved before it.

    `since` is the instant from which the first one is compared, usually now. Without a zone, the clock is UTC's.
    """
    name = (zone_name or "UTC").partition(",")[0]
    clock = zone(name)
    before = None if since is None else since.astimezone(clock)
    found = []
    for instant in instants:
        local = instant.astimezone(clock)
        note = None
        if before is not None and before.utcoffset() != local.utcoffset():
            note = f"the clock moves from {_offset(before)} to {_offset(local)} before this fire"
        found.append(PlannedTime(instant, local.isoformat(sep=" ", timespec="seconds"), name, note))
        before = local
    return found


def _offset(local: datetime) -> str:
    return str(timezone(local.utcoffset() or timedelta()))


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
