"""Storing, replacing and removing jobs and triggers.

Rows first, then the lock: whoever waits for a row that somebody's open transaction holds does not hold up the
cluster meanwhile. What depends on what others do (pauses, running jobs) is settled in the last flight, under
TRIGGER_ACCESS, where the steps skip held rows and so never wait for us.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace as replace_in
from datetime import datetime
from typing import Any

from quartzpy import job_data
from quartzpy.errors import JobNotFoundError, ObjectAlreadyExistsError
from quartzpy.job import JobDetail
from quartzpy.keys import UNSCHEDULED_GROUPS, JobKey, TriggerKey
from quartzpy.store.protocol import JobEntry
from quartzpy.store.sql import rows
from quartzpy.store.sql.calendars import held_revisions
from quartzpy.store.sql.complete import ORPHANED_JOBS
from quartzpy.store.sql.flight import Send
from quartzpy.store.sql.listen import announcement
from quartzpy.store.sql.locks import LockName
from quartzpy.store.sql.session import SqlSession, Transaction
from quartzpy.triggers.horizon import Horizon, PreparedTrigger

CHUNK = 2_000
"""Rows a statement: large enough that round trips do not count, small enough for a statement's memory."""

STORE_JOBS = """
INSERT INTO $job_details (sched_name, job_group, job_name, description, job_type, is_durable, max_concurrent,
       when_full, placement, persists_data, requests_recovery, retry_policy, timeout, job_data)
SELECT %(sched)s, w.job_group, w.job_name, w.description, w.job_type, w.durable, w.max_concurrent, w.when_full,
       w.placement, w.persists, w.recovery, w.retry::jsonb, w.timeout, w.data::jsonb
  FROM unnest(%(groups)s::text[], %(names)s::text[], %(descriptions)s::text[], %(types)s::text[], %(durable)s::bool[],
              %(limits)s::int[], %(when_full)s::text[], %(placements)s::text[], %(persists)s::bool[],
              %(recovery)s::bool[], %(retries)s::text[], %(timeouts)s::interval[], %(data)s::text[])
       AS w(job_group, job_name, description, job_type, durable, max_concurrent, when_full, placement, persists,
            recovery, retry, timeout, data)
    ON CONFLICT (sched_name, job_group, job_name) DO UPDATE
   SET description = excluded.description, job_type = excluded.job_type, is_durable = excluded.is_durable,
       max_concurrent = excluded.max_concurrent, when_full = excluded.when_full, placement = excluded.placement,
       persists_data = excluded.persists_data,
       requests_recovery = excluded.requests_recovery, retry_policy = excluded.retry_policy,
       timeout = excluded.timeout, job_data = excluded.job_data, owner = NULL
 WHERE %(replace)s::bool
RETURNING job_group, job_name
"""

# Triggers carry copies of what their job says.
COPY_JOB = """
UPDATE $triggers t
   SET job_type = j.job_type, max_concurrent = j.max_concurrent, when_full = j.when_full, placement = j.placement
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS w(job_group, job_name)
  JOIN $job_details j ON j.sched_name = %(sched)s AND j.job_group = w.job_group AND j.job_name = w.job_name
 WHERE t.sched_name = j.sched_name AND t.job_group = j.job_group AND t.job_name = j.job_name
   AND (t.job_type, t.max_concurrent, t.when_full, t.placement)
       IS DISTINCT FROM (j.job_type, j.max_concurrent, j.when_full, j.placement)
"""

