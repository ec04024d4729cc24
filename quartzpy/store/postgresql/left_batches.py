"""Batches of which a trigger ends without a fire: it was deleted, replaced or skipped."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from quartzpy.job_data import BATCH
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.postgresql.connection.pipeline import BoundStatement
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.rows import key_columns
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.triggers.trigger import Trigger

_SQL = SqlFile("left_batches.sql")
LEAVE = _SQL("leave", by_trigger=True)
LEAVE_OF_JOBS = _SQL("leave", by_job=True)
LEAVE_ENDED = _SQL("leave")


def leave(session: SqlSession, keys: Collection[TriggerKey]) -> BoundStatement:
    """Return the statement that counts triggers before they are deleted."""
    return _leave(session, key_columns(keys), [None] * len(keys))


def leave_slice(session: SqlSession, columns: dict[str, list[Any]]) -> BoundStatement:
    """Return the statement that counts the triggers of a slice before they are deleted."""
    return _leave(session, {name: columns[name] for name in ("groups", "names")}, [None] * len(columns["names"]))


def leave_replaced(session: SqlSession, keys: Sequence[TriggerKey], new: Sequence[Trigger]) -> BoundStatement:
    """Return the statement that counts triggers before these replace them, unless they stay in their batch."""
    entries = [(trigger.data or {}).get(BATCH) for trigger in new]
    return _leave(session, key_columns(keys), [None if entry is None else json.dumps(entry) for entry in entries])


def _leave(session: SqlSession, keys: dict[str, list[Any]], entries: list[str | None]) -> BoundStatement:
    return session.bind(LEAVE, **keys, batch_entries=entries, channel=session.channel)


def leave_of_jobs(session: SqlSession, keys: Collection[JobKey]) -> BoundStatement:
    """Return the statement that counts the triggers of jobs before they are deleted."""
    return session.bind(LEAVE_OF_JOBS, **key_columns(keys), channel=session.channel)


def leave_ended(session: SqlSession, *, limit: int) -> BoundStatement:
    """Return the statement that counts the triggers that have ended without a fire, such as those that were skipped."""
    return session.bind(LEAVE_ENDED, limit=limit, channel=session.channel)
