"""Transactions of jobs and of callers, with the in-memory store and a database of the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, event
from sqlalchemy.orm import Session

from quartzpy.clock import Clock
from quartzpy.errors import InvalidValueError, SettingsError
from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.protocol import Completion, CompletionOutcome, Node
from quartzpy.store.records import ExecutionRecord


@dataclass(slots=True)
class JobTransaction:
    """A transaction that a job began by `context.transaction()` or `context.fenced_transaction()`."""

    outcome: Literal["open", "committed", "rolled back"] = "open"
    ends_the_execution: bool = False
    """True for a committed `context.transaction()`: its commit and the success of the execution are one."""


def checked_database(database: Any) -> Engine | Connection | None:
    """Return the database of a test.

    Raises:
        SettingsError: it is neither an engine nor a connection of SQLAlchemy, or an asynchronous one.
    """
    if database is None or isinstance(database, Engine | Connection):
        return database
    kind = type(database).__name__
    cure = (
        "an asynchronous engine has an ordinary one, engine.sync_engine, only for its own event loop: make another,"
        " sqlalchemy.create_engine('postgresql+psycopg://...'), on the same database"
        if kind in ("AsyncEngine", "AsyncConnection")
        else "give it as SchedulerHarness(database=sqlalchemy.create_engine('sqlite://'))"
    )
    raise SettingsError(f"database: a SQLAlchemy Engine or Connection is needed (got a {kind}); {cure}")


class TransactionalStore(RamJobStore):
    """The in-memory store, whose jobs have transactions on a database of the test.

    `database` is a SQLAlchemy engine; or a connection, on which each transaction is a savepoint, so that the test can
    roll everything back at its end.
    """

    def __init__(self, clock: Clock, database: Engine | Connection | None) -> None:
        super().__init__(clock)
        self._database = database
        self.transactions: list[JobTransaction] = []
        self._undos: WeakKeyDictionary[Any, _Undo] = WeakKeyDictionary()
        """Of each transaction the last one that restores rows."""

    def begin_job_transaction(self) -> _Work:
        if self._database is None:
            raise InvalidValueError(
                "transaction: the test scheduler has no database; give it one, as in"
                " SchedulerHarness(database=sqlalchemy.create_engine('sqlite://'))"
            )
        record = JobTransaction()
        self.transactions.append(record)
        return _Work(self, self._database, record)

    def recorded_last(self, number: int) -> list[ExecutionRecord]:
        """Return the last executions of the history, in the order in which they were recorded."""
        return list(islice(reversed(self._tables.history), number))[::-1]

    def within(self, connection: Any) -> TransactionalStore:
        """Return this store. All later changes are undone if the transaction is rolled back."""
        put_back = self.snapshot()
        transaction = _tells_of_its_end(connection)
        if transaction is None:
            return self
        undo: _Undo
        if isinstance(transaction, Connection):
            undo = _UndoneByConnection(put_back)
            undo.listen(transaction)
        else:
            undo = _Undo(put_back)
            event.listen(transaction, "after_commit", undo.committed)
            event.listen(transaction, "after_rollback", undo.rolled_back)
        # Those of one transaction are undone together, back to the rows before the first of them.
        if (begun := transaction.get_transaction()) is not None:
            if (earlier := self._undos.get(begun)) is not None:
                earlier.later = undo
            self._undos[begun] = undo
        return self


class _Undo:
    """Restores rows once when their transaction is rolled back."""

    def __init__(self, put_back: Callable[[], None]) -> None:
        self._put_back: Callable[[], None] | None = put_back
        self.later: _Undo | None = None
        """The next one of the same transaction, whose rows are younger."""

    def committed(self, *_: Any) -> None:
        self._put_back = None

    def rolled_back(self, *_: Any) -> None:
        if self._put_back is None:
            return
        self._put_back()
        undo: _Undo | None = self
        while undo is not None:
            undo._put_back = None
            undo = undo.later


class _UndoneByConnection(_Undo):
    """Restores rows when the transaction, or a savepoint around the changes, is rolled back."""

    def __init__(self, put_back: Callable[[], None]) -> None:
        super().__init__(put_back)
        self._inner = 0
        """Savepoints that were begun later and have not ended."""

    def listen(self, connection: Connection) -> None:
        for name, heard in (
            ("commit", self.committed),
            ("rollback", self.rolled_back),
            ("savepoint", self._savepoint_begun),
            ("release_savepoint", self._savepoint_released),
            ("rollback_savepoint", self._savepoint_rolled_back),
        ):
            event.listen(connection, name, heard)

    def _savepoint_begun(self, connection: Connection, name: str | None) -> None:
        self._inner += 1

    def _savepoint_released(self, connection: Connection, name: str, context: None) -> None:
        self._inner = max(0, self._inner - 1)

    def _savepoint_rolled_back(self, connection: Connection, name: str, context: None) -> None:
        if self._inner == 0:
            self.rolled_back()
        self._inner = max(0, self._inner - 1)


def _tells_of_its_end(connection: Any) -> Connection | Session | None:
    """Return the SQLAlchemy connection or session of a caller's object; None for an object of another kind."""
    # Asynchronous connections and sessions wrap plain ones, and a scoped_session wraps the session of its scope.
    for name in ("sync_connection", "sync_session"):
        connection = getattr(connection, name, None) or connection
    if callable(registry := getattr(connection, "registry", None)):
        connection = registry()
    return connection if isinstance(connection, Connection | Session) else None


class _Work:
    """A job's transaction; see `quartzpy.store.protocol.Work`."""

    def __init__(self, store: TransactionalStore, database: Engine | Connection, record: JobTransaction) -> None:
        self._store = store
        self._record = record
        self._close: Callable[[], None]
        if isinstance(database, Engine):
            self.connection = database.connect()
            self._transaction: Any = self.connection.begin()
            self._close = self.connection.close
        else:
            self.connection = database
            self._transaction = database.begin_nested()
            self._close = lambda: None

    def complete(self, node: Node, completion: Completion) -> CompletionOutcome:
        """Commit, and record the execution."""
        self._commit()
        self._record.ends_the_execution = True
        return self._store.complete(node, [completion])

    def commit(self, node: Node, fire_id: int) -> None:
        """Commit. The execution continues."""
        self._commit()

    def _commit(self) -> None:
        if not self._transaction.is_active:
            raise InvalidValueError(
                "transaction: the job ended its transaction itself, by commit or rollback; the end of the block"
                " commits, and an exception rolls back"
            )
        self._transaction.commit()
        self._record.outcome = "committed"

    def close(self) -> None:
        """Roll back, unless the transaction was committed."""
        if self._record.outcome == "open":
            self._record.outcome = "rolled back"
            self._transaction.rollback()
        self._close()
