"""The connection for check-ins: outside the pools, so that a check-in never waits behind other work.

The deadline of a call includes connecting, and a connection on which a call failed is abandoned: the next call opens a
new one. So a connection whose packets the network drops costs one deadline, never a lease.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from quartzpy.errors import OutcomeUnknownError, QuartzpyError, StoreUnavailableError
from quartzpy.store.postgresql.connection.connections import Connections
from quartzpy.store.postgresql.connection.error_translation import translate
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.pool import is_stale

_NOT_OF_LIBPQ = "prepare_threshold"
_LISTS = ("host", "hostaddr", "port")
"""The parameters that list several servers, in the same order."""


class ControlConnection:
    """A connection that is opened at its first use, and again after each failure."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._turn = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._failures = 0
        self._closed = False

    def execute(self, statements: Sequence[BoundStatement], within: float | None = None) -> list[Result]:
        """Run one transaction in one round trip, within `within` seconds.

        Raises:
            StoreUnavailableError, AuthenticationError, SchemaError: translated from the driver's error.
            OutcomeUnknownError: no answer to the commit arrived.
        """
        deadline = time.monotonic() + (self._connections.seconds if within is None else within)
        if not self._turn.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise StoreUnavailableError("another check-in of this process did not end in time")
        try:
            connection, self._connection = self._connection, None
            if connection is not None and (is_stale(connection) or not self._connections.is_current(connection)):
                connection.close()
                connection = None
            if connection is None:
                connection = self._connect(deadline)
            remaining = max(0.001, deadline - time.monotonic())
            try:
                results = self._connections.execute_on(connection, statements, seconds=remaining)
            except BaseException:
                connection.close()
                raise
            self._keep(connection)
            self._failures = 0
            return results
        except (psycopg.Error, OSError) as error:
            self._failures += 1
            translated = translate(error)
            if getattr(error, "outcome_unknown", False):
                raise OutcomeUnknownError(f"the connection broke during the commit: {translated}") from error
            raise translated from error
        except QuartzpyError:
            self._failures += 1
            raise
        finally:
            self._turn.release()

    def _connect(self, deadline: float) -> psycopg.Connection[Any]:
        arguments = self._connections.connect_information("control")
        if arguments is None:
            return self._connect_by_caller(deadline)
        arguments.pop(_NOT_OF_LIBPQ, None)
        pgconn = pq.PGconn.connect_start(make_conninfo(**_rotated(arguments, self._failures)).encode())
        try:
            _finish_connecting(pgconn, deadline)
            pgconn.nonblocking = 1
            connection: psycopg.Connection[Any] = psycopg.Connection(pgconn)
            connection.autocommit = True
            self._connections.recognise(connection, max(0.001, deadline - time.monotonic()))
        except BaseException:
            pgconn.finish()
            raise
        return connection

    def _connect_by_caller(self, deadline: float) -> psycopg.Connection[Any]:
        """Connect with the caller's engine or function, on a thread, because we cannot limit its own timeouts."""
        made: Future[psycopg.Connection[Any]] = Future()

        def connect() -> None:
            try:
                connection = self._connections.connect_apart("control")
            except BaseException as error:
                made.set_exception(error)
            else:
                made.set_result(connection)

        threading.Thread(target=connect, name="quartzpy-connect", daemon=True).start()
        try:
            return made.result(max(0.001, deadline - time.monotonic()))
        except TimeoutError:
            made.add_done_callback(lambda late: None if late.exception() else late.result().close())
            raise psycopg.errors.ConnectionTimeout("no connection to the database in time") from None

    def _keep(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        if self._closed:
            self._connection = None
            connection.close()

    def close(self) -> None:
        """Close the connection; a check-in in progress closes its own when it ends."""
        self._closed = True
        if self._turn.acquire(blocking=False):
            try:
                connection, self._connection = self._connection, None
                if connection is not None:
                    connection.close()
            finally:
                self._turn.release()


def _rotated(arguments: dict[str, Any], turns: int) -> dict[str, Any]:
    """Return the servers in rotated order, because connecting hangs at the first one whose packets are dropped."""
    rotated = dict(arguments)
    for name in _LISTS:
        items = str(arguments.get(name, "")).split(",")
        if len(items) > 1:
            start = turns % len(items)
            rotated[name] = ",".join(items[start:] + items[:start])
    return rotated


def _finish_connecting(pgconn: pq.abc.PGconn, deadline: float) -> None:
    """Run the steps of connecting; libpq leaves the waiting, and therefore the deadline, to us."""
    status = pq.PollingStatus.WRITING
    while status != pq.PollingStatus.OK:
        if status == pq.PollingStatus.FAILED or pgconn.status == pq.ConnStatus.BAD:
            message = pgconn.error_message.decode(errors="replace").strip()
            raise psycopg.OperationalError(f"connection failed: {message}")
        poller = select.poll()
        poller.register(pgconn.socket, select.POLLIN if status == pq.PollingStatus.READING else select.POLLOUT)
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not poller.poll(remaining * 1000):
            raise psycopg.errors.ConnectionTimeout("no connection to the database in time")
        status = pq.PollingStatus(pgconn.connect_poll())
