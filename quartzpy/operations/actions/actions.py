"""The actions that operators take, each on one subject or many: the methods that carry them out."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Self

from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import (
    ExecutionNotFoundError,
    IllegalStateChangeError,
    InvalidValueError,
    JobNotFoundError,
    ObjectNotFoundError,
)
from quartzpy.instants import Span, as_instant
from quartzpy.instants import zone as zone_of
from quartzpy.jobs import typed_data
from quartzpy.jobs.shared_limit import Limit, checked_limit_name
from quartzpy.keys import JobKey, JobRef, TriggerKey, TriggerRef, check_name, checked_key
from quartzpy.operations import calendar_changes, schedules
from quartzpy.operations.actions.action import Actor, Role
from quartzpy.operations.actions.inputs import DataField, fields_of
from quartzpy.operations.actions.log import (
    ActionFailure,
    ActionLog,
    ActionProgress,
    ActionResult,
    Change,
    Recorded,
    SliceChange,
)
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.operations.actions.values import checked_incident_id, rows_of_plan, schedule_values, values_of
from quartzpy.operations.calendar_changes import CalendarDifference, CalendarSource
from quartzpy.operations.recorded_incidents import not_recorded
from quartzpy.operations.schedules import SchedulePreview, in_words
from quartzpy.operations.selection import Keys, Selected, Selection, Subject, as_selected, named
from quartzpy.operations.source import Redaction
from quartzpy.scheduler import singles
from quartzpy.scheduler.methods.pausing import Until
from quartzpy.scheduler.past_fires import PastFires
from quartzpy.scheduler.reading import Reading
from quartzpy.scheduler.scheduler import BaseScheduler
from quartzpy.scheduler.sync import Declarations, Existing, SyncPlan
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.states import PAUSED_STATES, JobMode, Missed, NodeMode, TriggerState, missed_of
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.protocol import NamedTriggers, Notification, PauseNote, TriggersOfJobs
from quartzpy.store.records import IncidentRecord, TriggerRecord
from quartzpy.texts import did_you_mean, instant_text, number_of, numbered, quoted

_ChangeOfOne = Callable[[OwnTransactionMethods, Any], Change]
_ChangeOfMany = Callable[[OwnTransactionMethods, Sequence[Any]], SliceChange]
_Values = Callable[[OwnTransactionMethods, Any], dict[str, Any]]
_IDLE = (TriggerState.COMPLETE, TriggerState.ERROR)


class Actions:
    """The actions of one actor on a scheduler, which need not be started.

    Each action takes a `reason`, a sentence for the audit log. `selection` is one key, several keys of one kind, or a
    `Selection` by filters. An action on one subject raises its error and then changes nothing. An action on many
    proceeds in slices; subjects that cannot be changed are counted in the result, and do not prevent the others.

    Raises (by every action):
        ForbiddenError: the actor's role does not permit it, or the operations are read-only; nothing was changed.
        InvalidValueError: an argument is wrong; nothing was changed.
    """

    def __init__(
        self,
        scheduler: BaseScheduler,
        actor: Actor,
        *,
        read_only: bool = False,
        redaction: Redaction | None = None,
    ) -> None:
        self._log = ActionLog(scheduler, actor, read_only=read_only)
        self._redaction = redaction or Redaction()

    def reporting(self, report: Callable[[ActionProgress], None]) -> Self:
        """Return the same actions, which call `report` before each slice of an action on many subjects.

        If `report` raises an error, the action ends: it is recorded as failed, with the number of its changes so far.
        """
        actions = copy(self)
        actions._log = self._log.reporting(report)
        return actions

    def permits(self, action: str) -> bool:
        """Return True if the actor may do this action, by its name."""
        return self._log.permits(ACTIONS[action].role)

    def check_permitted(self, action: str) -> None:
        """Check that the actor may do this action, by its name, before it is tried. An attempt checks it as well.

        Raises:
            ForbiddenError: the actor may not; the message says who may.
        """
        self._log.check(action, ACTIONS[action].role)

    def count(self, selection: Selected) -> int:
        """Return the number of subjects that a selection has now: of a group, its jobs or triggers.

        Raises:
            InvalidValueError: the selection is wrong.
        """
        selected = as_selected(selection, *Subject)
        if isinstance(selected, Keys):
            return len(selected.keys)
        return selected.query(self._log.scheduler).count()

    def _selected(self, action: str, selection: Selected) -> Keys | Selection:
        return as_selected(selection, *ACTIONS[action].subjects)

    def _change_one(
        self, action: str, subject: str, reason: str, change: Callable[[OwnTransactionMethods], Change]
    ) -> ActionResult:
        return self._log.change_one(action, ACTIONS[action].role, subject, reason, change)

    def _change_each(
        self,
        action: str,
        selected: Keys | Selection,
        reason: str,
        change: _ChangeOfOne,
        *,
        values: _Values | None = None,
        change_many: _ChangeOfMany | None = None,
    ) -> ActionResult:
        """Change one subject, or many: by `change_many` slice by slice, or without it by `change` one by one.

        `values` returns the values of one subject, which are recorded before and after the change. Of many, they are
        not read.
        """
        if not isinstance(selected, Keys) or len(selected.keys) > 1:
            role, past = ACTIONS[action].role, ACTIONS[action].past
            return self._log.change_many(action, role, selected, reason, change_many or _one_by_one(change), past)
        [key] = selected.keys

        def change_key(transaction: OwnTransactionMethods) -> Change:
            before = None if values is None else values(transaction, key)
            done = change(transaction, key)
            after = done.after if values is None else {**values(transaction, key), **(done.after or {})}
            text = done.text or f"{ACTIONS[action].past} {named(selected.kind, key)}."
            keys = (key,) if done.keys is None else done.keys
            return replace(done, text=text, before=before, after=after or None, keys=keys)

        return self._change_one(action, named(selected.kind, key), reason, change_key)

    # --- running jobs outside their schedules, and stopping executions

    def trigger(
        self,
        job: JobRef,
        data: Mapping[str, Any] | Any | None = None,
        *,
        even_if_paused: bool = False,
        reason: str = "",
    ) -> ActionResult:
        """Run a job now, with `data` in addition to its own; see `Scheduler.trigger_job`.

        Raises:
            JobNotFoundError: the job is not stored.
            IllegalStateChangeError: the job is disabled, or a pause would delay the fire and not `even_if_paused`.
            InvalidJobDataError: the data cannot be stored, or does not fit the job's data type, which is known here.
        """
        key = checked_key(job, JobKey)

        def change(transaction: OwnTransactionMethods) -> Change:
            triggered = transaction.trigger_job(key, data, even_if_paused=even_if_paused, by=self._log.actor.name)
            after = {"trigger": str(triggered.key), "data": self._redaction.of(_as_mapping(data))}
            return Change(f"Job {key} runs now, by trigger {triggered.key}.", None, after, (triggered.key,))

        return self._change_one("trigger", named(Subject.JOB, key), reason, change)

    def data_fields(self, job: JobRef) -> tuple[DataField, ...] | None:
        """Return the fields of the data that a job takes; None if its class is not known here, or declares no type.

        Raises:
            JobNotFoundError: the job is not stored.
        """
        scheduler, key = self._log.scheduler, checked_key(job, JobKey)
        header = scheduler._usable_store().job_headers([key]).get(key)
        if header is None:
            raise scheduler._no_job(key)
        data_type = scheduler.job_types.data_type(header.job_type)
        return None if data_type is None else fields_of(data_type)

    def run_again(self, selection: Selected, *, even_if_paused: bool = False, reason: str = "") -> ActionResult:
        """Run the jobs of executions that have ended again, each with its data; see `Scheduler.run_again`.

        Raises:
            ExecutionNotFoundError: the execution is not known.
            IllegalStateChangeError: it has not ended, or the job cannot run now.
        """

        def change(transaction: OwnTransactionMethods, fire_id: int) -> Change:
            triggered = transaction.run_again(fire_id, even_if_paused=even_if_paused, by=self._log.actor.name)
            after = {"trigger": str(triggered.key)}
            text = f"Execution {fire_id} of job {triggered.job_key} runs again, by trigger {triggered.key}."
            return Change(text, None, after, (triggered.key,))

        return self._change_each("run_again", self._selected("run_again", selection), reason, change)

    def backfill(
        self,
        trigger: TriggerRef,
        start: datetime,
        end: datetime,
        *,
        max_runs: int = 1_000,
        even_if_paused: bool = False,
        reason: str = "",
    ) -> ActionResult:
        """Run the job of a trigger for each past instant of its schedule from `start` until before `end`.

        Raises:
            As `Scheduler.backfill`; `backfill_times` tells the instants before.
        """
        key = checked_key(trigger, TriggerKey)

        def change(transaction: OwnTransactionMethods) -> Change:
            runs = transaction.backfill(
                key, start, end, max_runs=max_runs, even_if_paused=even_if_paused, by=self._log.actor.name
            )
            after = {"start": start.isoformat(), "end": end.isoformat(), "runs": len(runs)}
            stored = f"{number_of(len(runs), 'run')} of trigger {key} {'was' if len(runs) == 1 else 'were'} stored"
            text = f"{stored}, for its fire times from {start} until {end}."
            return Change(text, None, after, tuple(run.key for run in runs), len(runs))

        return self._change_one("backfill", named(Subject.TRIGGER, key), reason, change)

    def backfill_times(
        self, trigger: TriggerRef, start: datetime, end: datetime, *, max_runs: int = 1_000
    ) -> list[datetime]:
        """Return the instants that `backfill` would run the job for; see `Scheduler.backfill_times`."""
        return self._log.scheduler.backfill_times(checked_key(trigger, TriggerKey), start, end, max_runs=max_runs)

    def past_fires(self, trigger: TriggerRef) -> PastFires:
        """Return the past of a trigger's schedule, which tells the instants of any span without another question.

        Raises:
            TriggerNotFoundError: the trigger is not stored.
        """
        return self._log.scheduler._past_fires(checked_key(trigger, TriggerKey))

    def cancel(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Ask running executions to stop, on any node: by their fire ids, or all those of jobs.

        Raises:
            ExecutionNotFoundError: the execution is not known.
            IllegalStateChangeError: it is not running.
        """

        def change_execution(transaction: OwnTransactionMethods, fire_id: int) -> Change:
            if not transaction.store.request_cancel(fire_id):
                record = transaction.execution(fire_id)
                if record is None:
                    raise ExecutionNotFoundError(f"execution {fire_id} is not known, or no longer in the history")
                raise IllegalStateChangeError(
                    f"execution {fire_id} is {record.state}; only a running one can be cancelled"
                )
            return Change(f"Execution {fire_id} was asked to stop.")

        def change_job(transaction: OwnTransactionMethods, key: JobKey) -> Change:
            fire_ids = sorted(transaction.store.request_cancel(key))
            if not fire_ids and not transaction.check_exists(key):
                raise JobNotFoundError(f"job {key} is not stored, and no execution of it is running")
            text = f"No execution of job {key} is running."
            if fire_ids:
                was = "was" if len(fire_ids) == 1 else "were"
                text = f"{number_of(len(fire_ids), 'execution')} of job {key} {was} asked to stop."
            return Change(text, None, {"fire_ids": fire_ids}, tuple(fire_ids), len(fire_ids))

        selected = self._selected("cancel", selection)
        change = change_job if selected.kind is Subject.JOB else change_execution
        return self._change_each("cancel", selected, reason, change)

    # --- pausing, resuming, and skipping single fires

    def pause(
        self, selection: Selected, end: Until | None = None, missed: str = Missed.MISFIRE, *, reason: str = ""
    ) -> ActionResult:
        """Pause triggers, the triggers of jobs, groups, or everything. The reason and the actor are shown with them.

        With `end`, an instant, its text with an offset, or a span such as "2h", they are resumed then; `missed` is
        the policy for the fires that were missed until then, as for `resume`.

        Raises:
            InvalidValueError: `end` has passed, or is neither an instant nor a span.
            TriggerNotFoundError, JobNotFoundError: it is not stored.
            IllegalStateChangeError: it is a trigger that is COMPLETE or in ERROR, and does not fire.
        """
        selected = self._selected("pause", selection)
        note = self._log.scheduler._note(reason or None, self._log.actor.name, _end_of(end), missed)
        lasting = {} if note.until is None else {"until": note.until.isoformat(), "missed": str(note.missed)}
        if selected.kind not in (Subject.JOB, Subject.TRIGGER):
            return self._pause(selected, reason, note, missed=None)

        def change(transaction: OwnTransactionMethods, key: Any) -> Change:
            if isinstance(key, JobKey):
                transaction.pause_job(key, reason=note.reason, by=note.by, until=note.until, missed=note.missed)
            else:
                _check_fires(transaction, key, "pause")
                transaction.pause_trigger(key, reason=note.reason, by=note.by, until=note.until, missed=note.missed)
            return Change(f"Paused {named(selected.kind, key)}{_until(note)}.", after=lasting)

        def change_many(transaction: OwnTransactionMethods, keys: Sequence[Any]) -> SliceChange:
            if selected.kind is Subject.JOB:
                done = _stored_jobs(transaction, selected, keys)
                transaction.store.pause(TriggersOfJobs(done.changed), note)
                return done
            done = _changing(transaction, selected, keys, "pause", lambda record: _is_new(record, note))
            transaction.store.pause(NamedTriggers(done.changed), note)
            return done

        return self._change_each("pause", selected, reason, change, values=values_of, change_many=change_many)

    def resume(self, selection: Selected, missed: str = Missed.MISFIRE, *, reason: str = "") -> ActionResult:
        """Resume what `pause` pauses. `missed` is the policy for the fires that were missed: misfire, skip or once.

        Raises:
            TriggerNotFoundError, JobNotFoundError: it is not stored.
            IllegalStateChangeError: it is a trigger that is COMPLETE or in ERROR, and does not fire.
        """
        selected, treatment = self._selected("resume", selection), missed_of(missed)
        if selected.kind not in (Subject.JOB, Subject.TRIGGER):
            return self._pause(selected, reason, PauseNote(), missed=treatment)

        def change(transaction: OwnTransactionMethods, key: Any) -> Change:
            if isinstance(key, JobKey):
                transaction.resume_job(key, missed=treatment)
            else:
                _check_fires(transaction, key, "resume")
                transaction.resume_trigger(key, missed=treatment)
            held = _held(transaction, key)
            text = f"Resumed {named(selected.kind, key)}{f', but {held}' if held else ''}."
            return Change(text, after={"missed": treatment})

        def change_many(transaction: OwnTransactionMethods, keys: Sequence[Any]) -> SliceChange:
            if selected.kind is Subject.JOB:
                done = _stored_jobs(transaction, selected, keys)
                due_at = transaction.store.resume(TriggersOfJobs(done.changed), treatment)
            else:
                done = _changing(transaction, selected, keys, "resume", lambda record: record.state in PAUSED_STATES)
                due_at = transaction.store.resume(NamedTriggers(done.changed), treatment)
            transaction._changed(due_at, Notification.RESUMED)
            return done

        return self._change_each("resume", selected, reason, change, values=values_of, change_many=change_many)

    def _pause(
        self, selected: Keys | Selection, reason: str, note: PauseNote, *, missed: Missed | None
    ) -> ActionResult:
        """Pause a group or everything, or resume it if `missed` is given."""
        assert isinstance(selected, Selection)
        values: dict[str, Any] = {"missed": missed}
        if missed is None:
            values = {"reason": note.reason, "by": note.by, "until": note.until, "missed": note.missed}
        verb = "pause" if missed is None else "resume"
        lasting = {} if note.until is None else {"until": note.until.isoformat(), "missed": str(note.missed)}

        def change(transaction: OwnTransactionMethods) -> Change:
            if selected.kind is Subject.EVERYTHING:
                groups = getattr(transaction, f"{verb}_all")(**values)
            else:
                what = "trigger_group" if selected.kind is Subject.TRIGGER_GROUP else "job_group"
                groups = getattr(transaction, f"{verb}_{what}")(selected.filters["group"], **values)
            shown = ", ".join(sorted(groups)[:10]) or "no group"
            number = admin(transaction.store).changed_triggers
            were = f"{number_of(number, 'trigger')} {'was' if number == 1 else 'were'} {verb}d"
            text = f"{verb.capitalize()}d {selected}{_until(note)}: {shown}. {were.capitalize()}."
            after = {"groups": sorted(groups)[:100], "triggers": number, **lasting}
            return Change(text, None, after, tuple(sorted(groups)), len(groups))

        return self._change_one(verb, str(selected), reason, change)

    def set_window(
        self,
        window: str,
        cron: str | None = None,
        duration: Span | None = None,
        zone: str | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        trigger_group: str | None = None,
        job_group: str | None = None,
        missed: str = Missed.MISFIRE,
        *,
        reason: str = "",
    ) -> ActionResult:
        """Store a maintenance window in place of the one of this name; see `MaintenanceWindow`.

        Texts of instants without an offset are in the zone. The reason is shown with what it pauses.

        Raises:
            InvalidValueError: the values do not fit together, one is wrong, or the window is over.
        """
        in_zone = zone or "UTC"
        made = MaintenanceWindow(
            window,
            cron=cron,
            duration=duration,
            time_zone=in_zone,
            start=_instant_in(start, "start", in_zone),
            end=_instant_in(end, "end", in_zone),
            trigger_group=trigger_group,
            job_group=job_group,
            missed=missed,
            reason=reason or None,
        )

        def change(transaction: OwnTransactionMethods) -> Change:
            before = _window(transaction, window)
            transaction.add_maintenance_window(made, replace=True, by=self._log.actor.name)
            [record] = [record for record in transaction.maintenance_windows() if record.window.name == window]
            text = (
                f"Maintenance window {window} pauses {made.subject} from {instant_text(record.starts_at)} until"
                f" {instant_text(record.ends_at)}{'' if cron is None else ', and each time after that'}."
            )
            return Change(text, before, _window(transaction, window), (window,))

        return self._change_one("set_window", named(Subject.WINDOW, window), reason, change)

    def delete_window(self, window: str, *, reason: str = "") -> ActionResult:
        """Delete a maintenance window; what it pauses at present is resumed within seconds.

        Raises:
            ObjectNotFoundError: there is none of this name.
        """

        def change(transaction: OwnTransactionMethods) -> Change:
            before = _window(transaction, window)
            transaction.delete_maintenance_window(window)
            return Change(f"Deleted the maintenance window {window}.", before, None, (window,))

        return self._change_one("delete_window", named(Subject.WINDOW, window), reason, change)

    def skip_next(self, selection: Selected, count: int = 1, *, reason: str = "") -> ActionResult:
        """Skip the next `count` fires of triggers; see `Scheduler.skip_next`.

        Raises:
            TriggerNotFoundError: it is not stored.
            IllegalStateChangeError: it is COMPLETE or in ERROR, and does not fire.
        """

        def change(transaction: OwnTransactionMethods, key: TriggerKey) -> Change:
            _check_fires(transaction, key, "skip")
            following = transaction.skip_next(key, count)
            fires = "does not fire again" if following is None else f"fires next at {following.isoformat(sep=' ')}"
            text = f"Skipped {numbered(count, 'fire', 'fires')} of trigger {key}, which {fires}."
            return Change(text)

        selected = self._selected("skip_next", selection)
        return self._change_each("skip_next", selected, reason, change, values=values_of)

    # --- schedules, errors, modes and removal

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
            return schedules.preview(text, zone, reading.now())
        key = checked_key(trigger, TriggerKey)
        record = reading.ask(lambda store: store.triggers([key]).get(key))()
        if record is None:
            raise scheduler._no_trigger(key)
        calendar, name = None, record.calendar
        if name is not None:
            stored = reading.ask(lambda store: store.calendars([name]).get(name))()
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

        def change(transaction: OwnTransactionMethods) -> Change:
            record = transaction.trigger_record(key)
            if record is None:
                raise transaction._no_trigger(key)
            new = schedules.edited(record, text, zone, transaction.store.now())
            following = transaction.reschedule_job(key, new)
            if (note := PauseNote.of(record)) is not None:
                transaction.store.pause(NamedTriggers([key]), note)
            sentence = f"Trigger {key} fires {in_words(new)}; the next time is {following.isoformat(sep=' ')}."
            return Change(sentence, schedule_values(record.trigger), schedule_values(new), (key,))

        return self._change_one("reschedule", named(Subject.TRIGGER, key), reason, change)

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
        return self._change_each("reset", selected, reason, change, values=values_of, change_many=change_many)

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
        return self._change_each(action, selected, reason, change, values=mode)

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
            return _by_presence(selected.kind, keys, removed)

        return self._change_each("delete", selected, reason, change, values=values_of, change_many=change_many)

    # --- declared jobs, triggers and calendars

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
            rows: list[tuple[str, Change]] = []

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

    # --- what is wrong

    def acknowledge(self, incident: int, until: datetime | None = None, *, reason: str = "") -> ActionResult:
        """Take note of an incident, so that it is listed apart until it is over.

        It comes back when it becomes worse, has another cause or begins anew.

        Args:
            incident: the number under which it is recorded.
            until: the instant at which it comes back in any case.
            reason: a sentence for those who read it meanwhile, and for the audit log.

        Raises:
            ObjectNotFoundError: no incident is recorded under this number.
            IllegalStateChangeError: it is over.
            InvalidValueError: there is no reason, or `until` has passed.
        """
        number = checked_incident_id(incident)
        if until is not None:
            until = as_instant(until, "until", InvalidValueError)

        def change(transaction: OwnTransactionMethods) -> Change:
            if not reason.strip():
                raise InvalidValueError("reason: say why nothing has to be done now, for those who read it meanwhile")
            if until is not None and until <= transaction.store.now():
                raise InvalidValueError(f"until: must be in the future (got {until.isoformat()})")
            record = _lasting(transaction, number)
            views = admin(transaction.store)
            if not views.acknowledge(number, self._log.actor.name, reason.strip(), until):
                raise _over(number)
            ends = "it is over" if until is None else instant_text(until)
            text = f"Incident {number} is acknowledged until {ends}: {record.what}"
            after = {"what": record.what, "until": None if until is None else until.isoformat()}
            return Change(text, None, after, (number,))

        return self._change_one("acknowledge", named(Subject.INCIDENT, number), reason, change)

    def unacknowledge(self, incident: int, *, reason: str = "") -> ActionResult:
        """Show an incident that was acknowledged among the others again.

        Raises:
            ObjectNotFoundError: no incident is recorded under this number.
            IllegalStateChangeError: it is over, or nobody has acknowledged it.
        """
        number = checked_incident_id(incident)

        def change(transaction: OwnTransactionMethods) -> Change:
            record = _lasting(transaction, number)
            note = record.acknowledgement
            if note is None or not admin(transaction.store).unacknowledge(number):
                raise IllegalStateChangeError(f"nobody has acknowledged incident {number}")
            until = None if note.until is None else note.until.isoformat()
            before = {"by": note.by, "reason": note.reason, "until": until}
            return Change(f"Incident {number} is shown again: {record.what}", before, None, (number,))

        return self._change_one("unacknowledge", named(Subject.INCIDENT, number), reason, change)

    def preview_calendar(
        self,
        calendar: str,
        years: str,
        exchange: str | None = None,
        country: str | None = None,
        ics: str | bytes | None = None,
        zone: str | None = None,
        weekends: bool = False,
    ) -> CalendarDifference:
        """Return the difference that `refresh_calendar` would make. It changes nothing.

        Raises:
            As `refresh_calendar`.
        """
        self.check_permitted("refresh_calendar")
        name, scheduler = check_name(calendar, "calendar name"), self._log.scheduler
        source = CalendarSource(years, exchange, country, ics, zone, weekends)
        return calendar_changes.difference(scheduler, name, source.calendar(scheduler.get_calendar(name)))

    def refresh_calendar(
        self,
        calendar: str,
        years: str,
        exchange: str | None = None,
        country: str | None = None,
        ics: str | bytes | None = None,
        zone: str | None = None,
        weekends: bool = False,
        update_triggers: bool = False,
        *,
        reason: str = "",
    ) -> ActionResult:
        """Store a calendar with the dates that a source has for some years, in place of its own for these years.

        `years` is 2027 or 2027-2029. The source is an exchange ("XNYS"), a country ("DE", "DE-BY"), or `ics`, the text
        of a file of iCalendar. Dates of other years and the calendars below it stay. With `update_triggers`, the next
        fire times of its triggers are computed again. `preview_calendar` tells the difference before. The row of the
        audit log has the dates and spans that came and went.

        Raises:
            InvalidValueError: a value is wrong, the source has no such calendar, or the stored one has no dates.
            InvalidCalendarError: the result cannot be stored.
        """
        name = check_name(calendar, "calendar name")
        source = CalendarSource(years, exchange, country, ics, zone, weekends)

        def change(transaction: OwnTransactionMethods) -> Change:
            stored = transaction.get_calendar(name)
            new = source.calendar(stored)
            made = calendar_changes.change_of(stored, new)
            transaction.add_calendar(name, new, replace=True, update_triggers=update_triggers)
            text = f"Calendar {name} was refreshed: {made.text}."
            return Change(text, {"removed": made.removed}, {"added": made.added}, (name,))

        return self._change_one("refresh_calendar", named(Subject.CALENDAR, name), reason, change)

    # --- commands to nodes, which each carries out within about a second

    def set_limit(self, limit: str, value: str, *, reason: str = "") -> ActionResult:
        """Set a limit that jobs share; see `Scheduler.set_limit`.

        Raises:
            InvalidLimitError: the name or the value is wrong.
        """
        name, new = checked_limit_name(limit), Limit.of(value)

        def change(transaction: OwnTransactionMethods) -> Change:
            before = transaction.limits().get(name)
            transaction.set_limit(name, new)
            was = "" if before is None else f"; it was {before.limit}"
            old = None if before is None else {"limit": str(before.limit)}
            return Change(f"Limit {name} is {new}{was}.", old, {"limit": str(new)}, (name,))

        return self._change_one("set_limit", named(Subject.LIMIT, name), reason, change)

    def delete_limit(self, limit: str, *, reason: str = "") -> ActionResult:
        """Remove a limit that no job shares.

        Raises:
            LimitNotFoundError: it is not stored.
            LimitInUseError: jobs share it.
        """
        name = checked_limit_name(limit)

        def change(transaction: OwnTransactionMethods) -> Change:
            before = transaction.limits().get(name)
            transaction.delete_limit(name)
            old = None if before is None else {"limit": str(before.limit)}
            return Change(f"Limit {name} was removed.", old, None, (name,))

        return self._change_one("delete_limit", named(Subject.LIMIT, name), reason, change)

    def drain(self, node: str, *, reason: str = "") -> ActionResult:
        """Let a node claim nothing more and give back what waits for a worker, until `resume_node` or its restart.

        Raises:
            ObjectNotFoundError: no such node is registered.
        """
        return self._command("drain", node, NodeMode.DRAINING, reason)

    def standby(self, node: str, *, reason: str = "") -> ActionResult:
        """Let a node claim nothing more, until `resume_node` or its restart.

        Raises:
            ObjectNotFoundError: no such node is registered.
        """
        return self._command("standby", node, NodeMode.STANDBY, reason)

    def resume_node(self, node: str, *, reason: str = "") -> ActionResult:
        """End `drain` or `standby` of a node.

        Raises:
            ObjectNotFoundError: no such node is registered.
        """
        return self._command("resume_node", node, NodeMode.RUNNING, reason)

    def _command(self, action: str, node: str, mode: NodeMode, reason: str) -> ActionResult:
        def change(transaction: OwnTransactionMethods) -> Change:
            nodes = {record.instance_id: record for record in transaction.store.list_nodes().nodes}
            if node not in nodes or transaction.store.set_node_mode(node, mode) is None:
                hint = did_you_mean(node, nodes, "nodes") if nodes else "no node is running"
                raise ObjectNotFoundError(f"there is no node {quoted(node)}; {hint}")
            return Change(f"Node {node} was told to be {mode}.", {"mode": nodes[node].mode}, {"mode": mode}, (node,))

        return self._change_one(action, named(Subject.NODE, node), reason, change)


