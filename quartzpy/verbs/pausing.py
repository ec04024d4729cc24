"""The verbs that let triggers not fire, and fire again."""

from __future__ import annotations

from datetime import datetime, timedelta

from quartzpy.errors import JobNotFoundError
from quartzpy.events import (
    JobPaused,
    JobResumed,
    JobsPaused,
    JobsResumed,
    TriggerPaused,
    TriggerResumed,
    TriggersPaused,
    TriggersResumed,
)
from quartzpy.keys import JobKey, TriggerKey, checked_key
from quartzpy.matchers import GroupMatcher, as_group_matcher
from quartzpy.states import JobMode, Missed, missed_of
from quartzpy.verbs.base import Verbs

A_MOMENT = timedelta(seconds=1)


class PausingVerbs(Verbs):
    """Pausing and resuming, by key, by group and for all; the modes of jobs; errors."""

    def pause_trigger(self, key: TriggerKey) -> None:
        """Let a trigger not fire until it is resumed. One that is not stored is passed over, as in Quartz."""
        self._usable_store().pause_triggers([checked_key(key, TriggerKey)])
        self._tell(TriggerPaused(key))

    def resume_trigger(self, key: TriggerKey, *, missed: str = Missed.MISFIRE) -> None:
        """Let a trigger fire again; what becomes of the fires that it missed: see `Missed`.

        Raises:
            InvalidValueError: `missed` is none of these.
        """
        self._resumed(self._usable_store().resume_triggers([checked_key(key, TriggerKey)], missed_of(missed)))
        self._tell(TriggerResumed(key))

    def pause_job(self, key: JobKey) -> None:
        """Pause all present triggers of a job."""
        self._usable_store().pause_jobs([checked_key(key, JobKey)])
        self._tell(JobPaused(key))

    def resume_job(self, key: JobKey, *, missed: str = Missed.MISFIRE) -> None:
        """As `resume_trigger`, for all triggers of a job."""
        self._resumed(self._usable_store().resume_jobs([checked_key(key, JobKey)], missed_of(missed)))
        self._tell(JobResumed(key))

    def pause_trigger_group(self, group: str | GroupMatcher) -> set[str]:
        """Pause groups of triggers, also for triggers that come later; the groups."""
        matcher = as_group_matcher(group)
        groups = self._usable_store().pause_trigger_groups(matcher)
        self._tell(TriggersPaused(matcher))
        return groups

    def resume_trigger_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> None:
        """As `resume_trigger`, for groups, which are no longer paused for what comes later."""
        matcher = as_group_matcher(group)
        self._resumed(self._usable_store().resume_trigger_groups(matcher, missed_of(missed)))
        self._tell(TriggersResumed(matcher))

    def pause_job_group(self, group: str | GroupMatcher) -> set[str]:
        """Pause all triggers of the jobs of these groups, also those that come later; the groups."""
        matcher = as_group_matcher(group)
        groups = self._usable_store().pause_job_groups(matcher)
        self._tell(JobsPaused(matcher))
        return groups

    def resume_job_group(self, group: str | GroupMatcher, *, missed: str = Missed.MISFIRE) -> None:
        """As `resume_trigger_group`, for all triggers of the jobs of groups."""
        matcher = as_group_matcher(group)
        self._resumed(self._usable_store().resume_job_groups(matcher, missed_of(missed)))
        self._tell(JobsResumed(matcher))

    def pause_all(self) -> None:
        """Pause everything, also what comes later, until `resume_all`."""
        self._usable_store().pause_all()
        self._tell(TriggersPaused(None))

    def resume_all(self, *, missed: str = Missed.MISFIRE) -> None:
        """End `pause_all` and every pause of a group, trigger or job; `missed` as in `resume_trigger`."""
        self._resumed(self._usable_store().resume_all(missed_of(missed)))
        self._tell(TriggersResumed(None))

    def _resumed(self, earliest: datetime | None) -> None:
        # The misfire step looks at once, however little it is late.
        self._changed(None if earliest is None else earliest - A_MOMENT)

    def disable_job(self, key: JobKey) -> None:
        """Let no trigger of a job fire, present or later ones, nor `trigger_job`, until `enable_job`.

        Raises:
            JobNotFoundError: it is not stored.
        """
        self._set_mode(key, JobMode.DISABLED)

    def enable_job(self, key: JobKey) -> None:
        """Let all triggers of a job fire again, also those that were paused one by one. Errors as in `disable_job`."""
        self._set_mode(key, JobMode.ENABLED)

    def run_job_by_hand_only(self, key: JobKey) -> None:
        """Let a job run by `trigger_job` only (and by retries and recoveries), until `enable_job`: manual mode.

        Errors as in `disable_job`.
        """
        self._set_mode(key, JobMode.MANUAL)

    def job_mode(self, key: JobKey) -> JobMode | None:
        """ENABLED, MANUAL or DISABLED; None where the job is not stored."""
        return self._usable_store().job_mode(checked_key(key, JobKey))

    def _set_mode(self, key: JobKey, mode: JobMode) -> None:
        store = self._usable_store()
        if store.job_mode(checked_key(key, JobKey)) is None:
            raise JobNotFoundError(f"job {key} is not stored")
        self._changed(store.set_job_mode(key, mode))
        self._tell(JobResumed(key) if mode is JobMode.ENABLED else JobPaused(key))

    def enter_manual_mode(self) -> None:
        """Let nothing fire by its schedule in the whole cluster; what is triggered by hand does.

        `resume_all` does not end it, `leave_manual_mode` does.
        """
        self._usable_store().set_manual(True)
        self._tell(TriggersPaused(None))

    def leave_manual_mode(self) -> None:
        """Let triggers fire by their schedules again, also those that were paused one by one meanwhile or before."""
        self._changed(self._usable_store().set_manual(False))
        self._tell(TriggersResumed(None))

    @property
    def is_in_manual_mode(self) -> bool:
        """Return whether the cluster is in manual mode."""
        return self._usable_store().is_manual()

    def reset_trigger_from_error(self, key: TriggerKey) -> None:
        """Let a trigger in ERROR fire again.

        Raises:
            TriggerNotFoundError, IllegalStateChangeError: it is not stored, or not in ERROR.
        """
        self._changed(self._usable_store().reset_from_error(checked_key(key, TriggerKey)))
