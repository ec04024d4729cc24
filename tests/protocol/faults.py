"""Faults of one round trip: the n-th that a node or a user sends while faults are armed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import psycopg

from quartzpy.store.postgresql.connection import connections
from quartzpy.store.postgresql.connection.pipeline import COMMIT, BoundStatement, Result
from quartzpy.store.postgresql.schema.statement import prepare
from tests.protocol.driver import Stage
from tests.waiting import wait_until

STUCK_AT = 4711
STUCK = BoundStatement(prepare("protocol_stuck", f"SELECT pg_advisory_xact_lock({STUCK_AT})"), {})
PATIENT = BoundStatement(
    prepare(
        "protocol_patient",
        "SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)",
    ),
    {},
)
"""What is stuck stays so until the test lets it go."""
HURRY = BoundStatement(prepare("protocol_hurry", "SELECT set_config('statement_timeout', '1ms', true)"), {})
DAWDLE = BoundStatement(prepare("protocol_dawdle", "SELECT pg_sleep(10)"), {})


class Mode(StrEnum):
    """What becomes of the round trip."""

    REFUSED = "refused"
    """An error before anything is sent; the connection is well."""
    DEAD = "dead"
    """The connection died since it was last used."""
    ANSWER_LOST = "answer-lost"
    """The server did it, and the connection broke before the answer came."""
    LATE = "late"
    """The client gives up; the server has the round trip, and does it after others have looked."""
    TIMED_OUT = "timed-out"
    """The server cancels a statement."""
    LOST_RACE = "lost-race"
    """The server says that a race was lost, and that trying again can help."""
    TRIGGERS_HELD = "triggers-held"
    """A user's transaction holds the rows of all triggers."""
    JOBS_HELD = "jobs-held"
    """A user's transaction holds the rows of all jobs."""

    @property
    def holds_rows(self) -> bool:
        return self in (Mode.TRIGGERS_HELD, Mode.JOBS_HELD)


class Faults:
    """Counts round trips, and lets one of them go wrong."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._execute = connections.execute_pipelined
        self._mode: Mode | None = None
        self._is_armed = False
        self._at = 0
        self.pipelines = 0
        """How many were sent since it was armed."""
        self._stuck_pid: int | None = None
        self.goes_on_after = 0
        """What is stuck goes on once so many more round trips have come back; 0: not before `end`."""
        self._user = stage.user

    @contextmanager
    def armed(self, mode: Mode | None, at: int) -> Iterator[None]:
        """While this lasts, round trips are counted, and the one of number `at` goes wrong."""
        self._mode, self._at, self.pipelines, self._is_armed = mode, at, 0, True
        try:
            yield
        finally:
            self._mode, self._is_armed = None, False

    @property
    def is_stuck(self) -> bool:
        return self._stuck_pid is not None

    @property
    def was_reached(self) -> bool:
        return self.pipelines >= self._at

    def end(self) -> None:
        """The user's transaction ends; what is stuck goes on to its end."""
        if self._user.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self._user.execute("ROLLBACK")
        if self._stuck_pid is not None:
            self._user.execute("SELECT pg_advisory_unlock_all()")
            self._stage.wait_until_gone(self._stuck_pid)
            self._stuck_pid = None

    def execute(self, connection: psycopg.Connection[Any], sends: Sequence[BoundStatement], **how: Any) -> list[Result]:
        """Stands for `connections.execute_pipelined`."""
        if self._stuck_pid is not None and self.goes_on_after:
            try:
                return self._execute(connection, sends, **how)
            finally:
                self.goes_on_after -= 1
                if not self.goes_on_after:
                    self.end()
        self.pipelines += self._is_armed
        if self._mode is None or self.pipelines != self._at:
            return self._execute(connection, sends, **how)
        commits = how.get("commit", COMMIT) == COMMIT
        match self._mode:
            case Mode.REFUSED:
                raise psycopg.OperationalError("refused by the test")
            case Mode.LOST_RACE:
                raise psycopg.errors.SerializationFailure("lost by the test")
            case Mode.DEAD:
                self._stage.kill(connection.info.backend_pid)
            case Mode.ANSWER_LOST:
                pid = connection.info.backend_pid
                self._execute(connection, sends, **how)
                connection.pgconn.finish()
                self._stage.wait_until_gone(pid)
                raise _lost("the answer was lost by the test", commits)
            case Mode.LATE:
                self._give_up(connection, sends, how)
            case Mode.TIMED_OUT:
                sends = [HURRY, DAWDLE, *sends]
            case Mode.TRIGGERS_HELD:
                self._hold("qrtz_triggers")
            case Mode.JOBS_HELD:
                self._hold("qrtz_job_details")
        return self._execute(connection, sends, **how)

    def _hold(self, table: str) -> None:
        self._user.execute("BEGIN")
        # What a transaction of several round trips has already is not the user's to take.
        self._user.execute(f"SELECT FROM {table} FOR UPDATE SKIP LOCKED")

    def _give_up(
        self, connection: psycopg.Connection[Any], sends: Sequence[BoundStatement], how: dict[str, Any]
    ) -> None:
        """Send all of it to a server that comes no further than its first statement, and hear nothing."""
        pid = connection.info.backend_pid
        self._user.execute("SELECT pg_advisory_lock(%s)", [STUCK_AT])
        self._stuck_pid = pid
        try:
            self._execute(connection, [PATIENT, STUCK, *sends], **{**how, "seconds": 0})
        finally:
            wait_until(
                lambda: self._stage.rows(
                    "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'advisory'", pid
                ),
                "the round trip to be stuck",
                every=0.002,
            )
            if how.get("begin", b"BEGIN") is None:
                # It holds what its transaction took before: nobody can look meanwhile.
                self.end()


def _lost(message: str, commits: bool) -> psycopg.OperationalError:
    error = psycopg.OperationalError(message)
    error.__dict__["outcome_unknown"] = commits
    return error