def _lasting(transaction: OwnTransactionMethods, incident_id: int) -> IncidentRecord:
    """Return the record of an incident that lasts."""
    record = admin(transaction.store).incident(incident_id)
    if record is None:
        raise not_recorded(incident_id)
    if record.closed_at is not None:
        raise _over(incident_id)
    return record


def _over(incident_id: int) -> IllegalStateChangeError:
    return IllegalStateChangeError(f"incident {incident_id} is over")


def _one_by_one(change: _ChangeOfOne) -> _ChangeOfMany:
    def change_each(transaction: OwnTransactionMethods, keys: Sequence[Any]) -> SliceChange:
        done = SliceChange()
        for key in keys:
            done.attempt(key, partial(change, transaction, key))
        return done

    return change_each


def _stored_jobs(transaction: OwnTransactionMethods, selected: Keys | Selection, keys: Sequence[JobKey]) -> SliceChange:
    """Tell apart the jobs that are stored, which can be changed, and those that are not."""
    if isinstance(selected, Selection):
        # The query has just returned them.
        return SliceChange(list(keys))
    return _by_presence(Subject.JOB, keys, set(transaction.store.job_headers(keys)))


def _by_presence(kind: Subject, keys: Sequence[Any], changed: Container[Any]) -> SliceChange:
    missing = [ActionFailure(str(key), f"{named(kind, key)} is not stored") for key in keys if key not in changed]
    return SliceChange([key for key in keys if key in changed], missing)


