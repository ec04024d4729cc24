"""The base classes of listeners, which have a method for each event, and the checks on adding a listener."""

from __future__ import annotations

import difflib
import inspect
from typing import TYPE_CHECKING

from quartzpy.errors import InvalidListenerError
from quartzpy.events import events
from quartzpy.texts import quoted

if TYPE_CHECKING:
    from quartzpy.jobs.context import JobExecutionContext

NEAR = 0.85
"""The similarity (0 to 1) from which an unknown method name counts as a misspelled event name."""


class JobListener:
    """A listener for the executions of jobs on this node. Override the methods of the events that you need."""

    def job_to_be_executed(self, event: events.JobToBeExecuted) -> None:
        """The job runs next on this thread, or on the event loop; again for each refire."""

    def job_execution_vetoed(self, event: events.JobExecutionVetoed) -> None:
        """A trigger listener vetoed the execution: it is SKIPPED."""

    def job_was_executed(self, event: events.JobWasExecuted) -> None:
        """The job has run. `error` is what it raised, `retry_after` when it is tried again."""

    def job_skipped(self, event: events.JobSkipped) -> None:
        """A fire was skipped, because its job was at its limit (APScheduler's EVENT_JOB_MAX_INSTANCES)."""


class TriggerListener:
    """A listener for the fires and misfires of triggers on this node. Override the methods that you need.

    The order of the calls for one execution is: `trigger_fired` and `veto_job_execution` of all trigger listeners,
    `job_to_be_executed`, the job itself, `job_was_executed`, `trigger_complete`.
    """

    def trigger_fired(self, event: events.TriggerFired) -> None:
        """A trigger fired, and its job is about to be executed unless a listener vetoes it."""

    def veto_job_execution(self, context: JobExecutionContext) -> bool:
        """Return True to skip this execution: it is recorded as SKIPPED. All trigger listeners are called."""
        return False

    def trigger_misfired(self, event: events.TriggerMisfired) -> None:
        """No node fired the trigger in time, and this node applied its misfire instruction."""

    def trigger_complete(self, event: events.TriggerComplete) -> None:
        """All that a fire brought about on this node is done."""


class SchedulerListener:
    """A listener for all other events of a scheduler. Override the methods that you need.

    It may also have the methods of a JobListener and of a TriggerListener, except `veto_job_execution`.
    """

    def job_added(self, event: events.JobAdded) -> None:
        """A job was stored, or replaced."""

    def job_deleted(self, event: events.JobDeleted) -> None:
        """A job was removed with its triggers."""

    def job_scheduled(self, event: events.JobScheduled) -> None:
        """A trigger was stored, or replaced."""

    def job_unscheduled(self, event: events.JobUnscheduled) -> None:
        """A trigger was removed."""

    def job_paused(self, event: events.JobPaused) -> None:
        """The triggers of a job were paused."""

    def job_resumed(self, event: events.JobResumed) -> None:
        """The triggers of a job were resumed."""

    def jobs_paused(self, event: events.JobsPaused) -> None:
        """Groups of jobs were paused."""

    def jobs_resumed(self, event: events.JobsResumed) -> None:
        """Groups of jobs were resumed."""

    def trigger_paused(self, event: events.TriggerPaused) -> None:
        """A trigger was paused."""

    def trigger_resumed(self, event: events.TriggerResumed) -> None:
        """A trigger was resumed."""

    def triggers_paused(self, event: events.TriggersPaused) -> None:
        """Groups of triggers were paused, or everything."""

    def triggers_resumed(self, event: events.TriggersResumed) -> None:
        """Groups of triggers were resumed, or everything."""

    def trigger_finalized(self, event: events.TriggerFinalized) -> None:
        """The trigger will not fire any more."""

    def expectation_broken(self, event: events.ExpectationBroken) -> None:
        """A fire did not do what is expected of it; only the node that judges for the cluster hears it."""

    def triggers_in_error(self, event: events.TriggersInError) -> None:
        """No instance of a job could be made: all its triggers go to ERROR, until somebody resets them."""

    def scheduling_data_cleared(self, event: events.SchedulingDataCleared) -> None:
        """All jobs, triggers, calendars and pauses were removed."""

    def scheduler_starting(self, event: events.SchedulerStarting) -> None:
        """`start` was called."""

    def scheduler_started(self, event: events.SchedulerStarted) -> None:
        """This node has joined the cluster, or continues after standby."""

    def scheduler_in_standby(self, event: events.SchedulerInStandby) -> None:
        """This node takes nothing more until it is started again."""

    def scheduler_shutting_down(self, event: events.SchedulerShuttingDown) -> None:
        """`shutdown` was called."""

    def scheduler_shut_down(self, event: events.SchedulerShutDown) -> None:
        """This node has stopped; `drained`: all its executions ended first."""

    def scheduler_error(self, event: events.SchedulerError) -> None:
        """Something failed on this node outside of any job; the node continues."""

    def nodes_recovered(self, event: events.NodesRecovered) -> None:
        """This node found other nodes dead and recovered their executions."""

    def nodes_differ(self, event: events.NodesDiffer) -> None:
        """Nodes of this cluster differ in values that should be equal: time zone data, release or settings."""

    def database_failed_over(self, event: events.DatabaseFailedOver) -> None:
        """The database is on another server, or on one that was promoted; connections to the former were dropped."""


_KINDS = (JobListener, TriggerListener, SchedulerListener)


def _methods(kind: type) -> frozenset[str]:
    return frozenset(name for name in vars(kind) if not name.startswith("_"))


_OF_KIND = {kind: _methods(kind) for kind in _KINDS}
_EVENTS = frozenset().union(*_OF_KIND.values())


def check_listener(listener: object, kind: type) -> None:
    """Check that a listener is of this kind and has no method that no event would ever call.

    Raises:
        InvalidListenerError: `listener` is not an instance of `kind`; or one of its methods has the name of another
            kind's method, nearly the name of an event, or does not take a single argument.
    """
    if not isinstance(listener, kind):
        raise InvalidListenerError(f"listener: must be an instance of {kind.__name__} (got {quoted(listener)})")
    kinds = [base for base in _KINDS if isinstance(listener, base)]
    called = frozenset().union(*(_OF_KIND[base] for base in kinds))
    if SchedulerListener in kinds:
        called |= _EVENTS - {"veto_job_execution"}
    owner = type(listener).__name__
    for name in sorted(_own_methods(type(listener))):
        if name in called:
            _check_signature(owner, name, getattr(type(listener), name))
        elif name in _EVENTS:
            right = next(base.__name__ for base in _KINDS if name in _OF_KIND[base])
            raise InvalidListenerError(f"listener: {owner}.{name} is never called; only a {right} has this method")
        elif near := difflib.get_close_matches(name, called, n=1, cutoff=NEAR):
            raise InvalidListenerError(f"listener: {owner}.{name} is never called; did you mean {near[0]}?")


def is_overridden(listener: object, name: str) -> bool:
    """Return whether a listener defines this method itself."""
    method = getattr(listener, name, None)
    if method is None:
        return False
    function = getattr(method, "__func__", method)
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
    except ValueError:  # A method written in C may have no signature.
        return
