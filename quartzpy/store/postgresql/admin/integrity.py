"""Integrity checks of the tables, and the repairs that are safe while nodes are working.

Each check is a query without results if all is well. The checks take no lock; the repair takes both locks, and checks
again under them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from quartzpy.config.config import SchedulerConfig
from quartzpy.placement import Capabilities, placement_from_text
from quartzpy.store import node_metadata
from quartzpy.store.health_findings import MAX_LISTED_ROWS, Finding, Severity
from quartzpy.store.postgresql.admin.server import old_snapshots
from quartzpy.store.postgresql.connection.listen import news
from quartzpy.store.postgresql.connection.locks import MAKE, LockName
from quartzpy.store.postgresql.connection.pipeline import Result
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.naming import renamed, renamed_sql
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.checkin import list_nodes
from quartzpy.store.postgresql.steps.recover import LOST, REPAIR, STUCK, end_lost, send
from quartzpy.store.postgresql.zone_rules import zone_findings
from quartzpy.store.protocol import CheckIn, Repairs
from quartzpy.store.records import NodeRecord
from quartzpy.texts import numbered

TZDATA_ADVICE = "fire times may differ: bring all nodes to one version of the time zone data"
LONG_TRANSACTION = timedelta(minutes=10)
NOTIFICATIONS_USED = 0.5
"""The share of the server's queue of notifications from which it is a problem."""
HELD_LONG = timedelta(seconds=5)

_SQL = SqlFile("admin/integrity.sql")


def audit(session: SqlSession, config: SchedulerConfig) -> list[Finding]:
    """Return all problems of a scheduler's tables that queries can detect."""
    nodes = list_nodes(session)
    late = nodes.setting("misfire_threshold", config.misfire_threshold) + timedelta(minutes=1)
    prefix = {"prefix": config.table_prefix}
    questions: list[tuple[str, dict[str, Any], Callable[[Result], list[Finding]]]] = [
        (_SQL.lock_rows, {}, _lock_rows),
        (LOST, {"instances": []}, _unknown_epochs),
        (STUCK, {}, _stuck),
        (_SQL.copies, {}, _copies),
        (_SQL.in_error, {"limit": MAX_LISTED_ROWS}, _in_error),
        (_SQL.missing_limits, {}, _missing_limits),
        (_SQL.indexes, prefix, partial(_indexes, config.table_prefix)),
        (_SQL.constraints, prefix, partial(_constraints, config.table_prefix)),
        (_SQL.autovacuum, {}, _autovacuum),
        (_SQL.notifications, {}, _notifications),
        (_SQL.transactions, {"long": LONG_TRANSACTION}, _transactions),
    ]
    findings: list[Finding] = []
    for text, values, judged in questions:
        findings += judged(session.read(session.bind(text, **values))[0])
    findings += _dead(session.read_one(_SQL.dead, **prefix), old_snapshots(session))
    return (
        findings + _overdue(session, late, nodes.alive()) + _nodes(nodes) + zone_findings(session) + _holders(session)
    )


def repair(session: SqlSession) -> Repairs:
    """Repair whatever is safe to repair; take no lock if there is nothing to repair."""
    locks, lost, stuck, copies = session.read(
        session.bind(_SQL.lock_rows), session.bind(LOST, instances=[]), session.bind(STUCK), session.bind(_SQL.copies)
    )
    missing = len(LockName) - len(locks.rows)
    if missing:
        session.unlocked(session.bind(MAKE, names=list(LockName)))
    if not (lost.rows or stuck.rows or copies.rows):
        return Repairs(lock_rows=missing)
    flight = {
        "copies": session.bind(_SQL.repair_copies),
        **end_lost(session, lost.rows, []),
        "repair": session.bind(REPAIR),
        "news": news(session),
    }
    results = send(session, flight)
    return Repairs(
        lock_rows=missing,
        copies=results["copies"].touched,
        executions=len(results["leave"].rows[0][0]) if lost.rows else 0,
        stuck=len(results["repair"].rows),
    )


