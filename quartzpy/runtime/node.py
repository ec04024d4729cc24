"""A node: the threads of one scheduler in one process, put together, started and stopped in order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from quartzpy.clock import Clock
from quartzpy.config import ExecutorConfig, SchedulerConfig, as_bytes
from quartzpy.errors import AuthenticationError, OutcomeUnknownError, QuartzpyError, StoreUnavailableError
from quartzpy.events import NodesRecovered
from quartzpy.job import JobTypes
from quartzpy.job_factory import JobFactory
from quartzpy.keys import JobKey
from quartzpy.listeners import Listeners
from quartzpy.middleware import Middleware
from quartzpy.runtime.capacity import Capacity
from quartzpy.runtime.checkin_thread import CheckInThread
from quartzpy.runtime.cluster_manager import ClusterManager
from quartzpy.runtime.completer import Completer
from quartzpy.runtime.deadlines import Deadlines
from quartzpy.runtime.drain import Allowance, within
from quartzpy.runtime.epoch import Epoch
from quartzpy.runtime.event_loop import EventLoopThread
from quartzpy.runtime.execution import Execution
from quartzpy.runtime.executors import Executors
from quartzpy.runtime.health import SchedulerHealth, health_of
from quartzpy.runtime.job_runner import JobRunner
from quartzpy.runtime.misfire_handler import MisfireHandler
from quartzpy.runtime.notification_listener import NotificationListener
from quartzpy.runtime.outage import Outage, StoreWatch
from quartzpy.runtime.process_workers import ProcessWorkers
from quartzpy.runtime.registration import Registration
from quartzpy.runtime.scheduler_thread import SchedulerThread
from quartzpy.runtime.service import Service
from quartzpy.runtime.store_time import StoreTime
from quartzpy.runtime.supervisor import Supervisor
from quartzpy.runtime.wakeup import Wakeup
from quartzpy.runtime.watchdog import Watchdog
from quartzpy.store.protocol import CheckIn, Completion, FiredTrigger, JobStore, Notification, RecoveryOutcome

logger = logging.getLogger(__name__)

# How long the threads that only look and wait may take to end.
JOIN_SECONDS = 10.0
# How long what still runs at the end of a node may take to be cut off.
CLOSE_SECONDS = 1.0
# How long a step of stopping that asks the database may take.
STEP_SECONDS = 35.0
LATE_SECONDS = 0.1
"""What became ready so late may have misfired: a trigger's own threshold may be short."""


