# The methods of a scheduler, which are awaited. `python -m tools.async_facade` writes this stub.

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack

from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.instants import Span
from quartzpy.jobs.job import JobData, JobDetail, JobTypes
from quartzpy.jobs.join import Batch
from quartzpy.jobs.options import JobChanges, ScheduleOptions
from quartzpy.jobs.shared_limit import Limit
from quartzpy.keys import DEFAULT_GROUP, JobKey, JobRef, TriggerKey, TriggerRef
from quartzpy.matchers import GroupMatcher
from quartzpy.scheduler.async_calls import AsyncFacade
from quartzpy.scheduler.awaitable.results import (
    AsyncQuery,
    AsyncScheduledJob,
    AsyncScheduledTrigger,
    AsyncTriggeredExecution,
)
from quartzpy.scheduler.coercion import JobLike, TriggerLike
from quartzpy.scheduler.methods.base import Methods
from quartzpy.scheduler.methods.pausing import PauseSubject, PausingMethods, Until
from quartzpy.scheduler.methods.quartz import PauseOptions, QuartzMethods
from quartzpy.scheduler.methods.queries import FireRef, QueryMethods
from quartzpy.scheduler.methods.scheduling import SchedulingMethods
from quartzpy.scheduler.methods.storing import StoringMethods
from quartzpy.scheduler.methods.triggering import TriggeringMethods
from quartzpy.scheduler.sync import Existing, SyncPlan
from quartzpy.states import ENDED, Missed, PublicState
from quartzpy.store.protocol import CheckIn, Everything
from quartzpy.store.queries import TriggerOrder
from quartzpy.store.records import (
    ExecutionRecord,
    JobRecord,
    JoinRecord,
    LimitRecord,
    MisfireRecord,
    Pauses,
    RunningRecord,
    TriggerRecord,
    WindowRecord,
)
from quartzpy.triggers.trigger import Trigger

_MethodsT = TypeVar("_MethodsT", bound=Methods)

class AsyncMethods(AsyncFacade[_MethodsT], metaclass=ABCMeta):
    @property
    def name(self) -> str: ...
    async def job_types(self) -> JobTypes: ...

_PausingMethodsT = TypeVar("_PausingMethodsT", bound=PausingMethods)

