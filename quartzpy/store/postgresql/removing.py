"""Removes jobs and triggers, with the claims on them."""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.postgresql.connection.session import SqlSession, Transaction
from quartzpy.store.postgresql.schema.rows import key_columns
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.postgresql.steps.orphans import orphans
from quartzpy.store.postgresql.steps.slots import pass_on_of

_SQL = SqlFile("removing.sql")
VOID_CLAIMS = _SQL("void_claims")
DELETE_TRIGGERS = _SQL("delete_triggers")
HOLD_JOBS = _SQL("hold_jobs")
DELETE_TRIGGERS_OF_JOBS = _SQL("delete_triggers_of_jobs")
DELETE_JOBS = _SQL("delete_jobs")
CLEAR = tuple(_SQL(f"clear_{rows}") for rows in ("triggers", "claims", "jobs", "calendars", "paused_groups", "owners"))


def delete_triggers(session: SqlSession, keys: Collection[TriggerKey]) -> set[TriggerKey]:
    """Remove triggers; see `JobStore.delete_triggers`."""
    values = key_columns(keys)

    def work(transaction: Transaction) -> set[TriggerKey]:
        went = transaction.execute(session.bind(DELETE_TRIGGERS, **values))[0].rows
        transaction.commit(
            session.bind(VOID_CLAIMS, **values),
            *orphans(session, {row[2:4] for row in went}),
            *pass_on_of(session, {row[2:4] for row in went if row[4]}),
        )
        return {TriggerKey(name, group) for group, name, *_ in went}

    return session.transaction(work) if keys else set()


def delete_jobs(session: SqlSession, keys: Collection[JobKey]) -> dict[JobKey, set[TriggerKey]]:
    """Remove jobs with their triggers; see `JobStore.delete_jobs`."""
    values = key_columns(keys)
    _, triggers, went = session.unlocked(
        session.bind(HOLD_JOBS, **values),
        session.bind(DELETE_TRIGGERS_OF_JOBS, **values),
        session.bind(DELETE_JOBS, **values),
    )
    removed: dict[JobKey, set[TriggerKey]] = {JobKey(row[1], row[0]): set() for row in went.rows}
    for job_group, job_name, group, name in triggers.rows:
        removed[JobKey(job_name, job_group)].add(TriggerKey(name, group))
    return removed


def clear(session: SqlSession) -> None:
    """Remove everything; see `JobStore.clear`."""
    session.unlocked(*[session.bind(text) for text in CLEAR])
