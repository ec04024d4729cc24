"""The threads of a node and the communication between them. The module `node` starts and stops them."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from quartzpy.clock import Clock
from quartzpy.config.config import ExecutorConfig, Role, SchedulerConfig, as_bytes
from quartzpy.events.events import JobPaused, NodesRecovered, SchedulerError, SchedulerInStandby, SchedulerStarted
from quartzpy.events.listeners import Listeners
from quartzpy.execution.attempt import Attempt
from quartzpy.execution.capacity import Capacity
from quartzpy.execution.deadlines import Deadlines
from quartzpy.execution.epoch import Epoch
from quartzpy.execution.event_loop import EventLoopThread
from quartzpy.execution.execution import Execution
from quartzpy.execution.executors import Executors
from quartzpy.execution.job_runner import JobRunner
from quartzpy.jobs.job import JobTypes
from quartzpy.jobs.job_factory import JobFactory
from quartzpy.jobs.middleware import Middleware
from quartzpy.jobs.trace_context import Tracing
from quartzpy.keys import JobKey
from quartzpy.runtime.announcer import Announcer
from quartzpy.runtime.checkin_thread import CheckInThread
from quartzpy.runtime.cluster_manager import ClusterManager
from quartzpy.runtime.completer import Completer
from quartzpy.runtime.drain import Allowance
from quartzpy.runtime.health import SchedulerHealth, health_of
from quartzpy.runtime.known_types import KnownTypes
from quartzpy.runtime.misfire_handler import MisfireHandler
from quartzpy.runtime.modes import NodeModes
from quartzpy.runtime.notification_listener import NotificationListener
from quartzpy.runtime.observers import Observers
from quartzpy.runtime.outage import StoreWatch
from quartzpy.runtime.progress_writer import ProgressWriter
from quartzpy.runtime.registration import Registration
from quartzpy.runtime.scheduler_thread import SchedulerThread
from quartzpy.runtime.service import Service
from quartzpy.runtime.supervisor import Supervisor
from quartzpy.runtime.wakeup import Wakeup
from quartzpy.runtime.watchdog import Watchdog
from quartzpy.states import NodeMode
from quartzpy.store.protocol import CheckIn, Completion, FiredTrigger, JobStore, Notification, RecoveryOutcome
from quartzpy.store.store_time import StoreTime

if TYPE_CHECKING:
    from quartzpy.execution.process_workers import ProcessWorkers

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
        self._name = name = f"quartzpy-{self.instance_id}"
        self._store_watch = watch = StoreWatch(logger, f"node {self.instance_id}", clock, self._store_is_back)
        self._suspected_jobs: set[JobKey] = set()
        self._loop = EventLoopThread(f"{name}-event-loop", debug=config.debug)
        self._leaving = False
        self._is_oldest = False
        self._announcer = Announcer(store, clock)
        self._modes = NodeModes(store, self._apply_mode)
        self._allowance: Allowance | None = None
        self._stop_lock = threading.Lock()
        self._interrupts = False
        self._drained = False
        self._ended_event = threading.Event()
        runs_jobs = config.role is not Role.SCHEDULER
        self._deadlines = Deadlines(f"{name}-deadlines", clock)
        self._executors = Executors(
            config.workers if runs_jobs else 0,
            {executor: ExecutorConfig.of(value) for executor, value in config.executors.items()} if runs_jobs else {},
            f"{name}-worker",
            partial(self._new_processes, job_factory, tracing),
            most_ahead=config.batch_size,
            clock=clock.monotonic,
        )
        self._capacity = Capacity(self._executors, config.labels, config.execution_groups, Role(config.role))
        self._known = KnownTypes(
            store=store,
            job_types=job_types,
            job_modules=config.job_modules,
            capacity=self._capacity,
            node=lambda: self._present_epoch().node,
            changed=lambda: self._scheduler.look_again(),
        )
        self._progress = ProgressWriter(f"{name}-progress", store=store, clock=clock, watch=watch)
        self._runner = JobRunner(
            job_types=job_types,
            job_factory=job_factory,
            middleware=middleware,
            store_time=self.store_time,
            loop=self._loop,
            deadlines=self._deadlines,
            listeners=listeners,
            store=store,
            unblocked=self.scheduling_changed,
            scheduler=scheduler,
            ended=self._ended,
            freed=self._freed,
            report_progress=self._progress.report,
            clock=clock.monotonic,
            max_job_data_bytes=config.max_job_data_bytes,
            max_captured_log_bytes=config.max_captured_log_bytes,
        )
        common: dict[str, Any] = {"store": store, "clock": clock, "store_time": self.store_time}
        self._completer = Completer(
            f"{name}-completer",
            **common,
            unblocked=self.scheduling_changed,
            takes_more=lambda: not (self._leaving or self._scheduler.in_standby),
            watch=watch,
            recorded_some=self._announcer.announce,
            paused=self._paused,
            observers=observers,
        )
        common |= {"config": config, "epoch": self._present_epoch, "lease_lost": self._on_epoch_lost, "watch": watch}
        self._scheduler = SchedulerThread(
            f"{name}-scheduler",
            **common,
            capacity=self._capacity,
            executors=self._executors,
            submit=self._submit,
            hand_back=self._hand_back,
            running=self._runner.fire_ids_of,
            disown=self._disown,
            backlog=lambda: self._completer.pending,
            listeners=listeners,
        )
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
            failed=lambda: self._cluster.check_in_failed(),
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
            f"{name}-notifications", store=store, on_notification=self._on_notification, watch=watch
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
        self._store_watch.report_error = self._report_error
        for service in self._services():
            service.report_error = self._report_error
        self._supervisor = Supervisor(f"{name}-supervisor", clock)
        self._supervisor.watch(*self._services(), *self._executors.pools(), self._loop, self._deadlines)

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
        self._suspected_jobs.update(one.fired.job_key for one in self._runner.running() if one.epoch is epoch)
        count = self._runner.interrupt(lambda execution: execution.epoch is epoch)
        logger.warning(
            "node %s: the cluster declared epoch %d dead; %d running executions lost their lease",
            self.instance_id,
            epoch.node.epoch,
            count,
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

    def _disown(self, fire_ids: Collection[int]) -> None:
        """Stop executions whose rows the store no longer has, because other nodes may run them again."""
        logger.warning("node %s: executions %s no longer belong to this node", self.instance_id, sorted(fire_ids))
        for execution in self._runner.running():
            if execution.fired.fire_id in fire_ids:
                execution.disown()

    def _check_in_answered(self, answer: CheckIn, epoch: Epoch, asked_at: float) -> None:
        # Done here, and not after the work of the cluster manager, which may be slow.
        alive = [peer.epoch for peer in answer.nodes if answer.now - peer.last_checkin <= peer.failure_window]
        self._is_oldest = min(alive, default=None) == epoch.node.epoch
        self._scheduler.compare()
        self._capacity.note_peers(peer.capabilities for peer in answer.nodes if peer.epoch != epoch.node.epoch)
        for record in answer.nodes:
            if record.epoch == epoch.node.epoch and epoch is self._epoch and (mode := self._modes.observe(record)):
                self._listeners.post(SchedulerStarted() if mode is NodeMode.RUNNING else SchedulerInStandby())
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

    def _report_error(self, message: str, error: BaseException) -> None:
        self._listeners.post(SchedulerError(message, error))

    def _type_registered(self, name: str) -> None:
        """Let the cluster manager publish a newly registered job type and look for its jobs."""
        self._cluster.wake()

    def _apply_cancel_requests(self) -> None:
        if self._runner.running():
            asked = self._store.cancel_requests(self._present_epoch().node)
            for attempt in self._executors.remove(asked):
                attempt.cancel_before_start()
            self._runner.interrupt(lambda execution: execution.fired.fire_id in asked)

    def _paused(self, key: JobKey) -> None:
        logger.warning("job %s is paused: too many executions in a row have failed (pause_after_failures)", key)
        self._listeners.post(JobPaused(key))

    def _recovered(self, outcome: RecoveryOutcome) -> None:
        logger.warning(
            "recovered nodes %s: %d executions will run again, %d will not, %d claims released, %d rows repaired",
            ", ".join(outcome.nodes) or "-",
            outcome.recovered,
            outcome.lost,
            outcome.released,
            outcome.repaired,
        )
        for key in outcome.quarantined:
            logger.error("job %s is set to ERROR: it was running on too many nodes that died (max_node_deaths)", key)
        self._wake_schedulers()
        self._listeners.post(NodesRecovered(tuple(outcome.nodes), outcome.recovered, outcome.lost))

    def _submit(self, fired: Sequence[FiredTrigger], epoch: Epoch) -> None:
        self._capacity.occupy([one.placement for one in fired])
        runner, executor_of, name = self._runner, self._executors.of, self._config.name
        self._executors.submit([Attempt(runner, one, epoch, executor_of(one.placement), name) for one in fired])

    def _ended(self, execution: Execution, completion: Completion | None) -> None:
        if completion is None:
            execution.epoch.discard_unrecorded([execution.fired.fire_id])
        else:
            self._completer.put(execution, completion)

    def _freed(self, execution: Execution) -> None:
        began_at, placement = execution.began_at, execution.fired.placement
        if self._capacity.release(placement):
            self._scheduler.look_again()
        executor = execution.executor or self._executors.of(placement)
        if executor.pool.release(None if began_at is None else self._clock.monotonic() - began_at):
            self._scheduler.wakeup.set()

    def _hand_back(self, patience: float) -> None:
        """End the executions that wait for a slot and do not get one soon, so that other nodes can run them."""
        attempts = self._executors.take_back(patience)
        if not attempts:
            return
        asked: set[int] = set()
        # The executions are no longer in the pool, so they have to be ended whatever this question meets.
        with suppress(Exception):
            asked = self._store.cancel_requests(attempts[0].epoch.node)
        for attempt in attempts:
            # The request is a part of the row that the completion deletes: the run that follows would not know of it.
            if attempt.fired.fire_id in asked:
                attempt.cancel_before_start()
            else:
                attempt.hand_back()

    def _new_processes(
        self, job_factory: JobFactory, tracing: Tracing | None, name: str, config: ExecutorConfig
    ) -> ProcessWorkers:
        # Most nodes have no process pool, and do not need multiprocessing.
        from quartzpy.execution.process_workers import ProcessWorkers

        return ProcessWorkers(
            f"quartzpy-{self.instance_id}-process-{name}",
            config.workers,
            memory_limit=None if config.memory_limit is None else as_bytes(config.memory_limit, name),
            job_types=self._job_types,
            job_factory=job_factory,
            max_job_data_bytes=self._config.max_job_data_bytes,
            tracing=tracing,
            clock=self._clock,
        )

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
            failure=self._supervisor.failure,
            clock_skew=self.store_time.skew,
            connections=self._store.connections(),
            threads=self._supervisor.threads(),
            executors=self._executors.load(),
            unrecorded=self._completer.pending,
            is_oldest=self._is_oldest,
        )
