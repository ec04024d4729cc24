"""Stores the plan of an import in slices, as often as the user likes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from quartzpy.errors import ObjectAlreadyExistsError, QuartzpyError, SettingsError
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.migrate.plan import ImportPlan
from quartzpy.migrate.slices import BY, ImportOutcome, JobPart, Slice, slices
from quartzpy.operations.actions.action import Actor, local_user
from quartzpy.states import ActionState
from quartzpy.store.postgresql.admin import admin_if_any
from quartzpy.store.postgresql.admin.records import ActionEntry
from quartzpy.store.protocol import JobStore, PauseNote, TriggerGroups
from quartzpy.texts import numbered
from quartzpy.texts import reason as reason_of

_Key = TypeVar("_Key", JobKey, TriggerKey)
_READ = 5_000
_MAX_SUBJECT = 500
Progress = Callable[[int, int], None]
"""Called with the number of jobs and triggers that are stored, and with that of all."""


def apply(
    plan: ImportPlan,
    store: JobStore,
    *,
    held: bool = False,
    skip_undecided: bool = False,
    while_running: bool = False,
    dry_run: bool = False,
    actor: Actor | None = None,
    reason: str = "",
    progress: Progress | None = None,
) -> ImportOutcome:
    """Store a plan, and return what changed.

    The plan is stored in slices of `SLICE` jobs and triggers, each in one transaction; a plan that is not larger is
    stored completely or not at all. An import that was aborted between two slices is continued by another one: what is
    stored already is compared, and not stored again.

    An import may be repeated, before the source is stopped and after. Jobs and triggers are replaced by those of the
    plan. A trigger that is stored already keeps its fire times and its pause, unless the source is ahead: then it takes
    over the source's fire times. So neither an instant that quartzpy has fired nor one that the source has fired is
    fired again.

    With `held`, triggers that are not paused in the source are stored as paused, too. Triggers that an import has
    paused are resumed by a later one without `held` in whose plan they are not paused, and deleted by one whose plan no
    longer has them. `dry_run` changes nothing.

    The import is one row of the audit log, by `actor` (None: the user of this process) and with the `reason`.

    Raises:
        SettingsError: the plan has undecided notes and `skip_undecided` is false, or the source still runs and both
            `held` and `while_running` are false. A dry run does not refuse these.
        ObjectAlreadyExistsError: a job or trigger of the plan is stored already, but not by an import of this source.
            Nothing was changed.
    """
    if not dry_run:
        _refuse(plan, held=held, skip_undecided=skip_undecided, while_running=while_running)
    application = _Application(plan, store, held=held)
    if dry_run:
        return application.dry_run()
    return application.run(actor or local_user(), reason, progress or (lambda done, total: None))


def _refuse(plan: ImportPlan, *, held: bool, skip_undecided: bool, while_running: bool) -> None:
    refuse_undecided(plan, skip_undecided=skip_undecided)
    if plan.running is not None and not (held or while_running):
        raise SettingsError(
            f"{plan.source} still runs ({plan.running}), so both would fire the same triggers; nothing was imported."
            " Stop it first, or import with --paused, or pass --while-running"
        )


def refuse_undecided(plan: ImportPlan, *, skip_undecided: bool) -> None:
    """Refuse an import that needs decisions, unless what they are about is left out.

    Raises:
        SettingsError: the plan has undecided notes, and `skip_undecided` is false.
    """
    if plan.undecided and not skip_undecided:
        number = numbered(len(plan.undecided), "object needs", "objects need")
        raise SettingsError(
            f"{number} a decision ({plan.undecided[0].subject} is the first); nothing was"
            " imported. Decide about them, or pass --skip-undecided to leave them out"
        )


class _Application:
    """One import, which proceeds slice by slice."""

    def __init__(self, plan: ImportPlan, store: JobStore, *, held: bool) -> None:
        self._plan = plan
        self._store = store
        self._held = held
        self._owned = store.owned(plan.owner)
        self._owned_jobs = set(self._owned.jobs)
        # Computed before any transaction, which must not wait for it: there may be a million keys.
        wanted = {item.trigger.key for job in plan.jobs for item in job.triggers}
        self._dropped = sorted(self._owned.triggers - wanted)
        self._outcome = ImportOutcome()
        self._action_id: int | None = None
        self._committed = 0
        """The number of jobs and triggers in slices that are committed."""

    def dry_run(self) -> ImportOutcome:
        self._refuse_foreign()
        self._outcome.calendars |= set(self._changed_calendars(self._store))
        for parts in slices(self._plan.jobs):
            self._slice(self._store, parts).compare()
        self._outcome.removed |= self._gone(self._store)
        return self._outcome

    def run(self, actor: Actor, reason: str, progress: Progress) -> ImportOutcome:
        entry = ActionEntry(
            actor.name, str(actor.role), "import", self._plan.source[:_MAX_SUBJECT], reason, ActionState.RUNNING
        )
        done = 0
        try:
            self._refuse_foreign()
            parts_of = list(slices(self._plan.jobs))
            total = sum(part.size for parts in parts_of for part in parts)
            for number, parts in enumerate(parts_of, 1):
                done += sum(part.size for part in parts)
                self._store.together(
                    partial(self._one, entry, parts, done, is_first=number == 1, is_last=number == len(parts_of)),
                    exclusively=True,
                )
                self._committed = done
                progress(done, total)
        except BaseException as error:
            self._record_failure(entry, error)
            raise
        return self._outcome

    def _one(
        self,
        entry: ActionEntry,
        parts: Sequence[JobPart],
        done: int,
        inside: JobStore,
        *,
        is_first: bool,
        is_last: bool,
    ) -> None:
        """Store one slice in the transaction of `inside`."""
        if is_first:
            for name in self._changed_calendars(inside):
                inside.put_calendar(name, self._plan.calendars[name], replace=True)
                self._outcome.calendars.add(name)
            self._pause_groups(inside)
        self._slice(inside, parts).store()
        if is_last and (gone := self._gone(inside)):
            inside.delete_triggers(gone)
            self._outcome.removed |= gone
        # A store in memory has no audit log.
        log = admin_if_any(inside)
        if log is None:
            return
        if self._action_id is None:
            self._action_id = log.record_action(entry)
        after = json.dumps(self._outcome.counts()) if is_last else None
        state = ActionState.SUCCEEDED if is_last else ActionState.RUNNING
        log.update_action(self._action_id, state=state, count=done, after_text=after)

    def _record_failure(self, entry: ActionEntry, error: BaseException) -> None:
        # The store may be the reason of the failure.
        with suppress(QuartzpyError):
            text, log = reason_of(error), admin_if_any(self._store)
            if log is None:
                return
            if self._action_id is not None and self._committed:
                log.update_action(self._action_id, state=ActionState.FAILED, count=self._committed, error=text)
            else:
                log.record_action(replace(entry, state=ActionState.FAILED, error=text))

    def _slice(self, store: JobStore, parts: Sequence[JobPart]) -> Slice:
        return Slice(store, self._plan, parts, self._owned_jobs, self._owned.triggers, self._outcome, held=self._held)

    def _refuse_foreign(self) -> None:
        """Check that nothing of the plan is stored by something else than imports of its source."""
        foreign = []
        for jobs in _chunks([item.job.key for item in self._plan.jobs if item.job.key not in self._owned.jobs]):
            foreign += [f"job {key}" for key in sorted(self._store.job_headers(jobs))]
        triggers = [item.trigger.key for job in self._plan.jobs for item in job.triggers]
        for keys in _chunks([key for key in triggers if key not in self._owned.triggers]):
            foreign += [f"trigger {key}" for key in sorted(self._store.triggers(keys))]
        if foreign:
            also = f"{'is' if len(foreign) == 2 else 'are'} {numbered(len(foreign) - 1, 'other', 'others')}"
            raise ObjectAlreadyExistsError(
                f"{foreign[0]} is stored already, and not by an import of {self._plan.source}"
                f"{f'; so {also}' if len(foreign) > 1 else ''}; nothing was imported. Delete it,"
                " or import into a scheduler with another name"
            )

    def _changed_calendars(self, store: JobStore) -> list[str]:
        stored = store.calendars(list(self._plan.calendars))
        return [
            name
            for name, calendar in self._plan.calendars.items()
            if name not in stored or stored[name].calendar != calendar
        ]

    def _pause_groups(self, store: JobStore) -> None:
        """Pause the groups that are paused in the source, unless an earlier import has: the user may have resumed
        them."""
        groups = {key.group for key in self._owned.triggers}
        for group in sorted(self._plan.paused_groups - groups):
            store.pause(TriggerGroups(GroupMatcher.equals(group)), PauseNote(f"paused in {self._plan.source}", BY))

    def _gone(self, store: JobStore) -> set[TriggerKey]:
        """Return the triggers that the plan no longer has, and that have been paused since an earlier import."""
        return {
            key
            for keys in _chunks(self._dropped)
            for key, record in store.triggers(keys).items()
            if record.paused_by == BY
        }


def _chunks(keys: Sequence[_Key]) -> Iterator[Sequence[_Key]]:
    for start in range(0, len(keys), _READ):
        yield keys[start : start + _READ]
