"""The awaitable verbs of a scheduler and of a transaction.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from quartzpy.aio.calls import AsyncFacade
from quartzpy.aio.handles import AsyncScheduledJob, AsyncTriggeredExecution
from quartzpy.aio.queries import AsyncQuery
from quartzpy.calendars.calendar import Calendar
from quartzpy.definitions import JobForm, TriggerForm
from quartzpy.instants import Span
from quartzpy.job import JobDetail, JobTypes
from quartzpy.keys import DEFAULT_GROUP, JobKey, JobRef, TriggerKey, TriggerRef
from quartzpy.matchers import GroupMatcher
from quartzpy.outdated import OutdatedJob
from quartzpy.states import ENDED, JobMode, Missed, PublicState
from quartzpy.store.protocol import CheckIn
from quartzpy.store.queries import TriggerOrder
from quartzpy.store.records import ExecutionRecord, JobRecord, MisfireRecord, RunningRecord, TriggerRecord
from quartzpy.sync import Existing, SyncPlan
from quartzpy.triggers.trigger import Trigger
from quartzpy.verbs.looking import FireRef
from quartzpy.verbs.scheduling import SchedulingVerbs

_SchedulingVerbsT = TypeVar("_SchedulingVerbsT", bound=SchedulingVerbs)


class AsyncSchedulingVerbs(AsyncFacade[_SchedulingVerbsT]):
    """The methods of `SchedulingVerbs`, each of them awaitable."""

    @property
    def name(self) -> str:
        """The name of the scheduler; all nodes with this name on one database are one cluster."""
        return self._behind.name

    async def job_types(self) -> JobTypes:
        """The registry of job types that this scheduler asks."""
        return await self._run(lambda behind: behind.job_types)

    async def pause_trigger(self, key: TriggerRef) -> None:
        """Pause a trigger: it does not fire until it is resumed.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.pause_trigger(key))

    async def resume_trigger(self, key: TriggerRef, *, missed: str = Missed.MISFIRE) -> None:
        """Resume a trigger; `missed` decides what becomes of the fires that it missed (see `Missed`).

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.resume_trigger(key, missed=missed))

    async def pause_job(self, key: JobRef) -> None:
        """Pause all triggers that a job has now.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.pause_job(key))

    async def resume_job(self, key: JobRef, *, missed: str = Missed.MISFIRE) -> None:
        """Resume all triggers of a job; `missed` as in `resume_trigger`.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.resume_job(key, missed=missed))

    async def pause_trigger_group(self, group: str | GroupMatcher) -> set[str]:
        """Pause groups of triggers, including triggers that are stored later; return the groups.

        A group that is given by its name is paused even if it has no trigger yet.
        """
        return await self._run(lambda behind: behind.pause_trigger_group(group))

    async def resume_trigger_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> set[str]:
        """Resume groups of triggers, and those that are stored later; return the groups. `missed`: `resume_trigger`."""
        return await self._run(lambda behind: behind.resume_trigger_group(group, missed=missed))

    async def pause_job_group(self, group: str | GroupMatcher) -> set[str]:
        """Pause all triggers of the jobs of groups, including those that are stored later; return the groups."""
        return await self._run(lambda behind: behind.pause_job_group(group))

    async def resume_job_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> set[str]:
        """Resume all triggers of the jobs of groups; return the groups. `missed` as in `resume_trigger`."""
        return await self._run(lambda behind: behind.resume_job_group(group, missed=missed))

    async def pause_all(self) -> set[str]:
        """Pause everything, including what is stored later, until `resume_all`; return the groups of triggers."""
        return await self._run(lambda behind: behind.pause_all())

    async def resume_all(self, *, missed: str = Missed.MISFIRE) -> set[str]:
        """End `pause_all` and every pause of a group, a trigger or a job; return the groups of triggers.

        `missed` as in `resume_trigger`.
        """
        return await self._run(lambda behind: behind.resume_all(missed=missed))

    async def disable_job(self, key: JobRef) -> None:
        """Let no trigger of a job fire, now or stored later, and refuse `trigger_job`, until `enable_job`.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.disable_job(key))

    async def enable_job(self, key: JobRef, *, missed: str = Missed.SKIP) -> None:
        """End `disable_job` or `run_job_by_hand_only`. Triggers that were paused otherwise stay paused.

        Fires that were missed meanwhile are skipped, unless `missed` says otherwise (see `Missed`).

        Raises:
            JobNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.enable_job(key, missed=missed))

    async def run_job_by_hand_only(self, key: JobRef) -> None:
        """Let a job run by `trigger_job`, retries and recoveries only, until `enable_job`: manual mode of one job.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.run_job_by_hand_only(key))

    async def job_mode(self, key: JobRef) -> JobMode | None:
        """Return ENABLED, MANUAL or DISABLED; None where the job is not stored."""
        return await self._run(lambda behind: behind.job_mode(key))

    async def enter_manual_mode(self) -> None:
        """Let nothing fire by its schedule in the whole cluster; `trigger_job` still works.

        `resume_all` does not end it; `leave_manual_mode` does.
        """
        return await self._run(lambda behind: behind.enter_manual_mode())

    async def leave_manual_mode(self, *, missed: str = Missed.SKIP) -> None:
        """End manual mode. Triggers that were paused otherwise stay paused; `missed` as in `enable_job`."""
        return await self._run(lambda behind: behind.leave_manual_mode(missed=missed))

    async def is_in_manual_mode(self) -> bool:
        """Return whether the cluster is in manual mode."""
        return await self._run(lambda behind: behind.is_in_manual_mode)

    async def reset_trigger_from_error(self, key: TriggerRef) -> None:
        """Let a trigger in ERROR fire again.

        Raises:
            TriggerNotFoundError: it is not stored.
            IllegalStateChangeError: it is not in ERROR.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.reset_trigger_from_error(key))

    async def add_calendar(
        self, name: str, calendar: Calendar, *, replace: bool = False, update_triggers: bool = False
    ) -> None:
        """Store a calendar for triggers to name. Storing the same calendar again changes nothing.

        With `replace`, a calendar that is stored under the name is replaced: triggers that name it keep the next fire
        time that they have, and follow the new calendar after it. With `update_triggers` that next fire time is
        computed anew as well; paused, blocked and failed triggers stay so. A trigger that the new calendar leaves no
        fire time becomes COMPLETE, as a trigger does whose schedule has ended: it stays stored with its job, listeners
        get `TriggerFinalized`, and it fires again only after it has been rescheduled.

        Raises:
            ObjectAlreadyExistsError: another calendar is stored under the name, and `replace` is false.
            InvalidCalendarError: `calendar` is no calendar that can be stored.
        """
        return await self._run(
            lambda behind: behind.add_calendar(name, calendar, replace=replace, update_triggers=update_triggers)
        )

    async def delete_calendar(self, name: str, *, missing_ok: bool = False) -> bool:
        """Remove a calendar. Return whether it was stored, which is always true without `missing_ok`.

        Raises:
            CalendarNotFoundError: no calendar is stored under the name, and `missing_ok` is false.
            CalendarInUseError: triggers name it.
        """
        return await self._run(lambda behind: behind.delete_calendar(name, missing_ok=missing_ok))

    async def get_calendar(self, name: str) -> Calendar | None:
        """Return the calendar that is stored under the name, or None where there is none."""
        return await self._run(lambda behind: behind.get_calendar(name))

    async def calendar_names(self) -> list[str]:
        """Return the names of all stored calendars, sorted."""
        return await self._run(lambda behind: behind.calendar_names())

    async def get_job_detail(self, key: JobKey) -> JobDetail | None:
        """Return a stored job, or None where it is not stored."""
        return await self._run(lambda behind: behind.get_job_detail(key))

    async def get_trigger(self, key: TriggerKey) -> Trigger | None:
        """Return a stored trigger, or None where it is not stored."""
        return await self._run(lambda behind: behind.get_trigger(key))

    async def trigger_record(self, key: TriggerKey) -> TriggerRecord | None:
        """Return a trigger with its state and its fire times, or None where it is not stored."""
        return await self._run(lambda behind: behind.trigger_record(key))

    async def why(self, key: TriggerKey) -> list[str]:
        """Explain why a trigger has not fired, or when it will fire.

        The sentences cover its state, what pauses or limits it, whether a node can run it and has a free worker, what
        runs of its job, and what happened last. A trigger that has ended is explained by its history.

        Raises:
            TriggerNotFoundError: the trigger is not stored, and the history does not know it either.
        """
        return await self._run(lambda behind: behind.why(key))

    async def triggers_of_job(self, key: JobKey) -> list[Trigger]:
        """Return the triggers of a job, by key."""
        return await self._run(lambda behind: behind.triggers_of_job(key))

    async def trigger_state(self, key: TriggerKey) -> PublicState:
        """Return the state of a trigger in Quartz's terms; NONE where it is not stored."""
        return await self._run(lambda behind: behind.trigger_state(key))

    async def job_group_names(self) -> list[str]:
        """Return the groups that have jobs, in order."""
        return await self._run(lambda behind: behind.job_group_names())

    async def trigger_group_names(self) -> list[str]:
        """Return the groups that have triggers, in order."""
        return await self._run(lambda behind: behind.trigger_group_names())

    async def paused_trigger_groups(self) -> set[str]:
        """Return the trigger groups that are paused."""
        return await self._run(lambda behind: behind.paused_trigger_groups())

    async def paused_job_groups(self) -> set[str]:
        """Return the job groups that are paused."""
        return await self._run(lambda behind: behind.paused_job_groups())

    async def is_all_paused(self) -> bool:
        """True while `pause_all` is in force, also for triggers that are stored later."""
        return await self._run(lambda behind: behind.is_all_paused)

    async def job_keys(self, group: str | GroupMatcher | None = None) -> set[JobKey]:
        """Return the keys of the jobs whose group matches; None matches all groups."""
        return await self._run(lambda behind: behind.job_keys(group))

    async def trigger_keys(self, group: str | GroupMatcher | None = None) -> set[TriggerKey]:
        """Return the keys of the triggers whose group matches; None matches all groups."""
        return await self._run(lambda behind: behind.trigger_keys(group))

    async def check_exists(self, key: JobKey | TriggerKey) -> bool:
        """Return whether a job or a trigger is stored."""
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
        job: JobKey | None = None,
        group: str | GroupMatcher | None = None,
        contains: str | None = None,
        state: str | Collection[str] | None = None,
        calendar: str | None = None,
        job_type: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
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
            order_by: "key" (by group and name; each page is one walk along an index) or "next_fire_time" (the soonest
                first, then by priority; each page reads all that match, and a trigger that fires in the meantime may
                come twice).

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
                order_by=order_by,
            ),
        )

    def executions(
        self,
        *,
        state: str | Collection[str] = ENDED,
        job: JobKey | None = None,
        trigger: TriggerKey | None = None,
        group: str | GroupMatcher | None = None,
        job_type: str | None = None,
        node: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        exhausted: bool = False,
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
            ),
        )

    def misfires(
        self,
        *,
        trigger: TriggerKey | None = None,
        job: JobKey | None = None,
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
        """Return the claims and the running executions of the whole cluster."""
        return await self._run(lambda behind: behind.running())

    async def execution(self, fire_id: FireRef) -> ExecutionRecord | None:
        """Return one execution, whether claimed, running or in the history; None where the id is not known.

        Raises:
            InvalidValueError: no execution can have this id.
        """
        return await self._run(lambda behind: behind.execution(fire_id))

    async def counts(self) -> dict[str, Any]:
        """Return the numbers of jobs, of triggers by state, and of running executions."""
        return await self._run(lambda behind: behind.counts())

    async def add_job(
        self, job: JobDetail, *, replace: bool = False, store_non_durable_while_awaiting_scheduling: bool = False
    ) -> None:
        """Store a job without a trigger. Storing the same again changes nothing.

        Raises:
            InvalidJobError: it is not durable (it would go with its last trigger), and the flag does not say that
                a trigger will follow.
            ObjectAlreadyExistsError: a different job has its key and `replace` is false.
            InvalidJobDataError: its data has names that its `data_type` does not have. What is missing, a trigger may
                bring.
        """
        return await self._run(
            lambda behind: behind.add_job(
                job,
                replace=replace,
                store_non_durable_while_awaiting_scheduling=store_non_durable_while_awaiting_scheduling,
            )
        )

    async def sync(
        self,
        definitions: Iterable[tuple[JobForm, Trigger | str | timedelta | datetime | Iterable[Any] | None]],
        *,
        owner: str,
        prune: bool = False,
        existing: str = Existing.UPDATE,
        version: int | float | str | None = None,
        apply: bool = True,
        announce: Callable[[SyncPlan], None] | None = None,
    ) -> SyncPlan:
        """Make the store hold what is declared, all or nothing; return what was done, or would be with `apply=False`.

        A trigger whose schedule did not change keeps its fire times, its misfires and its pause, whatever else changed
        of it or its job; one that has ended stays COMPLETE and does not fire again. With `prune`, what the same `owner`
        declared before and no longer does is removed; what other owners declared, or was scheduled by hand, never is.
        With `existing="keep"`, jobs and triggers that are stored already stay as they are: the first registration wins.
        Any number of nodes may call it at once.

        `version` is the version of the program: a number, or a text such as "2.10.1". It is stored with the owner; a
        program of an older version changes nothing, and the plan says so (`SyncPlan.outdated_by`).

        `announce` is told the plan before it is carried out; without it the plan is logged.

        Raises:
            InvalidTriggerError: a key is declared twice. Others as in `schedule_job`; nothing is changed then.
            InvalidValueError: `existing` is neither "update" nor "keep", or `version` is no version.
        """
        return await self._run(
            lambda behind: behind.sync(
                definitions,
                owner=owner,
                prune=prune,
                existing=existing,
                version=version,
                apply=apply,
                announce=announce,
            )
        )

    async def trigger_job(
        self,
        key: JobRef,
        data: Mapping[str, Any] | Any | None = None,
        *,
        delay: Span | None = None,
        even_if_paused: bool = False,
    ) -> AsyncTriggeredExecution:
        """Run a job now, or after `delay`, by a trigger of its own that carries `data`; return a handle to wait for it.

        That trigger is in the group MANUAL_TRIGGERS: pauses of triggers and of other groups do not hold it. Under
        `pause_all`, or a pause of the job's group or of MANUAL_TRIGGERS, it would wait until that ends: the call is
        refused, unless `even_if_paused` says that it may wait. `data` may be a value of the job's `data_type`, where
        its class is known in this process.

        Raises:
            JobNotFoundError: the job is not stored.
            IllegalStateChangeError: it is disabled, or a pause would hold the fire.
            InvalidJobDataError: as in `schedule_job`.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        found = await self._run(
            lambda behind: behind.trigger_job(key, data, delay=delay, even_if_paused=even_if_paused)
        )
        return AsyncTriggeredExecution._of(self, found)

    async def run_again(
        self, fire_id: FireRef, *, delay: Span | None = None, even_if_paused: bool = False
    ) -> AsyncTriggeredExecution:
        """Run the job of an execution again, now or after `delay`, with the data that its trigger brought.

        It is a first attempt by a trigger of its own, as by `trigger_job`. The job's own data is what is stored now.
        `context.nominal_fire_time` and `execution_key` are those of the execution that is repeated.

        Raises:
            ExecutionNotFoundError: no such execution is known.
            IllegalStateChangeError: it has not ended, the job is disabled, or a pause would hold the fire.
            JobNotFoundError: the job is no longer stored.
            InvalidJobDataError: as in `trigger_job`; or the data cannot be read in this process.
            InvalidValueError: `fire_id` cannot be the id of an execution.
        """
        found = await self._run(lambda behind: behind.run_again(fire_id, delay=delay, even_if_paused=even_if_paused))
        return AsyncTriggeredExecution._of(self, found)

    async def schedule_job(
        self,
        job: JobForm,
        triggers: TriggerForm | Iterable[TriggerForm] | None = None,
        *,
        name: str | None = None,
        group: str = DEFAULT_GROUP,
        data: Mapping[str, Any] | Any | None = None,
        replace: bool = False,
        **options: Any,
    ) -> AsyncScheduledJob:
        """Store a job with its triggers, all or none; return a handle of the job.

            scheduler.schedule_job(report, "0 0 2 * * ?", data={"region": "eu"})

        `job` is a `Job` subclass, a function, a coroutine function, a `@job` function, or a `JobDetail`. `name`,
        `group`, `data` and the options of `JobDetail` are for the others; without a name, the class's or function's is
        taken. The items of a function's `data` that are named like its parameters are passed to it.

        `triggers` are one or several of: a `Trigger`; a cron text, in Quartz's syntax where it has six or seven fields,
        and in crontab's where it has five or is a word like `@daily`; an interval as a timedelta; an instant as an
        aware datetime. A trigger without a name takes the job's name and group; the next ones are `name-2`, `name-3`.
        Without any trigger, a class or a function is stored as a durable job, to be run by `trigger_job`.

        Storing the same again changes nothing, so a program may do it at each start, on any number of nodes. With
        `replace`, what differs is replaced. A trigger whose schedule did not change keeps its fire times, its misfires
        and its pause; a job that persists its data keeps that data. Triggers of the job that are not given stay.

        Raises:
            ObjectAlreadyExistsError: something different is stored under a key, and `replace` is false.
            TriggerNeverFiresError: a trigger has no fire time.
            CalendarNotFoundError: a trigger names a calendar that is not stored.
            InvalidJobError, InvalidJobTypeError: `job` is no job, or one that other nodes could not find.
            InvalidTriggerError: a trigger cannot be read, or names another job.
            InvalidJobDataError: the job's data, with a trigger's over it, makes no value of the job's `data_type`.
        """
        found = await self._run(
            lambda behind: behind.schedule_job(
                job, triggers, name=name, group=group, data=data, replace=replace, **options
            )
        )
        return AsyncScheduledJob._of(self, found)

    async def schedule_jobs(
        self,
        jobs: Mapping[Any, Iterable[TriggerForm]] | Iterable[tuple[JobForm, Iterable[TriggerForm]]],
        *,
        replace: bool = False,
    ) -> list[AsyncScheduledJob]:
        """Store many jobs with their triggers, all or none; return their handles. Errors as in `schedule_job`."""
        found = await self._run(lambda behind: behind.schedule_jobs(jobs, replace=replace))
        return [AsyncScheduledJob._of(self, one) for one in found]

    async def schedule(self, triggers: Trigger | Iterable[Trigger], *, replace: bool = False) -> datetime:
        """Store triggers for jobs that are stored already; return the soonest fire time. Each has its `job_key`.

        Whether the jobs' data with theirs over it is what the jobs take is not checked: it is seen when they run.

        Raises:
            JobNotFoundError: such a job is not stored. Others as in `schedule_job`.
        """
        return await self._run(lambda behind: behind.schedule(triggers, replace=replace))

    async def job(self, key: JobRef) -> AsyncScheduledJob:
        """Return a handle of a stored job.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        found = await self._run(lambda behind: behind.job(key))
        return AsyncScheduledJob._of(self, found)

    async def modify_job(self, key: JobRef, **changes: Any) -> JobDetail:
        """Replace values of a stored job, named as `JobDetail` names them; return the job as it is then.

        Its triggers stay. What is not named stays as it is stored, whoever changes it at the same time.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidJobError: a name that a job's values do not have, or its key; a wrong value.
            InvalidJobDataError: as in `add_job`, where `data` or `job` is changed.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.modify_job(key, **changes))

    async def unschedule_job(self, key: TriggerRef, *, missing_ok: bool = False) -> bool:
        """Remove a trigger, and its job where that has no other and is not durable.

        Returns True, or False where it was not stored and `missing_ok` is true.

        Raises:
            TriggerNotFoundError: it is not stored, and `missing_ok` is false.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.unschedule_job(key, missing_ok=missing_ok))

    async def unschedule_jobs(self, keys: Collection[TriggerRef]) -> set[TriggerKey]:
        """Remove triggers, and jobs as in `unschedule_job`; return the keys of those that were stored."""
        return await self._run(lambda behind: behind.unschedule_jobs(keys))

    async def reschedule_job(self, key: TriggerRef, trigger: TriggerForm) -> datetime:
        """Put a new trigger of the same job in the place of a stored one; return its first fire time.

        The trigger's forms are those of `schedule_job`. One without a name takes the name and group of the old one.

        Raises:
            TriggerNotFoundError: no trigger is stored under `key`; nothing is changed.
            InvalidKeyError: `key` is neither a key nor a name.
            Others as `schedule_job`.
        """
        return await self._run(lambda behind: behind.reschedule_job(key, trigger))

    async def delete_job(self, key: JobRef, *, missing_ok: bool = False) -> bool:
        """Remove a job with all its triggers. Executions that run go on.

        Returns True, or False where it was not stored and `missing_ok` is true.

        Raises:
            JobNotFoundError: it is not stored, and `missing_ok` is false.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        return await self._run(lambda behind: behind.delete_job(key, missing_ok=missing_ok))

    async def delete_jobs(self, keys: Collection[JobRef]) -> set[JobKey]:
        """Remove jobs with all their triggers; return the keys of those that were stored."""
        return await self._run(lambda behind: behind.delete_jobs(keys))

    async def clear(self) -> None:
        """Remove all jobs, triggers, calendars and pauses of this scheduler. Executions that run go on."""
        return await self._run(lambda behind: behind.clear())
