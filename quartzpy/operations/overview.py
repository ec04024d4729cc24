"""The overview: everything that an operator has to see first, in one read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import zip_longest

from quartzpy.errors import SchemaError
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations import cluster as clusters
from quartzpy.operations import incidents as causes
from quartzpy.operations.agenda import Agenda, PlannedRun
from quartzpy.operations.clock_changes import clock_changes, upcoming_changes
from quartzpy.operations.cluster import NodeEnd, NodeState, NodeView
from quartzpy.operations.executions import GRACE, ExecutionSummary, RunningView, running_view
from quartzpy.operations.executions import summary as execution_summary
from quartzpy.operations.failures import FailuresInARow
from quartzpy.operations.groups import placements_of, pools
from quartzpy.operations.incidents import Incident, ignored_timeouts, of_nodes, without_node
from quartzpy.operations.late import MANY, LateJobs
from quartzpy.operations.lock_holders import MOST_LOCKS, LockHolder, lock_holders
from quartzpy.operations.pause_incidents import paused_overdue
from quartzpy.operations.source import MOST_COUNTED, Count, Source, attempt, counted
from quartzpy.operations.triggers import OVERDUE, late_by
from quartzpy.placement import Placement
from quartzpy.scheduler.explain import Explanation, Moment
from quartzpy.scheduler.reading import Answer, Reading
from quartzpy.scheduler.singles import mode_of_job, placements
from quartzpy.states import ExecutionState, JobMode, NodeMode, Outcome, TriggerState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import LockRecord, Minutes, PausedOverdue, Tallies
from quartzpy.store.queries import ExecutionQuery, TriggerOrder, TriggerQuery
from quartzpy.store.records import ExecutionRecord, NodeRecord, Pauses, TriggerRecord
from quartzpy.texts import numbered

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
MOST_OTHERS = 20
"""The number of other schedulers in the same tables that are looked at."""
MOST_SLOW = 200
"""The number of running executions, the longest first, whose timeouts are looked up."""
MOST_EXAMINED = 2_000
"""The number of executions among which those that are retried, or were lost with their node, are found."""
MOST_MISFIRES = 1_000
"""The number up to which the misfires of a day are counted."""
_MINUTE, _DAY = timedelta(minutes=1), timedelta(days=1)
DUE = timedelta(seconds=2)
"""The delay from which a trigger counts as due while all workers are busy."""
_WAITING = frozenset({TriggerState.WAITING})
_FINAL = ExecutionQuery(states=frozenset({ExecutionState.FAILED}), exhausted=True)
_LATEST = ExecutionQuery(states=frozenset({ExecutionState.FAILED, ExecutionState.TERMINATED}), among=MOST_EXAMINED)


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
    """The executions that have run longest, then those that are only claimed."""
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
    """The numbers of jobs, of triggers by state, of claims and executions, and of late triggers ("jobs", "WAITING",
    "claimed", "running", "late"), each counted up to 10,000. `running` and `late` list only the first of them. "failed"
    are the executions that failed within the last hour, "misfires" those of a day, up to 1,000."""
    repeatable: tuple[int, ...] = ()
    """The fire ids of those of `failed` that can run again: no retry follows, and their jobs are stored."""

    lost_nodes: tuple[NodeEnd, ...] = ()
    """The nodes that were lost within the last day, the latest first, with what they lost and who recovered it."""

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
        alive = sum(node.state is NodeState.ALIVE for node in self.nodes)
        late, in_error = self.number("late"), self.number(TriggerState.ERROR)
        paused = self.number(TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED)
        parts = [
            numbered(alive, "node alive", "nodes alive"),
            f"{late} late" if late.number else "nothing late",
            f"{in_error} in error" if in_error.number else "nothing in error",
            *([f"{paused} paused"] if paused.number else []),
        ]
        return ", ".join(parts)


def overview(source: Source) -> Overview:
    try:
        source.scheduler._usable_store()
    except SchemaError as error:
        return _unreadable(str(error))
    data = _OverviewData(source)
    now, minutes = data.now, data.minutes()
    return Overview(
        now=now,
        incidents=data.incidents(),
        running=tuple(sorted(data.running, key=_duration, reverse=True)[:MOST_RUNNING]),
        late=data.late(),
        failed=data.failed,
        agenda=tuple(data.agenda.runs()),
        throughput=tuple(_throughput(minutes, now)),
        lateness=tuple(_lateness(minutes, now)),
        series_since=minutes.complete_since,
        nodes=data.cluster.nodes,
        lost_nodes=tuple(end for end in data.cluster.ends if end.how == "lost"),
        counts={
            **_counts(data.tallies),
            "late": data.late_jobs.total,
            "failed": _failed(minutes, now),
            "misfires": counted(data.misfires, MOST_MISFIRES),
        },
        repeatable=tuple(data.repeatable()),
    )


def _unreadable(message: str) -> Overview:
    # Without tables there is no other clock than that of this machine.
    now = datetime.now(UTC)  # noqa: TID251
    return Overview(now, (causes.schema_behind(message),), (), (), (), (), (), (), now, (), {})


class _OverviewData:
    """What the parts of the overview show, asked in three round trips.

    The first asks what needs no time; the second, what the answers name, and what depends on the time; the third, what
    those answers name.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._reading = source.reading()
        self._ask_first()
        self._ask_second()
        self._ask_third()

    def _ask_first(self) -> None:
        ask = self._reading.ask
        moment = Moment(self._reading)
        self._moment = moment
        tallies = ask(lambda store: admin(store).tallies(MOST_COUNTED))
        overdue = ask(lambda store: admin(store).overdue(OVERDUE, MOST_DUE, most=MOST_COUNTED))
        paused = ask(lambda store: admin(store).paused_overdue(MOST_DUE, most=MOST_COUNTED))
        self._others = ask(lambda store: admin(store).other_schedulers(MOST_OTHERS))
        final = ask(lambda store: store.find(_FINAL, MOST_FAILURES))
        latest = ask(lambda store: store.find(_LATEST, MOST_FAILED))
        misfires = ask(lambda store: admin(store).recent_misfires(_DAY, most=MOST_MISFIRES))
        ends = clusters.node_ends(self._reading)
        self._nodes = moment.nodes()
        self._running = moment.running()
        self.now = self._nodes.now
        self.cluster = clusters.of_records(self.now, self._nodes.nodes, self._running, moment.nodes().metadata, ends())
        self.running = tuple(running_view(row, self.now) for row in self._running)
        self.tallies = tallies()
        self._overdue = overdue()
        self._paused = paused()
        self.misfires = misfires()
        self._failures = final()
        self.failed = self._latest_failures(latest())

    def _ask_second(self) -> None:
        reading, now = self._reading, self.now
        ask = reading.ask
        self.minutes = ask(lambda store: admin(store).minutes(_first_minute(now), most=MOST_COUNTED_EXECUTIONS))
        self.agenda = Agenda(reading, now, now + HORIZON, MOST_PLANNED)
        self._clock_changes = upcoming_changes(reading, now)
        self._in_a_row = FailuresInARow(reading, self._failures, now)
        self._stopped = _Stopped(reading, self.tallies, self._paused, now)
        jobs = {row.job for row in self.failed if _is_final(row)}
        self._repeatable = _placements(reading, jobs)
        self._slow = self._slowest()
        slow = {row.job for row in self._slow}
        held = {job.job_key for job in self._overdue if job.is_held}
        self._jobs_held: Callable[[], dict[JobKey, JobDetail]] = dict
        if held:
            self._jobs_held = ask(lambda store: store.jobs(held))
        self._jobs_of_slow: Callable[[], dict[JobKey, JobDetail]] = dict
        if slow:
            self._jobs_of_slow = ask(lambda store: store.jobs(slow))
        self._locks: Callable[[], Sequence[LockRecord]] = list
        if any(not job.is_held for job in self._overdue):
            self._locks = ask(lambda store: admin(store).locks(MOST_LOCKS))
        # Those that a rate limit holds back are not due before their turn.
        due = TriggerQuery(
            states=_WAITING,
            until=now - DUE,
            due_until=now - DUE,
            order=TriggerOrder.NEXT_FIRE_TIME,
            among=MANY,
        )
        self._due = ask(lambda store: store.find(due, MOST_DUE))()
        self._late = [record for record in self._due if late_by(record, now) is not None]
        self.late_jobs = LateJobs(self._late, self._overdue, is_cut=len(self._due) >= MOST_DUE)

    def _ask_third(self) -> None:
        reading = self._reading
        self.agenda.look_up_calendars()
        self._in_a_row.look_further()
        due, late = {record.job_key for record in self._due}, set(self.late_jobs.numbers)
        self._of_due = _placements(reading, due)
        self._of_late = _placements(reading, late)
        self._of_running = placements_of(reading, self._running)
        if late:
            self._moment.look_up_placements()
        threshold, advice = self._source.config.misfire_threshold, self._source.advice
        self._explained = [
            Explanation(self._moment, record.key, threshold, advice, record.job_key)
            for record in self._late[:MOST_LATE][:MOST_EXPLAINED]
        ]

    def late(self) -> tuple[LateTrigger, ...]:
        """Return the triggers that are due and that no node has claimed, those that wait longest first."""
        triggers = []
        holders = [str(holder) for holder in self.holders()]
        for record, explained in zip_longest(self._late[:MOST_LATE], self._explained):
            why: Sequence[str] | None = ()
            if explained is not None:
                why, problem = attempt(explained)
                why = [*(why or [problem or ""]), *holders]
            triggers.append(_late(record, self.now, tuple(why or ())))
        return tuple(triggers)

    def holders(self) -> tuple[LockHolder, ...]:
        """Return the transactions that may hold the rows of the late triggers."""
        return lock_holders(self._locks()) if self._late else ()

    def _latest_failures(self, others: Sequence[ExecutionRecord]) -> tuple[ExecutionSummary, ...]:
        """Return the latest failures: those that are final, and those that are retried or lost and came last."""
        records = {record.fire_id: record for record in [*self._failures, *others]}
        latest = sorted(records.values(), key=lambda record: record.ended_at or self.now, reverse=True)
        return tuple(map(execution_summary, latest[:MOST_FAILED]))

    def repeatable(self) -> list[int]:
        """Return the fire ids of the executions that can run again, and that no retry repeats."""
        stored = self._repeatable()
        return [row.fire_id for row in self.failed if row.fire_id is not None and _is_final(row) and row.job in stored]

    def incidents(self) -> tuple[Incident, ...]:
        due_of_job = Counter(record.job_key for record in self._due)
        late = self.late_jobs
        full = self._full_pools(due_of_job)
        incidents = [
            *of_nodes(self.cluster, self._others(), self._source.config.name),
            *causes.names_mixed_up(self.cluster, self.tallies.jobs, self._others(), self._source.config.name),
            *causes.unknown_types(late, self.cluster),
            *full,
            *self._without_node(),
            *self._unexplained(full),
            *self._ignored_timeouts(),
            *causes.backlogs(self._overdue, self._rates(), self.now),
            *self._stopped.incidents(self.running, self._moment.pauses()),
        ]
        # A trigger in ERROR has an incident of its own, with the same error.
        in_error = self._stopped.in_error()
        incidents += self._in_a_row.incidents(
            {record.key for record in in_error}, {record.job_key for record in in_error}
        )
        incidents += clock_changes(self._clock_changes())
        return causes.by_severity(causes.capped(incidents))

    def _rates(self) -> dict[JobKey, RateLimit]:
        jobs, _ = attempt(self._jobs_held)
        return {key: job.rate_limit for key, job in (jobs or {}).items() if job.rate_limit is not None}

    def _without_node(self) -> list[Incident]:
        if not self.late_jobs:
            return []
        placements, _ = attempt(self._of_late)
        return without_node(self.late_jobs, placements or {}, self._alive())

    def _unexplained(self, full: Sequence[Incident]) -> list[Incident]:
        """Return an incident about the late triggers that no other incident explains."""
        late = self.late_jobs
        if not late or not any(node.mode is NodeMode.RUNNING for node in self._alive()):
            return []
        placements, _ = attempt(self._of_late)
        executors = {incident.subject for incident in full}
        explained = {
            *causes.jobs_of_unknown_types(late, self.cluster),
            *causes.jobs_without_node(late, placements or {}, self._alive()),
            *(job for job in late.numbers if (placements or {}).get(job, Placement()).pool in executors),
        }
        rest = late.without(explained)
        of_first = next((row.why for row in self.late() if rest and row.trigger == rest.first), ())
        return causes.unexplained(rest, of_first, [str(holder) for holder in self.holders()], self.now)

    def _slowest(self) -> list[RunningView]:
        """Return the executions that have run longest."""
        return sorted(
            (row for row in self.running if row.elapsed is not None and row.elapsed > GRACE),
            key=lambda row: row.elapsed or timedelta(),
            reverse=True,
        )[:MOST_SLOW]

    def _ignored_timeouts(self) -> list[Incident]:
        """Return incidents about the executions that have run longest, if they ignore their timeouts."""
        if not self._slow:
            return []
        jobs, _ = attempt(self._jobs_of_slow)
        return ignored_timeouts(self._slow, {key: job.timeout for key, job in (jobs or {}).items() if job.timeout})

    def _full_pools(self, due: Mapping[JobKey, int]) -> list[Incident]:
        if not due or not self._running:
            return []
        placements = self._of_running()
        of_due, _ = attempt(self._of_due)
        used = pools(self._alive(), self._running, placements)
        return causes.full_pools(used, self.running, placements, due, of_due or {})

    def _alive(self) -> list[NodeRecord]:
        alive = {node.node for node in self.cluster.nodes if node.state is not NodeState.DEAD}
        return [record for record in self._nodes.nodes if record.instance_id in alive]


