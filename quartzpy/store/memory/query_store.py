"""The methods of `QueryStore` in memory: look-ups and lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import PublicState
from quartzpy.store.memory import (
    lookups,
    pages,
    recover,
)
from quartzpy.store.memory.locked_tables import LockedTables
from quartzpy.store.protocol import (
    CheckIn,
    DispatchKey,
)
from quartzpy.store.queries import ActionQuery, AnyQuery, ExecutionQuery, JobQuery, MisfireQuery, Position, TriggerQuery
from quartzpy.store.records import (
    ActionRecord,
    ClusterLoad,
    ExecutionRecord,
    JobRecord,
    MisfireRecord,
    Pauses,
    RunningRecord,
    TriggerRecord,
)

_Key = TypeVar("_Key", JobKey, TriggerKey)


class RamQueryStore(LockedTables):
    """Reads and lists jobs, triggers, executions and nodes."""

    def job(self, key: JobKey) -> JobDetail | None:
        return self.jobs([key]).get(key)

    def jobs(self, keys: Collection[JobKey]) -> dict[JobKey, JobDetail]:
        with self._lock:
            return lookups.jobs(self._tables, keys)

    def trigger(self, key: TriggerKey) -> TriggerRecord | None:
        return self.triggers([key]).get(key)

    def triggers(self, keys: Collection[TriggerKey]) -> dict[TriggerKey, TriggerRecord]:
        with self._lock:
            return lookups.triggers(self._tables, keys)

    def triggers_of_job(self, key: JobKey) -> list[TriggerRecord]:
        with self._lock:
            return lookups.triggers_of_job(self._tables, key)

    def triggers_of_jobs(self, keys: Collection[JobKey]) -> dict[JobKey, list[TriggerRecord]]:
        with self._lock:
            found = {key: lookups.triggers_of_job(self._tables, key) for key in keys}
        return {key: records for key, records in found.items() if records}

    def trigger_states(self, keys: Collection[TriggerKey]) -> Mapping[TriggerKey, PublicState]:
        with self._lock:
            return lookups.trigger_states(self._tables, keys)

    def job_keys(self, matcher: GroupMatcher) -> set[JobKey]:
        with self._lock:
            return lookups.job_keys(self._tables, matcher)

    def trigger_keys(self, matcher: GroupMatcher) -> set[TriggerKey]:
        with self._lock:
            return lookups.trigger_keys(self._tables, matcher)

    def near_keys(self, key: _Key, limit: int) -> set[_Key]:
        with self._lock:
            return lookups.near_keys(self._tables, key, limit)

    def job_group_names(self) -> list[str]:
        with self._lock:
            return lookups.groups(self._tables.jobs)

    def trigger_group_names(self) -> list[str]:
        with self._lock:
            return lookups.groups(self._tables.triggers)

    def pauses(self) -> Pauses:
        with self._lock:
            pauses = self._tables.pauses
            groups = lookups.paused_trigger_groups(self._tables)
            return Pauses(pauses.everything, frozenset(groups), frozenset(pauses.job_groups))

    def paused_trigger_groups(self) -> set[str]:
        with self._lock:
            return lookups.paused_trigger_groups(self._tables)

    def paused_job_groups(self) -> set[str]:
        with self._lock:
            return set(self._tables.pauses.job_groups)

    def all_paused(self) -> bool:
        return self._tables.pauses.everything

    def waiting_dispatch_keys(self) -> set[DispatchKey]:
        with self._lock:
            return self._tables.due.dispatch_keys()

    def find_jobs(self, query: JobQuery, limit: int | None, after: Position | None = None) -> list[JobRecord]:
        with self._lock:
            return pages.jobs(self._tables, query, limit, after)

    def find_triggers(
        self, query: TriggerQuery, limit: int | None, after: Position | None = None
    ) -> list[TriggerRecord]:
        with self._lock:
            return pages.triggers(self._tables, query, limit, after)

    def find_executions(
        self, query: ExecutionQuery, limit: int | None, after: Position | None = None
    ) -> list[ExecutionRecord]:
        with self._lock:
            return pages.executions(self._tables, query, limit, after)

    def find_misfires(
        self, query: MisfireQuery, limit: int | None, after: Position | None = None
    ) -> list[MisfireRecord]:
        with self._lock:
            return pages.misfires(self._tables, query, limit, after)

    def find_actions(self, query: ActionQuery, limit: int | None, after: Position | None = None) -> list[ActionRecord]:
        with self._lock:
            return pages.actions(self._tables, query, limit, after)

    def count(self, query: AnyQuery) -> int:
        with self._lock:
            return pages.count(self._tables, query)

    def list_nodes(self) -> CheckIn:
        with self._lock:
            return recover.list_nodes(self._tables)

    def list_running(self) -> list[RunningRecord]:
        with self._lock:
            return lookups.list_running(self._tables)

    def execution(self, fire_id: int) -> ExecutionRecord | None:
        with self._lock:
            return lookups.execution(self._tables, fire_id)

    def cluster_load(self) -> ClusterLoad:
        with self._lock:
            return lookups.cluster_load(self._tables)

    def counts(self) -> dict[str, Any]:
        with self._lock:
            return lookups.counts(self._tables)
