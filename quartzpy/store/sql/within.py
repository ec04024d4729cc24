"""Inside a transaction of the user's: our statements between savepoints of it, and no row of `locks`.

What is decided under the lock elsewhere is decided here with what is committed now. A trigger that is stored so, while
its job begins to run, is found by `acquire`, which blocks it then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from sqlalchemy import Connection
from sqlalchemy.orm import Session

from quartzpy.errors import InvalidValueError, StoreUnavailableError
from quartzpy.store.sql.database import translate
from quartzpy.store.sql.flight import Result, Send, fly, undo
from quartzpy.store.sql.locks import LockName
from quartzpy.store.sql.session import SqlSession, Transaction

_SAVE, _RELEASE = b"SAVEPOINT quartzpy", b"RELEASE SAVEPOINT quartzpy"
_UNDO = b"ROLLBACK TO SAVEPOINT quartzpy"
NO_LOCK = "SELECT 1 WHERE %(lock)s <> ''"
_T = TypeVar("_T")


def driver_connection(given: Any) -> psycopg.Connection[Any]:
    """The driver's connection of a SQLAlchemy connection or session, or psycopg's own, with a transaction begun.

    Raises:
        InvalidValueError: something else, or a connection that is in autocommit mode.
    """
    if isinstance(given, Session):
        given = given.connection()
    if isinstance(given, Connection):
        if not given.in_transaction():
            # So that it knows of the transaction, too, and `commit` is not passed over.
            given.exec_driver_sql("SELECT 1")
        driver = given.connection.driver_connection
    else:
        driver = given
    if not isinstance(driver, psycopg.Connection):
        hint = " (of an AsyncSession: await session.run_sync(...))" if "Async" in type(given).__name__ else ""
        raise InvalidValueError(
            f"using: a SQLAlchemy Connection or Session on psycopg, or a psycopg connection (got {given!r}){hint}"
        )
    if driver.pgconn.transaction_status == pq.TransactionStatus.IDLE:
        if driver.autocommit:
            raise InvalidValueError("using: the connection is in autocommit mode: begin a transaction first")
        # The driver begins a transaction with its first statement.
        driver.execute("SELECT 1")
    if driver.pgconn.pipeline_status != pq.PipelineStatus.OFF:
        raise InvalidValueError("using: the connection is in pipeline mode; leave that first")
    return driver


class WithinSession(SqlSession):
    """As `SqlSession`, on the user's connection."""

    def __init__(self, session: SqlSession, connection: psycopg.Connection[Any]) -> None:
        super().__init__(session.connections, session.scheduler, session.names, session.diagnosis)
        self._connection = connection

    def lock(self, name: LockName) -> Send:
        """Nothing: whoever holds a lock for as long as a user's transaction lasts holds up the cluster."""
        return self.send(NO_LOCK, lock=name)

    def locked(self, *sends: Send, name: LockName = LockName.TRIGGER_ACCESS) -> list[Result]:
        return self._flown(sends)

    def unlocked(self, *sends: Send) -> list[Result]:
        return self._flown(sends)

    def read(self, *sends: Send) -> list[Result]:
        return self._flown(sends)

    @property
    def decides_at_once(self) -> bool:
        return False

    def transaction(self, work: Callable[[Transaction], _T]) -> _T:
        transaction = _Savepoint(self)
        try:
            return work(transaction)
        finally:
            transaction.roll_back_unless_committed()

    def _flown(self, sends: Sequence[Send]) -> list[Result]:
        return self.flown(sends, begin=_SAVE, commit=_RELEASE)

    def flown(self, sends: Sequence[Send], *, begin: bytes | None, commit: bytes | None) -> list[Result]:
        connection = self._connection
        if connection.pgconn.transaction_status != pq.TransactionStatus.INTRANS:
            raise StoreUnavailableError("using: the transaction has ended, or failed; begin another")
        try:
            # Not prepared: there may be a pooler that gives the user's connection another server each time.
            return fly(
                connection,
                sends,
                seconds=self.connections.seconds,
                begin=begin,
                commit=commit,
                undo_by=_UNDO,
                prepared=False,
            )
        except psycopg.Error as error:
            raise translate(error) from error

    def undo(self) -> None:
        if self._connection.pgconn.transaction_status == pq.TransactionStatus.INTRANS:
            undo(self._connection.pgconn, _UNDO)


class _Savepoint(Transaction):
    """A transaction within the user's: a savepoint, released at the end."""

    def __init__(self, session: WithinSession) -> None:
        self._session = session
        self._open = False

    def _fly(self, sends: Sequence[Send], *, commit: bool) -> list[Result]:
        begin, self._open = None if self._open else _SAVE, not commit
        try:
            return self._session.flown(sends, begin=begin, commit=_RELEASE if commit else None)
        except BaseException:
            # The flight went back to the savepoint already.
            self._open = False
            raise

    def roll_back_unless_committed(self) -> None:
        if self._open:
            self._session.undo()
