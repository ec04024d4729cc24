"""The awaitable methods inside a transaction of the caller."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from quartzpy.config.config import SchedulerConfig
from quartzpy.connection_types import is_asynchronous
from quartzpy.jobs.job_transaction import AsyncJobConnection
from quartzpy.scheduler.async_calls import MethodThreads
from quartzpy.scheduler.awaitable.methods import AsyncSchedulingMethods
from quartzpy.scheduler.transactions import TransactionMethods
from quartzpy.store.protocol import JobStore

_R = TypeVar("_R")


class AsyncTransactionMethods(AsyncSchedulingMethods[TransactionMethods]):
    """The scheduling methods inside one transaction; `using` returns them. They cannot be used after the transaction.

    The first awaited method joins the transaction. Methods that are awaited concurrently run one after the other. A
    task that is cancelled during a method continues only when the method has ended, so that nobody else uses the
    connection in the meantime.
    """

    def __init__(
        self,
        store: Callable[[], JobStore],
        connection: Any,
        config: SchedulerConfig,
        methods_of: Callable[[JobStore], TransactionMethods],
        threads: MethodThreads,
    ) -> None:
        self._store = store
        self._connection = connection.sync_connection if isinstance(connection, AsyncJobConnection) else connection
        self._config = config
        self._methods_of = methods_of
        self._threads = threads
        self._one_at_a_time = asyncio.Lock()
        self._turn: contextlib.AbstractAsyncContextManager[Any] = contextlib.nullcontext()
        self._joined: TransactionMethods | None = None

    @property
    def name(self) -> str:
        return self._config.name

    @property
    def _behind(self) -> TransactionMethods:
        # A lazy query reads nothing before it is awaited, and by then `_run` has joined the transaction.
        return self._joined or self._methods_of(self._store())

    async def _run(self, call: Callable[[TransactionMethods], _R]) -> _R:
        async with self._one_at_a_time:
            methods = self._joined or await self._join()
            async with self._turn:
                return await self._threads.run_to_end(call, methods)

    async def _wait(self, call: Callable[[TransactionMethods], _R]) -> _R:
        return await self._run(call)

    async def _join(self) -> TransactionMethods:
        store = await self._threads.run_to_end(self._store)
        transaction = self._connection
        if is_asynchronous(transaction):
            from quartzpy.store.postgresql.connection.external_async import external_transaction

            seconds = (self._config.statement_timeout + self._config.lock_timeout).total_seconds()
            transaction = await external_transaction(transaction, seconds)
            self._turn = transaction.turn
        inside = await self._threads.run_to_end(store.within, transaction)
        self._joined = self._methods_of(inside)
        return self._joined
