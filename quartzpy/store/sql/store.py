"""The store on PostgreSQL: each method of `JobStore` calls a function of a step's module."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import psycopg

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import SchemaError, StoreUnavailableError
from quartzpy.events.events import Event, NodesDiffer
from quartzpy.jobs.progress import Progress
from quartzpy.keys import JobKey
from quartzpy.placement import Capabilities
from quartzpy.store import node_facts
from quartzpy.store.findings import Finding, Severity
from quartzpy.store.protocol import (
    MAX_NODE_DEATHS,
    Acquisition,
    AvailableSlots,
    CheckIn,
    Completion,
    CompletionOutcome,
    ConnectionUsage,
    DispatchKey,
    FireRequest,
    Firing,
    Holdings,
    JobStore,
    MisfireOutcome,
    Node,
    Notification,
    Reconciliation,
    RecoveryOutcome,
    Repairs,
)
from quartzpy.store.records import (
    ClusterLoad,
    NodeRecord,
)
from quartzpy.store.sql import checks, load, schema_version
from quartzpy.store.sql.db.connections import Connections
from quartzpy.store.sql.db.control import ControlConnection
from quartzpy.store.sql.db.database import INSUFFICIENT_PRIVILEGE
from quartzpy.store.sql.db.diagnosis import Diagnosis
from quartzpy.store.sql.db.external import KeptAwake, external_transaction
from quartzpy.store.sql.db.listen import Listener, news
from quartzpy.store.sql.db.locks import MADE, MAKE, LockName
from quartzpy.store.sql.db.naming import DATABASE_CLOCK, Names
from quartzpy.store.sql.db.questions import Question, ask
from quartzpy.store.sql.db.servers import READ_ONLY
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.db.sources import Database
from quartzpy.store.sql.db.within import WithinSession
from quartzpy.store.sql.operations.operations_store import SqlOperationsStore
from quartzpy.store.sql.query_store import SqlQueryStore
from quartzpy.store.sql.scheduler_names import scheduler_names
from quartzpy.store.sql.scheduling_store import SqlSchedulingStore
from quartzpy.store.sql.steps import (
    acquire,
    cancel,
    checkin,
    complete,
    facts,
    fire,
    holdings,
    misfire,
    progress,
    purge,
    recover,
)
from quartzpy.store.sql.steps.job_transaction import WorkTransaction

logger = logging.getLogger(__name__)
_T = TypeVar("_T")

PINGS = 4
"""The number of times that a transaction that is kept awake speaks before the server would end it as idle."""


class SqlJobStore(SqlSchedulingStore, SqlQueryStore, SqlOperationsStore):
    """Keeps a scheduler's jobs in PostgreSQL: at a URL, or behind an engine or a connect function of the caller.

    `now_sql` is the SQL expression for the time, which all decisions use.
    """

    def __init__(self, database: Database, config: SchedulerConfig, *, now_sql: str = DATABASE_CLOCK) -> None:
        self._database = database
        self._config = config
        self._now_sql = now_sql
        self._left_to_others: set[int] = set()
        self._warned: set[Finding] = set()
        self._described = "PostgreSQL"
        self._differences: set[tuple[str, ...]] = set()
        self._emit: Callable[[Event], None] = lambda event: None
        self._of_parents: list[Connections] = []
        self._prepare_connections()

    def _prepare_connections(self) -> None:
        """Create the objects for the access to the database, without connecting yet."""
        self._pid = os.getpid()
        self._connections = Connections(self._database, self._config)
        self._connections.on_event(self._emit)
        self._control = ControlConnection(self._connections)
        names = Names(self._config.schema, self._config.table_prefix, self._now_sql)
        diagnosis = Diagnosis(self._connections, names, self._config.schema, self._config.lock_timeout)
        self._session = SqlSession(self._connections, self._config.name, names, diagnosis)
        self._steps = self._session.of_steps()

    @property
    def _as_connected(self) -> SchedulerConfig:
        """The settings, with `pooled` set if the sessions are not ours, as with a caller's engine."""
        return replace(self._config, pooled=self._connections.pooled)

    def within(self, connection: Any) -> SqlJobStore:
        return self._with_session(
            WithinSession(self._session, external_transaction(connection, self._connections.seconds))
        )

    def _with_session(self, session: SqlSession) -> SqlJobStore:
        inside = copy.copy(self)
        inside._session = inside._steps = session
        return inside

    def exclusively(self, work: Callable[[JobStore], _T]) -> _T:
        if isinstance(self._session, WithinSession):
            with self._session.together(LockName.SYNC_ACCESS):
                return work(self)

        # Nobody but another sync waits for what this transaction locks, so it may compute for long.
        seconds = self._connections.seconds
        with self._connections.call_transaction(self._session.allow_pauses()) as connection:
            transaction = KeptAwake(external_transaction(connection, seconds), seconds / PINGS)
            inside = self.within(transaction)
            with transaction.awake():
                lock = self._session.lock(LockName.SYNC_ACCESS)
                self._session.with_locks(lambda: inside._session.unlocked(lock))
                return work(inside)

    def ask(self, questions: Sequence[Callable[[JobStore], Any]]) -> list[Callable[[], Any]]:
        def of_session(question: Callable[[JobStore], Any]) -> Question:
            return lambda session: question(self._with_session(session))

        return ask(self._session, [of_session(question) for question in questions])

    def together(self, work: Callable[[JobStore], _T]) -> _T:
        if isinstance(self._session, WithinSession):
            return work(self)
        with self._connections.call_transaction() as connection:
            return work(self.within(connection))

    def begin_job_transaction(self) -> WorkTransaction:
        return WorkTransaction(self._connections, self._steps)

    # --- membership of a node

    def open(self) -> None:
        if os.getpid() != self._pid:
            # The sessions still belong to the parent process, from which this one was forked. They are kept open,
            # because closing one here would end it for the parent.
            self._of_parents.append(self._connections)
            self._prepare_connections()
        try:
            with self._connections.checked_out() as connection:
                checks.refuse(connection, self._as_connected)
                schema_version.verify(connection, self._config.schema, self._config.table_prefix)
            self._make_lock_rows()
        except BaseException:
            self._connections.drop_idle()
            raise

    def check_tables(self) -> None:
        with self._connections.checked_out() as connection:
            schema_version.verify(connection, self._config.schema, self._config.table_prefix)

    def _make_lock_rows(self) -> None:
        if self._session.read_one(MADE)[0][0] == len(LockName):
            return
        try:
            self._session.unlocked(self._session.send(MAKE, names=list(LockName)))
        except (SchemaError, StoreUnavailableError) as error:
            # Read-only users do not need the rows.
            if error.sqlstate not in (INSUFFICIENT_PRIVILEGE, READ_ONLY):
                raise

    def _check_server(self) -> None:
        """Check the server's settings that matter to a node; warn once per process."""
        with self._connections.checked_out() as connection:
            found = checks.of_node(connection, self._as_connected)
            self._described = _described(connection, self._config.schema)
        checks.raise_first(found)
        for finding in found:
            if finding not in self._warned:
                self._warned.add(finding)
                logger.warning("scheduler %s: %s", self._config.name, finding)

    def close(self) -> None:
        if os.getpid() != self._pid:
            # These connections belong to the parent process, from which this one was forked.
            return
        self._control.close()
        self._connections.close()

    def on_event(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._connections.on_event(emit)

    def now(self) -> datetime:
        return self._session.now()

    def register(
        self,
        instance_id: str,
        *,
        host: str,
        pid: int,
        checkin_interval: timedelta,
        window: timedelta,
        process: str = "",
        ended_epoch: int | None = None,
        max_node_deaths: int = MAX_NODE_DEATHS,
    ) -> Node:
        self._check_server()
        return recover.register(
            self._steps,
            instance_id,
            host=host,
            pid=pid,
            checkin_interval=checkin_interval,
            window=window,
            process=process,
            ended_epoch=ended_epoch,
            max_node_deaths=max_node_deaths,
        )

    def check_in(self, node: Node, *, within: float | None = None) -> CheckIn:
        return checkin.check_in(self._steps, self._control, node, within)

    def publish(self, node: Node, capabilities: Capabilities) -> None:
        checkin.publish(self._steps, node, capabilities)
        of_nodes = facts.publish(self._steps, node, facts.of_this_process(self._config))
        for subject, values in node_facts.differences(of_nodes).items():
            if (subject, *values) not in self._differences:
                self._differences.add((subject, *values))
                logger.warning(
                    "nodes of scheduler %s differ in %s: %s", self._config.name, subject, node_facts.described(values)
                )
                self._emit(NodesDiffer(subject, values))

    def recover(
        self, node: Node, dead: Collection[NodeRecord], *, max_node_deaths: int = MAX_NODE_DEATHS
    ) -> RecoveryOutcome:
        return recover.recover(self._steps, node, dead, max_node_deaths=max_node_deaths)

    def forgive(self, jobs: Collection[JobKey]) -> None:
        checkin.forgive(self._steps, jobs)

    def describe(self) -> str:
        return self._described

    def connections(self) -> ConnectionUsage:
        return self._connections.usage

    def leave(self, node: Node) -> None:
        recover.leave(self._steps, node)

    def holdings(self, node: Node) -> Holdings:
        return holdings.holdings(self._steps, node)

    def reconcile(self, node: Node, *, claims: Collection[int], executions: Collection[int]) -> Reconciliation:
        return holdings.reconcile(self._steps, node, claims, executions)

    def audit(self) -> list[Finding]:
        with self._connections.checked_out() as connection:
            found = checks.of_node(connection, self._as_connected)
        from quartzpy.store.sql import integrity  # It is needed by the doctor only.

        found += integrity.audit(self._steps, self._config)
        return sorted(found, key=lambda one: list(Severity).index(one.severity))

    def repair(self) -> Repairs:
        from quartzpy.store.sql import integrity

        return integrity.repair(self._steps)

    # --- the five steps

    def acquire(
        self,
        node: Node,
        available_slots: Sequence[AvailableSlots],
        *,
        limit: int,
        look_ahead: timedelta,
        misfire_threshold: timedelta,
        passed_over: Collection[int] = (),
    ) -> Acquisition:
        return acquire.acquire(
            self._steps,
            node,
            available_slots,
            limit=limit,
            look_ahead=look_ahead,
            misfire_threshold=misfire_threshold,
            passed_over=passed_over,
        )

    def fire(self, node: Node, moves: Sequence[FireRequest], *, early: timedelta = timedelta()) -> Firing:
        return fire.fire(self._steps, node, moves, early)

    def release(self, node: Node, fire_ids: Collection[int]) -> Collection[int]:
        return holdings.release(self._steps, node, fire_ids)

    def reject(self, node: Node, reasons: Mapping[int, str]) -> None:
        holdings.reject(self._steps, node, reasons)

    def complete(
        self, node: Node, completions: Sequence[Completion], *, wakes_others: bool = False
    ) -> CompletionOutcome:
        return complete.complete(self._steps, node, completions, wakes_others=wakes_others)

    def request_cancel(self, fire_id: int) -> bool:
        return cancel.request_cancel(self._session, fire_id)

    def request_cancel_of_job(self, job: JobKey) -> Collection[int]:
        return cancel.request_cancel_of_job(self._session, job)

    def cancel_requests(self, node: Node) -> set[int]:
        return cancel.cancel_requests(self._steps, node)

    def report_progress(
        self, node: Node, reports: Mapping[int, Progress], logs: Mapping[int, str] | None = None
    ) -> Collection[int]:
        return progress.report_progress(self._steps, node, reports, logs or {})

    def recover_misfires(
        self, node: Node, dispatch_keys: Sequence[DispatchKey], *, threshold: timedelta, limit: int
    ) -> MisfireOutcome:
        return misfire.recover_misfires(
            self._steps, node, dispatch_keys, self._left_to_others, threshold=threshold, limit=limit
        )

    def purge_history(
        self,
        older_than: timedelta | None,
        *,
        limit: int,
        ended_triggers: timedelta | None = None,
        actions: timedelta | None = None,
        before: datetime | None = None,
    ) -> int:
        return purge.purge(self._steps, older_than, limit, ended_triggers or older_than, actions, before)

    def history_cutoff(self, keep: int) -> datetime | None:
        return purge.cutoff(self._steps, keep)

    def cluster_load(self) -> ClusterLoad:
        return load.cluster_load(self._session)

    def schema_version(self) -> str | None:
        with self._connections.checked_out() as connection:
            return schema_version.stamped(connection, self._config.schema, self._config.table_prefix)

    def scheduler_names(self) -> list[str]:
        """Return the names of all schedulers in this database; this scheduler's name need not be among them.

        Raises:
            SchemaError: the tables are missing, or belong to another release.
        """
        with self._connections.checked_out() as connection:
            schema_version.verify(connection, self._config.schema)
        return scheduler_names(self._session)

    # --- notifications

    def notify(self, notification: Notification) -> None:
        self._steps.unlocked(news(self._steps, notification))

    def subscribe(self) -> Listener | None:
        if not self._connections.can_listen:
            return None
        return Listener(
            self._connections.connect_apart("listen"),
            self._session.channel,
            is_current=self._connections.is_current,
            on_triggers=self._session.expectation.look_at_everything,
            on_due=self._session.expectation.note_announcement,
        )


def _described(connection: psycopg.Connection[Any], schema: str | None) -> str:
    """Return the server and database of a connection, as reported by its handshake."""
    info = connection.info
    place = (
        f"{info.host}:{info.port}" if info.host and not info.host.startswith("/") else f"{info.host}, port {info.port}"
    )
    tables = "" if schema is None else f", schema {schema}"
    version = info.parameter_status("server_version") or "of an unknown release"
    return f"PostgreSQL {version} at {place}, database {info.dbname} as {info.user}{tables}"
