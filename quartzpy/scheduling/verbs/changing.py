"""The verbs that change and remove stored jobs and triggers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace as replace_in
from datetime import datetime
from typing import Any

from quartzpy.events.events import JobAdded, JobDeleted, JobScheduled, JobUnscheduled, SchedulingDataCleared
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, JobRef, TriggerKey, TriggerRef, checked_key, checked_keys
from quartzpy.scheduling.forms import TriggerForm, as_trigger
from quartzpy.scheduling.verbs.storing import StoringVerbs


class ChangingVerbs(StoringVerbs):
    """Changes and removal of stored jobs and triggers."""

    def modify_job(self, key: JobRef, **changes: Any) -> JobDetail:
        """Change values of a stored job, named as in `JobDetail`; return the changed job.

        Its triggers and its other values do not change, even if another program changes them at the same time.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidJobError: a value is wrong, or a name is not that of a value that can be changed.
            InvalidJobDataError: as for `add_job`, if `data` or `job` is changed.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, JobKey)

        def change(known: JobDetail) -> JobDetail:
            changed = known.with_values(changes)
            self._check_data(changed)
            # Stored data that the current class no longer accepts must not prevent a change of other values.
            if not changes.keys().isdisjoint(("data", "job")):
                self._check_typed_data(changed)
            return changed

        changed = self._usable_store().modify_job(key, change, keeps_data="data" not in changes)
        if changed is None:
            raise self._no_job(key)
        # A limit that was raised, for example, lets triggers fire earlier than this node expects.
        self._changed(self._clock.now())
        self._emit(JobAdded(changed))
        return changed

    def unschedule_job(self, key: TriggerRef, *, missing_ok: bool = False) -> bool:
        """Remove a trigger; remove its job as well if it has no other trigger and is not durable.

        Return True, or False if the trigger was not stored and `missing_ok` is true.

        Raises:
            TriggerNotFoundError: it is not stored, and `missing_ok` is false.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, TriggerKey)
        if self.unschedule_jobs([key]):
            return True
        if missing_ok:
            return False
        raise self._no_trigger(key)

    def unschedule_jobs(self, keys: Collection[TriggerRef]) -> set[TriggerKey]:
        """Remove triggers, and jobs as `unschedule_job` does; return the keys of those that were stored."""
        removed = self._usable_store().delete_triggers(checked_keys(keys, TriggerKey))
        for key in sorted(removed):
            self._emit(JobUnscheduled(key))
        return removed

    def reschedule_job(self, key: TriggerRef, trigger: TriggerForm) -> datetime:
        """Replace a stored trigger with a new one of the same job; return the new trigger's first fire time.

        The trigger takes the forms that `schedule_job` accepts. A trigger without a name takes the old one's key.

        Raises:
            TriggerNotFoundError: no trigger is stored under `key`; nothing is changed.
            InvalidKeyError: `key` is neither a key nor a name.
            Others as for `schedule_job`.
        """
        key = checked_key(key, TriggerKey)
        new = as_trigger(trigger)
        old = self._usable_store().trigger(key)
        if old is None:
            raise self._no_trigger(key)
        if new.name is None:
            new = replace_in(new, name=key.name, group=key.group)
        self._check_data(new)
        new = replace_in(new, job_key=old.job_key)
        start = self._usable_store().now() if new.start_time is None else new.start_time
        earliest = self._usable_store().replace_trigger(key, self._preparation([new])(new, start))
        if earliest is None:
            raise self._no_trigger(key)
        self._changed(earliest)
        self._emit(JobUnscheduled(key))
        self._emit(JobScheduled(new))
        return earliest

    def delete_job(self, key: JobRef, *, missing_ok: bool = False) -> bool:
        """Remove a job with all its triggers. Running executions continue.

        Return True, or False if the job was not stored and `missing_ok` is true.

        Raises:
            JobNotFoundError: it is not stored, and `missing_ok` is false.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, JobKey)
        if self.delete_jobs([key]):
            return True
        if missing_ok:
            return False
        raise self._no_job(key)

    def delete_jobs(self, keys: Collection[JobRef]) -> set[JobKey]:
        """Remove jobs with all their triggers; return the keys of those that were stored."""
        removed = self._usable_store().delete_jobs(checked_keys(keys, JobKey))
        for key in sorted(removed):
            for trigger in sorted(removed[key]):
                self._emit(JobUnscheduled(trigger))
            self._emit(JobDeleted(key))
        return set(removed)

    def clear(self) -> None:
        """Remove all jobs, triggers, calendars and pauses of this scheduler. Running executions continue."""
        self._usable_store().clear()
        self._emit(SchedulingDataCleared())
