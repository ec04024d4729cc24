"""Crontab lines in a time zone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from quartzpy.cron_expressions.crontab_parser import parse_crontab
from quartzpy.cron_expressions.describe import description
from quartzpy.cron_expressions.schedule import DaylightSaving, ScheduleExpression
from quartzpy.errors import InvalidCronError


@dataclass(frozen=True, slots=True)
class CrontabExpression(ScheduleExpression):
    """A crontab line in a time zone: `CrontabExpression("30 2 * * mon-fri", "Europe/Berlin")`.

    A line has five fields: minutes, hours, day of month, month, day of week (Sunday is 0 or 7). Six fields begin with
    seconds. The aliases are `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`,
    `@every_minute` and `@every_second`. `text` is stored in upper case with single spaces, an alias in lower case.

    Where both day fields restrict the days, a day matches if either does; if one of them begins with "*", or with
    `day_or=False`, both must match (Debian's crontab(5); Celery and APScheduler always require both). The value of
    `H` is derived from `seed`. `dst` has the same meaning as in `CronExpression`.

    Raises:
        InvalidCronError: The line is wrong, or no day of any year matches.
        UnknownTimeZoneError: There is no such time zone.
    """

    day_or: bool = True
    seed: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidCronError(f"crontab: must be str (got {type(self.text).__name__})", expression="")
        if not isinstance(self.day_or, bool):
            raise InvalidCronError(f"day_or: must be True or False (got {self.day_or!r})", expression=self.text)
        self._set_values(parse_crontab(self.text, self.seed, self.day_or))

    def __reduce__(self) -> tuple[Any, ...]:
        return CrontabExpression, (self.text, self.time_zone, str(self.dst), self.day_or, self.seed)

    def describe(self) -> str:
        """The line in plain English, with its zone."""
        return f"{description(parse_crontab(self.text, self.seed, self.day_or))} ({self.time_zone})"


@lru_cache(maxsize=4096)
def crontab_expression(
    text: str, time_zone: str, dst: str, day_or: bool | None = None, seed: str | None = None
) -> CrontabExpression:
    """Return `CrontabExpression(...)` of these values; equal values get the same object.

    Raises:
        InvalidCronError, UnknownTimeZoneError: As `CrontabExpression` does.
    """
    return CrontabExpression(text, time_zone, DaylightSaving(dst), True if day_or is None else day_or, seed)
