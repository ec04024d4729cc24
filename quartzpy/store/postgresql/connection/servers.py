"""Detection of failovers: identifies the server of each new connection.

A server is identified by its system identifier and its timeline, which increases with each promotion. It is queried
once per connection, not per transaction. A server on an older timeline than one that this process has seen was
superseded by a failover: this process neither reads from it nor writes to it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
from psycopg import connect

from quartzpy.errors import StoreUnavailableError
from quartzpy.events.events import DatabaseFailedOver
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, execute_pipelined
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import Statement, prepare

logger = logging.getLogger(__name__)

READ_ONLY = "25006"
# With these values of target_session_attrs the caller accepts a standby.
_STANDBY_WILL_DO = frozenset({"any", "read-only", "standby", "prefer-standby"})
_GENERATION = "_quartzpy_generation"

_SQL = SqlFile("connection/servers.sql")
_WHO = prepare("who", _SQL("who"))
_STANDBY_ONLY = prepare("standby", _SQL("standby"))
# Missing privilege, undefined function, not supported by this product.
_NOT_AVAILABLE = frozenset({"42501", "42883", "0A000"})


class Server(NamedTuple):
    """A server that accepts writes; None for values that it does not reveal."""

    system_identifier: int | None
    timeline: int | None
    place: str

    @property
    def identity(self) -> tuple[int | None, int | None]:
        return self.system_identifier, self.timeline

    def is_superseded_by(self, other: Server) -> bool:
        return (
            self.system_identifier == other.system_identifier
            and self.timeline is not None
            and other.timeline is not None
            and self.timeline < other.timeline
        )


class WrongServerError(StoreUnavailableError):
    """The server that answered is not the current primary."""


class Servers:
    """Opens connections, and tracks the server that the connections of one store lead to."""

    def __init__(self, seconds: float, failed_over: Callable[[DatabaseFailedOver], None]) -> None:
        self._seconds = seconds
        self._failed_over = failed_over
        self._lock = threading.Lock()
        self._primary: Server | None = None
        self._generation = 0
        self._reveals_identity = True

    def connect(self, **arguments: Any) -> psycopg.Connection[Any]:
        """Connect to the current primary; of several hosts, others are skipped.

        Raises:
            psycopg.Error: no connection can be opened.
            StoreUnavailableError: the server is not the current primary.
        """
        autocommit = arguments.pop("autocommit", False)
        wrong: WrongServerError | None = None
        while True:
            try:
                connection = connect(autocommit=True, **arguments)
            except psycopg.Error as error:
                if wrong is None:
                    raise
                raise wrong from error
            place = connection.info.host, str(connection.info.port)
            try:
                self.recognise(connection, standby_will_do=arguments.get("target_session_attrs") in _STANDBY_WILL_DO)
                connection.autocommit = autocommit
                return connection
            except WrongServerError as error:
                wrong = error
                connection.close()
                others = _without(arguments, *place)
                if others is None:
                    raise
                arguments = others
            except BaseException:
                connection.close()
                raise

    @staticmethod
    def is_identified(connection: object) -> bool:
        """Return True if the server of a connection has been identified."""
        return _GENERATION in getattr(connection, "__dict__", {})

    def is_current(self, connection: object) -> bool:
        """Return True if this connection, which was opened here, leads to the current primary."""
        made_in: int | None = getattr(connection, "__dict__", {}).get(_GENERATION)
        return made_in is None or made_in == self._generation

    def distrust(self) -> None:
        """Stop using all existing connections, because their server no longer accepts writes."""
        with self._lock:
            self._generation += 1

    def recognise(
        self, connection: psycopg.Connection[Any], seconds: float | None = None, *, standby_will_do: bool = False
    ) -> None:
        """Identify the server of a new connection, within `seconds`.

        Raises:
            psycopg.Error: the server does not answer.
            StoreUnavailableError: it is not the current primary.
        """
        place = f"{connection.info.host}:{connection.info.port}"
        standby, timeline, system = self._identify(connection, self._seconds if seconds is None else seconds)
        before = None
        with self._lock:
            primary, server = self._primary, Server(system, timeline, place)
            if standby:
                if primary is not None and not standby_will_do:
                    raise WrongServerError(
                        f"the server at {place} is a standby; the primary was last seen at {primary.place}",
                        sqlstate=READ_ONLY,
                    )
            elif primary is not None and server.is_superseded_by(primary):
                raise WrongServerError(
                    f"the server at {place} is on timeline {server.timeline}, which a failover to timeline"
                    f" {primary.timeline} at {primary.place} has superseded; if that is wrong, as after restoring a"
                    " backup, restart this process",
                    sqlstate=READ_ONLY,
                )
            else:
                if primary is not None and primary.identity != server.identity:
                    before = primary
                    self._generation += 1
                self._primary = server
            connection.__dict__[_GENERATION] = self._generation
        if before is not None:
            self._report_failover(before, server)

    def _identify(self, connection: psycopg.Connection[Any], seconds: float) -> tuple[bool, int | None, int | None]:
        if self._reveals_identity:
            try:
                return self._answer(connection, _WHO, seconds)
            except psycopg.Error as error:
                if error.sqlstate not in _NOT_AVAILABLE:
                    raise
                logger.info("the server does not reveal its identity (%s): failovers cannot be detected", error)
                self._reveals_identity = False
        return self._answer(connection, _STANDBY_ONLY, seconds)

    def _answer(
        self, connection: psycopg.Connection[Any], question: Statement, seconds: float
    ) -> tuple[bool, int | None, int | None]:
        [result] = execute_pipelined(
            connection, [BoundStatement(question, {})], seconds=seconds, begin=None, commit=None, prepared=False
        )
        standby, timeline, system = result.rows[0]
        return standby, timeline, system

    def _report_failover(self, before: Server, after: Server) -> None:
        logger.warning(
            "the database failed over: from %s (system %s, timeline %s) to %s (system %s, timeline %s);"
            " dropping the connections to the former",
            *(before.place, before.system_identifier, before.timeline),
            *(after.place, after.system_identifier, after.timeline),
        )
        self._failed_over(
            DatabaseFailedOver(
                place=after.place,
                system_identifier=after.system_identifier,
                timeline=after.timeline,
                previous_place=before.place,
                previous_system_identifier=before.system_identifier,
                previous_timeline=before.timeline,
            )
        )


def _without(arguments: dict[str, Any], host: str, port: str) -> dict[str, Any] | None:
    """Return the parameters without one host; None if no other host is left."""
    hosts = str(arguments.get("host", "")).split(",")
    ports = str(arguments.get("port", "")).split(",")
    ports = ports if len(ports) == len(hosts) else ports * len(hosts)
    places = list(zip(hosts, ports, strict=True))
    remaining = [place for place in places if (place[0], place[1] or "5432") != (host, port)]
    if not remaining or len(remaining) == len(places):
        return None
    return {
        **arguments,
        "host": ",".join(host for host, _ in remaining),
        "port": ",".join(port for _, port in remaining),
    }
