"""Triggers that know business days: fires that are moved off days off, and the n-th business days of a period.

The business days are those of the trigger's calendar; see `quartzpy.calendars.business_days`. What follows holds for
both kinds: days are dates on the clock of the trigger's zone, and the hours that a calendar excludes on a business day
exclude fires, as they do for all triggers. A search ends with None after ten years without a business day.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, Self

from quartzpy.budget import Budget, spend
from quartzpy.calendars.business_days import MAX_DAYS_OFF, BusinessDays, Roll, as_roll, check_offset, hours_of
from quartzpy.calendars.calendar import Calendar, next_change
from quartzpy.checks import Check, checking, optional, refuses
from quartzpy.errors import InvalidCalendarError, InvalidTriggerError, ScheduleTooCostlyError
from quartzpy.instants import Converted, as_instant, checked_zone, zone
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.name_hints import TRIGGER_ARGUMENTS, constructor_hints
from quartzpy.texts import numbered, quoted
from quartzpy.triggers.combined import Combination, first_from, part_from_json, part_to_json
from quartzpy.triggers.recurring import RecurringTrigger
from quartzpy.triggers.trigger import MAX_REFUSALS, Trigger, TriggerProgress

MAX_TIMES = 1_440
"""The maximum number of times of day, one for each minute."""
MAX_NUMBERS = 366
_TICK = timedelta.resolution
_ONE_DAY = timedelta(days=1)
_LOOK_AHEAD_YEARS = 100
_STEPS_OF_TRY = 3


class _OfBusinessDays(RecurringTrigger):
    """What both kinds share: the calendar is needed for each fire time, and not only asked about it afterwards."""

    needs_calendar: ClassVar[bool] = True

    def next_included(self, instant: datetime, calendar: Calendar | None) -> datetime | None:
        instant = max(as_instant(instant, "instant"), self.anchor - _TICK)
        try:
            with Budget():
                following = self._search(instant, calendar)
        except ScheduleTooCostlyError:
            raise
        except (OverflowError, InvalidCalendarError):
            # The year 9999, or no business day within ten years.
            return None
        return None if following is None or (self.end_time and following > self.end_time) else following

    def _search(self, instant: datetime, calendar: Calendar | None) -> datetime | None:
        raise NotImplementedError

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire time after `instant` if every day is a business day."""
        return self.next_included(instant, None)

    def included_from(self, instant: datetime, calendar: Calendar | None) -> datetime | None:
        return self.next_included(instant - _TICK, calendar)

    def with_new_calendar(
        self, progress: TriggerProgress, calendar: Calendar, *, now: datetime, late_after: timedelta
    ) -> TriggerProgress:
        since = progress.previous_fire_time or self.anchor - _TICK
        return replace(progress, next_fire_time=self.next_included(max(since, now - late_after), calendar))

    def first_progress(self, calendar: Calendar | None = None) -> TriggerProgress:
        # Not checked by the constructor: a store builds the schedule of a row before its other columns are set.
        if self.calendar is None:
            raise InvalidTriggerError(
                f"calendar: trigger {self.label} needs the name of a stored calendar, which has the days off; such as"
                ' calendar="target"'
            )
        return super().first_progress(calendar)


