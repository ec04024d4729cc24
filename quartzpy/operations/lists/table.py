"""The table of the lists that derive from their descriptions alone, or nearly so."""

from __future__ import annotations

from typing import Any

from quartzpy.operations.lists.cluster import GROUPS, LIMITS, LOCKS, NODES
from quartzpy.operations.lists.history import (
    AUDIT_LOG,
    EXECUTIONS,
    LATE,
    MISFIRES,
    PAST_INCIDENTS,
    RUNNING,
    UPCOMING,
)
from quartzpy.operations.lists.schedule import CALENDARS, JOBS, TRIGGERS, WINDOWS
from quartzpy.operations.lists.spec import ListSpec

LISTS: dict[str, ListSpec[Any]] = {
    spec.name: spec
    for spec in (
        *(JOBS, TRIGGERS, EXECUTIONS, RUNNING, UPCOMING, MISFIRES, CALENDARS, GROUPS, WINDOWS, LIMITS, NODES, LOCKS),
        *(AUDIT_LOG, PAST_INCIDENTS, LATE),
    )
}
"""By their names. Each is a resource of the API; most are commands, and have a page."""


def commands() -> tuple[str, ...]:
    """Return the names of the lists that are commands."""
    return tuple(spec.name for spec in LISTS.values() if spec.has_command)
