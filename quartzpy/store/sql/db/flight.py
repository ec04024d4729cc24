"""A flight: one transaction in one network round trip.

BEGIN, the lock, the statements and COMMIT are built first and sent together, in libpq's pipeline mode. We drive libpq
directly, because psycopg's own pipeline sends each statement when it is executed. The server holds the lock only while
it executes the flight. After an error the server skips the remaining statements, including COMMIT; a second flight
rolls back.

The wait has a client-side deadline, because no timeout of the server takes effect behind a stalled network.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from quartzpy.store.sql.db.statement import Statement

_BINARY = pq.Format.BINARY
_FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)
# The isolation level is explicit, whatever the default is: after its wait for the lock, a step must see new commits.
BEGIN, COMMIT, ROLLBACK = b"BEGIN ISOLATION LEVEL READ COMMITTED", b"COMMIT", b"ROLLBACK"
UNDO_SECONDS = 5.0
"""The time limit, in seconds, of a rollback that no caller waits for."""


class Result(NamedTuple):
    """The result of a statement: its rows, and the number of rows that it affected."""

    rows: list[tuple[Any, ...]]
    touched: int

    def first(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None


class Send(NamedTuple):
    """A statement with its values."""

    statement: Statement
    values: Mapping[str, Any]


class DeadlineError(psycopg.OperationalError):
    """The server did not answer in time; the connection was closed."""


def _raw(pgconn: pq.abc.PGconn, sql: bytes) -> None:
    pgconn.send_query_params(sql, None)


class _Decoder:
    """Decodes the results of the statements of a flight, which begin at the position `first` of all its results."""

    def __init__(self, loader: Any, first: int) -> None:
        self._loader = loader
        self._first = first
        self._loaded: list[Result] = []

    def decode(self, results: Sequence[pq.abc.PGresult], end: int) -> list[Result]:
        """Return what the results before the position `end` hold; each is decoded once."""
        for result in results[self._first + len(self._loaded) : end]:
            self._loaded.append(_loaded(self._loader, result))
        return self._loaded

    def decode_ahead(self, results: Sequence[pq.abc.PGresult]) -> None:
        """Decode what has arrived. An error is raised by `decode`, after the end of the flight."""
        if len(results) > self._first + len(self._loaded) and results[-1].status == pq.ExecStatus.TUPLES_OK:
            with contextlib.suppress(Exception):
                self.decode(results, len(results))


def _answers(pgconn: pq.abc.PGconn, deadline: float, decoder: _Decoder) -> list[pq.abc.PGresult]:
    """Return all results until the end of the flight."""
    wire = _Wire(pgconn, deadline)
    results: list[pq.abc.PGresult] = []
    while True:
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                continue
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                return results
            results.append(result)
            if pgconn.status == pq.ConnStatus.BAD:
                return results
        decoder.decode_ahead(results)
        wire.wait()


class _Wire:
    """Sends what libpq holds back, and receives what the server answers, until a deadline.

    The connection is non-blocking: libpq keeps what the kernel's buffers do not take. Both directions are served
    together, because a server that cannot send its answers stops reading.
    """

    def __init__(self, pgconn: pq.abc.PGconn, deadline: float) -> None:
        self._pgconn = pgconn
        self._deadline = deadline
        self._poller = select.poll()
        self._has_more_to_send = True

    def wait(self) -> None:
        """Wait until something can be received or sent. At the deadline, shut the connection down.

        Raises:
            DeadlineError: the connection was shut down.
        """
        if self._has_more_to_send:
            self._has_more_to_send = self._pgconn.flush() != 0
            events = select.POLLIN | select.POLLOUT if self._has_more_to_send else select.POLLIN
            self._poller.register(self._pgconn.socket, events)
        left = self._deadline - time.monotonic()
        if left <= 0 or not self._poller.poll(left * 1000):
            with socket.socket(fileno=socket.dup(self._pgconn.socket)) as cut:  # the driver closes its own descriptor
                cut.shutdown(socket.SHUT_RDWR)
            raise DeadlineError("the database did not answer in time; the connection was closed")
        self._pgconn.consume_input()


def undo(pgconn: pq.abc.PGconn, statement: bytes, seconds: float = UNDO_SECONDS) -> None:
    """Run a statement that ends a failed transaction; shut the connection down if it is not answered in time.

    Raises:
        DeadlineError: the connection was shut down.
    """
    wire = _Wire(pgconn, time.monotonic() + seconds)
    pgconn.send_query(statement)
    while True:
        while pgconn.is_busy():
            wire.wait()
        if pgconn.get_result() is None:
            return


def roll_back_unless_ended(connection: psycopg.Connection[Any]) -> None:
    """Roll back a transaction of several flights, unless it has ended or the connection is broken."""
    pgconn = connection.pgconn
    if pgconn.status == pq.ConnStatus.OK and pgconn.transaction_status != pq.TransactionStatus.IDLE:
        with contextlib.suppress(psycopg.Error):
            # The connection is in pipeline mode, where this statement is not possible; it is discarded.
            undo(pgconn, ROLLBACK)


AnyConnection: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
"""A flight drives libpq's connection itself, so both connection classes of psycopg are accepted."""


