"""The query protocol: reading jobs, triggers, executions and misfires."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol, TypeVar

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.store.protocol.fires import DispatchKey
from quartzpy.store.protocol.scheduling import StoredCalendar
from quartzpy.store.queries import AnyQuery, Position, RecordQuery
from quartzpy.store.records import (
    ClusterLoad,
    ExecutionRecord,
    JobHeader,
    LimitRecord,
    NotedZone,
    Pauses,
    RunningRecord,
    TriggerRecord,
    WindowRecord,
)

_Key = TypeVar("_Key", JobKey, TriggerKey)
_Record = TypeVar("_Record")


class NameKind(StrEnum):
    """What names are listed of."""

    JOB_GROUPS = "job groups"
    TRIGGER_GROUPS = "trigger groups"
    CALENDARS = "calendars"


class QueryStore(Protocol):
    """Read-only access. Every method is one round trip, takes no lock and changes nothing."""

    def jobs(self, keys: Collection[JobKey]) -> dict[JobKey, JobDetail]:
        """Return those of these jobs that are stored."""
        ...

    def job_headers(self, keys: Collection[JobKey]) -> dict[JobKey, JobHeader]:
        """Return the type, mode and placement of those of these jobs that are stored.

        The cost is the same low one however much data and triggers a job has.
        """
        ...

    def triggers(self, keys: Collection[TriggerKey]) -> dict[TriggerKey, TriggerRecord]:
        """Return those of these triggers that are stored."""
        ...

    def keys(self, kind: type[_Key], matcher: GroupMatcher) -> set[_Key]:
        """Return the keys of the jobs (`JobKey`) or triggers (`TriggerKey`) whose group matches."""
        ...

    def near_keys(self, key: _Key, limit: int) -> set[_Key]:
        """Return stored keys among which the one is likely to be that a user meant by `key`, which is not stored.

        They are the first keys, the first and the neighbours of its group, its neighbours in the first groups, and the
        key whose name and group are swapped; of each part there are at most `limit`, or a small multiple.
        """
        ...

    def names(self, kind: NameKind) -> list[str]:
        """Return the groups that have jobs or triggers, or the names of the calendars; sorted."""
        ...

    def pauses(self) -> Pauses:
        """Return the pauses that apply to triggers that are stored later, and whether the manual mode is on."""
        ...

    def windows(self) -> list[WindowRecord]:
        """Return the maintenance windows that are stored, by their names."""
        ...

    def noted_zones(self) -> list[NotedZone]:
        """Return the rules of time zones by which what is stored may have been computed; those of a zone together.

        A store without other processes computes all by the same, and notes none.
        """
        ...

    def calendars(self, names: Collection[str]) -> dict[str, StoredCalendar]:
        """Return those of these calendars that are stored."""
        ...

    def limits(self) -> dict[str, LimitRecord]:
        """Return the limits that jobs share, by their names."""
        ...

    def ahead(self, key: TriggerKey) -> int:
        """Return how many triggers wait for the same limits as this one, and are before it: at most `MAX_WAITING`.

        It is 0 if the trigger is not parked, or not stored.
        """
        ...

    def waiting_dispatch_keys(self) -> set[DispatchKey]:
        """Return the dispatch keys for which triggers are WAITING."""
        ...

    def list_running(self) -> list[RunningRecord]:
        """Return the executions of all nodes that have not ended, by fire time."""
        ...

    def execution(self, fire_id: int) -> ExecutionRecord | None:
        """Return the execution with this fire_id, whether it is running or in the history."""
        ...

    def find(self, query: RecordQuery[_Record], limit: int | None, after: Position | None = None) -> list[_Record]:
        """Return at most `limit` (None: all) of the records that a query selects, in its order.

        With `after`, the position of a record, it returns those that follow it, whether or not that record still
        exists.
        """
        ...

    def count(self, query: AnyQuery) -> int:
        """Return the number of records that a query selects."""
        ...

    def cluster_load(self) -> ClusterLoad:
        """Return the load of the cluster, at a cost that does not grow with the number of jobs and triggers."""
        ...
