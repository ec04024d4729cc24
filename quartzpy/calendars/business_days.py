"""Business days: the dates that calendars do not exclude, and the arithmetic with them.

A date is a business day if each layer of each calendar includes some time of it. Dates are compared as dates: the
25 December of a calendar is the 25 December of whoever asks, whatever time zone the calendar has.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import assert_never

from quartzpy.budget import spend
from quartzpy.calendars.calendar import BaseCalendar, Calendar, WholeDayCalendar
from quartzpy.errors import InvalidCalendarError, InvalidValueError
from quartzpy.instants import zone
from quartzpy.texts import quoted

MAX_DAYS_OFF = 3_660
"""The number of days off in a row, ten years, after which a search for a business day ends."""
MAX_OFFSET = 1_000
"""The largest offset in business days, in either direction."""
_ONE_DAY = timedelta(days=1)
# The steps of the budget in which a calendar of times of day is asked for a day.
_STEPS_OF_HOURS = 2


class Roll(StrEnum):
    """The rules that move a date which is not a business day.

    FOLLOWING and PRECEDING move it to the next and to the previous business day. MODIFIED_FOLLOWING does as FOLLOWING
    unless that leaves the month, and then as PRECEDING; MODIFIED_PRECEDING is its mirror image. NEAREST moves it to the
    nearer of the two, and to the next one if both are equally far.
    """

    FOLLOWING = "following"
    PRECEDING = "preceding"
    MODIFIED_FOLLOWING = "modified_following"
    MODIFIED_PRECEDING = "modified_preceding"
    NEAREST = "nearest"

    def chosen(self, day: date, before: date, after: date) -> date:
        """Return the business day for a day off between two neighbouring business days."""
        match self:
            case Roll.FOLLOWING:
                return after
            case Roll.PRECEDING:
                return before
            case Roll.MODIFIED_FOLLOWING:
                return after if _month(after) == _month(day) else before
            case Roll.MODIFIED_PRECEDING:
                return before if _month(before) == _month(day) else after
            case Roll.NEAREST:
                return before if day - before < after - day else after
            case never:
                assert_never(never)


def _month(day: date) -> tuple[int, int]:
    return day.year, day.month


def as_roll(value: object, error: type[InvalidValueError] = InvalidCalendarError) -> Roll:
    """Return the rule of this name.

    Raises:
        InvalidValueError (or `error`): there is no such rule.
    """
    try:
        return Roll(value)  # type: ignore[arg-type]
    except ValueError:
        raise error(f"roll: one of {', '.join(Roll)} (got {quoted(value)})") from None


class BusinessDays:
    """The business days of one or several calendars: of `BusinessDays(target, new_york)`, those of both.

        days = BusinessDays(target)
        days.roll(date(2026, 12, 26), "modified_following")
        days.add(date(2026, 12, 23), 2)                        # T+2
        days.nth(-1, date(2026, 12, 1), date(2026, 12, 31))    # the last one of December

    `time_zone` matters only for calendars that are not derived from `BaseCalendar`, which know instants and no dates.

    A search that meets ten years without a business day raises InvalidCalendarError.
    """

    def __init__(self, *calendars: Calendar, time_zone: str = "UTC") -> None:
        if not calendars:
            raise InvalidCalendarError(
                "BusinessDays: at least one calendar is needed; WeeklyCalendar() has weekends off"
            )
        self.calendars = calendars
        self._zone = zone(time_zone)
        self._layers: list[BaseCalendar] = []
        self._others: list[Calendar] = []
        for calendar in calendars:
            if isinstance(calendar, BaseCalendar):
                self._layers.extend(calendar.chain())
            else:
                self._others.append(calendar)

    def is_business_day(self, day: date) -> bool:
        """Return True if no calendar has this day off."""
        # A loop, because years of days are searched one by one.
        spend(len(self._layers))
        for layer in self._layers:
            if _is_off(layer, day):
                return False
        return all(self._includes_some(calendar, day) for calendar in self._others) if self._others else True

    def _includes_some(self, calendar: Calendar, day: date) -> bool:
        start = datetime.combine(day, time(), self._zone).astimezone(UTC)
        included = calendar.next_included(start)
        return included is not None and included.astimezone(self._zone).date() <= day

    def first_from(self, day: date) -> date:
        """Return `day` if it is a business day, otherwise the next one."""
        return self._search(day, _ONE_DAY)

    def last_until(self, day: date) -> date:
        """Return `day` if it is a business day, otherwise the previous one."""
        return self._search(day, -_ONE_DAY)

    def after(self, day: date) -> date:
        """Return the first business day after `day`."""
        return self._search(_moved(day, _ONE_DAY), _ONE_DAY)

    def before(self, day: date) -> date:
        """Return the last business day before `day`."""
        return self._search(_moved(day, -_ONE_DAY), -_ONE_DAY)

    def _search(self, day: date, step: timedelta) -> date:
        candidate = day
        for _ in range(MAX_DAYS_OFF):
            if self.is_business_day(candidate):
                return candidate
            candidate = _moved(candidate, step)
        direction = "after" if step > timedelta() else "before"
        raise InvalidCalendarError(
            f"calendar: it has no business day within {MAX_DAYS_OFF} days {direction} {day.isoformat()}"
        )

    def roll(self, day: date, rule: Roll | str = Roll.FOLLOWING) -> date:
        """Return `day` if it is a business day, otherwise the business day that a rule chooses; see `Roll`."""
        chosen = as_roll(rule)
        if self.is_business_day(day):
            return day
        if chosen is Roll.FOLLOWING:
            return self.after(day)
        if chosen is Roll.PRECEDING:
            return self.before(day)
        return chosen.chosen(day, self.before(day), self.after(day))

    def add(self, day: date, count: int) -> date:
        """Return the business day that is `count` business days after `day`, or before it if `count` is negative.

        `add(day, 2)` is T+2. A day off counts from the business day before it if `count` is positive, and from the one
        after it if `count` is negative: a day after a Saturday is Monday. `add(day, 0)` is `first_from(day)`.

        Raises:
            InvalidCalendarError: `count` is not an integer up to 1,000, or there are ten years without a business day.
        """
        check_offset(count, "count", InvalidCalendarError)
        if count == 0:
            return self.first_from(day)
        step = self.after if count > 0 else self.before
        for _ in range(abs(count)):
            day = step(day)
        return day

    def nth(self, number: int, first: date, last: date) -> date | None:
        """Return the business day with this number from `first` to `last`, -1 being the last; None if there are fewer.

        Raises:
            InvalidCalendarError: `number` is 0 or no integer, or the period is longer than ten years.
        """
        if type(number) is not int or number == 0:
            raise InvalidCalendarError(f"number: 1 for the first, -1 for the last business day (got {quoted(number)})")
        remaining = abs(number)
        for day in self._period(first, last, reverse=number < 0):
            remaining -= self.is_business_day(day)
            if not remaining:
                return day
        return None

    def count(self, first: date, last: date) -> int:
        """Return the number of business days from `first` to `last`, both included.

        Raises:
            InvalidCalendarError: the period is longer than ten years.
        """
        return sum(map(self.is_business_day, self._period(first, last)))

    def _period(self, first: date, last: date, *, reverse: bool = False) -> Iterator[date]:
        length = (last - first).days + 1
        if length > MAX_DAYS_OFF:
            raise InvalidCalendarError(f"period: at most {MAX_DAYS_OFF} days (got {length})")
        numbers = range(length - 1, -1, -1) if reverse else range(length)
        return (first + timedelta(days=number) for number in numbers)


def check_offset(count: object, subject: str, error: type[InvalidValueError]) -> None:
    """Check an offset in business days.

    Raises:
        InvalidValueError (or `error`): it is no integer, or is too large.
    """
    if type(count) is not int or abs(count) > MAX_OFFSET:
        raise error(f"{subject}: a number of business days from -{MAX_OFFSET} to {MAX_OFFSET} (got {quoted(count)})")


def _moved(day: date, step: timedelta) -> date:
    try:
        return day + step
    except OverflowError:
        raise InvalidCalendarError(f"calendar: it has no business day up to {day.isoformat()}") from None


def _is_off(layer: BaseCalendar, day: date) -> bool:
    if isinstance(layer, WholeDayCalendar):
        return layer.excludes_day(day)
    spend(_STEPS_OF_HOURS)
    midnight = datetime.combine(day, time())
    included = layer.next_wall_time(midnight)
    return included is None or included.date() > day


def hours_of(calendar: Calendar | None) -> Calendar | None:
    """Return the part of a calendar that excludes times of day and no whole days; None if there is none."""
    if calendar is None or not isinstance(calendar, BaseCalendar):
        return calendar
    hours: BaseCalendar | None = None
    for layer in reversed(list(calendar.chain())):
        if not isinstance(layer, WholeDayCalendar):
            hours = layer.with_base(hours)
    return hours
