"""Sources of connections: a URL, a connect function of the caller, or a SQLAlchemy engine of the caller.

For a URL and a function we create pools of our own and set our settings for each session. An engine remains the
caller's; see `engines`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from psycopg.rows import tuple_row

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import QuartzpyError, SettingsError, StoreUnavailableError
from quartzpy.store.postgresql.connection.conninfo import (
    JOB_SETTINGS,
    connect_arguments,
    session_name,
    session_settings,
)
from quartzpy.store.postgresql.connection.error_translation import translate
from quartzpy.store.postgresql.connection.password_command import PasswordCommand
from quartzpy.store.postgresql.connection.pool import OwnPool, Pool
from quartzpy.store.postgresql.connection.servers import Servers
from quartzpy.store.postgresql.connection.urls import DRIVER, DatabaseUrl, parse_dsn, scrubbed

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Engine

    from quartzpy.store.postgresql.connection.engines import JobEngine

Connect: TypeAlias = Callable[[], "psycopg.Connection[Any]"]
Database: TypeAlias = "str | Engine | Connect"
Opened: TypeAlias = Callable[["psycopg.Connection[Any]"], None]


FOR_STEPS = 3
"""The number of connections of a pool that calls of applications do not use, so that a node's steps always find one."""


class ConnectionSource(ABC):
    """Creates the pools of a store, and its connections outside of them.

    `opened` is called with each new connection of a pool, unless it is the caller's.
    """

    is_external = False
    """The pool is the caller's: sessions are used like those of a pooler, and it is never closed."""

    def __init__(self, config: SchedulerConfig, servers: Servers, seconds: float, opened: Opened) -> None:
        self._config = config
        self._servers = servers
        self._seconds = seconds
        self._opened = opened

    @abstractmethod
    def work_pool(self) -> Pool:
        """Return the pool for steps and calls."""

    @property
    def connections_for_calls(self) -> int:
        """The number of connections of the pool that the calls of applications may use at the same time."""
        return self._config.pool_size

    @abstractmethod
    def job_engine(self) -> JobEngine:
        """Return the engine for the transactions of jobs. It imports SQLAlchemy, of which jobs get a connection."""

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


class _OwnConnectionSource(ConnectionSource):
    """A source that opens each connection itself."""

    @abstractmethod
    def _connect(self, role: str, settings: Mapping[str, str]) -> psycopg.Connection[Any]:
        """Open a connection with these settings of its session, in autocommit mode."""

    def work_pool(self) -> Pool:
        """See `ConnectionSource.work_pool`."""

        def connect() -> psycopg.Connection[Any]:
            connection = self._connect("work", session_settings(self._config))
            self._opened(connection)
            return connection

        return OwnPool(
            connect, self._servers.is_current, size=self._config.pool_size + FOR_STEPS, seconds=self._seconds
        )

    def job_engine(self) -> JobEngine:
        """See `ConnectionSource.job_engine`."""
        from quartzpy.store.postgresql.connection.engines import OwnJobEngine, note_settings

        def connect(adapters: Any) -> psycopg.Connection[Any]:
            connection = self._connect_for_jobs(adapters)
            if not self._config.pooled:
                note_settings(connection)
            connection.autocommit = False
            self._opened(connection)
            return connection

        return OwnJobEngine(self._sqlalchemy_url(), connect, self._servers.is_current, self._config, self._seconds)

    @abstractmethod
    def _sqlalchemy_url(self) -> URL | str:
        """Return the URL of the engine of jobs; its pool connects by `_connect_for_jobs`."""

    def _connect_for_jobs(self, adapters: Any) -> psycopg.Connection[Any]:
        """Open a connection for the transactions of jobs; `adapters` are the conversions of SQLAlchemy's dialect."""
        return self._connect("jobs", JOB_SETTINGS)


class UrlSource(_OwnConnectionSource):
    """Connections to the database of a URL."""

    def __init__(self, url: str, config: SchedulerConfig, servers: Servers, seconds: float, opened: Opened) -> None:
        super().__init__(config, servers, seconds, opened)
        self._url = parse_dsn(url)
        self._listen_url = parse_dsn(config.listen_url) if config.listen_url else None
        command = config.password_command
        self._passwords = None if command is None else _passwords_of(self._url, command)
        # Parameters that are not supported are refused now, not at the first connection.
        connect_arguments(self._url, config, "work", pooled=config.pooled)

    def _connect(self, role: str, settings: Mapping[str, str], adapters: Any = None) -> psycopg.Connection[Any]:
        arguments = connect_arguments(self._url, self._config, role, pooled=self._config.pooled, settings=settings)
        return self._open(context=adapters, **arguments)

    def _open(self, **arguments: Any) -> psycopg.Connection[Any]:
        if self._passwords is None:
            return self._servers.connect(autocommit=True, **arguments)
        return self._passwords.connect(
            lambda password: self._servers.connect(autocommit=True, **arguments | {"password": password})
        )

    def _connect_for_jobs(self, adapters: Any) -> psycopg.Connection[Any]:
        return self._connect("jobs", JOB_SETTINGS, adapters)

    def _sqlalchemy_url(self) -> URL:
        return self._url.as_sqlalchemy()

    def connect_apart(self, role: str) -> psycopg.Connection[Any]:
        """See `ConnectionSource.connect_apart`."""
        try:
            arguments = connect_arguments(self._listen_url or self._url, self._config, role)
            return self._open(**arguments)
        except psycopg.Error as error:
            raise translate(error) from error

    def connect_information(self, role: str) -> dict[str, Any] | None:
        """See `ConnectionSource.connect_information`; a command that prints the password may take long."""
        if self._passwords is not None:
            return None
        return connect_arguments(self._url, self._config, role, pooled=self._config.pooled)

    @property
    def can_listen(self) -> bool:
        """See `ConnectionSource.can_listen`."""
        return self._listen_url is not None or super().can_listen


