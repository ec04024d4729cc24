"""The methods that store definitions: jobs, triggers and calendars, their changes and removal, and declarations."""

from __future__ import annotations

import difflib
import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as replace_in
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Any, TypeAlias, Unpack

from quartzpy import job_data
from quartzpy.calendars.calendar import Calendar
from quartzpy.calendars.maintenance_window import MaintenanceWindow
from quartzpy.errors import (
    CalendarInUseError,
    CalendarNotFoundError,
    InvalidJobError,
    InvalidTriggerError,
    InvalidValueError,
)
from quartzpy.events.events import (
    Event,
    JobAdded,
    JobDeleted,
    JobScheduled,
    JobUnscheduled,
    TriggerFinalized,
)
from quartzpy.instants import EARLIEST
from quartzpy.jobs import typed_data
from quartzpy.jobs.function_arguments import arguments_of
from quartzpy.jobs.internal_entries import BatchKey, batch_entry, refuse_internal, with_trace
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import Batch
from quartzpy.jobs.options import JobChanges
from quartzpy.jobs.shared_limit import Limit, checked_limit_name
from quartzpy.keys import (
    DEFAULT_GROUP,
    JobKey,
    JobRef,
    Key,
    TriggerKey,
    TriggerRef,
    check_name,
    checked_key,
)
from quartzpy.name_hints import RESCHEDULING_ARGUMENTS, argument_hints
from quartzpy.scheduler.coercion import JobLike, TriggerLike, as_job_detail, as_trigger, as_triggers, bind, check_named
from quartzpy.scheduler.methods.base import Methods
from quartzpy.scheduler.rehearsal import Dependants, RehearsedError, check_continuations, check_cost
from quartzpy.scheduler.sync import (
    Definitions,
    Existing,
    Stored,
    SyncPlan,
    check_definitions,
    outdated,
    plan,
    version_text,
)
from quartzpy.store import refusals
from quartzpy.store.protocol import BatchEntry, JobEntry, JobStore, NameKind, StoredCalendar
from quartzpy.store.queries import TriggerQuery
from quartzpy.store.records import LimitRecord
from quartzpy.texts import quoted
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import UnpreparedTrigger, prepare

Pairs: TypeAlias = Sequence[tuple[JobDetail | None, Sequence[Trigger]]]
"""Jobs with their triggers; None means a job that is stored already."""
_UPDATE_TRIES = 5
logger = logging.getLogger(__name__)


