"""The schedules of triggers as texts: short, in words, and as operators write them; and their fire times.

Operators write a cron expression (five fields are crontab's, six or seven are Quartz's, and `@daily` is an alias), an
interval such as "every 15m", or the instant of a single fire, such as "2026-12-24T18:00+01:00".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any

from quartzpy.budget import Budget
from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import InvalidCronError, InvalidTriggerError, InvalidValueError
from quartzpy.instants import zone
from quartzpy.scheduler.coercion import interval_of
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import quoted
from quartzpy.triggers.combined import Combination
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger


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
    times = []
    for instant in instants:
        local = instant.astimezone(clock)
        note = None
        if before is not None and before.utcoffset() != local.utcoffset():
            note = f"the clock moves from {_offset(before)} to {_offset(local)} before this fire"
        times.append(PlannedTime(instant, local.isoformat(sep=" ", timespec="seconds"), name, note))
        before = local
    return times


def _offset(local: datetime) -> str:
    return str(timezone(local.utcoffset() or timedelta()))


def zone_text(trigger: Trigger) -> str | None:
    """Return the time zone of a schedule, or None if the schedule does not depend on a zone."""
    zone = getattr(trigger, "time_zone", None)
    if isinstance(zone, str):
        return zone
    parts = trigger.parts if isinstance(trigger, Combination) else ()
    zones = dict.fromkeys(name for part in parts if (name := zone_text(part)) is not None)
    return ", ".join(zones) or None


NEXT_TIMES = 10
_CRON_FIELDS = range(5, 8)
_COMMON_VALUES = frozenset(field.name for field in fields(Trigger)) - {
    "start_time",
    "misfire",
    "catch_up_max",
    "catch_up_within",
}
"""The values that a trigger keeps when it gets another kind of schedule."""
_SAME_WORDS = ("smart", "ignore", "fire_all")
"""The misfire instructions that all kinds of triggers have."""


@dataclass(frozen=True, slots=True)
class SchedulePreview:
    """A schedule as an operator wrote it: its meaning and its next fire times, or the error."""

    text: str
    words: str | None
    """The schedule in words."""
    next_times: tuple[PlannedTime, ...]
    error: str | None = None
    position: int | None = None
    """The place of the error in the text, counted from 0; None if the error is not at one place."""


def preview(
    text: str,
    zone_name: str | None,
    now: datetime,
    *,
    record: TriggerRecord | None = None,
    calendar: Calendar | None = None,
) -> SchedulePreview:
    """Return the meaning and the next fire times of a schedule, or the error. With `record`, of that edited trigger."""
    try:
        trigger = edited(record, text, zone_name, now) if record is not None else parsed(text, zone_name)
        trigger = trigger.anchored(now)
        with Budget():
            times = list(islice(trigger.fire_times(now, None, calendar), NEXT_TIMES))
        words = trigger.words
    except InvalidCronError as error:
        # The position counts from the first field, and the text may begin with blanks.
        blanks = len(text) - len(text.lstrip()) if error.expression == text.strip() else 0
        return SchedulePreview(text, None, (), str(error), error.position + blanks)
    except InvalidValueError as error:
        return SchedulePreview(text, None, (), str(error))
    if not times:
        return SchedulePreview(text, words, (), f"the schedule has no fire time after {now.isoformat()}")
    local = planned(times, zone_text(trigger) or zone_name, since=now)
    return SchedulePreview(text, words, tuple(local))


def parsed(text: object, zone_name: str | None) -> Trigger:
    """Return a trigger without a name for a schedule; `zone_name` is for cron expressions and instants without a zone.

    Raises:
        InvalidCronError: it is a cron expression with an error.
        InvalidTriggerError: it is no schedule.
        UnknownTimeZoneError: there is no such zone.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidTriggerError(f"schedule: {_FORMS} is needed (got {quoted(text)})")
    if zone_name is not None:
        zone(zone_name)
    written = text.strip()
    span = interval_of(written)
    if span is not None:
        return SimpleTrigger(interval=span)
    instant = _instant(written, zone_name)
    if instant is not None:
        return SimpleTrigger(start_time=instant)
    count = len(written.split())
    if not written.startswith("@") and count not in _CRON_FIELDS:
        raise InvalidTriggerError(f"schedule: {_FORMS} is needed (got {quoted(written)}, which has {count} fields)")
    return CronTrigger(written, time_zone=zone_name or "UTC")


_FORMS = (
    "a cron expression of five fields (crontab) or of six or seven (Quartz), an interval such as 'every 15m', or an"
    " instant such as '2026-12-24T18:00+01:00'"
)


def _instant(written: str, zone_name: str | None) -> datetime | None:
    try:
        instant = datetime.fromisoformat(written)
    except ValueError:
        return None
    if instant.tzinfo is None:
        if zone_name is None:
            raise InvalidTriggerError(
                f"schedule: an instant needs a time zone, as {written}+00:00 has, or the zone of the schedule"
            )
        instant = instant.replace(tzinfo=zone(zone_name))
    return instant


def edited(record: TriggerRecord, text: str, zone_name: str | None, now: datetime) -> Trigger:
    """Return a stored trigger with another schedule. Everything else stays: its data, priority, calendar, end, ...

    Without `zone_name` a cron expression keeps the zone of the trigger. An interval is counted from the last fire, so
    that an edit alone never fires the trigger.

    Raises:
        As `parsed`.
    """
    old = record.trigger
    new = parsed(text, zone_name or zone_text(old))
    start = old.start_time if old.start_time is not None and old.start_time > now else None
    if isinstance(new, SimpleTrigger):
        start = new.start_time or start
        if start is None:
            last = record.previous_fire_time
            start = now + new.interval if last is None else max(now, last + new.interval)
    if isinstance(new, CronTrigger) and isinstance(old, CronTrigger):
        same = new.dialect == old.dialect
        return replace(
            old,
            expression=new.expression,
            dialect=new.dialect,
            time_zone=new.time_zone,
            day_or=old.day_or if same else None,
            start_time=start,
        )
    if isinstance(new, SimpleTrigger) and isinstance(old, SimpleTrigger):
        count = old.repeat_count if old.interval and new.interval else new.repeat_count
        return replace(old, interval=new.interval, repeat_count=count, start_time=start, rescheduled_from=None)
    values: dict[str, Any] = {name: getattr(old, name) for name in _COMMON_VALUES}
    return replace(new, **values, **_misfire(old, new), start_time=start)


def _misfire(old: Trigger, new: Trigger) -> dict[str, Any]:
    """Return the misfire handling of `old` in the words of `new`."""
    word = str(old.misfire)
    bounds = {"catch_up_max": old.catch_up_max, "catch_up_within": old.catch_up_within}
    if word in _SAME_WORDS:
        return {"misfire": word, **bounds}
    for missed, instruction in old.instructions.items():
        if word == instruction and missed in new.instructions:
            return {"misfire": str(new.instructions[missed])}
    return {"misfire": "smart"}
