"""What needs SQLAlchemy: the transactions of jobs, whose connection is SQLAlchemy's, and an engine of the caller.

Only a process in which a job begins a transaction, or which is given an engine, imports this module.

An engine of the caller remains theirs: its pool provides the connections for steps and calls, we neither listen to its
events nor dispose of it, and its sessions are used like those of a pooler: each transaction sets its own settings.
"""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import psycopg
from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import InvalidatePoolError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, PoolProxiedConnection, QueuePool

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import SettingsError
from quartzpy.store.postgresql.connection.conninfo import session_name
from quartzpy.store.postgresql.connection.error_translation import translate
from quartzpy.store.postgresql.connection.pool import Lease, Pool, is_stale
from quartzpy.store.postgresql.connection.servers import Servers
from quartzpy.store.postgresql.connection.urls import DRIVER
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import literal

logger = logging.getLogger(__name__)
_DRIVER = tuple(DRIVER.split("+"))


class JobEngine(ABC):
    """Begins the transactions of jobs."""

    # The fencing of a job's transaction relies on this, whatever the default of the role or database is.
    ISOLATION_LEVEL = "READ COMMITTED"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def begin(self, settings_query: str) -> tuple[Connection, tuple[str, ...]]:
        """Begin a transaction by a query of its settings; return its connection to close, and the row of the query.

        Raises:
            QuartzpyError: translated from the driver's error.
        """
        try:
            connection = self._engine.connect()
            try:
                row = connection.exec_driver_sql(settings_query).one()
            except BaseException:
                connection.close()
                raise
            return connection, tuple(row)
        except SQLAlchemyError as error:
            raise translate(error) from error

    @abstractmethod
    def close_idle(self) -> None:
        """Close idle connections, unless they are the caller's."""

    @abstractmethod
    def close(self) -> None:
        """Close idle connections now, and the others when they are returned, unless they are the caller's."""


# What a job may leave behind in its session, apart from prepared statements, which are the driver's and ours.
_TIDY = """
SET SESSION AUTHORIZATION DEFAULT; RESET ALL; CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP;
DISCARD SEQUENCES;
"""
_MADE = SqlFile("connection/engines.sql")("made_settings").encode()
_MADE_SETTINGS = "_quartzpy_made_settings"


def note_settings(connection: psycopg.Connection[Any]) -> None:
    """Remember the settings of a new connection in autocommit mode, to which `tidied` returns."""
    connection.__dict__[_MADE_SETTINGS] = connection.execute(_MADE).fetchall()


def tidied(connection: psycopg.Connection[Any]) -> bool:
    """Remove what a job left behind in a session outside of a transaction; return False if that is not possible."""
    made: list[tuple[str, str]] = connection.__dict__.get(_MADE_SETTINGS, [])
    again = "".join(f"SELECT pg_catalog.set_config({literal(name)}, {literal(value)}, false);" for name, value in made)
    try:
        connection.autocommit = True
        connection.execute((_TIDY + again).encode(), prepare=False)
        connection.autocommit = False
    except psycopg.Error as error:
        logger.info("discarding the connection of a job's transaction, which cannot be tidied: %s", error)
        return False
    return True


class OwnJobEngine(JobEngine):
    """An engine with a pool of connections that `connect` opens with the conversions of SQLAlchemy's dialect."""

    def __init__(
        self,
        url: URL | str,
        connect: Callable[[Any], psycopg.Connection[Any]],
        is_current: Callable[[object], bool],
        config: SchedulerConfig,
        seconds: float,
    ) -> None:
        engine = create_engine(
            url,
            isolation_level=self.ISOLATION_LEVEL,
            pool_size=config.pool_size,
            max_overflow=config.workers,
            pool_timeout=seconds,
            pool_pre_ping=True,
        )
        super().__init__(engine)
        self._is_current = is_current
        self._is_closed = False
        event.listen(engine, "do_connect", lambda _, record, positional, arguments: connect(arguments.get("context")))
        event.listen(engine, "checkout", self._on_checkout)
        event.listen(engine, "checkin", self._on_checkin)
        self._sessions_are_ours = not config.pooled

    def _on_checkout(self, connection: object, record: ConnectionPoolEntry, fairy: object) -> None:
        if not self._is_current(connection):
            # The server is no longer the primary: the pool discards all connections of that age and makes new ones.
            raise InvalidatePoolError

    def _on_checkin(self, connection: object, record: ConnectionPoolEntry) -> None:
        # The pool was disposed of while the connection was in use, so nobody else would close it.
        if connection is not None and (
            self._is_closed
            or not self._is_current(connection)
            or (self._sessions_are_ours and isinstance(connection, psycopg.Connection) and not tidied(connection))
        ):
            record.invalidate()

    def close_idle(self) -> None:
        """See `JobEngine.close_idle`."""
        self._engine.dispose()

    def close(self) -> None:
        """See `JobEngine.close`."""
        self._is_closed = True
        self._engine.dispose()


