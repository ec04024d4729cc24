"""The methods of a scheduler, which are awaited.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack

from quartzpy.aio.results import AsyncQuery, AsyncScheduledJob, AsyncTriggeredExecution
from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.config.config import SchedulerConfig
from quartzpy.instants import Span
from quartzpy.jobs.context import JobExecutionContext, Middleware
from quartzpy.jobs.internal_entries import CurrentTrace, Within
from quartzpy.jobs.job import JobData, JobDetail, JobTypes
from quartzpy.jobs.join import Batch
from quartzpy.jobs.options import JobChanges, ScheduleOptions
from quartzpy.jobs.shared_limit import Limit
from quartzpy.keys import DEFAULT_GROUP, JobKey, JobRef, TriggerKey, TriggerRef
from quartzpy.matchers import GroupMatcher
from quartzpy.name_hints import RESCHEDULING_ARGUMENTS, SCHEDULING_ARGUMENTS, argument_hints
from quartzpy.node.health import SchedulerHealth
from quartzpy.scheduler.async_calls import AsyncFacade
from quartzpy.scheduler.coercion import JobLike, TriggerLike
from quartzpy.scheduler.methods.base import Methods
from quartzpy.scheduler.methods.pausing import PausingMethods, Until
from quartzpy.scheduler.methods.queries import FireRef, OutdatedJob, QueryMethods
from quartzpy.scheduler.methods.scheduling import SchedulingMethods
from quartzpy.scheduler.methods.storing import StoringMethods
from quartzpy.scheduler.methods.triggering import TriggeringMethods
from quartzpy.scheduler.scheduler import BaseScheduler, SchedulerMetadata
from quartzpy.scheduler.sync import Existing, SyncPlan
from quartzpy.states import ENDED, JobMode, Missed, PublicState
from quartzpy.store.protocol import CheckIn
from quartzpy.store.queries import TriggerOrder
from quartzpy.store.records import (
    ClusterLoad,
    ExecutionRecord,
    JobRecord,
    JoinRecord,
    LimitRecord,
    MisfireRecord,
    RunningRecord,
    TriggerRecord,
    WindowRecord,
)
from quartzpy.triggers.trigger import Trigger

_MethodsT = TypeVar("_MethodsT", bound=Methods)


class AsyncMethods(AsyncFacade[_MethodsT]):
    """The methods of `Methods`, each of them awaitable."""

    @property
    def name(self) -> str:
        """The name of the scheduler; all nodes with this name on one database are one cluster."""
        return self._behind.name

    async def job_types(self) -> JobTypes:
        """The registry in which this scheduler looks up job types."""
        return await self._run(lambda behind: behind.job_types)


_PausingMethodsT = TypeVar("_PausingMethodsT", bound=PausingMethods)


class AsyncPausingMethods(AsyncMethods[_PausingMethodsT]):
    """The methods of `PausingMethods`, each of them awaitable."""

    async def pause_trigger(
        self,
        key: TriggerRef,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> None:
        """Pause a trigger: it does not fire until it is resumed.

        `reason`, a sentence, and `by`, a name, are stored with the trigger. Its record and `why` show them until it is
        resumed. A reason that is given for a trigger which is paused already replaces the old one.

        With `until`, an instant or a span such as "2h", a node resumes it then, and `missed` decides how the fires that
        it missed are treated (see `Missed`). The latest call decides: without `until`, it is paused until somebody
        resumes it. A pause of its group holds beside this one, and it fires again when both have ended.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidValueError: `reason` or `by` is no text, or too long; `until` has passed, or `missed` is unknown.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(
            lambda behind: behind.pause_trigger(key, reason=reason, by=by, until=until, missed=missed)
        )

    async def resume_trigger(self, key: TriggerRef, *, missed: str = Missed.MISFIRE) -> None:
        """Resume a trigger; `missed` decides how the fires that it missed are treated (see `Missed`).

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.resume_trigger(key, missed=missed))

    async def pause_job(
        self,
        key: JobRef,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> None:
        """Pause all triggers that a job has now; `reason`, `by`, `until` and `missed` as in `pause_trigger`.

        Triggers that are stored later are not paused, and neither is the next attempt of an execution that is running
        now: its trigger is stored when the execution ends. `disable_job` and `pause_job_group` hold those as well.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidValueError: `reason` or `by` is no text, or too long; `until` has passed, or `missed` is unknown.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.pause_job(key, reason=reason, by=by, until=until, missed=missed))

    async def resume_job(self, key: JobRef, *, missed: str = Missed.MISFIRE) -> None:
        """Resume all triggers of a job; `missed` as in `resume_trigger`.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.resume_job(key, missed=missed))

    async def pause_trigger_group(
        self,
        group: str | GroupMatcher,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> set[str]:
        """Pause groups of triggers, including triggers that are stored later; return the groups.

        A group that is given by its name is paused even if it has no trigger yet. `reason` and `by` are stored with the
        group and with the triggers that there are now; see `pause_trigger`, also for `until` and `missed`. At that
        instant those are resumed that only this pause holds: a trigger that was paused itself stays so.
        """
        return await self._run(
            lambda behind: behind.pause_trigger_group(group, reason=reason, by=by, until=until, missed=missed)
        )

    async def resume_trigger_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> set[str]:
        """Resume groups of triggers; return the groups. `missed` as for `resume_trigger`."""
        return await self._run(lambda behind: behind.resume_trigger_group(group, missed=missed))

    async def pause_job_group(
        self,
        group: str | GroupMatcher,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> set[str]:
        """Pause all triggers of the jobs of groups, including those that are stored later; return the groups.

        The other arguments are as in `pause_trigger_group`.
        """
        return await self._run(
            lambda behind: behind.pause_job_group(group, reason=reason, by=by, until=until, missed=missed)
        )

    async def resume_job_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> set[str]:
        """Resume all triggers of the jobs in these groups; return the groups. `missed` as for `resume_trigger`."""
        return await self._run(lambda behind: behind.resume_job_group(group, missed=missed))

    async def pause_all(
        self,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> set[str]:
        """Pause all triggers, including those that are stored later, until `resume_all`; return their groups.

        The other arguments are as in `pause_trigger_group`.
        """
        return await self._run(lambda behind: behind.pause_all(reason=reason, by=by, until=until, missed=missed))

    async def resume_all(self, *, missed: str = Missed.MISFIRE) -> set[str]:
        """End `pause_all` and every pause of a group, a trigger or a job; return the trigger groups.

        `missed` as for `resume_trigger`.
        """
        return await self._run(lambda behind: behind.resume_all(missed=missed))

    async def add_maintenance_window(
        self, window: MaintenanceWindow, *, replace: bool = False, by: str | None = None
    ) -> None:
        """Store a time, once or recurrent, in which the triggers of a group or all triggers do not fire.

        A node pauses them when it begins, as `pause_trigger_group` with `until` does; so executions that run go on, a
        trigger that is paused for another reason stays so, and whoever resumes the group ends the window for this
        time. Storing the same window again changes nothing. `by` is shown as the one who wants it.

        Raises:
            ObjectAlreadyExistsError: another window has this name, and `replace` is false.
            InvalidValueError: it is over or never begins, or `by` is no text or too long.
        """
        return await self._run(lambda behind: behind.add_maintenance_window(window, replace=replace, by=by))

    async def delete_maintenance_window(self, name: str, *, missing_ok: bool = False) -> bool:
        """Remove a maintenance window; what it pauses at present is resumed within seconds.

        Return True if it was stored; False is possible only with `missing_ok`.

        Raises:
            ObjectNotFoundError: there is none of this name, and `missing_ok` is false.
        """
        return await self._run(lambda behind: behind.delete_maintenance_window(name, missing_ok=missing_ok))

    async def maintenance_windows(self) -> list[WindowRecord]:
        """Return the maintenance windows, by their names, each with its present or next time."""
        return await self._run(lambda behind: behind.maintenance_windows())

    async def disable_job(self, key: JobRef) -> None:
        """Stop all triggers of a job, including later ones, and refuse `trigger_job`, until `enable_job`.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.disable_job(key))

    async def enable_job(self, key: JobRef, *, missed: str = Missed.SKIP) -> None:
        """End `disable_job` or `run_job_by_hand_only`. Triggers that are paused for another reason remain paused.

        Fires that were missed in the meantime are skipped, unless `missed` asks for something else (see `Missed`).

        Raises:
            JobNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.enable_job(key, missed=missed))

    async def run_job_by_hand_only(self, key: JobRef) -> None:
        """Run a job by `trigger_job`, retries and recoveries only, until `enable_job`: manual mode of one job.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.run_job_by_hand_only(key))

    async def job_mode(self, key: JobRef) -> JobMode | None:
        """Return ENABLED, MANUAL or DISABLED; None if the job is not stored."""
        return await self._run(lambda behind: behind.job_mode(key))

    async def enter_manual_mode(self) -> None:
        """Suspend all schedules in the whole cluster; `trigger_job` still works.

        `resume_all` does not end it; `leave_manual_mode` does.
        """
        return await self._run(lambda behind: behind.enter_manual_mode())

    async def leave_manual_mode(self, *, missed: str = Missed.SKIP) -> None:
        """End manual mode. Triggers that are paused otherwise remain paused; `missed` as for `enable_job`."""
        return await self._run(lambda behind: behind.leave_manual_mode(missed=missed))

    async def is_in_manual_mode(self) -> bool:
        """Return True if the cluster is in manual mode."""
        return await self._run(lambda behind: behind.is_in_manual_mode)

    async def reset_trigger_from_error(self, key: TriggerRef) -> None:
        """Return a trigger in ERROR to its schedule, so that it fires again.

        Raises:
            TriggerNotFoundError: it is not stored.
            IllegalStateChangeError: it is not in ERROR.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.reset_trigger_from_error(key))

    async def skip_next(self, key: TriggerRef, count: int = 1) -> datetime | None:
        """Skip the next `count` fires of a trigger, and return its next fire time after them.

        The schedule does not change: a trigger with a repeat count loses these fires. A fire that is overdue counts
        as the next one. An execution that has started continues, and a paused trigger stays paused. If no fire is left,
        the result is None, and the trigger becomes COMPLETE: it stays stored with its job, and listeners get
        `TriggerFinalized`.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
            InvalidValueError: `count` is no number from 1 to 10,000.
            IllegalStateChangeError: the trigger fired at each of several tries, so that nothing was skipped.
        """
        return await self._run(lambda behind: behind.skip_next(key, count))

    async def skip_until(self, key: TriggerRef, instant: datetime) -> datetime | None:
        """Skip all fires of a trigger before `instant`, and return its next fire time, at `instant` or later.

        Nothing changes where the next fire time is not before `instant`. All else is as in `skip_next`.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
            InvalidValueError: `instant` is no datetime with a time zone.
        """
        return await self._run(lambda behind: behind.skip_until(key, instant))


_QueryMethodsT = TypeVar("_QueryMethodsT", bound=QueryMethods)


class AsyncQueryMethods(AsyncMethods[_QueryMethodsT]):
    """The methods of `QueryMethods`, each of them awaitable."""

    async def get_job_detail(self, key: JobKey) -> JobDetail | None:
        """Return a stored job, or None if it is not stored."""
        return await self._run(lambda behind: behind.get_job_detail(key))

    async def get_trigger(self, key: TriggerKey) -> Trigger | None:
        """Return a stored trigger, or None if it is not stored."""
        return await self._run(lambda behind: behind.get_trigger(key))

    async def trigger_record(self, key: TriggerKey) -> TriggerRecord | None:
        """Return a trigger with its state and its fire times, or None if it is not stored."""
        return await self._run(lambda behind: behind.trigger_record(key))

    async def why(self, key: TriggerKey | JobKey) -> list[str]:
        """Explain why a trigger has not fired, or when it will fire; of a job, which others it waits for.

        The sentences cover its state, pauses and limits that hold it, the nodes that can run it and their free
        workers, running executions of its job, and its last execution or misfire. A trigger that has ended is
        explained from its history.

        Raises:
            TriggerNotFoundError: the trigger is not stored, and the history has no execution of it.
            JobNotFoundError: the job is not stored.
        """
        return await self._run(lambda behind: behind.why(key))

    async def triggers_of_job(self, key: JobKey) -> list[Trigger]:
        """Return the triggers of a job, sorted by key."""
        return await self._run(lambda behind: behind.triggers_of_job(key))

    async def trigger_state(self, key: TriggerKey) -> PublicState:
        """Return the state of a trigger in Quartz's terms; NONE if it is not stored."""
        return await self._run(lambda behind: behind.trigger_state(key))

    async def job_group_names(self) -> list[str]:
        """Return the groups that have jobs, sorted."""
        return await self._run(lambda behind: behind.job_group_names())

    async def trigger_group_names(self) -> list[str]:
        """Return the groups that have triggers, sorted."""
        return await self._run(lambda behind: behind.trigger_group_names())

    async def paused_trigger_groups(self) -> set[str]:
        """Return the trigger groups that are paused."""
        return await self._run(lambda behind: behind.paused_trigger_groups())

    async def paused_job_groups(self) -> set[str]:
        """Return the job groups that are paused."""
        return await self._run(lambda behind: behind.paused_job_groups())

    async def is_all_paused(self) -> bool:
        """Return True while `pause_all` is in force; triggers that are stored later are paused as well."""
        return await self._run(lambda behind: behind.is_all_paused)

    async def job_keys(self, group: str | GroupMatcher | None = None) -> set[JobKey]:
        """Return the keys of the jobs whose group matches; None matches all groups."""
        return await self._run(lambda behind: behind.job_keys(group))

    async def trigger_keys(self, group: str | GroupMatcher | None = None) -> set[TriggerKey]:
        """Return the keys of the triggers whose group matches; None matches all groups."""
        return await self._run(lambda behind: behind.trigger_keys(group))

    async def check_exists(self, key: JobKey | TriggerKey) -> bool:
        """Return True if the job or trigger is stored."""
        return await self._run(lambda behind: behind.check_exists(key))

    def jobs(
        self,
        *,
        group: str | GroupMatcher | None = None,
        contains: str | None = None,
        job_type: str | None = None,
        mode: str | None = None,
    ) -> AsyncQuery[JobRecord]:
        """Query the stored jobs, by group and name. Without a filter the query selects all.

        Args:
            group: a group, or a matcher of groups.
            contains: a part of the name; upper and lower case differ.
            job_type: the type of the job, as it is registered.
            mode: "ENABLED", "MANUAL" or "DISABLED"; see `JobMode`.

        Raises:
            InvalidValueError: a filter has a value that it cannot have.
        """
        return AsyncQuery(
            self, lambda behind: behind.jobs(group=group, contains=contains, job_type=job_type, mode=mode)
        )

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
    ) -> AsyncQuery[TriggerRecord]:
        """Query the stored triggers. Without a filter the query selects all.

        Args:
            job: the key of the job that they fire.
            group: a trigger group, or a matcher of groups.
            contains: a part of the name; upper and lower case differ.
            state: one or several states, of `TriggerState` ("WAITING", "ERROR", ...) or of `PublicState` ("NORMAL").
                "PAUSED" includes "PAUSED_BLOCKED".
            calendar: the name of a calendar that they use.
            job_type: the type of the job, as it is registered.
            kind: the type of the trigger: "simple", "cron", ...; see `TriggerRecord.kind`.
            since: the earliest next fire time.
            until: the next fire time is before this instant.
            by_schedule: leave out the triggers that fire once, and those of runs by hand, of retries, of recoveries and
                of continuations.
            order_by: "key" (by group and name) or "next_fire_time" (the soonest first, then by priority; a trigger that
                fires in the meantime may come twice).

        Raises:
            InvalidValueError: a filter has a value that it cannot have.
        """
        return AsyncQuery(
            self,
            lambda behind: behind.triggers(
                job=job,
                group=group,
                contains=contains,
                state=state,
                calendar=calendar,
                job_type=job_type,
                kind=kind,
                since=since,
                until=until,
                by_schedule=by_schedule,
                order_by=order_by,
            ),
        )

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
    ) -> AsyncQuery[ExecutionRecord]:
        """Query the executions of the whole cluster, the latest first. Without `state`, the query selects the history.

        The latest is by end, else by fire, else by scheduled fire time. Executions that are SCHEDULED come after all
        others, the soonest first.

        Args:
            state: one or several states of `ExecutionState`; those of the history are the outcomes ("FAILED", ...).
            job: the key of the job.
            trigger: the key of the trigger that fired.
            group: the group of the job, or a matcher of groups.
            job_type: the type of the job, as it is registered.
            node: the instance id of the node that executed it.
            since: the earliest scheduled fire time.
            until: the scheduled fire time is before this instant.
            exhausted: only executions that FAILED and that no retry follows: their retry policy is exhausted, or they
                have none. `run_again` runs such an execution once more.
            error: only executions whose error has this text; upper and lower case differ.

        Raises:
            InvalidValueError: a filter has a value that it cannot have.
        """
        return AsyncQuery(
            self,
            lambda behind: behind.executions(
                state=state,
                job=job,
                trigger=trigger,
                group=group,
                job_type=job_type,
                node=node,
                since=since,
                until=until,
                exhausted=exhausted,
                error=error,
            ),
        )

    def misfires(
        self,
        *,
        trigger: TriggerRef | None = None,
        job: JobRef | None = None,
        action: str | None = None,
        node: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> AsyncQuery[MisfireRecord]:
        """Query the misfires that the cluster has handled, the latest first. Without a filter the query selects all.

        Args:
            trigger: the key of the trigger.
            job: the key of its job.
            action: the result of the misfire instruction: "FIRED_ONCE", "SKIPPED", ...; see `MisfireAction`.
            node: the instance id of the node that handled the misfire.
            since: the earliest scheduled fire time that was missed.
            until: the scheduled fire time that was missed is before this instant.

        Raises:
            InvalidValueError: a filter has a value that it cannot have.
        """
        return AsyncQuery(
            self,
            lambda behind: behind.misfires(
                trigger=trigger, job=job, action=action, node=node, since=since, until=until
            ),
        )

    def joins(self, *, job: JobRef | None = None, state: str | None = None) -> AsyncQuery[JoinRecord]:
        """Query what the jobs that run after several ends wait for, and the batches, the latest first.

        Args:
            job: the key of the job that runs when enough has ended.
            state: "WAITING", "FIRED" or "UNMET"; see `JoinState`.

        Raises:
            InvalidValueError: a filter has a value that it cannot have.
        """
        return AsyncQuery(self, lambda behind: behind.joins(job=job, state=state))

    async def outdated_jobs(self) -> list[OutdatedJob]:
        """Return where stored jobs differ from what the decorators of their classes declare in this release.

        A stored job keeps what its class declared when it was stored. Jobs of types that this process does not know,
        and rows that it cannot read, are left out.
        """
        return await self._run(lambda behind: behind.outdated_jobs())

    async def nodes(self) -> CheckIn:
        """Return the nodes of the cluster, and the store's time."""
        return await self._run(lambda behind: behind.nodes())

    async def running(self) -> list[RunningRecord]:
        """Return the running executions of the whole cluster."""
        return await self._run(lambda behind: behind.running())

    async def execution(self, fire_id: FireRef) -> ExecutionRecord | None:
        """Return one execution, whether running or in the history; None if the id is not known.

        Raises:
            InvalidValueError: no execution can have this id.
        """
        return await self._run(lambda behind: behind.execution(fire_id))

    async def execution_log(self, fire_id: FireRef) -> str | None:
        """Return the log lines of an execution; None if none were captured.

        A job with `capture_logs="INFO"` keeps the records that its executions log at this level and above, with any
        logger: `print(scheduler.execution_log(record))`. The lines are stored together with the outcome. Of more than
        `max_captured_log_bytes` the first and the last lines are kept. Of an execution that has been running for more
        than a second, the last lines can be read, at most 8 KiB; they are one or two seconds old. They also remain of
        an execution whose node died.

        Raises:
            ExecutionNotFoundError: the execution is not known, or no longer in the history.
            InvalidValueError: no execution can have this id.
        """
        return await self._run(lambda behind: behind.execution_log(fire_id))

    async def cluster_load(self) -> ClusterLoad:
        """Return the load of the cluster in a few numbers: triggers that are due or late, executions and nodes.

        The cost of the query does not grow with the number of jobs and triggers, so it may be repeated often.
        """
        return await self._run(lambda behind: behind.cluster_load())

    async def counts(self) -> dict[str, Any]:
        """Return the numbers of jobs, of triggers by state, and of running executions."""
        return await self._run(lambda behind: behind.counts())


_StoringMethodsT = TypeVar("_StoringMethodsT", bound=StoringMethods)


class AsyncStoringMethods(AsyncMethods[_StoringMethodsT]):
    """The methods of `StoringMethods`, each of them awaitable."""

    @argument_hints(SCHEDULING_ARGUMENTS)
    async def add_job(
        self, job: JobDetail, *, replace: bool = False, store_non_durable_while_awaiting_scheduling: bool = False
    ) -> None:
        """Store a job without a trigger. Storing the same again changes nothing.

        Raises:
            InvalidJobError: the job is not durable, so it would be deleted with its last trigger, and
                `store_non_durable_while_awaiting_scheduling` is false.
            ObjectAlreadyExistsError: a different job has its key, and `replace` is false.
            InvalidJobDataError: its data has names that its `data_type` does not have. Missing names are no error,
                because a trigger may provide them.
        """
        return await self._run(
            lambda behind: behind.add_job(
                job,
                replace=replace,
                store_non_durable_while_awaiting_scheduling=store_non_durable_while_awaiting_scheduling,
            )
        )

    async def modify_job(self, key: JobRef, **changes: Unpack[JobChanges]) -> JobDetail:
        """Change values of a stored job, named as in `JobDetail`; return the changed job.

        Its triggers and its other values do not change, even if another program changes them at the same time.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidJobError: a value is wrong, or a name is not that of a value that can be changed.
            InvalidJobDataError: as for `add_job`, if `data` or `job` is changed.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.modify_job(key, **changes))

    async def unschedule_job(self, key: TriggerRef, *, missing_ok: bool = False) -> bool:
        """Remove a trigger; remove its job as well if it has no other trigger and is not durable.

        Return True, or False if the trigger was not stored and `missing_ok` is true.

        Raises:
            TriggerNotFoundError: it is not stored, and `missing_ok` is false.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.unschedule_job(key, missing_ok=missing_ok))

    async def unschedule_jobs(self, keys: Collection[TriggerRef]) -> set[TriggerKey]:
        """Remove triggers, and jobs as `unschedule_job` does; return the keys of those that were stored."""
        return await self._run(lambda behind: behind.unschedule_jobs(keys))

    @argument_hints(RESCHEDULING_ARGUMENTS)
    async def reschedule_job(self, key: TriggerRef, trigger: TriggerLike) -> datetime:
        """Replace a stored trigger with a new one of the same job; return the new trigger's first fire time.

        The trigger takes the forms that `schedule_job` accepts. A trigger without a name takes the old one's key.

        Raises:
            TriggerNotFoundError: no trigger is stored under `key`; nothing is changed.
            InvalidKeyError: `key` is neither a key nor a name.
            Others as for `schedule_job`.
        """
        return await self._run(lambda behind: behind.reschedule_job(key, trigger))

    async def delete_job(self, key: JobRef, *, missing_ok: bool = False) -> bool:
        """Remove a job with all its triggers. Running executions continue.

        Return True, or False if the job was not stored and `missing_ok` is true.

        Raises:
            JobNotFoundError: it is not stored, and `missing_ok` is false.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.delete_job(key, missing_ok=missing_ok))

    async def delete_jobs(self, keys: Collection[JobRef]) -> set[JobKey]:
        """Remove jobs with all their triggers; return the keys of those that were stored."""
        return await self._run(lambda behind: behind.delete_jobs(keys))

    async def clear(self) -> None:
        """Remove all jobs, triggers, calendars and pauses of this scheduler. Running executions continue."""
        return await self._run(lambda behind: behind.clear())

    async def add_calendar(
        self, name: str, calendar: Calendar, *, replace: bool = False, update_triggers: bool = False
    ) -> None:
        """Store a calendar that triggers can refer to. Storing the same calendar again changes nothing.

        With `replace`, the calendar replaces one that is stored under the same name: triggers that use it keep their
        current next fire time, and follow the new calendar after that. With `update_triggers`, their next fire times
        are recomputed as well; paused, blocked and failed triggers keep their state. A trigger for which the new
        calendar leaves no fire time becomes COMPLETE, like a trigger whose schedule has ended: it remains stored with
        its job, listeners receive `TriggerFinalized`, and it fires again only after it has been rescheduled.

        Raises:
            ObjectAlreadyExistsError: a different calendar is stored under the name, and `replace` is false.
            InvalidCalendarError: `calendar` is not a calendar, or cannot be stored.
            ScheduleTooCostlyError: the next fire times of the triggers that use it take too many steps.
        """
        return await self._run(
            lambda behind: behind.add_calendar(name, calendar, replace=replace, update_triggers=update_triggers)
        )

    async def delete_calendar(self, name: str, *, missing_ok: bool = False) -> bool:
        """Remove a calendar. Return True if it was stored; False is possible only with `missing_ok`.

        Raises:
            CalendarNotFoundError: no calendar is stored under the name, and `missing_ok` is false.
            CalendarInUseError: triggers use it.
        """
        return await self._run(lambda behind: behind.delete_calendar(name, missing_ok=missing_ok))

    async def get_calendar(self, name: str) -> Calendar | None:
        """Return the calendar that is stored under the name, or None if there is none."""
        return await self._run(lambda behind: behind.get_calendar(name))

    async def calendar_names(self) -> list[str]:
        """Return the names of all stored calendars, sorted."""
        return await self._run(lambda behind: behind.calendar_names())

    async def set_limit(self, name: str, limit: Limit | int | str) -> None:
        """Set a limit that jobs share by its name (`JobDetail.limits`), in the whole cluster.

        It is a number of concurrent executions (5), a rate of fires ("10/minute"), or both ("5, 10/minute"). It holds
        at once, also where it replaces another one: what runs goes on, and what waits is decided anew.

        Raises:
            InvalidLimitError: the name or the limit is wrong.
        """
        return await self._run(lambda behind: behind.set_limit(name, limit))

    async def delete_limit(self, name: str, *, missing_ok: bool = False) -> bool:
        """Remove a limit. Return True if it was stored; False is possible only with `missing_ok`.

        Raises:
            LimitNotFoundError: no limit is stored under the name, and `missing_ok` is false.
            LimitInUseError: jobs share it.
        """
        return await self._run(lambda behind: behind.delete_limit(name, missing_ok=missing_ok))

    async def limits(self) -> dict[str, LimitRecord]:
        """Return the limits that jobs share, by their names, with the jobs that use them now."""
        return await self._run(lambda behind: behind.limits())

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
    ) -> SyncPlan:
        """Make the store match the declared jobs and calendars, all or nothing; return the plan.

        `calendars` are the declared calendars by name, and `windows` the maintenance windows; None leaves those
        alone. A declared window that is over is none. `apply=False` is a dry run, which
        raises the same errors.

        A trigger whose schedule did not change keeps its fire times, its misfires and its pause, even if other values
        of it or its job changed; one that has ended stays COMPLETE and does not fire again. If a calendar changes, the
        next fire times of the triggers that use it are recomputed. With `prune`, jobs, triggers and calendars that the
        same `owner` declared before and no longer declares are removed; those of other owners, and those that were
        stored directly, never are. With `existing="keep"`, what is stored already does not change: the first
        registration wins. Any number of nodes may call it at the same time.

        `version` is the version of the program: a number, or a text such as "2.10.1". It is stored with the owner; a
        program of an older version changes nothing, and the plan reports that (`SyncPlan.outdated_by`).

        `announce` is called with the plan before it is applied; without it the plan is logged.

        Raises:
            InvalidTriggerError: a key is declared twice. Others as in `schedule_job`; nothing is changed then.
            InvalidCalendarError: a calendar cannot be stored.
            CalendarNotFoundError: a declared trigger uses a calendar that is neither declared nor stored.
            JobNotFoundError: a job continues with, or runs after, one that is neither declared nor stored.
            ScheduleTooCostlyError: the first fire times of a trigger, or the next ones of those that use a changed
                calendar, take too many steps.
            CalendarInUseError: with `prune`, a calendar is no longer declared, but a trigger that stays uses it.
            InvalidValueError: `existing` is neither "update" nor "keep", or `version` is not a version.
        """
        return await self._run(
            lambda behind: behind.sync(
                definitions,
                owner=owner,
                calendars=calendars,
                windows=windows,
                prune=prune,
                existing=existing,
                version=version,
                apply=apply,
                announce=announce,
            )
        )


_TriggeringMethodsT = TypeVar("_TriggeringMethodsT", bound=TriggeringMethods)


class AsyncTriggeringMethods(AsyncStoringMethods[_TriggeringMethodsT], AsyncQueryMethods[_TriggeringMethodsT]):
    """The methods of `TriggeringMethods`, each of them awaitable."""

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
    ) -> AsyncTriggeredExecution:
        """Run a job now, or after `delay`, by a separate trigger that carries `data`; return a handle to wait for it.

        That trigger is in the group MANUAL_TRIGGERS, so pauses of triggers and of other groups do not affect it. Under
        `pause_all`, or a pause of the job's group or of MANUAL_TRIGGERS, it would wait until the pause ends; therefore
        the call is refused, unless `even_if_paused` permits the wait. `data` may be a value of the job's `data_type`,
        or of the type that a function's parameter is annotated with, if the job's class is known in this process.

        With a `debounce_key`, at most one call for this job and this key waits for its fire, in the whole cluster. A
        later call replaces the waiting one, with its own data and `delay`. With `keep_waiting`, the waiting call stays,
        and the later call returns a handle for it. An execution that has started no longer waits. The handle refers to
        the latest execution for the key since the call.

        `by` names who asked for the run. The history, the web page and the command line show it with the execution, its
        retries and its recoveries. What operators run has their names.

        Raises:
            JobNotFoundError: the job is not stored.
            IllegalStateChangeError: the job is disabled, or a pause would delay the fire.
            InvalidJobDataError: as in `schedule_job`.
            InvalidKeyError: `key` is neither a key nor a name, or `debounce_key` is not a text.
            InvalidValueError: `keep_waiting` is given without a `debounce_key`.
            InvalidKeyError: `by` is no text, or too long.
        """
        result = await self._run(
            lambda behind: behind.trigger_job(
                key,
                data,
                delay=delay,
                even_if_paused=even_if_paused,
                debounce_key=debounce_key,
                keep_waiting=keep_waiting,
                by=by,
            )
        )
        return AsyncTriggeredExecution._of(self, result)

    async def run_again(
        self, fire_id: FireRef, *, delay: Span | None = None, even_if_paused: bool = False, by: str | None = None
    ) -> AsyncTriggeredExecution:
        """Run the job of an execution again, now or after `delay`, with the trigger data of that execution.

        The new execution is a first attempt by a separate trigger, as for `trigger_job`, with the job's own data as it
        is stored now. `context.nominal_fire_time` and `execution_key` are those of the original execution. `by` names
        who asked for it, as in `trigger_job`.

        Raises:
            ExecutionNotFoundError: no such execution is known.
            IllegalStateChangeError: the execution has not ended, the job is disabled, or a pause would delay the fire.
            JobNotFoundError: the job is no longer stored.
            InvalidJobDataError: as in `trigger_job`; or the data cannot be read in this process.
            InvalidValueError: `fire_id` cannot be the id of an execution.
        """
        result = await self._run(
            lambda behind: behind.run_again(fire_id, delay=delay, even_if_paused=even_if_paused, by=by)
        )
        return AsyncTriggeredExecution._of(self, result)

    async def backfill_times(
        self, key: TriggerRef, since: datetime, until: datetime, *, max_runs: int = 1000
    ) -> list[datetime]:
        """Return the instants that `backfill` would run a job for, and run nothing.

        They are the fire times of the trigger from `since` until before `until`, without those that its calendar
        excludes. A cron trigger is followed also before its start time; the schedule of any other begins there.

        Raises:
            TriggerNotFoundError: the trigger is not stored.
            InvalidValueError: `since` or `until` is no datetime with a time zone, `until` is not after `since`, or
                there are more than `max_runs` instants.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.backfill_times(key, since, until, max_runs=max_runs))

    async def backfill(
        self,
        key: TriggerRef,
        since: datetime,
        until: datetime,
        *,
        max_runs: int = 1000,
        even_if_paused: bool = False,
        by: str | None = None,
    ) -> list[AsyncTriggeredExecution]:
        """Run the job of a trigger once for each instant of `backfill_times`; return the handles, in that order.

        All runs are stored at once, or none is, as triggers in the group MANUAL_TRIGGERS that are due now and carry the
        trigger's data. They start in the order of their instants and run as many at a time as the job's
        `max_concurrent` allows; with an `overlap_policy` that skips or coalesces, fires beyond that limit get no run.
        `context.nominal_fire_time` is the instant. `context.execution_key` is that of the original fire at the instant,
        so that the job can find out if it did this work before. The trigger itself does not change. Instants at which
        it fired before are run again, so choose a span without them. The runs have the lowest priority. `by` names who
        asked for them, as in `trigger_job`.

        Raises:
            IllegalStateChangeError: the job is disabled, or a pause would hold the fires and `even_if_paused` is false.
            Others as `backfill_times` and `trigger_job`.
        """
        result = await self._run(
            lambda behind: behind.backfill(key, since, until, max_runs=max_runs, even_if_paused=even_if_paused, by=by)
        )
        return [AsyncTriggeredExecution._of(self, item) for item in result]


