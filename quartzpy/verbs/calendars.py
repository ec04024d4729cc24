"""The verbs of calendars."""

from __future__ import annotations

import difflib

from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import CalendarNotFoundError
from quartzpy.keys import check_name
from quartzpy.states import TriggerState
from quartzpy.store.protocol import TriggerMove
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, moved_to
from quartzpy.verbs.base import Verbs

_UPDATE_TRIES = 5


class CalendarVerbs(Verbs):
    """Storing and removing calendars."""

    def add_calendar(
        self, name: str, calendar: Calendar, *, replace: bool = False, update_triggers: bool = False
    ) -> None:
        """Store a calendar for triggers to name.

        With `replace`, triggers that name it go by the new one from their next fire time on; with `update_triggers`
        that fire time is computed anew, too: paused, blocked and failed triggers stay so, and one that the new
        calendar leaves no fire time goes.

        Raises:
            ObjectAlreadyExistsError: it is stored and `replace` is false.
            InvalidCalendarError: it is no calendar that can be stored.
        """
        check_name(name, "calendar name")
        store = self._usable_store()
        store.put_calendar(name, calendar, replace=replace)
        if update_triggers:
            self._update_triggers(name)
        if replace:
            self._changed(self._clock.now())

    def _update_triggers(self, name: str) -> None:
        """FireRequest what names a calendar to where that says."""
        store = self._usable_store()
        # A trigger that fires meanwhile is read again.
        for _ in range(_UPDATE_TRIES):
            stored = store.calendars([name]).get(name)
            if stored is None:
                return
            now = store.now()
            moves = []
            for record in store.triggers_of_calendar(name):
                late_after = record.trigger.misfire_threshold or self._config.misfire_threshold
                progress = record.trigger.with_new_calendar(
                    record.progress, stored.calendar, now=now, late_after=late_after
                )
                if progress != record.progress and record.state is not TriggerState.COMPLETE:
                    there = PreparedTrigger(record.trigger, progress, UpcomingFireTimes(), stored.revision)
                    moves.append(TriggerMove(record, moved_to(there, progress, stored.calendar)))
            if len(store.move_triggers(moves)) == len(moves):
                return

    def delete_calendar(self, name: str, *, missing_ok: bool = False) -> bool:
        """Remove a calendar.

        Returns True, or False where it was not stored and `missing_ok` is true.

        Raises:
            CalendarNotFoundError: it is not stored, and `missing_ok` is false.
            CalendarInUseError: triggers name it.
        """
        store = self._usable_store()
        if store.delete_calendar(check_name(name, "calendar name")):
            return True
        if missing_ok:
            return False
        near = difflib.get_close_matches(name, store.calendar_names(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise CalendarNotFoundError(f"calendar {name!r} is not stored{hint}")

    def get_calendar(self, name: str) -> Calendar | None:
        """A stored calendar; None where there is none."""
        check_name(name, "calendar name")
        stored = self._usable_store().calendars([name]).get(name)
        return None if stored is None else stored.calendar

    def calendar_names(self) -> list[str]:
        return self._usable_store().calendar_names()
