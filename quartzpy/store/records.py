"""The records that queries return: jobs, triggers, executions, misfires and nodes as they are stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Self

from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import InvalidValueError
from quartzpy.job_data import TRIGGERED_BY, decode, decode_value
from quartzpy.jobs.continuation import Predecessor
from quartzpy.jobs.internal_entries import actor_of
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.shared_limit import Limit
from quartzpy.keys import RECOVERING_JOBS, JobKey, TriggerKey
from quartzpy.placement import Capabilities, Placement
from quartzpy.states import (
    ENDED,
    PAUSED_STATES,
    PUBLIC,
    ActionState,
    ExecutionState,
    HeldBy,
    JobMode,
    JoinState,
    MisfireAction,
    Missed,
    NodeMode,
    Outcome,
    PublicState,
    TriggerState,
)
from quartzpy.store.health_findings import Severity
from quartzpy.store.node_problems import NodeProblem
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.zone_rules import ZoneRules


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node of the cluster: a row of `scheduler_state`."""

    instance_id: str
    epoch: int
    host: str
    pid: int
    started_at: datetime
    last_checkin: datetime
    checkin_count: int
    checkin_interval: timedelta
    failure_window: timedelta
    """The silence after which the node may be declared dead; each node has its own value."""
    process: str = ""
    """Identifies the node's process; see `quartzpy.store.process_identity`."""
    capabilities: Capabilities = field(default_factory=Capabilities, compare=False)
    mode: NodeMode = NodeMode.RUNNING
    mode_since: datetime | None = None
    """The instant at which the mode was last set, which rises with each change; None if it was never set."""
    back_since: datetime | None = None
    """The check-in that ended the latest gap between its check-ins: an outage of the database, or a pause of the node;
    None if there was none since it started."""
    problems: tuple[NodeProblem, ...] = ()
    """What the node found wrong with itself before its last check-in."""


MAX_WAITING = 1_000
"""The largest number that is counted of the triggers that wait for a limit, for each set of limits."""


@dataclass(frozen=True, slots=True)
class LimitRecord:
    """A limit that jobs share, and how much of it is used."""

    name: str
    limit: Limit
    used_by: Mapping[JobKey, int]
    """The number of slots that executions of each job use; those that use most come first."""
    waiting: int
    """The number of due triggers that wait for it, or for another limit of theirs; see `MAX_WAITING`."""
    admits_at: datetime | None
    """The instant from which on its rate admits a fire; None: now, or it has none."""
    used_since: datetime | None = None
    """The fire time of the execution that has used it longest; None if none uses it."""

    @classmethod
    def of(
        cls,
        name: str,
        limit: Limit,
        used_by: Mapping[JobKey, int],
        waiting: int,
        *,
        tat: datetime | None,
        used_since: datetime | None,
        now: datetime,
    ) -> LimitRecord:
        """Make the record; `tat` is the theoretical arrival time of the limit's next fire."""
        rate = limit.rate_limit
        bounded = None if rate is None else rate.bounded(tat, now)
        opens = None if rate is None or bounded is None else bounded - rate.tolerance
        admits_at = opens if opens is not None and opens > now else None
        return cls(name, limit, used_by, waiting, admits_at, used_since)

    @property
    def used(self) -> int:
        """The number of slots in use."""
        return sum(self.used_by.values())

    @property
    def free(self) -> int | None:
        """The number of executions that may begin as far as this limit of executions is concerned; None: any."""
        most = self.limit.max_concurrent
        return None if most is None else max(most - self.used, 0)

    @property
    def is_full(self) -> bool:
        """True if it admits no fire now."""
        return self.free == 0 or self.admits_at is not None


