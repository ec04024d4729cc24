"""The statements that store jobs, and correct the copies of their values in their triggers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from quartzpy import job_data
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey
from quartzpy.store.differences import refuse_other_job
from quartzpy.store.sql.batches import chunks, key_columns
from quartzpy.store.sql.db import rows
from quartzpy.store.sql.db.flight import Result, Send
from quartzpy.store.sql.db.session import SqlSession, Transaction
from quartzpy.store.sql.lookups import JOBS
from quartzpy.store.sql.removing import HOLD_JOBS
from quartzpy.store.sql.steps.settling import (
    COPIES,
    IS_OTHER_KEY,
    OUT_OF_DATE,
)

_INSERT_JOBS = """
INSERT INTO $job_details AS j (sched_name, job_group, job_name, description, job_type, is_durable, max_concurrent,
       overlap_policy, concurrency_key, rate_limit, placement, persists_data, requests_recovery, retry_policy, timeout,
       pause_after_failures, job_data, continuations, display_name, capture_logs)
SELECT %(sched)s, w.job_group, w.job_name, w.description, w.job_type, w.durable, w.max_concurrent, w.overlap_policy,
       w.concurrency_key, w.rate_limit::jsonb, w.placement, w.persists, w.recovery, w.retry::jsonb, w.timeout,
       w.pause_after, w.data::jsonb, w.continuations::jsonb, w.display_name, w.capture_logs
  FROM unnest(%(groups)s::text[], %(names)s::text[], %(descriptions)s::text[], %(types)s::text[], %(durable)s::bool[],
              %(limits)s::int[], %(overlap_policy)s::text[], %(concurrency_keys)s::text[], %(rate_limits)s::text[],
              %(placements)s::text[], %(persists)s::bool[],
              %(recovery)s::bool[], %(retries)s::text[], %(timeouts)s::interval[], %(pause_after)s::int[],
              %(data)s::text[], %(continuations)s::text[], %(display_names)s::text[], %(capture_logs)s::text[])
       AS w(job_group, job_name, description, job_type, durable, max_concurrent, overlap_policy, concurrency_key,
            rate_limit, placement, persists,
            recovery, retry, timeout, pause_after, data, continuations, display_name, capture_logs)
 ORDER BY w.job_group, w.job_name
    ON CONFLICT (sched_name, job_group, job_name) DO """

STORE_JOBS = f"""{_INSERT_JOBS}UPDATE
   SET description = excluded.description, job_type = excluded.job_type, is_durable = excluded.is_durable,
       max_concurrent = excluded.max_concurrent, overlap_policy = excluded.overlap_policy,
       concurrency_key = excluded.concurrency_key, rate_limit = excluded.rate_limit, placement = excluded.placement,
       persists_data = excluded.persists_data,
       requests_recovery = excluded.requests_recovery, retry_policy = excluded.retry_policy,
       timeout = excluded.timeout, pause_after_failures = excluded.pause_after_failures,
       continuations = excluded.continuations, display_name = excluded.display_name,
       capture_logs = excluded.capture_logs,
       job_data = CASE WHEN %(keeps_data)s::bool
                         OR (%(keeps_persisted)s::bool AND j.persists_data AND excluded.persists_data)
                       THEN j.job_data ELSE excluded.job_data END,
       owner = NULL
 WHERE %(replace)s::bool
RETURNING j.job_group, j.job_name, j.xmax <> 0
"""

STORE_NEW_JOBS = f"{_INSERT_JOBS}NOTHING"

# For jobs that will be replaced: do the values change of which their triggers have copies? Each job is looked up by its
# key and locked in the order of the keys. A join of both lists was planned for the few jobs that the table had at its
# last ANALYZE, and compared each job with all others.
COMPARE_JOBS = """
SELECT j.job_group, j.job_name,
       (j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit)
           IS DISTINCT FROM (w.job_type, w.max_concurrent, w.overlap_policy, w.placement, w.rate_limit)
           -- The data, which the values of its key come from, may be another.
           OR j.concurrency_key IS NOT NULL OR w.concurrency_key IS NOT NULL
  FROM (SELECT *
          FROM unnest(%(groups)s::text[], %(names)s::text[], %(types)s::text[], %(limits)s::int[],
                      %(overlap_policy)s::text[], %(placements)s::text[], %(concurrency_keys)s::text[],
                      %(rate_limits)s::text[]::jsonb[])
               AS given(job_group, job_name, job_type, max_concurrent, overlap_policy, placement, concurrency_key,
                        rate_limit)
         ORDER BY job_group, job_name) AS w
 CROSS JOIN LATERAL (
    SELECT * FROM $job_details o
     WHERE o.sched_name = %(sched)s AND o.job_group = w.job_group AND o.job_name = w.job_name
       FOR NO KEY UPDATE) AS j
