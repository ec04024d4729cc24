"""The actions that are allowed at a moment on what a view shows, by their names, whatever the role of the actor."""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.states import ExecutionState, JobMode, NodeMode, Outcome, TriggerState

_PAUSED = frozenset({TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED})
_ENDED_STATES = frozenset(ExecutionState(outcome) for outcome in Outcome)
_ENDED = frozenset({TriggerState.COMPLETE, TriggerState.ERROR})


def on_trigger(
    state: TriggerState, mode: JobMode | None, *, is_held: bool, has_next: bool, is_readable: bool
) -> tuple[str, ...]:
    """Return the actions on a trigger.

    Args:
        state: its state.
        mode: the mode of its job.
        is_held: the mode of its job or of the scheduler keeps it paused, so that resuming it alone changes nothing.
        has_next: it has a next fire time.
        is_readable: this process can decode it.
    """
    allowed = {
        "reset": state is TriggerState.ERROR,
        "pause": state not in _PAUSED | _ENDED,
        "resume": state in _PAUSED and not is_held,
        "skip_next": has_next and is_readable and state not in _ENDED,
        "reschedule": is_readable,
        "backfill": is_readable and mode is not JobMode.DISABLED,
        "delete": True,
    }
    return _names(allowed)


def on_job(mode: JobMode, states: Collection[TriggerState], *, has_more: bool) -> tuple[str, ...]:
    """Return the actions on a job. `states` are those of its triggers; `has_more` is true if these are not all."""
    # The triggers of a job in another mode are paused, and stay so.
    is_free = mode is JobMode.ENABLED
    allowed = {
        "trigger": mode is not JobMode.DISABLED,
        "pause": is_free and (has_more or any(state not in _PAUSED | _ENDED for state in states)),
        "resume": is_free and (has_more or any(state in _PAUSED for state in states)),
        "enable": mode is not JobMode.ENABLED,
        "disable": mode is not JobMode.DISABLED,
        "delete": True,
    }
    return _names(allowed)


def on_execution(
    state: ExecutionState, mode: JobMode | None, *, has_ended: bool, cancel_requested: bool
) -> tuple[str, ...]:
    """Return the actions on an execution. `mode` is that of its job; None if the job is not stored any more."""
    allowed = {
        "cancel": state is ExecutionState.PROCESSING and not cancel_requested,
        "run_again": has_ended and mode is not None and mode is not JobMode.DISABLED,
    }
    return _names(allowed)


def on_node(mode: NodeMode, *, is_dead: bool) -> tuple[str, ...]:
    """Return the actions on a node. A dead one would not hear of any."""
    is_taking = mode is NodeMode.RUNNING
    allowed = {"drain": is_taking, "standby": is_taking, "resume_node": not is_taking}
    return () if is_dead else _names(allowed)


def on_some_trigger(states: Collection[TriggerState]) -> frozenset[str]:
    """Return the actions that are possible on a trigger in one of these states."""
    return frozenset(
        name
        for state in states
        for name in on_trigger(state, JobMode.ENABLED, is_held=False, has_next=True, is_readable=True)
    )


def on_some_job(modes: Collection[JobMode]) -> frozenset[str]:
    """Return the actions that are possible on a job in one of these modes."""
    return frozenset(name for mode in modes for name in on_job(mode, (), has_more=True))


def on_some_execution(states: Collection[ExecutionState]) -> frozenset[str]:
    """Return the actions that are possible on an execution in one of these states."""
    return frozenset(
        name
        for state in states
        for name in on_execution(state, JobMode.ENABLED, has_ended=state in _ENDED_STATES, cancel_requested=False)
    )


def _names(allowed: dict[str, bool]) -> tuple[str, ...]:
    return tuple(name for name, is_allowed in allowed.items() if is_allowed)
