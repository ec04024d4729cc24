"""Adds the likely cause to a database error: the missing privilege, or the session that holds the lock."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from quartzpy.errors import QuartzpyError, SchemaError, StoreUnavailableError
from quartzpy.store.postgresql.connection.connections import Connections
from quartzpy.store.postgresql.connection.error_translation import INSUFFICIENT_PRIVILEGE
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.schema import privileges
from quartzpy.store.postgresql.schema.naming import Names
from quartzpy.store.postgresql.schema.privileges import Use
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import Statement, prepare

logger = logging.getLogger(__name__)

LOCK_NOT_AVAILABLE = "55P03"
PATIENCE = 3
"""After this many consecutive lock timeouts, the holder of the lock is looked up."""
_DENIED = re.compile(r"permission denied for (?:table|sequence) (\w+)")

_SQL = SqlFile("connection/diagnosis.sql")
END_STALLED = prepare("end_stalled", _SQL("end_stalled"))


class Diagnosis:
    """Explains the errors of one store's transactions."""

    def __init__(self, connections: Connections, names: Names, schema: str | None, patience: timedelta) -> None:
        self._connections = connections
        self._patience = patience
        self._schema = schema
        self._table_prefix = names.prefix
        self._holders: Statement = prepare("holders", _SQL("holders"), names)
        self._lock = threading.Lock()
        self._waits_in_vain = 0

    @contextmanager
    def explained(self, *, locks: bool = False) -> Iterator[None]:
        """Explain the errors that the block raises. With `locks`, success ends a series of lock timeouts.

        Raises:
            SchemaError, StoreUnavailableError: in place of the original error, with the same `sqlstate`.
        """
        try:
            yield
        except SchemaError as error:
            raise self._without_privilege(error) from error
        except StoreUnavailableError as error:
            if error.sqlstate != LOCK_NOT_AVAILABLE:
                raise
            raise self._waited_in_vain(error) from error
        if locks and self._waits_in_vain:
            with self._lock:
                self._waits_in_vain = 0

    def _without_privilege(self, error: SchemaError) -> SchemaError:
        denied = _DENIED.search(str(error))
        if error.sqlstate != INSUFFICIENT_PRIVILEGE or denied is None:
            return error
        try:
            with self._connections.checked_out() as connection:
                lacking = privileges.missing(connection, self._schema, Use.NODE, self._table_prefix)
                role = connection.info.user
        except QuartzpyError:
            return error
        said = privileges.described({name: verbs for name, verbs in lacking.items() if name == denied[1]})
        if not said:
            return error
        return SchemaError(
            f"role {role} lacks {said}, or a part of it that this needs; `quartzpy db roles` prints what each role"
            f" needs ({denied[0]})",
            sqlstate=error.sqlstate,
        )

    def _waited_in_vain(self, error: StoreUnavailableError) -> StoreUnavailableError:
        self._end_stalled()
        with self._lock:
            self._waits_in_vain += 1
            if self._waits_in_vain < PATIENCE:
                return error
        holders = self.holders()
        if not holders:
            return error
        if self._waits_in_vain % PATIENCE == 0:
            logger.warning("%d lock timeouts in a row; the lock is held by %s", self._waits_in_vain, holders)
        return StoreUnavailableError(f"{error}; the lock is held by {holders}", sqlstate=error.sqlstate)

    def _end_stalled(self) -> None:
        """Terminate quartzpy's sessions, of any node, that are stalled in the middle of a transaction."""
        try:
            [terminated] = self._connections.execute(
                [BoundStatement(END_STALLED, {"patience": self._patience})], self._connections.steps
            )
        except QuartzpyError as error:
            logger.info("cannot check for stalled sessions that hold the lock: %s", error)
            return
        for pid, application, _ in terminated.rows:
            logger.warning(
                "terminated session %s (pid %d), which was stalled in the middle of a transaction", application, pid
            )

    def holders(self) -> str:
        """Describe the sessions that hold locks of our rows and wait for nobody, the oldest first; empty if unknown."""
        return "; ".join(text for text, _ in self.held())

    def held(self) -> list[tuple[str, float]]:
        """Return the holders with the seconds that their transactions have lasted."""
        try:
            [holders] = self._connections.execute([BoundStatement(self._holders, {})], self._connections.steps)
        except QuartzpyError:
            return []
        return [
            (
                f"pid {pid} (user {user or '?'}, application {application or '-'}, host {host or 'local'},"
                f" {state or 'state unknown'}, transaction {_age(seconds)})",
                seconds or 0.0,
            )
            for pid, user, application, host, state, seconds in holders.rows
        ]


def _age(seconds: float | None) -> str:
    # The age of other users' transactions is visible only to roles that may read all statistics.
    return "of unknown age" if seconds is None else f"of {seconds:.0f} s"
