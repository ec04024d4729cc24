"""The events that a scheduler passes to its listeners. `method` names the listener method for the event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from quartzpy.expect import BreachRecord
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import CompletionInstruction, Outcome

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from quartzpy.jobs.context import JobExecutionContext
    from quartzpy.jobs.job import JobDetail
    from quartzpy.matchers import GroupMatcher
    from quartzpy.triggers.trigger import Trigger


@dataclass(frozen=True, slots=True)
class Event:
    """The base class of all events. An event reports something that this process did or observed."""

    method: ClassVar[str] = ""


# --- executions on this node


@dataclass(frozen=True, slots=True)
class ExecutionEvent(Event):
    """An event of one execution."""

    context: JobExecutionContext

    @property
    def job_key(self) -> JobKey:
        return self.context.job_key

    @property
    def trigger_key(self) -> TriggerKey:
        return self.context.trigger_key


@dataclass(frozen=True, slots=True)
class TriggerFired(ExecutionEvent):
    """A trigger fired, and its job is about to be executed unless a listener vetoes it."""

    method: ClassVar[str] = "trigger_fired"


@dataclass(frozen=True, slots=True)
class JobExecutionVetoed(ExecutionEvent):
    """A trigger listener vetoed the execution, which ends as SKIPPED."""

    method: ClassVar[str] = "job_execution_vetoed"


@dataclass(frozen=True, slots=True)
class JobToBeExecuted(ExecutionEvent):
    """The job is about to run, on this thread or on the event loop. Each refire emits this event again."""

    method: ClassVar[str] = "job_to_be_executed"


@dataclass(frozen=True, slots=True)
class JobWasExecuted(ExecutionEvent):
    """The job has run. `error` is the exception that it raised; `retry_after` is the delay until its retry."""

    method: ClassVar[str] = "job_was_executed"

    outcome: Outcome
    error: BaseException | None = None
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class TriggerComplete(ExecutionEvent):
    """This node has finished processing a fire.

    `outcome` is the outcome of the execution. `instruction` is its consequence for the trigger, or for all triggers of
    the job.
    """

    method: ClassVar[str] = "trigger_complete"

    instruction: CompletionInstruction = CompletionInstruction.NOOP
    outcome: Outcome = Outcome.SUCCEEDED


# --- triggers


@dataclass(frozen=True, slots=True)
class TriggerEvent(Event):
    """An event of one trigger."""

    trigger_key: TriggerKey


@dataclass(frozen=True, slots=True)
class TriggerMisfired(TriggerEvent):
    """The trigger missed fire times, and this node applied its misfire instruction.

    `missed` has the fire times that get no execution of their own, at most the first 1,000.
    """

    method: ClassVar[str] = "trigger_misfired"
    missed: tuple[datetime, ...]


@dataclass(frozen=True, slots=True)
class JobSkipped(TriggerEvent):
    """A fire was skipped because its job was at its concurrency limit and its `overlap_policy` skips fires.

    It corresponds to APScheduler's EVENT_JOB_MAX_INSTANCES.
    """

    method: ClassVar[str] = "job_skipped"
    job_key: JobKey
    scheduled_fire_time: datetime


@dataclass(frozen=True, slots=True)
class ExpectationBroken(Event):
    """A fire did not do what is expected of it (`Expect`), as this node has judged for the cluster."""

    method: ClassVar[str] = "expectation_broken"
    breach: BreachRecord

    @property
    def job_key(self) -> JobKey:
        """The key of the job."""
        return self.breach.job_key

    @property
    def trigger_key(self) -> TriggerKey:
        """The key of the trigger; of a job that waits for others too long, the job's."""
        return self.breach.trigger_key


@dataclass(frozen=True, slots=True)
class TriggersInError(Event):
    """A job could not be instantiated. All its triggers go to ERROR, and stay there until they are reset."""

    method: ClassVar[str] = "triggers_in_error"
    job_key: JobKey
    error: BaseException


@dataclass(frozen=True, slots=True)
class TriggerFinalized(TriggerEvent):
    """The trigger has fired for the last time."""

    method: ClassVar[str] = "trigger_finalized"


# --- operations on this scheduler


@dataclass(frozen=True, slots=True)
class JobAdded(Event):
    """A job was stored or replaced."""

    method: ClassVar[str] = "job_added"
    job: JobDetail

    @property
    def job_key(self) -> JobKey:
        return self.job.key


@dataclass(frozen=True, slots=True)
class JobDeleted(Event):
    """A job was deleted together with its triggers."""

    method: ClassVar[str] = "job_deleted"
    job_key: JobKey


@dataclass(frozen=True, slots=True)
class JobScheduled(Event):
    """A trigger was stored or replaced."""

    method: ClassVar[str] = "job_scheduled"
    trigger: Trigger

    @property
    def trigger_key(self) -> TriggerKey:
        return self.trigger.key


