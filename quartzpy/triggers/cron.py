"""A trigger that fires whenever the wall-clock time of a time zone matches a cron expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Any, ClassVar, Self

from quartzpy.calendars.calendar import Calendar
from quartzpy.checks import Check, refuses
from quartzpy.cron_expressions.crontab import FIELDS, MAX_LENGTH, CrontabExpression, crontab_expression, is_crontab
from quartzpy.cron_expressions.expression import CronExpression, checked_text, cron_expression
from quartzpy.cron_expressions.field_parser import uses_hash
from quartzpy.cron_expressions.schedule import DaylightSaving, checked_policy
from quartzpy.errors import InvalidCronError, InvalidTriggerError
from quartzpy.instants import as_instant, checked_zone, zone, zone_name
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.name_hints import CRON_ARGUMENTS, constructor_hints
from quartzpy.texts import quoted
from quartzpy.triggers.recurring import RecurringMisfire, RecurringTrigger
from quartzpy.triggers.trigger import TriggerOptions, TriggerProgress

CronMisfire = RecurringMisfire


class CronOptions(TriggerOptions, total=False):
    """What the builders of `quartzpy.cron` take beside the time of day; see `CronTrigger`."""

    name: str | None
    group: str
    start_time: datetime | None
    time_zone: str
    dst: DaylightSaving | str


QUARTZ, CRONTAB = "quartz", "crontab"
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class _Expression:
    """The first positional argument, in a base class because the fields of `RecurringTrigger` precede a subclass's."""

    expression: str


