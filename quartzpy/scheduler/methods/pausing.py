"""The methods that hold fires back: pauses by key, by group and altogether, the modes of jobs, and skipped fires."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import IllegalStateChangeError, InvalidKeyError, InvalidValueError, ObjectNotFoundError
from quartzpy.events.events import (
    Event,
    JobPaused,
    JobResumed,
    JobsPaused,
    JobsResumed,
    TriggerFinalized,
    TriggerPaused,
    TriggerResumed,
    TriggersPaused,
    TriggersResumed,
)
from quartzpy.instants import Span, as_instant, as_span
from quartzpy.keys import HasTriggerKey, JobKey, JobRef, Key, TriggerKey, TriggerRef, check_name, checked_key
from quartzpy.scheduler.methods.base import Methods
from quartzpy.scheduler.querying import checked_choice
from quartzpy.states import JobMode, Missed, TriggerState, missed_of
from quartzpy.store.protocol import (
    Everything,
    JobGroups,
    NamedTriggers,
    Notification,
    PauseNote,
    PauseSubjects,
    TriggerGroups,
    TriggerMove,
    TriggersOfJobs,
)
from quartzpy.store.records import Pauses, TriggerRecord, WindowRecord
from quartzpy.texts import check_description, did_you_mean, quoted
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, moved_to

Until: TypeAlias = datetime | Span
"""An instant, or a span from now: "2h"."""
PauseSubject: TypeAlias = JobRef | TriggerKey | HasTriggerKey | JobGroups | TriggerGroups | Everything
"""What a user pauses or resumes."""
MAX_SKIPPED = 10_000
_TRIES = 20
_FireTime = Callable[[TriggerRecord, Calendar | None], datetime | None]


class PausingMethods(Methods):
    """Pausing, resuming and skipping; the modes of jobs."""

    def pause(
        self,
        what: PauseSubject,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> None:
        """Hold back a trigger, the triggers of a job or of groups, or everything, until it is resumed.

        `what` is a job or a trigger (its key, its record, its handle), the name of a job in the group DEFAULT,
        `JobGroups("billing")`, `TriggerGroups("billing")`, or `EVERYTHING`. The pause of a job holds the triggers that
        the job has now, and not the next attempt of an execution that is running, whose trigger is stored when it ends.
        The pauses of groups and of everything hold also what is stored later; a group that is given by its name need
        have no trigger yet.

        `reason`, a sentence, and `by`, a name, are stored. Records and `why` show them until the end of the pause. A
        reason that is given for what is paused already replaces the old one.

        With `until`, an instant or a span such as "2h", a node resumes it then, and `missed` decides how the fires that
        were missed are treated (see `Missed`). The latest call decides: without `until`, it is paused until somebody
        resumes it. The pauses of a trigger and of its group hold beside one another: it fires again when both have
        ended.

        Raises:
            TriggerNotFoundError, JobNotFoundError: it is not stored.
            InvalidValueError: `reason` or `by` is no text, or too long; `until` has passed, or `missed` is unknown.
            InvalidKeyError: `what` is none of these.
        """
        self._pause(pause_subject(what), self._note(reason, by, until, missed))

    def resume(self, what: PauseSubject, *, missed: str = Missed.MISFIRE) -> None:
        """End the pause of what `pause` takes; `missed` decides how the missed fires are treated (see `Missed`).

        `EVERYTHING` ends every pause of a group, a trigger or a job, too.

        Raises:
            TriggerNotFoundError, JobNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `what` is neither a job, a trigger, groups nor `EVERYTHING`.
        """
        self._resume(pause_subject(what), missed_of(missed))

    def _pause(self, subject: PauseSubjects, note: PauseNote) -> set[str]:
        self._require(subject)
        groups = self._usable_store().pause(subject, note)
        self._emit(_event(subject, is_pause=True))
        return groups

    def _resume(self, subject: PauseSubjects, missed: Missed) -> None:
        self._require(subject)
        self._resumed(self._usable_store().resume(subject, missed))
        self._emit(_event(subject, is_pause=False))

    def _require(self, subject: PauseSubjects) -> None:
        match subject:
            case NamedTriggers([key]):
                self._require_trigger(key)
            case TriggersOfJobs([key]):
                self._require_job(key)

    @property
    def pauses(self) -> Pauses:
        """The pauses of groups and of everything, and whether the cluster is in manual mode."""
        return self._usable_store().pauses()

    def set_mode(self, what: JobRef | Everything, mode: str, *, missed: str = Missed.SKIP) -> None:
        """Let a job run by its triggers (ENABLED), by hand only (MANUAL), or not at all (DISABLED); see `JobMode`.

        MANUAL leaves `trigger_job`, retries and recoveries; DISABLED holds these as well and refuses `trigger_job`.
        Both hold triggers that are stored later. ENABLED ends them; what is paused for another reason stays paused, and
        fires that were missed in the meantime are skipped, unless `missed` asks for something else (see `Missed`).

        `EVERYTHING` with MANUAL suspends all schedules of the cluster, until `EVERYTHING` is ENABLED; `resume` does
        not end that.

        Raises:
            JobNotFoundError: the job is not stored.
            InvalidValueError: `mode` or `missed` has an unknown value, or `EVERYTHING` is to be DISABLED.
            InvalidKeyError: `what` is no job.
        """
        treatment = missed_of(missed)
        checked = checked_choice(mode, JobMode, "mode")
        if checked is None or (isinstance(what, Everything) and checked is JobMode.DISABLED):
            allowed = "MANUAL, ENABLED" if isinstance(what, Everything) else ", ".join(JobMode)
            raise InvalidValueError(f"mode: must be one of {allowed} (got {quoted(mode)}); pause(EVERYTHING) holds all")
        is_pause = checked is not JobMode.ENABLED
        if isinstance(what, Everything):
            self._resumed(self._usable_store().set_mode(None, checked, treatment))
            self._emit(TriggersPaused(None) if is_pause else TriggersResumed(None))
            return
        key = checked_key(what, JobKey)
        self._require_job(key)
        self._resumed(self._usable_store().set_mode(key, checked, treatment))
        self._emit(JobPaused(key) if is_pause else JobResumed(key))

    def add_maintenance_window(
        self, window: MaintenanceWindow, *, replace: bool = False, by: str | None = None
    ) -> None:
        """Store a time, once or recurrent, in which the triggers of a group or all triggers do not fire.

        A node pauses them when it begins, as `pause_trigger_group` with `until` does; so executions that run go on, a
        trigger that is paused for another reason stays so, and whoever resumes the group ends the window for this
        time. Storing the same window again changes nothing. `by` is shown as the one who wants it.

        Raises:
            ObjectAlreadyExistsError: another window has this name, and `replace` is false.
            InvalidValueError: it is over or never begins, or `by` is no text or too long.
        """
        who = None if by is None else check_name(by, "by")
        self._usable_store().set_window(window.name, window, replace=replace, by=who)

    def delete_maintenance_window(self, name: str, *, missing_ok: bool = False) -> bool:
        """Remove a maintenance window; what it pauses at present is resumed within seconds.

        Return True if it was stored; False is possible only with `missing_ok`.

        Raises:
            ObjectNotFoundError: there is none of this name, and `missing_ok` is false.
        """
        store = self._usable_store()
        was_stored = store.set_window(check_name(name, "window"), None)
        if not was_stored and not missing_ok:
            stored = [record.window.name for record in store.windows()]
            hint = did_you_mean(name, stored, "maintenance windows") if stored else "none is stored"
            raise ObjectNotFoundError(f"there is no maintenance window {quoted(name)}; {hint}")
        return was_stored

    def maintenance_windows(self) -> list[WindowRecord]:
        """Return the maintenance windows, by their names, each with its present or next time."""
        return self._usable_store().windows()

    def _note(
        self,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> PauseNote:
        check_description(reason, InvalidValueError, "reason")
        who, treatment = None if by is None else check_name(by, "by"), missed_of(missed)
        if until is None:
            return PauseNote(reason, who, None, treatment)
        now = self._usable_store().now()
        if isinstance(until, datetime):
            end = as_instant(until, "until", InvalidValueError)
        else:
            end = now + as_span(until, "until", InvalidValueError, above_zero=True)
        if end <= now:
            raise InvalidValueError(
                f"until: must be in the future (got {end.isoformat()}, and it is {now.isoformat()})"
            )
        return PauseNote(reason, who, end, treatment)

    def _resumed(self, earliest: datetime | None) -> None:
        self._changed(earliest, Notification.RESUMED)

    def skip_next(self, key: TriggerRef, count: int = 1) -> datetime | None:
        """Skip the next `count` fires of a trigger, and return its next fire time after them.

        The schedule does not change: a trigger with a repeat count loses these fires. A fire that is overdue counts
        as the next one. An execution that has started continues, and a paused trigger stays paused. If no fire is left,
        the result is None, and the trigger becomes COMPLETE: it stays stored with its job, and listeners get
        `TriggerFinalized`.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
            InvalidValueError: `count` is no number from 1 to 10,000.
            IllegalStateChangeError: the trigger fired at each of several tries, so that nothing was skipped.
        """
        if type(count) is not int or not 1 <= count <= MAX_SKIPPED:
            raise InvalidValueError(f"count: a number from 1 to {MAX_SKIPPED:,} (got {quoted(count)})")

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
            record = store.triggers([key]).get(key)
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
            if store.move_triggers([TriggerMove(record, moved_to(there, progress, calendar))]):
                if at is None:
                    self._emit(TriggerFinalized(key))
                self._changed(at)
                return at
        raise IllegalStateChangeError(f"trigger {key} fires too often to skip fires of it; pause it instead")


def pause_subject(what: PauseSubject) -> PauseSubjects:
    """Return what is to be paused or resumed, as the store names it.

    Raises:
        InvalidKeyError: it is neither a job, a trigger, groups nor everything.
    """
    if isinstance(what, JobGroups | TriggerGroups | Everything):
        return what
    if what == "*":
        raise InvalidKeyError("what: '*' names no job; EVERYTHING is all of them, JobGroups(\"mail\") those of a group")
    key = what if isinstance(what, Key) else getattr(what, "key", None)
    if isinstance(key, TriggerKey):
        return NamedTriggers([key])
    if isinstance(what, type) or not isinstance(what if isinstance(what, str) else key, JobKey | str):
        raise InvalidKeyError(
            "what: a job or a trigger, its key, the name of a job, JobGroups(...), TriggerGroups(...) or EVERYTHING"
            f" (got {quoted(what)})"
        )
    return TriggersOfJobs([checked_key(what, JobKey)])


def _event(subject: PauseSubjects, *, is_pause: bool) -> Event:
    match subject:
        case NamedTriggers([key]):
            return TriggerPaused(key) if is_pause else TriggerResumed(key)
        case TriggersOfJobs([key]):
            return JobPaused(key) if is_pause else JobResumed(key)
        case JobGroups(matcher):
            return JobsPaused(matcher) if is_pause else JobsResumed(matcher)
        case TriggerGroups(matcher):
            return TriggersPaused(matcher) if is_pause else TriggersResumed(matcher)
    return TriggersPaused(None) if is_pause else TriggersResumed(None)
