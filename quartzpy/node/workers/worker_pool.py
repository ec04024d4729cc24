"""The worker pool: a limited number of threads that run jobs, and the count of free slots.

While jobs are short, the node fires a few more than there are free slots, so that the workers go on while the next ones
are fetched (see docs/decisions/0025-short-jobs-are-fired-ahead.md). They wait here, and start as slots become free.
Threads are woken one after another, each by the previous one: many short jobs are run by a few threads, which saves
context switches, while long jobs get a thread each.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count

logger = logging.getLogger(__name__)


class ThreadStart:
    """Starts threads of one kind. It logs once that this fails, and once that it works again."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.failures = 0
        """The number of consecutive failed attempts."""

    def of(self, target: Callable[[], None], name: str) -> threading.Thread | None:
        """Start a thread that runs `target`. Return None if that fails; the caller must try again later."""
        try:
            thread = threading.Thread(target=target, name=name, daemon=True)
            thread.start()
        except (RuntimeError, MemoryError) as error:
            # CPython raises RuntimeError if the system refuses a thread, and while the interpreter shuts down.
            self.failures += 1
            if self.failures == 1:
                with suppress(Exception):
                    self._logger.error("thread %s cannot be started (%s); its work is delayed", name, error)
            return None
        if self.failures:
            with suppress(Exception):
                self._logger.warning("thread %s was started at attempt %d", name, self.failures + 1)
            self.failures = 0
        return thread


HORIZON = 0.025
"""The time, in seconds, within which an execution that was fired ahead should start."""
WINDOW = 0.02
"""The shortest time, in seconds, over which the rate is measured."""
_FADES = 0.98
"""The factor by which the longest run counts less with each later one."""


