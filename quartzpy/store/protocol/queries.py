"""The query protocol: reading jobs, triggers, executions and misfires."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol, TypeVar

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import JobMode, PublicState
from quartzpy.store.protocol.fires import DispatchKey
from quartzpy.store.protocol.scheduling import StoredCalendar
from quartzpy.store.queries import AnyQuery, ExecutionQuery, JobQuery, MisfireQuery, Position, TriggerQuery
from quartzpy.store.records import (
    ClusterLoad,
    ExecutionRecord,
    JobHeader,
    JobRecord,
    MisfireRecord,
    Pauses,
    RunningRecord,
    TriggerRecord,
)

_Key = TypeVar("_Key", JobKey, TriggerKey)


class QueryStore(Protocol):
    """Read-only access. Every method is one round trip, takes no lock and changes nothing."""

    def job(self, key: JobKey) -> JobDetail | None: ...

    def job_header(self, key: JobKey) -> JobHeader | None:
        """Return the type and the mode of a job, at the same low cost however much data and triggers it has."""
        ...

    def jobs(self, keys: Collection[JobKey]) -> dict[JobKey, JobDetail]:
        """Return those of these jobs that are stored."""
        ...

    def job_mode(self, key: JobKey) -> JobMode | None:
        """Return the mode of a job; None if the job is not stored."""
        ...

    def trigger(self, key: TriggerKey) -> TriggerRecord | None: ...

    def triggers(self, keys: Collection[TriggerKey]) -> dict[TriggerKey, TriggerRecord]:
        """Return those of these triggers that are stored."""
        ...

    def triggers_of_job(self, key: JobKey) -> list[TriggerRecord]:
        """Return the triggers of a job, by key."""
        ...

    def triggers_of_jobs(self, keys: Collection[JobKey]) -> dict[JobKey, list[TriggerRecord]]:
        """Return the triggers of each of these jobs, by key. A job without triggers is left out."""
        ...

    def trigger_states(self, keys: Collection[TriggerKey]) -> Mapping[TriggerKey, PublicState]:
        """Return the state of each of these triggers; NONE for those that are not stored."""
        ...

    def job_keys(self, matcher: GroupMatcher) -> set[JobKey]: ...

    def trigger_keys(self, matcher: GroupMatcher) -> set[TriggerKey]: ...

    def near_keys(self, key: _Key, limit: int) -> set[_Key]:
        """Return stored keys among which the one is likely to be that a user meant by `key`, which is not stored.

        They are the first keys, the first and the neighbours of its group, its neighbours in the first groups, and the
        key whose name and group are swapped; of each part there are at most `limit`, or a small multiple.
        """
        ...

    def job_group_names(self) -> list[str]: ...

    def trigger_group_names(self) -> list[str]: ...

    def paused_trigger_groups(self) -> set[str]: ...

    def paused_job_groups(self) -> set[str]: ...

    def all_paused(self) -> bool: ...

    def pauses(self) -> Pauses:
        """Return the pauses that apply to triggers that are stored later, in one read."""
        ...

    def is_manual(self) -> bool:
        """Return whether the manual mode is on; see `set_manual`."""
        ...

    def calendars(self, names: Collection[str]) -> dict[str, StoredCalendar]:
        """Return those of these calendars that are stored."""
        ...

    def calendar_names(self) -> list[str]: ...

    def waiting_dispatch_keys(self) -> set[DispatchKey]:
        """Return the dispatch keys for which triggers are WAITING."""
        ...

    def list_running(self) -> list[RunningRecord]:
        """Return the claims and executions of all nodes, by fire time."""
        ...

    def execution(self, fire_id: int) -> ExecutionRecord | None:
        """Return the execution with this fire_id, whether it is claimed, running or in the history."""
        ...

    # --- pages
    #
    # Each method returns at most `limit` (None: all) of the records that the query selects, in the query's order. With
    # `after`, the position of a record, it returns those that follow it, whether or not that record still exists.

    def find_jobs(self, query: JobQuery, limit: int | None, after: Position | None = None) -> list[JobRecord]: ...

    def find_triggers(
        self, query: TriggerQuery, limit: int | None, after: Position | None = None
    ) -> list[TriggerRecord]: ...

    def find_executions(
        self, query: ExecutionQuery, limit: int | None, after: Position | None = None
    ) -> list[ExecutionRecord]: ...

    def find_misfires(
        self, query: MisfireQuery, limit: int | None, after: Position | None = None
    ) -> list[MisfireRecord]: ...

    def count(self, query: AnyQuery) -> int:
        """Return the number of records that the query selects."""
        ...

    def cluster_load(self) -> ClusterLoad:
        """Return the load of the cluster, at a cost that does not grow with the number of jobs and triggers."""
        ...

    def counts(self) -> dict[str, Any]:
        """Return the numbers of jobs, of triggers by state, and of running executions."""
        ...
