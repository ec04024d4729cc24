"""The awaitable twin of `CalendarVerbs`.

`python -m tools.async_facade` writes this from the classes that stand behind. Change those instead.
"""

from __future__ import annotations

from typing import TypeVar

from quartzpy.aio.verbs.base import AsyncVerbs
from quartzpy.calendars.calendar import Calendar
from quartzpy.scheduling.verbs.calendars import CalendarVerbs

_CalendarVerbsT = TypeVar("_CalendarVerbsT", bound=CalendarVerbs)


class AsyncCalendarVerbs(AsyncVerbs[_CalendarVerbsT]):
    """The methods of `CalendarVerbs`, each of them awaitable."""

    async def add_calendar(
        self, name: str, calendar: Calendar, *, replace: bool = False, update_triggers: bool = False
    ) -> None:
        """Store a calendar that triggers can refer to. Storing the same calendar again changes nothing.

        With `replace`, the calendar replaces one that is stored under the same name: triggers that use it keep their
        current next fire time, and follow the new calendar after that. With `update_triggers`, their next fire times
        are recomputed as well; paused, blocked and failed triggers keep their state. A trigger for which the new
        calendar leaves no fire time becomes COMPLETE, like a trigger whose schedule has ended: it remains stored with
        its job, listeners receive `TriggerFinalized`, and it fires again only after it has been rescheduled.

        Raises:
            ObjectAlreadyExistsError: a different calendar is stored under the name, and `replace` is false.
            InvalidCalendarError: `calendar` is not a calendar, or cannot be stored.
        """
        return await self._run(
            lambda behind: behind.add_calendar(name, calendar, replace=replace, update_triggers=update_triggers)
        )

    async def delete_calendar(self, name: str, *, missing_ok: bool = False) -> bool:
        """Remove a calendar. Return True if it was stored; False is possible only with `missing_ok`.

        Raises:
            CalendarNotFoundError: no calendar is stored under the name, and `missing_ok` is false.
            CalendarInUseError: triggers use it.
        """
        return await self._run(lambda behind: behind.delete_calendar(name, missing_ok=missing_ok))

    async def get_calendar(self, name: str) -> Calendar | None:
        """Return the calendar that is stored under the name, or None if there is none."""
        return await self._run(lambda behind: behind.get_calendar(name))

    async def calendar_names(self) -> list[str]:
        """Return the names of all stored calendars, sorted."""
        return await self._run(lambda behind: behind.calendar_names())
