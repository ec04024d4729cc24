"""What a pause that is remembered covers, as both stores name it: a scope, and the name of a group in it."""

from __future__ import annotations

from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.matchers import GroupMatcher
from quartzpy.store.protocol import EVERYTHING, Everything, JobGroups, TriggerGroups

ALL_SCOPE, TRIGGER_SCOPE, JOB_SCOPE, MANUAL_SCOPE = "ALL", "TRIGGER", "JOB", "MANUAL"


def place_of(window: MaintenanceWindow) -> tuple[str, str]:
    """Return the scope and the name under which the pause of a window is remembered."""
    if window.trigger_group is not None:
        return TRIGGER_SCOPE, window.trigger_group
    return (ALL_SCOPE, "*") if window.job_group is None else (JOB_SCOPE, window.job_group)


def subjects_of(scope: str, name: str) -> TriggerGroups | JobGroups | Everything:
    """Return what a pause of this scope and name holds."""
    if scope == ALL_SCOPE:
        return EVERYTHING
    kind = JobGroups if scope == JOB_SCOPE else TriggerGroups
    return kind(GroupMatcher.equals(name))
