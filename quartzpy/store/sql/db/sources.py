"""Sources of connections: a URL, a connect function of the caller, or a SQLAlchemy engine of the caller.

For a URL and a function we create pools of our own and set our settings for each session. An engine remains the
caller's: its pool provides the connections for steps and calls, we neither listen to its events nor dispose of it, and
its sessions are used like those of a pooler: each transaction sets its own settings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import psycopg
from sqlalchemy import URL, create_engine, event
from sqlalchemy.engine import Engine
from sqlalchemy.pool import NullPool, QueuePool

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import SettingsError
from quartzpy.store.sql.db.conninfo import JOB_SETTINGS, connect_arguments, session_name, session_settings
from quartzpy.store.sql.db.database import parse_dsn, translate
from quartzpy.store.sql.db.servers import Servers

Connect: TypeAlias = Callable[[], "psycopg.Connection[Any]"]
Database: TypeAlias = str | Engine | Connect

_DRIVER = "postgresql", "psycopg"


class Source(ABC):
    """Creates the engines of a store, and its connections outside of them."""

    is_external = False
    """The engine is the caller's: its connections are prepared at each checkout, and it is never disposed of."""

    def __init__(self, config: SchedulerConfig, servers: Servers, seconds: float) -> None:
        self._config = config
        self._servers = servers
        self._seconds = seconds

    def work_engine(self) -> Engine:
        """Return the engine for steps and calls."""
        return self._engine(
            "work",
            session_settings(self._config),
            isolation_level="AUTOCOMMIT",
            pool_size=self._config.pool_size + 3,
            max_overflow=0,
            pool_use_lifo=True,
            pool_reset_on_return=None,
        )

    def jobs_engine(self) -> Engine:
        """Return the engine for the transactions of jobs."""
        return self._engine(
            "jobs",
            JOB_SETTINGS,
            # The fencing of a job's transaction relies on this, whatever the default of the role or database is.
            isolation_level="READ COMMITTED",
            pool_size=self._config.pool_size,
            max_overflow=self._config.workers,
            pool_pre_ping=True,
        )

    @abstractmethod
    def _engine(self, role: str, settings: Mapping[str, str], **options: Any) -> Engine:
        """Create an engine with a pool of our own."""

    @abstractmethod
    def connect_apart(self, role: str) -> psycopg.Connection[Any]:
        """Open a connection outside the pools that bypasses a pooler, in autocommit mode.

        Raises:
            QuartzpyError: translated from the driver's error.
        """

    def connect_information(self, role: str) -> dict[str, Any] | None:
        """Return libpq's parameters for such a connection; None if only `connect_apart` can open one."""
        return None

    @property
    def can_listen(self) -> bool:
        """Return True if a dedicated session is available, as LISTEN needs it."""
        return not self._config.pooled


class UrlSource(Source):
    """Connections to the database of a URL."""

    def __init__(self, url: URL, config: SchedulerConfig, servers: Servers, seconds: float) -> None:
        super().__init__(config, servers, seconds)
        self._url = url
        self._listen_url = parse_dsn(config.listen_url) if config.listen_url else None
        self._dialect = create_engine(url).dialect

    def _engine(self, role: str, settings: Mapping[str, str], **options: Any) -> Engine:
        arguments = connect_arguments(self._url, self._config, role, pooled=self._config.pooled, settings=settings)
        engine = create_engine(self._url, pool_timeout=self._seconds, connect_args=arguments, **options)

        def connect(dialect: object, record: object, given: object, arguments: dict[str, Any]) -> Any:
            return self._servers.connect(**arguments)

        event.listen(engine, "do_connect", connect)
        return engine

    def connect_apart(self, role: str) -> psycopg.Connection[Any]:
        """See `Source.connect_apart`."""
        try:
            url = self._listen_url or self._url
            _, given = self._dialect.create_connect_args(url)
            arguments = {**given, **connect_arguments(url, self._config, role)}
            return self._servers.connect(autocommit=True, **arguments)
        except psycopg.Error as error:
            raise translate(error) from error

    def connect_information(self, role: str) -> dict[str, Any]:
        """See `Source.connect_information`."""
        keywords = self._dialect.create_connect_args(self._url)[1]
        return {**keywords, **connect_arguments(self._url, self._config, role, pooled=self._config.pooled)}

    @property
    def can_listen(self) -> bool:
        """See `Source.can_listen`."""
        return self._listen_url is not None or super().can_listen