class Pace:
    """Measures how fast the executions of one pool end. The caller holds the lock of the pool."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._longest: float | None = None
        self._ended = 0
        self._since = 0.0
        self._per_second = 0.0

    def ended(self, seconds: float) -> None:
        """Note the end of an execution that has run for `seconds`."""
        faded = 0.0 if self._longest is None else self._longest * _FADES
        self._longest = max(seconds, faded)
        self._ended += 1

    def stalled(self) -> None:
        """Forget that executions were short: those that run now are not. Nothing is fired ahead until one has ended."""
        self._longest = None

    @property
    def is_fast(self) -> bool:
        """True if none of the last executions ran for longer than `HORIZON`."""
        return self._longest is not None and self._longest <= HORIZON

    def ahead(self, now: float) -> int:
        """Return the number of executions that would start within `HORIZON` behind those that run.

        It is 0 until an execution has ended, and as long as a recent one ran for longer than `HORIZON`.
        """
        count = self.within(HORIZON, now)
        return min(self._most, count) if self.is_fast else 0

    def within(self, seconds: float, now: float) -> int:
        """Return the number of executions that end within `seconds` at the present pace."""
        elapsed = now - self._since
        if elapsed >= WINDOW:
            # In a part of the window the workers may have been idle, so the rate falls by no more than a half.
            self._per_second = max(self._ended / elapsed, self._per_second / 2)
            self._ended, self._since = 0, now
        return int(self._per_second * seconds)


MAX_WAIT = threading.TIMEOUT_MAX / 2
"""The longest timeout, in seconds, that a condition accepts, with a margin."""

Task = Callable[[], object]


class WorkerPool:
    """Runs tasks on at most `threads` threads, or `size`. A call of `release`, not the end of the task, frees its slot.

    At most `size` tasks have started and not released their slots, whether or not they occupy a thread. `most_ahead`
    limits the number of tasks that wait for a slot.
    """

    def __init__(
        self,
        size: int,
        name: str,
        *,
        threads: int | None = None,
        most_ahead: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.size = size
        self._most_threads = size if threads is None else threads
        self.name = name
        self._clock = clock
        self._pace = Pace(most_ahead)
        self._submitted_at = self._began_at = clock()
        """The instant at which a task last started."""
        self._freed_at = self._submitted_at
        """The instant at which a slot last became free."""
        self._wake_at = size - 1
        """The number of occupied slots at which `release` returns True."""
        self._resumed: deque[Task] = deque()
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
        """The number of slots that no task occupies or waits for."""
        with self._lock:
            return max(0, self.size - self._occupied)

    @property
    def headroom(self) -> int:
        """The number of tasks that may be submitted now: for the free slots, and ahead."""
        with self._lock:
            return max(0, self.size + self._pace.ahead(self._clock()) - self._occupied)

    @property
    def occupied(self) -> int:
        with self._lock:
            return self._occupied

    def load(self) -> tuple[int, int, int]:
        """Return the number of workers, of those that run a task, and of the tasks that wait for one."""
        with self._lock:
            waiting = max(0, self._waiting())
            return self.size, self._occupied - waiting, waiting

    @property
    def stuck_for(self) -> float:
        """The seconds for which all slots have been occupied by the same tasks; 0 if one is free."""
        with self._lock:
            if not 0 < self.size <= self._occupied:
                return 0.0
            return self._clock() - max(self._submitted_at, self._freed_at)

    def wait_until_idle(self, timeout: float | None) -> bool:
        """Wait until no slot is occupied. Return False on timeout."""
        with self._changed:
            limit = None if timeout is None else min(timeout, MAX_WAIT)
            return self._changed.wait_for(lambda: self._occupied == 0, limit)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Run tasks, each in one slot. The caller has made sure that there is room for them."""
        with self._lock:
            self._submitted_at = self._clock()
            if not self._tasks:
                self._began_at = self._submitted_at
            self._occupied += len(tasks)
            self._tasks.extend(tasks)
            self._wake_one()

    def adopt(self, task: Task) -> None:
        """Run a task at once, in a slot that is taken even if none is free: what it stands for runs already."""
        with self._lock:
            self._occupied += 1
        self.resume(task)

    def release(self, seconds: float | None = None) -> bool:
        """Free a slot after a task that ran for `seconds`. Return True if the caller should submit more tasks."""
        with self._changed:
            if seconds is not None:
                self._pace.ended(seconds)
            self._occupied -= 1
            self._freed_at = self._clock()
            if self._tasks and self._idle:
                self._wake_one()
            if self._occupied == 0:
                self._changed.notify_all()
            return self._occupied == self._wake_at

    def is_worth_filling(self, at_most: int) -> bool:
        """Return whether there is room for so many tasks that it is worth to fetch them now.

        If not, `release` returns True as soon as there is. `at_most` is the largest number that is fetched at once.
        """
        with self._lock:
            limit = self.size + self._pace.ahead(self._clock())
            worthwhile = max(1, min(limit // 2, at_most))
            # Long jobs do not wait for each other: the first free slot counts.
            self._wake_at = limit - worthwhile if self._pace.is_fast else self.size - 1
            return limit - self._occupied >= worthwhile

    def resize(self, size: int) -> bool:
        """Set the number of slots. Tasks that have started keep theirs. Return whether there are more than before."""
        with self._lock:
            has_grown = size > self.size
            self.size, self._wake_at = size, size - 1
            self._wake_one()
            return has_grown

    @property
    def has_waiting(self) -> bool:
        """True if tasks wait for a slot."""
        with self._lock:
            return self._waiting() > 0

    def take_back(self, patience: float) -> list[Task]:
        """Remove the tasks that wait for a slot, if none has started for `patience` seconds, or if they were submitted
        so long ago and the tasks that run are no longer short.

        Their slots remain occupied until the caller releases them.
        """
        with self._lock:
            waiting = self._waiting()
            if waiting <= 0:
                return []
            since = self._began_at if self._pace.is_fast else self._submitted_at
            if self._clock() - since < patience:
                return []
            # Otherwise this node would fire the same triggers ahead again.
            self._pace.stalled()
            return [self._tasks.pop() for _ in range(waiting)]

    def remove(self, chosen: Callable[[Task], bool]) -> list[Task]:
        """Remove the tasks that wait for a slot and are `chosen`. Their slots remain occupied, as in `take_back`."""
        with self._lock:
            waiting = self._waiting()
            if waiting <= 0:
                return []
            last = [self._tasks.pop() for _ in range(waiting)]
            removed = [task for task in last if chosen(task)]
            self._tasks.extend(task for task in reversed(last) if not chosen(task))
            return removed

    def _waiting(self) -> int:
        return min(len(self._tasks), self._occupied - self.size)

    def _can_start(self) -> bool:
        return bool(self._resumed or (self._tasks and self._occupied - len(self._tasks) < self.size))

    def close(self) -> None:
        """End the threads after they have run all submitted tasks."""
        with self._changed:
            self._closed = True
            self._end_idle()
            self._changed.notify_all()

    def _end_idle(self) -> None:
        for semaphore in self._idle:
            semaphore.release()
        self._idle.clear()

    def resume(self, task: Task) -> None:
        """Run a task in a slot that is taken already: a part of what was submitted before."""
        with self._lock:
            self._resumed.append(task)
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
        if self._waking or not self._can_start():
            return
        if self._idle:
            self._waking = True
            self._idle.pop().release()
        elif len(self._threads) < self._most_threads:
            thread = self._starting.of(self._work, f"{self.name}-{next(self._numbers)}")
            # If no thread can be started, the existing threads run the tasks.
            if thread is not None:
                self._threads.append(thread)
                self._waking = True

    def _next(self) -> Task | None:
        if self._resumed:
            return self._resumed.popleft()
        if not self._can_start():
            return None
        self._began_at = self._clock()
        return self._tasks.popleft()

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
                task = self._next()
                if task is not None:
                    self._wake_one()
                elif self._closed and not self._tasks:
                    self._end_idle()
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
