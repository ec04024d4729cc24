"""The part of the store that schedules: it stores, replaces, pauses and removes jobs, triggers and calendars."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import InvalidJobTypeError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import MAIN, JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import JobMode, Missed
from quartzpy.store.protocol import NO_NOTE, JobEntry, PauseNote, TriggerMove
from quartzpy.store.records import Owned
from quartzpy.store.sql import calendars, owners, pausing, removing, storing
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.triggers.upcoming import PreparedTrigger


class SqlSchedulingStore:
    """Stores, replaces, pauses and removes jobs, triggers and calendars; the methods are those of `JobStore`."""

    _session: SqlSession

    def owned(self, owner: str) -> Owned:
        return owners.owned(self._session, owner)

    def own(
        self,
        owner: str,
        jobs: Collection[JobKey],
        triggers: Collection[TriggerKey],
        *,
        calendars: Collection[str] = (),
        version: str | None = None,
    ) -> None:
        owners.own(self._session, owner, jobs, triggers, calendars, version)

    def store_jobs(self, entries: Sequence[JobEntry], *, replace: bool) -> datetime | None:
        for entry in entries:
            if entry.job is not None:
                _refuse_types_of_main(entry.job)
        return storing.store(self._session, entries, replace=replace)

    def modify_job(
        self, key: JobKey, change: Callable[[JobDetail], JobDetail], *, keeps_data: bool
    ) -> JobDetail | None:
        return storing.modify_job(self._session, key, change, keeps_data=keeps_data)

    def replace_trigger(self, old: TriggerKey, new: PreparedTrigger) -> datetime | None:
        return storing.replace_trigger(self._session, old, new)

    def delete_triggers(self, keys: Collection[TriggerKey]) -> set[TriggerKey]:
        return removing.delete_triggers(self._session, keys)

    def delete_jobs(self, keys: Collection[JobKey]) -> dict[JobKey, set[TriggerKey]]:
        return removing.delete_jobs(self._session, keys)

    def clear(self) -> None:
        removing.clear(self._session)

    def pause_triggers(self, keys: Collection[TriggerKey], note: PauseNote = NO_NOTE) -> None:
        pausing.pause_triggers(self._session, keys, note)

    def resume_triggers(self, keys: Collection[TriggerKey], missed: Missed = Missed.MISFIRE) -> datetime | None:
        return pausing.resume_triggers(self._session, keys, missed)

    def pause_jobs(self, keys: Collection[JobKey], note: PauseNote = NO_NOTE) -> None:
        pausing.pause_jobs(self._session, keys, note)

    def resume_jobs(self, keys: Collection[JobKey], missed: Missed = Missed.MISFIRE) -> datetime | None:
        return pausing.resume_jobs(self._session, keys, missed)

    def pause_trigger_groups(self, matcher: GroupMatcher, note: PauseNote = NO_NOTE) -> set[str]:
        return pausing.pause_groups(self._session, pausing.TRIGGER_SCOPE, matcher, note)

    def resume_trigger_groups(self, matcher: GroupMatcher, missed: Missed = Missed.MISFIRE) -> datetime | None:
        return pausing.resume_groups(self._session, pausing.TRIGGER_SCOPE, matcher, missed)

    def pause_job_groups(self, matcher: GroupMatcher, note: PauseNote = NO_NOTE) -> set[str]:
        return pausing.pause_groups(self._session, pausing.JOB_SCOPE, matcher, note)

    def resume_job_groups(self, matcher: GroupMatcher, missed: Missed = Missed.MISFIRE) -> datetime | None:
        return pausing.resume_groups(self._session, pausing.JOB_SCOPE, matcher, missed)

    def pause_all(self, note: PauseNote = NO_NOTE) -> None:
        pausing.pause_all(self._session, note)

    def resume_all(self, missed: Missed = Missed.MISFIRE) -> datetime | None:
        return pausing.resume_all(self._session, missed)

    def set_job_mode(self, key: JobKey, mode: JobMode, missed: Missed = Missed.MISFIRE) -> datetime | None:
        return pausing.set_mode(self._session, key, mode, missed)

    def set_manual(self, on: bool, missed: Missed = Missed.MISFIRE) -> datetime | None:
        return pausing.set_manual(self._session, on, missed)

    def reset_from_error(self, key: TriggerKey) -> datetime | None:
        return pausing.reset_from_error(self._session, key)

    def reset_all_from_error(self, keys: Collection[TriggerKey]) -> dict[TriggerKey, datetime | None]:
        return pausing.reset_all_from_error(self._session, keys)

    def put_calendar(self, name: str, calendar: Calendar, *, replace: bool) -> None:
        calendars.put(self._session, name, calendar, replace=replace)

    def delete_calendar(self, name: str) -> bool:
        return calendars.delete(self._session, name)

    def move_triggers(self, moves: Sequence[TriggerMove]) -> set[TriggerKey]:
        return calendars.move(self._session, moves)


def _refuse_types_of_main(job: JobDetail) -> None:
    """Refuse a job whose type neither another process nor a later run of this program can import."""
    if job.job_type.startswith(f"{MAIN}:"):
        raise InvalidJobTypeError(
            f"job {job.key}: its type {job.job_type} is defined in an interactive session, by `python -c` or in a file"
            " that cannot be imported, so that no other node can run it; define it in a module that can be imported, or"
            " give it a type_name"
        )
