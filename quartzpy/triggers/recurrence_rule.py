"""Recurrence rules of RFC 5545: their text, and their series of wall-clock times, whose time zone the caller knows.

dateutil evaluates the rules, but it steps through all times from the rule's start, and follows a rule that never
matches to the year 9999. It is therefore asked only for days, from a later start in the same phase. A search that must
end soon is moved to the last years before 9999, which is possible because the calendar repeats after 400 years.
"""

from __future__ import annotations

import heapq
import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import islice, product, takewhile
from math import prod
from typing import Any

from quartzpy.budget import spend
from quartzpy.errors import InvalidTriggerError, ScheduleTooCostlyError, UnknownTimeZoneError, UnsupportedKindError
from quartzpy.installing import install_line
from quartzpy.instants import zone
from quartzpy.texts import quoted
from quartzpy.triggers.recurring import LOOK_AHEAD

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MAX_INTERVAL = 2**31 - 1
MAX_COUNT = 100_000
"""The highest COUNT. The last time of a rule is found by counting all of them, which takes some tenths of a second."""
# The lowest and the highest number, and True if it may be negative, which counts from the end.
_RANGES = {
    "BYMONTH": (1, 12, False),
    "BYWEEKNO": (1, 53, True),
    "BYYEARDAY": (1, 366, True),
    "BYMONTHDAY": (1, 31, True),
    "BYHOUR": (0, 23, False),
    "BYMINUTE": (0, 59, False),
    "BYSECOND": (0, 59, False),
    "BYSETPOS": (1, 366, True),
}
_PARTS = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_RANGES)
_PROPERTIES = ("RRULE", "EXRULE", "RDATE", "EXDATE")
_WEEKDAY = re.compile(rf"([+-]?[0-9]{{1,2}})?({'|'.join(WEEKDAYS)})")
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_DATE = re.compile(r"[0-9]{8}(T[0-9]{6}Z?)?", re.ASCII)
# RFC 5545 folds a long line: the next line continues it after one blank. An indented property is a separate line.
_FOLD = re.compile(rf"\r?\n[ \t](?!\s*(?:{'|'.join(_PROPERTIES)}|DTSTART|FREQ=|\Z))", re.IGNORECASE)
# Enough to exclude a daily rule for 100 years; each excluded time takes some microseconds.
_MAX_EXCLUDED = 40_000
# After so many excluded times of each rule before one candidate, the excluded rules begin anew at the candidate.
_PATIENCE = 100
# The steps of the budget that dateutil takes to parse a rule, for a time, and for a year without one.
# It lists the times of day of a rule at its start.
_STEPS_OF_START = 100
_STEPS_OF_TIME = 4
_STEPS_OF_POSITION = 8
_STEPS_OF_YEAR = 100
_TIMES_OF_DAY_A_STEP = 3
# The margin covers the difference between a wall-clock time and its instant in any time zone.
_HORIZON = LOOK_AHEAD + timedelta(days=3)
_ONE_DAY = timedelta(days=1)
_NEVER = datetime.combine(date.max, time.max)
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
_SECONDS = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}
_DAY_PARTS = ("BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY")
_DAYS_OF_WEEKS = ("BYYEARDAY", "BYMONTHDAY", "BYDAY")
_TIME_PARTS = ("BYHOUR", "BYMINUTE", "BYSECOND")


@lru_cache(maxsize=1024)
def split_start(text: str) -> tuple[str, datetime | None, str | None]:
    """Split a rule into the rule without its DTSTART line, that start, and the name of the start's time zone.

    A start without a time zone is a wall-clock time. The name is None if the start has no TZID.

    Raises:
        InvalidTriggerError: The DTSTART is wrong.
    """
    line, _, rest = _FOLD.sub("", text.strip()).replace("\r\n", "\n").partition("\n")
    head, _, value = line.partition(":")
    name, *parameters = head.split(";")
    if name.strip().upper() != "DTSTART":
        return text, None, None
    dates = list(_dates(text, "DTSTART", parameters, value.strip().upper()))
    if len(dates) != 1:
        raise _wrong(text, "DTSTART: one date is needed")
    named = [parameter.partition("=")[2] for parameter in parameters if parameter.upper().startswith("TZID=")]
    return rest, dates[0], named[0] if named else None


