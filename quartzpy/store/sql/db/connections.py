"""Pooled connections for steps and calls, and the per-session settings."""

from __future__ import annotations

import contextlib
import logging
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import InvalidatePoolError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection, QueuePool

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import OutcomeUnknownError, QuartzpyError, SettingsError, StoreUnavailableError
from quartzpy.events.events import Event
from quartzpy.store.protocol import ConnectionUsage
from quartzpy.store.sql.db.abandoned import AbandonedBackends, note_backend
from quartzpy.store.sql.db.conninfo import JOB_SETTINGS, session_settings
from quartzpy.store.sql.db.database import translate
from quartzpy.store.sql.db.flight import BEGIN, COMMIT, ROLLBACK, Result, Send, fly
from quartzpy.store.sql.db.servers import READ_ONLY, Servers
from quartzpy.store.sql.db.sources import Database, source_of

logger = logging.getLogger(__name__)
_T = TypeVar("_T")

# The loser of a deadlock or a serialization conflict has changed nothing, so it can retry.
RETRYABLE = frozenset({"40001", "40P01"})
TRIES = 4


def local_settings(settings: Mapping[str, str]) -> str:
    """Return the statement that applies the per-session settings to one transaction."""
    return "SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())


def _driver(fairy: PoolProxiedConnection) -> psycopg.Connection[Any]:
    connection = fairy.driver_connection
    assert isinstance(connection, psycopg.Connection)
    return connection


def is_stale(connection: psycopg.Connection[Any]) -> bool:
    """Return True if the server has sent data or closed the connection while idle, as after a server's restart."""
    poller = select.poll()
    poller.register(connection.pgconn.socket, select.POLLIN)
    return bool(poller.poll(0))


def _ignore_event(event: Event) -> None:
    pass


