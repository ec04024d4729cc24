"""Queries with filters and pages: the records that a query selects, in its order, after a position."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from heapq import nsmallest
from typing import Any, TypeVar, cast

from quartzpy.errors import InvalidValueError
from quartzpy.jobs.shared_limit import names_from_text
from quartzpy.keys import UNSCHEDULED_GROUPS, Key
from quartzpy.matchers import GroupMatcher
from quartzpy.states import ExecutionState, HeldBy, TriggerState
from quartzpy.store.memory.lookups import trigger_record
from quartzpy.store.memory.rows import JobRow, TriggerRow, load_job
from quartzpy.store.memory.tables import Tables
from quartzpy.store.queries import (
    AnyQuery,
    ExecutionQuery,
    JobQuery,
    JoinQuery,
    MisfireQuery,
    Position,
    RecordQuery,
    TriggerOrder,
    TriggerQuery,
)
from quartzpy.store.records import (
    ExecutionRecord,
    JobRecord,
    JoinRecord,
    MisfireRecord,
    TriggerRecord,
    held_by_of_job,
    next_fire_of,
)

_NEVER = datetime.max.replace(tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_FIRE_FOLLOWS = (TriggerState.ERROR, TriggerState.COMPLETE)
_T = TypeVar("_T")
_Record = TypeVar("_Record")


def find(
    tables: Tables, query: RecordQuery[_Record], limit: int | None, after: Position | None = None
) -> list[_Record]:
    """See `QueryStore.find`."""
    records: Any
    match query:
        case JobQuery():
            records = jobs(tables, query, limit, after)
        case TriggerQuery():
            records = triggers(tables, query, limit, after)
        case ExecutionQuery():
            records = executions(tables, query, limit, after)
        case MisfireQuery():
            records = misfires(tables, query, limit, after)
        case JoinQuery():
            records = joins(tables, query, limit, after)
        case _:
            raise InvalidValueError("the audit log needs PostgreSQL; this scheduler keeps its jobs in memory")
    return cast("list[_Record]", records)


def count(tables: Tables, query: AnyQuery) -> int:
    selected: RecordQuery[Any] = query
    return len(find(tables, selected, None))


def jobs(tables: Tables, query: JobQuery, limit: int | None, after: Position | None) -> list[JobRecord]:
    rows = [row for row in tables.jobs.values() if _job_matches(row, query)]
    if query.walk is not None:
        examined = {record.key for record in jobs(tables, query.walk, query.among, after)}
        rows = [row for row in rows if row.key in examined]
    page = _page(rows, lambda row: (row.key.group, row.key.name), limit, after)
    return [_job_record(tables, row, query.most_triggers) for row in page]


def _job_matches(row: JobRow, query: JobQuery) -> bool:
    return (
        query.job_key in (None, row.key)
        and _in_group(row.key, query.group)
        and _contains(row.key, query.contains)
        and query.job_type in (None, row.job_type)
        and query.mode in (None, row.mode)
    )


def _job_record(tables: Tables, row: JobRow, most_triggers: int | None) -> JobRecord:
    has_more = most_triggers is not None and len(row.triggers) > most_triggers
    triggers = () if has_more else row.triggers.values()
    fires: dict[TriggerState, datetime | None] = {}
    for trigger in triggers:
        at, state = trigger.progress.next_fire_time, tables.seen_state(trigger)
        if at is not None and state not in _NO_FIRE_FOLLOWS:
            fires[state] = min(at, fires.get(state) or at)
    has_error = any(trigger.state is TriggerState.ERROR for trigger in triggers)
    following, next_state = next_fire_of(fires, has_error=has_error)
    first = min(
        (trigger for trigger in triggers if trigger.state is TriggerState.BLOCKED),
        key=lambda trigger: trigger.entry,
        default=None,
    )
    parked_at = None if first is None else first.parked_at
    waits_for = None
    if next_state is TriggerState.BLOCKED:
        has_slots, has_rate = row.limit is not None, row.has_rate
        waits_for = held_by_of_job(parked_at=parked_at, has_slots=has_slots, has_rate=has_rate)
    previous = [t.progress.previous_fire_time for t in triggers]
    return JobRecord(
        key=row.key,
        job_type=row.job_type,
        load_job=partial(load_job, *row.loader()),
        trigger_count=most_triggers if has_more and most_triggers is not None else len(row.triggers),
        mode=row.mode,
        next_fire_time=following,
        next_state=TriggerState.PAUSED if next_state is TriggerState.PAUSED_BLOCKED else next_state,
        held_by=waits_for,
        shared_limits=names_from_text(parked_at) if waits_for is HeldBy.SHARED else (),
        previous_fire_time=max((at for at in previous if at is not None), default=None),
        has_more_triggers=has_more,
    )


def triggers(tables: Tables, query: TriggerQuery, limit: int | None, after: Position | None) -> list[TriggerRecord]:
    records = [trigger_record(tables, row) for row in tables.triggers.values() if _trigger_matches(tables, row, query)]
    if query.walk is not None and not _are_few(tables, query):
        examined = {record.key for record in triggers(tables, query.walk, query.among, after)}
        records = [record for record in records if record.key in examined]

    def place(position: Position) -> Position:
        if query.order is TriggerOrder.KEY:
            return position
        at, *rest = position
        return at or _NEVER, *rest

    return _page(records, lambda record: place(query.position(record)), limit, after and place(after))


def _are_few(tables: Tables, query: TriggerQuery) -> bool:
    """Return whether a page examines all triggers of `query.few`, because they are not more than it may examine."""
    few = query.few
    if few is None or query.among is None:
        return False
    return sum(_trigger_matches(tables, row, few) for row in tables.triggers.values()) <= query.among


def _trigger_matches(tables: Tables, row: TriggerRow, query: TriggerQuery) -> bool:
    at = row.progress.next_fire_time
    return (
        query.job_key in (None, row.job.key)
        and _in_group(row.key, query.group)
        and _contains(row.key, query.contains)
        and (query.states is None or tables.seen_state(row) in query.states)
        and query.calendar in (None, row.bare.calendar)
        and query.job_type in (None, row.job.job_type)
        and query.kind in (None, row.bare.kind)
        and (query.since is None or (at is not None and at >= query.since))
        and (query.until is None or (at is not None and at < query.until))
        and (not query.by_schedule or _is_by_schedule(row))
    )


def _is_by_schedule(row: TriggerRow) -> bool:
    return row.key.group not in UNSCHEDULED_GROUPS and row.bare.schedule().get("repeat_count") != 0


def executions(
    tables: Tables, query: ExecutionQuery, limit: int | None, after: Position | None
) -> list[ExecutionRecord]:
    name = None if query.trigger_key is None else query.trigger_key.name
    # Nearly all of them are of other triggers, and names are compared fast.
    records = [record for record in tables.history if name is None or record.trigger_key.name == name]
    now = tables.now()
    records += (row.record(now) for row in tables.fired.values())
    if ExecutionState.SCHEDULED in query.states:
        scheduled = [*tables.by_state[TriggerState.WAITING].values(), *tables.by_state[TriggerState.BLOCKED].values()]
        records += (_scheduled(row) for row in scheduled if tables.is_to_come(row))

    def place(position: Position) -> Position:
        is_to_come, instant, fire_id, group, name = position
        since_epoch = instant - _EPOCH
        return is_to_come, since_epoch if is_to_come else -since_epoch, -fire_id, group, name

    selected = (record for record in _examined(records, query, after, place) if _execution_matches(record, query))
    page = _page(selected, lambda record: place(query.position(record)), limit, after and place(after))
    # As in the database, a page does not contain the log lines.
    return [record if record.log_text is None else replace(record, log_text=None) for record in page]


def _examined(
    records: Iterable[ExecutionRecord],
    query: ExecutionQuery,
    after: Position | None,
    place: Callable[[Position], tuple[Any, ...]],
) -> list[ExecutionRecord]:
    """Return the executions among which a query selects: of those that have ended, at most the first `among`."""
    every = list(records)
    if query.among is None or query.trigger_key is not None:
        return every
    ended = [record for record in every if record.ended_at is not None]
    first = _page(ended, lambda record: place(query.position(record)), query.among, after and place(after))
    return [*first, *(record for record in every if record.ended_at is None)]


def _execution_matches(record: ExecutionRecord, query: ExecutionQuery) -> bool:
    return (
        record.state in query.states
        and query.job_key in (None, record.job_key)
        and query.trigger_key in (None, record.trigger_key)
        and _in_group(record.job_key, query.job_group)
        and query.job_type in (None, record.job_type)
        and query.instance_id in (None, record.instance_id)
        and _is_between(record.scheduled_fire_time, query)
        and (record.exhausted or not query.exhausted)
        and (query.error is None or query.error in (record.error or ""))
    )


def _scheduled(row: TriggerRow) -> ExecutionRecord:
    return ExecutionRecord(
        state=ExecutionState.SCHEDULED,
        fire_id=None,
        trigger_key=row.key,
        job_key=row.job.key,
        job_type=row.job.job_type,
        instance_id=None,
        scheduled_fire_time=row.entry.at,
        fire_time=None,
        started_at=None,
        ended_at=None,
        attempt=row.attempt,
        error=None,
        trigger_data_text=row.data,
    )


def misfires(tables: Tables, query: MisfireQuery, limit: int | None, after: Position | None) -> list[MisfireRecord]:
    records = [
        record
        for record in tables.misfires
        if query.trigger_key in (None, record.trigger_key)
        and query.job_key in (None, record.job_key)
        and query.action in (None, record.action)
        and query.instance_id in (None, record.instance_id)
        and _is_between(record.scheduled_fire_time, query)
    ]
    if query.walk is not None:
        examined = {record.misfire_id for record in misfires(tables, query.walk, query.among, after)}
        records = [record for record in records if record.misfire_id in examined]
    return _page(records, lambda record: (-record.misfire_id,), limit, after and (-after[0],))


def joins(tables: Tables, query: JoinQuery, limit: int | None, after: Position | None) -> list[JoinRecord]:
    records = [
        JoinRecord(
            job_key=key,
            occasion=occasion,
            state=row.state,
            opened_at=row.opened_at,
            last_end_at=row.last_end_at,
            total=row.total,
            ended=tuple(sorted(row.ended.values(), key=lambda end: end.job_key)),
            succeeded=row.succeeded,
            failed=row.failed,
            removed=row.removed,
            fire_id=row.fire_id,
        )
        for (key, occasion), row in tables.joins.items()
        if query.job_key in (None, key) and query.state in (None, row.state) and query.occasion in (None, occasion)
    ]
    return _page(records, lambda record: _latest_first(query.position(record)), limit, after and _latest_first(after))


def _latest_first(position: Position) -> Position:
    at, *rest = position
    return (_EPOCH - at, *rest)


def _page(
    rows: Iterable[_T], place: Callable[[_T], tuple[Any, ...]], limit: int | None, after: tuple[Any, ...] | None
) -> list[_T]:
    """Return the first `limit` rows after `after`, in the order of their places."""
    remaining = rows if after is None else (row for row in rows if place(row) > after)
    return sorted(remaining, key=place) if limit is None else nsmallest(limit, remaining, key=place)


def _in_group(key: Key, matcher: GroupMatcher | None) -> bool:
    return matcher is None or matcher.matches(key.group)


def _contains(key: Key, part: str | None) -> bool:
    return part is None or part in key.name


def _is_between(instant: datetime, query: ExecutionQuery | MisfireQuery) -> bool:
    return (query.since is None or instant >= query.since) and (query.until is None or instant < query.until)
