"""A clock that stands still until a test moves it, and the waits that move it.

They are those of plain jobs, of `async def` jobs that sleep, and of timeouts.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar, TypeVarTuple

from quartzpy.errors import InvalidValueError
from quartzpy.instants import as_instant
from quartzpy.jobs.context import Cancellation
from quartzpy.node.workers.deadlines import Deadlines
from quartzpy.node.workers.execution import Execution
from quartzpy.node.workers.loop_work import LoopWork

DEFAULT_START = datetime(2026, 1, 1, tzinfo=UTC)
_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")


class ManualClock:
    """A clock that stands still until it is moved, and calls functions at instants on its way."""

    def __init__(self, start: datetime = DEFAULT_START) -> None:
        self._start = self._now = as_instant(start, "start")
        self._heap: list[tuple[datetime, int]] = []
        self._actions: dict[int, Callable[[], object]] = {}
        self._numbers = count(1)

    def now(self) -> datetime:
        """Return the time that the clock shows."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds since the start of the clock."""
        return (self._now - self._start).total_seconds()

    def move_to(self, instant: datetime) -> None:
        """Set the clock to a later instant, and make the calls of `call_at` that are due on the way.

        Raises:
            InvalidValueError: The clock would go back.
        """
        self.move_while(instant, lambda: True)

    def advance(self, span: timedelta) -> None:
        """Move the clock forward by `span`. A job under test, or a stand-in that it calls, simulates its duration so.

        Raises:
            InvalidValueError: The clock would go back.
        """
        self.move_to(self._now + span)

    def move_while(self, instant: datetime, goes_on: Callable[[], bool]) -> None:
        """Move the clock to `instant`, or only to the first call after which `goes_on()` returns False.

        Raises:
            InvalidValueError: The clock would go back.
        """
        if instant < self._now:
            raise InvalidValueError(f"clock: {instant.isoformat()} is before {self._now.isoformat()}")
        while (following := self.next_call()) is not None and following <= instant:
            _, number = heapq.heappop(self._heap)
            self._now = max(self._now, following)
            self._actions.pop(number)()
            if not goes_on():
                return
        self._now = max(self._now, instant)

    def call_at(self, instant: datetime, action: Callable[[], object]) -> int:
        """Call `action` when the clock passes `instant`. Returns a number for `cancel`."""
        number = next(self._numbers)
        self._actions[number] = action
        heapq.heappush(self._heap, (as_instant(instant, "instant"), number))
        return number

    def cancel(self, number: int) -> None:
        """Cancel a call. Does nothing if the call has been made already."""
        self._actions.pop(number, None)

    def next_call(self) -> datetime | None:
        """Return the instant of the next call, or None if there is none."""
        while self._heap and self._heap[0][1] not in self._actions:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


class ClockDeadlines(Deadlines):
    """Deadlines that expire when the clock passes them, on the thread that moves it."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__("deadlines", clock)
        self._manual = clock

    def add(self, seconds: float, action: Callable[[], None]) -> int:
        return self._manual.call_at(self._manual.now() + timedelta(seconds=seconds), action)

    def cancel(self, number: int) -> None:
        self._manual.cancel(number)


class ClockCancellation(Cancellation):
    """A request to stop. Waiting for it moves the clock and takes no time."""

    __slots__ = ("_clock",)

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        if self.is_requested:
            return True
        if timeout is not None:
            end = self._clock.now() + timedelta(seconds=timeout)
            self._clock.move_while(end, lambda: not self.is_requested)
            return self.is_requested
        while not self.is_requested:
            following = self._clock.next_call()
            if following is None:
                raise InvalidValueError(
                    "the job waits without a timeout, and no call is scheduled that could end its wait"
                )
            self._clock.move_while(following, lambda: not self.is_requested)
        return True


class _ClockSelector(selectors.DefaultSelector):
    """Moves the clock when an event loop would wait for its next timer.

    While the loop waits for something outside of it (a thread, a socket), real time passes.
    """

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock
        self.outside = 0
        """Threads that the loop waits for."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        if ready := super().select(0):
            return ready
        # One file belongs to the loop itself: other threads wake it by that.
        if (self.outside or len(self.get_map()) > 1) and (ready := super().select(timeout)):
            return ready
        if timeout is not None:
            # The clock counts microseconds, and a timer may be due a fraction of one later.
            span = timedelta(microseconds=max(1, round(timeout * 1e6)))
            # A call on the way may have given the loop work before its timer is due.
            self._clock.move_while(self._clock.now() + span, lambda: False)
            return []
        following = self._clock.next_call()
        if following is None:
            return super().select(None)
        self._clock.move_to(max(following, self._clock.now()))
        return []


class _ClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is that of the clock."""

    runs_calls_inline = True
    """The transaction of a job blocks the loop, which has no other job: see `quartzpy.jobs.job_transaction`."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock_selector = _ClockSelector(clock)
        self._manual = clock
        super().__init__(self._clock_selector)

    def time(self) -> float:
        return self._manual.monotonic()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Arguments], _Result], *args: *_Arguments
    ) -> asyncio.Future[_Result]:
        future = super().run_in_executor(executor, func, *args)
        self._clock_selector.outside += 1
        future.add_done_callback(self._came_back)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        # Without the limit of the runner, which would be one of the clock: real threads are waited for.
        self._clock_selector.outside += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._clock_selector.outside -= 1

    def _came_back(self, future: object) -> None:
        self._clock_selector.outside -= 1


class ClockLoop:
    """Runs each `async def` job to its end, in an event loop that moves the clock instead of waiting."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.execution: Execution | None = None
        """The execution that runs; its timeout cuts off the work on the loop."""

    def run(self, work: Coroutine[Any, Any, None], name: str, done: Callable[[], None]) -> LoopWork | None:
        """Run `work` to its end, and call `done`."""
        if _is_in_event_loop():
            # The test itself is asynchronous: no thread can run two event loops at once.
            thread = threading.Thread(target=self._run, args=(work,), name=name)
            thread.start()
            thread.join()
        else:
            self._run(work)
        done()
        return None

    @staticmethod
    def call(begin: Callable[[], None]) -> None:
        """Call `begin` on the calling thread, which then runs the coroutine to its end."""
        begin()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        execution = self.execution

        async def watched() -> None:
            if execution is not None:
                on_loop = LoopWork(asyncio.get_running_loop())
                on_loop.task = asyncio.current_task()
                execution.work = on_loop
                if execution.cancelled.is_requested:
                    execution.stop()
            await work

        try:
            with asyncio.Runner(loop_factory=lambda: _ClockLoop(self._clock)) as runner:
                runner.run(watched())
        finally:
            if execution is not None:
                execution.work = None


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
