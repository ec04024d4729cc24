"""A node's life: it starts its threads in order, stops them in order, and leaves the cluster when its process ends."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from quartzpy.errors import AuthenticationError, OutcomeUnknownError, QuartzpyError, StoreUnavailableError
from quartzpy.runtime.banner import log_banner
from quartzpy.runtime.drain import Allowance, described, wait_for_executions, within
from quartzpy.runtime.engine import Engine
from quartzpy.runtime.outage import Outage

logger = logging.getLogger(__name__)

# How long the threads that only look and wait may take to end.
JOIN_SECONDS = 10.0
# How long what still runs at the end of a node may take to be cut off.
CLOSE_SECONDS = 1.0
# How long a step of stopping that asks the database may take.
STEP_SECONDS = 35.0
SIGN_OFF_SECONDS = 2.0
"""The longest time for which a node that was not shut down may hold up the end of its process."""


class SchedulerNode(Engine):
    """Runs jobs of one scheduler in this process. It starts once, and is of no more use after `stop`."""

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
            self._patiently(self._known.learn)
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
        self._job_types.subscribe(self._type_registered)
        atexit.register(self._sign_off)
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
        """Claim nothing more; what runs goes on, and so do the check-ins."""
        self._scheduler.set_standby(True)
        self._scheduler.wait_until_resting(self._config.lock_timeout.total_seconds())

    def resume(self) -> None:
        self._scheduler.set_standby(False)

    def stop(
        self,
        *,
        wait: bool,
        timeout: float | None,
        interrupt: bool = False,
        ended: Callable[[bool], None] = lambda drained: None,
    ) -> bool:
        """Stop firing, let executions end and leave the cluster. Return whether all executions ended and were recorded.

        With `wait` it returns at the end of all that. Executions that still run after `timeout` seconds are asked to
        stop and left to other nodes to recover. With `interrupt` they are asked at once. Without `wait` the drain goes
        on in the background. It may be called again, to wait after all, to interrupt or with a shorter timeout.
        `ended` is called at the end of the drain that the first call began.
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
            for service in (self._scheduler, self._misfires, self._news):
                service.stop()
            drain = threading.Thread(target=self._drain, args=(ended,), name=f"{self._name}-drain", daemon=True)
            try:
                drain.start()
            except RuntimeError:  # No thread can be had.
                self._drain(ended)
        if wait:
            # On another thread, so that Ctrl-C ends the waiting and not the drain.
            self._ended_event.wait()
        elif self._executors.taken == 0:
            self._ended_event.wait(JOIN_SECONDS)
        return self._ended_event.is_set() and self._drained

    def _drain(self, ended: Callable[[bool], None]) -> None:
        try:
            self._drained = self._drain_in_order()
        except BaseException:
            logger.exception("node %s: stopping failed", self.instance_id)
        finally:
            atexit.unregister(self._sign_off)
            try:
                ended(self._drained)
            finally:
                self._ended_event.set()

    def _drain_in_order(self) -> bool:
        assert self._allowance is not None
        at_most, in_time, left = self._allowance.at_most, self._allowance.in_time, self._allowance.left
        self._job_types.unsubscribe(self._type_registered)
        for service in (self._scheduler, self._misfires, self._news):
            service.join(in_time(JOIN_SECONDS))
        within(in_time(STEP_SECONDS), self._scheduler.release_all)
        idle = wait_for_executions(self._have_executions_ended, self._runner.running, self._allowance, self.instance_id)
        drained = idle and self._completer.wait_until_empty(left())
        if not drained:
            self._abandon_executions()
        self._supervisor.stop()
        self._completer.stop()
        self._cluster.stop()
        # Last, because a node that still drains must not look dead.
        self._checkin.stop()
        for last in (self._completer, self._cluster, self._checkin):
            last.join(at_most(JOIN_SECONDS))
        # Whatever can be cut off is cut off before other nodes may run it again.
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
            "node %s: %s did not end in time; other nodes recover what asks for recovery",
            self.instance_id,
            described(running),
        )

    def _sign_off(self) -> None:
        """Leave the cluster when the process ends although nobody called `stop`.

        Where executions still run, the node stays in the tables until its window has passed: their threads may go on
        until the very end of the process, and no other node may run their jobs meanwhile.
        """
        epoch = self._epoch
        if os.getpid() != self._pid or epoch is None or epoch.lost or self._allowance is not None:
            return
        self._leaving = True
        for service in (self._scheduler, self._misfires, self._checkin, self._cluster):
            service.stop()
        self._scheduler.join(SIGN_OFF_SECONDS)
        running = self._runner.running()
        if self._executors.taken or self._store_watch.outage is not None:
            left_behind = described(running) if running else "no execution"
            logger.warning("node %s ends without shutdown(), with %s under way", self.instance_id, left_behind)
            return
        epoch.lose()
        within(SIGN_OFF_SECONDS, partial(self._store.leave, epoch.node))
        logger.info("node %s left the cluster because its process ends; shutdown() was not called", self.instance_id)

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


def _may_pass(error: QuartzpyError) -> bool:
    """Return whether waiting can help: a wrong password stays wrong."""
    return not isinstance(error, AuthenticationError)
