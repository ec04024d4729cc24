"""The search for jobs and triggers by a part of their keys.

A common part is found among the first keys. For a rare one, all names are read from the index of the primary key, by
parallel workers if the server has some, and each group is compared once.
"""

from __future__ import annotations

from typing import Any

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.protocol import FoundKeys
from quartzpy.store.queries import folded, place
from quartzpy.store.sql.db.session import SqlSession

# With the collation "C", which changes the case of ASCII letters only, the search is several times as fast.
_HAS = """lower({column} COLLATE "C") LIKE %(pattern)s::text COLLATE "C" """
_FIRST = """
SELECT {kind}_group, {kind}_name
  FROM (SELECT {kind}_group, {kind}_name FROM {table}
         WHERE sched_name = %(sched)s ORDER BY {kind}_group, {kind}_name LIMIT 200000) AS first
 WHERE {name} OR {group}
 ORDER BY {kind}_group, {kind}_name LIMIT %(limit)s::int
"""
# A loose index scan finds the groups; if there are more than it visits, their names are compared key by key. The names
# of triggers or jobs are only read if the groups that match have fewer keys than are wanted. With a
# limit beyond what it expects to match, the planner does not hope to stop early, and reads the index in parallel.
_ALL = """
WITH RECURSIVE groups AS (
    (SELECT {kind}_group AS name, 1 AS number FROM {table}
      WHERE sched_name = %(sched)s ORDER BY {kind}_group LIMIT 1)
    UNION ALL
    SELECT following.name, g.number + 1
      FROM groups g
     CROSS JOIN LATERAL (
        SELECT {kind}_group AS name FROM {table}
         WHERE sched_name = %(sched)s AND {kind}_group > g.name ORDER BY {kind}_group LIMIT 1) AS following
     WHERE g.number < 1000),
visited AS MATERIALIZED (SELECT count(*) = 1000 AS not_all FROM groups),
of_group AS MATERIALIZED (
    SELECT k.{kind}_group, k.{kind}_name
      FROM (SELECT name FROM groups WHERE {group_name} ORDER BY name LIMIT %(limit)s::int) AS g
     CROSS JOIN LATERAL (
        SELECT {kind}_group, {kind}_name FROM {table}
         WHERE sched_name = %(sched)s AND {kind}_group = g.name
         ORDER BY {kind}_name LIMIT %(limit)s::int) AS k),
named AS MATERIALIZED (
    SELECT {kind}_group, {kind}_name FROM {table}
     WHERE sched_name = %(sched)s AND ({name} OR ((SELECT not_all FROM visited) AND {group}))
       AND (SELECT count(*) FROM of_group) < %(limit)s::int
     ORDER BY {kind}_group, {kind}_name LIMIT 10000)
SELECT {kind}_group, {kind}_name FROM (SELECT * FROM of_group UNION SELECT * FROM named) AS found
 ORDER BY {kind}_group, {kind}_name LIMIT %(limit)s::int
"""


def _text(text: str, kind: str, table: str) -> str:
    columns = {"name": f"{kind}_name", "group": f"{kind}_group", "group_name": "name"}
    conditions = {condition: _HAS.format(column=column) for condition, column in columns.items()}
    return text.format(kind=kind, table=table, **conditions)


FIRST_JOBS, ALL_JOBS = (_text(text, "job", "$job_details") for text in (_FIRST, _ALL))
FIRST_TRIGGERS, ALL_TRIGGERS = (_text(text, "trigger", "$triggers") for text in (_FIRST, _ALL))


def find_keys(session: SqlSession, text: str, limit: int) -> FoundKeys:
    escaped = "".join(f"\\{char}" if char in "\\%_" else char for char in folded(text))
    values: dict[str, Any] = {"pattern": f"%{escaped}%", "limit": limit}
    results = session.read(session.send(FIRST_JOBS, **values), session.send(FIRST_TRIGGERS, **values))
    jobs, triggers = (
        result.rows if len(result.rows) == limit else session.read_one(text_of_all, **values)
        for result, text_of_all in zip(results, (ALL_JOBS, ALL_TRIGGERS), strict=True)
    )
    return FoundKeys(
        sorted((JobKey(name, group) for group, name in jobs), key=lambda key: place(key, text)),
        sorted((TriggerKey(name, group) for group, name in triggers), key=lambda key: place(key, text)),
    )
