"""Common start times of schedules: today or tomorrow at a time of day, or the next full quarter of an hour."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from quartzpy.clock import SystemClock
from quartzpy.errors import InvalidValueError
from quartzpy.instants import as_instant, zone
from quartzpy.texts import quoted


def today_at(
    hour: int, minute: int = 0, second: int = 0, *, time_zone: str = "UTC", now: datetime | None = None
) -> datetime:
    """Return today at a time of day, which may be in the past, on the wall clock of `time_zone`.

    If the time occurs twice on that day, the first occurrence is returned; if the clock skips it, the result is later
    by the gap. `now` replaces the present moment.

    Raises:
        InvalidValueError: there is no such time of day, or `now` has no time zone.
        UnknownTimeZoneError: there is no such time zone.
    """
    return _day_at(0, hour, minute, second, time_zone, now)


def tomorrow_at(
    hour: int, minute: int = 0, second: int = 0, *, time_zone: str = "UTC", now: datetime | None = None
) -> datetime:
    """Return tomorrow at a time of day; otherwise as `today_at`."""
    return _day_at(1, hour, minute, second, time_zone, now)


def next_minute_divisible_by(minutes: int, *, time_zone: str = "UTC", now: datetime | None = None) -> datetime:
    """Return the next instant whose minute is a multiple of `minutes`: 15 gives :00, :15, :30 or :45.

    The instant is after `now`, which defaults to the present moment, and at most at the next full hour. This is
    Quartz's `nextGivenMinuteDate`.

    Raises:
        InvalidValueError: `minutes` is not from 1 to 60, or `now` has no time zone.
        UnknownTimeZoneError: there is no such time zone.
    """
    if type(minutes) is not int or not 1 <= minutes <= 60:
        raise InvalidValueError(f"minutes: must be an integer from 1 to 60 (got {quoted(minutes)})")
    local = _now(now).astimezone(zone(time_zone))
    ahead = min((local.minute // minutes + 1) * minutes, 60) - local.minute
    since_minute = timedelta(seconds=local.second, microseconds=local.microsecond)
    # Computed as elapsed time, so that the result stays correct in an hour that occurs twice.
    return local.astimezone(UTC) - since_minute + timedelta(minutes=ahead)


def _now(now: datetime | None) -> datetime:
    return SystemClock().now() if now is None else as_instant(now, "now", InvalidValueError)


def _day_at(days: int, hour: int, minute: int, second: int, time_zone: str, now: datetime | None) -> datetime:
    try:
        at = time(hour, minute, second)
    except (TypeError, ValueError):
        shown = quoted((hour, minute, second))
        raise InvalidValueError(f"time of day: hour 0 to 23, minute and second 0 to 59 (got {shown})") from None
    place = zone(time_zone)
    day = _now(now).astimezone(place).date() + timedelta(days=days)
    return datetime.combine(day, at, place).astimezone(UTC)