class CallersJobEngine(JobEngine):
    """The caller's engine."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.execution_options(isolation_level=self.ISOLATION_LEVEL))

    def close_idle(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class CallersPool(Pool):
    """The pool of the caller's engine."""

    def __init__(self, engine: Engine, servers: Servers) -> None:
        self._engine = engine
        self._servers = servers

    def lease(self) -> Lease:
        """See `Pool.lease`."""
        try:
            while True:
                lease = _CallersLease(self._engine.raw_connection())
                try:
                    if self._is_usable(lease.connection):
                        return lease
                except BaseException:
                    lease.discard()
                    raise
                lease.discard()
        except SQLAlchemyError as error:
            raise translate(error) from error

    def _is_usable(self, connection: psycopg.Connection[Any]) -> bool:
        """Prepare a connection, and return True if it is usable."""
        if is_stale(connection):
            return False
        if connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.rollback()
        if not self._servers.is_identified(connection):
            if connection.info.encoding != "utf-8":
                raise SettingsError(
                    f"engine: the client_encoding of its connections must be UTF8 (it is {connection.info.encoding})"
                )
            self._servers.recognise(connection)
        return self._servers.is_current(connection)

    def usage(self) -> tuple[int, int]:
        """See `Pool.usage`."""
        pool = self._engine.pool
        # Other pools keep no connections.
        return (pool.checkedout(), pool.size()) if isinstance(pool, QueuePool) else (0, 0)

    def close_idle(self) -> None:
        """Do nothing: the pool is the caller's."""

    def close(self) -> None:
        """Do nothing: the pool is the caller's."""


class _CallersLease(Lease):
    """A connection of the caller's engine, which leaves it outside of a transaction."""

    def __init__(self, fairy: PoolProxiedConnection) -> None:
        self._fairy: PoolProxiedConnection | None = fairy
        connection = fairy.driver_connection
        assert isinstance(connection, psycopg.Connection)
        self.connection = connection

    def give_back(self) -> None:
        """See `Lease.give_back`."""
        fairy, self._fairy = self._fairy, None
        if fairy is None:
            return
        if fairy.is_valid:
            # A plain statement has started a transaction, and the caller's pool need not end it.
            with contextlib.suppress(psycopg.Error):
                self.connection.rollback()
        fairy.close()

    def discard(self) -> None:
        """See `Lease.discard`."""
        fairy, self._fairy = self._fairy, None
        if fairy is not None:
            fairy.invalidate()
            fairy.close()


def open_apart(engine: Engine, config: SchedulerConfig, servers: Servers, role: str) -> psycopg.Connection[Any]:
    """Open a connection outside the pool. The engine opens it like all others, and then detaches it.

    Raises:
        QuartzpyError: translated from the driver's error.
    """
    try:
        fairy = engine.raw_connection()
        connection = fairy.driver_connection
        fairy.detach()
    except Exception as error:
        raise translate(error) from error
    assert isinstance(connection, psycopg.Connection)
    try:
        connection.rollback()
        connection.autocommit = True
        servers.recognise(connection)
        connection.execute("SELECT set_config('application_name', %s, false)", [session_name(config, role)])
        return connection
    except BaseException as error:
        connection.close()
        if isinstance(error, psycopg.Error):
            raise translate(error) from error
        raise


def most_connections(engine: Engine) -> int | None:
    """Return the largest number of connections of the engine's pool; None if there is no limit."""
    pool = engine.pool
    if not isinstance(pool, QueuePool) or pool._max_overflow < 0:
        return None
    return pool.size() + pool._max_overflow


def check_engine(engine: Engine) -> None:
    """Check that a store can use the caller's engine.

    Raises:
        SettingsError: the engine does not use psycopg, or its pool shares one connection among all threads.
    """
    dialect = engine.dialect
    if (dialect.name, dialect.driver) != _DRIVER or dialect.is_async:
        raise SettingsError(
            f"engine: expected one for {DRIVER}:// (got {engine.url.drivername}); with another driver, give"
            " the URL, or connect=..."
        )
    if not isinstance(engine.pool, QueuePool | NullPool):
        raise SettingsError(
            f"engine: its pool must give each thread a connection of its own, as QueuePool does (got"
            f" {type(engine.pool).__name__})"
        )
