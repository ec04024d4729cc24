"""The awaitable twin of `SyncVerbs`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from quartzpy.aio.verbs.storing import AsyncStoringVerbs
from quartzpy.scheduling.definitions import JobForm
from quartzpy.scheduling.sync import Existing, SyncPlan
from quartzpy.scheduling.verbs.syncing import SyncVerbs
from quartzpy.triggers.trigger import Trigger

_SyncVerbsT = TypeVar("_SyncVerbsT", bound=SyncVerbs)


class AsyncSyncVerbs(AsyncStoringVerbs[_SyncVerbsT]):
    """The methods of `SyncVerbs`, each of them awaitable."""

    async def sync(
        self,
        definitions: Iterable[tuple[JobForm, Trigger | str | timedelta | datetime | Iterable[Any] | None]],
        *,
        owner: str,
        prune: bool = False,
        existing: str = Existing.UPDATE,
        version: int | float | str | None = None,
        apply: bool = True,
        announce: Callable[[SyncPlan], None] | None = None,
    ) -> SyncPlan:
        """Make the store match the declared jobs, all or nothing; return the plan. `apply=False` is a dry run.

        A trigger whose schedule did not change keeps its fire times, its misfires and its pause, even if other values
        of it or its job changed; one that has ended stays COMPLETE and does not fire again. With `prune`, jobs and
        triggers that the same `owner` declared before and no longer declares are removed; those of other owners, and
        those that were scheduled directly, never are. With `existing="keep"`, jobs and triggers that are stored already
        do not change: the first registration wins. Any number of nodes may call it at the same time.

        `version` is the version of the program: a number, or a text such as "2.10.1". It is stored with the owner; a
        program of an older version changes nothing, and the plan reports that (`SyncPlan.outdated_by`).

        `announce` is called with the plan before it is applied; without it the plan is logged.

        Raises:
            InvalidTriggerError: a key is declared twice. Others as in `schedule_job`; nothing is changed then.
            InvalidValueError: `existing` is neither "update" nor "keep", or `version` is not a version.
        """
        return await self._run(
            lambda behind: behind.sync(
                definitions,
                owner=owner,
                prune=prune,
                existing=existing,
                version=version,
                apply=apply,
                announce=announce,
            )
        )