# What a trigger that is stored now may do. Its own fire does not block it anew: `t` is the table or the new row.
UNSCHEDULED = f"({', '.join(repr(group) for group in UNSCHEDULED_GROUPS)})"
# The mode of its job, or manual mode, keeps a trigger from firing.
MODE_FORBIDS = f"""
(EXISTS (SELECT FROM $job_details m
          WHERE m.sched_name = %(sched)s AND m.job_group = {{row}}.job_group AND m.job_name = {{row}}.job_name
            AND (m.mode = 'DISABLED' OR (m.mode = 'MANUAL' AND {{row}}.trigger_group NOT IN {UNSCHEDULED})))
 OR ({{row}}.trigger_group NOT IN {UNSCHEDULED}
     AND EXISTS (SELECT FROM $paused_groups p WHERE p.sched_name = %(sched)s AND p.scope = 'MANUAL')))
"""
NEW_STATE = f"""
CASE WHEN EXISTS (SELECT FROM $paused_groups p
                   WHERE p.sched_name = %(sched)s
                     AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = {{row}}.trigger_group)
                          OR (p.scope = 'JOB' AND p.group_name = {{row}}.job_group)))
          OR {MODE_FORBIDS}
     THEN 'PAUSED' ELSE '' END ||
CASE WHEN {{job}}.when_full = 'block' AND {{job}}.max_concurrent <= (
              SELECT count(*) FROM $fired_triggers f
               WHERE f.sched_name = %(sched)s AND f.job_group = {{row}}.job_group AND f.job_name = {{row}}.job_name
                 AND f.state = 'EXECUTING' AND f.max_concurrent IS NOT NULL)
     THEN '_BLOCKED' ELSE '' END
"""
# Nothing is paused, limited or by hand only: asked once a statement, not once a row.
ORDINARY = """
(SELECT NOT EXISTS (SELECT FROM $paused_groups p WHERE p.sched_name = %(sched)s)
    AND NOT EXISTS (SELECT FROM $job_details m WHERE m.sched_name = %(sched)s AND m.mode <> 'ENABLED')
    AND NOT EXISTS (SELECT FROM $fired_triggers f
                     WHERE f.sched_name = %(sched)s AND f.state = 'EXECUTING' AND f.max_concurrent IS NOT NULL))
"""
_STATE_WORD = f"""
CASE WHEN {ORDINARY} THEN 'WAITING'
     ELSE CASE {{suffixes}} WHEN '' THEN 'WAITING' WHEN '_BLOCKED' THEN 'BLOCKED' ELSE {{suffixes}} END END
"""


def state_of(row: str, job: str) -> str:
    """The SQL that says the state of a new trigger `row` of `job`."""
    return _STATE_WORD.format(suffixes=f"({NEW_STATE.format(row=row, job=job)})")


# Rows that exist come back unchanged where they may not be replaced: fewer rows are returned than were sent.
STORE_TRIGGERS = f"""
INSERT INTO $triggers AS t (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
       max_concurrent, when_full, placement, description, kind, schedule, trigger_state, next_fire_time, prev_fire_time,
       upcoming,
       upcoming_is_complete,
       times_triggered, start_time, end_time, priority, misfire_instruction, misfire_rule, misfire_threshold,
       calendar_name, job_data)
SELECT %(sched)s, nextval('$fences'), w.trigger_group, w.trigger_name, w.job_group, w.job_name, j.job_type,
       j.max_concurrent, j.when_full, j.placement, w.description, w.kind, w.schedule::jsonb, {state_of("w", "j")},
       w.next_fire_time,
       w.prev_fire_time, w.upcoming::timestamptz[], w.is_complete, w.times, w.start_time, w.end_time, w.priority,
       w.misfire, w.rule, w.threshold, w.calendar, w.data::jsonb
  FROM unnest(%(groups)s::text[], %(names)s::text[], %(job_groups)s::text[], %(job_names)s::text[],
              %(descriptions)s::text[], %(kinds)s::text[], %(schedules)s::text[], %(next)s::timestamptz[],
              %(previous)s::timestamptz[], %(upcoming)s::text[], %(complete)s::bool[], %(times)s::bigint[],
              %(starts)s::timestamptz[], %(ends)s::timestamptz[], %(priorities)s::int[], %(misfires)s::text[],
              %(rules)s::text[], %(thresholds)s::interval[], %(calendars)s::text[], %(data)s::text[])
       AS w(trigger_group, trigger_name, job_group, job_name, description, kind, schedule, next_fire_time,
            prev_fire_time, upcoming, is_complete, times, start_time, end_time, priority, misfire, rule, threshold,
            calendar, data)
  JOIN $job_details j ON j.sched_name = %(sched)s AND j.job_group = w.job_group AND j.job_name = w.job_name
    ON CONFLICT (sched_name, trigger_group, trigger_name) DO UPDATE
   SET job_group = excluded.job_group, job_name = excluded.job_name, job_type = excluded.job_type,
       max_concurrent = excluded.max_concurrent, when_full = excluded.when_full, placement = excluded.placement,
       description = excluded.description, kind = excluded.kind,
       schedule = excluded.schedule, trigger_state = excluded.trigger_state,
       next_fire_time = excluded.next_fire_time, prev_fire_time = excluded.prev_fire_time,
       upcoming = excluded.upcoming, upcoming_is_complete = excluded.upcoming_is_complete,
       times_triggered = excluded.times_triggered, start_time = excluded.start_time, end_time = excluded.end_time,
       priority = excluded.priority, misfire_instruction = excluded.misfire_instruction,
       misfire_rule = excluded.misfire_rule, misfire_threshold = excluded.misfire_threshold,
       calendar_name = excluded.calendar_name, job_data = excluded.job_data, generation = excluded.generation,
       covers = NULL, catch_up_until = NULL, attempt = 1, fence = NULL, error = NULL, owner = NULL
 WHERE %(replace)s::bool
RETURNING t.trigger_group, t.trigger_name
"""

