"""The search by a part of a name, or by the id of an execution."""

from __future__ import annotations

from dataclasses import dataclass

from quartzpy.errors import InvalidValueError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.views.executions import ExecutionSummary, summary
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.scheduler.methods.queries import MAX_FIRE_ID
from quartzpy.scheduler.querying import decoded_cursor, encoded_cursor
from quartzpy.store.filters import checked_text
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.protocol import NameKind
from quartzpy.store.searches import KeySearch, SearchPosition
from quartzpy.texts import quoted

MAX_FOUND = 100
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
    """The number of jobs, and of triggers, after which this page stopped at the latest; None if it is the last one."""
    is_full: bool = False
    """True if this page stopped because it has as many jobs or triggers as it may have."""


def search(reading: BatchedReads, text: str, limit: int, after: str | None) -> SearchResults:
    if type(limit) is not int or not 1 <= limit <= MAX_FOUND:
        raise InvalidValueError(f"limit: must be a whole number from 1 to {MAX_FOUND} (got {quoted(limit)})")
    part = checked_text(text.strip() if isinstance(text, str) else text, "text")
    if part is None:
        raise InvalidValueError("text: must be a part of a name, or the id of an execution (got None)")
    position = None if after is None else _decoded(after)
    keys = reading.defer(lambda store: admin(store).find_keys(KeySearch(part, limit, SEARCHED), position))
    others = _Others(reading, part, limit) if after is None else None
    matches = keys()
    return SearchResults(
        text=part,
        jobs=tuple(matches.jobs),
        triggers=tuple(matches.triggers),
        execution=None if others is None else others.execution(),
        nodes=() if others is None else others.nodes(),
        calendars=() if others is None else others.calendars(),
        next_cursor=None if matches.next is None else _encoded(matches.next),
        examined=None if matches.next is None else SEARCHED,
        is_full=max(len(matches.jobs), len(matches.triggers)) >= limit,
    )


class _Others:
    """What the first page has beside jobs and triggers."""

    def __init__(self, reading: BatchedReads, text: str, limit: int) -> None:
        self._text, self._limit = text.lower(), limit
        is_id = text.isdecimal() and len(text) <= 19 and int(text) <= MAX_FIRE_ID
        self._execution = reading.defer(lambda store: store.execution(int(text))) if is_id else None
        self._nodes = reading.defer(lambda store: store.list_nodes())
        self._calendars = reading.defer(lambda store: store.names(NameKind.CALENDARS))

    def execution(self) -> ExecutionSummary | None:
        execution = None if self._execution is None else self._execution()
        return None if execution is None else summary(execution)

    def nodes(self) -> tuple[str, ...]:
        names = (node.instance_id for node in self._nodes().nodes)
        return tuple(name for name in names if self._text in name.lower())

    def calendars(self) -> tuple[str, ...]:
        return tuple(name for name in self._calendars() if self._text in name.lower())[: self._limit]


def _encoded(position: SearchPosition) -> str:
    return encoded_cursor(_CURSOR, (*(position.jobs or (None, None)), *(position.triggers or (None, None))))


def _decoded(cursor: str) -> SearchPosition:
    *job, trigger_group, trigger_name = decoded_cursor(_CURSOR, _SHAPE, cursor)
    return SearchPosition(_position(*job), _position(trigger_group, trigger_name))


def _position(group: str | None, name: str | None) -> tuple[str, str] | None:
    return None if group is None or name is None else (group, name)
