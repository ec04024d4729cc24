"""A job's own work and its completion, in one transaction: done exactly once, or not at all."""

from __future__ import annotations

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from quartzpy.errors import LeaseLostError, OutcomeUnknownError
from quartzpy.store.protocol import Completion, CompletionOutcome, Node
from quartzpy.store.sql import complete
from quartzpy.store.sql.connections import Connections
from quartzpy.store.sql.database import translate
from quartzpy.store.sql.flight import COMMIT, fly
from quartzpy.store.sql.locks import LockName
from quartzpy.store.sql.session import SqlSession

# An error, which rolls back all before it and the COMMIT behind it, where this execution was not recorded just now.
STANDS = """
SELECT 1 / count(*) FROM $executions
 WHERE fence = %(fence)s::bigint AND epoch = %(epoch)s::bigint AND outcome <> 'TERMINATED'
"""


class WorkTransaction:
    """See `JobStore.begin_work`."""

    def __init__(self, connections: Connections, session: SqlSession) -> None:
        self._connections = connections
        self._session = session
        try:
            self._connection = connections.begin_work()
        except SQLAlchemyError as error:
            raise translate(error) from error

    @property
    def connection(self) -> Connection:
        return self._connection

    def complete(self, node: Node, completion: Completion) -> CompletionOutcome:
        sends = [
            self._session.lock(LockName.TRIGGER_ACCESS),
            *complete.sends(self._session, node, [completion]),
            self._session.send(STANDS, fence=completion.fired.fence, epoch=node.epoch),
        ]
        driver = self._connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        try:
            results = fly(driver, sends, seconds=self._connections.seconds, begin=None, commit=COMMIT)
        except psycopg.errors.DivisionByZero as error:
            raise LeaseLostError(
                f"execution {completion.fired.fence} is no longer this node's: its transaction was rolled back"
            ) from error
        except psycopg.Error as error:
            if error.__dict__.get("outcome_unknown"):
                raise OutcomeUnknownError(f"the connection broke while committing: {error}") from error
            raise translate(error) from error
        now, _, _, earliest = results[1].rows[0]
        return CompletionOutcome(now, earliest_unblocked=earliest)

    def close(self) -> None:
        """Give the connection back; what was not committed is rolled back."""
        self._connection.close()