LATE_AFTER = timedelta(seconds=5)
"""The time after its fire time from which a trigger that has not fired is late."""
MAX_COUNTED = 10_000
"""The largest number of rows of one kind that `ClusterLoad` counts, so that its cost is limited."""


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """The load of the cluster in a few numbers. A store stops counting at `MAX_COUNTED` rows of a kind."""

    due: int
    """The number of triggers that could fire now: their fire time has come, and no limit holds them back."""
    late: int
    """The number of triggers that are not paused, and whose fire time passed more than `LATE_AFTER` ago."""
    longest_due: timedelta | None
    """The time since the earliest fire time among the waiting triggers that has come; None if none has."""
    in_error: int
    """The number of triggers in ERROR."""
    claimed: int
    """The number of executions whose instants are a moment away."""
    executing: int
    """The number of running executions."""
    nodes_alive: int
    """The number of nodes that are alive; see `quartzpy.store.node_states`."""
    nodes_silent: int
    """The number of nodes that are dead, and that no other node has recovered yet."""


@dataclass(frozen=True, slots=True)
class PausedGroup:
    """A pause of a group or of everything."""

    scope: str
    """TRIGGER: triggers of the group; JOB: triggers of jobs of the group; ALL: everything."""
    name: str
    at: datetime
    by: str | None = None
    reason: str | None = None
    until: datetime | None = None
    """The instant at which it ends by itself."""
    missed: Missed = Missed.MISFIRE
    """What becomes then of the fires that were missed."""
    window: str | None = None
    """The maintenance window that began it."""

    def covers(self, trigger: TriggerKey, job: JobKey) -> bool:
        """Return True if it holds a trigger of this group with a job of that group."""
        return self.scope == "ALL" or self.name == (trigger.group if self.scope == "TRIGGER" else job.group)


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """A stored maintenance window."""

    window: MaintenanceWindow
    starts_at: datetime
    """The beginning of its present or next time."""
    ends_at: datetime
    is_open: bool
    """Whether that time has begun: its triggers are paused."""
    changed_at: datetime
    changed_by: str | None = None


@dataclass(frozen=True, slots=True)
class Pauses:
    """The pauses that also apply to triggers that are stored later."""

    everything: bool
    trigger_groups: frozenset[str]
    job_groups: frozenset[str]
    is_manual: bool = False
    """Whether the manual mode is on, in which only triggers fire that no schedule made."""
    groups: tuple[PausedGroup, ...] = ()
    """The pauses of groups and of everything, one by one."""

    def covering(self, trigger: TriggerKey, job: JobKey) -> list[PausedGroup]:
        """Return the pauses that hold the triggers of these groups."""
        return [group for group in self.groups if group.covers(trigger, job)]

    def until(
        self, trigger: TriggerKey, job: JobKey, *, alone: bool = False, end: datetime | None = None
    ) -> datetime | None:
        """Return the instant at which the pauses that hold a trigger have all ended; None if one of them has no end.

        They are those of its groups and, with `alone`, its own, which ends at `end`.
        """
        ends = [group.until for group in self.covering(trigger, job)] + [end] * alone
        return max((end for end in ends if end is not None), default=None) if None not in ends else None


@dataclass(frozen=True, slots=True)
class Owned:
    """What an owner declared, and the version of the program that last declared it."""

    jobs: frozenset[JobKey]
    triggers: frozenset[TriggerKey]
    calendars: frozenset[str] = frozenset()
    version: str | None = None


@dataclass(frozen=True, slots=True)
class NotedZone:
    """The rules of a time zone by which stored instants may have been computed, and when that was noted last."""

    rules: ZoneRules
    digest: str
    noted_at: datetime