"""

# The state and the claim of a trigger once nothing holds it.
UNHELD = """
CASE t.trigger_state WHEN 'ACQUIRED' THEN 'WAITING' WHEN 'BLOCKED' THEN 'WAITING' WHEN 'PAUSED_BLOCKED' THEN 'PAUSED'
                     ELSE t.trigger_state END
"""

UNCLAIMED = "CASE t.trigger_state WHEN 'ACQUIRED' THEN NULL ELSE t.fire_id END"

# A claim was made for what the job was before, perhaps by a node that does not know what it is now: it is void. A
# trigger that is blocked waits for executions with its former concurrency key, so it waits no longer; where executions
# with the new one fill the job, the next node that tries to claim the trigger blocks it.
_COPY_JOB = f"""
UPDATE $triggers t
   SET {COPIES},
       trigger_state = CASE WHEN t.trigger_state = 'ACQUIRED' OR {IS_OTHER_KEY} THEN {UNHELD}
                            ELSE t.trigger_state END,
       fire_id = {UNCLAIMED}
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS w(job_group, job_name)
  JOIN $job_details j ON j.sched_name = %(sched)s AND j.job_group = w.job_group AND j.job_name = w.job_name
"""

COPY_JOB = f"""
{_COPY_JOB}
 WHERE t.sched_name = j.sched_name AND t.job_group = j.job_group AND t.job_name = j.job_name AND {OUT_OF_DATE}
"""

# Under the lock: triggers that were stored since. It skips locked rows.
COPY_JOB_AGAIN = f"""
{_COPY_JOB}
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM $triggers o
     WHERE o.sched_name = %(sched)s AND o.job_group = j.job_group AND o.job_name = j.job_name
       AND {OUT_OF_DATE.replace("t.", "o.")}
       FOR NO KEY UPDATE SKIP LOCKED) AS own
 WHERE t.ctid = own.row
"""

VOID_CLAIMS_OF_JOBS = """
DELETE FROM $fired_triggers
 WHERE ctid = ANY(ARRAY(
    SELECT f.ctid
      FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
     CROSS JOIN LATERAL (
        SELECT c.ctid, c.* FROM $fired_triggers c
         WHERE c.sched_name = %(sched)s AND c.job_group = k.job_group AND c.job_name = k.job_name
           AND c.state = 'ACQUIRED'
           AND (SELECT count(*) FROM $triggers t
                 WHERE t.sched_name = c.sched_name AND t.trigger_group = c.trigger_group
                   AND t.trigger_name = c.trigger_name AND t.fire_id = c.fire_id) = 0
           FOR UPDATE SKIP LOCKED) AS f))
