"""The harness of the contract tests: a store, its clock, short helpers, and the harnesses of our own stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from quartzpy.calendars.calendar import Calendar
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import LeaseLostError
from quartzpy.job_data import decode
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.node.outlook import Outlook
from quartzpy.node.scheduler_thread import refill_of
from quartzpy.states import CompletionInstruction, JobMode, Outcome, TriggerState
from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.protocol import (
    Acquisition,
    Completion,
    CompletionOutcome,
    FiredTrigger,
    Gate,
    JobEntry,
    JobStore,
    MisfireOutcome,
    Node,
    Reconciliation,
    RecoveryOutcome,
    UnfilledTrigger,
)
from quartzpy.store.queries import HISTORY, JobQuery, MisfireQuery, TriggerQuery
from quartzpy.store.records import ExecutionRecord, RunningRecord, TriggerRecord
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, prepare
from tests.database import connect_to
from tests.run_by import NodesOfTest, Slots

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""The instant at which every test begins, a Monday."""

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
CHECKIN = timedelta(seconds=5)
WINDOW = timedelta(seconds=20)
THRESHOLD = timedelta(seconds=60)
REPORT = "report"
"""The job type of most tests' jobs."""


class ManualClock:
    """A clock that moves only when a test moves it."""

    def __init__(self, on_move: Callable[[datetime], None] | None = None) -> None:
        self._now = START
        self._on_move = on_move

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - START).total_seconds()

    def set(self, instant: datetime) -> None:
        self._now = instant
        if self._on_move is not None:
            self._on_move(instant)

    def advance(self, span: timedelta) -> None:
        self.set(self._now + span)


def at(seconds: float) -> datetime:
    """Return the instant that is `seconds` after the start of the test."""
    return START + timedelta(seconds=seconds)


def job(name: str = "job", group: str = "DEFAULT", *, job_type: str = REPORT, **values: Any) -> JobDetail:
    return JobDetail(job_type, name, group, **values)


def serial(name: str = "job", group: str = "DEFAULT", **values: Any) -> JobDetail:
    """Return a job that disallows concurrent execution."""
    return job(name, group, disallow_concurrent=True, **values)


def once(name: str = "once", when: datetime = START, **values: Any) -> SimpleTrigger:
    """Return a trigger that fires once."""
    return SimpleTrigger(name, values.pop("group", "DEFAULT"), start_time=when, **values)


def every(
    seconds: float, name: str = "every", *, start: datetime = START, times: int | None = None, **values: Any
) -> SimpleTrigger:
    """Return a trigger that fires at an interval, for ever or the given number of times."""
    return SimpleTrigger(
        name,
        values.pop("group", "DEFAULT"),
        interval=timedelta(seconds=seconds),
        repeat_count=None if times is None else times - 1,
        start_time=start,
        **values,
    )


def key(name: str, group: str = "DEFAULT") -> TriggerKey:
    return TriggerKey(name, group)


def job_key(name: str = "job", group: str = "DEFAULT") -> JobKey:
    return JobKey(name, group)


def names(taken: Iterable[FiredTrigger] | Iterable[UnfilledTrigger]) -> list[str]:
    """Return the names of the triggers, sorted."""
    return [one.trigger_name if isinstance(one, FiredTrigger) else one.key.name for one in taken]