class AsyncPausingMethods(AsyncMethods[_PausingMethodsT], metaclass=ABCMeta):
    async def pause(
        self,
        what: PauseSubject,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> None: ...
    async def resume(self, what: PauseSubject, *, missed: str = Missed.MISFIRE) -> None: ...
    async def pauses(self) -> Pauses: ...
    async def set_mode(self, what: JobRef | Everything, mode: str, *, missed: str = Missed.SKIP) -> None: ...
    async def add_maintenance_window(
        self, window: MaintenanceWindow, *, replace: bool = False, by: str | None = None
    ) -> None: ...
    async def delete_maintenance_window(self, name: str, *, missing_ok: bool = False) -> bool: ...
    async def maintenance_windows(self) -> list[WindowRecord]: ...
    async def skip_next(self, key: TriggerRef, count: int = 1) -> datetime | None: ...
    async def skip_until(self, key: TriggerRef, instant: datetime) -> datetime | None: ...

_QueryMethodsT = TypeVar("_QueryMethodsT", bound=QueryMethods)

class AsyncQueryMethods(AsyncMethods[_QueryMethodsT], metaclass=ABCMeta):
    async def why(self, key: TriggerKey | JobKey) -> list[str]: ...
    def jobs(
        self,
        *,
        group: str | GroupMatcher | None = None,
        contains: str | None = None,
        job_type: str | None = None,
        mode: str | None = None,
    ) -> AsyncQuery[JobRecord]: ...
    def triggers(
        self,
        *,
        job: JobRef | None = None,
        group: str | GroupMatcher | None = None,
        contains: str | None = None,
        state: str | Collection[str] | None = None,
        calendar: str | None = None,
        job_type: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        by_schedule: bool = False,
        order_by: str = TriggerOrder.KEY,
    ) -> AsyncQuery[TriggerRecord]: ...
    def executions(
        self,
        *,
        state: str | Collection[str] = ENDED,
        job: JobRef | None = None,
        trigger: TriggerRef | None = None,
        group: str | GroupMatcher | None = None,
        job_type: str | None = None,
        node: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        exhausted: bool = False,
        error: str | None = None,
    ) -> AsyncQuery[ExecutionRecord]: ...
    def misfires(
        self,
        *,
        trigger: TriggerRef | None = None,
        job: JobRef | None = None,
        action: str | None = None,
        node: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncQuery[MisfireRecord]: ...
    def joins(self, *, job: JobRef | None = None, state: str | None = None) -> AsyncQuery[JoinRecord]: ...
    async def nodes(self) -> CheckIn: ...
    async def running(self) -> list[RunningRecord]: ...
    async def execution(self, fire_id: FireRef) -> ExecutionRecord | None: ...
    async def execution_log(self, fire_id: FireRef) -> str | None: ...
    async def counts(self) -> dict[str, Any]: ...

_StoringMethodsT = TypeVar("_StoringMethodsT", bound=StoringMethods)

class AsyncStoringMethods(AsyncMethods[_StoringMethodsT], metaclass=ABCMeta):
    async def modify_job(self, key: JobRef, **changes: Unpack[JobChanges]) -> JobDetail: ...
    async def reschedule_job(self, key: TriggerRef, trigger: TriggerLike) -> datetime: ...
    async def delete_job(self, key: JobRef, *, missing_ok: bool = False) -> bool: ...
    async def add_calendar(
        self, name: str, calendar: Calendar, *, replace: bool = False, update_triggers: bool = False
    ) -> None: ...
    async def delete_calendar(self, name: str, *, missing_ok: bool = False) -> bool: ...
    async def get_calendar(self, name: str) -> Calendar | None: ...
    async def calendar_names(self) -> list[str]: ...
    async def set_limit(self, name: str, limit: Limit | int | str) -> None: ...
    async def delete_limit(self, name: str, *, missing_ok: bool = False) -> bool: ...
    async def limits(self) -> dict[str, LimitRecord]: ...
    async def sync(
        self,
        definitions: Iterable[tuple[JobLike, Trigger | str | timedelta | datetime | Iterable[Any] | None]],
        *,
        owner: str,
        calendars: Mapping[str, Calendar] | None = None,
        windows: Sequence[MaintenanceWindow] | None = None,
        prune: bool = False,
        existing: str = Existing.UPDATE,
        version: int | float | str | None = None,
        apply: bool = True,
        announce: Callable[[SyncPlan], None] | None = None,
    ) -> SyncPlan: ...

_TriggeringMethodsT = TypeVar("_TriggeringMethodsT", bound=TriggeringMethods)

class AsyncTriggeringMethods(
    AsyncStoringMethods[_TriggeringMethodsT], AsyncQueryMethods[_TriggeringMethodsT], metaclass=ABCMeta
):
    async def trigger_job(
        self,
        key: JobRef,
        data: Mapping[str, Any] | JobData | None = None,
        *,
        delay: Span | None = None,
        even_if_paused: bool = False,
        debounce_key: str | None = None,
        keep_waiting: bool = False,
        by: str | None = None,
    ) -> AsyncTriggeredExecution: ...
    async def run_again(
        self, fire_id: FireRef, *, delay: Span | None = None, even_if_paused: bool = False, by: str | None = None
    ) -> AsyncTriggeredExecution: ...
    async def backfill_times(
        self, key: TriggerRef, since: datetime, until: datetime, *, max_runs: int = 1000
    ) -> list[datetime]: ...
    async def backfill(
        self,
        key: TriggerRef,
        since: datetime,
        until: datetime,
        *,
        max_runs: int = 1000,
        even_if_paused: bool = False,
        by: str | None = None,
    ) -> list[AsyncTriggeredExecution]: ...

_QuartzMethodsT = TypeVar("_QuartzMethodsT", bound=QuartzMethods)

class AsyncQuartzMethods(
    AsyncTriggeringMethods[_QuartzMethodsT], AsyncPausingMethods[_QuartzMethodsT], metaclass=ABCMeta
):
    async def pause_trigger(self, key: TriggerRef, **options: Unpack[PauseOptions]) -> None: ...
    async def resume_trigger(self, key: TriggerRef, *, missed: str = Missed.MISFIRE) -> None: ...
    async def pause_job(self, key: JobRef, **options: Unpack[PauseOptions]) -> None: ...
    async def resume_job(self, key: JobRef, *, missed: str = Missed.MISFIRE) -> None: ...
    async def pause_trigger_group(self, group: str | GroupMatcher, **options: Unpack[PauseOptions]) -> set[str]: ...
    async def resume_trigger_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> set[str]: ...
    async def pause_job_group(self, group: str | GroupMatcher, **options: Unpack[PauseOptions]) -> set[str]: ...
    async def resume_job_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> set[str]: ...
    async def pause_all(self, **options: Unpack[PauseOptions]) -> set[str]: ...
    async def resume_all(self, *, missed: str = Missed.MISFIRE) -> set[str]: ...
    async def reset_trigger_from_error(self, key: TriggerRef) -> None: ...
    async def get_job_detail(self, key: JobKey) -> JobDetail | None: ...
    async def get_trigger(self, key: TriggerKey) -> Trigger | None: ...
    async def trigger_record(self, key: TriggerKey) -> TriggerRecord | None: ...
    async def triggers_of_job(self, key: JobKey) -> list[Trigger]: ...
    async def trigger_state(self, key: TriggerKey) -> PublicState: ...
    async def check_exists(self, key: JobKey | TriggerKey) -> bool: ...
    async def job_keys(self, group: str | GroupMatcher | None = None) -> set[JobKey]: ...
    async def trigger_keys(self, group: str | GroupMatcher | None = None) -> set[TriggerKey]: ...
    async def job_group_names(self) -> list[str]: ...
    async def trigger_group_names(self) -> list[str]: ...
    async def paused_trigger_groups(self) -> set[str]: ...
    async def paused_job_groups(self) -> set[str]: ...
    async def add_job(
        self, job: JobDetail, *, replace: bool = False, store_non_durable_while_awaiting_scheduling: bool = False
    ) -> None: ...
    async def unschedule_job(self, key: TriggerRef, *, missing_ok: bool = False) -> bool: ...
    async def unschedule_jobs(self, keys: Collection[TriggerRef]) -> set[TriggerKey]: ...
    async def delete_jobs(self, keys: Collection[JobRef]) -> set[JobKey]: ...
    async def clear(self) -> None: ...

_SchedulingMethodsT = TypeVar("_SchedulingMethodsT", bound=SchedulingMethods)

class AsyncSchedulingMethods(AsyncQuartzMethods[_SchedulingMethodsT], metaclass=ABCMeta):
    async def schedule_job(
        self,
        job: JobLike,
        triggers: TriggerLike | Iterable[TriggerLike] | None = None,
        *,
        name: str | None = None,
        group: str = DEFAULT_GROUP,
        data: Mapping[str, Any] | JobData | None = None,
        replace: bool = False,
        **options: Unpack[ScheduleOptions],
    ) -> AsyncScheduledJob: ...
    async def schedule_jobs(
        self,
        jobs: Mapping[Any, Iterable[TriggerLike]] | Iterable[tuple[JobLike, Iterable[TriggerLike]]],
        *,
        replace: bool = False,
        batch: Batch | None = None,
    ) -> list[AsyncScheduledJob]: ...
    async def schedule(
        self, triggers: Trigger | Iterable[Trigger], *, replace: bool = False, batch: Batch | None = None
    ) -> datetime: ...
    async def job(self, key: JobRef) -> AsyncScheduledJob: ...
    async def trigger(self, key: TriggerRef) -> AsyncScheduledTrigger: ...
