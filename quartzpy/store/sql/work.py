"""A job's own work in a transaction that is committed with its completion, or only while its claim stands."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from quartzpy.errors import LeaseLostError, OutcomeUnknownError
from quartzpy.states import CompletionInstruction
from quartzpy.store.protocol import Completion, CompletionOutcome, Node
from quartzpy.store.sql import complete
from quartzpy.store.sql.connections import Connections
from quartzpy.store.sql.database import translate
from quartzpy.store.sql.flight import Result, Send
from quartzpy.store.sql.locks import LockName
from quartzpy.store.sql.session import SqlSession

# An error, which rolls back all before it and the COMMIT behind it, where this execution was not recorded just now.
STANDS = """
SELECT 1 / count(*) FROM $executions
 WHERE fence = %(fence)s::bigint AND epoch = %(epoch)s::bigint AND outcome <> 'TERMINATED'
"""

# The row of the claim is locked from here to the COMMIT behind it, and no longer: a recovery that has it is waited for,
# one that comes meanwhile passes it over and takes it with its next pass. Asking the execution to stop needs no wait.
CLAIM_STANDS = """
SELECT 1 / count(*)
  FROM (SELECT FROM $fired_triggers f
         WHERE f.fence = %(fence)s::bigint AND f.epoch = %(epoch)s::bigint AND f.state = 'EXECUTING'
           AND EXISTS (SELECT FROM $scheduler_state s
                        WHERE s.sched_name = %(sched)s AND s.instance_id = %(instance)s AND s.epoch = f.epoch)
           FOR KEY SHARE OF f) AS claim
"""

# Waited for before the lock, and held from there on: under it such rows are skipped.
HOLD_JOB = """
SELECT 1 FROM $job_details
 WHERE sched_name = %(sched)s AND job_group = %(group)s AND job_name = %(name)s
   FOR NO KEY UPDATE
"""
HOLD_TRIGGERS = """
SELECT 1 FROM $triggers
 WHERE sched_name = %(sched)s AND job_group = %(group)s AND job_name = %(name)s
   FOR NO KEY UPDATE
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
        job = {"group": completion.fired.job_group, "name": completion.fired.job_name}
        hold = []
        if completion.job_data is not None or completion.retry_after is not None:
            hold.append(self._session.send(HOLD_JOB, **job))
        if completion.instruction is not CompletionInstruction.NOOP:
            hold.append(self._session.send(HOLD_TRIGGERS, **job))
        sends = [
            *hold,
            self._session.lock(LockName.TRIGGER_ACCESS),
            *complete.sends(self._session, node, [completion]),
            self._session.send(STANDS, fence=completion.fired.fence, epoch=node.epoch),
        ]
        now, _, _, earliest, _ = self._commit(sends, completion.fired.fence)[len(hold) + 1].rows[0]
        return CompletionOutcome(now, earliest_unblocked=earliest)

    def commit(self, node: Node, fence: int) -> None:
        guard = self._session.send(CLAIM_STANDS, fence=fence, epoch=node.epoch, instance=node.instance_id)
        self._commit([guard], fence)

    def _commit(self, sends: Sequence[Send], fence: int) -> list[Result]:
        driver = self._connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        try:
            return self._connections.fly_on(driver, sends, begin=None)
        except psycopg.errors.DivisionByZero as error:
            raise LeaseLostError(
                f"execution {fence} is no longer this node's: its transaction was rolled back"
            ) from error
        except psycopg.Error as error:
            if error.__dict__.get("outcome_unknown"):
                raise OutcomeUnknownError(f"the connection broke while committing: {error}") from error
            raise translate(error) from error

    def close(self) -> None:
        """Give the connection back; what was not committed is rolled back."""
        self._connection.close()