# Under the lock: what was stored a moment ago, against the pauses and the running jobs of this moment.
SETTLE_NEW = f"""
UPDATE $triggers t SET trigger_state = {state_of("t", "t")}
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM $triggers o
     WHERE o.sched_name = %(sched)s AND o.trigger_group = k.trigger_group AND o.trigger_name = k.trigger_name
     LIMIT 1) AS own
 WHERE t.ctid = own.row
   AND t.trigger_state IN ('WAITING', 'PAUSED', 'BLOCKED', 'PAUSED_BLOCKED')
   AND t.trigger_state <> {state_of("t", "t")}
"""

# The claim on a trigger that was replaced, removed or paused is void.
VOID_CLAIMS = """
DELETE FROM $fired_triggers f
 USING unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
 WHERE f.sched_name = %(sched)s AND f.trigger_group = k.trigger_group AND f.trigger_name = k.trigger_name
   AND f.state = 'ACQUIRED'
   AND (SELECT count(*) FROM $triggers t
         WHERE t.sched_name = f.sched_name AND t.trigger_group = f.trigger_group
           AND t.trigger_name = f.trigger_name AND t.fence = f.fence) = 0
"""

DELETE_TRIGGERS = """
DELETE FROM $triggers t
 USING unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
 WHERE t.sched_name = %(sched)s AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
RETURNING t.trigger_group, t.trigger_name, t.job_group, t.job_name
"""

