"""The actions that pause, resume and skip fires."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import IllegalStateChangeError, InvalidValueError
from quartzpy.instants import Span
from quartzpy.instants import zone as zone_of
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.actions.log import ActionFailure, ActionResult, SliceChange, SubjectChange
from quartzpy.operations.actions.methods import ActionMethods, by_presence
from quartzpy.operations.actions.values import values_of
from quartzpy.operations.selection import Keys, Selected, Selection, Subject, named
from quartzpy.scheduler import singles
from quartzpy.scheduler.methods.pausing import Until
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.states import PAUSED_STATES, JobMode, Missed, TriggerState, missed_of
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.protocol import NamedTriggers, Notification, PauseNote, TriggersOfJobs
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import instant_text, number_of, numbered, quoted

_IDLE = (TriggerState.COMPLETE, TriggerState.ERROR)


class PausingActions(ActionMethods):
    """Actions that pause and resume, now or by maintenance windows, and skip single fires."""

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

        def change(transaction: OwnTransactionMethods, key: Any) -> SubjectChange:
            if isinstance(key, TriggerKey):
                _check_fires(transaction, key, "pause")
            transaction.pause(key, reason=note.reason, by=note.by, until=note.until, missed=note.missed)
            return SubjectChange(f"Paused {named(selected.kind, key)}{_until(note)}.", after=lasting)

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

        def change(transaction: OwnTransactionMethods, key: Any) -> SubjectChange:
            if isinstance(key, TriggerKey):
                _check_fires(transaction, key, "resume")
            transaction.resume(key, missed=treatment)
            held = _held(transaction, key)
            text = f"Resumed {named(selected.kind, key)}{f', but {held}' if held else ''}."
            return SubjectChange(text, after={"missed": treatment})

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

        def change(transaction: OwnTransactionMethods) -> SubjectChange:
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
            return SubjectChange(text, None, after, tuple(sorted(groups)), len(groups))

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

        def change(transaction: OwnTransactionMethods) -> SubjectChange:
            before = _window(transaction, window)
            transaction.add_maintenance_window(made, replace=True, by=self._log.actor.name)
            [record] = [record for record in transaction.maintenance_windows() if record.window.name == window]
            text = (
                f"Maintenance window {window} pauses {made.subject} from {instant_text(record.starts_at)} until"
                f" {instant_text(record.ends_at)}{'' if cron is None else ', and each time after that'}."
            )
            return SubjectChange(text, before, _window(transaction, window), (window,))

        return self._change_one("set_window", named(Subject.WINDOW, window), reason, change)

    def delete_window(self, window: str, *, reason: str = "") -> ActionResult:
        """Delete a maintenance window; what it pauses at present is resumed within seconds.

        Raises:
            ObjectNotFoundError: there is none of this name.
        """

        def change(transaction: OwnTransactionMethods) -> SubjectChange:
            before = _window(transaction, window)
            transaction.delete_maintenance_window(window)
            return SubjectChange(f"Deleted the maintenance window {window}.", before, None, (window,))

        return self._change_one("delete_window", named(Subject.WINDOW, window), reason, change)

    def skip_next(self, selection: Selected, count: int = 1, *, reason: str = "") -> ActionResult:
        """Skip the next `count` fires of triggers; see `Scheduler.skip_next`.

        Raises:
            TriggerNotFoundError: it is not stored.
            IllegalStateChangeError: it is COMPLETE or in ERROR, and does not fire.
        """

        def change(transaction: OwnTransactionMethods, key: TriggerKey) -> SubjectChange:
            _check_fires(transaction, key, "skip")
            following = transaction.skip_next(key, count)
            fires = "does not fire again" if following is None else f"fires next at {following.isoformat(sep=' ')}"
            text = f"Skipped {numbered(count, 'fire', 'fires')} of trigger {key}, which {fires}."
            return SubjectChange(text)

        selected = self._selected("skip_next", selection)
        return self._change_each("skip_next", selected, reason, change, values=values_of)


def _stored_jobs(transaction: OwnTransactionMethods, selected: Keys | Selection, keys: Sequence[JobKey]) -> SliceChange:
    """Tell apart the jobs that are stored, which can be changed, and those that are not."""
    if isinstance(selected, Selection):
        # The query has just returned them.
        return SliceChange(list(keys))
    return by_presence(Subject.JOB, keys, set(transaction.store.job_headers(keys)))


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
        done.failures = by_presence(selected.kind, keys, records).failures
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
