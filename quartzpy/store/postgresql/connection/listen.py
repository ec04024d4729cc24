"""Wakes other nodes with LISTEN and _SQL.notify.

A commit with a notification takes a lock of the whole server. So a transaction notifies at most once, and only if a
node may be asleep beyond the new fire time: if no trigger is due earlier that wakes every node which can take the new
one. TRIGGER_ACCESS protects that decision: a later `acquire` sees the new trigger, and what a node refuses is stored
under it, too.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from quartzpy.errors import StoreUnavailableError
from quartzpy.instants import LATEST
from quartzpy.keys import JobKey
from quartzpy.store.postgresql.connection.error_translation import translate
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.probing import answers
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.protocol import Notification

logger = logging.getLogger(__name__)

PROBE_EVERY = 5.0
"""The interval, in seconds, at which a connection is probed on which nothing arrives."""
_SQL = SqlFile("connection/listen.sql")
ANNOUNCE = _SQL("announce")
_KNOWN = frozenset(Notification)
MAX_COMPARED = 20
"""The number of jobs up to which it is read whether a node may be asleep beyond their triggers.

The read passes over the rows that the transaction has written itself, for each job: of many jobs, and so of many
triggers, it would cost the square of their number, under the lock.
"""


def announcement(
    session: SqlSession, due: Iterable[tuple[JobKey, datetime]], what: Notification = Notification.SCHEDULED
) -> list[BoundStatement]:
    """Return the statement that wakes sleeping nodes for these triggers; run it under TRIGGER_ACCESS."""
    soonest: dict[JobKey, datetime] = {}
    for key, at in due:
        soonest[key] = min(at, soonest.get(key, at))
    if not soonest:
        return []
    if not session.decides_at_once or len(soonest) > MAX_COMPARED:
        # In a user's transaction, a node may wake and fall asleep again before the commit, so notify in any case.
        return [news(session, what)]
    return [
        session.bind(
            ANNOUNCE,
            channel=session.channel,
            news=what,
            groups=[key.group for key in soonest],
            names=[key.name for key in soonest],
            instants=list(soonest.values()),
        )
    ]


def news(session: SqlSession, what: str = Notification.SCHEDULED) -> BoundStatement:
    """Return a notification to all nodes: they may be asleep beyond their fire times."""
    return session.bind(_SQL.notify, channel=session.channel, news=what)


def _instant(text: str) -> datetime | None:
    """Return the soonest fire time that a notification tells, if it does, without the error of its text."""
    try:
        return datetime.fromtimestamp(float(text), UTC) - timedelta(milliseconds=1)
    except (ValueError, OverflowError, OSError):
        return None


class Listener:
    """A connection that runs LISTEN; see `Subscription`."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        channel: str,
        *,
        is_current: Callable[[object], bool],
        probe_every: float = PROBE_EVERY,
        probed: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """Begin to listen.

        Args:
            connection: nobody else uses it.
            channel: the channel of the scheduler.
            is_current: returns whether a connection leads to the primary.
            probe_every: the interval, in seconds, at which the connection is probed.
            probed: called with that interval after each probe.
        """
        self._connection = connection
        self._is_current = is_current
        self._probe_every = probe_every
        self._probed = probed
        self._heard_at = time.monotonic()
        self._received: dict[Notification, datetime | None] = {}
        self._lock = threading.Lock()
        # The reading end becomes readable when the writing end is closed.
        self._interrupted, self._interrupt = socket.socketpair()
        try:
            connection.execute(f'LISTEN "{channel}"'.encode())
        except psycopg.Error as error:
            self.close()
            raise translate(error) from error

    def wait(self, timeout: float) -> Mapping[Notification, datetime | None]:
        """Return the notifications that arrived within `timeout` seconds; see `Subscription.wait`."""
        if not self._is_current(self._connection):
            raise StoreUnavailableError("the server of the LISTEN connection is no longer the primary")
        try:
            pgconn = self._connection.pgconn
            # Not `select`, which supports no descriptor above 1,023.
            poller = select.poll()
            poller.register(pgconn.socket, select.POLLIN)
            poller.register(self._interrupted, select.POLLIN)
            ready = [descriptor for descriptor, _ in poller.poll(timeout * 1000)]
            if pgconn.socket in ready:
                pgconn.consume_input()
                self._receive()
            elif not ready and time.monotonic() - self._heard_at >= self._probe_every:
                self._probe()
            if pgconn.status != psycopg.pq.ConnStatus.OK:
                raise StoreUnavailableError("the LISTEN connection was lost")
            received, self._received = self._received, {}
            return received
        except (psycopg.Error, OSError, ValueError) as error:
            raise StoreUnavailableError(f"the LISTEN connection was lost: {error}") from error

    def _receive(self) -> None:
        """Take what has arrived."""
        self._heard_at = time.monotonic()
        received = self._received
        while (notification := self._connection.pgconn.notifies()) is not None:
            word, _, instant = notification.extra.decode(errors="replace").partition(":")
            # A node of a later release may send notifications that this release does not know.
            if word in _KNOWN:
                at, before = _instant(instant), received.get(Notification(word), LATEST)
                received[Notification(word)] = None if at is None or before is None else min(at, before)

    def _probe(self) -> None:
        channels: list[int] = []
        if not answers(
            self._connection,
            interrupted=self._interrupted.fileno,
            received=self._receive,
            query=b"SELECT FROM pg_listening_channels()",
            answered=lambda result: channels.append(result.ntuples),
        ):
            logger.warning(
                "the connection for notifications does not answer, though nobody has closed it, and is replaced"
            )
            raise StoreUnavailableError("the LISTEN connection does not answer")
        if channels and not any(channels):
            raise StoreUnavailableError(
                "the session of the LISTEN connection does not listen any more: a pooler lends it to others (connect to"
                " the server itself, or set pooled), or somebody ran UNLISTEN or DISCARD in it"
            )
        self._heard_at = time.monotonic()
        self._probed(self._probe_every)

    def interrupt(self) -> None:
        """See `Subscription.interrupt`."""
        with self._lock:
            self._interrupt.close()

    def close(self) -> None:
        self.interrupt()
        self._interrupted.close()
        self._connection.close()