def _changing(
    transaction: OwnTransactionMethods,
    selected: Keys | Selection,
    keys: Sequence[TriggerKey],
    what: str,
    changes: Callable[[TriggerRecord], bool],
) -> SliceChange:
    """Tell apart the triggers that an action changes and, of those that were named, the ones to which it cannot apply.

    A trigger that is in the state already belongs to neither.
    """
    records = transaction.store.triggers(keys)
    done = SliceChange([key for key in keys if key in records and changes(records[key])])
    if isinstance(selected, Keys):
        done.failures = _by_presence(selected.kind, keys, records).failures
        problems = ((key, _idle(records[key], what)) for key in keys if key in records)
        done.failures += [ActionFailure(str(key), problem) for key, problem in problems if problem is not None]
    return done


def _window(transaction: OwnTransactionMethods, name: str) -> dict[str, Any] | None:
    """Return the values of a maintenance window for the audit log."""
    records = transaction.maintenance_windows()
    record = next((record for record in records if record.window.name == name), None)
    if record is None:
        return None
    ends = {"starts_at": record.starts_at.isoformat(), "ends_at": record.ends_at.isoformat()}
    return {"pauses": record.window.subject, **record.window.as_json(), **ends}


def _instant_in(value: datetime | str | None, name: str, zone_name: str) -> datetime | None:
    if not isinstance(value, str):
        return value
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidValueError(f"{name}: must be an instant such as 2026-11-22T08:00 (got {quoted(value)})") from None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=zone_of(zone_name))