_Triggers = Callable[[], list[TriggerRecord]]


class _Stopped:
    """The triggers that are in ERROR, blocked or paused, asked for where there are any."""

    def __init__(self, reading: Reading, tallies: Tallies, paused: Sequence[PausedOverdue], now: datetime) -> None:
        self._paused_overdue = paused
        numbers = tallies.triggers
        self._number_in_error = numbers.get(TriggerState.ERROR, 0)

        def some(state: TriggerState, number: int, until: datetime | None) -> _Triggers:
            query = TriggerQuery(states=frozenset({state}), until=until)
            return reading.ask(lambda store: store.find(query, MOST_DUE)) if number else list

        self.in_error = some(TriggerState.ERROR, self._number_in_error, None)
        self._blocked = some(TriggerState.BLOCKED, numbers.get(TriggerState.BLOCKED, 0), now - OVERDUE)
        self._paused = some(TriggerState.PAUSED, len(paused), now)
        # Where a mode holds a trigger, nobody paused it.
        jobs = {row.job_key for row in paused if row.paused_at is None}
        self._modes = {job: _mode(reading, job) for job in sorted(jobs)[:MOST_DUE]}

    def incidents(self, running: Sequence[RunningView], pauses: Pauses) -> list[Incident]:
        blocked = self._blocked()
        modes = {job: mode() for job, mode in self._modes.items()}
        return [
            *causes.in_error(self.in_error(), self._number_in_error),
            *causes.blocked_jobs(blocked, running, is_cut=len(blocked) >= MOST_DUE),
            *paused_overdue(self._paused_overdue, self._paused(), pauses, modes),
        ]


def _mode(reading: Reading, job: JobKey) -> Answer[JobMode | None]:
    return reading.ask(lambda store: mode_of_job(store, job))


def _duration(row: RunningView) -> timedelta:
    return row.elapsed if row.elapsed is not None else timedelta(-1)


def _failed(minutes: Minutes, now: datetime) -> Count:
    number = sum(minute.outcomes.get(Outcome.FAILED, 0) for minute in minutes.minutes)
    return Count(number, minutes.complete_since > _first_minute(now))


def _placements(reading: Reading, jobs: Collection[JobKey]) -> Callable[[], dict[JobKey, Placement]]:
    return reading.ask(lambda store: placements(store, jobs)) if jobs else dict


def _is_final(row: ExecutionSummary) -> bool:
    return row.fire_id is not None and row.retry_at is None


def _due_at(record: TriggerRecord) -> datetime:
    assert record.next_fire_time is not None, "it waits for an instant"
    return record.next_fire_time


def _late(record: TriggerRecord, now: datetime, why: tuple[str, ...]) -> LateTrigger:
    due_at = _due_at(record)
    return LateTrigger(record.key, record.job_key, record.job_type, due_at, now - due_at, why)


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