@constructor_hints(CRON_ARGUMENTS)
@dataclass(frozen=True)
class CronTrigger(RecurringTrigger, _Expression):
    """Fires by a cron expression: `CronTrigger("0 0 2 ? * MON-FRI", "at-two", time_zone="Europe/Berlin")`.

    Six or seven fields are Quartz's dialect: seconds, minutes, hours, day of month, month, day of week (Sunday is 1)
    and perhaps the year. Five fields and aliases such as `@daily` are a crontab line, in which Sunday is 0 or 7, as
    `from_crontab` reads it. `dialect` ("quartz" or "crontab") decides otherwise.

    `dst` is the policy for times that a change of the clock skips or repeats, in both dialects. `day_or` combines the
    two day fields if both restrict the days: True means that either must match, False that both must. An `H` in the
    expression is a value that is derived from the trigger's key: it is the same on all nodes, and differs from trigger
    to trigger.

    The fraction of a second of `start_time` is ignored; `end_time` is inclusive, as in Quartz. `time_zone` is an IANA
    name, an offset such as "+02:00", a `ZoneInfo` or a `datetime.timezone`.

    Raises:
        InvalidCronError: The expression, `dst` or `day_or` is wrong.
        UnknownTimeZoneError: There is no such time zone.
        InvalidTriggerError: `dialect` or a value that all triggers have is wrong.
    """

    kind: ClassVar[str] = "cron"
    misfire_type: ClassVar[type[StrEnum]] = CronMisfire
    derives_nothing: ClassVar[bool] = True
    _checks: ClassVar[Mapping[str, Check]] = {
        "expression": checked_text,
        "dialect": lambda dialect: _dialect(dialect),
        "time_zone": checked_zone,
    }

    name: str | None = None
    group: str = DEFAULT_GROUP
    time_zone: str = "UTC"
    dst: DaylightSaving | str = DaylightSaving.ONCE
    dialect: str = ""
    day_or: bool | None = None

    @refuses("expression")
    def _take_dialect(self) -> None:
        if not self.dialect:
            object.__setattr__(self, "dialect", CRONTAB if is_crontab(self.expression) else QUARTZ)

    @refuses("start_time")
    def _take_start(self) -> None:
        if self.start_time is not None:
            object.__setattr__(self, "start_time", self._start_at(self.start_time))

    @refuses("dst")
    def _take_dst(self) -> None:
        object.__setattr__(self, "dst", checked_policy(self.dst, str(self.expression)))

    @refuses("day_or")
    def _check_day_or(self) -> None:
        # The cache of expressions takes True for 1.
        if not (self.day_or is None or isinstance(self.day_or, bool)):
            raise InvalidCronError(
                f"day_or: must be True, False or None (got {quoted(self.day_or)})", expression=str(self.expression)
            )

    @refuses("expression")
    def _take_expression(self) -> None:
        set_value = object.__setattr__
        set_value(self, "_is_seeded", uses_hash(self.expression))
        expression = self.cron.text
        if len(expression) > MAX_LENGTH:
            raise InvalidCronError(
                f"cron expression: {len(expression)} characters without needless blanks, at most {MAX_LENGTH}",
                expression=expression,
                position=MAX_LENGTH,
                allowed=f"{MAX_LENGTH} characters",
            )
        set_value(self, "expression", expression)

    def _start_at(self, instant: datetime) -> datetime:
        return instant.replace(microsecond=0)

    @classmethod
    def from_crontab(
        cls,
        expression: str,
        name: str | None = None,
        group: str = DEFAULT_GROUP,
        *,
        time_zone: str | tzinfo = "UTC",
        seconds_last: bool = False,
        day_or: bool | None = None,
        **common: Any,
    ) -> Self:
        """Return a trigger for a crontab line of five fields (Sunday is 0 or 7), or an alias such as `@daily`.

        Six fields begin with seconds, as in most libraries; with `seconds_last` they end with seconds, as in croniter.
        Where both day fields restrict the days, either must match; with `day_or=False` both must.

        Raises:
            InvalidCronError: The line is wrong.
        """
        if seconds_last and isinstance(expression, str):
            *others, seconds = expression.split() or [""]
            if len(others) != FIELDS:
                raise InvalidCronError(
                    f"crontab: seconds_last needs six fields, the last of them for seconds (got {quoted(expression)})",
                    expression=expression,
                    allowed="6 fields",
                )
            expression = " ".join([seconds, *others])
        return cls(expression, name, group, time_zone=zone_name(time_zone), dialect=CRONTAB, day_or=day_or, **common)

    @property
    def cron(self) -> CronExpression | CrontabExpression:
        """The expression in its time zone, with the methods that ask about its instants."""
        seed = f"{self.group}.{self.name or ''}" if self.__dict__["_is_seeded"] else None
        if self.dialect == CRONTAB:
            return crontab_expression(self.expression, self.time_zone, str(self.dst), self.day_or, seed)
        return cron_expression(self.expression, self.time_zone, str(self.dst), self.day_or, seed)

    def describe(self) -> str:
        """The expression in plain English, with its time zone."""
        return self.cron.describe()

    def next_after(self, instant: datetime) -> datetime | None:
        if instant < self.anchor:
            return self.first_from(self.anchor)
        return self._bounded(self.cron.next_after(instant))

    def _bounded(self, instant: datetime | None) -> datetime | None:
        return instant if instant is None or self.end_time is None or instant <= self.end_time else None

    def first_from(self, instant: datetime) -> datetime | None:
        return self._bounded(self.cron.next_after(max(instant, self.anchor) - _MICROSECOND))

    def following(self, progress: TriggerProgress, calendar: Calendar | None, count: int) -> list[datetime]:
        fired = progress.next_fire_time
        if calendar is not None or fired is None or fired < self.anchor:
            return super().following(progress, calendar, count)
        instants = self.cron.upcoming(fired, count)
        return instants if self.end_time is None else [instant for instant in instants if instant <= self.end_time]

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire time strictly before `instant`, between start and end; None if there is none.

        Calendars are ignored. A trigger without a start time has no lower bound.
        """
        instant = as_instant(instant, "instant")
        if self.end_time is not None and self.end_time < instant:
            instant = self.end_time + _MICROSECOND
        previous = self.cron.previous_before(instant)
        return previous if previous is None or self.start_time is None or previous >= self.start_time else None

    def is_satisfied_by(self, instant: datetime) -> bool:
        """Return True if the trigger fires in the second of `instant`. Calendars are ignored, start and end are not."""
        second = as_instant(instant, "instant").replace(microsecond=0)
        is_started = self.start_time is None or second >= self.start_time
        return is_started and self._bounded(second) is not None and self.cron.is_satisfied_by(second)

    def next_invalid_after(self, instant: datetime) -> datetime | None:
        """Return the first whole second after `instant` that the expression does not match; None if it matches all.

        Start, end and calendars are ignored.
        """
        return self.cron.next_invalid_after(instant)

    def will_fire_on(self, day: date, calendar: Calendar | None = None) -> bool:
        """Return True if the trigger fires on a day of its time zone, at a time that `calendar` includes.

        If `day` is a datetime with a time zone, return True if the trigger fires in that second.

        Raises:
            InvalidTriggerError: `day` is neither a date nor a datetime with a time zone.
        """
        if isinstance(day, datetime):
            second = as_instant(day, "day").replace(microsecond=0)
            return self.is_satisfied_by(second) and (calendar is None or calendar.is_included(second))
        if not isinstance(day, date):
            raise InvalidTriggerError(f"day: must be a date or a datetime with a time zone (got {quoted(day)})")
        place = zone(self.time_zone)
        # If the clock skips midnight, this is the end of the gap.
        since = as_instant(datetime.combine(day, time(), place), "day")
        started = self.anchored(since)
        following = started.included_from(since, calendar)
        while following is not None and (shown := following.astimezone(place).date()) <= day:
            if shown == day:
                return True
            following = started.next_included(following, calendar)
        return False

    @property
    def final_fire_time(self) -> datetime | None:
        """The last fire time up to the end time; None without an end time."""
        if self.end_time is None:
            return None
        cron = self.cron
        end = self.end_time.replace(microsecond=0)
        last = end if cron.is_satisfied_by(end) else cron.previous_before(end)
        return last if last is not None and last >= self.anchor else None

    @property
    def text(self) -> str:
        return self.expression

    @property
    def words(self) -> str:
        return self.describe()

    def schedule(self) -> dict[str, Any]:
        stored = {
            "expression": self.expression,
            "time_zone": self.time_zone,
            "dialect": self.dialect,
            "dst": str(self.dst),
        }
        return stored if self.day_or is None else {**stored, "day_or": self.day_or}

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        return cls(
            schedule["expression"],
            time_zone=schedule["time_zone"],
            dialect=schedule["dialect"],
            dst=schedule["dst"],
            day_or=schedule.get("day_or"),
            **common,
        )


def _dialect(value: str) -> str:
    if value not in ("", QUARTZ, CRONTAB):
        raise InvalidTriggerError(f"dialect: must be {QUARTZ!r} or {CRONTAB!r} (got {quoted(value)})")
    return value