def _end_of(end: Until | None) -> Until | None:
    """Return the end of a pause; a text may be an instant with an offset, or a span."""
    if not isinstance(end, str):
        return end
    try:
        return datetime.fromisoformat(end)
    except ValueError:
        return end


def _until(note: PauseNote) -> str:
    return "" if note.until is None else f" until {instant_text(note.until)}"


def _is_new(record: TriggerRecord, note: PauseNote) -> bool:
    """Return True if a pause with this note changes the trigger: it fires, or it is paused with another note."""
    if record.state in PAUSED_STATES:
        has_note = note.reason is None or (record.pause_reason, record.paused_by) == (note.reason, note.by)
        return not has_note or (record.paused_until, record.pause_missed) != (note.until, note.missed)
    return record.state not in _IDLE


def _check_fires(transaction: OwnTransactionMethods, key: TriggerKey, what: str) -> None:
    """Refuse an action on a trigger that does not fire: the store would accept it, and nothing would change."""
    record = transaction.store.triggers([key]).get(key)
    problem = None if record is None else _idle(record, what)
    if problem is not None:
        raise IllegalStateChangeError(problem)


def _idle(record: TriggerRecord, what: str) -> str | None:
    """Return the reason why there is nothing to pause, resume or skip; None if the trigger fires or is paused."""
    if record.state not in _IDLE:
        return None
    cure = "it has ended" if record.state is TriggerState.COMPLETE else "reset it first"
    return f"trigger {record.key} is {record.state} and does not fire, so there is nothing to {what}; {cure}"


def _held(transaction: OwnTransactionMethods, key: JobKey | TriggerKey) -> str | None:
    """Return the reason why a job or a trigger does not fire although it was resumed, if its mode is the reason."""
    job = key
    if isinstance(key, TriggerKey):
        record = transaction.store.triggers([key]).get(key)
        if record is None or record.state not in PAUSED_STATES:
            return None
        job = record.job_key
    assert isinstance(job, JobKey)
    match singles.mode_of_job(transaction.store, job):
        case JobMode.DISABLED:
            return f"it does not fire before its job {job} is enabled" if job is not key else "it is disabled"
        case JobMode.MANUAL:
            return (
                f"it does not fire, because its job {job} runs only by hand"
                if job is not key
                else "it runs only by hand"
            )
    return "it does not fire before manual mode ends" if transaction.store.pauses().is_manual else None


def _as_mapping(data: Any) -> Any:
    """Return the data of a job as a mapping, by whose keys secrets are told: a dataclass or a model has keys too."""
    return data if data is None or isinstance(data, Mapping) else typed_data.as_mapping(data, type(data))
