"""The connection of an executor with its engine: whether it is there, how much it takes, and what it answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TypeVar

from quartzpy.config.pools import MAX_WORKERS
from quartzpy.node.engines.protocol import Call, Engine, EngineEvents, Found
from quartzpy.node.service import back_off
from quartzpy.node.workers.worker_pool import WorkerPool
from quartzpy.store.node_problems import ENGINE_UNAVAILABLE, NodeProblem
from quartzpy.texts import reason

ASK_EVERY = 1.0
"""The interval, in seconds, of questions for the capacity."""
LONGEST_PAUSE = 30.0
"""The longest time, in seconds, between two attempts to reach an engine."""

_T = TypeVar("_T")
logger = logging.getLogger(__name__)


class EngineLink:
    """Keeps the connection, and the size of the pool. An engine that fails a question has not answered it."""

    def __init__(
        self,
        engine: Engine,
        *,
        executor: str,
        workers: int | None,
        pool: WorkerPool,
        has_grown: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._executor = executor
        self._workers = workers
        self._pool = pool
        self._has_grown = has_grown
        self._monotonic = monotonic
        self.is_connected = False
        self.unreachable: str | None = None
        """Why the engine cannot be reached; None if it can, or if nobody has tried."""
        self._offered: int | None = None
        self._failures = 0
        self._start_at = self._capacity_at = 0.0

    @property
    def asks_at(self) -> float:
        """The time of the next question."""
        return self._capacity_at if self.is_connected else self._start_at

    def keep(self, events: EngineEvents, now: float) -> bool:
        """Connect if that is due, and ask for the capacity. Return True if the engine is there again."""
        is_new, failures = not self.is_connected and now >= self._start_at, self._failures
        try:
            if is_new:
                self._engine.start(events)
                if self._failures > failures:
                    # It is away again already.
                    return False
                if self.unreachable is not None:
                    logger.info("executor %r: its engine can be reached, and it takes jobs again", self._executor)
                self.is_connected, self.unreachable, self._failures = True, None, 0
                self._capacity_at = now
            if self.is_connected and now >= self._capacity_at:
                self._follow(self._engine.capacity(), now)
        except Exception as error:
            self.lost(reason(error))
        return is_new and self.is_connected

    def _follow(self, offered: int | None, now: float) -> None:
        # An engine that offers no number is not asked again, unless it says that something has changed.
        self._capacity_at, self._offered = float("inf") if offered is None else now + ASK_EVERY, offered
        has_grown = self._pool.resize(min(self._workers or MAX_WORKERS, MAX_WORKERS if offered is None else offered))
        if not self.is_connected:
            # Another thread has lost it meanwhile.
            self._pool.resize(0)
        elif has_grown:
            self._has_grown()

    def changed(self) -> None:
        """Ask for the capacity in the next pass."""
        self._capacity_at = 0.0

    def lost(self, why: str) -> None:
        """Take nothing for the engine until it is there again."""
        if self.unreachable is None and self._executor:
            logger.warning("executor %r: %s; it takes no jobs until its engine can be reached", self._executor, why)
        self.unreachable, self.is_connected = why.rstrip("."), False
        self._failures += 1
        self._start_at = self._monotonic() + back_off(self._failures, LONGEST_PAUSE)
        self._pool.resize(0)

    def problem(self) -> NodeProblem | None:
        """Return the problem that the engine cannot be reached, or has no workers."""
        why = "its engine has no workers" if self.is_connected and self._offered == 0 else self.unreachable
        if why is None:
            return None
        return NodeProblem(ENGINE_UNAVAILABLE, f"executor {self._executor!r}: {why}", self._executor)

    # --- questions about calls

    def states_of(self, tokens: Collection[str]) -> Mapping[str, Found]:
        if not (tokens and self._engine.abilities.can_find and self.is_connected):
            return {}
        return self._asked(partial(self._engine.find, tokens), {})

    def stop(self, token: str, *, kill: bool = False) -> bool:
        return self._asked(partial(self._engine.stop, token, kill=kill), False)

    def adopt(self, call: Call) -> bool:
        return self._engine.abilities.can_adopt and self._asked(partial(self._engine.adopt, call), False)

    def _asked(self, question: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return question()
        except Exception as error:
            logger.warning("executor %s: its engine does not answer: %s", self._executor, reason(error))
            return otherwise