class Connections:
    """Provides connections in autocommit mode, and runs transactions on them."""

    def __init__(self, database: Database, config: SchedulerConfig) -> None:
        self._config = config
        self._seconds = (config.statement_timeout + config.lock_timeout).total_seconds()
        self._closed = False
        self._counting = threading.Lock()
        self._opened = 0
        self._abandoned = AbandonedBackends(self.is_current)
        self._emit: Callable[[Event], None] = _ignore_event
        self._servers = Servers(config.connect_timeout.total_seconds(), lambda event: self._emit(event))
        self._source = source_of(database, config, self._servers, self._seconds)
        self.settings_query = local_settings(session_settings(config))
        """Applies the per-session settings to one transaction."""
        self._local = self.settings_query.encode() if self.pooled else None
        self._work = self._with_event_handlers(self._source.work_engine())
        self._jobs = self._with_event_handlers(self._source.jobs_engine())

    def _with_event_handlers(self, engine: Engine) -> Engine:
        """Register the pool's event handlers on our own engine; an engine of the caller is returned unchanged."""
        if not self._source.is_external:
            event.listen(engine, "checkout", self._on_checkout)
            event.listen(engine, "checkin", self._on_checkin)
            event.listen(engine, "connect", self._on_connect)
            if not self.pooled:
                # A pooler hides the server's process id; there, a node detects late commits by reconciliation.
                event.listen(engine, "connect", lambda connection, _: note_backend(connection))
        return engine

    def _on_connect(self, connection: object, record: ConnectionPoolEntry) -> None:
        with self._counting:
            self._opened += 1

    def on_event(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit

    def is_current(self, connection: object) -> bool:
        """Return True if a connection leads to the current primary, as far as this process knows."""
        return self._servers.is_current(connection)

    def _on_checkout(self, connection: object, record: ConnectionPoolEntry, fairy: object) -> None:
        if not self.is_current(connection):
            # The server is no longer the primary: the pool discards all connections of that age and makes new ones.
            raise InvalidatePoolError

    def _on_checkin(self, connection: object, record: ConnectionPoolEntry) -> None:
        # The pool was disposed of while the connection was in use, so nobody else would close it.
        if connection is not None and (self._closed or not self.is_current(connection)):
            record.invalidate()

    def read(self, sends: Sequence[Send]) -> list[Result]:
        """Run read-only statements as `fly` does; if the connection breaks, repeat them on another one.

        Raises:
            StoreUnavailableError: the other connection broke as well, or could not be opened.
        """
        try:
            return self.fly(sends)
        except OutcomeUnknownError:
            logger.info("the connection broke during a read; repeating the read on another connection")
        try:
            return self.fly(sends)
        except OutcomeUnknownError as error:
            raise StoreUnavailableError(f"the database cannot be reached: {error}") from error

    @contextmanager
    def checked_out(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection of the pool. After an error of the connection itself it is discarded.

        Raises:
            StoreUnavailableError, AuthenticationError, SchemaError: translated from the driver's error.
            OutcomeUnknownError: the connection broke during the commit.
        """
        engine = self._work
        fairy: PoolProxiedConnection | None = None
        try:
            fairy = engine.raw_connection()
            while not self._is_usable(connection := _driver(fairy)):
                fairy.invalidate()
                fairy.close()
                # No other connection is available, so there is none to discard at the end.
                fairy = None
                fairy = engine.raw_connection()
            self._abandoned.end(partial(self._fly_alone, connection))
            yield connection
        except QuartzpyError:
            self._forget_if_broken(fairy)
            raise
        except (psycopg.Error, SQLAlchemyError, OSError) as error:
            self._forget_if_broken(fairy)
            translated = translate(error)
            if getattr(error, "sqlstate", None) == READ_ONLY:
                self._leave_server(fairy)
            if getattr(error, "outcome_unknown", False):
                raise OutcomeUnknownError(f"the connection broke during the commit: {translated}") from error
            raise translated from error
        except BaseException:
            if fairy is not None:
                fairy.invalidate()
            raise
        finally:
            if fairy is not None:
                if self._source.is_external and fairy.is_valid:
                    self._end_transaction(_driver(fairy))
                fairy.close()

    @staticmethod
    def _end_transaction(connection: psycopg.Connection[Any]) -> None:
        """End the transaction that a plain statement has started, in case the caller's pool does not."""
        with contextlib.suppress(psycopg.Error):
            connection.rollback()

    def _is_usable(self, connection: psycopg.Connection[Any]) -> bool:
        """Return True if a connection of the pool is usable; prepare one of the caller's engine first."""
        if is_stale(connection):
            return False
        if not self._source.is_external:
            return True
        if connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.rollback()
        if not self._servers.is_identified(connection):
            if connection.info.encoding != "utf-8":
                raise SettingsError(
                    f"engine: the client_encoding of its connections must be UTF8 (it is {connection.info.encoding})"
                )
            self._servers.recognise(connection)
        return self.is_current(connection)

    def _leave_server(self, fairy: PoolProxiedConnection | None) -> None:
        """Drop the connections to a server that became read-only; the next connection looks for the new primary."""
        self._servers.distrust()
        if fairy is not None and fairy.is_valid:
            fairy.invalidate()

    @staticmethod
    def _forget_if_broken(fairy: PoolProxiedConnection | None) -> None:
        if fairy is None or not fairy.is_valid:
            return
        connection = fairy.driver_connection
        if connection is None or (
            connection.pgconn.status != psycopg.pq.ConnStatus.OK
            or connection.pgconn.pipeline_status != psycopg.pq.PipelineStatus.OFF
            or connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE
        ):
            fairy.invalidate()

    def fly(self, sends: Sequence[Send]) -> list[Result]:
        """Run one transaction in one round trip; retry it after a deadlock or serialization conflict."""
        return self.transaction(lambda connection: self.fly_on(connection, sends))

    def fly_on(
        self,
        connection: psycopg.Connection[Any],
        sends: Sequence[Send],
        *,
        begin: bytes | None = BEGIN,
        commit: bytes | None = COMMIT,
        undo_by: bytes = ROLLBACK,
        seconds: float | None = None,
    ) -> list[Result]:
        """Run a transaction on one of our connections with its session's settings; see `flight.fly`."""
        try:
            return fly(
                connection,
                sends,
                seconds=self._seconds if seconds is None else seconds,
                begin=begin,
                commit=commit,
                undo_by=undo_by,
                prepared=self._local is None,
                local=self._local,
            )
        except BaseException as error:
            if not isinstance(error, psycopg.Error) or getattr(error, "outcome_unknown", False):
                self._abandoned.give_up(connection)
            raise

    def _fly_alone(self, connection: psycopg.Connection[Any], send: Send) -> None:
        """Run a transaction whose failure must not affect the caller's."""
        try:
            fly(connection, [send], seconds=self._seconds, prepared=False)
        except psycopg.Error as error:
            if connection.pgconn.status != psycopg.pq.ConnStatus.OK:
                raise
            logger.warning("abandoned sessions cannot be terminated: %s", error)

    def transaction(self, work: Callable[[psycopg.Connection[Any]], _T]) -> _T:
        """Call `work`, which runs one complete transaction on the given connection; retry it after a conflict."""
        for attempt in range(1, TRIES + 1):
            try:
                with self.checked_out() as connection:
                    return work(connection)
            except QuartzpyError as error:
                if getattr(error, "sqlstate", None) not in RETRYABLE or attempt == TRIES:
                    raise
                logger.info(
                    "transaction conflicted with another one (SQLSTATE %s); retrying", getattr(error, "sqlstate", None)
                )
        raise AssertionError("unreachable")

    @property
    def seconds(self) -> float:
        """The deadline of one transaction in seconds."""
        return self._seconds

    @property
    def can_listen(self) -> bool:
        """Return True if a dedicated session is available, as LISTEN needs it."""
        return self._source.can_listen

    def connect_apart(self, role: str) -> psycopg.Connection[Any]:
        """Open a connection outside the pools that bypasses a pooler, in autocommit mode; the caller closes it."""
        return self._source.connect_apart(role)

    def recognise(self, connection: psycopg.Connection[Any], seconds: float) -> None:
        """Check within `seconds` that a new connection leads to the current primary.

        Raises:
            psycopg.Error, StoreUnavailableError: the server does not answer, or is a different one.
        """
        self._servers.recognise(connection, seconds)

    def connect_information(self, role: str) -> dict[str, Any] | None:
        """Return libpq's parameters for a connection outside the pools; None if only `connect_apart` can open one."""
        return self._source.connect_information(role)

    @property
    def pooled(self) -> bool:
        """True if sessions belong to a pooler or to the caller's engine, not to us."""
        return self._config.pooled or self._source.is_external

    @property
    def usage(self) -> ConnectionUsage:
        pool = self._work.pool
        if not isinstance(pool, QueuePool):
            # The caller's engine has a pool that keeps no connections.
            return ConnectionUsage(0, 0)
        return ConnectionUsage(pool.checkedout(), pool.size(), self._opened)

    def begin_job_transaction(self, *, is_ours: bool = False) -> Connection:
        """Begin a transaction for a job's own work, or for a call (`is_ours`), and return its connection to close."""
        connection = self._jobs.connect()
        try:
            connection.exec_driver_sql(self.settings_query if is_ours else local_settings(JOB_SETTINGS))
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close idle connections now, and the others when they are returned."""
        self._closed = True
        self.drop_idle()

    def drop_idle(self) -> None:
        """Close idle connections; those of the caller's engine are kept."""
        if not self._source.is_external:
            self._jobs.dispose()
            self._work.dispose()
