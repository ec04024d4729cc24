"""Pages of triggers, in the order of their keys or of their next fire times.

A page by key walks the primary key, or for triggers that are paused or in ERROR the index of each state. A page by next
fire time walks the front of the due index, and for these triggers that of another index of each state; it sorts the
triggers that are held, or walks the front of each range of them if they are many. The triggers of one job, of one
calendar, or of states in which few are, have an index without an order: they are counted along it first, and if they
are few, read through it and sorted. Otherwise the page walks as if there were no such index.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quartzpy.states import PAUSED_STATES, STORED_STATES, TriggerState
from quartzpy.store.postgresql.page_filters import switches_of, values_of
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.queries import HELD, STOPPED, Position, TriggerOrder, TriggerQuery

_SQL = SqlFile("trigger_pages.sql")
_SEEN: Mapping[TriggerState, frozenset[TriggerState]] = {
    TriggerState.WAITING: frozenset({TriggerState.WAITING, TriggerState.BLOCKED}),
    TriggerState.BLOCKED: frozenset({TriggerState.WAITING, TriggerState.BLOCKED}),
    TriggerState.PAUSED: frozenset(PAUSED_STATES),
}
"""The states in which the running executions of its job let a trigger be seen, by the state of its row."""
FEW = 10_000
"""The number up to which triggers are sorted by a page that may examine any number of them."""
FEW_RANGES = 20
"""The number of ranges of held triggers up to which a page in the order of next fire times reads the front of each."""


def triggers_text(query: TriggerQuery, after: Position | None, *, last: bool = False, count: bool = False) -> str:
    """Return the statement of a page, or of the last trigger that it examines; an empty text if nothing can match."""
    if query.states is not None and not query.states:
        return ""
    switches = {
        "count": count,
        "last": last,
        "few": query.few is not None,
        "examined": is_examined(query),
        "some_states": query.states is not None,
        "seen": _is_derived(query),
        **switches_of(query),
        "after": after is not None,
    }
    if query.order is TriggerOrder.KEY:
        stopped = query.states is not None and query.states <= STOPPED
        held = query.few is not None and query.job_key is None and query.calendar is None
        of_full = held and bool(_states(query) & {TriggerState.BLOCKED, TriggerState.PAUSED_BLOCKED})
        named = _is_named(query) and not last
        return _SQL("by_key", **switches, stopped=stopped, held=held, of_full=of_full, named=named)
    stored = _stored(query)
    return _SQL(
        "by_next_fire_time",
        **switches,
        waiting=TriggerState.WAITING in stored,
        of_full=TriggerState.WAITING in stored - _states(query),
        held=bool(stored & HELD),
        stopped=bool(stored & {TriggerState.ERROR, TriggerState.PAUSED}),
    )


def is_examined(query: TriggerQuery) -> bool:
    """Return whether a page has those that match among the first `among` of some walk.

    Where running executions decide what is seen, a walk over rows in the states of the query has others too.
    """
    return query.walk is not None or (query.among is not None and _is_derived(query))


def _is_named(query: TriggerQuery) -> bool:
    """Return whether the keys alone tell which triggers match."""
    of_key = TriggerQuery(group=query.group, contains=query.contains, among=query.among)
    return query == of_key and (query.contains is not None or query.walk is not None)


def _states(query: TriggerQuery) -> frozenset[TriggerState]:
    return frozenset(TriggerState) if query.states is None else query.states


def _stored(query: TriggerQuery) -> frozenset[TriggerState]:
    """Return the states of the rows of triggers that can be seen in the states of a query."""
    states = _states(query)
    return frozenset(state for state in STORED_STATES if _seen(state) & states)


def _is_derived(query: TriggerQuery) -> bool:
    """Return whether rows of these states may be seen in other states than those of the query."""
    states = _states(query)
    return any(not _seen(state) <= states for state in _stored(query))


def _seen(stored: TriggerState) -> frozenset[TriggerState]:
    return _SEEN.get(stored, frozenset({stored}))


def values_of_triggers(query: TriggerQuery, after: Position | None) -> dict[str, Any]:
    at, priority, group, name = (None, None, *after) if after and len(after) == 2 else after or (None,) * 4
    return {
        **values_of(query),
        "states": sorted(_states(query)),
        "stored": sorted(_stored(query)),
        "after_at": at,
        "after_priority": priority,
        "after_group": group,
        "after_name": name,
        "few_ranges": FEW_RANGES,
        "most_few": FEW if query.among is None else query.among,
    }
