"""Whole nodes without threads: the test does each pass of each of their services, in the order that it wants.

What a node does is the runtime's own code, also after an error and after a lost lease; only its threads are missing,
and its workers run what was handed to them when the test says so. Time is the test's, for nodes and database alike.
This module is the one place that knows how a node is put together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import psycopg

from quartzpy import Job, JobExecutionContext
from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import OutcomeUnknownError, QuartzpyError, StoreUnavailableError
from quartzpy.events.listeners import Listeners
from quartzpy.job_data import ORIGINAL_NAME, RETRIED_NAME
from quartzpy.jobs.job import JobTypes, new_instance
from quartzpy.keys import CONTINUATIONS, RECOVERING_JOBS, RETRYING_JOBS
from quartzpy.node.lead import Lead
from quartzpy.node.node import SchedulerNode
from quartzpy.node.parts import NodeParts
from quartzpy.node.workers.execution import Execution, Executor
from quartzpy.node.workers.worker_pool import Task, WorkerPool
from quartzpy.placement import DEFAULT_EXECUTOR
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import FiredTrigger, JobStore, Node
from tests.contract.harness import CHECKIN, REPORT, START, WINDOW, Harness, ManualClock
from tests.database import connect_to
from tests.waiting import wait_until

_T = TypeVar("_T")
NAME = "protocol"
WORKERS = 10
TABLES = (
    *("executions", "misfires", "fired_triggers", "triggers", "job_details", "calendars"),
    *("paused_trigger_groups", "scheduler_state", "limits", "joins"),
)
NOW = "(SELECT instant FROM test_clock)"
SETTINGS: dict[str, Any] = {
    "name": NAME,
    "lock_timeout": "500ms",
    "statement_timeout": "10s",
    "checkin_interval": CHECKIN,
    "failure_window": WINDOW,
    "history_retention": None,
}


class Report(Job):
    """Counts its runs in its data, and fails where its trigger tells it to."""

    def execute(self, context: JobExecutionContext) -> None:
        context.scheduler.append(context)
        if context.job_detail.persist_data:
            context.job_detail_data["n"] = context.job_detail_data.get("n", 0) + 1
        if context.job_data.get("fails") and context.attempt == 1:
            raise ValueError("told to fail")


class Runs(list[JobExecutionContext]):
    """All that ran, on whichever node."""

    def instants(self) -> Counter[Any]:
        return Counter(
            _instant(
                *(run.trigger_key.group, run.trigger_key.name, run.scheduled_fire_time),
                *(run.job_data.get(name) for name in (RETRIED_NAME, ORIGINAL_NAME)),
            )
            for run in self
        )


class Waiting(WorkerPool):
    """Workers that run what was handed to them when they are told to, on the thread that tells them."""

    def __init__(self, size: int, name: str) -> None:
        super().__init__(size, name)
        self.waiting: list[Task] = []
        self.handed_over: list[FiredTrigger] = []

    def submit(self, tasks: Iterable[Task]) -> None:
        tasks = list(tasks)
        with self._lock:
            self._occupied += len(tasks)
        self.waiting += tasks
        for task in tasks:
            assert isinstance(task, Execution)
            self.handed_over.append(task.fired)

    def run_all(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


def _patiently(step: Callable[[], _T]) -> _T:
    """As a node's start does it, without the waiting."""
    for _ in range(3):
        with suppress(StoreUnavailableError, OutcomeUnknownError):
            return step()
    raise AssertionError("the node cannot start")


class AnyLead(Lead):
    """A lead that may be longer than that of a node."""

    @property
    def seconds(self) -> float:
        return self.usual


