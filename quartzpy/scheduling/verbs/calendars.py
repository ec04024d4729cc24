"""The verbs of calendars."""

from __future__ import annotations

import difflib

from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import CalendarNotFoundError, InvalidValueError
from quartzpy.events.events import TriggerFinalized
from quartzpy.keys import check_name
from quartzpy.scheduling.verbs.base import Verbs
from quartzpy.states import TriggerState
from quartzpy.store.protocol import TriggerMove
from quartzpy.store.queries import TriggerQuery
from quartzpy.texts import quoted
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, moved_to

_UPDATE_TRIES = 5


class CalendarVerbs(Verbs):
    """Storing and removing calendars."""

    def add_calendar(
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
        check_name(name, "calendar name")
        if not self._is_stored(name, calendar):
            self._usable_store().put_calendar(name, calendar, replace=replace)
        if update_triggers:
            self._update_triggers(name)
        if replace or update_triggers:
            self._changed(self._clock.now())

    def _is_stored(self, name: str, calendar: Calendar) -> bool:
        stored = self._readable_calendar(name)
        return stored is not None and stored == calendar

    def _readable_calendar(self, name: str) -> Calendar | None:
        """Return a calendar, or None if it is not stored, or cannot be read in this process."""
        try:
            stored = self._usable_store().calendars([name]).get(name)
        except InvalidValueError:
            # The caller must be able to replace it.
            return None
        return None if stored is None else stored.calendar

    def _update_triggers(self, name: str) -> None:
        """Recompute the next fire times of the triggers that use a calendar."""
        store = self._usable_store()
        # A trigger that fires in the meantime is read again.
        for _ in range(_UPDATE_TRIES):
            stored = store.calendars([name]).get(name)
            if stored is None:
                return
            now = store.now()
            moves = []
            for record in store.find_triggers(TriggerQuery(calendar=name), None):
                late_after = record.trigger.misfire_threshold or self._config.misfire_threshold
                progress = record.trigger.with_new_calendar(
                    record.progress, stored.calendar, now=now, late_after=late_after
                )
                if progress != record.progress and record.state is not TriggerState.COMPLETE:
                    there = PreparedTrigger(record.trigger, progress, UpcomingFireTimes(), stored.revision)
                    moves.append(TriggerMove(record, moved_to(there, progress, stored.calendar)))
            moved = store.move_triggers(moves)
            for move in moves:
                if move.to.trigger.key in moved and move.to.progress.next_fire_time is None:
                    self._emit(TriggerFinalized(move.to.trigger.key))
            if len(moved) == len(moves):
                return

    def delete_calendar(self, name: str, *, missing_ok: bool = False) -> bool:
        """Remove a calendar. Return True if it was stored; False is possible only with `missing_ok`.

        Raises:
            CalendarNotFoundError: no calendar is stored under the name, and `missing_ok` is false.
            CalendarInUseError: triggers use it.
        """
        found = self._usable_store().delete_calendar(check_name(name, "calendar name"))
        if not found and not missing_ok:
            near = difflib.get_close_matches(name, self.calendar_names(), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise CalendarNotFoundError(f"calendar {quoted(name)} is not stored{hint}")
        return found

    def get_calendar(self, name: str) -> Calendar | None:
        """Return the calendar that is stored under the name, or None if there is none."""
        check_name(name, "calendar name")
        stored = self._usable_store().calendars([name]).get(name)
        return None if stored is None else stored.calendar

    def calendar_names(self) -> list[str]:
        """Return the names of all stored calendars, sorted."""
        return self._usable_store().calendar_names()
