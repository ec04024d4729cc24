"""The awaitable twin of `SyncMethods`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from quartzpy.aio.methods.queries import AsyncQueryMethods
from quartzpy.aio.methods.storing import AsyncStoringMethods
from quartzpy.calendars.calendar import Calendar
from quartzpy.scheduler.forms import JobForm
from quartzpy.scheduler.methods.syncing import SyncMethods
from quartzpy.scheduler.sync import Existing, SyncPlan
from quartzpy.triggers.trigger import Trigger

_SyncMethodsT = TypeVar("_SyncMethodsT", bound=SyncMethods)


class AsyncSyncMethods(AsyncStoringMethods[_SyncMethodsT], AsyncQueryMethods[_SyncMethodsT]):
    """The methods of `SyncMethods`, each of them awaitable."""

    async def sync(
        self,
        definitions: Iterable[tuple[JobForm, Trigger | str | timedelta | datetime | Iterable[Any] | None]],
        *,
        owner: str,
        calendars: Mapping[str, Calendar] | None = None,
        prune: bool = False,
        existing: str = Existing.UPDATE,
        version: int | float | str | None = None,
        apply: bool = True,
        announce: Callable[[SyncPlan], None] | None = None,
    ) -> SyncPlan:
        """Make the store match the declared jobs and calendars, all or nothing; return the plan.

        `calendars` are the declared calendars by name. `apply=False` is a dry run.

        A trigger whose schedule did not change keeps its fire times, its misfires and its pause, even if other values
        of it or its job changed; one that has ended stays COMPLETE and does not fire again. If a calendar changes, the
        next fire times of the triggers that use it are recomputed. With `prune`, jobs, triggers and calendars that the
        same `owner` declared before and no longer declares are removed; those of other owners, and those that were
        stored directly, never are. With `existing="keep"`, what is stored already does not change: the first
        registration wins. Any number of nodes may call it at the same time.

        `version` is the version of the program: a number, or a text such as "2.10.1". It is stored with the owner; a
        program of an older version changes nothing, and the plan reports that (`SyncPlan.outdated_by`).

        `announce` is called with the plan before it is applied; without it the plan is logged.

        Raises:
            InvalidTriggerError: a key is declared twice. Others as in `schedule_job`; nothing is changed then.
            InvalidCalendarError: a calendar cannot be stored.
            CalendarNotFoundError: a declared trigger uses a calendar that is neither declared nor stored.
            CalendarInUseError: with `prune`, a calendar is no longer declared, but a trigger that stays uses it.
            InvalidValueError: `existing` is neither "update" nor "keep", or `version` is not a version.
        """
        return await self._run(
            lambda behind: behind.sync(
                definitions,
                owner=owner,
                calendars=calendars,
                prune=prune,
                existing=existing,
                version=version,
                apply=apply,
                announce=announce,
            )
        )
