"""The awaitable methods of the test scheduler inside a transaction of the caller."""

from __future__ import annotations

from quartzpy.scheduler.awaitable.transaction import AsyncTransactionMethods
from quartzpy.scheduler.transactions import TransactionMethods


class AsyncHarnessMethods(AsyncTransactionMethods):
    """The methods that `SchedulerHarness.using` returns for an asynchronous connection or session.

    The store is in memory and needs nothing of the connection but news of its end, whatever its database is.
    """

    async def _join(self) -> TransactionMethods:
        self._joined = self._methods_of(self._store().within(self._connection))
        return self._joined
