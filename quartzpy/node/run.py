"""Running a scheduler as the main task of a process: signals, the drain, and the exit of a failed node."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum, auto
from types import FrameType
from typing import Protocol

from quartzpy.garbage import present_objects_exempted
from quartzpy.node.health import HealthState, SchedulerHealth

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)
CHECK_EVERY = 0.2
"""The interval, in seconds, of checks for a signal or a failed node."""


class RunEnd(Enum):
    """The possible ends of a run."""

    DRAINED = auto()
    """All executions ended and were recorded."""
    ABANDONED = auto()
    """Some executions did not end in time."""
    FAILED = auto()
    """A thread of the node could not be kept alive."""


class Runnable(Protocol):
    """A scheduler, as far as running it in a process needs one."""

    def start(self) -> None: ...

    def wait_until_shut_down(self, timeout: float) -> bool: ...

    def health(self) -> SchedulerHealth: ...

    def shutdown(self, *, wait: bool, timeout: float | None, interrupt: bool) -> bool: ...


def run_until_stopped(scheduler: Runnable, drain_timeout: float | None, *, interrupt: bool = False) -> RunEnd:
    """Start a scheduler, wait for a signal, a shutdown or a failure of the node, and drain it.

    The drain takes at most `drain_timeout` seconds. None means no limit. Meanwhile the garbage collector passes over
    all objects that existed after the start.
    """
    with _signals() as received, ExitStack() as stack:
        scheduler.start()
        stack.enter_context(present_objects_exempted())
        failed = False
        while not (received or failed or scheduler.wait_until_shut_down(CHECK_EVERY)):
            failed = scheduler.health().state is HealthState.FAILED
        if received:
            limit = "" if drain_timeout is None else f" for up to {drain_timeout:g} s"
            logger.info(
                "%s: stopping; waiting%s for running executions; a second signal ends this process at once",
                signal.Signals(received[0]).name,
                limit,
            )
        drained = scheduler.shutdown(wait=True, timeout=drain_timeout, interrupt=interrupt)
    if failed:
        return RunEnd.FAILED
    return RunEnd.DRAINED if drained else RunEnd.ABANDONED


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect SIGTERM and SIGINT in a list; exit at the second one. Restore the previous handlers at the end."""
    received: list[int] = []

    def asked_to_stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            os._exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.signal(number, asked_to_stop) for number in SIGNALS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
