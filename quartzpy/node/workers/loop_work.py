"""Coroutines on the event loop of a node: their tasks, and how other threads cancel them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

MAX_AWAITS_OF_THE_LOST = 10
"""The number of times that a coroutine whose loop has ended may await something before it is given up."""

Done = Callable[..., None]
"""Called when a coroutine has ended; with the error if the loop ended before it."""


class JobTask(asyncio.Task[None]):
    """The task of a coroutine that was begun on the thread of the loop."""

    __slots__ = ("done_call",)
    done_call: Done | None

    def cancel_after(self, seconds: float) -> None:
        """Cancel the task at its next `await` after `seconds`, unless it ends before. Any thread may call this."""
        _call_later(self.get_loop(), seconds, self.cancel)

    def lose(self, error: BaseException) -> None:
        """End the coroutine with `error`, because no loop runs it any more, and tell who waits for its end."""
        done, self.done_call = self.done_call, None
        # Its own clean-up may await something, which nobody will ever wake.
        for _ in range(MAX_AWAITS_OF_THE_LOST):
            try:
                self.get_coro().throw(error)
            except BaseException:
                break
        self._log_destroy_pending = False
        if done is not None:
            done(error)


class LoopWork:
    """A coroutine on the loop, or on its way there from another thread.

    It drops everything once the coroutine has ended, because its execution keeps it until it is recorded, and the
    garbage collector visits all objects that are kept.
    """

    __slots__ = ("_begin", "_done", "_loop", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop, done: Done | None = None) -> None:
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

    def ended(self, *lost: BaseException) -> None:
        self.task = None
        done, self._done = self._done, None
        if done is not None:
            done(*lost)

    def cancel_after(self, seconds: float) -> None:
        """Cancel the task at its next `await` after `seconds`, unless it ends before."""
        task = self.task
        _call_later(self._loop if task is None else task.get_loop(), seconds, self._cancel)

    def _cancel(self) -> None:
        self.begin()  # If it has not begun yet, so that it ends like all others.
        if self.task is not None:
            self.task.cancel()


def _call_later(loop: asyncio.AbstractEventLoop, seconds: float, call: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError):  # The loop is closed, so all its tasks have ended.
        loop.call_soon_threadsafe(loop.call_later, seconds, call)
