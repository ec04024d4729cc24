"""Connections for flights: a pool for steps and calls, and what each session is told."""

from __future__ import annotations

import contextlib
import logging
import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import InvalidatePoolError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection, QueuePool

from quartzpy.config import SchedulerConfig
from quartzpy.errors import OutcomeUnknownError, QuartzpyError, SettingsError, StoreUnavailableError
from quartzpy.events import Event
from quartzpy.store.protocol import ConnectionUsage
from quartzpy.store.sql.abandoned import AbandonedBackends, note_backend
from quartzpy.store.sql.conninfo import JOB_SETTINGS, session_settings
from quartzpy.store.sql.database import translate
from quartzpy.store.sql.flight import BEGIN, COMMIT, ROLLBACK, Result, Send, fly
from quartzpy.store.sql.servers import READ_ONLY, Servers
from quartzpy.store.sql.sources import Database, source_of

logger = logging.getLogger(__name__)
_T = TypeVar("_T")

# Whoever loses a deadlock or a serialization race changed nothing and may simply try again.
RETRYABLE = frozenset({"40001", "40P01"})
TRIES = 4


def local_settings(settings: Mapping[str, str]) -> str:
    """The query that tells a transaction what else a session is told."""
    return "SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())


def _driver(fairy: PoolProxiedConnection) -> psycopg.Connection[Any]:
    connection = fairy.driver_connection
    assert isinstance(connection, psycopg.Connection)
    return connection