@constructor_hints(TRIGGER_ARGUMENTS)
@dataclass(frozen=True)
class Rolled(_OfBusinessDays, Combination):
    """A trigger that fires when `trigger` does, and on a business day where that is a day off.

    `roll` is the rule that moves a fire from a day off to a business day of `calendar`, at the same local time:
    "following", "preceding", "modified_following", "modified_preceding" or "nearest"; see `Roll`. Then `offset` moves
    every fire by a number of business days; -2 is two business days before.

    The fires are in the order of their instants. Several that are moved to the same instant are one fire; several that
    are moved to one day at different times of day are as many fires. `start_time` and `end_time` bound the fires after
    they were moved, those of `trigger` before. The clock is that of `trigger`, or of `time_zone` if it has none. A
    local time that is skipped on the new day is the end of the gap; of one that occurs twice the first counts.

    Without a calendar, as in `next_after`, every day is a business day.
    """

    kind: ClassVar[str] = "rolled"

    name: str | None = None
    group: str = DEFAULT_GROUP
    _: KW_ONLY
    trigger: Trigger
    roll: Converted[Roll | str, Roll] = Converted(Roll.FOLLOWING)
    offset: int = 0
    time_zone: str | None = None

    _checks: ClassVar[Mapping[str, Check]] = {
        "roll": partial(as_roll, error=InvalidTriggerError),
        "offset": checking(check_offset, "offset", InvalidTriggerError),
        "time_zone": optional(checked_zone),
    }

    @refuses("trigger")
    def _adopt(self) -> None:
        part = self._adopted((self.trigger,))[0]
        if part.follows_end:
            raise InvalidTriggerError(f"trigger: the fires of a {part.kind} trigger follow from its executions")
        object.__setattr__(self, "trigger", part)

    def _declared(self) -> tuple[datetime | None, object]:
        return self.start_time, (self.roll, self.offset, self.time_zone)

    @property
    def parts(self) -> tuple[Trigger, ...]:
        return (self.trigger,)

    @property
    def text(self) -> str:
        return f"{self.trigger.text} ({self._moves})"

    @property
    def words(self) -> str:
        return f"{self.trigger.words}, {self._moves}, by the calendar {self.calendar}"

    @property
    def _moves(self) -> str:
        """To which business day a fire is moved."""
        moved = f"from a day off to the {str(self.roll).replace('_', ' ')} business day"
        if not self.offset:
            return moved
        count = abs(self.offset)
        direction = "later" if self.offset > 0 else "earlier"
        return f"{moved}, and {numbered(count, 'business day', 'business days')} {direction}"

    def schedule(self) -> dict[str, Any]:
        written = {"trigger": part_to_json(self.trigger), "roll": str(self.roll), "offset": self.offset}
        return written if self.time_zone is None else {**written, "time_zone": self.time_zone}

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        return cls(
            trigger=part_from_json(schedule["trigger"]),
            roll=schedule["roll"],
            offset=schedule["offset"],
            time_zone=schedule.get("time_zone"),
            **common,
        )

    @property
    def clock(self) -> str:
        """The name of the zone whose clock has the days and the times of day."""
        return self.time_zone or _zone_of(self.trigger) or "UTC"

    def _search(self, instant: datetime, calendar: Calendar | None) -> datetime | None:
        place = zone(self.clock)
        days = _DayMoves(Roll(self.roll), self.offset, None if calendar is None else _days(calendar, self.clock))
        hours = hours_of(calendar)
        today = instant.astimezone(place).date()
        first, _ = days.sources_of(days.first_from(today))
        since = _midnight(first, place)
        tries = _Tries()
        while (fire := first_from(self.trigger, since)) is not None and tries.remain():
            source = fire.astimezone(place).date()
            moved = days.moved(source)
            last = days.sources_of(moved)[1]
            candidates = []
            while fire is not None and (source := fire.astimezone(place).date()) <= last:
                candidates.append(self._first_on(source, moved, instant, place, hours, tries))
                since = _midnight(source + _ONE_DAY, place)
                fire = first_from(self.trigger, since)
            following = min(filter(None, candidates), default=None)
            if following is not None:
                return following
        return None

    def _first_on(
        self, source: date, moved: date, instant: datetime, place: tzinfo, hours: Calendar | None, tries: _Tries
    ) -> datetime | None:
        """Return the first fire after `instant` of those that are moved from one day to another."""
        fires = (self._first_in(*span, moved, instant, place, hours, tries) for span in _spans(source, place))
        return min(filter(None, fires), default=None)

    def _first_in(
        self,
        start: datetime,
        end: datetime,
        moved: date,
        instant: datetime,
        place: tzinfo,
        hours: Calendar | None,
        tries: _Tries,
    ) -> datetime | None:
        """Return that fire of those from `start` to `end`, between which the clock of the source is not changed."""
        stays = start.astimezone(place).date() == moved
        wall_start = start.astimezone(place).replace(tzinfo=None)
        since = start
        earliest = instant + _TICK
        while tries.remain():
            local = earliest.astimezone(place)
            if local.date() > moved:
                return None
            if stays:
                since = max(since, earliest)
            elif local.date() == moved:
                since = max(since, start + (datetime.combine(wall_start, local.time()) - wall_start))
            if since >= end:
                return None
            fire = first_from(self.trigger, since)
            if fire is None or fire >= end:
                return None
            there = fire if stays else _instant(moved, fire.astimezone(place).time(), place)
            if there < earliest:
                since = fire + _TICK
                continue
            allowed = there if hours is None else hours.next_included(there)
            if allowed is None or allowed == there:
                return allowed
            earliest = allowed
        return None


class _Tries:
    """The number of steps that one search may take."""

    def __init__(self) -> None:
        self._remaining = MAX_REFUSALS

    def remain(self) -> bool:
        spend(_STEPS_OF_TRY)
        self._remaining -= 1
        return self._remaining >= 0


