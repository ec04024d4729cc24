"""A scheduler in memory that runs jobs on the calling thread when its clock is moved: a month in milliseconds.

The store, the triggers and the execution of jobs are those of production. Threads and real waiting are left out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from quartzpy.config.config import SchedulerConfig
from quartzpy.config.setting_checks import checked_groups
from quartzpy.config.setting_names import URL
from quartzpy.config.setting_types import OutsideSettings, Settings
from quartzpy.config.sources import load_settings
from quartzpy.connection_types import is_asynchronous
from quartzpy.errors import InvalidValueError, SettingsError
from quartzpy.events.events import Event, JobPaused, JobSkipped, TriggerFinalized, TriggerMisfired
from quartzpy.events.listeners import Listeners
from quartzpy.instants import Span, as_instant, as_span
from quartzpy.jobs.context import Middleware, Progress
from quartzpy.jobs.internal_entries import CurrentTrace, Within
from quartzpy.jobs.job import JobFactory, JobTypes, checked_defaults, job_types, new_instance
from quartzpy.jobs.job_transaction import AsyncJobConnection
from quartzpy.keys import JobKey, JobRef, checked_key
from quartzpy.node.completer import refill_of
from quartzpy.node.health import HealthState, SchedulerHealth
from quartzpy.node.opened_gates import gates_of
from quartzpy.node.registration import Epoch
from quartzpy.node.scheduler_thread import refill_of as refill_of_unfilled
from quartzpy.node.workers.execution import Execution
from quartzpy.node.workers.job_runner import JobRunner
from quartzpy.placement import Capabilities, placement_from_text
from quartzpy.scheduler.async_calls import MethodThreads
from quartzpy.scheduler.cluster_events import ClusterEvents
from quartzpy.scheduler.local_node import LocalNode
from quartzpy.scheduler.methods.quartz import QuartzNodeMethods
from quartzpy.scheduler.methods.scheduling import SchedulingMethods
from quartzpy.scheduler.scheduler import SchedulerMetadata
from quartzpy.scheduler.transactions import TransactionMethods
from quartzpy.store.protocol import (
    AvailableSlots,
    Completion,
    DispatchKey,
    FiredTrigger,
    Gate,
    JobStore,
    Notification,
    SkippedTrigger,
)
from quartzpy.store.records import ExecutionRecord
from quartzpy.store.store_time import StoreTime
from quartzpy.testing.clock import DEFAULT_START, ClockCancellation, ClockDeadlines, ClockLoop, ManualClock
from quartzpy.testing.transactions import JobTransaction, TransactionalStore, checked_database

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from quartzpy.aio.async_scheduler import AsyncScheduler
    from quartzpy.connection_types import AsyncUserConnection
    from quartzpy.scheduler.awaitable.transaction import AsyncTransactionMethods

A_CENTURY = 100 * 366 * 86_400.0
MAX_AT_ONCE = 1_000
MAX_EXECUTIONS = 1_000_000
INSTANCE_ID = "testing"


class SchedulerHarness(SchedulingMethods, QuartzNodeMethods):
    """A scheduler for tests: all methods on a store in memory, and a clock that `advance` moves.

    Jobs run on the calling thread, one after the other, each at its instant of the clock. `async def` jobs run in an
    event loop whose time is the clock's. Waiting takes no real time: `context.wait_cancelled(...)` and `asyncio.sleep`
    move the clock, and a job's timeout expires when the clock passes it. While a job takes time, others that become due
    wait for it; they run late, and do not misfire. `advance(..., running=False)` is a time in which no node is running:
    triggers that are late afterwards are handled according to their misfire instructions.

    `database` is used by `context.transaction()`: a SQLAlchemy engine, or a connection on which each transaction is a
    savepoint. `transactions` lists the transactions with their outcomes. Event listeners are called immediately.

    `AsyncScheduler(harness)` is the scheduler of a program that awaits its methods.

    Raises:
        SettingsError: `database` is something else, or a setting is unknown or wrong.
    """

    def __init__(
        self,
        start: datetime = DEFAULT_START,
        *,
        job_types: JobTypes = job_types,
        job_factory: JobFactory = new_instance,
        middleware: Sequence[Middleware] = (),
        context: Mapping[str, Any] | None = None,
        database: Engine | Connection | None = None,
        job_defaults: Mapping[str, Any] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        self.context: dict[str, Any] = dict(context or {})
        self.clock = ManualClock(start)
        self.listeners = Listeners()
        self._clock = self.clock
        self._config = SchedulerConfig.of({"name": INSTANCE_ID, **settings})
        self._store = TransactionalStore(self.clock, checked_database(database))
        self._job_types = job_types
        self._job_defaults = checked_defaults(job_defaults)
        self._node = self._store.register(
            INSTANCE_ID,
            host="testing",
            pid=0,
            checkin_interval=self._config.checkin_interval,
            window=self._config.failure_window,
        )
        self._epoch = Epoch(self._node, self.clock, A_CENTURY, 0.0)
        self._ended: list[Completion] = []
        self._opened: set[Gate] = set()
        """The gates at which executions have ended since the last step."""
        self._known_keys: set[DispatchKey] = set()
        """Those for which triggers have waited: what a limit has set aside since then may run again."""
        self._recorded = 0
        self._loop = ClockLoop(self.clock)
        self._awaitable: AsyncScheduler | None = None
        self._method_threads = MethodThreads(1)
        self._shut_down = threading.Event()
        self._closed = threading.Event()
        """Never set: the methods can be used after `shutdown` as well."""
        self._busy = timedelta()
        """The time that jobs have taken by the clock since the last moment at which nothing was late."""
        self._runner = JobRunner(
            job_types=job_types,
            job_factory=job_factory,
            middleware=middleware,
            store_time=StoreTime(self.clock),
            loop=self._loop,
            deadlines=ClockDeadlines(self.clock),
            listeners=self.listeners,
            store=self._store,
            unblocked=lambda earliest: None,
            scheduler=self,
            ended=self._take,
            max_job_data_bytes=self._config.max_job_data_bytes,
            max_captured_log_bytes=self._config.max_captured_log_bytes,
            report_progress=self._report_progress,
        )

    # --- properties

    @property
    def config(self) -> SchedulerConfig:
        """The settings."""
        return self._config

    @property
    def instance_id(self) -> str:
        """The name of the one node: "testing"."""
        return INSTANCE_ID

    @property
    def is_started(self) -> bool:
        """True: jobs run whenever the clock is moved."""
        return True

    @property
    def is_in_standby(self) -> bool:
        """False: nothing but the clock holds jobs back."""
        return False

    @property
    def is_shut_down(self) -> bool:
        """True once `shutdown` was called, until `start` is called. Jobs run in either case."""
        return self._shut_down.is_set()

    @property
    def metadata(self) -> SchedulerMetadata:
        """The name, state and counts of this scheduler."""
        return SchedulerMetadata(
            name=self.name,
            instance_id=INSTANCE_ID,
            version="testing",
            store=type(self._store).__name__,
            is_started=True,
            is_in_standby=False,
            is_shut_down=self.is_shut_down,
            running_since=None,
            workers=self._config.workers,
            jobs_executed=self._recorded,
        )

    def health(self) -> SchedulerHealth:
        """Return the health of the one node: it is well."""
        return SchedulerHealth(HealthState.HEALTHY, instance_id=INSTANCE_ID)

    @property
    def transactions(self) -> Sequence[JobTransaction]:
        """The transactions that jobs have begun, the first one first, with their outcomes."""
        return self._store.transactions

    # --- time

    @property
    def now(self) -> datetime:
        """The time that the clock shows."""
        return self.clock.now()

    def advance(self, span: Span, *, running: bool = True) -> list[ExecutionRecord]:
        """Move the clock forward by `span`, and return the executions of that time in order. See `advance_to`."""
        return self.advance_to(self.now + as_span(span, "span"), running=running)

    def advance_to(self, instant: datetime, *, running: bool = True) -> list[ExecutionRecord]:
        """Move the clock to `instant`, run what becomes due on the way, and return these executions in order.

        With `running=False` nothing runs, as if no node were up. The clock ends later than `instant` if the last job
        takes longer.

        Raises:
            InvalidValueError: `instant` is in the past or not an aware datetime, or there were more than a million
                executions.
        """
        instant = as_instant(instant, "instant", InvalidValueError)
        if not running or instant < self.now:
            self.clock.move_to(instant)
            return []
        executions = self._run_until(instant, MAX_EXECUTIONS)
        if len(executions) >= MAX_EXECUTIONS:
            raise InvalidValueError(f"advance: more than {MAX_EXECUTIONS} executions; advance in smaller steps")
        return executions

    def _run_until(self, instant: datetime, enough: int) -> list[ExecutionRecord]:
        """Run what becomes due up to `instant`, or until `enough` executions have ended."""
        executions: list[ExecutionRecord] = []
        while len(executions) < enough:
            self._handle_misfires()
            fired, skipped, next_due = self._fire_what_is_due()
            executions += skipped
            executions += [record for trigger in fired for record in self._run(trigger)]
            self._recorded += len(fired) + len(skipped)
            if fired or skipped:
                continue
            self._busy = timedelta()
            call = self.clock.next_call()
            following = min((at for at in (call, next_due) if at is not None), default=None)
            if following is None or following > instant:
                self.clock.move_to(max(instant, self.now))
                break
            self.clock.move_to(max(following, self.now))
        return executions

    def run_pending(self) -> list[ExecutionRecord]:
        """Run the triggers that are due now, without moving the clock. Returns their executions in order."""
        return self.advance_to(self.now)

    def wait_until_recorded(self, executions: int, timeout: Span) -> bool:
        """Move the clock until the given number of executions have ended since the start, or `timeout` has passed.

        Returns True if they have. The clock stops at the end of the last one.
        """
        self._run_until(self.now + as_span(timeout, "timeout"), executions - self._recorded)
        return self._recorded >= executions

    def start(self, *, standby: bool = False) -> None:
        """Do nothing: jobs run whenever the clock is moved."""
        self._shut_down.clear()

    def standby(self) -> None:
        """Do nothing: jobs run whenever the clock is moved."""

    def shutdown(self, **_: Any) -> bool:
        """End `wait_until_shut_down`, and return True: nothing runs in the background."""
        self._shut_down.set()
        return True

    def wait_until_shut_down(self, timeout: Span | None = None) -> bool:
        """Block in real time until `shutdown` is called, for at most `timeout`. Return whether it was called."""
        return self._shut_down.wait(None if timeout is None else as_span(timeout, "timeout").total_seconds())

    def run(
        self,
        *,
        drain_timeout: Span | None = "30s",
        interrupt: bool = False,
        log_level: str = "INFO",
        log_format: str = "text",
    ) -> bool:
        """Block in real time until `shutdown` is called, which another thread has to do. Return True."""
        self.start()
        return self.wait_until_shut_down()

    # --- for plugins, and the settings of this node

    @property
    def node(self) -> LocalNode:
        """The one node, for plugins."""
        return LocalNode(self)

    def _add_middleware(self, middleware: Middleware) -> None:
        self._runner.middleware = (middleware, *self._runner.middleware)

    def _trace_with(self, current: CurrentTrace, within: Within | None) -> None:
        """Store the trace context with each trigger; no job runs in another process."""
        self._current_trace = current

    def _set_execution_groups(self, limits: Mapping[str, int]) -> None:
        """Check the limits. One job at a time runs, so none is reached."""
        checked_groups(limits)

    def _start_later(self, seconds: float) -> None:
        """Do what `start` does: jobs run whenever the clock is moved."""
        self.start()

    def _executions(self) -> Sequence[Execution]:
        return self._runner.running()

    def cluster_events(self, *, poll_interval: Span = "1s") -> ClusterEvents:
        """Return an iterator over the events of this scheduler, as `Scheduler.cluster_events` does."""
        return ClusterEvents(self._usable_store, as_span(poll_interval, "poll_interval", SettingsError).total_seconds())

    @classmethod
    def from_config(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        job_factory: JobFactory = new_instance,
        middleware: Sequence[Middleware] = (),
        plugins: Sequence[object] = (),
        context: Mapping[str, Any] | None = None,
        job_defaults: Mapping[str, Any] | None = None,
        **settings: Unpack[OutsideSettings],
    ) -> Self:
        """Create one with the settings that `Scheduler.from_config` reads; without their database and plugins.

        Raises:
            SettingsError: a source cannot be read, or a setting is wrong or unknown.
        """
        config = load_settings(path, os.environ, **settings)
        config.pop(URL, None)
        return cls(job_factory=job_factory, middleware=middleware, context=context, job_defaults=job_defaults, **config)

    def _fire_what_is_due(self) -> tuple[list[FiredTrigger], list[ExecutionRecord], datetime | None]:
        """Fire one batch. Returns it, the records of fires that were skipped, and when the next trigger is due."""
        keys = self._dispatch_keys()
        self._store.decide(self._node, dict.fromkeys(keys, True))
        due = self._store.acquire(
            self._node,
            [AvailableSlots(slot_pool) for slot_pool in {key.slot_pool: None for key in keys}],
            limit=MAX_AT_ONCE,
            look_ahead=timedelta(),
            misfire_threshold=self._threshold,
            opened=self._opened,
        )
        self._opened = set()
        if due.unfilled:
            self._store.refill(self._node, [refill_of_unfilled(trigger, self.now) for trigger in due.unfilled])
        return list(due.fired), self._skipped(due.skipped), self.now if due.unfilled else due.next_due

    def _skipped(self, skipped: Sequence[SkippedTrigger]) -> list[ExecutionRecord]:
        for record in skipped:
            self.listeners.emit(JobSkipped(record.trigger_key, record.job_key, record.scheduled_fire_time))
        return self._store.recorded_last(len(skipped))

    def _report_progress(self, execution: Execution, progress: Progress) -> None:
        # At once: a test must see what its job has reported so far.
        self._store.report_progress(self._node, {execution.fired.fire_id: progress})

    @property
    def _threshold(self) -> timedelta:
        """The misfire threshold, extended by the time of jobs: in production, a late fire runs beside the other job."""
        return self._config.misfire_threshold + self._busy

    def _handle_misfires(self) -> None:
        self._store.decide(self._node, dict.fromkeys(self._dispatch_keys(), True))
        more = True
        while more:
            outcome = self._store.recover_misfires(
                self._node, threshold=self._threshold, limit=self._config.misfire_batch_size
            )
            for key, missed in outcome.misfired.items():
                self.listeners.emit(TriggerMisfired(key, tuple(missed)))
            for key in outcome.finalized:
                self.listeners.emit(TriggerFinalized(key))
            more = outcome.more

    def _dispatch_keys(self) -> list[DispatchKey]:
        """Return the dispatch keys of all triggers whose job type is known here: jobs of any placement run here."""
        names = set(self._job_types.names())
        self._known_keys |= self._store.waiting_dispatch_keys()
        return sorted(dispatch_key for dispatch_key in self._known_keys if dispatch_key.job_type in names)

    def _run(self, fired: FiredTrigger) -> list[ExecutionRecord]:
        execution = Execution(self._runner, fired, self._epoch)
        execution.cancelled = ClockCancellation(self.clock)
        self._runner.accept([execution])
        began, outer = self.now, self._loop.execution
        self._loop.execution = execution
        try:
            execution()
        finally:
            self._loop.execution = outer
        self._busy += self.now - began
        completions, self._ended = self._ended, []
        unrecorded = [record for record in completions if not record.is_recorded]
        for completion in unrecorded:
            completion.refill = refill_of(fired)
        for key in self._store.complete(self._node, unrecorded).paused:
            self._emit(JobPaused(key))
        self._opened |= gates_of(completions)
        return [record for each in completions if (record := self._store.execution(each.fired.fire_id)) is not None]

    def _take(self, execution: Execution, completion: Completion | None) -> None:
        if completion is not None:
            self._ended.append(completion)

    # --- executions

    def cancel(self, fire_id: int | str) -> bool:
        """Ask one execution to stop, as `interrupt_execution` does: all executions are those of this node."""
        return self.interrupt_execution(fire_id)

    def cancel_job(self, key: JobRef) -> set[int]:
        """Ask all running executions of a job to stop. Return their fire ids."""
        job_key = checked_key(key, JobKey)
        running = [each.fired.fire_id for each in self._runner.running() if each.fired.job_key == job_key]
        self._interrupt(lambda execution: execution.fired.fire_id in running)
        return set(running)

    def _interrupt(self, chosen: Callable[[Execution], bool]) -> bool:
        return self._runner.interrupt(chosen) > 0

    # --- inside a user's transaction

    @overload
    def using(self, connection: AsyncUserConnection | AsyncJobConnection) -> AsyncTransactionMethods: ...

    @overload
    def using(self, connection: Any) -> TransactionMethods: ...

    def using(self, connection: Any) -> TransactionMethods | AsyncTransactionMethods:
        """Return the scheduling methods inside a transaction of the caller.

        For an asynchronous connection or session the methods are awaited, as those of `Scheduler.using` are.

        If the transaction is rolled back, all changes since this call are undone. This works for SQLAlchemy connections
        and sessions, including their asynchronous forms. Connections of other kinds do not notify of a rollback, so
        that schedules stored with them stay.
        """
        if is_asynchronous(connection):
            return self._using_async(connection, self._method_threads)
        self._usable_store()
        return TransactionMethods(self, self._store.within(connection))

    def _using_async(self, connection: Any, threads: MethodThreads) -> AsyncTransactionMethods:
        # Imported here, because tests of programs without asynchronous callers have no need of these modules.
        from quartzpy.testing.async_transactions import AsyncHarnessMethods

        return AsyncHarnessMethods(self._usable_store, connection, self._config, self._inside_of, threads)

    def _inside_of(self, store: JobStore) -> TransactionMethods:
        return TransactionMethods(self, store)

    def _as_async(self) -> AsyncScheduler:
        if self._awaitable is None:
            from quartzpy.aio.async_scheduler import AsyncScheduler

            self._awaitable = AsyncScheduler(self)
        return self._awaitable

    # --- the interface for the methods

    def _usable_store(self) -> TransactionalStore:
        self._store.check_in(self._node)
        placements = [placement_from_text(dispatch_key.placement) for dispatch_key in self._dispatch_keys()]
        can = Capabilities(
            frozenset(self._job_types.names()),
            frozenset(placement.executor for placement in placements),
            frozenset(label for placement in placements for label in placement.requires),
        )
        self._store.publish(self._node, can)
        return self._store

    def _changed(self, earliest: datetime | None, notification: Notification = Notification.SCHEDULED) -> None:
        """Do nothing: jobs run when the clock is moved."""

    def _rest(self, seconds: float, has_begun: Callable[[], bool]) -> None:
        self.advance(timedelta(seconds=seconds))

    def _inside(self, store: JobStore) -> SchedulingMethods:
        return self

    def _emit(self, event: Event) -> None:
        self.listeners.emit(event)
