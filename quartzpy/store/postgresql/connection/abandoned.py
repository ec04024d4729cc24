"""Connections that were abandoned during a transaction: their server sessions are terminated before work continues.

Such a transaction may still commit long after its client has given up: the network may deliver its packets late, or the
backend may be suspended. A check of its outcome before that would be wrong. After `pg_terminate_backend` has returned,
the session begins no further statement; a statement that has begun holds the lock, so a check under the lock waits for
it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg

from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import prepare

_NOTED = "_quartzpy_backend"

_END = prepare("end_abandoned", SqlFile("connection/abandoned.sql")("end_abandoned"))


class _Backend(NamedTuple):
    pid: int
    connected_at: float


class _GivenUp(NamedTuple):
    connection: psycopg.Connection[Any]
    backend: _Backend


def note_backend(connection: psycopg.Connection[Any]) -> None:
    """Record the server process of a new connection, as long as it can be queried."""
    connection.__dict__[_NOTED] = _Backend(connection.pgconn.backend_pid, time.monotonic())


class AbandonedBackends:
    """The server sessions that this process has abandoned, until they are terminated."""

    def __init__(self, is_current: Callable[[psycopg.Connection[Any]], bool]) -> None:
        self._is_current = is_current
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self.given_up: list[_GivenUp] = []
        """The sessions that are not terminated yet."""

    def give_up(self, connection: psycopg.Connection[Any]) -> None:
        """Remember the server session of a connection on which a transaction was in progress."""
        backend = connection.__dict__.get(_NOTED)
        if backend is not None:
            with self._lock:
                self.given_up.append(_GivenUp(connection, backend))

    def end(self, execute: Callable[[BoundStatement], object]) -> None:
        """Terminate the abandoned sessions. Concurrent callers wait, so that nobody continues before that is done.

        If `execute` raises, they remain for the next attempt.
        """
        with self._ending:
            with self._lock:
                given_up = list(self.given_up)
            now = time.monotonic()
            # After a failover the process id belongs to a session of another server.
            backends = [session.backend for session in given_up if self._is_current(session.connection)]
            if backends:
                ages = [timedelta(seconds=now - backend.connected_at) for backend in backends]
                execute(BoundStatement(_END, {"pids": [backend.pid for backend in backends], "ages": ages}))
            with self._lock:
                self.given_up = self.given_up[len(given_up) :]
