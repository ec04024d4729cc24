"""What the process of an engine's worker does with the rows of its executions.

It is no store of a scheduler: it checks no tables, and needs the role of workers only (`quartzpy db roles`). It works
behind a pooler in transaction mode without being told: nothing is left in a session.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from quartzpy.config.config import DEFAULT_TABLE_PREFIX, SchedulerConfig
from quartzpy.errors import OutcomeUnknownError, StoreUnavailableError
from quartzpy.jobs.context import Progress
from quartzpy.store.postgresql.connection.connections import Connections
from quartzpy.store.postgresql.connection.diagnosis import Diagnosis
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.naming import Names
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.job_transaction import WorkTransaction

if TYPE_CHECKING:
    from sqlalchemy import Connection

_SQL = SqlFile("worker_store.sql")


class Ticket(NamedTuple):
    """A submission of an execution, which one worker may begin."""

    scheduler: str
    fire_id: int
    submission: int


class WorkerReport(NamedTuple):
    """What an execution has reported since the last touch. None: nothing new."""

    progress: Progress | None = None
    log: str | None = None
    """The last captured log lines, which replace those stored before."""


class WorkerStore:
    """The rows of a worker's executions, in the database of a URL. Any thread may call any method.

    The process has one connection for the calls, and one more while a transaction of a job is open. A connection that
    breaks is replaced at the next call. A row that somebody holds is waited for.

    Each call raises `StoreUnavailableError` if the database cannot be reached, the answer was lost, or a row was held
    for more than five seconds. It may then be repeated with the same values, whatever has become of it.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str | None = None,
        prefix: str = DEFAULT_TABLE_PREFIX,
        password_command: str | None = None,
    ) -> None:
        config = SchedulerConfig(
            name="worker", schema=schema, table_prefix=prefix, password_command=password_command, pooled=True
        )
        names = Names(schema, prefix)
        self._connections = Connections(url, config)
        diagnosis = Diagnosis(self._connections, names, schema, config.lock_timeout)
        self._session = SqlSession(self._connections, config.name, names, diagnosis)
        self._alone = threading.RLock()
        self._unanswered: dict[Ticket, str] = {}
        """The names under which tickets may have been taken, because the answer was lost."""

    def take(self, ticket: Ticket, worker: str) -> bool:
        """Take the ticket of a submission; return False if it is taken or void, and the job must not begin.

        `worker` names this process for people.
        """
        with self._alone:
            # A call that the engine repeats has another name, also in the same process.
            name = self._unanswered.pop(ticket, None) or f"{worker}:{secrets.token_hex(3)}"
            try:
                [(is_ours,)] = self._execute(_SQL.take, **ticket._asdict(), worker=name)
            except StoreUnavailableError:
                self._unanswered[ticket] = name
                raise
        return bool(is_ours)

    def touch(self, reports: Mapping[Ticket, WorkerReport]) -> dict[Ticket, bool]:
        """Store that executions run and what they report; return for each whether it was asked to stop.

        One that is missing in the answer is void: it was given to somebody else, or has ended. It must stop.
        """
        tickets = sorted(reports, key=lambda ticket: ticket.fire_id)
        progress = [reports[ticket].progress for ticket in tickets]
        rows = self._execute(
            _SQL.touch,
            schedulers=[ticket.scheduler for ticket in tickets],
            fire_ids=[ticket.fire_id for ticket in tickets],
            submissions=[ticket.submission for ticket in tickets],
            reports=[report is not None for report in progress],
            fractions=[None if report is None else report.fraction for report in progress],
            messages=[None if report is None else report.message for report in progress],
            logs=[reports[ticket].log for ticket in tickets],
        )
        return {Ticket(*ticket): is_asked_to_stop for *ticket, is_asked_to_stop in rows}

    def end(self, ticket: Ticket, ending: str) -> bool:
        """Store how an execution has ended; return False if its ticket is void, or it has another ending already.

        The node completes the execution with what is stored.
        """
        [(is_stored,)] = self._execute(_SQL.finish, **ticket._asdict(), ending=ending)
        return bool(is_stored)

    @contextmanager
    def transaction(self, ticket: Ticket, ending: Callable[[], str] | None) -> Iterator[Connection]:
        """Open a transaction of a job, and commit it at the end of the block if the ticket is still good.

        `ending` is called then, and what it returns is stored by the same transaction: the execution has ended so. With
        None it goes on.

        Raises:
            LeaseLostError: the ticket is void; everything is rolled back.
            OutcomeUnknownError: the connection broke during the commit. If the transaction was to store an ending,
                `end` with another one decides: it returns True if nothing was committed, and nothing will be.
        """
        transaction = _Transaction(self._connections, self._session)
        try:
            yield transaction.connection
            transaction.commit_with(ticket, None if ending is None else ending())
        finally:
            transaction.close()

    def close(self) -> None:
        self._connections.close()

    def _execute(self, text: str, **values: Any) -> list[tuple[Any, ...]]:
        with self._alone:
            try:
                return self._connections.execute([self._session.bind(text, **values)], self._connections.steps)[0].rows
            except OutcomeUnknownError as error:
                raise StoreUnavailableError(str(error)) from error


class _Transaction(WorkTransaction):
    """A transaction of a job on a worker. Its connection is not kept, so that what the job sets in its session ends."""

    owner = "this worker"

    def commit_with(self, ticket: Ticket, ending: str | None) -> None:
        text = _SQL("stands", ends=ending is not None)
        self.commit_if(self._session.bind(text, **ticket._asdict(), ending=ending), ticket.fire_id)

    def close(self) -> None:
        """See `WorkTransaction.close`."""
        with suppress(Exception):
            self.connection.invalidate()
        super().close()
