"""The states of triggers, fires and executions.

A trigger's states are Quartz's. An executing trigger is WAITING or BLOCKED in `triggers`, and has a row in
`fired_triggers`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Self, TypeVar

from quartzpy.errors import InvalidValueError


def folded_word(text: str) -> str:
    """Return a word as it is compared: upper and lower case are the same, as are "-" and "_"."""
    return text.strip().lower().replace("-", "_")


class Word(StrEnum):
    """A word that people type, so that `ExecutionState("failed")` is FAILED."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        return next((word for word in cls if folded_word(word) == folded_word(value)), None)


class TriggerState(Word):
    """The state of a trigger, as records, lists and views tell it."""

    WAITING = "WAITING"
    BLOCKED = "BLOCKED"
    PAUSED = "PAUSED"
    PAUSED_BLOCKED = "PAUSED_BLOCKED"
    COMPLETE = "COMPLETE"
    ERROR = "ERROR"


class PublicState(Word):
    """The state that `Scheduler.trigger_state` returns (Quartz's `Trigger.TriggerState`)."""

    NONE = "NONE"
    NORMAL = "NORMAL"
    PAUSED = "PAUSED"
    COMPLETE = "COMPLETE"
    ERROR = "ERROR"
    BLOCKED = "BLOCKED"


class JobMode(Word):
    """The mode of a job: it decides which of the job's triggers fire."""

    ENABLED = "ENABLED"
    """All triggers fire."""
    MANUAL = "MANUAL"
    """Only manual triggers (`trigger_job`), retries, recoveries and continuations fire."""
    DISABLED = "DISABLED"
    """No trigger fires."""


class OverlapPolicy(Word):
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


class HeldBy(StrEnum):
    """What a BLOCKED trigger waits for."""

    SLOT = "SLOT"
    """An end of an execution of its job, as its limit of concurrent executions says."""
    RATE = "RATE"
    """The rate limit of its job."""
    SHARED = "SHARED"
    """Limits that its job shares with others."""


class Missed(Word):
    """The policy for the fires that a trigger missed while it was paused, applied when it is resumed."""

    MISFIRE = "misfire"
    """The trigger's misfire instruction decides, as in Quartz."""
    SKIP = "skip"
    """The missed fires are skipped: the trigger continues with its first fire time after the resumption."""
    ONCE = "once"
    """The missed fires are coalesced into one immediate fire."""


class Unreconciled(StrEnum):
    """The state of a trigger that a user's transaction has stored, without a look at the current pauses, limits and
    definition of its job. A trigger that has been compared with them has no such state."""

    NEW = "NEW"
    """The next acquire step reconciles the trigger."""
    HELD = "HELD"
    """A pause keeps the trigger from being reconciled; its resumption makes it NEW again."""


class MisfireRule(StrEnum):
    """When a WAITING trigger misfires, and so which step takes it: its part of the index of due triggers.

    It follows from other values of the trigger, and changes only with them; see `misfire_rule_of`.
    """

    NODE = "NODE"
    """The fire is a misfire if it is later than the threshold of the node's settings."""
    OWN = "OWN"
    """The fire is a misfire if it is later than the trigger's own threshold."""
    IGNORE = "IGNORE"
    """However late it is, the fire is made."""
    LATE = "LATE"
    """The fire is a misfire as soon as it is due: only the misfire step takes the trigger."""
    NEW = "NEW"
    """The trigger has to be reconciled first."""


def misfire_rule_of(
    *,
    ignores_misfires: bool,
    has_threshold: bool,
    catches_up: bool = False,
    missed_policy: Missed = Missed.MISFIRE,
    unreconciled: Unreconciled | None = None,
) -> MisfireRule:
    """Return the rule by which a trigger misfires.

    A trigger that catches up ignores misfires, because its missed fires were handled already.
    """
    if unreconciled is not None:
        return MisfireRule.NEW
    if missed_policy is not Missed.MISFIRE:
        return MisfireRule.LATE
    if catches_up or ignores_misfires:
        return MisfireRule.IGNORE
    return MisfireRule.OWN if has_threshold else MisfireRule.NODE


