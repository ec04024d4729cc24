"""Conversion and validation of instants, lengths of time and time zones from callers, and the names of stored zones."""

from __future__ import annotations

import math
import re
import sys
import types
import zoneinfo
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)
from zoneinfo import ZoneInfo

from quartzpy.errors import InvalidTriggerError, InvalidValueError, UnknownTimeZoneError
from quartzpy.text_files import look_alike
from quartzpy.texts import quoted
from quartzpy.zone_names import is_zone_name, meant, zone_names

_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_MINUTE = timedelta(minutes=1)
_LARGEST = timedelta(hours=18)
_ZONE_NAME = re.compile(r"[A-Za-z0-9_+-]{1,40}(/[A-Za-z0-9_+-]{1,40}){0,3}")
Span: TypeAlias = timedelta | float | str
"""A length of time as callers give it: a timedelta, a number of seconds, or a text such as "90s" or "1h30m"."""
MAX_SPAN = timedelta(days=36_525)
"""The longest span that is accepted, 100 years: any instant of our time plus or minus it is a valid datetime."""
FIRST_YEAR_ASKED, LAST_YEAR_ASKED = 1900, 9900
EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_Accepted = TypeVar("_Accepted")
_Held = TypeVar("_Held")
_UNITS = {
    "w|weeks?": "weeks",
    "d|days?": "days",
    "h|hrs?|hours?": "hours",
    "m|mins?|minutes?": "minutes",
    "s|secs?|seconds?": "seconds",
    "ms|milliseconds?": "milliseconds",
    "us|microseconds?": "microseconds",
}
_SECONDS_TEXT = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
_SPAN_TEXT = re.compile(
    "".join(rf"(?:\s*(?P<{name}>[0-9]{{1,15}}(?:\.[0-9]{{1,15}})?)\s*(?:{unit}))?" for unit, name in _UNITS.items())
)
_BAD_KEY_ERRORS = (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError)


def earliest(*instants: datetime | None) -> datetime | None:
    """Return the earliest of these instants; None if there is none."""
    return min((at for at in instants if at is not None), default=None)


def is_until(at: datetime | None, end: datetime) -> bool:
    """Return whether there is an instant, and it is not after the end."""
    return at is not None and at <= end


def fixed_offset(name: str) -> timezone | None:
    """The zone that is always `name` ("+02:00", "-03:30") from UTC; None where `name` is not an offset.

    Raises:
        UnknownTimeZoneError: The offset is more than 18 hours, or its minutes are above 59.
    """
    match = _OFFSET.fullmatch(name)
    if match is None:
        return None
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    if offset > _LARGEST or int(match[3]) > 59:
        raise UnknownTimeZoneError(f"time zone: an offset must be between -18:00 and +18:00 (got {quoted(name)})")
    return timezone(-offset if match[1] == "-" else offset)


