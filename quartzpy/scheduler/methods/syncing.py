"""The verb that brings the store into line with the jobs and calendars that a program declares."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from quartzpy.calendars.calendar import Calendar
from quartzpy.errors import CalendarInUseError, CalendarNotFoundError, InvalidTriggerError
from quartzpy.events.events import Event, JobDeleted, JobUnscheduled
from quartzpy.keys import check_name
from quartzpy.scheduler.forms import JobForm
from quartzpy.scheduler.methods.queries import QueryMethods
from quartzpy.scheduler.methods.storing import StoringMethods
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
from quartzpy.store.protocol import JobStore, NameKind
from quartzpy.texts import quoted
from quartzpy.triggers.trigger import Trigger

logger = logging.getLogger(__name__)


class SyncMethods(StoringMethods, QueryMethods):
    """Declaration of a program's jobs and calendars as a whole."""

    def sync(
        self,
        definitions: Iterable[tuple[JobForm, Trigger | str | timedelta | datetime | Iterable[Any] | None]],
        *,
        owner: str,
        calendars: Mapping[str, Calendar] | None = None,
        prune: bool = False,
        existing: str = Existing.UPDATE,
        version: int | float | str | None = None,
        apply: bool = True,
        announce: Callable[[SyncPlan], None] | None = None,
    ) -> SyncPlan:
        """Make the store match the declared jobs and calendars, all or nothing; return the plan.

        `calendars` are the declared calendars by name. `apply=False` is a dry run.

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
            inside = cast(SyncMethods, self._inside(store))
            events.clear()
            stored = inside._stored_of(declared, named, owner)
            if own_version is not None and stored.version is not None and outdated(own_version, stored.version):
                logger.warning(
                    "sync of owner %s: version %s changes nothing, for version %s has declared its jobs",
                    *(owner, own_version, stored.version),
                )
                return SyncPlan((), 0, (), outdated_by=stored.version)
            found = plan(declared, stored, calendars=named, prune=prune, existing=treatment)
            inside._check_calendars(found, named)
            if not apply:
                return found
            if announce is not None:
                announce(found)
            elif found:
                logger.info("sync of owner %s: %s", owner, "; ".join(str(found).splitlines()))
            events.extend(inside._carry_out(found, owner, own_version if own_version != stored.version else None))
            return found

        done = self._usable_store().together(work, exclusively=True)
        if apply and done:
            self._changed(self._clock.now())
            self._emit_stored(done.store)
            for event in events:
                self._emit(event)
        return done

    def _stored_of(self, declared: Definitions, calendars: Mapping[str, Calendar], owner: str) -> Stored:
        store = self._usable_store()
        jobs = store.jobs([job.key for job, _ in declared])
        records = store.triggers([trigger.key for _, triggers in declared for trigger in triggers])
        owned = store.owned(owner)
        known = set(store.names(NameKind.CALENDARS)) if calendars else set()
        found = {name: self._readable_calendar(name) for name in calendars if name in known}
        return Stored(jobs, records, owned.jobs, owned.triggers, found, owned.calendars, owned.version)

    def _check_calendars(self, found: SyncPlan, declared: Mapping[str, Calendar]) -> None:
        """Check that the triggers of the plan find their calendars, and that no trigger needs one that is removed.

        Raises:
            CalendarNotFoundError, CalendarInUseError: as `sync`.
        """
        store = self._usable_store()
        removed = found.keys("-", "calendar")
        used = [trigger for _, triggers in found.store for trigger in triggers if trigger.calendar is not None]
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
            changed = {trigger.key: trigger.calendar for _, triggers in found.store for trigger in triggers}
            jobs, triggers = set(found.keys("-", "job")), set(found.keys("-", "trigger"))
            for name in removed:
                for record in self.triggers(calendar=name):
                    stays = record.job_key not in jobs and record.key not in triggers
                    if stays and changed.get(record.key, name) == name:
                        raise CalendarInUseError(
                            f"calendar {quoted(name)} is no longer declared, but trigger {record.key} uses it; declare"
                            " the calendar, give the trigger another, or delete the trigger"
                        )

    def _carry_out(self, found: SyncPlan, owner: str, version: str | None) -> list[Event]:
        """Apply the plan; return the events that tell listeners of removed jobs and triggers."""
        store = self._usable_store()
        for change in found.changes:
            if change.kind == "calendar" and (change.sign == "+" or change.differences):
                # A trigger may only be stored after its calendar.
                name, calendar = str(change.key), found.calendars[str(change.key)]
                self.add_calendar(name, calendar, replace=True, update_triggers=change.sign == "~")
        # Steps that the store may refuse come first.
        if found.store:
            self._store_pairs(found.store, replace=True, keep_data=found.keep_data)
        if found.store or found.calendars or version is not None:
            store.own(
                owner,
                [job.key for job, _ in found.store if job is not None],
                [trigger.key for _, triggers in found.store for trigger in triggers],
                calendars=list(found.calendars),
                version=version,
            )
        events: list[Event] = []
        removed_triggers = found.keys("-", "trigger")
        if removed_triggers:
            events += [JobUnscheduled(key) for key in sorted(store.delete_triggers(removed_triggers))]
        jobs = found.keys("-", "job")
        removed = store.delete_jobs(jobs) if jobs else {}
        for key in jobs:
            events += [JobUnscheduled(trigger) for trigger in sorted(removed.get(key, ()))]
            events.append(JobDeleted(key))
        for name in found.keys("-", "calendar"):
            store.delete_calendar(name)
        return events


def _as_pairs(definitions: Iterable[object]) -> Iterable[tuple[JobForm, object]]:
    for one in definitions:
        if not isinstance(one, tuple | list) or len(one) != 2:
            raise InvalidTriggerError(f"definitions: pairs of a job and its triggers are needed (got {one!r})")
        yield one[0], one[1]
