"""The verbs that run a job for instants of its schedule that are past."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

from quartzpy.errors import IllegalStateChangeError, InvalidValueError
from quartzpy.instants import as_instant
from quartzpy.jobs.repetition import repeats
from quartzpy.keys import MANUAL_TRIGGERS, TriggerKey, TriggerRef, checked_key, unique_name
from quartzpy.scheduling.verbs.handles import TriggeredExecution
from quartzpy.scheduling.verbs.triggering import TriggeringVerbs
from quartzpy.states import JobMode
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger

MOST_RUNS = 10_000


class BackfillVerbs(TriggeringVerbs):
    """Running a job for a span of its schedule."""

    def backfill_times(
        self, key: TriggerRef, since: datetime, until: datetime, *, max_runs: int = 1_000
    ) -> list[datetime]:
        """Return the instants that `backfill` would run a job for, and run nothing.

        They are the fire times of the trigger from `since` until before `until`, without those that its calendar
        excludes. A cron trigger is followed also before its start time; the schedule of any other begins there.

        Raises:
            TriggerNotFoundError: the trigger is not stored.
            InvalidValueError: `since` or `until` is no datetime with a time zone, `until` is not after `since`, or
                there are more than `max_runs` instants.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, TriggerKey)
        first, end = as_instant(since, "since", InvalidValueError), as_instant(until, "until", InvalidValueError)
        if first >= end:
            raise InvalidValueError(f"until: must be after since (got {since} and {until})")
        if type(max_runs) is not int or not 1 <= max_runs <= MOST_RUNS:
            raise InvalidValueError(f"max_runs: a number from 1 to {MOST_RUNS:,} (got {max_runs!r})")
        store = self._usable_store()
        record = store.trigger(key)
        if record is None:
            raise self._no_trigger(key)
        trigger = record.trigger
        if isinstance(trigger, CronTrigger) and trigger.anchor > first:
            trigger = replace(trigger, start_time=first)
        calendar = None if trigger.calendar is None else store.calendars([trigger.calendar])[trigger.calendar].calendar
        last = end - timedelta.resolution
        found = list(islice(trigger.fire_times(first, last, calendar), max_runs + 1))
        if len(found) > max_runs:
            raise InvalidValueError(
                f"trigger {key} has more than max_runs={max_runs:,} fire times from {since} until {until}: {found[0]},"
                f" ..., {found[-1]}, ...; choose a shorter span, or a larger max_runs (at most {MOST_RUNS:,})"
            )
        return found

    def backfill(
        self,
        key: TriggerRef,
        since: datetime,
        until: datetime,
        *,
        max_runs: int = 1_000,
        even_if_paused: bool = False,
    ) -> list[TriggeredExecution]:
        """Run the job of a trigger once for each instant of `backfill_times`; return the handles, in that order.

        All runs are stored at once, or none is, as triggers in the group MANUAL_TRIGGERS that are due now and carry the
        trigger's data. They start in the order of their instants and run as many at a time as the job's
        `max_concurrent` allows; with an `overlap_policy` that skips or coalesces, fires beyond that limit get no run.
        `context.nominal_fire_time` is the instant. `context.execution_key` is that of the original fire at the instant,
        so that the job can find out if it did this work before. The trigger itself does not change. Instants at which
        it fired before are run again, so choose a span without them. The runs have the lowest priority.

        Raises:
            IllegalStateChangeError: the job is disabled, or a pause would hold the fires and `even_if_paused` is false.
            Others as `backfill_times` and `trigger_job`.
        """
        key = checked_key(key, TriggerKey)
        instants = self.backfill_times(key, since, until, max_runs=max_runs)
        store = self._usable_store()
        record = store.trigger(key)
        if record is None:
            raise self._no_trigger(key)
        header = store.job_header(record.job_key)
        if header is None:
            raise self._no_job(record.job_key)
        if header.mode is JobMode.DISABLED:
            raise IllegalStateChangeError(f"job {record.job_key} is disabled; enable it first")
        if not even_if_paused:
            self._refuse_pause(record.job_key)
        if not instants:
            return []
        batch = unique_name()
        start = store.now()
        triggers = [
            # Of one fire time and one priority the first by name comes first.
            SimpleTrigger(
                f"BF_{batch}_{number:05d}",
                MANUAL_TRIGGERS,
                job_key=record.job_key,
                data=repeats(key, at, record.trigger.data or {}),
                start_time=start,
                interval=timedelta(0),
                repeat_count=0,
                priority=1,
            )
            for number, at in enumerate(instants)
        ]
        self._check_data(triggers[0])
        self._store_pairs([(None, triggers)], replace=False)
        return [TriggeredExecution(self, trigger.key, record.job_key) for trigger in triggers]
