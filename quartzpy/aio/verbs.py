"""The awaitable verbs of a scheduler and of a transaction.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from quartzpy.aio.calls import AsyncFacade
from quartzpy.calendars.calendar import Calendar
from quartzpy.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import ENDED, JobMode, Missed, PublicState
from quartzpy.store.protocol import CheckIn
from quartzpy.store.records import ExecutionRecord, JobRecord, MisfireRecord, RunningRecord, TriggerRecord
from quartzpy.sync import SyncPlan
from quartzpy.triggers.trigger import Trigger
from quartzpy.verbs.looking import LIST_LIMIT
from quartzpy.verbs.scheduling import SchedulingVerbs

_SchedulingVerbsT = TypeVar("_SchedulingVerbsT", bound=SchedulingVerbs)


class AsyncSchedulingVerbs(AsyncFacade[_SchedulingVerbsT]):
    """The methods of `SchedulingVerbs`, each of them awaitable."""

    @property
    def name(self) -> str:
        return self._behind.name

    async def get_job_detail(self, key: JobKey) -> JobDetail | None:
        return await self._run(lambda behind: behind.get_job_detail(key))

    async def get_trigger(self, key: TriggerKey) -> Trigger | None:
        return await self._run(lambda behind: behind.get_trigger(key))

    async def trigger_record(self, key: TriggerKey) -> TriggerRecord | None:
        """A trigger with its state, its fire times and the next ones; None where it is not stored."""
        return await self._run(lambda behind: behind.trigger_record(key))

    async def why(self, key: TriggerKey) -> list[str]:
        """Why a trigger has not fired, or when it will, in sentences: state, pauses, limits, what runs, what failed.

        Raises:
            TriggerNotFoundError: it is not stored.
        """
        return await self._run(lambda behind: behind.why(key))

    async def triggers_of_job(self, key: JobKey) -> list[Trigger]:
        return await self._run(lambda behind: behind.triggers_of_job(key))

    async def trigger_state(self, key: TriggerKey) -> PublicState:
        """NONE where it is not stored."""
        return await self._run(lambda behind: behind.trigger_state(key))

    async def job_group_names(self) -> list[str]:
        return await self._run(lambda behind: behind.job_group_names())

    async def trigger_group_names(self) -> list[str]:
        return await self._run(lambda behind: behind.trigger_group_names())

    async def paused_trigger_groups(self) -> set[str]:
        return await self._run(lambda behind: behind.paused_trigger_groups())

    async def paused_job_groups(self) -> set[str]:
        return await self._run(lambda behind: behind.paused_job_groups())

    async def is_all_paused(self) -> bool:
        """Whether `pause_all` holds also for what comes later."""
        return await self._run(lambda behind: behind.is_all_paused)

    async def job_keys(self, group: str | GroupMatcher | None = None) -> set[JobKey]:
        """The keys of jobs whose group matches; None: all."""
        return await self._run(lambda behind: behind.job_keys(group))

    async def trigger_keys(self, group: str | GroupMatcher | None = None) -> set[TriggerKey]:
        """The keys of triggers whose group matches; None: all."""
        return await self._run(lambda behind: behind.trigger_keys(group))

    async def check_exists(self, key: JobKey | TriggerKey) -> bool:
        return await self._run(lambda behind: behind.check_exists(key))

    async def jobs(self, limit: int = LIST_LIMIT) -> list[JobRecord]:
        return await self._run(lambda behind: behind.jobs(limit))

    async def triggers(self, limit: int = LIST_LIMIT) -> list[TriggerRecord]:
        """By next fire time, those without one last."""
        return await self._run(lambda behind: behind.triggers(limit))

    async def nodes(self) -> CheckIn:
        """The nodes of the cluster, and the store's time."""
        return await self._run(lambda behind: behind.nodes())

    async def running(self) -> list[RunningRecord]:
        """What is claimed or runs, in the whole cluster."""
        return await self._run(lambda behind: behind.running())

    async def executions(
        self,
        limit: int = LIST_LIMIT,
        *,
        states: str | Collection[str] = ENDED,
        job_key: JobKey | None = None,
        trigger_key: TriggerKey | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[ExecutionRecord]:
        """At most `limit` executions in the whole cluster, the latest first; unless `states` says more, what ended.

        `states` are those of `ExecutionState`, or their names. `since` and `until` bound the scheduled instant: from
        the one on, before the other. The latest is by end, fire or scheduled instant, whichever came last; what is
        SCHEDULED comes after all others, the soonest first.

        Raises:
            InvalidValueError: a name is no state, or an instant has no time zone.
        """
        return await self._run(
            lambda behind: behind.executions(
                limit, states=states, job_key=job_key, trigger_key=trigger_key, since=since, until=until
            )
        )

    async def execution(self, fire_id: str) -> ExecutionRecord | None:
        """One execution: claimed, running or in the history; None where none of this id is known.

        Raises:
            InvalidValueError: no such id can be.
        """
        return await self._run(lambda behind: behind.execution(fire_id))

    async def misfires(self, limit: int = LIST_LIMIT, trigger_key: TriggerKey | None = None) -> list[MisfireRecord]:
        """The misfires that were handled, in the whole cluster or of one trigger, the latest first."""
        return await self._run(lambda behind: behind.misfires(limit, trigger_key))

    async def counts(self) -> dict[str, Any]:
        """How many jobs, triggers by state, and running executions there are."""
        return await self._run(lambda behind: behind.counts())

    async def pause_trigger(self, key: TriggerKey) -> None:
        """Let a trigger not fire until it is resumed. One that is not stored is passed over, as in Quartz."""
        return await self._run(lambda behind: behind.pause_trigger(key))

    async def resume_trigger(self, key: TriggerKey, *, missed: str = Missed.MISFIRE) -> None:
        """Let a trigger fire again; what becomes of the fires that it missed: see `Missed`.

        Raises:
            InvalidValueError: `missed` is none of these.
        """
        return await self._run(lambda behind: behind.resume_trigger(key, missed=missed))

    async def pause_job(self, key: JobKey) -> None:
        """Pause all present triggers of a job."""
        return await self._run(lambda behind: behind.pause_job(key))

    async def resume_job(self, key: JobKey, *, missed: str = Missed.MISFIRE) -> None:
        """As `resume_trigger`, for all triggers of a job."""
        return await self._run(lambda behind: behind.resume_job(key, missed=missed))

    async def pause_trigger_group(self, group: str | GroupMatcher) -> set[str]:
        """Pause groups of triggers, also for triggers that come later; the groups."""
        return await self._run(lambda behind: behind.pause_trigger_group(group))

    async def resume_trigger_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> None:
        """As `resume_trigger`, for groups, which are no longer paused for what comes later."""
        return await self._run(lambda behind: behind.resume_trigger_group(group, missed=missed))

    async def pause_job_group(self, group: str | GroupMatcher) -> set[str]:
        """Pause all triggers of the jobs of these groups, also those that come later; the groups."""
        return await self._run(lambda behind: behind.pause_job_group(group))

    async def resume_job_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> None:
        """As `resume_trigger_group`, for all triggers of the jobs of groups."""
        return await self._run(lambda behind: behind.resume_job_group(group, missed=missed))

    async def pause_all(self) -> None:
        """Pause everything, also what comes later, until `resume_all`."""
        return await self._run(lambda behind: behind.pause_all())

    async def resume_all(self, *, missed: str = Missed.MISFIRE) -> None:
        """End `pause_all` and every pause of a group, trigger or job; `missed` as in `resume_trigger`."""
        return await self._run(lambda behind: behind.resume_all(missed=missed))

    async def disable_job(self, key: JobKey) -> None:
        """Let no trigger of a job fire, present or later ones, nor `trigger_job`, until `enable_job`.

        Raises:
            JobNotFoundError: it is not stored.
        """
        return await self._run(lambda behind: behind.disable_job(key))

    async def enable_job(self, key: JobKey) -> None:
        """Let all triggers of a job fire again, also those that were paused one by one. Errors as in `disable_job`."""
        return await self._run(lambda behind: behind.enable_job(key))

    async def run_job_by_hand_only(self, key: JobKey) -> None:
        """Let a job run by `trigger_job` only (and by retries and recoveries), until `enable_job`: manual mode.

        Errors as in `disable_job`.
        """
        return await self._run(lambda behind: behind.run_job_by_hand_only(key))

    async def job_mode(self, key: JobKey) -> JobMode | None:
        """ENABLED, MANUAL or DISABLED; None where the job is not stored."""
        return await self._run(lambda behind: behind.job_mode(key))

    async def enter_manual_mode(self) -> None:
        """Let nothing fire by its schedule in the whole cluster; what is triggered by hand does.

        `resume_all` does not end it, `leave_manual_mode` does.
        """
        return await self._run(lambda behind: behind.enter_manual_mode())

    async def leave_manual_mode(self) -> None:
        """Let triggers fire by their schedules again, also those that were paused one by one meanwhile or before."""
        return await self._run(lambda behind: behind.leave_manual_mode())

    async def is_in_manual_mode(self) -> bool:
        return await self._run(lambda behind: behind.is_in_manual_mode)

    async def reset_trigger_from_error(self, key: TriggerKey) -> None:
        """Let a trigger in ERROR fire again.

        Raises:
            TriggerNotFoundError, IllegalStateChangeError: it is not stored, or not in ERROR.
        """
        return await self._run(lambda behind: behind.reset_trigger_from_error(key))

    async def add_calendar(
        self, name: str, calendar: Calendar, *, replace: bool = False, update_triggers: bool = False
    ) -> None:
        """Store a calendar for triggers to name.

        With `replace`, triggers that name it go by the new one from their next fire time on; with `update_triggers`
        that fire time is computed anew, too: paused, blocked and failed triggers stay so, and one that the new
        calendar leaves no fire time goes.

        Raises:
            ObjectAlreadyExistsError: it is stored and `replace` is false.
            InvalidCalendarError: it is no calendar that can be stored.
        """
        return await self._run(
            lambda behind: behind.add_calendar(name, calendar, replace=replace, update_triggers=update_triggers)
        )

    async def delete_calendar(self, name: str) -> bool:
        """Remove a calendar; whether it was there.

        Raises:
            CalendarInUseError: triggers name it.
        """
        return await self._run(lambda behind: behind.delete_calendar(name))

    async def get_calendar(self, name: str) -> Calendar | None:
        """A stored calendar; None where there is none."""
        return await self._run(lambda behind: behind.get_calendar(name))

    async def calendar_names(self) -> list[str]:
        return await self._run(lambda behind: behind.calendar_names())

    async def schedule_job(
        self, job: JobDetail, triggers: Trigger | Iterable[Trigger], *, replace: bool = False
    ) -> datetime:
        """Store a job with one trigger or several, all or none; the first fire time.

        Raises:
            ObjectAlreadyExistsError: a key is stored already and `replace` is false.
            TriggerNeverFiresError: a trigger has no fire time.
            CalendarNotFoundError: a trigger names a calendar that is not stored.
            InvalidTriggerError: a trigger names another job, or there is no trigger.
            InvalidJobDataError: the job's data, with a trigger's over it, makes no value of the job's `data_type`.
        """
        return await self._run(lambda behind: behind.schedule_job(job, triggers, replace=replace))

    async def schedule_jobs(
        self,
        jobs: Mapping[JobDetail, Iterable[Trigger]] | Iterable[tuple[JobDetail, Iterable[Trigger]]],
        *,
        replace: bool = False,
    ) -> datetime:
        """Store many jobs with their triggers, all or none; the first fire time. Errors as in `schedule_job`."""
        return await self._run(lambda behind: behind.schedule_jobs(jobs, replace=replace))

    async def schedule(self, triggers: Trigger | Iterable[Trigger], *, replace: bool = False) -> datetime:
        """Store triggers for jobs that are stored already; each has its `job_key`.

        Whether the jobs' data with theirs over it is what the jobs take is not looked at: it is seen when they run.

        Raises:
            JobNotFoundError: such a job is not stored. Others as in `schedule_job`.
        """
        return await self._run(lambda behind: behind.schedule(triggers, replace=replace))

    async def add_job(
        self, job: JobDetail, *, replace: bool = False, store_non_durable_while_awaiting_scheduling: bool = False
    ) -> None:
        """Store a job without a trigger.

        Raises:
            InvalidJobError: it is not durable (it would go with its last trigger), and the flag does not say that
                a trigger will follow.
            ObjectAlreadyExistsError: its key is stored already and `replace` is false.
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
        definitions: Iterable[tuple[JobDetail, Trigger | Iterable[Trigger]]],
        *,
        owner: str,
        prune: bool = False,
        apply: bool = True,
        announce: Callable[[SyncPlan], None] | None = None,
    ) -> SyncPlan:
        """Make the store hold what is declared, all or nothing; what was done, or with `apply=False` what would be.

        What did not change stays as it is: its next and previous fire times, and whether it is paused; a trigger that
        has ended stays, COMPLETE, and does not fire again. With `prune`,
        what the same `owner` declared before and no longer does is removed; nothing of other owners, or scheduled by
        hand, ever is. Any number of nodes may do it at once. `announce` is told the plan before it is carried out;
        without it the plan is logged.

        Raises:
            InvalidTriggerError: a key is declared twice. Others as in `schedule_job`; nothing is changed then.
        """
        return await self._run(
            lambda behind: behind.sync(definitions, owner=owner, prune=prune, apply=apply, announce=announce)
        )

    async def modify_job(self, key: JobKey, **changes: Any) -> JobDetail:
        """Replace values of a stored job, named as `JobDetail` names them; its triggers stay. The job as it is then.

        What is not named stays as it is stored, whoever changes it at the same time.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidJobError: a name that a job's values do not have, or its key; a wrong value.
            InvalidJobDataError: as in `add_job`, where `data` or `job` is changed.
        """
        return await self._run(lambda behind: behind.modify_job(key, **changes))

    async def unschedule_job(self, key: TriggerKey) -> bool:
        """Remove a trigger, and its job where that has no other and is not durable; whether it was there."""
        return await self._run(lambda behind: behind.unschedule_job(key))

    async def unschedule_jobs(self, keys: Collection[TriggerKey]) -> set[TriggerKey]:
        """Remove triggers; those that were there."""
        return await self._run(lambda behind: behind.unschedule_jobs(keys))

    async def reschedule_job(self, key: TriggerKey, trigger: Trigger) -> datetime | None:
        """Put a new trigger of the same job in the place of `key`; its first fire time.

        None, and nothing changed, where `key` is not stored. Errors as in `schedule_job`.
        """
        return await self._run(lambda behind: behind.reschedule_job(key, trigger))

    async def delete_job(self, key: JobKey) -> bool:
        """Remove a job with all its triggers; whether it was there. What runs goes on."""
        return await self._run(lambda behind: behind.delete_job(key))

    async def delete_jobs(self, keys: Collection[JobKey]) -> set[JobKey]:
        """Remove jobs with all their triggers; those that were there."""
        return await self._run(lambda behind: behind.delete_jobs(keys))

    async def trigger_job(
        self, key: JobKey, data: Mapping[str, Any] | Any | None = None, *, delay: timedelta | None = None
    ) -> TriggerKey:
        """Run a job now, or after `delay`, by a trigger of its own that carries `data`; that trigger's key.

        It is in a group of its own (MANUAL_TRIGGERS): pausing other groups does not hold it up. `data` may be a value
        of the job's `data_type`, where its class is known in this process.

        Raises:
            JobNotFoundError: the job is not stored.
            IllegalStateChangeError: it is disabled.
            InvalidJobDataError: as in `schedule_job`.
        """
        return await self._run(lambda behind: behind.trigger_job(key, data, delay=delay))

    async def run_again(self, fire_id: str, *, delay: timedelta | None = None) -> TriggerKey:
        """Run the job of an execution again, now or after `delay`, with the data that its trigger brought.

        It is a first attempt by a trigger of its own, as by `trigger_job`; that trigger's key. The job's own data is
        what is stored now. `context.nominal_fire_time` and `execution_key` are those of the execution that is repeated.

        Raises:
            ExecutionNotFoundError: no such execution is known.
            IllegalStateChangeError: it has not ended, or the job is disabled.
            JobNotFoundError: the job is no longer stored.
            InvalidJobDataError: as in `trigger_job`; or the data cannot be read in this process.
            InvalidValueError: no such id can be.
        """
        return await self._run(lambda behind: behind.run_again(fire_id, delay=delay))

    async def clear(self) -> None:
        """Remove all jobs, triggers, calendars and pauses of this scheduler. What runs goes on."""
        return await self._run(lambda behind: behind.clear())
