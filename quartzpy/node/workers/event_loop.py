"""The thread of the event loop that runs `async def` jobs."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from quartzpy.errors import SchedulerStateError
from quartzpy.node.workers.forks import end_child
from quartzpy.node.workers.loop_work import Done, JobTask, LoopWork
from quartzpy.node.workers.worker_pool import ThreadStart
from quartzpy.store.node_problems import NodeProblem
from quartzpy.texts import reason

logger = logging.getLogger(__name__)

BLOCKED_AFTER = 1.0
"""The time, in seconds, after which a loop that does not respond is reported as blocked."""
AT_ONCE = 16
"""The number of coroutines that begin in one iteration of the loop.

Most jobs are short, so the tasks of the previous ones have ended by then: few tasks exist at once, which saves time of
the garbage collector."""
PROBLEM_AFTER = 5.0
"""The time, in seconds, from which a blocked loop is a problem of its node."""
MAX_ENDS, ENDS_WITHIN = 10, 1.0
"""A loop that has ended so often within so many seconds is replaced."""
_broken: list[asyncio.AbstractEventLoop] = []
"""The loops that have ended by themselves, kept for ever: to close one, as the garbage collector does, could close
descriptors that others use by now."""
_OF_THE_NODE = ("stop", "close")
"""The methods of the loop that jobs cannot call."""
START_AGAIN_AFTER = 0.2
"""The delay, in seconds, before another attempt to start the thread if the system refuses one."""


_threads: weakref.WeakSet[EventLoopThread] = weakref.WeakSet()


def _forked() -> None:
    for thread in list(_threads):
        thread._forked()


os.register_at_fork(after_in_child=_forked)


def _refuse(method: str) -> None:
    raise SchedulerStateError(
        f"loop.{method}(): this event loop belongs to the node and runs its other async jobs, so a job cannot {method}"
        " it; to end the job, return or raise an error"
    )


def _nothing() -> None:
    """Wake the loop, which then begins what has arrived."""


def _waits(thread: threading.Thread) -> bool:
    """Return whether the loop of a thread waits for something to happen."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name == "select" and frame.f_code.co_filename.endswith("selectors.py")


