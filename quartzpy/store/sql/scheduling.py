"""Stores, replaces and removes jobs and triggers.

A transaction locks rows first and takes the lock afterwards: while it waits for a row that another transaction has
locked, it does not block the cluster. Everything that depends on others (pauses, running jobs) is reconciled in the
last flight, under TRIGGER_ACCESS, where the steps skip locked rows and so never wait for this transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as replace_in
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

from quartzpy import job_data
from quartzpy.errors import JobStoreError
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store import refusals
from quartzpy.store.differences import refuse_other_job, refuse_other_trigger
from quartzpy.store.protocol import JobEntry
from quartzpy.store.records import Owned
from quartzpy.store.sql.batches import bound, computed_ahead
from quartzpy.store.sql.calendars import held_revisions
from quartzpy.store.sql.db import rows
from quartzpy.store.sql.db.flight import Result, Send
from quartzpy.store.sql.db.listen import announcement, news
from quartzpy.store.sql.db.locks import LockName
from quartzpy.store.sql.db.session import SqlSession, Transaction
from quartzpy.store.sql.lookups import JOBS, TRIGGERS, trigger_record
from quartzpy.store.sql.steps.orphans import orphans
from quartzpy.store.sql.steps.settling import (
    COPIES,
    IS_ORDINARY,
    IS_OTHER_KEY,
    OUT_OF_DATE,
    SETTLE_NEW,
    STILL_ORDINARY,
    held_by_mode,
    key_of,
    state_of,
)
from quartzpy.triggers.upcoming import PreparedTrigger, UnpreparedTrigger, UpcomingFireTimes

CHUNK = 2_000
"""Rows a statement: large enough that round trips do not count, small enough for a statement's memory."""

STORE_JOBS = """
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
    ON CONFLICT (sched_name, job_group, job_name) DO UPDATE
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

# For jobs that will be replaced: do the values change of which their triggers have copies?
COMPARE_JOBS = """
SELECT j.job_group, j.job_name,
       (j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit)
           IS DISTINCT FROM (w.job_type, w.max_concurrent, w.overlap_policy, w.placement, w.rate_limit)
           -- The data, which the values of its key come from, may be another.
           OR j.concurrency_key IS NOT NULL OR w.concurrency_key IS NOT NULL
  FROM unnest(%(groups)s::text[], %(names)s::text[], %(types)s::text[], %(limits)s::int[], %(overlap_policy)s::text[],
              %(placements)s::text[], %(concurrency_keys)s::text[], %(rate_limits)s::text[]::jsonb[])
       AS w(job_group, job_name, job_type, max_concurrent, overlap_policy, placement, concurrency_key, rate_limit)
  JOIN $job_details j ON j.sched_name = %(sched)s AND j.job_group = w.job_group AND j.job_name = w.job_name
 ORDER BY j.job_group, j.job_name
   FOR NO KEY UPDATE OF j
"""

# The state and the claim of a trigger once nothing holds it.
_UNHELD = """
CASE t.trigger_state WHEN 'ACQUIRED' THEN 'WAITING' WHEN 'BLOCKED' THEN 'WAITING' WHEN 'PAUSED_BLOCKED' THEN 'PAUSED'
                     ELSE t.trigger_state END
"""
_UNCLAIMED = "CASE t.trigger_state WHEN 'ACQUIRED' THEN NULL ELSE t.fire_id END"

# A claim was made for what the job was before, perhaps by a node that does not know what it is now: it is void. A
# trigger that is blocked waits for executions with its former concurrency key, so it waits no longer; where executions
# with the new one fill the job, the next node that tries to claim the trigger blocks it.
_COPY_JOB = f"""
UPDATE $triggers t
   SET {COPIES},
       trigger_state = CASE WHEN t.trigger_state = 'ACQUIRED' OR {IS_OTHER_KEY} THEN {_UNHELD}
                            ELSE t.trigger_state END,
       fire_id = {_UNCLAIMED}
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
DELETE FROM $fired_triggers f
 USING unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
 WHERE f.sched_name = %(sched)s AND f.job_group = k.job_group AND f.job_name = k.job_name AND f.state = 'ACQUIRED'
   AND (SELECT count(*) FROM $triggers t
         WHERE t.sched_name = f.sched_name AND t.trigger_group = f.trigger_group
           AND t.trigger_name = f.trigger_name AND t.fire_id = f.fire_id) = 0
