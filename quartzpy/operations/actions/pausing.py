"""The actions that pause, resume and skip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quartzpy.errors import IllegalStateChangeError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.operations.actions.base import BaseActions, sorted_out, stored, values_of
from quartzpy.operations.actions.log import Change, SliceChange
from quartzpy.operations.results import ActionFailure, ActionResult
from quartzpy.operations.selection import Keys, Selected, Selection, Subject, named
from quartzpy.scheduler import singles
from quartzpy.scheduler.own_transaction import OwnTransactionMethods
from quartzpy.states import PAUSED_STATES, JobMode, Missed, TriggerState, missed_of
from quartzpy.store.protocol import NamedTriggers, Notification, PauseNote, TriggersOfJobs
from quartzpy.store.records import TriggerRecord
from quartzpy.texts import numbered

_IDLE = (TriggerState.COMPLETE, TriggerState.ERROR)


class PausingActions(BaseActions):
    """Pausing and resuming, and skipping single fires."""

    def pause(self, selection: Selected, *, reason: str = "") -> ActionResult:
        """Pause triggers, the triggers of jobs, groups, or everything. The reason and the actor are shown with them.

        Raises:
            TriggerNotFoundError, JobNotFoundError: it is not stored.
            IllegalStateChangeError: it is a trigger that is COMPLETE or in ERROR, and does not fire.
        """
        selected = self._selected("pause", selection)
        note = PauseNote(reason or None, self._log.actor.name)
        if selected.kind not in (Subject.JOB, Subject.TRIGGER):
            return self._pause(selected, reason, note, missed=None)

        def change(transaction: OwnTransactionMethods, key: Any) -> Change:
            if isinstance(key, JobKey):
                transaction.pause_job(key, reason=note.reason, by=note.by)
            else:
                _check_fires(transaction, key, "pause")
                transaction.pause_trigger(key, reason=note.reason, by=note.by)
            return Change()

        def change_many(transaction: OwnTransactionMethods, keys: Sequence[Any]) -> SliceChange:
            if selected.kind is Subject.JOB:
                done = stored(transaction, selected, keys)
                transaction.store.pause(TriggersOfJobs(done.changed), note)
                return done
            done = _changing(transaction, selected, keys, "pause", lambda record: _is_new(record, note))
            transaction.store.pause(NamedTriggers(done.changed), note)
            return done

        return self._each("pause", selected, reason, change, values=values_of, change_many=change_many)

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
                done = stored(transaction, selected, keys)
                due_at = transaction.store.resume(TriggersOfJobs(done.changed), treatment)
            else:
                done = _changing(transaction, selected, keys, "resume", lambda record: record.state in PAUSED_STATES)
                due_at = transaction.store.resume(NamedTriggers(done.changed), treatment)
            transaction._changed(due_at, Notification.RESUMED)
            return done

        return self._each("resume", selected, reason, change, values=values_of, change_many=change_many)

    def _pause(
        self, selected: Keys | Selection, reason: str, note: PauseNote, *, missed: Missed | None
    ) -> ActionResult:
        """Pause a group or everything, or resume it if `missed` is given."""
        assert isinstance(selected, Selection)
        values = {"reason": note.reason, "by": note.by} if missed is None else {"missed": missed}
        verb = "pause" if missed is None else "resume"

        def change(transaction: OwnTransactionMethods) -> Change:
            if selected.kind is Subject.EVERYTHING:
                groups = getattr(transaction, f"{verb}_all")(**values)
            else:
                what = "trigger_group" if selected.kind is Subject.TRIGGER_GROUP else "job_group"
                groups = getattr(transaction, f"{verb}_{what}")(selected.filters["group"], **values)
            shown = ", ".join(sorted(groups)[:10]) or "no group"
            text = f"{verb.capitalize()}d {selected}: {shown}."
            return Change(text, None, {"groups": sorted(groups)[:100]}, tuple(sorted(groups)), len(groups))

        return self._one(verb, str(selected), reason, change)

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
        return self._each("skip_next", selected, reason, change, values=values_of)


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
    found = SliceChange([key for key in keys if key in records and changes(records[key])])
    if isinstance(selected, Keys):
        found.failures = sorted_out(selected.kind, keys, records).failures
        problems = ((key, _idle(records[key], what)) for key in keys if key in records)
        found.failures += [ActionFailure(str(key), problem) for key, problem in problems if problem is not None]
    return found


def _is_new(record: TriggerRecord, note: PauseNote) -> bool:
    """Return True if a pause with this note changes the trigger: it fires, or it is paused with another note."""
    if record.state in PAUSED_STATES:
        return note.reason is not None and (record.pause_reason, record.paused_by) != (note.reason, note.by)
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
        if record is None or record.state not in (TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED):
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