@dataclass(frozen=True)
class TriggerRecord:
    """A stored trigger: its definition and its progress.

    `trigger` is built on first access, so that a row that cannot be read is still listed with the others.
    """

    key: TriggerKey
    job_key: JobKey
    load_trigger: Callable[[], Trigger] = field(compare=False, repr=False)
    job_type: str
    state: TriggerState
    progress: TriggerProgress
    generation: int
    upcoming: Sequence[datetime] = ()
    """The fire times that are stored after the next one."""
    error: str | None = None
    """The reason why the trigger is in ERROR."""
    paused_at: datetime | None = None
    """The instant at which it was paused by a method. None where it is not paused, or where it was stored as paused
    because its group is, or where only a mode holds it."""
    paused_by: str | None = None
    """Who paused it, as was given to the method."""
    pause_reason: str | None = None
    """The reason for the pause, as was given to the method."""
    paused_until: datetime | None = None
    """The instant at which a pause of this trigger or its job ends by itself. The pause of a group has its own."""
    pause_missed: Missed | None = None
    """What becomes then of the fires that were missed. None where no pause of this trigger or its job holds it."""
    catch_up_until: datetime | None = None
    """The instant until which the trigger catches up on missed fires; it does not misfire in the meantime."""
    resumed_at: datetime | None = None
    """The instant at which a method last resumed it; None if none has."""
    held_by: HeldBy | None = None
    """The kind of the limit for which it waits, where it is BLOCKED."""
    shared_limits: tuple[str, ...] = ()
    """The limits for which it waits, where these are limits that jobs share."""
    opens_at: datetime | None = None
    """The instant at which the rate for which it waits admits the next fire, which need not be its own."""
    kind: str = ""
    """The type of the trigger, as it is stored: "simple", "cron", ..."""
    calendar: str | None = None
    priority: int = 5
    description: str | None = None
    schedule_hash: int | None = field(default=None, repr=False)
    """Identifies the schedule as it was declared; see `quartzpy.triggers.upcoming`."""

    @property
    def next_fire_time(self) -> datetime | None:
        """The instant of the next fire, or None if the trigger will not fire again."""
        return self.progress.next_fire_time

    @property
    def previous_fire_time(self) -> datetime | None:
        """The scheduled instant of the last fire, or None if the trigger has not fired yet."""
        return self.progress.previous_fire_time

    @property
    def times_triggered(self) -> int:
        """The number of fires so far."""
        return self.progress.times_triggered

    @property
    def public_state(self) -> PublicState:
        """The state in Quartz's terms, as `Scheduler.trigger_state` returns it."""
        return PUBLIC[self.state]

    @cached_property
    def trigger(self) -> Trigger:
        """The trigger itself.

        Raises:
            Exception: the row does not hold a trigger that this release can read.
        """
        return self.load_trigger()


@dataclass(frozen=True, slots=True)
class JobHeader:
    """The part of a stored job that decides whether, where and for how long it runs, without its data and triggers."""

    key: JobKey
    job_type: str
    mode: JobMode
    placement: Placement
    timeout: timedelta | None
    """None also if it cannot be read."""


def held_by(*, is_full: bool, parked_at: str | None, has_rate: bool) -> HeldBy:
    """Return what a BLOCKED trigger waits for.

    Args:
        is_full: its job is at its limit of concurrent executions.
        parked_at: the limits that its job shares, where its row says that it waits for these.
        has_rate: its job has a rate limit.
    """
    if is_full:
        return HeldBy.SLOT
    if parked_at is not None:
        return HeldBy.SHARED
    return HeldBy.RATE if has_rate else HeldBy.SLOT


def held_by_of_job(*, parked_at: str | None, has_slots: bool, has_rate: bool) -> HeldBy | None:
    """Return what the BLOCKED trigger of a job that fires next waits for; None if two limits are possible."""
    if has_slots and has_rate and parked_at is None:
        return None
    return held_by(is_full=False, parked_at=parked_at, has_rate=has_rate)


def next_fire_of(
    fires: Mapping[TriggerState, datetime | None], *, has_error: bool
) -> tuple[datetime | None, TriggerState | None]:
    """Return the next fire time of a job, and the state of the trigger that fires then.

    `fires` has the soonest next fire time of its triggers in each state, and `has_error` is true if one is in ERROR.
    """
    active = [(at, state) for state, at in fires.items() if at is not None and state not in PAUSED_STATES]
    paused = [(at, state) for state, at in fires.items() if at is not None and state in PAUSED_STATES]
    first = min(active or paused, default=None)
    return (None, TriggerState.ERROR if has_error else None) if first is None else first


