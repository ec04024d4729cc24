"""A calendar of an application, in a module that no job of the tests imports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from quartzpy import BaseCalendar


@dataclass(frozen=True)
class OddHoursCalendar(BaseCalendar):
    kind: ClassVar[str] = "test-odd-hours"

    offset: int = 0

    def next_wall_time(self, wall: datetime) -> datetime | None:
        if (wall.hour + self.offset) % 2 == 0:
            return wall
        return wall.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
