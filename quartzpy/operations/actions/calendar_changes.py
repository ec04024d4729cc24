"""The difference that a calendar from a file or a library would make, before it is taken."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import NamedTuple

from quartzpy.calendars.calendar import BaseCalendar, Calendar
from quartzpy.calendars.days import HolidayCalendar, WeeklyCalendar
from quartzpy.calendars.registry import calendar_to_json
from quartzpy.calendars.spans import ExcludedSpan, SpanCalendar
from quartzpy.calendars.years import years_in
from quartzpy.errors import InvalidValueError
from quartzpy.ics import calendar_from_ics
from quartzpy.keys import TriggerKey
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.states import TriggerState
from quartzpy.store.queries import TriggerQuery

MAX_RECORDED = 100
"""The number of dates and spans of which a row of the audit log has each."""
MAX_TRIGGERS = 500
"""The number of triggers whose next fire times are compared."""


@dataclass(frozen=True, slots=True)
class MovedTrigger:
    """A trigger whose next fire time another calendar moves; None where it would not fire again."""

    key: TriggerKey
    before: datetime | None
    after: datetime | None


@dataclass(frozen=True, slots=True)
class CalendarDifference:
    """The difference between a stored calendar and another one of the same name."""

    name: str
    is_new: bool
    days_added: tuple[date, ...]
    """The dates that only the new calendar excludes."""
    days_removed: tuple[date, ...]
    spans_added: tuple[ExcludedSpan, ...]
    spans_removed: tuple[ExcludedSpan, ...]
    changes_layers: bool
    """True if other layers of the chain, a description or a time zone differ."""
    moved: tuple[MovedTrigger, ...]
    """The triggers whose next fire times move, among the first 500 by key that use the calendar."""
    has_more_triggers: bool

    def __bool__(self) -> bool:
        return self.is_new or bool(
            self.days_added or self.days_removed or self.spans_added or self.spans_removed or self.changes_layers
        )

    @property
    def added(self) -> int:
        """The number of dates and spans that only the new calendar excludes."""
        return len(self.days_added) + len(self.spans_added)

    @property
    def removed(self) -> int:
        """The number of dates and spans that only the stored calendar excludes."""
        return len(self.days_removed) + len(self.spans_removed)

    @property
    def tag(self) -> str:
        """Differs if other dates, spans or layers change. Next fire times move on by themselves."""
        parts = (self.is_new, self.days_added, self.days_removed, self.spans_added, self.spans_removed)
        return hashlib.sha256(repr((*parts, self.changes_layers)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class CalendarSource:
    """Where the dates of some years come from: an exchange, a country, or the text of an ICS file.

    Raises:
        InvalidValueError: the years are wrong, or there is not exactly one source.
    """

    years: str
    """2027 or 2027-2029."""
    exchange: str | None = None
    country: str | None = None
    """The code of a country, DE, or of a part of it, DE-BY."""
    ics: str | bytes | None = None
    zone: str | None = None
    """The time zone of the calendar; None stands for that of the stored one."""
    weekends: bool = False
    """Whether a new calendar excludes Saturdays and Sundays as well."""

    def __post_init__(self) -> None:
        self.range_of_years()
        if [self.exchange, self.country, self.ics].count(None) != 2:
            raise InvalidValueError("source: give one of exchange, country and ics")

    def range_of_years(self) -> list[int]:
        """Return the years. Errors as of `years_in`."""
        return years_in(self.years)

    def calendar(self, stored: Calendar | None) -> BaseCalendar:
        """Return what a stored calendar becomes. Errors as of `refreshed`, and of the source."""
        place = self.zone or str(getattr(stored, "time_zone", "UTC"))
        if stored is None and self.weekends:
            stored = HolidayCalendar(time_zone=place, base=WeeklyCalendar(time_zone=place))
        years = self.range_of_years()
        if self.ics is not None:
            source = calendar_from_ics(self.ics, years=years, time_zone=place)
        elif self.exchange is not None:
            source = HolidayCalendar.exchange(self.exchange, years=years, time_zone=place)
        else:
            code, _, part = str(self.country).partition("-")
            source = HolidayCalendar.country(code, subdiv=part or None, years=years, time_zone=place)
        return refreshed(stored, source, years)


def refreshed(stored: Calendar | None, source: BaseCalendar, years: Collection[int]) -> BaseCalendar:
    """Return the calendar that the source makes of a stored one.

    Dates and spans of other years stay, and so do the layers below them, which no source has made.

    Raises:
        InvalidValueError: the stored calendar does not begin with dates.
    """
    if stored is None:
        return source
    if not isinstance(stored, HolidayCalendar) or not isinstance(source, HolidayCalendar):
        raise InvalidValueError(
            f"calendar: its first layer has no dates to refresh (got {type(stored).__name__}); store a HolidayCalendar,"
            " or the source under another name"
        )
    below = stored.base
    spans = [span for layer in source.chain() if isinstance(layer, SpanCalendar) for span in layer.excluded_spans]
    if isinstance(below, SpanCalendar):
        spans += [span for span in below.excluded_spans if not any(each.year in years for each in span)]
        below = below.base
    dates = source.excluded_dates | {day for day in stored.excluded_dates if day.year not in years}
    return replace(
        stored,
        excluded_dates=dates,
        time_zone=source.time_zone,
        base=SpanCalendar(spans, base=below) if spans else below,
        description=stored.description if source.description is None else source.description,
    )


def difference(scheduler: BaseScheduler, name: str, calendar: BaseCalendar) -> CalendarDifference:
    """Return the difference that storing a calendar under a name would make."""
    stored = scheduler.get_calendar(name)
    dates, spans = _dates(stored), _spans(stored)
    new_dates, new_spans = _dates(calendar), _spans(calendar)
    moved, has_more = ((), False) if stored is None else _moved(scheduler, name, calendar)
    return CalendarDifference(
        name,
        stored is None,
        tuple(sorted(new_dates - dates)),
        tuple(sorted(dates - new_dates)),
        tuple(sorted(new_spans - spans)),
        tuple(sorted(spans - new_spans)),
        _layers(stored) != _layers(calendar),
        moved,
        has_more,
    )


class RecordedChange(NamedTuple):
    """The dates and spans that a change adds and removes, as the audit log has them."""

    text: str
    added: list[str]
    removed: list[str]


def change_of(stored: Calendar | None, calendar: BaseCalendar) -> RecordedChange:
    """Return the change of a calendar for the audit log, which has the first 100 dates and spans of each side."""
    added, removed = _only_in(calendar, stored), _only_in(stored, calendar)
    text = f"{len(added):,} added, {len(removed):,} removed"
    return RecordedChange(text, _bounded(added), _bounded(removed))


def _only_in(calendar: Calendar | None, other: Calendar | None) -> list[str]:
    days = sorted(_dates(calendar) - _dates(other))
    spans = sorted(_spans(calendar) - _spans(other))
    return [*(day.isoformat() for day in days), *(f"{start.isoformat()}/{end.isoformat()}" for start, end in spans)]


def _bounded(texts: list[str]) -> list[str]:
    more = len(texts) - MAX_RECORDED
    return texts if more <= 0 else [*texts[:MAX_RECORDED], f"and {more:,} more"]


def _dates(calendar: Calendar | None) -> set[date]:
    layers = calendar.chain() if isinstance(calendar, BaseCalendar) else ()
    return {day for layer in layers if isinstance(layer, HolidayCalendar) for day in layer.excluded_dates}


def _spans(calendar: Calendar | None) -> set[ExcludedSpan]:
    layers = calendar.chain() if isinstance(calendar, BaseCalendar) else ()
    return {span for layer in layers if isinstance(layer, SpanCalendar) for span in layer.excluded_spans}


def _layers(calendar: Calendar | None) -> list[object]:
    """Return the layers without their dates and spans, and without those that have nothing else."""
    if not isinstance(calendar, BaseCalendar):
        return []
    written = [calendar_to_json(layer.with_base(None)) for layer in calendar.chain()]
    plain = [
        {name: value for name, value in layer.items() if name not in ("excluded_dates", "excluded_spans")}
        for layer in written
    ]
    return [layer for layer in plain if layer != {"kind": SpanCalendar.kind, "time_zone": "UTC"}]


def _moved(scheduler: BaseScheduler, name: str, calendar: BaseCalendar) -> tuple[tuple[MovedTrigger, ...], bool]:
    store = scheduler._usable_store()
    nodes = store.list_nodes()
    now = nodes.now
    threshold = nodes.setting("misfire_threshold", scheduler._config.misfire_threshold)
    records = store.find(TriggerQuery(calendar=name), MAX_TRIGGERS + 1)
    moved = []
    for record in records[:MAX_TRIGGERS]:
        if record.state is TriggerState.COMPLETE:
            continue
        late_after = record.trigger.misfire_threshold or threshold
        progress = record.trigger.with_new_calendar(record.progress, calendar, now=now, late_after=late_after)
        if progress.next_fire_time != record.next_fire_time:
            moved.append(MovedTrigger(record.key, record.next_fire_time, progress.next_fire_time))
    return tuple(moved), len(records) > MAX_TRIGGERS
