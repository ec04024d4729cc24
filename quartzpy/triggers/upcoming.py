"""The next few fire times of a trigger, written down so that a store moves it on without asking again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import TriggerNeverFiresError
from quartzpy.triggers.schedule_hash import schedule_hash
from quartzpy.triggers.trigger import Trigger, TriggerProgress

HORIZON = 8
"""How many instants are kept beyond the next fire time."""
REFILL_BELOW = 3
"""With fewer left than this they are topped up; several fires share the cost of one computation."""


@dataclass(frozen=True, slots=True)
class UpcomingFireTimes:
    """The fire times that follow the next one, in order.

    `is_complete`: the schedule has none beyond these. A store must ask the trigger again when they are used up
    and it is not complete.
    """

    instants: tuple[datetime, ...] = ()
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class PreparedTrigger:
    """A trigger with all that a store needs to keep it: computed by pure functions, before any lock."""

    trigger: Trigger
    progress: TriggerProgress
    upcoming: UpcomingFireTimes
    calendar_revision: int | None = None
    """Of the calendar that it was computed from; None where it names none."""
    schedule_hash: int | None = None
    """Identifies the schedule as it was declared; None for a trigger that nobody declared."""
    starts_when_stored: bool = False
    """The declared trigger has no start time of its own."""

    @property
    def declared(self) -> Trigger:
        """The trigger as it was declared."""
        return replace(self.trigger, start_time=None) if self.starts_when_stored else self.trigger


def look_ahead(
    trigger: Trigger, progress: TriggerProgress, calendar: Calendar | None, count: int = HORIZON
) -> UpcomingFireTimes:
    """The `count` fire times after `progress.next_fire_time`, fewer where the schedule ends."""
    instants = trigger.following(progress, calendar, count)
    return UpcomingFireTimes(tuple(instants), is_complete=len(instants) < count and not trigger.follows_end)


def prepare(
    trigger: Trigger, now: datetime, calendar: Calendar | None, calendar_revision: int | None = None
) -> PreparedTrigger:
    """Make a trigger ready to be stored at `now`.

    Raises:
        TriggerNeverFiresError: it has no fire time at all.
    """
    anchored = trigger.anchored(now)
    try:
        progress = anchored.first_progress(calendar)
        return PreparedTrigger(
            anchored,
            progress,
            look_ahead(anchored, progress, calendar),
            calendar_revision,
            schedule_hash(trigger),
            starts_when_stored=trigger.start_time is None,
        )
    except OverflowError:
        raise TriggerNeverFiresError(
            f"trigger {anchored.label} will never fire: from {anchored.anchor.isoformat()} on nothing lies within the"
            " years 1 to 9999; it was not stored"
        ) from None


def refill(
    trigger: Trigger,
    next_fire_time: datetime,
    upcoming: UpcomingFireTimes,
    times_triggered: int,
    calendar: Calendar | None,
) -> UpcomingFireTimes | None:
    """What is to be appended to `upcoming`, the fire times after `next_fire_time`; None while enough are left."""
    if upcoming.is_complete or len(upcoming.instants) >= REFILL_BELOW or trigger.follows_end:
        return None
    last = upcoming.instants[-1] if upcoming.instants else next_fire_time
    there = TriggerProgress(last, None, times_triggered + len(upcoming.instants))
    return look_ahead(trigger, there, calendar, HORIZON - len(upcoming.instants))


def moved_to(prepared: PreparedTrigger, progress: TriggerProgress, calendar: Calendar | None) -> PreparedTrigger:
    """The same trigger at another progress, with its horizon computed anew."""
    horizon = (
        UpcomingFireTimes(is_complete=True)
        if progress.next_fire_time is None
        else look_ahead(prepared.trigger, progress, calendar)
    )
    return replace(prepared, progress=progress, upcoming=horizon)