class DrivenNode:
    """A node of the cluster."""

    def __init__(self, name: str, store: JobStore, clock: ManualClock, runs: Any, *, workers: int = WORKERS) -> None:
        self.name = name
        types = JobTypes()
        types.register(Report, REPORT)
        parts = NodeParts(
            store,
            SchedulerConfig.of({**SETTINGS, "instance_id": name}),
            clock=clock,
            job_types=types,
            scheduler=runs,
            listeners=Listeners(),
            job_factory=new_instance,
            middleware=(),
        )
        self.runtime = SchedulerNode(parts)
        self.workers = Waiting(workers, f"{name}-worker")
        executors = self.runtime.parts.executors._all
        executors[DEFAULT_EXECUTOR] = Executor(DEFAULT_EXECUTOR, executors[DEFAULT_EXECUTOR].kind, self.workers, None)
        self.runtime.parts.signals.scheduler.set_standby(False)

    def register(self) -> None:
        """Begin to live; tried again, as at a start, where the database cannot be reached."""
        parts = self.runtime.parts
        _patiently(parts.registration.join)
        _patiently(lambda: parts.registration.publish(parts.capacity.capabilities))
        _patiently(parts.known_types.learn)

    # --- one pass of a service, with what its loop does after an error

    def check_in(self) -> None:
        """The thread that checks in, and then the cluster manager, which a check-in wakes."""
        self.runtime.parts.check_in._pass()
        self.runtime.parts.cluster._pass()

    def schedule(self) -> None:
        """The scheduler thread: settle what is unsettled, fire what is due, compute what is used up."""
        self.runtime.parts.scheduler_thread._pass()

    def schedule_ahead(self, lead: float) -> None:
        """As the scheduler thread of a node whose round trips take so many seconds."""
        thread = self.runtime.parts.scheduler_thread
        thread._lead = AnyLead(lead, 0.0)
        self.schedule()
        thread._lead = Lead(0.0, 0.0)

    def stand_by(self) -> None:
        """The scheduler thread while the node is in standby."""
        self.runtime.parts.signals.scheduler.set_standby(True)
        self.schedule()
        self.runtime.parts.signals.scheduler.set_standby(False)

    def run(self) -> None:
        """What was handed to workers; under a lease that lapsed each of them waits."""
        epoch = self.runtime.parts.registration.present_epoch()
        if epoch.trusted or epoch.lost:
            self.workers.run_all()

    def complete(self) -> None:
        self.runtime.parts.completer._pass()
        if self.runtime.parts.long_completer.backlog():
            self.runtime.parts.long_completer._pass()

    def misfire(self) -> None:
        # As if its rest after a pass that found nothing were over: no time passes between two steps.
        self.runtime.parts.misfires._not_before = float("-inf")
        self.runtime.parts.misfires._pass()

    def leave(self) -> None:
        """Wake the others, and go, as at the end of `stop`; where it fails, others find out."""
        epoch = self.runtime.parts.registration.epoch
        assert epoch is not None
        with suppress(QuartzpyError):
            self.runtime.parts.scheduler_thread.wake_others()
        epoch.lose()
        with suppress(QuartzpyError):
            self.runtime.parts.store.leave(epoch.node)

    def live(self) -> None:
        """Everything that a node does, once."""
        self.check_in()
        self.misfire()
        for _ in range(2):
            self.schedule()
            self.run()
            self.complete()

    def doubt(self) -> None:
        """Take a step's answer for lost: the next pass of the scheduler thread looks what became of it."""
        self.runtime.parts.scheduler_thread.after_failure(OutcomeUnknownError("doubted by the test"))

    @property
    def node(self) -> Node:
        return self.runtime.parts.registration.present_epoch().node

    @property
    def executions(self) -> set[int]:
        """The fire_ids of what it handed to workers, and is not recorded yet."""
        return set(self.runtime.parts.registration.present_epoch().unrecorded())


