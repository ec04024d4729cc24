"""The search for jobs and triggers by a part of their keys."""

from __future__ import annotations

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.protocol import FoundKeys
from quartzpy.store.queries import place
from quartzpy.store.sql.db.session import SqlSession

# With the collation "C", which changes the case of ASCII letters only, the search is several times as fast. It reads
# the primary key's index and no row of the table.
_HAS = """strpos(lower({column} COLLATE "C"), lower(%(part)s::text COLLATE "C")) > 0"""
_FIND = """
SELECT {kind}_group, {kind}_name
  FROM {table}
 WHERE sched_name = %(sched)s AND ({name} OR {group})
 ORDER BY {kind}_group, {kind}_name LIMIT %(limit)s::int
"""


def _find(kind: str, table: str) -> str:
    name, group = (_HAS.format(column=f"{kind}_{column}") for column in ("name", "group"))
    return _FIND.format(kind=kind, table=table, name=name, group=group)


JOBS = _find("job", "$job_details")
TRIGGERS = _find("trigger", "$triggers")


def find_keys(session: SqlSession, text: str, limit: int) -> FoundKeys:
    jobs, triggers = session.read(
        session.send(JOBS, part=text, limit=limit), session.send(TRIGGERS, part=text, limit=limit)
    )
    return FoundKeys(
        sorted((JobKey(name, group) for group, name in jobs.rows), key=lambda key: place(key, text)),
        sorted((TriggerKey(name, group) for group, name in triggers.rows), key=lambda key: place(key, text)),
    )