"""

# The stored trigger `t` belongs to the same job and already has the schedule that is to be stored: as it was declared,
# or as it is now.
SAME_SCHEDULE = """
((t.job_group, t.job_name) = (excluded.job_group, excluded.job_name)
 AND (t.schedule_hash = excluded.schedule_hash
      OR (t.kind, t.schedule - 'catch_up', t.start_time, t.end_time, t.calendar_name)
         IS NOT DISTINCT FROM
         (excluded.kind, excluded.schedule - 'catch_up', excluded.start_time, excluded.end_time,
          excluded.calendar_name)))
"""
_SAME_MISFIRE = """
(t.misfire_instruction, t.misfire_threshold)
    IS NOT DISTINCT FROM (excluded.misfire_instruction, excluded.misfire_threshold)
"""
# The schedule of a trigger that keeps its progress, with the new catch-up limits.
_KEPT_SCHEDULE = """
(t.schedule - 'catch_up') || CASE WHEN excluded.schedule -> 'catch_up' IS NULL THEN '{}'::jsonb
                                  ELSE jsonb_build_object('catch_up', excluded.schedule -> 'catch_up') END
"""
_KEPT_RULE = f"""
CASE WHEN t.misfire_rule IN ('SKIP', 'ONCE', 'NEW', 'HELD') THEN t.misfire_rule
     WHEN excluded.rate_limit IS NOT NULL THEN 'RATE_LIMIT'
     WHEN {_SAME_MISFIRE} AND t.misfire_rule NOT IN ('RATE_LIMIT', 'LATE') THEN t.misfire_rule
     WHEN excluded.misfire_instruction = 'ignore' THEN 'IGNORE'
     WHEN excluded.misfire_threshold IS NULL THEN 'SCHEDULER' ELSE 'OWN' END
"""
_PROGRESS = (
    *("trigger_state", "next_fire_time", "prev_fire_time", "upcoming", "upcoming_is_complete", "times_triggered"),
    *("start_time", "generation", "coalesced_fire_times", "attempt", "fire_id", "error", "held_by_mode"),
    *("paused_at", "paused_by", "pause_reason"),
)
_KEPT = {
    "trigger_state": f"CASE WHEN t.concurrency_key = excluded.concurrency_key THEN t.trigger_state ELSE {_UNHELD} END",
    "fire_id": f"CASE WHEN t.concurrency_key = excluded.concurrency_key THEN t.fire_id ELSE {_UNCLAIMED} END",
}
_KEEP_PROGRESS = ", ".join(
    f"{name} = CASE WHEN {SAME_SCHEDULE} THEN {_KEPT.get(name, f't.{name}')} ELSE excluded.{name} END"
    for name in _PROGRESS
)

# A trigger whose schedule did not change keeps its progress, its pause and its misfires; it keeps its generation, too,
# which is below that of all others here. Rows that exist are not returned where they may not be replaced: fewer rows
# come back than were sent. The jobs' rows are held as their foreign key will hold them, but before they are read. Each
# is looked up by LATERAL, so that a plan that was made while the table was empty does not read all jobs. All programs
# take the rows in the same order, so that two that store the same do not deadlock.
_KEY = key_of("w.data::jsonb", "j")
STORE_TRIGGERS = f"""
WITH before AS MATERIALIZED (SELECT nextval('$fire_ids') AS generation)
INSERT INTO $triggers AS t (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
       max_concurrent, overlap_policy, placement, rate_limit,
       concurrency_key, description, kind, schedule, trigger_state, held_by_mode,
       next_fire_time, prev_fire_time, upcoming, upcoming_is_complete,
       times_triggered, start_time, end_time, priority, misfire_instruction, misfire_rule, misfire_threshold,
       calendar_name, job_data, schedule_hash)
