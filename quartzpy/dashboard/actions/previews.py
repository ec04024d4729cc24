"""The previews of actions: what a form would do with the texts in its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from quartzpy.dashboard.actions.given import Given
from quartzpy.dashboard.visit import Visit
from quartzpy.errors import InvalidValueError
from quartzpy.instants import zone
from quartzpy.keys import TriggerKey
from quartzpy.operations.actions.table import ACTIONS


@dataclass(frozen=True, slots=True)
class Preview:
    """The preview of an action on one trigger."""

    template: str
    present: Callable[[Visit, TriggerKey], dict[str, str]]
    """Returns the texts that the fields have before anybody types."""
    context: Callable[[Visit, TriggerKey, Given], dict[str, Any]]
    """Returns the context of the template."""


def backfill_times(visit: Visit, trigger: TriggerKey, given: Given) -> list[datetime]:
    """Return the fire times that a backfill of these parameters would run the job for.

    Raises:
        InvalidValueError: a field has a wrong value, or the span has too many fire times.
    """
    values = given.values(ACTIONS["backfill"], visit.times.zone_name)
    start, end = values["start"], values["end"]
    if start >= end:
        raise InvalidValueError("“Until before” must be later than “From”")
    return visit.operations.actions.backfill_times(trigger, start, end, max_runs=values["max_runs"])


def _last_day(visit: Visit, trigger: TriggerKey) -> dict[str, str]:
    now = visit.times.now.astimezone(zone(visit.times.zone_name)).replace(second=0, microsecond=0, tzinfo=None)
    return {
        "start": (now - timedelta(days=1)).isoformat(timespec="minutes"),
        "end": now.isoformat(timespec="minutes"),
    }


def _times(visit: Visit, trigger: TriggerKey, given: Given) -> dict[str, Any]:
    try:
        return {"times": backfill_times(visit, trigger, given), "wrong": None}
    except InvalidValueError as error:
        return {"times": None, "wrong": str(error)}


def _present_schedule(visit: Visit, trigger: TriggerKey) -> dict[str, str]:
    summary = visit.operations.trigger_summary(trigger)
    written = summary.schedule if summary.kind == "cron" or summary.schedule.count(" ") == 1 else ""
    return {"schedule": written, "in_zone": summary.zone or ""}


def _schedule(visit: Visit, trigger: TriggerKey, given: Given) -> dict[str, Any]:
    values = given.values(ACTIONS["reschedule"], visit.times.zone_name)
    if not values["text"].strip():
        return {"preview": None}
    return {"preview": visit.operations.actions.preview_schedule(values["text"], values["zone"], trigger=trigger)}


PREVIEWS: Mapping[str, Preview] = {
    "reschedule": Preview("actions/schedule_preview.html", _present_schedule, _schedule),
    "backfill": Preview("actions/backfill_preview.html", _last_day, _times),
}
"""The previews, by the names of their actions."""
