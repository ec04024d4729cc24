"""The kinds of listeners: classes to subclass, with a method for each event, and what is refused when one is added."""

from __future__ import annotations

import difflib
import inspect
from typing import TYPE_CHECKING

from quartzpy import events
from quartzpy.errors import InvalidListenerError

if TYPE_CHECKING:
    from quartzpy.context import JobExecutionContext

NEAR = 0.85
"""How alike an unknown method's name and an event's have to be for the one to be a misspelling of the other."""


class JobListener:
    """Hears of the executions of jobs on this node. Override the methods of the events that you want."""

    def job_to_be_executed(self, event: events.JobToBeExecuted) -> None: ...

    def job_execution_vetoed(self, event: events.JobExecutionVetoed) -> None: ...

    def job_was_executed(self, event: events.JobWasExecuted) -> None: ...

    def job_skipped(self, event: events.JobSkipped) -> None: ...


class TriggerListener:
    """Hears of the fires and misfires of triggers on this node. Override the methods of the events that you want.

    An execution calls them in this order: `trigger_fired` and `veto_job_execution` of all trigger listeners,
    `job_to_be_executed`, the job, `job_was_executed`, `trigger_complete`.
    """

    def trigger_fired(self, event: events.TriggerFired) -> None: ...

    def veto_job_execution(self, context: JobExecutionContext) -> bool:
        """Return True to leave out this execution: it is SKIPPED, and the trigger goes on. All listeners are asked."""
        return False

    def trigger_misfired(self, event: events.TriggerMisfired) -> None: ...

    def trigger_complete(self, event: events.TriggerComplete) -> None: ...


class SchedulerListener:
    """Hears of everything else. Override the methods of the events that you want.

    It may also have the methods of a JobListener and of a TriggerListener, apart from the veto.
    """

    def job_added(self, event: events.JobAdded) -> None: ...

    def job_deleted(self, event: events.JobDeleted) -> None: ...

    def job_scheduled(self, event: events.JobScheduled) -> None: ...

    def job_unscheduled(self, event: events.JobUnscheduled) -> None: ...

    def job_paused(self, event: events.JobPaused) -> None: ...

    def job_resumed(self, event: events.JobResumed) -> None: ...

    def jobs_paused(self, event: events.JobsPaused) -> None: ...

    def jobs_resumed(self, event: events.JobsResumed) -> None: ...

    def trigger_paused(self, event: events.TriggerPaused) -> None: ...

    def trigger_resumed(self, event: events.TriggerResumed) -> None: ...

    def triggers_paused(self, event: events.TriggersPaused) -> None: ...

    def triggers_resumed(self, event: events.TriggersResumed) -> None: ...

    def trigger_finalized(self, event: events.TriggerFinalized) -> None: ...

    def triggers_in_error(self, event: events.TriggersInError) -> None: ...

    def scheduling_data_cleared(self, event: events.SchedulingDataCleared) -> None: ...

    def scheduler_starting(self, event: events.SchedulerStarting) -> None: ...

    def scheduler_started(self, event: events.SchedulerStarted) -> None: ...

    def scheduler_in_standby(self, event: events.SchedulerInStandby) -> None: ...

    def scheduler_shutting_down(self, event: events.SchedulerShuttingDown) -> None: ...

    def scheduler_shut_down(self, event: events.SchedulerShutDown) -> None: ...

    def scheduler_error(self, event: events.SchedulerError) -> None: ...

    def nodes_recovered(self, event: events.NodesRecovered) -> None: ...

    def nodes_differ(self, event: events.NodesDiffer) -> None: ...

    def database_failed_over(self, event: events.DatabaseFailedOver) -> None: ...


_KINDS = (JobListener, TriggerListener, SchedulerListener)


def _methods(kind: type) -> frozenset[str]:
    return frozenset(name for name in vars(kind) if not name.startswith("_"))


_OF_KIND = {kind: _methods(kind) for kind in _KINDS}
_EVENTS = frozenset().union(*_OF_KIND.values())


def check_listener(listener: object, kind: type) -> None:
    """Refuse what is not a listener of this kind, and methods that no event would ever call.

    Raises:
        InvalidListenerError: not an instance of `kind`; a method that has another kind's name or nearly that of an
            event; one that does not take a single argument.
    """
    if not isinstance(listener, kind):
        raise InvalidListenerError(f"listener: an instance of a {kind.__name__} is needed (got {listener!r})")
    kinds = [one for one in _KINDS if isinstance(listener, one)]
    heard = frozenset().union(*(_OF_KIND[one] for one in kinds))
    if SchedulerListener in kinds:
        heard |= _EVENTS - {"veto_job_execution"}
    owner = type(listener).__name__
    for name in sorted(_own_methods(type(listener))):
        if name in heard:
            _check_signature(owner, name, getattr(type(listener), name))
        elif name in _EVENTS:
            right = next(one.__name__ for one in _KINDS if name in _OF_KIND[one])
            raise InvalidListenerError(f"listener: {owner}.{name} is never called; only a {right} has this method")
        elif near := difflib.get_close_matches(name, heard, n=1, cutoff=NEAR):
            raise InvalidListenerError(f"listener: {owner}.{name} is never called; did you mean {near[0]}?")


def is_overridden(listener: object, name: str) -> bool:
    """Return whether a listener has a method of its own of this name."""
    found = getattr(listener, name, None)
    if found is None:
        return False
    function = getattr(found, "__func__", found)
    return all(function is not getattr(kind, name, None) for kind in _KINDS)


def _own_methods(listener: type) -> set[str]:
    return {
        name
        for cls in listener.__mro__
        if cls not in (object, *_KINDS)
        for name, value in vars(cls).items()
        if not name.startswith("_") and inspect.isroutine(value)
    }


def _check_signature(owner: str, name: str, method: object) -> None:
    try:
        inspect.signature(method).bind(None, None)  # type: ignore[arg-type]
    except TypeError:
        what = "context" if name == "veto_job_execution" else "event"
        raise InvalidListenerError(f"listener: {owner}.{name} must take one argument, the {what}") from None
    except ValueError:  # A method written in C tells nothing about its arguments.
        return
