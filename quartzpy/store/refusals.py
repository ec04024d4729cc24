"""The errors that both stores raise for the same reasons, with the same texts."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import (
    CalendarInUseError,
    CalendarNotFoundError,
    IllegalStateChangeError,
    InstanceIdInUseError,
    InvalidJobError,
    InvalidValueError,
    JobNotFoundError,
    LeaseLostError,
    LimitInUseError,
    LimitNotFoundError,
    ObjectAlreadyExistsError,
    TriggerNotFoundError,
)
from quartzpy.jobs.internal_entries import BatchKey
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


def joined_job_not_stored(job: JobKey) -> JobNotFoundError:
    """Return the error of storing a job that runs after one that is not stored, which it would wait for in vain."""
    return JobNotFoundError(
        f"after: no job {job} is stored; store it first, or together with the one that waits for it"
    )


def join_in_circle(job: JobKey, through: JobKey) -> InvalidJobError:
    """Return the error of storing a job that runs after one which runs after it."""
    return InvalidJobError(
        f"after: job {job} cannot run after {through}, which runs after {job} itself, directly or through others:"
        " each would wait for the other"
    )


def batch_exists(batch: BatchKey) -> ObjectAlreadyExistsError:
    """Return the error of storing a batch under a name that is taken."""
    return ObjectAlreadyExistsError(f"batch {batch.name!r} of job {batch.job} exists already; give it another name")


def job_of_batch_not_stored(batch: BatchKey) -> JobNotFoundError:
    """Return the error of storing a batch whose job is not stored."""
    return JobNotFoundError(f"batch {batch.name!r}: no job {batch.job} is stored, which is to run when all have ended")


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


def limit_of_job_not_stored(key: JobKey, name: str, stored: Collection[str]) -> LimitNotFoundError:
    """Return the error of storing a job that shares a limit which is not stored; it names the most similar one."""
    near = difflib.get_close_matches(name, stored, n=1)
    hint = f"did you mean {near[0]!r}? Otherwise set" if near else "set"
    return LimitNotFoundError(
        f"job {key} shares the limit {name!r}, which is not stored; {hint} it first, as"
        f" scheduler.set_limit({name!r}, 5) or `quartzpy limit set {name} 5` do for at most 5 concurrent executions"
    )


def limit_not_stored(name: str, stored: Collection[str] = ()) -> LimitNotFoundError:
    """Return the error of removing a limit that is not stored."""
    near = difflib.get_close_matches(name, stored, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return LimitNotFoundError(f"limit {name!r} is not stored{hint}")


def limit_in_use(name: str, jobs: Sequence[JobKey]) -> LimitInUseError:
    """Return the error of removing a limit that these jobs share, of which the first ones are given."""
    return LimitInUseError(
        f"limit {name!r} is shared by jobs ({', '.join(map(str, jobs))}); remove it from their limits first"
    )


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