@dataclass(frozen=True)
class JobRecord:
    """A stored job, with a summary of its triggers.

    `job` is built on first access, so that a row that cannot be read is still listed with the others.
    """

    key: JobKey
    job_type: str
    load_job: Callable[[], JobDetail] = field(compare=False, repr=False)
    trigger_count: int
    """The number of its triggers, or the number up to which the query counts them."""
    mode: JobMode = JobMode.ENABLED
    next_fire_time: datetime | None = None
    """The soonest next fire time among its triggers: a paused one counts if no other fires, one in ERROR or COMPLETE
    does not."""
    next_state: TriggerState | None = None
    """The state of the trigger that fires then; ERROR if no trigger fires and one is in ERROR."""
    held_by: HeldBy | None = None
    """The kind of the limit for which that trigger waits, where it is BLOCKED; None also if two are possible."""
    shared_limits: tuple[str, ...] = ()
    """The limits for which that trigger waits, where these are limits that jobs share."""
    previous_fire_time: datetime | None = None
    """The latest scheduled instant at which one of its triggers has fired."""
    has_more_triggers: bool = False
    """True if it has more than `trigger_count` triggers. Then both fire times are None, because they are not known."""

    @property
    def state(self) -> JobMode:
        """The mode of the job: ENABLED, MANUAL or DISABLED."""
        return self.mode

    @property
    def display_name(self) -> str | None:
        """The name that people see, if the job has one beside its key. Raises as `job`."""
        return self.job.display_name

    @cached_property
    def job(self) -> JobDetail:
        """The job itself.

        Raises:
            Exception: the row does not hold a job that this release can read.
        """
        return self.load_job()


