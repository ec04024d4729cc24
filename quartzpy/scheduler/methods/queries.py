"""The methods that only read."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from quartzpy.errors import ExecutionNotFoundError, InvalidValueError
from quartzpy.keys import JobKey, JobRef, TriggerKey, TriggerRef, checked_key
from quartzpy.matchers import GroupMatcher
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.scheduler.explain import ClusterSnapshot, Explanation
from quartzpy.scheduler.explain_joins import JOINS_SHOWN, explain_joins
from quartzpy.scheduler.methods.base import Methods
from quartzpy.scheduler.querying import Query, query_of
from quartzpy.states import (
    ENDED,
    ExecutionState,
    TriggerState,
)
from quartzpy.store.protocol import CheckIn, JobStore
from quartzpy.store.queries import (
    AnyQuery,
    ExecutionQuery,
    JobQuery,
    JoinQuery,
    MisfireQuery,
    RecordQuery,
    TriggerOrder,
    TriggerQuery,
)
from quartzpy.store.records import (
    ExecutionRecord,
    JobRecord,
    JoinRecord,
    MisfireRecord,
    RunningRecord,
    TriggerRecord,
)
from quartzpy.texts import quoted

MAX_FIRE_ID = 2**63 - 1
_FIRE_ID_DIGITS = 19
_Record = TypeVar("_Record")


class HasFireId(Protocol):
    """A record or context of an execution; a record has no id before its trigger fires."""

    @property
    def fire_id(self) -> int | None: ...


FireRef: TypeAlias = int | str | HasFireId
"""The id of an execution as a number or as its digits, or a record or context of the execution."""


class QueryMethods(Methods):
    """Read access to stored jobs and triggers, executions and the history."""

    def why(self, key: TriggerKey | JobKey) -> list[str]:
        """Explain why a trigger has not fired, or when it will fire; of a job, which others it waits for.

        The sentences cover its state, pauses and limits that hold it, the nodes that can run it and their free
        workers, running executions of its job, and its last execution or misfire. A trigger that has ended is
        explained from its history.

        Raises:
            TriggerNotFoundError: the trigger is not stored, and the history has no execution of it.
            JobNotFoundError: the job is not stored.
        """
        if isinstance(key, JobKey):
            job = self._usable_store().jobs([key]).get(key)
            if job is None:
                raise self._no_job(key)
            joins = self._usable_store().find(JoinQuery(job_key=key), JOINS_SHOWN)
            return explain_joins(job, joins, BatchedReads(self._usable_store))
        reading = BatchedReads(self._usable_store)
        return Explanation(ClusterSnapshot(reading), checked_key(key, TriggerKey), self._config.misfire_threshold)()

    # --- queries

    def jobs(
        self,
        *,
        group: str | GroupMatcher | None = None,
        contains: str | None = None,
        job_type: str | None = None,
        mode: str | None = None,
    ) -> Query[JobRecord]:
        """Query the stored jobs, by group and name. Without a filter the query selects all.

        Args:
            group: a group, or a matcher of groups.
            contains: a part of the name; upper and lower case differ.
            job_type: the type of the job, as it is registered.
            mode: "ENABLED", "MANUAL" or "DISABLED"; see `JobMode`.

        Raises:
            InvalidValueError: a filter has a value that it cannot have.
        """
        return self._query(JobQuery, group=group, contains=contains, job_type=job_type, mode=mode)

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
    ) -> Query[TriggerRecord]:
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
        return self._query(
            TriggerQuery,
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
    ) -> Query[ExecutionRecord]:
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
        return self._query(
            ExecutionQuery,
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
    ) -> Query[MisfireRecord]:
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
        return self._query(MisfireQuery, trigger=trigger, job=job, action=action, node=node, since=since, until=until)

    def joins(self, *, job: JobRef | None = None, state: str | None = None) -> Query[JoinRecord]:
        """Query what the jobs that run after several ends wait for, and the batches, the latest first.

        Args:
            job: the key of the job that runs when enough has ended.
            state: "WAITING", "FIRED" or "UNMET"; see `JoinState`.

        Raises:
            InvalidValueError: a filter has a value that it cannot have.
        """
        return self._query(JoinQuery, job=job, state=state)

    def _query(self, kind: type[RecordQuery[_Record]], /, **filters: Any) -> Query[_Record]:
        query = query_of(kind, filters)
        # If the scheduler is closed or its store cannot be reached, the error is raised here, not at the first record.
        self._usable_store()
        return Query(
            query.name,
            lambda limit, after: self._usable_store().find(query, limit, after),
            query.position,
            query.shape,
            lambda: self._usable_store().count(cast("AnyQuery", query)),
        )

    def nodes(self) -> CheckIn:
        """Return the nodes of the cluster, and the store's time."""
        return self._usable_store().list_nodes()

    def running(self) -> list[RunningRecord]:
        """Return the running executions of the whole cluster."""
        return self._usable_store().list_running()

    def execution(self, fire_id: FireRef) -> ExecutionRecord | None:
        """Return one execution, whether running or in the history; None if the id is not known.

        Raises:
            InvalidValueError: no execution can have this id.
        """
        return self._usable_store().execution(checked_fire_id(fire_id))

    def execution_log(self, fire_id: FireRef) -> str | None:
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
        record = self.execution(fire_id)
        if record is None:
            raise ExecutionNotFoundError(
                f"execution {checked_fire_id(fire_id)} is not known, or no longer in the history"
            )
        return record.log

    def counts(self) -> dict[str, Any]:
        """Return the numbers of jobs, of triggers by state, and of running executions."""
        queries: list[AnyQuery] = [
            JobQuery(),
            ExecutionQuery(states=frozenset({ExecutionState.PROCESSING})),
            *(TriggerQuery(states=frozenset({state})) for state in TriggerState),
        ]
        answers = self._usable_store().ask([partial(_count, query) for query in queries])
        jobs, running, *of_states = (answer() for answer in answers)
        by_state = {str(state): number for state, number in zip(TriggerState, of_states, strict=True) if number}
        return {"jobs": jobs, "triggers": by_state, "running": running}


def _count(query: AnyQuery, store: JobStore) -> int:
    return store.count(query)


def checked_fire_id(fire_id: object) -> int:
    """Return the id of an execution, which is given as a number, as its digits, or by a record or context of it.

    Raises:
        InvalidValueError: no execution can have this id.
    """
    number: object = getattr(fire_id, "fire_id", fire_id)
    if isinstance(fire_id, str) and fire_id.isdecimal() and len(fire_id) <= _FIRE_ID_DIGITS:
        number = int(fire_id)
    if type(number) is int and 0 <= number <= MAX_FIRE_ID:
        return number
    raise InvalidValueError(
        f"fire_id: must be a whole number, as context.fire_id is, or a record that has one (got {quoted(fire_id)})"
    )
