"""The handle of a stored job.

It holds the job's key only. Each call queries the store, so a handle never becomes stale, no matter how long it is kept
and which node changes the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from quartzpy.errors import InvalidTriggerError, JobNotFoundError
from quartzpy.instants import Span
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey
from quartzpy.other_names import HANDLE_NAMES, Hinted
from quartzpy.scheduling.verbs.backfilling import BackfillVerbs
from quartzpy.scheduling.verbs.changing import ChangingVerbs
from quartzpy.scheduling.verbs.handles import TriggeredExecution, wait_for
from quartzpy.scheduling.verbs.pausing import PausingVerbs
from quartzpy.states import ENDED, Missed
from quartzpy.store.queries import ExecutionQuery
from quartzpy.store.records import ExecutionRecord
from quartzpy.triggers.trigger import Trigger

_LAST = 20
"""The number of recent executions among which one that has ended is looked for."""


class StoredJobVerbs(BackfillVerbs, ChangingVerbs, PausingVerbs):
    """The verbs on a stored job, which its handle calls."""


class ScheduledJob(Hinted):
    """A stored job. `schedule_job` returns one; `Scheduler.job` makes one for a job that is stored already."""

    _other_names = HANDLE_NAMES

    def __init__(self, verbs: StoredJobVerbs, key: JobKey) -> None:
        self._verbs = verbs
        self._key = key

    @property
    def key(self) -> JobKey:
        """The key of the job."""
        return self._key

    @property
    def detail(self) -> JobDetail:
        """The job as it is stored now. Raises JobNotFoundError if it is no longer stored."""
        found = self._verbs.get_job_detail(self._key)
        if found is None:
            raise JobNotFoundError(f"job {self._key} is not stored: it was deleted, or its last trigger has ended")
        return found

    @property
    def triggers(self) -> list[Trigger]:
        """The job's triggers as they are stored now, sorted by key; an empty list if it has none."""
        return self._verbs.triggers_of_job(self._key)

    @property
    def next_fire_time(self) -> datetime | None:
        """The earliest next fire time of the job's triggers, or None if the job will not fire again.

        Paused triggers count as well.
        """
        records = [self._verbs.trigger_record(trigger.key) for trigger in self.triggers]
        times = [record.progress.next_fire_time for record in records if record is not None]
        return min((at for at in times if at is not None), default=None)

    def pause(self, *, reason: str | None = None, by: str | None = None) -> None:
        """Pause all triggers that the job has now; values and errors as in `Scheduler.pause_job`."""
        self._verbs.pause_job(self._key, reason=reason, by=by)

    def resume(self, *, missed: str = Missed.MISFIRE) -> None:
        """Resume all triggers; `missed` and errors as for `Scheduler.resume_job`."""
        self._verbs.resume_job(self._key, missed=missed)

    def trigger(self, data: Mapping[str, Any] | Any | None = None, *, delay: Span | None = None) -> TriggeredExecution:
        """Run the job once, now or after `delay`; arguments and errors as for `Scheduler.trigger_job`."""
        return self._verbs.trigger_job(self._key, data, delay=delay)

    def modify(self, **changes: Any) -> JobDetail:
        """Change values of the job; names and errors as for `Scheduler.modify_job`. Its triggers do not change."""
        return self._verbs.modify_job(self._key, **changes)

    def reschedule(self, trigger: Trigger | str | timedelta | datetime) -> datetime:
        """Replace the job's only trigger with another schedule; return the new trigger's first fire time.

        The trigger takes any form that `Scheduler.schedule_job` accepts. A trigger without a name takes the name of
        the old one.

        Raises:
            JobNotFoundError: the job is no longer stored.
            InvalidTriggerError: the job has no trigger or several; use `Scheduler.reschedule_job` for one of several.
            Others as for `Scheduler.reschedule_job`.
        """
        keys = [one.key for one in self.triggers]
        if len(keys) != 1:
            if not keys:
                self.detail  # noqa: B018  raises JobNotFoundError if the job is not stored
            listed = ", ".join(map(str, keys)) or "none"
            raise InvalidTriggerError(
                f"job {self._key}: reschedule needs a job with one trigger (it has {listed});"
                " use scheduler.reschedule_job(trigger_key, trigger), or schedule(trigger)"
            )
        return self._verbs.reschedule_job(keys[0], trigger)

    def delete(self, *, missing_ok: bool = False) -> bool:
        """Remove the job with its triggers; return value and errors as for `Scheduler.delete_job`."""
        return self._verbs.delete_job(self._key, missing_ok=missing_ok)

    def wait(self, timeout: Span | None = None) -> ExecutionRecord:
        """Wait until the job's next execution has ended, on any node; return its record with its log lines.

        Only executions that end after the call count. If the job is no longer stored because its last trigger has
        fired, return the record of its last execution.

        Raises:
            WaitTimeoutError: no execution ended within `timeout` (None: wait without a limit).
            JobNotFoundError: the job is not stored, and no execution of it is known.
        """
        query = ExecutionQuery(states=ENDED, job_key=self._key)
        store = self._verbs._usable_store()
        since = store.now()

        def look() -> ExecutionRecord | None:
            ended = store.find_executions(query, _LAST)
            new = [one for one in ended if one.ended_at is not None and one.ended_at > since]
            if new:
                return min(new, key=lambda one: one.ended_at or since)
            if store.job_mode(self._key) is not None or self._is_running():
                return None
            # The execution may have ended between the two queries.
            ended = store.find_executions(query, _LAST)
            if not ended:
                raise JobNotFoundError(f"job {self._key} is not stored, and no execution of it is known")
            return max(ended, key=lambda one: one.ended_at or one.scheduled_fire_time)

        def has_begun() -> bool:
            return self._is_running() or look() is not None

        return wait_for(self._verbs, store, look, has_begun, timeout, f"no execution of job {self._key} ended")

    def _is_running(self) -> bool:
        return any(row.job_key == self._key for row in self._verbs._usable_store().list_running())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScheduledJob) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"ScheduledJob({str(self._key)!r})"
