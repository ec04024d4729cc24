"""The store on PostgreSQL: most methods of `JobStore` are functions of a session, which stand in the modules beside."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import SchemaError, StoreUnavailableError
from quartzpy.events.events import Event, NodesDiffer
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.placement import Capabilities
from quartzpy.store import node_metadata
from quartzpy.store.health_findings import Finding
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.postgresql import calendars as sql_calendars
from quartzpy.store.postgresql import (
    identity,
    lookups,
    owners,
    pages,
    pausing,
    removing,
    schema_version,
    server_checks,
    storing,
    time_off,
    zone_rules,
)
from quartzpy.store.postgresql.connection.checkin_connection import ControlConnection
from quartzpy.store.postgresql.connection.connection_sources import Database
from quartzpy.store.postgresql.connection.connections import Connections
from quartzpy.store.postgresql.connection.diagnosis import Diagnosis
from quartzpy.store.postgresql.connection.error_translation import INSUFFICIENT_PRIVILEGE
from quartzpy.store.postgresql.connection.external import KeptAwake, external_transaction
from quartzpy.store.postgresql.connection.external_session import ExternalSession
from quartzpy.store.postgresql.connection.listen import PROBE_EVERY, Listener, news
from quartzpy.store.postgresql.connection.locks import MADE, MAKE, LockName
from quartzpy.store.postgresql.connection.questions import Question, ask
from quartzpy.store.postgresql.connection.servers import READ_ONLY
from quartzpy.store.postgresql.connection.session import SqlSession, calls
from quartzpy.store.postgresql.scheduler_names import scheduler_names
from quartzpy.store.postgresql.schema.naming import DATABASE_CLOCK, Names
from quartzpy.store.postgresql.steps import acquire as acquire_step
from quartzpy.store.postgresql.steps import (
    cancel,
    checkin,
    facts,
    limits,
    misfire,
    node_keys,
    progress,
    purge,
    submissions,
)
from quartzpy.store.postgresql.steps import complete as complete_step
from quartzpy.store.postgresql.steps import holdings as holdings_step
from quartzpy.store.postgresql.steps import recover as recover_step
from quartzpy.store.postgresql.steps.job_transaction import WorkTransaction
from quartzpy.store.protocol import (
    CheckIn,
    ConnectionUsage,
    JobStore,
    Node,
    Notification,
    Repairs,
    ZoneRenewal,
)
from quartzpy.store.queries import Position, RecordQuery

if TYPE_CHECKING:
    from quartzpy.store.postgresql.admin.operators import Admin

logger = logging.getLogger(__name__)
_T = TypeVar("_T")
_Record = TypeVar("_Record")
_Key = TypeVar("_Key", JobKey, TriggerKey)

PINGS = 4
"""The number of times that a transaction that is kept awake speaks before the server would end it as idle."""


_steps = partial(calls, session="_steps")


class SqlJobStore:
    """Keeps a scheduler's jobs in PostgreSQL: at a URL, or behind an engine or a connect function of the caller.

    `now_sql` is the SQL expression for the time, which all decisions use.
    """

    has_tickets = True

    def __init__(self, database: Database, config: SchedulerConfig, *, now_sql: str = DATABASE_CLOCK) -> None:
        self._database = database
        self._config = config
        self._now_sql = now_sql
        self._warned: set[Finding] = set()
        self._described = "PostgreSQL"
        self._differences: set[tuple[str, ...]] = set()
        self._emit: Callable[[Event], None] = lambda event: None
        self._of_parents: list[Connections] = []
        self._zone_renewal = zone_rules.Renewal()
        self._prepare_connections()

    def __str__(self) -> str:
        return self._described

    @property
    def admin(self) -> Admin:
        """The operators' views of this database."""
        from quartzpy.store.postgresql.admin.operators import Admin  # A scheduler that only schedules needs none.

        return Admin(self._session, self._steps, lambda: self._as_connected)

    def _prepare_connections(self) -> None:
        """Create the objects for the access to the database, without connecting yet."""
        self._pid = os.getpid()
        self._connections = Connections(self._database, self._config)
        self._connections.on_event(self._emit)
        self._control = ControlConnection(self._connections)
        names = Names(self._config.schema, self._config.table_prefix, self._now_sql)
        diagnosis = Diagnosis(self._connections, names, self._config.schema, self._config.lock_timeout)
        self._session = SqlSession(
            self._connections,
            self._config.name,
            names,
            diagnosis,
        )
        self._steps = self._session.of_steps()

    @property
    def _as_connected(self) -> SchedulerConfig:
        """The settings, with `pooled` set if the sessions are not ours, as with a caller's engine."""
        return replace(self._config, pooled=self._connections.pooled)

    def within(self, connection: Any) -> SqlJobStore:
        return self._with_session(
            ExternalSession(self._session, external_transaction(connection, self._connections.seconds))
        )

    def of_steps(self) -> SqlJobStore:
        """Return this store on the connections of a node's steps, which the calls of jobs cannot use up."""
        return self._with_session(self._steps)

    def _with_session(self, session: SqlSession) -> SqlJobStore:
        inside = copy.copy(self)
        inside._session = inside._steps = session
        return inside

    def _exclusively(self, work: Callable[[JobStore], _T]) -> _T:
        if isinstance(self._session, ExternalSession):
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

    def together(self, work: Callable[[JobStore], _T], *, exclusively: bool = False) -> _T:
        if exclusively:
            return self._exclusively(work)
        if isinstance(self._session, ExternalSession):
            return work(self)
        with self._connections.call_transaction() as connection:
            return work(self.within(connection))

    def begin_job_transaction(self) -> WorkTransaction:
        return WorkTransaction(self._connections, self._steps)

    # --- membership of a node

    def open(self, emit: Callable[[Event], None] | None = None) -> None:
        if emit is not None:
            self._emit = emit
            self._connections.on_event(emit)
        if os.getpid() != self._pid:
            # The sessions still belong to the parent process, from which this one was forked. They are kept open,
            # because closing one here would end it for the parent.
            self._of_parents.append(self._connections)
            self._prepare_connections()
        try:
            with self._connections.checked_out() as connection:
                server_checks.refuse(connection, self._as_connected)
                schema_version.verify(connection, self._config.schema, self._config.table_prefix)
            self._make_lock_rows()
        except BaseException as error:
            if isinstance(error, StoreUnavailableError):
                self._session.last_return.failed(error)
            self._connections.drop_idle()
            raise

    def check_tables(self) -> None:
        with self._connections.checked_out() as connection:
            schema_version.verify(connection, self._config.schema, self._config.table_prefix)
            identity.StoredTables(connection, self._config.schema, self._config.table_prefix).check()

    def _make_lock_rows(self) -> None:
        if self._session.read_one(MADE)[0][0] == len(LockName):
            return
        try:
            self._session.unlocked(self._session.bind(MAKE, names=list(LockName)))
        except (SchemaError, StoreUnavailableError) as error:
            # Read-only users do not need the rows.
            if error.sqlstate not in (INSUFFICIENT_PRIVILEGE, READ_ONLY):
                raise

    def _check_server(self) -> None:
        """Check the server's settings that matter to a node; warn once per process."""
        with self._connections.checked_out() as connection:
            findings = server_checks.of_node(connection, self._as_connected)
            self._described = _described(connection, self._config.schema)
            server_checks.raise_first(findings)
            identity.StoredTables(connection, self._config.schema, self._config.table_prefix).record("node")
        for finding in findings:
            if finding not in self._warned:
                self._warned.add(finding)
                logger.warning("scheduler %s: %s", self._config.name, finding)

    def close(self) -> None:
        if os.getpid() != self._pid:
            # These connections belong to the parent process, from which this one was forked.
            return
        self._control.close()
        self._connections.close()

    def now(self) -> datetime:
        return self._session.now()

    def register(self, instance_id: str, **values: Any) -> Node:
        self._check_server()
        return recover_step.register(self._steps, instance_id, **values)

    def check_in(self, node: Node, *, within: float | None = None, problems: Sequence[NodeProblem] = ()) -> CheckIn:
        return checkin.check_in(self._steps, self._control, node, within, problems)

    def publish(self, node: Node, capabilities: Capabilities) -> None:
        checkin.publish(self._steps, node, capabilities)
        of_nodes = facts.publish(self._steps, node, facts.of_this_process(self._config, capabilities.job_types))
        for subject, values in node_metadata.differing_values(of_nodes).items():
            if (subject, *values) not in self._differences:
                self._differences.add((subject, *values))
                logger.warning(
                    "nodes of scheduler %s differ in %s: %s",
                    self._config.name,
                    subject,
                    node_metadata.listed_by_value(values),
                )
                self._emit(NodesDiffer(subject, values))

    subtract_node_deaths = _steps(checkin.subtract_node_deaths)

    def connections(self) -> ConnectionUsage:
        return self._connections.usage

    leave = _steps(recover_step.leave)
    holdings = _steps(holdings_step.holdings)
    reconcile = _steps(holdings_step.reconcile)
    recover = _steps(recover_step.recover)
    apply_time_off = _steps(time_off.apply_time_off)

    def renew_zones(self, node: Node) -> ZoneRenewal:
        return self._zone_renewal.run(self._steps, node)

    list_nodes = calls(checkin.list_nodes)
    set_node_mode = calls(checkin.set_node_mode)

    def repair(self) -> Repairs:
        from quartzpy.store.postgresql.admin import integrity

        return integrity.repair(self._steps)

    # --- the steps

    decide = _steps(node_keys.decide)
    acquire = _steps(acquire_step.acquire)
    refill = _steps(holdings_step.refill)
    reject = _steps(holdings_step.reject)
    wake_others = _steps(holdings_step.wake_others)
    complete = _steps(complete_step.complete)
    request_cancel = calls(cancel.request_cancel)
    cancel_requests = _steps(cancel.cancel_requests)
    report_progress = _steps(progress.report_progress)
    recover_misfires = _steps(misfire.recover_misfires)
    submit = _steps(submissions.submit)
    submitted = _steps(submissions.submitted)
    settle = _steps(submissions.settle)
    purge_history = _steps(purge.purge_history)

    # --- what schedules

    owned = calls(owners.owned)
    own = calls(owners.own)
    store_jobs = calls(storing.store_jobs)
    modify_job = calls(storing.modify_job)
    replace_trigger = calls(storing.replace_trigger)
    delete_triggers = calls(removing.delete_triggers)
    delete_jobs = calls(removing.delete_jobs)
    clear = calls(removing.clear)
    pause = calls(pausing.pause)
    resume = calls(pausing.resume)
    set_mode = calls(pausing.set_mode)
    set_window = calls(time_off.set_window)
    reset_from_error = calls(pausing.reset_from_error)
    put_calendar = calls(sql_calendars.put_calendar)
    delete_calendar = calls(sql_calendars.delete_calendar)
    move_triggers = calls(sql_calendars.move_triggers)
    put_limit = calls(limits.put_limit)
    delete_limit = calls(limits.delete_limit)

    # --- what is read

    jobs = calls(lookups.jobs)
    job_headers = calls(lookups.job_headers)
    triggers = calls(lookups.triggers)
    ahead = calls(lookups.ahead)
    names = calls(lookups.names)
    pauses = calls(lookups.pauses)
    windows = calls(time_off.windows)
    noted_zones = calls(zone_rules.noted)
    waiting_dispatch_keys = calls(lookups.waiting_dispatch_keys)
    calendars = calls(sql_calendars.calendars)
    limits = calls(limits.limits)
    list_running = calls(lookups.list_running)
    execution = calls(lookups.execution)
    count = calls(pages.count)
    cluster_load = calls(lookups.cluster_load)

    def keys(self, kind: type[_Key], matcher: GroupMatcher) -> set[_Key]:
        return lookups.keys(self._session, kind, matcher)

    def near_keys(self, key: _Key, limit: int) -> set[_Key]:
        return lookups.near_keys(self._session, key, limit)

    def find(self, query: RecordQuery[_Record], limit: int | None, after: Position | None = None) -> list[_Record]:
        return pages.find(self._session, query, limit, after)

    def scheduler_names(self) -> list[str]:
        """Return the names of all schedulers in this database; this scheduler's name need not be among them.

        Raises:
            SchemaError: the tables are missing, or belong to another release.
        """
        with self._connections.checked_out() as connection:
            schema_version.verify(connection, self._config.schema, self._config.table_prefix)
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
            probe_every=min(PROBE_EVERY, self._config.checkin_interval.total_seconds()),
            probed=self._connections.probe_idle,
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
