"""From wall-clock times to instants: a timetable in a time zone, and the base of both cron dialects."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache

from quartzpy.cron_expressions.fields import CronFields
from quartzpy.cron_expressions.timetable import LAST_YEAR, LONG_AGO, NEVER, Timetable
from quartzpy.cron_expressions.transitions import Passes, Window, ZoneWindows, zone_windows
from quartzpy.errors import InvalidCronError, InvalidValueError
from quartzpy.instants import Converted, as_instant, zone_name
from quartzpy.texts import quoted

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400
# Nearer than this to a change of the clock, wall-clock times may come again or be left out.
_NEAR = 2 * _DAY
_BEYOND = int((datetime(LAST_YEAR + 1, 1, 3, tzinfo=UTC) - _EPOCH).total_seconds())
_from_timestamp = datetime.fromtimestamp


class DaylightSaving(StrEnum):
    """The policy for wall-clock times that a change of the clock skips or repeats.

    ONCE: An expression that lists times of day (its seconds, minutes and hours are values or lists of values) fires
    exactly once for each of them: on the first pass if the time occurs twice, and at the end of the gap if the clock
    skips it. An expression with a wildcard, a step or a range in seconds, minutes or hours that stands for several
    values is a rhythm and follows the elapsed time: it fires during both passes, and times that the clock skips are
    left out.

    QUARTZ: The behaviour of Quartz. Times that the clock skips are left out. A time that occurs twice fires on the
    second pass, so a rhythm does not fire during the first.
    """

    ONCE = "once"
    QUARTZ = "quartz"


class Schedule:
    """The instants at which the clock of a zone shows a time of a timetable, as whole seconds since 1970 in UTC.

    `is_rhythm` determines how `DaylightSaving.ONCE` applies.
    """

    __slots__ = ("_fires_after_gaps", "_table", "_windows")

    def __init__(self, table: Timetable, time_zone: str, dst: DaylightSaving, *, is_rhythm: bool) -> None:
        if dst is DaylightSaving.QUARTZ:
            passes = Passes.SECOND
        else:
            passes = Passes.BOTH if is_rhythm else Passes.FIRST
        self._table = table
        self._windows = zone_windows(time_zone, passes)
        self._fires_after_gaps = passes is Passes.FIRST

    def from_instant(self, at: int) -> int:
        """Return the first instant at or after `at`; NEVER if there is none."""
        windows: ZoneWindows = self._windows
        next_wall_time = self._table.next_from
        while True:
            window = windows.latest
            if not window.start <= at < window.end:
                window = windows.at(at)
            start, end, offset, live_from, live_until, _, skipped = window
            if at < live_from:
                at = live_from
            elif at == start and self._fires_after_gaps and self._leaps_over_a_match(window):
                return start
            instant = next_wall_time(at + offset) - offset
            if instant < live_until:
                return instant
            if skipped and self._fires_after_gaps and instant < end + skipped:
                return end
            if end - at > _NEAR and instant - end > 2 * _NEAR:
                # All clocks until shortly before `found` show times among which none matches.
                if instant > _BEYOND:
                    return NEVER
                at = instant - _NEAR
            else:
                at = end

    def until_instant(self, at: int) -> int:
        """Return the last instant at or before `at`; LONG_AGO if there is none."""
        while True:
            window = self._windows.at(at)
            start, _, offset, live_from, live_until, skipped, _ = window
            instant = self._table.last_until(min(at, live_until - 1) + offset) - offset
            if instant >= live_from:
                return instant
            if skipped and self._fires_after_gaps and instant >= start - skipped:
                return start
            if at - start > _NEAR and start - instant > 2 * _NEAR:
                if instant < -_BEYOND:
                    return LONG_AGO
                at = instant + _NEAR
            else:
                at = start - 1

    def includes(self, at: int) -> bool:
        window = self._window_at(at)
        if window.live_from <= at < window.live_until and self._table.matches(at + window.offset):
            return True
        return self._fires_after_gaps and at == window.start and self._leaps_over_a_match(window)

    def first_missing_from(self, at: int) -> int:
        """Return the first second at or after `at` that is not one of the instants; NEVER if all are."""
        keeps_all = self._windows.keeps_all
        if keeps_all and self._table.matches_always and at >= _DAY:
            return NEVER
        while self.includes(at):
            window = self._windows.at(at)
            missing = self._table.next_unmatched_from(at + window.offset) - window.offset
            if missing < window.live_until:
                at = max(missing, at + 1)
            elif keeps_all and window.end - at > _NEAR and missing - window.end > 2 * _NEAR:
                at = missing - _NEAR
            else:
                at = max(window.live_until, at + 1)
            if at > _BEYOND:
                return NEVER
        return at

    def instants_from(self, at: int, count: int) -> list[int]:
        """Return the first `count` instants at or after `at`, faster than repeated calls of `from_instant`."""
        instants: list[int] = []
        while len(instants) < count and (at := self.from_instant(at)) != NEVER:
            instants.append(at)
            if self._table.is_frequent:
                window = self._window_at(at)
                offset, until = window.offset, window.live_until + window.offset
                walls = self._table.times_from(at + 1 + offset, until, count - len(instants))
                instants += [wall - offset for wall in walls]
            at = instants[-1] + 1
        return instants

    def _window_at(self, at: int) -> Window:
        latest = self._windows.latest
        return latest if latest.start <= at < latest.end else self._windows.at(at)

    def _leaps_over_a_match(self, window: Window) -> bool:
        """Return True if the clock change at the window's start skips a matching time."""
        if not window.skipped_before:
            return False
        wall = window.start + window.offset
        return self._table.next_from(wall - window.skipped_before) < wall


