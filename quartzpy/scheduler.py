"""The facade: every verb a user has. No SQL, and no threads of its own."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from quartzpy.aio.calls import VerbThreads
from quartzpy.aio.transaction import AsyncTransactionVerbs, is_asynchronous
from quartzpy.clock import Clock
from quartzpy.config import SchedulerConfig, checked_groups
from quartzpy.context import JobExecutionContext
from quartzpy.errors import (
    SchedulerStateError,
    UnableToInterruptJobError,
)
from quartzpy.events import (
    Event,
    SchedulerInStandby,
    SchedulerShutDown,
    SchedulerShuttingDown,
    SchedulerStarted,
    SchedulerStarting,
)
from quartzpy.job import JobTypes
from quartzpy.job_factory import JobFactory, new_instance
from quartzpy.keys import JobKey
from quartzpy.listeners import Listeners
from quartzpy.middleware import Middleware
from quartzpy.plugin import Plugin, call_plugin
from quartzpy.runtime.child_process import is_process_worker
from quartzpy.runtime.health import HealthState, SchedulerHealth
from quartzpy.runtime.node import SchedulerNode
from quartzpy.store.protocol import (
    JobStore,
)
from quartzpy.transaction_verbs import TransactionVerbs
from quartzpy.verbs.looking import checked_fire_id
from quartzpy.verbs.scheduling import SchedulingVerbs

if TYPE_CHECKING:
    from quartzpy.connection_types import AsyncUserConnection, UserConnection

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SchedulerMetadata:
    """What this scheduler is and has done, in this process (Quartz's `SchedulerMetaData`)."""

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


class BaseScheduler(SchedulingVerbs):
    """Schedules jobs in a store and, once started, runs them as a node of the cluster.

    Without `start` it is a client: everything but running works. It may be used from any thread.
    """

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
        plugins: Sequence[Plugin] = (),
        context: Mapping[str, Any] | None = None,
    ) -> None:
        self.context: dict[str, Any] = dict(context or {})
        """What jobs find in `context.scheduler.context`, in this process (Quartz's `SchedulerContext`)."""
        self._job_factory = job_factory
        self._middleware = tuple(middleware)
        self._plugins = tuple(plugins)
        self._store = store
        self._config = config
        self._clock = clock
        self._job_types = job_types
        self._version = version
        self.listeners = Listeners()
        """Who is told of what happens on this scheduler."""
        store.on_event(self._tell)
        self._lock = threading.RLock()
        self._opened = False
        self._node: SchedulerNode | None = None
        self._running_since: datetime | None = None
        self._shut_down = threading.Event()
        self._starting: threading.Timer | None = None
        self._pid = os.getpid()
        self._verb_threads = VerbThreads(config.pool_size + 3)
        for plugin in self._plugins:
            plugin.initialize(self)

    # --- life

    @property
    def config(self) -> SchedulerConfig:
        return self._config

    @property
    def instance_id(self) -> str | None:
        """This node's id in the cluster; None before `start`."""
        return self._node.instance_id if self._node else None

    @property
    def is_started(self) -> bool:
        """Whether `start` was called and the scheduler was not shut down since."""
        return self._node is not None and not self.is_shut_down

    @property
    def is_in_standby(self) -> bool:
        """Whether this node claims nothing: in standby, or not started."""
        return self._node is None or self._node.in_standby

    @property
    def is_shut_down(self) -> bool:
        return self._shut_down.is_set()

    def start(self, *, standby: bool = False) -> None:
        """Begin to run jobs on this node, or go on after `standby`.

        With `standby`, one that was not started joins the cluster and claims nothing until it is started again.

        Raises:
            SchedulerStateError: it was shut down, was started before this process was forked, or this is a process
                worker, which imports the program's main module.
            StoreUnavailableError: the database did not answer within `start_timeout`.
            SchemaError: its tables are absent or of another release.
            InstanceIdInUseError: another living node has this instance id.
        """
        if is_process_worker():
            # A node in a node, and the job that the process is for would wait for ever.
            raise SchedulerStateError(
                "a process worker starts no scheduler; in the program's main module, start it under"
                ' if __name__ == "__main__":'
            )
        with self._lock:
            self._check_usable()
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
            self._each_plugin("start")
        self.listeners.emit(SchedulerStarted())

    def _each_plugin(self, method: str) -> None:
        for plugin in self._plugins:
            call_plugin(plugin, method)

    def _new_node(self, standby: bool) -> SchedulerNode:
        node = SchedulerNode(
            self._store,
            self._config,
            clock=self._clock,
            job_types=self._job_types,
            scheduler=self,
            listeners=self.listeners,
            job_factory=self._job_factory,
            middleware=self._middleware,
        )
        node.start(standby=standby)
        return node

    def start_delayed(self, delay: timedelta) -> None:
        """Start after `delay`, unless it is shut down before. Returns at once."""
        with self._lock:
            self._check_usable()
            self._starting = threading.Timer(delay.total_seconds(), self._start_if_still_wanted)
            self._starting.name = "quartzpy-delayed-start"
            self._starting.daemon = True
            self._starting.start()

    def _start_if_still_wanted(self) -> None:
        with self._lock:
            if self._starting is not None and not self.is_shut_down:
                self.start()

    def standby(self) -> None:
        """Claim nothing more on this node until `start`. What runs goes on, and the node stays in the cluster."""
        self._check_usable()
        if self._node is None:
            raise SchedulerStateError("the scheduler was not started; standby is for a started one")
        self._node.standby()
        self.listeners.emit(SchedulerInStandby())

    def shutdown(self, *, wait: bool = True, timeout: timedelta | None = None) -> bool:
        """Stop for good. With `wait`, executions may end within `timeout` (None: however long they take).

        What still runs then is told to stop and left for other nodes to recover. Returns whether all ended.

        Raises:
            SchedulerStateError: called with `wait` from a job of this scheduler: it would wait for itself.
        """
        with self._lock:
            if self.is_shut_down:
                return True
            node = self._node
            if wait and node is not None and node.is_worker_thread():
                raise SchedulerStateError("shutdown(wait=True) in a job would wait for itself; use wait=False")
            self._shut_down.set()
            if self._starting is not None:
                self._starting.cancel()
        self.listeners.emit(SchedulerShuttingDown())
        self._each_plugin("shutdown")
        if node is None:
            self._store.close()
            drained = True
        else:
            drained = node.stop(wait=wait, timeout=None if timeout is None else timeout.total_seconds())
        self.listeners.emit(SchedulerShutDown(drained))
        return drained

    def wait_until_shut_down(self, timeout: timedelta | None = None) -> bool:
        """Sleep until somebody calls `shutdown`; whether that came within `timeout`."""
        return self._shut_down.wait(None if timeout is None else timeout.total_seconds())

    def wait_until_recorded(self, executions: int, timeout: timedelta) -> bool:
        """Wait until this node has run so many executions and recorded all; whether that came in time."""
        deadline = self._clock.monotonic() + timeout.total_seconds()
        while self._node is not None and self._clock.monotonic() < deadline:
            if self._node.recorded >= executions:
                return True
            self._shut_down.wait(0.005)
        return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def _check_usable(self) -> None:
        if self.is_shut_down:
            raise SchedulerStateError("the scheduler was shut down; make a new one")
        if os.getpid() != self._pid:
            self._belong_to_this_process()

    def _belong_to_this_process(self) -> None:
        """Go over to a process that was forked from the one that made this scheduler.

        Raises:
            SchedulerStateError: it was started before the fork: its threads are not here.
        """
        if self._node is not None or self._starting is not None:
            raise SchedulerStateError(
                f"the scheduler was started in process {self._pid}, and its threads do not exist in process"
                f" {os.getpid()}, which was forked from it. Start schedulers after the fork, in each process (gunicorn:"
                " post_fork; Celery: worker_process_init; uWSGI: postfork), or make another one here to schedule only"
            )
        # A thread of the other process may have held them during the fork.
        self._lock, self._shut_down = threading.RLock(), threading.Event()
        # The store makes connections of its own when it is opened again.
        self._opened = False
        self._pid = os.getpid()

    def _usable_store(self) -> JobStore:
        self._check_usable()
        if not self._opened:
            with self._lock:
                if not self._opened:
                    self._store.open()
                    self._opened = True
        return self._store

    def _tell(self, event: Event) -> None:
        self.listeners.emit(event)

    def _changed(self, earliest: datetime | None) -> None:
        if self._node is not None and earliest is not None:
            self._node.scheduling_changed(earliest)

    # --- inside a user's transaction

    @overload
    def using(self, connection: AsyncUserConnection) -> AsyncTransactionVerbs: ...

    @overload
    def using(self, connection: UserConnection) -> TransactionVerbs: ...

    def using(self, connection: Any) -> TransactionVerbs | AsyncTransactionVerbs:
        """The scheduling verbs inside a transaction of the caller's; its commit or rollback counts for them, too.

        `connection` is a SQLAlchemy `Connection`, `Session` or `scoped_session`, a psycopg connection, or Django's
        `connection` inside `atomic()`. For a SQLAlchemy `AsyncConnection` or `AsyncSession` (on psycopg or asyncpg) and
        psycopg's `AsyncConnection`, the verbs are awaited.

        Other nodes learn of the change with the commit. A slow caller holds up the triggers that it touches and no
        others, because no row of `locks` is taken.

        Raises:
            InvalidValueError: something else is given, or a connection in autocommit mode, or the store is memory://.
                From an asynchronous connection, the first verb that is awaited raises it.
        """
        if is_asynchronous(connection):
            return self.using_async(connection, self._verb_threads)
        return self._inside(self._usable_store().within(connection))

    def using_async(self, connection: Any, threads: VerbThreads) -> AsyncTransactionVerbs:
        """As `using`, with verbs that are awaited whichever connection it is; they run on `threads`."""
        return AsyncTransactionVerbs(self._usable_store, connection, self._config, self._clock, threads)

    def _inside(self, store: JobStore) -> TransactionVerbs:
        return TransactionVerbs(store, self._config, self._clock)

    # --- this node

    def set_execution_groups(self, limits: Mapping[str, int]) -> None:
        """Limit execution groups on this node anew, as the setting `execution_groups` does; what runs goes on.

        Raises:
            SettingsError: a limit is no number from 0.
            SchedulerStateError: the scheduler was not started.
        """
        self._check_usable()
        if self._node is None:
            raise SchedulerStateError("the scheduler was not started; give execution_groups as a setting")
        self._node.set_groups(checked_groups(limits))

    # --- interrupting

    def currently_executing_jobs(self) -> list[JobExecutionContext]:
        """The executions that run on this node; `running` shows those of all."""
        if self._node is None:
            return []
        return [execution.context for execution in self._node.running() if execution.context is not None]

    def interrupt(self, key: JobKey) -> bool:
        """Ask all executions of a job on this node to stop (`context.cancelled`); whether there was one."""
        return self._interrupt(lambda execution: execution.fired.job_key == key)

    def interrupt_execution(self, fire_id: str) -> bool:
        """Ask one execution on this node to stop; whether it runs here."""
        return self._interrupt(lambda execution: str(execution.fired.fire_id) == fire_id)

    def cancel(self, fire_id: str) -> bool:
        """Ask an execution to stop, on whichever node of the cluster it runs; whether it runs.

        The job sees `context.cancelled`; an `async def` job that does not end is cut off at its next `await`. An
        execution that stops so is CANCELLED in the history and is not retried.

        Raises:
            InvalidValueError: no such id can be.
        """
        asked = self._usable_store().request_cancel(checked_fire_id(fire_id))
        if self._node is not None:
            self._node.interrupt(lambda execution: str(execution.fired.fire_id) == fire_id)
        return asked

    def _interrupt(self, chosen: Any) -> bool:
        self._check_usable()
        if self._node is None:
            raise UnableToInterruptJobError("the scheduler was not started: nothing runs here")
        return self._node.interrupt(chosen) > 0

    def health(self) -> SchedulerHealth:
        """How this scheduler is in this process: its threads, its lease, the database. Asks nothing of the database.

        A node whose state is FAILED needs a new process: `health().raise_if_failed()` says so as an error, and
        `quartzpy node` ends with exit status 70.
        """
        if self._node is None or self.is_shut_down:
            return SchedulerHealth(HealthState.STOPPED, instance_id=self.instance_id)
        return self._node.health()

    @property
    def metadata(self) -> SchedulerMetadata:
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
