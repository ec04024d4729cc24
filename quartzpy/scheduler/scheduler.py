"""The scheduler: the facade with all public operations. It contains no SQL and starts no threads itself."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

from quartzpy.clock import Clock
from quartzpy.config.config import SchedulerConfig
from quartzpy.config.setting_checks import checked_groups
from quartzpy.connection_types import is_asynchronous
from quartzpy.errors import (
    ExecutionNotFoundError,
    JobNotFoundError,
    NodeUnhealthyError,
    PluginStartError,
    SchedulerStateError,
    SettingsError,
    UnableToInterruptJobError,
)
from quartzpy.events.events import (
    Event,
    SchedulerInStandby,
    SchedulerShutDown,
    SchedulerShuttingDown,
    SchedulerStarted,
    SchedulerStarting,
)
from quartzpy.events.execution_log import ExecutionLogger
from quartzpy.events.listeners import Listeners
from quartzpy.instants import Span, as_span
from quartzpy.jobs.context import Middleware
from quartzpy.jobs.internal_entries import CurrentTrace, Tracing, Within
from quartzpy.jobs.job import JobFactory, JobTypes, checked_defaults, new_instance
from quartzpy.jobs.job_transaction import AsyncJobConnection
from quartzpy.keys import JobKey, checked_key
from quartzpy.logs.default_handler import ensure_logging
from quartzpy.name_hints import BLOCKING_ARGUMENTS, NameHints, argument_hints
from quartzpy.node.health import HealthState, SchedulerHealth
from quartzpy.node.node import SchedulerNode
from quartzpy.node.observers import Observers
from quartzpy.node.parts import NodeParts
from quartzpy.node.run import RunEnd, run_until_stopped
from quartzpy.node.workers.execution import Execution
from quartzpy.scheduler.async_calls import MethodThreads
from quartzpy.scheduler.cluster_events import ClusterEvents
from quartzpy.scheduler.local_node import LocalNode
from quartzpy.scheduler.methods.quartz import QuartzNodeMethods
from quartzpy.scheduler.methods.queries import FireRef, checked_fire_id
from quartzpy.scheduler.methods.scheduling import SchedulingMethods
from quartzpy.scheduler.plugin import Plugin, call_plugin
from quartzpy.scheduler.transactions import TransactionMethods
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.process_identity import is_process_worker
from quartzpy.store.protocol import JobStore, Notification
from quartzpy.store.records import LastingIncident

if TYPE_CHECKING:
    from quartzpy.connection_types import AsyncUserConnection, UserConnection
    from quartzpy.scheduler.awaitable.transaction import AsyncTransactionMethods

logger = logging.getLogger(__name__)

SHUT_DOWN = "the scheduler was shut down; create a new one"
ABANDONED = (
    "the scheduler was shut down, and the time limit of its drain has passed; jobs that are still running can no longer"
    " use it. Give shutdown() or run() a longer time, or let the job end when context.cancelled is true"
)


@dataclass(frozen=True, slots=True)
class SchedulerMetadata(NameHints):
    """The name, state and counts of a scheduler in this process (Quartz's `SchedulerMetaData`)."""

    _quartz_sections = ("SchedulerFactory, SchedulerMetaData",)

    name: str
    instance_id: str | None
    version: str
    store: str
    is_started: bool
    is_in_standby: bool
    is_shut_down: bool
    running_since: datetime | None
    workers: int
    jobs_executed: int


class BaseScheduler(SchedulingMethods, QuartzNodeMethods):
    """A scheduler: it schedules jobs in a store and, once started, runs them as a node of the cluster.

    A scheduler that is not started is a client: it can do everything except run jobs. It is thread-safe.
    """

    _awaitable_form: ClassVar[Callable[[], Callable[[BaseScheduler], Any]]]
    """Imports `AsyncScheduler`, which is built on this class. The package itself sets it."""

    def __init__(
        self,
        store: JobStore,
        config: SchedulerConfig,
        *,
        clock: Clock,
        job_types: JobTypes,
        version: str,
        job_factory: JobFactory = new_instance,
        middleware: Sequence[Middleware] = (),
        plugins: Sequence[Plugin[Self]] = (),
        context: Mapping[str, Any] | None = None,
        job_defaults: Mapping[str, Any] | None = None,
        judge: Callable[[BaseScheduler], Callable[[], Sequence[LastingIncident]]] = lambda scheduler: tuple,
    ) -> None:
        self.context: dict[str, Any] = dict(context or {})
        """Objects of this process for its jobs: `context.scheduler.context` (Quartz's `SchedulerContext`)."""
        self._job_factory = job_factory
        self._middleware = tuple(middleware)
        self._tracing: Tracing | None = None
        self._plugins = tuple(plugins)
        self._judge = judge
        self._store = store
        self._config = config
        self._settings_file: str | None = None
        self._clock = clock
        self._job_types = job_types
        self._job_defaults = checked_defaults(job_defaults)
        self._version = version
        self.listeners = Listeners()
        """The listeners of this scheduler. Add your own here."""
        self.observers = Observers()
        """Those who are told of each step of this node; see `quartzpy.node.observers`."""
        self._program_problems: dict[str, NodeProblem] = {}
        """What the program around this node finds wrong with itself, by kind. The node reports it as its own."""
        self._lock = threading.RLock()
        self._opened = False
        self._node: SchedulerNode | None = None
        self._running_since: datetime | None = None
        self._shut_down = threading.Event()
        self._closed = threading.Event()
        """Set when the methods are refused: at a shutdown, but not before its drain is over."""
        self._refusal = SHUT_DOWN
        self._starting: threading.Timer | None = None
        self._pid = os.getpid()
        self._method_threads = MethodThreads(config.pool_size + 3)
        self._awaitable: Any = None
        if config.log_executions is not None:
            level = logging.getLevelNamesMapping()[config.log_executions]
            ExecutionLogger(config.name, level=level).listen(self.listeners)
        if config.monitors:
            # Most processes have no monitor.
            from quartzpy.events.check_ins import CheckIns

            CheckIns(config.monitors).listen(self.listeners)
        for plugin in self._plugins:
            plugin.initialize(self)

    def __repr__(self) -> str:
        state = "shut down" if self.is_shut_down else "started" if self.is_started else "not started"
        return f"<{type(self).__name__} {self.name!r}: {state}>"

    @property
    def node(self) -> LocalNode:
        """The node of this process, for plugins."""
        return LocalNode(self)

    def _add_middleware(self, middleware: Middleware) -> None:
        if self._node is not None:
            raise SchedulerStateError("add_middleware: the scheduler was started already")
        self._middleware = (middleware, *self._middleware)

    def _trace_with(self, current: CurrentTrace, within: Within | None) -> None:
        self._current_trace = current
        self._tracing = Tracing(current, within)

    # --- lifecycle

    @property
    def config(self) -> SchedulerConfig:
        """The settings of this scheduler."""
        return self._config

    @property
    def instance_id(self) -> str | None:
        """The id of this node in the cluster. None before `start`."""
        return self._node.instance_id if self._node else None

    @property
    def is_started(self) -> bool:
        """True after `start`, until the scheduler is shut down."""
        return self._node is not None and not self.is_shut_down

    @property
    def is_in_standby(self) -> bool:
        """True if this node takes no triggers because it is in standby or was not started."""
        return self._node is None or self._node.in_standby

    @property
    def is_shut_down(self) -> bool:
        """True once `shutdown` was called."""
        return self._shut_down.is_set()

    @argument_hints(BLOCKING_ARGUMENTS)
    def start(self, *, standby: bool = False) -> None:
        """Join the cluster as a node and run jobs, or resume after `standby`.

        With `standby=True` a new node joins the cluster, but takes no triggers until `start` is called again.

        Raises:
            SchedulerStateError: the scheduler was shut down, was created in another process, or this process is a
                process worker, which imports the program's main module.
            StoreUnavailableError: the database did not answer within `start_timeout`.
            SchemaError: the tables are missing or belong to another release.
            InstanceIdInUseError: another live node has this instance id.
        """
        if is_process_worker():
            # Otherwise importing the main module would start a nested node, and the worker's job would never run.
            raise SchedulerStateError(
                "a process worker cannot start a scheduler; guard the start in the program's main module with"
                ' if __name__ == "__main__":'
            )
        with self._lock:
            self._check_not_shut_down()
            if self._starting is not None:
                self._starting.cancel()
                self._starting = None
            self.listeners.emit(SchedulerStarting())
            is_first = self._node is None
            if self._node is None:
                self._node = self._new_node(standby)
                self._opened = True
                self._running_since = self._clock.now()
            elif not standby:
                self._node.resume()
        if is_first:
            try:
                self._each_plugin("start")
            except PluginStartError:
                self.shutdown(wait=False)
                raise
        self.listeners.emit(SchedulerStarted())

    def _rest(self, seconds: float, has_begun: Callable[[], bool]) -> None:
        node = self._node
        if node is not None and node.waits_without_limit and not has_begun() and not self._has_live_peers():
            # The caller may be a job that the drain waits for, and no node would ever run what the job waits for.
            raise SchedulerStateError(
                "the scheduler was shut down without a time limit, the awaited execution has not begun, and no other"
                " node is alive that could run it"
            )
        if self._closed.wait(seconds):
            raise SchedulerStateError(self._refusal)

    def _has_live_peers(self) -> bool:
        return any(node.instance_id != self.instance_id for node in self._usable_store().list_nodes().alive())

    def _each_plugin(self, method: str) -> None:
        for plugin in self._plugins:
            call_plugin(plugin, method)

    def _new_node(self, standby: bool) -> SchedulerNode:
        parts = NodeParts(
            self._store,
            self._config,
            clock=self._clock,
            job_types=self._job_types,
            scheduler=self,
            listeners=self.listeners,
            job_factory=self._job_factory,
            middleware=self._middleware,
            tracing=self._tracing,
            observers=self.observers,
            judge=self._judge(self),
            program_problems=self._program_problems.values(),
        )
        node = SchedulerNode(parts, version=self._version)
        node.start(standby=standby)
        return node

    def _start_later(self, seconds: float) -> None:
        with self._lock:
            self._check_not_shut_down()
            self._starting = threading.Timer(seconds, self._start_unless_shut_down)
            self._starting.name = "quartzpy-delayed-start"
            self._starting.daemon = True
            self._starting.start()

    def _start_unless_shut_down(self) -> None:
        with self._lock:
            if self._starting is not None and not self.is_shut_down:
                self.start()

    def standby(self) -> None:
        """Take no more triggers on this node until `start` is called again.

        Running executions continue, and the node stays in the cluster.

        Raises:
            SchedulerStateError: the scheduler was not started, or was shut down.
        """
        self._check_not_shut_down()
        if self._node is None:
            raise SchedulerStateError("standby: the scheduler was not started; call start(standby=True) instead")
        self._node.standby()
        self.listeners.emit(SchedulerInStandby())

    def run(
        self,
        *,
        drain_timeout: Span | None = "30s",
        interrupt: bool = False,
        log_level: str = "INFO",
        log_format: str = "text",
    ) -> bool:
        """Start this node, and block until the process is asked to stop. Call it as the last line of a program.

        SIGTERM, SIGINT (Ctrl-C) or a call of `shutdown` stops the node: it fires no more triggers and waits up to
        `drain_timeout` for running executions to end (None: without a limit). With `interrupt=True` it also asks them
        to stop immediately. A second signal ends the process at once; other nodes then recover its executions. If the
        program has configured no logging, messages of `log_level` and above go to standard error, as text or, with
        `log_format="json"`, as JSON. Signal handlers are installed on the main thread only. Until the end, the garbage
        collector passes over the objects that existed at the start (`gc.freeze`), so that it does not pause the node
        for long. Returns True if all executions ended and were recorded.

        Raises:
            NodeUnhealthyError: a thread of the node could not be kept alive; only a new process can continue.
            SettingsError: `drain_timeout` is not a span of time, or `log_level` or `log_format` is not a valid name.
            SchedulerStateError, StoreUnavailableError, SchemaError, InstanceIdInUseError: as for `start`.
        """
        timeout = None if drain_timeout is None else _seconds(drain_timeout, "drain_timeout")
        ensure_logging(log_level, log_format)
        end = run_until_stopped(self, timeout, interrupt=interrupt)
        if end is RunEnd.FAILED:
            raise NodeUnhealthyError("a thread of this node could not be kept alive; start a new process")
        return end is RunEnd.DRAINED

    def shutdown(self, *, wait: bool = True, timeout: Span | None = None, interrupt: bool = False) -> bool:
        """Drain this node and leave the cluster. Return True if all its executions ended and were recorded.

        With `wait=True` it blocks until they have ended, or until `timeout` (seconds, or a span such as "30s"; None:
        without a limit) has passed; executions that are still running then are asked to stop, and other nodes recover
        them. With `interrupt=True` executions are asked to stop immediately (`context.cancelled`, as by `cancel`). An
        immediate refire that a job asks for meanwhile happens on another node. With `wait=False` the drain continues in
        the background. A later call can wait for it, interrupt executions or shorten the timeout. Until the drain is
        over, running jobs, and all other callers, may use the scheduler. A scheduler that was shut down cannot be
        started again.

        Raises:
            SchedulerStateError: a job of this scheduler called it with `wait=True`; it would wait for that job.
            SettingsError: `timeout` is not a span of time, or is negative. The scheduler is unchanged.
        """
        seconds = None if timeout is None else _seconds(timeout, "timeout")
        with self._lock:
            node = self._node
            if wait and node is not None and node.is_worker_thread():
                raise SchedulerStateError("shutdown(wait=True) in a job would wait for the job itself; use wait=False")
            is_first = not self.is_shut_down
            self._shut_down.set()
            if self._starting is not None:
                self._starting.cancel()
        if is_first:
            self.listeners.emit(SchedulerShuttingDown())
            self._each_plugin("shutdown")
        if node is not None:
            return node.stop(
                wait=wait,
                timeout=seconds,
                interrupt=interrupt,
                closing=self._close,
                ended=self._ended,
            )
        if is_first:
            self._close(in_time=True)
            self._store.close()
            self._ended(drained=True)
        return True

    def _close(self, in_time: bool) -> None:
        """Refuse all methods from now on."""
        if not self._closed.is_set():
            self._refusal = SHUT_DOWN if in_time else ABANDONED
            self._closed.set()

    def _ended(self, drained: bool) -> None:
        self._close(drained)
        self.listeners.emit(SchedulerShutDown(drained))
        self.observers.stopped()

    def wait_until_shut_down(self, timeout: Span | None = None) -> bool:
        """Block until `shutdown` is called, for at most `timeout`. Return whether it was called."""
        return self._shut_down.wait(None if timeout is None else _seconds(timeout, "timeout"))

    def wait_until_recorded(self, executions: int, timeout: Span) -> bool:
        """Wait until this node has recorded at least `executions` executions. Return False on timeout."""
        deadline = self._clock.monotonic() + _seconds(timeout, "timeout")
        while self._node is not None and self._clock.monotonic() < deadline:
            if self._node.recorded >= executions:
                return True
            if self._closed.wait(0.005):
                return self._node.recorded >= executions
        return False

    def health(self) -> SchedulerHealth:
        """Return the health of this node: its threads, its lease and its database connection. It makes no round trip.

        A node whose state is FAILED needs a new process: `health().raise_if_failed()` raises an error then, and
        `quartzpy node` exits with status 75.
        """
        if self._node is None or self.is_shut_down:
            return SchedulerHealth(HealthState.STOPPED, instance_id=self.instance_id)
        return self._node.health()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def _check_not_shut_down(self) -> None:
        """Check that the node may be started or put into another mode."""
        if self.is_shut_down:
            raise SchedulerStateError(SHUT_DOWN)
        self._check_usable()

    def _check_usable(self) -> None:
        if self._closed.is_set():
            raise SchedulerStateError(self._refusal)
        if os.getpid() != self._pid:
            self._belong_to_this_process()

    def _belong_to_this_process(self) -> None:
        """Adopt this scheduler in a forked child of the process that created it.

        Raises:
            SchedulerStateError: the scheduler was started before the fork, so its threads do not exist in the child.
        """
        if self._node is not None or self._starting is not None:
            raise SchedulerStateError(
                f"the scheduler was started in process {self._pid}; its threads do not exist in process {os.getpid()},"
                " which was forked from it. Start schedulers after the fork, in each process (gunicorn: post_fork;"
                " Celery: worker_process_init; uWSGI: postfork), or create another one here to schedule only"
            )
        # Another thread of the parent may have held the locks at the time of the fork.
        self._lock, self._shut_down, self._closed = threading.RLock(), threading.Event(), threading.Event()
        # The store creates new connections when it is opened again.
        self._opened = False
        self._pid = os.getpid()

    def _usable_store(self) -> JobStore:
        self._check_usable()
        if not self._opened:
            with self._lock:
                if not self._opened:
                    self._store.open(self._emit)
                    self._opened = True
        return self._store

    def _unopened_store(self) -> JobStore:
        """Return the store for the connections of a caller. It may be unopened, because it needs none of its own."""
        self._check_usable()
        return self._store

    def _emit(self, event: Event) -> None:
        self.listeners.emit(event)

    def _changed(self, earliest: datetime | None, notification: Notification = Notification.SCHEDULED) -> None:
        if self._node is not None and earliest is not None:
            self._node.parts.signals.scheduling_changed(earliest, notification)

    # --- inside a user's transaction

    @overload
    def using(self, connection: AsyncUserConnection | AsyncJobConnection) -> AsyncTransactionMethods: ...

    @overload
    def using(self, connection: UserConnection) -> TransactionMethods: ...

    def using(self, connection: Any) -> TransactionMethods | AsyncTransactionMethods:
        """Return the scheduling methods inside a transaction of the caller, which commits or rolls back their changes.

        `connection` is a SQLAlchemy `Connection`, `Session` or `scoped_session`, a psycopg connection, or Django's
        `connection` inside `atomic()`. For a SQLAlchemy `AsyncConnection` or `AsyncSession` (on psycopg or asyncpg) and
        psycopg's `AsyncConnection`, the methods are awaited, and so they are for the connection of
        `async with context.transaction()`.

        Other nodes learn of the changes at the commit. A long transaction delays only the triggers that it touches,
        because it locks no row of the table `locks`; only `sync` lets other calls of `sync` wait until the commit. The
        scheduler itself does not connect to its database for this.

        Raises:
            InvalidValueError: `connection` is of another type or in autocommit mode, or the store is memory://. With an
                asynchronous connection, the first awaited method raises it.
        """
        if is_asynchronous(connection):
            return self._using_async(connection, self._method_threads)
        return self._inside(self._unopened_store().within(connection))

    def _as_async(self) -> Any:
        """Return this scheduler in its awaitable form, always the same one: that of the program, if it made one."""
        if self._awaitable is None:
            self._awaitable = type(self)._awaitable_form()(self)
        return self._awaitable

    def _using_async(self, connection: Any, threads: MethodThreads) -> AsyncTransactionMethods:
        """Return awaitable scheduling methods for any kind of connection, as `using` does. They run on `threads`."""
        # Imported here, because a node without asynchronous callers has no need of these modules.
        from quartzpy.scheduler.awaitable.transaction import AsyncTransactionMethods

        return AsyncTransactionMethods(self._unopened_store, connection, self._config, self._inside, threads)

    def _inside(self, store: JobStore) -> TransactionMethods:
        return TransactionMethods(self, store)

    # --- the whole cluster

    def cluster_events(self, *, poll_interval: Span = "1s") -> ClusterEvents:
        """Return an iterator over the events of the whole cluster; see `ClusterEvents`.

        The events are executions that start and end on any node, and nodes that join and leave. Iteration blocks until
        the next event. The scheduler need not be started. `poll_interval` is the interval at which the tables are read
        where notifications do not arrive. While there is a watcher, each node sends at most ten notifications a second;
        otherwise none.

        Raises:
            SettingsError: `poll_interval` is not a span of time.
            StoreUnavailableError: the database is unavailable.
        """
        return ClusterEvents(self._usable_store, as_span(poll_interval, "poll_interval", SettingsError).total_seconds())

    # --- this node

    def _set_execution_groups(self, limits: Mapping[str, int]) -> None:
        self._check_usable()
        if self._node is None:
            raise SchedulerStateError("the scheduler was not started; pass execution_groups as a setting instead")
        self._node.set_groups(checked_groups(limits))

    def _allow(self, **settings: Any) -> None:
        """Replace the settings of the included job types: commands, command_variables, http_hosts and so on.

        Raises:
            SettingsError: a value is wrong. Nothing has changed then.
        """
        self._config = replace(self._config, **settings)
        if self._node is not None:
            self._node.allow(self._config)

    # --- cancellation

    def cancel(self, fire_id: FireRef) -> bool:
        """Ask an execution to stop, on any node of the cluster. Return whether it was still running.

        The job sees `context.cancelled`. An `async def` job that does not end by itself is cancelled at its next
        `await`. An execution that stops because of this is recorded as CANCELLED and is not retried. If this returns
        True, the execution does not run again by a retry, a snooze or a recovery, however it ends; and if its job has
        not begun, it does not begin.

        Raises:
            InvalidValueError: `fire_id` is not a valid fire id.
            ExecutionNotFoundError: neither a running execution nor one in the history has this id.
        """
        checked_id = checked_fire_id(fire_id)
        requested = self._usable_store().request_cancel(checked_id)
        if self._node is not None:
            self._node.interrupt(lambda execution: execution.fired.fire_id == checked_id)
        if not requested and self.execution(str(checked_id)) is None:
            raise ExecutionNotFoundError(f"fire_id {checked_id}: no running execution, and none in the history, has it")
        return bool(requested)

    def cancel_job(self, key: JobKey | str) -> set[int]:
        """Ask all running executions of a job to stop, on all nodes of the cluster. Return their fire ids.

        Each is stopped as by `cancel`. Later fires of the job's triggers are not affected.

        Raises:
            InvalidKeyError: `key` is neither a JobKey nor a name.
            JobNotFoundError: the job is not stored, and no execution of it is running.
        """
        job_key = checked_key(key, JobKey)
        requested = set(self._usable_store().request_cancel(job_key))
        if self._node is not None:
            self._node.interrupt(lambda execution: execution.fired.fire_id in requested)
        if not requested and not self.check_exists(job_key):
            raise JobNotFoundError(f"job {job_key} is not stored, and no execution of it is running")
        return requested

    def _executions(self) -> Sequence[Execution]:
        return [] if self._node is None else self._node.running()

    def _interrupt(self, chosen: Callable[[Execution], bool]) -> bool:
        self._check_usable()
        if self._node is None:
            raise UnableToInterruptJobError("the scheduler was not started, so no executions run on it")
        return self._node.interrupt(chosen) > 0

    @property
    def metadata(self) -> SchedulerMetadata:
        """Return the name, state and counts of this scheduler. It makes no round trip to the database."""
        return SchedulerMetadata(
            name=self.name,
            instance_id=self.instance_id,
            version=self._version,
            store=type(self._store).__name__,
            is_started=self.is_started,
            is_in_standby=self.is_in_standby,
            is_shut_down=self.is_shut_down,
            running_since=self._running_since,
            workers=self._config.workers,
            jobs_executed=self._node.recorded if self._node else 0,
        )


def _seconds(span: Span, subject: str) -> float:
    """Return a span of time in seconds.

    Raises:
        SettingsError: `span` is not a span of time, or is negative.
    """
    return as_span(span, subject, SettingsError, longest=timedelta.max).total_seconds()
