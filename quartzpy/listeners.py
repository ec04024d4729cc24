"""Whoever wants to know what happens: listeners for jobs, triggers and the scheduler, and plain callbacks.

What concerns an execution is told by the worker that has it, in order, and a call of the facade by its caller. What the
threads of a node that fire, recover and check in have to tell is told by a thread apart: no listener can stop them. A
listener that raises is logged and harms nothing; one that takes long is logged too, while it still runs. They hear what
this process does: each node has its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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

SLOW_AFTER = 1.0
"""Seconds after which a listener that still runs is reported."""
MOST_WAITING = 10_000
"""So many events wait for the thread that tells them; while more come, the oldest are dropped."""

Callback = Callable[[Event], None]


class JobListener:
    """Told of the executions of jobs on this node. Override what is wanted."""

    def job_to_be_executed(self, event: JobToBeExecuted) -> None:
        """The job is about to run."""

    def job_execution_vetoed(self, event: JobExecutionVetoed) -> None:
        """A trigger listener vetoed the execution, so the job does not run."""

    def job_was_executed(self, event: JobWasExecuted) -> None:
        """The job has run; the event has its outcome and its error."""

    def job_skipped(self, event: JobSkipped) -> None:
        """The job was at its limit of concurrent executions, and the fire was skipped."""


class TriggerListener:
    """Told of the fires and misfires of triggers on this node. Override what is wanted."""

    def trigger_fired(self, event: TriggerFired) -> None:
        """The trigger fired, and its job is about to run."""

    def veto_job_execution(self, context: JobExecutionContext) -> bool:
        """Whether this execution shall not be: it is then SKIPPED, and the trigger goes on."""
        return False

    def trigger_misfired(self, event: TriggerMisfired) -> None:
        """The trigger was not fired in time, and its misfire instruction was applied."""

    def trigger_complete(self, event: TriggerComplete) -> None:
        """The trigger has fired and its job has run."""


class SchedulerListener:
    """Told of everything else: a method for each event of `quartzpy.events`, named by its `method`."""


@dataclass(frozen=True, slots=True)
class _Registration:
    owner: object
    wants: Callable[[Event], bool]
    tell: Callback
    veto: Callable[[JobExecutionContext], bool] | None = None


@dataclass(slots=True)
class _Call:
    owner: object
    what: str
    since: float
    is_reported: bool = False


class Listeners:
    """The listeners of a scheduler (Quartz's `ListenerManager`). May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Replaced, never changed: it is read without the lock.
        self._registrations: tuple[_Registration, ...] = ()
        self._calls: dict[int, _Call] = {}
        self._waiting: deque[Event] = deque()
        self._waiting_changed = threading.Condition()
        self._thread_name: str | None = None
        self._teller: threading.Thread | None = None
        self.dropped = 0
        """How many events were dropped because listeners were too slow for them."""
        self.slow_calls = 0
        """How many calls of listeners were reported as slow."""

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

    def open(self, name: str) -> None:
        """A node begins: from now on its threads do not tell listeners themselves."""
        with self._waiting_changed:
            self._thread_name = name

    def close(self) -> None:
        """The node has ended; what waits is still told."""
        with self._waiting_changed:
            self._thread_name = None
            self._waiting_changed.notify_all()

    def emit(self, event: Event) -> None:
        """Tell all that want to know. Never raises."""
        for one in self._registrations:
            with self._call_of(one, f"with {type(event).__name__}"):
                if one.wants(event):
                    one.tell(event)

    def post(self, event: Event) -> None:
        """As `emit`, for the threads that fire, handle misfires and check in: another thread tells it, in order."""
        if not self._registrations:
            return
        if self._thread_name is None:
            self.emit(event)
        else:
            self._keep(event)

    def is_vetoed(self, context: JobExecutionContext) -> bool:
        """Whether a listener vetoes an execution; one that raises does not."""
        asked = [self._vetoes(one, context) for one in self._registrations if one.veto is not None]
        return any(asked)

    def _vetoes(self, one: _Registration, context: JobExecutionContext) -> bool:
        assert one.veto is not None
        with self._call_of(one, "to veto or not"):
            return bool(one.veto(context))
        return False

    @contextmanager
    def _call_of(self, one: _Registration, what: str) -> Iterator[None]:
        """A call of a listener: nothing that it raises passes."""
        call = _Call(one.owner, what, time.monotonic())
        self._calls[id(call)] = call
        try:
            yield
        except BaseException:
            with suppress(BaseException):
                logger.exception("listener %s failed %s", _name_of(one.owner), what)
        finally:
            self._calls.pop(id(call), None)

    # --- the thread that tells

    def _keep(self, event: Event) -> None:
        with self._waiting_changed:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
                if not self.dropped:
                    logger.error("listeners are too slow: of the events that wait for them, the oldest are dropped")
                self.dropped += 1
            self._waiting.append(event)
            self._ensure_thread()
            self._waiting_changed.notify()

    def _ensure_thread(self) -> None:
        if self._teller is not None and self._teller.is_alive():
            return
        with suppress(RuntimeError, MemoryError):  # Where no thread can be started, `look` tries again.
            teller = threading.Thread(target=self._tell_all, name=self._thread_name, daemon=True)
            teller.start()
            self._teller = teller

    def _tell_all(self) -> None:
        while True:
            with self._waiting_changed:
                while not self._waiting and self._thread_name is not None:
                    self._waiting_changed.wait(3_600)
                if not self._waiting:
                    self._teller = None
                    return
                event = self._waiting.popleft()
            self.emit(event)

    def look(self) -> None:
        """Report each listener that has run for `SLOW_AFTER`, once for each call."""
        now = time.monotonic()
        for call in list(self._calls.values()):
            if not call.is_reported and now - call.since >= SLOW_AFTER:
                call.is_reported = True
                self.slow_calls += 1
                logger.warning(
                    "listener %s has been called %s, and still runs after %.1f s",
                    _name_of(call.owner),
                    call.what,
                    now - call.since,
                )
        with self._waiting_changed:
            if self._waiting:
                self._ensure_thread()


def _name_of(listener: object) -> str:
    try:
        return repr(listener)
    except BaseException:
        return f"<{type(listener).__qualname__}>"


def _check(listener: object, kind: type) -> None:
    if not isinstance(listener, kind):
        raise InvalidListenerError(f"listener: an instance of a {kind.__name__} is needed (got {listener!r})")


def _any(matchers: tuple[KeyMatcher, ...], key: JobKey | TriggerKey) -> bool:
    return not matchers or any(matcher.matches(key) for matcher in matchers)
