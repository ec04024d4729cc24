"""Functions that settings of the engine `futures` name."""

from __future__ import annotations

import warnings
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

made: list[Executor] = []
NO_FUNCTION = 7


def one_process() -> Executor:
    made.append(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
    return made[-1]


def threads() -> Executor:
    made.append(ThreadPoolExecutor(2))
    return made[-1]


def executorlib() -> Any:
    with warnings.catch_warnings():
        # Of its own use of pydantic.
        warnings.simplefilter("ignore")
        import executorlib

    return executorlib.SingleNodeExecutor(max_workers=2)


def mpi() -> Any:
    from mpi4py.futures import MPIPoolExecutor

    return MPIPoolExecutor(1)


def no_executor() -> Any:
    return "a pool"


def unreachable() -> Any:
    raise ConnectionError("no route to the queue of host big-1")


class OfAnyNumber(Executor):
    """Does not tell how many calls it runs at the same time."""


def of_any_number() -> Executor:
    return OfAnyNumber()


class OfNobody(OfAnyNumber):
    """Has no worker that could begin a call."""

    def submit(self, *call: Any, **values: Any) -> Future[Any]:
        return Future()


def of_nobody() -> Executor:
    return OfNobody()


class OfDask(Executor):
    __module__ = "distributed.cfexecutor"


def of_dask() -> Executor:
    return OfDask()
