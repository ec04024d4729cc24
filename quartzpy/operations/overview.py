"""The overview: everything that an operator has to see first, in one read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from quartzpy.errors import SchemaError
from quartzpy.operations.incidents.cluster_diagnosis import ClusterDiagnosis, told_apart
from quartzpy.operations.incidents.incident import Incident
from quartzpy.operations.incidents.kinds.schema import schema_behind
from quartzpy.operations.incidents.late_triggers import LateTrigger
from quartzpy.operations.incidents.recorded import RecordedIncident, recorded_incident
from quartzpy.operations.read_context import MAX_COUNTED, Count, ReadContext, counted
from quartzpy.operations.views.agenda import Agenda, PlannedRun
from quartzpy.operations.views.cluster import NodeEnd, NodeView
from quartzpy.operations.views.executions import ExecutionSummary, RunningView
from quartzpy.operations.views.executions import summary as execution_summary
from quartzpy.operations.views.maintenance_windows import WindowView, announced
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.scheduler.singles import placements_of_jobs
from quartzpy.states import ExecutionState, Outcome, TriggerState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import Minutes, Tallies
from quartzpy.store.queries import ExecutionQuery, IncidentQuery
from quartzpy.store.records import ExecutionRecord
from quartzpy.texts import numbered

HORIZON = timedelta(hours=1)
DAY = timedelta(days=1)
MAX_RUNNING = 50
MAX_FAILED = 10
MAX_PLANNED = 50
MAX_OVER = 10
MAX_COUNTED_EXECUTIONS = 20_000
"""The number of executions from which throughput and lateness are computed."""
MAX_EXAMINED = 2_000
"""The number of executions among which those that are retried, or were lost with their node, are found."""
MAX_MISFIRES = 1_000
"""The number up to which the misfires of a day are counted."""
_MINUTE = timedelta(minutes=1)
_LATEST = ExecutionQuery(states=frozenset({ExecutionState.FAILED, ExecutionState.TERMINATED}), among=MAX_EXAMINED)


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
    """What is wrong, the worst first, without what is `acknowledged`."""
    running: tuple[RunningView, ...]
    """The executions that have run longest, then those that are about to start."""
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
    """The numbers of jobs, of triggers by state, of executions, and of late triggers ("jobs", "WAITING",
    "claimed", "running", "late"), each counted up to 10,000. `running` and `late` list only the first of them. "failed"
    are the executions that failed within the last hour, "misfires" those of a day, up to 1,000."""
    repeatable: tuple[int, ...] = ()
    """The fire ids of those of `failed` that can run again: no retry follows, and their jobs are stored."""

    lost_nodes: tuple[NodeEnd, ...] = ()
    """The nodes that were lost within the last day, the latest first, with what they lost and who recovered it."""

    acknowledged: tuple[Incident, ...] = ()
    """What is wrong as well, and somebody has taken note of."""

    over: tuple[RecordedIncident, ...] = ()
    """The latest incidents that ended within the last day."""

    has_more_over: bool = False
    """True if more ended within the last day."""

    windows: tuple[WindowView, ...] = ()
    """The maintenance windows that are open or begin within a day, the soonest first."""

    def number(self, *names: str) -> Count:
        """Return the sum of some of `counts`."""
        of_names = [self.counts[name] for name in names if name in self.counts]
        return Count(sum(count.number for count in of_names), any(count.has_more for count in of_names))

    @property
    def is_new(self) -> bool:
        """Nobody has begun yet: there is no job, no node has ever run, and no other scheduler's nodes are astray."""
        only = self.incidents[0] if len(self.incidents) == 1 else None
        is_without_nodes = only is not None and only.kind == "no-node" and len(only.why) == 1
        return is_without_nodes and not (self.nodes or self.lost_nodes or self.number("jobs").number)

    @property
    def calm(self) -> str:
        """What is in order, in words, from the same numbers as everything else here: "3 nodes alive, nothing late"."""
        alive = sum(node.state.is_alive for node in self.nodes)
        late, in_error = self.number("late"), self.number(TriggerState.ERROR)
        paused = self.number(TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED)
        parts = [
            numbered(alive, "node alive", "nodes alive"),
            f"{late} late" if late.number else "nothing late",
            f"{in_error} in error" if in_error.number else "nothing in error",
            *([f"{paused} paused"] if paused.number else []),
        ]
        return ", ".join(parts)


