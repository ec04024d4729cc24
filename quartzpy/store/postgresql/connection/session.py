"""The environment of every step: connections, statements prepared for this schema, and the scheduler's name."""

from __future__ import annotations

import copy
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import update_wrapper
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg

from quartzpy.config.config import DEFAULT_TABLE_PREFIX
from quartzpy.errors import StoreUnavailableError
from quartzpy.store import refusals
from quartzpy.store.postgresql.connection.connections import Connections
from quartzpy.store.postgresql.connection.diagnosis import Diagnosis
from quartzpy.store.postgresql.connection.error_translation import LockRowMissingError
from quartzpy.store.postgresql.connection.locks import LOCK, MAKE, LockName
from quartzpy.store.postgresql.connection.pipeline import BEGIN, COMMIT, BoundStatement, Result, roll_back_unless_ended
from quartzpy.store.postgresql.connection.pool import PoolShare
from quartzpy.store.postgresql.schema.naming import Names, scoped
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.schema.statement import Statement, prepare
from quartzpy.store.postgresql.slice_size import SliceSize
from quartzpy.store.protocol import Node
from quartzpy.zone_rules import ZoneRules

logger = logging.getLogger(__name__)

_SQL = SqlFile("connection/session.sql")
NOW = _SQL("now")
CLOCK_LONGEST_AGE = 10.0
"""The age, in seconds, from which on a reading of the clock is not used: the clocks may have drifted apart."""
CLOCK_TOLERANCE = timedelta(milliseconds=20)
"""The error of an estimate of the clock that is accepted."""
_T = TypeVar("_T")
_P = ParamSpec("_P")
_R = TypeVar("_R")


def channel(scheduler: str, prefix: str = DEFAULT_TABLE_PREFIX) -> str:
    """Return the scheduler's notification channel; hashed, because its name may exceed PostgreSQL's limit."""
    return f"quartzpy_{hashlib.sha256(scoped(scheduler, prefix).encode()).hexdigest()[:40]}"


class ClockEstimate:
    """The last reading of the database's clock, continued by the monotonic clock of this machine.

    The answer with the reading arrives after it was made, so the estimate is late by up to one round trip, and never
    early while both clocks are steady. If the database's clock is set, or this machine is suspended, the estimate is
    wrong; therefore whoever uses it compares it with the next reading.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._learned: tuple[datetime, float] | None = None

    def learn(self, reading: datetime) -> None:
        """Note a reading of the database's clock that has just arrived."""
        self._learned = reading, self._monotonic()

    def now(self) -> datetime | None:
        """Return the estimate; None if there is no recent reading."""
        learned = self._learned
        if learned is None:
            return None
        reading, at = learned
        age = self._monotonic() - at
        return reading + timedelta(seconds=age) if age < CLOCK_LONGEST_AGE else None

    def agrees(self, reading: datetime, before: datetime | None) -> bool:
        """Return whether a reading that has just arrived is as expected, and note it.

        `before` is the estimate at an instant before the reading was made, if there was one.
        """
        after = self.now()
        self.learn(reading)
        return (
            before is not None and after is not None and before - CLOCK_TOLERANCE <= reading <= after + CLOCK_TOLERANCE
        )


_NO_CONNECTION = ("08", "57P0", "53")


