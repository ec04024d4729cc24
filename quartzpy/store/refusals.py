"""The errors that both stores raise for the same reasons, with the same texts."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import (
    CalendarInUseError,
    CalendarNotFoundError,
    IllegalStateChangeError,
    InstanceIdInUseError,
    InvalidValueError,
    JobNotFoundError,
    LeaseLostError,
    ObjectAlreadyExistsError,
    TriggerNotFoundError,
)
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import JobMode, TriggerState
from quartzpy.store.protocol import Node
from quartzpy.store.records import NodeRecord


def declared_dead(node: Node) -> LeaseLostError:
    """Return the error of a step of a node whose epoch no longer exists."""
    return LeaseLostError(f"node {node.instance_id} (epoch {node.epoch}) was declared dead by the cluster")


def instance_id_in_use(other: NodeRecord) -> InstanceIdInUseError:
    """Return the error of a registration under the instance id of another live node."""
    return InstanceIdInUseError(
        f"instance_id {other.instance_id!r} is in use by a node on host {other.host}, pid {other.pid},"
        f" which checked in at {other.last_checkin.isoformat()}; choose another, or AUTO"
    )


def job_of_trigger_not_stored(trigger: TriggerKey, job: JobKey | None) -> JobNotFoundError:
    """Return the error of storing a trigger whose job is not stored."""
    return JobNotFoundError(f"trigger {trigger}: no job {job} is stored")


def calendar_not_stored(name: str, stored: Collection[str] = ()) -> CalendarNotFoundError:
    """Return the error of storing a trigger whose calendar is not stored, with the most similar of those that are."""
    near = difflib.get_close_matches(name, stored, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return CalendarNotFoundError(f"calendar {name!r} is not stored{hint}")


def calendar_exists(name: str) -> ObjectAlreadyExistsError:
    """Return the error of storing a calendar under a name that is taken."""
    return ObjectAlreadyExistsError(f"calendar {name!r} exists already; pass replace=True to replace it")


def window_exists(name: str) -> ObjectAlreadyExistsError:
    """Return the error of storing a maintenance window under a name that is taken."""
    return ObjectAlreadyExistsError(f"maintenance window {name!r} exists already; pass replace=True to replace it")


def window_is_over(window: MaintenanceWindow) -> InvalidValueError:
    """Return the error of storing a maintenance window that has no time left."""
    when = f"{window.cron!r} has no time left" if window.cron else f"it ended at {window.end}"
    return InvalidValueError(f"maintenance window {window.name!r}: {when}")


def calendar_in_use(name: str) -> CalendarInUseError:
    """Return the error of removing a calendar that a trigger names."""
    return CalendarInUseError(f"calendar {name!r} is in use by triggers")


def not_in_error(key: TriggerKey, state: TriggerState | None) -> IllegalStateChangeError | TriggerNotFoundError:
    """Return the error of resetting a trigger that is not in ERROR. The state None means that it is not stored."""
    if state is None:
        return TriggerNotFoundError(f"trigger {key} is not stored")
    return IllegalStateChangeError(f"trigger {key} is {state}, not ERROR; there is nothing to reset")


def is_manual_mode(mode: JobMode) -> bool:
    """Return whether this mode of the whole scheduler is the manual mode.

    Raises:
        InvalidValueError: only a job can have this mode.
    """
    if mode is JobMode.DISABLED:
        raise InvalidValueError("mode: a scheduler is ENABLED or MANUAL; pause all of its triggers to disable it")
    return mode is JobMode.MANUAL
