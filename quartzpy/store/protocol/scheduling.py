"""The scheduling protocol: storing, changing, pausing and removing jobs, triggers and calendars."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.jobs.internal_entries import BatchKey
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.shared_limit import Limit
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher, as_group_matcher
from quartzpy.states import JobMode, Missed, Outcome
from quartzpy.store.records import Owned, TriggerRecord
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A job to store with its triggers; `job` is None if the job is stored already.

    Triggers that are not prepared yet are prepared by the store, with the time of its own clock, before it changes
    anything or, if there are thousands of them, batch by batch in its transaction. With `keeps_data`, a job that is
    stored already keeps its stored data.
    """

    job: JobDetail | None
    triggers: Sequence[PreparedTrigger | UnpreparedTrigger] = ()
    keeps_data: bool = False


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """A batch to store with its triggers, whose data names it."""

    key: BatchKey
    total: int
    outcomes: Sequence[Outcome]
    """The outcomes for which its job runs."""


@dataclass(frozen=True, slots=True)
class StoredCalendar:
    """A calendar as it is stored. Each change of it raises `revision`."""

    calendar: Calendar
    revision: int


@dataclass(frozen=True, slots=True)
class TriggerMove:
    """A change of a trigger's fire times, to be made only if the trigger is still as it was when it was read."""

    record: TriggerRecord
    to: PreparedTrigger


@dataclass(frozen=True, slots=True)
class PauseNote:
    """Why triggers are paused, who paused them, until when, and what becomes then of the fires that they missed."""

    reason: str | None = None
    by: str | None = None
    until: datetime | None = None
    """The instant at which a node resumes them; None: somebody has to."""
    missed: Missed = Missed.MISFIRE
    window: str | None = None
    """The maintenance window that pauses them. It makes the pause of a group longer, and never shorter."""

    @classmethod
    def of(cls, record: TriggerRecord) -> PauseNote | None:
        """Return the pause of a trigger or its job; None if there is none: its group, or a mode, may hold it."""
        if record.pause_missed is None:
            return None
        return cls(record.pause_reason, record.paused_by, record.paused_until, record.pause_missed)


NO_NOTE = PauseNote()


@dataclass(frozen=True, slots=True)
class NamedTriggers:
    """The triggers with these keys."""

    keys: Collection[TriggerKey]


@dataclass(frozen=True, slots=True)
class TriggersOfJobs:
    """All triggers that these jobs have now."""

    keys: Collection[JobKey]


@dataclass(frozen=True, slots=True, init=False)
class TriggerGroups:
    """The triggers of the groups that match, those that are stored later included."""

    matcher: GroupMatcher

    def __init__(self, group: str | GroupMatcher) -> None:
        object.__setattr__(self, "matcher", as_group_matcher(group))


@dataclass(frozen=True, slots=True, init=False)
class JobGroups:
    """The triggers of the jobs of the groups that match, those that are stored later included."""

    matcher: GroupMatcher

    def __init__(self, group: str | GroupMatcher) -> None:
        object.__setattr__(self, "matcher", as_group_matcher(group))


@dataclass(frozen=True, slots=True)
class Everything:
    """All triggers, those that are stored later included."""


EVERYTHING = Everything()
PauseSubjects: TypeAlias = NamedTriggers | TriggersOfJobs | TriggerGroups | JobGroups | Everything
"""What is paused or resumed."""


