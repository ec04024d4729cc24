"""The events of a scheduler, as values for listeners. Each names the listener's method that is called with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import CompletionInstruction, Outcome

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from quartzpy.context import JobExecutionContext
    from quartzpy.job import JobDetail
    from quartzpy.matchers import GroupMatcher
    from quartzpy.triggers.trigger import Trigger


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, as this process saw it."""

    method: ClassVar[str] = ""


# --- executions on this node


@dataclass(frozen=True, slots=True)
class ExecutionEvent(Event):
    """Something about one execution."""

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
    """A trigger listener vetoed the execution: it is SKIPPED."""

    method: ClassVar[str] = "job_execution_vetoed"


@dataclass(frozen=True, slots=True)
class JobToBeExecuted(ExecutionEvent):
    """The job runs next on this thread, or on the event loop; again for each refire."""

    method: ClassVar[str] = "job_to_be_executed"


@dataclass(frozen=True, slots=True)
class JobWasExecuted(ExecutionEvent):
    """The job has run. `error` is what it raised, `retry_after` when it is tried again."""

    method: ClassVar[str] = "job_was_executed"

    outcome: Outcome
    error: BaseException | None = None
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class TriggerComplete(ExecutionEvent):
    """All that a fire brought about on this node is done.

    `instruction` says what becomes of the trigger, or of all triggers of the job; `outcome`, how the execution ended.
    """

    method: ClassVar[str] = "trigger_complete"

    instruction: CompletionInstruction = CompletionInstruction.NOOP
    outcome: Outcome = Outcome.SUCCEEDED


# --- triggers


@dataclass(frozen=True, slots=True)
class TriggerEvent(Event):
    """Something about one trigger."""

    trigger_key: TriggerKey


@dataclass(frozen=True, slots=True)
class TriggerMisfired(TriggerEvent):
    """This node found that nobody fired the trigger in time, and applied its misfire instruction.

    `missed` are the instants that get no run of their own, the first 1,000 of them.
    """

    method: ClassVar[str] = "trigger_misfired"
    missed: tuple[datetime, ...]


@dataclass(frozen=True, slots=True)
class JobSkipped(TriggerEvent):
    """A fire was left out: its job was at its limit and asks for that (APScheduler's EVENT_JOB_MAX_INSTANCES)."""

    method: ClassVar[str] = "job_skipped"
    job_key: JobKey
    scheduled_fire_time: datetime


@dataclass(frozen=True, slots=True)
class TriggersInError(Event):
    """No instance of a job could be made: all its triggers go to ERROR, until somebody resets them."""

    method: ClassVar[str] = "triggers_in_error"
    job_key: JobKey
    error: BaseException


@dataclass(frozen=True, slots=True)
class TriggerFinalized(TriggerEvent):
    """The trigger will not fire any more."""

    method: ClassVar[str] = "trigger_finalized"


# --- what was asked of this scheduler


@dataclass(frozen=True, slots=True)
class JobAdded(Event):
    """A job was stored, or replaced."""

    method: ClassVar[str] = "job_added"
    job: JobDetail

    @property
    def job_key(self) -> JobKey:
        return self.job.key


@dataclass(frozen=True, slots=True)
class JobDeleted(Event):
    """A job was removed with its triggers."""

    method: ClassVar[str] = "job_deleted"
    job_key: JobKey


@dataclass(frozen=True, slots=True)
class JobScheduled(Event):
    """A trigger was stored, or replaced."""

    method: ClassVar[str] = "job_scheduled"
    trigger: Trigger

    @property
    def trigger_key(self) -> TriggerKey:
        return self.trigger.key


@dataclass(frozen=True, slots=True)
class JobUnscheduled(TriggerEvent):
    """A trigger was removed."""

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
    """Something about groups: those that `matcher` matches; None stands for all."""

    matcher: GroupMatcher | None


@dataclass(frozen=True, slots=True)
class TriggersPaused(GroupEvent):
    """Groups of triggers were paused, or everything."""

    method: ClassVar[str] = "triggers_paused"


@dataclass(frozen=True, slots=True)
class TriggersResumed(GroupEvent):
    """Groups of triggers were resumed, or everything."""

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
    """All jobs, triggers, calendars and pauses were removed."""

    method: ClassVar[str] = "scheduling_data_cleared"


# --- the scheduler's own life


@dataclass(frozen=True, slots=True)
class SchedulerStarting(Event):
    """`start` was called."""

    method: ClassVar[str] = "scheduler_starting"


@dataclass(frozen=True, slots=True)
class SchedulerStarted(Event):
    """This node takes part in the cluster, or goes on after standby."""

    method: ClassVar[str] = "scheduler_started"


@dataclass(frozen=True, slots=True)
class SchedulerInStandby(Event):
    """This node claims nothing more until it is started again."""

    method: ClassVar[str] = "scheduler_in_standby"


@dataclass(frozen=True, slots=True)
class SchedulerShuttingDown(Event):
    """`shutdown` was called."""

    method: ClassVar[str] = "scheduler_shutting_down"


@dataclass(frozen=True, slots=True)
class SchedulerShutDown(Event):
    """This node has stopped; `drained`: all its executions ended first."""

    method: ClassVar[str] = "scheduler_shut_down"
    drained: bool


@dataclass(frozen=True, slots=True)
class SchedulerError(Event):
    """Something failed on this node outside of any job; the node goes on.

    `message` says what: the database cannot be reached, a pass of a thread failed, an execution failed around its job,
    or the next fire time of a trigger cannot be computed. An outage is told once, when it begins.
    """

    method: ClassVar[str] = "scheduler_error"
    message: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class NodesRecovered(Event):
    """This node found others dead and freed what they held."""

    method: ClassVar[str] = "nodes_recovered"
    nodes: tuple[str, ...]
    recovered: int
    terminated: int


@dataclass(frozen=True, slots=True)
class DatabaseFailedOver(Event):
    """The database is on another server, or on one that was promoted; connections to the former were dropped.

    Places are host:port as this process reached them; what a server does not tell is None.
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
    """Nodes of this cluster differ in what should be alike: in their time zone data, their release, their settings.

    `values` has each value as text with the nodes that have it. Told once for each difference.
    """

    method: ClassVar[str] = "nodes_differ"
    subject: str
    values: Mapping[str, tuple[str, ...]]
