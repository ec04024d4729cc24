"""A stream of the events of the whole cluster: executions that start and end, nodes that join and leave.

A watcher polls the tables for changes, so it needs no message broker. To reduce the latency, it sends a notification
every few seconds; nodes that receive it announce the executions that they record, at most ten times a second, and send
nothing while there is no watcher. Where notifications do not arrive (behind a pooler, or after a connection was lost),
the watcher still polls every `poll_interval`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from quartzpy.errors import OutcomeUnknownError, QuartzpyError, StoreUnavailableError
from quartzpy.store.protocol import JobStore, Notification, Subscription
from quartzpy.store.queries import ExecutionQuery
from quartzpy.store.records import ExecutionRecord, NodeRecord, RunningRecord

logger = logging.getLogger(__name__)

WATCH_EVERY = 5.0
"""The interval, in seconds, of the notifications by which nodes know of this watcher."""
FIRST_PAGE, LAST_PAGE = 100, 100_000
"""The number of latest executions that a poll reads. It grows from the first value while the oldest ones are new."""
DEEP_POLL_EVERY = 30.0
"""The interval, in seconds, of polls that go back by `LOOKBACK` for executions that were recorded late."""
LOOKBACK = timedelta(minutes=5)
LOCAL_POLL_EVERY = 0.05
"""The polling interval, in seconds, of the in-memory store, which sends no notifications."""
MAX_WAIT = 0.25
"""The longest single wait for a notification, in seconds. `close` takes effect within this time."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """The base class of the events of a cluster."""


@dataclass(frozen=True, slots=True)
class ExecutionStarted(ClusterEvent):
    """An execution has started. One that starts and ends between two polls is only reported as ended."""

    execution: RunningRecord


@dataclass(frozen=True, slots=True)
class ExecutionEnded(ClusterEvent):
    """An execution has ended and is in the history. Its record has the outcome, the node and the times."""

    execution: ExecutionRecord


@dataclass(frozen=True, slots=True)
class NodeJoined(ClusterEvent):
    """A node has joined the cluster, or rejoined it with a new epoch."""

    node: NodeRecord


@dataclass(frozen=True, slots=True)
class NodeLeft(ClusterEvent):
    """A node has left the cluster or was declared dead; its epoch has ended."""

    node: NodeRecord


class ClusterEvents:
    """An iterator over the events of the cluster from now on, until it is closed.

    Iteration blocks until the next event. The events of one poll come in this order: nodes that joined, executions that
    started, executions that ended (in the order of their end times), nodes that left. The end of each execution is
    reported once, unless it is recorded more than five minutes late. During an outage of the database there are no
    events, and `outage` says so; executions that ended meanwhile are reported afterwards. It holds a database
    connection: use it in a `with` block, or call `close`.
    """

    def __init__(self, store: Callable[[], JobStore], poll_interval: float) -> None:
        self._store = store
        self._poll_interval = poll_interval
        self._closed = threading.Event()
        self._queue: deque[ClusterEvent] = deque()
        self._subscription: Subscription | None = None
        self._running: dict[int, RunningRecord] = {}
        self._nodes: dict[int, NodeRecord] = {}
        self._reported: dict[int, datetime] = {}
        self._outage: QuartzpyError | None = None
        self._began = self._reported_up_to = store().list_nodes().now
        self._watched_at = self._deep_poll_at = float("-inf")
        self._poll(first=True)
        self._subscribe()

    def __iter__(self) -> Iterator[ClusterEvent]:
        while (event := self.next()) is not None:
            yield event

    def next(self, timeout: float | None = None) -> ClusterEvent | None:
        """Return the next event, or None if this is closed or no event comes within `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        poll_at = time.monotonic()
        while not self._queue and not self._closed.is_set():
            now = time.monotonic()
            if deadline is not None and now > deadline:
                return None
            if self._is_notified() or now >= poll_at:
                poll_at = time.monotonic() + self._period
                self._poll_with_retry()
        return self._queue.popleft() if self._queue else None

    @property
    def outage(self) -> QuartzpyError | None:
        """The error of the last attempt to read the database; None if that succeeded.

        Iteration waits for the end of an outage. To notice one, call `next` with a timeout.
        """
        return self._outage

    def close(self) -> None:
        """End the iteration, including one that another thread waits in, and release the connection."""
        self._closed.set()
        self._unsubscribe()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- notifications

    @property
    def _period(self) -> float:
        return self._poll_interval if self._subscription is not None else min(self._poll_interval, LOCAL_POLL_EVERY * 5)

    def _subscribe(self) -> None:
        self._subscription = self._store().subscribe()
        self._watched_at = float("-inf")
        if self._closed.is_set():
            # Closed by another thread, which found no subscription to close.
            self._unsubscribe()

    def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.close()

    def _is_notified(self) -> bool:
        """Wait briefly for a notification. Return whether one arrived."""
        subscription = self._subscription
        if subscription is None:
            self._closed.wait(LOCAL_POLL_EVERY)
            return False
        try:
            if time.monotonic() - self._watched_at >= WATCH_EVERY:
                self._watched_at = time.monotonic()
                self._store().notify(Notification.WATCHED)
            return bool(set(subscription.wait(MAX_WAIT)) - {Notification.WATCHED})
        except (StoreUnavailableError, OutcomeUnknownError) as error:
            logger.debug("cluster events: the connection for notifications was lost: %s", error)
            self._unsubscribe()
            return False

    # --- polling

    def _poll_with_retry(self) -> None:
        try:
            if self._subscription is None and not self._closed.is_set():
                self._subscribe()
            self._poll()
            self._outage = None
        except (StoreUnavailableError, OutcomeUnknownError) as error:
            self._outage = error
            logger.debug("cluster events: the database is unavailable: %s", error)
            self._closed.wait(MAX_WAIT)

    def _poll(self, *, first: bool = False) -> None:
        store = self._store()
        running = {row.fire_id: row for row in store.list_running() if row.state == "EXECUTING"}
        is_deep = time.monotonic() - self._deep_poll_at >= DEEP_POLL_EVERY
        ended = self._newly_ended(store, is_deep)
        nodes = {node.epoch: node for node in store.list_nodes().nodes}
        # No query follows that could fail: what counts as reported is in the queue.
        self._note_reported(ended, is_deep)
        events: list[ClusterEvent] = [NodeJoined(nodes[epoch]) for epoch in sorted(nodes.keys() - self._nodes.keys())]
        started = sorted(running.keys() - self._running.keys() - self._reported.keys())
        events += [ExecutionStarted(running[fire_id]) for fire_id in started]
        events += [ExecutionEnded(record) for record in ended]
        events += [NodeLeft(self._nodes[epoch]) for epoch in sorted(self._nodes.keys() - nodes.keys())]
        self._running, self._nodes = running, nodes
        if not first:
            self._queue.extend(events)

    def _newly_ended(self, store: JobStore, is_deep: bool) -> list[ExecutionRecord]:
        """Return the executions that have ended since the last poll, in the order of their end times."""
        oldest = max(self._began, self._reported_up_to - LOOKBACK)
        limit = FIRST_PAGE
        while True:
            latest = store.find(ExecutionQuery(), limit)
            oldest_are_reported = not is_deep and all(
                _id(record) in self._reported for record in latest[-FIRST_PAGE // 2 :]
            )
            reached = bool(latest) and (latest[-1].ended_at or oldest) < oldest
            if len(latest) < limit or oldest_are_reported or reached or limit >= LAST_PAGE:
                break
            limit *= 10
        ended = [
            record
            for record in latest
            if record.ended_at is not None and record.ended_at >= oldest and _id(record) not in self._reported
        ]
        return ended[::-1]

    def _note_reported(self, ended: list[ExecutionRecord], is_deep: bool) -> None:
        for record in ended:
            assert record.ended_at is not None
            self._reported[_id(record)] = record.ended_at
            self._reported_up_to = max(self._reported_up_to, record.ended_at)
        if is_deep:
            self._deep_poll_at = time.monotonic()
            oldest = self._reported_up_to - LOOKBACK
            self._reported = {fire_id: at for fire_id, at in self._reported.items() if at >= oldest}


def _id(record: ExecutionRecord) -> int:
    return -1 if record.fire_id is None else record.fire_id