class SchedulingStore(Protocol):
    """The changes that users make to a schedule.

    A method that can make a trigger due returns the soonest fire time that may fire now, or None. The caller compares
    it with what the node waits for.

    `pause`, `resume`, `set_mode`, `delete_triggers` and `delete_jobs` may proceed in slices where they concern many
    triggers: the soonest first, and each trigger at most once. After an error a part is changed, and the same call
    changes the rest.
    """

    def store_jobs(
        self, entries: Sequence[JobEntry], *, replace: bool, batch: BatchEntry | None = None
    ) -> datetime | None:
        """Store jobs and triggers, all or none, with the batch to which the triggers belong.

        Return the soonest fire time of the stored triggers.

        A new trigger is PAUSED where its group, the group of its job, or everything is paused, and BLOCKED while its
        job is at its concurrency limit. Storing exactly what is stored already changes nothing.

        With `replace`, a trigger that belongs to the same job and whose schedule did not change (see
        `PreparedTrigger.schedule_hash`) keeps its progress, state, pause, misfires and generation; its other
        values are replaced. A trigger whose schedule did change gets a new generation. The other triggers of a
        replaced job stay. The data of a job that persists it, and did so before, stays as the job left it.

        Raises:
            ObjectAlreadyExistsError: something else is stored under a key and `replace` is false; the message names
                the differences. Or there is such a batch already.
            JobNotFoundError, CalendarNotFoundError: a trigger refers to a job or calendar that is not stored, or a job
                is to run after one that is not, or after the batch.
            TriggerNeverFiresError: a trigger has no fire time.
            LimitNotFoundError: a job shares a limit that is not stored.
        """
        ...

    def modify_job(
        self, key: JobKey, change: Callable[[JobDetail], JobDetail], *, keeps_data: bool
    ) -> JobDetail | None:
        """Store the job that `change` returns for the stored one, so that no other change of it is lost.

        `change` may be called several times. With `keeps_data` the stored data stays, whatever `change` returns.

        Returns:
            The job as it is stored then, or None if the job is not stored.
        """
        ...

    def replace_trigger(self, old: TriggerKey, new: PreparedTrigger) -> datetime | None:
        """Store `new`, a trigger of the same job, in the place of `old`. Changes nothing where `old` is not stored."""
        ...

    def delete_triggers(self, keys: Collection[TriggerKey]) -> set[TriggerKey]:
        """Remove triggers, and jobs that are not durable and have no trigger left. Return the keys that were stored."""
        ...

    def delete_jobs(self, keys: Collection[JobKey]) -> dict[JobKey, set[TriggerKey]]:
        """Remove jobs with all their triggers, and return those that were stored. Running executions continue."""
        ...

    def clear(self) -> None:
        """Remove all jobs, triggers, calendars and pauses. Running executions continue."""
        ...

    def owned(self, owner: str) -> Owned:
        """Return what an owner declared (see `Scheduler.sync`), and the version that it gave last."""
        ...

    def own(
        self,
        owner: str,
        jobs: Collection[JobKey],
        triggers: Collection[TriggerKey],
        *,
        calendars: Collection[str] = (),
        version: str | None = None,
    ) -> None:
        """Record the owner of these jobs, triggers and calendars, and where it is given, its version."""
        ...

    # --- calendars

    def put_calendar(self, name: str, calendar: Calendar, *, replace: bool) -> None:
        """Store a calendar.

        Replacing a calendar invalidates the fire times that were computed from it: the following fire times of the
        triggers that name it. The triggers keep their next fire times. A calendar that is
        replaced has no owner any more.

        Raises:
            ObjectAlreadyExistsError: the calendar is stored already and `replace` is false.
            InvalidCalendarError: the calendar is of a type that cannot be stored.
        """
        ...

    def delete_calendar(self, name: str) -> bool:
        """Remove a calendar. Return False if it is not stored.

        Raises:
            CalendarInUseError: a trigger names it.
        """
        ...

    # --- limits that jobs share

    def put_limit(self, name: str, limit: Limit) -> None:
        """Store a limit, or replace it: what is running goes on, and what waits is decided anew at once."""
        ...

    def delete_limit(self, name: str) -> bool:
        """Remove a limit. Return False if it is not stored.

        Raises:
            LimitInUseError: a job shares it.
        """
        ...

    def move_triggers(self, moves: Sequence[TriggerMove]) -> set[TriggerKey]:
        """Change the fire times of triggers, but not their states. Return the keys of those that were changed.

        A trigger that has changed since it was read is left alone. A trigger without a fire time becomes COMPLETE; it
        and its job remain stored.
        """
        ...

    # --- pausing

    def pause(self, subjects: PauseSubjects, note: PauseNote = NO_NOTE) -> set[str]:
        """Pause triggers: WAITING and BLOCKED become PAUSED, which is PAUSED_BLOCKED beside a full job.

        The note and the instant are stored with each trigger until it is resumed. A note with a reason replaces the
        one of a trigger that is paused already; the instant of its pause stays. Pauses of groups and of everything are
        remembered for triggers that are stored later; a matcher EQUALS pauses its group even if the group does not
        exist yet.

        The latest pause of a trigger by its key or its job decides until when it is paused, and so does the latest
        pause of a group. A pause by key holds beside that of a group: a trigger fires again when both have ended.

        Returns:
            The groups that are remembered; none for triggers and jobs that are given by their keys.
        """
        ...

    def resume(self, subjects: PauseSubjects, missed: Missed = Missed.MISFIRE) -> datetime | None:
        """Resume triggers: PAUSED becomes WAITING, or BLOCKED while the job is at its limit.

        `missed` decides how the misfire step treats a trigger that is late by then, however little: no other step
        fires it. Retries, recoveries and triggers made by hand are not subject to `missed`. The pauses of the groups
        that match are forgotten; with `EVERYTHING`, those of all groups. Ends of pauses are forgotten with them.
        """
        ...

    def set_mode(self, job: JobKey | None, mode: JobMode, missed: Missed = Missed.MISFIRE) -> datetime | None:
        """Set which triggers of a job fire, those that are stored later included.

        A job that is not stored is ignored. The triggers that only the former mode had paused are resumed; `missed`
        decides about the fires that they missed. Triggers that were paused by `pause` stay paused.

        None is the whole scheduler: MANUAL begins the manual mode, in which only triggers fire that no schedule made,
        and ENABLED ends it.
        """
        ...

    def set_window(
        self, name: str, window: MaintenanceWindow | None, *, replace: bool = True, by: str | None = None
    ) -> bool:
        """Store a maintenance window, which is as `by` wants it; None removes it. Return whether anything changed.

        What a window that is replaced or removed pauses at present is resumed by the next `apply_time_off`, unless the
        new one pauses it as well.

        Raises:
            ObjectAlreadyExistsError: another window has this name, and `replace` is false.
            InvalidValueError: the window is over, or never begins.
        """
        ...

    def reset_from_error(self, keys: Collection[TriggerKey]) -> dict[TriggerKey, datetime | None]:
        """Put those of these triggers that are in ERROR into the state that newly stored ones would have.

        Returns:
            The next fire times of those that were in ERROR.
        """
        ...
