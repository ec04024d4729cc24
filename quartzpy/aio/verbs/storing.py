"""The awaitable twin of `StoringVerbs`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from typing import TypeVar

from quartzpy.aio.verbs.base import AsyncVerbs
from quartzpy.jobs.job import JobDetail
from quartzpy.scheduling.verbs.storing import StoringVerbs

_StoringVerbsT = TypeVar("_StoringVerbsT", bound=StoringVerbs)


class AsyncStoringVerbs(AsyncVerbs[_StoringVerbsT]):
    """The methods of `StoringVerbs`, each of them awaitable."""

    async def add_job(
        self, job: JobDetail, *, replace: bool = False, store_non_durable_while_awaiting_scheduling: bool = False
    ) -> None:
        """Store a job without a trigger. Storing the same again changes nothing.

        Raises:
            InvalidJobError: the job is not durable, so it would be deleted with its last trigger, and
                `store_non_durable_while_awaiting_scheduling` is false.
            ObjectAlreadyExistsError: a different job has its key, and `replace` is false.
            InvalidJobDataError: its data has names that its `data_type` does not have. Missing names are no error,
                because a trigger may provide them.
        """
        return await self._run(
            lambda behind: behind.add_job(
                job,
                replace=replace,
                store_non_durable_while_awaiting_scheduling=store_non_durable_while_awaiting_scheduling,
            )
        )