class Stage(Harness):
    """A database with its clock, its users and its nodes."""

    store: SqlJobStore

    def __init__(self, dsn: str, *, workers: int = WORKERS, **settings: Any) -> None:
        self.dsn = dsn
        self._workers = workers
        self._settings = {**SETTINGS, **settings}
        self.admin = self.connect()
        self.user = self.connect()
        """The connection of somebody whose transactions hold rows."""
        self.admin.execute("CREATE TABLE IF NOT EXISTS test_clock (instant timestamptz NOT NULL)")
        self.runs = Runs()
        self._stores = {name: self._open() for name in "abcdeu"}
        self.nodes: list[DrivenNode] = []
        """All that were made since the stage was set, those that died among them."""
        super().__init__(self._stores["u"], ManualClock(self.write_time))
        self.reset()

    def _open(self) -> SqlJobStore:
        store = SqlJobStore(self.dsn, SchedulerConfig.of(self._settings), now_sql=NOW)
        store.open()
        return store

    def store_of(self, name: str) -> SqlJobStore:
        """The store, with connections of its own, of a process of this name."""
        return self._stores[name]

    def connect(self) -> psycopg.Connection[Any]:
        return connect_to(self.dsn)

    def write_time(self, instant: Any) -> None:
        if not self.admin.execute("UPDATE test_clock SET instant = %s", [instant]).rowcount:
            self.admin.execute("INSERT INTO test_clock VALUES (%s)", [instant])

    def reset(self) -> None:
        """Begin anew, on tables that are empty but for the locks."""
        self.admin.execute("; ".join(f"DELETE FROM qrtz_{table}" for table in TABLES))
        self.clock = ManualClock(self.write_time)
        self.clock.set(START)
        self.runs.clear()
        for made in self.nodes:
            made.runtime.parts.deadlines.close()
        self.nodes.clear()

    def close(self) -> None:
        for store in self._stores.values():
            store.close()
        self.user.close()
        self.admin.close()

    def new_node(self, name: str) -> DrivenNode:
        """A node that is not registered yet."""
        self.nodes.append(DrivenNode(name, self._stores[name], self.clock, self.runs, workers=self._workers))
        return self.nodes[-1]

    def living(self, name: str) -> DrivenNode:
        node = self.new_node(name)
        node.register()
        return node

    def set_state(self, trigger: Any, state: Any) -> None:
        raise NotImplementedError

    # --- looking

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.admin.execute(sql, values or None).fetchall()

    def is_at_rest(self) -> bool:
        """Whether nothing runs or waits for a slot, nothing is due in the next minute, and every node lives."""
        [(restless,)] = self.rows(
            "SELECT (SELECT count(*) FROM qrtz_fired_triggers)"
            " + (SELECT count(*) FROM qrtz_triggers WHERE trigger_state = 'BLOCKED'"
            "       OR trigger_state = 'WAITING' AND next_fire_time < (SELECT instant FROM test_clock) + interval '1m')"
            " + (SELECT count(*) FROM qrtz_scheduler_state"
            "     WHERE last_checkin < (SELECT instant FROM test_clock) - interval '6s')"
        )
        return restless == 0

    def bring_to_rest(self, *nodes: DrivenNode, rounds: int = 16) -> None:
        """Let the nodes live until nothing is left to do."""
        for _ in range(rounds):
            for node in nodes:
                node.live()
            if self.is_at_rest():
                return
            self.clock.advance(CHECKIN)
        raise AssertionError(f"stuck: after {rounds * CHECKIN} of life\n{self.seen()}")

    def seen(self) -> str:
        """What is in the tables, to be read by people."""
        told = []
        for table, columns in (
            ("scheduler_state", "instance_id, epoch, last_checkin"),
            ("fired_triggers", "fire_id, trigger_name, instance_id, epoch, scheduled_time"),
            ("triggers", "trigger_group, trigger_name, trigger_state, fire_id, next_fire_time, upcoming"),
            ("executions", "trigger_group, trigger_name, scheduled_time, outcome, instance_id, fire_id"),
        ):
            told += [table, *(f"    {row}" for row in self.rows(f"SELECT {columns} FROM qrtz_{table} ORDER BY 1, 2"))]
        return "\n".join(map(str, told))

    def violations(self, *, at_rest: bool = False) -> list[str]:
        """What S1, S3 and S8 forbid at any moment; at rest S4, too.

        What a user's transaction holds while its node dies or leaves is left to the next check-in of another.
        """
        asked = {
            "S1: an instant was fired twice": (
                "SELECT trigger_group, trigger_name, generation, scheduled_time, attempt FROM"
                " (SELECT trigger_group, trigger_name, generation, scheduled_time, attempt, fire_id"
                " FROM qrtz_executions"
                "  UNION SELECT trigger_group, trigger_name, generation, scheduled_time, attempt, fire_id"
                "  FROM qrtz_fired_triggers) AS f"
                " GROUP BY 1, 2, 3, 4, 5 HAVING count(*) > 1"
            ),
            "S3: a job executes more often at a time than it allows": (
                "SELECT job_group, job_name FROM qrtz_fired_triggers"
                " WHERE max_concurrent IS NOT NULL GROUP BY 1, 2, concurrency_key, max_concurrent"
                " HAVING count(*) > max_concurrent"
            ),
            "S4: an execution is of an epoch that is not registered": (
                "SELECT f.fire_id, f.trigger_name FROM qrtz_fired_triggers f"
                " WHERE NOT EXISTS (SELECT FROM qrtz_scheduler_state s WHERE s.epoch = f.epoch)"
            ),
            "S8: an execution that is recorded still executes": (
                "SELECT f.fire_id FROM qrtz_fired_triggers f JOIN qrtz_executions e USING (fire_id)"
            ),
        }
        return [
            f"{word}: {found}"
            for word, sql in asked.items()
            if (at_rest or not word.startswith("S4")) and (found := self.rows(sql))
        ]

    def outcome(self) -> dict[str, Any]:
        """What is left when all is done, free of the numbers that differ from one life to another."""
        executions = Counter(
            (*_instant(*instant), outcome, attempt)
            for outcome, attempt, *instant in self.rows(
                f"SELECT outcome, attempt, trigger_group, trigger_name, scheduled_time,"
                f" trigger_data->>'{RETRIED_NAME}', trigger_data->>'{ORIGINAL_NAME}' FROM qrtz_executions"
            )
        )
        triggers = Counter(
            (*_instant(*instant), *rest)
            for *instant, job, state, before, times, calendar in self.rows(
                f"SELECT trigger_group, trigger_name, next_fire_time, job_data->>'{RETRIED_NAME}',"
                f" job_data->>'{ORIGINAL_NAME}', job_name, trigger_state, prev_fire_time, times_triggered,"
                " calendar_name FROM qrtz_triggers"
            )
            for rest in [(job, state, before, times, calendar)]
        )
        return {
            "runs": self.runs.instants(),
            "executions": executions,
            "triggers": triggers,
            # One that is not durable stays where its row was held when its last trigger went.
            "jobs": self.rows(
                "SELECT job_name, job_data, mode FROM qrtz_job_details j WHERE is_durable"
                " OR EXISTS (SELECT FROM qrtz_triggers t WHERE t.job_name = j.job_name) ORDER BY 1"
            ),
            "calendars": self.rows("SELECT calendar_name, calendar FROM qrtz_calendars ORDER BY 1"),
            "paused": self.rows("SELECT scope, group_name FROM qrtz_paused_trigger_groups ORDER BY 1, 2"),
            "joins": self.rows(
                "SELECT job_name, occasion, state, succeeded, failed, removed FROM qrtz_joins ORDER BY 1, 2"
            ),
            "misfires": Counter(
                self.rows("SELECT trigger_name, scheduled_time, action, next_fire_time FROM qrtz_misfires")
            ),
        }

    # --- other users of the database

    def kill(self, pid: int) -> None:
        self.admin.execute("SELECT pg_terminate_backend(%s)", [pid])
        self.wait_until_gone(pid)

    def wait_until_gone(self, pid: int) -> None:
        """Wait until a backend has ended, and with it its transaction."""
        wait_until(
            lambda: not self.rows("SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid), f"{pid} to end", every=0.002
        )


def _instant(
    group: str, name: str, at: datetime, retried: str | None, recovered: str | None
) -> tuple[str, datetime | None]:
    """What was to run when, by names that are the same in each life; a retry comes some time after its failure.

    So does what follows an end, whose number is in its name.
    """
    if group == CONTINUATIONS:
        return f"after an end: {name.split('_')[2]}", None
    if group == RETRYING_JOBS:
        return f"retry of {retried}", None
    return f"recovery of {recovered}" if group == RECOVERING_JOBS else f"{group}.{name}", at
