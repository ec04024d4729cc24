"""The audit of the demo: it checks the scheduler's guarantees in the database after the last execution has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from quartzpy.demo.jobs import GROUP
from quartzpy.keys import RECOVERING_JOBS, JobKey
from quartzpy.store.records import ExecutionRecord, TriggerRecord
from quartzpy.triggers.trigger import Trigger

LATE = timedelta(seconds=5)
"""A fire counts as lost if its trigger still waits this long after the fire time."""


@dataclass(slots=True)
class Summary:
    """The counts of a run's executions and of violated guarantees."""

    nodes: int
    fires: int = 0
    fires_by_job: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    retried: int = 0
    """Retries that succeeded."""
    recovered: int = 0
    overlaps: int = 0
    lost: int = 0
    duplicated: int = 0

    @property
    def promises_kept(self) -> bool:
        return self.overlaps == self.lost == self.duplicated == 0


def overlaps(executions: Iterable[ExecutionRecord], job: JobKey) -> int:
    """Count the executions of a job that began before the previous one had ended."""
    spans = sorted((e.started_at, e.ended_at) for e in executions if e.job_key == job and e.started_at and e.ended_at)
    return sum(later[0] < earlier[1] for earlier, later in pairwise(spans))


def expected(trigger: Trigger, until: datetime | None) -> list[datetime]:
    """Return the instants of a trigger before `until`, or all of them if `until` is None."""
    instants: list[datetime] = []
    progress = trigger.started()
    while progress.next_fire_time is not None and (until is None or progress.next_fire_time < until):
        instants.append(progress.next_fire_time)
        progress = trigger.triggered(progress)
    return instants


def summarize(
    nodes: int,
    executions: Sequence[ExecutionRecord],
    stored: Sequence[TriggerRecord],
    planned: Sequence[Trigger],
    serial_job: JobKey,
    paused_at: datetime,
) -> Summary:
    """Compare the executions with the fire times of the `planned` triggers, each up to its stored next fire time.

    A trigger that is no longer stored has fired for the last time.
    """
    summary = Summary(nodes)
    fired: Counter[tuple[JobKey, str, datetime]] = Counter()
    recovered: Counter[tuple[JobKey, datetime]] = Counter()
    for execution in executions:
        by_job = summary.fires_by_job
        by_job[execution.job_key.name] = by_job.get(execution.job_key.name, 0) + 1
        summary.failed += execution.outcome == "FAILED"
        summary.retried += execution.attempt > 1 and execution.outcome == "SUCCEEDED"
        if execution.trigger_key.group == RECOVERING_JOBS:
            summary.recovered += 1
            recovered[execution.job_key, execution.scheduled_fire_time] += 1
        elif execution.trigger_key.group == GROUP:
            fired[execution.job_key, execution.trigger_key.name, execution.scheduled_fire_time] += 1
    summary.fires = len(executions)
    summary.overlaps = overlaps(executions, serial_job)
    summary.duplicated = sum(count - 1 for count in fired.values()) + sum(count - 1 for count in recovered.values())
    reached = {record.key: record.progress.next_fire_time for record in stored}
    for trigger in planned:
        assert trigger.job_key is not None
        following = reached.get(trigger.key)
        if following is not None and following < paused_at - LATE:
            summary.lost += 1
        for instant in expected(trigger, following):
            # The history has a fire whose node died as its recovery.
            happened = fired[trigger.job_key, trigger.key.name, instant] or recovered[trigger.job_key, instant]
            summary.lost += not happened
    return summary
