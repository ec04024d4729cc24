"""The overview: everything that an operator has to see first, in one read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from quartzpy.errors import SchemaError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import cluster as clusters
from quartzpy.operations import incidents as causes
from quartzpy.operations.agenda import PlannedRun, agenda
from quartzpy.operations.clock_changes import upcoming_changes
from quartzpy.operations.cluster import NodeState, NodeView
from quartzpy.operations.counts import MOST_COUNTED, Count, counted
from quartzpy.operations.executions import GRACE, ExecutionSummary, RunningView, running_view
from quartzpy.operations.executions import summary as execution_summary
from quartzpy.operations.failures import in_a_row
from quartzpy.operations.incidents import Incident
from quartzpy.operations.job_incidents import ignored_timeouts, without_node
from quartzpy.operations.limits import placements_of, pools
from quartzpy.operations.node_incidents import of_nodes
from quartzpy.operations.source import Source, attempt
from quartzpy.operations.triggers import OVERDUE
from quartzpy.scheduling.verbs.reasons import Reasons
from quartzpy.states import ExecutionState, TriggerState
from quartzpy.store.protocol import CheckIn, JobStore, Minutes, Tallies
from quartzpy.store.queries import ExecutionQuery, TriggerQuery
from quartzpy.store.records import ExecutionRecord, RunningRecord

HORIZON = timedelta(hours=1)
MOST_RUNNING = 50
MOST_LATE = 20
MOST_EXPLAINED = 5
"""The number of late triggers that are explained one by one, because an explanation takes several queries."""
MOST_FAILED = 10
MOST_PLANNED = 50
MOST_COUNTED_EXECUTIONS = 20_000
"""The number of executions from which throughput and lateness are computed."""
MOST_FAILURES = 200
MOST_DUE = 200
MOST_SLOW = 200
"""The number of running executions, the longest first, whose timeouts are looked up."""
MOST_EXAMINED = 2_000
"""The number of executions among which those that are retried, or were lost with their node, are found."""
_MINUTE = timedelta(minutes=1)
DUE = timedelta(seconds=2)
"""The delay from which a trigger counts as due while all workers are busy."""
_TO_COME = frozenset({ExecutionState.SCHEDULED})
_FAILED = frozenset({ExecutionState.FAILED})
_FAILED_OR_LOST = frozenset({ExecutionState.FAILED, ExecutionState.TERMINATED})


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
    """The latest failures, and the latest executions that were lost with their node. Those that are retried or lost are
    found among the latest 2,000 executions."""
    agenda: tuple[PlannedRun, ...]
    """The runs of the next hour, the soonest first."""
    throughput: tuple[MinuteThroughput, ...]
    """The last hour, minute by minute."""
    lateness: tuple[MinuteLateness, ...]
    """The last hour, minute by minute."""
    series_since: datetime
    """The instant from which `throughput` and `lateness` are complete. It is later than an hour ago if there were more
    than 20,000 executions since."""
    nodes: tuple[NodeView, ...]
    counts: Mapping[str, Count]
    """The numbers of jobs, of triggers by state, and of claims and executions ("jobs", "WAITING", "claimed",
    "running"), each counted up to 10,000."""
    repeatable: tuple[int, ...] = ()
    """The fire ids of those of `failed` that can run again: no retry follows, and their jobs are stored."""


def overview(source: Source) -> Overview:
    try:
        store = source.store
    except SchemaError as error:
        return _unreadable(str(error))
    seen = _Seen(source, store)
    now = seen.now
    failed = seen.failed()
    minutes = store.minutes(_first_minute(now), most=MOST_COUNTED_EXECUTIONS)
    return Overview(
        now=now,
        incidents=seen.incidents(),
        running=seen.running[:MOST_RUNNING],
        late=seen.late(),
        failed=failed,
        agenda=tuple(agenda(store, now, now, now + HORIZON, MOST_PLANNED)),
        throughput=tuple(_throughput(minutes, now)),
        lateness=tuple(_lateness(minutes, now)),
        series_since=minutes.complete_since,
        nodes=seen.cluster.nodes,
        counts=_counts(seen.tallies),
        repeatable=tuple(seen.repeatable(failed)),
    )


def _unreadable(message: str) -> Overview:
    # Without tables there is no other clock than that of this machine.
    now = datetime.now(UTC)  # noqa: TID251
    return Overview(now, (causes.schema_behind(message),), (), (), (), (), (), (), now, (), {})


class _Seen:
    """What several parts of the overview share, read once."""

    def __init__(self, source: Source, store: JobStore) -> None:
        self._source = source
        self._store = store
        self._nodes: CheckIn = store.list_nodes()
        self._running: list[RunningRecord] = store.list_running()
        self.now = self._nodes.now
        self.cluster = clusters.of_records(self.now, self._nodes.nodes, self._running, store.node_facts())
        self.running = tuple(running_view(row, self.now) for row in self._running)
        self.tallies = store.tallies(MOST_COUNTED)
        self._due = self._find_due()
        self._failures = store.find_executions(ExecutionQuery(states=_FAILED, exhausted=True), MOST_FAILURES)

    def _find_due(self) -> list[ExecutionRecord]:
        """Return the triggers that could fire, except those that a rate limit holds back."""
        found = self._store.find_executions(ExecutionQuery(states=_TO_COME, until=self.now - DUE), MOST_DUE)
        if not found:
            return found
        records = self._store.triggers({record.trigger_key for record in found})
        held = {key for key, one in records.items() if one.rate_limited_until and one.rate_limited_until > self.now}
        return [record for record in found if record.trigger_key not in held]

    def late(self) -> tuple[LateTrigger, ...]:
        """Return the triggers that are due and that no node has claimed, those that wait longest first."""
        late = [record for record in self._due if record.scheduled_fire_time < self.now - OVERDUE][:MOST_LATE]
        reasons = Reasons(self._store, self._source.config.misfire_threshold, self._source.advice) if late else None
        found = []
        for number, record in enumerate(late):
            why: Sequence[str] | None = ()
            if reasons is not None and number < MOST_EXPLAINED:
                why, problem = attempt(lambda record=record: reasons.of_trigger(record.trigger_key))  # type: ignore[misc]
                why = why or [problem or ""]
            found.append(_late(record, self.now, tuple(why or ())))
        return tuple(found)

    def failed(self) -> tuple[ExecutionSummary, ...]:
        """Return the latest failures: those that are final, and those that are retried or lost and came last."""
        query = ExecutionQuery(states=_FAILED_OR_LOST, among=MOST_EXAMINED)
        others = self._store.find_executions(query, MOST_FAILED)
        found = {record.fire_id: record for record in [*self._failures, *others]}
        latest = sorted(found.values(), key=lambda record: record.ended_at or self.now, reverse=True)
        return tuple(map(execution_summary, latest[:MOST_FAILED]))

    def repeatable(self, failed: Sequence[ExecutionSummary]) -> list[int]:
        """Return the fire ids of the executions that can run again, and that no retry repeats."""
        final = {row.fire_id: row.job for row in failed if row.fire_id is not None and row.retry_at is None}
        stored = self._store.placements(set(final.values())) if final else {}
        return [fire_id for fire_id, job in final.items() if job in stored]

    def incidents(self) -> tuple[Incident, ...]:
        store, now = self._store, self.now
        due_of_job = Counter(record.job_key for record in self._due)
        due_of_type: defaultdict[str, list[TriggerKey]] = defaultdict(list)
        for record in self._due:
            if record.scheduled_fire_time < now - OVERDUE:
                due_of_type[record.job_type].append(record.trigger_key)
        found = [
            *of_nodes(self.cluster),
            *causes.unknown_types(due_of_type, self.cluster),
            *self._full_pools(due_of_job),
            *self._without_node(),
            *self._ignored_timeouts(),
            *self._stopped(),
        ]
        # A trigger in ERROR has an incident of its own, with the same error.
        stopped = {one.subject for one in found if one.kind == "trigger-error"}
        found += causes.failing(
            [row for row in in_a_row(store, self._failures, now) if str(row.trigger) not in stopped]
        )
        found += causes.clock_changes(upcoming_changes(store, now))
        return causes.by_severity(found)

    def _without_node(self) -> list[Incident]:
        late: defaultdict[JobKey, list[TriggerKey]] = defaultdict(list)
        types: dict[JobKey, str] = {}
        for record in self._due:
            if record.scheduled_fire_time < self.now - OVERDUE:
                late[record.job_key].append(record.trigger_key)
                types[record.job_key] = record.job_type
        if not late:
            return []
        alive = {node.node for node in self.cluster.nodes if node.state is not NodeState.DEAD}
        nodes = [record for record in self._nodes.nodes if record.instance_id in alive]
        placements, _ = attempt(lambda: self._store.placements(list(late)))
        return without_node(late, types, placements or {}, nodes)

    def _ignored_timeouts(self) -> list[Incident]:
        """Return incidents about the executions that have run longest, if they ignore their timeouts."""
        slow = sorted(
            (row for row in self.running if row.elapsed is not None and row.elapsed > GRACE),
            key=lambda row: row.elapsed or timedelta(),
            reverse=True,
        )[:MOST_SLOW]
        if not slow:
            return []
        jobs, _ = attempt(lambda: self._store.jobs({row.job for row in slow}))
        return ignored_timeouts(slow, {key: job.timeout for key, job in (jobs or {}).items() if job.timeout})

    def _full_pools(self, due: Mapping[JobKey, int]) -> list[Incident]:
        if not due or not self._running:
            return []
        alive = {node.node for node in self.cluster.nodes if node.state is not NodeState.DEAD}
        nodes = [record for record in self._nodes.nodes if record.instance_id in alive]
        placements = placements_of(self._store, self._running)
        of_due, _ = attempt(lambda: self._store.placements(list(due)))
        used = pools(nodes, self._running, placements)
        return causes.full_pools(used, self.running, placements, due, of_due or {})

    def _stopped(self) -> list[Incident]:
        """Return incidents about triggers that are in ERROR, blocked or paused."""
        store, now, numbers = self._store, self.now, self.tallies.triggers
        found = []
        if numbers.get(TriggerState.ERROR):
            query = TriggerQuery(states=frozenset({TriggerState.ERROR}))
            found += causes.in_error(store.find_triggers(query, causes.MOST_OF_A_KIND))
        if numbers.get(TriggerState.BLOCKED):
            query = TriggerQuery(states=frozenset({TriggerState.BLOCKED}), until=now - OVERDUE)
            found += causes.blocked_jobs(store.find_triggers(query, MOST_DUE), self.running, now)
        if self.tallies.overdue_paused:
            query = TriggerQuery(states=frozenset({TriggerState.PAUSED}), until=now)
            found += causes.paused_overdue(
                store.find_triggers(query, causes.MOST_OF_A_KIND),
                counted(self.tallies.overdue_paused),
                now,
                all_paused=store.all_paused(),
            )
        return found


def _late(record: ExecutionRecord, now: datetime, why: tuple[str, ...]) -> LateTrigger:
    due_at = record.scheduled_fire_time
    return LateTrigger(record.trigger_key, record.job_key, record.job_type, due_at, now - due_at, why)


def _counts(tallies: Tallies) -> dict[str, Count]:
    triggers = {str(state): counted(number) for state, number in tallies.triggers.items()}
    return {
        "jobs": counted(tallies.jobs),
        "claimed": counted(tallies.claimed),
        "running": counted(tallies.executing),
        **triggers,
    }


def _first_minute(now: datetime) -> datetime:
    return now.replace(second=0, microsecond=0) - HORIZON + _MINUTE


def _every_minute(now: datetime) -> list[datetime]:
    return [_first_minute(now) + number * _MINUTE for number in range(HORIZON // _MINUTE)]


def _throughput(minutes: Minutes, now: datetime) -> list[MinuteThroughput]:
    """Return all minutes of the last hour, those without executions included, so that a plot has no gaps."""
    known = {one.at: one.outcomes for one in minutes.minutes}
    return [
        MinuteThroughput(at, {str(name): number for name, number in known.get(at, {}).items()}, sum(known[at].values()))
        if at in known
        else MinuteThroughput(at, {}, 0)
        for at in _every_minute(now)
    ]


def _lateness(minutes: Minutes, now: datetime) -> list[MinuteLateness]:
    known = {one.at: (one.lateness_p50, one.lateness_p99) for one in minutes.minutes}
    return [MinuteLateness(at, *known.get(at, (None, None))) for at in _every_minute(now)]
