"""Records which jobs, triggers and calendars belong to an owner, who declares all of them at once (`sync`)."""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.rows import key_columns
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.records import Owned

_SQL = SqlFile("owners.sql")
OWNED_JOBS = _SQL("owned_jobs")
OWNED_TRIGGERS = _SQL("owned_triggers")
OWNED_CALENDARS = _SQL("owned_calendars")
VERSION_OF_OWNER = _SQL("version_of_owner")
KEEP_VERSION = _SQL("keep_version")
OWN_JOBS = _SQL("own_jobs")
OWN_TRIGGERS = _SQL("own_triggers")
OWN_CALENDARS = _SQL("own_calendars")


def owned(session: SqlSession, owner: str) -> Owned:
    """Return the jobs, triggers and calendars of an owner; see `JobStore.owned`."""
    texts = OWNED_JOBS, OWNED_TRIGGERS, OWNED_CALENDARS, VERSION_OF_OWNER
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
    keys = (OWN_JOBS, jobs), (OWN_TRIGGERS, triggers)
    statements = [session.bind(text, owner=owner, **key_columns(some)) for text, some in keys]
    if calendars:
        statements.append(session.bind(OWN_CALENDARS, owner=owner, names=list(calendars)))
    if version is not None:
        statements.append(session.bind(KEEP_VERSION, owner=owner, version=version))
    session.unlocked(*statements)
