"""Stores, replaces and removes jobs and triggers. All input is validated before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from quartzpy.errors import ObjectAlreadyExistsError
from quartzpy.instants import earliest
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.join import as_join
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store import refusals
from quartzpy.store.definition_differences import refuse_other_job, refuse_other_trigger
from quartzpy.store.memory.joins import abandon, decide_again
from quartzpy.store.memory.limits import require_limits
from quartzpy.store.memory.lookups import trigger_record
from quartzpy.store.memory.rows import JobRow, JoinRow, TriggerRow
from quartzpy.store.memory.tables import PauseTable, Tables
from quartzpy.store.protocol import BatchEntry, JobEntry
from quartzpy.store.records import Owned
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, schedule_hash


def store_jobs(
    tables: Tables,
    entries: Sequence[JobEntry],
    prepared: Sequence[PreparedTrigger],
    *,
    replace: bool,
    batch: BatchEntry | None = None,
) -> datetime | None:
    """Store jobs and triggers; see `JobStore.store_jobs`. `prepared` are the triggers of all entries."""
    jobs = [entry.job for entry in entries if entry.job is not None]
    keeping_data = {entry.job.key for entry in entries if entry.job is not None and entry.keeps_data}
    _check_jobs(tables, jobs, replace)
    _check_joins(tables, jobs)
    _check_triggers(tables, prepared, {job.key for job in jobs})
    if batch is not None:
        _check_batch(tables, batch, {job.key for job in jobs})
    if not replace:
        _check_same_triggers(tables, prepared)
    for job in jobs:
        if replace or job.key not in tables.jobs:
            _store_job(tables, job, keeps_data=job.key in keeping_data)
    if batch is not None:
        row = JoinRow(tables.now(), batch.total, tuple(batch.outcomes))
        tables.joins[batch.key.job, batch.key.name] = row
    for declared in prepared:
        if replace or declared.trigger.key not in tables.triggers:
            _store_trigger(tables, declared)
    return _soonest(tables, prepared)


def _check_jobs(tables: Tables, jobs: Sequence[JobDetail], replace: bool) -> None:
    checked: set[JobKey] = set()
    for job in jobs:
        if not replace and job.key in checked:
            raise ObjectAlreadyExistsError(f"job {job.key} is given twice")
        if not replace and job.key in tables.jobs:
            refuse_other_job(job, tables.jobs[job.key].load())
        checked.add(job.key)
        require_limits(tables, job)


def _check_joins(tables: Tables, jobs: Sequence[JobDetail]) -> None:
    keys = {job.key for job in jobs}
    for upstream in sorted({upstream for job in jobs if job.after is not None for upstream in as_join(job.after).keys}):
        if upstream not in tables.jobs and upstream not in keys:
            raise refusals.joined_job_not_stored(upstream)
    joins = {key: row.after.keys for key, row in tables.joining.items() if row.after is not None}
    joins |= {job.key: () if job.after is None else as_join(job.after).keys for job in jobs}
    for key in sorted(keys):
        for through in joins[key]:
            if key in _all_before(joins, through):
                raise refusals.join_in_circle(key, through)


def _all_before(joins: Mapping[JobKey, Sequence[JobKey]], key: JobKey) -> set[JobKey]:
    """Return the jobs after which one runs, directly or through others."""
    before: set[JobKey] = set()
    front = [key]
    while front:
        new = set(joins.get(front.pop(), ())) - before
        before |= new
        front += new
    return before


def _check_batch(tables: Tables, batch: BatchEntry, new_jobs: Collection[JobKey]) -> None:
    if batch.key.job not in tables.jobs and batch.key.job not in new_jobs:
        raise refusals.job_of_batch_not_stored(batch.key)
    if (batch.key.job, batch.key.name) in tables.joins:
        raise refusals.batch_exists(batch.key)


def _check_triggers(
    tables: Tables,
    prepared: Sequence[PreparedTrigger],
    new_jobs: Collection[JobKey],
) -> None:
    for trigger in (declared.trigger for declared in prepared):
        if trigger.calendar is not None and trigger.calendar not in tables.calendars:
            raise refusals.calendar_not_stored(trigger.calendar)
        if trigger.job_key not in tables.jobs and trigger.job_key not in new_jobs:
            raise refusals.job_of_trigger_not_stored(trigger.key, trigger.job_key)


def _check_same_triggers(tables: Tables, prepared: Sequence[PreparedTrigger]) -> None:
    for declared in prepared:
        row = tables.triggers.get(declared.trigger.key)
        if row is not None:
            refuse_other_trigger(declared, trigger_record(tables, row))


def _store_job(tables: Tables, detail: JobDetail, *, keeps_data: bool, keeps_persisted: bool = True) -> None:
    row = tables.jobs.get(detail.key)
    if row is None:
        row = tables.jobs[detail.key] = JobRow(detail)
        if row.after is not None:
            tables.joining[row.key] = row
        return
    data, persisted = row.data, row.detail.persist_data
    tables.redefine(row, detail)
    tables.joining.pop(row.key, None)
    if row.after is not None:
        tables.joining[row.key] = row
    if keeps_data or (keeps_persisted and persisted and row.detail.persist_data):
        row.data = data
    decide_again(tables, row)


def modify_job(
    tables: Tables, key: JobKey, change: Callable[[JobDetail], JobDetail], *, keeps_data: bool
) -> JobDetail | None:
    """Change a stored job; see `JobStore.modify_job`."""
    row = tables.jobs.get(key)
    if row is None:
        return None
    job = change(row.load())
    require_limits(tables, job)
    _check_joins(tables, [job])
    _store_job(tables, job, keeps_data=keeps_data, keeps_persisted=False)
    return job


def _store_trigger(tables: Tables, prepared: PreparedTrigger) -> None:
    trigger = prepared.trigger
    assert trigger.job_key is not None
    job = tables.jobs[trigger.job_key]
    old = tables.triggers.get(trigger.key)
    if old is not None and old.job is job and _has_same_schedule(old, prepared):
        tables.redefine_trigger(old, trigger)
        old.schedule_hash = prepared.schedule_hash
        old.owner = None
        return
    if old is not None:
        tables.remove_trigger(old)
    # Fire times computed from a calendar that was replaced in the meantime are discarded, to be computed again.
    revision = None if trigger.calendar is None else tables.calendars[trigger.calendar].revision
    horizon = prepared.upcoming if prepared.calendar_revision == revision else UpcomingFireTimes()
    row = TriggerRow(trigger, job, tables.next_number(), prepared.progress, horizon, prepared.schedule_hash)
    tables.add_trigger(row, tables.state_of_new(row))


def _has_same_schedule(row: TriggerRow, prepared: PreparedTrigger) -> bool:
    """Return True if a stored trigger has the schedule of `prepared`, either as declared or as it is now."""
    if row.schedule_hash is not None and row.schedule_hash == prepared.schedule_hash:
        return True
    return schedule_hash(row.bare) == schedule_hash(prepared.trigger)


def _soonest(tables: Tables, prepared: Sequence[PreparedTrigger]) -> datetime | None:
    times = (tables.triggers[declared.trigger.key].progress.next_fire_time for declared in prepared)
    return earliest(*times)


def replace_trigger(tables: Tables, old: TriggerKey, new: PreparedTrigger) -> datetime | None:
    """Replace `old` by `new`; see `JobStore.replace_trigger`."""
    row = tables.triggers.get(old)
    if row is None:
        return None
    _check_triggers(tables, [new], ())
    if new.trigger.key != old:
        _check_same_triggers(tables, [new])
    tables.remove_trigger(row)
    if new.trigger.key not in tables.triggers:
        _store_trigger(tables, new)
    return _soonest(tables, [new])


def delete_triggers(tables: Tables, keys: Collection[TriggerKey]) -> set[TriggerKey]:
    """Remove triggers; see `JobStore.delete_triggers`."""
    there = [tables.triggers[key] for key in set(keys) if key in tables.triggers]
    for row in there:
        tables.remove_trigger(row)
    tables.drop_orphans([row.job.key for row in there])
    return {row.key for row in there}


def delete_jobs(tables: Tables, keys: Collection[JobKey]) -> dict[JobKey, set[TriggerKey]]:
    """Remove jobs with their triggers; see `JobStore.delete_jobs`."""
    there = {key: set(tables.jobs[key].triggers) for key in keys if key in tables.jobs}
    for key in there:
        for row in list(tables.jobs[key].triggers.values()):
            tables.remove_trigger(row)
        del tables.jobs[key]
        tables.joining.pop(key, None)
        abandon(tables, key)
    return there


def clear(tables: Tables) -> None:
    """Remove everything; see `JobStore.clear`."""
    delete_jobs(tables, list(tables.jobs))
    tables.joins.clear()
    tables.calendars.clear()
    tables.calendar_owners.clear()
    tables.pauses = PauseTable()
    tables.windows.clear()
    tables.versions.clear()


def owned(tables: Tables, owner: str) -> Owned:
    """Return the jobs, triggers and calendars of an owner; see `JobStore.owned`."""
    return Owned(
        frozenset(key for key, row in tables.jobs.items() if row.owner == owner),
        frozenset(key for key, row in tables.triggers.items() if row.owner == owner),
        frozenset(name for name, of_calendar in tables.calendar_owners.items() if of_calendar == owner),
        tables.versions.get(owner),
    )


def own(
    tables: Tables,
    owner: str,
    jobs: Collection[JobKey],
    triggers: Collection[TriggerKey],
    *,
    calendars: Collection[str] = (),
    version: str | None = None,
) -> None:
    """Record the owner; see `JobStore.own`."""
    if version is not None:
        tables.versions[owner] = version
    for job_key in jobs:
        tables.jobs[job_key].owner = owner
    for trigger_key in triggers:
        tables.triggers[trigger_key].owner = owner
    tables.calendar_owners.update(dict.fromkeys(calendars, owner))