@dataclass(frozen=True, slots=True)
class ScheduleExpression:
    """The common part of both dialects: an expression for wall-clock times in a time zone, and its instants.

    All answers are in UTC and on whole seconds; the years are 1970 to 2199. Safe between threads.

    The methods raise InvalidValueError where `instant` has no time zone.
    """

    text: str
    time_zone: str = "UTC"
    dst: Converted[DaylightSaving | str, DaylightSaving] = Converted(DaylightSaving.ONCE)
    _schedule: Schedule = field(init=False, repr=False, compare=False)

    def _set_values(self, fields: CronFields) -> None:
        """Set all values from the parsed fields, in the dialect's `__post_init__`.

        Raises:
            InvalidCronError, UnknownTimeZoneError: `dst` or `time_zone` is wrong.
        """
        set_value = object.__setattr__
        set_value(self, "text", fields.text)
        set_value(self, "time_zone", zone_name(self.time_zone))
        set_value(self, "dst", checked_policy(self.dst, self.text))
        set_value(self, "_schedule", _schedule_of(fields, self.time_zone, self.dst))

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first instant strictly after `instant`; None if there is none."""
        following = self._schedule.from_instant(_seconds(instant) + 1)
        return None if following == NEVER else _from_timestamp(following, UTC)

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last instant strictly before `instant`; None if there is none."""
        at = _seconds(instant)
        previous = self._schedule.until_instant(at if instant.microsecond else at - 1)
        return None if previous == LONG_AGO else _from_timestamp(previous, UTC)

    def is_satisfied_by(self, instant: datetime) -> bool:
        """Return True if the second of `instant` matches."""
        return self._schedule.includes(_seconds(instant))

    def next_invalid_after(self, instant: datetime) -> datetime | None:
        """Return the first whole second after that of `instant` that does not match; None if all do."""
        missing = self._schedule.first_missing_from(_seconds(instant) + 1)
        return None if missing == NEVER else _from_timestamp(missing, UTC)

    def upcoming(self, instant: datetime, count: int) -> list[datetime]:
        """Return the first `count` instants strictly after `instant`, or fewer if there are no more."""
        return [_from_timestamp(at, UTC) for at in self._schedule.instants_from(_seconds(instant) + 1, count)]


def _seconds(instant: datetime) -> int:
    if instant.__class__ is not datetime or instant.tzinfo is not UTC:
        instant = as_instant(instant, "instant", InvalidValueError)
    since = instant - _EPOCH
    return since.days * _DAY + since.seconds


def checked_policy(dst: object, text: str) -> DaylightSaving:
    """Return the policy of that name.

    Raises:
        InvalidCronError: There is no such policy.
    """
    try:
        return DaylightSaving(str(dst))
    except ValueError:
        allowed = ", ".join(DaylightSaving)
        raise InvalidCronError(
            f"dst: must be one of {allowed} (got {quoted(dst)})", expression=text, allowed=allowed
        ) from None


@lru_cache(maxsize=4096)
def _schedule_of(fields: CronFields, time_zone: str, dst: DaylightSaving) -> Schedule:
    """Return the schedule of a parsed expression; equal arguments return the same object."""
    return Schedule(fields.timetable(), time_zone, dst, is_rhythm=fields.is_interval)
