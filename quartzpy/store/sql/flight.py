"""One transaction in one network round trip.

BEGIN, the lock, the statements and COMMIT are built first and leave together (libpq's pipeline mode, driven
directly: psycopg's own pipeline sends each statement as it is executed). The server holds the lock while it works
and at no other time. After an error the server skips what follows, COMMIT too; a second flight rolls back.

The wait has a deadline of our own: behind a stalled network every timeout of the server stays silent.
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

from quartzpy.store.sql.statement import Statement

_BINARY = pq.Format.BINARY
_FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)
# Whatever the default of the role or the database is: a step looks, after its wait for the lock, at what is committed.
BEGIN, COMMIT, ROLLBACK = b"BEGIN ISOLATION LEVEL READ COMMITTED", b"COMMIT", b"ROLLBACK"
UNDO_SECONDS = 5.0
"""So long may a rollback take that nobody waits for any more."""


class Result(NamedTuple):
    """What a statement answered: its rows, and how many rows it touched."""

    rows: list[tuple[Any, ...]]
    touched: int

    def first(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None


class Send(NamedTuple):
    """A statement with its values."""

    statement: Statement
    values: Mapping[str, Any]


class DeadlineError(psycopg.OperationalError):
    """The server did not answer in time; the connection was cut."""


def _raw(pgconn: pq.abc.PGconn, sql: bytes) -> None:
    pgconn.send_query_params(sql, None)


def _answers(pgconn: pq.abc.PGconn, deadline: float) -> list[pq.abc.PGresult]:
    """All results up to the end of the flight."""
    poller = select.poll()
    poller.register(pgconn.socket, select.POLLIN)
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
        _wait(pgconn, poller, deadline)
        pgconn.consume_input()


def _wait(pgconn: pq.abc.PGconn, poller: select.poll, deadline: float) -> None:
    """Wait until the server sends something. Raises DeadlineError, with the connection cut, where it does not."""
    left = deadline - time.monotonic()
    if left <= 0 or not poller.poll(left * 1000):
        with socket.socket(fileno=socket.dup(pgconn.socket)) as cut:  # the driver closes its own
            cut.shutdown(socket.SHUT_RDWR)
        raise DeadlineError("the database did not answer in time; the connection was cut")


def undo(pgconn: pq.abc.PGconn, statement: bytes, seconds: float = UNDO_SECONDS) -> None:
    """Run a statement that ends what failed; where that is not answered in time, cut the connection.

    Raises:
        DeadlineError: it was cut.
    """
    deadline = time.monotonic() + seconds
    poller = select.poll()
    poller.register(pgconn.socket, select.POLLIN)
    pgconn.send_query(statement)
    while True:
        while pgconn.is_busy():
            _wait(pgconn, poller, deadline)
            pgconn.consume_input()
        if pgconn.get_result() is None:
            return


AnyConnection: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
"""A flight drives the connection of libpq itself, so both classes of psycopg will do."""


def prepared_on(connection: AnyConnection) -> set[bytes]:
    """The names of our statements that are prepared on a connection, unless somebody discarded them."""
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
    """Run the statements in a transaction, all in one flight; their results in order.

    A transaction may also take several flights: the first without `commit`, the last without `begin`. `connection` is
    in autocommit mode, or `begin` is a savepoint and `undo_by` goes back to it. With `prepared` the statements stay
    prepared on the connection. `local` is a query that makes settings for the transaction, sent behind `begin`, where
    the session has none of ours; instants are read as UTC then, and text as UTF-8.

    Raises:
        psycopg.Error: the first error; the transaction is rolled back. Where the connection broke after
            COMMIT was sent, `outcome_unknown` is set on it.
    """
    pgconn = connection.pgconn
    known = prepared_on(connection)
    bound = [(send.statement, send.statement.bind(send.values)) for send in sends]
    deadline = time.monotonic() + seconds
    newly: list[bytes] = []
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
            _raw(pgconn, commit)
        pgconn.pipeline_sync()
        results = _answers(pgconn, deadline)
    except psycopg.Error as error:
        error.__dict__["outcome_unknown"] = commit == COMMIT
        raise
    if pgconn.status == pq.ConnStatus.BAD:
        broken = psycopg.OperationalError(pgconn.get_error_message() or "the connection was lost")
        broken.__dict__["outcome_unknown"] = commit == COMMIT
        raise broken
    pgconn.exit_pipeline_mode()
    # A statement stays prepared whatever becomes of the transaction around it.
    opening = (2 if local else 1) if begin else 0
    preparations = results[opening:][: len(newly)]
    known.update(
        name for name, result in zip(newly, preparations, strict=False) if result.status == pq.ExecStatus.COMMAND_OK
    )
    failed = next((result for result in results if result.status in _FAILED), None)
    if failed is not None:
        if pgconn.transaction_status != pq.TransactionStatus.IDLE:
            with contextlib.suppress(psycopg.Error):
                # The error that is told is the one that came first; a connection that was cut is found to be so.
                undo(pgconn, undo_by)
        raise error_from_result(failed)
    loader = Transformer(None if local else connection)
    first = opening + len(newly)
    return [_loaded(loader, result) for result in results[first : first + len(bound)]]


def _loaded(loader: Any, result: pq.abc.PGresult) -> Result:
    if result.ntuples == 0:
        return Result([], result.command_tuples or 0)
    loader.set_pgresult(result)
    return Result(loader.load_rows(0, result.ntuples, tuple), result.ntuples)
