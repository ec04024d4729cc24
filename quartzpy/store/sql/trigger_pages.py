"""Pages of triggers, in the order of their keys or of their next fire times.

A page by key walks the primary key, or for triggers that are paused or in ERROR the index of each state. A page by next
fire time walks the front of the due index, and sorts the triggers that do not wait. The triggers of one job, of one
calendar, or of states in which few are, have an index without an order: they are counted along it first, and if they
are few, read through it and sorted. Otherwise the page walks as if there were no such index.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quartzpy.states import TriggerState
from quartzpy.store.queries import HELD, STOPPED, Position, TriggerOrder, TriggerQuery
from quartzpy.store.sql.conditions import (
    AFTER_KEY,
    AMONG,
    CONTAINS,
    LAST,
    LIMIT,
    WALK,
    all_of,
    between,
    group_value,
    in_group,
    literals,
)
from quartzpy.store.sql.lookups import MISFIRE_RULES, TRIGGER, WAITING

FEW = 10_000
"""The number up to which triggers are sorted by a page that may examine any number of them."""
# The condition on `few` needs no row, so that only one part is executed. OFFSET 0 keeps the planner from walking
# another index that has the order of the query.
COUNT_FEW = """
WITH few AS MATERIALIZED (
    SELECT count(*) <= {most} AS holds FROM (SELECT FROM $triggers WHERE {few} LIMIT {most} + 1) AS counted)"""
_FEW_OR_MANY = f"""
({COUNT_FEW}
 (SELECT * FROM $triggers t WHERE {{scheduler}} = %(sched)s AND {{of}} AND (SELECT holds FROM few) OFFSET 0)
  UNION ALL
 (SELECT * FROM ({{walk}}) AS t WHERE NOT (SELECT holds FROM few)))"""
_LAST_OF_MANY = f"{COUNT_FEW} SELECT * FROM ({{last}}) AS last WHERE NOT (SELECT holds FROM few)"
OF_JOB = "job_group = %(job_group)s AND job_name = %(job_name)s"
_OF_CALENDAR = "calendar_name = %(calendar)s"
_ALL_HELD = f"trigger_state IN ({literals(HELD)})"
# The front of the due index for each dispatch key and misfire rule, in the order of the next fire times.
_WAITING_TRIGGERS = f"""
{WAITING}
SELECT t.*
  FROM waiting w
 CROSS JOIN (VALUES {MISFIRE_RULES}) AS rule(name)
 CROSS JOIN LATERAL (
    SELECT * FROM $triggers t
     WHERE t.sched_name = %(sched)s AND t.trigger_state = 'WAITING' AND t.job_type = w.job_type
       AND t.placement = w.placement AND t.misfire_rule = rule.name {{conditions}}
     ORDER BY t.next_fire_time, t.priority DESC, t.trigger_group, t.trigger_name {LIMIT}) AS t
"""
_OF_STATE = f"""
SELECT * FROM $triggers t
 WHERE t.sched_name = %(sched)s AND t.trigger_state = '{{state}}' {{conditions}}
 ORDER BY t.trigger_group, t.trigger_name {LIMIT}
