"""Live pages: one stream of server-sent events per visible page, which names the topics that have changed.

The page then fetches its content again. A thread watches the events of the cluster while at least one page is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from quartzpy.dashboard import cookies
from quartzpy.errors import QuartzpyError
from quartzpy.scheduler.cluster_events import ClusterEvent, ExecutionEnded, ExecutionStarted
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.texts import reason

logger = logging.getLogger(__name__)

EXECUTIONS, NODES, SCHEDULE, AUDIT = "executions", "nodes", "schedule", "audit"
"""The topics. AUDIT comes with the progress of this process's actions. SCHEDULE comes every few seconds, for changes
that no event announces, such as pauses."""
SCHEDULE_EVERY = 5.0
DEBOUNCE = 0.25
"""The time, in seconds, for which a stream gathers topics before it sends them."""
PING_EVERY = 15.0
"""The longest silence of a stream, in seconds; proxies close silent ones."""
RETRY_AFTER = 2.0
MAX_STREAMS = 200
"""The largest number of open streams of a process. Further pages ask every ten seconds instead."""
MAX_STREAMS_OF_ONE = 20
"""The same of one session or browser."""
_MAX_WAIT = 0.5


class TooManyStreamsError(Exception):
    """No further stream can be opened now."""

    def __init__(self, of_one: bool) -> None:
        super().__init__("too many pages of this browser are open" if of_one else "too many pages are open")
        self.of_one = of_one


class Watcher:
    """One open stream: the topics that it has not sent yet."""

    def __init__(self, reader: object = None) -> None:
        self.reader = reader
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._topics: set[str] = set()
        self.closed = False

    def publish(self, *topics: str) -> None:
        """Add topics, from any thread."""
        self._call(self._add, topics)

    def close(self) -> None:
        """End the stream, from any thread."""
        self.closed = True
        self._call(self._changed.set)

    async def next(self, timeout: float) -> set[str]:
        """Return the topics that have changed; an empty set after `timeout` seconds without one."""
        try:
            await asyncio.wait_for(self._changed.wait(), timeout)
        except TimeoutError:
            return set()
        if not self.closed:
            await asyncio.sleep(DEBOUNCE)
        self._changed.clear()
        topics, self._topics = self._topics, set()
        return topics

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        # The loop of a server that has ended is closed; nobody reads the stream any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _add(self, topics: tuple[str, ...]) -> None:
        self._topics.update(topics)
        self._changed.set()


class LiveHub:
    """Tells the open streams of a process which topics have changed."""

    def __init__(self, scheduler: BaseScheduler) -> None:
        self._scheduler = scheduler
        self._watchers: set[Watcher] = set()
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()
        self._rest = threading.Event()
        self._is_outage = False
        self.closed = False

    def open(self, reader: object) -> Watcher:
        """Open a stream of a reader: a session or a browser. `leave` closes it.

        Raises:
            TooManyStreamsError: this reader, or all readers together, have too many.
        """
        with self._guard:
            of_one = sum(watcher.reader == reader for watcher in self._watchers)
            if of_one >= MAX_STREAMS_OF_ONE or len(self._watchers) >= MAX_STREAMS:
                raise TooManyStreamsError(of_one >= MAX_STREAMS_OF_ONE)
            watcher = Watcher(reader)
            self._watchers.add(watcher)
            self._start()
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Close a stream whose reader has gone."""
        with self._guard:
            self._watchers.discard(watcher)

    async def stream(self, watcher: Watcher | None = None) -> AsyncIterator[str]:
        """Yield server-sent events until the reader leaves or the hub is closed."""
        if watcher is None:
            watcher = self.open(object())
        try:
            yield "retry: 2000\nevent: hello\ndata: \n\n"
            while not (self.closed or watcher.closed):
                topics = await watcher.next(PING_EVERY)
                yield f"event: changed\ndata: {' '.join(sorted(topics))}\n\n" if topics else ": ping\n\n"
        finally:
            self.leave(watcher)

    def changed(self, *topics: str) -> None:
        """Tell the open streams at once about a change that was made here."""
        for topic in topics:
            self._publish(topic)

    def close(self) -> None:
        """End all streams, so that the server can stop. It takes no lock, so a signal handler may call it."""
        self.closed = True
        self._rest.set()
        for watcher in tuple(self._watchers):
            watcher.close()

    def _start(self) -> None:
        if self._thread is None and not self.closed:
            thread = threading.Thread(target=self._watch, name="quartzpy-dashboard-live", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # The system refuses another thread; the next stream tries again.
                logger.warning("dashboard: the pages are not updated: %s", error)
            else:
                self._thread = thread

    def _watch(self) -> None:
        while self._is_needed():
            try:
                self._publish_events()
            except Exception as error:
                # Without this thread no page would change any more.
                self._publish_outage(error)

    def _is_needed(self) -> bool:
        """Return whether streams are open. If none is, the thread ends, and the next stream starts another."""
        with self._guard:
            if self._watchers and not self.closed:
                return True
            self._thread = None
            return False

    def _publish_events(self) -> None:
        schedule_at = time.monotonic() + SCHEDULE_EVERY
        with self._scheduler.cluster_events() as events:
            while self._watchers and not self.closed:
                event = events.next(_MAX_WAIT)
                if event is not None:
                    self._publish(_topic(event))
                if events.outage is not None:
                    self._publish_outage(events.outage)
                else:
                    self._note_end_of_outage()
                if time.monotonic() >= schedule_at:
                    schedule_at = time.monotonic() + SCHEDULE_EVERY
                    self._publish(SCHEDULE)

    def _publish_outage(self, error: Exception) -> None:
        """Have each page ask again, whatever it shows: so its reader learns of the outage."""
        if self.closed:
            # The process ends, and has shut the scheduler down.
            return
        if not self._is_outage:
            self._is_outage = True
            text = "dashboard: the events of the cluster are unavailable: %s"
            logger.warning(text, reason(error), exc_info=None if isinstance(error, QuartzpyError) else error)
        for topic in (EXECUTIONS, NODES, SCHEDULE):
            self._publish(topic)
        self._rest.wait(RETRY_AFTER)

    def _note_end_of_outage(self) -> None:
        if self._is_outage:
            self._is_outage = False
            logger.warning("dashboard: the events of the cluster are available again")

    def _publish(self, topic: str) -> None:
        for watcher in tuple(self._watchers):
            watcher.publish(topic)


def _topic(event: ClusterEvent) -> str:
    return EXECUTIONS if isinstance(event, ExecutionStarted | ExecutionEnded) else NODES


RETRY_STREAM_AFTER = 10
"""The time, in seconds, after which a page that got no stream asks again."""


async def serve_stream(request: Request) -> Response:
    hub: LiveHub = request.app.state.hub
    try:
        return _Stream(hub, hub.open(_reader(request)))
    except TooManyStreamsError as error:
        status = 429 if error.of_one else 503
        return PlainTextResponse(f"{error}; close some\n", status, {"Retry-After": str(RETRY_STREAM_AFTER)})


def _reader(request: Request) -> object:
    """Whom a stream is counted for: a session that was checked, else a browser of an actor."""
    if (session := getattr(request.state, "session", None)) is not None:
        return session
    return request.state.actor.name, cookies.address_of(request), cookies.read(request, cookies.CSRF_COOKIE)


class _Stream(StreamingResponse):
    def __init__(self, hub: LiveHub, watcher: Watcher) -> None:
        # Proxies such as nginx gather a response before they pass it on, unless a header forbids it.
        unbuffered = {"X-Accel-Buffering": "no"}
        super().__init__(hub.stream(watcher), media_type="text/event-stream", headers=unbuffered)
        self._hub = hub
        self._watcher = watcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # The stream does not end by itself if it has not begun.
            self._hub.leave(self._watcher)
