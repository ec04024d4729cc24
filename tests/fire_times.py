"""The fire times of a trigger from the beginning of its schedule."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

from quartzpy.calendars.calendar import Calendar
from quartzpy.triggers.trigger import Trigger


def first_fire_times(
    trigger: Trigger, count: int, start: datetime | None = None, *, calendar: Calendar | None = None
) -> list[datetime]:
    """The first `count` fire times, or those after `start`."""
    if start is not None:
        return trigger.upcoming(count, start, calendar)
    return list(islice(trigger.fire_times(calendar=calendar), count))