def _passwords_of(url: DatabaseUrl, command: str) -> PasswordCommand:
    if "password" in url.parameters:
        raise SettingsError("password_command: the URL of the database has a password, too; leave one of them out")
    return PasswordCommand(command)


@cache
def logging_in(url: str, command: str) -> Connect:
    """Return a function that connects to the database of a URL with the password that a command prints.

    It is one function for all steps of a command, so that they share a password.

    Raises:
        SettingsError: the URL is wrong, or has a password itself.
    """
    passwords = _passwords_of(parse_dsn(url), command)
    return lambda: passwords.connect(lambda password: connect_once(url, password=password))


def connect_once(database: str | Connect, **arguments: Any) -> psycopg.Connection[Any]:
    """Open a connection for one step of an administrator's: to the database of a URL, or by a function.

    `arguments` are further parameters for psycopg, which only the connection to a URL takes.

    Raises:
        QuartzpyError: the URL is wrong, or the function failed.
        psycopg.Error: the database cannot be reached.
    """
    if not isinstance(database, str):
        return _connected_by(database)
    parameters = {"connect_timeout": "5", **parse_dsn(database).parameters, **arguments}
    return psycopg.connect(**parameters | {"application_name": "quartzpy:db", "client_encoding": "UTF8"})


def _connected_by(function: Connect) -> psycopg.Connection[Any]:
    """Return a new connection of a function of the caller's. No message shows what it returned, which may be a URL."""
    try:
        connection = function()
    except (QuartzpyError, psycopg.Error):
        raise
    except Exception as error:
        # It may be an error of any library. The node takes it as one of the database, and tries again.
        raise StoreUnavailableError(f"connect: {type(error).__name__}: {scrubbed(str(error))}") from error
    if not isinstance(connection, psycopg.Connection):
        raise SettingsError(f"connect: must return a psycopg connection (got {type(connection).__name__})")
    # We read columns by their place.
    connection.row_factory = tuple_row
    return connection


class FunctionSource(_OwnConnectionSource):
    """Connections from the caller's function, which returns a new one at each call."""

    def __init__(
        self, connect: Connect, config: SchedulerConfig, servers: Servers, seconds: float, opened: Opened
    ) -> None:
        super().__init__(config, servers, seconds, opened)
        self._function = connect

    def _connect(self, role: str, settings: Mapping[str, str]) -> psycopg.Connection[Any]:
        connection = _connected_by(self._function)
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
        except BaseException:
            connection.close()
            raise
        return connection

    def _sqlalchemy_url(self) -> str:
        return f"{DRIVER}://"

    def connect_apart(self, role: str) -> psycopg.Connection[Any]:
        """See `ConnectionSource.connect_apart`."""
        try:
            return self._connect(role, session_settings(self._config))
        except psycopg.Error as error:
            raise translate(error) from error


class EngineSource(ConnectionSource):
    """Connections of the caller's engine."""

    is_external = True

    def __init__(
        self, engine: Engine, config: SchedulerConfig, servers: Servers, seconds: float, opened: Opened
    ) -> None:
        super().__init__(config, servers, seconds, opened)
        # Whoever has an engine has imported SQLAlchemy.
        from quartzpy.store.postgresql.connection import engines

        engines.check_engine(engine)
        self._engines = engines
        self._engine = engine

    def work_pool(self) -> Pool:
        """See `ConnectionSource.work_pool`."""
        return self._engines.CallersPool(self._engine, self._servers)

    @property
    def connections_for_calls(self) -> int:
        """See `ConnectionSource.connections_for_calls`."""
        most = self._engines.most_connections(self._engine)
        own = self._config.pool_size
        return own if most is None else max(1, min(own, most - FOR_STEPS))

    def job_engine(self) -> JobEngine:
        """See `ConnectionSource.job_engine`; the pool is that of the caller's engine."""
        return self._engines.CallersJobEngine(self._engine)

    def connect_apart(self, role: str) -> psycopg.Connection[Any]:
        """See `ConnectionSource.connect_apart`."""
        return self._engines.open_apart(self._engine, self._config, self._servers, role)


def source_of(
    database: Database, config: SchedulerConfig, servers: Servers, seconds: float, opened: Opened
) -> ConnectionSource:
    """Return the source of connections to this database.

    Raises:
        SettingsError: the URL is wrong, or the engine cannot be used.
    """
    if isinstance(database, str):
        return UrlSource(database, config, servers, seconds, opened)
    if config.password_command is not None:
        raise SettingsError("password_command: needs the URL of a database; an engine or connect=... logs in by itself")
    if callable(database):
        return FunctionSource(database, config, servers, seconds, opened)
    return EngineSource(database, config, servers, seconds, opened)
