"""The life of a scheduler in its process: it is made, opened, started, put in standby and shut down."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from quartzpy.aio.calls import VerbThreads
from quartzpy.clock import Clock
from quartzpy.config import SchedulerConfig
from quartzpy.errors import NodeUnhealthyError, PluginStartError, SchedulerStateError, SettingsError
from quartzpy.events import (
    Event,
    SchedulerInStandby,
    SchedulerShutDown,
    SchedulerShuttingDown,
    SchedulerStarted,
    SchedulerStarting,
)
from quartzpy.execution_log import ExecutionLogger
from quartzpy.instants import as_span
from quartzpy.job import JobTypes, checked_defaults
from quartzpy.job_factory import JobFactory, new_instance
from quartzpy.listeners import Listeners
from quartzpy.logs import ensure_logging
from quartzpy.middleware import Middleware
from quartzpy.other_names import BLOCKING_ARGUMENTS, refuses
from quartzpy.plugin import Plugin, call_plugin
from quartzpy.runtime.child_process import is_process_worker
from quartzpy.runtime.health import HealthState, SchedulerHealth
from quartzpy.runtime.node import SchedulerNode
from quartzpy.runtime.run import RunEnd, run_until_stopped
from quartzpy.store.protocol import (
    JobStore,
)
from quartzpy.verbs.scheduling import SchedulingVerbs

if TYPE_CHECKING:
    from quartzpy.scheduler import BaseScheduler

logger = logging.getLogger(__name__)


class SchedulerLife(SchedulingVerbs):
    """The part of a scheduler that starts and stops its node."""

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
        job_defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.context: dict[str, Any] = dict(context or {})
        """Objects of this process that jobs reach as `context.scheduler.context` (Quartz's `SchedulerContext`)."""
        self._job_factory = job_factory
        self._middleware = tuple(middleware)
        self._plugins = tuple(plugins)
        self._store = store
        self._config = config
        self._clock = clock
        self._job_types = job_types
        self._job_defaults = checked_defaults(job_defaults)
        self._version = version
        self.listeners = Listeners()
        """The listeners of this scheduler; add yours here."""
        store.on_event(self._tell)
        self._lock = threading.RLock()
        self._opened = False
        self._node: SchedulerNode | None = None
        self._running_since: datetime | None = None
        self._shut_down = threading.Event()
        self._starting: threading.Timer | None = None
        self._pid = os.getpid()
        self._verb_threads = VerbThreads(config.pool_size + 3)
        if config.log_executions is not None:
            level = logging.getLevelNamesMapping()[config.log_executions]
            ExecutionLogger(config.name, level=level).listen(self.listeners)
        for plugin in self._plugins:
            plugin.initialize(cast("BaseScheduler", self))

    # --- life

    @property
    def config(self) -> SchedulerConfig:
        """The settings of this scheduler."""
        return self._config

    @property
    def instance_id(self) -> str | None:
        """This node's id in the cluster; None before `start`."""
        return self._node.instance_id if self._node else None

    @property
    def is_started(self) -> bool:
        """True if `start` was called and the scheduler was not shut down since."""
        return self._node is not None and not self.is_shut_down

    @property
    def is_in_standby(self) -> bool:
        """True if this node claims nothing: in standby, or not started."""
        return self._node is None or self._node.in_standby

    @property
    def is_shut_down(self) -> bool:
        """True once `shutdown` was called."""
        return self._shut_down.is_set()

    @refuses(BLOCKING_ARGUMENTS)
    def start(self, *, standby: bool = False) -> None:
        """Begin to run jobs on this node, or go on after `standby`.

        With `standby`, one that was not started joins the cluster and claims nothing until it is started again.

        Raises:
            SchedulerStateError: it was shut down, is used in another process than it was made in, or this is a process
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
            try:
                self._each_plugin("start")
            except PluginStartError:
                self.shutdown(wait=False)
                raise
        self.listeners.emit(SchedulerStarted())

    def _rest(self, seconds: float) -> None:
        if self._shut_down.wait(seconds):
            raise SchedulerStateError("the scheduler was shut down meanwhile")

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
            version=self._version,
        )
        node.start(standby=standby)
        return node

    def start_delayed(self, delay: timedelta | float | str) -> None:
        """Start after `delay` (seconds, or a span such as "5s"), unless it is shut down before. Returns at once.

        Raises:
            SettingsError: `delay` is no span of time, or is below zero.
        """
        seconds = _seconds(delay, "delay")
        with self._lock:
            self._check_usable()
            self._starting = threading.Timer(seconds, self._start_if_still_wanted)
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

    def run(
        self,
        *,
        drain_timeout: timedelta | float | str | None = "30s",
        interrupt: bool = False,
        log_level: str = "INFO",
    ) -> bool:
        """Start this node and block until the process is asked to stop, as a program's last line.

        SIGTERM, SIGINT (Ctrl-C) or a call of `shutdown` ends it: then nothing more is fired, and executions may end
        within `drain_timeout` (None: however long they take); with `interrupt` they are asked to stop at once. A second
        signal ends the process at once, and other nodes recover what ran. Where the program has configured no logging,
        messages from `log_level` on go to the standard error. On a thread other than the main one no signal handlers
        are installed. Returns whether all executions ended and were recorded.

        Raises:
            NodeUnhealthyError: a thread of the node could not be kept alive, so that only a new process helps.
            SettingsError: `drain_timeout` is no span of time, or `log_level` is no level.
            SchedulerStateError, StoreUnavailableError, SchemaError, InstanceIdInUseError: as `start`.
        """
        timeout = None if drain_timeout is None else _seconds(drain_timeout, "drain_timeout")
        ensure_logging(log_level)
        end = run_until_stopped(self, timeout, interrupt=interrupt)
        if end is RunEnd.FAILED:
            raise NodeUnhealthyError("a thread of this node could not be kept alive; start a new process")
        return end is RunEnd.DRAINED

    def shutdown(
        self, *, wait: bool = True, timeout: timedelta | float | str | None = None, interrupt: bool = False
    ) -> bool:
        """Stop for good. Return whether all executions of this node ended and were recorded.

        With `wait` it returns when they have ended, or when `timeout` (seconds, or a span such as "30s"; None: however
        long they take) has passed. What still runs then is asked to stop and left to other nodes to recover. With
        `interrupt` executions are asked to stop at once (`context.cancelled`, as by `cancel`). A job that asks to be
        fired again at once is fired by another node. Without `wait` all that goes on in the background. Another call
        may wait after all, interrupt, or shorten the time.

        Raises:
            SchedulerStateError: a job of this scheduler called it with `wait`, and would wait for itself.
            SettingsError: `timeout` is no span of time, or is below zero. Nothing has changed then.
        """
        seconds = None if timeout is None else _seconds(timeout, "timeout")
        with self._lock:
            node = self._node
            if wait and node is not None and node.is_worker_thread():
                raise SchedulerStateError("shutdown(wait=True) in a job would wait for itself; use wait=False")
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
                ended=lambda drained: self.listeners.emit(SchedulerShutDown(drained)),
            )
        if is_first:
            self._store.close()
            self.listeners.emit(SchedulerShutDown(drained=True))
        return True

    def wait_until_shut_down(self, timeout: timedelta | float | str | None = None) -> bool:
        """Sleep until somebody calls `shutdown`, at most for `timeout`. Return whether somebody has."""
        return self._shut_down.wait(None if timeout is None else _seconds(timeout, "timeout"))

    def wait_until_recorded(self, executions: int, timeout: timedelta | float | str) -> bool:
        """Wait until this node has run and recorded so many executions. Return whether it has in time."""
        deadline = self._clock.monotonic() + _seconds(timeout, "timeout")
        while self._node is not None and self._clock.monotonic() < deadline:
            if self._node.recorded >= executions:
                return True
            self._shut_down.wait(0.005)
        return False

    def health(self) -> SchedulerHealth:
        """Return the health of this scheduler in this process: its threads, its lease, the database. Asks no database.

        A node whose state is FAILED needs a new process: `health().raise_if_failed()` says so as an error, and
        `quartzpy node` ends with exit status 70.
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


def _seconds(span: timedelta | float | str, subject: str) -> float:
    """Return the seconds of a span of time. Raises SettingsError where it is none, or below zero."""
    seconds = as_span(span, subject, SettingsError, longest=timedelta.max).total_seconds()
    if seconds < 0:
        raise SettingsError(f"{subject}: must be zero or more (got {span!r})")
    return seconds