_SchedulingMethodsT = TypeVar("_SchedulingMethodsT", bound=SchedulingMethods)


class AsyncSchedulingMethods(AsyncTriggeringMethods[_SchedulingMethodsT], AsyncPausingMethods[_SchedulingMethodsT]):
    """The methods of `SchedulingMethods`, each of them awaitable."""

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
    ) -> AsyncScheduledJob:
        """Store a job with its triggers, all or none; return a handle of the job.

            scheduler.schedule_job(report, "0 0 2 * * ?", data={"region": "eu"})

        `job` is a `Job` subclass, a function, a coroutine function, a `@job` function, or a `JobDetail`. `name`,
        `group`, `data` and the options of `JobDetail` are for all but the last; without a name, the job takes the name
        of the class or function. Items of a function's `data` that are named like its parameters are passed to it.

        `triggers` are one or several of: a `Trigger`; a cron text, in Quartz's syntax if it has six or seven fields,
        and in crontab's if it has five or is a word like `@daily`; an interval as a timedelta; an instant as an
        aware datetime. A trigger without a name takes the job's name and group; further ones are `name-2`, `name-3`.
        Without a trigger, a class or a function is stored as a durable job, to be run by `trigger_job`.

        Storing the same again changes nothing, so a program may do it at each start, on any number of nodes. With
        `replace`, differing values are replaced. A trigger whose schedule did not change keeps its fire times, its
        misfires and its pause; a job that persists its data keeps that data. Other triggers of the job do not change.

        Raises:
            ObjectAlreadyExistsError: something different is stored under a key, and `replace` is false.
            TriggerNeverFiresError: a trigger has no fire time.
            CalendarNotFoundError: a trigger names a calendar that is not stored.
            InvalidJobError, InvalidJobTypeError: `job` is not a job, or other nodes could not import it.
            InvalidTriggerError: a trigger cannot be read, or names another job.
            InvalidJobDataError: the job's data, with a trigger's over it, is not valid for the job's `data_type`.
        """
        result = await self._run(
            lambda behind: behind.schedule_job(
                job, triggers, name=name, group=group, data=data, replace=replace, **options
            )
        )
        return AsyncScheduledJob._of(self, result)

    async def schedule_jobs(
        self,
        jobs: Mapping[Any, Iterable[TriggerLike]] | Iterable[tuple[JobLike, Iterable[TriggerLike]]],
        *,
        replace: bool = False,
        batch: Batch | None = None,
    ) -> list[AsyncScheduledJob]:
        """Store many jobs with their triggers, all or none; return their handles. Errors as for `schedule_job`.

        `batch` names a job that runs when the executions of all these triggers have ended; see `Batch`.
        """
        result = await self._run(lambda behind: behind.schedule_jobs(jobs, replace=replace, batch=batch))
        return [AsyncScheduledJob._of(self, item) for item in result]

    async def schedule(
        self, triggers: Trigger | Iterable[Trigger], *, replace: bool = False, batch: Batch | None = None
    ) -> datetime:
        """Store triggers for jobs that are stored already; return the earliest fire time. Each needs its `job_key`.

        `batch` names a job that runs when the executions of all of them have ended; see `Batch`.

        The merged data of job and trigger is not validated here, but when the job runs.

        Raises:
            JobNotFoundError: the job of a trigger is not stored. Others as for `schedule_job`.
        """
        return await self._run(lambda behind: behind.schedule(triggers, replace=replace, batch=batch))

    async def job(self, key: JobRef) -> AsyncScheduledJob:
        """Return a handle of a stored job.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        result = await self._run(lambda behind: behind.job(key))
        return AsyncScheduledJob._of(self, result)


_BaseSchedulerT = TypeVar("_BaseSchedulerT", bound=BaseScheduler)


class AsyncSchedulerMethods(AsyncSchedulingMethods[_BaseSchedulerT]):
    """The methods of `BaseScheduler`, each of them awaitable."""

    async def add_middleware(self, middleware: Middleware) -> None:
        """Surround the executions of this scheduler with one more middleware, outside of those that it has.

        Raises:
            SchedulerStateError: the scheduler was started.
        """
        return await self._run(lambda behind: behind.add_middleware(middleware))

    async def trace_with(self, current: CurrentTrace, *, within: Within | None = None) -> None:
        """Store the trace context that `current` returns with each trigger, for its executions.

        A process worker runs each job in `within(trace)`, where `trace` is the context of the execution in the node. It
        is a function that can be pickled.
        """
        return await self._run(lambda behind: behind.trace_with(current, within=within))

    @property
    def config(self) -> SchedulerConfig:
        """The settings of this scheduler."""
        return self._behind.config

    @property
    def instance_id(self) -> str | None:
        """The id of this node in the cluster. None before `start`."""
        return self._behind.instance_id

    @property
    def is_started(self) -> bool:
        """True after `start`, until the scheduler is shut down."""
        return self._behind.is_started

    @property
    def is_in_standby(self) -> bool:
        """True if this node claims no triggers because it is in standby or was not started."""
        return self._behind.is_in_standby

    @property
    def is_shut_down(self) -> bool:
        """True once `shutdown` was called."""
        return self._behind.is_shut_down

    async def standby(self) -> None:
        """Claim no more triggers on this node until `start` is called again.

        Running executions continue, and the node stays in the cluster.

        Raises:
            SchedulerStateError: the scheduler was not started, or was shut down.
        """
        return await self._run(lambda behind: behind.standby())

    async def shutdown(self, *, wait: bool = True, timeout: Span | None = None, interrupt: bool = False) -> bool:
        """Drain this node and leave the cluster. Return True if all its executions ended and were recorded.

        With `wait=True` it blocks until they have ended, or until `timeout` (seconds, or a span such as "30s"; None:
        without a limit) has passed; executions that are still running then are asked to stop, and other nodes recover
        them. With `interrupt=True` executions are asked to stop immediately (`context.cancelled`, as by `cancel`). An
        immediate refire that a job asks for meanwhile happens on another node. With `wait=False` the drain continues in
        the background. A later call can wait for it, interrupt executions or shorten the timeout. Until the drain is
        over, running jobs, and all other callers, may use the scheduler. A scheduler that was shut down cannot be
        started again.

        Raises:
            SchedulerStateError: a job of this scheduler called it with `wait=True`; it would wait for that job.
            SettingsError: `timeout` is not a span of time, or is negative. The scheduler is unchanged.
        """
        return await self._wait(lambda behind: behind.shutdown(wait=wait, timeout=timeout, interrupt=interrupt))

    async def wait_until_shut_down(self, timeout: Span | None = None) -> bool:
        """Block until `shutdown` is called, for at most `timeout`. Return whether it was called."""
        return await self._wait(lambda behind: behind.wait_until_shut_down(timeout))

    async def wait_until_recorded(self, executions: int, timeout: Span) -> bool:
        """Wait until this node has recorded at least `executions` executions. Return False on timeout."""
        return await self._wait(lambda behind: behind.wait_until_recorded(executions, timeout))

    def health(self) -> SchedulerHealth:
        """Return the health of this node: its threads, its lease and its database connection. It makes no round trip.

        A node whose state is FAILED needs a new process: `health().raise_if_failed()` raises an error then, and
        `quartzpy node` exits with status 75.
        """
        return self._behind.health()

    async def set_execution_groups(self, limits: Mapping[str, int]) -> None:
        """Replace the limits of execution groups on this node, as given by the setting `execution_groups`.

        Running executions continue, even if there are more of them than a new limit allows.

        Raises:
            SettingsError: a limit is not a whole number of 0 or more.
            SchedulerStateError: the scheduler was not started.
        """
        return await self._run(lambda behind: behind.set_execution_groups(limits))

    def currently_executing_jobs(self) -> list[JobExecutionContext]:
        """Return the contexts of the executions that run on this node. `running` lists those of all nodes."""
        return self._behind.currently_executing_jobs()

    async def interrupt(self, key: JobKey | str) -> bool:
        """Ask all executions of a job on this node to stop (`context.cancelled`). Return whether there were any.

        `cancel_job` does this in the whole cluster.

        Raises:
            InvalidKeyError: `key` is neither a JobKey nor a name.
            UnableToInterruptJobError: the scheduler was not started.
        """
        return await self._run(lambda behind: behind.interrupt(key))

    async def interrupt_execution(self, fire_id: FireRef) -> bool:
        """Ask one execution on this node to stop. Return whether it is running here.

        Raises:
            InvalidValueError: `fire_id` is not a valid fire id.
            UnableToInterruptJobError: the scheduler was not started.
        """
        return await self._run(lambda behind: behind.interrupt_execution(fire_id))

    async def cancel(self, fire_id: FireRef) -> bool:
        """Ask an execution to stop, on any node of the cluster. Return whether it was still running.

        The job sees `context.cancelled`. An `async def` job that does not end by itself is cancelled at its next
        `await`. An execution that stops because of this is recorded as CANCELLED and is not retried. If this returns
        True, the execution does not run again by a retry, a snooze or a recovery, however it ends; and if its job has
        not begun, it does not begin.

        Raises:
            InvalidValueError: `fire_id` is not a valid fire id.
            ExecutionNotFoundError: neither a running execution nor one in the history has this id.
        """
        return await self._run(lambda behind: behind.cancel(fire_id))

    async def cancel_job(self, key: JobKey | str) -> set[int]:
        """Ask all running executions of a job to stop, on all nodes of the cluster. Return their fire ids.

        Each is stopped as by `cancel`. Later fires of the job's triggers are not affected.

        Raises:
            InvalidKeyError: `key` is neither a JobKey nor a name.
            JobNotFoundError: the job is not stored, and no execution of it is running.
        """
        return await self._run(lambda behind: behind.cancel_job(key))

    @property
    def metadata(self) -> SchedulerMetadata:
        """Return the name, state and counts of this scheduler. It makes no round trip to the database."""
        return self._behind.metadata
