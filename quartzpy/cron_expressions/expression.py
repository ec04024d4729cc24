"""Quartz cron expressions: the instants that they mean, forwards and backwards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from quartzpy.cron_expressions.describe import description
from quartzpy.cron_expressions.parser import CronFields, parse
from quartzpy.cron_expressions.schedule import DaylightSaving as DaylightSaving
from quartzpy.cron_expressions.schedule import Schedule, ScheduleExpression
from quartzpy.errors import InvalidCronError


@dataclass(frozen=True, slots=True)
class CronExpression(ScheduleExpression):
    """A Quartz cron expression in a time zone: `CronExpression("0 0 2 ? * MON-FRI", "Europe/Berlin")`.

    `text` is kept in capitals with single spaces.

    Raises:
        InvalidCronError: the text is wrong; the message says where and what is allowed.
        UnknownTimeZoneError: no such zone.
    """

    def __post_init__(self) -> None:
        fields = parse(checked_text(self.text))
        given = object.__setattr__
        given(self, "text", fields.text)
        given(self, "dst", checked_policy(self.dst, self.text))
        given(self, "_schedule", _schedule(fields, self.time_zone, self.dst))

    def __reduce__(self) -> tuple[Any, ...]:
        return CronExpression, (self.text, self.time_zone, str(self.dst))

    def describe(self) -> str:
        """The expression in plain English, with its zone."""
        return f"{description(parse(self.text))} ({self.time_zone})"


@lru_cache(maxsize=4096)
def cron_expression(text: str, time_zone: str, dst: str) -> CronExpression:
    """The same as `CronExpression(...)`, made once for all who ask for equal values.

    Raises:
        InvalidCronError, UnknownTimeZoneError: as there.
    """
    return CronExpression(text, time_zone, DaylightSaving(dst))


def checked_text(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidCronError(f"cron expression: must be str (got {type(text).__name__})", expression="")
    return text


def checked_policy(dst: object, text: str) -> DaylightSaving:
    try:
        return DaylightSaving(str(dst))
    except ValueError:
        allowed = ", ".join(DaylightSaving)
        raise InvalidCronError(f"dst: one of {allowed} (got {dst!r})", expression=text, allowed=allowed) from None


@lru_cache(maxsize=4096)
def _schedule(fields: CronFields, time_zone: str, dst: DaylightSaving) -> Schedule:
    return Schedule(fields.timetable(), time_zone, dst, is_rhythm=fields.is_interval)
