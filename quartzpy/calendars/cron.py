"""Calendars that exclude the seconds that match a cron expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Self

from quartzpy.calendars.base import BaseCalendar
from quartzpy.cron_expressions.crontab_parser import MAX_LENGTH
from quartzpy.cron_expressions.expression import CronExpression
from quartzpy.errors import InvalidCalendarError


@dataclass(frozen=True)
class CronCalendar(BaseCalendar):
    """A calendar that excludes every second whose wall-clock time matches `expression`.

    "* * 0-7,18-23 ? * *" includes only the hours from 8 to 18.

    Raises:
        InvalidCronError: `expression` is invalid.
    """

    kind: ClassVar[str] = "cron"

    expression: str
    # UTC neither skips nor repeats times, so in UTC the expression matches pure wall-clock times.
    _matcher: CronExpression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.expression, str):
            raise InvalidCalendarError(f"expression: must be str (got {type(self.expression).__name__})")
        matcher = CronExpression(self.expression, "UTC")
        if len(matcher.text) > MAX_LENGTH:
            raise InvalidCalendarError(f"expression: {len(matcher.text)} characters, at most {MAX_LENGTH}")
        object.__setattr__(self, "_matcher", matcher)

    def includes_wall_time(self, wall: datetime) -> bool:
        return not self._matcher.is_satisfied_by(wall.replace(microsecond=0, tzinfo=UTC))

    def next_wall_time(self, wall: datetime) -> datetime | None:
        if self.includes_wall_time(wall):
            return wall
        found = self._matcher.next_invalid_after(wall.replace(microsecond=0, tzinfo=UTC))
        return None if found is None else found.replace(tzinfo=None)

    def rules(self) -> dict[str, Any]:
        return {"expression": self.expression}

    @classmethod
    def from_rules(cls, rules: Mapping[str, Any], **common: Any) -> Self:
        return cls(expression=rules["expression"], **common)
