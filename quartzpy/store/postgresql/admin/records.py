"""The values that the operators' views of a database return, and the entries of the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from quartzpy.jobs.continuation import Predecessor
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import ActionState, Outcome, TriggerState, Word
from quartzpy.store.records import LastingIncident
from quartzpy.triggers.trigger import Trigger


@dataclass(frozen=True, slots=True)
class Tallies:
    """Numbers of rows, each counted up to a maximum: a number above it means that there are more."""

    jobs: int
    triggers: Mapping[TriggerState, int]
    """The triggers by state; states without triggers are left out."""
    claimed: int
    executing: int
    overdue_paused: int
    """The paused triggers whose next fire time has passed, among the first ones by key, as many as are counted."""


@dataclass(frozen=True, slots=True)
class MinuteRecord:
    """The executions that ended within one minute."""

    at: datetime
    """The beginning of the minute."""
    outcomes: Mapping[Outcome, int]
    lateness_p50: timedelta | None
    """The median of the start minus the scheduled instant; None if no execution of the minute had started."""
    lateness_p99: timedelta | None


@dataclass(frozen=True, slots=True)
class Minutes:
    """Minutes in which executions ended, in order."""

    minutes: Sequence[MinuteRecord]
    complete_since: datetime
    """The instant from which all executions are counted. Earlier ones were left out if there are too many."""


class Lanes(Word):
    """The subjects of the lanes of a timeline."""

    NODE = "node"
    JOB = "job"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class LoneExecution:
    """An execution that is alone in its count."""

    fire_id: int
    trigger_key: TriggerKey
    job_key: JobKey
    instance_id: str
    scheduled_fire_time: datetime
    began: datetime
    """Its start, or its fire time if it never started."""
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class CellRecord:
    """The executions of a lane that began in a part of a span and ended alike."""

    lane_group: str
    """The group of the lane's job, or the group that is the lane; empty for a node."""
    lane_name: str
    """The name of the lane's job, or of the node; empty for a group."""
    outcome: Outcome
    cell: int
    """The number of the part of the span, from 0."""
    number: int
    alone: LoneExecution | None
    """The only one of them."""


@dataclass(frozen=True, slots=True)
class MisfireCell:
    """The misfires of a lane that were handled in a part of a span."""

    lane_group: str
    lane_name: str
    cell: int
    number: int


@dataclass(frozen=True, slots=True)
class EndedPause:
    """A pause that an operator made and that has ended, as far as it is about one job or one group of jobs."""

    subject: str
    """What was paused, as the audit log names it: "trigger billing.nightly"."""
    job_group: str | None
    """None if everything was paused."""
    job_name: str | None
    """None if the whole group was paused."""
    paused_at: datetime
    ended_at: datetime
    paused_by: str
    ended_by: str
    reason: str


@dataclass(frozen=True, slots=True)
class CountedExecutions:
    """The executions that overlap a span, counted in cells."""

    cells: Sequence[CellRecord]
    complete_since: datetime
    """The instant of an end from which on all executions are counted."""
    lanes: int
    """The number of lanes, those that were left out included."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """One of the last runs of a job."""

    outcome: str
    ran: timedelta | None
    """None if it never started."""


@dataclass(frozen=True, slots=True)
class Health:
    """How the last runs of a job or a trigger went, at most 100 of them."""

    runs: int
    """Those that ended within a day."""
    failures: int
    """Those of `runs` that failed for good, or were lost with their node."""
    last_outcome: str
    last_end: datetime
    typical: timedelta | None
    """The median of the durations of the last runs, however long ago."""
    slow: timedelta | None
    """The 99th percentile of these durations."""
    last_runs: tuple[LastRun, ...] = ()
    """The last 20, the latest at the end."""


@dataclass(frozen=True, slots=True)
class FailingJob:
    """A job of which executions failed for good, as the latest executions of all jobs show it."""

    job_key: JobKey
    last_success: datetime | None
    in_a_row: int
    """The failures since the last success."""
    since: datetime | None
    """The end of the first of them."""
    recent: int
    """The number of its latest executions that were judged together."""
    recent_failures: int
    recent_since: datetime | None
    """The end of the first failure among these."""
    fails_now: bool
    """True if one of the last few failed."""
    last_fire_id: int
    """The latest execution that failed."""
    errors: Sequence[str | None]
    """The ends of the latest errors, the latest first."""
    complete_since: datetime | None
    """The end of the first execution that was looked at; None if all were."""


@dataclass(frozen=True, slots=True)
class OverdueJob:
    """A job of which triggers are due that wait for a node, or for a rate or limits that jobs share."""

    job_key: JobKey
    job_type: str
    is_held: bool
    """True for the triggers that a limit holds back, which are not late."""
    number: int
    due_at: datetime
    """The first of their fire times."""
    total: int
    """The number of such triggers of all jobs."""


@dataclass(frozen=True, slots=True)
class BlockedTrigger:
    """A trigger that waits for the end of an execution of its job."""

    trigger_key: TriggerKey
    job_key: JobKey
    due_at: datetime


@dataclass(frozen=True, slots=True)
class PausedOverdue:
    """Triggers of one group and one job that are paused together although they are due."""

    trigger_key: TriggerKey
    """One of them."""
    job_key: JobKey
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    pause_until: datetime | None
    """The end of their own pause."""
    is_alone: bool
    """Whether a pause of these triggers or their job holds them, and not only one of their groups."""
    number: int
    due_at: datetime
    """The first of their fire times."""
    total: int
    """The number of all triggers that are paused although they are due."""


@dataclass(frozen=True, slots=True)
class OtherScheduler:
    """Another scheduler in the same tables."""

    name: str
    nodes: tuple[str, ...]
    """Its nodes that are alive, as "a on host"."""
    has_jobs: bool


@dataclass(frozen=True, slots=True)
class HealthRun:
    """Whether it is the caller's turn to judge what is wrong."""

    turn: datetime | None
    """Identifies the turn of the caller; None if it is not the caller's turn."""
    next_in: timedelta
    """The time until the next turn."""
    late_by: timedelta
    """The time for which nobody has judged although it was due."""
    expects: bool = True
    """False if no expectation is due to be looked at, and no job has waited for others for too long."""
    lasting: tuple[LastingIncident, ...] = ()
    """The first of the incidents that are recorded and last."""


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """How far the fires of a trigger with an expectation are judged: a row of `expectations`."""

    due_at: datetime
    checkpoint: str | None
    """The checkpoint as JSON; None leaves it as it is."""
    generation: int | None
    """The generation of the trigger; None leaves it as it is."""


