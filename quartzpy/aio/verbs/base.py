"""The awaitable twin of `Verbs`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from typing import TypeVar

from quartzpy.jobs.job import JobTypes
from quartzpy.scheduling.async_calls import AsyncFacade
from quartzpy.scheduling.verbs.base import Verbs

_VerbsT = TypeVar("_VerbsT", bound=Verbs)


class AsyncVerbs(AsyncFacade[_VerbsT]):
    """The methods of `Verbs`, each of them awaitable."""

    @property
    def name(self) -> str:
        """The name of the scheduler; all nodes with this name on one database are one cluster."""
        return self._behind.name

    async def job_types(self) -> JobTypes:
        """The registry in which this scheduler looks up job types."""
        return await self._run(lambda behind: behind.job_types)
