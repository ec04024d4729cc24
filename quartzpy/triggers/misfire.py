"""The handling of one misfired trigger, as pure functions: its new fire time and the record of its misfire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile

from quartzpy.calendars.calendar import Calendar
from quartzpy.states import MisfireAction, Missed
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, look_ahead

MOST_MISSED = 1_000
"""The maximum number of missed fire times that the record of one misfire lists."""


@dataclass(frozen=True, slots=True)
class Misfire:
    """A handled misfire.

    `missed` lists the first `MOST_MISSED` fire times that get no execution of their own, and `has_more` is true if
    there are others. `caught_up` is the number of fire times that the trigger catches up on one by one.
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
        caught_up = sum(1 for _ in _past(trigger, progress, calendar, now))
        missed = takewhile(lambda at: at < following, missed)
    listed = tuple(islice(missed, MOST_MISSED + 1))
    action = _action(trigger, to, caught_up, now)
    return Misfire(to, action, listed[:MOST_MISSED], len(listed) > MOST_MISSED, caught_up)


def _past(trigger: Trigger, progress: TriggerProgress, calendar: Calendar | None, now: datetime) -> Iterator[datetime]:
    """Yield the fire times from the next one up to `now`."""
    while (at := progress.next_fire_time) is not None and at <= now:
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