class LastReturn:
    """The last time at which a read reached the database again, after one that could not.

    Between the two, the database may have been away for as long as nobody has read.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._is_away = False
        self._at: float | None = None

    def failed(self, error: StoreUnavailableError) -> None:
        """Note a failed read, if the database could not be reached or accepted no work."""
        if error.sqlstate is None or error.sqlstate.startswith(_NO_CONNECTION):
            self._is_away = True

    def succeeded(self) -> None:
        if self._is_away:
            self._is_away, self._at = False, self._monotonic()

    def ago(self) -> timedelta | None:
        """Return how long ago that was; None if every read has reached it."""
        return None if self._at is None else timedelta(seconds=self._monotonic() - self._at)


class SqlSession:
    """Sends the statements of one scheduler to one database."""

    decides_at_once = True
    """True if statements under the lock see everything that is committed before their own commit."""

    def __init__(self, connections: Connections, scheduler: str, names: Names, diagnosis: Diagnosis) -> None:
        self.connections = connections
        self.share: PoolShare = connections.calls
        """The share of the pool that the transactions of this session use."""
        self.diagnosis = diagnosis
        self.scheduler = scheduler
        self.names = names
        self._statements: dict[str, Statement] = {}
        self.channel = channel(scheduler, names.prefix)
        """The channel of this scheduler's notifications."""
        self.changed_triggers = 0
        """The number of triggers that pauses and resumptions of groups have changed in the transaction of this session;
        it is read where a transaction has a session of its own."""
        self.clock = ClockEstimate()
        """Saves a round trip where a few milliseconds do not matter."""
        self.last_return = LastReturn()
        self.expects_new = False
        """True if the last call that stored without replacing found nothing of it stored; see `storing`."""
        self.left_to_others: set[int] = set()
        """The generations of late triggers that this process cannot compute; see `misfire`."""
        self.misfire_batch = SliceSize(1_000, least=25, most=1_000, short=0.02, long=0.05)
        """The largest batch of the misfire step: its write holds the lock."""
        self.late_since: tuple[int, datetime | str] | None = None
        """The epoch that handles a backlog of late triggers, and where its next batch begins; see `misfire`."""
        self.noted_zones: dict[str, float] = {}
        """The digests of the rules of zones that are noted beside what is stored, and when they were, by the monotonic
        clock; see `zone_rules`."""
        self.other_rules: dict[str, Sequence[ZoneRules]] = {}
        """The rules of zones, other than those of this process, by which something was stored when this was last looked
        at; see `zone_rules`."""
        self.purged_up_to: datetime | None = None
        """The end of the last execution that a full batch deleted; see `purge`."""

    def of_steps(self) -> SqlSession:
        """Return a session for the steps of a node. What it expects of the database is shared with this one."""
        session = copy.copy(self)
        session.share = self.connections.steps
        return session

    def of_calls(self) -> SqlSession:
        """Return a session for what takes long. What it expects of the database is shared with this one."""
        session = copy.copy(self)
        session.share = self.connections.calls
        return session

    def bind(self, text: str, **values: Any) -> BoundStatement:
        """Return the statement of a text with its values; the scheduler's name is always added."""
        statement = self._statements.get(text)
        if statement is None:
            # The name is derived from the text, so that concurrent threads produce the same statement.
            statement = self._statements.setdefault(text, prepare(f"{hash((text, self.names)):x}", text, self.names))
        values["sched"] = self.scheduler
        return BoundStatement(statement, values)

    def now(self) -> datetime:
        """Return the time of the database's clock."""
        now: datetime = self.read_one(NOW)[0][0]
        self.clock.learn(now)
        return now

    def lock(self, name: LockName) -> BoundStatement:
        return self.bind(LOCK, lock=name)

    def allow_pauses(self) -> BoundStatement:
        """Return the statement that lets a transaction be idle as long as the database may take for an answer."""
        return self.bind(_SQL.allow_pauses, idle_limit=f"{self.connections.seconds * 1000:.0f}ms")

    def locked(self, *statements: BoundStatement, name: LockName | None = LockName.TRIGGER_ACCESS) -> list[Result]:
        """Take the lock, run the statements and commit in one round trip; return the statements' results.

        Without the name of a lock, one of the statements takes it.

        Raises:
            SchemaError: the lock's row is missing, and cannot be restored.
        """
        locking = statements if name is None else (self.lock(name), *statements)
        results = self.with_locks(lambda: self.connections.execute(locking, self.share))
        return results if name is None else results[1:]

    def with_locks(self, ask: Callable[[], _T]) -> _T:
        """Call `ask`; if the lock rows are missing, so that nothing was done, restore them and call it again."""
        with self.diagnosis.explained(locks=True):
            try:
                return ask()
            except LockRowMissingError:
                self._restore_lock_rows()
                return ask()

    def _restore_lock_rows(self) -> None:
        """Make the lock rows that are missing, so that nothing was done; what needed them is then asked again."""
        logger.warning("scheduler %s: restored missing rows of the table of locks", self.scheduler)
        self.unlocked(self.bind(MAKE, names=list(LockName)))

    def unlocked(self, *statements: BoundStatement) -> list[Result]:
        """Run statements that need no lock, and commit, in one round trip."""
        with self.diagnosis.explained():
            return self.connections.execute(statements, self.share)

    def read(self, *statements: BoundStatement) -> list[Result]:
        """Run read-only statements in one round trip; if the connection breaks, repeat them on another one."""
        try:
            with self.diagnosis.explained():
                results = self.connections.read(statements, self.share)
        except StoreUnavailableError as error:
            self.last_return.failed(error)
            raise
        self.last_return.succeeded()
        return results

    def read_one(self, text: str, **values: Any) -> list[tuple[Any, ...]]:
        return self.read(self.bind(text, **values))[0].rows

    def transaction(self, work: Callable[[Transaction], _T]) -> _T:
        """Run a transaction of several round trips; `work` ends it with `Transaction.commit`."""

        def whole(connection: psycopg.Connection[Any]) -> _T:
            try:
                return work(Transaction(connection, self.connections))
            finally:
                roll_back_unless_ended(connection)

        return self.with_locks(lambda: self.connections.transaction(whole, self.share))