SELECT %(sched)s, nextval('$fire_ids'), w.trigger_group, w.trigger_name, w.job_group, w.job_name, j.job_type,
       j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit, {_KEY}, w.description, w.kind, w.schedule::jsonb,
       {state_of("w", "j", _KEY)}, {held_by_mode("w")}, w.next_fire_time,
       w.prev_fire_time, w.upcoming::timestamptz[], w.is_complete, w.times, w.start_time, w.end_time, w.priority,
       w.misfire, CASE WHEN j.rate_limit IS NULL OR w.rule = 'NEW' THEN w.rule ELSE 'RATE_LIMIT' END, w.threshold,
       w.calendar, w.data::jsonb, w.hash
  FROM before
 CROSS JOIN unnest(%(groups)s::text[], %(names)s::text[], %(job_groups)s::text[], %(job_names)s::text[],
              %(descriptions)s::text[], %(kinds)s::text[], %(schedules)s::text[], %(next)s::timestamptz[],
              %(previous)s::timestamptz[], %(upcoming)s::text[], %(complete)s::bool[], %(times)s::bigint[],
              %(starts)s::timestamptz[], %(ends)s::timestamptz[], %(priorities)s::int[], %(misfires)s::text[],
              %(rules)s::text[], %(thresholds)s::interval[], %(calendars)s::text[], %(data)s::text[],
              %(hashes)s::bigint[])
       AS w(trigger_group, trigger_name, job_group, job_name, description, kind, schedule, next_fire_time,
            prev_fire_time, upcoming, is_complete, times, start_time, end_time, priority, misfire, rule, threshold,
            calendar, data, hash)
 CROSS JOIN LATERAL (
    SELECT * FROM $job_details o
     WHERE o.sched_name = %(sched)s AND o.job_group = w.job_group AND o.job_name = w.job_name
       FOR KEY SHARE) AS j
 WHERE before.generation > 0
 ORDER BY w.trigger_group, w.trigger_name
    ON CONFLICT (sched_name, trigger_group, trigger_name) DO UPDATE
   SET {_KEEP_PROGRESS},
       schedule = CASE WHEN {SAME_SCHEDULE} THEN {_KEPT_SCHEDULE} ELSE excluded.schedule END,
       misfire_rule = CASE WHEN {SAME_SCHEDULE} THEN {_KEPT_RULE} ELSE excluded.misfire_rule END,
       catch_up_until = CASE WHEN {SAME_SCHEDULE} AND {_SAME_MISFIRE} THEN t.catch_up_until END,
       job_group = excluded.job_group, job_name = excluded.job_name, job_type = excluded.job_type,
       max_concurrent = excluded.max_concurrent, overlap_policy = excluded.overlap_policy,
       placement = excluded.placement, rate_limit = excluded.rate_limit,
       rate_limited_until = CASE WHEN (t.job_group, t.job_name, t.concurrency_key)
                                    = (excluded.job_group, excluded.job_name, excluded.concurrency_key)
                                 THEN t.rate_limited_until END,
       concurrency_key = excluded.concurrency_key, description = excluded.description, kind = excluded.kind,
       end_time = excluded.end_time, priority = excluded.priority, misfire_instruction = excluded.misfire_instruction,
       misfire_threshold = excluded.misfire_threshold, calendar_name = excluded.calendar_name,
       job_data = excluded.job_data, schedule_hash = excluded.schedule_hash, owner = NULL
 WHERE %(replace)s::bool
RETURNING t.trigger_group, t.trigger_name, t.generation < (SELECT generation FROM before), t.next_fire_time,
          $now, t.job_group, t.job_name, t.job_type, t.max_concurrent, t.overlap_policy, t.placement,
          t.rate_limit::text
