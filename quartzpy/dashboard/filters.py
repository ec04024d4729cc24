"""The filters of the lists, as the query parameters of their pages give them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from quartzpy.dashboard.links import job_key, trigger_key
from quartzpy.dashboard.visit import Visit
from quartzpy.errors import InvalidValueError
from quartzpy.instants import as_instant, as_span
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import ENDED, ExecutionState, TriggerState

PAGE_SIZE = 50
LATE = "LATE"
"""The filter for waiting triggers that are past due; it is not a state of a trigger."""
LATE_AFTER = timedelta(seconds=10)
EXHAUSTED = "EXHAUSTED"
"""The filter for failed executions that no retry follows; it is not a state of an execution."""
RUNNING = (ExecutionState.PROCESSING, ExecutionState.ENQUEUED)


def listed(visit: Visit) -> dict[str, Any]:
    """Return the limit and the cursor of a list."""
    return {"limit": PAGE_SIZE, "after": visit.parameter("after")}


def group_filter(visit: Visit) -> GroupMatcher | None:
    """Return the filter by group; a `*` at the end selects the groups that begin like this."""
    group = visit.parameter("group")
    if group is None:
        return None
    if group.endswith("*"):
        return GroupMatcher.starts_with(group[:-1]) if group != "*" else None
    return GroupMatcher.equals(group)


def job_filter(visit: Visit) -> JobKey | None:
    """Return the filter by job: `job` is its name, `job_group` its group."""
    name = visit.parameter("job")
    return None if name is None else job_key({"name": name, "group": visit.parameter("job_group")})


def trigger_filter(visit: Visit) -> TriggerKey | None:
    """Return the filter by trigger: `trigger` is its name, `trigger_group` its group."""
    name = visit.parameter("trigger")
    return None if name is None else trigger_key({"name": name, "group": visit.parameter("trigger_group")})


def job_filters(visit: Visit) -> dict[str, Any]:
    """Return the filters of the list of jobs."""
    return {
        "group": group_filter(visit),
        "contains": visit.parameter("contains"),
        "job_type": visit.parameter("job_type"),
        "mode": visit.parameter("mode"),
    }


def trigger_filters(visit: Visit) -> dict[str, Any]:
    """Return the filters of the list of triggers."""
    state = visit.parameter("state")
    is_late = state == LATE
    return {
        "job": job_filter(visit),
        "group": group_filter(visit),
        "contains": visit.parameter("contains"),
        "state": TriggerState.WAITING if is_late else state,
        "calendar": visit.parameter("calendar"),
        "job_type": visit.parameter("job_type"),
        "kind": visit.parameter("kind"),
        "until": visit.operations.now() - LATE_AFTER if is_late else None,
    }


def execution_filters(visit: Visit) -> dict[str, Any]:
    """Return the filters of the list of executions."""
    state = visit.parameter("state")
    return {
        "state": {None: ENDED, "RUNNING": RUNNING, EXHAUSTED: [ExecutionState.FAILED]}.get(state, state),
        "job": job_filter(visit),
        "trigger": trigger_filter(visit),
        "group": group_filter(visit),
        "job_type": visit.parameter("job_type"),
        "node": visit.parameter("node"),
        "since": instant_filter(visit, "since"),
        "until": instant_filter(visit, "until"),
        "exhausted": state == EXHAUSTED,
    }


def instant_filter(visit: Visit, name: str) -> datetime | None:
    """Return an instant: ISO 8601 with an offset, or a span before now such as "1h".

    Raises:
        InvalidValueError: it is neither.
    """
    text = visit.parameter(name)
    if text is None:
        return None
    try:
        return visit.times.now - as_span(text, name, InvalidValueError)
    except InvalidValueError:
        # A "+" in a link that was written by hand is a space when it arrives.
        return as_instant(_parsed(text.replace(" ", "+"), name), name, InvalidValueError)


def _parsed(text: str, name: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValueError(
            f"{name}: must be an instant such as 2026-11-22T08:00:00Z or a span before now such as 1h (got {text!r})"
        ) from None