def overview(context: ReadContext) -> Overview:
    try:
        context.scheduler._usable_store()
    except SchemaError as error:
        return _unreadable(str(error))
    data = _OverviewData(context)
    now, minutes, over = data.now, data.minutes(), data.over()
    wrong = told_apart(data.incidents(), now)
    return Overview(
        now=now,
        incidents=wrong.incidents,
        acknowledged=wrong.acknowledged,
        over=tuple(map(recorded_incident, over[:MAX_OVER])),
        has_more_over=len(over) > MAX_OVER,
        running=tuple(sorted(data.running, key=_duration, reverse=True)[:MAX_RUNNING]),
        late=data.late(),
        failed=data.failed,
        agenda=tuple(data.agenda.runs()),
        throughput=tuple(_throughput(minutes, now)),
        lateness=tuple(_lateness(minutes, now)),
        series_since=minutes.complete_since,
        nodes=data.cluster.nodes,
        lost_nodes=tuple(end for end in data.cluster.ends if end.how == "lost"),
        counts={
            **_numbers(data.tallies),
            "late": data.late_jobs.total,
            "failed": _failed(minutes, now),
            "misfires": counted(data.misfires, MAX_MISFIRES),
        },
        repeatable=tuple(data.repeatable()),
        windows=data.windows,
    )


def _unreadable(message: str) -> Overview:
    # Without tables there is no other clock than that of this machine.
    now = datetime.now(UTC)  # noqa: TID251
    return Overview(now, (schema_behind(message),), (), (), (), (), (), (), now, (), {})


class _OverviewData(ClusterDiagnosis):
    """What the parts of the overview show, asked in the three round trips of the diagnosis."""

    def _ask_first(self) -> None:
        latest = self.reading.defer(lambda store: store.find(_LATEST, MAX_FAILED))
        misfires = self.reading.defer(lambda store: admin(store).recent_misfires(DAY, most=MAX_MISFIRES))
        stored = self.reading.defer(lambda store: store.windows())
        super()._ask_first()
        self.windows = announced(stored(), self.now)
        self.misfires = misfires()
        self.failed = self._latest_failures(latest())

    def _ask_second(self) -> None:
        reading, now = self.reading, self.now
        self.minutes = reading.defer(
            lambda store: admin(store).minutes(_first_minute(now), most=MAX_COUNTED_EXECUTIONS)
        )
        self.agenda = Agenda(reading, now, now + HORIZON, MAX_PLANNED)
        jobs = {row.job for row in self.failed if _is_final(row)}
        self._repeatable = placements_of_jobs(reading, jobs)
        self.over = reading.defer(lambda store: admin(store).find(IncidentQuery(since=now - DAY), MAX_OVER + 1))
        super()._ask_second()

    def _ask_third(self) -> None:
        self.agenda.look_up_calendars()
        super()._ask_third()

    def _latest_failures(self, others: Sequence[ExecutionRecord]) -> tuple[ExecutionSummary, ...]:
        """Return the latest failures: those that are final, and those that are retried or lost and came last."""
        records = {record.fire_id: record for record in [*self.failures, *others]}
        latest = sorted(records.values(), key=lambda record: record.ended_at or self.now, reverse=True)
        return tuple(map(execution_summary, latest[:MAX_FAILED]))

    def repeatable(self) -> list[int]:
        """Return the fire ids of the executions that can run again, and that no retry repeats."""
        stored = self._repeatable()
        return [row.fire_id for row in self.failed if row.fire_id is not None and _is_final(row) and row.job in stored]


def _duration(row: RunningView) -> timedelta:
    return row.elapsed if row.elapsed is not None else timedelta(-1)


def _failed(minutes: Minutes, now: datetime) -> Count:
    number = sum(minute.outcomes.get(Outcome.FAILED, 0) for minute in minutes.minutes)
    return Count(number, minutes.complete_since > _first_minute(now))


def _is_final(row: ExecutionSummary) -> bool:
    return row.fire_id is not None and row.retry_at is None


def counts(reading: BatchedReads) -> dict[str, Count]:
    """Return the numbers of jobs, of triggers by state and of executions; see `Overview.counts`."""
    return _numbers(reading.defer(lambda store: admin(store).tallies(MAX_COUNTED))())


def _numbers(tallies: Tallies) -> dict[str, Count]:
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
    measured = {minute.at: minute.outcomes for minute in minutes.minutes}
    return [
        MinuteThroughput(
            at, {str(name): number for name, number in measured.get(at, {}).items()}, sum(measured[at].values())
        )
        if at in measured
        else MinuteThroughput(at, {}, 0)
        for at in _every_minute(now)
    ]


def _lateness(minutes: Minutes, now: datetime) -> list[MinuteLateness]:
    measured = {minute.at: (minute.lateness_p50, minute.lateness_p99) for minute in minutes.minutes}
    return [MinuteLateness(at, *measured.get(at, (None, None))) for at in _every_minute(now)]
