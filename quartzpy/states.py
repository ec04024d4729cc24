"""The states of triggers, fires and executions, and which moves are legal.

A trigger's states are Quartz's. An executing trigger is WAITING or BLOCKED in `triggers`, and EXECUTING in
`fired_triggers`.
"""

from __future__ import annotations

from enum import StrEnum


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
    """Only those made by hand (`trigger_job`), retries and recoveries."""
    DISABLED = "DISABLED"
    """None."""


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
    TERMINATED = "TERMINATED"
    """Its node stopped or was declared dead."""


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


PUBLIC: dict[TriggerState, PublicState] = {
    TriggerState.WAITING: PublicState.NORMAL,
    TriggerState.ACQUIRED: PublicState.NORMAL,
    TriggerState.BLOCKED: PublicState.BLOCKED,
    TriggerState.PAUSED: PublicState.PAUSED,
    TriggerState.PAUSED_BLOCKED: PublicState.PAUSED,
    TriggerState.COMPLETE: PublicState.COMPLETE,
    TriggerState.ERROR: PublicState.ERROR,
}