def _listed(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(names[:MAX_LISTED_ROWS])


def _lock_rows(result: Result) -> list[Finding]:
    missing = sorted(set(LockName) - {name for (name,) in result.rows})
    if not missing:
        return []
    what = numbered(len(missing), "lock row is missing", "lock rows are missing")
    return [
        Finding(Severity.ERROR, "lock-rows", what, "the next use, or --repair, restores them", _listed(missing), True)
    ]


def _unknown_epochs(result: Result) -> list[Finding]:
    if not result.rows:
        return []
    rows = [f"{fire_id}: {trigger} (by {node})" for fire_id, _, trigger, node in result.rows]
    what = numbered(
        len(rows),
        "execution belongs to a node that is not in the cluster",
        "executions belong to nodes that are not in the cluster",
    )
    return [
        Finding(
            Severity.ERROR,
            "unknown-epoch",
            what,
            "--repair recovers them",
            _listed(rows),
            True,
        )
    ]


_HELD = {
    "BLOCKED": (
        "blocked-for-nothing",
        "trigger is BLOCKED without a running execution of its job",
        "triggers are BLOCKED without a running execution of their job",
    ),
    "COMPLETE": (
        "never-ended",
        "trigger is COMPLETE, and its last execution no longer exists",
        "triggers are COMPLETE, and their last execution no longer exists",
    ),
}


def _stuck(result: Result) -> list[Finding]:
    findings = []
    for state, (check, singular, plural) in _HELD.items():
        rows = sorted(f"{group}.{name}" for group, name, is_in, *_ in result.rows if is_in == state)
        if rows:
            what = numbered(len(rows), singular, plural)
            findings.append(
                Finding(Severity.ERROR, check, what, "--repair releases such triggers", _listed(rows), True)
            )
    return findings


def _copies(result: Result) -> list[Finding]:
    if not result.rows:
        return []
    what = numbered(
        len(result.rows),
        "trigger differs from its job in type, limit or placement",
        "triggers differ from their job in type, limit or placement",
    )
    rows = _listed([name for (name,) in result.rows])
    return [Finding(Severity.ERROR, "stale-copies", what, "--repair copies the values again", rows, True)]


def _in_error(result: Result) -> list[Finding]:
    if not result.rows:
        return []
    rows = tuple(text for _, text in result.rows)
    what = numbered(result.rows[0][0], "trigger is in state ERROR", "triggers are in state ERROR")
    return [Finding(Severity.WARNING, "in-error", what, "remove the cause, then run `quartzpy reset TRIGGER`", rows)]


def _missing_limits(result: Result) -> list[Finding]:
    if not result.rows:
        return []
    what = numbered(len(result.rows), "job shares a limit that is not stored", "jobs share limits that are not stored")
    advice = "they do not fire; set the limits, as `quartzpy set-limit NAME 5` does"
    return [Finding(Severity.ERROR, "missing-limit", what, advice, _listed([text for (text,) in result.rows]))]


def _indexes(prefix: str, result: Result) -> list[Finding]:
    # Each node imports this module to judge what is wrong. Only two checks of the doctor need SQLAlchemy, whose import
    # is a fifth of a node's start.
    from sqlalchemy.dialects import postgresql
    from sqlalchemy.schema import CreateIndex

    from quartzpy.store.postgresql.schema.tables import metadata

    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    there = dict(result.rows)
    wanted = {renamed(str(index.name), prefix): index for table in metadata.sorted_tables for index in table.indexes}
    findings = []
    missing = sorted(wanted.keys() - there.keys())
    if missing:
        made = [renamed_sql(str(CreateIndex(wanted[name]).compile(dialect=dialect)), prefix) for name in missing]
        what = f"{numbered(len(missing), 'index is', 'indexes are')} missing: {', '.join(missing)}"
        findings.append(Finding(Severity.ERROR, "missing-index", what, "create what is missing", _listed(made)))
    invalid = sorted(name for name, valid in there.items() if not valid)
    if invalid:
        what = f"{numbered(len(invalid), 'index is', 'indexes are')} invalid: {', '.join(invalid)}"
        advice = "repair each by REINDEX INDEX CONCURRENTLY"
        findings.append(Finding(Severity.ERROR, "invalid-index", what, advice, _listed(invalid)))
    return findings


def _constraints(prefix: str, result: Result) -> list[Finding]:
    from quartzpy.store.postgresql.schema.tables import metadata

    there = dict(result.rows)
    wanted = {
        renamed(str(constraint.name), prefix) for table in metadata.sorted_tables for constraint in table.constraints
    }
    missing = sorted(name for name in wanted if not there.get(name))
    if not missing:
        return []
    what = (
        f"{numbered(len(missing), 'constraint is', 'constraints are')} missing or not validated: {', '.join(missing)}"
    )
    advice = "`quartzpy db sql` prints the statements that create the constraints"
    return [Finding(Severity.ERROR, "missing-constraint", what, advice, _listed(missing))]


def _dead(tables: Sequence[tuple[Any, ...]], holders: Sequence[str]) -> list[Finding]:
    rows = [
        f"{table}: {dead} dead rows, {live} live, last autovacuum {when or 'never'}"
        for table, dead, live, when in tables
    ]
    if not rows:
        return []
    what = numbered(len(rows), "table is not vacuumed often enough", "tables are not vacuumed often enough")
    if not holders:
        return [Finding(Severity.WARNING, "dead-rows", what, "check autovacuum, or run VACUUM", _listed(rows))]
    what = f"{numbered(len(rows), 'table has', 'tables have')} dead rows that an old snapshot keeps from being removed"
    advice = (
        "end what holds it (pg_terminate_backend(pid), ROLLBACK PREPARED, pg_drop_replication_slot, or"
        " hot_standby_feedback of the standby); VACUUM removes nothing before, and fires become slower meanwhile"
    )
    return [Finding(Severity.WARNING, "old-snapshot", what, advice, _listed([*holders, *rows]))]


def _autovacuum(result: Result) -> list[Finding]:
    if result.rows[0][0] != "off":
        return []
    return [Finding(Severity.WARNING, "autovacuum", "autovacuum is off: each fire leaves dead rows", "enable it")]


def _notifications(result: Result) -> list[Finding]:
    used, holder = result.rows[0]
    if used < NOTIFICATIONS_USED:
        return []
    what = (
        f"{used:.0%} of the server's queue of notifications are used: while it is full, nodes learn of new triggers and"
        " commands only when they look"
    )
    advice = "end the session that listens and has stayed in a transaction: pg_terminate_backend(pid)"
    return [Finding(Severity.WARNING, "notifications", what, advice, () if holder is None else (holder,))]


def _transactions(result: Result) -> list[Finding]:
    if not result.rows:
        return []
    number = numbered(len(result.rows), "transaction is", "transactions are")
    what = f"{number} older than {LONG_TRANSACTION}: dead rows cannot be removed until the end of such a transaction"
    rows = _listed([text for (text,) in result.rows])
    return [Finding(Severity.WARNING, "long-transaction", what, "end it, or call pg_terminate_backend(pid)", rows)]


def _overdue(session: SqlSession, late: timedelta, alive: Sequence[NodeRecord]) -> list[Finding]:
    waiting = session.read_one(_SQL.overdue, patience=late)
    if not waiting:
        return []
    homeless: list[str] = []
    runnable: list[str] = []
    for job_type, placement, count, since in waiting:
        row = f"{count} of type {job_type}{' at ' + placement if placement else ''}, due since {since.isoformat()}"
        (runnable if any(_runs(node.capabilities, job_type, placement) for node in alive) else homeless).append(row)
    findings = []
    if homeless:
        what = f"triggers of {numbered(len(homeless), 'kind', 'kinds')} are overdue, and no node can run them"
        advice = "start a node that knows the job type and has the executor and labels"
        findings.append(Finding(Severity.ERROR, "no-node", what, advice, _listed(homeless)))
    if runnable:
        what = f"triggers of {numbered(len(runnable), 'kind', 'kinds')} are overdue, although nodes can run them"
        advice = "run `quartzpy why TRIGGER`, and check for busy nodes, wrong clocks and a slow database"
        findings.append(Finding(Severity.WARNING, "overdue", what, advice, _listed(runnable)))
    return findings


def _runs(node: Capabilities, job_type: str, placement: str) -> bool:
    return job_type in node.job_types and node.allows(placement_from_text(placement))


def _nodes(answer: CheckIn) -> list[Finding]:
    findings = []
    states = answer.states()
    silent = [
        f"{record.instance_id} on {record.host}, since {record.last_checkin.isoformat()}"
        for record in answer.nodes
        if not states[record.instance_id].is_alive
    ]
    if silent:
        what = numbered(
            len(silent),
            "node is silent, and none of the others has recovered its work",
            "nodes are silent, and none of the others has recovered their work",
        )
        advice = "start a node: it recovers the work within its failure_window"
        findings.append(Finding(Severity.WARNING, "silent-node", what, advice, _listed(silent)))
    unhealthy = [
        f"{record.instance_id}: {problem}"
        for record in answer.nodes
        if answer.now - record.last_checkin <= record.failure_window
        for problem in record.problems
    ]
    if unhealthy:
        number = sum(1 for record in answer.nodes if record.problems)
        what = numbered(number, "node checks in and reports", "nodes check in and report") + " problems of its own"
        advice = "the log of the node and its health() say more"
        findings.append(Finding(Severity.ERROR, "unhealthy-node", what, advice, _listed(unhealthy)))
    if not answer.nodes:
        findings.append(
            Finding(Severity.INFO, "no-nodes", "no node is running", "start one: quartzpy node --app module:name")
        )
    for subject, values in node_metadata.differing_values(answer.metadata).items():
        check = "tzdata" if subject == node_metadata.TZDATA else "nodes-differ"
        advice = TZDATA_ADVICE if check == "tzdata" else "use the same value everywhere"
        what = f"nodes differ in {subject}: {node_metadata.listed_by_value(values)}"
        findings.append(Finding(Severity.WARNING, check, what, advice))
    for zone, nodes_by_rules in node_metadata.differing_zones(answer.metadata).items():
        what = f"nodes have different rules of {zone}: {node_metadata.listed_by_value(nodes_by_rules)}"
        findings.append(Finding(Severity.WARNING, "tzdata", what, TZDATA_ADVICE))
    skewed = [
        f"{name}: {ahead:+.1f} s"
        for name, metadata in answer.metadata.items()
        if abs(ahead := float(metadata.get(node_metadata.CLOCK_AHEAD, 0))) > node_metadata.REPORTED_CLOCK_SKEW
    ]
    if skewed:
        what = numbered(len(skewed), "node has a clock", "nodes have clocks") + " that differs from the database's"
        advice = "synchronize the nodes by NTP; fire times follow the database's clock and are not affected"
        findings.append(Finding(Severity.WARNING, "clock-skew", what, advice, _listed(skewed)))
    return findings


def _holders(session: SqlSession) -> list[Finding]:
    long = [text for text, seconds in session.diagnosis.held() if seconds > HELD_LONG.total_seconds()]
    if not long:
        return []
    what = "rows of our tables have been locked for a long time, which may block the cluster"
    return [Finding(Severity.WARNING, "lock-held", what, "end that transaction", _listed(long))]
