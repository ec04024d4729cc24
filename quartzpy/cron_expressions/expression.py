"""Quartz cron expressions in a time zone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from quartzpy.cron_expressions.describe import description
from quartzpy.cron_expressions.parser import parse
from quartzpy.cron_expressions.schedule import DaylightSaving as DaylightSaving
from quartzpy.cron_expressions.schedule import ScheduleExpression
from quartzpy.errors import InvalidCronError


@dataclass(frozen=True, slots=True)
class CronExpression(ScheduleExpression):
    """A Quartz cron expression in a time zone: `CronExpression("0 0 2 ? * MON-FRI", "Europe/Berlin")`.

    `text` is stored in upper case with single spaces. As in Quartz, one of the two day fields must be "?". With
    `day_or` both may restrict the days: a day matches if either field does (True) or if both do (False). The value of
    `H` is derived from `seed`.

    Raises:
        InvalidCronError: The text is wrong. The message names the position and the accepted values.
        UnknownTimeZoneError: There is no such time zone.
    """

    day_or: bool | None = None
    seed: str | None = None

    def __post_init__(self) -> None:
        text = checked_text(self.text)
        if not (self.day_or is None or isinstance(self.day_or, bool)):
            raise InvalidCronError(f"day_or: must be True, False or None (got {self.day_or!r})", expression=text)
        self._set_values(parse(text, self.seed, self.day_or))

    def __reduce__(self) -> tuple[Any, ...]:
        return CronExpression, (self.text, self.time_zone, str(self.dst), self.day_or, self.seed)

    def describe(self) -> str:
        """The expression in plain English, with its time zone."""
        return f"{description(parse(self.text, self.seed, self.day_or))} ({self.time_zone})"


@lru_cache(maxsize=4096)
def cron_expression(
    text: str, time_zone: str, dst: str, day_or: bool | None = None, seed: str | None = None
) -> CronExpression:
    """Return `CronExpression(...)` of these values; equal values get the same object.

    Raises:
        InvalidCronError, UnknownTimeZoneError: As `CronExpression` does.
    """
    return CronExpression(text, time_zone, DaylightSaving(dst), day_or, seed)


def checked_text(text: object) -> str:
    """Return `text` if it is a string.

    Raises:
        InvalidCronError: It is not.
    """
    if not isinstance(text, str):
        raise InvalidCronError(f"cron expression: must be str (got {type(text).__name__})", expression="")
    return text
