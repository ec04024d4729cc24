"""The next few fire times of a trigger, stored so that a store can advance it without computing the schedule.

With them a store keeps a hash of the schedule, which differs if a trigger is stored again with a different one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from quartzpy.budget import Budget
from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import ScheduleTooCostlyError, TriggerNeverFiresError
from quartzpy.triggers.trigger import Trigger, TriggerProgress

FIRST_HORIZON = 8
"""The number of fire times after the next one that are stored with a trigger."""
HORIZON = 12
"""The number of fire times after the next one to which a trigger is refilled.

Each refill writes the trigger's row once more. PostgreSQL stores at most 12 instants with a header of one byte.
"""
REFILL_BELOW = 3
"""The stored fire times are refilled when fewer than this are left, so that several fires share one computation."""
_BYTES = 8
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class UpcomingFireTimes:
    """The fire times that follow the next one, in order.

    `is_complete` is true if the schedule has no further ones. Otherwise a store must compute more when these are used
    up.
    """

    instants: tuple[datetime, ...] = ()
    is_complete: bool = False

    def if_few(self) -> UpcomingFireTimes | None:
        """Return these fire times if they may need to be refilled, else None."""
        return self if len(self.instants) < REFILL_BELOW else None


@dataclass(frozen=True, slots=True)
class PreparedTrigger:
    """A trigger with everything that a store needs to store it, computed by pure functions before any lock is taken."""

    trigger: Trigger
    progress: TriggerProgress
    upcoming: UpcomingFireTimes
    calendar_revision: int | None = None
    """The revision of the calendar that was used; None if the trigger names no calendar."""
    schedule_hash: int | None = None
    """Identifies the schedule as it was declared; None for a trigger that nobody declared."""
    starts_when_stored: bool = False
    """The declared trigger has no start time of its own."""

    @property
    def declared(self) -> Trigger:
        """The trigger as it was declared."""
        return replace(self.trigger, start_time=None) if self.starts_when_stored else self.trigger

    def prepared(self, now: datetime | None) -> PreparedTrigger:
        """Return this trigger."""
        return self


class UnpreparedTrigger(NamedTuple):
    """A trigger with the function that prepares it, so that a store can prepare very many of them batch by batch.

    The function takes the trigger and the time at which it is stored.
    """

    trigger: Trigger
    prepare: Callable[[Trigger, datetime], PreparedTrigger]

    def prepared(self, now: datetime | None) -> PreparedTrigger:
        """Prepare the trigger. `now` is the time of the store, and may be None if the trigger has a start time.

        Errors as for `prepare`.
        """
        start = self.trigger.start_time or now
        assert start is not None
        return self.prepare(self.trigger, start)


def look_ahead(
    trigger: Trigger, progress: TriggerProgress, calendar: Calendar | None, count: int = FIRST_HORIZON
) -> UpcomingFireTimes:
    """Return the `count` fire times after `progress.next_fire_time`, or fewer if the schedule ends."""
    with Budget():
        instants = trigger.following(progress, calendar, count)
    return UpcomingFireTimes(tuple(instants), is_complete=len(instants) < count and not trigger.follows_end)


def prepare(
    trigger: Trigger, now: datetime, calendar: Calendar | None = None, calendar_revision: int | None = None
) -> PreparedTrigger:
    """Prepare a trigger that is stored at `now`.

    Raises:
        TriggerNeverFiresError: the trigger has no fire time at all.
        ScheduleTooCostlyError: its first fire times are not found within a bounded number of steps.
    """
    anchored = trigger.anchored(now)
    try:
        with Budget():
            progress = anchored.first_progress(calendar)
            upcoming = look_ahead(anchored, progress, calendar)
        return PreparedTrigger(
            anchored,
            progress,
            upcoming,
            calendar_revision,
            schedule_hash(trigger),
            starts_when_stored=trigger.start_time is None,
        )
    except ScheduleTooCostlyError as error:
        raise ScheduleTooCostlyError(f"trigger {anchored.label}: {error}; it was not stored") from None
    except OverflowError:
        raise TriggerNeverFiresError(
            f"trigger {anchored.label} will never fire: it has no fire time from {anchored.anchor.isoformat()} up to"
            " the year 9999; it was not stored"
        ) from None


def refill(
    trigger: Trigger,
    next_fire_time: datetime,
    upcoming: UpcomingFireTimes | None,
    times_triggered: int,
    calendar: Calendar | None,
) -> UpcomingFireTimes | None:
    """Return the fire times to append to `upcoming`, which follow `next_fire_time`; None while enough are left.

    `upcoming` is None where it is known already that enough are left.
    """
    if upcoming is None or upcoming.is_complete or len(upcoming.instants) >= REFILL_BELOW or trigger.follows_end:
        return None
    last = upcoming.instants[-1] if upcoming.instants else next_fire_time
    there = TriggerProgress(last, None, times_triggered + len(upcoming.instants))
    return look_ahead(trigger, there, calendar, HORIZON - len(upcoming.instants))


def moved_to(prepared: PreparedTrigger, progress: TriggerProgress, calendar: Calendar | None) -> PreparedTrigger:
    """Return the trigger at another progress, with its upcoming fire times recomputed."""
    horizon = (
        UpcomingFireTimes(is_complete=True)
        if progress.next_fire_time is None
        else look_ahead(prepared.trigger, progress, calendar)
    )
    return replace(prepared, progress=progress, upcoming=horizon)


def schedule_hash(trigger: Trigger) -> int:
    """Return a signed 64-bit hash of a trigger's kind, schedule, start, end and calendar.

    It is computed from the trigger as the user declares it, before a missing start time is set. A misfire may give a
    stored trigger another start and repeat count, so the stored values alone do not show whether a declaration changed.
    """
    declared = [
        trigger.kind,
        trigger.schedule(),
        None if trigger.start_time is None else trigger.start_time.isoformat(),
        None if trigger.end_time is None else trigger.end_time.isoformat(),
        trigger.calendar,
    ]
    text = _ENCODER.encode(declared)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=_BYTES).digest(), signed=True)
