"""The kinds of calendars, and their conversion to and from JSON. Importing this module registers quartzpy's kinds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from quartzpy.calendars import days, spans, times
from quartzpy.calendars.calendar import CALENDAR_KINDS, COMMON, MAX_CHAINED, BaseCalendar
from quartzpy.errors import InvalidCalendarError, InvalidValueError, UnsupportedKindError
from quartzpy.texts import quoted, reason

__all__ = [
    "calendar_from_json",
    "calendar_to_json",
    "days",
    "spans",
    "storable_json",
    "times",
]


def storable_json(calendar: object) -> dict[str, Any]:
    """Return the JSON of a calendar that reads back as an equal calendar.

    Raises:
        InvalidCalendarError: the calendar is not derived from `BaseCalendar`, its class has no `kind`, or its JSON is
            read back as a different calendar.
    """
    written = calendar_to_json(calendar)
    read = calendar_from_json(json.loads(json.dumps(written)))
    if read != calendar:
        raise InvalidCalendarError(
            f"calendar: {calendar!r} cannot be stored, because its rules() read back as {read!r}; its class must be a"
            " frozen dataclass whose from_rules() reverses rules()"
        )
    return written


def calendar_to_json(calendar: object) -> dict[str, Any]:
    """Return a calendar and its bases as JSON values; equal calendars have equal JSON.

    Raises:
        InvalidCalendarError: the calendar is not derived from `BaseCalendar`, or its class has no `kind`.
    """
    if not isinstance(calendar, BaseCalendar):
        raise InvalidCalendarError(
            f"calendar: {type(calendar).__name__} cannot be stored; must be a calendar of quartzpy or derived from"
            " BaseCalendar"
        )
    if "kind" not in type(calendar).__dict__ or CALENDAR_KINDS.get(calendar.kind) is not type(calendar):
        raise InvalidCalendarError(
            f"calendar: {type(calendar).__name__} cannot be stored, because the class does not define its own kind; add"
            ' kind: ClassVar[str] = "a-name" to it'
        )
    written: dict[str, Any] = {"kind": calendar.kind, "time_zone": calendar.time_zone, **calendar.rules()}
    if calendar.description is not None:
        written["description"] = calendar.description
    if calendar.base is not None:
        written["base"] = calendar_to_json(calendar.base)
    return written


def calendar_from_json(written: object) -> BaseCalendar:
    """Return the calendar with this JSON, which `calendar_to_json` wrote.

    Raises:
        InvalidCalendarError, UnknownTimeZoneError, InvalidCronError: a value is invalid or missing.
    """
    return _read(written, MAX_CHAINED)


def _read(written: object, may_chain: int) -> BaseCalendar:
    if not isinstance(written, Mapping):
        raise InvalidCalendarError(f"calendar: must be an object (got {type(written).__name__})")
    if may_chain == 0:
        raise InvalidCalendarError(f"base: more than {MAX_CHAINED} calendars in one chain")
    kind = written.get("kind")
    if not isinstance(kind, str) or kind not in CALENDAR_KINDS:
        kinds = ", ".join(sorted(CALENDAR_KINDS))
        raise UnsupportedKindError(
            f"calendar: no class of the kind {quoted(kind)} is defined in this process; import the module that defines"
            f" it (known kinds: {kinds})"
        )
    common = {name: written[name] for name in COMMON if name in written}
    if written.get("base") is not None:
        common["base"] = _read(written["base"], may_chain - 1)
    try:
        calendar = CALENDAR_KINDS[kind].from_rules(written, **common)
    except KeyError as missing:
        raise InvalidCalendarError(f"{kind} calendar: {missing.args[0]} is missing") from None
    except InvalidValueError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidCalendarError(f"{kind} calendar: {reason(error)}") from error
    unknown = set(written) - set(COMMON) - {"kind", "base"} - set(calendar.rules())
    if unknown:
        raise InvalidCalendarError(f"{kind} calendar: unknown {quoted(sorted(map(str, unknown)))}")
    return calendar
