"""The part of the store that is only read: jobs, triggers, executions, pauses and nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import JobMode, PublicState
from quartzpy.store.protocol import (
    CheckIn,
    DispatchKey,
    StoredCalendar,
)
from quartzpy.store.queries import (
    ActionQuery,
    AnyQuery,
    ExecutionQuery,
    JobQuery,
    MisfireQuery,
    Position,
    TriggerQuery,
)
from quartzpy.store.records import (
    ActionRecord,
    ExecutionRecord,
    JobHeader,
    JobRecord,
    MisfireRecord,
    Pauses,
    RunningRecord,
    TriggerRecord,
)
from quartzpy.store.sql import calendars, lookups, near_keys, pages, pausing
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.steps import (
    checkin,
)

_Key = TypeVar("_Key", JobKey, TriggerKey)


class SqlQueryStore:
    """Answers queries; the methods are those of `JobStore`."""

    _session: SqlSession

    def job_mode(self, key: JobKey) -> JobMode | None:
        found = self.job_header(key)
        return None if found is None else found.mode

    def job_header(self, key: JobKey) -> JobHeader | None:
        return pausing.job_header(self._session, key)

    def is_manual(self) -> bool:
        return bool(lookups.paused(self._session, pausing.MANUAL_SCOPE))

    def job(self, key: JobKey) -> JobDetail | None:
        return self.jobs([key]).get(key)

    def jobs(self, keys: Collection[JobKey]) -> dict[JobKey, JobDetail]:
        return lookups.jobs(self._session, keys)

    def trigger(self, key: TriggerKey) -> TriggerRecord | None:
        return self.triggers([key]).get(key)

    def triggers(self, keys: Collection[TriggerKey]) -> dict[TriggerKey, TriggerRecord]:
        return lookups.triggers(self._session, keys)

    def triggers_of_job(self, key: JobKey) -> list[TriggerRecord]:
        return lookups.triggers_of_job(self._session, key)

    def triggers_of_jobs(self, keys: Collection[JobKey]) -> dict[JobKey, list[TriggerRecord]]:
        return lookups.triggers_of_jobs(self._session, keys)

    def trigger_states(self, keys: Collection[TriggerKey]) -> Mapping[TriggerKey, PublicState]:
        return lookups.trigger_states(self._session, keys)

    def job_keys(self, matcher: GroupMatcher) -> set[JobKey]:
        return lookups.job_keys(self._session, matcher)

    def trigger_keys(self, matcher: GroupMatcher) -> set[TriggerKey]:
        return lookups.trigger_keys(self._session, matcher)

    def near_keys(self, key: _Key, limit: int) -> set[_Key]:
        return near_keys.near_keys(self._session, key, limit)

    def job_group_names(self) -> list[str]:
        return lookups.column(self._session, lookups.JOB_GROUPS)

    def trigger_group_names(self) -> list[str]:
        return lookups.column(self._session, lookups.TRIGGER_GROUPS)

    def pauses(self) -> Pauses:
        return lookups.pauses(self._session)

    def paused_trigger_groups(self) -> set[str]:
        return lookups.paused(self._session, pausing.TRIGGER_SCOPE)

    def paused_job_groups(self) -> set[str]:
        return lookups.paused(self._session, pausing.JOB_SCOPE)

    def all_paused(self) -> bool:
        return bool(lookups.paused(self._session, pausing.ALL_SCOPE))

    def waiting_dispatch_keys(self) -> set[DispatchKey]:
        return lookups.waiting_dispatch_keys(self._session)

    def calendars(self, names: Collection[str]) -> dict[str, StoredCalendar]:
        return calendars.calendars(self._session, names)

    def calendar_names(self) -> list[str]:
        return lookups.column(self._session, calendars.NAMES)

    def find_jobs(self, query: JobQuery, limit: int | None, after: Position | None = None) -> list[JobRecord]:
        return pages.jobs(self._session, query, limit, after)

    def find_triggers(
        self, query: TriggerQuery, limit: int | None, after: Position | None = None
    ) -> list[TriggerRecord]:
        return pages.triggers(self._session, query, limit, after)

    def find_executions(
        self, query: ExecutionQuery, limit: int | None, after: Position | None = None
    ) -> list[ExecutionRecord]:
        return pages.executions(self._session, query, limit, after)

    def find_misfires(
        self, query: MisfireQuery, limit: int | None, after: Position | None = None
    ) -> list[MisfireRecord]:
        return pages.misfires(self._session, query, limit, after)

    def last_examined(self, query: AnyQuery, after: Position | None) -> Position | None:
        return pages.last_examined(self._session, query, after)

    def count(self, query: AnyQuery) -> int:
        return pages.count(self._session, query)

    def list_nodes(self) -> CheckIn:
        return checkin.list_nodes(self._session)

    def list_running(self) -> list[RunningRecord]:
        return lookups.list_running(self._session)

    def execution(self, fire_id: int) -> ExecutionRecord | None:
        return lookups.execution(self._session, fire_id)

    def counts(self) -> dict[str, Any]:
        return lookups.counts(self._session)

    def find_actions(self, query: ActionQuery, limit: int | None, after: Position | None = None) -> list[ActionRecord]:
        return pages.actions(self._session, query, limit, after)
