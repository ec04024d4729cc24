"""The verbs' part that stores jobs and triggers: validates and binds them, and stores all or none."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import TypeAlias

from quartzpy import job_data
from quartzpy.errors import InvalidJobError, InvalidTriggerError
from quartzpy.events.events import JobAdded, JobScheduled
from quartzpy.jobs import typed_data
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.trace_context import with_trace
from quartzpy.keys import DEFAULT_GROUP, JobKey, Key
from quartzpy.other_names import SCHEDULING_ARGUMENTS, refuses
from quartzpy.scheduling.forms import JobForm, as_job_detail, as_triggers, bound, check_named
from quartzpy.scheduling.verbs.base import Verbs
from quartzpy.store import refusals
from quartzpy.store.protocol import JobEntry, JobStore
from quartzpy.texts import quoted
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger, prepare

Pairs: TypeAlias = Sequence[tuple[JobDetail | None, Sequence[Trigger]]]
"""Jobs with their triggers; None means a job that is stored already."""


class StoringVerbs(Verbs):
    """Stores definitions atomically: either all of them, or none and an error."""

    @abstractmethod
    def _inside(self, store: JobStore) -> StoringVerbs:
        """Return the verbs on another view of the store."""

    @refuses(SCHEDULING_ARGUMENTS)
    def add_job(
        self,
        job: JobDetail,
        *,
        replace: bool = False,
        store_non_durable_while_awaiting_scheduling: bool = False,
    ) -> None:
        """Store a job without a trigger. Storing the same again changes nothing.

        Raises:
            InvalidJobError: the job is not durable, so it would be deleted with its last trigger, and
                `store_non_durable_while_awaiting_scheduling` is false.
            ObjectAlreadyExistsError: a different job has its key, and `replace` is false.
            InvalidJobDataError: its data has names that its `data_type` does not have. Missing names are no error,
                because a trigger may provide them.
        """
        job = self._checked_job(job)
        self._check_data(job)
        self._check_typed_data(job)
        if not job.durable and not store_non_durable_while_awaiting_scheduling:
            raise InvalidJobError(f"job {job.key} has no trigger and is not durable; pass durable=True")
        self._usable_store().store_jobs([JobEntry(job)], replace=replace)
        if replace:
            # As for `modify_job`: its triggers may fire earlier.
            self._changed(self._clock.now())
        self._emit(JobAdded(job))

    def _checked_job(self, job: object) -> JobDetail:
        """Return a job with the scheduler's defaults for values that were not passed to it."""
        if not isinstance(job, JobDetail):
            raise InvalidJobError(
                f"job: a JobDetail is needed (got {quoted(job)}); schedule_job takes classes and functions as well"
            )
        return job.with_defaults(self._job_defaults)

    def _bound_pairs(
        self, given: Iterable[tuple[JobForm, object]], *, again: str | None = None
    ) -> list[tuple[JobDetail, list[Trigger]]]:
        """Return the jobs, each with its triggers bound to it. `again` is as for `check_named`."""
        found = []
        for form, triggers in given:
            detail = as_job_detail(form, None, DEFAULT_GROUP, None, {})
            check_named(detail, again)
            job = self._checked_job(detail)
            found.append((job, bound(as_triggers(triggers), job.key)))
        return found

    def _store_pairs(
        self, pairs: Pairs, *, replace: bool, keep_data: Collection[JobKey] = ()
    ) -> tuple[datetime, list[Trigger]]:
        """Store jobs with their triggers; return the earliest fire time and the triggers."""
        if self._current_trace is not None and (trace := self._current_trace()):
            pairs = [(job, [with_trace(trigger, trace) for trigger in triggers]) for job, triggers in pairs]
        everything = [trigger for _, triggers in pairs for trigger in triggers]
        if twice := _given_twice([job for job, _ in pairs if job is not None]):
            raise InvalidJobError(f"job {twice} is given twice; give it once, with all its triggers")
        if twice := _given_twice(everything):
            raise InvalidTriggerError(f"trigger {twice} is given twice; each trigger needs a key of its own")
        prepare_one = self._preparation(everything)
        entries = [
            JobEntry(
                job,
                [UnpreparedTrigger(trigger, prepare_one) for trigger in triggers],
                job is not None and job.key in keep_data,
            )
            for job, triggers in pairs
        ]
        earliest = self._usable_store().store_jobs(entries, replace=replace)
        self._changed(earliest)
        self._emit_stored(pairs)
        return earliest if earliest is not None else self._usable_store().now(), everything

    def _emit_stored(self, pairs: Pairs) -> None:
        for job, triggers in pairs:
            if job is not None:
                self._emit(JobAdded(job))
            for trigger in triggers:
                self._emit(JobScheduled(trigger))

    def _check_pairs(self, pairs: Pairs) -> None:
        for job, triggers in pairs:
            for trigger in triggers:
                self._check_data(trigger)
            if job is not None:
                self._check_data(job)
                if not triggers and not job.durable:
                    raise InvalidJobError(
                        f"job {job.key} has no trigger and is not durable: it would be deleted at once"
                    )
                for trigger in triggers:
                    if trigger.follows_end and job.max_concurrent != 1:
                        raise InvalidTriggerError(
                            f"trigger {trigger.label}: {trigger.kind} counts from the end of an execution;"
                            f" job {job.key} must disallow concurrent execution (disallow_concurrent=True)"
                        )
                self._check_typed_data(job, triggers)

    def _check_data(self, of: JobDetail | Trigger) -> None:
        job_data.encode(of.data, max_bytes=self._config.max_job_data_bytes)

    def _check_typed_data(self, job: JobDetail, triggers: Sequence[Trigger] = ()) -> None:
        """Build the typed data for each trigger, if the job's class is known in this process and has a data type."""
        data_type = self._job_types.data_type(job.job)
        if data_type is None:
            return
        own = job.data or {}
        if not triggers:
            typed_data.refuse_unknown(data_type, own, f"job {job.key}")
        for trigger in triggers:
            typed_data.build(data_type, {**own, **(trigger.data or {})}, f"job {job.key}, trigger {trigger.key}")

    def _preparation(self, triggers: Sequence[Trigger]) -> Callable[[Trigger, datetime], PreparedTrigger]:
        """Return a function that prepares a trigger with the calendar that it needs."""
        store = self._usable_store()
        names = {trigger.calendar for trigger in triggers if trigger.calendar is not None}
        calendars = store.calendars(names) if names else {}
        for name in sorted(names):
            if name not in calendars:
                raise refusals.calendar_not_stored(name, store.calendar_names())

        def prepare_one(trigger: Trigger, now: datetime) -> PreparedTrigger:
            stored = calendars.get(trigger.calendar) if trigger.calendar else None
            if stored is None:
                return prepare(trigger, now, None)
            return prepare(trigger, now, stored.calendar, stored.revision)

        return prepare_one


def _given_twice(things: Sequence[JobDetail | Trigger]) -> Key | None:
    """Return a key that several of these jobs or triggers have."""
    # Tuples, because there may be a million of them.
    if len({(one.group, one.name) for one in things}) == len(things):
        return None
    return next(key for key, number in Counter(one.key for one in things).items() if number > 1)
