"""External transactions: those that the caller of `Scheduler.using` began and will commit.

The statements of a method run between savepoints of that transaction. Each kind of driver has a class here or in
`external_async`; all return the same `Result`s, so the steps of the store do not depend on the driver.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import pq

from quartzpy.errors import InvalidValueError, StoreUnavailableError
from quartzpy.store.postgresql.connection.optional_news import with_news_if_room
from quartzpy.store.postgresql.connection.pipeline import AnyConnection, BoundStatement, Result, execute_pipelined, undo
from quartzpy.texts import quoted

SAVE, RELEASE = b"SAVEPOINT quartzpy", b"RELEASE SAVEPOINT quartzpy"
UNDO = b"ROLLBACK TO SAVEPOINT quartzpy"
STAY = b"SELECT"

ACCEPTED = (
    "using: expected a SQLAlchemy Connection or Session (also the asynchronous ones, on psycopg or asyncpg), a psycopg"
    " connection, or Django's connection"
)

ENDED = "using: the transaction has ended or failed; begin another one"
AUTOCOMMIT = (
    "using: the connection is in autocommit mode, so there is no transaction to join: begin one first (in Django, call"
    " this inside atomic())"
)


def shown(refused: object) -> str:
    """Return a refused object for a message; not a text, which may be a URL with its password."""
    return "a str" if isinstance(refused, str) else quoted(refused)


class ExternalTransaction(ABC):
    """A transaction of the caller, in which statements can be run."""

    @abstractmethod
    def execute(
        self, statements: Sequence[BoundStatement], *, begin: bytes | None, commit: bytes | None
    ) -> list[Result]:
        """Run `begin`, the statements and `commit`; after an error, roll back to the savepoint.

        Raises:
            StoreUnavailableError: the transaction has ended.
            psycopg.Error: the database's error, converted if another driver ran the statements.
        """

    @abstractmethod
    def undo(self) -> None:
        """Roll back to the savepoint, unless the transaction has ended."""


class PsycopgTransaction(ExternalTransaction):
    """A transaction on a psycopg connection; also on an asynchronous one that nobody else uses in the meantime."""

    def __init__(self, connection: AnyConnection, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds

    def execute(
        self, statements: Sequence[BoundStatement], *, begin: bytes | None, commit: bytes | None
    ) -> list[Result]:
        """See `ExternalTransaction.execute`."""
        if self._connection.pgconn.transaction_status != pq.TransactionStatus.INTRANS:
            raise StoreUnavailableError(ENDED)
        # Statements are not prepared: a pooler may use a different server connection for each transaction.
        return execute_pipelined(
            self._connection,
            [*map(with_news_if_room, statements)],
            seconds=self._seconds,
            begin=begin,
            commit=commit,
            undo_by=UNDO,
            prepared=False,
        )

    def undo(self) -> None:
        """See `ExternalTransaction.undo`."""
        if self._connection.pgconn.transaction_status == pq.TransactionStatus.INTRANS:
            undo(self._connection.pgconn, UNDO)


class KeptAwake(ExternalTransaction):
    """A transaction of our own that the server does not end as idle, however long this process computes.

    A thread sends a statement now and then. If the process is suspended or its host dies, that ends, and the server
    ends the transaction.
    """

    def __init__(self, transaction: ExternalTransaction, every: float) -> None:
        self._transaction = transaction
        self._every = every
        self._turn = threading.Lock()
        self._ended = threading.Event()

    def execute(
        self, statements: Sequence[BoundStatement], *, begin: bytes | None, commit: bytes | None
    ) -> list[Result]:
        """See `ExternalTransaction.execute`."""
        with self._turn:
            return self._transaction.execute(statements, begin=begin, commit=commit)

    def undo(self) -> None:
        """See `ExternalTransaction.undo`."""
        with self._turn:
            self._transaction.undo()

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Keep the transaction awake during the block."""
        thread = threading.Thread(target=self._keep_awake, name="quartzpy-keep-awake", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _keep_awake(self) -> None:
        # If the transaction has ended, its user notices it.
        with suppress(psycopg.Error, StoreUnavailableError):
            while not self._ended.wait(self._every):
                self.execute([], begin=STAY, commit=None)


def check_psycopg(driver: AnyConnection) -> None:
    """Check that statements can be sent on a connection with a transaction.

    Raises:
        InvalidValueError: the connection is in pipeline mode or its client encoding is not UTF8.
    """
    if driver.pgconn.pipeline_status != pq.PipelineStatus.OFF:
        raise InvalidValueError("using: the connection is in pipeline mode; leave pipeline mode first")
    if driver.info.encoding != "utf-8":
        raise InvalidValueError(f"using: the connection's client_encoding must be UTF8 (it is {driver.info.encoding})")


def external_transaction(using: Any, seconds: float) -> ExternalTransaction:
    """Return the transaction of a caller's connection or session; begin one if the driver has none yet.

    A transaction that was joined already is returned unchanged. Django is not a dependency, so its connection is
    recognised by its attributes: `ensure_connection` opens it, and `connection` is the driver's connection.

    Raises:
        InvalidValueError: `using` has another type, or is in autocommit mode.
    """
    if isinstance(using, ExternalTransaction):
        return using
    # An object is one of SQLAlchemy's only if that has been imported, and most nodes do not need its memory.
    driver = _driver_of_sqlalchemy(using) if "sqlalchemy.engine" in sys.modules else using
    if callable(getattr(driver, "ensure_connection", None)):
        driver.ensure_connection()
        driver = driver.connection
    if isinstance(driver, psycopg.AsyncConnection) and driver is not using:
        raise InvalidValueError(f"{ACCEPTED}; inside run_sync, pass the AsyncSession or AsyncConnection itself")
    if not isinstance(driver, psycopg.Connection):
        raise InvalidValueError(f"{ACCEPTED} (got {shown(using)})")
    if driver.pgconn.transaction_status == pq.TransactionStatus.IDLE:
        if driver.autocommit:
            raise InvalidValueError(AUTOCOMMIT)
        # The driver begins a transaction with its first statement.
        driver.execute("SELECT 1")
    check_psycopg(driver)
    return PsycopgTransaction(driver, seconds)


def _driver_of_sqlalchemy(using: Any) -> Any:
    """Return the driver's connection of a SQLAlchemy connection or session, in a transaction that SQLAlchemy has begun.

    Any other object is returned unchanged.
    """
    from sqlalchemy import Connection

    if "sqlalchemy.orm" in sys.modules:
        from sqlalchemy.orm import Session, scoped_session

        using = using() if isinstance(using, scoped_session) else using
        using = using.connection() if isinstance(using, Session) else using
    if not isinstance(using, Connection):
        return using
    if not using.in_transaction():
        # SQLAlchemy must know about the transaction as well; otherwise its `commit` does nothing.
        using.exec_driver_sql("SELECT 1")
    return using.connection.driver_connection
