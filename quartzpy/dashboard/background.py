"""Actions on many subjects, which go on in the background if they take longer than a request should."""

from __future__ import annotations

import threading
from collections.abc import Callable

from quartzpy.errors import QuartzpyError
from quartzpy.operations import ActionProgress, ActionResult

PATIENCE = 3.0
"""The time, in seconds, for which a request waits for the end of its action."""
LAST_SLICE = 5.0
"""The time, in seconds, for which the end of the process waits for the slices that are being changed."""

Report = Callable[[ActionProgress], None]
Act = Callable[[Report], ActionResult]


class ActionStoppedError(QuartzpyError):
    """The process of the page ended before the action did. What was changed stays changed."""


class _RunningAction:
    """An action with its thread."""

    def __init__(self, act: Act, total: int, moved: Callable[[], None], stopping: threading.Event) -> None:
        self._act = act
        self._moved = moved
        self._stopping = stopping
        self.total = total
        self.progress: ActionProgress | None = None
        self.result: ActionResult | None = None
        self.error: BaseException | None = None
        self.begun = threading.Event()
        """Set once the progress, the result or the error is known."""
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, name="quartzpy-dashboard-action", daemon=True)

    def _run(self) -> None:
        try:
            self.result = self._act(self._report)
        except BaseException as error:
            # The request that waits raises it; the audit log has it for all others.
            self.error = error
        finally:
            self.ended.set()
            self.begun.set()
            self._moved()

    def _report(self, progress: ActionProgress) -> None:
        self.progress = progress
        self.begun.set()
        self._moved()
        if self._stopping.is_set():
            raise ActionStoppedError("the process of the page ended")


class BackgroundActions:
    """The actions of action application that are going on."""

    def __init__(self, moved: Callable[[], None]) -> None:
        self._moved = moved
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._running: list[_RunningAction] = []

    def run(self, act: Act, total: int, patience: float | None = None) -> ActionResult | ActionProgress:
        """Carry out an action on `total` subjects, and return its result, or its progress if it is still going on.

        `patience` is the time, in seconds, after which the progress is returned; by default `PATIENCE`.

        Raises:
            What `act` raises, if it does so before this returns.
        """
        running = _RunningAction(act, total, self._moved, self._stopping)
        with self._lock:
            self._running = [action for action in self._running if not action.ended.is_set()]
            # First, because the system may refuse a thread, and `close` waits for those in the list.
            running.thread.start()
            self._running.append(running)
        running.ended.wait(PATIENCE if patience is None else patience)
        # Without its id in the audit log, nobody could follow it.
        running.begun.wait()
        if running.error is not None:
            raise running.error
        outcome = running.result or running.progress
        assert outcome is not None
        return outcome

    def total_of(self, action_id: int) -> int | None:
        """Return the number of subjects of an action that is going on here; None if none with this id is."""
        with self._lock:
            return next((action.total for action in self._running if _is_going_on(action, action_id)), None)

    def close(self) -> None:
        """Stop the actions after the slices that they are changing; they are recorded as failed, with their counts."""
        self._stopping.set()
        with self._lock:
            running = tuple(self._running)
        for action in running:
            action.thread.join(LAST_SLICE)


def _is_going_on(action: _RunningAction, action_id: int) -> bool:
    return action.progress is not None and action.progress.action_id == action_id and not action.ended.is_set()
