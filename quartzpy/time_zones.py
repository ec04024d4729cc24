"""Time zones of a fixed offset, and the names by which all zones are stored."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from quartzpy.errors import UnknownTimeZoneError

_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_MINUTE = timedelta(minutes=1)
_LARGEST = timedelta(hours=18)


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
        raise UnknownTimeZoneError(f"time zone: an offset must be between -18:00 and +18:00 (got {name!r})")
    return timezone(-offset if match[1] == "-" else offset)


def zone_name(given: object) -> str:
    """The name of a time zone that is given by name, as a `ZoneInfo` or as a `datetime.timezone`.

    Raises:
        UnknownTimeZoneError: `given` is none of these, or has no name.
    """
    if isinstance(given, str):
        return given
    if isinstance(given, ZoneInfo) and given.key:
        return given.key
    if isinstance(given, timezone):
        offset = given.utcoffset(None)
        if not offset:
            return "UTC"
        minutes, rest = divmod(abs(offset), _MINUTE)
        if not rest:
            return f"{'-' if offset < timedelta() else '+'}{minutes // 60:02}:{minutes % 60:02}"
    raise UnknownTimeZoneError(
        "time zone: must be a name such as 'Europe/Berlin', an offset such as '+02:00', a ZoneInfo or a"
        f" datetime.timezone of whole minutes (got {_shown(given)})"
    )


def _shown(given: object) -> str:
    return str(given)[:80] if isinstance(given, tzinfo | datetime) else type(given).__name__
