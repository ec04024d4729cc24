"""Removes jobs and triggers. Very many of them are removed in slices; see `slices`."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.postgresql import slices
from quartzpy.store.postgresql.connection.pipeline import BoundStatement, Result
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction
from quartzpy.store.postgresql.left_batches import leave, leave_of_jobs, leave_slice
from quartzpy.store.postgresql.redefined_joins import abandon
from quartzpy.store.postgresql.schema.rows import key_columns
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.orphans import orphans

_SQL = SqlFile("removing.sql")
DELETE_TRIGGERS = _SQL("delete_triggers")
DELETE_SLICE = _SQL("delete_slice")
HOLD_JOBS = _SQL("hold_jobs")
DELETE_JOBS = _SQL("delete_jobs")
HOLD_UPSTREAMS = _SQL("hold_upstreams")
JOIN_JOBS = _SQL("join_jobs")
CLEAR = tuple(
    _SQL(f"clear_{rows}")
    for rows in ("triggers", "jobs", "upstreams", "joins", "calendars", "paused_groups", "windows", "owners")
)


def delete_triggers(session: SqlSession, keys: Collection[TriggerKey]) -> set[TriggerKey]:
    """Remove triggers; see `JobStore.delete_triggers`."""
    return set().union(*slices.in_parts(session, keys, partial(_delete_triggers, session), done="deleted"))


def _delete_triggers(session: SqlSession, keys: Collection[TriggerKey]) -> set[TriggerKey]:
    values = key_columns(keys)

    def work(transaction: Transaction) -> set[TriggerKey]:
        went = transaction.execute(leave(session, keys), session.bind(DELETE_TRIGGERS, **values))[1].rows
        transaction.commit(
            *orphans(session, {row[2:4] for row in went}),
        )
        return {TriggerKey(name, group) for group, name, *_ in went}

    return session.transaction(work)


def delete_jobs(session: SqlSession, keys: Collection[JobKey]) -> dict[JobKey, set[TriggerKey]]:
    """Remove jobs with their triggers; see `JobStore.delete_jobs`."""

    def delete(part: Sequence[JobKey]) -> dict[JobKey, set[TriggerKey]]:
        ahead = _delete_ahead(session, slices.Affected(("by_job",), key_columns(part)))
        return {key: triggers | ahead.get(key, set()) for key, triggers in _delete_jobs(session, part).items()}

    return dict(ChainMap(*slices.in_parts(session, keys, delete, done="deleted", what="jobs")))


def _delete_ahead(session: SqlSession, affected: slices.Affected) -> dict[JobKey, set[TriggerKey]]:
    """Remove triggers in slices until few are left, which are removed by one transaction together with all else."""
    removed: dict[JobKey, set[TriggerKey]] = {}
    if not session.decides_at_once or slices.are_few(session, affected):
        return removed

    def delete_slice(columns: dict[str, list[Any]]) -> BoundStatement:
        return session.bind(DELETE_SLICE, **columns)

    def note(result: Result, is_whole: bool) -> list[BoundStatement]:
        for _, job_group, job_name, group, name in result.rows:
            removed.setdefault(JobKey(job_name, job_group), set()).add(TriggerKey(name, group))
        return []

    slices.change(session, affected, delete_slice, note, ahead=partial(leave_slice, session), done="deleted")
    return removed


def _delete_jobs(session: SqlSession, keys: Collection[JobKey]) -> dict[JobKey, set[TriggerKey]]:
    values = key_columns(keys)
    _, _, _, triggers, went, *_ = session.unlocked(
        session.bind(HOLD_JOBS, **values),
        # Before their own triggers are counted: none of them is started by what is deleted with it.
        abandon(session, keys),
        leave_of_jobs(session, keys),
        session.bind(_SQL.delete_triggers_of_jobs, **values),
        session.bind(DELETE_JOBS, **values),
        *join_jobs(session, keys),
    )
    removed: dict[JobKey, set[TriggerKey]] = {JobKey(row[1], row[0]): set() for row in went.rows}
    for job_group, job_name, group, name in triggers.rows:
        removed[JobKey(job_name, job_group)].add(TriggerKey(name, group))
    return removed


def join_jobs(session: SqlSession, keys: Collection[JobKey]) -> list[BoundStatement]:
    """Return the statements that write what jobs wait for, after they were stored or deleted.

    The last one selects the groups and names of jobs that are waited for and are not stored.
    """
    return [session.bind(text, **key_columns(keys)) for text in (HOLD_UPSTREAMS, JOIN_JOBS)]


def clear(session: SqlSession) -> None:
    """Remove everything; see `JobStore.clear`."""
    _delete_ahead(session, slices.Affected((), {}))
    session.unlocked(*[session.bind(text) for text in CLEAR])
