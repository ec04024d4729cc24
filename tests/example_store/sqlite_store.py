"""A store as a third party would write it: a scheduler's whole state in one SQLite file.

Every call is one transaction of SQLite. It loads the state, lets the in-memory store decide, saves the state where the
call may have changed it, and commits. So several processes of one machine can share the file. A call costs as much as
the state is large: this store is for small schedules that must survive their process.
"""

from __future__ import annotations

import inspect
import pickle
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from quartzpy.clock import Clock
from quartzpy.errors import InvalidValueError, StoreUnavailableError
from quartzpy.store.protocol import ClusterStore, FiringStore, JobStore, OperationsStore, QueryStore, SchedulingStore
from quartzpy.store.protocol.actions import ActionStore
from quartzpy.store.ram.store import RamJobStore

_T = TypeVar("_T")
_SCHEMA = "CREATE TABLE IF NOT EXISTS quartzpy (id INTEGER PRIMARY KEY CHECK (id = 1), state BLOB NOT NULL)"
_SAVE = "INSERT INTO quartzpy VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET state = excluded.state"
_WAIT = 30.0
_NO_STATE = {"open", "check_tables", "close", "on_event", "connections", "subscribe", "audit", "repair"}
_READS = {"now", "list_nodes", "holdings", "cancel_requests", "owned", "find_actions"}


def _methods(protocol: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(protocol, inspect.isfunction) if not name.startswith("_")}


_READING = (_methods(QueryStore) | _methods(OperationsStore) | _READS) - _NO_STATE
_CHANGE = (FiringStore, ClusterStore, SchedulingStore, ActionStore)
_CHANGING = {name for protocol in _CHANGE for name in _methods(protocol)} - _READING - _NO_STATE


class SqliteJobStore:
    """Keeps a scheduler in the file at `path`, by the time of `clock`.

    With `survives_power_loss=False` a commit does not wait for the disk.
    """

    def __init__(self, path: Path, clock: Clock, *, survives_power_loss: bool = True) -> None:
        self._path = path
        self._synchronous = "FULL" if survives_power_loss else "OFF"
        self._ram = RamJobStore(clock)
        self._lock = threading.RLock()

    def open(self) -> None:
        with self._transaction("BEGIN IMMEDIATE") as connection:
            connection.execute(_SCHEMA)

    def check_tables(self) -> None:
        """Do nothing: the next call would fail by itself."""

    def close(self) -> None:
        """Nothing stays open between two calls."""

    def within(self, connection: Any) -> JobStore:
        raise InvalidValueError("using: this store has no transactions of the caller's")

    def begin_job_transaction(self) -> Any:
        raise InvalidValueError("transaction: this store has no transactions of a job's own")

    def exclusively(self, work: Callable[[JobStore], _T]) -> _T:
        return self._change(lambda: work(self._ram))

    def together(self, work: Callable[[JobStore], _T]) -> _T:
        return self._change(lambda: work(self._ram))

    def on_event(self, emit: Callable[[Any], None]) -> None:
        """This store notices nothing by itself."""

    def connections(self) -> None:
        return None

    def subscribe(self) -> None:
        """None: other processes are not told; they find what is new when they look next."""
        return

    def audit(self) -> list[Any]:
        return []

    def repair(self) -> Any:
        return self._ram.repair()

    def __getattr__(self, name: str) -> Any:
        if name in _READING:
            return partial(self._call, self._read, name)
        if name in _CHANGING:
            return partial(self._call, self._change, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _call(self, how: Callable[[Callable[[], Any]], Any], name: str, *args: Any, **values: Any) -> Any:
        return how(lambda: getattr(self._ram, name)(*args, **values))

    def _read(self, work: Callable[[], _T]) -> _T:
        with self._transaction("BEGIN") as connection:
            self._load(connection)
            return work()

    def _change(self, work: Callable[[], _T]) -> _T:
        with self._transaction("BEGIN IMMEDIATE") as connection:
            self._load(connection)
            done = work()
            connection.execute(_SAVE, [pickle.dumps(self._ram.export_state())])
            return done

    def _load(self, connection: sqlite3.Connection) -> None:
        found = connection.execute("SELECT state FROM quartzpy").fetchone()
        if found is not None:
            self._ram.import_state(pickle.loads(found[0]))

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock, closing(sqlite3.connect(self._path, timeout=_WAIT, isolation_level=None)) as connection:
                connection.execute(f"PRAGMA synchronous = {self._synchronous}")
                connection.execute(begin)
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise StoreUnavailableError(f"{self._path}: {error}") from error
