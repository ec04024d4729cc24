"""The thread of the event loop that runs `async def` jobs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


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

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, work: Coroutine[Any, Any, None]) -> LoopWork:
        """Begin `work` on the loop. It must not raise."""
        loop = self._started()
        begun = LoopWork(loop)
        loop.call_soon_threadsafe(self._begin, begun, work)
        return begun

    def close(self, timeout: float) -> None:
        """Cancel what still runs and end the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(self._cancel_all, loop)
        thread.join(timeout)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._serve, args=(self._loop,), name=self.name, daemon=True)
                self._thread.start()
            return self._loop

    # --- supervision

    def is_alive(self) -> bool:
        """Whether the thread runs, or is not needed."""
        with self._lock:
            return self._thread is None or self._thread.is_alive()

    def restart(self) -> None:
        """Serve the same loop in a new thread: what runs on it goes on. RuntimeError: none can be started."""
        with self._lock:
            if self._loop is not None:
                thread = threading.Thread(target=self._serve, args=(self._loop,), name=self.name, daemon=True)
                thread.start()
                self._thread = thread

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        except BaseException:
            # A SystemExit of a task ends the loop's run, not the loop: it stays open, to be served again.
            logger.exception("the event loop was interrupted")
            return
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _begin(self, begun: LoopWork, work: Coroutine[Any, Any, None]) -> None:
        # The loop itself keeps only weak references to tasks.
        begun.task = task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _cancel_all(self, loop: asyncio.AbstractEventLoop) -> None:
        for task in self._tasks:
            task.cancel()
        loop.call_soon(self._stop_when_idle, loop)

    def _stop_when_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._tasks:
            loop.call_later(0.01, self._stop_when_idle, loop)
        else:
            loop.stop()
