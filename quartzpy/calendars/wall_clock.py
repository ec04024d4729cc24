"""The base of calendars that exclude wall-clock times, and the search for the next included instant.

A calendar defines which wall-clock times of its zone it excludes, without regard to clock changes.
This module applies that to instants: a time that occurs twice is excluded twice, a time that is skipped is never
reached, and a day may begin later than midnight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, ClassVar, Self

from quartzpy.errors import InvalidCalendarError
from quartzpy.instants import as_instant, zone
from quartzpy.texts import check_description
from quartzpy.time_zones import zone_name

SEARCH_LIMIT = timedelta(days=36525)
"""The search of `next_included` ends after this time: 100 years."""
MAX_CHAINED = 32
"""The maximum number of calendars that are chained through `base`."""
# Two calendars that exclude each other's times would alternate for ever; every turn takes a few microseconds.
# Enough for calendars that alternate daily for decades.
_MAX_TURNS = 10_000

_ONE_DAY = timedelta(days=1)
_ONE_SECOND = timedelta(seconds=1)
# No clock was ever changed by more than a day (by a move of the date line), and none twice within two days.
_NEAR = timedelta(hours=26)
_FAR = timedelta(days=3)

NextWallTime = Callable[[datetime], datetime | None]
"""A function that returns the first included wall-clock time at or after another; both are naive."""


@dataclass(frozen=True, kw_only=True)
class WallClockCalendar(ABC):
    """A calendar that excludes wall-clock times of `time_zone`.

    `base` is another such calendar, whose excluded times are excluded as well. `description` is for people.
    """

    kind: ClassVar[str]

    time_zone: str = "UTC"
    base: WallClockCalendar | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        """Validate the common values. Subclasses call this and then validate their own.

        Raises:
            InvalidCalendarError, UnknownTimeZoneError: a value is invalid; the message names it.
        """
        object.__setattr__(self, "time_zone", zone_name(self.time_zone))
        zone(self.time_zone)
        if self.base is not None and not isinstance(self.base, WallClockCalendar):
            raise InvalidCalendarError(f"base: must be a calendar (got {type(self.base).__name__})")
        check_description(self.description, InvalidCalendarError)
        if sum(1 for _ in self.chain()) > MAX_CHAINED:
            raise InvalidCalendarError(f"base: more than {MAX_CHAINED} calendars in one chain")

    def chain(self) -> Iterator[WallClockCalendar]:
        """Return this calendar, its base, the base of the base, and so on."""
        layer: WallClockCalendar | None = self
        while layer is not None:
            yield layer
            layer = layer.base

    def is_included(self, instant: datetime) -> bool:
        """Return True if a trigger may fire at `instant`.

        Raises:
            InvalidCalendarError: `instant` has no time zone.
        """
        moment = as_instant(instant, "instant", InvalidCalendarError)
        return all(
            layer.includes_wall_time(moment.astimezone(zone(layer.time_zone)).replace(tzinfo=None))
            for layer in self.chain()
        )

    def next_included(self, instant: datetime) -> datetime | None:
        """Return the first included instant at or after `instant`, in UTC; None if none is found.

        The search ends after 100 years, or earlier if chained calendars include so little that the search is given
        up, which takes less than a second.

        Raises:
            InvalidCalendarError: `instant` has no time zone.
        """
        moment = as_instant(instant, "instant", InvalidCalendarError)
        try:
            latest = moment + SEARCH_LIMIT
        except OverflowError:
            latest = datetime.max.replace(tzinfo=UTC)
        layers = tuple(self.chain())
        content = 0
        for turn in range(_MAX_TURNS):
            layer = layers[turn % len(layers)]
            found = first_instant(moment, latest, zone(layer.time_zone), layer.next_wall_time)
            if found is None:
                return None
            content = content + 1 if found == moment else 1
            if content >= len(layers):
                return found
            moment = found
        return None

    @abstractmethod
    def next_wall_time(self, wall: datetime) -> datetime | None:
        """Return the first wall-clock time at or after `wall` that this calendar, without its base, includes."""

    def includes_wall_time(self, wall: datetime) -> bool:
        """Return True if this calendar, without its base, includes `wall`."""
        return self.next_wall_time(wall) == wall

    @abstractmethod
    def rules(self) -> dict[str, Any]:
        """Return the values that are specific to this kind as JSON, which `from_rules` reads back."""

    @classmethod
    @abstractmethod
    def from_rules(cls, rules: Mapping[str, Any], **common: Any) -> Self:
        """Return the calendar with these `rules()`, with the common values given by name."""


@dataclass(frozen=True, kw_only=True)
class WholeDayCalendar(WallClockCalendar):
    """A calendar that excludes whole days, from midnight to midnight on the wall clock."""

    @abstractmethod
    def excludes_day(self, day: date) -> bool:
        """Return True if this calendar, without its base, excludes `day`."""

    @property
    @abstractmethod
    def longest_exclusion(self) -> int:
        """Return the maximum number of days that are excluded in a row, unless all are."""

    def includes_wall_time(self, wall: datetime) -> bool:
        return not self.excludes_day(wall.date())

    def next_wall_time(self, wall: datetime) -> datetime | None:
        day = wall.date()
        if not self.excludes_day(day):
            return wall
        for _ in range(self.longest_exclusion + 1):
            day += _ONE_DAY
            if not self.excludes_day(day):
                return datetime.combine(day, time.min)
        return None


def first_instant(
    moment: datetime, latest: datetime, time_zone: tzinfo, next_wall_time: NextWallTime
) -> datetime | None:
    """Return the first instant from `moment` to `latest` with a wall-clock time that `next_wall_time` includes."""
    try:
        while True:
            wall = moment.astimezone(time_zone).replace(tzinfo=None)
            target = next_wall_time(wall)
            if target is None:
                return None
            if target == wall:
                return moment
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