class StoringMethods(Methods):
    """Stores, changes and removes definitions, each time either all of them or none and an error."""

    @abstractmethod
    def _inside(self, store: JobStore) -> StoringMethods:
        """Return the methods on another view of the store."""

    def _checked_job(self, job: object) -> JobDetail:
        """Return a job with the scheduler's defaults for values that were not passed to it."""
        if not isinstance(job, JobDetail):
            raise InvalidJobError(
                f"job: a JobDetail is needed (got {quoted(job)}); schedule_job takes classes and functions as well"
            )
        return job.with_defaults(self._job_defaults) if self._job_defaults else job

    def _bound_pairs(
        self,
        definitions: Iterable[tuple[JobLike, object]],
        *,
        again: str | None = None,
        names: Iterator[str] | None = None,
    ) -> list[tuple[JobDetail, list[Trigger]]]:
        """Return the jobs, each with its triggers bound to it. `again` is as for `check_named`.

        Triggers without a name take the next of the `names`.
        """
        pairs = []
        for form, triggers in definitions:
            detail = as_job_detail(form, None, DEFAULT_GROUP, None, {})
            if again is not None:
                check_named(detail, again)
            job = self._checked_job(detail)
            pairs.append((job, bind(as_triggers(triggers), job.key, names)))
        return pairs

    def _store_pairs(
        self,
        pairs: Pairs,
        *,
        replace: bool,
        keep_data: Collection[JobKey] = (),
        batch: Batch | None = None,
    ) -> tuple[datetime, list[Trigger]]:
        """Store jobs with their triggers; return the earliest fire time and the triggers."""
        if self._current_trace is not None and (trace := self._current_trace()):
            pairs = [(job, [with_trace(trigger, trace) for trigger in triggers]) for job, triggers in pairs]
        entry = None
        if batch is not None:
            pairs, entry = _batched(pairs, batch, replace=replace)
        everything = [trigger for _, triggers in pairs for trigger in triggers]
        if duplicate := _duplicate([job for job, _ in pairs if job is not None]):
            raise InvalidJobError(f"job {duplicate} is given twice; give it once, with all its triggers")
        if duplicate := _duplicate(everything):
            raise InvalidTriggerError(f"trigger {duplicate} is given twice; each trigger needs a key of its own")
        calendars = self._calendars_of(everything)
        entries = [
            JobEntry(
                job,
                [_unprepared(trigger, calendars) for trigger in triggers],
                job is not None and job.key in keep_data,
            )
            for job, triggers in pairs
        ]
        earliest = self._usable_store().store_jobs(entries, replace=replace, batch=entry)
        # What is replaced may leave its slot, or lift a limit of other triggers.
        self._changed(EARLIEST if replace else earliest)
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
                refuse_internal_job(trigger)
            if job is not None:
                self._check_data(job)
                refuse_internal_job(job)
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
        if of.data is not None:
            job_data.encode(of.data, max_bytes=self._config.max_job_data_bytes)

    def _check_typed_data(self, job: JobDetail, triggers: Sequence[Trigger] = ()) -> None:
        """Check the data that the job is called with by each trigger, if its class is known in this process.

        The typed data is built if the class has a data type. A function must be able to take its arguments.
        """
        data_type = self._job_types.data_type(job.job)
        arguments = arguments_of(self._job_types.class_of(job.job)) if data_type is None else None
        own = job.data or {}
        if not triggers:
            if data_type is not None:
                typed_data.refuse_unknown(data_type, own, f"job {job.key}")
            elif arguments is not None:
                arguments.check(own, f"job {job.key}", is_complete=False, reads=job.concurrency_key)
        for trigger in triggers:
            of = f"job {job.key}, trigger {trigger.key}"
            merged = {**own, **(trigger.data or {})}
            if data_type is not None:
                typed_data.build(data_type, merged, of)
            elif arguments is not None:
                arguments.check(merged, of, reads=job.concurrency_key)

    def _calendars_of(self, triggers: Sequence[Trigger]) -> Mapping[str, StoredCalendar]:
        """Return the stored calendars that triggers need."""
        names = {trigger.calendar for trigger in triggers if trigger.calendar is not None}
        if not names:
            return {}
        store = self._usable_store()
        calendars = store.calendars(names)
        for name in sorted(names):
            if name not in calendars:
                raise refusals.calendar_not_stored(name, store.names(NameKind.CALENDARS))
        return calendars

    def modify_job(self, key: JobRef, **changes: Unpack[JobChanges]) -> JobDetail:
        """Change values of a stored job, named as in `JobDetail`; return the changed job.

        Its triggers and its other values do not change, even if another program changes them at the same time.

        Raises:
            JobNotFoundError: it is not stored.
            InvalidJobError: a value is wrong, or a name is not that of a value that can be changed.
            InvalidJobDataError: as for `add_job`, if `data` or `job` is changed.
            InvalidKeyError: `key` is neither a key nor a name.
        """
        key = checked_key(key, JobKey)

        def change(stored: JobDetail) -> JobDetail:
            changed = stored.with_values(changes)
            self._check_data(changed)
            # Stored data that the current class no longer accepts must not prevent a change of other values.
            if not changes.keys().isdisjoint(("data", "job")):
                self._check_typed_data(changed)
            if not changes.keys().isdisjoint(("data", "continuations")):
                refuse_internal_job(changed)
            return changed

        changed = self._usable_store().modify_job(key, change, keeps_data="data" not in changes)
        if changed is None:
            raise self._no_job(key)
        # A limit that was raised, for example, lets triggers fire earlier than this node expects.
        self._changed(EARLIEST)
        self._emit(JobAdded(changed))
        return changed

    @argument_hints(RESCHEDULING_ARGUMENTS)
    def reschedule_job(self, key: TriggerRef, trigger: TriggerLike) -> datetime:
        """Replace a stored trigger with a new one of the same job; return the new trigger's first fire time.

        The trigger takes the forms that `schedule_job` accepts. A trigger without a name takes the old one's key.

        Raises:
            TriggerNotFoundError: no trigger is stored under `key`; nothing is changed.
            InvalidKeyError: `key` is neither a key nor a name.
            Others as for `schedule_job`.
        """
        key = checked_key(key, TriggerKey)
        new = as_trigger(trigger)
        old = self._usable_store().triggers([key]).get(key)
        if old is None:
            raise self._no_trigger(key)
        if new.name is None:
            new = replace_in(new, name=key.name, group=key.group)
        self._check_data(new)
        refuse_internal_job(new)
        new = replace_in(new, job_key=old.job_key)
        start = self._usable_store().now() if new.start_time is None else new.start_time
        prepared = _unprepared(new, self._calendars_of([new])).prepared(start)
        earliest = self._usable_store().replace_trigger(key, prepared)
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
        if self._delete_jobs([key]):
            return True
        if missing_ok:
            return False
        raise self._no_job(key)

    def _delete_jobs(self, keys: Collection[JobKey]) -> set[JobKey]:
        removed = self._usable_store().delete_jobs(keys)
        for key in sorted(removed):
            for trigger in sorted(removed[key]):
                self._emit(JobUnscheduled(trigger))
            self._emit(JobDeleted(key))
        return set(removed)

    def add_calendar(
        self, name: str, calendar: Calendar, *, replace: bool = False, update_triggers: bool = False
    ) -> None:
        """Store a calendar that triggers can refer to. Storing the same calendar again changes nothing.

        With `replace`, the calendar replaces one that is stored under the same name: triggers that use it keep their
        current next fire time, and follow the new calendar after that. With `update_triggers`, their next fire times
        are recomputed as well; paused, blocked and failed triggers keep their state. A trigger for which the new
        calendar leaves no fire time becomes COMPLETE, like a trigger whose schedule has ended: it remains stored with
        its job, listeners receive `TriggerFinalized`, and it fires again only after it has been rescheduled.

        Raises:
            ObjectAlreadyExistsError: a different calendar is stored under the name, and `replace` is false.
            InvalidCalendarError: `calendar` is not a calendar, or cannot be stored.
            ScheduleTooCostlyError: the next fire times of the triggers that use it take too many steps.
        """
        check_name(name, "calendar name")
        dependants = self._dependants()
        if replace and not self._is_stored(name, calendar):
            dependants.check(self._usable_store(), {name: calendar})
        self._put_calendar(name, calendar, dependants if update_triggers else None, replace=replace)
        if replace or update_triggers:
            self._changed(EARLIEST)

    def _dependants(self) -> Dependants:
        return Dependants(self._config.misfire_threshold)

    def _put_calendar(self, name: str, calendar: Calendar, dependants: Dependants | None, *, replace: bool) -> None:
        """Store a calendar, which the dependants follow at once; None: after their next fires."""
        if not self._is_stored(name, calendar):
            self._usable_store().put_calendar(name, calendar, replace=replace)
        if dependants is not None:
            self._update_triggers(name, dependants)

    def _is_stored(self, name: str, calendar: Calendar) -> bool:
        stored = self._readable_calendar(name)
        return stored is not None and stored == calendar

    def _readable_calendar(self, name: str) -> Calendar | None:
        """Return a calendar, or None if it is not stored, or cannot be read in this process."""
        try:
            stored = self._usable_store().calendars([name]).get(name)
        except InvalidValueError:
            # The caller must be able to replace it.
            return None
        return None if stored is None else stored.calendar

    def _update_triggers(self, name: str, dependants: Dependants) -> None:
        """Recompute the next fire times of the triggers that use a calendar."""
        store = self._usable_store()
        # A trigger that fires in the meantime is read again.
        for _ in range(_UPDATE_TRIES):
            stored = store.calendars([name]).get(name)
            if stored is None:
                return
            moves = dependants.moves(store, name, stored)
            moved = store.move_triggers(moves)
            for move in moves:
                if move.to.trigger.key in moved and move.to.progress.next_fire_time is None:
                    self._emit(TriggerFinalized(move.to.trigger.key))
            if len(moved) == len(moves):
                return

    def delete_calendar(self, name: str, *, missing_ok: bool = False) -> bool:
        """Remove a calendar. Return True if it was stored; False is possible only with `missing_ok`.

        Raises:
            CalendarNotFoundError: no calendar is stored under the name, and `missing_ok` is false.
            CalendarInUseError: triggers use it.
        """
        was_stored = self._usable_store().delete_calendar(check_name(name, "calendar name"))
        if not was_stored and not missing_ok:
            near = difflib.get_close_matches(name, self.calendar_names(), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise CalendarNotFoundError(f"calendar {quoted(name)} is not stored{hint}")
        return was_stored

    def get_calendar(self, name: str) -> Calendar | None:
        """Return the calendar that is stored under the name, or None if there is none."""
        check_name(name, "calendar name")
        stored = self._usable_store().calendars([name]).get(name)
        return None if stored is None else stored.calendar

    def calendar_names(self) -> list[str]:
        """Return the names of all stored calendars, sorted."""
        return self._usable_store().names(NameKind.CALENDARS)

    # --- limits that jobs share

    def set_limit(self, name: str, limit: Limit | int | str) -> None:
        """Set a limit that jobs share by its name (`JobDetail.limits`), in the whole cluster.

        It is a number of concurrent executions (5), a rate of fires ("10/minute"), or both ("5, 10/minute"). It holds
        at once, also where it replaces another one: what runs goes on, and what waits is decided anew.

        Raises:
            InvalidLimitError: the name or the limit is wrong.
        """
        self._usable_store().put_limit(checked_limit_name(name), Limit.of(limit))
        # It may be more than before.
        self._changed(EARLIEST)

    def delete_limit(self, name: str, *, missing_ok: bool = False) -> bool:
        """Remove a limit. Return True if it was stored; False is possible only with `missing_ok`.

        Raises:
            LimitNotFoundError: no limit is stored under the name, and `missing_ok` is false.
            LimitInUseError: jobs share it.
        """
        was_stored = self._usable_store().delete_limit(checked_limit_name(name))
        if not was_stored and not missing_ok:
            raise refusals.limit_not_stored(name, list(self._usable_store().limits()))
        return was_stored

    def limits(self) -> dict[str, LimitRecord]:
        """Return the limits that jobs share, by their names, with the jobs that use them now."""
        return self._usable_store().limits()

    # --- declarations

    def sync(
        self,
        definitions: Iterable[tuple[JobLike, Trigger | str | timedelta | datetime | Iterable[Any] | None]],
        *,
        owner: str,
        calendars: Mapping[str, Calendar] | None = None,
        windows: Sequence[MaintenanceWindow] | None = None,
        prune: bool = False,
        existing: str = Existing.UPDATE,
        version: int | float | str | None = None,
        apply: bool = True,
        announce: Callable[[SyncPlan], None] | None = None,
    ) -> SyncPlan:
        """Make the store match the declared jobs and calendars, all or nothing; return the plan.

        `calendars` are the declared calendars by name, and `windows` the maintenance windows; None leaves those
        alone. A declared window that is over is none. `apply=False` is a dry run, which
        raises the same errors.

        A trigger whose schedule did not change keeps its fire times, its misfires and its pause, even if other values
        of it or its job changed; one that has ended stays COMPLETE and does not fire again. If a calendar changes, the
        next fire times of the triggers that use it are recomputed. With `prune`, jobs, triggers and calendars that the
        same `owner` declared before and no longer declares are removed; those of other owners, and those that were
        stored directly, never are. With `existing="keep"`, what is stored already does not change: the first
        registration wins. Any number of nodes may call it at the same time.

        `version` is the version of the program: a number, or a text such as "2.10.1". It is stored with the owner; a
        program of an older version changes nothing, and the plan reports that (`SyncPlan.outdated_by`).

        `announce` is called with the plan before it is applied; without it the plan is logged.

        Raises:
            InvalidTriggerError: a key is declared twice. Others as in `schedule_job`; nothing is changed then.
            InvalidCalendarError: a calendar cannot be stored.
            CalendarNotFoundError: a declared trigger uses a calendar that is neither declared nor stored.
            JobNotFoundError: a job continues with, or runs after, one that is neither declared nor stored.
            ScheduleTooCostlyError: the first fire times of a trigger, or the next ones of those that use a changed
                calendar, take too many steps.
            CalendarInUseError: with `prune`, a calendar is no longer declared, but a trigger that stays uses it.
            InvalidValueError: `existing` is neither "update" nor "keep", or `version` is not a version.
        """
        check_name(owner, "owner")
        treatment = Existing.of(existing)
        own_version = version_text(version)
        pairs = definitions.items() if isinstance(definitions, Mapping) else definitions
        declared: Definitions = self._bound_pairs(_as_pairs(pairs), again="sync")
        check_definitions(declared)
        # All pairs are checked: an unchanged trigger may lack data that its job no longer provides.
        self._check_pairs(declared)
        named = {check_name(name, "calendar name"): calendar for name, calendar in (calendars or {}).items()}
        events: list[Event] = []

        def work(store: JobStore) -> SyncPlan:
            inside = self._inside(store)
            events.clear()
            stored = inside._stored_of(declared, named, owner, windows)
            if own_version is not None and stored.version is not None and outdated(own_version, stored.version):
                logger.warning(
                    "sync of owner %s: version %s changes nothing, for version %s has declared its jobs",
                    *(owner, own_version, stored.version),
                )
                return SyncPlan((), 0, (), outdated_by=stored.version)
            changes = plan(declared, stored, calendars=named, windows=windows, prune=prune, existing=treatment)
            inside._check_calendars(changes, named)
            check_continuations(store, changes, [job for job, _ in declared])
            if not apply:
                # The store refuses now what it would refuse then.
                inside._carry_out(changes, owner, None, dependants)
                raise RehearsedError(changes)
            if announce is not None:
                announce(changes)
            elif changes:
                logger.info("sync of owner %s: %s", owner, "; ".join(str(changes).splitlines()))
            new_version = own_version if own_version != stored.version else None
            events.extend(inside._carry_out(changes, owner, new_version, dependants))
            return changes

        present = self._usable_store()
        check_cost(present, [trigger for _, triggers in declared for trigger in triggers], self._clock.now(), named)
        dependants = self._dependants()
        if treatment is Existing.UPDATE:
            replaced = {name: each for name, each in named.items() if not self._is_stored(name, each)}
            dependants.check(present, replaced)
        try:
            done = present.together(work, exclusively=True)
        except RehearsedError as rehearsed:
            return rehearsed.plan
        if apply and done:
            self._changed(EARLIEST)
            self._emit_stored(done.store)
            for event in events:
                self._emit(event)
        return done

    def _stored_of(
        self,
        declared: Definitions,
        calendars: Mapping[str, Calendar],
        owner: str,
        declared_windows: Sequence[MaintenanceWindow] | None,
    ) -> Stored:
        store = self._usable_store()
        jobs = store.jobs([job.key for job, _ in declared])
        records = store.triggers([trigger.key for _, triggers in declared for trigger in triggers])
        owned = store.owned(owner)
        names = set(store.names(NameKind.CALENDARS)) if calendars else set()
        stored_calendars = {name: self._readable_calendar(name) for name in calendars if name in names}
        windows = [] if declared_windows is None else store.windows()
        over = set()
        if declared_windows:
            now = store.now()
            over = {window.name for window in declared_windows if window.next_span(now) is None}
        return Stored(
            jobs,
            records,
            owned.jobs,
            owned.triggers,
            stored_calendars,
            owned.calendars,
            {record.window.name: record.window for record in windows},
            frozenset(record.window.name for record in windows if record.changed_by == _as_changer(owner)),
            frozenset(over),
            owned.version,
        )

    def _check_calendars(self, changes: SyncPlan, declared: Mapping[str, Calendar]) -> None:
        """Check that the triggers of the plan find their calendars, and that no trigger needs one that is removed.

        Raises:
            CalendarNotFoundError, CalendarInUseError: as `sync`.
        """
        store = self._usable_store()
        removed = changes.keys("-", "calendar")
        used = [trigger for _, triggers in changes.store for trigger in triggers if trigger.calendar is not None]
        missing = {trigger.calendar for trigger in used} - declared.keys()
        names = declared.keys() | set(store.names(NameKind.CALENDARS)) if missing else set()
        missing -= names
        for trigger in used:
            if trigger.calendar in missing:
                near = difflib.get_close_matches(trigger.calendar or "", names, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise CalendarNotFoundError(
                    f"trigger {trigger.key}: its calendar {quoted(trigger.calendar)} is neither declared nor stored"
                    f"{hint}"
                )
        if removed:
            changed = {trigger.key: trigger.calendar for _, triggers in changes.store for trigger in triggers}
            jobs, triggers = set(changes.keys("-", "job")), set(changes.keys("-", "trigger"))
            for name in removed:
                for record in store.find(TriggerQuery(calendar=name), None):
                    stays = record.job_key not in jobs and record.key not in triggers
                    if stays and changed.get(record.key, name) == name:
                        raise CalendarInUseError(
                            f"calendar {quoted(name)} is no longer declared, but trigger {record.key} uses it; declare"
                            " the calendar, give the trigger another, or delete the trigger"
                        )

    def _carry_out(self, changes: SyncPlan, owner: str, version: str | None, dependants: Dependants) -> list[Event]:
        """Apply the plan; return the events that tell listeners of removed jobs and triggers."""
        store = self._usable_store()
        for change in changes.changes:
            if change.kind == "calendar" and (change.sign == "+" or change.differences):
                # A trigger may only be stored after its calendar.
                name, calendar = str(change.key), changes.calendars[str(change.key)]
                self._put_calendar(name, calendar, dependants if change.sign == "~" else None, replace=True)
        # Steps that the store may refuse come first.
        if changes.store:
            self._store_pairs(changes.store, replace=True, keep_data=changes.keep_data)
        if changes.store or changes.calendars or version is not None:
            store.own(
                owner,
                [job.key for job, _ in changes.store if job is not None],
                [trigger.key for _, triggers in changes.store for trigger in triggers],
                calendars=list(changes.calendars),
                version=version,
            )
        events: list[Event] = []
        removed_triggers = changes.keys("-", "trigger")
        if removed_triggers:
            events += [JobUnscheduled(key) for key in sorted(store.delete_triggers(removed_triggers))]
        jobs = changes.keys("-", "job")
        removed = store.delete_jobs(jobs) if jobs else {}
        for key in jobs:
            events += [JobUnscheduled(trigger) for trigger in sorted(removed.get(key, ()))]
            events.append(JobDeleted(key))
        for name in changes.keys("-", "calendar"):
            store.delete_calendar(name)
        for name, window in changes.windows.items():
            store.set_window(name, window, by=_as_changer(owner))
        for name in changes.keys("-", "window"):
            store.set_window(name, None)
        return events


def _as_changer(owner: str) -> str:
    """Return the name under which an owner changes maintenance windows, of which it owns those it changed last."""
    return f"owner {owner}"[:200]


def refuse_internal_job(of: JobDetail | Trigger) -> None:
    """Check that what a program stores has no entry of the scheduler itself.

    Raises:
        InvalidJobDataError: it has one.
    """
    if isinstance(of, JobDetail):
        refuse_internal(of.data, f"job {of.key}: data")
        for link in of.continuations:
            refuse_internal(link.data, f"job {of.key}: data of the continuation {link.key}")
    else:
        refuse_internal(of.data, f"trigger {of.label}: data")


def _unprepared(trigger: Trigger, calendars: Mapping[str, StoredCalendar]) -> UnpreparedTrigger:
    """Return a trigger that will be prepared with the calendar that it needs."""
    if trigger.calendar is None:
        return UnpreparedTrigger(trigger, prepare)
    stored = calendars[trigger.calendar]
    return UnpreparedTrigger(trigger, partial(prepare, calendar=stored.calendar, calendar_revision=stored.revision))


def names_in(batch: Batch | None) -> Iterator[str] | None:
    """Return the names of the triggers of a batch that have none; None if there is no batch."""
    return None if batch is None else (f"{batch.name}-{number}" for number in count(1))


def _batched(pairs: Pairs, batch: Batch, *, replace: bool) -> tuple[Pairs, BatchEntry]:
    """Return jobs with triggers whose data names the batch, and the batch."""
    if not isinstance(batch, Batch):
        raise InvalidJobError(f'batch: a Batch is needed, as Batch(then="report") (got {quoted(batch)})')
    if replace:
        raise InvalidJobError("batch: replace=True is not possible, because triggers that are replaced may have ended")
    key = BatchKey(batch.job, batch.name)
    entry = batch_entry(key)
    total = 0
    several: list[tuple[JobDetail | None, Sequence[Trigger]]] = []
    for job, triggers in pairs:
        for trigger in triggers:
            if not isinstance(trigger, SimpleTrigger) or trigger.repeat_count != 0:
                raise InvalidTriggerError(f"trigger {trigger.label}: a trigger of a batch must fire exactly once")
        total += len(triggers)
        several.append((job, [replace_in(trigger, data={**(trigger.data or {}), **entry}) for trigger in triggers]))
    if not total:
        raise InvalidJobError("batch: it has no trigger, so that no end would start its job")
    return several, BatchEntry(key, total, batch.outcomes)


def _duplicate(things: Sequence[JobDetail | Trigger]) -> Key | None:
    """Return a key that several of these jobs or triggers have."""
    # Tuples, because there may be a million of them.
    if len({(thing.group, thing.name) for thing in things}) == len(things):
        return None
    return next(key for key, number in Counter(thing.key for thing in things).items() if number > 1)


def _as_pairs(definitions: Iterable[object]) -> Iterable[tuple[JobLike, object]]:
    for pair in definitions:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidTriggerError(f"definitions: pairs of a job and its triggers are needed (got {quoted(pair)})")
        yield pair[0], pair[1]
