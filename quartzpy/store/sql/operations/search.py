"""The search for jobs and triggers by a part of their keys.

A page of it walks over a limited number of keys in the index of the primary key. The first page also has keys that are
found without a walk: those whose names begin with the text, and those of the groups that contain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from quartzpy.keys import JobKey, Key, TriggerKey
from quartzpy.store.queries import Position, folded
from quartzpy.store.searches import BEGINNING, FoundKeys, KeySearch, SearchPosition, found_keys, page_of_keys
from quartzpy.store.sql.conditions import AMONG, LAST
from quartzpy.store.sql.db.flight import Result, Send
from quartzpy.store.sql.db.session import SqlSession

_Key = TypeVar("_Key", bound=Key)

# With the collation "C", which changes the case of ASCII letters only, the search is several times as fast.
_HAS = """lower({column} COLLATE "C") LIKE %(pattern)s::text COLLATE "C" """
# A loose index scan finds the groups. The names in a group that begin with the text follow each other in the index, at
# least in the collation "C"; the walk finds those that are elsewhere.
_NEAR = f"""
WITH RECURSIVE groups AS (
    (SELECT {{kind}}_group AS name, 1 AS number FROM {{table}}
      WHERE sched_name = %(sched)s ORDER BY {{kind}}_group LIMIT 1)
    UNION ALL
    SELECT following.name, g.number + 1
      FROM groups g
     CROSS JOIN LATERAL (
        SELECT {{kind}}_group AS name FROM {{table}}
         WHERE sched_name = %(sched)s AND {{kind}}_group > g.name ORDER BY {{kind}}_group LIMIT 1) AS following
     WHERE g.number < 1000)
(SELECT {{kind}}_group, {{kind}}_name FROM {{table}}
  WHERE sched_name = %(sched)s AND {{kind}}_group = %(exact_group)s AND {{kind}}_name = %(exact_name)s)
UNION
(SELECT k.*
   FROM (SELECT name FROM groups WHERE {_HAS.format(column="name")} ORDER BY name LIMIT %(limit)s::int) AS g
  CROSS JOIN LATERAL (
    SELECT {{kind}}_group, {{kind}}_name FROM {{table}}
     WHERE sched_name = %(sched)s AND {{kind}}_group = g.name
     ORDER BY {{kind}}_name LIMIT %(limit)s::int) AS k
  LIMIT %(limit)s::int)
UNION
(SELECT k.*
   FROM (SELECT name FROM groups ORDER BY name) AS g
  CROSS JOIN LATERAL (
    SELECT {{kind}}_group, {{kind}}_name FROM {{table}}
     WHERE sched_name = %(sched)s AND {{kind}}_group = g.name AND {{kind}}_name >= %(part)s
     ORDER BY {{kind}}_name LIMIT %(limit)s::int) AS k
  WHERE starts_with(k.{{kind}}_name, %(part)s)
  LIMIT %(limit)s::int)
"""
_EXAMINED = """
SELECT {{kind}}_group, {{kind}}_name FROM {{table}}
 WHERE sched_name = %(sched)s AND ({{kind}}_group, {{kind}}_name) > (%(after_group)s, %(after_name)s)
 ORDER BY {{kind}}_group, {{kind}}_name {limit}
"""
_MATCHING = f"""
SELECT * FROM ({_EXAMINED.format(limit=AMONG)}) AS examined
 WHERE {_HAS.format(column="{kind}_name")} OR {_HAS.format(column="{kind}_group")}
 ORDER BY {{kind}}_group, {{kind}}_name LIMIT %(walked)s::int
"""
_LAST_EXAMINED = _EXAMINED.format(limit=LAST)
_JOBS, _TRIGGERS = {"kind": "job", "table": "$job_details"}, {"kind": "trigger", "table": "$triggers"}
NEAR: dict[type[Key], str] = {JobKey: _NEAR.format(**_JOBS), TriggerKey: _NEAR.format(**_TRIGGERS)}
MATCHING: dict[type[Key], str] = {JobKey: _MATCHING.format(**_JOBS), TriggerKey: _MATCHING.format(**_TRIGGERS)}
LAST_EXAMINED: dict[type[Key], str] = {
    JobKey: _LAST_EXAMINED.format(**_JOBS),
    TriggerKey: _LAST_EXAMINED.format(**_TRIGGERS),
}


def find_keys(session: SqlSession, search: KeySearch, after: SearchPosition | None) -> FoundKeys:
    """See `OperationsStore.find_keys`."""
    begin = after or SearchPosition(BEGINNING, BEGINNING)
    of_jobs = _sends(session, JobKey, search, begin.jobs, near=after is None)
    of_triggers = _sends(session, TriggerKey, search, begin.triggers, near=after is None)
    results = session.read(*of_jobs, *of_triggers)
    return found_keys(
        _page(JobKey, search, begin.jobs, results[: len(of_jobs)]),
        _page(TriggerKey, search, begin.triggers, results[len(of_jobs) :]),
    )


def _sends(
    session: SqlSession, kind: type[_Key], search: KeySearch, after: Position | None, *, near: bool
) -> list[Send]:
    if after is None:
        return []
    escaped = "".join(f"\\{char}" if char in "\\%_" else char for char in folded(search.text))
    pattern = f"%{escaped}%"
    place = {"after_group": after[0], "after_name": after[1], "among": search.among}
    walk = [
        session.send(MATCHING[kind], pattern=pattern, walked=search.walked, **place),
        session.send(LAST_EXAMINED[kind], **place),
    ]
    if not near:
        return walk
    group, name = search.exact
    of_near = {"pattern": pattern, "part": search.text, "exact_group": group, "exact_name": name}
    return [*walk, session.send(NEAR[kind], limit=search.limit, **of_near)]


def _page(
    kind: type[_Key], search: KeySearch, after: Position | None, results: Sequence[Result]
) -> tuple[list[_Key], Position | None]:
    if after is None:
        return [], None
    matching, last, *near = ([kind(name, group) for group, name in result.rows] for result in results)
    end = (last[0].group, last[0].name) if last else None
    return page_of_keys(search, [key for keys in near for key in keys], matching, after, end)