def zone_name(value: object) -> str:
    """The name of a time zone that is given by name, as a `ZoneInfo` or as a `datetime.timezone`.

    Raises:
        UnknownTimeZoneError: `given` is none of these, or has no name.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, ZoneInfo) and value.key:
        return value.key
    if isinstance(value, timezone):
        offset = value.utcoffset(None)
        if not offset:
            return "UTC"
        minutes, rest = divmod(abs(offset), _MINUTE)
        if not rest:
            return f"{'-' if offset < timedelta() else '+'}{minutes // 60:02}:{minutes % 60:02}"
    raise UnknownTimeZoneError(
        "time zone: must be a name such as 'Europe/Berlin', an offset such as '+02:00', a ZoneInfo or a"
        f" datetime.timezone of whole minutes (got {_shown(value)})"
    )


def _shown(value: object) -> str:
    return str(value)[:80] if isinstance(value, tzinfo | datetime) else type(value).__name__


class Converted(Generic[_Accepted, _Held]):
    """Type of a dataclass field that accepts more types than it holds, such as `Converted[Span, timedelta]`.

    `__post_init__` of the dataclass does the conversion. Type checkers see a descriptor, so the constructor takes the
    first type and the attribute has the second. At run time the attribute is an ordinary one.
    """

    def __init__(self, *default: _Held) -> None:
        self._default = default

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _Held: ...
    def __get__(self, instance: object | None, owner: type) -> Any:
        # Reached only through the class, where dataclasses look for the default: an instance has its own value.
        if not self._default:
            raise AttributeError("the field has no default")
        return self._default[0]

    if TYPE_CHECKING:

        def __set__(self, instance: object, value: _Accepted) -> None: ...


@cache
def accepted_types(cls: type[Any]) -> Mapping[str, tuple[Any, ...]]:
    """Return the types that each value of a class accepts."""
    return {name: tuple(accepted_members(hint)) for name, hint in get_type_hints(cls).items()}


def accepted_members(hint: Any) -> list[Any]:
    """Return the types that values with this annotation may have."""
    if get_origin(hint) is Converted:
        return accepted_members(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return [member for part in get_args(hint) for member in accepted_members(part)]
    return [hint]


def as_instant(value: object, subject: str, error: type[InvalidValueError] = InvalidTriggerError) -> datetime:
    """Return `value` in UTC. The error message begins with `subject` ("start_time").

    Raises:
        InvalidTriggerError (or `error`): `value` is not a datetime, has no time zone, or is out of range.
    """
    if not isinstance(value, datetime):
        raise error(f"{subject}: must be a datetime (got {type(value).__name__})")
    if value.tzinfo is None or value.utcoffset() is None:
        raise error(f"{subject}: needs a time zone, as {value.isoformat()}+00:00 has (got {value})")
    if value.tzinfo is UTC:
        return value
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise error(f"{subject}: must be within the years 1 to 9999 in UTC (got {value})") from None


def asked_instant(value: object, subject: str) -> datetime:
    """Return an instant about which somebody asks, or from which spans lead to others: it is in no extreme year.

    Raises:
        InvalidValueError: as for `as_instant`, or the year is not from 1900 to 9900.
    """
    instant = as_instant(value, subject, InvalidValueError)
    if not FIRST_YEAR_ASKED <= instant.year <= LAST_YEAR_ASKED:
        raise InvalidValueError(
            f"{subject}: must be in the years {FIRST_YEAR_ASKED} to {LAST_YEAR_ASKED} (got {instant.isoformat()})"
        )
    return instant


def as_span(
    value: object,
    subject: str,
    error: type[InvalidValueError] = InvalidValueError,
    *,
    above_zero: bool = False,
    longest: timedelta = MAX_SPAN,
) -> timedelta:
    """Return a length of time as a timedelta; every public parameter that takes one is read by this function.

    `value` is a timedelta, a number of seconds, or a text of numbers with the units w, d, h, m, s, ms and us, from the
    longest unit to the shortest: "5s", "1.5h", "1h30m". The units may be words, "10 seconds" or "1 hour 30 min", and a
    text without a unit is a number of seconds. `subject` ("timeout") opens the error's message. Zero is accepted unless
    `above_zero` is true.

    Raises:
        InvalidValueError (or `error`): the value is something else, negative, or longer than `longest`.
    """
    span = _read_span(value)
    if span is None:
        raise error(
            f"{subject}: must be a length of time: a timedelta, a number of seconds, or a text such as '90s', '1h30m'"
            f" or '7d' (got {quoted(value)}{_alike(value)})"
        )
    if not span and not above_zero and _says_more_than_zero(value):
        raise error(f"{subject}: must be at least one microsecond, the smallest unit, or zero (got {quoted(value)})")
    if span < timedelta() or span > longest or (above_zero and not span):
        least = "above zero" if above_zero else "zero or more"
        raise error(f"{subject}: must be {least} and at most {longest.days} days (got {quoted(value)})")
    return span


def _alike(value: object) -> str:
    alike = look_alike(value) if isinstance(value, str) else None
    return "" if alike is None else f", where {alike[1]}"


def _says_more_than_zero(value: object) -> bool:
    return any(digit in value for digit in "123456789") if isinstance(value, str) else bool(value)


def span_text(span: timedelta) -> str:
    """Return a length of time as a text that `as_span` reads as the same one: "90s", "0.25s"."""
    seconds, rest = divmod(span, timedelta(seconds=1))
    fraction = f"{rest.microseconds:06}".rstrip("0")
    return f"{seconds}.{fraction}s" if fraction else f"{seconds}s"


_FOR_PEOPLE = (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)))


def short(span: timedelta) -> str:
    """Return a length of time for people, in the syntax of the settings: 90 seconds are "1m30s"."""
    rest, parts = abs(span), []
    for letter, unit in _FOR_PEOPLE:
        count, rest = divmod(rest, unit)
        if count:
            parts.append(f"{count}{letter}")
    if rest or not parts:
        parts.append(f"{rest.total_seconds():g}s")
    return ("-" if span < timedelta() else "") + "".join(parts)


def _read_span(value: object) -> timedelta | None:
    """Return the value as a timedelta, limited to the range of timedelta; None if it is not a length of time."""
    if isinstance(value, timedelta):
        return value
    try:
        if isinstance(value, str):
            if _SECONDS_TEXT.fullmatch(value.strip()):
                return timedelta(seconds=float(value))
            match = _SPAN_TEXT.fullmatch(value.strip())
            parts = {} if match is None else {unit: float(part) for unit, part in match.groupdict().items() if part}
            return timedelta(**parts) if parts else None
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return timedelta(seconds=value)
    except OverflowError:
        return timedelta.min if isinstance(value, int | float) and value < 0 else timedelta.max
    return None


def zone(name: str) -> tzinfo:
    """Return the IANA zone with this name, or the zone of a fixed offset such as "+02:00".

    Raises:
        UnknownTimeZoneError: there is no such zone; the message suggests the nearest name.
    """
    # Checked before the cache is used, which accepts only hashable values.
    if not isinstance(name, str):
        raise UnknownTimeZoneError(f"time zone: must be a name such as 'Europe/Berlin' (got {type(name).__name__})")
    return _zone(name)


def checked_zone(value: object) -> str:
    """Return the name of a time zone that exists. Raises as `zone_name` and `zone`."""
    name = zone_name(value)
    zone(name)
    return name


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    fixed = fixed_offset(name)
    if fixed is not None:
        return fixed
    try:
        # For a name of hundreds of parts, zoneinfo would import as many nested packages.
        if not _ZONE_NAME.fullmatch(name):
            raise ValueError("no name of a zone has such characters, or so many")
        if not is_zone_name(name) or (sys.platform != "linux" and name not in zone_names()):
            # Some file systems find a file whatever the case of its name.
            raise ValueError("this is a file of the zone directory and no zone")
        return zoneinfo.ZoneInfo(name)
    except _BAD_KEY_ERRORS as error:
        raise UnknownTimeZoneError(f"time zone: {quoted(name)} is not known; {meant(name)}") from error
