"""The thread of the event loop that runs `async def` jobs."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from quartzpy.errors import SchedulerStateError
from quartzpy.runtime.thread_start import ThreadStart

logger = logging.getLogger(__name__)

BLOCKED_AFTER = 1.0
"""Seconds without a turn after which the loop is reported as blocked."""
START_AGAIN_AFTER = 0.2
"""Seconds between two attempts to start the thread, where the system refuses one."""


class LoopWork:
    """Work that was given to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.task: asyncio.Task[None] | None = None

    def cancel_after(self, seconds: float) -> None:
        """Cut it off at its next `await`, unless it ends before."""
        with contextlib.suppress(RuntimeError):  # The loop was closed: so all its work was cancelled.
            self._loop.call_soon_threadsafe(self._loop.call_later, seconds, self._cancel)

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class EventLoopThread:
    """An event loop in a thread of its own, started when first needed."""

    def __init__(self, name: str, *, debug: bool = False) -> None:
        self.name = name
        self._debug = debug
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = ThreadStart(logger)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = threading.Event()
        self._asked_at: float | None = None
        self._is_reported = False
        self.blockages = 0
        """How often the loop was blocked for longer than `BLOCKED_AFTER`."""

    def run(self, work: Coroutine[Any, Any, None], name: str = "", done: Callable[[], None] | None = None) -> LoopWork:
        """Begin `work` on the loop, in the caller's context variables. It must not raise.

        `done` is called on the loop when it has ended, also where it was cancelled before its first step. Where the
        system gives no thread, this waits until it does.

        Raises:
            SchedulerStateError: the loop was closed.
        """
        try:
            loop = self._started()
            begun = LoopWork(loop)
            loop.call_soon_threadsafe(self._begin, begun, work, name, done, contextvars.copy_context())
        except BaseException as error:
            work.close()
            if isinstance(error, RuntimeError):
                raise SchedulerStateError("this node's event loop is closed; it begins no job any more") from error
            raise
        return begun

    def close(self, timeout: float) -> None:
        """Cancel what still runs and end the thread."""
        self._closing.set()
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(self._cancel_all, loop)
        thread.join(timeout)

    def _started(self) -> asyncio.AbstractEventLoop:
        while True:
            with self._lock:
                if self._closing.is_set():
                    raise SchedulerStateError("this node's event loop is closed; it begins no job any more")
                if self._loop is None:
                    self._loop = asyncio.new_event_loop()
                    self._loop.set_debug(self._debug)
                if self._ensure_thread(self._loop):
                    return self._loop
            # The execution's own worker is what waits.
            self._closing.wait(START_AGAIN_AFTER)

    def _ensure_thread(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether a thread serves the loop. One that ended is replaced: what runs on the loop goes on."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = self._starting.of(partial(self._serve, loop), self.name)
        return self._thread is not None

    # --- supervision

    def is_alive(self) -> bool:
        """Return whether the thread runs, or is not needed."""
        with self._lock:
            return self._thread is None or self._thread.is_alive()

    def restart(self) -> None:
        """Serve the same loop in a new thread; where none can be started, the next job tries again."""
        with self._lock:
            if self._loop is not None:
                self._ensure_thread(self._loop)

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
                break
            except BaseException:
                # SystemExit of a callback that a job left behind ends `run_forever`: the others' jobs go on.
                with contextlib.suppress(BaseException):
                    logger.exception("something on the event loop failed outside of a job; the loop goes on")
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _begin(
        self,
        begun: LoopWork,
        work: Coroutine[Any, Any, None],
        name: str,
        done: Callable[[], None] | None,
        context: contextvars.Context,
    ) -> None:
        # The loop itself keeps only weak references to tasks.
        try:
            begun.task = task = asyncio.get_running_loop().create_task(work, name=name or None, context=context)
        except BaseException:
            work.close()
            if done is not None:
                done()
            raise
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if done is not None:
            task.add_done_callback(lambda _: done())

    def _cancel_all(self, loop: asyncio.AbstractEventLoop) -> None:
        for task in self._tasks:
            task.cancel()
        loop.call_soon(self._stop_when_idle, loop)

    def _stop_when_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._tasks:
            loop.call_later(0.01, self._stop_when_idle, loop)
        else:
            loop.stop()

    # --- for the watchdog

    def look(self) -> None:
        """Report the loop, with its stack, where it has had no turn for `BLOCKED_AFTER`: once for each blockage."""
        with self._lock:
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        asked_at = self._asked_at
        if asked_at is None:
            if self._tasks:
                self._is_reported, self._asked_at = False, time.monotonic()
                loop.call_soon_threadsafe(self._answer)
        elif not self._is_reported and time.monotonic() - asked_at >= BLOCKED_AFTER:
            self._is_reported = True
            self.blockages += 1
            self._report(loop, thread, time.monotonic() - asked_at)

    def _answer(self) -> None:
        asked_at, self._asked_at = self._asked_at, None
        if self._is_reported and asked_at is not None:
            logger.warning("the event loop goes on after it was blocked for %.1f s", time.monotonic() - asked_at)

    @staticmethod
    def _report(loop: asyncio.AbstractEventLoop, thread: threading.Thread, seconds: float) -> None:
        task = asyncio.current_task(loop)
        frame = sys._current_frames().get(thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else "(no stack)"
        logger.error(
            "the event loop has been blocked for %.1f s by %s: no async job of this node goes on until it awaits"
            " something. Its stack:\n%s",
            seconds,
            "no task" if task is None else task.get_name(),
            stack,
        )