class Harness(ABC):
    """A store under test, with the clock from which it takes its time.

    Subclass it for a store: create the store in `__init__` so that it takes every instant from `clock`, open it, and
    implement `set_state`. The tests move the clock; the store must not read the machine's time. Each test gets an empty
    store.
    """

    def __init__(self, store: JobStore, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self._nodes = NodesOfTest()
        self._outlooks: dict[Node, Outlook] = {}

    @abstractmethod
    def set_state(self, trigger: TriggerKey, state: TriggerState) -> None:
        """Overwrite the state of a stored trigger, like somebody who edits the stored data manually.

        COMPLETE also needs a fire_id that no fire has; the tests expect -1.
        """

    def put_calendar(self, name: str, calendar: Calendar, *, replace: bool = False) -> None:
        self.store.put_calendar(name, calendar, replace=replace)

    def close(self) -> None:
        self.store.close()

    # --- nodes

    def node(self, instance_id: str = "a", *, window: timedelta = WINDOW, ended_epoch: int | None = None) -> Node:
        return self.store.register(
            instance_id, host="host", pid=4711, checkin_interval=CHECKIN, window=window, ended_epoch=ended_epoch
        )

    def recover(self, survivor: Node, *dead: Node) -> RecoveryOutcome:
        """Let `survivor` recover nodes, by their current records."""
        epochs = {node.epoch for node in dead}
        records = [record for record in self.store.list_nodes().nodes if record.epoch in epochs]
        outcome = self.store.recover(survivor, records)
        self.look_at(survivor, outcome.opened)
        return outcome

    # --- scheduling

    def prepare(self, trigger: Trigger, job: JobKey | None = None, calendar: Calendar | None = None) -> PreparedTrigger:
        bound = trigger if job is None else replace(trigger, job_key=job)
        revision = None
        if bound.calendar is not None and (stored := self.store.calendars([bound.calendar]).get(bound.calendar)):
            revision = stored.revision
        return prepare(bound, self.clock.now(), calendar, revision)

    def schedule(
        self, job: JobDetail, *triggers: Trigger, replace: bool = False, calendar: Calendar | None = None
    ) -> datetime | None:
        prepared = [self.prepare(trigger, job.key, calendar) for trigger in triggers]
        return self.store.store_jobs([JobEntry(job, prepared)], replace=replace)

    def add_triggers(self, job: JobKey, *triggers: Trigger, replace: bool = False) -> datetime | None:
        prepared = [self.prepare(trigger, job) for trigger in triggers]
        return self.store.store_jobs([JobEntry(None, prepared)], replace=replace)

    def exhausted(self, trigger: Trigger, job: JobKey) -> PreparedTrigger:
        """Prepare a trigger without following fire times, so that it is refilled first: a node computes them."""
        whole = self.prepare(trigger, job)
        return PreparedTrigger(whole.trigger, whole.progress, UpcomingFireTimes())

    def schedule_exhausted(self, job: JobDetail, *triggers: Trigger) -> None:
        self.store.store_jobs(
            [JobEntry(job, [self.exhausted(trigger, job.key) for trigger in triggers])], replace=False
        )

    # --- steps

    def acquire(
        self,
        node: Node,
        *,
        limit: int = 100,
        look_ahead: timedelta = timedelta(),
        threshold: timedelta = THRESHOLD,
        opened: Collection[Gate] = (),
        types: Sequence[str | Slots] = (REPORT,),
    ) -> Acquisition:
        """Take a step with what the node expects after its last one. Nothing has told it since, so it may be wrong."""
        available_slots = self._nodes.run(self.store, node, types)
        outlook = self._outlooks.get(node, Outlook())
        expected = outlook.expectation(
            [slots.slot_pool for slots in available_slots],
            met_pools=("",),
            passed_over=(),
            is_on_time=True,
            asks=bool(opened),
            is_backlog=False,
            until=self.clock.now() + look_ahead,
            monotonic=self.clock.monotonic(),
        )
        took = self.store.acquire(
            node,
            available_slots,
            limit=limit,
            look_ahead=look_ahead,
            misfire_threshold=threshold,
            opened=opened,
            # A store may leave triggers with a limit to the next step where it expects none.
            expected=replace(expected, has_limited=True),
        )
        self._outlooks[node] = outlook.after_step(took, expected, (), self.clock.monotonic())
        return took

    def refill(self, node: Node, triggers: Iterable[UnfilledTrigger]) -> None:
        """Compute and store the fire times of unfilled triggers, as a node does."""
        self.store.refill(node, [refill_of(unfilled, self.clock.now()) for unfilled in triggers])

    def reconcile(self, node: Node, *, executions: Iterable[FiredTrigger] = ()) -> Reconciliation:
        """Reconcile the executions that the node knows."""
        return self.store.reconcile(node, executions=[one.fire_id for one in executions])

    def fire_due(self, node: Node, **how: Any) -> list[FiredTrigger]:
        """Fire all that is due; what is unfilled is refilled first."""
        took = self.acquire(node, **how)
        if not took.unfilled:
            return list(took.fired)
        self.refill(node, took.unfilled)
        return [*took.fired, *self.acquire(node, **how).fired]

    def fire_one(self, node: Node) -> FiredTrigger:
        [fired] = self.fire_due(node)
        return fired

    def ended(self, fired: FiredTrigger, **how: Any) -> Completion:
        now = self.clock.now()
        values = {"started_at": now, "ended_at": now, "outcome": Outcome.SUCCEEDED, **how}
        return Completion(fired, **values)

    def complete(self, node: Node, *fired: FiredTrigger, **how: Any) -> CompletionOutcome:
        outcome = self.store.complete(node, [self.ended(one, **how) for one in fired])
        self.look_at(node, {one.gate for one in fired if one.gate is not None})
        return outcome

    def look_at(self, node: Node, opened: Collection[Gate]) -> None:
        """Let a node without free workers look at gates, as it does after ends: what is parked there may wait again."""
        if not opened:
            return
        # One that was declared dead looks nowhere.
        with suppress(LeaseLostError):
            self.store.acquire(node, (), limit=0, look_ahead=timedelta(), misfire_threshold=THRESHOLD, opened=opened)

    def complete_asking(self, node: Node, fired: FiredTrigger, instruction: CompletionInstruction) -> CompletionOutcome:
        return self.complete(node, fired, instruction=instruction)

    def misfire(
        self,
        node: Node,
        *,
        limit: int = 100,
        threshold: timedelta = THRESHOLD,
        types: Sequence[str | Slots] = (REPORT,),
    ) -> MisfireOutcome:
        self._nodes.run(self.store, node, types)
        return self.store.recover_misfires(node, threshold=threshold, limit=limit)

    # --- queries

    def state(self, name: str, group: str = "DEFAULT") -> str:
        """Return the stored state of a trigger, or "gone"."""
        record = stored_trigger(self.store, key(name, group))
        return "gone" if record is None else str(record.state)

    def states(self, *names: str) -> list[str]:
        return [self.state(name) for name in names]

    def progress(self, name: str, group: str = "DEFAULT") -> TriggerProgress:
        record = stored_trigger(self.store, key(name, group))
        assert record is not None
        return record.progress

    def generation(self, name: str) -> int:
        record = stored_trigger(self.store, key(name))
        assert record is not None
        return record.generation

    def upcoming(self, name: str) -> list[datetime]:
        record = stored_trigger(self.store, key(name))
        assert record is not None
        return list(record.upcoming)

    def job_data(self, job: JobKey) -> dict[str, Any]:
        detail = stored_job(self.store, job)
        assert detail is not None
        return dict(detail.data or {})

    def claims(self) -> list[RunningRecord]:
        return [row for row in self.store.list_running() if row.state == "ACQUIRED"]

    def running(self) -> list[RunningRecord]:
        return [row for row in self.store.list_running() if row.state == "EXECUTING"]

    def history(self) -> list[ExecutionRecord]:
        return self.store.find(HISTORY, 1000)

    def everything(self) -> Any:
        """Return everything that queries return, for a comparison."""
        store = self.store
        return (
            store.find(JobQuery(), 10_000),
            store.find(TriggerQuery(), 10_000),
            store.list_running(),
            store.find(HISTORY, 10_000),
            store.find(MisfireQuery(), 10_000),
            store.pauses().trigger_groups,
            store.pauses().job_groups,
            store.pauses().everything,
        )


def data_of(fired: FiredTrigger) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the job data and the trigger data of a fire."""
    return decode(fired.job_data), decode(fired.trigger_data)


def fire_ids(rows: Collection[FiredTrigger]) -> list[int]:
    return [row.fire_id for row in rows]


class RamHarness(Harness):
    """The store in memory."""

    store: RamJobStore

    def __init__(self) -> None:
        clock = ManualClock()
        super().__init__(RamJobStore(clock), clock)
        self.store.open()

    def set_state(self, trigger: TriggerKey, state: TriggerState) -> None:
        tables = self.store._tables
        fire_id = -1 if state is TriggerState.COMPLETE else None
        tables.move(tables.triggers[trigger], state, fire_id=fire_id)


class SqlBackend:
    """A store on a database, whose time is a row of a table.

    One backend serves many tests, because a new one connects, and prepares every statement again.
    """

    NAME = "contract"
    NOW = "(SELECT instant FROM test_time.clock)"

    def __init__(self, dsn: str) -> None:
        from quartzpy.store.postgresql.store import SqlJobStore

        self.connection = connect_to(dsn)
        # The table is not among the scheduler's, and stays when those are emptied: statements refer to it.
        self.connection.execute(
            "CREATE SCHEMA IF NOT EXISTS test_time;"
            " CREATE TABLE IF NOT EXISTS test_time.clock (instant timestamptz NOT NULL)"
        )
        self.store = SqlJobStore(dsn, SchedulerConfig(name=self.NAME), now_sql=self.NOW)

    def set_time(self, instant: datetime) -> None:
        if not self.connection.execute("UPDATE test_time.clock SET instant = %s", [instant]).rowcount:
            self.connection.execute("INSERT INTO test_time.clock VALUES (%s)", [instant])

    def close(self) -> None:
        self.store.close()
        self.connection.close()


class SqlHarness(Harness):
    """The store of a backend, on tables that are empty."""

    def __init__(self, backend: SqlBackend) -> None:
        self._connection = backend.connection
        backend.set_time(START)
        super().__init__(backend.store, ManualClock(backend.set_time))
        self.store.open()

    def set_state(self, trigger: TriggerKey, state: TriggerState) -> None:
        self._connection.execute(
            "UPDATE qrtz_triggers SET trigger_state = %s, fire_id = %s"
            " WHERE sched_name = %s AND trigger_group = %s AND trigger_name = %s",
            [
                str(state),
                -1 if state is TriggerState.COMPLETE else None,
                SqlBackend.NAME,
                trigger.group,
                trigger.name,
            ],
        )

    def close(self) -> None:
        """Leave the store to the next test."""


def stored_job(store: JobStore, key: JobKey) -> JobDetail | None:
    """A job, or None if it is not stored."""
    return store.jobs([key]).get(key)


def stored_trigger(store: JobStore, key: TriggerKey) -> TriggerRecord | None:
    """The record of a trigger, or None if it is not stored."""
    return store.triggers([key]).get(key)


def stored_mode(store: JobStore, key: JobKey) -> JobMode | None:
    """The mode of a job, or None if it is not stored."""
    header = store.job_headers([key]).get(key)
    return None if header is None else header.mode
