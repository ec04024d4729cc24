"""Transactions for a job's own work, committed with its completion, or only while the execution is still its node's."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq

from quartzpy.errors import InvalidValueError, LeaseLostError, OutcomeUnknownError
from quartzpy.states import CompletionInstruction
from quartzpy.store.postgresql.connection.connections import SESSION_VALUES, Connections
from quartzpy.store.postgresql.connection.error_translation import translate
from quartzpy.store.postgresql.connection.locks import LockName
from quartzpy.store.postgresql.connection.optional_news import with_news_if_room
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result, prepared_on
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import literal
from quartzpy.store.postgresql.steps import complete, halts
from quartzpy.store.postgresql.steps.effects.effect import Completed, earliest_of
from quartzpy.store.protocol import Completion, CompletionOutcome, Node

if TYPE_CHECKING:
    from sqlalchemy import Connection

logger = logging.getLogger(__name__)

SAVEPOINT, BACK = b"SAVEPOINT quartzpy_end", b"ROLLBACK TO SAVEPOINT quartzpy_end"
# Our names and rights are those of the beginning of the transaction, whatever the job has set since. What it has set is
# kept in settings of the transaction, and restored for its deferred constraint triggers, which run at the COMMIT.
_SAVED_SETTINGS = ("search_path", "role")

_SQL = SqlFile("steps/job_transaction.sql")


class WorkTransaction:
    """See `JobStore.begin_job_transaction`."""

    owner = "this node"

    def __init__(self, connections: Connections, session: SqlSession) -> None:
        self._connections = connections
        self._session = session
        self._connection, values = connections.begin_job_transaction()
        # Shorter than the client's deadline, so that the server's own error reports what was waited for.
        patience = f"{int(connections.seconds * 900)}ms"
        settings = dict(zip(SESSION_VALUES, values, strict=True))
        settings |= {"lock_timeout": patience, "statement_timeout": patience}
        saved = [f"set_config('quartzpy.{name}', current_setting('{name}'), true)" for name in _SAVED_SETTINGS]
        entered = [f"set_config('{name}', {literal(value)}, true)" for name, value in settings.items()]
        self._enter = f"SELECT {', '.join([*saved, *entered])}".encode()
        """Precedes everything else of a pipeline, also the preparation of its statements, which looks the tables up."""

    @property
    def connection(self) -> Connection:
        return self._connection

    def complete(self, node: Node, completion: Completion) -> CompletionOutcome:
        job = {"group": completion.fired.job_group, "name": completion.fired.job_name}
        held = []
        changes_triggers = completion.instruction is not CompletionInstruction.NOOP or completion.moves_its_trigger()
        if (
            completion.job_data is not None
            or completion.retry_after is not None
            or changes_triggers
            or completion.counts_for_pause
        ):
            held.append(self._session.bind(_SQL.hold_job, **job))
        if completion.fired.continues:
            held.append(self._session.bind(_SQL.hold_followers, **job))
        if completion.fired.joins:
            held.append(self._session.bind(_SQL.hold_joins, **job, fire_id=completion.fired.fire_id))
        if changes_triggers:
            held.append(self._session.bind(_SQL.hold_triggers, **job))
        held.append(self._session.bind(_SQL.hold_fire, fire_id=completion.fired.fire_id, epoch=node.epoch))
        # However many triggers an instruction is about, they change before the lock is taken. If the execution turns
        # out to be lost, that is rolled back with everything else.
        changes = halts.change_whole_job(self._session, completion)
        flight = complete.statements(Completed.of(self._session, node, [completion], at_length=True))
        statements = [
            *changes,
            self._session.lock(LockName.TRIGGER_ACCESS),
            *flight.values(),
            self._session.bind(_SQL.stands, fire_id=completion.fired.fire_id, instance=node.instance_id),
        ]
        answers = self._commit([*held, self._ours, *statements], completion.fired.fire_id)
        results = dict(zip(flight, answers[-1 - len(flight) : -1], strict=True))
        return CompletionOutcome(results["record"].rows[0][0], earliest_unblocked=earliest_of(results))

    def commit(self, node: Node, fire_id: int) -> None:
        at_node = {"epoch": node.epoch, "instance": node.instance_id}
        self.commit_if(self._session.bind(_SQL.fire_stands, fire_id=fire_id, **at_node), fire_id)

    def commit_if(self, guard: BoundStatement, fire_id: int) -> None:
        """Commit the job's changes after a statement that divides by zero if they must not be."""
        self._commit([self._ours, guard], fire_id)

    @property
    def _ours(self) -> BoundStatement:
        """The setting that marks this session as ours until the COMMIT."""
        return self._session.bind(self._connections.settings_query)

    def _commit(self, statements: Sequence[BoundStatement], fire_id: int) -> list[Result]:
        """Commit the job's work with these statements, and return their results."""
        # The job's work could not be repeated without the notifications.
        pipeline = [*map(with_news_if_room, statements), self._session.bind(_SQL.go_back)]
        if self._connection.closed:
            raise InvalidValueError(
                f"execution {fire_id}: the job closed the connection of its transaction; nothing was committed"
            )
        driver = self._connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        if driver.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            raise InvalidValueError(
                f"execution {fire_id}: the job ended its transaction itself, by commit or rollback; the end of"
                " the block commits, and an exception rolls back"
            )
        prepared = prepared_on(driver)
        before = set(prepared)
        try:
            try:
                return self._connections.execute_on(driver, pipeline, begin=SAVEPOINT, local=self._enter, undo_by=BACK)[
                    :-1
                ]
            except psycopg.errors.InvalidSqlStatementName:
                # To discard its own statements, the driver discards all prepared ones, and a job may do so too.
                prepared -= before
                return self._connections.execute_on(driver, pipeline, begin=SAVEPOINT, local=self._enter)[:-1]
        except psycopg.errors.DivisionByZero as error:
            raise LeaseLostError(
                f"execution {fire_id} is no longer {self.owner}'s: its transaction was rolled back"
            ) from error
        except psycopg.Error as error:
            if error.__dict__.get("outcome_unknown"):
                raise OutcomeUnknownError(f"the connection broke while committing: {error}") from error
            raise translate(error) from error

    def close(self) -> None:
        """Return the connection and roll back uncommitted work. Raises nothing, to keep an earlier error visible."""
        try:
            fairy = None if self._connection.closed else self._connection.connection
            driver = None if fairy is None else fairy.driver_connection
            if driver is not None and (
                driver.pgconn.status != pq.ConnStatus.OK or driver.pgconn.pipeline_status != pq.PipelineStatus.OFF
            ):
                self._connection.invalidate()
            self._connection.close()
        except Exception as error:
            logger.info("discarding the connection of a job's transaction: %s", error)
            with suppress(Exception):
                self._connection.invalidate()
            with suppress(Exception):
                self._connection.close()
