"""The search for jobs and triggers by a part of their keys.

A page of it walks over a limited number of keys in the index of the primary key. The first page also has keys that are
found without a walk: those whose names begin with the text, and those of the groups that contain it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from quartzpy.keys import JobKey, Key, TriggerKey
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.queries import Position, folded
from quartzpy.store.searches import BEGINNING, FoundKeys, KeySearch, SearchPosition, found_keys, page_of_keys

_Key = TypeVar("_Key", bound=Key)

_SQL = SqlFile("admin/search.sql")
NEAR: dict[type[Key], str] = {JobKey: _SQL("near_jobs"), TriggerKey: _SQL("near_triggers")}
MATCHING: dict[type[Key], str] = {JobKey: _SQL("matching_jobs"), TriggerKey: _SQL("matching_triggers")}
LAST_EXAMINED: dict[type[Key], str] = {
    JobKey: _SQL("last_examined_jobs"),
    TriggerKey: _SQL("last_examined_triggers"),
}


def find_keys(session: SqlSession, keys: KeySearch, after: SearchPosition | None) -> FoundKeys:
    """See `Admin.find_keys`."""
    begin = after or SearchPosition(BEGINNING, BEGINNING)
    of_jobs = _statements(session, JobKey, keys, begin.jobs, near=after is None)
    of_triggers = _statements(session, TriggerKey, keys, begin.triggers, near=after is None)
    results = session.read(*of_jobs, *of_triggers)
    return found_keys(
        _page(JobKey, keys, begin.jobs, results[: len(of_jobs)]),
        _page(TriggerKey, keys, begin.triggers, results[len(of_jobs) :]),
    )


def _statements(
    session: SqlSession, kind: type[_Key], search: KeySearch, after: Position | None, *, near: bool
) -> list[BoundStatement]:
    if after is None:
        return []
    escaped = "".join(f"\\{char}" if char in "\\%_" else char for char in folded(search.text))
    pattern = f"%{escaped}%"
    place = {"after_group": after[0], "after_name": after[1], "among": search.among}
    walk = [
        session.bind(MATCHING[kind], pattern=pattern, walked=search.walked, **place),
        session.bind(LAST_EXAMINED[kind], **place),
    ]
    if not near:
        return walk
    group, name = next(iter(search.exact), ("", ""))
    of_near = {"pattern": pattern, "part": search.text, "exact_group": group, "exact_name": name}
    return [*walk, session.bind(NEAR[kind], limit=search.limit, **of_near)]


def _page(
    kind: type[_Key], search: KeySearch, after: Position | None, results: Sequence[Result]
) -> tuple[list[_Key], Position | None]:
    if after is None:
        return [], None
    matching, last, *near = ([kind(name, group) for group, name in result.rows] for result in results)
    end = (last[0].group, last[0].name) if last else None
    return page_of_keys(search, [key for keys in near for key in keys], matching, after, end)
