"""Calendars: sets of instants at which the triggers that name them may fire.

Applications derive calendars of their own from the base classes. A calendar defines which wall-clock times of its zone
it excludes, without regard to changes of the clock. `first_instant` applies that to instants: a time that occurs twice
is excluded twice, a time that is skipped is never reached, and a day may begin later than midnight.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, ClassVar, Protocol, Self

from quartzpy.budget import Budget, spend
from quartzpy.errors import InvalidCalendarError, InvalidJobDataError
from quartzpy.instants import as_instant, zone, zone_name
from quartzpy.job_data import MAX_BYTES, decode_value, encode_value
from quartzpy.main_module import import_path
from quartzpy.name_hints import NameHints
from quartzpy.texts import check_description, quoted

SEARCH_LIMIT = timedelta(days=36525)
"""The search of `next_included` ends after this time: 100 years."""
MAX_CHAINED = 32
"""The maximum number of calendars that are chained through `base`."""
# Two calendars that exclude each other's times would alternate for ever; every turn takes a few microseconds.
# Enough for calendars that alternate daily for decades.
_MAX_TURNS = 10_000
_ONE_DAY = timedelta(days=1)
CALENDAR_KINDS: dict[str, type[BaseCalendar]] = {}
"""The classes of calendars that this process knows, by the name of their kind."""
COMMON = ("time_zone", "description")
"""The fields that calendars of all kinds have, besides `base`."""
# A search moves a few times per clock change. If it moves more often, the calendar contradicts itself.
_MAX_MOVES = 10_000
_ONE_SECOND = timedelta(seconds=1)
# A move to another wall-clock time costs some microseconds, and twice as much near a change of the clock.
_STEPS_OF_MOVE = 5
# No clock was ever changed by more than a day (by a move of the date line), and none twice within two days.
_NEAR = timedelta(hours=26)
_FAR = timedelta(days=3)
NextWallTime = Callable[[datetime], datetime | None]
"""A function that returns the first included wall-clock time at or after another; both are naive."""


class Calendar(Protocol):
    """A set of instants, which excludes others from a trigger's schedule (Quartz's `Calendar`).

    Previews take any object with these methods. The stores keep calendars that are derived from `BaseCalendar`.
    """

    def is_included(self, instant: datetime) -> bool:
        """Return True if a trigger may fire at `instant`."""
        ...

    def next_included(self, instant: datetime) -> datetime | None:
        """Return the first included instant at or after `instant`; None if there is none within 100 years."""
        ...


@dataclass(frozen=True, kw_only=True)
class BaseCalendar(NameHints, ABC):
    """Base class of calendars: one excludes wall-clock times of `time_zone`.

    `base` is another calendar, whose excluded times are excluded as well. `description` is for people.

    A calendar of your own is a frozen dataclass that is derived from this class, or from `WholeDayCalendar` if it
    excludes whole days. It sets `kind`, the name under which the stores keep it, and implements `next_wall_time`
    (of a `WholeDayCalendar`: `excludes_day`). Its fields are stored as job data is; for other types override `rules`
    and `from_rules`. Every node that computes fire times with the calendar must have imported the class: a database
    row never names code to import, so a node that does not know the kind leaves its triggers to other nodes.
    """

    _quartz_sections = ("Calendars",)

    kind: ClassVar[str]
    """The name under which calendars of this class are stored, unique in a process."""

    def __init_subclass__(cls, **rest: Any) -> None:
        """Register the class under its `kind`, if it sets one.

        A class that is defined again under its own import path (a reloaded module) replaces the earlier one.

        Raises:
            InvalidCalendarError: `kind` is not a name, or is the kind of another class.
        """
        super().__init_subclass__(**rest)
        if "kind" not in cls.__dict__:
            return
        if not isinstance(cls.kind, str) or not cls.kind:
            raise InvalidCalendarError(f"kind of {cls.__qualname__}: must be a name (got {quoted(cls.kind)})")
        registered = CALENDAR_KINDS.get(cls.kind)
        if registered is not None and import_path(registered) != import_path(cls):
            raise InvalidCalendarError(
                f"kind of {cls.__qualname__}: {cls.kind!r} is already the kind of {import_path(registered)};"
                " choose another name"
            )
        CALENDAR_KINDS[cls.kind] = cls

    time_zone: str = "UTC"
    base: BaseCalendar | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        """Validate the common values. Subclasses call this and then validate their own.

        Raises:
            InvalidCalendarError, UnknownTimeZoneError: a value is invalid; the message names it.
        """
        object.__setattr__(self, "time_zone", zone_name(self.time_zone))
        zone(self.time_zone)
        if self.base is not None and not isinstance(self.base, BaseCalendar):
            raise InvalidCalendarError(f"base: must be a calendar (got {type(self.base).__name__})")
        check_description(self.description, InvalidCalendarError)
        if sum(1 for _ in self.chain()) > MAX_CHAINED:
            raise InvalidCalendarError(f"base: more than {MAX_CHAINED} calendars in one chain")

    def chain(self) -> Iterator[BaseCalendar]:
        """Return this calendar, its base, the base of the base, and so on."""
        layer: BaseCalendar | None = self
        while layer is not None:
            yield layer
            layer = layer.base

    def with_base(self, base: BaseCalendar | None) -> Self:
        """Return this calendar with another base."""
        return replace(self, base=base)

    def joined(self, *others: BaseCalendar) -> Self:
        """Return this calendar with others at the end of its chain: it excludes what any of them excludes.

        Raises:
            InvalidCalendarError: one of them is no calendar, or together they are more than 32.
        """
        joined: BaseCalendar | None = None
        for calendar in reversed((self, *others)):
            if not isinstance(calendar, BaseCalendar):
                raise InvalidCalendarError(f"joined: must be calendars (got {type(calendar).__name__})")
            for layer in reversed(tuple(calendar.chain())):
                joined = layer.with_base(joined)
        assert isinstance(joined, type(self))
        return joined

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
        up.

        Raises:
            InvalidCalendarError: `instant` has no time zone.
            ScheduleTooCostlyError: the search takes too many steps.
        """
        with Budget():
            return self._next_included(as_instant(instant, "instant", InvalidCalendarError))

    def _next_included(self, moment: datetime) -> datetime | None:
        try:
            latest = moment + SEARCH_LIMIT
        except OverflowError:
            latest = datetime.max.replace(tzinfo=UTC)
        layers = tuple(self.chain())
        content = 0
        for turn in range(_MAX_TURNS):
            layer = layers[turn % len(layers)]
            included = first_instant(moment, latest, zone(layer.time_zone), layer.next_wall_time)
            if included is None:
                return None
            content = content + 1 if included == moment else 1
            if content >= len(layers):
                return included
            moment = included
        return None

    @abstractmethod
    def next_wall_time(self, wall: datetime) -> datetime | None:
        """Return the first wall-clock time at or after `wall` that this calendar, without its base, includes.

        Both are naive. None means that the calendar excludes all later times.
        """

    def includes_wall_time(self, wall: datetime) -> bool:
        """Return True if this calendar, without its base, includes `wall`."""
        return self.next_wall_time(wall) == wall

    def rules(self) -> dict[str, Any]:
        """Return the values that are specific to this kind as JSON, which `from_rules` reads back.

        The default returns all fields, in the JSON of job data.

        Raises:
            InvalidCalendarError: a field has a type that job data cannot hold.
        """
        names = [field.name for field in fields(self) if field.init and field.name not in (*COMMON, "base")]
        try:
            text = encode_value({name: getattr(self, name) for name in names}, self.kind, max_bytes=MAX_BYTES)
        except InvalidJobDataError as error:
            raise InvalidCalendarError(f"calendar: {error}; or override rules() and from_rules()") from error
        written: dict[str, Any] = json.loads(text)
        return written

    @classmethod
    def from_rules(cls, rules: Mapping[str, Any], **common: Any) -> Self:
        """Return the calendar with these `rules()`, with the common values given by name.

        `rules` has the common values as well. The default passes all other values to the constructor.
        """
        own = {name: value for name, value in rules.items() if name not in ("kind", *COMMON, "base")}
        return cls(**decode_value(json.dumps(own)), **common)


