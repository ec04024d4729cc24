"""Pipelined transactions: each is sent, and answered, in one network round trip.

BEGIN, the lock, the statements and COMMIT are built first and sent together, in libpq's pipeline mode. We drive libpq
directly, because psycopg's own pipeline sends each statement when it is executed. The server holds the lock only while
it executes the transaction. After an error the server skips the remaining statements, including COMMIT; a second round
trip rolls back.

The server executes a statement as soon as it has received it, and would hold the lock while the rest of a large
pipeline is still under way. So large values travel first, as settings of the transaction, and the statements that
follow the lock refer to them.

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

from quartzpy.store.postgresql.schema.statement import Statement, with_values_as

_BINARY = pq.Format.BINARY
_FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)
# The isolation level is explicit, whatever the default is: after its wait for the lock, a step must see new commits.
BEGIN, COMMIT, ROLLBACK = b"BEGIN ISOLATION LEVEL READ COMMITTED", b"COMMIT", b"ROLLBACK"
LARGE = 256 * 1024
"""A pipeline with more bytes of values than this is a large one: a slow network needs a while for it."""
LARGE_VALUE = 4 * 1024
"""The number of bytes from which a value of a large pipeline is sent ahead of the statements."""
UNDO_SECONDS = 5.0
"""The time limit, in seconds, of a rollback that no caller waits for."""


class Result(NamedTuple):
    """The result of a statement: its rows, and the number of rows that it affected."""

    rows: list[tuple[Any, ...]]
    touched: int

    def first(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None


class BoundStatement(NamedTuple):
    """A statement with its values."""

    statement: Statement
    values: Mapping[str, Any]


class DeadlineError(psycopg.OperationalError):
    """The server did not answer in time; the connection was closed."""


def _raw(pgconn: pq.abc.PGconn, sql: bytes) -> None:
    pgconn.send_query_params(sql, None)


class _Decoder:
    """Decodes the results of a pipeline's statements, which begin at the position `first` of all its results."""

    first = 0

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._loaded: list[Result] = []

    def decode(self, results: Sequence[pq.abc.PGresult], end: int) -> list[Result]:
        """Return what the results before the position `end` hold; each is decoded once."""
        for result in results[self.first + len(self._loaded) : end]:
            self._loaded.append(_loaded(self._loader, result))
        return self._loaded

    def decode_ahead(self, results: Sequence[pq.abc.PGresult]) -> None:
        """Decode what has arrived. An error is raised by `decode`, after the end of the pipeline."""
        if len(results) > self.first + len(self._loaded) and results[-1].status == pq.ExecStatus.TUPLES_OK:
            with contextlib.suppress(Exception):
                self.decode(results, len(results))


def _collect(pgconn: pq.abc.PGconn, wire: _Wire, decoder: _Decoder, results: list[pq.abc.PGresult]) -> None:
    """Add all results until the end of the pipeline to `results`, or until the connection breaks."""
    while True:
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                continue
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                return
            results.append(result)
            if pgconn.status == pq.ConnStatus.BAD:
                raise psycopg.OperationalError("the connection was lost")
        decoder.decode_ahead(results)
        wire.wait()


def _last_words(pgconn: pq.abc.PGconn, results: list[pq.abc.PGresult]) -> None:
    """Add what the server has sent before the connection broke to `results`: it tells why, if the server knew."""
    with contextlib.suppress(psycopg.Error):
        # What the kernel has received; this fails at the end of it.
        pgconn.consume_input()
    nothing = 0
    # In pipeline mode, the results of two statements are separated by None.
    while nothing < 2 and not pgconn.is_busy():
        with contextlib.suppress(psycopg.Error):
            result = pgconn.get_result()
            nothing = nothing + 1 if result is None else 0
            if result is not None:
                results.append(result)


def _why_broken(
    pgconn: pq.abc.PGconn, results: list[pq.abc.PGresult], error: psycopg.Error
) -> tuple[psycopg.Error, int | None]:
    """Return the error of a pipeline that did not end, and the position at which the server itself reported it."""
    if isinstance(error, DeadlineError):
        return error, None
    _last_words(pgconn, results)
    failed = [(place, result) for place, result in enumerate(results) if result.status in _FAILED]
    for place, result in failed:
        if result.error_field(pq.DiagnosticField.SQLSTATE):
            return error_from_result(result), place
    # What libpq says in place of a result is the cause; an error that a later call raised may not be.
    words = [result.get_error_message() for _, result in failed] or [str(error)]
    return psycopg.OperationalError(words[0] or "the connection was lost"), None


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

    def send_all(self) -> None:
        """Send everything that was given to libpq so far; receive what arrives in the meantime.

        Raises:
            DeadlineError: the connection was shut down.
        """
        while self._pgconn.flush():
            self._poll(select.POLLIN | select.POLLOUT)

    def wait(self) -> None:
        """Wait until something was received, or more can be sent.

        Raises:
            DeadlineError: the connection was shut down.
        """
        if self._has_more_to_send:
            self._has_more_to_send = self._pgconn.flush() != 0
        self._poll(select.POLLIN | select.POLLOUT if self._has_more_to_send else select.POLLIN)

    def _poll(self, events: int) -> None:
        self._poller.register(self._pgconn.socket, events)
        remaining = self._deadline - time.monotonic()
        if remaining <= 0 or not self._poller.poll(remaining * 1000):
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
    """Roll back a transaction of several round trips, unless it has ended or the connection is broken."""
    pgconn = connection.pgconn
    if pgconn.status == pq.ConnStatus.OK and pgconn.transaction_status != pq.TransactionStatus.IDLE:
        with contextlib.suppress(psycopg.Error):
            # The connection is in pipeline mode, where this statement is not possible; it is discarded.
            undo(pgconn, ROLLBACK)


