"""A cron trigger: fires whenever the clock of a zone shows a time that its expression means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Self

from quartzpy.cron.crontab import MAX_LENGTH, CrontabExpression, crontab_expression
from quartzpy.cron.expression import CronExpression, checked_text, cron_expression
from quartzpy.cron.schedule import DaylightSaving
from quartzpy.errors import InvalidCronError, InvalidTriggerError
from quartzpy.instants import zone
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.triggers.recurring import RecurringMisfire, RecurringTrigger

CronMisfire = RecurringMisfire

QUARTZ, CRONTAB, CRONTAB_SECONDS_FIRST = "quartz", "crontab", "crontab_seconds_first"


@dataclass(frozen=True)
class _Expression:
    """The first positional argument: a base of its own, because the common ones come before a subclass's."""

    expression: str


@dataclass(frozen=True)
class CronTrigger(RecurringTrigger, _Expression):
    """Fires by a Quartz cron expression: `CronTrigger("0 0 2 ? * MON-FRI", "at-two", time_zone="Europe/Berlin")`.

    Seconds, minutes, hours, day of month, month, day of week and perhaps year. `from_crontab` takes standard
    five-field expressions. `dst` says what becomes of times that the change of the clock leaps over or repeats.
    The start's fraction of a second is cut off; the end is inclusive, as in Quartz.
    """

    kind: ClassVar[str] = "cron"
    misfire_type: ClassVar[type[StrEnum]] = CronMisfire

    name: str | None = None
    group: str = DEFAULT_GROUP
    time_zone: str = "UTC"
    dst: DaylightSaving | str = DaylightSaving.ONCE
    dialect: str = QUARTZ

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dialect not in (QUARTZ, CRONTAB, CRONTAB_SECONDS_FIRST):
            raise InvalidTriggerError(f"dialect: {QUARTZ}, {CRONTAB}, {CRONTAB_SECONDS_FIRST} (got {self.dialect!r})")
        if self.start_time is not None and self.start_time.microsecond:
            object.__setattr__(self, "start_time", self.start_time.replace(microsecond=0))
        # Before the cache of expressions is asked, which takes only what has a hash.
        checked_text(self.expression)
        zone(self.time_zone)
        expression = self.cron.text
        if len(expression) > MAX_LENGTH:
            raise InvalidCronError(
                f"cron expression: {len(expression)} characters without needless blanks, at most {MAX_LENGTH}",
                expression=expression,
                position=MAX_LENGTH,
                allowed=f"{MAX_LENGTH} characters",
            )
        object.__setattr__(self, "expression", expression)

    @classmethod
    def from_crontab(
        cls,
        expression: str,
        name: str | None = None,
        group: str = DEFAULT_GROUP,
        *,
        time_zone: str = "UTC",
        seconds_first: bool = False,
        **common: Any,
    ) -> Self:
        """A trigger for a crontab expression: five fields, Sunday is 0 or 7, or `@daily` and its kin.

        A sixth field is seconds: the last, as in croniter, or with `seconds_first` the first.

        Raises:
            InvalidCronError: the expression is wrong.
        """
        dialect = CRONTAB_SECONDS_FIRST if seconds_first else CRONTAB
        return cls(expression, name, group, time_zone=time_zone, dialect=dialect, **common)

    @property
    def cron(self) -> CronExpression | CrontabExpression:
        """The expression, to ask about its instants."""
        if self.dialect != QUARTZ:
            return crontab_expression(self.expression, self.time_zone, self.dialect == CRONTAB_SECONDS_FIRST)
        return cron_expression(self.expression, self.time_zone, str(self.dst))

    def next_after(self, instant: datetime) -> datetime | None:
        if instant < self.anchor:
            return self.first_from(self.anchor)
        return self._bounded(self.cron.next_after(instant))

    def _bounded(self, found: datetime | None) -> datetime | None:
        return found if found is None or self.end_time is None or found <= self.end_time else None

    def first_from(self, instant: datetime) -> datetime | None:
        start = max(instant, self.anchor)
        cron = self.cron
        if start.microsecond == 0 and cron.is_satisfied_by(start):
            return self._bounded(start)
        return self._bounded(cron.next_after(start))

    @property
    def final_fire_time(self) -> datetime | None:
        """The last instant up to the end time; None where there is no end."""
        if self.end_time is None:
            return None
        cron = self.cron
        end = self.end_time.replace(microsecond=0)
        last = end if cron.is_satisfied_by(end) else cron.previous_before(end)
        return last if last is not None and last >= self.anchor else None

    def schedule(self) -> dict[str, Any]:
        return {
            "expression": self.expression,
            "time_zone": self.time_zone,
            "dialect": self.dialect,
            "dst": str(self.dst),
        }

    @classmethod
    def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
        return cls(
            schedule["expression"],
            time_zone=schedule["time_zone"],
            dialect=schedule["dialect"],
            dst=schedule["dst"],
            **common,
        )
