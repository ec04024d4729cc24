"""Observers of a node: metrics and traces learn from them what the node does, with one call for each step.

The store of a node is called through `watched`, which times each step and passes its answer on. So the threads of the
node know nothing of metrics, and a step without observers costs nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from quartzpy.expect import BreachRecord
from quartzpy.node.service import Repetitions
from quartzpy.store.protocol import Completion, JobStore

logger = logging.getLogger(__name__)

STEPS = {
    "acquire": "acquire",
    "complete": "complete",
    "recover_misfires": "misfire",
    "check_in": "check_in",
    "recover": "recover",
    "holdings": "compare",
    "reconcile": "reconcile",
    "cancel_requests": "cancel_requests",
    "repair": "repair",
    "purge_history": "purge",
}
"""The methods of a store that are steps of a node, and the names of the steps."""
OWN_STEPS = {
    "report_progress": "progress",
    "apply_time_off": "time_off",
    "publish": "publish",
    "decide": "decide",
    "refill": "refill",
    "reject": "reject",
    "wake_others": "wake_others",
    "set_node_mode": "mode",
    "subtract_node_deaths": "deaths",
}
"""Further steps, of which only the node itself is told."""


class Observer:
    """Is told what one node does. The methods must be fast, because they are called between the steps.

    Different threads call them. An exception is logged and has no other effect.
    """

    def stepped(self, step: str, seconds: float, answer: Any) -> None:
        """A step has succeeded. `answer` is what the store returned."""

    def failed(self, step: str, seconds: float, error: BaseException) -> None:
        """A step has failed."""

    def recorded(self, completions: Sequence[Completion]) -> None:
        """Executions of this node have ended and were recorded."""

    def breached(self, breaches: Sequence[BreachRecord]) -> None:
        """This node has judged for the cluster, and has recorded fires that did not do what is expected of them."""

    def stopped(self) -> None:
        """The node has left the cluster, or the scheduler was shut down without having been started."""


class Observers:
    """The observers of one scheduler. They are added before its node is made."""

    def __init__(self) -> None:
        # Replaced and never modified, because the threads of the node read it.
        self.members: tuple[Observer, ...] = ()
        self._repetitions: dict[int, Repetitions] = {}

    def add(self, observer: Observer) -> None:
        self.members = (*self.members, observer)

    def recorded(self, completions: Sequence[Completion]) -> None:
        self._tell(lambda observer: observer.recorded(completions))

    def breached(self, breaches: Sequence[BreachRecord]) -> None:
        self._tell(lambda observer: observer.breached(breaches))

    def stopped(self) -> None:
        self._tell(lambda observer: observer.stopped())

    def watched(self, store: JobStore, own: Observer | None = None) -> JobStore:
        """Return the store with its steps observed, for a node whose own observer is `own`."""
        return cast("JobStore", _WatchedStore(store, self, own or Observer()))

    def run(self, step: str, call: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return the answer of a step, and tell the observers of it."""
        began = time.perf_counter()
        try:
            answer = call(*arguments, **options)
        except BaseException as error:
            seconds, failure = time.perf_counter() - began, error
            self._tell(lambda observer: observer.failed(step, seconds, failure))
            raise
        seconds = time.perf_counter() - began
        self._tell(lambda observer: observer.stepped(step, seconds, answer))
        return answer

    def _tell(self, what: Callable[[Observer], None]) -> None:
        for observer in self.members:
            try:
                what(observer)
            except Exception as error:
                # One that fails fails at each step.
                if self._repetitions.setdefault(id(observer), Repetitions(time.monotonic)).are_told(error):
                    logger.exception("an observer of the node failed: %r", observer)


class _WatchedStore:
    """A store whose steps are observed. Everything else is the store's own."""

    def __init__(self, store: JobStore, observers: Observers, own: Observer) -> None:
        self._store = store
        self._observers = observers
        self._own = own

    def __str__(self) -> str:
        return str(self._store)

    def __repr__(self) -> str:
        return repr(self._store)

    def __getattr__(self, name: str) -> Any:
        step = STEPS.get(name) or OWN_STEPS.get(name)
        if step is None:
            return getattr(self._store, name)
        store, observers, own = self._store, self._observers, self._own
        is_private = name in OWN_STEPS

        def observed(*arguments: Any, **options: Any) -> Any:
            call = getattr(store, name)
            try:
                if is_private or not observers.members:
                    answer = call(*arguments, **options)
                else:
                    answer = observers.run(step, call, arguments, options)
            except BaseException as error:
                own.failed(step, 0.0, error)
                raise
            own.stepped(step, 0.0, answer)
            return answer

        self.__dict__[name] = observed
        return observed
