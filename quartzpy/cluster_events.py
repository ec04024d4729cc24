"""The events of a whole cluster, for a program that watches it: what runs, what ended, which nodes come and go.

The tables are the source: a watcher reads what has changed since it last looked. So it needs no broker, and all that a
node does for it is to send a notification now and then, and only while somebody watches. A watcher says every few
seconds that it watches; the nodes that hear it announce the executions that they record, at most ten times a second.
Where no notification arrives (behind a pooler, or after a lost connection) the watcher looks every `look_every` all the
same.
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

from quartzpy.errors import OutcomeUnknownError, StoreUnavailableError
from quartzpy.store.protocol import JobStore, Notification, Subscription
from quartzpy.store.queries import ExecutionQuery
from quartzpy.store.records import ExecutionRecord, NodeRecord, RunningRecord

logger = logging.getLogger(__name__)

WATCH_EVERY = 5.0
"""Seconds between two messages to the nodes that somebody watches."""
FIRST_PAGE, LAST_PAGE = 100, 100_000
"""How many of the latest executions a look reads: the first number, and more while the oldest of them are unknown."""
DEEP_EVERY = 30.0
"""Seconds between two looks that go back for `LOOKS_BACK`, for executions that were recorded long after they ended."""
LOOKS_BACK = timedelta(minutes=5)
LOCAL_LOOK_EVERY = 0.05
"""Seconds between two looks at a store in memory, which sends no notifications."""
LONGEST_WAIT = 0.25
"""Seconds of one wait for a notification; `close` takes effect within that time."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something that happened in the cluster, on whichever node."""


@dataclass(frozen=True, slots=True)
class ExecutionStarted(ClusterEvent):
    """An execution runs. One that begins and ends between two looks is only told as ended."""

    execution: RunningRecord


@dataclass(frozen=True, slots=True)
class ExecutionEnded(ClusterEvent):
    """An execution has ended and is in the history: its record has the outcome, the node and the times."""

    execution: ExecutionRecord


@dataclass(frozen=True, slots=True)
class NodeJoined(ClusterEvent):
    """A node has joined the cluster, or rejoined it under a new epoch."""

    node: NodeRecord


@dataclass(frozen=True, slots=True)
class NodeLeft(ClusterEvent):
    """A node has left the cluster, or was found dead; its epoch is over."""

    node: NodeRecord


class ClusterEvents:
    """Iterates over the events of the cluster from now on, for ever, or until it is closed.

    Iterating blocks while nothing happens. Events of one look are told in this order: nodes that joined, executions
    that started, executions that ended (in the order of their ends), nodes that left. Each end of an execution is told
    once, unless it is recorded more than five minutes after it happened. While the database is away nothing is told;
    what has ended meanwhile is told when it is back. Use it in a `with` block or call `close`: it holds a connection.
    """

    def __init__(self, store: Callable[[], JobStore], look_every: float) -> None:
        self._store = store
        self._look_every = look_every
        self._closed = threading.Event()
        self._waiting: deque[ClusterEvent] = deque()
        self._subscription: Subscription | None = None
        self._running: dict[int, RunningRecord] = {}
        self._nodes: dict[int, NodeRecord] = {}
        self._told: dict[int, datetime] = {}
        self._began = self._seen_up_to = store().list_nodes().now
        self._watched_at = self._deep_at = float("-inf")
        self._look(first=True)
        self._subscribe()

    def __iter__(self) -> Iterator[ClusterEvent]:
        while (event := self.next()) is not None:
            yield event

    def next(self, timeout: float | None = None) -> ClusterEvent | None:
        """Return the next event. None: it was closed, or none came within `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        look_at = time.monotonic()
        while not self._waiting and not self._closed.is_set():
            now = time.monotonic()
            if deadline is not None and now > deadline:
                return None
            if self._has_heard() or now >= look_at:
                look_at = time.monotonic() + self._period
                self._look_patiently()
        return self._waiting.popleft() if self._waiting else None

    def close(self) -> None:
        """End the iteration, which is noticed soon where another thread waits in it, and give back the connection."""
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
        return self._look_every if self._subscription is not None else min(self._look_every, LOCAL_LOOK_EVERY * 5)

    def _subscribe(self) -> None:
        self._subscription = self._store().subscribe()
        self._watched_at = float("-inf")

    def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.close()

    def _has_heard(self) -> bool:
        """Wait a moment for a notification. Return whether one came."""
        subscription = self._subscription
        if subscription is None:
            self._closed.wait(LOCAL_LOOK_EVERY)
            return False
        try:
            if time.monotonic() - self._watched_at >= WATCH_EVERY:
                self._watched_at = time.monotonic()
                self._store().notify(Notification.WATCHED)
            return bool(set(subscription.wait(LONGEST_WAIT)) - {Notification.WATCHED})
        except (StoreUnavailableError, OutcomeUnknownError) as error:
            logger.debug("cluster events: notifications are lost: %s", error)
            self._unsubscribe()
            return False

    # --- looks

    def _look_patiently(self) -> None:
        try:
            if self._subscription is None and not self._closed.is_set():
                self._subscribe()
            self._look()
        except (StoreUnavailableError, OutcomeUnknownError) as error:
            logger.debug("cluster events: the database is unavailable: %s", error)
            self._closed.wait(LONGEST_WAIT)

    def _look(self, *, first: bool = False) -> None:
        store = self._store()
        running = {row.fire_id: row for row in store.list_running() if row.state == "EXECUTING"}
        ended = self._newly_ended(store)
        nodes = {node.epoch: node for node in store.list_nodes().nodes}
        told: list[ClusterEvent] = [NodeJoined(nodes[epoch]) for epoch in sorted(nodes.keys() - self._nodes.keys())]
        started = sorted(running.keys() - self._running.keys() - self._told.keys())
        told += [ExecutionStarted(running[fire_id]) for fire_id in started]
        told += [ExecutionEnded(record) for record in ended]
        told += [NodeLeft(self._nodes[epoch]) for epoch in sorted(self._nodes.keys() - nodes.keys())]
        self._running, self._nodes = running, nodes
        if not first:
            self._waiting.extend(told)

    def _newly_ended(self, store: JobStore) -> list[ExecutionRecord]:
        """Return the executions that have ended since the last look, in the order in which they ended."""
        now = time.monotonic()
        deep = now - self._deep_at >= DEEP_EVERY
        horizon = max(self._began, self._seen_up_to - LOOKS_BACK)
        limit = FIRST_PAGE
        while True:
            latest = store.find_executions(ExecutionQuery(), limit)
            oldest_are_known = not deep and all(_id(one) in self._told for one in latest[-FIRST_PAGE // 2 :])
            reached = bool(latest) and (latest[-1].ended_at or horizon) < horizon
            if len(latest) < limit or oldest_are_known or reached or limit >= LAST_PAGE:
                break
            limit *= 10
        found = [
            one for one in latest if one.ended_at is not None and one.ended_at >= horizon and _id(one) not in self._told
        ]
        for one in found:
            assert one.ended_at is not None
            self._told[_id(one)] = one.ended_at
            self._seen_up_to = max(self._seen_up_to, one.ended_at)
        if deep:
            self._deep_at = now
            horizon = self._seen_up_to - LOOKS_BACK
            self._told = {fire_id: at for fire_id, at in self._told.items() if at >= horizon}
        return found[::-1]


def _id(record: ExecutionRecord) -> int:
    return -1 if record.fire_id is None else record.fire_id
