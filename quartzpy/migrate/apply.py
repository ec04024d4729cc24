"""Stores the plan of an import, all of it in one transaction, and as often as the user likes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from quartzpy.calendars.base import BaseCalendar
from quartzpy.errors import ObjectAlreadyExistsError, SettingsError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.migrate.plan import ImportedTrigger, ImportPlan
from quartzpy.store.protocol import JobEntry, JobStore, PauseNote, StoredCalendar, TriggerMove
from quartzpy.store.records import Owned, TriggerRecord
from quartzpy.triggers.schedule_hash import schedule_hash
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger, UpcomingFireTimes, look_ahead

BY = "quartzpy import"
HELD = "held by an import; an import without --paused resumes it"
"""The reason of the pause of triggers that were imported with `held`."""


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What an import changed, or would change."""

    added: frozenset[JobKey | TriggerKey] = frozenset()
    calendars: frozenset[str] = frozenset()
    """Calendars that were stored or replaced."""
    advanced: frozenset[TriggerKey] = frozenset()
    """Triggers that an earlier import had stored, and that the source has moved on since."""
    resumed: frozenset[TriggerKey] = frozenset()
    """Triggers that an earlier import had held."""
    removed: frozenset[TriggerKey] = frozenset()
    """Triggers that an earlier import had held, and that the plan no longer has."""
    kept: int = 0
    """The number of triggers that were stored already and whose fire times did not change."""


class _RollBackError(Exception):
    def __init__(self, outcome: ImportOutcome) -> None:
        self.outcome = outcome


def apply(
    plan: ImportPlan,
    store: JobStore,
    *,
    held: bool = False,
    skip_undecided: bool = False,
    while_running: bool = False,
    dry_run: bool = False,
) -> ImportOutcome:
    """Store a plan in one transaction, and return what changed.

    An import may be repeated, before the source is stopped and after. Jobs and triggers are replaced by those of the
    plan. A trigger that is stored already keeps its fire times and its pause, unless the source is ahead: then it takes
    over the source's fire times. So neither an instant that quartzpy has fired nor one that the source has fired is
    fired again.

    With `held`, triggers that are not paused in the source are stored as paused, too. Those that are still paused for
    that reason are resumed by an import without `held`, and deleted by one whose plan no longer has them. `dry_run`
    changes nothing; it needs a store with transactions.

    Raises:
        SettingsError: the plan has undecided notes and `skip_undecided` is false, or the source still runs and both
            `held` and `while_running` are false. A dry run does not refuse these.
        ObjectAlreadyExistsError: a job or trigger of the plan is stored already, but not by an import of this source.
    """
    if not dry_run:
        _refuse(plan, held=held, skip_undecided=skip_undecided, while_running=while_running)

    def work(inside: JobStore) -> ImportOutcome:
        outcome = _Application(plan, inside, held).run()
        if dry_run:
            raise _RollBackError(outcome)
        return outcome

    try:
        return store.exclusively(work)
    except _RollBackError as rolled_back:
        return rolled_back.outcome


def _refuse(plan: ImportPlan, *, held: bool, skip_undecided: bool, while_running: bool) -> None:
    if plan.undecided and not skip_undecided:
        raise SettingsError(
            f"{len(plan.undecided)} objects need a decision ({plan.undecided[0].subject} is the first); nothing was"
            " imported. Decide about them, or pass --skip-undecided to leave them out"
        )
    if plan.running is not None and not (held or while_running):
        raise SettingsError(
            f"{plan.source} still runs ({plan.running}), so both would fire the same triggers; nothing was imported."
            " Stop it first, or import with --paused, or pass --while-running"
        )