class SchedulerNode:
    """Runs jobs of one scheduler in this process. Starts once; after `stop` it is of no more use."""

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
    ) -> None:
        self._listeners = listeners
        self._store = store
        self._config = config
        self._clock = clock
        self._job_types = job_types
        self._unknown: frozenset[str] = frozenset()
        self._epoch: Epoch | None = None
        self._epoch_lock = threading.Lock()
        self._aborted = Wakeup()
        self._registration = Registration(store, config, clock, self._aborted)
        self.store_time = StoreTime(clock)
        self._name = name = f"quartzpy-{self.instance_id}"
        self._store_watch = watch = StoreWatch(logger, f"node {self.instance_id}", clock, self._store_is_back)
        self._to_be_forgiven: set[JobKey] = set()
        self._loop = EventLoopThread(f"{name}-event-loop")
        self._leaving = False
        self._deadlines = Deadlines(f"{name}-deadlines", clock)
        self._executors = Executors(
            config.workers,
            {executor: ExecutorConfig.of(value) for executor, value in config.executors.items()},
            f"{name}-worker",
            partial(self._new_processes, job_factory),
        )
        self._capacity = Capacity(self._executors, config.labels, config.execution_groups)
        self._runner = JobRunner(
            job_types=job_types,
            job_factory=job_factory,
            middleware=middleware,
            store_time=self.store_time,
            loop=self._loop,
            deadlines=self._deadlines,
            listeners=listeners,
            store=store,
            unblocked=self._unblocked,
            scheduler=scheduler,
            ended=self._ended,
            freed=self._freed,
            name=config.name,
            clock=clock.monotonic,
            max_job_data_bytes=config.max_job_data_bytes,
        )
        common: dict[str, Any] = {"store": store, "clock": clock, "store_time": self.store_time}
        self._completer = Completer(
            f"{name}-completer",
            **common,
            unblocked=self._unblocked,
            takes_more=lambda: not (self._leaving or self._scheduler.in_standby),
            epoch_lost=lambda execution: self._lost(execution.epoch),
            watch=watch,
        )
        common |= {"config": config, "epoch": self._present_epoch, "lease_lost": self._lost, "watch": watch}
        self._scheduler = SchedulerThread(
            f"{name}-scheduler",
            **common,
            capacity=self._capacity,
            hand_over=self._hand_over,
            running=self._runner.fire_ids_of,
            disown=self._disown,
            backlog=lambda: self._completer.pending,
            listeners=listeners,
        )
        self._misfires = MisfireHandler(
            f"{name}-misfire-handler",
            **common,
            dispatch_keys=lambda: self._capacity.dispatch_keys,
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
        )
        self._news = NotificationListener(f"{name}-news", store=store, heard=self._heard, watch=watch)
        self._watchdog = Watchdog(
            f"{name}-watchdog",
            (
                self._deadlines.keep_running,
                self._executors.keep_running,
                self._loop.look,
                self._runner.look,
                listeners.look,
            ),
        )
        self._supervisor = Supervisor(f"{name}-supervisor", clock)
        self._supervisor.watch(*self._services(), *self._executors.pools(), self._loop, self._deadlines)

    @property
    def instance_id(self) -> str:
        """This node's id in the cluster. An automatic one may change when the node lost its place."""
        return self._registration.instance_id

    # --- life

    def start(self, *, standby: bool = False) -> None:
        """Register and start all threads; with `standby` nothing is claimed until `resume`.

        Raises:
            StoreUnavailableError: the database did not answer within `start_timeout`.
            SchemaError, InstanceIdInUseError
        """
        self._patiently(self._store.open)
        self._epoch = epoch = self._patiently(lambda: self._registration.join(self._capacity.capabilities))
        # Before anything that may be slow: importing the modules of jobs is.
        self._checkin.start()
        try:
            self._patiently(self._learn_types)
        except BaseException:
            # Whoever starts it has no node to stop: it must not go on looking alive.
            self._checkin.stop()
            epoch.lose()
            within(CLOSE_SECONDS, partial(self._store.leave, epoch.node))
            raise
        self._scheduler.set_standby(standby)
        self._listeners.open(f"quartzpy-{self.instance_id}-events")
        for service in self._services():
            if service is not self._checkin:
                service.start()
        self._supervisor.start()
        logger.info("node %s started (epoch %d)", self.instance_id, epoch.node.epoch)

    def standby(self) -> None:
        """Claim nothing more; what runs goes on, and so do the check-ins."""
        self._scheduler.set_standby(True)
        self._scheduler.wait_until_resting(self._config.lock_timeout.total_seconds())

    def resume(self) -> None:
        self._scheduler.set_standby(False)

    def stop(self, *, wait: bool, timeout: float | None) -> bool:
        """Stop firing, let executions end, leave the cluster; whether all executions ended and were recorded.

        With `wait`, returns when that is so or `timeout` seconds have passed; what still runs then is told to stop
        and left to the others to recover. Without, it goes on in the background.
        """
        self._leaving = True
        self._aborted.set()
        for service in (self._scheduler, self._misfires, self._news):
            service.stop()
        if wait:
            return self._drain(timeout)
        for service in (self._scheduler, self._misfires, self._news):
            service.join(JOIN_SECONDS)
        if self._executors.taken == 0:
            return self._drain(JOIN_SECONDS)
        threading.Thread(target=self._drain, args=(timeout,), name=f"{self._name}-drain", daemon=True).start()
        return False

    def _drain(self, timeout: float | None) -> bool:
        allowance = Allowance(self._clock, timeout)
        at_most, in_time, left = allowance.at_most, allowance.in_time, allowance.left
        for service in (self._scheduler, self._misfires, self._news):
            service.join(in_time(JOIN_SECONDS))
        within(in_time(STEP_SECONDS), self._scheduler.release_all)
        drained = self._executors.wait_until_idle(left) and self._completer.wait_until_empty(left())
        if not drained:
            abandoned = self._runner.interrupt(lambda execution: True)
            logger.warning("%d executions did not end in time and are left to be recovered", abandoned)
        self._supervisor.stop()
        self._completer.stop()
        self._cluster.stop()
        # Last: a node that still drains must not look dead.
        self._checkin.stop()
        for last in (self._completer, self._cluster, self._checkin):
            last.join(at_most(JOIN_SECONDS))
        # What can be cut off is, before others may run it again.
        within(at_most(2 * CLOSE_SECONDS), partial(self._executors.close, CLOSE_SECONDS))
        self._loop.close(at_most(CLOSE_SECONDS))
        epoch = self._epoch
        if epoch is not None and not epoch.lost:
            epoch.lose()
            within(at_most(STEP_SECONDS), partial(self._store.leave, epoch.node))
        self._watchdog.stop()
        self._watchdog.join(at_most(JOIN_SECONDS))
        self._deadlines.close()
        self._listeners.close()
        within(at_most(STEP_SECONDS), self._news.close)
        within(at_most(STEP_SECONDS), self._store.close)
        logger.info("node %s stopped", self.instance_id)
        return drained

    def _services(self) -> tuple[Service, ...]:
        return (
            self._checkin,
            self._cluster,
            self._completer,
            self._watchdog,
            self._misfires,
            self._news,
            self._scheduler,
        )

    # --- the epoch

    def _patiently(self, step: Callable[[], Any]) -> Any:
        """Do what the start needs, again and again while the database is not there, up to `start_timeout`."""
        outage = Outage(logger, f"node {self.instance_id}")
        deadline = self._clock.monotonic() + self._config.start_timeout.total_seconds()
        while True:
            try:
                return step()
            except (StoreUnavailableError, OutcomeUnknownError) as error:
                wait = outage.failed(error)
                if not _may_pass(error) or self._clock.monotonic() + wait > deadline or self._aborted.wait(wait):
                    raise

    def _present_epoch(self) -> Epoch:
        assert self._epoch is not None
        return self._epoch

    def _lost(self, epoch: Epoch) -> None:
        """The cluster declared this epoch dead: start nothing more of it, tell what runs, and begin another."""
        with self._epoch_lock:
            if epoch.lost:
                return
            epoch.lose()
        self._to_be_forgiven.update(one.fired.job_key for one in self._runner.running() if one.epoch is epoch)
        count = self._runner.interrupt(lambda execution: execution.epoch is epoch)
        logger.warning(
            "node %s: epoch %d was declared dead; %d running executions no longer count",
            self.instance_id,
            epoch.node.epoch,
            count,
        )
        self._cluster.wakeup.set()

    def _rejoin(self) -> None:
        self._epoch = self._registration.rejoin(self._capacity.capabilities)
        logger.warning("node %s rejoined as epoch %d", self.instance_id, self._epoch.node.epoch)
        self._checkin.wakeup.set()
        self._scheduler.wakeup.set()
        # Whoever declared this node dead took these for what it died of.
        forgiven, self._to_be_forgiven = self._to_be_forgiven, set()
        self._store.forgive(forgiven)

    def _store_is_back(self) -> None:
        for service in self._services():
            if service is not self._checkin:
                service.wakeup.set()

    # --- between the threads

    def scheduling_changed(self, earliest: datetime | None = None) -> None:
        """Something may be due sooner than the scheduler thread waits for."""
        self._scheduler.wakeup.set()
        if earliest is not None and self.store_time.seconds_until(earliest) < -LATE_SECONDS:
            # Perhaps too late to be fired, by its own threshold: the misfire handler decides.
            self._misfires.wakeup.set()

    def _heard(self, news: Collection[Notification]) -> None:
        if Notification.SCHEDULED in news:
            self._look_again()
        if Notification.CANCELLED in news:
            self._obey_cancel_requests()

    def _look_again(self) -> None:
        self._scheduler.wakeup.set()
        self._misfires.wakeup.set()

    def _disown(self, fire_ids: Collection[int]) -> None:
        """The store no longer has the rows of these executions: whatever took them, others may run them again."""
        logger.warning("node %s: executions %s are no longer this node's", self.instance_id, sorted(fire_ids))
        for execution in self._runner.running():
            if execution.fired.fire_id in fire_ids:
                execution.disown()

    def _check_in_answered(self, answer: CheckIn, epoch: Epoch, asked_at: float) -> None:
        # Not behind whatever the cluster manager does after a check-in, which may be slow.
        self._scheduler.compare()
        self._cluster.check_in_answered(answer, epoch, asked_at)

    def _checked_in(self) -> None:
        self._learn_types()
        # The net under the news.
        self._obey_cancel_requests()

    def _obey_cancel_requests(self) -> None:
        if self._runner.running():
            asked = self._store.cancel_requests(self._present_epoch().node)
            self._runner.interrupt(lambda execution: execution.fired.fire_id in asked)

    def _unblocked(self, earliest: datetime) -> None:
        self.scheduling_changed(earliest)

    def _recovered(self, outcome: RecoveryOutcome) -> None:
        logger.warning(
            "recovery: nodes %s; %d executions will run again, %d are lost, %d claims were released, %d rows repaired",
            ", ".join(outcome.nodes) or "-",
            outcome.recovered,
            outcome.lost,
            outcome.released,
            outcome.repaired,
        )
        for key in outcome.quarantined:
            logger.error("job %s is set to ERROR: node after node died while executing it (max_node_deaths)", key)
        self._look_again()
        self._listeners.post(NodesRecovered(tuple(outcome.nodes), outcome.recovered, outcome.lost))

    def _hand_over(self, fired: Sequence[FiredTrigger], epoch: Epoch) -> None:
        self._capacity.take([one.placement for one in fired])
        self._executors.submit(
            [
                (executor, partial(self._runner.run, Execution(one, epoch, executor)))
                for one in fired
                for executor in (self._executors.of(one.placement),)
            ]
        )

    def _ended(self, execution: Execution, completion: Completion | None) -> None:
        if completion is None:
            execution.epoch.put_down([execution.fired.fire_id])
        else:
            self._completer.put(execution, completion)

    def _freed(self, execution: Execution) -> None:
        placement = execution.fired.placement
        group_was_full = self._capacity.give_back(placement)
        if self._executors.of(placement).pool.release() or group_was_full:
            self._scheduler.wakeup.set()

    def _new_processes(self, job_factory: JobFactory, name: str, config: ExecutorConfig) -> ProcessWorkers:
        return ProcessWorkers(
            f"quartzpy-{self.instance_id}-process-{name}",
            config.workers,
            memory_limit=None if config.memory_limit is None else as_bytes(config.memory_limit, name),
            job_types=self._job_types,
            job_factory=job_factory,
            max_job_data_bytes=self._config.max_job_data_bytes,
            clock=self._clock,
        )

    def _learn_types(self) -> None:
        """What this node can run: the registered types, and those that it may import because a job names them."""
        waiting = self._store.waiting_dispatch_keys()
        unknown = frozenset(
            name for name in {dispatch_key.job_type for dispatch_key in waiting} if not self._knows(name)
        )
        if unknown - self._unknown:
            logger.warning("jobs of these types are left to other nodes: %s", ", ".join(sorted(unknown)))
        self._unknown = unknown
        if self._capacity.know(
            self._job_types.names(), {dispatch_key for dispatch_key in waiting if dispatch_key.placement}
        ):
            self._store.publish(self._present_epoch().node, self._capacity.capabilities)
            self._scheduler.wakeup.set()

    def _knows(self, job_type: str) -> bool:
        try:
            return self._job_types.load(job_type, self._config.job_modules)
        except Exception:
            # What a module does when it is imported is the user's; this node can do without it.
            if job_type not in self._unknown:
                logger.exception("the module of job type %s cannot be imported", job_type)
            return False

    # --- for the facade

    def set_groups(self, groups: Mapping[str, int]) -> None:
        """Limit execution groups on this node anew."""
        self._capacity.set_groups(groups)
        self._store.publish(self._present_epoch().node, self._capacity.capabilities)
        self._scheduler.wakeup.set()

    @property
    def in_standby(self) -> bool:
        return self._scheduler.in_standby

    @property
    def recorded(self) -> int:
        """How many executions of this node have ended and are recorded."""
        return self._completer.recorded

    def running(self) -> list[Execution]:
        return self._runner.running()

    def interrupt(self, chosen: Callable[[Execution], bool]) -> int:
        return self._runner.interrupt(chosen)

    def is_worker_thread(self) -> bool:
        """Whether the caller is a job of this node."""
        name = threading.current_thread().name
        return name.startswith((f"{self._name}-worker", f"{self._name}-event-loop"))

    def health(self) -> SchedulerHealth:
        """How this node is now."""
        self._supervisor.ensure_alive()
        return health_of(
            instance_id=self.instance_id,
            epoch=self._present_epoch(),
            now=self._clock.monotonic(),
            answered_at=self._checkin.answered_at,
            outage=self._store_watch.outage,
            refusal=self._cluster.refusal,
            failure=self._supervisor.failure,
            connections=self._store.connections(),
            threads=self._supervisor.threads(),
        )


def _may_pass(error: QuartzpyError) -> bool:
    """Whether waiting can help: a wrong password stays wrong."""
    return not isinstance(error, AuthenticationError)