@dataclass(frozen=True, kw_only=True)
class WholeDayCalendar(BaseCalendar):
    """A calendar that excludes whole days, from midnight to midnight on the wall clock."""

    @abstractmethod
    def excludes_day(self, day: date) -> bool:
        """Return True if this calendar, without its base, excludes `day`."""

    @property
    def longest_exclusion(self) -> int:
        """Return the maximum number of days that are excluded in a row, unless all are.

        A search for an included day ends after that. The default is 100 years.
        """
        return SEARCH_LIMIT.days

    def includes_wall_time(self, wall: datetime) -> bool:
        return not self.excludes_day(wall.date())

    def next_wall_time(self, wall: datetime) -> datetime | None:
        day = wall.date()
        if not self.excludes_day(day):
            return wall
        for _ in range(self.longest_exclusion + 1):
            spend()
            day += _ONE_DAY
            if not self.excludes_day(day):
                return datetime.combine(day, time.min)
        return None


def first_instant(
    moment: datetime, latest: datetime, time_zone: tzinfo, next_wall_time: NextWallTime
) -> datetime | None:
    """Return the first instant from `moment` to `latest` with a wall-clock time that `next_wall_time` includes.

    Raises:
        InvalidCalendarError: `next_wall_time` does not return a naive datetime at or after its argument.
    """
    try:
        for _ in range(_MAX_MOVES):
            spend(_STEPS_OF_MOVE)
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
            change = next_change(moment, moment + _NEAR if is_far else candidate, time_zone)
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
        raise InvalidCalendarError(f"next_wall_time: must return a datetime without a time zone (got {quoted(target)})")
    if target < wall:
        raise InvalidCalendarError(f"next_wall_time: must not return a time before {wall} (got {target})")


def next_change(after: datetime, until: datetime, time_zone: tzinfo) -> datetime | None:
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
