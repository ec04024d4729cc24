"""What a node fails at again and again although its check-ins succeed: counted, logged and part of its health.

In an outage of the database everything fails, and the check-ins tell of it. What fails beside check-ins that succeed is
told by nobody else: a full disk, a revoked privilege, a row that is locked or refused.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from quartzpy.errors import (
    InstanceIdInUseError,
    LeaseLostError,
    OutcomeUnknownError,
    SchemaError,
    StoreUnavailableError,
)
from quartzpy.node.observers import Observer
from quartzpy.node.service import Repetitions, StoreWatch, is_without_connection
from quartzpy.store.node_problems import NOT_LISTENING, NodeProblem
from quartzpy.texts import reason

FAILURES, FAILING_FOR = 2, 5.0
"""The number of failures of a step in a row, and the seconds since the first of them, from which it is a problem."""
FORGOTTEN_AFTER = 60.0
"""The seconds after which a step that is not tried again is no problem any more, beside the time between two tries."""
NAMES = {
    "acquire": "firing triggers",
    "refill": "storing fire times of triggers",
    "complete": "recording executions",
    "wake_others": "waking other nodes",
    "misfire": "handling misfires",
    "recover": "recovering the work of nodes",
    "compare": "comparing its work with the database",
    "reconcile": "comparing its work with the database",
    "cancel_requests": "looking for requests to cancel",
    "repair": "repairing rows",
    "purge": "deleting old history",
    "progress": "storing the progress of jobs",
    "time_off": "beginning and ending pauses",
    "publish": "publishing what it runs",
    "decide": "publishing what it runs",
    "reject": "rejecting triggers",
    "mode": "publishing its mode",
    "deaths": "subtracting deaths of nodes",
}
"""What each step does. A step without a name is no part of this: its callers tell of it."""
LISTENING = "listening for notifications"
_TOLD_HERE = StoreUnavailableError, OutcomeUnknownError, SchemaError
"""The errors that only this logs. Others are logged with a traceback by the thread that meets them."""


@dataclass(slots=True)
class _Trouble:
    """The failures of one step in a row."""

    since: float
    last: float
    error: BaseException
    repetitions: Repetitions
    failures: int = 0
    answers: int = 0
    """The number of check-ins that had succeeded before the failure with which it became a problem."""
    outages: int = 0
    """The number of outages that had begun before the last failure."""
    gap: float = 0.0
    is_told: bool = False


class Troubles(Observer):
    """Counts the failures of the steps of a node."""

    def __init__(self, logger: logging.Logger, watch: StoreWatch, steady: Callable[[], float]) -> None:
        self._logger = logger
        self._watch = watch
        self._steady = steady
        self._lock = threading.Lock()
        self._troubles: dict[str, _Trouble] = {}

    def stepped(self, step: str, seconds: float, answer: Any) -> None:
        if self._troubles:
            self.succeeded(NAMES.get(step, ""))

    def failed(self, step: str, seconds: float, error: BaseException) -> None:
        if step in NAMES and not isinstance(error, LeaseLostError | InstanceIdInUseError):
            self.note(NAMES[step], error)

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Count the failures of a block, whose errors are raised."""
        try:
            yield
        except LeaseLostError:
            raise
        except Exception as error:
            self.note(what, error)
            raise
        self.succeeded(what)

    def note(self, what: str, error: BaseException) -> None:
        """Take note of a failure. `what` says what failed: "acquiring triggers"."""
        now = self._steady()
        with self._lock:
            if is_without_connection(error) and self._watch.is_failing:
                self._troubles.pop(what, None)
                return
            trouble = self._troubles.get(what)
            if trouble is None or self._is_of_an_outage(trouble):
                trouble = _Trouble(now, now, error, Repetitions(self._steady))
                self._troubles[what] = trouble
            trouble.failures += 1
            trouble.outages = self._watch.outages
            if trouble.failures <= FAILURES:
                # The connections of a server that stops end one after the other: one that is cut, and tried again in
                # vain, can have failed twice before that of the check-ins is cut.
                trouble.answers = self._watch.answers
            trouble.gap, trouble.last, trouble.error = now - trouble.last, now, error
            is_told = self._is_worth_telling(trouble) and trouble.repetitions.are_told(error)
            trouble.is_told |= is_told
        if is_told and isinstance(error, _TOLD_HERE):
            self._logger.warning(
                "%s fails although check-ins succeed, %d times in a row, and is tried again: %s",
                what,
                trouble.failures,
                error,
            )

    def succeeded(self, what: str) -> None:
        """Take note of a success, which ends the failures."""
        with self._lock:
            trouble = self._troubles.pop(what, None)
        if trouble is not None and trouble.is_told and isinstance(trouble.error, _TOLD_HERE):
            self._logger.warning("%s works again after %d failures", what, trouble.failures)

    def problems(self) -> list[NodeProblem]:
        """Return what has failed for so long, and so often, that the next try will probably fail as well."""
        now = self._steady()
        with self._lock:
            lasting = [
                (what, trouble)
                for what, trouble in self._troubles.items()
                if now - trouble.last <= 2 * trouble.gap + FORGOTTEN_AFTER
            ]
        return [
            NodeProblem(
                NOT_LISTENING if what == LISTENING else "failing-step",
                f"{what} has failed {trouble.failures} times in a row, first {now - trouble.since:.0f} s ago:"
                f" {reason(trouble.error)}",
                what,
            )
            for what, trouble in lasting
            if self._is_worth_telling(trouble) and now - trouble.since >= FAILING_FOR
        ]

    def _is_worth_telling(self, trouble: _Trouble) -> bool:
        if trouble.failures < FAILURES or self._is_of_an_outage(trouble):
            return False
        # An outage fails everything at once; the check-ins are the first to tell of it.
        return not is_without_connection(trouble.error) or (
            self._watch.answers > trouble.answers and not self._watch.is_failing
        )

    def _is_of_an_outage(self, trouble: _Trouble) -> bool:
        """Return whether check-ins have failed since, so that they have told of the cause, which may be over."""
        return is_without_connection(trouble.error) and trouble.outages != self._watch.outages
