"""The search for the next included instant on a wall clock.

A calendar defines which wall-clock times of its zone it excludes, without regard to clock changes.
This module applies that to instants: a time that occurs twice is excluded twice, a time that is skipped is never
reached, and a day may begin later than midnight.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

from quartzpy.errors import InvalidCalendarError

# A search moves a few times per clock change. If it moves more often, the calendar contradicts itself.
_MAX_MOVES = 10_000

_ONE_SECOND = timedelta(seconds=1)
# No clock was ever changed by more than a day (by a move of the date line), and none twice within two days.
_NEAR = timedelta(hours=26)
_FAR = timedelta(days=3)

NextWallTime = Callable[[datetime], datetime | None]
"""A function that returns the first included wall-clock time at or after another; both are naive."""


def first_instant(
    moment: datetime, latest: datetime, time_zone: tzinfo, next_wall_time: NextWallTime
) -> datetime | None:
    """Return the first instant from `moment` to `latest` with a wall-clock time that `next_wall_time` includes.

    Raises:
        InvalidCalendarError: `next_wall_time` does not return a naive datetime at or after its argument.
    """
    try:
        for _ in range(_MAX_MOVES):
            wall = moment.astimezone(time_zone).replace(tzinfo=None)
            target = next_wall_time(wall)
            if target is None:
                return None
            if target == wall:
                return moment
            _check(target, wall)
            # Correct if the clock is not changed until then. Changes in the middle of a long wait do not
            # matter, because only excluded times are near them.
            candidate = moment + (target - wall)
            is_far = candidate - moment > _FAR
            change = _next_change(moment, moment + _NEAR if is_far else candidate, time_zone)
            if change is not None:
                candidate = change
            elif is_far:
                candidate -= _NEAR
            if candidate > latest:
                return None
            moment = candidate
    except OverflowError:  # the end of time as datetime counts it
        return None
    raise InvalidCalendarError(
        f"next_wall_time: the calendar excludes times that its next_wall_time returned, up to {moment.isoformat()};"
        " it must return times that the calendar includes"
    )


def _check(target: object, wall: datetime) -> None:
    """Raise InvalidCalendarError if a calendar's answer could move the search backwards."""
    if not isinstance(target, datetime) or target.tzinfo is not None:
        raise InvalidCalendarError(f"next_wall_time: must return a datetime without a time zone (got {target!r})")
    if target < wall:
        raise InvalidCalendarError(f"next_wall_time: must not return a time before {wall} (got {target})")


def _next_change(after: datetime, until: datetime, time_zone: tzinfo) -> datetime | None:
    """Return the first instant after `after`, up to `until`, with a different offset from that at `after`."""
    offset = after.astimezone(time_zone).utcoffset()
    if until.astimezone(time_zone).utcoffset() == offset:
        return None
    while until - after > _ONE_SECOND:
        middle = after + (until - after) / 2
        if middle.astimezone(time_zone).utcoffset() == offset:
            after = middle
        else:
            until = middle
    return until.replace(microsecond=0)
