"""The states of triggers, fires and executions, and which moves are legal.

A trigger's states are Quartz's. An executing trigger is WAITING or BLOCKED in `triggers`, and EXECUTING in
`fired_triggers`.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from quartzpy.errors import InvalidValueError


class TriggerState(StrEnum):
    """What a row of `triggers` says."""

    WAITING = "WAITING"
    ACQUIRED = "ACQUIRED"
    BLOCKED = "BLOCKED"
    PAUSED = "PAUSED"
    PAUSED_BLOCKED = "PAUSED_BLOCKED"
    COMPLETE = "COMPLETE"
    ERROR = "ERROR"


class PublicState(StrEnum):
    """What `Scheduler.trigger_state` answers (Quartz's `Trigger.TriggerState`)."""

    NONE = "NONE"
    NORMAL = "NORMAL"
    PAUSED = "PAUSED"
    COMPLETE = "COMPLETE"
    ERROR = "ERROR"
    BLOCKED = "BLOCKED"


class JobMode(StrEnum):
    """Which triggers of a job fire."""

    ENABLED = "ENABLED"
    MANUAL = "MANUAL"
    """Only those made by hand (`trigger_job`), retries, recoveries and continuations."""
    DISABLED = "DISABLED"
    """None."""


class OverlapPolicy(StrEnum):
    """What a fire does when as many executions of its job run as may."""

    BLOCK = "block"
    """Wait for an end, as Quartz does: each trigger of the job waits with its next fire."""
    SKIP = "skip"
    """Leave it out, as APScheduler's max_instances does: SKIPPED in the history."""
    BUFFER_ONE = "buffer_one"
    """One waits for an end and stands for all of its trigger that became due meanwhile; other triggers' are skipped."""
    CANCEL_OTHER = "cancel_other"
    """Ask the execution that runs longest to stop, and take its place when it has."""

    @property
    def coalesces(self) -> bool:
        """Whether a fire that waited stands for all instants of its trigger that have passed."""
        return self in (OverlapPolicy.BUFFER_ONE, OverlapPolicy.CANCEL_OTHER)


class Missed(StrEnum):
    """What becomes of the fires that a trigger missed while it was paused, when it is resumed."""

    MISFIRE = "misfire"
    """What its misfire instruction says, as in Quartz."""
    SKIP = "skip"
    """They are let go: it goes on with the next one that is to come."""
    ONCE = "once"
    """One fire at once stands for them all."""


class FiredState(StrEnum):
    """What a row of `fired_triggers` says."""

    ACQUIRED = "ACQUIRED"
    EXECUTING = "EXECUTING"


class Outcome(StrEnum):
    """How an execution ended, in the history."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    """Somebody asked it to stop, and it did."""
    SKIPPED = "SKIPPED"
    """Not run: its job's limit was reached, or a listener vetoed it."""
    SNOOZED = "SNOOZED"
    """The job asked to run again later (`context.snooze`): it has neither succeeded nor failed."""
    TERMINATED = "TERMINATED"
    """Its node stopped or was declared dead."""


class ExecutionState(StrEnum):
    """Where an execution is, from before its fire to the history."""

    SCHEDULED = "SCHEDULED"
    """To come: the next fire of a trigger that waits for it."""
    ENQUEUED = "ENQUEUED"
    """Claimed by a node, not fired yet."""
    PROCESSING = "PROCESSING"
    """Fired: it runs, or is about to."""
    SUCCEEDED = Outcome.SUCCEEDED
    FAILED = Outcome.FAILED
    SKIPPED = Outcome.SKIPPED
    CANCELLED = Outcome.CANCELLED
    SNOOZED = Outcome.SNOOZED
    TERMINATED = Outcome.TERMINATED


ENDED = frozenset(ExecutionState(outcome) for outcome in Outcome)
"""The states of executions in the history."""


def execution_states(given: str | Collection[str]) -> frozenset[ExecutionState]:
    """Return the states with these names, one or several.

    Raises:
        InvalidValueError: a name is not the name of a state.
    """
    names = [given] if isinstance(given, str) else given
    try:
        return frozenset(ExecutionState(name) for name in names)
    except (ValueError, TypeError) as error:
        raise InvalidValueError(f"state: must be among {', '.join(ExecutionState)} (got {given!r})") from error


def missed_of(given: str) -> Missed:
    """What of this name becomes of missed fires. Raises InvalidValueError: the name is none."""
    try:
        return Missed(given)
    except ValueError:
        raise InvalidValueError(f"missed: {', '.join(Missed)} (got {given!r})") from None


class MisfireAction(StrEnum):
    """What a misfire instruction did with a late trigger."""

    FIRED_ONCE = "FIRED_ONCE"
    """One fire at once stands for what was missed."""
    RESCHEDULED = "RESCHEDULED"
    """The same, and its schedule began anew with that fire."""
    SKIPPED = "SKIPPED"
    """What was missed is let go; it goes on with its schedule."""
    CATCHING_UP = "CATCHING_UP"
    """The last missed fires are made up for one by one; those before them are let go."""
    ENDED = "ENDED"
    """It has no fire time left."""


class CompletionInstruction(StrEnum):
    """What an ended job asks for (Quartz's `CompletedExecutionInstruction`)."""

    NOOP = "NOOP"
    SET_TRIGGER_COMPLETE = "SET_TRIGGER_COMPLETE"
    SET_ALL_JOB_TRIGGERS_COMPLETE = "SET_ALL_JOB_TRIGGERS_COMPLETE"
    SET_ALL_JOB_TRIGGERS_ERROR = "SET_ALL_JOB_TRIGGERS_ERROR"

    @property
    def is_about_all_triggers(self) -> bool:
        """Whether it is about all triggers of the job, not only the one that fired."""
        return self in (self.SET_ALL_JOB_TRIGGERS_COMPLETE, self.SET_ALL_JOB_TRIGGERS_ERROR)

    @property
    def state(self) -> TriggerState | None:
        """The state that these triggers are put into; None: as the fire left them."""
        if self is self.NOOP:
            return None
        return TriggerState.ERROR if self is self.SET_ALL_JOB_TRIGGERS_ERROR else TriggerState.COMPLETE


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


def trigger_states(given: str | Collection[str]) -> frozenset[TriggerState]:
    """Return the states with these names, one or several, of `TriggerState` or of `PublicState`.

    A public state is all states that it is shown for: NORMAL is WAITING and ACQUIRED, and PAUSED is PAUSED and
    PAUSED_BLOCKED.

    Raises:
        InvalidValueError: a name is not the name of a state.
    """
    public = [str(state) for state in PublicState if state is not PublicState.NONE]
    names = [given] if isinstance(given, str) else given
    try:
        chosen = {str(PublicState(name)) if name in public else str(TriggerState(name)) for name in names}
    except (ValueError, TypeError) as error:
        known = ", ".join(dict.fromkeys([*TriggerState, *public]))
        raise InvalidValueError(f"state: must be among {known} (got {given!r})") from error
    return frozenset(state for state in TriggerState if state in chosen or PUBLIC[state] in chosen)
