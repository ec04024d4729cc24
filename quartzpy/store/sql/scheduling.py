"""Stores and replaces jobs and triggers.

A transaction locks rows first and takes the lock afterwards: while it waits for a row that another transaction has
locked, it does not block the cluster. Everything that depends on others (pauses, running jobs) is reconciled in the
last flight, under TRIGGER_ACCESS, where the steps skip locked rows and so never wait for this transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.protocol import JobEntry
from quartzpy.store.sql import batches
from quartzpy.store.sql.batches import chunks, size_of_job
from quartzpy.store.sql.db import rows
from quartzpy.store.sql.db.session import SqlSession, Transaction
from quartzpy.store.sql.lookups import JOBS
from quartzpy.store.sql.removing import DELETE_TRIGGERS, VOID_CLAIMS
from quartzpy.store.sql.storing_jobs import store_some_jobs
from quartzpy.store.sql.storing_new import NotNewError, may_be_new, store_new
from quartzpy.store.sql.storing_triggers import NotOrdinaryError, WrongEstimateError, order_of, store_triggers
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger

HOLD_JOB = """
SELECT FROM $job_details
 WHERE sched_name = %(sched)s AND job_group = %(group)s AND job_name = %(name)s
   FOR NO KEY UPDATE
"""

# Between the batches of a bulk store the connection may be idle for seconds, for example while Python collects garbage
# among millions of objects. It holds no lock then that another step waits for.
ALLOW_PAUSES = "SELECT set_config('idle_in_transaction_session_timeout', %(limit)s::text, true)"


def store_jobs(session: SqlSession, entries: Sequence[JobEntry], *, replace: bool) -> datetime | None:
    """Store jobs and triggers; see `JobStore.store_jobs`."""
    # All programs lock the rows in the same order, so that two that store the same triggers do not deadlock.
    given = sorted((one for entry in entries for one in entry.triggers), key=order_of)
    needs_now = any(one.needs_now for one in given)
    # The estimate saves a round trip. It is checked by the answer to the statement that stores the triggers.
    estimate = session.clock.now() if needs_now else None
    now = session.now() if needs_now and estimate is None else estimate
    ordinary = True
    if may_be_new(session, entries, given, replace=replace):
        jobs = sorted((entry.job for entry in entries if entry.job is not None), key=lambda job: job.key)
        with contextlib.suppress(NotNewError):
            prepared = [one.prepared(now) for one in given]
            return store_new(session, jobs, prepared, is_estimate=estimate is not None)
    if not replace:
        # Unless it finds something stored.
        session.expects_new = True
    while True:
        try:
            return _store_at(
                session, entries, given, now, replace=replace, ordinary=ordinary, is_estimate=estimate is not None
            )
        except NotOrdinaryError:
            # During the bulk store, a pause or another definition of a job was committed: reconcile the rows one by
            # one.
            ordinary = False
        except WrongEstimateError:
            now, estimate = session.now(), None


def _store_at(
    session: SqlSession,
    entries: Sequence[JobEntry],
    given: Sequence[PreparedTrigger | UnpreparedTrigger],
    now: datetime | None,
    *,
    replace: bool,
    ordinary: bool,
    is_estimate: bool,
) -> datetime | None:
    """Store jobs and triggers; `now` is the start time of triggers without one."""
    if len(given) <= batches.CHUNK:
        given = [one.prepared(now) for one in given]

    def work(transaction: Transaction) -> datetime | None:
        if len(given) > batches.CHUNK and session.decides_at_once:
            limit = f"{session.connections.seconds * 1000:.0f}ms"
            transaction.send_with_next(session.send(ALLOW_PAUSES, limit=limit), lambda _: None)
        changed: list[JobKey] = []
        for keeps_data in (False, True):
            jobs = [entry.job for entry in entries if entry.job is not None and entry.keeps_data is keeps_data]
            for some in chunks(sorted(jobs, key=lambda job: job.key), size_of_job):
                changed += store_some_jobs(session, transaction, some, replace=replace, keeps_data=keeps_data)
        return store_triggers(
            session,
            transaction,
            given,
            now,
            replace=replace,
            changed=changed,
            ordinary=ordinary,
            is_estimate=is_estimate,
        )

    return session.transaction(work)


def modify_job(
    session: SqlSession, key: JobKey, change: Callable[[JobDetail], JobDetail], *, keeps_data: bool
) -> JobDetail | None:
    """Change a stored job; see `JobStore.modify_job`."""

    def work(transaction: Transaction) -> JobDetail | None:
        hold = session.send(HOLD_JOB, group=key.group, name=key.name)
        look = session.send(JOBS, groups=[key.group], names=[key.name])
        found = transaction.send(hold, look)[1].rows
        if not found:
            return None
        job = change(rows.job(*found[0]))
        changed = store_some_jobs(
            session, transaction, [job], replace=True, keeps_data=keeps_data, keeps_persisted=False
        )
        store_triggers(session, transaction, [], replace=True, changed=changed)
        return job

    return session.transaction(work)


def replace_trigger(session: SqlSession, old: TriggerKey, new: PreparedTrigger) -> datetime | None:
    """Replace `old` by `new`; see `JobStore.replace_trigger`."""

    def work(transaction: Transaction) -> datetime | None:
        went = transaction.send(
            session.send(DELETE_TRIGGERS, groups=[old.group], names=[old.name]),
            session.send(VOID_CLAIMS, groups=[old.group], names=[old.name]),
        )[0]
        return store_triggers(session, transaction, [new], replace=False) if went.rows else None

    return session.transaction(work)
