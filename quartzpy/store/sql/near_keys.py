"""The stored keys among which the one is found that a user probably meant by a key that is not stored."""

from __future__ import annotations

from typing import TypeVar

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.sql.db.session import SqlSession

_Key = TypeVar("_Key", JobKey, TriggerKey)
# Each part is one walk along the primary key, or one for each group, which a loose index scan finds.
_NEAR = """
WITH RECURSIVE each_group AS (
    (SELECT {group} AS name FROM {table} WHERE sched_name = %(sched)s ORDER BY {group} LIMIT 1)
    UNION ALL
    SELECT (SELECT k.{group} FROM {table} k WHERE k.sched_name = %(sched)s AND k.{group} > g.name
             ORDER BY k.{group} LIMIT 1)
      FROM each_group g WHERE g.name IS NOT NULL
)
(SELECT {group}, {name} FROM {table} WHERE sched_name = %(sched)s ORDER BY {group}, {name} LIMIT %(limit)s::int)
UNION
(SELECT {group}, {name} FROM {table} WHERE sched_name = %(sched)s AND {group} = %(group)s
  ORDER BY {name} LIMIT %(limit)s::int)
UNION
(SELECT {group}, {name} FROM {table} WHERE sched_name = %(sched)s AND {group} = %(group)s AND {name} < %(name)s
  ORDER BY {name} DESC LIMIT %(limit)s::int)
UNION
(SELECT {group}, {name} FROM {table} WHERE sched_name = %(sched)s AND {group} = %(group)s AND {name} > %(name)s
  ORDER BY {name} LIMIT %(limit)s::int)
UNION
SELECT {group}, {name} FROM {table} WHERE sched_name = %(sched)s AND {group} = %(name)s AND {name} = %(group)s
UNION
SELECT beside.*
  FROM (SELECT name FROM each_group WHERE name IS NOT NULL LIMIT %(limit)s::int) AS g
 CROSS JOIN LATERAL (
    (SELECT {group}, {name} FROM {table} WHERE sched_name = %(sched)s AND {group} = g.name AND {name} < %(name)s
      ORDER BY {name} DESC LIMIT 1)
    UNION ALL
    (SELECT {group}, {name} FROM {table} WHERE sched_name = %(sched)s AND {group} = g.name AND {name} >= %(name)s
      ORDER BY {name} LIMIT 2)) AS beside
"""
JOBS = _NEAR.format(table="$job_details", group="job_group", name="job_name")
TRIGGERS = _NEAR.format(table="$triggers", group="trigger_group", name="trigger_name")


def near_keys(session: SqlSession, key: _Key, limit: int) -> set[_Key]:
    """See `JobStore.near_keys`."""
    text = JOBS if isinstance(key, JobKey) else TRIGGERS
    found = session.read_one(text, group=key.group, name=key.name, limit=limit)
    return {type(key)(name, group) for group, name in found}
