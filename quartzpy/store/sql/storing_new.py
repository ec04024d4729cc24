"""Stores jobs and triggers whose keys are new, in one flight.

That is the ordinary case of a call that does not replace. Nothing is read before the commit, so the server checks what
`storing_jobs` and `storing_triggers` check between their flights. If a check fails, the transaction fails, and they
store everything instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import datetime, timedelta

import psycopg

from quartzpy.errors import JobStoreError
from quartzpy.jobs.job import JobDetail
from quartzpy.store.protocol import JobEntry
from quartzpy.store.sql.batches import CHUNK_BYTES, key_columns, size_of_job, size_of_trigger
from quartzpy.store.sql.db.clock_estimate import TOLERANCE
from quartzpy.store.sql.db.flight import Result
from quartzpy.store.sql.db.listen import DUE, announcement, news
from quartzpy.store.sql.db.locks import LOCK, LockName
from quartzpy.store.sql.db.session import SqlSession, Transaction
from quartzpy.store.sql.steps.settling import SETTLE_NEW
from quartzpy.store.sql.storing_jobs import STORE_NEW_JOBS, job_statement
from quartzpy.store.sql.storing_triggers import (
    AT_COLUMN,
    NOW_COLUMN,
    STORE_NEW_TRIGGERS,
    fire_times,
    order_of,
    trigger_statement,
)
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger

MOST = 100
"""The number of jobs or triggers up to which one flight is worth it; more take longer than a round trip anyway."""

LATENESS = timedelta(milliseconds=100)
"""The longest time from the estimate of the database's clock to the check of it that does not count as its error."""
SOME_STORED = "quartzpy: not everything is new, so it is stored step by step"
"""The text with which the check fails; administrators find it in the server's log."""

# Takes the lock, or fails without it if a row was not made by this transaction, or if the time is not the expected one.
# Nobody else sees the new rows yet, so a wait for the lock does not make the check out of date.
LOCK_IF_NEW = f"""
WITH given AS MATERIALIZED (
    SELECT (SELECT count(*)
              FROM unnest(%(job_groups)s::text[], %(job_names)s::text[]) AS k(job_group, job_name)
             CROSS JOIN LATERAL (
                SELECT FROM $job_details j
                 WHERE j.sched_name = %(sched)s AND j.job_group = k.job_group AND j.job_name = k.job_name
                   AND j.xmin = pg_current_xact_id()::xid
                 LIMIT 1) AS made) = cardinality(%(job_names)s::text[])
           AND (SELECT count(*)
                  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
                 CROSS JOIN LATERAL (
                    SELECT FROM $triggers t
                     WHERE t.sched_name = %(sched)s AND t.trigger_group = k.trigger_group
                       AND t.trigger_name = k.trigger_name AND t.xmin = pg_current_xact_id()::xid
                     LIMIT 1) AS made) = cardinality(%(names)s::text[])
           AND ($now BETWEEN %(earliest)s::timestamptz AND %(latest)s::timestamptz) IS NOT FALSE AS is_new
)
SELECT CASE WHEN is_new THEN ({LOCK}
) ELSE repeat('{SOME_STORED}', 1 + is_new::int)::int END FROM given
"""


class NotNewError(JobStoreError):
    """A job or trigger is stored already, or the estimate of the time was wrong; nothing was stored."""


def may_be_new(
    session: SqlSession,
    entries: Sequence[JobEntry],
    given: Sequence[PreparedTrigger | UnpreparedTrigger],
    *,
    replace: bool,
) -> bool:
    """Return whether to try `store_new`. Not if the last call found something stored that it was to store."""
    return (
        session.expects_new
        and session.decides_at_once
        and not replace
        and max(len(given), len(entries)) <= MOST
        and not any(entry.keeps_data for entry in entries)
        and _are_distinct([entry.job.key for entry in entries if entry.job is not None])
        and _are_distinct([order_of(one) for one in given])
        # Calendars have to be held before the fire times that depend on them are stored.
        and all(one.trigger.calendar is None for one in given)
        and sum(size_of_job(entry.job) for entry in entries if entry.job is not None) + sum(map(size_of_trigger, given))
        <= CHUNK_BYTES
    )


def _are_distinct(keys: Sequence[Hashable]) -> bool:
    return len(set(keys)) == len(keys)


def store_new(
    session: SqlSession,
    jobs: Sequence[JobDetail],
    prepared: Sequence[PreparedTrigger],
    *,
    is_estimate: bool,
) -> datetime | None:
    """Store new jobs and triggers; return the earliest fire time. They are in the order of their keys.

    `is_estimate`: the triggers were prepared with an estimate of the time, which is checked.

    Raises:
        NotNewError: not everything is new, or the estimate was wrong; nothing was stored.
    """
    keys = key_columns(p.trigger.key for p in prepared)
    job_keys = key_columns(job.key for job in jobs)
    now = session.clock.now()
    due = fire_times(prepared)
    is_due = now is not None and any(at <= now for _, at in due)
    store = [trigger_statement(session, prepared, STORE_NEW_TRIGGERS)] if prepared else []
    if jobs:
        store.insert(0, job_statement(session, jobs, STORE_NEW_JOBS))
    lock = session.send(
        LOCK_IF_NEW,
        lock=LockName.TRIGGER_ACCESS,
        job_groups=job_keys["groups"],
        job_names=job_keys["names"],
        **keys,
        earliest=now - TOLERANCE if is_estimate and now else None,
        latest=now + LATENESS if is_estimate and now else None,
    )
    settle = [session.send(SETTLE_NEW, **keys)] if prepared else []
    wake = [news(session, DUE)] if is_due else announcement(session, due)

    def work(transaction: Transaction) -> Result:
        try:
            return transaction.commit(*store, lock, *settle, *wake)[len(store) - 1]
        except psycopg.errors.InvalidTextRepresentation as error:
            if SOME_STORED not in str(error):
                raise
            raise NotNewError("something is stored already, or the time is not the expected one") from error

    stored = session.transaction(work)
    if not prepared:
        return None
    session.clock.learn(stored.rows[-1][NOW_COLUMN])
    return min((row[AT_COLUMN] for row in stored.rows if row[AT_COLUMN] is not None), default=None)
