"""The engine `futures`: any executor of `concurrent.futures`, which a function of the user makes.

The setting names the function: "futures:8:my_program.pools:pool". When the executor breaks, because a process of it
died, all its calls are lost, and the function makes another one. Nobody can ask such an executor whether it runs calls
again by itself. Those of the standard library, loky, executorlib and mpi4py do not; for one that does, the setting says
`tickets=True`.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any

from quartzpy.errors import SettingsError
from quartzpy.node.engines.protocol import Abilities, Call, Engine, EngineEvents, EngineSettings, Found
from quartzpy.node.engines.worker import run
from quartzpy.object_references import object_at
from quartzpy.texts import quoted, reason

EXAMPLE = "futures:8:my_program.pools:pool"
MAX_REMEMBERED = 10_000
"""The number of calls that are over of which an engine knows that they are."""
JOIN_SECONDS = 1.0
"""The time, in seconds, in which the executor has to tell that its killed processes are gone."""


def engine(settings: EngineSettings) -> Engine:
    """Return the engine of an executor.

    Raises:
        SettingsError: the setting names no function.
    """
    subject = f"executors: {settings.executor}"
    make = object_at(settings.address, subject, f"that of {EXAMPLE}")
    if not callable(make):
        raise SettingsError(
            f"{subject}: {settings.address} must be a function that returns an executor of concurrent.futures (got"
            f" {quoted(make)})"
        )
    return FuturesEngine(make, settings.address, settings.workers)


class FuturesEngine:
    """Submits calls to the executor that `make` returns, and tells the node how they end."""

    abilities = Abilities(repeats=False, can_find=True)

    def __init__(self, make: Callable[[], Any], subject: str, workers: int | None) -> None:
        self._make = make
        self._subject = subject
        self._workers = workers
        self._making = Lock()
        # Not held while a method of the executor is called, which tells of ends under a lock of its own.
        self._lock = Lock()
        self._executor: Executor | None = None
        self._calls: dict[str, tuple[Executor, Future[str]]] = {}
        self._stopped: set[str] = set()
        self._over: deque[str] = deque(maxlen=MAX_REMEMBERED)

    def start(self, events: EngineEvents) -> None:
        self._events = events
        executor = self._current()
        for name in ("max_workers", "_max_workers"):
            self._workers = self._workers or getattr(executor, name, None)
        if self._workers is None:
            raise SettingsError(
                f"{self._subject}: its executor does not tell how many calls it runs at the same time; write a number,"
                f" as in {EXAMPLE}"
            )

    def capacity(self) -> int | None:
        return self._workers

    def submit(self, call: Call) -> None:
        try:
            executor = self._current()
        except Exception as error:
            self._events.unavailable(reason(error))
            raise
        try:
            future = executor.submit(run, call.message)
        except RuntimeError as error:
            if isinstance(error, BrokenExecutor):
                self._break(executor, error)
            # Otherwise somebody has shut it down, which its calls outlive.
            self._replace(executor)
            raise
        with self._lock:
            self._calls[call.token] = executor, future
        future.add_done_callback(partial(self._done, call.token, executor))

    def stop(self, token: str, *, kill: bool = False) -> bool:
        with self._lock:
            if token not in self._calls:
                # Its end may be on its way to the node.
                return False
            self._stopped.add(token)
            _, future = self._calls[token]
        return future.cancel()

    def find(self, tokens: Collection[str]) -> Mapping[str, Found]:
        with self._lock:
            states = dict.fromkeys(self._over, Found.GONE) | dict.fromkeys(self._calls, Found.RUNNING)
        return {token: states[token] for token in tokens if token in states}

    def adopt(self, call: Call) -> bool:
        return False

    def close(self, timeout: float) -> None:
        with self._lock:
            calls = dict(self._calls)
            executor, self._executor = self._executor, None
        if executor is None:
            return
        futures = [future for token, (_, future) in calls.items() if not self.stop(token)]
        # In the standard library and in loky. Python would wait for them when the program ends.
        pids = list(getattr(executor, "_processes", None) or ())
        running = wait(futures, timeout).not_done
        executor.shutdown(wait=False)
        if running:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            wait(running, JOIN_SECONDS)

    # --- the executor

    def _current(self) -> Executor:
        with self._making:
            executor = self._executor or self._new()
            if type(executor).__module__.startswith("distributed."):
                raise SettingsError(
                    f"{self._subject} returns an executor of Dask, which runs a call again when a worker dies, and does"
                    " not say so. Dask has an engine of its own, such as dask:tcp://scheduler:8786"
                )
            if not isinstance(executor, Executor):
                raise SettingsError(
                    f"{self._subject} must return an executor of concurrent.futures (got {quoted(executor)})"
                )
            self._executor = executor
            return executor

    def _new(self) -> Any:
        try:
            return self._make()
        except Exception as error:
            raise SettingsError(f"{self._subject}() has raised {_words(error)}") from error

    def _replace(self, executor: Executor) -> None:
        with self._lock:
            if self._executor is executor:
                self._executor = None

    def _break(self, executor: Executor, error: BrokenExecutor) -> None:
        """Tell that all calls of an executor are lost. Those that are not marked as running have not begun."""
        self._replace(executor)
        with self._lock:
            lost = {token: future for token, (its, future) in self._calls.items() if its is executor}
            begun = {token for token, future in lost.items() if future.running() or future.done()}
        for token, future in lost.items():
            if future.done() and not isinstance(_error_of(future), BrokenExecutor):
                self._tell(token, future)
            elif self._is_over(token):
                self._events.lost(token, _words(error), may_have_begun=token in begun)

    # --- ends

    def _done(self, token: str, executor: Executor, future: Future[str]) -> None:
        error = _error_of(future)
        if isinstance(error, BrokenExecutor):
            self._break(executor, error)
        else:
            self._tell(token, future)

    def _tell(self, token: str, future: Future[str]) -> None:
        error = _error_of(future)
        was_stopped = token in self._stopped
        if not self._is_over(token):
            return
        if error is not None:
            # Of the executor: `run` raises nothing.
            self._events.lost(token, _words(error), may_have_begun=True)
        elif not future.cancelled():
            self._events.ended(token, future.result())
        elif not was_stopped:
            self._events.lost(token, "somebody has shut the executor down", may_have_begun=False)

    def _is_over(self, token: str) -> bool:
        """Return True to the first caller only, who tells the end of the call."""
        with self._lock:
            self._stopped.discard(token)
            if self._calls.pop(token, None) is None:
                return False
            self._over.append(token)
            return True


def _error_of(future: Future[str]) -> BaseException | None:
    return None if future.cancelled() else future.exception()


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {reason(error)}"