@dataclass(frozen=True, slots=True)
class RunningRecord:
    """An execution that has not ended: a row of `fired_triggers`."""

    fire_id: int
    trigger_key: TriggerKey
    job_key: JobKey
    instance_id: str
    epoch: int
    state: str
    scheduled_fire_time: datetime
    fire_time: datetime
    attempt: int
    cancel_requested: bool
    progress: float | None = None
    """The fraction of the work that is done, from 0 to 1, as the job last reported it by `context.progress`."""
    progress_message: str | None = None
    """The message of that report."""
    triggered_by: str | None = None
    """Who asked for it, if it is a run by hand that names somebody, or repeats one."""
    is_unrecorded: bool = False
    """True if it has ended, and its node reports that it cannot record that."""
    submission: int | None = None
    """The number of its submission to an engine whose calls take tickets; None for all others."""
    worker: str | None = None
    """The worker of the engine that has taken the ticket; None if none has."""
    worker_since: datetime | None = None

    @property
    def recovering(self) -> bool:
        """True if this execution repeats one whose node died."""
        return self.trigger_key.group == RECOVERING_JOBS


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    """An execution at any stage, from before its fire to the history. A value that is not known yet is None.

    `started_at` is recorded when the execution ends; it stays None for an execution that did not begin, and for one
    whose node died. The trigger's data and the job's result are kept as JSON text, which `trigger_data` and `result`
    decode.
    """

    state: ExecutionState
    fire_id: int | None
    trigger_key: TriggerKey
    job_key: JobKey
    job_type: str
    instance_id: str | None
    scheduled_fire_time: datetime
    fire_time: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    attempt: int
    error: str | None
    trigger_data_text: str | None = None
    result_text: str | None = None
    retry_at: datetime | None = None
    """The instant of the next attempt, if the execution failed and its retry policy allows another one."""
    log_text: str | None = field(default=None, repr=False, compare=False)
    log_is_read: bool = field(default=False, repr=False, compare=False)
    """True if the query has read `log_text`. Queries of several executions do not read it, so records are compared
    without it."""

    @property
    def log(self) -> str | None:
        """The log lines of the execution, if its job captures them (`capture_logs`); the last lines while it runs.

        Only `Scheduler.execution` reads them: a page of executions with their lines would have megabytes.

        Raises:
            InvalidValueError: the record is one of several that a query returned, so its lines were not read.
        """
        if self.log_is_read or self.outcome is None:
            return self.log_text
        raise InvalidValueError(
            f"log: this query did not read the log lines of execution {self.fire_id};"
            " scheduler.execution_log(record) reads them"
        )

    @property
    def duration(self) -> timedelta | None:
        """The time from its start to its end; None if it has not ended, or never began."""
        return None if self.fire_time is None or self.ended_at is None else self.ended_at - self.fire_time

    @property
    def exhausted(self) -> bool:
        """True if the execution failed and no retry follows: its retry policy is exhausted, or the job has none."""
        return self.state is ExecutionState.FAILED and self.retry_at is None

    @property
    def trigger_data(self) -> Mapping[str, Any]:
        """The trigger's data as it was at the fire.

        Raises:
            InvalidJobDataError: this process cannot decode it.
        """
        return decode(self.trigger_data_text)

    @property
    def triggered_by(self) -> str | None:
        """Who asked for the execution, if it is a run by hand that names somebody, or repeats one."""
        text = self.trigger_data_text
        return None if text is None or TRIGGERED_BY not in text else actor_of(self.trigger_key, json.loads(text))

    @property
    def result(self) -> Any:
        """The return value of the job; None also if the value could not be stored.

        Raises:
            InvalidJobDataError: this process cannot decode it.
        """
        return None if self.result_text is None else decode_value(self.result_text)

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the execution; None while it has not ended."""
        return Outcome(self.state) if self.state in ENDED else None

    @property
    def recovering(self) -> bool:
        """True if this execution repeats one whose node died."""
        return self.trigger_key.group == RECOVERING_JOBS


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """The fields of an action of an operator that its row and its entry in the audit log have in common."""

    action_id: int
    """Identifies the action; later actions have higher ids."""
    at: datetime
    """The instant at which it began, by the store's clock."""
    ended_at: datetime | None
    actor: str
    role: str
    """The role in which the actor did this."""
    action: str
    subject: str
    """What it was applied to: "trigger DEFAULT.nightly", "triggers with state=ERROR", "node app-1"."""
    reason: str
    """The reason that the actor gave; empty if none was given."""
    state: ActionState
    count: int
    """The number of objects that it has changed so far."""


ACTION_SILENCE = timedelta(minutes=1)
"""The time without an update after which the process of an action is taken for dead: several times that of a slice."""
UNHEARD = "its process ended before it, or lost the database; what was changed until then stays changed"


@dataclass(frozen=True, slots=True)
class ActionRecord(RecordedAction):
    """An action of an operator: a row of the audit log, the table `audit`.

    `before` and `after` are the values that it changed, without secrets.
    """

    before_text: str | None
    after_text: str | None
    error: str | None
    """The reason why it failed or was refused."""
    updated_at: datetime | None = None
    """The instant of the latest update, while the action is RUNNING."""

    @property
    def before(self) -> Any:
        """The values before the action, from JSON; None if there are none."""
        return None if self.before_text is None else json.loads(self.before_text)

    @property
    def after(self) -> Any:
        """The values after the action, from JSON; None if there are none."""
        return None if self.after_text is None else json.loads(self.after_text)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Who has taken note of an incident, why and until when, and how the incident was then."""

    at: datetime
    by: str
    reason: str
    until: datetime | None
    """The instant at which it ends; None if it lasts as long as the incident."""
    severity: Severity
    cause: str

    def holds(self, severity: Severity, cause: str, now: datetime) -> bool:
        """Return True if the incident has not become worse, has no other cause, and the time is not over."""
        is_worse = severity.rank < self.severity.rank
        return not is_worse and cause == self.cause and (self.until is None or now < self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedIncident:
    """An incident as a node judges it, to be recorded: a row of `incidents` without its times."""

    kind: str
    subject: str
    identity: str
    """A digest of the kind and of what stays the same about the subject while the incident lasts."""
    severity: Severity
    cause: str
    """What tells one cause of it from another; empty if nothing does."""
    what: str
    why: tuple[str, ...]
    trigger_key: TriggerKey | None = None
    job_key: JobKey | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class LastingIncident:
    """What is wrong with the cluster, as each node knows it from the last judgement."""

    kind: str
    severity: Severity
    what: str
    subject: str = ""

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True, slots=True)
class Notified:
    """What a channel was notified of about an incident: when last, how bad it was then, and by which notifications."""

    at: datetime
    severity: Severity
    ids: tuple[str, ...]
    """The ids of the latest notifications, the latest last."""

    def as_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return {"at": self.at.isoformat(), "severity": str(self.severity), "ids": list(self.ids)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the value with this stored form."""
        return cls(datetime.fromisoformat(stored["at"]), Severity(stored["severity"]), tuple(stored["ids"]))


