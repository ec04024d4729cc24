"""The search for the first missed fire time that a trigger with `misfire="fire_all"` catches up on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quartzpy.calendars.calendar import Calendar
    from quartzpy.triggers.trigger import Trigger

_MICROSECOND = timedelta(microseconds=1)
_LOOK_BACK = timedelta(minutes=1)
"""The time before now in which the search begins; it doubles until the fire times suffice."""


def caught_up_from(trigger: Trigger, first: datetime, calendar: Calendar | None, now: datetime) -> datetime | None:
    """Return the first missed fire time from `first` on to catch up on, or the next fire time after `now`."""
    earliest = first if trigger.catch_up_within is None else max(first, now - trigger.catch_up_within)
    if trigger.catch_up_max is None:
        return _from(trigger, first, earliest, calendar)
    # The search goes backwards, so that its cost depends on the number of fires to catch up on, not on the outage.
    back = _LOOK_BACK
    while True:
        since = max(earliest, now - back)
        last = deque(_between(trigger, first, since, now, calendar), maxlen=trigger.catch_up_max)
        if len(last) == trigger.catch_up_max:
            return last[0]
        if since == earliest:
            return last[0] if last else trigger.included_from(now + _MICROSECOND, calendar)
        back *= 2


def _from(trigger: Trigger, first: datetime, since: datetime, calendar: Calendar | None) -> datetime | None:
    # Replacing a calendar does not move the fire time that a trigger has.
    return first if since <= first else trigger.included_from(since, calendar)


def _between(
    trigger: Trigger, first: datetime, since: datetime, until: datetime, calendar: Calendar | None
) -> Iterator[datetime]:
    at = _from(trigger, first, since, calendar)
    while at is not None and at <= until:
        yield at
        at = trigger.included_from(at + _MICROSECOND, calendar)
