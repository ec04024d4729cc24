"""The fire times of a stored trigger by other rules of its time zone, as a pure function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from quartzpy.calendars.calendar import Calendar
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, look_ahead


def renewed(
    trigger: Trigger,
    progress: TriggerProgress,
    upcoming: Sequence[datetime],
    calendar: Calendar | None,
    *,
    now: datetime,
    shift: Callable[[datetime], datetime],
) -> PreparedTrigger | None:
    """Return a stored trigger with the fire times that this process computes; None where it has these already.

    `shift` returns the instant at which the clock of the trigger's zone shows by the rules of this process what it
    showed by those of the stored fire times. The next fire keeps its time on that clock. So what has fired does not
    fire again, and a fire whose new instant has passed is late: it misfires. One that is late already is not moved,
    unless it is not due yet by the new rules.
    """
    at = progress.next_fire_time
    if at is None or trigger.follows_end:
        return None
    is_late = at <= now
    is_of_schedule = is_late or trigger.included_from(at, calendar) == at
    if is_of_schedule and list(upcoming) == trigger.following(progress, calendar, len(upcoming)):
        return None
    pending = shift(at)
    if not is_late:
        at = trigger.included_from(pending, calendar)
    elif pending > now and trigger.included_from(pending, calendar) == pending:
        at = pending
    there = replace(progress, next_fire_time=at)
    if at is None:
        return PreparedTrigger(trigger, there, UpcomingFireTimes(is_complete=True))
    # What follows a late fire that stays follows its time on the clock.
    since = replace(there, next_fire_time=pending) if at == progress.next_fire_time else there
    following = look_ahead(trigger, since, calendar)
    following = replace(following, instants=tuple(instant for instant in following.instants if instant > at))
    return PreparedTrigger(trigger, there, following)
