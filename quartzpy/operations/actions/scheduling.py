"""The actions on schedules, errors and modes, removal, and what is declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quartzpy.keys import JobKey, TriggerKey, TriggerRef, checked_key
from quartzpy.operations.actions.action import Role
from quartzpy.operations.actions.log import ActionFailure, ActionResult, Recorded, SliceChange, SubjectChange
from quartzpy.operations.actions.methods import ActionMethods, by_presence
from quartzpy.operations.actions.values import rows_of_plan, schedule_values, values_of
from quartzpy.operations.selection import Selected, Subject, named
from quartzpy.operations.views import schedules
from quartzpy.operations.views.schedules import SchedulePreview
from quartzpy.scheduler import singles
from quartzpy.scheduler.batched_reads import BatchedReads
from quartzpy.scheduler.sync import Declarations, Existing, SyncPlan
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.states import JobMode, Missed, missed_of
from quartzpy.store.protocol import NamedTriggers, PauseNote


class SchedulingActions(ActionMethods):
    """Actions that change schedules, errors and modes, remove jobs and triggers, and apply what is declared."""

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
        reading = BatchedReads(scheduler._usable_store)
        if trigger is None:
            return schedules.preview(text, zone, reading.now())
        key = checked_key(trigger, TriggerKey)
        record = reading.defer(lambda store: store.triggers([key]).get(key))()
        if record is None:
            raise scheduler._no_trigger(key)
        calendar, name = None, record.calendar
        if name is not None:
            stored = reading.defer(lambda store: store.calendars([name]).get(name))()
            calendar = None if stored is None else stored.calendar
        return schedules.preview(text, zone, reading.now(), record=record, calendar=calendar)

    def reschedule(self, trigger: TriggerRef, text: str, zone: str | None = None, *, reason: str = "") -> ActionResult:
        """Give a trigger another schedule; its data, priority, calendar, end time and pause stay.

        `text` is a cron expression (crontab's or Quartz's), an interval such as "every 15m", or the instant of a single
        fire. Without `zone`, a cron expression keeps the zone of the trigger.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidTriggerError, InvalidCronError, UnknownTimeZoneError: the schedule is wrong.
        """
        key = checked_key(trigger, TriggerKey)

        def change(transaction: OwnTransactionMethods) -> SubjectChange:
            record = transaction.trigger_record(key)
            if record is None:
                raise transaction._no_trigger(key)
            new = schedules.edited(record, text, zone, transaction.store.now())
            following = transaction.reschedule_job(key, new)
            if (note := PauseNote.of(record)) is not None:
                transaction.store.pause(NamedTriggers([key]), note)
            sentence = f"Trigger {key} fires {new.words}; the next time is {following.isoformat(sep=' ')}."
            return SubjectChange(sentence, schedule_values(record.trigger), schedule_values(new), (key,))

        return self._change_one("reschedule", named(Subject.TRIGGER, key), reason, change)

    def reset(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Return triggers in ERROR to their schedules; see `Scheduler.reset_trigger_from_error`.

        Raises:
            TriggerNotFoundError: it is not stored.
            IllegalStateChangeError: it is not in ERROR.
        """

        def change(transaction: OwnTransactionMethods, key: TriggerKey) -> SubjectChange:
            transaction._changed(singles.reset_from_error(transaction.store, key))
            return SubjectChange()

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
        return self._change_each("reset", selected, reason, change, values=values_of, change_many=change_many)

    def enable(self, selection: Selected, *, missed: str = Missed.SKIP, reason: str = "") -> ActionResult:
        """Enable jobs that are disabled or run only by hand; see `Scheduler.set_mode`.

        Raises:
            JobNotFoundError: it is not stored.
        """
        return self._set_mode("enable", selection, reason, JobMode.ENABLED, missed_of(missed))

    def disable(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Disable jobs: none of their triggers fires, and `trigger` is refused; see `Scheduler.set_mode`.

        Raises:
            JobNotFoundError: it is not stored.
        """
        return self._set_mode("disable", selection, reason, JobMode.DISABLED, Missed.SKIP)

    def _set_mode(self, action: str, selection: Selected, reason: str, mode: JobMode, missed: Missed) -> ActionResult:
        def change(transaction: OwnTransactionMethods, key: JobKey) -> SubjectChange:
            transaction.set_mode(key, mode, missed=missed)
            return SubjectChange()

        def values(transaction: OwnTransactionMethods, key: JobKey) -> dict[str, Any]:
            return {"mode": singles.mode_of_job(transaction.store, key)}

        selected = self._selected(action, selection)
        return self._change_each(action, selected, reason, change, values=values)

    def delete(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Delete jobs with all their triggers, or triggers with jobs that are not durable. Running executions continue.

        Raises:
            JobNotFoundError, TriggerNotFoundError: it is not stored.
        """
        selected = self._selected("delete", selection)

        def change(transaction: OwnTransactionMethods, key: Any) -> SubjectChange:
            if isinstance(key, JobKey):
                transaction.delete_job(key)
            else:
                transaction.unschedule_job(key)
            return SubjectChange()

        def change_many(transaction: OwnTransactionMethods, keys: Sequence[Any]) -> SliceChange:
            removed = (
                transaction.delete_jobs(keys) if selected.kind is Subject.JOB else transaction.unschedule_jobs(keys)
            )
            return by_presence(selected.kind, keys, removed)

        return self._change_each("delete", selected, reason, change, values=values_of, change_many=change_many)

    def apply(
        self,
        declared: Declarations,
        *,
        owner: str,
        prune: bool = False,
        existing: str = Existing.UPDATE,
        version: int | float | str | None = None,
        reason: str = "",
    ) -> SyncPlan:
        """Make the store match the declarations, all or nothing, as `Scheduler.sync` does; return what was changed.

        Each change is one row of the audit log, in the same transaction. A plan without changes leaves no row.

        Raises:
            As `Scheduler.sync`; the action is recorded as failed then.
        """

        def work(transaction: OwnTransactionMethods) -> Recorded[SyncPlan]:
            rows: list[tuple[str, SubjectChange]] = []

            def note(plan: SyncPlan) -> None:
                # What is removed can only be read before it is removed.
                rows.extend(rows_of_plan(transaction, plan, owner, self._redaction))

            done = transaction.sync(
                declared.jobs,
                calendars=declared.calendars,
                windows=declared.windows,
                owner=owner,
                prune=prune,
                existing=existing,
                version=version,
                announce=note,
            )
            return Recorded(done, rows)

        return self._log.change_together("apply", Role.ADMIN, f"owner {owner}", reason, work, exclusively=True)
