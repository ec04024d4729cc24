"""The kinds of calendars by name, and the conversion of calendars to and from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quartzpy.calendars.annual import AnnualCalendar
from quartzpy.calendars.cron import CronCalendar
from quartzpy.calendars.daily import DailyCalendar
from quartzpy.calendars.holiday import HolidayCalendar
from quartzpy.calendars.monthly import MonthlyCalendar
from quartzpy.calendars.wall_clock import MAX_CHAINED, WallClockCalendar
from quartzpy.calendars.weekly import WeeklyCalendar
from quartzpy.errors import InvalidCalendarError, InvalidValueError, UnsupportedKindError
from quartzpy.texts import quoted, reason

CALENDAR_KINDS: dict[str, type[WallClockCalendar]] = {
    kind.kind: kind
    for kind in (
        AnnualCalendar,
        CronCalendar,
        DailyCalendar,
        HolidayCalendar,
        MonthlyCalendar,
        WeeklyCalendar,
    )
}

_COMMON = ("time_zone", "description")


def calendar_to_json(calendar: object) -> dict[str, Any]:
    """Return a calendar and its bases as JSON values; equal calendars have equal JSON.

    Raises:
        InvalidCalendarError: the calendar is not one of the kinds in `CALENDAR_KINDS`.
    """
    if not isinstance(calendar, WallClockCalendar) or CALENDAR_KINDS.get(calendar.kind) is not type(calendar):
        raise InvalidCalendarError(f"calendar: cannot be stored (got {type(calendar).__name__})")
    written: dict[str, Any] = {"kind": calendar.kind, "time_zone": calendar.time_zone, **calendar.rules()}
    if calendar.description is not None:
        written["description"] = calendar.description
    if calendar.base is not None:
        written["base"] = calendar_to_json(calendar.base)
    return written


def calendar_from_json(written: object) -> WallClockCalendar:
    """Return the calendar with this JSON, which `calendar_to_json` wrote.

    Raises:
        InvalidCalendarError, UnknownTimeZoneError, InvalidCronError: a value is invalid or missing.
    """
    return _read(written, MAX_CHAINED)


def _read(written: object, may_chain: int) -> WallClockCalendar:
    if not isinstance(written, Mapping):
        raise InvalidCalendarError(f"calendar: must be an object (got {type(written).__name__})")
    if may_chain == 0:
        raise InvalidCalendarError(f"base: more than {MAX_CHAINED} calendars in one chain")
    kind = written.get("kind")
    if not isinstance(kind, str) or kind not in CALENDAR_KINDS:
        known = ", ".join(CALENDAR_KINDS)
        raise UnsupportedKindError(f"calendar: kind must be one of {known} (got {quoted(kind)})")
    common = {name: written[name] for name in _COMMON if name in written}
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
    unknown = set(written) - set(_COMMON) - {"kind", "base"} - set(calendar.rules())
    if unknown:
        raise InvalidCalendarError(f"{kind} calendar: unknown {quoted(sorted(map(str, unknown)))}")
    return calendar
