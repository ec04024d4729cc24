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
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from quartzpy.errors import SchedulerStateError
from quartzpy.node.workers.worker_pool import ThreadStart

logger = logging.getLogger(__name__)

BLOCKED_AFTER = 1.0
"""The time, in seconds, after which a loop that does not respond is reported as blocked."""
AT_ONCE = 16
"""The number of coroutines that begin in one iteration of the loop.

Most jobs are short, so the tasks of the previous ones have ended by then: few tasks exist at once, which saves time of
the garbage collector."""
START_AGAIN_AFTER = 0.2
"""The delay, in seconds, before another attempt to start the thread if the system refuses one."""


class JobTask(asyncio.Task[None]):
    """The task of a coroutine that was begun on the thread of the loop."""

    __slots__ = ("done_call",)
    done_call: Callable[[], None] | None

    def cancel_after(self, seconds: float) -> None:
        """Cancel the task at its next `await` after `seconds`, unless it ends before. Any thread may call this."""
        _call_later(self.get_loop(), seconds, self.cancel)


class LoopWork:
    """A coroutine on the loop, or on its way there from another thread.

    It drops everything once the coroutine has ended, because its execution keeps it until it is recorded, and the
    garbage collector visits all objects that are kept.
    """

    __slots__ = ("_begin", "_done", "_loop", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop, done: Callable[[], None] | None = None) -> None:
        self._loop = loop
        self._done = done
        self._begin: Callable[[], asyncio.Task[None]] | None = None
        self.task: asyncio.Task[None] | None = None

    def begin_by(self, begin: Callable[[], asyncio.Task[None]]) -> None:
        """Set the function that makes the task."""
        self._begin = begin

    def begin(self) -> None:
        """Make a task of the coroutine, on the loop. Further calls do nothing."""
        begin, self._begin = self._begin, None
        if begin is not None:
            self.task = begin()

    def ended(self) -> None:
        self.task = None
        done, self._done = self._done, None
        if done is not None:
            done()

    def cancel_after(self, seconds: float) -> None:
        """Cancel the task at its next `await` after `seconds`, unless it ends before."""
        _call_later(self._loop, seconds, self._cancel)

    def _cancel(self) -> None:
        self.begin()  # If it has not begun yet, so that it ends like all others.
        if self.task is not None:
            self.task.cancel()


def _call_later(loop: asyncio.AbstractEventLoop, seconds: float, call: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError):  # The loop is closed, so all its tasks were cancelled.
        loop.call_soon_threadsafe(loop.call_later, seconds, call)


