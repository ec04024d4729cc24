"""The methods of `OperationsStore` in memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from quartzpy.keys import JobKey, Key, TriggerKey
from quartzpy.placement import Placement, placement_from_text
from quartzpy.states import PAUSED_STATES, FiredState, Outcome, TriggerState
from quartzpy.store.memory import attempts, pages, search
from quartzpy.store.memory.locked_tables import LockedTables
from quartzpy.store.memory.tables import BLOCKED_STATES, Tables
from quartzpy.store.protocol import (
    GroupTally,
    LockRecord,
    MinuteRecord,
    Minutes,
    RateUsage,
    SlotUsage,
    TableRecord,
    Tallies,
)
from quartzpy.store.queries import HISTORY, AnyQuery, ExecutionQuery, Position
from quartzpy.store.records import ExecutionRecord
from quartzpy.store.searches import FoundKeys, KeySearch, SearchPosition

_K = TypeVar("_K", bound=Key)


class RamOperationsStore(LockedTables):
    """Aggregates for operators."""

    def tallies(self, most: int) -> Tallies:
        with self._lock:
            tables = self._tables
            now = tables.now()
            fired = Counter(row.state for row in tables.fired.values())
            paused = tables.by_state[TriggerState.PAUSED].values()
            overdue = [row for row in paused if (at := row.progress.next_fire_time) is not None and at < now]
            return Tallies(
                jobs=min(len(tables.jobs), most + 1),
                triggers={state: min(len(rows), most + 1) for state, rows in tables.by_state.items() if rows},
                claimed=min(fired[FiredState.ACQUIRED], most + 1),
                executing=min(fired[FiredState.EXECUTING], most + 1),
                overdue_paused=min(len(overdue), most + 1),
            )

    def minutes(self, since: datetime, *, most: int) -> Minutes:
        with self._lock:
            records = pages.executions(self._tables, HISTORY, None, None)
        ended = list(islice((record for record in records if _ended(record) >= since), most))
        by_minute: defaultdict[datetime, list[ExecutionRecord]] = defaultdict(list)
        for record in ended:
            by_minute[_ended(record).replace(second=0, microsecond=0)].append(record)
        minutes = [_minute(at, by_minute[at]) for at in sorted(by_minute)]
        return Minutes(minutes, since if len(ended) < most else _ended(ended[-1]))

    def last_executions(self, keys: Collection[TriggerKey], limit: int) -> dict[TriggerKey, list[ExecutionRecord]]:
        with self._lock:
            found = {
                key: pages.executions(self._tables, ExecutionQuery(trigger_key=key), None, None) for key in set(keys)
            }
        return {
            key: sorted(records, key=lambda record: record.scheduled_fire_time, reverse=True)[:limit]
            for key, records in found.items()
            if records
        }

    def last_executions_of_job(self, key: JobKey, limit: int, *, among: int) -> list[ExecutionRecord]:
        with self._lock:
            return pages.executions(self._tables, ExecutionQuery(job_key=key), limit, None)

    def attempts(self, fire_ids: Collection[int], limit: int) -> dict[int, list[ExecutionRecord]]:
        with self._lock:
            found = {fire_id: attempts.attempts(self._tables, fire_id, limit) for fire_id in fire_ids}
        return {fire_id: chain for fire_id, chain in found.items() if chain}

    def executions_between(
        self, start: datetime, end: datetime, limit: int, *, margin: timedelta
    ) -> list[ExecutionRecord]:
        with self._lock:
            records = pages.executions(self._tables, HISTORY, None, None)
        found = (
            record
            for record in records
            if start <= _ended(record) <= end + margin and record.fire_time is not None and record.fire_time < end
        )
        return list(islice(found, limit))

    def last_examined(self, query: AnyQuery, after: Position | None) -> Position | None:
        with self._lock:
            return pages.last_examined(self._tables, query, after)

    def slot_usage(self, limit: int) -> list[SlotUsage]:
        with self._lock:
            return _slot_usage(self._tables)[:limit]

    def placements(self, keys: Collection[JobKey]) -> dict[JobKey, Placement]:
        with self._lock:
            jobs = self._tables.jobs
            return {key: placement_from_text(jobs[key].dispatch_key.placement) for key in keys if key in jobs}

    def rate_usage(self, limit: int) -> list[RateUsage]:
        with self._lock:
            tables, now = self._tables, self._tables.now()
            found = [
                RateUsage(key, of_key, job.rate_limit, row.tat, row.queued_until)
                for (key, of_key), row in tables.rate_limits.items()
                if (job := tables.jobs.get(key)) is not None and job.rate_limit is not None
                if row.tat is not None and row.tat > now
            ]
        return sorted(found, key=lambda one: (one.job_key, one.concurrency_key))[:limit]

    def trigger_group_tallies(self, limit: int, after: str | None, *, most: int) -> list[GroupTally]:
        with self._lock:
            triggers = self._tables.triggers
            return _group_tallies(triggers, lambda key: triggers[key].state, limit, after, most)

    def job_group_tallies(self, limit: int, after: str | None, *, most: int) -> list[GroupTally]:
        with self._lock:
            return _group_tallies(self._tables.jobs, lambda key: None, limit, after, most)

    def find_keys(self, keys: KeySearch, after: SearchPosition | None) -> FoundKeys:
        with self._lock:
            return search.find_keys(self._tables, keys, after)

    def node_facts(self) -> dict[str, dict[str, Any]]:
        """Return nothing: all nodes run in one process, and so they cannot differ."""
        return {}

    def tables(self) -> list[TableRecord]:
        return []

    def locks(self, limit: int) -> list[LockRecord]:
        return []

    def schema_version(self) -> str | None:
        return None


def _ended(record: ExecutionRecord) -> datetime:
    assert record.ended_at is not None
    return record.ended_at


def _minute(at: datetime, records: Sequence[ExecutionRecord]) -> MinuteRecord:
    late = sorted(
        max(timedelta(), record.started_at - record.scheduled_fire_time)
        for record in records
        if record.started_at is not None
    )
    outcomes = Counter(Outcome(record.state) for record in records)
    return MinuteRecord(at, outcomes, _percentile(late, 50), _percentile(late, 99))


def _percentile(values: Sequence[timedelta], percent: int) -> timedelta | None:
    """Return the first of the sorted values that is not below this percentage of them (`percentile_disc`)."""
    return values[-(-len(values) * percent // 100) - 1] if values else None


def _slot_usage(tables: Tables) -> list[SlotUsage]:
    executing = Counter(
        (row.job_key, row.concurrency_key) for row in tables.fired.values() if row.state is FiredState.EXECUTING
    )
    blocked = Counter(
        (row.job.key, row.concurrency_key) for state in BLOCKED_STATES for row in tables.by_state[state].values()
    )
    found = []
    for key, of_key in sorted(executing | blocked):
        job = tables.jobs.get(key)
        if job is not None and job.limit is not None:
            found.append(SlotUsage(key, of_key, job.limit, executing[key, of_key], blocked[key, of_key]))
    return found


def _group_tallies(
    keys: Iterable[_K], state_of: Callable[[_K], TriggerState | None], limit: int, after: str | None, most: int
) -> list[GroupTally]:
    groups: defaultdict[str, list[TriggerState | None]] = defaultdict(list)
    for key in keys:
        if key.group > (after or ""):
            groups[key.group].append(state_of(key))
    return [
        GroupTally(
            name,
            min(len(groups[name]), most + 1),
            min(sum(state in PAUSED_STATES for state in groups[name]), most + 1),
            min(groups[name].count(TriggerState.ERROR), most + 1),
        )
        for name in sorted(groups)[:limit]
    ]