@dataclass(frozen=True, slots=True)
class LateJoin:
    """What a job that runs after others has waited for, for longer than it may."""

    job_key: JobKey
    occasion: str
    ended: tuple[Predecessor, ...]


@dataclass(frozen=True, slots=True)
class NewNotification:
    """A notification to be stored with the incidents that it is about."""

    notification_id: str
    channel: str
    event: str
    document: str
    """The message, which is JSON."""
    job: JobDetail
    """The job that sends it, which is stored if it is not."""
    trigger: Trigger
    """The trigger that runs the job once for it."""


@dataclass(frozen=True, slots=True)
class NotificationMessage:
    """What a notification says."""

    channel: str
    event: str
    document: Any
    is_delivered: bool


@dataclass(frozen=True, slots=True)
class NodeEndRecord:
    """The end of a node: another one removed it after it had stopped to check in, or it left by itself."""

    node: str
    at: datetime
    how: str
    """"lost" or "left"."""
    recorded_by: str
    """The node that removed it."""
    host: str
    pid: int
    last_checkin: datetime
    repeated: int
    """Its executions that run again."""
    lost: int
    """Its executions that do not."""


@dataclass(frozen=True, slots=True)
class LostExecution:
    """An execution that ended with its node, and that nothing repeats."""

    node: str
    fire_id: int
    trigger_key: TriggerKey
    job_key: JobKey
    scheduled_fire_time: datetime
    ended_at: datetime
    """The instant at which another node found it lost."""
    is_stored: bool
    """True if its job is still stored, so that it can run again."""


@dataclass(frozen=True, slots=True)
class SlotUsage:
    """The use of a job's concurrency limit for one value of its concurrency key."""

    job_key: JobKey
    concurrency_key: str
    limit: int
    executing: int
    blocked: int
    """The triggers that wait because the limit is reached."""


@dataclass(frozen=True, slots=True)
class RateUsage:
    """The state of a job's rate limit for one value of its concurrency key."""

    job_key: JobKey
    concurrency_key: str
    limit: RateLimit
    theoretical_arrival: datetime
    """The theoretical arrival time of the next fire; see `RateLimit`."""
    waiting: int
    """The number of triggers that wait for it; see `MAX_WAITING`."""


@dataclass(frozen=True, slots=True)
class GroupTally:
    """A group of triggers or jobs, with numbers of its rows, each counted up to a maximum."""

    name: str
    count: int
    paused: int
    """The triggers of the group that are paused, or the jobs of the group with such triggers."""
    in_error: int
    """The same of triggers in ERROR."""


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A table of the store, as the database's statistics describe it."""

    name: str
    rows: int
    """An estimate of the number of rows, those of other schedulers included."""
    dead_rows: int
    size_bytes: int
    """The size of the table with its indexes."""
    index_bytes: int
    last_vacuum: datetime | None
    last_analyze: datetime | None


@dataclass(frozen=True, slots=True)
class LockRecord:
    """A lock on a table of the store, or a wait for one."""

    table: str
    mode: str
    granted: bool
    pid: int
    application: str
    state: str
    since: datetime | None
    """The beginning of the transaction that holds the lock or waits for it."""
    blocked_by: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionEntry:
    """An action to record in the audit log; the fields are those of `ActionRecord`."""

    actor: str
    role: str
    action: str
    subject: str
    reason: str = ""
    state: ActionState = ActionState.RUNNING
    count: int = 0
    before_text: str | None = None
    after_text: str | None = None
    error: str | None = None
