"""A node: starting and stopping its threads in order, and leaving the cluster at process exit."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import AuthenticationError, OutcomeUnknownError, QuartzpyError, StoreUnavailableError
from quartzpy.jobs.job import load_allowed
from quartzpy.node.banner import banner
from quartzpy.node.drain import Allowance, described, wait_for_executions, within
from quartzpy.node.health import SchedulerHealth
from quartzpy.node.parts import NodeParts
from quartzpy.node.service import Outage
from quartzpy.node.workers.execution import Execution
from quartzpy.states import NodeMode

logger = logging.getLogger(__name__)

JOIN_SECONDS = 10.0
"""The longest wait, in seconds, for a background thread to end."""
CLOSE_SECONDS = 1.0
"""The longest wait, in seconds, for the jobs that are cancelled or killed at the end of a drain."""
STEP_SECONDS = 35.0
"""The longest wait, in seconds, for a step of stopping that makes a round trip to the database."""
EXIT_SECONDS = 2.0
"""The time, in seconds, by which a node that was not shut down may delay the exit of its process."""


class SchedulerNode:
    """A node of one scheduler in this process. It can be started once, and cannot be used after `stop`."""

    def __init__(self, parts: NodeParts, *, version: str = "") -> None:
        self.parts = parts
        self._config = parts.config
        self._clock = parts.clock
        self._job_types = parts.job_types
        self._listeners = parts.listeners
        self._version = version
        self._pid = os.getpid()
        self._allowance: Allowance | None = None
        self._stop_lock = threading.Lock()
        self._interrupts = False
        self._drained = False
        self._ended_event = threading.Event()

    @property
    def instance_id(self) -> str:
        """The id of this node in the cluster. A generated id may change when the node rejoins with a new epoch."""
        return self.parts.registration.instance_id

    # --- its start and its modes

    def start(self, *, standby: bool = False) -> None:
        """Join the cluster and start all threads. With `standby`, fire nothing until `resume`.

        Raises:
            StoreUnavailableError: the database did not answer within `start_timeout`.
            SchemaError: the tables are missing or belong to another release.
            InstanceIdInUseError: another live node has this instance id.
        """
        parts = self.parts
        self._with_retry(lambda: parts.store.open(self._listeners.emit))
        epoch = self._with_retry(parts.registration.join)
        # Check-ins start before anything else that may be retried, and before job modules are imported, which may be
        # slow: otherwise the other nodes would declare this epoch dead.
        parts.check_in.start()
        try:
            self._with_retry(lambda: parts.registration.publish(parts.capacity.capabilities))
            self._with_retry(parts.known_types.learn)
            self._with_retry(parts.cluster.schema.check_at_start)
            self._with_retry(partial(parts.cluster.renew_at_start, epoch))
        except BaseException:
            # The caller gets no node that it could stop, so the check-ins must end here.
            parts.check_in.stop()
            epoch.lose()
            within(CLOSE_SECONDS, partial(parts.store.leave, epoch.node))
            raise
        if standby:
            self._set_mode(NodeMode.STANDBY)
        else:
            parts.signals.scheduler.set_standby(False)
        self._listeners.open(f"quartzpy-{self.instance_id}-events")
        for service in parts.services():
            if service is not parts.check_in:
                service.start()
        parts.supervisor.start()
        self._job_types.subscribe(self._type_registered)
        atexit.register(self._leave_at_exit)
        for line in banner(
            self._config,
            version=self._version,
            instance_id=self.instance_id,
            epoch=epoch.node.epoch,
            database=str(parts.store),
            job_types=self._job_types.allowed_names(self._config),
            engines=parts.capacity.capabilities.engines,
        ):
            logger.info("%s", line)

    def standby(self) -> None:
        """Fire nothing more. Running executions and the check-ins continue."""
        self._set_mode(NodeMode.STANDBY)
        self.parts.signals.scheduler.wait_until_resting(self._config.lock_timeout.total_seconds())

    def resume(self) -> None:
        """End the standby or the drain of this node, whoever began it."""
        self._set_mode(NodeMode.RUNNING)

    def stop(
        self,
        *,
        wait: bool,
        timeout: float | None,
        interrupt: bool = False,
        closing: Callable[[bool], None] = lambda in_time: None,
        ended: Callable[[bool], None] = lambda drained: None,
    ) -> bool:
        """Drain the node and leave the cluster. Return whether all executions ended and were recorded.

        With `wait` it blocks until the end of the drain; otherwise the drain continues in the background. Executions
        that are still running after `timeout` seconds are asked to stop, and other nodes recover them. With `interrupt`
        they are asked immediately. A later call can wait for the drain, interrupt executions or shorten the timeout.
        The first call starts the drain. It calls `closing` before the connections are closed, with the information
        whether the executions ended in time, and `ended` at its end.
        """
        parts = self.parts
        with self._stop_lock:
            is_first = self._allowance is None
            if self._allowance is None:
                self._allowance = Allowance(self._clock, timeout)
            else:
                self._allowance.shorten(timeout)
        self._interrupts |= interrupt
        if is_first:
            parts.signals.scheduler.resting.clear()
            parts.signals.is_leaving = parts.signals.is_draining = True
            parts.signals.stop.set()
            for service in (parts.scheduler_thread, parts.misfires, parts.notifications):
                service.stop()
            drain = threading.Thread(target=self._drain, args=(closing, ended), name=f"{parts.name}-drain", daemon=True)
            try:
                drain.start()
            except RuntimeError:  # The system refuses another thread.
                self._drain(closing, ended)
        if wait:
            # The drain runs on another thread, so that Ctrl-C interrupts the wait and not the drain.
            self._ended_event.wait()
        elif parts.executors.occupied == 0:
            self._ended_event.wait(JOIN_SECONDS)
        return self._ended_event.is_set() and self._drained

    # --- for the facade

    def set_groups(self, groups: Mapping[str, int]) -> None:
        """Set the limits of execution groups on this node."""
        self.parts.capacity.set_groups(groups)
        self.parts.known_types.publish()

    def allow(self, settings: SchedulerConfig) -> None:
        """Run the included job types that these settings allow, and no others from now on."""
        load_allowed(self._job_types, settings)
        self.parts.known_types.allow(settings)

    @property
    def in_standby(self) -> bool:
        return self.parts.signals.scheduler.in_standby

    @property
    def recorded(self) -> int:
        """The number of executions that this node has recorded."""
        return self.parts.completer.recorded + self.parts.long_completer.recorded

    def running(self) -> list[Execution]:
        return self.parts.runner.running()

    def interrupt(self, chosen: Callable[[Execution], bool]) -> int:
        return self.parts.runner.interrupt(chosen)

    def is_worker_thread(self) -> bool:
        """Return whether the current thread runs jobs of this node."""
        name = threading.current_thread().name
        return name.startswith((f"{self.parts.name}-worker", f"{self.parts.name}-event-loop"))

    def health(self) -> SchedulerHealth:
        """Return the present health of this node."""
        return self.parts.health()

    @property
    def waits_without_limit(self) -> bool:
        """True if the node drains, and waits for its executions however long they take."""
        return self._allowance is not None and self._allowance.remaining() is None

    # --- its drain

    def _drain(self, closing: Callable[[bool], None], ended: Callable[[bool], None]) -> None:
        try:
            self._drained = self._drain_in_order(closing)
        except BaseException:
            logger.exception("node %s: stopping failed", self.instance_id)
        finally:
            atexit.unregister(self._leave_at_exit)
            try:
                ended(self._drained)
            finally:
                self._ended_event.set()

    def _drain_in_order(self, closing: Callable[[bool], None]) -> bool:
        parts = self.parts
        assert self._allowance is not None
        at_most, in_time, remaining = self._allowance.at_most, self._allowance.in_time, self._allowance.remaining
        self._job_types.unsubscribe(self._type_registered)
        for service in (parts.scheduler_thread, parts.misfires, parts.notifications):
            service.join(in_time(JOIN_SECONDS))
        parts.signals.scheduler.resting.set()
        within(in_time(STEP_SECONDS), parts.scheduler_thread.wake_others)
        parts.dispatcher.hand_back(0.0)
        idle = wait_for_executions(self._have_executions_ended, parts.runner.running, self._allowance, self.instance_id)
        drained = idle and parts.completer.wait_until_empty(remaining())
        if not drained:
            closing(False)
            self._abandon_executions()
        parts.supervisor.stop()
        parts.completer.stop()
        parts.long_completer.stop()
        parts.progress.stop()
        parts.cluster.stop()
        # The check-ins end last, because other nodes must not declare a draining node dead.
        parts.check_in.stop()
        for last in (parts.completer, parts.long_completer, parts.progress, parts.cluster, parts.check_in):
            last.join(at_most(JOIN_SECONDS))
        # Jobs that can be cancelled or killed are stopped before other nodes may run them again.
        within(at_most(2 * CLOSE_SECONDS), partial(parts.executors.close, CLOSE_SECONDS))
        within(at_most(2 * CLOSE_SECONDS), partial(parts.loop.close, at_most(CLOSE_SECONDS)))
        epoch = parts.registration.epoch
        if epoch is not None and not epoch.lost:
            within(at_most(STEP_SECONDS), partial(parts.scheduler_thread.pass_on_gates, epoch))
            epoch.lose()
            within(at_most(STEP_SECONDS), partial(parts.store.leave, epoch.node))
        parts.watchdog.stop()
        parts.watchdog.join(at_most(JOIN_SECONDS))
        parts.deadlines.close()
        self._listeners.close()
        # Jobs and listeners may use the scheduler until here.
        closing(drained)
        within(at_most(STEP_SECONDS), parts.notifications.close)
        within(at_most(STEP_SECONDS), parts.store.close)
        logger.info("node %s has stopped", self.instance_id)
        return drained

    def _have_executions_ended(self, seconds: float) -> bool:
        parts = self.parts
        # Those that it has just begun outlive it as soon as their engine has them.
        parts.executors.hand_over()
        if self._interrupts:
            parts.runner.interrupt(lambda execution: not execution.cancelled.is_requested)
        until = self._clock.monotonic() + seconds
        return parts.executors.wait_until_idle(lambda: max(0.0, until - self._clock.monotonic()))

    def _abandon_executions(self) -> None:
        parts = self.parts
        running = parts.runner.running()
        parts.runner.interrupt(lambda execution: True)
        logger.warning(
            "node %s: %s did not end in time; other nodes recover those that request recovery",
            self.instance_id,
            described(running),
        )

    def _leave_at_exit(self) -> None:
        """Leave the cluster when the process exits without a call of `stop`.

        While executions are running, the row of the node stays until its failure window has passed: the threads
        continue until the very end of the process, and no other node may run their jobs before that.
        """
        parts = self.parts
        epoch = parts.registration.epoch
        if os.getpid() != self._pid or epoch is None or epoch.lost or self._allowance is not None:
            return
        parts.signals.is_leaving = True
        for service in (parts.scheduler_thread, parts.misfires, parts.check_in, parts.cluster):
            service.stop()
        parts.scheduler_thread.join(EXIT_SECONDS)
        running = parts.runner.running()
        if parts.executors.occupied or parts.watch.outage is not None:
            unfinished = described(running) if running else "no running execution"
            logger.warning("node %s exits without shutdown(), with %s", self.instance_id, unfinished)
            return
        epoch.lose()
        within(EXIT_SECONDS, partial(parts.store.leave, epoch.node))
        logger.info("node %s left the cluster at process exit; shutdown() was not called", self.instance_id)

    def _set_mode(self, mode: NodeMode) -> None:
        """Apply a mode that the program sets, and let the cluster manager write it to the node's record."""
        self.parts.modes.set_here(mode)
        self.parts.cluster.wake()

    def _type_registered(self, name: str) -> None:
        """Let the cluster manager publish a newly registered job type and look for its jobs."""
        self.parts.cluster.wake()

    def _with_retry(self, step: Callable[[], Any]) -> Any:
        """Perform a step of the start, and retry it while the database is unavailable, up to `start_timeout`."""
        outage = Outage(logger, f"node {self.instance_id}")
        deadline = self._clock.monotonic() + self._config.start_timeout.total_seconds()
        while True:
            try:
                return step()
            except (StoreUnavailableError, OutcomeUnknownError) as error:
                wait = outage.failed(error)
                if (
                    not _may_pass(error)
                    or self._clock.monotonic() + wait > deadline
                    or self.parts.signals.stop.wait(wait)
                ):
                    raise


def _may_pass(error: QuartzpyError) -> bool:
    """Return whether a retry can succeed. It cannot with a wrong password."""
    return not isinstance(error, AuthenticationError)