"""

# The claim on a trigger that was replaced, removed or paused is void.
VOID_CLAIMS = """
DELETE FROM $fired_triggers f
 USING unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
 WHERE f.sched_name = %(sched)s AND f.trigger_group = k.trigger_group AND f.trigger_name = k.trigger_name
   AND f.state = 'ACQUIRED'
   AND (SELECT count(*) FROM $triggers t
         WHERE t.sched_name = f.sched_name AND t.trigger_group = f.trigger_group
           AND t.trigger_name = f.trigger_name AND t.fire_id = f.fire_id) = 0
"""

DELETE_TRIGGERS = """
DELETE FROM $triggers t
 USING unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
 WHERE t.sched_name = %(sched)s AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
RETURNING t.trigger_group, t.trigger_name, t.job_group, t.job_name
"""

HOLD_JOB = """
SELECT FROM $job_details
 WHERE sched_name = %(sched)s AND job_group = %(group)s AND job_name = %(name)s
   FOR NO KEY UPDATE
"""

# The jobs' rows are locked first, so that nobody can add a trigger to them.
HOLD_JOBS = """
SELECT j.job_group, j.job_name
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
  JOIN $job_details j ON j.sched_name = %(sched)s AND j.job_group = k.job_group AND j.job_name = k.job_name
 ORDER BY j.job_group, j.job_name
   FOR UPDATE OF j
"""
DELETE_TRIGGERS_OF_JOBS = """
WITH went AS (
    DELETE FROM $triggers t
     USING unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
     WHERE t.sched_name = %(sched)s AND t.job_group = k.job_group AND t.job_name = k.job_name
    RETURNING t.fire_id, t.job_group, t.job_name, t.trigger_group, t.trigger_name
),
void AS (
    DELETE FROM $fired_triggers f USING went WHERE f.fire_id = went.fire_id AND f.state = 'ACQUIRED'
)
SELECT job_group, job_name, trigger_group, trigger_name FROM went
"""
DELETE_JOBS = """
DELETE FROM $job_details j
 USING unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
 WHERE j.sched_name = %(sched)s AND j.job_group = k.job_group AND j.job_name = k.job_name
RETURNING j.job_group, j.job_name
"""

OWNED_JOBS = """
SELECT job_group, job_name FROM $job_details WHERE sched_name = %(sched)s AND owner = %(owner)s
"""
OWNED_TRIGGERS = """
SELECT trigger_group, trigger_name FROM $triggers WHERE sched_name = %(sched)s AND owner = %(owner)s
"""
VERSION_OF_OWNER = "SELECT version FROM $owners WHERE sched_name = %(sched)s AND owner = %(owner)s"
KEEP_VERSION = """
INSERT INTO $owners (sched_name, owner, version) VALUES (%(sched)s, %(owner)s, %(version)s)
    ON CONFLICT (sched_name, owner) DO UPDATE SET version = excluded.version
"""
OWN_JOBS = """
UPDATE $job_details j SET owner = %(owner)s
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
 WHERE j.sched_name = %(sched)s AND j.job_group = k.job_group AND j.job_name = k.job_name
"""
OWN_TRIGGERS = """
UPDATE $triggers t SET owner = %(owner)s
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
 WHERE t.sched_name = %(sched)s AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
"""

CLEAR = (
    "DELETE FROM $triggers WHERE sched_name = %(sched)s",
    "DELETE FROM $fired_triggers WHERE sched_name = %(sched)s AND state = 'ACQUIRED'",
    "DELETE FROM $job_details WHERE sched_name = %(sched)s",
    "DELETE FROM $calendars WHERE sched_name = %(sched)s",
    "DELETE FROM $paused_groups WHERE sched_name = %(sched)s",
    "DELETE FROM $owners WHERE sched_name = %(sched)s",
)


# Between the batches of a bulk store the connection may be idle for seconds, for example while Python collects garbage
# among millions of objects. It holds no lock then that another step waits for.
ALLOW_PAUSES = "SELECT set_config('idle_in_transaction_session_timeout', %(limit)s::text, true)"


class _NotOrdinaryError(JobStoreError):
    """The condition of `STILL_ORDINARY` is no longer true; nothing was stored."""


class _WrongEstimateError(JobStoreError):
    """The database's clock differs from the estimate with which the triggers were prepared; nothing was stored."""


