"""The tables and locks, as the server's catalogs describe them."""

from __future__ import annotations

from datetime import timedelta

from quartzpy.store.postgresql.admin.records import LockRecord, OtherScheduler, TableRecord
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile

_SQL = SqlFile("admin/catalogs.sql")
TABLES = _SQL("tables")
LONG = timedelta(seconds=5)
"""The age from which a transaction that writes rows is listed with its locks."""

OLD_SNAPSHOT = timedelta(seconds=30)
"""The age from which a snapshot that keeps dead rows is one that somebody holds for long."""


def tables(session: SqlSession) -> list[TableRecord]:
    return [TableRecord(*row) for row in session.read_one(TABLES, prefix=session.names.prefix)]


def locks(session: SqlSession, limit: int) -> list[LockRecord]:
    rows = session.read_one(_SQL.locks, limit=limit, prefix=session.names.prefix, long=LONG)
    return [
        LockRecord(table or "", mode, granted, pid, application, state, since, tuple(blockers))
        for table, mode, granted, pid, application, state, since, blockers in rows
    ]


def other_schedulers(session: SqlSession, limit: int) -> list[OtherScheduler]:
    """Return the other schedulers in the same tables, by name, with their nodes that are alive."""
    rows = session.read_one(_SQL.other_schedulers, limit=limit)
    return [OtherScheduler(name, tuple(nodes), has_jobs) for name, nodes, has_jobs in rows]


def old_snapshots(session: SqlSession) -> list[str]:
    """Return what holds old snapshots, the oldest first, if our tables have dead rows that stay because of them."""
    rows = session.read_one(_SQL.old_snapshots, prefix=session.names.prefix, old=OLD_SNAPSHOT)
    return [f"{who}, with a snapshot {held:,} transactions old" for who, held in rows]
