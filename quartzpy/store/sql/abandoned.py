"""Connections that were given up while a flight was under way: their backends are ended before anybody goes on.

Such a flight may still be committed, long after its client gave it up: the network holds its packets, or the backend
stands still. Whoever looked meanwhile what had become of it would be wrong. After `pg_terminate_backend` has returned,
the backend begins no statement more; one that has begun holds the lock, and whoever looks under the lock waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg

from quartzpy.store.sql.flight import Send
from quartzpy.store.sql.statement import prepare

_NOTED = "_quartzpy_backend"

# A process id is used again: a session that began after ours did is another one.
_END = prepare(
    "end_abandoned",
    """
SELECT count(pg_terminate_backend(a.pid))
  FROM unnest(%(pids)s::int[], %(ages)s::interval[]) AS gone(pid, age)
  JOIN pg_stat_activity a ON a.pid = gone.pid AND a.backend_start <= clock_timestamp() - gone.age
 WHERE a.usename = current_user
""",
    {},
)


class _Backend(NamedTuple):
    pid: int
    connected_at: float


class _GivenUp(NamedTuple):
    connection: psycopg.Connection[Any]
    backend: _Backend


def note_backend(connection: psycopg.Connection[Any]) -> None:
    """Note who serves a connection, while it can be told; to be called when it was made."""
    connection.__dict__[_NOTED] = _Backend(connection.pgconn.backend_pid, time.monotonic())


class AbandonedBackends:
    """The backends that this process gave up, until they are ended."""

    def __init__(self, is_current: Callable[[psycopg.Connection[Any]], bool]) -> None:
        self._is_current = is_current
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        self._given_up: list[_GivenUp] = []

    def give_up(self, connection: psycopg.Connection[Any]) -> None:
        """Remember the backend of a connection on which a flight was under way."""
        backend = connection.__dict__.get(_NOTED)
        if backend is not None:
            with self._lock:
                self._given_up.append(_GivenUp(connection, backend))

    def end(self, fly: Callable[[Send], object]) -> None:
        """End those that there are. Whoever comes meanwhile waits: nobody goes on before that is done.

        Where `fly` raises, they are left for the next try.
        """
        if not self._given_up:
            return
        with self._ending:
            with self._lock:
                given_up = list(self._given_up)
            now = time.monotonic()
            # After a failover the process id is that of another server's session.
            backends = [one.backend for one in given_up if self._is_current(one.connection)]
            if backends:
                ages = [timedelta(seconds=now - backend.connected_at) for backend in backends]
                fly(Send(_END, {"pids": [backend.pid for backend in backends], "ages": ages}))
            with self._lock:
                self._given_up = self._given_up[len(given_up) :]