class EventLoopThread:
    """An event loop in its own thread, which starts on first use.

    Jobs cannot stop or close it: the call raises an error in the job that makes it. If the loop ends nevertheless, or
    does not wake any more because somebody has closed its descriptors, its tasks end with an error, and a new loop
    begins what comes.
    """

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
        self._is_stopped = False
        """True if the loop was stopped by its own thread, at the end of the node."""
        self._ends: deque[float] = deque(maxlen=MAX_ENDS)
        """When `run_forever` returned without being asked for that, the last times."""
        self.blockages = 0
        """The number of times that the loop was blocked for longer than `BLOCKED_AFTER`."""

    def run(self, work: Coroutine[Any, Any, None], name: str = "", done: Done | None = None) -> LoopWork | JobTask:
        """Start `work`, which must not raise, on the loop with the context variables of the caller.

        The loop calls `done` when the work has ended, even if it was cancelled before its first step. `done` gets an
        error if the loop has ended before the work. If the system
        refuses a thread, this method waits until it grants one.

        Raises:
            SchedulerStateError: the loop is closed.
        """
        if self._ident == threading.get_ident():
            return self._begin(work, name, done)
        try:
            begun = LoopWork(self._started(), done)
            begun.begin_by(partial(self._begin, work, name, begun.ended, contextvars.copy_context()))
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
        self, work: Coroutine[Any, Any, None], name: str, done: Done | None, context: contextvars.Context | None = None
    ) -> JobTask:
        try:
            # Not the running one, which a job may have replaced.
            task = JobTask(work, loop=self._loop, name=name or None, context=context)
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
        if asyncio._get_running_loop() is not task.get_loop():
            # The job has replaced it, which all others would suffer from.
            asyncio._set_running_loop(task.get_loop())
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
        try:
            loop.call_soon_threadsafe(self._cancel_all, loop)
            thread.join(timeout)
        except RuntimeError as error:  # It is closed.
            self._lose_all(error)

    def _started(self) -> asyncio.AbstractEventLoop:
        while True:
            with self._lock:
                if self._closing.is_set():
                    raise SchedulerStateError("the event loop of this node is closed and starts no more jobs")
                if self._loop is None:
                    self._loop = self._new_loop()
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
            loop = self._loop
            if loop is not None and not loop.is_closed():
                self._ensure_thread(loop)
                return
        if loop is not None:
            self._replace(loop, RuntimeError("it was closed"))

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.set_debug(self._debug)
        self._is_called = False
        for method in _OF_THE_NODE:
            with contextlib.suppress(AttributeError):  # A loop of another library may have no such place.
                setattr(loop, method, partial(_refuse, method))
        return loop

    def _forked(self) -> None:
        """In a forked process: the copy of the loop runs nothing of the others, only the end of the process."""
        loop = self._loop
        if loop is not None and self._ident == threading.get_ident():
            ready = getattr(loop, "_ready", None)
            if ready is not None:
                ready.clear()
            loop.call_soon(end_child, os.getppid(), "a coroutine job")

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ident = threading.get_ident()
        _threads.add(self)
        asyncio.set_event_loop(loop)
        while True:
            error: BaseException | None = None
            try:
                loop.run_forever()
            except BaseException as raised:
                error = raised
            if self._is_stopped:
                break
            if not self._continues(loop, error):
                self._replace(loop, error or RuntimeError("it was stopped again and again"))
                return
        for method in _OF_THE_NODE:
            with contextlib.suppress(AttributeError):
                delattr(loop, method)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _continues(self, loop: asyncio.AbstractEventLoop, error: BaseException | None) -> bool:
        """Return whether the loop can go on after an end that the node has not asked for.

        SystemExit from a callback that a job left behind ends `run_forever`, but must not end other jobs. An error of
        the loop itself, and one that comes again and again, is another matter.
        """
        now = time.monotonic()
        self._ends.append(now)
        if loop.is_closed() or isinstance(error, Exception):
            return False
        if len(self._ends) == MAX_ENDS and now - self._ends[0] < ENDS_WITHIN:
            return False
        asyncio._set_running_loop(None)
        with contextlib.suppress(BaseException):
            logger.error("a callback on the event loop has stopped it; the loop continues", exc_info=error)
        return True

    def _replace(self, loop: asyncio.AbstractEventLoop, error: BaseException) -> None:
        """Give up a loop that has ended, or does not wake. Its tasks end with an error, and a new loop goes on."""
        with self._lock:
            if self._loop is not loop:
                return
            if self._ident == threading.get_ident():
                asyncio._set_running_loop(None)
            self._loop = self._thread = self._ident = self._asked_at = None
            self._is_called = self._is_reported = False
            _broken.append(loop)
        tasks = len(self._tasks)
        with contextlib.suppress(BaseException):
            logger.error(
                "the event loop has ended without being asked to (%s): %d async jobs that were running have failed, and"
                " a new loop runs the next ones. Does a job close descriptors that are not its own?",
                reason(error),
                tasks,
                exc_info=error,
            )
        self._lose_all(error)
        if self._arrived and not self._closing.is_set():
            with contextlib.suppress(SchedulerStateError):
                self.call(_nothing)

    def _lose_all(self, error: BaseException) -> None:
        lost = SchedulerStateError(f"the event loop of this node ended while the job was running: {reason(error)}")
        while self._tasks:
            with contextlib.suppress(BaseException):
                self._tasks.pop().lose(lost)

    def problem(self) -> NodeProblem | None:
        """Return a problem if the loop runs nothing at present."""
        loop, thread, asked_at = self._loop, self._thread, self._asked_at
        if loop is not None and (loop.is_closed() or (thread is not None and not thread.is_alive())):
            return NodeProblem("event-loop", "the event loop has ended, and runs no async job")
        if asked_at is not None and (blocked := time.monotonic() - asked_at) >= PROBLEM_AFTER:
            return NodeProblem(
                "event-loop",
                f"the event loop has been blocked for {blocked:.0f} s, and runs no other async job meanwhile",
            )
        return None

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
        if self._loop is not None:
            self._loop.call_soon(self._begin_arrived)

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
            self._is_stopped = True
            type(loop).stop(loop)

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
                try:
                    loop.call_soon_threadsafe(self._answer)
                except RuntimeError as error:  # It is closed.
                    self._replace(loop, error)
        elif not self._is_reported and time.monotonic() - asked_at >= BLOCKED_AFTER:
            if _waits(thread):
                self._abandon(loop)
                return
            self._is_reported = True
            self.blockages += 1
            self._report(loop, thread, time.monotonic() - asked_at)

    def _abandon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up a loop that waits although it was called: somebody has closed its descriptors."""
        # At its next timer, if there is one, its thread ends.
        with contextlib.suppress(BaseException):
            type(loop).stop(loop)
        self._replace(loop, OSError("it does not wake any more; were its descriptors closed?"))

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
