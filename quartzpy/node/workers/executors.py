"""The executors of a node: named worker pools that jobs select."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from quartzpy.config.pools import MAX_WORKERS, ExecutorConfig, ExecutorKind
from quartzpy.node.workers.execution import Execution, Executor, ExecutorEngine
from quartzpy.node.workers.worker_pool import WorkerPool
from quartzpy.placement import DEFAULT_EXECUTOR, EngineCapability, placement_from_text
from quartzpy.store.node_problems import NodeProblem
from quartzpy.texts import numbered

STUCK_POOL = "stuck-pool"
STUCK_FOR = 300.0
"""The seconds without the end of an execution from which a full executor whose jobs have due triggers is a problem."""
MAX_THREADS_OF_NO_JOB = 32
"""The largest number of threads of an executor whose jobs run on the event loop or on an engine.

They begin and record executions, and none of them belongs to a job that waits. Without a limit, a burst can start one
for each slot, before the first of them is free again.
"""


@dataclass(frozen=True, slots=True)
class ExecutorLoad:
    """The load of one executor of a node."""

    name: str
    workers: int
    busy: int
    """The number of workers that run an execution."""
    waiting: int
    """The number of fires that wait for a worker, because the node fired a little ahead."""


class Executors:
    """All executors of a node. The default one has threads; it also runs `async def` jobs on the event loop."""

    def __init__(
        self,
        workers: int,
        others: Mapping[str, ExecutorConfig],
        thread_name: str,
        new_engine: Callable[[str, ExecutorConfig | None, WorkerPool], ExecutorEngine],
        *,
        most_ahead: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        pool = partial(WorkerPool, most_ahead=most_ahead, clock=clock)
        self._all = {DEFAULT_EXECUTOR: Executor(DEFAULT_EXECUTOR, ExecutorKind.THREADS, pool(workers, thread_name))}
        self._others = others
        for name, config in others.items():
            most = config.workers or MAX_WORKERS
            threads = most if config.kind == ExecutorKind.THREADS else min(most, MAX_THREADS_OF_NO_JOB)
            # Without a number, the engine says how many it takes.
            of_this = pool(config.workers or 0, f"{thread_name}-{name}", threads=threads)
            engine = new_engine(name, config, of_this) if config.is_engine else None
            self._all[name] = Executor(name, config.kind, of_this, engine)
        self._new_engine, self._adopting_name = new_engine, f"{thread_name}-adopted"
        self._adopting: Executor | None = None
        """Waits for what was begun on engines that this node does not have. It is made when it is needed."""

    def pools(self) -> tuple[WorkerPool, ...]:
        """Return the worker pools, which need supervision."""
        return tuple(executor.pool for executor in self._all.values())

    def names(self) -> frozenset[str]:
        return frozenset(self._all)

    def load(self) -> list[ExecutorLoad]:
        """Return the load of each executor."""
        return [ExecutorLoad(name, *executor.pool.load()) for name, executor in self._all.items()]

    def problems(self, names: Collection[str]) -> list[NodeProblem]:
        """Return the problems of executors: engines that cannot be reached, and, of those with these names, for whose
        jobs triggers are due, that no execution has ended for long."""
        engines = [executor.engine.problem() for executor in self._all.values() if executor.engine is not None]
        stuck = [
            NodeProblem(
                STUCK_POOL,
                f"no execution of executor {name!r} has ended for {seconds:.0f} s: its"
                f" {numbered(executor.pool.size, 'worker is', 'workers are all')} busy, and triggers are due",
                name,
            )
            for name, executor in self._all.items()
            if name in names and (seconds := executor.pool.stuck_for) >= STUCK_FOR
        ]
        return [*filter(None, engines), *stuck]

    def engines(self) -> dict[str, EngineCapability]:
        """Return what is to be said about the engine of each executor that has one."""
        return {
            name: executor.engine.capability(str(self._others[name]))
            for name, executor in self._all.items()
            if executor.engine is not None
        }

    def workers(self) -> dict[str, int]:
        """Return the number of workers of each executor."""
        return {name: executor.pool.size for name, executor in self._all.items()}

    def of(self, placement: str) -> Executor:
        """Return the executor for a placement, or the default one if this node has none of that name."""
        return self._all.get(placement_from_text(placement).pool, self._all[DEFAULT_EXECUTOR])

    def to_adopt(self, placement: str) -> Executor:
        """Return the executor that waits for the end of a job with this placement, which another node has begun."""
        executor = self.of(placement)
        if executor.engine is not None:
            return executor
        if self._adopting is None:
            pool = WorkerPool(MAX_WORKERS, self._adopting_name, threads=1)
            self._adopting = Executor("", "", pool, self._new_engine("", None, pool))
        return self._adopting

    def _with_adopting(self) -> list[Executor]:
        return [*self._all.values(), *(() if self._adopting is None else (self._adopting,))]

    def keep_running(self) -> None:
        """Start threads for waiting tasks that could not be started before."""
        for executor in self._with_adopting():
            executor.pool.keep_running()

    def headroom(self) -> dict[str, int]:
        """Return the number of executions that each executor can take now."""
        return {name: executor.pool.headroom for name, executor in self._all.items()}

    def is_worth_filling(self, at_most: int) -> bool:
        """Return whether an executor has room for so many executions that it is worth to fetch them now."""
        # Not `any`, because each pool notes when it is to wake the caller.
        return True in [executor.pool.is_worth_filling(at_most) for executor in self._all.values()]

    @property
    def have_waiting(self) -> bool:
        """True if executions wait for a slot."""
        return any(executor.pool.has_waiting for executor in self._all.values())

    def take_back(self, patience: float) -> list[Execution]:
        """Remove the executions that wait for a slot and do not get one soon; see `WorkerPool.take_back`."""
        taken = [task for executor in self._all.values() for task in executor.pool.take_back(patience)]
        return cast("list[Execution]", taken)

    def remove(self, fire_ids: Collection[int]) -> list[Execution]:
        """Remove those of these executions that wait for a slot; see `WorkerPool.remove`."""
        removed = [
            task
            for executor in self._all.values()
            for task in executor.pool.remove(lambda task: cast("Execution", task).fired.fire_id in fire_ids)
        ]
        return cast("list[Execution]", removed)

    @property
    def occupied(self) -> int:
        return sum(executor.pool.occupied for executor in self._with_adopting())

    def submit(self, executions: Sequence[Execution]) -> None:
        """Run executions, each in one slot of its executor. The caller has made sure that there are free slots."""
        for executor in self._all.values():
            if some := [execution for execution in executions if execution.executor is executor]:
                executor.pool.submit(some)

    def wait_until_idle(self, remaining: Callable[[], float | None]) -> bool:
        """Wait until no slot is occupied. `remaining` gives the remaining seconds. Return False on timeout."""
        return all(executor.pool.wait_until_idle(remaining()) for executor in self._with_adopting())

    def close(self, timeout: float) -> None:
        """End what runs on engines, and the threads after they have run all submitted tasks."""
        closing = [
            threading.Thread(target=partial(executor.engine.close, timeout))
            for executor in self._with_adopting()
            if executor.engine is not None
        ]
        for thread in closing:
            thread.start()
        for executor in self._with_adopting():
            if executor.engine is None:
                executor.pool.close()
        for thread in closing:
            thread.join()
        # Those of engines end what the engines have told last.
        for executor in self._with_adopting():
            executor.pool.close()

    def hand_over(self, chosen: Callable[[Execution], bool] = lambda execution: True) -> None:
        """Forget the executions on engines that outlive this node."""
        for executor in self._with_adopting():
            if executor.engine is not None:
                executor.engine.hand_over(chosen)
