"""Stores the plan of an import, all of it in one transaction, and as often as the user likes."""

from __future__ import annotations

from collections import defaultdict
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
from quartzpy.states import TriggerState
from quartzpy.store.protocol import JobEntry, JobStore, PauseNote, StoredCalendar, TriggerMove
from quartzpy.store.records import Owned, TriggerRecord
from quartzpy.triggers.schedule_hash import schedule_hash
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger, UpcomingFireTimes, look_ahead

BY = "quartzpy import"
HELD = "held by an import; an import without --paused resumes it"
"""The reason of the pause of triggers that were imported with `held`."""
_PAUSED = (TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED)


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What an import changed, or would change."""

    added: frozenset[JobKey | TriggerKey] = frozenset()
    calendars: frozenset[str] = frozenset()
    """Calendars that were stored or replaced."""
    advanced: frozenset[TriggerKey] = frozenset()
    """Triggers that an earlier import had stored, and that the source has moved on since."""
    resumed: frozenset[TriggerKey] = frozenset()
    """Triggers that an earlier import had paused."""
    removed: frozenset[TriggerKey] = frozenset()
    """Triggers that an earlier import had paused, and that the plan no longer has."""
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

    With `held`, triggers that are not paused in the source are stored as paused, too. Triggers that an import has
    paused are resumed by a later one without `held` in whose plan they are not paused, and deleted by one whose plan no
    longer has them. `dry_run` changes nothing; it needs a store with transactions.

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
        after = self._store.triggers(list(self._before))
        self._take_data(stored_jobs.keys())
        resumed = self._settle_pauses(after)
        advanced = self._advance(after, calendars)
        removed = self._remove_gone(owned)
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
        """Pause the groups that are paused in the source, unless an earlier import has: the user may have resumed
        them."""
        known = {key.group for key in self._before}
        for group in sorted(self._plan.paused_groups - known):
            note = PauseNote(f"paused in {self._plan.source}", BY)
            self._store.pause_trigger_groups(GroupMatcher.equals(group), note)

    def _settle_pauses(self, after: Mapping[TriggerKey, TriggerRecord]) -> frozenset[TriggerKey]:
        """Pause and resume triggers that are new, or that an earlier import has paused; return those resumed.

        What the user has paused or resumed since stays as it is.
        """
        pausing: dict[PauseNote, list[TriggerKey]] = defaultdict(list)
        going = []
        for key, imported in sorted(self._wanted.items()):
            before = self._before.get(key)
            is_replaced = before is not None and after[key].generation != before.generation
            reason = imported.paused or (HELD if self._held else None)
            if before is not None and before.paused_by != BY:
                if is_replaced and before.state in _PAUSED:
                    pausing[PauseNote(before.pause_reason, before.paused_by)].append(key)
            elif reason is None:
                going.append(key)
            elif before is None or is_replaced or before.pause_reason != reason:
                pausing[PauseNote(reason, BY)].append(key)
        for note, keys in pausing.items():
            self._store.pause_triggers(keys, note)
        # A new trigger is paused where its group is, although it is not itself paused in the source.
        resumed = [key for key in going if key in self._before or key.group in self._plan.paused_groups]
        if resumed:
            self._store.resume_triggers(resumed)
        return frozenset(key for key in resumed if key in self._before)

    def _take_data(self, stored: Collection[JobKey]) -> None:
        """Take over the data of jobs that persist it, as long as none of their triggers has been released here."""
        paused = {record.job_key for record in self._before.values() if record.paused_by == BY}
        released = {record.job_key for record in self._before.values() if record.paused_by != BY}
        for key in sorted((set(stored) & paused) - released):
            job = self._jobs[key]
            if job.persist_data:
                self._store.modify_job(key, partial(_with_data, data=job.data), keeps_data=False)

    def _advance(
        self, after: Mapping[TriggerKey, TriggerRecord], calendars: Mapping[str, StoredCalendar]
    ) -> frozenset[TriggerKey]:
        """Move triggers on that were stored before and that the source has moved on since."""
        now = self._store.now()
        behind = [key for key, record in after.items() if _is_behind(record, self._wanted[key])]
        moves = [
            TriggerMove(record, _prepared(self._wanted[key], calendars, now, record), releases_claim=True)
            for key, record in self._store.triggers(behind).items()
        ]
        return frozenset(self._store.move_triggers(moves)) if moves else frozenset()

    def _remove_gone(self, owned: Owned) -> frozenset[TriggerKey]:
        """Delete triggers that the plan no longer has, and that have been paused since an earlier import."""
        gone = self._store.triggers(list(owned.triggers - self._wanted.keys()))
        keys = frozenset(key for key, record in gone.items() if record.paused_by == BY)
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
