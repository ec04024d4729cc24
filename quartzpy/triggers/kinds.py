"""The kinds of triggers, by the name that is stored."""

from __future__ import annotations

from quartzpy.errors import InvalidTriggerError
from quartzpy.triggers.calendar_interval import CalendarIntervalTrigger
from quartzpy.triggers.combined import AllOf, AnyOf, Jitter
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

KINDS: dict[str, type[Trigger]] = {
    kind.kind: kind
    for kind in (
        SimpleTrigger,
        CronTrigger,
        CalendarIntervalTrigger,
        DailyTimeIntervalTrigger,
        AnyOf,
        AllOf,
        Jitter,
    )
}


def trigger_kind(name: str) -> type[Trigger]:
    """The class of a kind.

    Raises:
        InvalidTriggerError: no such kind.
    """
    try:
        return KINDS[name]
    except KeyError:
        raise InvalidTriggerError(f"kind: one of {', '.join(sorted(KINDS))} (got {name!r})") from None