class _DayMoves:
    """The business day to which each date is moved, and the dates that are moved to a business day."""

    def __init__(self, roll: Roll, offset: int, days: BusinessDays | None) -> None:
        self._roll = roll
        self._offset = offset
        self._days = days

    def first_from(self, day: date) -> date:
        return day if self._days is None else self._days.first_from(day)

    def moved(self, day: date) -> date:
        if self._days is None:
            return day + timedelta(days=self._offset)
        rolled = self._days.roll(day, self._roll)
        return self._days.add(rolled, self._offset)

    def sources_of(self, moved: date) -> tuple[date, date]:
        """Return the first and the last date that are moved to a business day."""
        if self._days is None:
            source = moved - timedelta(days=self._offset)
            return source, source
        rolled = self._days.add(moved, -self._offset)
        first = last = rolled
        if self._roll is not Roll.PRECEDING:
            first = self._furthest(rolled, -_ONE_DAY)
        if self._roll is not Roll.FOLLOWING:
            last = self._furthest(rolled, _ONE_DAY)
        return first, last

    def _furthest(self, rolled: date, step: timedelta) -> date:
        """Return the last date, walking from a business day over days off, that is moved to that business day."""
        assert self._days is not None
        off: list[date] = []
        day = rolled + step
        while len(off) < MAX_DAYS_OFF and not self._days.is_business_day(day):
            off.append(day)
            day += step
        before, after = (day, rolled) if step < timedelta() else (rolled, day)
        reached = [each for each in off if self._roll.chosen(each, before, after) == rolled]
        return reached[-1] if reached else rolled


class Period(StrEnum):
    """The period whose business days are counted."""

    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"

    def bounds(self, day: date) -> tuple[date, date]:
        """Return the first and the last date of the period that has this date. A week begins on Monday."""
        if self is Period.WEEK:
            monday = day - timedelta(days=day.weekday())
            return monday, monday + timedelta(days=6)
        months = {Period.MONTH: 1, Period.QUARTER: 3, Period.YEAR: 12}[self]
        month = day.month - (day.month - 1) % months
        past = month + months
        following = date(day.year + 1, 1, 1) if past > 12 else date(day.year, past, 1)
        return date(day.year, month, 1), following - _ONE_DAY


@constructor_hints(TRIGGER_ARGUMENTS)
@dataclass(frozen=True)
class BusinessDayTrigger(_OfBusinessDays):
    """Fires on the n-th business days of each month, quarter, year or week, at times of day.

        BusinessDayTrigger("payroll", nth=-2, at="18:00", time_zone="Europe/Berlin", calendar="target")

    `nth` is one number or several: 1 is the first business day of `calendar` in the `period`, -1 the last one. A period
    that has fewer has no such fire. Without `nth` it fires on every business day. `at` is one time of day or several,
    on the clock of `time_zone`: a `datetime.time` or a text such as "18:00". A time that the clock skips is the end of
    the gap; of one that occurs twice the first counts. `end_time` is inclusive.
    """

    kind: ClassVar[str] = "business_day"
    derives_nothing: ClassVar[bool] = True

    name: str | None = None
    group: str = DEFAULT_GROUP
    _: KW_ONLY
    nth: Converted[int | Collection[int] | None, tuple[int, ...]] = Converted(())
    at: Converted[time | str | Collection[time | str], tuple[time, ...]] = Converted()
    period: Converted[Period | str, Period] = Converted(Period.MONTH)
    time_zone: str = "UTC"

    _checks: ClassVar[Mapping[str, Check]] = {
        "nth": lambda nth: _numbers(nth),
        "at": lambda at: _times_of_day(at),
        "period": lambda period: _period(period),
        "time_zone": checked_zone,
    }

    @property
    def final_fire_time(self) -> datetime | None:
        """None, because it depends on the calendar."""
        return None

    @property
    def text(self) -> str:
        times = _listed([f"{at:%H:%M}" if not at.second else f"{at:%H:%M:%S}" for at in self.at])
        if not self.nth:
            return f"at {times} on every business day"
        days = _listed([f"the {_ordinal(number)}" for number in self.nth])
        return f"at {times} on {days} business day of the {self.period}"

    @property
    def words(self) -> str:
        return f"{self.text}, by the calendar {self.calendar} ({self.time_zone})"

    def schedule(self) -> dict[str, Any]:
        return {
            "nth": list(self.nth),
            "at": [each.isoformat() for each in self.at],
            "period": str(self.period),
            "time_zone": self.time_zone,
        }

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        return cls(**schedule, **common)

    def _search(self, instant: datetime, calendar: Calendar | None) -> datetime | None:
        place = zone(self.time_zone)
        hours = hours_of(calendar)
        today = instant.astimezone(place).date()
        tries = _Tries()
        for day in self._days_from(today, None if calendar is None else _days(calendar, self.time_zone)):
            for at in self.at:
                fire = _instant(day, at, place)
                if fire > instant and (hours is None or hours.is_included(fire)):
                    return fire
                if not tries.remain():
                    return None
        return None

    def _days_from(self, today: date, days: BusinessDays | None) -> Iterator[date]:
        """Yield the days of fires from `today` on, in order."""
        remaining = MAX_DAYS_OFF
        day = today
        while day.year - today.year <= _LOOK_AHEAD_YEARS:
            if not self.nth:
                day = day if days is None else days.first_from(day)
                yield day
                day += _ONE_DAY
                continue
            first, last = self.period.bounds(day)
            business = [each for each in _dates(first, last) if days is None or days.is_business_day(each)]
            remaining = remaining - (last - first).days - 1 if not business else MAX_DAYS_OFF
            if remaining < 0:
                return
            count = len(business)
            chosen = {number - 1 if number > 0 else count + number for number in self.nth if abs(number) <= count}
            yield from (business[index] for index in sorted(chosen) if business[index] >= today)
            day = last + _ONE_DAY


