"""The block of a job's transaction: `with context.transaction()`, and `async with` in a coroutine function.

An asynchronous job shares the event loop of its node with others, and the connection of the transaction blocks. So the
awaitable form does all its work on other threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from quartzpy.awaiting import result_at_the_end

if TYPE_CHECKING:
    from quartzpy.connection_types import Executable, JobConnection, Parameters, Result, ScalarResult

_P = ParamSpec("_P")
_R = TypeVar("_R")


class JobTransactionBlock:
    """The context manager of a transaction of a job, in both forms. It can be entered once."""

    def __init__(self, block: AbstractContextManager[JobConnection]) -> None:
        self._block = block
        self._is_entered = False

    def __enter__(self) -> JobConnection:
        return self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._block.__exit__(kind, error, trace)

    async def __aenter__(self) -> AsyncJobConnection:
        try:
            return AsyncJobConnection(await _to_end(self._enter))
        except asyncio.CancelledError as error:
            if self._is_entered:
                await _to_end(self._block.__exit__, type(error), error, error.__traceback__)
            raise

    def _enter(self) -> JobConnection:
        connection = self._block.__enter__()
        self._is_entered = True
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await _to_end(self._block.__exit__, kind, error, trace)


class AsyncJobConnection:
    """The connection of a job's transaction in its awaitable form, with the methods of SQLAlchemy's `AsyncConnection`.

    The statements run on another thread, one after the other. `run_sync` calls a function with the ordinary
    connection there, such as one that works with an ORM session.
    """

    def __init__(self, connection: JobConnection) -> None:
        self.sync_connection = connection
        """The SQLAlchemy `Connection`. Its methods block the event loop."""
        self._one_at_a_time = asyncio.Lock()

    async def execute(self, statement: Executable, parameters: Parameters = None) -> Result:
        """Execute a statement, and return its result with all its rows."""
        return await self.run_sync(lambda connection: connection.execute(statement, parameters))

    async def exec_driver_sql(self, statement: str, parameters: Any = None) -> Result:
        """Execute a text as the driver takes it."""
        return await self.run_sync(lambda connection: connection.exec_driver_sql(statement, parameters))

    async def scalar(self, statement: Executable, parameters: Mapping[str, Any] | None = None) -> Any:
        """Execute a statement, and return the first value of its first row; None if it has no rows."""
        return await self.run_sync(lambda connection: connection.scalar(statement, parameters))

    async def scalars(self, statement: Executable, parameters: Parameters = None) -> ScalarResult:
        """Execute a statement, and return the first value of each row."""
        return await self.run_sync(lambda connection: connection.scalars(statement, parameters))

    async def run_sync(
        self, function: Callable[Concatenate[JobConnection, _P], _R], *args: _P.args, **kwargs: _P.kwargs
    ) -> _R:
        """Call a function with the ordinary connection, on another thread."""
        async with self._one_at_a_time:
            return await _to_end(function, self.sync_connection, *args, **kwargs)


async def _to_end(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Call a function on another thread. A cancelled task continues when the call has ended: nobody else may use it."""
    if getattr(asyncio.get_running_loop(), "runs_calls_inline", False):
        # The loop of the test scheduler has one job, whose database may be one that no other thread can use.
        return function(*args, **kwargs)
    return await result_at_the_end(asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs)))
