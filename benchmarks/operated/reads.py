"""The read models of `quartzpy.operations`, each with the filters that matter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from benchmarks.operated.measuring import times_of_each
from benchmarks.operated.rows import CALENDAR, CROWD
from quartzpy import Scheduler
from quartzpy.errors import TriggerNotFoundError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import Operations

HOT = TriggerKey("trigger-0", "group-0")
"""The trigger that every tenth execution is of."""
NOWHERE = "nothing-of-this"
_DAY = timedelta(days=1)


def measure(scheduler: Scheduler, executions: int) -> dict[str, list[float]]:
    """Return the milliseconds of the reads of a scheduler with many jobs."""
    operations = Operations(scheduler)
    deep = operations.executions(limit=1000).next_cursor
    now = operations.now()
    return times_of_each(
        {
            "overview": operations.overview,
            "load for metrics": scheduler.node.cluster_load,
            "jobs": operations.jobs,
            "jobs that contain 999": lambda: operations.jobs(contains="999"),
            "job": lambda: operations.job(JobKey("job-7", "group-7")),
            **_triggers(operations, scheduler),
            "executions": operations.executions,
            "executions, a later page": lambda: operations.executions(after=deep),
            "executions that FAILED": lambda: operations.executions(state="FAILED"),
            "executions that were CANCELLED (none)": lambda: operations.executions(state="CANCELLED"),
            "executions that are exhausted": lambda: operations.executions(exhausted=True),
            "executions of a job": lambda: operations.executions(job=JobKey("job-7", "group-7")),
            "executions of a node": lambda: operations.executions(node="node-3"),
            "executions of no node": lambda: operations.executions(node="node-99"),
            "executions of a trigger": lambda: operations.executions(trigger=HOT),
            "executions of a day long ago": lambda: operations.executions(since=now - 20 * _DAY, until=now - 19 * _DAY),
            "executions that are SCHEDULED": lambda: operations.executions(state="SCHEDULED"),
            "execution": lambda: operations.execution(executions // 2),
            "misfires": operations.misfires,
            "misfires of a node": lambda: operations.misfires(node="node-3"),
            "misfires of no node": lambda: operations.misfires(node="node-99"),
            "misfires with a rare action": lambda: operations.misfires(action="ENDED"),
            "misfires of a day long ago": lambda: operations.misfires(since=now - 20 * _DAY, until=now - 19 * _DAY),
            "misfires since yesterday": lambda: operations.misfires(since=now - _DAY),
            "misfires of a job": lambda: operations.misfires(job=JobKey("job-7", "group-7")),
            "misfires of a trigger": lambda: operations.misfires(trigger=HOT),
            "counts": operations.counts,
            "late": operations.late,
            "running": operations.running,
            "upcoming": operations.upcoming,
            "timeline": operations.timeline,
            "timeline by job": lambda: operations.timeline(lanes="job"),
            "timeline of a day long ago": lambda: operations.timeline(now - 20 * _DAY, now - 19 * _DAY),
            "cluster": operations.cluster,
            "calendars": operations.calendars,
            "calendar": lambda: operations.calendar(CALENDAR, 2026),
            "groups": operations.groups,
            "limits": operations.limits,
            "locks": operations.locks,
            "audit log": operations.audit_log,
            "audit log of an action that never was": lambda: operations.audit_log(action="delete"),
            "audit log of a day long ago": lambda: operations.audit_log(since=now - 320 * _DAY, until=now - 319 * _DAY),
            "audit log since yesterday": lambda: operations.audit_log(since=now - _DAY),
            "audit log of a subject": lambda: operations.audit_log(subject="trigger group-7.trigger-7"),
            "system": operations.system,
            "search": lambda: operations.search("trigger-4711"),
            "search for a whole group": lambda: operations.search("group-50"),
            "search for an execution": lambda: operations.search(str(executions // 2)),
            "search without a result": lambda: operations.search(NOWHERE),
            "why": lambda: operations.why(TriggerKey("trigger-5", "group-5")),
            "why, of one that is paused": lambda: operations.why(TriggerKey("trigger-7", "group-7")),
        }
    )


def _triggers(operations: Operations, scheduler: Scheduler) -> dict[str, Callable[[], Any]]:
    unknown = TriggerKey("triger-5", "group-5")
    return {
        "triggers": operations.triggers,
        "triggers in ERROR": lambda: operations.triggers(state="ERROR"),
        "triggers that are PAUSED": lambda: operations.triggers(state="PAUSED"),
        "triggers that are BLOCKED": lambda: operations.triggers(state="BLOCKED"),
        "triggers of a group": lambda: operations.triggers(group="group-50"),
        "triggers of a calendar": lambda: operations.triggers(calendar=CALENDAR),
        "triggers of a job": lambda: operations.triggers(job=JobKey("job-7", "group-7")),
        "triggers that contain 99999": lambda: operations.triggers(contains="99999"),
        "triggers with an unknown name": lambda: operations.triggers(contains=NOWHERE),
        "triggers of an unknown kind": lambda: operations.triggers(kind="nothing"),
        "triggers by next fire time": lambda: operations.triggers(order_by="next_fire_time"),
        "triggers with an unknown name, by next fire time": lambda: operations.triggers(
            contains=NOWHERE, order_by="next_fire_time"
        ),
        "trigger that is not stored": lambda: _refused(operations.trigger, unknown),
        "trigger that is not stored, by the scheduler": lambda: _refused(scheduler.pause_trigger, unknown),
        "trigger": lambda: operations.trigger(TriggerKey("trigger-2345", "group-45")),
        "trigger with a tenth of the history": lambda: operations.trigger(HOT),
    }


def measure_crowded(scheduler: Scheduler, triggers: int) -> dict[str, list[float]]:
    """Return the milliseconds of the reads of a scheduler all of whose triggers are of one job."""
    operations = Operations(scheduler)
    job = JobKey(CROWD)
    middle = scheduler.triggers(group=CROWD).page(limit=triggers // 2).next_cursor
    reads: dict[str, Callable[[], Any]] = {
        "overview": operations.overview,
        "load for metrics": scheduler.node.cluster_load,
        "jobs": operations.jobs,
        "job": lambda: operations.job(job),
        "triggers of the job": lambda: operations.triggers(job=job),
        "triggers of the job, in the middle": lambda: operations.triggers(job=job, after=middle),
        "triggers of the job that are BLOCKED": lambda: operations.triggers(job=job, state="BLOCKED"),
        "triggers of the job with an unknown name": lambda: operations.triggers(job=job, contains=NOWHERE),
        "triggers of the job by next fire time": lambda: operations.triggers(job=job, order_by="next_fire_time"),
        "triggers of the calendar": lambda: operations.triggers(calendar=CALENDAR),
        "triggers that are BLOCKED": lambda: operations.triggers(state="BLOCKED"),
        "triggers that are PAUSED": lambda: operations.triggers(state="PAUSED"),
        "triggers that are PAUSED, by next fire time": lambda: operations.triggers(
            state="PAUSED", order_by="next_fire_time"
        ),
        "executions of the job that are SCHEDULED": lambda: operations.executions(job=job, state="SCHEDULED"),
        "trigger": lambda: operations.trigger(TriggerKey("crowd-0005000", CROWD)),
        "why": lambda: operations.why(TriggerKey("crowd-0000011", CROWD)),
        "upcoming": operations.upcoming,
        "timeline": operations.timeline,
        "groups": operations.groups,
        "limits": operations.limits,
        "calendars": operations.calendars,
        "search": lambda: operations.search("crowd-0004711"),
        "search without a result": lambda: operations.search(NOWHERE),
    }
    return {f"{name} (all of one job)": times for name, times in times_of_each(reads).items()}


def _refused(read: Callable[[TriggerKey], object], key: TriggerKey) -> None:
    with contextlib.suppress(TriggerNotFoundError):
        read(key)
