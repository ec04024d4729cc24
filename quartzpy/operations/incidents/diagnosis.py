"""What is wrong at this moment: the facts by which incidents are judged, for pages, for commands and for nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import zip_longest

from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.keys import JobKey
from quartzpy.operations.incidents import incident as causes
from quartzpy.operations.incidents import recorded
from quartzpy.operations.incidents.clock_change import clock_changes, upcoming_changes
from quartzpy.operations.incidents.executions_lost import MAX_LOST, lost_executions
from quartzpy.operations.incidents.failures import AMONG, FailuresInARow
from quartzpy.operations.incidents.incident import Incident, ignored_timeouts, of_nodes
from quartzpy.operations.incidents.paused_overdue import paused_overdue
from quartzpy.operations.read_context import MAX_COUNTED, ReadContext, attempt
from quartzpy.operations.views import cluster as clusters
from quartzpy.operations.views.executions import GRACE, RunningView, running_view
from quartzpy.operations.views.late_triggers import MANY, LateJobs, LateTrigger, late_trigger
from quartzpy.operations.views.limits import pools
from quartzpy.operations.views.lock_holders import MAX_LOCKS, LockHolder, lock_holders
from quartzpy.operations.views.triggers import OVERDUE, late_by
from quartzpy.placement import Placement
from quartzpy.scheduler.batched_reads import BatchedReads, Deferred
from quartzpy.scheduler.explain import ClusterSnapshot, Explanation
from quartzpy.scheduler.singles import mode_of_job, placements_of_jobs
from quartzpy.states import ExecutionState, JobMode, TriggerState
from quartzpy.store.node_states import takes_work, works
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import BlockedTrigger, Health, LockRecord, PausedOverdue, Tallies
from quartzpy.store.queries import ExecutionQuery, TriggerOrder, TriggerQuery
from quartzpy.store.records import IncidentRecord, JobHeader, NodeRecord, Pauses, TriggerRecord

MAX_LATE = 20
MAX_EXPLAINED = 5
"""The number of late triggers that are explained one by one, because an explanation takes several queries."""
MAX_FAILURES = 200
MAX_DUE = 200
MAX_BREACHES = 200
"""The number of broken expectations that are incidents of their own."""
MAX_OTHERS = 20
"""The number of other schedulers in the same tables that are looked at."""
MAX_SLOW = 200
"""The number of running executions, the longest first, whose timeouts are looked up."""
DUE = timedelta(seconds=2)
"""The delay from which a trigger counts as due while all workers are busy."""
_WAITING = frozenset({TriggerState.WAITING})
_FINAL = ExecutionQuery(states=frozenset({ExecutionState.FAILED}), exhausted=True)


@dataclass(frozen=True, slots=True)
class Incidents:
    """What is wrong at an instant."""

    now: datetime
    incidents: tuple[Incident, ...]
    """What nobody has taken note of, the worst first."""
    acknowledged: tuple[Incident, ...]
    """What somebody has taken note of."""


def told_apart(incidents: Sequence[Incident], now: datetime) -> Incidents:
    """Return incidents with those apart that somebody has taken note of."""
    noted = tuple(incident for incident in incidents if incident.acknowledgement is not None)
    others = [incident for incident in incidents if incident.acknowledgement is None]
    return Incidents(now, causes.by_severity(causes.capped(others)), noted)


def incidents(context: ReadContext) -> Incidents:
    """Return what is wrong; see `Operations.incidents`."""
    diagnosis = Diagnosis(context)
    return told_apart(diagnosis.incidents(), diagnosis.now)


def late_triggers(reading: BatchedReads) -> tuple[LateTrigger, ...]:
    """Return the late triggers without the reasons; see `Operations.late`."""
    now = reading.now()
    late = _late_among(_ask_due(reading, now)(), now)
    return tuple(late_trigger(record, now, ()) for record in late[:MAX_LATE])


def _ask_due(reading: BatchedReads, now: datetime) -> Callable[[], list[TriggerRecord]]:
    due = TriggerQuery(states=_WAITING, until=now - DUE, order=TriggerOrder.NEXT_FIRE_TIME, among=MANY)
    return reading.defer(lambda store: store.find(due, MAX_DUE))


def _late_among(due: Sequence[TriggerRecord], now: datetime) -> list[TriggerRecord]:
    return [record for record in due if late_by(record, now) is not None]


class Diagnosis:
    """What is wrong at this moment, asked in three round trips.

    The first asks what needs no time; the second, what the answers name, and what depends on the time; the third, what
    those answers name.
    """

    def __init__(self, context: ReadContext) -> None:
        self._context = context
        self._reading = context.reading()
        self._ask_first()
        self._ask_second()
        self._ask_third()

    def _ask_first(self) -> None:
        defer = self._reading.defer
        snapshot = ClusterSnapshot(self._reading)
        self._snapshot = snapshot
        tallies = defer(lambda store: admin(store).tallies(MAX_COUNTED))
        overdue = defer(lambda store: admin(store).overdue(OVERDUE, MAX_DUE, most=MAX_COUNTED))
        paused = defer(lambda store: admin(store).paused_overdue(MAX_DUE, most=MAX_COUNTED))
        self._others = defer(lambda store: admin(store).other_schedulers(MAX_OTHERS))
        final = defer(lambda store: store.find(_FINAL, MAX_FAILURES))
        ends = clusters.node_ends(self._reading)
        self._lost = defer(lambda store: admin(store).lost_executions(MAX_LOST))
        self._snapshots = defer(lambda store: admin(store).old_snapshots())
        self._recorded = recorded.lasting_records(self._reading)
        breaches = defer(lambda store: admin(store).lasting_breaches(MAX_BREACHES))
        self._nodes = snapshot.nodes()
        self._running = snapshot.running()
        self.now = self._nodes.now
        self.cluster = clusters.of_records(self._nodes, self._running, ends())
        self.running = tuple(running_view(row, self.now) for row in self._running)
        self.tallies = tallies()
        self._overdue = overdue()
        self._paused = paused()
        self._failures = final()
        self._breaches = breaches()

    def _ask_second(self) -> None:
        reading, now = self._reading, self.now
        defer = reading.defer
        self._clock_changes = upcoming_changes(reading, now)
        self._in_a_row = FailuresInARow(reading, self._failures, now)
        self._stopped = _Stopped(reading, self.tallies, self._paused, now, now - self._pause_grace())
        self._slow = self._slowest()
        slow = {row.job for row in self._slow}
        held = {job.job_key for job in self._overdue if job.is_held}
        self._jobs_held: Callable[[], dict[JobKey, JobDetail]] = dict
        if held:
            self._jobs_held = defer(lambda store: store.jobs(held))
        self._headers_of_slow: Callable[[], dict[JobKey, JobHeader]] = dict
        if slow:
            self._headers_of_slow = defer(lambda store: store.job_headers(slow))
        self._locks: Callable[[], Sequence[LockRecord]] = list
        if any(not job.is_held for job in self._overdue):
            self._locks = defer(lambda store: admin(store).locks(MAX_LOCKS))
        self._due = _ask_due(reading, now)()
        self._late = _late_among(self._due, now)
        self.late_jobs = LateJobs(self._late, self._overdue, is_cut=len(self._due) >= MAX_DUE)

    def _pause_grace(self) -> timedelta:
        return self._nodes.setting("pause_grace", self._context.config.pause_grace)

    def _ask_third(self) -> None:
        reading = self._reading
        self._in_a_row.look_further()
        self._stopped.look_further()
        waiting = {*(record.job_key for record in self._due), *self.late_jobs.numbers}
        self._of_waiting = placements_of_jobs(reading, waiting)
        if waiting:
            self._snapshot.look_up_placements()
        threshold, advice = self._context.config.misfire_threshold, self._context.advice
        self._explained = [
            Explanation(self._snapshot, record.key, threshold, advice, record.job_key)
            for record in self._late[:MAX_LATE][:MAX_EXPLAINED]
        ]

    def late(self) -> tuple[LateTrigger, ...]:
        """Return the triggers that are due and that no node has fired, those that wait longest first."""
        triggers = []
        holders = [str(holder) for holder in self.holders()]
        for record, explained in zip_longest(self._late[:MAX_LATE], self._explained):
            why: Sequence[str] | None = ()
            if explained is not None:
                why, problem = attempt(explained)
                why = [*(why or [problem or ""]), *holders]
            triggers.append(late_trigger(record, self.now, tuple(why or ())))
        return tuple(triggers)

    def holders(self) -> tuple[LockHolder, ...]:
        """Return the transactions that may hold the rows of the late triggers."""
        return lock_holders(self._locks()) if self._late else ()

    @property
    def has_working_node(self) -> bool:
        """True if a node is in time, takes new work, and reports no problem that stops it."""
        states = self._nodes.states()
        return any(works(record, states[record.instance_id]) for record in self._nodes.nodes)

    def pauses(self) -> Pauses:
        """Return what is paused as a whole."""
        return self._snapshot.pauses()

    def recorded(self) -> list[IncidentRecord]:
        """Return the incidents that are recorded and not over."""
        return self._recorded()

    def incidents(self) -> list[Incident]:
        """Return what is wrong, the worst first, with what is recorded about each."""
        due_of_job = Counter(record.job_key for record in self._due)
        late = self.late_jobs
        full = self._full_pools(due_of_job)
        incidents = [
            *of_nodes(self.cluster, self._others(), self._context.config.name),
            *causes.names_mixed_up(self.cluster, self.tallies.jobs, self._others(), self._context.config.name),
            *causes.unknown_types(late, self.cluster),
            *full,
            *causes.without_node(late, self._jobs_without_node),
            *self._unexplained(full),
            *self._ignored_timeouts(),
            *causes.backlogs(self._overdue, self._rates(), self.now),
            *self._stopped.incidents(self.running, self._snapshot.pauses()),
        ]
        # A trigger in ERROR has an incident of its own, with the same error.
        in_error = self._stopped.in_error()
        incidents += self._in_a_row.incidents(
            {record.key for record in in_error},
            {record.job_key for record in in_error},
            {node.node: node.host for node in self.cluster.nodes},
        )
        incidents += lost_executions(self._lost())
        incidents += map(causes.broken_expectation, self._breaches)
        incidents += causes.old_snapshot(self._snapshots())
        incidents += clock_changes(self._clock_changes())
        return causes.recognized(causes.by_severity(incidents), self.recorded(), self.now)

    def _rates(self) -> dict[JobKey, RateLimit]:
        jobs, _ = attempt(self._jobs_held)
        return {key: job.rate_limit for key, job in (jobs or {}).items() if job.rate_limit is not None}

    @cached_property
    def _placements(self) -> Mapping[JobKey, Placement]:
        """The placements of the jobs that wait; none if one of them cannot be decoded."""
        placements, _ = attempt(self._of_waiting)
        return placements or {}

    @cached_property
    def _jobs_without_node(self) -> Mapping[JobKey, tuple[Placement, Sequence[NodeRecord]]]:
        return causes.jobs_without_node(self.late_jobs, self._placements, self._alive())

    def _unexplained(self, full: Sequence[Incident]) -> list[Incident]:
        """Return an incident about the late triggers that no other incident explains."""
        late = self.late_jobs
        if not late or not any(map(takes_work, self._alive())):
            return []
        executors = {incident.subject for incident in full}
        explained = {
            *causes.jobs_of_unknown_types(late, self.cluster),
            *self._jobs_without_node,
            *(job for job in late.numbers if self._placements.get(job, Placement()).pool in executors),
        }
        rest = late.without(explained)
        of_first = next((row.why for row in self.late() if rest and row.trigger == rest.first), ())
        holders = [str(holder) for holder in self.holders()]
        return causes.unexplained(rest, of_first, holders, self.now, self.cluster)

    def _slowest(self) -> list[RunningView]:
        """Return the executions that have run longest."""
        return sorted(
            (row for row in self.running if row.elapsed is not None and row.elapsed > GRACE),
            key=lambda row: row.elapsed or timedelta(),
            reverse=True,
        )[:MAX_SLOW]

    def _ignored_timeouts(self) -> list[Incident]:
        """Return incidents about the executions that have run longest, if they ignore their timeouts."""
        if not self._slow:
            return []
        headers, _ = attempt(self._headers_of_slow)
        timeouts = {key: header.timeout for key, header in (headers or {}).items() if header.timeout}
        return ignored_timeouts(self._slow, timeouts)

    def _full_pools(self, due: Mapping[JobKey, int]) -> list[Incident]:
        if not due or not self._running:
            return []
        of_running = attempt(self._snapshot.look_up_placements())[0] or {}
        used = pools(self._alive(), self._running, of_running)
        return causes.full_pools(used, self.running, of_running, due, self._placements)

    def _alive(self) -> list[NodeRecord]:
        return self._nodes.alive()


_Triggers = Callable[[], list[TriggerRecord]]


class _Stopped:
    """The triggers that are in ERROR, blocked or paused, asked for where there are any."""

    def __init__(
        self,
        reading: BatchedReads,
        tallies: Tallies,
        paused: Sequence[PausedOverdue],
        now: datetime,
        begun_before: datetime,
    ) -> None:
        self._reading, self._now, self._begun_before = reading, now, begun_before
        self._paused_overdue = paused
        numbers = tallies.triggers
        self._number_in_error = numbers.get(TriggerState.ERROR, 0)

        def some(state: TriggerState, number: int, until: datetime | None) -> _Triggers:
            query = TriggerQuery(states=frozenset({state}), until=until)
            return reading.defer(lambda store: store.find(query, MAX_DUE)) if number else list

        self.in_error = some(TriggerState.ERROR, self._number_in_error, None)
        self._blocked: Callable[[], list[BlockedTrigger]] = list
        if numbers.get(TriggerState.BLOCKED, 0):
            self._blocked = reading.defer(lambda store: admin(store).blocked_triggers(now - OVERDUE, MAX_DUE))
        self._paused = some(TriggerState.PAUSED, len(paused), now)
        # Where a mode holds a trigger, nobody paused it.
        jobs = {row.job_key for row in paused if row.paused_at is None}
        self._modes = {job: _mode(reading, job) for job in sorted(jobs)[:MAX_DUE]}

    def look_further(self) -> None:
        """Ask how long the jobs that are blocked usually run, with the questions that already wait."""
        jobs = {record.job_key for record in self._blocked()}
        self._health: Callable[[], Mapping[JobKey, Health]] = dict
        if jobs:
            self._health = self._reading.defer(lambda store: admin(store).job_health(jobs, among=AMONG))

    def incidents(self, running: Sequence[RunningView], pauses: Pauses) -> list[Incident]:
        blocked = self._blocked()
        modes = {job: mode() for job, mode in self._modes.items()}
        return [
            *causes.in_error(self.in_error(), self._number_in_error),
            *causes.blocked_jobs(blocked, running, self._health(), self._now, is_cut=len(blocked) >= MAX_DUE),
            *paused_overdue(
                self._paused_overdue, self._paused(), pauses, modes, begun_before=self._begun_before, now=self._now
            ),
        ]


def _mode(reading: BatchedReads, job: JobKey) -> Deferred[JobMode | None]:
    return reading.defer(lambda store: mode_of_job(store, job))
