"""Handles, queries and streams of events, which are awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Generic, Self, TypeVar

from quartzpy.scheduler.async_calls import AsyncLazyMirror, AsyncMirror
from quartzpy.scheduler.awaitable.derived import Derived
from quartzpy.scheduler.cluster_events import ClusterEvent, ClusterEvents
from quartzpy.scheduler.methods.handles import TriggeredExecution
from quartzpy.scheduler.methods.scheduling import ScheduledJob, ScheduledTrigger
from quartzpy.scheduler.querying import Query

_T = TypeVar("_T")


class AsyncClusterEvents(Derived, AsyncMirror[ClusterEvents], behind=ClusterEvents):
    """The methods of `ClusterEvents`, each of them awaitable."""

    next: Any
    close: Any

    async def __aiter__(self) -> AsyncIterator[ClusterEvent]:
        while (event := await self.next()) is not None:
            yield event

    async def __aenter__(self) -> Self:
        await self._run(lambda behind: None)  # From here on it misses nothing.
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class AsyncQuery(Derived, AsyncLazyMirror[Query[_T]], Generic[_T], behind=Query):
    """The methods of `Query`, each of them awaitable."""

    def __aiter__(self) -> AsyncIterator[_T]:
        return self._items(lambda behind: behind)


class AsyncScheduledJob(Derived, AsyncMirror[ScheduledJob], behind=ScheduledJob):
    """The methods of `ScheduledJob`, each of them awaitable."""


class AsyncScheduledTrigger(Derived, AsyncMirror[ScheduledTrigger], behind=ScheduledTrigger):
    """The methods of `ScheduledTrigger`, each of them awaitable."""


class AsyncTriggeredExecution(Derived, AsyncMirror[TriggeredExecution], behind=TriggeredExecution):
    """The methods of `TriggeredExecution`, each of them awaitable."""