AnyConnection: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
"""A pipeline drives libpq's connection itself, so both connection classes of psycopg are accepted."""


def prepared_on(connection: AnyConnection) -> set[bytes]:
    """Return the names of our statements that are prepared on a connection, unless somebody discarded them."""
    names: set[bytes] = connection.__dict__.setdefault("_quartzpy_prepared", set())
    return names


def execute_pipelined(
    connection: AnyConnection,
    statements: Sequence[BoundStatement],
    *,
    seconds: float,
    begin: bytes | None = BEGIN,
    commit: bytes | None = COMMIT,
    undo_by: bytes = ROLLBACK,
    prepared: bool = True,
    local: bytes | None = None,
) -> list[Result]:
    """Run the statements in one transaction and one round trip; return their results in order.

    A transaction may also consist of several round trips: the first without `commit`, the last without `begin`.
    `connection` is in autocommit mode; otherwise `begin` is a savepoint, and `undo_by` rolls back to it. With
    `prepared` the statements remain prepared on the connection. `local` is a query that is sent after `begin` and
    applies our settings to the transaction, for sessions without them; it makes instants UTC and text UTF-8.

    Raises:
        psycopg.Error: the first error; the transaction is rolled back. If the connection broke and the server may have
            executed COMMIT, `outcome_unknown` is set on the error.
    """
    pgconn = connection.pgconn
    already_prepared = prepared_on(connection)
    bound = [_Encoded(statement, statement.encode(values)) for statement, values in statements]
    wire = _Wire(pgconn, time.monotonic() + seconds)
    is_large = sum(map(_size, bound)) > LARGE
    ahead = _staged(bound) if is_large else []
    newly: list[bytes] = []
    opening = (2 if local else 1) if begin else 0
    decoder = _Decoder(Transformer(None if local else connection))
    results: list[pq.abc.PGresult] = []
    asks_for_commit = False
    pgconn.enter_pipeline_mode()
    try:
        if begin:
            _raw(pgconn, begin)
            if local:
                _raw(pgconn, local)
        for name, value in ahead:
            pgconn.send_query_params(_STAGE, [name, value])
        for statement, _, types in bound if prepared else ():
            name = b"q_" + statement.name.encode()
            if types is None and name not in already_prepared and name not in newly:
                pgconn.send_prepare(name, statement.sql)
                newly.append(name)
        for statement, values, types in bound:
            if prepared and types is None:
                pgconn.send_query_prepared(b"q_" + statement.name.encode(), values or None, result_format=_BINARY)
            else:
                pgconn.send_query_params(statement.sql, values or None, param_types=types, result_format=_BINARY)
        preparing = opening + len(ahead)
        first = decoder.first = preparing + len(newly)
        if commit:
            # The server sends the results before it commits, so that they are decoded in the meantime.
            pgconn.send_flush_request()
            if is_large:
                # If this fails, COMMIT was certainly not executed.
                wire.send_all()
            asks_for_commit = commit == COMMIT
            _raw(pgconn, commit)
        pgconn.pipeline_sync()
        _collect(pgconn, wire, decoder, results)
    except psycopg.Error as error:
        why, failed_at = _why_broken(pgconn, results, error)
        # The server executes the statements in order: if it broke off before COMMIT, it has not committed.
        executed_commit = failed_at is None or failed_at >= first + len(bound)
        why.__dict__["outcome_unknown"] = asks_for_commit and executed_commit
        if why is error:
            raise
        raise why from error
    pgconn.exit_pipeline_mode()
    # A statement remains prepared even if its transaction is rolled back.
    preparations = results[preparing:first]
    already_prepared.update(
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


class _Encoded(NamedTuple):
    """A statement with its values in the wire format. `types` are those of its parameters, if they need to be said."""

    statement: Statement
    values: Sequence[bytes | None]
    types: Sequence[int] | None = None


def _size(bound: _Encoded) -> int:
    return sum(map(len, filter(None, bound.values)))


# The answer does not repeat the value.
_STAGE = b"SELECT set_config($1, $2, true) IS NULL"
_TEXT, _INFERRED = 25, 0


def _staged(bound: list[_Encoded]) -> list[tuple[bytes, bytes]]:
    """Make all statements but the first refer to settings in place of their large values; return these settings.

    The first statement is the lock, or precedes it: its own values arrive before it is executed.
    """
    ahead: list[tuple[bytes, bytes]] = []
    for place, (statement, values, _) in enumerate(bound):
        large = {number: value for number, value in enumerate(values) if value and len(value) >= LARGE_VALUE}
        if place == 0 or not large:
            continue
        settings = {number: f"quartzpy.value_{place}_{number}" for number in large}
        ahead += [(settings[number].encode(), value) for number, value in large.items()]
        sql = with_values_as(
            statement.sql.decode(), {number + 1: f"current_setting('{name}')" for number, name in settings.items()}
        )
        bound[place] = _Encoded(
            Statement(statement.name, sql.encode(), statement.values),
            [None if number in large else value for number, value in enumerate(values)],
            [_TEXT if number in large else _INFERRED for number in range(len(values))],
        )
    return ahead


def _loaded(loader: Any, result: pq.abc.PGresult) -> Result:
    if result.ntuples == 0:
        return Result([], result.command_tuples or 0)
    loader.set_pgresult(result)
    return Result(loader.load_rows(0, result.ntuples, tuple), result.ntuples)