def recurrence_set(text: str) -> RecurrenceSet:
    """Parse one RRULE, with or without its name, or several lines of RRULE, EXRULE, RDATE and EXDATE.

    Raises:
        InvalidTriggerError: A line is wrong. The message names the part and the accepted values.
    """
    lines = [line.strip() for line in _FOLD.sub("", text.strip()).splitlines() if line.strip()]
    rules: dict[str, list[Rule]] = {"RRULE": [], "EXRULE": []}
    dates: dict[str, list[datetime]] = {"RDATE": [], "EXDATE": []}
    for line in lines:
        head, colon, value = line.partition(":")
        name, *parameters = (head if colon else "RRULE").split(";")
        name, value = name.upper(), (value if colon else line)
        if name == "DTSTART":
            raise _wrong(text, "DTSTART must be its first line")
        if name in rules:
            if parameters:
                raise _wrong(text, f"{name} takes no parameters (got {quoted(parameters[0])})")
            rules[name].append(_rule(text, value.upper()))
        elif name in dates:
            dates[name].extend(_dates(text, name, parameters, value.upper()))
        else:
            raise _wrong(text, f"lines are {', '.join(_PROPERTIES)} (got {quoted(name)})")
    if not rules["RRULE"] and not dates["RDATE"]:
        raise _wrong(text, "an RRULE such as 'FREQ=DAILY' or an RDATE is needed")
    return RecurrenceSet(
        "\n".join(lines), tuple(rules["RRULE"]), tuple(rules["EXRULE"]), tuple(dates["RDATE"]), tuple(dates["EXDATE"])
    )


def _rule(text: str, value: str) -> Rule:
    parts: dict[str, str] = {}
    for pair in value.removesuffix(";").split(";"):
        name, _, text_value = pair.partition("=")
        if name not in _PARTS:
            raise _wrong(text, f"parts are {', '.join(_PARTS)} (got {quoted(name)})")
        if name in parts:
            raise _wrong(text, f"{name} is given twice")
        parts[name] = text_value
    frequency = parts.pop("FREQ", None)
    if frequency not in FREQUENCIES:
        raise _wrong(text, f"FREQ: one of {', '.join(FREQUENCIES)} (got {quoted(frequency)})")
    if "COUNT" in parts and "UNTIL" in parts:
        raise _wrong(text, "COUNT and UNTIL: only one of them")
    interval = _number(text, "INTERVAL", parts.pop("INTERVAL", "1"), 1, MAX_INTERVAL)
    count = _number(text, "COUNT", parts.pop("COUNT"), 1, MAX_COUNT) if "COUNT" in parts else None
    until = _date(text, "UNTIL", parts.pop("UNTIL")) if "UNTIL" in parts else None
    for name, text_value in parts.items():
        if name == "WKST":
            if text_value not in WEEKDAYS:
                raise _wrong(text, f"WKST: one of {', '.join(WEEKDAYS)} (got {quoted(text_value)})")
        elif name == "BYDAY":
            _check_weekdays(text, frequency, text_value.split(","), "BYWEEKNO" in parts)
        else:
            lowest, highest, from_end = _RANGES[name]
            for each in text_value.split(","):
                _number(text, name, each, lowest, highest, from_end=from_end)
    return Rule(frequency, interval, tuple(parts.items()), count, until)


def _check_weekdays(text: str, frequency: str, weekdays: Iterable[str], in_weeks: bool) -> None:
    for weekday in weekdays:
        match = _WEEKDAY.fullmatch(weekday)
        if match is None:
            raise _wrong(text, f"BYDAY: {', '.join(WEEKDAYS)}, or numbered such as 2MO or -1FR (got {quoted(weekday)})")
        if match[1] is not None:
            if frequency not in ("YEARLY", "MONTHLY") or in_weeks:
                raise _wrong(
                    text, f"BYDAY: numbers are for MONTHLY, and YEARLY without BYWEEKNO (got {quoted(weekday)})"
                )
            _number(text, "BYDAY", match[1], 1, 53, from_end=True)


def _number(text: str, name: str, value: str, lowest: int, highest: int, *, from_end: bool = False) -> int:
    number = int(value) if _NUMBER.fullmatch(value) else None
    if number is None or not lowest <= (abs(number) if from_end else number) <= highest:
        allowed = f"{lowest} to {highest}" + (f", or {-highest} to {-lowest}" if from_end else "")
        raise _wrong(text, f"{name}: {allowed} (got {quoted(value)})")
    return number


