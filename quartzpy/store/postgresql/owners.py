"""Records which jobs, triggers and calendars belong to an owner, who declares all of them at once (`sync`)."""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.rows import key_columns
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.records import Owned

_SQL = SqlFile("owners.sql")


def owned(session: SqlSession, owner: str) -> Owned:
    """Return the jobs, triggers and calendars of an owner; see `JobStore.owned`."""
    texts = _SQL.owned_jobs, _SQL.owned_triggers, _SQL.owned_calendars, _SQL.version_of_owner
    jobs, triggers, calendars, version = session.read(*(session.bind(text, owner=owner) for text in texts))
    version_row = version.first()
    return Owned(
        frozenset(JobKey(row[1], row[0]) for row in jobs.rows),
        frozenset(TriggerKey(row[1], row[0]) for row in triggers.rows),
        frozenset(name for (name,) in calendars.rows),
        None if version_row is None else version_row[0],
    )


def own(
    session: SqlSession,
    owner: str,
    jobs: Collection[JobKey],
    triggers: Collection[TriggerKey],
    *,
    calendars: Collection[str] = (),
    version: str | None = None,
) -> None:
    """Record the owner; see `JobStore.own`."""
    keys = (_SQL.own_jobs, jobs), (_SQL.own_triggers, triggers)
    statements = [session.bind(text, owner=owner, **key_columns(some)) for text, some in keys]
    if calendars:
        statements.append(session.bind(_SQL.own_calendars, owner=owner, names=list(calendars)))
    if version is not None:
        statements.append(session.bind(_SQL.keep_version, owner=owner, version=version))
    session.unlocked(*statements)