class Transaction:
    """A transaction of several round trips, which reads results before it commits."""

    _queued: Sequence[tuple[BoundStatement, Callable[[Result], object]]] = ()

    def __init__(self, connection: psycopg.Connection[Any], connections: Connections) -> None:
        self._connection = connection
        self._connections = connections
        self._begun = False

    def execute(self, *statements: BoundStatement) -> list[Result]:
        return self._execute(statements, commit=False)

    def execute_with_next(self, statement: BoundStatement, check: Callable[[Result], object]) -> None:
        """Send a statement in the same round trip as the next ones, before them, and pass its result to `check`.

        `check` may raise an error, and may send more. The round trip with COMMIT does not count as the next one,
        because `check` has to run before the commit.
        """
        self._send_queued()
        self._queued = [(statement, check)]

    def commit(self, *statements: BoundStatement) -> list[Result]:
        """Send the last statements together with COMMIT."""
        self._send_queued()
        return self._execute(statements, commit=True)

    def _send_queued(self) -> None:
        if self._queued:
            self._execute((), commit=False)

    def _execute(self, statements: Sequence[BoundStatement], *, commit: bool) -> list[Result]:
        begin, self._begun = None if self._begun else BEGIN, True
        queued, self._queued = self._queued, ()
        sent = [*(statement for statement, _ in queued), *statements]
        results = self._connections.execute_on(self._connection, sent, begin=begin, commit=COMMIT if commit else None)
        for (_, check), result in zip(queued, results, strict=False):
            check(result)
        return results[len(queued) :]


def require_epoch(node: Node, result: Result) -> tuple[Any, ...]:
    """Return the only row of a statement that is empty if the node's epoch no longer exists.

    Raises:
        LeaseLostError: the epoch no longer exists.
    """
    row = result.first()
    if row is None:
        raise refusals.declared_dead(node)
    return row


def calls(
    function: Callable[Concatenate[SqlSession, _P], _R], session: str = "_session"
) -> Callable[Concatenate[Any, _P], _R]:
    """Return the method that calls a function on a session of its object: the attribute of that name."""
    session_of = attrgetter(session)

    def method(owner: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return function(session_of(owner), *args, **kwargs)

    update_wrapper(method, function)
    return method
