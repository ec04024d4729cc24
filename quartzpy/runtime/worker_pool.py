"""The worker pool: a limited number of threads that run jobs, and the count of free slots.

A trigger is claimed only when a slot is free, so that every claim can run at once. Threads are woken one after another,
each by the previous one: many short jobs are run by a few threads, which saves context switches, while long jobs get a
thread each.
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
"""The longest timeout, in seconds, that a condition accepts, with a margin."""

Task = Callable[[], None]


class WorkerPool:
    """Runs tasks on at most `size` threads. A call of `release`, not the end of the task, frees its slot."""

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
        self._occupied = 0
        self._closed = False
        self._numbers = count(1)

    @property
    def free(self) -> int:
        with self._lock:
            return self.size - self._occupied

    @property
    def occupied(self) -> int:
        with self._lock:
            return self._occupied

    def wait_until_idle(self, timeout: float | None) -> bool:
        """Wait until no slot is occupied. Return False on timeout."""
        with self._changed:
            limit = None if timeout is None else min(timeout, LONGEST_WAIT)
            return self._changed.wait_for(lambda: self._occupied == 0, limit)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Run tasks, each in one slot. The caller has made sure that there are enough free slots."""
        with self._lock:
            self._occupied += len(tasks)
            self._tasks.extend(tasks)
            self._wake_one()

    def release(self) -> bool:
        """Free a slot. Return True if all slots were occupied before."""
        with self._changed:
            self._occupied -= 1
            is_first = self._occupied == self.size - 1
            if self._occupied == 0:
                self._changed.notify_all()
            return is_first

    def close(self) -> None:
        """End the threads after they have run all submitted tasks."""
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
        """Return False if a thread has ended unexpectedly."""
        with self._lock:
            return self._closed or all(thread.is_alive() for thread in self._threads)

    def restart(self) -> None:
        """Forget the threads that ended, and wake or start one for the waiting tasks.

        If no thread can be started, `keep_running` tries again.
        """
        with self._lock:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._wake_all()

    def _wake_all(self) -> None:
        """Wake all idle threads, because the thread that ended may have been idle, or just being woken."""
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
            # If no thread can be started, the existing threads run the tasks.
            if thread is not None:
                self._threads.append(thread)
                self._waking = True

    def _work(self) -> None:
        try:
            self._run_tasks()
        except BaseException:
            # Out of memory between two tasks. Another thread replaces this one.
            with self._lock:
                self._threads = [thread for thread in self._threads if thread is not threading.current_thread()]
                self._wake_all()
            with suppress(BaseException):
                logger.exception("a worker thread ended and is replaced")

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
                # Tasks handle the errors of their jobs. Any other error must not end the thread.
                with suppress(BaseException):
                    logger.exception("a task of a worker raised an error")