def _chunks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]


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


def _jobs(
    session: SqlSession, jobs: Sequence[JobDetail], *, replace: bool, keeps_data: bool, keeps_persisted: bool
) -> Send:
    return session.send(
        STORE_JOBS,
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


def _misfire_rule(prepared: PreparedTrigger, settles_later: bool) -> str:
    if settles_later:
        return "NEW"
    if prepared.trigger.ignores_misfires:
        return "IGNORE"
    return "SCHEDULER" if prepared.trigger.misfire_threshold is None else "OWN"


def _triggers(session: SqlSession, prepared: Sequence[PreparedTrigger], *, replace: bool, settles_later: bool) -> Send:
    triggers = [p.trigger for p in prepared]
    keys = [trigger.job_key for trigger in triggers]
    return session.send(
        STORE_TRIGGERS,
        replace=replace,
        groups=[t.group for t in triggers],
        names=[t.name for t in triggers],
        job_groups=[key.group if key else None for key in keys],
        job_names=[key.name if key else None for key in keys],
        descriptions=[t.description for t in triggers],
        kinds=[t.kind for t in triggers],
        schedules=[rows.schedule_text(t) for t in triggers],
        next=[p.progress.next_fire_time for p in prepared],
        previous=[p.progress.previous_fire_time for p in prepared],
        upcoming=[p.upcoming.instants for p in prepared],
        complete=[p.upcoming.is_complete for p in prepared],
        times=[p.progress.times_triggered for p in prepared],
        starts=[t.start_time for t in triggers],
        ends=[t.end_time for t in triggers],
        priorities=[t.priority for t in triggers],
        misfires=[str(t.misfire) for t in triggers],
        rules=[_misfire_rule(p, settles_later) for p in prepared],
        thresholds=[t.misfire_threshold for t in triggers],
        calendars=[t.calendar for t in triggers],
        data=[job_data.encode(t.data) for t in triggers],
        hashes=[p.schedule_hash for p in prepared],
    )


def store_jobs(session: SqlSession, entries: Sequence[JobEntry], *, replace: bool) -> datetime | None:
    """Store jobs and triggers; see `JobStore.store_jobs`."""
    # All programs lock the rows in the same order, so that two that store the same triggers do not deadlock.
    given = sorted((one for entry in entries for one in entry.triggers), key=_order)
    needs_now = any(one.needs_now for one in given)
    # The estimate saves a round trip. It is checked by the answer to the statement that stores the triggers.
    estimate = session.clock.now() if needs_now else None
    now = session.now() if needs_now and estimate is None else estimate
    ordinary = True
    while True:
        try:
            return _store_at(
                session, entries, given, now, replace=replace, ordinary=ordinary, is_estimate=estimate is not None
            )
        except _NotOrdinaryError:
            # During the bulk store, a pause or another definition of a job was committed: reconcile the rows one by
            # one.
            ordinary = False
        except _WrongEstimateError:
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
    if len(given) <= CHUNK:
        given = [one.prepared(now) for one in given]

    def work(transaction: Transaction) -> datetime | None:
        if len(given) > CHUNK and session.decides_at_once:
            limit = f"{session.connections.seconds * 1000:.0f}ms"
            transaction.send_with_next(session.send(ALLOW_PAUSES, limit=limit), lambda _: None)
        changed: list[JobKey] = []
        for keeps_data in (False, True):
            jobs = [entry.job for entry in entries if entry.job is not None and entry.keeps_data is keeps_data]
            for some in _chunks(sorted(jobs, key=lambda job: job.key)):
                changed += _store_some_jobs(session, transaction, some, replace=replace, keeps_data=keeps_data)
        return _store_triggers(
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
        changed = _store_some_jobs(
            session, transaction, [job], replace=True, keeps_data=keeps_data, keeps_persisted=False
        )
        _store_triggers(session, transaction, [], replace=True, changed=changed)
        return job

    return session.transaction(work)


def _keys(keys: Iterable[JobKey] | Iterable[TriggerKey]) -> dict[str, list[str]]:
    several = list(keys)
    return {"groups": [key.group for key in several], "names": [key.name for key in several]}


def _store_some_jobs(
    session: SqlSession,
    transaction: Transaction,
    jobs: Sequence[JobDetail],
    *,
    replace: bool,
    keeps_data: bool,
    keeps_persisted: bool = True,
) -> list[JobKey]:
    """Store jobs; return those whose triggers have copies of outdated values."""
    store = _jobs(session, jobs, replace=replace, keeps_data=keeps_data, keeps_persisted=keeps_persisted)
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
        hold = session.send(HOLD_JOBS, **_keys(key for key, other in differs.items() if other))
        sent = transaction.send(hold, store)[1]
    stored = _check_stored(session, transaction, jobs, sent)
    # Jobs that somebody else has stored since the comparison may differ.
    changed = [key for key, was_there in stored.items() if was_there and differs.get(key, True)]
    if changed:
        keys = _keys(changed)
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
    stored = [rows.job(*row) for row in transaction.send(session.send(JOBS, **_keys(job.key for job in jobs)))[0].rows]
    known = {job.key: job for job in stored}
    for job in jobs:
        refuse_other_job(job, known.get(job.key))


def _differing(compared: Iterable[Result]) -> dict[JobKey, bool]:
    return {JobKey(name, group): other for before in compared for group, name, other in before.rows}


def _order(one: PreparedTrigger | UnpreparedTrigger) -> tuple[str, str | None]:
    return one.trigger.group, one.trigger.name


def _store_triggers(
    session: SqlSession,
    transaction: Transaction,
    given: Sequence[PreparedTrigger | UnpreparedTrigger],
    now: datetime | None = None,
    *,
    replace: bool,
    changed: Sequence[JobKey] = (),
    ordinary: bool = True,
    is_estimate: bool = False,
) -> datetime | None:
    """Store triggers and commit; return the earliest fire time.

    `ordinary`: assume that nothing is paused, limited or in manual mode, and check it. `is_estimate`: `now` is an
    estimate, to be compared with the database's clock.
    """
    names = {one.trigger.calendar for one in given if one.trigger.calendar is not None}
    revisions = held_revisions(session, transaction, names)
    many = len(given) > CHUNK
    settles_later = not session.decides_at_once
    if many and not settles_later:
        # There are too many rows to reconcile under the lock, and usually none needs it.
        settles_later = not (ordinary and transaction.send(session.send(IS_ORDINARY))[0].rows[0][0])

    def batch(some: Sequence[PreparedTrigger | UnpreparedTrigger]) -> _Batch:
        prepared = [_with_current_calendar(one.prepared(now), revisions) for one in some]
        return _Batch(prepared, bound(_triggers(session, prepared, replace=replace, settles_later=settles_later)))

    earliest: datetime | None = None
    began: list[TriggerKey] = []
    copies: set[tuple[Any, ...]] = set()
    prepared: Sequence[PreparedTrigger] = ()
    for prepared, store in computed_ahead(batch, list(_chunks(given))):
        stored = _store_some_triggers(session, transaction, prepared, store, replace=replace, is_estimate=is_estimate)
        times = [row.next_fire_time for row in stored if row.next_fire_time is not None]
        earliest = min(times if earliest is None else [earliest, *times], default=None)
        if many:
            copies.update(row.copies for row in stored)
        else:
            # The other triggers keep their state.
            began = [row.key for row in stored if not row.is_kept]
    last = _settle_jobs(session, changed) if session.decides_at_once else []
    if changed:
        # A rate limit that was raised, for example, lets triggers fire earlier than nodes expect.
        last.append(news(session))
    if settles_later:
        last += [news(session)] if given else []
    elif many:
        last += _check_many(session, copies)
        last += [news(session)]
    elif began:
        last += [session.send(SETTLE_NEW, **_keys(began)), *_announcement(session, prepared)]
    if last and session.decides_at_once:
        last.insert(0, session.lock(LockName.TRIGGER_ACCESS))
    try:
        transaction.commit(*last)
    except psycopg.errors.DivisionByZero as error:
        raise _NotOrdinaryError("a job or trigger was paused, limited or redefined in the meantime") from error
    return earliest


class _Batch(NamedTuple):
    """Triggers to be stored by one statement."""

    prepared: Sequence[PreparedTrigger]
    store: Send


def _with_current_calendar(prepared: PreparedTrigger, revisions: Mapping[str, int]) -> PreparedTrigger:
    if prepared.calendar_revision == revisions.get(prepared.trigger.calendar or ""):
        return prepared
    # Fire times computed from a calendar that was replaced in the meantime are discarded, to be computed again.
    return replace_in(prepared, upcoming=UpcomingFireTimes())


class _StoredTrigger(NamedTuple):
    """A trigger after it was stored. `is_kept`: it was stored already, with the same schedule."""

    group: str
    name: str
    is_kept: bool
    next_fire_time: datetime | None
    copies: tuple[Any, ...] = ()
    """Its job's key, and what it has copies of."""

    @property
    def key(self) -> TriggerKey:
        return TriggerKey(self.name, self.group)


def _store_some_triggers(
    session: SqlSession,
    transaction: Transaction,
    prepared: Sequence[PreparedTrigger],
    store: Send,
    *,
    replace: bool,
    is_estimate: bool,
) -> list[_StoredTrigger]:
    """Store triggers, or check that they are stored with the same values.

    Raises:
        _WrongEstimateError: the triggers were prepared with an estimate of the time that was wrong.
    """
    sends = [store]
    if replace:
        sends.append(session.send(VOID_CLAIMS, **_keys(p.trigger.key for p in prepared)))
    before = session.clock.now()
    sent = transaction.send(*sends)[0]
    if sent.rows:
        agrees = session.clock.agrees(sent.rows[-1][4], before)
        if is_estimate and not agrees:
            raise _WrongEstimateError("the estimate of the database's clock was wrong")
    stored = [_StoredTrigger(row[0], row[1], row[2], row[3], row[5:]) for row in sent.rows]
    if len(stored) < len(prepared):
        there = {(one.group, one.name) for one in stored}
        stored += _same_triggers(session, transaction, [p for p in prepared if _order(p) not in there])
    return stored


def _same_triggers(
    session: SqlSession, transaction: Transaction, missing: Sequence[PreparedTrigger]
) -> list[_StoredTrigger]:
    """Return the stored triggers that the statement did not store.

    Raises:
        JobNotFoundError: a trigger was not stored because its job is not stored.
        ObjectAlreadyExistsError: a trigger is stored with different values.
    """
    jobs, triggers = transaction.send(
        session.send(HOLD_JOBS, **_keys({p.trigger.job_key for p in missing if p.trigger.job_key})),
        session.send(TRIGGERS, **_keys(p.trigger.key for p in missing)),
    )
    present = {JobKey(row[1], row[0]) for row in jobs.rows}
    known = {record.key: record for record in map(trigger_record, triggers.rows)}
    same = []
    for p in missing:
        if p.trigger.job_key not in present:
            raise refusals.job_of_trigger_not_stored(p.trigger.key, p.trigger.job_key)
        record = known.get(p.trigger.key)
        refuse_other_trigger(p, record)
        at = None if record is None else record.progress.next_fire_time
        same.append(_StoredTrigger(p.trigger.group, p.trigger.key.name, is_kept=True, next_fire_time=at))
    return same


def _settle_jobs(session: SqlSession, changed: Sequence[JobKey]) -> list[Send]:
    """Return the statements that correct, under the lock, triggers of changed jobs that were stored in the meantime."""
    return [
        session.send(text, **_keys(some)) for some in _chunks(changed) for text in (COPY_JOB_AGAIN, VOID_CLAIMS_OF_JOBS)
    ]


def _check_many(session: SqlSession, copies: Collection[tuple[Any, ...]]) -> list[Send]:
    names = ("groups", "names", "types", "limits", "overlap_policy", "placements", "rate_limits")
    copies = [one for one in copies if one]
    if not copies:
        return []
    columns = [list(column) for column in zip(*copies, strict=True)]
    return [session.send(STILL_ORDINARY, **dict(zip(names, columns, strict=True)))]


def _announcement(session: SqlSession, prepared: Sequence[PreparedTrigger]) -> list[Send]:
    due = [
        (p.trigger.job_key, p.progress.next_fire_time)
        for p in prepared
        if p.trigger.job_key is not None and p.progress.next_fire_time is not None
    ]
    return announcement(session, due)


def replace_trigger(session: SqlSession, old: TriggerKey, new: PreparedTrigger) -> datetime | None:
    """Replace `old` by `new`; see `JobStore.replace_trigger`."""

    def work(transaction: Transaction) -> datetime | None:
        went = transaction.send(
            session.send(DELETE_TRIGGERS, groups=[old.group], names=[old.name]),
            session.send(VOID_CLAIMS, groups=[old.group], names=[old.name]),
        )[0]
        return _store_triggers(session, transaction, [new], replace=False) if went.rows else None

    return session.transaction(work)


def delete_triggers(session: SqlSession, keys: Collection[TriggerKey]) -> set[TriggerKey]:
    """Remove triggers; see `JobStore.delete_triggers`."""
    values = {"groups": [key.group for key in keys], "names": [key.name for key in keys]}

    def work(transaction: Transaction) -> set[TriggerKey]:
        went = transaction.send(session.send(DELETE_TRIGGERS, **values))[0].rows
        transaction.commit(session.send(VOID_CLAIMS, **values), *orphans(session, {row[2:] for row in went}))
        return {TriggerKey(name, group) for group, name, _, _ in went}

    return session.transaction(work) if keys else set()


def delete_jobs(session: SqlSession, keys: Collection[JobKey]) -> dict[JobKey, set[TriggerKey]]:
    """Remove jobs with their triggers; see `JobStore.delete_jobs`."""
    values = {"groups": [key.group for key in keys], "names": [key.name for key in keys]}
    _, triggers, went = session.unlocked(
        session.send(HOLD_JOBS, **values),
        session.send(DELETE_TRIGGERS_OF_JOBS, **values),
        session.send(DELETE_JOBS, **values),
    )
    removed: dict[JobKey, set[TriggerKey]] = {JobKey(row[1], row[0]): set() for row in went.rows}
    for job_group, job_name, group, name in triggers.rows:
        removed[JobKey(job_name, job_group)].add(TriggerKey(name, group))
    return removed


def clear(session: SqlSession) -> None:
    """Remove everything; see `JobStore.clear`."""
    session.unlocked(*[session.send(text) for text in CLEAR])


def owned(session: SqlSession, owner: str) -> Owned:
    """Return the jobs and triggers of an owner; see `JobStore.owned`."""
    jobs, triggers, version = session.read(
        *(session.send(text, owner=owner) for text in (OWNED_JOBS, OWNED_TRIGGERS, VERSION_OF_OWNER))
    )
    found = version.first()
    return Owned(
        frozenset(JobKey(row[1], row[0]) for row in jobs.rows),
        frozenset(TriggerKey(row[1], row[0]) for row in triggers.rows),
        None if found is None else found[0],
    )


def own(
    session: SqlSession,
    owner: str,
    jobs: Collection[JobKey],
    triggers: Collection[TriggerKey],
    version: str | None,
) -> None:
    """Record the owner; see `JobStore.own`."""
    keys = (OWN_JOBS, jobs), (OWN_TRIGGERS, triggers)
    sends = [session.send(text, owner=owner, **_keys(some)) for text, some in keys]
    if version is not None:
        sends.append(session.send(KEEP_VERSION, owner=owner, version=version))
    session.unlocked(*sends)