@dataclass(frozen=True, slots=True)
class JobUnscheduled(TriggerEvent):
    """A trigger was deleted."""

    method: ClassVar[str] = "job_unscheduled"


@dataclass(frozen=True, slots=True)
class TriggerPaused(TriggerEvent):
    """A trigger was paused."""

    method: ClassVar[str] = "trigger_paused"


@dataclass(frozen=True, slots=True)
class TriggerResumed(TriggerEvent):
    """A trigger was resumed."""

    method: ClassVar[str] = "trigger_resumed"


@dataclass(frozen=True, slots=True)
class GroupEvent(Event):
    """An event of all groups that `matcher` matches. None means all groups."""

    matcher: GroupMatcher | None


@dataclass(frozen=True, slots=True)
class TriggersPaused(GroupEvent):
    """Groups of triggers, or all triggers, were paused."""

    method: ClassVar[str] = "triggers_paused"


@dataclass(frozen=True, slots=True)
class TriggersResumed(GroupEvent):
    """Groups of triggers, or all triggers, were resumed."""

    method: ClassVar[str] = "triggers_resumed"


@dataclass(frozen=True, slots=True)
class JobsPaused(GroupEvent):
    """Groups of jobs were paused."""

    method: ClassVar[str] = "jobs_paused"


@dataclass(frozen=True, slots=True)
class JobsResumed(GroupEvent):
    """Groups of jobs were resumed."""

    method: ClassVar[str] = "jobs_resumed"


@dataclass(frozen=True, slots=True)
class JobPaused(Event):
    """The triggers of a job were paused."""

    method: ClassVar[str] = "job_paused"
    job_key: JobKey


@dataclass(frozen=True, slots=True)
class JobResumed(Event):
    """The triggers of a job were resumed."""

    method: ClassVar[str] = "job_resumed"
    job_key: JobKey


@dataclass(frozen=True, slots=True)
class SchedulingDataCleared(Event):
    """All jobs, triggers, calendars and pauses were deleted."""

    method: ClassVar[str] = "scheduling_data_cleared"


# --- the scheduler's lifecycle


@dataclass(frozen=True, slots=True)
class SchedulerStarting(Event):
    """`start` was called."""

    method: ClassVar[str] = "scheduler_starting"


@dataclass(frozen=True, slots=True)
class SchedulerStarted(Event):
    """This node has joined the cluster, or has resumed after standby."""

    method: ClassVar[str] = "scheduler_started"


@dataclass(frozen=True, slots=True)
class SchedulerInStandby(Event):
    """This node takes no triggers until it is resumed: by `start`, or by an operator."""

    method: ClassVar[str] = "scheduler_in_standby"


@dataclass(frozen=True, slots=True)
class SchedulerShuttingDown(Event):
    """`shutdown` was called."""

    method: ClassVar[str] = "scheduler_shutting_down"


@dataclass(frozen=True, slots=True)
class SchedulerShutDown(Event):
    """This node has stopped. `drained` is true if all its executions ended and were recorded first."""

    method: ClassVar[str] = "scheduler_shut_down"
    drained: bool


@dataclass(frozen=True, slots=True)
class SchedulerError(Event):
    """An error occurred on this node outside of a job's own code. The node continues to run.

    `message` describes it: the database is unavailable, a pass of a background thread failed, an execution failed
    outside of its job, or the next fire time of a trigger cannot be computed. An outage is reported once, when it
    begins.
    """

    method: ClassVar[str] = "scheduler_error"
    message: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class NodesRecovered(Event):
    """This node found that other nodes are dead, and recovered their work.

    `nodes` has their instance ids, `recovered` the number of executions that run again, `terminated` the number that
    do not.
    """

    method: ClassVar[str] = "nodes_recovered"
    nodes: tuple[str, ...]
    recovered: int
    terminated: int


@dataclass(frozen=True, slots=True)
class DatabaseFailedOver(Event):
    """The database is now served by another server, or by a promoted standby. Old connections were closed.

    `place` and `previous_place` are host:port as this process reached them. Values that a server does not report are
    None.
    """

    method: ClassVar[str] = "database_failed_over"
    place: str
    system_identifier: int | None
    timeline: int | None
    previous_place: str
    previous_system_identifier: int | None
    previous_timeline: int | None


@dataclass(frozen=True, slots=True)
class NodesDiffer(Event):
    """Nodes of this cluster differ in their time zone data, release or settings, which should be the same.

    `values` maps each value, as text, to the nodes that have it. Each difference is reported once.
    """

    method: ClassVar[str] = "nodes_differ"
    subject: str
    values: Mapping[str, tuple[str, ...]]
