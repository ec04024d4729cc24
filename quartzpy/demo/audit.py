"""The audit of the demo: it checks the scheduler's guarantees in the database after the last execution has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise, takewhile

from quartzpy.demo.jobs import GROUP
from quartzpy.keys import JobKey
from quartzpy.store.records import LATE_AFTER, ExecutionRecord, TriggerRecord
from quartzpy.triggers.trigger import Trigger


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


def expected(trigger: Trigger, until: datetime | None) -> Iterable[datetime]:
    """Return the instants of a trigger before `until`, or all of them if `until` is None."""
    return takewhile(lambda instant: until is None or instant < until, trigger.fire_times())


def summarize(
    nodes: int,
    executions: Sequence[ExecutionRecord],
    stored: Sequence[TriggerRecord],
    planned: Sequence[Trigger],
    serial_job: JobKey,
    paused_at: datetime,
) -> Summary:
    """Compare the executions with the fire times of the `planned` triggers, each up to its stored next fire time.

    A trigger that is no longer stored has fired for the last time, and one that waits although its fire time passed
    more than `LATE_AFTER` before `paused_at` has lost a fire.
    """
    fired = Counter((e.trigger_key, e.scheduled_fire_time) for e in executions if e.trigger_key.group == GROUP)
    recovered = Counter((e.job_key, e.scheduled_fire_time) for e in executions if e.recovering)
    summary = Summary(
        nodes,
        fires=len(executions),
        fires_by_job=dict(Counter(e.job_key.name for e in executions)),
        failed=sum(e.outcome == "FAILED" for e in executions),
        retried=sum(e.attempt > 1 and e.outcome == "SUCCEEDED" for e in executions),
        recovered=recovered.total(),
        overlaps=overlaps(executions, serial_job),
        duplicated=sum(count - 1 for count in (*fired.values(), *recovered.values())),
    )
    reached = {record.key: record.next_fire_time for record in stored}
    for trigger in planned:
        assert trigger.job_key is not None
        following = reached.get(trigger.key)
        if following is not None and following < paused_at - LATE_AFTER:
            summary.lost += 1
        for instant in expected(trigger, following):
            # The history has a fire whose node died as its recovery.
            summary.lost += not (fired[trigger.key, instant] or recovered[trigger.job_key, instant])
    return summary
