"""The verbs that skip fires of a trigger without pausing it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import IllegalStateChangeError, InvalidValueError
from quartzpy.events import TriggerFinalized
from quartzpy.instants import as_instant
from quartzpy.keys import TriggerKey, TriggerRef, checked_key
from quartzpy.states import TriggerState
from quartzpy.store.protocol import TriggerMove
from quartzpy.store.records import TriggerRecord
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, moved_to
from quartzpy.verbs.base import Verbs

MOST_SKIPPED = 10_000
_TRIES = 20

_FireTime = Callable[[TriggerRecord, Calendar | None], datetime | None]


class SkippingVerbs(Verbs):
    """Skipping the next fires of a trigger."""

    def skip_next(self, key: TriggerRef, count: int = 1) -> datetime | None:
        """Skip the next `count` fires of a trigger, and return its next fire time after them.

        The schedule does not change: a trigger with a repeat count loses these fires. A fire that is overdue, or that a
        node has claimed, counts as the next one. An execution that has started continues, and a paused trigger stays
        paused. If no fire is left, the result is None, and the trigger becomes COMPLETE: it stays stored with its job,
        and listeners get `TriggerFinalized`.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
            InvalidValueError: `count` is no number from 1 to 10,000.
            IllegalStateChangeError: the trigger fired at each of several tries, so that nothing was skipped.
        """
        if type(count) is not int or not 1 <= count <= MOST_SKIPPED:
            raise InvalidValueError(f"count: a number from 1 to {MOST_SKIPPED:,} (got {count!r})")

        def following(record: TriggerRecord, calendar: Calendar | None) -> datetime | None:
            progress = record.progress
            for _ in range(count):
                progress = record.trigger.triggered(progress, calendar)
                if progress.next_fire_time is None:
                    return None
            return progress.next_fire_time

        return self._skip(checked_key(key, TriggerKey), following)

    def skip_until(self, key: TriggerRef, instant: datetime) -> datetime | None:
        """Skip all fires of a trigger before `instant`, and return its next fire time, at `instant` or later.

        Nothing changes where the next fire time is not before `instant`. All else is as in `skip_next`.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
            InvalidValueError: `instant` is no datetime with a time zone.
        """
        until = as_instant(instant, "instant", InvalidValueError)

        def following(record: TriggerRecord, calendar: Calendar | None) -> datetime | None:
            first = record.next_fire_time
            return first if first is None or first >= until else record.trigger.included_from(until, calendar)

        return self._skip(checked_key(key, TriggerKey), following)

    def _skip(self, key: TriggerKey, following: _FireTime) -> datetime | None:
        store = self._usable_store()
        # A trigger that fires or changes meanwhile is read again.
        for _ in range(_TRIES):
            record = store.trigger(key)
            if record is None:
                raise self._no_trigger(key)
            if record.next_fire_time is None or record.state is TriggerState.COMPLETE:
                return None
            name = record.trigger.calendar
            stored = None if name is None else store.calendars([name])[name]
            calendar = None if stored is None else stored.calendar
            at = following(record, calendar)
            if at == record.next_fire_time:
                return at
            progress = record.trigger.skipping_to(record.progress, at)
            there = PreparedTrigger(
                record.trigger, progress, UpcomingFireTimes(), None if stored is None else stored.revision
            )
            if store.move_triggers([TriggerMove(record, moved_to(there, progress, calendar), releases_claim=True)]):
                if at is None:
                    self._emit(TriggerFinalized(key))
                self._changed(at)
                return at
        raise IllegalStateChangeError(f"trigger {key} fires too often to skip fires of it; pause it instead")
