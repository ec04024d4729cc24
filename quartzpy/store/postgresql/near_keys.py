"""The stored keys among which the one is found that a user probably meant by a key that is not stored."""

from __future__ import annotations

from typing import TypeVar

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.postgresql.db.session import SqlSession
from quartzpy.store.postgresql.db.sql_files import SqlFile

_Key = TypeVar("_Key", JobKey, TriggerKey)
_SQL = SqlFile("near_keys.sql")
JOBS = _SQL("jobs")
TRIGGERS = _SQL("triggers")


def near_keys(session: SqlSession, key: _Key, limit: int) -> set[_Key]:
    """See `JobStore.near_keys`."""
    text = JOBS if isinstance(key, JobKey) else TRIGGERS
    found = session.read_one(text, group=key.group, name=key.name, limit=limit)
    return {type(key)(name, group) for group, name in found}
