"""Tells listeners and plain callbacks what happens: whom, of what, on which thread.

The worker that runs an execution tells of it, in order, and the caller of a verb tells of that. What the node's own
threads have to tell (they fire, handle misfires, recover and check in) is told by a thread of its own, so that no
listener can stop them. A listener that raises is logged and harms nothing; one that takes long is logged while it still
runs. Listeners hear what this process does: each node has its own.
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
from quartzpy.listener_kinds import JobListener, SchedulerListener, TriggerListener, check_listener, is_overridden
from quartzpy.matchers import KeyMatcher

if TYPE_CHECKING:
    from quartzpy.context import JobExecutionContext

logger = logging.getLogger(__name__)

SLOW_AFTER = 1.0
"""Seconds after which a listener that still runs is reported."""
MOST_WAITING = 10_000
"""The most events that may wait for the thread that tells them. While more come, the oldest are dropped."""

Callback = Callable[[Event], None]


@dataclass(slots=True, eq=False)
class _Registration:
    owner: object
    wants: Callable[[Event], bool]
    tell: Callback
    veto: Callable[[JobExecutionContext], bool] | None = None
    matchers: tuple[KeyMatcher, ...] | None = None
    """The keys that it hears of; an empty tuple stands for all, None for a listener that takes no matchers."""

    def matches(self, key: JobKey | TriggerKey) -> bool:
        return not self.matchers or any(matcher.matches(key) for matcher in self.matchers)


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
        """The number of events that were dropped because listeners were too slow for them."""
        self.slow_calls = 0
        """The number of calls of listeners that were reported as slow."""

    def add_job_listener(self, listener: JobListener, *matchers: KeyMatcher) -> None:
        """Tell `listener` of the jobs that one of the matchers matches; without matchers, of all jobs.

        Raises:
            InvalidListenerError: not a JobListener, added already, or a method that no event calls.
            InvalidMatcherError: something else than a KeyMatcher is given as a matcher.
        """
        check_listener(listener, JobListener)
        kinds = (JobToBeExecuted, JobExecutionVetoed, JobWasExecuted, JobSkipped)
        made = _Registration(listener, bool, _method_of(listener), matchers=_checked(matchers))
        made.wants = lambda event: isinstance(event, kinds) and made.matches(event.job_key)
        self._register(made)

    def add_trigger_listener(self, listener: TriggerListener, *matchers: KeyMatcher) -> None:
        """Tell `listener` of the triggers that one of the matchers matches; without matchers, of all triggers.

        Raises:
            InvalidListenerError: not a TriggerListener, added already, or a method that no event calls.
            InvalidMatcherError: something else than a KeyMatcher is given as a matcher.
        """
        check_listener(listener, TriggerListener)
        kinds = (TriggerFired, TriggerMisfired, TriggerComplete)
        made = _Registration(listener, bool, _method_of(listener), matchers=_checked(matchers))
        made.wants = lambda event: isinstance(event, kinds) and made.matches(event.trigger_key)
        if is_overridden(listener, "veto_job_execution"):
            made.veto = lambda context: made.matches(context.trigger_key) and listener.veto_job_execution(context)
        self._register(made)

    def add_scheduler_listener(self, listener: SchedulerListener) -> None:
        """Tell `listener` of every event that it has a method for.

        Raises:
            InvalidListenerError: not a SchedulerListener, added already, or a method that no event calls.
        """
        check_listener(listener, SchedulerListener)
        heard: dict[str, bool] = {}

        def wants(event: Event) -> bool:
            if event.method not in heard:
                heard[event.method] = is_overridden(listener, event.method)
            return heard[event.method]

        self._register(_Registration(listener, wants, _method_of(listener)))

    def matchers_of(self, listener: JobListener | TriggerListener) -> tuple[KeyMatcher, ...]:
        """Return the matchers of a job listener or a trigger listener; an empty tuple means that it hears of all.

        Raises:
            InvalidListenerError: it was not added, or is a listener that takes no matchers.
        """
        return self._with_matchers(listener).matchers or ()

    def set_matchers(self, listener: JobListener | TriggerListener, *matchers: KeyMatcher) -> None:
        """Replace the matchers of a job listener or a trigger listener; without matchers it hears of all.

        Raises:
            InvalidListenerError: it was not added, or is a listener that takes no matchers.
            InvalidMatcherError: something else than a KeyMatcher is given.
        """
        self._with_matchers(listener).matchers = _checked(matchers)

    def _with_matchers(self, listener: object) -> _Registration:
        found = next((one for one in self._registrations if one.owner is listener), None)
        if found is None:
            raise InvalidListenerError(f"listener: {listener!r} was not added")
        if found.matchers is None:
            raise InvalidListenerError(
                f"listener: {listener!r} hears of all keys; only job and trigger listeners choose"
            )
        return found

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

    def _register(self, registration: _Registration) -> None:
        with self._lock:
            if any(one.owner == registration.owner for one in self._registrations):
                raise InvalidListenerError(f"listener: {registration.owner!r} was added already")
            self._registrations = (*self._registrations, registration)

    # --- for the engine

    def __bool__(self) -> bool:
        return bool(self._registrations)

    def open(self, name: str) -> None:
        """Note that a node begins: from now on its threads do not call listeners themselves."""
        with self._waiting_changed:
            self._thread_name = name

    def close(self) -> None:
        """Note that the node has ended. Events that wait are still told."""
        with self._waiting_changed:
            self._thread_name = None
            self._waiting_changed.notify_all()

    def emit(self, event: Event) -> None:
        """Tell all listeners that want to know of this event. Never raises."""
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
        """Return whether a listener vetoes an execution. All are asked; one that raises does not veto."""
        asked = [self._vetoes(one, context) for one in self._registrations if one.veto is not None]
        return any(asked)

    def _vetoes(self, one: _Registration, context: JobExecutionContext) -> bool:
        assert one.veto is not None
        with self._call_of(one, "to veto or not"):
            return bool(one.veto(context))
        return False

    @contextmanager
    def _call_of(self, one: _Registration, what: str) -> Iterator[None]:
        """Call a listener inside this block: nothing that it raises gets out."""
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


def _method_of(listener: object) -> Callback:
    """Return what calls the method of the listener that an event names."""
    return lambda event: getattr(listener, event.method)(event)


def _checked(matchers: tuple[KeyMatcher, ...]) -> tuple[KeyMatcher, ...]:
    for matcher in matchers:
        if not isinstance(matcher, KeyMatcher):
            raise InvalidMatcherError(
                f"matcher: a KeyMatcher is needed, as KeyMatcher.group('equals', 'x') (got {matcher!r})"
            )
    return matchers