class FunctionSource(Source):
    """Connections from the caller's function, which returns a new one at each call."""

    def __init__(self, connect: Connect, config: SchedulerConfig, servers: Servers, seconds: float) -> None:
        super().__init__(config, servers, seconds)
        self._function = connect

    def _engine(self, role: str, settings: Mapping[str, str], **options: Any) -> Engine:
        engine = create_engine(f"{'+'.join(_DRIVER)}://", pool_timeout=self._seconds, **options)
        event.listen(engine, "do_connect", lambda *_: self._connect(role, settings))
        return engine

    def _connect(self, role: str, settings: Mapping[str, str]) -> psycopg.Connection[Any]:
        connection = self._function()
        if not isinstance(connection, psycopg.Connection):
            raise SettingsError(f"connect: must return a psycopg connection (got {connection!r})")
        try:
            connection.rollback()
            connection.autocommit = True
            self._servers.recognise(connection)
            values = {"client_encoding": "UTF8", "application_name": session_name(self._config, role)}
            if self._config.pooled:
                connection.prepare_threshold = None
            else:
                values |= {**settings, "default_transaction_isolation": "read committed"}
            for name, value in values.items():
                connection.execute("SELECT set_config(%s, %s, false)", [name, value])
            connection.autocommit = False
        except BaseException:
            connection.close()
            raise
        return connection

    def connect_apart(self, role: str) -> psycopg.Connection[Any]:
        """See `Source.connect_apart`."""
        try:
            connection = self._connect(role, session_settings(self._config))
            connection.autocommit = True
            return connection
        except psycopg.Error as error:
            raise translate(error) from error


class EngineSource(Source):
    """Connections of the caller's engine."""

    is_external = True

    def __init__(self, engine: Engine, config: SchedulerConfig, servers: Servers, seconds: float) -> None:
        super().__init__(config, servers, seconds)
        self._given = engine

    def work_engine(self) -> Engine:
        """See `Source.work_engine`."""
        return self._given

    def jobs_engine(self) -> Engine:
        """See `Source.jobs_engine`; the pool is that of the caller's engine."""
        return self._given.execution_options(isolation_level="READ COMMITTED")

    def _engine(self, role: str, settings: Mapping[str, str], **options: Any) -> Engine:
        return self._given

    def connect_apart(self, role: str) -> psycopg.Connection[Any]:
        """See `Source.connect_apart`. The engine opens the connection like all others, and then detaches it."""
        try:
            fairy = self._given.raw_connection()
            connection = fairy.driver_connection
            fairy.detach()
        except Exception as error:
            raise translate(error) from error
        assert isinstance(connection, psycopg.Connection)
        try:
            connection.rollback()
            connection.autocommit = True
            self._servers.recognise(connection)
            name = session_name(self._config, role)
            connection.execute("SELECT set_config('application_name', %s, false)", [name])
            return connection
        except BaseException as error:
            connection.close()
            if isinstance(error, psycopg.Error):
                raise translate(error) from error
            raise


def check_engine(engine: Engine) -> None:
    """Check that a store can use the caller's engine.

    Raises:
        SettingsError: the engine does not use psycopg, or its pool shares one connection among all threads.
    """
    dialect = engine.dialect
    if (dialect.name, dialect.driver) != _DRIVER or dialect.is_async:
        raise SettingsError(
            f"engine: expected one for {'+'.join(_DRIVER)}:// (got {engine.url.drivername}); with another driver, give"
            " the URL, or connect=..."
        )
    if not isinstance(engine.pool, QueuePool | NullPool):
        raise SettingsError(
            f"engine: its pool must give each thread a connection of its own, as QueuePool does (got"
            f" {type(engine.pool).__name__})"
        )


def source_of(database: Database, config: SchedulerConfig, servers: Servers, seconds: float) -> Source:
    """Return the source of connections to this database.

    Raises:
        SettingsError: the URL is wrong, or the engine cannot be used.
    """
    if isinstance(database, Engine):
        return EngineSource(database, config, servers, seconds)
    if callable(database):
        return FunctionSource(database, config, servers, seconds)
    return UrlSource(parse_dsn(database), config, servers, seconds)