_Value = TypeVar("_Value", bound=StrEnum)
Moves = Mapping[_Value | None, frozenset[_Value | None]]
"""The values that may follow each value of a column; None is NULL."""

MISSED_POLICY_MOVES: Moves[Missed] = MappingProxyType(
    {
        # a resumption
        None: frozenset({Missed.SKIP, Missed.ONCE}),
        # the misfire step, or another pause and its resumption
        Missed.SKIP: frozenset({None, Missed.ONCE}),
        Missed.ONCE: frozenset({None, Missed.SKIP}),
    }
)
"""The moves of a trigger's policy for missed fires; None is `Missed.MISFIRE`. A new trigger has none."""

UNRECONCILED_MOVES: Moves[Unreconciled] = MappingProxyType(
    {
        # A user's transaction replaces the trigger.
        None: frozenset({Unreconciled.NEW}),
        Unreconciled.NEW: frozenset({None, Unreconciled.HELD}),
        # A transaction with the lock replaces the trigger: then it is reconciled.
        Unreconciled.HELD: frozenset({None, Unreconciled.NEW}),
    }
)
"""The moves of a trigger that may have to be reconciled. A new trigger has none, or is NEW."""


class JoinState(Word):
    """What a job that runs after several ends waits for."""

    WAITING = "WAITING"
    """More ends are needed."""
    FIRED = "FIRED"
    """The job was started. Further ends start nothing."""
    UNMET = "UNMET"
    """All executions of the batch have ended, but not with the outcomes for which its job runs; or the job was deleted,
    or does not run any more after what has ended."""


class FiredState(StrEnum):
    """The state of an execution that has not ended."""

    ACQUIRED = "ACQUIRED"
    """A node has taken the fire, and starts the job at its instant, a few milliseconds from now."""
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


class ExecutionState(Word):
    """The state of an execution, from before its fire to the history."""

    SCHEDULED = "SCHEDULED"
    """The next fire of a waiting trigger."""
    ENQUEUED = "ENQUEUED"
    """Taken by a node, which starts the job at its instant, a few milliseconds from now."""
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


class ActionState(Word):
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
    """The node fires triggers."""
    STANDBY = "STANDBY"
    """The node fires no triggers. What it has fired already runs."""
    DRAINING = "DRAINING"
    """The node fires no triggers, and gives fires that still wait for a worker back to the other nodes. Running
    executions end; after that the process can be stopped without loss."""


class MisfireAction(Word):
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


STORED_STATES = tuple(state for state in TriggerState if state is not TriggerState.PAUSED_BLOCKED)
"""The states of a row of `triggers`; running executions decide whether a trigger is PAUSED_BLOCKED."""
PAUSED_STATES = (TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED)

PUBLIC: dict[TriggerState, PublicState] = {
    TriggerState.WAITING: PublicState.NORMAL,
    TriggerState.BLOCKED: PublicState.BLOCKED,
    TriggerState.PAUSED: PublicState.PAUSED,
    TriggerState.PAUSED_BLOCKED: PublicState.PAUSED,
    TriggerState.COMPLETE: PublicState.COMPLETE,
    TriggerState.ERROR: PublicState.ERROR,
}


def trigger_states(states: str | Collection[str]) -> frozenset[TriggerState]:
    """Return the states with these names, one or several, of `TriggerState` or of `PublicState`.

    A public state comprises several states: PAUSED is PAUSED or PAUSED_BLOCKED.

    Raises:
        InvalidValueError: a name is not the name of a state.
    """
    public = {folded_word(state): state for state in PublicState if state is not PublicState.NONE}
    names = [states] if isinstance(states, str) else states
    try:
        chosen = {str(public.get(folded_word(str(name))) or TriggerState(name)) for name in names}
    except (ValueError, TypeError) as error:
        allowed = ", ".join(dict.fromkeys([*TriggerState, *public.values()]))
        raise InvalidValueError(f"state: must be among {allowed} (got {states!r})") from error
    return frozenset(state for state in TriggerState if state in chosen or PUBLIC[state] in chosen)
