"""The methods of `SchedulingStore` in memory, which store, pause and remove."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from quartzpy.calendars.calendar import Calendar
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import JobMode, Missed
from quartzpy.store.memory import (
    calendars,
    pausing,
    scheduling,
)
from quartzpy.store.memory.locked_tables import LockedTables
from quartzpy.store.protocol import (
    NO_NOTE,
    JobEntry,
    PauseNote,
    StoredCalendar,
    TriggerMove,
)
from quartzpy.store.records import (
    JobHeader,
)
from quartzpy.triggers.upcoming import PreparedTrigger


class RamSchedulingStore(LockedTables):
    """Stores, replaces, pauses and removes jobs, triggers and calendars."""

    def store_jobs(self, entries: Sequence[JobEntry], *, replace: bool) -> datetime | None:
        now = self._clock.now()
        prepared = [one.prepared(now) for entry in entries for one in entry.triggers]
        with self._lock:
            return scheduling.store_jobs(self._tables, entries, prepared, replace=replace)

    def modify_job(
        self, key: JobKey, change: Callable[[JobDetail], JobDetail], *, keeps_data: bool
    ) -> JobDetail | None:
        with self._lock:
            return scheduling.modify_job(self._tables, key, change, keeps_data=keeps_data)

    def replace_trigger(self, old: TriggerKey, new: PreparedTrigger) -> datetime | None:
        with self._lock:
            return scheduling.replace_trigger(self._tables, old, new)

    def delete_triggers(self, keys: Collection[TriggerKey]) -> set[TriggerKey]:
        with self._lock:
            return scheduling.delete_triggers(self._tables, keys)

    def delete_jobs(self, keys: Collection[JobKey]) -> dict[JobKey, set[TriggerKey]]:
        with self._lock:
            return scheduling.delete_jobs(self._tables, keys)

    def clear(self) -> None:
        with self._lock:
            scheduling.clear(self._tables)

    def put_calendar(self, name: str, calendar: Calendar, *, replace: bool) -> None:
        with self._lock:
            calendars.put(self._tables, name, calendar, replace=replace)

    def delete_calendar(self, name: str) -> bool:
        with self._lock:
            return calendars.delete(self._tables, name)

    def calendars(self, names: Collection[str]) -> dict[str, StoredCalendar]:
        with self._lock:
            stored = self._tables.calendars
            return {name: stored[name] for name in names if name in stored}

    def calendar_names(self) -> list[str]:
        with self._lock:
            return sorted(self._tables.calendars)

    def move_triggers(self, moves: Sequence[TriggerMove]) -> set[TriggerKey]:
        with self._lock:
            return calendars.move(self._tables, moves)

    def pause_triggers(self, keys: Collection[TriggerKey], note: PauseNote = NO_NOTE) -> None:
        with self._lock:
            pausing.pause_triggers(self._tables, keys, note)

    def resume_triggers(self, keys: Collection[TriggerKey], missed: Missed = Missed.MISFIRE) -> datetime | None:
        with self._lock:
            return pausing.resume_triggers(self._tables, keys, missed)

    def pause_jobs(self, keys: Collection[JobKey], note: PauseNote = NO_NOTE) -> None:
        with self._lock:
            pausing.pause_jobs(self._tables, keys, note)

    def resume_jobs(self, keys: Collection[JobKey], missed: Missed = Missed.MISFIRE) -> datetime | None:
        with self._lock:
            return pausing.resume_jobs(self._tables, keys, missed)

    def pause_trigger_groups(self, matcher: GroupMatcher, note: PauseNote = NO_NOTE) -> set[str]:
        with self._lock:
            return pausing.pause_trigger_groups(self._tables, matcher, note)

    def resume_trigger_groups(self, matcher: GroupMatcher, missed: Missed = Missed.MISFIRE) -> datetime | None:
        with self._lock:
            return pausing.resume_trigger_groups(self._tables, matcher, missed)

    def pause_job_groups(self, matcher: GroupMatcher, note: PauseNote = NO_NOTE) -> set[str]:
        with self._lock:
            return pausing.pause_job_groups(self._tables, matcher, note)

    def resume_job_groups(self, matcher: GroupMatcher, missed: Missed = Missed.MISFIRE) -> datetime | None:
        with self._lock:
            return pausing.resume_job_groups(self._tables, matcher, missed)

    def pause_all(self, note: PauseNote = NO_NOTE) -> None:
        with self._lock:
            pausing.pause_all(self._tables, note)

    def resume_all(self, missed: Missed = Missed.MISFIRE) -> datetime | None:
        with self._lock:
            return pausing.resume_all(self._tables, missed)

    def set_job_mode(self, key: JobKey, mode: JobMode, missed: Missed = Missed.MISFIRE) -> datetime | None:
        with self._lock:
            return pausing.set_mode(self._tables, key, mode, missed)

    def job_mode(self, key: JobKey) -> JobMode | None:
        found = self.job_header(key)
        return None if found is None else found.mode

    def job_header(self, key: JobKey) -> JobHeader | None:
        with self._lock:
            job = self._tables.jobs.get(key)
            return None if job is None else JobHeader(key, job.job_type, job.mode)

    def set_manual(self, on: bool, missed: Missed = Missed.MISFIRE) -> datetime | None:
        with self._lock:
            return pausing.set_manual(self._tables, on, missed)

    def is_manual(self) -> bool:
        with self._lock:
            return self._tables.pauses.manual

    def reset_from_error(self, key: TriggerKey) -> datetime | None:
        with self._lock:
            return pausing.reset_from_error(self._tables, key)

    def reset_all_from_error(self, keys: Collection[TriggerKey]) -> dict[TriggerKey, datetime | None]:
        with self._lock:
            return pausing.reset_all_from_error(self._tables, keys)
