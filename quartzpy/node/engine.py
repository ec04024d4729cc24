"""The threads of a node and the communication between them. The module `node` starts and stops them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from quartzpy.clock import Clock
from quartzpy.config.config import Role, SchedulerConfig
from quartzpy.config.executors import ExecutorConfig
from quartzpy.events.listeners import Listeners
from quartzpy.jobs.job import JobTypes
from quartzpy.jobs.job_factory import JobFactory
from quartzpy.jobs.middleware import Middleware
from quartzpy.jobs.trace_context import Tracing
from quartzpy.keys import JobKey
from quartzpy.node.announcer import Announcer
from quartzpy.node.checkin_thread import CheckInThread
from quartzpy.node.cluster_manager import ClusterManager
from quartzpy.node.completer import Completer
from quartzpy.node.dispatcher import Dispatcher
from quartzpy.node.drain import Allowance
from quartzpy.node.health import SchedulerHealth, health_of
from quartzpy.node.known_types import KnownTypes
from quartzpy.node.misfire_handler import MisfireHandler
from quartzpy.node.modes import NodeModes
from quartzpy.node.node_events import NodeEvents
from quartzpy.node.notification_listener import NotificationListener
from quartzpy.node.observers import Observers
from quartzpy.node.outage import StoreWatch
from quartzpy.node.progress_writer import ProgressWriter
from quartzpy.node.registration import Registration
from quartzpy.node.scheduler_thread import SchedulerThread
from quartzpy.node.service import Service
from quartzpy.node.supervisor import Supervisor
from quartzpy.node.wakeup import Wakeup
from quartzpy.node.watchdog import Watchdog
from quartzpy.node.workers.capacity import Capacity
from quartzpy.node.workers.deadlines import Deadlines
from quartzpy.node.workers.epoch import Epoch
from quartzpy.node.workers.event_loop import EventLoopThread
from quartzpy.node.workers.execution import Execution
from quartzpy.node.workers.executors import Executors, new_process_workers
from quartzpy.node.workers.job_runner import JobRunner
from quartzpy.states import NodeMode
from quartzpy.store.protocol import CheckIn, JobStore, Notification, RecoveryOutcome
from quartzpy.store.store_time import StoreTime

logger = logging.getLogger(__name__)

LATE_SECONDS = 0.1
"""The lateness of a new fire time, in seconds, from which the misfire handler is woken to apply the threshold."""


class Engine:
    """Creates and connects the threads of one node."""

    def __init__(
        self,
        store: JobStore,
        config: SchedulerConfig,
        *,
        clock: Clock,
        job_types: JobTypes,
        scheduler: Any,
        listeners: Listeners,
        job_factory: JobFactory,
        middleware: Sequence[Middleware],
        tracing: Tracing | None = None,
        version: str = "",
        observers: Observers | None = None,
    ) -> None:
        observers = observers or Observers()
        store = observers.watched(store)
        self._listeners = listeners
        self._events = NodeEvents(listeners)
        self._store = store
        self._config = config
        self._clock = clock
        self._job_types = job_types
        self._version = version
        self._pid = os.getpid()
        self._epoch: Epoch | None = None
        self._epoch_lock = threading.Lock()
        self._aborted = Wakeup()
        self._registration = Registration(store, config, clock, self._aborted)
        self.store_time = StoreTime(clock)
        self._name = f"quartzpy-{self.instance_id}"
        self._store_watch = StoreWatch(logger, f"node {self.instance_id}", clock, self._store_is_back)
        self._suspected_jobs: set[JobKey] = set()
        self._leaving = False
        self._is_oldest = False
        self._announcer = Announcer(store, clock)
        self._modes = NodeModes(store, self._apply_mode)
        self._allowance: Allowance | None = None
        self._stop_lock = threading.Lock()
        self._interrupts = False
        self._drained = False
        self._ended_event = threading.Event()
        self._create_workers(job_factory, middleware, tracing, scheduler)
        self._create_services(observers)
        self._store_watch.report_error = self._events.error
        for service in self._services():
            service.report_error = self._events.error
        self._supervisor = Supervisor(f"{self._name}-supervisor", clock)
        self._supervisor.watch(*self._services(), *self._executors.pools(), self._loop, self._deadlines)

    def _create_workers(
        self, job_factory: JobFactory, middleware: Sequence[Middleware], tracing: Tracing | None, scheduler: Any
    ) -> None:
        """Create what runs the jobs."""
        name, config, clock, store, job_types = self._name, self._config, self._clock, self._store, self._job_types
        runs_jobs = config.role is not Role.SCHEDULER
        self._loop = EventLoopThread(f"{name}-event-loop", debug=config.debug)
        self._deadlines = Deadlines(f"{name}-deadlines", clock)
        self._executors = Executors(
            config.workers if runs_jobs else 0,
            {executor: ExecutorConfig.of(value) for executor, value in config.executors.items()} if runs_jobs else {},
            f"{name}-worker",
            partial(
                new_process_workers,
                name=f"{name}-process",
                job_types=job_types,
                job_factory=job_factory,
                max_job_data_bytes=config.max_job_data_bytes,
                tracing=tracing,
                clock=clock,
            ),
            most_ahead=config.batch_size,
            clock=clock.monotonic,
        )
        self._capacity = Capacity(self._executors, config.labels, config.execution_groups, Role(config.role))
        self._dispatcher = Dispatcher(
            scheduler_name=config.name, store=store, clock=clock, executors=self._executors, capacity=self._capacity
        )
        self._known = KnownTypes(
            store=store,
            job_types=job_types,
            job_modules=config.job_modules,
            capacity=self._capacity,
            node=lambda: self._present_epoch().node,
            changed=lambda: self._scheduler.look_again(),
        )
        self._progress = ProgressWriter(f"{name}-progress", store=store, clock=clock, watch=self._store_watch)
        self._runner = JobRunner(
            job_types=job_types,
            job_factory=job_factory,
            middleware=middleware,
            store_time=self.store_time,
            loop=self._loop,
            deadlines=self._deadlines,
            listeners=self._listeners,
            store=store,
            unblocked=self.scheduling_changed,
            scheduler=scheduler,
            ended=self._dispatcher.ended,
            freed=self._dispatcher.freed,
            report_progress=self._progress.report,
            follow_log=self._progress.follow_log,
            clock=clock.monotonic,
            max_job_data_bytes=config.max_job_data_bytes,
            max_captured_log_bytes=config.max_captured_log_bytes,
        )

    def _create_services(self, observers: Observers) -> None:
        """Create the threads that keep the node and the cluster going, and connect them with the workers."""
        name, listeners, watch = self._name, self._listeners, self._store_watch
        common: dict[str, Any] = {"store": self._store, "clock": self._clock, "store_time": self.store_time}
        self._completer = Completer(
            f"{name}-completer",
            **common,
            unblocked=self.scheduling_changed,
            takes_more=lambda: not (self._leaving or self._scheduler.in_standby),
            watch=watch,
            recorded_some=self._announcer.announce,
            paused=self._events.job_paused,
            observers=observers,
        )
        common |= {"config": self._config, "watch": watch}
        common |= {"epoch": self._present_epoch, "lease_lost": self._on_epoch_lost}
        self._scheduler = SchedulerThread(
            f"{name}-scheduler",
            **common,
            capacity=self._capacity,
            executors=self._executors,
            submit=self._dispatcher.submit,
            hand_back=self._dispatcher.hand_back,
            running=self._runner.fire_ids_of,
            disown=self._dispatcher.disown,
            backlog=lambda: self._completer.pending,
            listeners=listeners,
        )
        self._dispatcher.connect(self._runner, self._scheduler, self._completer)
        self._misfires = MisfireHandler(
            f"{name}-misfire-handler",
            **common,
            dispatch_keys=lambda: self._capacity.misfire_keys,
            scheduling_changed=self.scheduling_changed,
            listeners=listeners,
        )
        self._checkin = CheckInThread(
            f"{name}-check-in",
            **common,
            answered=self._check_in_answered,
            failed=lambda error: self._cluster.check_in_failed(error),
        )
        del common["store_time"]
        self._cluster = ClusterManager(
            f"{name}-cluster-manager",
            **common,
            checked_in=self._checked_in,
            recovered=self._recovered,
            rejoin=self._rejoin,
            performs_maintenance=lambda: self._capacity.performs_maintenance,
        )
        self._notifications = NotificationListener(
            f"{name}-notifications", store=self._store, on_notification=self._on_notification, watch=watch
        )
        self._watchdog = Watchdog(
            f"{name}-watchdog",
            (
                self._deadlines.keep_running,
                self._executors.keep_running,
                self._loop.check,
                self._runner.check,
                listeners.check,
            ),
            is_busy=lambda: self._executors.occupied > 0 or listeners.is_busy,
        )

    @property
    def instance_id(self) -> str:
        """The id of this node in the cluster. A generated id may change when the node rejoins with a new epoch."""
        return self._registration.instance_id

    def _services(self) -> tuple[Service, ...]:
        return (
            self._checkin,
            self._cluster,
            self._completer,
            self._watchdog,
            self._misfires,
            self._notifications,
            self._progress,
            self._scheduler,
        )

    # --- the epoch

    def _present_epoch(self) -> Epoch:
        assert self._epoch is not None
        return self._epoch

    def _on_epoch_lost(self, epoch: Epoch) -> None:
        """Handle an epoch that the cluster declared dead: stop its executions, and rejoin with a new epoch."""
        with self._epoch_lock:
            if epoch.lost:
                return
            epoch.lose()
        job_keys = self._dispatcher.stop_executions_of(epoch)
        self._suspected_jobs.update(job_keys)
        logger.warning(
            "node %s: the cluster declared epoch %d dead; %d running executions lost their lease",
            self.instance_id,
            epoch.node.epoch,
            len(job_keys),
        )
        self._cluster.wakeup.set()

    def _rejoin(self) -> None:
        self._epoch = self._registration.rejoin(self._capacity.capabilities)
        logger.warning("node %s rejoined as epoch %d", self.instance_id, self._epoch.node.epoch)
        self._modes.start_epoch()
        self._checkin.wakeup.set()
        self._scheduler.look_again()
        # The recovering node counted these jobs as suspects for the death of this one, which is alive.
        suspected, self._suspected_jobs = self._suspected_jobs, set()
        self._store.forgive(suspected)

    def _store_is_back(self) -> None:
        for service in self._services():
            if service is not self._checkin:
                service.wakeup.set()

    # --- between the threads

    def scheduling_changed(
        self, earliest: datetime | None = None, notification: Notification = Notification.SCHEDULED
    ) -> None:
        """Wake the scheduler thread, as a trigger may be due earlier than it expects; also the misfire handler, if the
        trigger may have to be handled by it."""
        self._scheduler.look_again()
        is_late = earliest is not None and self.store_time.seconds_until(earliest) < -LATE_SECONDS
        if is_late or notification is Notification.RESUMED:
            # It may be later than the trigger's misfire threshold, or it was resumed; the misfire handler decides.
            self._misfires.wakeup.set()

    def _on_notification(self, received: Collection[Notification]) -> None:
        if Notification.SCHEDULED in received or Notification.RESUMED in received:
            self._wake_schedulers()
        if Notification.CANCELLED in received:
            self._apply_cancel_requests()
        if Notification.WATCHED in received:
            self._announcer.watched()
        if Notification.COMMANDED in received:
            # The command is in the node's record, which the answer to a check-in contains.
            self._checkin.wakeup.set()

    def _wake_schedulers(self) -> None:
        # The misfire handler comes after the scheduler thread: at once it would delay the start of a due job, because
        # both threads need the interpreter, and both of their statements the processors of the database.
        self._scheduler.look_again(then=self._misfires.wakeup.set)

    def _check_in_answered(self, answer: CheckIn, epoch: Epoch, asked_at: float) -> None:
        # Done here, and not after the work of the cluster manager, which may be slow.
        alive = [peer.epoch for peer in answer.nodes if answer.now - peer.last_checkin <= peer.failure_window]
        self._is_oldest = min(alive, default=None) == epoch.node.epoch
        self._scheduler.compare()
        self._capacity.note_peers(peer.capabilities for peer in answer.nodes if peer.epoch != epoch.node.epoch)
        for record in answer.nodes:
            if record.epoch == epoch.node.epoch and epoch is self._epoch and (mode := self._modes.observe(record)):
                self._events.mode_changed(mode)
        self._cluster.check_in_answered(answer, epoch, asked_at)

    def _apply_mode(self, mode: NodeMode) -> None:
        self._scheduler.set_standby(mode is not NodeMode.RUNNING)
        if not self._leaving:
            # While a node drains, an immediate refire that a job asks for happens on another node.
            self._runner.is_closing = mode is NodeMode.DRAINING

    def _set_mode(self, mode: NodeMode) -> None:
        """Apply a mode that the program sets, and let the cluster manager write it to the node's record."""
        self._modes.set_here(mode)
        self._cluster.wake()

    def _checked_in(self) -> None:
        self._modes.publish(self.instance_id)
        self.store_time.report_skew(self.instance_id)
        self._known.learn()
        # A fallback for notifications that were lost.
        self._apply_cancel_requests()

    def _type_registered(self, name: str) -> None:
        """Let the cluster manager publish a newly registered job type and look for its jobs."""
        self._cluster.wake()

    def _apply_cancel_requests(self) -> None:
        self._dispatcher.cancel_as_asked(self._present_epoch().node)

    def _recovered(self, outcome: RecoveryOutcome) -> None:
        self._wake_schedulers()
        self._events.recovered(outcome)

    # --- for the facade

    def set_groups(self, groups: Mapping[str, int]) -> None:
        """Set the limits of execution groups on this node."""
        self._capacity.set_groups(groups)
        self._known.publish()

    @property
    def in_standby(self) -> bool:
        return self._scheduler.in_standby

    @property
    def recorded(self) -> int:
        """The number of executions that this node has recorded."""
        return self._completer.recorded

    def running(self) -> list[Execution]:
        return self._runner.running()

    def interrupt(self, chosen: Callable[[Execution], bool]) -> int:
        return self._runner.interrupt(chosen)

    def is_worker_thread(self) -> bool:
        """Return whether the current thread runs jobs of this node."""
        name = threading.current_thread().name
        return name.startswith((f"{self._name}-worker", f"{self._name}-event-loop"))

    def health(self) -> SchedulerHealth:
        """Return the present health of this node."""
        self._supervisor.ensure_alive()
        return health_of(
            instance_id=self.instance_id,
            epoch=self._present_epoch(),
            now=self._clock.monotonic(),
            answered_at=self._checkin.answered_at,
            outage=self._store_watch.outage,
            refusal=self._cluster.refusal,
            schema=self._cluster.schema.problem,
            failure=self._supervisor.failure,
            clock_skew=self.store_time.skew,
            connections=self._store.connections(),
            threads=self._supervisor.threads(),
            executors=self._executors.load(),
            unrecorded=self._completer.pending,
            is_oldest=self._is_oldest,
        )
