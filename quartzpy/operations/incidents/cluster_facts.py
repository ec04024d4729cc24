"""The facts by which incidents are judged, and the late triggers with their reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from itertools import zip_longest

from quartzpy.keys import JobKey
from quartzpy.operations.incidents import recorded
from quartzpy.operations.incidents.late_triggers import MANY, LateJobs, LateTrigger, late_trigger
from quartzpy.operations.read_context import MAX_COUNTED, ReadContext, attempt
from quartzpy.operations.views import cluster as clusters
from quartzpy.operations.views.executions import running_view
from quartzpy.operations.views.lock_holders import MAX_LOCKS, LockHolder, lock_holders
from quartzpy.operations.views.triggers import OVERDUE, late_by
from quartzpy.placement import Placement
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.scheduler.explain import ClusterSnapshot, Explanation
from quartzpy.scheduler.singles import placements_of_jobs
from quartzpy.states import ExecutionState, TriggerState
from quartzpy.store.node_states import works
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import LockRecord
from quartzpy.store.queries import ExecutionQuery, TriggerOrder, TriggerQuery
from quartzpy.store.records import IncidentRecord, NodeRecord, Pauses, TriggerRecord

MAX_LATE = 20
MAX_EXPLAINED = 5
"""The number of late triggers that are explained one by one, because an explanation takes several queries."""
MAX_FAILURES = 200
MAX_DUE = 200
MAX_OTHERS = 20
"""The number of other schedulers in the same tables that are looked at."""
DUE = timedelta(seconds=2)
"""The delay from which a trigger counts as due while all workers are busy."""
_WAITING = frozenset({TriggerState.WAITING})
_FINAL = ExecutionQuery(states=frozenset({ExecutionState.FAILED}), exhausted=True)


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


class ClusterFacts:
    """The facts by which several kinds of incidents judge, asked in three round trips.

    The first asks what needs no time; the second, what the answers name, and what depends on the time; the third, what
    those answers name.
    """

    def __init__(self, context: ReadContext) -> None:
        self.context = context
        self.reading = context.reading()
        self.explained: set[JobKey] = set()
        """The jobs whose triggers are late because of something that has an incident of its own."""
        self._ask_first()
        self._ask_second()
        self._ask_third()

    def _next_round(self) -> None:
        """Ask what can be asked by now, with the questions of this object."""

    def _ask_first(self) -> None:
        defer = self.reading.defer
        self._snapshot = snapshot = ClusterSnapshot(self.reading)
        tallies = defer(lambda store: admin(store).tallies(MAX_COUNTED))
        overdue = defer(lambda store: admin(store).overdue(OVERDUE, MAX_DUE, most=MAX_COUNTED))
        self.others = defer(lambda store: admin(store).other_schedulers(MAX_OTHERS))
        final = defer(lambda store: store.find(_FINAL, MAX_FAILURES))
        ends = clusters.node_ends(self.reading)
        self._recorded = recorded.lasting_records(self.reading)
        self._next_round()
        self.nodes = snapshot.nodes()
        records = snapshot.running()
        self.now = self.nodes.now
        self.cluster = clusters.of_records(self.nodes, records, ends())
        self.running = tuple(running_view(row, self.now) for row in records)
        self.running_records = records
        self.tallies = tallies()
        self.overdue = overdue()
        self.failures = final()

    def _ask_second(self) -> None:
        reading, now = self.reading, self.now
        self.in_error: Callable[[], list[TriggerRecord]] = list
        if self.tallies.triggers.get(TriggerState.ERROR, 0):
            query = TriggerQuery(states=frozenset({TriggerState.ERROR}))
            self.in_error = reading.defer(lambda store: store.find(query, MAX_DUE))
        self._locks: Callable[[], Sequence[LockRecord]] = list
        if any(not job.is_held for job in self.overdue):
            self._locks = reading.defer(lambda store: admin(store).locks(MAX_LOCKS))
        due = _ask_due(reading, now)
        self._next_round()
        self.due = due()
        self._late = _late_among(self.due, now)
        self.late_jobs = LateJobs(self._late, self.overdue, is_cut=len(self.due) >= MAX_DUE)

    def _ask_third(self) -> None:
        waiting = {*(record.job_key for record in self.due), *self.late_jobs.numbers}
        self._of_waiting = placements_of_jobs(self.reading, waiting)
        if waiting:
            self._snapshot.look_up_placements()
        threshold, advice = self.context.config.misfire_threshold, self.context.advice
        self._explained = [
            Explanation(self._snapshot, record.key, threshold, advice, record.job_key)
            for record in self._late[:MAX_LATE][:MAX_EXPLAINED]
        ]
        self._next_round()

    @cached_property
    def placements(self) -> Mapping[JobKey, Placement]:
        """The placements of the jobs that wait; none if one of them cannot be decoded."""
        return attempt(self._of_waiting)[0] or {}

    @cached_property
    def placements_of_running(self) -> Mapping[JobKey, Placement]:
        """The placements of the jobs that run; none if one of them cannot be decoded."""
        return attempt(self._snapshot.look_up_placements())[0] or {}

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
        states = self.nodes.states()
        return any(works(record, states[record.instance_id]) for record in self.nodes.nodes)

    def alive(self) -> list[NodeRecord]:
        """Return the nodes that are alive."""
        return self.nodes.alive()

    def pauses(self) -> Pauses:
        """Return what is paused as a whole."""
        return self._snapshot.pauses()

    def recorded(self) -> list[IncidentRecord]:
        """Return the incidents that are recorded and not over."""
        return self._recorded()
