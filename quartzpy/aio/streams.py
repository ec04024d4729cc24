"""Streams of events that are awaited.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Self

from quartzpy.errors import QuartzpyError
from quartzpy.scheduler.async_calls import AsyncMirror
from quartzpy.scheduler.cluster_events import ClusterEvent, ClusterEvents


class AsyncClusterEvents(AsyncMirror[ClusterEvents]):
    """The methods of `ClusterEvents`, each of them awaitable."""

    async def __aiter__(self) -> AsyncIterator[ClusterEvent]:
        while (one := await self.next()) is not None:
            yield one

    async def next(self, timeout: float | None = None) -> ClusterEvent | None:
        """Return the next event, or None if this is closed or no event comes within `timeout` seconds."""
        return await self._wait(lambda behind: behind.next(timeout))

    async def outage(self) -> QuartzpyError | None:
        """The error of the last attempt to read the database; None if that succeeded.

        Iteration waits for the end of an outage. To notice one, call `next` with a timeout.
        """
        return await self._run(lambda behind: behind.outage)

    async def close(self) -> None:
        """End the iteration, including one that another thread waits in, and release the connection."""
        return await self._run(lambda behind: behind.close())

    async def __aenter__(self) -> Self:
        await self._run(lambda behind: None)  # From here on it misses nothing.
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
