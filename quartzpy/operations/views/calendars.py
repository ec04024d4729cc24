"""Calendars: the days of a year that they exclude."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from quartzpy.calendars.calendar import BaseCalendar, Calendar, WholeDayCalendar
from quartzpy.errors import CalendarNotFoundError, InvalidValueError
from quartzpy.instants import zone
from quartzpy.keys import TriggerKey, check_name
from quartzpy.operations.read_context import attempt
from quartzpy.scheduler.batched_reads import BatchedReads, Deferred
from quartzpy.store.protocol import NameKind, StoredCalendar
from quartzpy.store.queries import TriggerQuery
from quartzpy.texts import did_you_mean, quoted

MAX_CALENDARS = 500
MAX_TRIGGERS = 50
_DAY = timedelta(days=1)
_PROBES = [*(time(hour) for hour in range(24)), time(23, 59, 59)]
"""The times of day at which a day is examined that is not excluded as a whole."""


@dataclass(frozen=True, slots=True)
class CalendarSummary:
    """A calendar, as a row of a list."""

    name: str
    kind: str | None
    zone: str | None
    description: str | None
    revision: int | None
    """Increases with each change of the calendar."""
    unreadable: str | None = None


@dataclass(frozen=True, slots=True)
class CalendarYear:
    """One calendar with the days of one year that it excludes."""

    calendar: CalendarSummary
    year: int
    excluded: tuple[date, ...]
    """The days on which no trigger may fire at any time, by the calendar's time zone."""
    partly_excluded: tuple[date, ...]
    """The days of which some times are excluded. Each day is examined at every full hour and at its last second."""
    triggers: tuple[TriggerKey, ...]
    """The triggers that use the calendar, at most the first 50 by key."""
    has_more_triggers: bool


def calendars(reading: BatchedReads) -> tuple[CalendarSummary, ...]:
    names = reading.defer(lambda store: store.names(NameKind.CALENDARS))()[:MAX_CALENDARS]
    answers = [_stored(reading, name) for name in names]
    return tuple(_summary(name, answer)[0] for name, answer in zip(names, answers, strict=True))


def _stored(reading: BatchedReads, name: str) -> Deferred[StoredCalendar]:
    return reading.defer(lambda store: store.calendars([name])[name])


def _summary(name: str, answer: Deferred[StoredCalendar]) -> tuple[CalendarSummary, Calendar | None]:
    stored, problem = attempt(answer)
    if stored is None:
        return CalendarSummary(name, None, None, None, None, problem), None
    calendar: Any = stored.calendar
    summary = CalendarSummary(
        name,
        getattr(calendar, "kind", type(calendar).__name__),
        getattr(calendar, "time_zone", None),
        getattr(calendar, "description", None),
        stored.revision,
    )
    return summary, calendar


def year(reading: BatchedReads, name: str, of_year: int | None) -> CalendarYear:
    """Return a year of a calendar; see `Operations.calendar`."""
    if of_year is not None and (type(of_year) is not int or not 1970 <= of_year <= 9998):
        raise InvalidValueError(f"year: must be a number from 1970 to 9998 (got {quoted(of_year)})")
    check_name(name, "calendar name")
    stored = _stored(reading, name)
    using = reading.defer(lambda store: store.find(TriggerQuery(calendar=name), MAX_TRIGGERS + 1))
    names = reading.defer(lambda store: store.names(NameKind.CALENDARS))()
    if name not in names:
        hint = did_you_mean(name, names, "calendars") if names else "no calendar is stored"
        raise CalendarNotFoundError(f"there is no calendar {name!r}; {hint}")
    summary, calendar = _summary(name, stored)
    triggers = using()
    shown = reading.now().year if of_year is None else of_year
    excluded, partly = ((), ()) if calendar is None else excluded_days(calendar, shown)
    return CalendarYear(
        summary,
        shown,
        excluded,
        partly,
        tuple(record.key for record in triggers[:MAX_TRIGGERS]),
        len(triggers) > MAX_TRIGGERS,
    )


def excluded_days(calendar: Calendar, of_year: int) -> tuple[tuple[date, ...], tuple[date, ...]]:
    """Return the days of a year that a calendar excludes, and those of which it excludes some times."""
    clock = zone(calendar.time_zone if isinstance(calendar, BaseCalendar) else "UTC")
    by_day = isinstance(calendar, BaseCalendar) and all(
        isinstance(layer, WholeDayCalendar) and layer.time_zone == calendar.time_zone for layer in calendar.chain()
    )
    excluded, partly = [], []
    day = date(of_year, 1, 1)
    while day.year == of_year:
        start = datetime.combine(day, time(), clock)
        end = datetime.combine(day + _DAY, time(), clock)
        included = calendar.next_included(start)
        if included is None or included >= end:
            excluded.append(day)
        elif not by_day and not all(calendar.is_included(datetime.combine(day, at, clock)) for at in _PROBES):
            partly.append(day)
        day += _DAY
    return tuple(excluded), tuple(partly)