"""


def _copied(jobs: Sequence[JobDetail]) -> dict[str, list[Any]]:
    """Return the keys of jobs, and the values of which their triggers have copies."""
    return {
        "groups": [job.group for job in jobs],
        "names": [job.name for job in jobs],
        "types": [job.job_type for job in jobs],
        "limits": [job.max_concurrent for job in jobs],
        "overlap_policy": [str(job.overlap_policy) for job in jobs],
        "placements": [job.placement.as_text() for job in jobs],
        "concurrency_keys": [job.concurrency_key for job in jobs],
        "rate_limits": [job.rate_limit.as_text() if job.rate_limit else None for job in jobs],
    }


def job_statement(
    session: SqlSession,
    jobs: Sequence[JobDetail],
    text: str = STORE_JOBS,
    *,
    replace: bool = False,
    keeps_data: bool = False,
    keeps_persisted: bool = True,
) -> Send:
    """Return the statement that stores jobs."""
    return session.send(
        text,
        replace=replace,
        keeps_data=keeps_data,
        keeps_persisted=keeps_persisted,
        **_copied(jobs),
        descriptions=[job.description for job in jobs],
        durable=[job.durable for job in jobs],
        persists=[job.persist_data for job in jobs],
        recovery=[job.requests_recovery for job in jobs],
        retries=[job.retry.as_text() if job.retry else None for job in jobs],
        timeouts=[job.timeout for job in jobs],
        pause_after=[job.pause_after_failures for job in jobs],
        data=[job_data.encode(job.data) for job in jobs],
        continuations=[job.continuations_text for job in jobs],
        display_names=[job.display_name for job in jobs],
        capture_logs=[job.capture_logs for job in jobs],
    )


def store_some_jobs(
    session: SqlSession,
    transaction: Transaction,
    jobs: Sequence[JobDetail],
    *,
    replace: bool,
    keeps_data: bool,
    keeps_persisted: bool = True,
) -> list[JobKey]:
    """Store jobs; return those whose triggers have copies of outdated values."""
    store = job_statement(session, jobs, replace=replace, keeps_data=keeps_data, keeps_persisted=keeps_persisted)
    if not replace and session.decides_at_once:
        # No stored job changes, so the triggers are stored in the same round trip.
        transaction.send_with_next(store, lambda sent: _check_stored(session, transaction, jobs, sent))
        return []
    compare = [session.send(COMPARE_JOBS, **_copied(jobs))] if replace else []
    if session.decides_at_once:
        *compared, sent = transaction.send(*compare, store)
        differs = _differing(compared)
    else:
        differs = _differing(transaction.send(*compare) if compare else [])
        # Lock the jobs before they change: a transaction that stores a trigger of theirs must wait until the commit, or
        # its copies would never be corrected.
        hold = session.send(HOLD_JOBS, **key_columns(key for key, other in differs.items() if other))
        sent = transaction.send(hold, store)[1]
    stored = _check_stored(session, transaction, jobs, sent)
    # Jobs that somebody else has stored since the comparison may differ.
    changed = [key for key, was_there in stored.items() if was_there and differs.get(key, True)]
    if changed:
        keys = key_columns(changed)
        transaction.send(session.send(COPY_JOB, **keys), session.send(VOID_CLAIMS_OF_JOBS, **keys))
    return changed


def _check_stored(
    session: SqlSession, transaction: Transaction, jobs: Sequence[JobDetail], sent: Result
) -> dict[JobKey, bool]:
    """Return the jobs that `STORE_JOBS` has stored, and whether each replaced another one.

    Raises:
        ObjectAlreadyExistsError: another one of these jobs is stored with different values.
    """
    stored = {JobKey(name, group): was_there for group, name, was_there in sent.rows}
    _check_same_jobs(session, transaction, [job for job in jobs if job.key not in stored])
    return stored


def _check_same_jobs(session: SqlSession, transaction: Transaction, jobs: Sequence[JobDetail]) -> None:
    """Raise ObjectAlreadyExistsError if one of these jobs is stored with different values."""
    if not jobs:
        return
    session.expects_new = False
    stored = [
        rows.job(*row) for row in transaction.send(session.send(JOBS, **key_columns(job.key for job in jobs)))[0].rows
    ]
    known = {job.key: job for job in stored}
    for job in jobs:
        refuse_other_job(job, known.get(job.key))


def _differing(compared: Iterable[Result]) -> dict[JobKey, bool]:
    return {JobKey(name, group): other for before in compared for group, name, other in before.rows}


def settle_jobs(session: SqlSession, changed: Sequence[JobKey]) -> list[Send]:
    """Return the statements that correct, under the lock, triggers of changed jobs that were stored in the meantime."""
    return [
        session.send(text, **key_columns(some))
        for some in chunks(changed)
        for text in (COPY_JOB_AGAIN, VOID_CLAIMS_OF_JOBS)
    ]