def _dates(first: date, last: date) -> Iterable[date]:
    return (first + timedelta(days=number) for number in range((last - first).days + 1))


def _period(value: str) -> Period:
    try:
        return Period(value)
    except ValueError:
        raise InvalidTriggerError(f"period: one of {', '.join(Period)} (got {quoted(value)})") from None


def _numbers(value: object) -> tuple[int, ...]:
    several = () if value is None else _several(value)
    numbers = {number for number in several if type(number) is int and 1 <= abs(number) <= MAX_NUMBERS}
    if len(numbers) != len(set(several)):
        raise InvalidTriggerError(
            f"nth: 1 for the first, -1 for the last business day, up to {MAX_NUMBERS}, or several (got {quoted(value)})"
        )
    return tuple(sorted(numbers, key=lambda number: (number < 0, number)))


def _times_of_day(value: object) -> tuple[time, ...]:
    several = _several(value)
    if not 1 <= len(several) <= MAX_TIMES:
        raise InvalidTriggerError(f"at: from 1 to {MAX_TIMES} times of day (got {len(several)})")
    return tuple(sorted({_time_of_day(each) for each in several}))


def _several(value: object) -> tuple[object, ...]:
    """Return the values of a collection, or the one value."""
    return tuple(value) if isinstance(value, Collection) and not isinstance(value, (str, bytes)) else (value,)


def _time_of_day(value: object) -> time:
    at = value
    if isinstance(value, str):
        try:
            at = time.fromisoformat(value)
        except ValueError:
            at = None
    if not isinstance(at, time) or at.tzinfo is not None or at.microsecond:
        raise InvalidTriggerError(f'at: times of day in whole seconds, such as "18:00" (got {quoted(value)})')
    return at


def _days(calendar: Calendar, time_zone: str) -> BusinessDays:
    return BusinessDays(calendar, time_zone=time_zone)


def _zone_of(trigger: Trigger) -> str | None:
    """Return the zone of a trigger, or the first one of its parts."""
    named = getattr(trigger, "time_zone", None)
    if isinstance(named, str):
        return named
    parts = trigger.parts if isinstance(trigger, Combination) else ()
    return next((named for part in parts if (named := _zone_of(part)) is not None), None)


def _instant(day: date, at: time, place: tzinfo) -> datetime:
    """Return the instant of a local time; of one that the clock skips the end of the gap, of a double one the first."""
    wall = datetime.combine(day, at.replace(fold=0), place)
    instant = wall.astimezone(UTC)
    if instant.astimezone(place).replace(tzinfo=None) == wall.replace(tzinfo=None):
        return instant
    before = instant - _ONE_DAY
    change = next_change(before, instant, place)
    return instant if change is None else change


def _midnight(day: date, place: tzinfo) -> datetime:
    """Return the first instant of a day."""
    return _instant(day, time(), place)


def _spans(day: date, place: tzinfo) -> list[tuple[datetime, datetime]]:
    """Return the spans of a day between which its clock is changed: mostly one."""
    start, end = _midnight(day, place), _midnight(day + _ONE_DAY, place)
    spans = []
    while (change := next_change(start, end, place)) is not None and change < end:
        spans.append((start, change))
        start = change
    return [*spans, (start, end)]


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _ordinal(number: int) -> str:
    if number == -1:
        return "last"
    count = abs(number)
    ending = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}" if number > 0 else f"{count}{ending} last"