class EventLoopThread:
    """An event loop in its own thread, which starts on first use."""

    def __init__(self, name: str, *, debug: bool = False) -> None:
        self.name = name
        self._debug = debug
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = ThreadStart(logger)
        self._ident: int | None = None
        self._tasks: set[JobTask] = set()
        self._end = self._ended
        """The callback of all tasks, bound once."""
        self._arrived: deque[Callable[[], None]] = deque()
        self._is_called = False
        """True if the loop was called to begin what has arrived, and has not yet done so."""
        self._closing = threading.Event()
        self._asked_at: float | None = None
        self._is_reported = False
        self.blockages = 0
        """The number of times that the loop was blocked for longer than `BLOCKED_AFTER`."""

    def run(
        self, work: Coroutine[Any, Any, None], name: str = "", done: Callable[[], None] | None = None
    ) -> LoopWork | JobTask:
        """Start `work`, which must not raise, on the loop with the context variables of the caller.

        The loop calls `done` when the work has ended, even if it was cancelled before its first step. If the system
        refuses a thread, this method waits until it grants one.

        Raises:
            SchedulerStateError: the loop is closed.
        """
        if self._ident == threading.get_ident():
            return self._begin(asyncio.get_running_loop(), work, name, done)
        try:
            loop = self._started()
            begun = LoopWork(loop, done)
            begun.begin_by(partial(self._begin, loop, work, name, begun.ended, contextvars.copy_context()))
            self.call(begun.begin)
        except BaseException:
            work.close()
            raise
        return begun

    def call(self, begin: Callable[[], None]) -> None:
        """Call `begin` on the loop. If the system refuses a thread, this method waits until it grants one.

        Raises:
            SchedulerStateError: the loop is closed.
        """
        # One wake-up serves all that arrive before the loop has woken.
        if self._is_called:
            self._arrived.append(begin)
            # The loop looks at what has arrived after it has reset this.
            if self._is_called:
                return
            loop = self._started()
        else:
            loop = self._started()
            self._arrived.append(begin)
        self._is_called = True
        try:
            loop.call_soon_threadsafe(self._begin_arrived)
        except BaseException as error:
            self._is_called = False
            if isinstance(error, RuntimeError):
                raise SchedulerStateError("the event loop of this node is closed and starts no more jobs") from error
            raise

    def _begin(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, None],
        name: str,
        done: Callable[[], None] | None,
        context: contextvars.Context | None = None,
    ) -> JobTask:
        try:
            task = JobTask(work, loop=loop, name=name or None, context=context)
        except BaseException:
            work.close()
            if done is not None:
                done()
            raise
        task.done_call = done
        # The loop keeps only weak references to its tasks.
        self._tasks.add(task)
        # One callback for all that follows, because the loop makes a handle for each.
        task.add_done_callback(self._end)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        assert isinstance(task, JobTask)
        self._tasks.discard(task)
        done, task.done_call = task.done_call, None
        if done is not None:
            done()

    def close(self, timeout: float) -> None:
        """Cancel the running tasks and end the thread."""
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
                    raise SchedulerStateError("the event loop of this node is closed and starts no more jobs")
                if self._loop is None:
                    self._loop = asyncio.new_event_loop()
                    self._loop.set_debug(self._debug)
                if self._ensure_thread(self._loop):
                    return self._loop
            # Only the worker of this execution waits here.
            self._closing.wait(START_AGAIN_AFTER)

    def _ensure_thread(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether a thread runs the loop. A thread that ended is replaced, and the tasks continue."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = self._starting.of(partial(self._serve, loop), self.name)
        return self._thread is not None

    # --- supervision

    def is_alive(self) -> bool:
        """Return whether the thread is running, or is not needed."""
        with self._lock:
            return self._thread is None or self._thread.is_alive()

    def restart(self) -> None:
        """Run the same loop in a new thread. If none can be started, the next job tries again."""
        with self._lock:
            if self._loop is not None:
                self._ensure_thread(self._loop)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ident = threading.get_ident()
        asyncio.set_event_loop(loop)
        while True:
            try:
                loop.run_forever()
                break
            except BaseException:
                # SystemExit from a callback that a job left behind ends `run_forever`, but must not end other jobs.
                with contextlib.suppress(BaseException):
                    logger.exception("a callback on the event loop raised an error; the loop continues")
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _begin_arrived(self) -> None:
        # Before the first look, so that what arrives after the last one calls the loop again.
        self._is_called = False
        for _ in range(AT_ONCE):
            if not self._arrived:
                return
            try:
                self._arrived.popleft()()
            except BaseException:
                if self._arrived:
                    self._call_again()
                raise
        if self._arrived:
            self._call_again()

    def _call_again(self) -> None:
        self._is_called = True
        asyncio.get_running_loop().call_soon(self._begin_arrived)

    def _cancel_all(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._arrived:
            with contextlib.suppress(BaseException):  # Its end is reported nevertheless.
                self._arrived.popleft()()
        for task in self._tasks:
            task.cancel()
        loop.call_soon(self._stop_when_idle, loop)

    def _stop_when_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._tasks or self._arrived:
            loop.call_later(0.01, self._stop_when_idle, loop)
        else:
            loop.stop()

    # --- for the watchdog

    def check(self) -> None:
        """Log an error with the stack if the loop has been blocked for `BLOCKED_AFTER`, once per blockage."""
        with self._lock:
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        asked_at = self._asked_at
        if asked_at is None:
            if self._tasks or self._arrived:
                self._is_reported, self._asked_at = False, time.monotonic()
                loop.call_soon_threadsafe(self._answer)
        elif not self._is_reported and time.monotonic() - asked_at >= BLOCKED_AFTER:
            self._is_reported = True
            self.blockages += 1
            self._report(loop, thread, time.monotonic() - asked_at)

    def _answer(self) -> None:
        asked_at, self._asked_at = self._asked_at, None
        if self._is_reported and asked_at is not None:
            logger.warning("the event loop continues after it was blocked for %.1f s", time.monotonic() - asked_at)

    @staticmethod
    def _report(loop: asyncio.AbstractEventLoop, thread: threading.Thread, seconds: float) -> None:
        task = asyncio.current_task(loop)
        frame = sys._current_frames().get(thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else "(no stack)"
        logger.error(
            "the event loop has been blocked for %.1f s by %s: no other async job of this node can run until it awaits."
            " Its stack:\n%s",
            seconds,
            "no task" if task is None else task.get_name(),
            stack,
        )
