"""Whoever wants to know what happens: listeners for jobs, triggers and the scheduler, and plain callbacks.

They are called on the thread that does the thing, so they should be quick; a listener that raises is logged and harms
nothing. They hear what this process does: each node has its own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quartzpy.errors import InvalidListenerError
from quartzpy.events import (
    Event,
    JobExecutionVetoed,
    JobSkipped,
    JobToBeExecuted,
    JobWasExecuted,
    TriggerComplete,
    TriggerFired,
    TriggerMisfired,
)
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import KeyMatcher

if TYPE_CHECKING:
    from quartzpy.context import JobExecutionContext

logger = logging.getLogger(__name__)

Callback = Callable[[Event], None]


class JobListener:
    """Told of the executions of jobs on this node. Override what is wanted."""

    def job_to_be_executed(self, event: JobToBeExecuted) -> None: ...

    def job_execution_vetoed(self, event: JobExecutionVetoed) -> None: ...

    def job_was_executed(self, event: JobWasExecuted) -> None: ...

    def job_skipped(self, event: JobSkipped) -> None: ...


class TriggerListener:
    """Told of the fires and misfires of triggers on this node. Override what is wanted."""

    def trigger_fired(self, event: TriggerFired) -> None: ...

    def veto_job_execution(self, context: JobExecutionContext) -> bool:
        """Whether this execution shall not be: it is then SKIPPED, and the trigger goes on."""
        return False

    def trigger_misfired(self, event: TriggerMisfired) -> None: ...

    def trigger_complete(self, event: TriggerComplete) -> None: ...


class SchedulerListener:
    """Told of everything else: a method for each event of `quartzpy.events`, named by its `method`."""


@dataclass(frozen=True, slots=True)
class _Registration:
    owner: object
    wants: Callable[[Event], bool]
    tell: Callback
    veto: Callable[[JobExecutionContext], bool] | None = None


class Listeners:
    """The listeners of a scheduler (Quartz's `ListenerManager`). May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Replaced, never changed: it is read without the lock.
        self._registrations: tuple[_Registration, ...] = ()

    def add_job_listener(self, listener: JobListener, *matchers: KeyMatcher) -> None:
        """Tell `listener` of the jobs that one of the matchers matches; without matchers of all.

        Raises:
            InvalidListenerError: no JobListener, or added already.
        """
        _check(listener, JobListener)
        kinds = (JobToBeExecuted, JobExecutionVetoed, JobWasExecuted, JobSkipped)
        self._add(listener, lambda event: isinstance(event, kinds) and _any(matchers, event.job_key))

    def add_trigger_listener(self, listener: TriggerListener, *matchers: KeyMatcher) -> None:
        """Tell `listener` of the triggers that one of the matchers matches; without matchers of all.

        Raises:
            InvalidListenerError: no TriggerListener, or added already.
        """
        _check(listener, TriggerListener)
        kinds = (TriggerFired, TriggerMisfired, TriggerComplete)

        def veto(context: JobExecutionContext) -> bool:
            return _any(matchers, context.trigger_key) and listener.veto_job_execution(context)

        overridden = type(listener).veto_job_execution is not TriggerListener.veto_job_execution
        self._add(
            listener,
            lambda event: isinstance(event, kinds) and _any(matchers, event.trigger_key),
            veto if overridden else None,
        )

    def add_scheduler_listener(self, listener: SchedulerListener) -> None:
        """Tell `listener` of every event that it has a method for. Raises InvalidListenerError."""
        _check(listener, SchedulerListener)
        self._add(listener, lambda event: hasattr(listener, event.method))

    def add_listener(self, callback: Callback, *kinds: type[Event]) -> None:
        """Call `callback` with each event of these classes and their subclasses; without classes with each.

        Raises:
            InvalidListenerError: not callable, not classes of events, or added already.
        """
        if not callable(callback):
            raise InvalidListenerError(f"listener: a function of one event is needed (got {callback!r})")
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, Event)):
                raise InvalidListenerError(f"listener: classes of quartzpy.events are needed (got {kind!r})")
        wanted = kinds or (Event,)
        self._register(_Registration(callback, lambda event: isinstance(event, wanted), callback))

    def remove(self, listener: object) -> bool:
        """Tell a listener, or a callback, nothing more; whether it was there."""
        with self._lock:
            left = tuple(one for one in self._registrations if one.owner is not listener and one.owner != listener)
            was_there = len(left) < len(self._registrations)
            self._registrations = left
            return was_there

    def all(self) -> list[object]:
        """The listeners, in the order in which they are told."""
        return [one.owner for one in self._registrations]

    def _add(
        self,
        listener: object,
        wants: Callable[[Event], bool],
        veto: Callable[[JobExecutionContext], bool] | None = None,
    ) -> None:
        self._register(_Registration(listener, wants, lambda event: getattr(listener, event.method)(event), veto))

    def _register(self, registration: _Registration) -> None:
        with self._lock:
            if any(one.owner == registration.owner for one in self._registrations):
                raise InvalidListenerError(f"listener: {registration.owner!r} was added already")
            self._registrations = (*self._registrations, registration)

    # --- for the engine

    def __bool__(self) -> bool:
        return bool(self._registrations)

    def emit(self, event: Event) -> None:
        """Tell all that want to know. Never raises."""
        for one in self._registrations:
            try:
                if one.wants(event):
                    one.tell(event)
            except BaseException:
                logger.exception("listener %r failed with %s", one.owner, type(event).__name__)

    def is_vetoed(self, context: JobExecutionContext) -> bool:
        """Whether a listener vetoes an execution; one that raises does not."""
        asked = [self._vetoes(one, context) for one in self._registrations if one.veto is not None]
        return any(asked)

    @staticmethod
    def _vetoes(one: _Registration, context: JobExecutionContext) -> bool:
        assert one.veto is not None
        try:
            return bool(one.veto(context))
        except BaseException:
            logger.exception("listener %r failed to veto or not", one.owner)
            return False


def _check(listener: object, kind: type) -> None:
    if not isinstance(listener, kind):
        raise InvalidListenerError(f"listener: an instance of a {kind.__name__} is needed (got {listener!r})")


def _any(matchers: tuple[KeyMatcher, ...], key: JobKey | TriggerKey) -> bool:
    return not matchers or any(matcher.matches(key) for matcher in matchers)
