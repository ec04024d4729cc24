"""Calendars from files of other programs: the events of iCalendar (RFC 5545), as the days and spans that they exclude.

The text comes from outside, so each loop over it has a limit. The recurrence rules are those of `RecurrenceTrigger`.
An event is expanded for the years that are wanted, and the result is data: no stored calendar has a rule.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from quartzpy import budget
from quartzpy.calendars.calendar import BaseCalendar
from quartzpy.calendars.days import MAX_EXCLUDED_DATES, HolidayCalendar
from quartzpy.calendars.spans import ExcludedSpan, SpanCalendar, joined_spans
from quartzpy.errors import InvalidCalendarError, InvalidTriggerError, ScheduleTooCostlyError, UnknownTimeZoneError
from quartzpy.instants import zone
from quartzpy.text_files import decoded
from quartzpy.texts import quoted
from quartzpy.triggers.recurrence_rule import Rule, recurrence_set

MAX_CHARACTERS = 4_000_000
MAX_EVENTS = 20_000
MAX_RULES = 500
MAX_COUNTED = 100_000
"""The sum of the COUNTs of all rules: the occurrences before the wanted years are counted one by one."""
MAX_STEPS = budget.MAX_STEPS
"""The number of steps in which the occurrences of all events are computed; see `quartzpy.budget`."""
MAX_OCCURRENCES = 100_000
MAX_YEARS = 50
MAX_NESTED = 8
_FOLD = re.compile(r"\r?\n[ \t]")
_ONE_DAY = timedelta(days=1)
_DAYS_A_STEP = 2
# The steps of the budget in which a date of an RDATE or EXDATE is read.
_STEPS_OF_DATE = 5
_DATE = re.compile(r"([0-9]{8})(?:T([0-9]{6})(Z?))?", re.ASCII)
_DURATION = re.compile(
    r"\+?P(?:([0-9]{1,5})W|(?:([0-9]{1,5})D)?(?:T(?:([0-9]{1,6})H)?(?:([0-9]{1,7})M)?(?:([0-9]{1,8})S)?)?)", re.ASCII
)
_SINGLE = ("DTSTART", "DTEND", "DURATION", "UID", "STATUS", "RECURRENCE-ID")
_SEVERAL = ("RRULE", "EXRULE", "RDATE", "EXDATE")


@dataclass(frozen=True, slots=True)
class _Property:
    name: str
    parameters: Mapping[str, str]
    value: str
    line: int


@dataclass(slots=True)
class _Event:
    line: int
    single: dict[str, _Property] = field(default_factory=dict)
    several: list[_Property] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Moment:
    """A date, or a time on a wall clock with its zone."""

    wall: datetime
    place: tzinfo
    is_date: bool

    @property
    def instant(self) -> datetime:
        return self.wall.replace(tzinfo=self.place).astimezone(UTC)


def calendar_from_ics(
    text: str | bytes,
    *,
    years: int | Iterable[int],
    time_zone: str = "UTC",
    zones: Mapping[str, str] | None = None,
    base: BaseCalendar | None = None,
    description: str | None = None,
) -> HolidayCalendar:
    """Return a calendar that excludes the events of an iCalendar file (RFC 5545) in the given years.

    Events of whole days exclude these dates; events with times exclude the span from DTSTART to DTEND (or DURATION),
    by a `SpanCalendar` in the chain. RRULE, RDATE, EXDATE, EXRULE, RECURRENCE-ID and TZID are followed (rules need the
    extra `rrule`); events with STATUS:CANCELLED are left out. TRANSP is ignored, because many lists of holidays have
    it wrong. `time_zone` is the zone of times without one. `zones` names IANA zones for names that the file defines
    itself, such as {"W. Europe Standard Time": "Europe/Berlin"}.

    Raises:
        InvalidCalendarError: the text is wrong, or larger than the limits; the message names the line.
    """
    with budget.Budget(MAX_STEPS):
        return _calendar_from_ics(text, years, time_zone, zones, base, description)


def _calendar_from_ics(
    text: str | bytes,
    years: int | Iterable[int],
    time_zone: str,
    zones: Mapping[str, str] | None,
    base: BaseCalendar | None,
    description: str | None,
) -> HolidayCalendar:
    wanted = sorted({years} if isinstance(years, int) else set(years))
    if not wanted or not all(type(year) is int and 1970 <= year <= 9998 for year in wanted):
        raise InvalidCalendarError(f"years: one or several from 1970 to 9998 (got {quoted(wanted)})")
    if len(wanted) > MAX_YEARS or wanted[-1] - wanted[0] >= MAX_YEARS:
        raise InvalidCalendarError(f"years: within {MAX_YEARS} years (got {wanted[0]} to {wanted[-1]})")
    events = _events(_decoded(text))
    reader = _EventReader(zone(time_zone), dict(zones or {}), date(wanted[0], 1, 1), date(wanted[-1], 12, 31))
    reader.read(events)
    days = frozenset(day for day in reader.days if day.year in wanted)
    spans = [span for span in joined_spans(reader.spans) if any(each.year in wanted for each in span)]
    below = SpanCalendar(spans, base=base) if spans else base
    return HolidayCalendar(days, time_zone=time_zone, base=below, description=description)


def _decoded(text: str | bytes) -> str:
    if len(text) > MAX_CHARACTERS:
        raise InvalidCalendarError(f"iCalendar file: at most {MAX_CHARACTERS:,} characters (got {len(text):,})")
    return (
        text.removeprefix("\ufeff") if isinstance(text, str) else decoded(text, "iCalendar file", InvalidCalendarError)
    )


def _events(text: str) -> list[_Event]:
    """Return the events of the calendars in a text; other components, and those within events, are passed over."""
    events: list[_Event] = []
    open_components: list[str] = []
    for entry in _properties(text):
        value = entry.value.strip().upper()
        if entry.name == "BEGIN":
            open_components.append(value)
            if len(open_components) > MAX_NESTED:
                raise _wrong(entry.line, f"components are nested more than {MAX_NESTED} deep")
            if open_components == ["VCALENDAR", "VEVENT"]:
                events.append(_Event(entry.line))
                if len(events) > MAX_EVENTS:
                    raise _wrong(entry.line, f"more than {MAX_EVENTS:,} events")
        elif entry.name == "END":
            if not open_components or open_components.pop() != value:
                raise _wrong(entry.line, f"END:{quoted(value)} ends no component that is open")
        elif not open_components:
            raise _wrong(entry.line, "a file begins with BEGIN:VCALENDAR")
        elif open_components == ["VCALENDAR", "VEVENT"]:
            if entry.name in _SEVERAL:
                events[-1].several.append(entry)
            elif entry.name in _SINGLE:
                if entry.name in events[-1].single:
                    raise _wrong(entry.line, f"{entry.name} is given twice")
                events[-1].single[entry.name] = entry
    if open_components:
        raise InvalidCalendarError(f"iCalendar file: {quoted(open_components[-1])} is not ended; is the file complete?")
    return events


def _properties(text: str) -> Iterator[_Property]:
    number = 1
    for folded in re.split(r"\r?\n(?![ \t])", text):
        line = _FOLD.sub("", folded)
        if line.strip():
            yield _property(line, number)
        number += 1 + folded.count("\n")


def _property(line: str, number: int) -> _Property:
    """Split a line at its first colon that is not within quotes, and the part before it at such semicolons."""
    parts, start, is_quoted = [], 0, False
    for at, character in enumerate(line):
        if character == '"':
            is_quoted = not is_quoted
        elif not is_quoted and character in ";:":
            parts.append(line[start:at])
            start = at + 1
            if character == ":":
                parameters = {}
                for part in parts[1:]:
                    name, _, value = part.partition("=")
                    parameters[name.strip().upper()] = value.strip().strip('"')
                return _Property(parts[0].strip().upper(), parameters, line[start:], number)
    raise _wrong(number, f"a property such as DTSTART:20261225 is needed (got {quoted(line)})")


def _wrong(line: int, what: str) -> InvalidCalendarError:
    return InvalidCalendarError(f"iCalendar file, line {line}: {what}")


class _EventReader:
    """The days and spans of the events from one date to another."""

    def __init__(self, place: tzinfo, zones: dict[str, str], first: date, last: date) -> None:
        self._place = place
        self._zones = zones
        self._first = first
        self._last = last
        self._rules = self._counted = self._occurrences = 0
        self.days: set[date] = set()
        self.spans: list[ExcludedSpan] = []

    def read(self, events: Iterable[_Event]) -> None:
        several = list(events)
        # An event with a RECURRENCE-ID replaces that occurrence of the event with its UID.
        replaced: dict[str, set[datetime]] = {}
        for event in several:
            budget.spend()
            of = event.single.get("RECURRENCE-ID")
            if of is not None:
                instants = replaced.setdefault(self._uid(event), set())
                instants.add(self._moment(of, of.value).instant)
        for event in several:
            status = event.single.get("STATUS")
            if status is None or status.value.strip().upper() != "CANCELLED":
                is_master = "RECURRENCE-ID" not in event.single
                try:
                    self._add(event, replaced.get(self._uid(event), set()) if is_master else set())
                except ScheduleTooCostlyError as error:
                    raise _wrong(event.line, str(error)) from None
                except OverflowError:
                    raise _wrong(event.line, "the event reaches beyond the year 9999") from None

    def _uid(self, event: _Event) -> str:
        uid = event.single.get("UID")
        return f"line {event.line}" if uid is None else uid.value

    def _add(self, event: _Event, replaced: set[datetime]) -> None:
        of_start = event.single.get("DTSTART")
        if of_start is None:
            raise _wrong(event.line, "the event has no DTSTART")
        start = self._moment(of_start, of_start.value)
        length = self._length(event, start)
        for wall in self._walls(event, start, length):
            self._occurrences += 1
            if self._occurrences > MAX_OCCURRENCES:
                raise _wrong(event.line, f"more than {MAX_OCCURRENCES:,} occurrences in these years")
            occurrence = _Moment(wall, start.place, start.is_date)
            if occurrence.instant in replaced:
                continue
            if start.is_date:
                self._add_days(wall.date(), length.days, event.line)
            elif length:
                # The end keeps its distance in elapsed time.
                self.spans.append((occurrence.instant, occurrence.instant + length))

    def _add_days(self, first: date, count: int, line: int) -> None:
        day = max(first, self._first)
        end = min(first + timedelta(days=count - 1), self._last)
        budget.spend(max(0, (end - day).days) // _DAYS_A_STEP)
        while day <= end:
            self.days.add(day)
            day += _ONE_DAY
        if len(self.days) > MAX_EXCLUDED_DATES:
            raise _wrong(line, f"more than {MAX_EXCLUDED_DATES:,} days")

    def _walls(self, event: _Event, start: _Moment, length: timedelta) -> Iterator[datetime]:
        """Yield the beginnings of the occurrences that reach into the wanted years."""
        earliest = datetime.combine(self._first, time()) - min(length, timedelta(days=366 * MAX_YEARS)) - _ONE_DAY
        latest = datetime.combine(self._last, time.max) + _ONE_DAY
        excluded = {
            moment.wall for entry in event.several if entry.name == "EXDATE" for moment in self._moments(entry, start)
        }
        # An event happens at its DTSTART, whether or not its rule says so.
        walls = {start.wall} - excluded if earliest <= start.wall <= latest else set()
        yield from walls
        lines = [f"{entry.name}:{entry.value.strip().upper()}" for entry in event.several if "RULE" in entry.name]
        for entry in event.several:
            if entry.name in ("RDATE", "EXDATE"):
                lines += [
                    f"{entry.name}:{moment.wall:%Y%m%dT%H%M%S}"
                    for moment in self._moments(entry, start)
                    if entry.name == "EXDATE" or earliest <= moment.wall <= latest
                ]
        if not any(line.startswith(("RRULE", "RDATE")) for line in lines):
            return
        try:
            recurrence = recurrence_set("\n".join(lines))
            self._count(recurrence.rules + recurrence.excluded_rules, event.line)
            near = max(start.wall, earliest)
            for wall in recurrence.wall_times(
                start.wall, near, start.place, lambda wall: _Moment(wall, start.place, start.is_date).instant
            ):
                if wall > latest:
                    return
                if wall not in walls:
                    yield wall
        except InvalidTriggerError as error:
            raise _wrong(event.line, str(error)) from None

    def _count(self, rules: Iterable[Rule], line: int) -> None:
        for rule in rules:
            self._rules += 1
            self._counted += rule.count or 0
        if self._rules > MAX_RULES:
            raise _wrong(line, f"more than {MAX_RULES} recurrence rules")
        if self._counted > MAX_COUNTED:
            raise _wrong(line, f"the rules count more than {MAX_COUNTED:,} occurrences")

    def _length(self, event: _Event, start: _Moment) -> timedelta:
        end, duration = event.single.get("DTEND"), event.single.get("DURATION")
        if end is not None:
            until = self._moment(end, end.value)
            if until.is_date != start.is_date:
                raise _wrong(end.line, "DTSTART and DTEND are both dates, or both times")
            length = until.wall - start.wall if start.is_date else until.instant - start.instant
            if length < timedelta():
                raise _wrong(end.line, "DTEND is before DTSTART")
        elif duration is not None:
            length = _duration(duration)
        else:
            length = _ONE_DAY if start.is_date else timedelta()
        return max(length, _ONE_DAY) if start.is_date else length

    def _moments(self, entry: _Property, start: _Moment) -> Iterator[_Moment]:
        """Yield the dates of an RDATE or EXDATE on the wall clock of the event."""
        for value in entry.value.split(","):
            budget.spend(_STEPS_OF_DATE)
            if entry.parameters.get("VALUE", "").upper() == "PERIOD":
                raise _wrong(entry.line, "RDATE with VALUE=PERIOD is not read; write an event of its own")
            moment = self._moment(entry, value)
            if start.is_date:
                yield _Moment(datetime.combine(moment.wall.date(), time()), start.place, True)
            elif moment.is_date:
                # A date without a time stands for the occurrence on that date.
                yield _Moment(datetime.combine(moment.wall.date(), start.wall.time()), start.place, False)
            else:
                wall = moment.wall
                if moment.place is not start.place:
                    wall = moment.instant.astimezone(start.place).replace(tzinfo=None, fold=0)
                yield _Moment(wall, start.place, False)

    def _moment(self, entry: _Property, value: str) -> _Moment:
        match = _DATE.fullmatch(value.strip().upper())
        wall = None
        if match is not None:
            with contextlib.suppress(ValueError):
                wall = datetime.fromisoformat(f"{match[1]}T{match[2] or '000000'}")
        if match is None or wall is None or not 1800 <= wall.year <= 9990:
            raise _wrong(entry.line, f"{entry.name}: such as 20261225 or 20261225T180000Z (got {quoted(value)})")
        if match[2] is None:
            return _Moment(wall, self._place, True)
        return _Moment(wall, UTC if match[3] else self._zone(entry), False)

    def _zone(self, entry: _Property) -> tzinfo:
        name = entry.parameters.get("TZID")
        if name is None:
            return self._place
        # Some programs put a prefix before the name: /example.org/Europe/Berlin.
        candidates = [self._zones.get(name, name), *("/".join(name.split("/")[-count:]) for count in (3, 2))]
        for candidate in candidates:
            try:
                return zone(candidate)
            except UnknownTimeZoneError:
                continue
        raise _wrong(
            entry.line, f"there is no time zone {quoted(name)}; name its IANA zone: zones={{{name!r}: 'Europe/Berlin'}}"
        ) from None


def _duration(entry: _Property) -> timedelta:
    value = entry.value.strip().upper()
    match = _DURATION.fullmatch(value)
    if match is None or not any(match.groups()):
        raise _wrong(entry.line, f"DURATION: such as P1D or PT1H30M (got {quoted(value)})")
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