def is_stale(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server spoke, or hung up, while nobody asked it: after a restart all idle connections are so."""
    poller = select.poll()
    poller.register(connection.pgconn.socket, select.POLLIN)
    return bool(poller.poll(0))


def _nobody(event: Event) -> None:
    pass


class Connections:
    """Gives out connections in autocommit mode, and flies on them."""

    def __init__(self, database: Database, config: SchedulerConfig) -> None:
        self._config = config
        self._seconds = (config.statement_timeout + config.lock_timeout).total_seconds()
        self._closed = False
        self._abandoned = AbandonedBackends(self.is_current)
        self._emit: Callable[[Event], None] = _nobody
        self._servers = Servers(config.connect_timeout.total_seconds(), lambda event: self._emit(event))
        self._source = source_of(database, config, self._servers, self._seconds)
        self.settings_query = local_settings(session_settings(config))
        """Tells a transaction what our own sessions are told."""
        self._local = self.settings_query.encode() if self.pooled else None
        self._work = self._watched(self._source.work_engine())
        self._jobs = self._watched(self._source.jobs_engine())

    def _watched(self, engine: Engine) -> Engine:
        """The engine, which tells of its connections; one of the caller's is left as it is."""
        if not self._source.is_external:
            event.listen(engine, "checkout", self._goes_out)
            event.listen(engine, "checkin", self._came_back)
            if not self.pooled:
                # A pooler tells no process id of the server's: there, a node finds by comparing what came late.
                event.listen(engine, "connect", lambda connection, _: note_backend(connection))
        return engine

    def on_event(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit

    def is_current(self, connection: object) -> bool:
        """Whether a connection leads to the server that holds the data now, as far as this process knows."""
        return self._servers.is_current(connection)

    def _goes_out(self, connection: object, record: ConnectionPoolEntry, fairy: object) -> None:
        if not self.is_current(connection):
            # It leads to a server that was left: the pool makes another, and so it does for all that are as old.
            raise InvalidatePoolError

    def _came_back(self, connection: object, record: ConnectionPoolEntry) -> None:
        # Its pool was given up while somebody had it: nobody would close it.
        if connection is not None and (self._closed or not self.is_current(connection)):
            record.invalidate()

    def read(self, sends: Sequence[Send]) -> list[Result]:
        """As `fly`, for statements that change nothing: where the connection breaks meanwhile, on another one.

        Raises:
            StoreUnavailableError: that one broke as well, or there is none.
        """
        try:
            return self.fly(sends)
        except OutcomeUnknownError:
            logger.info("the connection broke while reading; reading again on another")
        try:
            return self.fly(sends)
        except OutcomeUnknownError as error:
            raise StoreUnavailableError(f"the database cannot be reached: {error}") from error

    @contextmanager
    def checked_out(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection for a while. After an error on the connection itself it is thrown away.

        Raises:
            StoreUnavailableError, AuthenticationError, SchemaError: what the driver's error means.
            OutcomeUnknownError: the connection broke while committing.
        """
        engine = self._work
        fairy: PoolProxiedConnection | None = None
        try:
            fairy = engine.raw_connection()
            while not self._is_usable(connection := _driver(fairy)):
                fairy.invalidate()
                fairy.close()
                # Where no other can be had, there is none to be thrown away.
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
                raise OutcomeUnknownError(f"the connection broke while committing: {translated}") from error
            raise translated from error
        except BaseException:
            if fairy is not None:
                fairy.invalidate()
            raise
        finally:
            if fairy is not None:
                if self._source.is_external and fairy.is_valid:
                    self._leave_as_found(_driver(fairy))
                fairy.close()

    @staticmethod
    def _leave_as_found(connection: psycopg.Connection[Any]) -> None:
        """End what a plain statement began, also where the caller's pool does not."""
        with contextlib.suppress(psycopg.Error):
            connection.rollback()

    def _is_usable(self, connection: psycopg.Connection[Any]) -> bool:
        """Tell whether a connection of the pool serves; one of the caller's engine is made ready first."""
        if is_stale(connection):
            return False
        if not self._source.is_external:
            return True
        if connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.rollback()
        if not self._servers.has_recognised(connection):
            if connection.info.encoding != "utf-8":
                raise SettingsError(
                    f"engine: the client_encoding of its connections must be UTF8 (it is {connection.info.encoding})"
                )
            self._servers.recognise(connection)
        return self.is_current(connection)

    def _leave_server(self, fairy: PoolProxiedConnection | None) -> None:
        """The server cannot write any more: perhaps another one can, and the next connection leads there."""
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
        """One transaction in one round trip; tried again where the server says that it lost a race."""
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
        """A flight on a connection of ours, as its session can have it; see `flight.fly`."""
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
        """A flight that nothing depends on where the server refuses it."""
        try:
            fly(connection, [send], seconds=self._seconds, prepared=False)
        except psycopg.Error as error:
            if connection.pgconn.status != psycopg.pq.ConnStatus.OK:
                raise
            logger.warning("sessions that were given up cannot be ended: %s", error)

    def transaction(self, work: Callable[[psycopg.Connection[Any]], _T]) -> _T:
        """Do `work`, which flies one whole transaction on the connection it is given."""
        for attempt in range(1, TRIES + 1):
            try:
                with self.checked_out() as connection:
                    return work(connection)
            except QuartzpyError as error:
                if getattr(error, "sqlstate", None) not in RETRYABLE or attempt == TRIES:
                    raise
                logger.info("transaction lost a race (SQLSTATE %s); trying again", getattr(error, "sqlstate", None))
        raise AssertionError("unreachable")

    @property
    def seconds(self) -> float:
        """The deadline of a flight."""
        return self._seconds

    @property
    def can_listen(self) -> bool:
        """Whether a session can be had that stays the same."""
        return self._source.can_listen

    def connect_apart(self, role: str) -> psycopg.Connection[Any]:
        """A connection outside the pools, and around a pooler, in autocommit mode; the caller closes it."""
        return self._source.connect_apart(role)

    def recognise(self, connection: psycopg.Connection[Any], seconds: float) -> None:
        """Check, within so many seconds, that a new connection leads to the server that holds the data.

        Raises:
            psycopg.Error, StoreUnavailableError: it does not answer, or is another.
        """
        self._servers.recognise(connection, seconds)

    def connect_information(self, role: str) -> dict[str, Any] | None:
        """The parameters of libpq for a connection outside the pools; None where only `connect_apart` can make one."""
        return self._source.connect_information(role)

    @property
    def pooled(self) -> bool:
        """Whether sessions are a pooler's, or of the caller's engine, and not ours."""
        return self._config.pooled or self._source.is_external

    @property
    def usage(self) -> ConnectionUsage:
        pool = self._work.pool
        if not isinstance(pool, QueuePool):
            # An engine of the caller's that keeps no connections.
            return ConnectionUsage(0, 0)
        return ConnectionUsage(pool.checkedout(), pool.size())

    def begin_job_transaction(self, *, is_ours: bool = False) -> Connection:
        """A connection with a transaction begun, for a job's own work or `is_ours`; the caller closes it."""
        connection = self._jobs.connect()
        try:
            connection.exec_driver_sql(self.settings_query if is_ours else local_settings(JOB_SETTINGS))
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close what is idle now, and what is in use when it comes back."""
        self._closed = True
        self.drop_idle()

    def drop_idle(self) -> None:
        """Close the connections that nobody uses; those of the caller's engine stay."""
        if not self._source.is_external:
            self._jobs.dispose()
            self._work.dispose()
