"""Integrity checks of the tables, and the repairs that are safe while nodes are working.

Each check is a query without results if all is well. The checks take no lock; the repair takes both locks, and checks
again under them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from quartzpy.config.config import SchedulerConfig
from quartzpy.placement import Capabilities, placement_from_text
from quartzpy.store import node_metadata
from quartzpy.store.health_findings import MAX_LISTED_ROWS, Finding, Severity
from quartzpy.store.postgresql.admin.catalogs import old_snapshots
from quartzpy.store.postgresql.connection.listen import news
from quartzpy.store.postgresql.connection.locks import MAKE, LockName
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

_Rows = Sequence[tuple[Any, ...]]
_SQL = SqlFile("admin/integrity.sql")


def audit(session: SqlSession, config: SchedulerConfig) -> list[Finding]:
    """Return all problems of a scheduler's tables that queries can detect."""
    nodes = list_nodes(session)
    late = nodes.setting("misfire_threshold", config.misfire_threshold) + timedelta(minutes=1)
    prefix = {"prefix": config.table_prefix}
    questions: list[tuple[str, dict[str, Any], Callable[[_Rows], Iterable[Finding]]]] = [
        (_SQL.lock_rows, {}, _lock_rows),
        (LOST, {"instances": []}, _unknown_epochs),
        (STUCK, {}, _stuck),
        (_SQL.copies, {}, _copies),
        (_SQL.in_error, {"limit": MAX_LISTED_ROWS}, _in_error),
        (_SQL.missing_limits, {}, _missing_limits),
        (_SQL.executors, {}, partial(_executors, nodes.alive())),
        (_SQL.worker_roles, {}, partial(_worker_roles, nodes.alive())),
        (_SQL.indexes, prefix, partial(_indexes, config.table_prefix)),
        (_SQL.constraints, prefix, partial(_constraints, config.table_prefix)),
        (_SQL.autovacuum, {}, _autovacuum),
        (_SQL.notifications, {}, _notifications),
        (_SQL.transactions, {"long": LONG_TRANSACTION}, _transactions),
        (_SQL.dead, prefix, lambda rows: _dead(rows, old_snapshots(session))),
        (_SQL.overdue, {"patience": late}, partial(_overdue, nodes.alive())),
    ]
    findings: list[Finding] = []
    for text, values, judged in questions:
        findings += judged(session.read_one(text, **values))
    return [*findings, *_nodes(nodes), *zone_findings(session), *_holders(session)]


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


def _found(
    severity: Severity,
    check: str,
    rows: Sequence[str],
    what: str | tuple[str, str],
    advice: str,
    *,
    repaired: bool = False,
) -> Iterator[Finding]:
    """Return a finding about these rows, if there are any. `what` may be its words for one row, and for several."""
    if rows:
        said = what if isinstance(what, str) else numbered(len(rows), *what)
        yield Finding(severity, check, said, advice, tuple(rows[:MAX_LISTED_ROWS]), repaired)


_error, _warning = partial(_found, Severity.ERROR), partial(_found, Severity.WARNING)


def _lock_rows(rows: _Rows) -> Iterator[Finding]:
    missing = sorted(set(LockName) - {name for (name,) in rows})
    what = "lock row is missing", "lock rows are missing"
    return _error("lock-rows", missing, what, "the next use, or --repair, restores them", repaired=True)


def _unknown_epochs(rows: _Rows) -> Iterator[Finding]:
    return _error(
        "unknown-epoch",
        [f"{fire_id}: {trigger} (by {node})" for fire_id, _, trigger, node in rows],
        (
            "execution belongs to a node that is not in the cluster",
            "executions belong to nodes that are not in the cluster",
        ),
        "--repair recovers them",
        repaired=True,
    )


_HELD = {
    "BLOCKED": (
        "blocked-for-nothing",
        (
            "trigger is BLOCKED without a running execution of its job",
            "triggers are BLOCKED without a running execution of their job",
        ),
    ),
    "COMPLETE": (
        "never-ended",
        (
            "trigger is COMPLETE, and its last execution no longer exists",
            "triggers are COMPLETE, and their last execution no longer exists",
        ),
    ),
}


def _stuck(rows: _Rows) -> Iterator[Finding]:
    for state, (check, what) in _HELD.items():
        held = sorted(f"{group}.{name}" for group, name, is_in, *_ in rows if is_in == state)
        yield from _error(check, held, what, "--repair releases such triggers", repaired=True)


def _copies(rows: _Rows) -> Iterator[Finding]:
    what = (
        "trigger differs from its job in type, limit or placement",
        "triggers differ from their job in type, limit or placement",
    )
    return _error("stale-copies", _texts(rows), what, "--repair copies the values again", repaired=True)


