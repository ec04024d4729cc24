"""The states of triggers, fires and executions.

A trigger's states are Quartz's. An executing trigger is WAITING or BLOCKED in `triggers`, and EXECUTING in
`fired_triggers`.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from quartzpy.errors import InvalidValueError


class TriggerState(StrEnum):
    """The state of a row of `triggers`."""

    WAITING = "WAITING"
    ACQUIRED = "ACQUIRED"
    BLOCKED = "BLOCKED"
    PAUSED = "PAUSED"
    PAUSED_BLOCKED = "PAUSED_BLOCKED"
    COMPLETE = "COMPLETE"
    ERROR = "ERROR"


class PublicState(StrEnum):
    """The state that `Scheduler.trigger_state` returns (Quartz's `Trigger.TriggerState`)."""

    NONE = "NONE"
    NORMAL = "NORMAL"
    PAUSED = "PAUSED"
    COMPLETE = "COMPLETE"
    ERROR = "ERROR"
    BLOCKED = "BLOCKED"


class JobMode(StrEnum):
    """The mode of a job: it decides which of the job's triggers fire."""

    ENABLED = "ENABLED"
    """All triggers fire."""
    MANUAL = "MANUAL"
    """Only manual triggers (`trigger_job`), retries, recoveries and continuations fire."""
    DISABLED = "DISABLED"
    """No trigger fires."""


class OverlapPolicy(StrEnum):
    """The overlap policy of a job: it decides what happens to a fire while the job is at its limit."""

    BLOCK = "block"
    """The fire waits until an execution ends, as in Quartz: all triggers of the job are BLOCKED meanwhile."""
    SKIP = "skip"
    """The fire is skipped and recorded as SKIPPED, as with APScheduler's max_instances."""
    BUFFER_ONE = "buffer_one"
    """One fire waits until an execution ends, and coalesces the fire times of its trigger that pass meanwhile. Fires of
    other triggers are skipped."""
    CANCEL_OTHER = "cancel_other"
    """The longest-running execution is asked to stop, and the fire takes its place when it has ended."""

    @property
    def coalesces(self) -> bool:
        """True if a fire that waited coalesces all fire times of its trigger that have passed."""
        return self in (OverlapPolicy.BUFFER_ONE, OverlapPolicy.CANCEL_OTHER)


class Missed(StrEnum):
    """The policy for the fires that a trigger missed while it was paused, applied when it is resumed."""

    MISFIRE = "misfire"
    """The trigger's misfire instruction decides, as in Quartz."""
    SKIP = "skip"
    """The missed fires are skipped: the trigger continues with its first fire time after the resumption."""
    ONCE = "once"
    """The missed fires are coalesced into one immediate fire."""


class FiredState(StrEnum):
    """The state of a row of `fired_triggers`."""

    ACQUIRED = "ACQUIRED"
    EXECUTING = "EXECUTING"


class Outcome(StrEnum):
    """The outcome of an ended execution in the history."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    """The execution was asked to stop, and stopped."""
    SKIPPED = "SKIPPED"
    """The execution did not run: its job was at its limit, or a listener vetoed it."""
    SNOOZED = "SNOOZED"
    """The job asked to run again later (`context.snooze`): it has neither succeeded nor failed."""
    TERMINATED = "TERMINATED"
    """The execution's node was shut down or declared dead."""


class ExecutionState(StrEnum):
    """The state of an execution, from before its fire to the history."""

    SCHEDULED = "SCHEDULED"
    """The next fire of a waiting trigger."""
    ENQUEUED = "ENQUEUED"
    """Claimed by a node, not fired yet."""
    PROCESSING = "PROCESSING"
    """Fired: running or about to run."""
    SUCCEEDED = Outcome.SUCCEEDED
    FAILED = Outcome.FAILED
    SKIPPED = Outcome.SKIPPED
    CANCELLED = Outcome.CANCELLED
    SNOOZED = Outcome.SNOOZED
    TERMINATED = Outcome.TERMINATED


ENDED = frozenset(ExecutionState(outcome) for outcome in Outcome)
"""The states of executions in the history."""

BEGUN = ENDED | {ExecutionState.PROCESSING}
"""The states of executions that run or have ended."""


def execution_states(states: str | Collection[str]) -> frozenset[ExecutionState]:
    """Return the states with these names, one or several.

    Raises:
        InvalidValueError: a name is not the name of a state.
    """
    names = [states] if isinstance(states, str) else states
    try:
        return frozenset(ExecutionState(name) for name in names)
    except (ValueError, TypeError) as error:
        raise InvalidValueError(f"state: must be among {', '.join(ExecutionState)} (got {states!r})") from error


def missed_of(value: str) -> Missed:
    """Return the policy for missed fires with this name.

    Raises:
        InvalidValueError: there is no such policy.
    """
    try:
        return Missed(value)
    except ValueError:
        raise InvalidValueError(f"missed: must be one of {', '.join(Missed)} (got {value!r})") from None


class ActionState(StrEnum):
    """The state of an action of an operator in the audit log."""

    RUNNING = "RUNNING"
    """The action began and has not ended."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"
    """The process that carried out the action ended before it. What was changed until then stays changed."""
    REFUSED = "REFUSED"
    """The actor's role did not permit the action; nothing was changed."""


class NodeMode(StrEnum):
    """The mode of a node: it decides which work the node takes. A node that starts is RUNNING."""

    RUNNING = "RUNNING"
    """The node claims and fires triggers."""
    STANDBY = "STANDBY"
    """The node claims no triggers. What it has claimed already runs."""
    DRAINING = "DRAINING"
    """The node claims no triggers, and gives fires that still wait for a worker back to the other nodes. Running
    executions end; after that the process can be stopped without loss."""


class MisfireAction(StrEnum):
    """The action that a misfire instruction took."""

    FIRED_ONCE = "FIRED_ONCE"
    """The missed fires were coalesced into one immediate fire."""
    RESCHEDULED = "RESCHEDULED"
    """The missed fires were coalesced into one immediate fire, and the schedule restarts from that fire."""
    SKIPPED = "SKIPPED"
    """The missed fires were skipped; the trigger continues with its schedule."""
    CATCHING_UP = "CATCHING_UP"
    """The trigger catches up on the last missed fires one by one; earlier ones were skipped."""
    ENDED = "ENDED"
    """The trigger has no fire time left."""


class CompletionInstruction(StrEnum):
    """The instruction of an ended execution for its triggers (Quartz's `CompletedExecutionInstruction`)."""

    NOOP = "NOOP"
    """The trigger continues with its schedule."""
    SET_TRIGGER_COMPLETE = "SET_TRIGGER_COMPLETE"
    """The trigger that fired becomes COMPLETE."""
    DELETE_TRIGGER = "DELETE_TRIGGER"
    """The trigger that fired is deleted, and its job with it if the job is not durable and has no other trigger."""
    SET_ALL_JOB_TRIGGERS_COMPLETE = "SET_ALL_JOB_TRIGGERS_COMPLETE"
    """All triggers of the job become COMPLETE."""
    SET_TRIGGER_ERROR = "SET_TRIGGER_ERROR"
    """The trigger that fired goes into ERROR, until `reset_trigger_from_error_state`."""
    SET_ALL_JOB_TRIGGERS_ERROR = "SET_ALL_JOB_TRIGGERS_ERROR"
    """All triggers of the job go into ERROR."""

    @property
    def is_about_all_triggers(self) -> bool:
        """True if the instruction applies to all triggers of the job, not only to the one that fired."""
        return self in (self.SET_ALL_JOB_TRIGGERS_COMPLETE, self.SET_ALL_JOB_TRIGGERS_ERROR)

    @property
    def deletes(self) -> bool:
        """True if the instruction deletes the trigger that fired."""
        return self is self.DELETE_TRIGGER

    @property
    def finalizes(self) -> bool:
        """True if the trigger that fired never fires again because of the instruction."""
        return self in (self.SET_TRIGGER_COMPLETE, self.DELETE_TRIGGER)

    @property
    def state(self) -> TriggerState | None:
        """The new state of these triggers; None if the instruction sets no state."""
        match self:
            case self.SET_TRIGGER_COMPLETE | self.SET_ALL_JOB_TRIGGERS_COMPLETE:
                return TriggerState.COMPLETE
            case self.SET_TRIGGER_ERROR | self.SET_ALL_JOB_TRIGGERS_ERROR:
                return TriggerState.ERROR
            case _:
                return None


PAUSED_STATES = (TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED)

PUBLIC: dict[TriggerState, PublicState] = {
    TriggerState.WAITING: PublicState.NORMAL,
    TriggerState.ACQUIRED: PublicState.NORMAL,
    TriggerState.BLOCKED: PublicState.BLOCKED,
    TriggerState.PAUSED: PublicState.PAUSED,
    TriggerState.PAUSED_BLOCKED: PublicState.PAUSED,
    TriggerState.COMPLETE: PublicState.COMPLETE,
    TriggerState.ERROR: PublicState.ERROR,
}


def trigger_states(states: str | Collection[str]) -> frozenset[TriggerState]:
    """Return the states with these names, one or several, of `TriggerState` or of `PublicState`.

    A public state comprises several stored states: NORMAL is WAITING or ACQUIRED, and PAUSED is PAUSED or
    PAUSED_BLOCKED.

    Raises:
        InvalidValueError: a name is not the name of a state.
    """
    public = [str(state) for state in PublicState if state is not PublicState.NONE]
    names = [states] if isinstance(states, str) else states
    try:
        chosen = {str(PublicState(name)) if name in public else str(TriggerState(name)) for name in names}
    except (ValueError, TypeError) as error:
        allowed = ", ".join(dict.fromkeys([*TriggerState, *public]))
        raise InvalidValueError(f"state: must be among {allowed} (got {states!r})") from error
    return frozenset(state for state in TriggerState if state in chosen or PUBLIC[state] in chosen)
