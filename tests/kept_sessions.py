"""Sessions of the tests' database that outlive the stores that opened them.

A new session takes 3 ms of the server's processor time, and the plans of all statements of a node another 70: more
than most tests take for everything else. So the session of a connection that a store closes while it is idle is reset,
and serves the next store with the same parameters, with the statements that are prepared on it.

This holds for the sessions that a store opens itself to the database that the tests of a process share. A test that
looks at sessions says that it needs new ones: `pytest.mark.new_sessions`.
"""

from __future__ import annotations

import os
import select
import threading
from typing import Any

import psycopg
import pytest
from psycopg.adapt import AdaptersMap
from psycopg.pq import ExecStatus, PGconn, TransactionStatus
from psycopg.sql import Literal

from quartzpy.store.postgresql.connection import servers
from quartzpy.store.postgresql.connection.abandoned import AbandonedBackends
from quartzpy.store.postgresql.connection.pipeline import prepared_on

_MAX_IDLE = 12
"""The number of idle sessions that are kept."""
_RESET = (
    b"SET SESSION AUTHORIZATION DEFAULT; RESET ALL; CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all();"
    b" DISCARD TEMP; DISCARD SEQUENCES; SET application_name = ''"
)
"""Removes what a session has that a new one has not, apart from prepared statements."""

_Parameters = tuple[tuple[str, object], ...]


class KeptSessions:
    """The idle sessions of this process, with the parameters that they were opened with."""

    def __init__(self, database: str) -> None:
        self._database = database
        """The beginning of the names of databases whose sessions are kept."""
        self._lock = threading.Lock()
        self._idle: list[tuple[_Parameters, PGconn, set[bytes]]] = []
        self._process = os.getpid()

    def serve(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the stores that are opened from now on use these sessions."""
        monkeypatch.setattr(servers, "connect", self.connect)
        monkeypatch.setattr(AbandonedBackends, "give_up", _give_up)

    def connect(self, **arguments: Any) -> psycopg.Connection[Any]:
        """Open a connection as psycopg does, on a session that is kept if there is one."""
        if os.getpid() != self._process or not str(arguments.get("dbname")).startswith(self._database):
            return psycopg.connect(**arguments)
        lasting = {name: value for name, value in arguments.items() if name not in ("application_name", "context")}
        parameters = (*sorted(lasting.items()),)
        connection = self._again(parameters, **arguments) or _Connection.connect(**arguments)
        connection.origin = self, parameters
        return connection

    def _again(
        self,
        parameters: _Parameters,
        *,
        application_name: str,
        autocommit: bool,
        context: psycopg.abc.AdaptContext | None = None,
        prepare_threshold: int | None = 5,
        **_: object,
    ) -> _Connection | None:
        while (session := self._taken(parameters)) is not None:
            pgconn, prepared = session
            connection = _Connection(pgconn)
            # The role may have been dropped in the meantime, and another one have its name.
            named = "SELECT current_user; SET application_name = " + Literal(application_name).as_string()
            if not (_is_usable(pgconn) and _executed(pgconn, named.encode())):
                connection.close()
                continue
            connection._autocommit = autocommit
            connection.prepare_threshold = prepare_threshold
            if context is not None:
                connection._adapters = AdaptersMap(context.adapters)
            prepared_on(connection).update(prepared)
            return connection
        return None

    def _taken(self, wanted: _Parameters) -> tuple[PGconn, set[bytes]] | None:
        with self._lock:
            for place, (parameters, *session) in reversed([*enumerate(self._idle)]):
                if parameters == wanted:
                    del self._idle[place]
                    return session[0], session[1]
        return None

    def keep(self, parameters: _Parameters, connection: psycopg.Connection[Any]) -> bool:
        """Keep the session of a connection that is being closed; return False if that is not possible."""
        pgconn = connection.pgconn
        if (
            os.getpid() != self._process
            or pgconn.transaction_status != TransactionStatus.IDLE
            # Statements that psycopg has prepared, whose names the next connection would use again.
            or connection._prepared._names
            or not _executed(pgconn, _RESET)
        ):
            return False
        with self._lock:
            idle = [session for session in self._idle if _is_usable(session[1])]
            idle.append((parameters, pgconn, prepared_on(connection)))
            superfluous = [session for session in self._idle if session not in idle[-_MAX_IDLE:]]
            self._idle = idle[-_MAX_IDLE:]
        _end(superfluous)
        return True

    def end(self) -> None:
        """End all idle sessions."""
        with self._lock:
            idle, self._idle = self._idle, []
        _end(idle)


class _Connection(psycopg.Connection[Any]):
    """A connection whose session may outlive it."""

    origin: tuple[KeptSessions, _Parameters] | None = None

    def close(self) -> None:
        origin, self.origin = self.origin, None
        if origin is None or self.closed or not origin[0].keep(origin[1], self):
            super().close()
            return
        self._closed = True
        self.pgconn = _CLOSED


_original = AbandonedBackends.give_up


def _give_up(backends: AbandonedBackends, connection: psycopg.Connection[Any]) -> None:
    # The store terminates the session soon.
    if isinstance(connection, _Connection):
        connection.origin = None
    _original(backends, connection)


_CLOSED = PGconn.connect_start(b"host=/")
_CLOSED.finish()


def _is_usable(pgconn: PGconn) -> bool:
    """Return False if the server, or a proxy, has ended a session in the meantime, or has sent anything."""
    poller = select.poll()
    poller.register(pgconn.socket, select.POLLIN)
    return not poller.poll(0)


def _executed(pgconn: PGconn, statements: bytes) -> bool:
    """Execute statements on a session of which no connection hears; return False if that failed."""
    pgconn.notice_handler = pgconn.notify_handler = None
    pgconn.nonblocking = 0
    return pgconn.exec_(statements).status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


def _end(sessions: list[tuple[_Parameters, PGconn, set[bytes]]]) -> None:
    for _, pgconn, _ in sessions:
        pgconn.finish()
