"""The search by a part of a name, or by the id of an execution."""

from __future__ import annotations

from dataclasses import dataclass

from quartzpy.errors import InvalidValueError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.executions import ExecutionSummary, summary
from quartzpy.operations.source import Source
from quartzpy.scheduling.paging import decoded_cursor, encoded_cursor
from quartzpy.scheduling.verbs.filters import checked_text
from quartzpy.scheduling.verbs.queries import MAX_FIRE_ID
from quartzpy.store.searches import KeySearch, SearchPosition

MOST_FOUND = 100
SEARCHED = 50_000
"""The number of jobs, and of triggers, whose keys a page of the search examines at most."""
_CURSOR = "search"
_SHAPE = ((str, type(None)),) * 4


@dataclass(frozen=True, slots=True)
class SearchResults:
    """A page of what was found.

    The jobs and the triggers are sorted: exact matches first, then names that begin with the text. The first page has
    these, and those of groups that contain the text, wherever they are. Each page then has those among the next
    50,000 jobs and 50,000 triggers by key.
    """

    text: str
    jobs: tuple[JobKey, ...]
    triggers: tuple[TriggerKey, ...]
    execution: ExecutionSummary | None
    """The execution whose fire id is the text. Like the nodes and the calendars, it is on the first page only."""
    nodes: tuple[str, ...]
    calendars: tuple[str, ...]
    next_cursor: str | None
    """Continues with the jobs and the triggers that this page did not examine or had no room for; None if there are
    none left."""
    examined: int | None
    """The number of jobs, and of triggers, after which this page stopped; None if it is the last one."""


def search(source: Source, text: str, limit: int, after: str | None) -> SearchResults:
    if type(limit) is not int or not 1 <= limit <= MOST_FOUND:
        raise InvalidValueError(f"limit: must be a whole number from 1 to {MOST_FOUND} (got {limit!r})")
    given = checked_text(text.strip() if isinstance(text, str) else text, "text")
    if given is None:
        raise InvalidValueError("text: must be a part of a name, or the id of an execution (got None)")
    found = source.store.find_keys(KeySearch(given, limit, SEARCHED), None if after is None else _decoded(after))
    is_first = after is None
    return SearchResults(
        text=given,
        jobs=tuple(found.jobs),
        triggers=tuple(found.triggers),
        execution=_execution(source, given) if is_first else None,
        nodes=_nodes(source, given) if is_first else (),
        calendars=_calendars(source, given, limit) if is_first else (),
        next_cursor=None if found.next is None else _encoded(found.next),
        examined=None if found.next is None else SEARCHED,
    )


def _execution(source: Source, text: str) -> ExecutionSummary | None:
    if not (text.isdecimal() and len(text) <= 19 and int(text) <= MAX_FIRE_ID):
        return None
    execution = source.store.execution(int(text))
    return None if execution is None else summary(execution)


def _nodes(source: Source, text: str) -> tuple[str, ...]:
    names = (node.instance_id for node in source.store.list_nodes().nodes)
    return tuple(name for name in names if text.lower() in name.lower())


def _calendars(source: Source, text: str, limit: int) -> tuple[str, ...]:
    return tuple(name for name in source.store.calendar_names() if text.lower() in name.lower())[:limit]


def _encoded(position: SearchPosition) -> str:
    return encoded_cursor(_CURSOR, (*(position.jobs or (None, None)), *(position.triggers or (None, None))))


def _decoded(cursor: str) -> SearchPosition:
    *job, trigger_group, trigger_name = decoded_cursor(_CURSOR, _SHAPE, cursor)
    return SearchPosition(_position(*job), _position(trigger_group, trigger_name))


def _position(group: str | None, name: str | None) -> tuple[str, str] | None:
    return None if group is None or name is None else (group, name)
