"""The search for jobs and triggers by a part of their keys."""

from __future__ import annotations

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.protocol import FoundKeys
from quartzpy.store.sql.db.session import SqlSession

_FIND = """
SELECT {kind}_group, {kind}_name
  FROM {table}
 WHERE sched_name = %(sched)s
   AND (strpos(lower({kind}_name), lower(%(part)s)) > 0 OR strpos(lower({kind}_group), lower(%(part)s)) > 0)
 ORDER BY {kind}_group, {kind}_name LIMIT %(limit)s::int
"""
JOBS = _FIND.format(kind="job", table="$job_details")
TRIGGERS = _FIND.format(kind="trigger", table="$triggers")


def find_keys(session: SqlSession, text: str, limit: int) -> FoundKeys:
    jobs, triggers = session.read(
        session.send(JOBS, part=text, limit=limit), session.send(TRIGGERS, part=text, limit=limit)
    )
    return FoundKeys(
        sorted((JobKey(name, group) for group, name in jobs.rows), key=lambda key: _place(key, text)),
        sorted((TriggerKey(name, group) for group, name in triggers.rows), key=lambda key: _place(key, text)),
    )


def _place(key: JobKey | TriggerKey, text: str) -> tuple[bool, str, str]:
    return not key.name.lower().startswith(text.lower()), key.group, key.name
