"""The checks of the values that triggers of all kinds have."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from quartzpy.errors import InvalidTriggerError
from quartzpy.instants import Span, as_instant, as_span

FIRE_ALL = "fire_all"
"""The misfire instruction that catches up on the last missed fires, within the trigger's bounds."""
_INT32 = 2**31


def checked_bounds(start: datetime | None, end: datetime | None) -> tuple[datetime | None, datetime | None]:
    """Return the start and the end of a schedule as instants.

    Raises:
        InvalidTriggerError: one of them is no instant, or the end is before the start.
    """
    if start is not None:
        start = as_instant(start, "start_time")
    if end is not None:
        end = as_instant(end, "end_time")
        if start is not None and end < start:
            raise InvalidTriggerError(f"end_time {end.isoformat()} is before start_time {start.isoformat()}")
    return start, end


def checked_span(span: Span | None, subject: str) -> timedelta | None:
    """Return a span of time above zero, or None if none is given.

    Raises:
        InvalidTriggerError: it is no span of time, or not above zero.
    """
    return None if span is None else as_span(span, subject, InvalidTriggerError, above_zero=True)


def check_priority(priority: object) -> None:
    """Check a priority.

    Raises:
        InvalidTriggerError: it is no integer of 32 bits.
    """
    if type(priority) is not int or not -_INT32 <= priority < _INT32:
        raise InvalidTriggerError(f"priority: must be an integer of 32 bits (got {priority!r})")


def checked_instruction(misfire: str, allowed: type[StrEnum], kind: str) -> StrEnum:
    """Return the misfire instruction of a kind of trigger.

    Raises:
        InvalidTriggerError: the kind has no such instruction.
    """
    try:
        return allowed(misfire)
    except ValueError:
        raise InvalidTriggerError(f"misfire: {kind} triggers accept {', '.join(allowed)} (got {misfire!r})") from None


def check_catch_up(misfire: str, most: object, within: timedelta | None) -> None:
    """Check the bounds of catching up on missed fires: `catch_up_max` and `catch_up_within`.

    Raises:
        InvalidTriggerError: a bound is wrong, is given for another instruction than "fire_all", or both are missing.
    """
    if most is not None and (type(most) is not int or not 1 <= most < _INT32):
        raise InvalidTriggerError(f"catch_up_max: must be an integer of 32 bits, at least 1 (got {most!r})")
    if misfire == FIRE_ALL:
        if most is None and within is None:
            raise InvalidTriggerError(
                "misfire: fire_all needs catch_up_max, catch_up_within or both; ignore has no bounds"
            )
        return
    for name, value in (("catch_up_max", most), ("catch_up_within", within)):
        if value is not None:
            raise InvalidTriggerError(
                f"{name}: only with misfire='fire_all' (got {name}={value!r}, misfire={str(misfire)!r})"
            )
