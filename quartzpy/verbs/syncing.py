"""The verb that brings the store into line with the jobs that a program declares."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from quartzpy.definitions import JobForm
from quartzpy.errors import InvalidTriggerError
from quartzpy.events import Event, JobDeleted, JobUnscheduled
from quartzpy.keys import JobKey, TriggerKey, check_name
from quartzpy.store.protocol import JobStore
from quartzpy.sync import Definitions, Existing, Stored, SyncPlan, check_definitions, outdated, plan, version_text
from quartzpy.triggers.trigger import Trigger
from quartzpy.verbs.storing import StoringVerbs

logger = logging.getLogger(__name__)


class SyncVerbs(StoringVerbs):
    """Declaration of a program's jobs as a whole."""

    def sync(
        self,
        definitions: Iterable[tuple[JobForm, Trigger | str | timedelta | datetime | Iterable[Any] | None]],
        *,
        owner: str,
        prune: bool = False,
        existing: str = Existing.UPDATE,
        version: int | float | str | None = None,
        apply: bool = True,
        announce: Callable[[SyncPlan], None] | None = None,
    ) -> SyncPlan:
        """Make the store match the declared jobs, all or nothing; return the plan. `apply=False` is a dry run.

        A trigger whose schedule did not change keeps its fire times, its misfires and its pause, even if other values
        of it or its job changed; one that has ended stays COMPLETE and does not fire again. With `prune`, jobs and
        triggers that the same `owner` declared before and no longer declares are removed; those of other owners, and
        those that were scheduled directly, never are. With `existing="keep"`, jobs and triggers that are stored already
        do not change: the first registration wins. Any number of nodes may call it at the same time.

        `version` is the version of the program: a number, or a text such as "2.10.1". It is stored with the owner; a
        program of an older version changes nothing, and the plan reports that (`SyncPlan.outdated_by`).

        `announce` is called with the plan before it is applied; without it the plan is logged.

        Raises:
            InvalidTriggerError: a key is declared twice. Others as in `schedule_job`; nothing is changed then.
            InvalidValueError: `existing` is neither "update" nor "keep", or `version` is not a version.
        """
        check_name(owner, "owner")
        treatment = Existing.of(existing)
        own_version = version_text(version)
        pairs = definitions.items() if isinstance(definitions, Mapping) else definitions
        declared: Definitions = self._bound_pairs(_as_pairs(pairs))
        check_definitions(declared)
        # All pairs are checked: an unchanged trigger may lack data that its job no longer provides.
        self._check_pairs(declared)
        events: list[Event] = []

        def work(store: JobStore) -> SyncPlan:
            inside = cast(SyncVerbs, self._inside(store))
            events.clear()
            stored = inside._stored_of(declared, owner)
            if own_version is not None and stored.version is not None and outdated(own_version, stored.version):
                logger.warning(
                    "sync of owner %s: version %s changes nothing, for version %s has declared its jobs",
                    *(owner, own_version, stored.version),
                )
                return SyncPlan((), 0, (), outdated_by=stored.version)
            found = plan(declared, stored, prune=prune, existing=treatment)
            if not apply:
                return found
            if announce is not None:
                announce(found)
            elif found:
                logger.info("sync of owner %s: %s", owner, "; ".join(str(found).splitlines()))
            events.extend(inside._carry_out(found, owner, own_version if own_version != stored.version else None))
            return found

        done = self._usable_store().exclusively(work)
        if apply and done:
            self._changed(self._clock.now())
            self._emit_stored(done.store)
            for event in events:
                self._emit(event)
        return done

    def _stored_of(self, declared: Definitions, owner: str) -> Stored:
        store = self._usable_store()
        jobs = store.jobs([job.key for job, _ in declared])
        records = store.triggers([trigger.key for _, triggers in declared for trigger in triggers])
        owned = store.owned(owner)
        return Stored(jobs, records, frozenset(owned.jobs), frozenset(owned.triggers), owned.version)

    def _carry_out(self, found: SyncPlan, owner: str, version: str | None) -> list[Event]:
        """Apply the plan; return the events that tell listeners of removed jobs and triggers."""
        store = self._usable_store()
        # Steps that the store may refuse come first.
        if found.store:
            self._store_pairs(found.store, replace=True, keep_data=found.keep_data)
        if found.store or version is not None:
            store.own(
                owner,
                [job.key for job, _ in found.store if job is not None],
                [trigger.key for _, triggers in found.store for trigger in triggers],
                version=version,
            )
        events: list[Event] = []
        removed_triggers = [key for key in found.keys("-", "trigger") if isinstance(key, TriggerKey)]
        if removed_triggers:
            events += [JobUnscheduled(key) for key in sorted(store.delete_triggers(removed_triggers))]
        jobs = [key for key in found.keys("-", "job") if isinstance(key, JobKey)]
        removed = store.delete_jobs(jobs) if jobs else {}
        for key in jobs:
            events += [JobUnscheduled(trigger) for trigger in sorted(removed.get(key, ()))]
            events.append(JobDeleted(key))
        return events


def _as_pairs(definitions: Iterable[object]) -> Iterable[tuple[JobForm, object]]:
    for one in definitions:
        if not isinstance(one, tuple | list) or len(one) != 2:
            raise InvalidTriggerError(f"definitions: pairs of a job and its triggers are needed (got {one!r})")
        yield one[0], one[1]
