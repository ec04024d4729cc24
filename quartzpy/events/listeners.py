"""The registry of listeners and callbacks, and the delivery of events to them.

The worker that runs an execution delivers its events, in order; the caller of a scheduler method delivers those of the
call. Events of the node's own threads (which fire, handle misfires, recover and check in) are delivered by a separate
thread, so that a listener cannot block the node. An exception of a listener is logged and has no other effect; a slow
call is logged while it still runs. Listeners receive the events of this process only: each node has its own.
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

from quartzpy.errors import InvalidListenerError, InvalidMatcherError
from quartzpy.events.events import (
    Event,
    JobExecutionVetoed,
    JobSkipped,
    JobToBeExecuted,
    JobWasExecuted,
    TriggerComplete,
    TriggerFired,
    TriggerMisfired,
)
from quartzpy.events.listener_kinds import (
    JobListener,
    SchedulerListener,
    TriggerListener,
    check_listener,
    is_overridden,
)
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import KeyMatcher
from quartzpy.name_hints import NameHints
from quartzpy.texts import quoted

if TYPE_CHECKING:
    from quartzpy.jobs.context import JobExecutionContext

logger = logging.getLogger(__name__)

SLOW_AFTER = 1.0
"""The duration of a listener call, in seconds, after which a warning is logged."""
MAX_QUEUED = 10_000
"""The capacity of the queue of the delivery thread. When it is full, the oldest events are dropped."""

Callback = Callable[[Event], None]


@dataclass(slots=True, eq=False)
class _Registration:
    owner: object
    wants: Callable[[Event], bool]
    call: Callback
    veto: Callable[[JobExecutionContext], bool] | None = None
    matchers: tuple[KeyMatcher, ...] | None = None
    """The matchers of the keys to deliver: an empty tuple means all; None means that the listener takes no matchers."""

    def matches(self, key: JobKey | TriggerKey) -> bool:
        return not self.matchers or any(matcher.matches(key) for matcher in self.matchers)


@dataclass(slots=True)
class _Call:
    owner: object
    what: str
    since: float
    is_reported: bool = False


class Listeners(NameHints):
    """The listeners of a scheduler (Quartz's `ListenerManager`). It is thread-safe."""

    _quartz_sections = ("Matchers and listeners",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Replaced and never modified, because it is read without the lock.
        self.registered: tuple[_Registration, ...] = ()
        """The registrations, in the order of the calls; empty if nobody listens."""
        self._calls: dict[int, _Call] = {}
        self._queue: deque[Event] = deque()
        self._queue_changed = threading.Condition()
        self._thread_name: str | None = None
        self._thread: threading.Thread | None = None
        self.dropped = 0
        """The number of events that were dropped because listeners were too slow."""

    def add_job_listener(self, listener: JobListener, *matchers: KeyMatcher) -> None:
        """Call `listener` for the jobs that one of the matchers matches; without matchers, for all jobs.

        Raises:
            InvalidListenerError: `listener` is not a JobListener, was already added, or has a method that no event
                calls.
            InvalidMatcherError: a matcher is not a KeyMatcher.
        """
        check_listener(listener, JobListener)
        kinds = (JobToBeExecuted, JobExecutionVetoed, JobWasExecuted, JobSkipped)
        registration = _Registration(listener, bool, _method_of(listener), matchers=_checked(matchers))
        registration.wants = lambda event: isinstance(event, kinds) and registration.matches(event.job_key)
        self._register(registration)

    def add_trigger_listener(self, listener: TriggerListener, *matchers: KeyMatcher) -> None:
        """Call `listener` for the triggers that one of the matchers matches; without matchers, for all triggers.

        Raises:
            InvalidListenerError: `listener` is not a TriggerListener, was already added, or has a method that no event
                calls.
            InvalidMatcherError: a matcher is not a KeyMatcher.
        """
        check_listener(listener, TriggerListener)
        kinds = (TriggerFired, TriggerMisfired, TriggerComplete)
        registration = _Registration(listener, bool, _method_of(listener), matchers=_checked(matchers))
        registration.wants = lambda event: isinstance(event, kinds) and registration.matches(event.trigger_key)
        if is_overridden(listener, "veto_job_execution"):
            registration.veto = lambda context: (
                registration.matches(context.trigger_key) and listener.veto_job_execution(context)
            )
        self._register(registration)

    def add_scheduler_listener(self, listener: SchedulerListener) -> None:
        """Call `listener` for every event that it has a method for.

        Raises:
            InvalidListenerError: `listener` is not a SchedulerListener, was already added, or has a method that no
                event calls.
        """
        check_listener(listener, SchedulerListener)
        overridden: dict[str, bool] = {}

        def wants(event: Event) -> bool:
            if event.method not in overridden:
                overridden[event.method] = is_overridden(listener, event.method)
            return overridden[event.method]

        self._register(_Registration(listener, wants, _method_of(listener)))

    def matchers_of(self, listener: JobListener | TriggerListener) -> tuple[KeyMatcher, ...]:
        """Return the matchers of a job listener or a trigger listener. An empty tuple means that it receives all keys.

        Raises:
            InvalidListenerError: the listener was not added, or is of a kind that takes no matchers.
        """
        return self._with_matchers(listener).matchers or ()

    def set_matchers(self, listener: JobListener | TriggerListener, *matchers: KeyMatcher) -> None:
        """Replace the matchers of a job listener or a trigger listener. Without matchers it receives all keys.

        Raises:
            InvalidListenerError: the listener was not added, or is of a kind that takes no matchers.
            InvalidMatcherError: a matcher is not a KeyMatcher.
        """
        self._with_matchers(listener).matchers = _checked(matchers)

    def _with_matchers(self, listener: object) -> _Registration:
        registration = next((other for other in self.registered if other.owner is listener), None)
        if registration is None:
            raise InvalidListenerError(f"listener: {listener!r} was not added")
        if registration.matchers is None:
            raise InvalidListenerError(
                f"listener: {listener!r} receives all keys; only job and trigger listeners have matchers"
            )
        return registration

    def add_listener(self, callback: Callback, *kinds: type[Event]) -> None:
        """Call `callback` with each event of these classes and their subclasses; without classes, with every event.

        Raises:
            InvalidListenerError: `callback` is not callable or was already added, or one of `kinds` is not an event
                class.
        """
        if not callable(callback):
            raise InvalidListenerError(f"listener: must be a function that takes one event (got {quoted(callback)})")
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, Event)):
                raise InvalidListenerError(f"listener: kinds must be classes of quartzpy.events (got {quoted(kind)})")
        accepted = kinds or (Event,)
        self._register(_Registration(callback, lambda event: isinstance(event, accepted), callback))

    def remove(self, listener: object) -> bool:
        """Remove a listener or callback. Return whether it had been added."""
        with self._lock:
            remaining = tuple(
                registration
                for registration in self.registered
                if registration.owner is not listener and registration.owner != listener
            )
            was_there = len(remaining) < len(self.registered)
            self.registered = remaining
            return was_there

    def all(self) -> list[object]:
        """Return the listeners in the order in which they are called."""
        return [registration.owner for registration in self.registered]

    def _register(self, registration: _Registration) -> None:
        with self._lock:
            if any(other.owner == registration.owner for other in self.registered):
                raise InvalidListenerError(f"listener: {registration.owner!r} has already been added")
            self.registered = (*self.registered, registration)

    # --- for the engine

    def open(self, name: str) -> None:
        """Begin to deliver the events of the node's threads by a separate thread with this name."""
        with self._queue_changed:
            self._thread_name = name

    def close(self) -> None:
        """End the delivery thread, after it has delivered the events in its queue."""
        with self._queue_changed:
            self._thread_name = None
            self._queue_changed.notify_all()

    def emit(self, event: Event) -> None:
        """Call all listeners that accept this event. Never raises."""
        for registration in self.registered:
            with self._call_of(registration, f"with {type(event).__name__}"):
                if registration.wants(event):
                    registration.call(event)

    def post(self, event: Event) -> None:
        """Queue an event of a thread that fires, handles misfires or checks in, for delivery by another thread."""
        if not self.registered:
            return
        if self._thread_name is None:
            self.emit(event)
        else:
            self._enqueue(event)

    def is_vetoed(self, context: JobExecutionContext) -> bool:
        """Return True if a listener vetoes an execution. All are called; an error of a listener is not a veto."""
        vetoes = [
            self._vetoes(registration, context) for registration in self.registered if registration.veto is not None
        ]
        return any(vetoes)

    def _vetoes(self, registration: _Registration, context: JobExecutionContext) -> bool:
        assert registration.veto is not None
        with self._call_of(registration, "for a veto"):
            return bool(registration.veto(context))
        return False

    @contextmanager
    def _call_of(self, registration: _Registration, what: str) -> Iterator[None]:
        """Time the call of a listener in this block, and log an error that it raises instead of propagating it."""
        call = _Call(registration.owner, what, time.monotonic())
        self._calls[id(call)] = call
        try:
            yield
        except BaseException:
            with suppress(BaseException):
                logger.exception("listener %s raised an error when called %s", _name_of(registration.owner), what)
        finally:
            self._calls.pop(id(call), None)

    # --- the delivery thread

    def _enqueue(self, event: Event) -> None:
        with self._queue_changed:
            if len(self._queue) >= MAX_QUEUED:
                self._queue.popleft()
                if not self.dropped:
                    logger.error("listeners are too slow: the queue of their events is full; dropping the oldest")
                self.dropped += 1
            self._queue.append(event)
            self._ensure_thread()
            self._queue_changed.notify()

    def _ensure_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        with suppress(RuntimeError, MemoryError):  # If no thread can be started now, `check` tries again.
            thread = threading.Thread(target=self._deliver, name=self._thread_name, daemon=True)
            thread.start()
            self._thread = thread

    def _deliver(self) -> None:
        while True:
            with self._queue_changed:
                while not self._queue and self._thread_name is not None:
                    self._queue_changed.wait(3_600)
                if not self._queue:
                    self._thread = None
                    return
                event = self._queue.popleft()
            self.emit(event)

    @property
    def is_busy(self) -> bool:
        """True while a listener is being called, or events wait for their delivery."""
        return bool(self._calls or self._queue)

    def check(self) -> None:
        """Log a warning for each listener call that has run for `SLOW_AFTER`, once for each call."""
        now = time.monotonic()
        for call in list(self._calls.values()):
            if not call.is_reported and now - call.since >= SLOW_AFTER:
                call.is_reported = True
                logger.warning(
                    "listener %s, called %s, is still running after %.1f s",
                    _name_of(call.owner),
                    call.what,
                    now - call.since,
                )
        with self._queue_changed:
            if self._queue:
                self._ensure_thread()


def _name_of(listener: object) -> str:
    try:
        return repr(listener)
    except BaseException:
        return f"<{type(listener).__qualname__}>"


def _method_of(listener: object) -> Callback:
    """Return a function that calls the listener method named by the event."""
    return lambda event: getattr(listener, event.method)(event)


def _checked(matchers: tuple[KeyMatcher, ...]) -> tuple[KeyMatcher, ...]:
    for matcher in matchers:
        if not isinstance(matcher, KeyMatcher):
            raise InvalidMatcherError(
                f"matcher: must be a KeyMatcher, such as KeyMatcher.group('equals', 'x') (got {quoted(matcher)})"
            )
    return matchers
