"""Which server our connections lead to, and when it is another one: a failover is seen at the next connection.

A server is told by its system identifier and, as each promotion begins one, its timeline. Asked once for each
connection, not for each flight. A server whose timeline is older than one that this process has seen was left behind
by a failover: whatever it says, nothing is read from it or written to it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg

from quartzpy.errors import StoreUnavailableError
from quartzpy.events import DatabaseFailedOver
from quartzpy.store.sql.flight import Send, fly
from quartzpy.store.sql.statement import Statement

logger = logging.getLogger(__name__)

READ_ONLY = "25006"
# Whoever asks for these wants to read, wherever that is.
_STANDBY_WILL_DO = frozenset({"any", "read-only", "standby", "prefer-standby"})
_GENERATION = "_quartzpy_generation"

# The log that the server writes has the timeline in its name; the control file tells of a promotion later.
_WHO = Statement(
    "who",
    b"SELECT pg_is_in_recovery(),"
    b" CASE WHEN NOT pg_is_in_recovery()"
    b" THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END,"
    b" (SELECT system_identifier FROM pg_control_system())",
    (),
)
_STANDBY_ONLY = Statement("standby", b"SELECT pg_is_in_recovery(), NULL::int, NULL::bigint", ())
# No privilege, no such function, not there in this product.
_UNTOLD = frozenset({"42501", "42883", "0A000"})


class Server(NamedTuple):
    """A server that can write; what it does not tell is None."""

    system_identifier: int | None
    timeline: int | None
    place: str

    @property
    def identity(self) -> tuple[int | None, int | None]:
        return self.system_identifier, self.timeline

    def was_left_behind_by(self, other: Server) -> bool:
        return (
            self.system_identifier == other.system_identifier
            and self.timeline is not None
            and other.timeline is not None
            and self.timeline < other.timeline
        )


class WrongServerError(StoreUnavailableError):
    """The server that answered is not the one that holds the data now."""


class Servers:
    """Knows the server that the connections of one store lead to, and makes them."""

    def __init__(self, seconds: float, failed_over: Callable[[DatabaseFailedOver], None]) -> None:
        self._seconds = seconds
        self._failed_over = failed_over
        self._lock = threading.Lock()
        self._primary: Server | None = None
        self._generation = 0
        self._tells_all = True

    def connect(self, **arguments: Any) -> psycopg.Connection[Any]:
        """A connection to the server that holds the data; of several hosts, those that do not are passed over.

        Raises:
            psycopg.Error: none can be made.
            StoreUnavailableError: the server is not the one that holds the data.
        """
        autocommit = arguments.pop("autocommit", False)
        wrong: WrongServerError | None = None
        while True:
            try:
                connection = psycopg.connect(autocommit=True, **arguments)
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
    def has_recognised(connection: object) -> bool:
        """Tell whether a connection was asked which server it leads to."""
        return _GENERATION in getattr(connection, "__dict__", {})

    def is_current(self, connection: object) -> bool:
        """Whether this connection, which was made here, leads to the server that holds the data now."""
        made_in: int | None = getattr(connection, "__dict__", {}).get(_GENERATION)
        return made_in is None or made_in == self._generation

    def distrust(self) -> None:
        """The server cannot write any more: no connection that was made up to now is used again."""
        with self._lock:
            self._generation += 1

    def recognise(
        self, connection: psycopg.Connection[Any], seconds: float | None = None, *, standby_will_do: bool = False
    ) -> None:
        """Ask a new connection which server it leads to, for so many seconds.

        Raises:
            psycopg.Error: it does not answer.
            StoreUnavailableError: it is not the one that holds the data.
        """
        place = f"{connection.info.host}:{connection.info.port}"
        standby, timeline, system = self._asked(connection, self._seconds if seconds is None else seconds)
        before = None
        with self._lock:
            known, found = self._primary, Server(system, timeline, place)
            if standby:
                if known is not None and not standby_will_do:
                    raise WrongServerError(
                        f"the server at {place} is a standby; the data is where it can be written, last at"
                        f" {known.place}",
                        sqlstate=READ_ONLY,
                    )
            elif known is not None and found.was_left_behind_by(known):
                raise WrongServerError(
                    f"the server at {place} is of timeline {found.timeline}, which a failover to timeline"
                    f" {known.timeline} at {known.place} left behind; where that is not so, as after restoring a"
                    " backup, restart this process",
                    sqlstate=READ_ONLY,
                )
            else:
                if known is not None and known.identity != found.identity:
                    before = known
                    self._generation += 1
                self._primary = found
            connection.__dict__[_GENERATION] = self._generation
        if before is not None:
            self._tell(before, found)

    def _asked(self, connection: psycopg.Connection[Any], seconds: float) -> tuple[bool, int | None, int | None]:
        if self._tells_all:
            try:
                return self._answer(connection, _WHO, seconds)
            except psycopg.Error as error:
                if error.sqlstate not in _UNTOLD:
                    raise
                logger.info("the server does not tell which one it is (%s): a failover is not recognised", error)
                self._tells_all = False
        return self._answer(connection, _STANDBY_ONLY, seconds)

    def _answer(
        self, connection: psycopg.Connection[Any], question: Statement, seconds: float
    ) -> tuple[bool, int | None, int | None]:
        [result] = fly(connection, [Send(question, {})], seconds=seconds, begin=None, commit=None, prepared=False)
        standby, timeline, system = result.rows[0]
        return standby, timeline, system

    def _tell(self, before: Server, after: Server) -> None:
        logger.warning(
            "the database failed over: from %s (system %s, timeline %s) to %s (system %s, timeline %s);"
            " the connections to the former are dropped",
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
    """The same with one host left out; None where no other is left."""
    hosts = str(arguments.get("host", "")).split(",")
    ports = str(arguments.get("port", "")).split(",")
    ports = ports if len(ports) == len(hosts) else ports * len(hosts)
    places = list(zip(hosts, ports, strict=True))
    left = [place for place in places if (place[0], place[1] or "5432") != (host, port)]
    if not left or len(left) == len(places):
        return None
    return {**arguments, "host": ",".join(host for host, _ in left), "port": ",".join(port for _, port in left)}
