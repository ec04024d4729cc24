"""The awaitable twin of `Methods`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from typing import TypeVar

from quartzpy.jobs.job import JobTypes
from quartzpy.scheduler.async_calls import AsyncFacade
from quartzpy.scheduler.methods.base import Methods

_MethodsT = TypeVar("_MethodsT", bound=Methods)


class AsyncMethods(AsyncFacade[_MethodsT]):
    """The methods of `Methods`, each of them awaitable."""

    @property
    def name(self) -> str:
        """The name of the scheduler; all nodes with this name on one database are one cluster."""
        return self._behind.name

    async def job_types(self) -> JobTypes:
        """The registry in which this scheduler looks up job types."""
        return await self._run(lambda behind: behind.job_types)
