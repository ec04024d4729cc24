"""The awaitable twin of `QueryMethods`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, TypeVar

from quartzpy.aio.methods.base import AsyncMethods
from quartzpy.aio.results import AsyncQuery
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.scheduler.methods.queries import FireRef, OutdatedJob, QueryMethods
from quartzpy.states import ENDED, PublicState
from quartzpy.store.protocol import CheckIn
from quartzpy.store.queries import TriggerOrder
from quartzpy.store.records import ClusterLoad, ExecutionRecord, JobRecord, MisfireRecord, RunningRecord, TriggerRecord
from quartzpy.triggers.trigger import Trigger

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

    async def why(self, key: TriggerKey) -> list[str]:
        """Explain why a trigger has not fired, or when it will fire.

        The sentences cover its state, pauses and limits that hold it, the nodes that can run it and their free
        workers, running executions of its job, and its last execution or misfire. A trigger that has ended is
        explained from its history.

        Raises:
            TriggerNotFoundError: the trigger is not stored, and the history has no execution of it.
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
        """Return one execution, whether claimed, running or in the history; None if the id is not known.

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
