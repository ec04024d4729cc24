"""The handling of one misfired trigger, as pure functions: its new fire time and the record of its misfire.

A trigger with `misfire="fire_all"` gets the first missed fire time that it catches up on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile

from quartzpy.budget import Budget, spend
from quartzpy.calendars.calendar import Calendar
from quartzpy.states import MisfireAction, Missed
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, look_ahead

MAX_MISSED = 1_000
"""The maximum number of missed fire times that the record of one misfire lists."""
MAX_COUNTED = 100_000
"""The highest number of fire times to catch up on that is counted."""
_STEPS_OF_FIRE = 3
_MICROSECOND = timedelta(microseconds=1)
_LOOK_BACK = timedelta(minutes=1)
"""The time before now in which the search begins; it doubles until the fire times suffice."""


@dataclass(frozen=True, slots=True)
class Misfire:
    """A handled misfire.

    `missed` lists the first `MAX_MISSED` fire times that get no execution of their own, and `has_more` is true if
    there are others. `caught_up` is the number of fire times that the trigger catches up on one by one, counted up to
    100,000.
    """

    to: PreparedTrigger
    action: MisfireAction
    missed: tuple[datetime, ...]
    has_more: bool = False
    caught_up: int = 0

    @property
    def coalesces(self) -> bool:
        """True if one immediate fire coalesces the missed fires."""
        return self.action in (MisfireAction.FIRED_ONCE, MisfireAction.RESCHEDULED)


def misfired(
    trigger: Trigger,
    late: TriggerProgress,
    calendar: Calendar | None,
    *,
    now: datetime,
    coalesced: bool = False,
    missed_policy: Missed = Missed.MISFIRE,
) -> Misfire:
    """Apply the misfire instruction, or another `missed_policy`, to a trigger whose next fire time is past.

    `coalesced` is true if that fire time does not belong to the schedule, because it coalesces earlier missed fires.
    """
    with Budget():
        return _misfired(trigger, late, calendar, now, coalesced, missed_policy)


def _misfired(
    trigger: Trigger,
    late: TriggerProgress,
    calendar: Calendar | None,
    now: datetime,
    coalesced: bool,
    missed_policy: Missed,
) -> Misfire:
    instructed = trigger.treating(missed_policy)
    moved, progress = instructed.after_misfire(late, calendar, now=now)
    if instructed is not trigger:
        moved = moved.with_instruction_of(trigger)
    going = progress.next_fire_time is not None
    to = PreparedTrigger(
        moved, progress, look_ahead(moved, progress, calendar) if going else UpcomingFireTimes(is_complete=True)
    )
    missed = _past(trigger, trigger.triggered(late, calendar) if coalesced else late, calendar, now)
    caught_up = 0
    following = progress.next_fire_time
    if instructed.catches_up and following is not None and following <= now:
        caught_up = sum(1 for _ in islice(_past(trigger, progress, calendar, now), MAX_COUNTED))
        missed = takewhile(lambda at: at < following, missed)
    listed = tuple(islice(missed, MAX_MISSED + 1))
    action = _action(trigger, to, caught_up, now)
    return Misfire(to, action, listed[:MAX_MISSED], len(listed) > MAX_MISSED, caught_up)


def _past(trigger: Trigger, progress: TriggerProgress, calendar: Calendar | None, now: datetime) -> Iterator[datetime]:
    """Yield the fire times from the next one up to `now`."""
    while (at := progress.next_fire_time) is not None and at <= now:
        spend(_STEPS_OF_FIRE)
        yield at
        progress = trigger.triggered(progress, calendar)


def _action(trigger: Trigger, to: PreparedTrigger, caught_up: int, now: datetime) -> MisfireAction:
    if to.progress.next_fire_time is None:
        return MisfireAction.ENDED
    if caught_up:
        return MisfireAction.CATCHING_UP
    if to.progress.next_fire_time > now:
        return MisfireAction.SKIPPED
    return MisfireAction.FIRED_ONCE if to.trigger.start_time == trigger.start_time else MisfireAction.RESCHEDULED


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
        spend(_STEPS_OF_FIRE)
        yield at
        at = trigger.included_from(at + _MICROSECOND, calendar)
