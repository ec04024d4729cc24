"""Stores one slice of an import: compares it with what is stored, and changes what differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from quartzpy.errors import ObjectAlreadyExistsError, QuartzpyError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.migrate.plan import ImportedJob, ImportedTrigger, ImportPlan
from quartzpy.store.definition_differences import job_differences, trigger_differences
from quartzpy.store.protocol import JobEntry, JobStore, NamedTriggers, PauseNote, StoredCalendar, TriggerMove
from quartzpy.store.records import TriggerRecord
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger, UpcomingFireTimes, look_ahead, schedule_hash

SLICE = 200
"""The number of jobs and triggers that one transaction stores. Their comparison must not hold it up for seconds."""
BY = "quartzpy import"
HELD = "held by an import; an import without --paused resumes it"
"""The reason of the pause of triggers that were imported with `held`."""


@dataclass(slots=True)
class ImportOutcome:
    """What an import changed, or would change."""

    added: set[JobKey | TriggerKey] = field(default_factory=set)
    calendars: set[str] = field(default_factory=set)
    """Calendars that were stored or replaced."""
    advanced: set[TriggerKey] = field(default_factory=set)
    """Triggers that an earlier import had stored, and that the source has moved on since."""
    resumed: set[TriggerKey] = field(default_factory=set)
    """Triggers that an earlier import had paused."""
    removed: set[TriggerKey] = field(default_factory=set)
    """Triggers that an earlier import had paused, and that the plan no longer has."""
    unchanged: int = 0
    """The number of triggers that were stored already and whose fire times did not change."""

    def counts(self) -> dict[str, int]:
        """Return the numbers with what they count, for people and for the audit log."""
        jobs = sum(isinstance(key, JobKey) for key in self.added)
        return {
            "new jobs": jobs,
            "new triggers": len(self.added) - jobs,
            "new or changed calendars": len(self.calendars),
            "triggers moved on": len(self.advanced),
            "triggers resumed": len(self.resumed),
            "triggers removed": len(self.removed),
            "triggers kept": self.unchanged,
        }


@dataclass(frozen=True, slots=True)
class JobPart:
    """A job with some of its triggers, or all of them."""

    whole: ImportedJob
    triggers: Sequence[ImportedTrigger]

    @property
    def job(self) -> JobDetail:
        return self.whole.job

    @property
    def size(self) -> int:
        """The number of rows that store it."""
        return 1 + len(self.triggers)


def slices(jobs: Sequence[ImportedJob]) -> Iterator[list[JobPart]]:
    """Yield parts of jobs, together of at most `SLICE` jobs and triggers; at least one slice, which may be empty."""
    parts: list[JobPart] = []
    size = 0
    for job in jobs:
        for start in range(0, max(1, len(job.triggers)), SLICE - 1):
            part = JobPart(job, job.triggers[start : start + SLICE - 1])
            if parts and size + part.size > SLICE:
                yield parts
                parts, size = [], 0
            parts.append(part)
            size += part.size
    yield parts


class Slice:
    """Some jobs and triggers of a plan, and what is stored under their keys."""

    def __init__(
        self,
        store: JobStore,
        plan: ImportPlan,
        parts: Sequence[JobPart],
        owned_jobs: set[JobKey],
        owned_triggers: Collection[TriggerKey],
        outcome: ImportOutcome,
        *,
        held: bool,
    ) -> None:
        self._store = store
        self._plan = plan
        self._parts = parts
        self._owned_jobs = owned_jobs
        self._owned_triggers = owned_triggers
        self._outcome = outcome
        self._held = held
        self._jobs = {part.job.key: part.job for part in parts}
        self._wanted = {item.trigger.key: item for part in parts for item in part.triggers}
        self._before = store.triggers(list(self._wanted))
        self._stored_jobs = store.jobs(list(self._jobs))

    def compare(self) -> None:
        """Add to the outcome what `store` would change."""
        rescheduled = {
            key
            for key, record in self._before.items()
            if record.schedule_hash != schedule_hash(self._wanted[key].trigger)
        }
        behind = {key for key, record in self._before.items() if _is_behind(record, self._wanted[key])}
        self._note(behind - rescheduled, {key for key in self._before if self._resumes(key)})

    def store(self) -> None:
        """Store what is new, replace what differs, and settle pauses and fire times; add that to the outcome."""
        self._refuse_foreign()
        used = {item.trigger.calendar for item in self._wanted.values() if item.trigger.calendar is not None}
        calendars = self._store.calendars(list(used)) if used else {}
        changed = {key for key, item in self._wanted.items() if self._differs(key, item.trigger)}
        jobs = {key for key, job in self._jobs.items() if self._job_differs(job)}
        self._store_changed(jobs, changed, calendars)
        replaced = changed & self._before.keys()
        after = {**self._before, **(self._store.triggers(list(replaced)) if replaced else {})}
        # A job that is changed has no owner until it is owned again.
        jobs |= self._take_data()
        resumed = self._settle_pauses(after)
        self._note(self._advance(after, calendars), resumed)
        new_jobs = [key for key in self._jobs if key in jobs or key not in self._owned_jobs]
        new_triggers = [key for key in self._wanted if key in changed or key not in self._owned_triggers]
        if new_jobs or new_triggers:
            self._store.own(self._plan.owner, new_jobs, new_triggers)
        self._owned_jobs.update(new_jobs)

    def _note(self, advanced: set[TriggerKey], resumed: set[TriggerKey]) -> None:
        outcome = self._outcome
        outcome.added |= self._wanted.keys() - self._before.keys()
        outcome.added |= self._jobs.keys() - self._stored_jobs.keys()
        outcome.advanced |= advanced
        outcome.resumed |= resumed
        outcome.unchanged += len(self._before) - len(advanced)

    def _refuse_foreign(self) -> None:
        # Another program may have stored one since the import began.
        for key in [*(self._stored_jobs.keys() - self._owned_jobs), *(self._before.keys() - self._owned_triggers)]:
            raise ObjectAlreadyExistsError(
                f"{'job' if isinstance(key, JobKey) else 'trigger'} {key} was stored by another program during the"
                " import, which ends here; delete it, and import again"
            )

    def _differs(self, key: TriggerKey, declared: Trigger) -> bool:
        record = self._before.get(key)
        if record is None:
            return True
        try:
            return bool(trigger_differences(declared, record.trigger, schedule_hash(declared), record.schedule_hash))
        except QuartzpyError:
            # It cannot be read, and the import mends it.
            return True

    def _job_differs(self, job: JobDetail) -> bool:
        stored = self._stored_jobs.get(job.key)
        return stored is None or bool(job_differences(job, stored))

    def _store_changed(
        self, jobs: set[JobKey], changed: set[TriggerKey], calendars: Mapping[str, StoredCalendar]
    ) -> None:
        def prepare(trigger: Trigger, now: datetime) -> PreparedTrigger:
            return _prepared(self._wanted[trigger.key], calendars, now)

        entries = []
        for part in self._parts:
            triggers = [
                UnpreparedTrigger(item.trigger, prepare) for item in part.triggers if item.trigger.key in changed
            ]
            if triggers or part.job.key in jobs:
                entries.append(JobEntry(part.job if part.job.key in jobs else None, triggers))
        if entries:
            self._store.store_jobs(entries, replace=True)

    def _resumes(self, key: TriggerKey) -> bool:
        """Return True if the import resumes a trigger that is stored, because an earlier one had paused it."""
        return self._before[key].paused_by == BY and self._reason(key) is None

    def _reason(self, key: TriggerKey) -> str | None:
        return self._wanted[key].paused or (HELD if self._held else None)

    def _settle_pauses(self, after: Mapping[TriggerKey, TriggerRecord]) -> set[TriggerKey]:
        """Pause and resume triggers that are new, or that an earlier import has paused; return those resumed.

        What the user has paused or resumed since stays as it is.
        """
        pausing: dict[PauseNote, list[TriggerKey]] = defaultdict(list)
        going = []
        for key in sorted(self._wanted):
            before = self._before.get(key)
            is_replaced = before is not None and after[key].generation != before.generation
            reason = self._reason(key)
            if before is not None and before.paused_by != BY:
                if is_replaced and (note := PauseNote.of(before)) is not None:
                    pausing[note].append(key)
            elif reason is None:
                # A new trigger is paused where its group is, although it is not itself paused in the source.
                if before is not None or key.group in self._plan.paused_groups:
                    going.append(key)
            elif before is None or is_replaced or before.pause_reason != reason:
                pausing[PauseNote(reason, BY)].append(key)
        for note, keys in pausing.items():
            self._store.pause(NamedTriggers(keys), note)
        if going:
            self._store.resume(NamedTriggers(going))
        return {key for key in going if key in self._before}

    def _take_data(self) -> set[JobKey]:
        """Take over the data of jobs that persist it, as long as none of their triggers has been released here.

        Return these jobs.
        """
        taken = set()
        for part in self._parts:
            if not part.job.persist_data or part.job.key not in self._stored_jobs:
                continue
            is_whole = len(part.triggers) == len(part.whole.triggers)
            keys = [item.trigger.key for item in part.whole.triggers]
            stored = self._before if is_whole else self._store.triggers(keys)
            by = {stored[key].paused_by == BY for key in keys if key in stored}
            if by == {True}:
                self._store.modify_job(part.job.key, partial(_with_data, data=part.job.data), keeps_data=False)
                taken.add(part.job.key)
        return taken

    def _advance(
        self, after: Mapping[TriggerKey, TriggerRecord], calendars: Mapping[str, StoredCalendar]
    ) -> set[TriggerKey]:
        """Move triggers on that were stored before and that the source has moved on since."""
        behind = [key for key, record in after.items() if _is_behind(record, self._wanted[key])]
        if not behind:
            return set()
        now = self._store.now()
        moves = [
            TriggerMove(record, _prepared(self._wanted[key], calendars, now, record))
            for key, record in self._store.triggers(behind).items()
        ]
        return self._store.move_triggers(moves)


def _with_data(job: JobDetail, data: Mapping[str, Any] | None) -> JobDetail:
    return replace(job, data=data)


def _is_behind(stored: TriggerRecord, source: ImportedTrigger) -> bool:
    following = source.progress.next_fire_time
    return following is not None and stored.next_fire_time is not None and stored.next_fire_time < following


def _prepared(
    imported: ImportedTrigger,
    calendars: Mapping[str, StoredCalendar],
    now: datetime,
    stored: TriggerRecord | None = None,
) -> PreparedTrigger:
    declared, following = imported.trigger, imported.progress.next_fire_time
    # A trigger without a start time of its own starts with its next fire, so that an interval keeps its phase.
    trigger = declared.anchored(following or now) if stored is None else stored.trigger
    used = None if trigger.calendar is None else calendars[trigger.calendar]
    calendar = None if used is None else used.calendar
    return PreparedTrigger(
        trigger,
        imported.progress,
        UpcomingFireTimes(is_complete=True) if following is None else look_ahead(trigger, imported.progress, calendar),
        None if used is None else used.revision,
        schedule_hash(declared),
        starts_when_stored=declared.start_time is None,
    )