class _Application:
    def __init__(self, plan: ImportPlan, store: JobStore, held: bool) -> None:
        self._plan = plan
        self._store = store
        self._held = held
        self._wanted = plan.triggers()
        self._jobs = {one.job.key: one.job for one in plan.jobs}
        self._before = store.triggers(list(self._wanted))

    def run(self) -> ImportOutcome:
        owned = self._store.owned(self._plan.owner)
        stored_jobs = self._store.jobs(list(self._jobs))
        self._refuse_foreign(stored_jobs, owned)
        changed = self._put_calendars()
        calendars = self._store.calendars(list(self._plan.calendars))
        new = self._wanted.keys() - self._before.keys()

        def prepare(trigger: Trigger, now: datetime) -> PreparedTrigger:
            return _prepared(self._wanted[trigger.key], calendars, now)

        self._pause_groups()
        self._store.store_jobs(
            [
                JobEntry(one.job, [UnpreparedTrigger(imported.trigger, prepare) for imported in one.triggers])
                for one in self._plan.jobs
            ],
            replace=True,
        )
        self._take_data(stored_jobs.keys())
        self._pause_new(new)
        advanced = self._advance(calendars)
        resumed = self._resume_held()
        removed = self._remove_held(owned)
        self._store.own(self._plan.owner, list(self._jobs), list(self._wanted))
        return ImportOutcome(
            added=frozenset(new | (self._jobs.keys() - stored_jobs.keys())),
            calendars=changed,
            advanced=advanced,
            resumed=resumed,
            removed=removed,
            kept=len(self._before) - len(advanced),
        )

    def _refuse_foreign(self, stored_jobs: Collection[JobKey], owned: Owned) -> None:
        foreign = [f"job {key}" for key in sorted(set(stored_jobs) - owned.jobs)]
        foreign += [f"trigger {key}" for key in sorted(self._before.keys() - owned.triggers)]
        if foreign:
            raise ObjectAlreadyExistsError(
                f"{foreign[0]} is stored already, and not by an import of {self._plan.source}"
                f"{f'; so are {len(foreign) - 1} others' if len(foreign) > 1 else ''}; nothing was imported. Delete it,"
                " or import into a scheduler with another name"
            )

    def _put_calendars(self) -> frozenset[str]:
        stored = self._store.calendars(list(self._plan.calendars))
        changed = [
            name
            for name, calendar in self._plan.calendars.items()
            if name not in stored or stored[name].calendar != calendar
        ]
        for name in changed:
            calendar: BaseCalendar = self._plan.calendars[name]
            self._store.put_calendar(name, calendar, replace=True)
        return frozenset(changed)

    def _pause_groups(self) -> None:
        """Pause what is paused in the source, except where an earlier import already did and the user may have
        resumed it."""
        note = PauseNote(f"paused in {self._plan.source}", BY)
        known = {key.group for key in self._before}
        if self._plan.everything_paused and not self._before:
            self._store.pause_all(note)
        for group in sorted(self._plan.paused_groups - known):
            self._store.pause_trigger_groups(GroupMatcher.equals(group), note)

    def _pause_new(self, new: Collection[TriggerKey]) -> None:
        by_reason: dict[str, list[TriggerKey]] = {}
        going = []
        for key in sorted(new):
            reason = self._wanted[key].paused or (HELD if self._held else None)
            if reason is None:
                going.append(key)
            else:
                by_reason.setdefault(reason, []).append(key)
        for reason, keys in by_reason.items():
            self._store.pause_triggers(keys, PauseNote(reason, BY))
        if self._plan.everything_paused or self._plan.paused_groups:
            self._resume_single(going)

    def _resume_single(self, going: Collection[TriggerKey]) -> None:
        """Resume triggers that are not paused in the source although their group is."""
        paused = self._plan.paused_groups
        keys = [key for key in going if key.group in paused or self._plan.everything_paused]
        if keys:
            self._store.resume_triggers(keys)

    def _take_data(self, stored: Collection[JobKey]) -> None:
        """Take over the data of jobs that persist it, as long as none of their triggers has been released here."""
        held = {record.job_key for record in self._before.values() if record.pause_reason == HELD}
        released = {record.job_key for record in self._before.values() if record.pause_reason != HELD}
        for key in sorted((set(stored) & held) - released):
            job = self._jobs[key]
            if job.persist_data:
                self._store.modify_job(key, partial(_with_data, data=job.data), keeps_data=False)

    def _advance(self, calendars: Mapping[str, StoredCalendar]) -> frozenset[TriggerKey]:
        """Move triggers on that were stored before and that the source has fired since."""
        behind = [key for key, record in self._before.items() if _is_behind(record, self._wanted[key])]
        moves = [
            TriggerMove(record, _prepared(self._wanted[key], calendars, self._store.now(), record), releases_claim=True)
            for key, record in self._store.triggers(behind).items()
        ]
        return frozenset(self._store.move_triggers(moves)) if moves else frozenset()

    def _resume_held(self) -> frozenset[TriggerKey]:
        if self._held:
            return frozenset()
        keys = [
            key
            for key, record in self._before.items()
            if record.pause_reason == HELD and self._wanted[key].paused is None
        ]
        if keys:
            self._store.resume_triggers(keys)
        return frozenset(keys)

    def _remove_held(self, owned: Owned) -> frozenset[TriggerKey]:
        gone = self._store.triggers(list(owned.triggers - self._wanted.keys()))
        keys = frozenset(key for key, record in gone.items() if record.pause_reason == HELD)
        if keys:
            self._store.delete_triggers(keys)
        return keys


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