# The jobs' rows first: nobody can add a trigger to them from here on.
HOLD_JOBS = """
SELECT j.job_group, j.job_name
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
  JOIN $job_details j ON j.sched_name = %(sched)s AND j.job_group = k.job_group AND j.job_name = k.job_name
   FOR UPDATE OF j
"""
DELETE_TRIGGERS_OF_JOBS = """
WITH went AS (
    DELETE FROM $triggers t
     USING unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
     WHERE t.sched_name = %(sched)s AND t.job_group = k.job_group AND t.job_name = k.job_name
    RETURNING t.fence
)
DELETE FROM $fired_triggers f USING went WHERE f.fence = went.fence AND f.state = 'ACQUIRED'
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
)


def _chunks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), CHUNK):
        yield items[start : start + CHUNK]


def _jobs(session: SqlSession, jobs: Sequence[JobDetail], replace: bool) -> Send:
    return session.send(
        STORE_JOBS,
        replace=replace,
        groups=[job.group for job in jobs],
        names=[job.name for job in jobs],
        descriptions=[job.description for job in jobs],
        types=[job.job_type for job in jobs],
        durable=[job.durable for job in jobs],
        limits=[job.max_concurrent for job in jobs],
        when_full=[str(job.when_full) for job in jobs],
        placements=[job.placement.as_text() for job in jobs],
        persists=[job.persist_data for job in jobs],
        recovery=[job.requests_recovery for job in jobs],
        retries=[job.retry.as_text() if job.retry else None for job in jobs],
        timeouts=[job.timeout for job in jobs],
        data=[job_data.encode(job.data) for job in jobs],
    )


def _misfire_rule(prepared: PreparedTrigger) -> str:
    if prepared.trigger.ignores_misfires:
        return "IGNORE"
    return "SCHEDULER" if prepared.trigger.misfire_threshold is None else "OWN"


def _triggers(session: SqlSession, prepared: Sequence[PreparedTrigger], replace: bool) -> Send:
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
        upcoming=[p.horizon.instants for p in prepared],
        complete=[p.horizon.is_complete for p in prepared],
        times=[p.progress.times_triggered for p in prepared],
        starts=[t.start_time for t in triggers],
        ends=[t.end_time for t in triggers],
        priorities=[t.priority for t in triggers],
        misfires=[str(t.misfire) for t in triggers],
        rules=[_misfire_rule(p) for p in prepared],
        thresholds=[t.misfire_threshold for t in triggers],
        calendars=[t.calendar for t in triggers],
        data=[job_data.encode(t.data) for t in triggers],
    )


def store_jobs(session: SqlSession, entries: Sequence[JobEntry], *, replace: bool) -> datetime | None:
    """Store jobs and triggers; see `JobStore.store_jobs`."""
    jobs = [entry.job for entry in entries if entry.job is not None]
    prepared = [trigger for entry in entries for trigger in entry.triggers]

    def work(transaction: Transaction) -> None:
        for some in _chunks(jobs):
            _store_some_jobs(session, transaction, some, replace)
        _store_triggers(session, transaction, prepared, replace)

    session.transaction(work)
    return _soonest(prepared)


def _soonest(prepared: Sequence[PreparedTrigger]) -> datetime | None:
    return min((p.progress.next_fire_time for p in prepared if p.progress.next_fire_time), default=None)


def _store_some_jobs(session: SqlSession, transaction: Transaction, jobs: Sequence[JobDetail], replace: bool) -> None:
    sends = [_jobs(session, jobs, replace)]
    if replace:
        sends.append(session.send(COPY_JOB, groups=[job.group for job in jobs], names=[job.name for job in jobs]))
    stored = {JobKey(*row) for row in transaction.send(*sends)[0].rows}
    for job in jobs:
        if job.key not in stored:
            raise ObjectAlreadyExistsError(f"job {job.key} exists already; pass replace=True to replace it")


def _store_triggers(
    session: SqlSession, transaction: Transaction, prepared: Sequence[PreparedTrigger], replace: bool
) -> None:
    """Store triggers and commit."""
    names = {p.trigger.calendar for p in prepared if p.trigger.calendar is not None}
    revisions = held_revisions(session, transaction, names)
    # What was computed from a calendar that was replaced meanwhile is left to be computed again.
    prepared = [
        p if p.calendar_revision == revisions.get(p.trigger.calendar or "") else replace_in(p, horizon=Horizon())
        for p in prepared
    ]
    for some in _chunks(prepared):
        _store_some_triggers(session, transaction, some, replace)
    transaction.commit(*_last_flight(session, prepared))


def _store_some_triggers(
    session: SqlSession, transaction: Transaction, prepared: Sequence[PreparedTrigger], replace: bool
) -> None:
    sent = transaction.send(_triggers(session, prepared, replace))[0]
    stored = {TriggerKey(*row) for row in sent.rows}
    missing = [p.trigger for p in prepared if p.trigger.key not in stored]
    if not missing:
        return
    keys = sorted({trigger.job_key for trigger in missing if trigger.job_key})
    held = session.send(HOLD_JOBS, groups=[k.group for k in keys], names=[k.name for k in keys])
    present = {JobKey(*row) for row in transaction.send(held)[0].rows}
    for trigger in missing:
        if trigger.job_key not in present:
            raise JobNotFoundError(f"trigger {trigger.key}: no job {trigger.job_key} is stored")
    raise ObjectAlreadyExistsError(f"trigger {missing[0].key} exists already; pass replace=True to replace it")


def _last_flight(session: SqlSession, prepared: Sequence[PreparedTrigger]) -> list[Send]:
    if not prepared:
        return []
    sends = [session.lock(LockName.TRIGGER_ACCESS)]
    for some in _chunks(prepared):
        keys = {"groups": [p.trigger.group for p in some], "names": [p.trigger.name for p in some]}
        sends += [session.send(SETTLE_NEW, **keys), session.send(VOID_CLAIMS, **keys)]
    due = [
        (p.trigger.job_key, p.progress.next_fire_time)
        for p in prepared
        if p.trigger.job_key is not None and p.progress.next_fire_time is not None
    ]
    return [*sends, *announcement(session, due)]


def replace_trigger(session: SqlSession, old: TriggerKey, new: PreparedTrigger) -> datetime | None:
    """Put `new` in the place of `old`; see `JobStore.replace_trigger`."""

    def work(transaction: Transaction) -> bool:
        went = transaction.send(
            session.send(DELETE_TRIGGERS, groups=[old.group], names=[old.name]),
            session.send(VOID_CLAIMS, groups=[old.group], names=[old.name]),
        )[0]
        if went.rows:
            _store_triggers(session, transaction, [new], replace=False)
        return bool(went.rows)

    return _soonest([new]) if session.transaction(work) else None


def delete_triggers(session: SqlSession, keys: Collection[TriggerKey]) -> set[TriggerKey]:
    """Remove triggers; see `JobStore.delete_triggers`."""
    values = {"groups": [key.group for key in keys], "names": [key.name for key in keys]}

    def work(transaction: Transaction) -> set[TriggerKey]:
        went = transaction.send(session.send(DELETE_TRIGGERS, **values))[0].rows
        jobs = sorted({row[2:] for row in went})
        orphans = {"job_groups": [group for group, _ in jobs], "job_names": [name for _, name in jobs]}
        transaction.commit(session.send(VOID_CLAIMS, **values), session.send(ORPHANED_JOBS, **orphans))
        return {TriggerKey(group, name) for group, name, _, _ in went}

    return session.transaction(work) if keys else set()


def delete_jobs(session: SqlSession, keys: Collection[JobKey]) -> set[JobKey]:
    """Remove jobs with their triggers; see `JobStore.delete_jobs`."""
    values = {"groups": [key.group for key in keys], "names": [key.name for key in keys]}
    *_, went = session.unlocked(
        session.send(HOLD_JOBS, **values),
        session.send(DELETE_TRIGGERS_OF_JOBS, **values),
        session.send(DELETE_JOBS, **values),
    )
    return {JobKey(*row) for row in went.rows}


def clear(session: SqlSession) -> None:
    """Remove everything; see `JobStore.clear`."""
    session.unlocked(*[session.send(text) for text in CLEAR])


def owned(session: SqlSession, owner: str) -> tuple[set[JobKey], set[TriggerKey]]:
    """What an owner declared; see `JobStore.owned`."""
    jobs, triggers = session.read(session.send(OWNED_JOBS, owner=owner), session.send(OWNED_TRIGGERS, owner=owner))
    return {JobKey(*row) for row in jobs.rows}, {TriggerKey(*row) for row in triggers.rows}


def own(session: SqlSession, owner: str, jobs: Collection[JobKey], triggers: Collection[TriggerKey]) -> None:
    """Note whose these are; see `JobStore.own`."""
    keys = (OWN_JOBS, jobs), (OWN_TRIGGERS, triggers)
    session.unlocked(
        *(
            session.send(text, owner=owner, groups=[key.group for key in some], names=[key.name for key in some])
            for text, some in keys
        )
    )
