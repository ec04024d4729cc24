"""Pooled connections for steps and calls, and the per-session settings."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import OutcomeUnknownError, QuartzpyError, StoreUnavailableError
from quartzpy.events.events import Event
from quartzpy.store.postgresql.connection.abandoned import AbandonedBackends, note_backend
from quartzpy.store.postgresql.connection.connection_sources import Database, source_of
from quartzpy.store.postgresql.connection.conninfo import JOB_SETTINGS, session_settings
from quartzpy.store.postgresql.connection.error_translation import translate
from quartzpy.store.postgresql.connection.optional_news import is_for_want_of_room, without_news
from quartzpy.store.postgresql.connection.pipeline import (
    BEGIN,
    COMMIT,
    ROLLBACK,
    BoundStatement,
    DeadlineError,
    Result,
    execute_pipelined,
    roll_back_unless_ended,
)
from quartzpy.store.postgresql.connection.pool import Lease, LimitedShare, PoolShare
from quartzpy.store.postgresql.connection.servers import READ_ONLY, Servers
from quartzpy.store.protocol import ConnectionUsage

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from quartzpy.store.postgresql.connection.engines import JobEngine

logger = logging.getLogger(__name__)
_T = TypeVar("_T")

SESSION_VALUES = ("role", "search_path")
"""The settings by which a statement finds its tables and may use them."""
# The loser of a deadlock or a serialization conflict has changed nothing, so it can retry. Neither has a transaction
# that the server ended as idle, because this process was stopped between two of its round trips.
RETRYABLE = frozenset({"40001", "40P01", "25P03"})
TRIES = 4
# The server ended the session: shutdown, crash of another session, an idle timeout.
SESSION_ENDED = frozenset({"57P01", "57P02", "57P05", "25P03"})


def local_settings(settings: Mapping[str, str]) -> str:
    """Return the statement that applies the per-session settings to one transaction."""
    return "SELECT " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())


def may_run_on(error: psycopg.Error) -> bool:
    """Return True if the server may still execute the transaction in which this error was raised."""
    return isinstance(error, DeadlineError) or bool(getattr(error, "outcome_unknown", False))


def _is_tried_again(error: QuartzpyError, attempt: int) -> bool:
    """Return True if the transaction changed nothing, for a passing reason, and has tries left."""
    state = getattr(error, "sqlstate", None)
    if state not in RETRYABLE or attempt == TRIES:
        return False
    logger.info("the transaction was rolled back (SQLSTATE %s); retrying", state)
    return True


def _ignore_event(event: Event) -> None:
    pass


class Connections:
    """Provides connections in autocommit mode, and runs transactions on them."""

    def __init__(self, database: Database, config: SchedulerConfig) -> None:
        self._config = config
        self._seconds = (config.statement_timeout + config.lock_timeout).total_seconds()
        self._counting = threading.Lock()
        self._opened = 0
        self._abandoned = AbandonedBackends(self.is_current)
        self._emit: Callable[[Event], None] = _ignore_event
        self._servers = Servers(config.connect_timeout.total_seconds(), lambda event: self._emit(event))
        self._source = source_of(database, config, self._servers, self._seconds, self._on_open)
        self.settings_query = local_settings(session_settings(config))
        """Applies the per-session settings to one transaction."""
        self._local = self.settings_query.encode() if self.pooled else None
        self._pool = self._source.work_pool()
        self.steps = PoolShare()
        self.calls = LimitedShare(self._source.connections_for_calls, self._seconds)
        self._job_engine: JobEngine | None = None
        self._making_job_engine = threading.Lock()
        self._is_closed = False
        self._silence = threading.local()

    def _on_open(self, connection: psycopg.Connection[Any]) -> None:
        with self._counting:
            self._opened += 1
        if not self.pooled:
            # A pooler hides the server's process id; there, a node detects late commits by reconciliation.
            note_backend(connection)

    def on_event(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit

    def is_current(self, connection: object) -> bool:
        """Return True if a connection leads to the current primary, as far as this process knows."""
        return self._servers.is_current(connection)

    def read(self, statements: Sequence[BoundStatement], share: PoolShare) -> list[Result]:
        """Run read-only statements as `execute` does; if the connection breaks, repeat them on another one.

        Raises:
            StoreUnavailableError: the other connection broke as well, or could not be opened.
        """
        try:
            return self.execute(statements, share)
        except (OutcomeUnknownError, StoreUnavailableError) as error:
            if isinstance(error, StoreUnavailableError) and error.sqlstate not in SESSION_ENDED:
                raise
            logger.info("the connection broke during a read; repeating the read on another connection (%s)", error)
        try:
            return self.execute(statements, share)
        except OutcomeUnknownError as error:
            raise StoreUnavailableError(f"the database cannot be reached: {error}") from error

    @contextmanager
    def checked_out(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection of the pool. After an error of the connection itself it is discarded.

        Raises:
            StoreUnavailableError, AuthenticationError, SchemaError: translated from the driver's error.
            OutcomeUnknownError: the connection broke during the commit.
        """
        lease: Lease | None = None
        try:
            lease = self._pool.lease()
            if self._abandoned.given_up:
                self._abandoned.end(partial(self._execute_alone, lease.connection))
            yield lease.connection
        except QuartzpyError:
            self._discard_if_broken(lease)
            raise
        except (psycopg.Error, OSError) as error:
            self._discard_if_broken(lease)
            translated = translate(error)
            if getattr(error, "sqlstate", None) == READ_ONLY:
                self._leave_server(lease)
            if getattr(error, "outcome_unknown", False):
                raise OutcomeUnknownError(f"the connection broke during the commit: {translated}") from error
            raise translated from error
        except BaseException:
            if lease is not None:
                lease.discard()
            raise
        finally:
            if lease is not None:
                lease.give_back()

    def _leave_server(self, lease: Lease | None) -> None:
        """Drop the connections to a server that became read-only; the next connection looks for the new primary."""
        self._servers.distrust()
        if lease is not None:
            lease.discard()

    @staticmethod
    def _discard_if_broken(lease: Lease | None) -> None:
        if lease is None:
            return
        pgconn = lease.connection.pgconn
        if (
            pgconn.status != psycopg.pq.ConnStatus.OK
            or pgconn.pipeline_status != psycopg.pq.PipelineStatus.OFF
            or pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE
        ):
            lease.discard()

    def execute(self, statements: Sequence[BoundStatement], share: PoolShare) -> list[Result]:
        """Run one transaction in one round trip; retry it after a deadlock or serialization conflict."""
        return self.transaction(lambda connection: self.execute_on(connection, statements), share)

    def execute_on(
        self,
        connection: psycopg.Connection[Any],
        statements: Sequence[BoundStatement],
        *,
        begin: bytes | None = BEGIN,
        commit: bytes | None = COMMIT,
        undo_by: bytes = ROLLBACK,
        local: bytes | None = None,
        seconds: float | None = None,
    ) -> list[Result]:
        """Run a transaction on a connection with its session's or `local` settings; see `execute_pipelined`."""
        if self._is_silent:
            statements = [without_news(statement) for statement in statements]
        try:
            return execute_pipelined(
                connection,
                statements,
                seconds=self._seconds if seconds is None else seconds,
                begin=begin,
                commit=commit,
                undo_by=undo_by,
                prepared=self._local is None,
                local=local or self._local,
            )
        except BaseException as error:
            if not isinstance(error, psycopg.Error) or may_run_on(error):
                self._abandoned.give_up(connection)
            raise

    def _execute_alone(self, connection: psycopg.Connection[Any], statement: BoundStatement) -> None:
        """Run a transaction whose failure must not affect the caller's."""
        try:
            execute_pipelined(connection, [statement], seconds=self._seconds, prepared=False)
        except psycopg.Error as error:
            if connection.pgconn.status != psycopg.pq.ConnStatus.OK:
                raise
            logger.warning("abandoned sessions cannot be terminated: %s", error)

    def transaction(self, work: Callable[[psycopg.Connection[Any]], _T], share: PoolShare) -> _T:
        """Call `work`, which runs one complete transaction on the given connection; retry it after a conflict.

        It is repeated without its notifications if the server has no room for them.
        """
        for attempt in range(1, TRIES + 1):
            try:
                with share.place(), self.checked_out() as connection:
                    return work(connection)
            except QuartzpyError as error:
                if is_for_want_of_room(error) and not self._is_silent:
                    logger.info("the server's queue of notifications is full; repeating the transaction without them")
                    return self._silently(lambda: self.transaction(work, share))
                if not _is_tried_again(error, attempt):
                    raise
        raise AssertionError("unreachable")

    @property
    def _is_silent(self) -> bool:
        """True while this thread repeats a transaction without its notifications."""
        return getattr(self._silence, "holds", False)

    def _silently(self, repeat: Callable[[], _T]) -> _T:
        self._silence.holds = True
        try:
            return repeat()
        finally:
            self._silence.holds = False

    @contextmanager
    def call_transaction(self, *opening: BoundStatement) -> Iterator[psycopg.Connection[Any]]:
        """Begin a transaction for a call of several round trips, yield its connection, and commit.

        `opening` are its first statements.

        Raises:
            StoreUnavailableError, AuthenticationError, SchemaError: translated from the driver's error.
            OutcomeUnknownError: the connection broke during the commit.
        """
        with self.calls.place(), self.checked_out() as connection:
            self.execute_on(connection, opening, commit=None)
            try:
                yield connection
                self.execute_on(connection, [], begin=None)
            finally:
                roll_back_unless_ended(connection)

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
        return ConnectionUsage(*self._pool.usage(), self._opened)

    def begin_job_transaction(self) -> tuple[Connection, tuple[str, ...]]:
        """Begin a transaction for a job's own work; return its connection to close, and its `SESSION_VALUES`."""
        with self._making_job_engine:
            if self._job_engine is None:
                self._job_engine = self._source.job_engine()
                if self._is_closed:
                    self._job_engine.close()
        values = ", ".join(f"current_setting('{name}')" for name in SESSION_VALUES)
        connection, row = self._job_engine.begin(f"{local_settings(JOB_SETTINGS)}, {values}")
        return connection, row[-len(SESSION_VALUES) :]

    def close(self) -> None:
        """Close idle connections now, and the others when they are returned."""
        with self._making_job_engine:
            self._is_closed = True
            if self._job_engine is not None:
                self._job_engine.close()
        self._pool.close()

    def probe_idle(self, seconds: float) -> None:
        """Probe the connections of the pool that were idle for longer than that, and close those without an answer."""
        self._pool.probe_idle(seconds)

    def drop_idle(self) -> None:
        """Close idle connections; those of the caller's engine are kept."""
        with self._making_job_engine:
            if self._job_engine is not None:
                self._job_engine.close_idle()
        self._pool.close_idle()
