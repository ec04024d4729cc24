"""What to say of an error besides what the server said: which privilege is missing, who holds the lock."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from quartzpy.errors import QuartzpyError, SchemaError, StoreUnavailableError
from quartzpy.store.sql import privileges
from quartzpy.store.sql.connections import Connections
from quartzpy.store.sql.database import INSUFFICIENT_PRIVILEGE
from quartzpy.store.sql.flight import Send
from quartzpy.store.sql.privileges import Use
from quartzpy.store.sql.statement import Statement, prepare

logger = logging.getLogger(__name__)

LOCK_NOT_AVAILABLE = "55P03"
PATIENCE = 3
"""So many waits for a lock end in vain, one after the other, before it is asked who holds it."""
_DENIED = re.compile(r"permission denied for (?:table|sequence) (\w+)")

# Whoever has, or waits for, a row lock of these tables has this lock of the table; who waits is himself blocked.
HOLDERS = """
SELECT a.pid, a.usename::text, a.application_name, a.client_addr::text, a.state,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8
  FROM pg_catalog.pg_stat_activity a
 WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND cardinality(pg_blocking_pids(a.pid)) = 0
   AND EXISTS (SELECT FROM pg_catalog.pg_locks l
                WHERE l.pid = a.pid AND l.granted AND l.locktype = 'relation'
                  AND l.relation IN ('$locks'::regclass, '$triggers'::regclass, '$job_details'::regclass)
                  AND l.mode <> 'AccessShareLock')
 ORDER BY a.xact_start
 LIMIT 3
"""


# Sessions of ours whose client owes them the rest of a flight: no timeout of the server's counts there, as it takes
# them for active. Their client has given up, or will; whatever they hold, the cluster waits for.
STALLED = prepare(
    "stalled",
    """
SELECT a.pid, a.application_name, pg_terminate_backend(a.pid)
  FROM pg_catalog.pg_stat_activity a
 WHERE a.datname = current_database() AND a.usename = current_user AND a.pid <> pg_backend_pid()
   AND a.application_name LIKE 'quartzpy:%' AND a.application_name NOT LIKE '%:jobs'
   AND a.state = 'active' AND a.wait_event = 'ClientRead'
   AND a.state_change < clock_timestamp() - %(patience)s::interval
""",
    {},
)


class Diagnosis:
    """Explains the errors of one store's flights."""

    def __init__(
        self, connections: Connections, names: dict[str, str], schema: str | None, patience: timedelta
    ) -> None:
        self._connections = connections
        self._patience = patience
        self._schema = schema
        self._table_prefix = names["prefix"]
        self._holders: Statement = prepare("holders", HOLDERS, names)
        self._lock = threading.Lock()
        self._waits_in_vain = 0

    @contextmanager
    def explained(self, *, locks: bool = False) -> Iterator[None]:
        """Add to what a flight raises here. `locks`: it takes a lock, so that its success ends a row of vain waits.

        Raises:
            SchemaError, StoreUnavailableError: in place of that, with the same `sqlstate`.
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
        said = privileges.said({name: verbs for name, verbs in lacking.items() if name == denied[1]})
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
            logger.warning("%d waits for a lock ended in vain; it is held by %s", self._waits_in_vain, holders)
        return StoreUnavailableError(f"{error}; it is held by {holders}", sqlstate=error.sqlstate)

    def _end_stalled(self) -> None:
        """End sessions of ours, of whatever node, that wait in a transaction for the rest of a flight."""
        try:
            [found] = self._connections.fly([Send(STALLED, {"patience": self._patience})])
        except QuartzpyError as error:
            logger.info("whether a stalled session of ours holds the lock is not known: %s", error)
            return
        for pid, application, _ in found.rows:
            logger.warning("session %s (pid %d) waited for the rest of a flight, and was ended", application, pid)

    def holders(self) -> str:
        """Who has locks of our rows and waits for nobody, the oldest transaction first; empty where it is unknown."""
        return "; ".join(text for text, _ in self.held())

    def held(self) -> list[tuple[str, float]]:
        """As `holders`, each with the seconds that its transaction has lasted."""
        try:
            [found] = self._connections.fly([Send(self._holders, {})])
        except QuartzpyError:
            return []
        return [
            (
                f"pid {pid} (user {user or '?'}, application {application or '-'}, host {host or 'local'},"
                f" {state or 'state unknown'}, transaction {_age(seconds)})",
                seconds or 0.0,
            )
            for pid, user, application, host, state, seconds in found.rows
        ]


def _age(seconds: float | None) -> str:
    # Of other users' sessions only who may read all statistics is told.
    return "of unknown age" if seconds is None else f"of {seconds:.0f} s"
