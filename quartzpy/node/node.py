"""The lifecycle of a node: starting and stopping its threads in order, and leaving the cluster at process exit."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from quartzpy.errors import AuthenticationError, OutcomeUnknownError, QuartzpyError, StoreUnavailableError
from quartzpy.node.banner import log_banner
from quartzpy.node.drain import Allowance, described, wait_for_executions, within
from quartzpy.node.engine import Engine
from quartzpy.node.outage import Outage
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


class SchedulerNode(Engine):
    """A node of one scheduler in this process. It can be started once, and cannot be used after `stop`."""

    def start(self, *, standby: bool = False) -> None:
        """Join the cluster and start all threads. With `standby`, claim no triggers until `resume`.

        Raises:
            StoreUnavailableError: the database did not answer within `start_timeout`.
            SchemaError: the tables are missing or belong to another release.
            InstanceIdInUseError: another live node has this instance id.
        """
        self._with_retry(self._store.open)
        self._epoch = epoch = self._with_retry(lambda: self._registration.join(self._capacity.capabilities))
        # Check-ins start before the job modules are imported, which may be slow.
        self._checkin.start()
        try:
            self._with_retry(self._known.learn)
        except BaseException:
            # The caller gets no node that it could stop, so the check-ins must end here.
            self._checkin.stop()
            epoch.lose()
            within(CLOSE_SECONDS, partial(self._store.leave, epoch.node))
            raise
        if standby:
            self._set_mode(NodeMode.STANDBY)
        else:
            self._scheduler.set_standby(False)
        self._listeners.open(f"quartzpy-{self.instance_id}-events")
        for service in self._services():
            if service is not self._checkin:
                service.start()
        self._supervisor.start()
        self._job_types.subscribe(self._type_registered)
        atexit.register(self._leave_at_exit)
        log_banner(
            logger,
            self._config,
            version=self._version,
            instance_id=self.instance_id,
            epoch=epoch.node.epoch,
            database=self._store.describe(),
            job_types=self._job_types.names(),
        )

    def standby(self) -> None:
        """Claim no more triggers. Running executions and the check-ins continue."""
        self._set_mode(NodeMode.STANDBY)
        self._scheduler.wait_until_resting(self._config.lock_timeout.total_seconds())

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
        with self._stop_lock:
            is_first = self._allowance is None
            if self._allowance is None:
                self._allowance = Allowance(self._clock, timeout)
            else:
                self._allowance.shorten(timeout)
        self._interrupts |= interrupt
        if is_first:
            self._leaving = self._runner.is_closing = True
            self._aborted.set()
            for service in (self._scheduler, self._misfires, self._notifications):
                service.stop()
            drain = threading.Thread(target=self._drain, args=(closing, ended), name=f"{self._name}-drain", daemon=True)
            try:
                drain.start()
            except RuntimeError:  # The system refuses another thread.
                self._drain(closing, ended)
        if wait:
            # The drain runs on another thread, so that Ctrl-C interrupts the wait and not the drain.
            self._ended_event.wait()
        elif self._executors.occupied == 0:
            self._ended_event.wait(JOIN_SECONDS)
        return self._ended_event.is_set() and self._drained

    @property
    def waits_without_limit(self) -> bool:
        """True if the node drains, and waits for its executions however long they take."""
        return self._allowance is not None and self._allowance.left() is None

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
        assert self._allowance is not None
        at_most, in_time, left = self._allowance.at_most, self._allowance.in_time, self._allowance.left
        self._job_types.unsubscribe(self._type_registered)
        for service in (self._scheduler, self._misfires, self._notifications):
            service.join(in_time(JOIN_SECONDS))
        within(in_time(STEP_SECONDS), self._scheduler.release_all)
        self._dispatcher.hand_back(0.0)
        idle = wait_for_executions(self._have_executions_ended, self._runner.running, self._allowance, self.instance_id)
        drained = idle and self._completer.wait_until_empty(left())
        if not drained:
            closing(False)
            self._abandon_executions()
        self._supervisor.stop()
        self._completer.stop()
        self._progress.stop()
        self._cluster.stop()
        # The check-ins end last, because other nodes must not declare a draining node dead.
        self._checkin.stop()
        for last in (self._completer, self._progress, self._cluster, self._checkin):
            last.join(at_most(JOIN_SECONDS))
        # Jobs that can be cancelled or killed are stopped before other nodes may run them again.
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
        # Jobs and listeners may use the scheduler until here.
        closing(drained)
        within(at_most(STEP_SECONDS), self._notifications.close)
        within(at_most(STEP_SECONDS), self._store.close)
        logger.info("node %s has stopped", self.instance_id)
        return drained

    def _have_executions_ended(self, seconds: float) -> bool:
        if self._interrupts:
            self._runner.interrupt(lambda execution: not execution.cancelled.is_set())
        until = self._clock.monotonic() + seconds
        return self._executors.wait_until_idle(lambda: max(0.0, until - self._clock.monotonic()))

    def _abandon_executions(self) -> None:
        running = self._runner.running()
        self._runner.interrupt(lambda execution: True)
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
        epoch = self._epoch
        if os.getpid() != self._pid or epoch is None or epoch.lost or self._allowance is not None:
            return
        self._leaving = True
        for service in (self._scheduler, self._misfires, self._checkin, self._cluster):
            service.stop()
        self._scheduler.join(EXIT_SECONDS)
        running = self._runner.running()
        if self._executors.occupied or self._store_watch.outage is not None:
            unfinished = described(running) if running else "no running execution"
            logger.warning("node %s exits without shutdown(), with %s", self.instance_id, unfinished)
            return
        epoch.lose()
        within(EXIT_SECONDS, partial(self._store.leave, epoch.node))
        logger.info("node %s left the cluster at process exit; shutdown() was not called", self.instance_id)

    def _with_retry(self, step: Callable[[], Any]) -> Any:
        """Perform a step of the start, and retry it while the database is unavailable, up to `start_timeout`."""
        outage = Outage(logger, f"node {self.instance_id}")
        deadline = self._clock.monotonic() + self._config.start_timeout.total_seconds()
        while True:
            try:
                return step()
            except (StoreUnavailableError, OutcomeUnknownError) as error:
                wait = outage.failed(error)
                if not _may_pass(error) or self._clock.monotonic() + wait > deadline or self._aborted.wait(wait):
                    raise


def _may_pass(error: QuartzpyError) -> bool:
    """Return whether a retry can succeed. It cannot with a wrong password."""
    return not isinstance(error, AuthenticationError)
