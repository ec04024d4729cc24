"""Calls methods from an event loop: each runs on a worker thread, so the loop is not blocked."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, ParamSpec, Self, TypeVar

from quartzpy.awaiting import result_at_the_end
from quartzpy.name_hints import KeyHints

_P = ParamSpec("_P")
_R = TypeVar("_R")
_V = TypeVar("_V")

_ITEMS_PER_CALL = 100


class MethodThreads:
    """Worker threads for methods, started when the first method is awaited, and again in a forked child process."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._pid = 0

    def _pool(self) -> ThreadPoolExecutor:
        # The threads of the parent process do not exist in a forked child.
        if self._executor is None or self._pid != os.getpid():
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="quartzpy-method")
            self._pid = os.getpid()
        return self._executor

    async def run(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run a method. If the awaiting task is cancelled, a method that has started still completes."""
        return await asyncio.wrap_future(self._submit(function, *args, **kwargs))

    async def run_to_end(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run a method as `run` does, but let a cancelled task continue only when the method has ended.

        This is for connections of the caller, which nobody else may use during a method.
        """
        return await result_at_the_end(asyncio.wrap_future(self._submit(function, *args, **kwargs)))

    async def wait(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run a call that may wait for a long time, on a separate daemon thread."""
        future: Future[_R] = Future()
        context = contextvars.copy_context()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = context.run(function, *args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, name="quartzpy-wait", daemon=True).start()
        return await asyncio.wrap_future(future)

    def _submit(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> Future[_R]:
        context = contextvars.copy_context()
        return self._pool().submit(lambda: context.run(function, *args, **kwargs))

    def close(self) -> None:
        """End the threads when their remaining work is done."""
        if self._executor is not None and self._pid == os.getpid():
            self._executor.shutdown(wait=False)
        self._executor = None


class AsyncFacade(KeyHints, ABC, Generic[_V]):
    """Wraps an object whose methods run on threads: the base of the classes that `tools/async_facade.py` generates."""

    @property
    @abstractmethod
    def _behind(self) -> _V:
        """The wrapped object itself, for members that do not query the database."""

    @abstractmethod
    async def _run(self, call: Callable[[_V], _R]) -> _R:
        """Call the wrapped object on a worker thread."""

    @abstractmethod
    async def _wait(self, call: Callable[[_V], _R]) -> _R:
        """Call the wrapped object as `_run` does, for a call that may wait for a long time."""


class AsyncMirror(AsyncFacade[_V]):
    """An awaitable view of a method's return value: a handle, or a query that is rebuilt for each call."""

    def __init__(self, owner: AsyncFacade[Any], make: Callable[[Any], _V]) -> None:
        self._owner = owner
        self._make = make
        self._shown: str | None = None

    @classmethod
    def _of(cls, owner: AsyncFacade[Any], result: _V) -> Self:
        view = cls(owner, lambda _: result)
        view._shown = f"Async{result!r}"
        return view

    @classmethod
    def _made_once(cls, owner: AsyncFacade[Any], make: Callable[[Any], _V]) -> Self:
        """Return a view of what the first call that needs it makes, on its worker thread."""
        lock, made = threading.Lock(), list[_V]()

        def make_once(behind: Any) -> _V:
            with lock:
                if not made:
                    made.append(make(behind))
            return made[0]

        return cls(owner, make_once)

    def __repr__(self) -> str:
        return self._shown or f"<{type(self).__name__}>"

    @property
    def _behind(self) -> _V:
        return self._make(self._owner._behind)

    async def _run(self, call: Callable[[_V], _R]) -> _R:
        return await self._owner._run(lambda behind: call(self._make(behind)))

    async def _wait(self, call: Callable[[_V], _R]) -> _R:
        return await self._owner._wait(lambda behind: call(self._make(behind)))


class AsyncLazyMirror(AsyncMirror[_V]):
    """An awaitable view of a query, which reads nothing before it is used."""

    def __bool__(self) -> bool:
        """Refuse to answer, because the answer would have to be awaited. Raises TypeError."""
        raise TypeError("the truth value of a query needs a read of the database: await first() or count()")

    def __len__(self) -> int:
        """Refuse to answer, because the answer would have to be awaited. Raises TypeError."""
        raise TypeError("the length of a query needs a read of the database: await count()")

    async def _items(self, iterable: Callable[[_V], Iterable[_R]]) -> AsyncIterator[_R]:
        """Yield the items of an iterable whose iterator queries the database, several per call."""
        iterator = await self._run(lambda behind: iter(iterable(behind)))
        while some := await self._run(lambda _: list(itertools.islice(iterator, _ITEMS_PER_CALL))):
            for item in some:
                yield item
