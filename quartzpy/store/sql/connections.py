"""Connections for flights: a pool for steps and calls, and what each session is told."""

from __future__ import annotations

import logging
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection, QueuePool

from quartzpy.config import SchedulerConfig
from quartzpy.errors import OutcomeUnknownError, QuartzpyError, StoreUnavailableError
from quartzpy.process_identity import own_process, session_tag
from quartzpy.store.protocol import ConnectionUsage
from quartzpy.store.sql.database import parse_dsn, translate
from quartzpy.store.sql.flight import BEGIN, COMMIT, Result, Send, fly

logger = logging.getLogger(__name__)
_T = TypeVar("_T")

# Whoever loses a deadlock or a serialization race changed nothing and may simply try again.
RETRYABLE = frozenset({"40001", "40P01"})
TRIES = 4


def session_settings(config: SchedulerConfig) -> dict[str, str]:
    """What a session of ours is told, or each transaction where sessions are not ours.

    The server ends a transaction of ours that sits idle or waits too long, so that a stopped process cannot hold
    the lock.
    """
    milliseconds = {
        "lock_timeout": config.lock_timeout,
        "statement_timeout": config.statement_timeout,
        "idle_in_transaction_session_timeout": config.lock_timeout,
    }
    settings = {name: f"{int(span.total_seconds() * 1000)}" for name, span in milliseconds.items()}
    # Hot statements touch few rows by index: planning them anew or compiling them costs more than running them.
    settings |= {"plan_cache_mode": "force_generic_plan", "jit": "off"}
    # Each has its index, and stays on it also where the statistics are those of yesterday's, smaller table.
    settings |= {"enable_seqscan": "off", "enable_bitmapscan": "off"}
    return settings | {"timezone": "UTC", "synchronous_commit": "on"}


def session_prefix(process: str, scheduler: str) -> str:
    """How the names of all sessions of a process begin that are of this scheduler."""
    return f"quartzpy:{session_tag(process, scheduler)}:"


def _session_name(scheduler: str, role: str) -> str:
    """What a session is called, within the 63 bytes that the server keeps.

    The tag that recovery finds the sessions of a dead node by comes first, and of a long name only the beginning.
    """
    prefix = session_prefix(own_process(), scheduler)
    readable = scheduler.encode("ascii", "replace").decode()
    return f"{prefix}{readable[: 62 - len(prefix) - len(role)]}:{role}"


def connect_arguments(config: SchedulerConfig, role: str, *, pooled: bool = False) -> dict[str, Any]:
    """What libpq is told. The keepalives find a network that swallows packets."""
    arguments: dict[str, Any] = {
        "connect_timeout": max(2, round(config.connect_timeout.total_seconds())),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
        "application_name": _session_name(config.name, role),
    }
    if pooled:
        # What the driver prepared would be on another connection the next time.
        return arguments | {"prepare_threshold": None, "client_encoding": "UTF8"}
    settings = session_settings(config).items()
    return arguments | {"options": " ".join(f"-c {name}={value}" for name, value in settings)}


def _local(config: SchedulerConfig) -> str:
    """The query that tells a transaction what else a session is told."""
    settings = session_settings(config).items()
    return "SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings)


def _driver(fairy: PoolProxiedConnection) -> psycopg.Connection[Any]:
    connection = fairy.driver_connection
    assert isinstance(connection, psycopg.Connection)
    return connection


def _is_stale(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server spoke, or hung up, while nobody asked it: after a restart all idle connections are so."""
    poller = select.poll()
    poller.register(connection.pgconn.socket, select.POLLIN)
    return bool(poller.poll(0))


class Connections:
    """Gives out connections in autocommit mode, and flies on them."""

    def __init__(self, url: URL, config: SchedulerConfig) -> None:
        self._url = url
        self._config = config
        self._seconds = (config.statement_timeout + config.lock_timeout).total_seconds()
        self._closed = False
        self._local = _local(config).encode() if config.pooled else None
        self._listen_url = parse_dsn(config.listen_url) if config.listen_url else None
        self._work = self._engine("work", config.pool_size + 3)
        self._jobs = self._new_engine(
            "jobs", pool_size=config.pool_size, max_overflow=config.workers, pool_pre_ping=True
        )

    def _engine(self, role: str, size: int) -> Engine:
        return self._new_engine(
            role,
            isolation_level="AUTOCOMMIT",
            pool_size=size,
            max_overflow=0,
            pool_use_lifo=True,
            pool_reset_on_return=None,
        )

    def _new_engine(self, role: str, **options: Any) -> Engine:
        engine = create_engine(
            self._url,
            pool_timeout=self._seconds,
            connect_args=connect_arguments(self._config, role, pooled=self._config.pooled),
            **options,
        )
        event.listen(engine, "checkin", self._came_back)
        return engine

    def _came_back(self, connection: object, record: ConnectionPoolEntry) -> None:
        # Its pool was given up while somebody had it: nobody would close it.
        if self._closed and connection is not None:
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
            while _is_stale(connection := _driver(fairy)):
                fairy.invalidate()
                fairy.close()
                # Where no other can be had, there is none to be thrown away.
                fairy = None
                fairy = engine.raw_connection()
            yield connection
        except QuartzpyError:
            self._forget_if_broken(fairy)
            raise
        except (psycopg.Error, SQLAlchemyError, OSError) as error:
            self._forget_if_broken(fairy)
            translated = translate(error)
            if getattr(error, "outcome_unknown", False):
                raise OutcomeUnknownError(f"the connection broke while committing: {translated}") from error
            raise translated from error
        except BaseException:
            if fairy is not None:
                fairy.invalidate()
            raise
        finally:
            if fairy is not None:
                fairy.close()

    @staticmethod
    def _forget_if_broken(fairy: PoolProxiedConnection | None) -> None:
        if fairy is None:
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
        seconds: float | None = None,
    ) -> list[Result]:
        """A flight on a connection of ours, as its session can have it; see `flight.fly`."""
        return fly(
            connection,
            sends,
            seconds=self._seconds if seconds is None else seconds,
            begin=begin,
            commit=commit,
            prepared=self._local is None,
            local=self._local,
        )

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
        return self._listen_url is not None or not self._config.pooled

    def connect_apart(self, role: str) -> psycopg.Connection[Any]:
        """A connection outside the pools, and around a pooler, in autocommit mode; the caller closes it."""
        try:
            fairy = self._work.dialect.create_connect_args(self._listen_url or self._url)
            arguments = {**fairy[1], **connect_arguments(self._config, role)}
            return psycopg.connect(*fairy[0], autocommit=True, **arguments)
        except psycopg.Error as error:
            raise translate(error) from error

    def connect_information(self, role: str) -> dict[str, Any]:
        """What libpq is told for a connection outside the pools."""
        keywords = self._work.dialect.create_connect_args(self._url)[1]
        return {**keywords, **connect_arguments(self._config, role, pooled=self._config.pooled)}

    @property
    def pooled(self) -> bool:
        """Whether sessions are a pooler's, not ours."""
        return self._config.pooled

    @property
    def usage(self) -> ConnectionUsage:
        pool = self._work.pool
        assert isinstance(pool, QueuePool)
        return ConnectionUsage(pool.checkedout(), pool.size())

    def begin_work(self) -> Connection:
        """A connection for a job's own work, with a transaction begun; the caller closes it."""
        connection = self._jobs.connect()
        try:
            connection.exec_driver_sql((self._local or b"SELECT 1").decode())
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close what is idle now, and what is in use when it comes back."""
        self._closed = True
        self.drop_idle()

    def drop_idle(self) -> None:
        self._jobs.dispose()
        self._work.dispose()
