"""The store on PostgreSQL: most methods of `JobStore` are functions of a session, which stand in the modules beside."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import SchemaError, StoreUnavailableError
from quartzpy.events.events import Event, NodesDiffer
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.placement import Capabilities
from quartzpy.store import node_facts
from quartzpy.store.findings import Finding, Severity
from quartzpy.store.postgresql import (
    actions,
    checks,
    load,
    lookups,
    near_keys,
    owners,
    pages,
    pausing,
    removing,
    schema_version,
    storing,
)
from quartzpy.store.postgresql import calendars as sql_calendars
from quartzpy.store.postgresql.db.connections import Connections
from quartzpy.store.postgresql.db.control import ControlConnection
from quartzpy.store.postgresql.db.database import INSUFFICIENT_PRIVILEGE
from quartzpy.store.postgresql.db.diagnosis import Diagnosis
from quartzpy.store.postgresql.db.external import KeptAwake, external_transaction
from quartzpy.store.postgresql.db.listen import Listener, news
from quartzpy.store.postgresql.db.locks import MADE, MAKE, LockName
from quartzpy.store.postgresql.db.naming import DATABASE_CLOCK, Names
from quartzpy.store.postgresql.db.questions import Question, ask
from quartzpy.store.postgresql.db.servers import READ_ONLY
from quartzpy.store.postgresql.db.session import SqlSession
from quartzpy.store.postgresql.db.sources import Database
from quartzpy.store.postgresql.db.within import WithinSession
from quartzpy.store.postgresql.operations import history, search, server, usage
from quartzpy.store.postgresql.scheduler_names import scheduler_names
from quartzpy.store.postgresql.steps import acquire as acquire_step
from quartzpy.store.postgresql.steps import cancel, checkin, facts, misfire, progress, purge
from quartzpy.store.postgresql.steps import complete as complete_step
from quartzpy.store.postgresql.steps import fire as fire_step
from quartzpy.store.postgresql.steps import holdings as holdings_step
from quartzpy.store.postgresql.steps import recover as recover_step
from quartzpy.store.postgresql.steps.job_transaction import WorkTransaction
from quartzpy.store.protocol import MAX_NODE_DEATHS, CheckIn, ConnectionUsage, JobStore, Node, Notification, Repairs

logger = logging.getLogger(__name__)
_T = TypeVar("_T")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_Key = TypeVar("_Key", JobKey, TriggerKey)

PINGS = 4
"""The number of times that a transaction that is kept awake speaks before the server would end it as idle."""


def _of_steps(function: Callable[Concatenate[SqlSession, _P], _R]) -> Callable[Concatenate[SqlJobStore, _P], _R]:
    """Return the method that calls a function on the session for the steps of a node."""

    def method(store: SqlJobStore, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return function(store._steps, *args, **kwargs)

    update_wrapper(method, function)
    return method


def _of_calls(function: Callable[Concatenate[SqlSession, _P], _R]) -> Callable[Concatenate[SqlJobStore, _P], _R]:
    """Return the method that calls a function on the session for the calls of a program."""

    def method(store: SqlJobStore, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return function(store._session, *args, **kwargs)

    update_wrapper(method, function)
    return method


class SqlJobStore:
    """Keeps a scheduler's jobs in PostgreSQL: at a URL, or behind an engine or a connect function of the caller.

    `now_sql` is the SQL expression for the time, which all decisions use.
    """

    def __init__(self, database: Database, config: SchedulerConfig, *, now_sql: str = DATABASE_CLOCK) -> None:
        self._database = database
        self._config = config
        self._now_sql = now_sql
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
        return recover_step.register(
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

    forgive = _of_steps(checkin.forgive)

    def describe(self) -> str:
        return self._described

    def connections(self) -> ConnectionUsage:
        return self._connections.usage

    leave = _of_steps(recover_step.leave)
    holdings = _of_steps(holdings_step.holdings)
    reconcile = _of_steps(holdings_step.reconcile)
    recover = _of_steps(recover_step.recover)
    list_nodes = _of_calls(checkin.list_nodes)

    def audit(self) -> list[Finding]:
        with self._connections.checked_out() as connection:
            found = checks.of_node(connection, self._as_connected)
        from quartzpy.store.postgresql import integrity  # It is needed by the doctor only.

        found += integrity.audit(self._steps, self._config)
        return sorted(found, key=lambda one: list(Severity).index(one.severity))

    def repair(self) -> Repairs:
        from quartzpy.store.postgresql import integrity

        return integrity.repair(self._steps)

    # --- the steps

    acquire = _of_steps(acquire_step.acquire)
    fire = _of_steps(fire_step.fire)
    release = _of_steps(holdings_step.release)
    reject = _of_steps(holdings_step.reject)
    complete = _of_steps(complete_step.complete)
    request_cancel = _of_calls(cancel.request_cancel)
    request_cancel_of_job = _of_calls(cancel.request_cancel_of_job)
    cancel_requests = _of_steps(cancel.cancel_requests)
    report_progress = _of_steps(progress.report_progress)
    recover_misfires = _of_steps(misfire.recover_misfires)
    purge_history = _of_steps(purge.purge_history)
    history_cutoff = _of_steps(purge.history_cutoff)

    # --- what schedules

    owned = _of_calls(owners.owned)
    own = _of_calls(owners.own)
    store_jobs = _of_calls(storing.store_jobs)
    modify_job = _of_calls(storing.modify_job)
    replace_trigger = _of_calls(storing.replace_trigger)
    delete_triggers = _of_calls(removing.delete_triggers)
    delete_jobs = _of_calls(removing.delete_jobs)
    clear = _of_calls(removing.clear)
    pause_triggers = _of_calls(pausing.pause_triggers)
    resume_triggers = _of_calls(pausing.resume_triggers)
    pause_jobs = _of_calls(pausing.pause_jobs)
    resume_jobs = _of_calls(pausing.resume_jobs)
    pause_trigger_groups = _of_calls(pausing.pause_trigger_groups)
    resume_trigger_groups = _of_calls(pausing.resume_trigger_groups)
    pause_job_groups = _of_calls(pausing.pause_job_groups)
    resume_job_groups = _of_calls(pausing.resume_job_groups)
    pause_all = _of_calls(pausing.pause_all)
    resume_all = _of_calls(pausing.resume_all)
    set_job_mode = _of_calls(pausing.set_job_mode)
    set_manual = _of_calls(pausing.set_manual)
    reset_from_error = _of_calls(pausing.reset_from_error)
    reset_all_from_error = _of_calls(pausing.reset_all_from_error)
    put_calendar = _of_calls(sql_calendars.put_calendar)
    delete_calendar = _of_calls(sql_calendars.delete_calendar)
    move_triggers = _of_calls(sql_calendars.move_triggers)

    # --- what is read

    job = _of_calls(lookups.job)
    jobs = _of_calls(lookups.jobs)
    job_header = _of_calls(pausing.job_header)
    job_mode = _of_calls(pausing.job_mode)
    trigger = _of_calls(lookups.trigger)
    triggers = _of_calls(lookups.triggers)
    triggers_of_job = _of_calls(lookups.triggers_of_job)
    triggers_of_jobs = _of_calls(lookups.triggers_of_jobs)
    trigger_states = _of_calls(lookups.trigger_states)
    job_keys = _of_calls(lookups.job_keys)
    trigger_keys = _of_calls(lookups.trigger_keys)
    job_group_names = _of_calls(lookups.job_group_names)
    trigger_group_names = _of_calls(lookups.trigger_group_names)
    pauses = _of_calls(lookups.pauses)
    is_manual = _of_calls(pausing.is_manual)
    all_paused = _of_calls(pausing.all_paused)
    paused_trigger_groups = _of_calls(pausing.paused_trigger_groups)
    paused_job_groups = _of_calls(pausing.paused_job_groups)
    waiting_dispatch_keys = _of_calls(lookups.waiting_dispatch_keys)
    calendars = _of_calls(sql_calendars.calendars)
    calendar_names = _of_calls(sql_calendars.calendar_names)
    find_jobs = _of_calls(pages.find_jobs)
    find_triggers = _of_calls(pages.find_triggers)
    find_executions = _of_calls(pages.find_executions)
    find_misfires = _of_calls(pages.find_misfires)
    last_examined = _of_calls(pages.last_examined)
    count = _of_calls(pages.count)
    list_running = _of_calls(lookups.list_running)
    execution = _of_calls(lookups.execution)
    counts = _of_calls(lookups.counts)
    cluster_load = _of_calls(load.cluster_load)

    def near_keys(self, key: _Key, limit: int) -> set[_Key]:
        return near_keys.near_keys(self._session, key, limit)

    # --- what operators read and do

    tallies = _of_calls(usage.tallies)
    minutes = _of_calls(history.minutes)
    last_executions = _of_calls(history.last_executions)
    last_executions_of_job = _of_calls(history.last_executions_of_job)
    attempts = _of_calls(history.attempts)
    executions_between = _of_calls(history.executions_between)
    slot_usage = _of_calls(usage.slot_usage)
    placements = _of_calls(usage.placements)
    rate_usage = _of_calls(usage.rate_usage)
    trigger_group_tallies = _of_calls(usage.trigger_group_tallies)
    job_group_tallies = _of_calls(usage.job_group_tallies)
    find_keys = _of_calls(search.find_keys)
    node_facts = _of_calls(facts.node_facts)
    tables = _of_calls(server.tables)
    locks = _of_calls(server.locks)
    find_actions = _of_calls(pages.find_actions)
    record_action = _of_calls(actions.record_action)
    record_actions = _of_calls(actions.record_actions)
    update_action = _of_calls(actions.update_action)
    interrupt_actions = _of_calls(actions.interrupt_actions)
    set_node_mode = _of_calls(actions.set_node_mode)

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
