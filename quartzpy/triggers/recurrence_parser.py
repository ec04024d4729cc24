"""Parses recurrence rules of RFC 5545."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo
from functools import lru_cache

from quartzpy.errors import InvalidTriggerError, UnknownTimeZoneError
from quartzpy.instants import zone
from quartzpy.texts import quoted
from quartzpy.triggers.recurrence_rule import FREQUENCIES, WEEKDAYS, RecurrenceSet, Rule

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
        name, _, given = pair.partition("=")
        if name not in _PARTS:
            raise _wrong(text, f"parts are {', '.join(_PARTS)} (got {quoted(name)})")
        if name in parts:
            raise _wrong(text, f"{name} is given twice")
        parts[name] = given
    frequency = parts.pop("FREQ", None)
    if frequency not in FREQUENCIES:
        raise _wrong(text, f"FREQ: one of {', '.join(FREQUENCIES)} (got {quoted(frequency)})")
    if "COUNT" in parts and "UNTIL" in parts:
        raise _wrong(text, "COUNT and UNTIL: only one of them")
    interval = _number(text, "INTERVAL", parts.pop("INTERVAL", "1"), 1, MAX_INTERVAL)
    count = _number(text, "COUNT", parts.pop("COUNT"), 1, MAX_COUNT) if "COUNT" in parts else None
    until = _date(text, "UNTIL", parts.pop("UNTIL")) if "UNTIL" in parts else None
    for name, given in parts.items():
        if name == "WKST":
            if given not in WEEKDAYS:
                raise _wrong(text, f"WKST: one of {', '.join(WEEKDAYS)} (got {quoted(given)})")
        elif name == "BYDAY":
            _check_weekdays(text, frequency, given.split(","), "BYWEEKNO" in parts)
        else:
            lowest, highest, from_end = _RANGES[name]
            for each in given.split(","):
                _number(text, name, each, lowest, highest, from_end=from_end)
    return Rule(frequency, interval, tuple(parts.items()), count, until)


def _check_weekdays(text: str, frequency: str, weekdays: Iterable[str], in_weeks: bool) -> None:
    for weekday in weekdays:
        found = _WEEKDAY.fullmatch(weekday)
        if found is None:
            raise _wrong(text, f"BYDAY: {', '.join(WEEKDAYS)}, or numbered such as 2MO or -1FR (got {quoted(weekday)})")
        if found[1] is not None:
            if frequency not in ("YEARLY", "MONTHLY") or in_weeks:
                raise _wrong(
                    text, f"BYDAY: numbers are for MONTHLY, and YEARLY without BYWEEKNO (got {quoted(weekday)})"
                )
            _number(text, "BYDAY", found[1], 1, 53, from_end=True)


def _number(text: str, name: str, given: str, lowest: int, highest: int, *, from_end: bool = False) -> int:
    number = int(given) if _NUMBER.fullmatch(given) else None
    if number is None or not lowest <= (abs(number) if from_end else number) <= highest:
        allowed = f"{lowest} to {highest}" + (f", or {-highest} to {-lowest}" if from_end else "")
        raise _wrong(text, f"{name}: {allowed} (got {quoted(given)})")
    return number


def _dates(text: str, name: str, parameters: Iterable[str], value: str) -> Iterator[datetime]:
    time_zone: tzinfo | None = None
    for parameter in parameters:
        kind, _, given = parameter.partition("=")
        if kind.upper() == "TZID":
            try:
                time_zone = zone(given)
            except UnknownTimeZoneError as error:
                raise _wrong(text, f"{name}: {error}") from None
        elif parameter.upper() not in ("VALUE=DATE", "VALUE=DATE-TIME"):
            raise _wrong(text, f"{name}: only VALUE=DATE, VALUE=DATE-TIME and TZID are known (got {quoted(parameter)})")
    for each in value.split(","):
        found = _date(text, name, each)
        yield found if time_zone is None or found.tzinfo is not None else found.replace(tzinfo=time_zone)


def _date(text: str, name: str, given: str) -> datetime:
    try:
        if _DATE.fullmatch(given):
            return datetime.fromisoformat(given)
    except ValueError:
        pass
    raise _wrong(text, f"{name}: such as 20261231T235959, 20261231T235959Z or 20261231 (got {quoted(given)})")


def _wrong(text: str, what: str) -> InvalidTriggerError:
    return InvalidTriggerError(f"rule {quoted(text)}: {what}")
