"""The methods that hold fires back: pauses by key, by group and altogether, the modes of jobs, and skipped fires."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeAlias

from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import IllegalStateChangeError, InvalidValueError, ObjectNotFoundError
from quartzpy.events.events import (
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
from quartzpy.keys import JobKey, JobRef, TriggerKey, TriggerRef, check_name, checked_key
from quartzpy.matchers import GroupMatcher, as_group_matcher
from quartzpy.scheduler import singles
from quartzpy.scheduler.methods.base import Methods
from quartzpy.states import JobMode, Missed, TriggerState, missed_of
from quartzpy.store.protocol import (
    EVERYTHING,
    JobGroups,
    NamedTriggers,
    NameKind,
    Notification,
    PauseNote,
    TriggerGroups,
    TriggerMove,
    TriggersOfJobs,
)
from quartzpy.store.records import TriggerRecord, WindowRecord
from quartzpy.texts import check_description, did_you_mean, quoted
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, moved_to

Until: TypeAlias = datetime | Span
"""An instant, or a span from now: "2h"."""
MAX_SKIPPED = 10_000
_TRIES = 20
_FireTime = Callable[[TriggerRecord, Calendar | None], datetime | None]


class PausingMethods(Methods):
    """Pausing, resuming and skipping; the modes of jobs; triggers in error."""

    def pause_trigger(
        self,
        key: TriggerRef,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> None:
        """Pause a trigger: it does not fire until it is resumed.

        `reason`, a sentence, and `by`, a name, are stored with the trigger. Its record and `why` show them until it is
        resumed. A reason that is given for a trigger which is paused already replaces the old one.

        With `until`, an instant or a span such as "2h", a node resumes it then, and `missed` decides how the fires that
        it missed are treated (see `Missed`). The latest call decides: without `until`, it is paused until somebody
        resumes it. A pause of its group holds beside this one, and it fires again when both have ended.

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidValueError: `reason` or `by` is no text, or too long; `until` has passed, or `missed` is unknown.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key, note = checked_key(key, TriggerKey), self._note(reason, by, until, missed)
        self._require_trigger(key)
        self._usable_store().pause(NamedTriggers([key]), note)
        self._emit(TriggerPaused(key))

    def resume_trigger(self, key: TriggerRef, *, missed: str = Missed.MISFIRE) -> None:
        """Resume a trigger; `missed` decides how the fires that it missed are treated (see `Missed`).

        Raises:
            TriggerNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key, treatment = checked_key(key, TriggerKey), missed_of(missed)
        self._require_trigger(key)
        self._resumed(self._usable_store().resume(NamedTriggers([key]), treatment))
        self._emit(TriggerResumed(key))

    def pause_job(
        self,
        key: JobRef,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> None:
        """Pause all triggers that a job has now; `reason`, `by`, `until` and `missed` as in `pause_trigger`.

        Triggers that are stored later are not paused, and neither is the next attempt of an execution that is running
        now: its trigger is stored when the execution ends. `disable_job` and `pause_job_group` hold those as well.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidValueError: `reason` or `by` is no text, or too long; `until` has passed, or `missed` is unknown.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key, note = checked_key(key, JobKey), self._note(reason, by, until, missed)
        self._require_job(key)
        self._usable_store().pause(TriggersOfJobs([key]), note)
        self._emit(JobPaused(key))

    def resume_job(self, key: JobRef, *, missed: str = Missed.MISFIRE) -> None:
        """Resume all triggers of a job; `missed` as in `resume_trigger`.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key, treatment = checked_key(key, JobKey), missed_of(missed)
        self._require_job(key)
        self._resumed(self._usable_store().resume(TriggersOfJobs([key]), treatment))
        self._emit(JobResumed(key))

    def pause_trigger_group(
        self,
        group: str | GroupMatcher,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> set[str]:
        """Pause groups of triggers, including triggers that are stored later; return the groups.

        A group that is given by its name is paused even if it has no trigger yet. `reason` and `by` are stored with the
        group and with the triggers that there are now; see `pause_trigger`, also for `until` and `missed`. At that
        instant those are resumed that only this pause holds: a trigger that was paused itself stays so.
        """
        matcher, note = as_group_matcher(group), self._note(reason, by, until, missed)
        groups = self._usable_store().pause(TriggerGroups(matcher), note)
        self._emit(TriggersPaused(matcher))
        return groups

    def resume_trigger_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> set[str]:
        """Resume groups of triggers; return the groups. `missed` as for `resume_trigger`."""
        matcher, treatment = as_group_matcher(group), missed_of(missed)
        store = self._usable_store()
        groups = _matched(matcher, store.names(NameKind.TRIGGER_GROUPS), store.pauses().trigger_groups)
        self._resumed(store.resume(TriggerGroups(matcher), treatment))
        self._emit(TriggersResumed(matcher))
        return groups

    def pause_job_group(
        self,
        group: str | GroupMatcher,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> set[str]:
        """Pause all triggers of the jobs of groups, including those that are stored later; return the groups.

        The other arguments are as in `pause_trigger_group`.
        """
        matcher, note = as_group_matcher(group), self._note(reason, by, until, missed)
        groups = self._usable_store().pause(JobGroups(matcher), note)
        self._emit(JobsPaused(matcher))
        return groups

    def resume_job_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> set[str]:
        """Resume all triggers of the jobs in these groups; return the groups. `missed` as for `resume_trigger`."""
        matcher, treatment = as_group_matcher(group), missed_of(missed)
        store = self._usable_store()
        groups = _matched(matcher, store.names(NameKind.JOB_GROUPS), store.pauses().job_groups)
        self._resumed(store.resume(JobGroups(matcher), treatment))
        self._emit(JobsResumed(matcher))
        return groups

    def pause_all(
        self,
        *,
        reason: str | None = None,
        by: str | None = None,
        until: Until | None = None,
        missed: str = Missed.MISFIRE,
    ) -> set[str]:
        """Pause all triggers, including those that are stored later, until `resume_all`; return their groups.

        The other arguments are as in `pause_trigger_group`.
        """
        note = self._note(reason, by, until, missed)
        store = self._usable_store()
        groups = set(store.names(NameKind.TRIGGER_GROUPS))
        store.pause(EVERYTHING, note)
        self._emit(TriggersPaused(None))
        return groups

    def resume_all(self, *, missed: str = Missed.MISFIRE) -> set[str]:
        """End `pause_all` and every pause of a group, a trigger or a job; return the trigger groups.

        `missed` as for `resume_trigger`.
        """
        treatment = missed_of(missed)
        store = self._usable_store()
        groups = set(store.names(NameKind.TRIGGER_GROUPS))
        self._resumed(store.resume(EVERYTHING, treatment))
        self._emit(TriggersResumed(None))
        return groups

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

    def _note(self, reason: str | None, by: str | None, until: Until | None, missed: str) -> PauseNote:
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

    def disable_job(self, key: JobRef) -> None:
        """Stop all triggers of a job, including later ones, and refuse `trigger_job`, until `enable_job`.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        self._set_mode(key, JobMode.DISABLED, Missed.SKIP)

    def enable_job(self, key: JobRef, *, missed: str = Missed.SKIP) -> None:
        """End `disable_job` or `run_job_by_hand_only`. Triggers that are paused for another reason remain paused.

        Fires that were missed in the meantime are skipped, unless `missed` asks for something else (see `Missed`).

        Raises:
            JobNotFoundError: it is not stored.
            InvalidValueError: `missed` has an unknown value.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        self._set_mode(key, JobMode.ENABLED, missed_of(missed))

    def run_job_by_hand_only(self, key: JobRef) -> None:
        """Run a job by `trigger_job`, retries and recoveries only, until `enable_job`: manual mode of one job.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        self._set_mode(key, JobMode.MANUAL, Missed.SKIP)

    def job_mode(self, key: JobRef) -> JobMode | None:
        """Return ENABLED, MANUAL or DISABLED; None if the job is not stored."""
        return singles.mode_of_job(self._usable_store(), checked_key(key, JobKey))

    def _set_mode(self, key: JobRef, mode: JobMode, missed: Missed) -> None:
        key = checked_key(key, JobKey)
        self._require_job(key)
        self._resumed(self._usable_store().set_mode(key, mode, missed))
        self._emit(JobResumed(key) if mode is JobMode.ENABLED else JobPaused(key))

    def enter_manual_mode(self) -> None:
        """Suspend all schedules in the whole cluster; `trigger_job` still works.

        `resume_all` does not end it; `leave_manual_mode` does.
        """
        self._usable_store().set_mode(None, JobMode.MANUAL)
        self._emit(TriggersPaused(None))

    def leave_manual_mode(self, *, missed: str = Missed.SKIP) -> None:
        """End manual mode. Triggers that are paused otherwise remain paused; `missed` as for `enable_job`."""
        self._resumed(self._usable_store().set_mode(None, JobMode.ENABLED, missed_of(missed)))
        self._emit(TriggersResumed(None))

    @property
    def is_in_manual_mode(self) -> bool:
        """Return True if the cluster is in manual mode."""
        return self._usable_store().pauses().is_manual

    def reset_trigger_from_error(self, key: TriggerRef) -> None:
        """Return a trigger in ERROR to its schedule, so that it fires again.

        Raises:
            TriggerNotFoundError: it is not stored.
            IllegalStateChangeError: it is not in ERROR.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, TriggerKey)
        self._require_trigger(key)
        self._changed(singles.reset_from_error(self._usable_store(), key))

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


def _matched(matcher: GroupMatcher, *groups: Iterable[str]) -> set[str]:
    return {group for some in groups for group in some if matcher.matches(group)}
