"""The overview: everything that an operator has to see first, in one read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import cluster as clusters
from quartzpy.operations import incidents as causes
from quartzpy.operations.cluster import NodeView
from quartzpy.operations.executions import ExecutionSummary, RunningView, running_view
from quartzpy.operations.executions import summary as execution_summary
from quartzpy.operations.incidents import Incident
from quartzpy.operations.jobs import PlannedRun, runs_of
from quartzpy.operations.source import Source
from quartzpy.operations.triggers import OVERDUE
from quartzpy.operations.triggers import summary as trigger_summary
from quartzpy.operations.triggers import why as why_of
from quartzpy.states import ExecutionState, TriggerState
from quartzpy.store.protocol import JobStore
from quartzpy.store.queries import ExecutionQuery, TriggerQuery

HORIZON = timedelta(hours=1)
MOST_RUNNING = 50
MOST_LATE = 20
MOST_EXPLAINED = 5
"""The number of late triggers that are explained one by one; an explanation takes several queries."""
MOST_FAILED = 10
MOST_PLANNED = 50
_WAITING = frozenset({ExecutionState.SCHEDULED})


@dataclass(frozen=True, slots=True)
class LateTrigger:
    """A trigger that is due and that no node has claimed."""

    trigger: TriggerKey
    job: JobKey
    job_type: str
    due_at: datetime
    late: timedelta
    why: tuple[str, ...]
    """Sentences that explain it; empty for all but the latest few triggers."""


@dataclass(frozen=True, slots=True)
class MinuteThroughput:
    """The executions that ended within one minute."""

    at: datetime
    """The beginning of the minute."""
    outcomes: Mapping[str, int]
    total: int


@dataclass(frozen=True, slots=True)
class MinuteLateness:
    """How late the executions of one minute started: the start minus the scheduled instant."""

    at: datetime
    p50: timedelta | None
    """None if no execution started within the minute."""
    p99: timedelta | None


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of the whole cluster."""

    now: datetime
    incidents: tuple[Incident, ...]
    """What is wrong, the worst first."""
    running: tuple[RunningView, ...]
    late: tuple[LateTrigger, ...]
    failed: tuple[ExecutionSummary, ...]
    """The latest failures."""
    agenda: tuple[PlannedRun, ...]
    """The runs of the next hour, the soonest first."""
    throughput: tuple[MinuteThroughput, ...]
    """The last hour, minute by minute."""
    lateness: tuple[MinuteLateness, ...]
    nodes: tuple[NodeView, ...]
    counts: Mapping[str, int]


def overview(source: Source) -> Overview:
    store = source.store
    answer = store.list_nodes()
    running = store.list_running()
    cluster = clusters.of_records(answer.now, answer.nodes, running, store.node_facts())
    failed = store.find_executions(ExecutionQuery(states=frozenset({ExecutionState.FAILED})), MOST_FAILED)
    errors = store.find_triggers(TriggerQuery(states=frozenset({TriggerState.ERROR})), causes.MOST_OF_A_KIND)
    found = [
        *causes.of_nodes(cluster),
        *causes.in_error([trigger_summary(record, answer.now) for record in errors]),
    ]
    counts = store.counts()
    return Overview(
        now=answer.now,
        incidents=causes.by_severity(found),
        running=tuple(running_view(row, answer.now) for row in running[:MOST_RUNNING]),
        late=late(source, answer.now),
        failed=tuple(map(execution_summary, failed)),
        agenda=tuple(agenda(store, answer.now, answer.now + HORIZON, MOST_PLANNED)),
        throughput=(),
        lateness=(),
        nodes=cluster.nodes,
        counts={"jobs": counts["jobs"], "running": counts["running"], **counts["triggers"]},
    )


def late(source: Source, now: datetime) -> tuple[LateTrigger, ...]:
    """Return the triggers that are due and that no node has claimed, the latest first."""
    due = source.store.find_executions(ExecutionQuery(states=_WAITING, until=now - OVERDUE), MOST_LATE)
    return tuple(
        LateTrigger(
            record.trigger_key,
            record.job_key,
            record.job_type,
            record.scheduled_fire_time,
            now - record.scheduled_fire_time,
            tuple(why_of(source, record.trigger_key)) if number < MOST_EXPLAINED else (),
        )
        for number, record in enumerate(due)
    )


def agenda(store: JobStore, now: datetime, until: datetime, limit: int) -> list[PlannedRun]:
    """Return the fires that are to come before `until`, several of one trigger included, the soonest first."""
    due = store.find_executions(ExecutionQuery(states=_WAITING, since=now, until=until), limit)
    records = store.triggers({record.trigger_key for record in due})
    runs = [run for record in records.values() for run in runs_of(store, record, limit, now) if now <= run.at < until]
    return sorted(runs, key=lambda run: (run.at, run.trigger))[:limit]
