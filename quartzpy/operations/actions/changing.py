"""The actions that change and remove jobs and triggers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quartzpy.keys import JobKey, TriggerKey, TriggerRef, checked_key
from quartzpy.operations import schedule_texts
from quartzpy.operations.actions.base import BaseActions, sorted_out, values_of
from quartzpy.operations.actions.log import Change, SliceChange
from quartzpy.operations.results import ActionFailure, ActionResult
from quartzpy.operations.schedule_texts import SchedulePreview
from quartzpy.operations.schedules import in_words, schedule_text, zone_text
from quartzpy.operations.selection import Selected, Subject, named
from quartzpy.scheduler import singles
from quartzpy.scheduler.methods.queries import QueryMethods
from quartzpy.scheduler.own_transaction import OwnTransactionMethods
from quartzpy.scheduler.reading import Reading
from quartzpy.states import Missed, TriggerState, missed_of
from quartzpy.store.protocol import NamedTriggers, PauseNote
from quartzpy.store.records import TriggerRecord
from quartzpy.triggers.trigger import Trigger


class ChangingActions(BaseActions):
    """Schedules, errors, modes and removal."""

    def preview_schedule(
        self, text: str, zone: str | None = None, *, trigger: TriggerRef | None = None
    ) -> SchedulePreview:
        """Return the meaning and the next fire times of a schedule, or its error. It changes nothing.

        `text` and `zone` are as for `reschedule`. With `trigger`, the fire times are those that this trigger would have
        after `reschedule`, by its calendar and within its end time.

        Raises:
            TriggerNotFoundError: the trigger is not stored.
        """
        scheduler = self._log.scheduler
        reading = Reading(scheduler._usable_store)
        if trigger is None:
            return schedule_texts.preview(text, zone, reading.now())
        key = checked_key(trigger, TriggerKey)
        record = reading.ask(lambda store: store.triggers([key]).get(key))()
        if record is None:
            raise scheduler._no_trigger(key)
        calendar, name = None, record.calendar
        if name is not None:
            found = reading.ask(lambda store: store.calendars([name]).get(name))()
            calendar = None if found is None else found.calendar
        return schedule_texts.preview(text, zone, reading.now(), record=record, calendar=calendar)

    def reschedule(self, trigger: TriggerRef, text: str, zone: str | None = None, *, reason: str = "") -> ActionResult:
        """Give a trigger another schedule; its data, priority, calendar, end time and pause stay.

        `text` is a cron expression (crontab's or Quartz's), an interval such as "every 15m", or the instant of a single
        fire. Without `zone`, a cron expression keeps the zone of the trigger.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidTriggerError, InvalidCronError, UnknownTimeZoneError: the schedule is wrong.
        """
        key = checked_key(trigger, TriggerKey)

        def change(transaction: OwnTransactionMethods) -> Change:
            record = _required(transaction, key)
            new = schedule_texts.edited(record, text, zone, transaction.store.now())
            following = transaction.reschedule_job(key, new)
            if record.state in (TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED):
                transaction.store.pause(NamedTriggers([key]), PauseNote(record.pause_reason, record.paused_by))
            sentence = f"Trigger {key} fires {in_words(new)}; the next time is {following.isoformat(sep=' ')}."
            return Change(sentence, _schedule(record.trigger), _schedule(new), (key,))

        return self._one("reschedule", named(Subject.TRIGGER, key), reason, change)

    def reset(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Return triggers in ERROR to their schedules; see `Scheduler.reset_trigger_from_error`.

        Raises:
            TriggerNotFoundError: it is not stored.
            IllegalStateChangeError: it is not in ERROR.
        """

        def change(transaction: OwnTransactionMethods, key: TriggerKey) -> Change:
            transaction._changed(singles.reset_from_error(transaction.store, key))
            return Change()

        def change_many(transaction: OwnTransactionMethods, keys: Sequence[Any]) -> SliceChange:
            reset = transaction.store.reset_from_error(keys)
            transaction._changed(min((at for at in reset.values() if at is not None), default=None))
            failures = [
                ActionFailure(str(key), f"trigger {key} is not stored, or not in ERROR")
                for key in keys
                if key not in reset
            ]
            return SliceChange(sorted(reset), failures)

        selected = self._selected("reset", selection)
        return self._each("reset", selected, reason, change, values=values_of, change_many=change_many)

    def enable(self, selection: Selected, *, missed: str = Missed.SKIP, reason: str = "") -> ActionResult:
        """Enable jobs that are disabled or run only by hand; see `Scheduler.enable_job`.

        Raises:
            JobNotFoundError: it is not stored.
        """
        treatment = missed_of(missed)
        return self._set_mode(
            "enable", selection, reason, lambda transaction, key: transaction.enable_job(key, missed=treatment)
        )

    def disable(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Disable jobs: none of their triggers fires, and `trigger` is refused; see `Scheduler.disable_job`.

        Raises:
            JobNotFoundError: it is not stored.
        """
        return self._set_mode("disable", selection, reason, lambda transaction, key: transaction.disable_job(key))

    def _set_mode(
        self, action: str, selection: Selected, reason: str, set_mode: Callable[[OwnTransactionMethods, JobKey], None]
    ) -> ActionResult:
        def change(transaction: OwnTransactionMethods, key: JobKey) -> Change:
            set_mode(transaction, key)
            return Change()

        def mode(transaction: OwnTransactionMethods, key: JobKey) -> dict[str, Any]:
            return {"mode": transaction.job_mode(key)}

        selected = self._selected(action, selection)
        return self._each(action, selected, reason, change, values=mode)

    def delete(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Delete jobs with all their triggers, or triggers with jobs that are not durable. Running executions continue.

        Raises:
            JobNotFoundError, TriggerNotFoundError: it is not stored.
        """
        selected = self._selected("delete", selection)

        def change(transaction: OwnTransactionMethods, key: Any) -> Change:
            if isinstance(key, JobKey):
                transaction.delete_job(key)
            else:
                transaction.unschedule_job(key)
            return Change()

        def change_many(transaction: OwnTransactionMethods, keys: Sequence[Any]) -> SliceChange:
            removed = (
                transaction.delete_jobs(keys) if selected.kind is Subject.JOB else transaction.unschedule_jobs(keys)
            )
            return sorted_out(selected.kind, keys, removed)

        return self._each("delete", selected, reason, change, values=values_of, change_many=change_many)


def _required(transaction: QueryMethods, key: TriggerKey) -> TriggerRecord:
    record = transaction.trigger_record(key)
    if record is None:
        raise transaction._no_trigger(key)
    return record


def _schedule(trigger: Trigger) -> dict[str, Any]:
    return {"schedule": schedule_text(trigger), "zone": zone_text(trigger)}
