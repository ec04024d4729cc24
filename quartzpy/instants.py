"""Instants and time zones at the door: what is accepted, and the one zone they are kept in."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from quartzpy.errors import InvalidTriggerError, InvalidValueError, UnknownTimeZoneError
from quartzpy.texts import quoted
from quartzpy.time_zones import fixed_offset

_ZONE_NAME = re.compile(r"[A-Za-z0-9_+-]{1,40}(/[A-Za-z0-9_+-]{1,40}){0,3}")
_LONGEST_COMPARED = 64
LONGEST_SPAN = timedelta(days=36_525)
"""The longest span that is accepted: 100 years, which can be added to and taken from any instant of today's."""
LATEST = datetime.max.replace(tzinfo=UTC)

_BAD_KEY_ERRORS = (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError)


def as_instant(value: object, subject: str, error: type[InvalidValueError] = InvalidTriggerError) -> datetime:
    """Return `value` in UTC. `subject` ("start_time") opens the error's message.

    Raises:
        InvalidTriggerError (or `error`): not a datetime, a naive one, or out of range.
    """
    if not isinstance(value, datetime):
        raise error(f"{subject}: must be a datetime (got {type(value).__name__})")
    if value.tzinfo is None or value.utcoffset() is None:
        raise error(f"{subject}: needs a time zone (got {value})")
    if value.tzinfo is UTC:
        return value
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise error(f"{subject}: must be within the years 1 to 9999 in UTC (got {value})") from None


def check_span(
    value: object, subject: str, error: type[InvalidValueError] = InvalidTriggerError, *, zero: bool = False
) -> None:
    """Check a length of time: above zero (or zero where that is allowed), and at most 100 years.

    Raises:
        InvalidTriggerError (or `error`): it is not.
    """
    if isinstance(value, timedelta) and timedelta() <= value <= LONGEST_SPAN and (zero or value):
        return
    least = "a timedelta from zero" if zero else "a timedelta above zero"
    raise error(f"{subject}: {least} to 100 years, which are {LONGEST_SPAN.days} days (got {value!r})")


def zone(name: str) -> tzinfo:
    """The IANA zone of this name, or the zone of a fixed offset such as "+02:00".

    Raises:
        UnknownTimeZoneError: no such zone; the message offers the nearest name.
    """
    # Before the cache is asked, which takes only what has a hash.
    if not isinstance(name, str):
        raise UnknownTimeZoneError(f"time zone: must be a name such as 'Europe/Berlin' (got {type(name).__name__})")
    return _zone(name)


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    fixed = fixed_offset(name)
    if fixed is not None:
        return fixed
    try:
        # Of a name of hundreds of parts zoneinfo would import as many packages, one within the other.
        if not _ZONE_NAME.fullmatch(name):
            raise ValueError("no name of a zone has such characters, or so many")
        return zoneinfo.ZoneInfo(name)
    except _BAD_KEY_ERRORS as error:
        # Comparing takes as long as the name is.
        known = sorted(_known_zones()) if len(name) <= _LONGEST_COMPARED else ()
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else "; use an IANA name such as 'Europe/Berlin'"
        raise UnknownTimeZoneError(f"time zone: {quoted(name)} is not known{hint}") from error


@lru_cache(maxsize=1)
def _known_zones() -> set[str]:
    # Looks through the directories of the time zone database.
    return zoneinfo.available_timezones()
