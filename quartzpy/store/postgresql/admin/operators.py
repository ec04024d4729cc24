"""Operators' views of a database, offered as one object beside the store, and no part of its protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from quartzpy.config.config import SchedulerConfig
from quartzpy.errors import CopiedDatabaseError
from quartzpy.store.health_findings import MAX_LISTED_ROWS, Finding, Severity
from quartzpy.store.postgresql import (
    execution_pages,
    identity,
    join_pages,
    misfire_pages,
    pages,
    schema_version,
    server_checks,
)
from quartzpy.store.postgresql.admin import (
    audit_log,
    catalogs,
    expectations,
    history,
    incidents,
    search,
    usage,
)
from quartzpy.store.postgresql.connection.session import SqlSession, calls
from quartzpy.store.postgresql.steps import facts
from quartzpy.store.queries import Position, RecordQuery
from quartzpy.texts import numbered

_Record = TypeVar("_Record")


class Admin:
    """What operators read and record in the database of a scheduler.

    Every method that reads is one round trip, takes no lock and changes nothing. Its cost has a bound that does not
    depend on the number of rows, so that a page of 1,000,000 triggers and 10,000,000 executions is read as fast as a
    small one.
    """

    def __init__(self, session: SqlSession, steps: SqlSession, config: Callable[[], SchedulerConfig]) -> None:
        """Describe the views.

        Args:
            session: the session for calls.
            steps: the session for the checks, which may take as long as a step.
            config: returns the settings of the scheduler, as it is connected.
        """
        self._session = session
        self._steps = steps
        self._config = config

    @property
    def changed_triggers(self) -> int:
        """The number of triggers that this transaction has changed by pauses and resumptions of groups."""
        return self._session.changed_triggers

    tallies = calls(usage.tallies)
    unscheduled_triggers = calls(usage.unscheduled_triggers)
    overdue = calls(usage.overdue)
    paused_overdue = calls(usage.paused_overdue)
    other_schedulers = calls(catalogs.other_schedulers)
    blocked_triggers = calls(usage.blocked_triggers)
    slot_usage = calls(usage.slot_usage)
    rate_usage = calls(usage.rate_usage)
    trigger_group_tallies = calls(usage.trigger_group_tallies)
    job_group_tallies = calls(usage.job_group_tallies)
    minutes = calls(history.minutes)
    last_executions = calls(history.last_executions)
    last_executions_of_job = calls(history.last_executions_of_job)
    failing_jobs = calls(history.failing_jobs)
    lost_executions = calls(history.lost_executions)
    job_health = calls(history.job_health)
    trigger_health = calls(history.trigger_health)
    attempts = calls(history.attempts)
    executions_in_cells = calls(history.executions_in_cells)
    misfires_in_cells = calls(history.misfires_in_cells)
    find_keys = calls(search.find_keys)
    tables = calls(catalogs.tables)
    locks = calls(catalogs.locks)
    old_snapshots = calls(catalogs.old_snapshots)
    job_types = calls(facts.job_types)
    last_examined = calls(pages.last_examined)
    count = calls(pages.count)
    ranked_executions = calls(execution_pages.ranked)
    recent_misfires = calls(misfire_pages.recent)

    def find(self, query: RecordQuery[_Record], limit: int | None, after: Position | None = None) -> list[_Record]:
        """Return a page of records, as `QueryStore.find` does, or of actions of the audit log, or of incidents."""
        return pages.find(self._session, query, limit, after)

    # --- the audit log

    record_action = calls(audit_log.record_action)
    record_actions = calls(audit_log.record_actions)
    node_ends = calls(audit_log.node_ends)
    ended_pauses = calls(audit_log.ended_pauses)
    update_action = calls(audit_log.update_action)
    interrupt_actions = calls(audit_log.interrupt_actions)

    # --- what is wrong, and what was

    take_slot = calls(incidents.take_slot)
    open_incidents = calls(incidents.open_incidents)
    incident = calls(incidents.incident)
    record_incidents = calls(incidents.record_incidents)
    notification = calls(incidents.notification)
    notifications = calls(incidents.notifications)
    note_attempt = calls(incidents.note_attempt)
    acknowledge = calls(incidents.acknowledge)
    unacknowledge = calls(incidents.unacknowledge)
    due_expectations = calls(expectations.due_expectations)
    record_expectations = calls(expectations.record_expectations)
    lasting_breaches = calls(expectations.lasting_breaches)
    breaches_of_trigger = calls(expectations.breaches_of_trigger)
    late_joins = calls(expectations.late_joins)
    waiting_jobs = calls(join_pages.waiting_jobs)
    record_late_joins = calls(expectations.record_late_joins)

    # --- the doctor

    def audit(self) -> list[Finding]:
        """Examine the database and return its problems, the gravest first."""
        config = self._config()
        with self._session.connections.checked_out() as connection:
            findings = server_checks.of_node(connection, config)
            try:
                identity.StoredTables(connection, config.schema, config.table_prefix).check()
            except CopiedDatabaseError as error:
                advice = "until then no node fires; see “A copy” in docs/operate/backup.md"
                findings.append(Finding(Severity.ERROR, "copied-database", str(error), advice))
        # A node has these views too, and never audits.
        from quartzpy.store.postgresql.admin import integrity

        findings += [*integrity.audit(self._steps, config), *self._lasting()]
        return sorted(findings, key=lambda finding: finding.severity.rank)

    def _lasting(self) -> list[Finding]:
        """Return a finding about the incidents that last, whose grades are not those of the doctor."""
        records = self.open_incidents(incidents.MAX_LASTING)
        if not records:
            return []
        records.sort(key=lambda record: record.severity.rank)
        what = f"{numbered(len(records), 'incident lasts', 'incidents last')}, as the nodes have recorded"
        rows = tuple(f"{record.severity} {record.kind}: {' '.join([record.what, *record.why])}" for record in records)
        return [Finding(Severity.INFO, "incidents", what, "see `quartzpy incidents`", rows[:MAX_LISTED_ROWS])]

    def schema_version(self) -> str | None:
        """Return the revision of the tables."""
        config = self._config()
        with self._session.connections.checked_out() as connection:
            return schema_version.stamped(connection, config.schema, config.table_prefix)