@dataclass(frozen=True, slots=True)
class NotificationRecord:
    """A notification to one channel: a row of `notifications` without its message."""

    notification_id: str
    channel: str
    event: str
    """"began", "worse", "lasts" or "over"."""
    created_at: datetime
    attempts: int
    """The number of attempts that have ended."""
    delivered_at: datetime | None
    failed_at: datetime | None
    """The instant at which the last attempt failed; None while there are more to come."""
    error: str | None
    """The error of the latest attempt; None if it succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRecord(JudgedIncident):
    """An incident that was recorded: a row of `incidents`."""

    incident_id: int
    began_as: str
    """The sentence when it was opened; `what` is the latest one."""
    opened_at: datetime
    confirmed_at: datetime
    """The latest instant at which a node has written that it lasts."""
    closed_at: datetime | None
    """The instant at which a node judged that it is over; None while it lasts."""
    acknowledgement: Acknowledgement | None
    notified: Mapping[str, Notified] = field(default_factory=dict)
    """What channels were notified of about it, by their names."""


@dataclass(frozen=True, slots=True)
class JoinRecord:
    """What a job that runs after several ends waits for, or was started by: a row of `joins`.

    There is a row for each scheduled instant or day for which an execution has ended, and for each batch.
    """

    job_key: JobKey
    """The job that runs then."""
    occasion: str
    """The scheduled instant or the day of the executions, or the name of the batch."""
    state: JoinState
    opened_at: datetime
    """The first end, or the instant at which the batch was stored."""
    last_end_at: datetime | None
    total: int | None
    """The number of triggers of the batch; None if it is none."""
    ended: tuple[Predecessor, ...]
    """The last execution of each job that has ended, by the keys of the jobs; empty for a batch."""
    succeeded: int
    """The number of ends with success."""
    failed: int
    """The number of other ends."""
    removed: int
    """The number of triggers of a batch that ended without a fire: deleted, replaced or skipped."""
    fire_id: int | None
    """The execution with whose end the job was started; None if it was not, or if the last trigger did not fire."""


@dataclass(frozen=True, slots=True)
class MisfireRecord:
    """A misfire that was handled: a row of `misfires`.

    `scheduled_fire_time` is the fire that was found late. `missed` are the fire times that got no run of their own, at
    most the first 1,000 of them; `has_more` is true if there were more. `caught_up` is the number of missed fires that
    run late, each by itself. `next_fire_time` is the trigger's new fire time, or None if it will not fire again.
    """

    misfire_id: int
    """Identifies the misfire; later misfires have higher ids."""
    trigger_key: TriggerKey
    job_key: JobKey
    instance_id: str
    """The node that handled the misfire."""
    handled_at: datetime
    misfire: str
    """The misfire instruction of the trigger."""
    action: MisfireAction
    scheduled_fire_time: datetime
    missed: tuple[datetime, ...]
    has_more: bool
    caught_up: int
    next_fire_time: datetime | None