def _in_error(rows: _Rows) -> Iterator[Finding]:
    what = numbered(rows[0][0] if rows else 0, "trigger is in state ERROR", "triggers are in state ERROR")
    advice = "remove the cause, then run `quartzpy reset TRIGGER`"
    return _warning("in-error", [text for _, text in rows], what, advice)


def _missing_limits(rows: _Rows) -> Iterator[Finding]:
    what = "job shares a limit that is not stored", "jobs share limits that are not stored"
    advice = "they do not fire; set the limits, as `quartzpy limit set NAME 5` does"
    return _error("missing-limit", _texts(rows), what, advice)


def _executors(alive: Sequence[NodeRecord], rows: _Rows) -> Iterator[Finding]:
    there = {executor for node in alive for executor in node.capabilities.executors}
    lacking = [f"{executor!r}: {number}, such as {job}" for executor, number, job in rows if executor not in there]
    what = "executor that jobs name is on no living node", "executors that jobs name are on no living node"
    advice = "give it to a node by the setting `executors`, or change the jobs, which wait"
    return _warning("missing-executor", lacking if alive else [], what, advice)


def _worker_roles(alive: Sequence[NodeRecord], rows: _Rows) -> Iterator[Finding]:
    engines = [
        (f"executor {name!r} of node {node.instance_id}", engine)
        for node in alive
        for name, engine in node.capabilities.engines.items()
    ]
    repeating = [f"{executor}: {engine}" for executor, engine in engines if engine.may_repeat]
    what = "executor may run a job twice", "executors may run a job twice"
    advice = "its engine repeats calls, and the setting says that they take no tickets: are all of its jobs harmless?"
    yield from _warning("repeated-jobs", repeating, what, advice)
    taking = [executor for executor, engine in engines if engine.takes_tickets]
    what = "executor has workers without a role of their own", "executors have workers without a role of their own"
    advice = "they have more privileges than they need: grant them quartzpy_worker (`quartzpy db roles --apply`)"
    yield from _found(Severity.INFO, "worker-role", [] if rows else taking, what, advice)


def _indexes(prefix: str, rows: _Rows) -> Iterator[Finding]:
    # Each node imports this module to judge what is wrong. Only two checks of the doctor need SQLAlchemy, whose import
    # is a fifth of a node's start.
    from sqlalchemy.dialects import postgresql
    from sqlalchemy.schema import CreateIndex

    from quartzpy.store.postgresql.schema.tables import metadata

    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    there: dict[str, bool] = dict(rows)
    wanted = {renamed(str(index.name), prefix): index for table in metadata.sorted_tables for index in table.indexes}
    missing = sorted(wanted.keys() - there.keys())
    made = [renamed_sql(str(CreateIndex(wanted[name]).compile(dialect=dialect)), prefix) for name in missing]
    what = f"{numbered(len(missing), 'index is', 'indexes are')} missing: {', '.join(missing)}"
    yield from _error("missing-index", made, what, "create what is missing")
    invalid = sorted(name for name, valid in there.items() if not valid)
    what = f"{numbered(len(invalid), 'index is', 'indexes are')} invalid: {', '.join(invalid)}"
    yield from _error("invalid-index", invalid, what, "repair each by REINDEX INDEX CONCURRENTLY")


def _constraints(prefix: str, rows: _Rows) -> Iterator[Finding]:
    from quartzpy.store.postgresql.schema.tables import metadata

    there: dict[str, bool] = dict(rows)
    constraints = [constraint for table in metadata.sorted_tables for constraint in table.constraints]
    missing = sorted(name for each in constraints if not there.get(name := renamed(str(each.name), prefix)))
    number = numbered(len(missing), "constraint is", "constraints are")
    what = f"{number} missing or not validated: {', '.join(missing)}"
    advice = "`quartzpy db sql` prints the statements that create the constraints"
    return _error("missing-constraint", missing, what, advice)


def _dead(tables: _Rows, holders: Sequence[str]) -> Iterator[Finding]:
    rows = [
        f"{table}: {dead} dead rows, {live} live, last autovacuum {when or 'never'}"
        for table, dead, live, when in tables
    ]
    if not holders or not rows:
        what = "table is not vacuumed often enough", "tables are not vacuumed often enough"
        return _warning("dead-rows", rows, what, "check autovacuum, or run VACUUM")
    said = f"{numbered(len(rows), 'table has', 'tables have')} dead rows that an old snapshot keeps from being removed"
    advice = (
        "end what holds it (pg_terminate_backend(pid), ROLLBACK PREPARED, pg_drop_replication_slot, or"
        " hot_standby_feedback of the standby); VACUUM removes nothing before, and fires become slower meanwhile"
    )
    return _warning("old-snapshot", [*holders, *rows], said, advice)


