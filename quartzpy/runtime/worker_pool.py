"""The workers: threads that run jobs, at most so many at once, and the count of those that are free.

A slot is taken before a trigger is claimed, so that nothing is ever claimed that cannot run. Threads are woken
one after another, each by the one before it: many short jobs are run by few threads, which saves most of the
switching between them, and many long ones get a thread each.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

from quartzpy.runtime.thread_start import ThreadStart

logger = logging.getLogger(__name__)

LONGEST_WAIT = threading.TIMEOUT_MAX / 2
"""A condition takes no longer one."""

Task = Callable[[], None]


class WorkerPool:
    """Runs tasks on at most `size` threads. A task's slot is given back by `release`, not by its end."""

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self.name = name
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._tasks: deque[Task] = deque()
        self._idle: list[threading.Semaphore] = []
        self._waking = False
        self._threads: list[threading.Thread] = []
        self._starting = ThreadStart(logger)
        self._taken = 0
        self._closed = False
        self._numbers = count(1)

    @property
    def free(self) -> int:
        with self._lock:
            return self.size - self._taken

    @property
    def taken(self) -> int:
        with self._lock:
            return self._taken

    def wait_until_idle(self, timeout: float | None) -> bool:
        """Wait until no slot is taken; whether that came."""
        with self._changed:
            limit = None if timeout is None else min(timeout, LONGEST_WAIT)
            return self._changed.wait_for(lambda: self._taken == 0, limit)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Run tasks, each in a slot of its own; callers asked for as many free ones before."""
        with self._lock:
            self._taken += len(tasks)
            self._tasks.extend(tasks)
            self._wake_one()

    def release(self) -> bool:
        """A task's work ended, on whatever thread; whether its slot is the first that is free."""
        with self._changed:
            self._taken -= 1
            is_first = self._taken == self.size - 1
            if self._taken == 0:
                self._changed.notify_all()
            return is_first

    def close(self) -> None:
        """End the threads once they have run what was submitted."""
        with self._changed:
            self._closed = True
            for semaphore in self._idle:
                semaphore.release()
            self._idle.clear()
            self._changed.notify_all()

    def resume(self, task: Task) -> None:
        """Run a task in a slot that is taken already: a part of what was submitted before."""
        with self._lock:
            self._tasks.append(task)
            self._wake_one()

    def keep_running(self) -> None:
        """Start a thread for what waits, where none could be started before."""
        with self._lock:
            if self._starting.failures:
                self._wake_one()

    # --- supervision

    def is_alive(self) -> bool:
        """Return whether no thread ended before its time."""
        with self._lock:
            return self._closed or all(thread.is_alive() for thread in self._threads)

    def restart(self) -> None:
        """Forget the threads that ended, and wake or start one for what waits; where none can be started,
        `keep_running` tries again."""
        with self._lock:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._all_look_again()

    def _all_look_again(self) -> None:
        """Nobody can tell whether a thread that ended was among the idle, or was being woken."""
        idle, self._idle = self._idle, []
        self._waking = False
        for semaphore in idle:
            semaphore.release()
        self._wake_one()

    def _wake_one(self) -> None:
        if self._waking or not self._tasks:
            return
        if self._idle:
            self._waking = True
            self._idle.pop().release()
        elif len(self._threads) < self.size:
            thread = self._starting.of(self._work, f"{self.name}-{next(self._numbers)}")
            # Where none can be started, the threads that there are go on with the tasks.
            if thread is not None:
                self._threads.append(thread)
                self._waking = True

    def _work(self) -> None:
        try:
            self._run_tasks()
        except BaseException:
            # Out of memory between two tasks: another thread takes this one's place.
            with self._lock:
                self._threads = [thread for thread in self._threads if thread is not threading.current_thread()]
                self._all_look_again()
            with suppress(BaseException):
                logger.exception("a worker thread ended; another takes its place")

    def _run_tasks(self) -> None:
        called = threading.Semaphore(0)
        woken = True
        while True:
            with self._lock:
                if woken:
                    self._waking, woken = False, False
                task = self._tasks.popleft() if self._tasks else None
                if task is not None:
                    self._wake_one()
                elif self._closed:
                    return
                else:
                    self._idle.append(called)
            if task is None:
                called.acquire()
                woken = True
                continue
            try:
                task()
            except BaseException:
                # A task handles its job's errors itself: this one is ours, and must not cost the thread.
                with suppress(BaseException):
                    logger.exception("a worker's task failed")
