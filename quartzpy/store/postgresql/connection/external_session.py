"""The store inside a caller's transaction: statements between savepoints, without taking a lock row.

Elsewhere a step decides under the lock; here it decides from the rows that are committed when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

import psycopg

from quartzpy.errors import StoreUnavailableError
from quartzpy.store.postgresql.connection.error_translation import LockRowMissingError, translate
from quartzpy.store.postgresql.connection.external import RELEASE, SAVE, ExternalTransaction
from quartzpy.store.postgresql.connection.locks import MAKE, NO_LOCK, LockName
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction

# The name differs from that of the steps: after an error, the savepoint of a step continues to exist.
SAVE_ALL, RELEASE_ALL = b"SAVEPOINT quartzpy_all", b"RELEASE SAVEPOINT quartzpy_all"
UNDO_ALL = b"ROLLBACK TO SAVEPOINT quartzpy_all"
_T = TypeVar("_T")


class ExternalSession(SqlSession):
    """A `SqlSession` that sends its statements in the caller's transaction."""

    decides_at_once = False

    def __init__(self, session: SqlSession, transaction: ExternalTransaction) -> None:
        super().__init__(
            session.connections,
            session.scheduler,
            session.names,
            session.diagnosis,
        )
        self._transaction = transaction
        # What this transaction notes is not kept if it is rolled back.
        self.noted_zones = dict(session.noted_zones)

    def lock(self, name: LockName) -> BoundStatement:
        """Return a statement that locks nothing; see `NO_LOCK`."""
        return self.bind(NO_LOCK, lock=name)

    def locked(
        self,
        *statements: BoundStatement,
        name: LockName | None = LockName.TRIGGER_ACCESS,
    ) -> list[Result]:
        return self._between_savepoints(statements)

    def unlocked(self, *statements: BoundStatement) -> list[Result]:
        return self._between_savepoints(statements)

    def read(self, *statements: BoundStatement) -> list[Result]:
        return self._between_savepoints(statements)

    def transaction(self, work: Callable[[Transaction], _T]) -> _T:
        transaction = _Savepoint(self._transaction)
        try:
            with _translated():
                return work(transaction)
        finally:
            transaction.roll_back_unless_committed()

    @contextmanager
    def together(self, name: LockName) -> Iterator[None]:
        """Let the steps of the block take effect as a whole, under a lock that is held until the caller's commit."""
        self._run(SAVE_ALL)
        try:
            self._take(super().lock(name))
            yield
        except BaseException:
            with suppress(StoreUnavailableError):
                # The first error counts, also if the transaction has ended because of it.
                self._run(UNDO_ALL)
            raise
        self._run(RELEASE_ALL)

    def _take(self, lock: BoundStatement) -> None:
        try:
            self.unlocked(lock)
        except LockRowMissingError:
            # No node or client has opened this store yet. The rows are made in a transaction of their own, because
            # uncommitted ones would block everybody who opens it.
            super().unlocked(self.bind(MAKE, names=list(LockName)))
            self.unlocked(lock)

    def _run(self, statement: bytes) -> None:
        with _translated():
            self._transaction.execute([], begin=statement, commit=None)

    def _between_savepoints(self, statements: Sequence[BoundStatement]) -> list[Result]:
        with _translated():
            return self._transaction.execute(statements, begin=SAVE, commit=RELEASE)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error


class _Savepoint(Transaction):
    """A transaction nested in the caller's: a savepoint that is released at the end."""

    def __init__(self, transaction: ExternalTransaction) -> None:
        self._transaction = transaction
        self._open = False

    def _execute(self, statements: Sequence[BoundStatement], *, commit: bool) -> list[Result]:
        begin, self._open = None if self._open else SAVE, not commit
        try:
            return self._transaction.execute(statements, begin=begin, commit=RELEASE if commit else None)
        except BaseException:
            # The failed pipeline has already rolled back to the savepoint.
            self._open = False
            raise

    def roll_back_unless_committed(self) -> None:
        if self._open:
            self._transaction.undo()