def _dates(text: str, name: str, parameters: Iterable[str], value: str) -> Iterator[datetime]:
    time_zone: tzinfo | None = None
    for parameter in parameters:
        kind, _, zone_id = parameter.partition("=")
        if kind.upper() == "TZID":
            try:
                time_zone = zone(zone_id)
            except UnknownTimeZoneError as error:
                raise _wrong(text, f"{name}: {error}") from None
        elif parameter.upper() not in ("VALUE=DATE", "VALUE=DATE-TIME"):
            raise _wrong(text, f"{name}: only VALUE=DATE, VALUE=DATE-TIME and TZID are known (got {quoted(parameter)})")
    for each in value.split(","):
        date = _date(text, name, each)
        yield date if time_zone is None or date.tzinfo is not None else date.replace(tzinfo=time_zone)


def _date(text: str, name: str, value: str) -> datetime:
    try:
        if _DATE.fullmatch(value):
            return datetime.fromisoformat(value)
    except ValueError:
        pass
    raise _wrong(text, f"{name}: such as 20261231T235959, 20261231T235959Z or 20261231 (got {quoted(value)})")


def _wrong(text: str, what: str) -> InvalidTriggerError:
    return InvalidTriggerError(f"rule {quoted(text)}: {what}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One RRULE or EXRULE. An `until` without a time zone is a wall-clock time, one with a time zone is an instant."""

    frequency: str
    interval: int
    parts: tuple[tuple[str, str], ...]
    count: int | None
    until: datetime | None

    def wall_times(
        self, start: datetime, near: datetime, instant_of: Callable[[datetime], datetime]
    ) -> Iterator[datetime]:
        """Yield the times from `near` on in order, for at most 100 years, of a rule that starts at `start`."""
        until = _end_of_count(self, start) if self.count else self.until
        for wall in self.series(start, near, soon_over=True):
            if wall - near > _HORIZON:
                return
            if until is not None and (wall if until.tzinfo is None else instant_of(wall)) > until:
                return
            yield wall

    def series(self, start: datetime, near: datetime, *, soon_over: bool) -> Iterator[datetime]:
        """Yield the times from `near` on, ignoring COUNT and UNTIL; for at least 100 years if `soon_over` is True."""
        near = max(start, near)
        parts = self._completed(start)
        if not self._has_position(parts):
            return
        try:
            if "BYSETPOS" in parts and self.frequency not in _SECONDS:
                times = _expanded(self.frequency, self.interval, parts, self._period(start, near), soon_over)
            else:
                days = self._days(start, near, parts, soon_over)
                times = self._spread(start, near, days, parts) if self.frequency in _SECONDS else _on(days, parts)
            yield from (wall for wall in times if wall >= near)
        except OverflowError:
            return  # the end of the year 9999

    def _completed(self, start: datetime) -> dict[str, str]:
        """Return the parts of the rule, completed from its start where RFC 5545 derives them from DTSTART."""
        parts = dict(self.parts)
        parts.setdefault("WKST", "MO")
        if not any(part in parts for part in _DAY_PARTS):
            if self.frequency == "YEARLY":
                parts.setdefault("BYMONTH", str(start.month))
            if self.frequency in ("YEARLY", "MONTHLY"):
                parts["BYMONTHDAY"] = str(start.day)
            if self.frequency == "WEEKLY":
                parts["BYDAY"] = WEEKDAYS[start.weekday()]
        elif self.frequency in ("YEARLY", "MONTHLY", "WEEKLY") and not any(part in parts for part in _DAYS_OF_WEEKS):
            # dateutil takes all seven days of the week.
            parts["BYDAY"] = WEEKDAYS[start.weekday()]
        at = (start.hour, start.minute, start.second)
        for part, finer, value in zip(_TIME_PARTS, _SECONDS, at, strict=True):
            if FREQUENCIES.index(self.frequency) < FREQUENCIES.index(finer):
                parts.setdefault(part, str(value))
        return parts

    def _period(self, start: datetime, near: datetime) -> datetime:
        """Return the beginning of the rule's last period (year, month, week or day) that begins at or before `near`."""
        step = self.interval
        match self.frequency:
            case "YEARLY":
                day = date(start.year + (near.year - start.year) // step * step, 1, 1)
            case "MONTHLY":
                months = ((near.year - start.year) * 12 + near.month - start.month) // step * step
                years, month_index = divmod(start.month - 1 + months, 12)
                day = date(start.year + years, month_index + 1, 1)
            case "WEEKLY":
                first_weekday = WEEKDAYS.index(dict(self.parts).get("WKST", "MO"))
                week = start.date() - timedelta((start.weekday() - first_weekday) % 7)
                day = week + timedelta((near.date() - week).days // (7 * step) * 7 * step)
            case _:
                day = start.date() + timedelta((near.date() - start.date()).days // step * step)
        return datetime.combine(day, time())

    def _days(self, start: datetime, near: datetime, parts: dict[str, str], soon_over: bool) -> Iterator[date]:
        """Yield the days of the rule from that of `near` on, ignoring the times of day."""
        of_days = {part: value for part, value in parts.items() if part not in (*_TIME_PARTS, "BYSETPOS")}
        midnight = dict.fromkeys(_TIME_PARTS, "0")
        frequency, interval, every = self.frequency, self.interval, 1
        if frequency in _SECONDS:
            frequency, interval = "DAILY", 1
        if frequency == "DAILY" and of_days.keys() - {"WKST"}:
            # A yearly rule for the same days is searched year by year instead of day by day.
            frequency, interval, every = "YEARLY", 1, interval
            if not any(part in of_days for part in _DAY_PARTS):
                of_days["BYDAY"] = ",".join(WEEKDAYS)
        by_itself = frequency == self.frequency
        first = self._period(start, near) if by_itself else datetime.combine(near.date(), time())
        for wall in _expanded(frequency, interval, of_days | midnight, first, soon_over):
            day = wall.date()
            if day >= near.date() and (day - start.date()).days % every == 0:
                yield day

    def _spread(
        self, start: datetime, near: datetime, days: Iterator[date], parts: dict[str, str]
    ) -> Iterator[datetime]:
        """Yield the times on `days` of an hourly, minutely or secondly rule."""
        unit = timedelta(seconds=_SECONDS[self.frequency])
        step = self.interval * unit
        of_times = {part: value for part, value in parts.items() if part in (*_TIME_PARTS, "BYSETPOS")}
        midnight = datetime.combine(start.date(), time())
        first = midnight + (start - midnight) // unit * unit
        earliest = first + (near - first) // step * step
        for day in days:
            begins = datetime.combine(day, time())
            if earliest.date() > day:
                continue
            if earliest < begins:
                earliest = first - (first - begins) // step * step
                if earliest - near > _HORIZON:
                    return
                if earliest.date() > day:
                    continue
            for wall in _expanded(self.frequency, self.interval, of_times, earliest, soon_over=False):
                if wall.date() > day:
                    earliest = wall
                    break
                yield wall
            else:
                return

    def _has_position(self, parts: dict[str, str]) -> bool:
        """Return False if BYSETPOS selects no time in any period, as far as the rule alone can tell."""
        if "BYSETPOS" not in parts or self.frequency not in ("DAILY", *_SECONDS):
            return True
        finer = _TIME_PARTS[FREQUENCIES.index(self.frequency) - FREQUENCIES.index("DAILY") :]
        times = prod(len({int(value) for value in parts[part].split(",")}) for part in finer)
        return any(abs(int(position)) <= times for position in parts["BYSETPOS"].split(","))


@dataclass(frozen=True, slots=True)
class RecurrenceSet:
    """The times of several lines together: those of RRULE and RDATE, except those of EXRULE and EXDATE.

    `text` has the original lines, unfolded. A date without a time zone is a wall-clock time.
    """

    text: str
    rules: tuple[Rule, ...]
    excluded_rules: tuple[Rule, ...]
    dates: tuple[datetime, ...]
    excluded_dates: tuple[datetime, ...]

    def wall_times(
        self, start: datetime, near: datetime, time_zone: tzinfo, instant_of: Callable[[datetime], datetime]
    ) -> Iterator[datetime]:
        """Yield the times from `near` on in order, each once.

        The series ends after 100 years, or when 40,000 times in a row are excluded.
        """
        dates = sorted(wall for wall in _on_the_wall(self.dates, time_zone) if wall >= near)
        included = heapq.merge(dates, *(rule.wall_times(start, near, instant_of) for rule in self.rules))

        def excluded_from(first: datetime) -> Iterator[datetime]:
            return heapq.merge(*(rule.wall_times(start, first, instant_of) for rule in self.excluded_rules))

        excluded = excluded_from(near)
        excluded_dates = set(_on_the_wall(self.excluded_dates, time_zone))
        ahead, last, in_a_row = next(excluded, None), None, 0
        for wall in included:
            passed = 0
            while ahead is not None and ahead < wall:
                passed += 1
                if passed == _PATIENCE * len(self.excluded_rules):
                    excluded = excluded_from(wall)
                ahead = next(excluded, None)
            if wall == ahead or wall in excluded_dates:
                in_a_row += 1
                if in_a_row > _MAX_EXCLUDED:
                    return
            elif wall != last:
                in_a_row = 0
                yield wall
            last = wall

    def end(self, start: datetime) -> datetime | None:
        """Return an instant in UTC at most a few days after the last time; None if a rule has no end."""
        ends = [start, *self.dates]
        for rule in self.rules:
            end = _end_of_count(rule, start) if rule.count else rule.until
            if end is None:
                return None
            ends.append(end)
        last = max(end.replace(tzinfo=UTC) if end.tzinfo is None else end.astimezone(UTC) for end in ends)
        return last + 2 * _ONE_DAY if last.year < date.max.year else last


def _dateutil() -> Any:
    try:
        return importlib.import_module("dateutil.rrule")
    except ImportError:
        raise UnsupportedKindError(f"recurrence rules need the dateutil library: {install_line('rrule')}") from None


def _expanded(
    frequency: str, interval: int, parts: dict[str, str], start: datetime, soon_over: bool
) -> Iterator[datetime]:
    """Yield the times of a rule from `start` on. `soon_over` limits the search to some hundred years."""
    text = ";".join(
        [f"FREQ={frequency}", f"INTERVAL={interval}", *(f"{part}={value}" for part, value in parts.items())]
    )
    years = max(0, (date.max.year - 100 - start.year) // 400 * 400) if soon_over else 0
    dateutil = _dateutil()
    year = start.year + years
    times_of_day = [parts.get(part, "").count(",") + 1 for part in _TIME_PARTS]
    spend(_STEPS_OF_START + prod(times_of_day) // _TIMES_OF_DAY_A_STEP)
    steps_of_time = _STEPS_OF_TIME
    if "BYSETPOS" in parts:
        # dateutil lists the days of a period for each position, and the times of an hour or a minute anew.
        steps_of_time += _STEPS_OF_POSITION
        if frequency in _SECONDS:
            finer = times_of_day[FREQUENCIES.index(frequency) - FREQUENCIES.index("DAILY") :]
            steps_of_time += prod(finer) // _TIMES_OF_DAY_A_STEP
    try:
        for wall in dateutil.rrulestr(text, dtstart=start.replace(year=year)):
            spend(steps_of_time + (wall.year - year) * _STEPS_OF_YEAR)
            year = wall.year
            yield wall.replace(year=wall.year - years)
    except ScheduleTooCostlyError:
        raise
    except ValueError:
        return  # dateutil found at once that no time of day matches
    except OverflowError:
        pass  # the end of the year 9999
    spend((date.max.year - year) * _STEPS_OF_YEAR)


def _on(days: Iterator[date], parts: dict[str, str]) -> Iterator[datetime]:
    of_day = (sorted(map(int, parts[part].split(","))) for part in _TIME_PARTS)
    times = list(dict.fromkeys(time(hour, minute, second) for hour, minute, second in product(*of_day)))
    spend(len(times) // _TIMES_OF_DAY_A_STEP)
    for day in days:
        for at in times:
            spend()
            yield datetime.combine(day, at)


@lru_cache(maxsize=1024)
def _end_of_count(rule: Rule, start: datetime) -> datetime:
    """Return the wall-clock time of the last occurrence that COUNT allows."""
    assert rule.count is not None
    if next(rule.series(start, start, soon_over=True), None) is None:
        return start
    last = next(islice(_for_centuries(rule, start), rule.count - 1, None), None)
    return _NEVER if last is None else last


def _for_centuries(rule: Rule, start: datetime) -> Iterator[datetime]:
    return takewhile(lambda wall: wall.year < start.year + 500, rule.series(start, start, soon_over=False))


def _on_the_wall(dates: Iterable[datetime], time_zone: tzinfo) -> Iterator[datetime]:
    for each in dates:
        yield each if each.tzinfo is None else each.astimezone(time_zone).replace(tzinfo=None, fold=0)