"""
# The keys are found in the index of the primary key, which is much smaller than the table.
_NAMED_TRIGGERS = f"""
(SELECT t.*
   FROM (SELECT trigger_group, trigger_name FROM $triggers t
          WHERE sched_name = %(sched)s {{conditions}} ORDER BY trigger_group, trigger_name {LIMIT}) AS k
   JOIN $triggers t USING (trigger_group, trigger_name)
  WHERE t.sched_name = %(sched)s OFFSET 0)"""
# The keys that are examined are read from that index, too.
_NAMED_AMONG = f"""
(SELECT t.*
   FROM (SELECT trigger_group, trigger_name FROM ({{examined}}) AS t WHERE true {{conditions}}
          ORDER BY trigger_group, trigger_name {LIMIT}) AS k
   JOIN $triggers t USING (trigger_group, trigger_name)
  WHERE t.sched_name = %(sched)s OFFSET 0)"""
_TRIGGERS = f"""
{TRIGGER.format(source="{source}")} WHERE {{scheduler}} = %(sched)s {{conditions}} ORDER BY {{order}} {LIMIT}
"""
_BY_KEY = "t.trigger_group, t.trigger_name"
_NEXT = "coalesce(t.next_fire_time, 'infinity')"
_BY_NEXT_FIRE_TIME = f"{_NEXT}, -t.priority, t.trigger_group, t.trigger_name"
_WAITING_AFTER = "t.next_fire_time >= coalesce(%(after_at)s::timestamptz, 'infinity')"
_AFTER_NEXT = f"""({_BY_NEXT_FIRE_TIME}) >
    (coalesce(%(after_at)s::timestamptz, 'infinity'), %(after_priority)s::int, %(after_group)s, %(after_name)s)"""


def triggers_text(query: TriggerQuery, after: Position | None) -> str:
    """Return the statement of a page; an empty text if nothing can match."""
    if query.states is not None and not query.states:
        return ""
    if query.few is not None:
        source = _few_or_many(query, query.few, after)
        # The walk begins after the position, and the few triggers are filtered.
        conditions = _conditions(query, after)
    elif query.walk is not None:
        source, conditions = _among(query, query.walk, after), _conditions(query, None)
    else:
        source, conditions = _source(query, after), _conditions(query, after)
    return _TRIGGERS.format(scheduler="t.sched_name", source=source, conditions=conditions, order=_order(query))


def last_text(query: TriggerQuery, walk: TriggerQuery, after: Position | None) -> str:
    """Return the statement that finds the position of the last trigger that a page examines."""
    by_key = query.order is TriggerOrder.KEY
    columns = _BY_KEY if by_key else "t.next_fire_time, -t.priority, t.trigger_group, t.trigger_name"
    last = _walked(walk, after, columns, LAST)
    if query.few is None:
        return last
    return _LAST_OF_MANY.format(most=_most(query), few=_index_of(query.few), last=last)


def values_of_triggers(query: TriggerQuery, after: Position | None) -> dict[str, Any]:
    at, priority, group, name = (None, None, *after) if after and len(after) == 2 else after or (None,) * 4
    return {
        "job_group": query.job_key and query.job_key.group,
        "job_name": query.job_key and query.job_key.name,
        "group": group_value(query.group),
        "contains": query.contains,
        "calendar": query.calendar,
        "job_type": query.job_type,
        "kind": query.kind,
        "since": query.since,
        "until": query.until,
        "after_at": at,
        "after_priority": priority,
        "after_group": group,
        "after_name": name,
        "among": query.among,
    }


def _few_or_many(query: TriggerQuery, few: TriggerQuery, after: Position | None) -> str:
    """Return the triggers of an index without an order if they are few, and otherwise those that a page walks over."""
    # With the scheduler as an expression, only the index of the few can serve.
    scheduler = "t.sched_name" if few.calendar is not None else "t.sched_name || ''"
    of = OF_JOB if few.job_key else _OF_CALENDAR if few.calendar is not None else _ALL_HELD
    if query.walk is not None:
        walk = _walked(query.walk, after, "t.*", AMONG)
    else:
        ordered = replace(query, job_key=None, calendar=None)
        walk = WALK.format(
            columns="t.*",
            source="$triggers" if ordered.few is not None else _source(ordered, after, also=_of_few(query)),
            scheduler="t.sched_name",
            conditions=_conditions(query, after),
            order=_order(query),
            limit=LIMIT,
        )
    return _FEW_OR_MANY.format(most=_most(query), few=_index_of(few), scheduler=scheduler, of=of, walk=walk)


def _most(query: TriggerQuery) -> str:
    return str(FEW) if query.among is None else "%(among)s::int"


def _index_of(few: TriggerQuery) -> str:
    """Return the condition of the index of few triggers, along which they are counted without a look at their rows."""
    if few.job_key:
        return OF_JOB
    return _ALL_HELD if few.calendar is None else f"sched_name = %(sched)s AND {_OF_CALENDAR}"


def _among(query: TriggerQuery, walk: TriggerQuery, after: Position | None) -> str:
    """Return the triggers that a page examines, or those of them whose keys match, as one subquery."""
    keys_of = TriggerQuery(group=query.group, contains=query.contains, among=query.among)
    if query == keys_of:
        examined = _walked(walk, after, _BY_KEY, AMONG)
        return _NAMED_AMONG.format(examined=examined, conditions=_conditions(query, None))
    return f"({_walked(walk, after, 't.*', AMONG)})"


def _walked(walk: TriggerQuery, after: Position | None, columns: str, limit: str) -> str:
    """Return the query of the triggers that a page examines, up to a limit."""
    return WALK.format(
        columns=columns,
        source=_source(walk, after).replace(LIMIT, AMONG),
        scheduler="t.sched_name",
        conditions=_conditions(walk, after),
        order=_order(walk),
        limit=limit,
    )


def _order(query: TriggerQuery) -> str:
    return _BY_KEY if query.order is TriggerOrder.KEY else _BY_NEXT_FIRE_TIME


def _of_few(query: TriggerQuery) -> str:
    return all_of(
        [
            query.job_key and "t.job_group = %(job_group)s AND t.job_name = %(job_name)s",
            None if query.calendar is None else "t.calendar_name = %(calendar)s",
        ]
    )


def _conditions(query: TriggerQuery, after: Position | None) -> str:
    by_key = query.order is TriggerOrder.KEY
    filters = [
        in_group(query.group, "t.trigger_group"),
        query.contains and CONTAINS.format(column="t.trigger_name"),
        None if query.states is None else f"t.trigger_state IN ({literals(query.states)})",
        query.job_type and "t.job_type = %(job_type)s",
        query.kind and "t.kind = %(kind)s",
        *between(query, "t.next_fire_time"),
        after and (AFTER_KEY.format(columns=_BY_KEY) if by_key else _AFTER_NEXT),
    ]
    return _of_few(query) + all_of(filters)


def _source(query: TriggerQuery, after: Position | None, also: str = "") -> str:
    """Return the table or subquery in which triggers are found in their order."""
    conditions = _conditions(query, after) + also
    if query.order is TriggerOrder.NEXT_FIRE_TIME:
        return _soonest(query.states, conditions, after)
    if query.states is not None and query.states <= STOPPED and len(query.states) > 1:
        branches = (f"({_OF_STATE.format(state=state, conditions=conditions)})" for state in sorted(query.states))
        return f"({' UNION ALL '.join(branches)})"
    if query.contains and query == TriggerQuery(group=query.group, contains=query.contains) and not also:
        return _NAMED_TRIGGERS.format(conditions=conditions)
    return "$triggers"


def _soonest(states: frozenset[TriggerState] | None, conditions: str, after: Position | None) -> str:
    """Return the triggers of some states from which the soonest are taken, as one subquery."""
    wanted = frozenset(TriggerState) if states is None else states
    held = wanted & HELD
    waiting = conditions + all_of([after and _WAITING_AFTER])
    branches = [_WAITING_TRIGGERS.format(conditions=waiting)] if TriggerState.WAITING in wanted else []
    branches += [
        f"SELECT * FROM $triggers WHERE sched_name || '' = %(sched)s AND trigger_state IN ({literals(some)})"
        for some in (held, wanted - held - {TriggerState.WAITING})
        if some
    ]
    return f"({' UNION ALL '.join(f'({branch})' for branch in branches)})"