def prepared_on(connection: AnyConnection) -> set[bytes]:
    """Return the names of our statements that are prepared on a connection, unless somebody discarded them."""
    known: set[bytes] = connection.__dict__.setdefault("_quartzpy_prepared", set())
    return known


def fly(
    connection: AnyConnection,
    sends: Sequence[Send],
    *,
    seconds: float,
    begin: bytes | None = BEGIN,
    commit: bytes | None = COMMIT,
    undo_by: bytes = ROLLBACK,
    prepared: bool = True,
    local: bytes | None = None,
) -> list[Result]:
    """Run the statements in one transaction and one flight; return their results in order.

    A transaction may also consist of several flights: the first without `commit`, the last without `begin`.
    `connection` is in autocommit mode; otherwise `begin` is a savepoint, and `undo_by` rolls back to it. With
    `prepared` the statements remain prepared on the connection. `local` is a query that is sent after `begin` and
    applies our settings to the transaction, for sessions without them; it makes instants UTC and text UTF-8.

    Raises:
        psycopg.Error: the first error; the transaction is rolled back. If the connection broke after COMMIT was
            sent, `outcome_unknown` is set on the error.
    """
    pgconn = connection.pgconn
    known = prepared_on(connection)
    bound = [(send.statement, send.statement.bind(send.values)) for send in sends]
    deadline = time.monotonic() + seconds
    newly: list[bytes] = []
    opening = (2 if local else 1) if begin else 0
    loader = Transformer(None if local else connection)
    pgconn.enter_pipeline_mode()
    try:
        if begin:
            _raw(pgconn, begin)
            if local:
                _raw(pgconn, local)
        for statement, _ in bound if prepared else ():
            name = b"q_" + statement.name.encode()
            if name not in known and name not in newly:
                pgconn.send_prepare(name, statement.sql)
                newly.append(name)
        for statement, values in bound:
            if prepared:
                pgconn.send_query_prepared(b"q_" + statement.name.encode(), values or None, result_format=_BINARY)
            else:
                pgconn.send_query_params(statement.sql, values or None, result_format=_BINARY)
        if commit:
            # The server sends the results before it commits, so that they are decoded in the meantime.
            pgconn.send_flush_request()
            _raw(pgconn, commit)
        pgconn.pipeline_sync()
        first = opening + len(newly)
        decoder = _Decoder(loader, first)
        results = _answers(pgconn, deadline, decoder)
    except psycopg.Error as error:
        error.__dict__["outcome_unknown"] = commit == COMMIT
        raise
    if pgconn.status == pq.ConnStatus.BAD:
        broken = psycopg.OperationalError(pgconn.get_error_message() or "the connection was lost")
        broken.__dict__["outcome_unknown"] = commit == COMMIT
        raise broken
    pgconn.exit_pipeline_mode()
    # A statement remains prepared even if its transaction is rolled back.
    preparations = results[opening:first]
    known.update(
        name for name, result in zip(newly, preparations, strict=False) if result.status == pq.ExecStatus.COMMAND_OK
    )
    failed = next((result for result in results if result.status in _FAILED), None)
    if failed is not None:
        if pgconn.transaction_status != pq.TransactionStatus.IDLE:
            with contextlib.suppress(psycopg.Error):
                # Report the first error; the next user of the connection notices that it was shut down.
                undo(pgconn, undo_by)
        raise error_from_result(failed)
    return decoder.decode(results, first + len(bound))


def _loaded(loader: Any, result: pq.abc.PGresult) -> Result:
    if result.ntuples == 0:
        return Result([], result.command_tuples or 0)
    loader.set_pgresult(result)
    return Result(loader.load_rows(0, result.ntuples, tuple), result.ntuples)