def _autovacuum(rows: _Rows) -> Iterator[Finding]:
    if rows[0][0] == "off":
        yield Finding(Severity.WARNING, "autovacuum", "autovacuum is off: each fire leaves dead rows", "enable it")


def _notifications(rows: _Rows) -> Iterator[Finding]:
    used, holder = rows[0]
    if used >= NOTIFICATIONS_USED:
        what = (
            f"{used:.0%} of the server's queue of notifications are used: while it is full, nodes learn of new triggers"
            " and commands only when they look"
        )
        advice = "end the session that listens and has stayed in a transaction: pg_terminate_backend(pid)"
        yield Finding(Severity.WARNING, "notifications", what, advice, () if holder is None else (holder,))


def _transactions(rows: _Rows) -> Iterator[Finding]:
    number = numbered(len(rows), "transaction is", "transactions are")
    what = f"{number} older than {LONG_TRANSACTION}: dead rows cannot be removed until the end of such a transaction"
    return _warning("long-transaction", _texts(rows), what, "end it, or call pg_terminate_backend(pid)")


def _overdue(alive: Sequence[NodeRecord], rows: _Rows) -> Iterator[Finding]:
    homeless: list[str] = []
    runnable: list[str] = []
    for job_type, placement, count, since in rows:
        row = f"{count} of type {job_type}{' at ' + placement if placement else ''}, due since {since.isoformat()}"
        (runnable if any(_runs(node.capabilities, job_type, placement) for node in alive) else homeless).append(row)
    what = f"triggers of {numbered(len(homeless), 'kind', 'kinds')} are overdue, and no node can run them"
    advice = "start a node that knows the job type and has the executor and labels"
    yield from _error("no-node", homeless, what, advice)
    what = f"triggers of {numbered(len(runnable), 'kind', 'kinds')} are overdue, although nodes can run them"
    advice = "run `quartzpy why TRIGGER`, and check for busy nodes, wrong clocks and a slow database"
    yield from _warning("overdue", runnable, what, advice)


def _runs(node: Capabilities, job_type: str, placement: str) -> bool:
    return job_type in node.job_types and node.allows(placement_from_text(placement))


def _nodes(answer: CheckIn) -> Iterator[Finding]:
    states = answer.states()
    silent = [
        f"{record.instance_id} on {record.host}, since {record.last_checkin.isoformat()}"
        for record in answer.nodes
        if not states[record.instance_id].is_alive
    ]
    what = (
        "node is silent, and none of the others has recovered its work",
        "nodes are silent, and none of the others has recovered their work",
    )
    yield from _warning("silent-node", silent, what, "start a node: it recovers the work within its failure_window")
    unhealthy = [
        f"{record.instance_id}: {problem}"
        for record in answer.nodes
        if answer.now - record.last_checkin <= record.failure_window
        for problem in record.problems
    ]
    number = sum(1 for record in answer.nodes if record.problems)
    said = numbered(number, "node checks in and reports", "nodes check in and report") + " problems of its own"
    yield from _error("unhealthy-node", unhealthy, said, "the log of the node and its health() say more")
    if not answer.nodes:
        yield Finding(Severity.INFO, "no-nodes", "no node is running", "start one: quartzpy node --app module:name")
    for subject, values in node_metadata.differing_values(answer.metadata).items():
        check = "tzdata" if subject == node_metadata.TZDATA else "nodes-differ"
        advice = TZDATA_ADVICE if check == "tzdata" else "use the same value everywhere"
        said = f"nodes differ in {subject}: {node_metadata.listed_by_value(values)}"
        yield Finding(Severity.WARNING, check, said, advice)
    for zone, nodes_by_rules in node_metadata.differing_zones(answer.metadata).items():
        said = f"nodes have different rules of {zone}: {node_metadata.listed_by_value(nodes_by_rules)}"
        yield Finding(Severity.WARNING, "tzdata", said, TZDATA_ADVICE)
    skewed = [
        f"{name}: {ahead:+.1f} s"
        for name, metadata in answer.metadata.items()
        if abs(ahead := float(metadata.get(node_metadata.CLOCK_AHEAD, 0))) > node_metadata.REPORTED_CLOCK_SKEW
    ]
    what = "node has a clock that differs from the database's", "nodes have clocks that differ from the database's"
    advice = "synchronize the nodes by NTP; fire times follow the database's clock and are not affected"
    yield from _warning("clock-skew", skewed, what, advice)


def _holders(session: SqlSession) -> Iterator[Finding]:
    long = [text for text, seconds in session.diagnosis.held() if seconds > HELD_LONG.total_seconds()]
    what = "rows of our tables have been locked for a long time, which may block the cluster"
    return _warning("lock-held", long, what, "end that transaction")


def _texts(rows: _Rows) -> list[str]:
    return [text for (text,) in rows]
