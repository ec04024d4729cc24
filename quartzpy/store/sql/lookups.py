"""Queries by key and by group, and totals, without a lock. `pages` has the queries with filters and pages."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from quartzpy.jobs.job import JobDetail
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.states import PAUSED_STATES, PUBLIC, ExecutionState, PublicState, TriggerState
from quartzpy.store.protocol import DispatchKey
from quartzpy.store.records import ExecutionRecord, Pauses, RunningRecord, TriggerRecord
from quartzpy.store.sql.db import rows
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.triggers.trigger import TriggerProgress

JOB_COLUMNS = """
j.job_name, j.job_group, j.job_type, j.description, j.is_durable, j.max_concurrent, j.overlap_policy, j.concurrency_key,
       j.placement, j.persists_data, j.requests_recovery, j.retry_policy::text, j.timeout, j.pause_after_failures,
       j.job_data::text, j.continuations::text, j.rate_limit::text, j.display_name, j.capture_logs
"""
JOBS = f"""
SELECT {JOB_COLUMNS}
  FROM $job_details j
  JOIN unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
    ON j.sched_name = %(sched)s AND j.job_group = k.job_group AND j.job_name = k.job_name
"""

TRIGGER = """
SELECT t.trigger_name, t.trigger_group, t.job_group, t.job_name, t.kind, t.schedule::text, t.description,
       t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold, t.calendar_name,
       t.job_data::text, t.job_type, t.trigger_state, t.next_fire_time, t.prev_fire_time, t.times_triggered,
       t.generation, t.upcoming, t.error, t.catch_up_until, t.schedule_hash,
       t.paused_at, t.paused_by, t.pause_reason, t.rate_limited_until
  FROM {source} t
"""
_TRIGGER = TRIGGER.format(source="$triggers")
TRIGGERS = f"""
{_TRIGGER}
  JOIN unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
    ON t.sched_name = %(sched)s AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
"""
TRIGGERS_OF_JOB = f"""
{_TRIGGER} WHERE t.sched_name = %(sched)s AND t.job_group = %(group)s AND t.job_name = %(name)s
 ORDER BY t.trigger_group, t.trigger_name
"""
# The scheduler as an expression leaves only the index of the job.
TRIGGERS_OF_JOBS = f"""
SELECT t.*
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(job_group, job_name)
 CROSS JOIN LATERAL (
    {_TRIGGER}
     WHERE t.sched_name || '' = %(sched)s AND t.job_group = k.job_group AND t.job_name = k.job_name OFFSET 0) AS t
 ORDER BY t.trigger_group, t.trigger_name
"""

STATES = """
SELECT t.trigger_group, t.trigger_name, t.trigger_state
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
  JOIN $triggers t
    ON t.sched_name = %(sched)s AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
"""

# Compares a group with a matcher by text functions, not LIKE, so that every character is literal.
MATCHES = """
CASE %(operator)s
    WHEN 'equals' THEN {column} = %(value)s
    WHEN 'starts_with' THEN starts_with({column}, %(value)s)
    WHEN 'ends_with' THEN right({column}, length(%(value)s)) = %(value)s
    WHEN 'contains' THEN strpos({column}, %(value)s) > 0
    ELSE true
END
"""
JOB_KEYS = f"""
SELECT job_group, job_name FROM $job_details
 WHERE sched_name = %(sched)s AND {MATCHES.format(column="job_group")}
"""
TRIGGER_KEYS = f"""
SELECT trigger_group, trigger_name FROM $triggers
 WHERE sched_name = %(sched)s AND {MATCHES.format(column="trigger_group")}
"""
JOB_GROUPS = "SELECT DISTINCT job_group FROM $job_details WHERE sched_name = %(sched)s ORDER BY 1"
TRIGGER_GROUPS = "SELECT DISTINCT trigger_group FROM $triggers WHERE sched_name = %(sched)s ORDER BY 1"
# A loose index scan: one step per dispatch key, so the cost does not depend on the number of triggers.
WAITING = """
WITH RECURSIVE waiting AS (
    (SELECT job_type, placement FROM $triggers WHERE sched_name = %(sched)s AND trigger_state = 'WAITING'
      ORDER BY job_type, placement LIMIT 1)
    UNION ALL
    SELECT other.job_type, other.placement
      FROM waiting w
     CROSS JOIN LATERAL (
        SELECT t.job_type, t.placement FROM $triggers t
         WHERE t.sched_name = %(sched)s AND t.trigger_state = 'WAITING'
           AND (t.job_type, t.placement) > (w.job_type, w.placement)
         ORDER BY t.job_type, t.placement LIMIT 1) AS other
)
"""
MISFIRE_RULES = "('SCHEDULER'), ('OWN'), ('IGNORE'), ('RATE_LIMIT'), ('LATE'), ('SKIP'), ('ONCE'), ('NEW')"
"""The misfire rules of waiting triggers, as rows."""
WAITING_DISPATCH_KEYS = f"{WAITING} SELECT job_type, placement FROM waiting"
# A loose index scan as well: under `pause_all`, all triggers may be paused.
_PAUSED_GROUPS = """
    (SELECT trigger_group FROM $triggers
      WHERE sched_name = %(sched)s AND trigger_state = '{state}'
        AND EXISTS (SELECT FROM $paused_groups WHERE sched_name = %(sched)s AND scope = 'ALL')
      ORDER BY trigger_group LIMIT 1)
    UNION ALL
    SELECT other.trigger_group
      FROM {name} p
     CROSS JOIN LATERAL (
        SELECT t.trigger_group FROM $triggers t
         WHERE t.sched_name = %(sched)s AND t.trigger_state = '{state}' AND t.trigger_group > p.trigger_group
         ORDER BY t.trigger_group LIMIT 1) AS other
"""
# Under `pause_all`, a group that was first stored later is paused as well.
PAUSED = f"""
WITH RECURSIVE paused AS ({_PAUSED_GROUPS.format(name="paused", state="PAUSED")}),
paused_blocked AS ({_PAUSED_GROUPS.format(name="paused_blocked", state="PAUSED_BLOCKED")})
SELECT scope, group_name FROM $paused_groups WHERE sched_name = %(sched)s
UNION
SELECT 'TRIGGER', trigger_group FROM paused
UNION
SELECT 'TRIGGER', trigger_group FROM paused_blocked
"""

RUNNING = """
SELECT fire_id, trigger_group, trigger_name, job_group, job_name, instance_id, epoch, state, scheduled_time, fired_time,
       attempt, cancel_requested, progress, progress_message
  FROM $fired_triggers WHERE sched_name = %(sched)s ORDER BY fired_time, fire_id
"""

ENDED_COLUMNS = """
SELECT outcome, fire_id, trigger_group, trigger_name, job_group, job_name, job_type, instance_id,
       scheduled_time, fired_time, started_at, ended_at, attempt, error, trigger_data::text, result::text, retry_at
"""
FIRED_COLUMNS = """
SELECT CASE state WHEN 'ACQUIRED' THEN 'ENQUEUED' ELSE 'PROCESSING' END, fire_id, trigger_group, trigger_name,
       job_group, job_name, job_type, instance_id, scheduled_time, CASE state WHEN 'EXECUTING' THEN fired_time END,
       NULL::timestamptz, NULL::timestamptz, attempt, NULL::text, trigger_data::text, NULL::text, NULL::timestamptz
"""
# Only this query reads the log: a page of executions would drag megabytes.
EXECUTION = f"""
{ENDED_COLUMNS}, log FROM $executions WHERE fire_id = %(fire_id)s::bigint AND sched_name = %(sched)s
UNION ALL
{FIRED_COLUMNS}, recent_log FROM $fired_triggers WHERE fire_id = %(fire_id)s::bigint AND sched_name = %(sched)s
"""
COUNTS = """
SELECT (SELECT count(*) FROM $job_details WHERE sched_name = %(sched)s),
       (SELECT coalesce(jsonb_object_agg(trigger_state, n), '{}')::text
          FROM (SELECT trigger_state, count(*) AS n FROM $triggers
                 WHERE sched_name = %(sched)s GROUP BY trigger_state) AS s),
       (SELECT count(*) FROM $fired_triggers WHERE sched_name = %(sched)s AND state = 'EXECUTING')
"""


def _listed(keys: Collection[JobKey] | Collection[TriggerKey]) -> dict[str, list[str]]:
    return {"groups": [key.group for key in keys], "names": [key.name for key in keys]}


def match_values(matcher: GroupMatcher) -> dict[str, str]:
    """Return the values for `MATCHES`."""
    return {"operator": str(matcher.operator), "value": matcher.value}


def jobs(session: SqlSession, keys: Collection[JobKey]) -> dict[JobKey, JobDetail]:
    found = [rows.job(*row) for row in session.read_one(JOBS, **_listed(keys))]
    return {job.key: job for job in found}


def trigger_record(row: tuple[Any, ...]) -> TriggerRecord:
    """Return a row of `TRIGGERS` as a record."""
    name, group, job_group, job_name, *columns = row[:14]
    job_type, state, following, previous, times, generation, upcoming, error, catch_up_until, schedule_hash = row[14:24]
    is_paused = TriggerState(state) in PAUSED_STATES
    paused_at, paused_by, pause_reason = row[24:27] if is_paused else (None, None, None)
    return TriggerRecord(
        key=TriggerKey(name, group),
        job_key=JobKey(job_name, job_group),
        load_trigger=partial(rows.trigger, name, group, job_group, job_name, *columns),
        job_type=job_type,
        state=TriggerState(state),
        progress=TriggerProgress(following, previous, times),
        generation=generation,
        upcoming=tuple(upcoming),
        error=error,
        catch_up_until=catch_up_until,
        kind=columns[0],
        calendar=columns[8],
        priority=columns[5],
        description=columns[2],
        schedule_hash=schedule_hash,
        paused_at=paused_at,
        paused_by=paused_by,
        pause_reason=pause_reason,
        rate_limited_until=row[27],
    )


def triggers(session: SqlSession, keys: Collection[TriggerKey]) -> dict[TriggerKey, TriggerRecord]:
    found = [trigger_record(row) for row in session.read_one(TRIGGERS, **_listed(keys))]
    return {record.key: record for record in found}


def triggers_of_job(session: SqlSession, key: JobKey) -> list[TriggerRecord]:
    return [trigger_record(row) for row in session.read_one(TRIGGERS_OF_JOB, group=key.group, name=key.name)]


def triggers_of_jobs(session: SqlSession, keys: Collection[JobKey]) -> dict[JobKey, list[TriggerRecord]]:
    found: dict[JobKey, list[TriggerRecord]] = {}
    for row in session.read_one(TRIGGERS_OF_JOBS, **_listed(keys)):
        record = trigger_record(row)
        found.setdefault(record.job_key, []).append(record)
    return found


def trigger_states(session: SqlSession, keys: Collection[TriggerKey]) -> Mapping[TriggerKey, PublicState]:
    found = session.read_one(STATES, **_listed(keys))
    states = {TriggerKey(name, group): PUBLIC[TriggerState(state)] for group, name, state in found}
    return {key: states.get(key, PublicState.NONE) for key in keys}


def job_keys(session: SqlSession, matcher: GroupMatcher) -> set[JobKey]:
    return {JobKey(row[1], row[0]) for row in session.read_one(JOB_KEYS, **match_values(matcher))}


def trigger_keys(session: SqlSession, matcher: GroupMatcher) -> set[TriggerKey]:
    return {TriggerKey(row[1], row[0]) for row in session.read_one(TRIGGER_KEYS, **match_values(matcher))}


def column(session: SqlSession, text: str) -> list[str]:
    """Return the first column of a query without values."""
    return [row[0] for row in session.read_one(text)]


def pauses(session: SqlSession) -> Pauses:
    """See `JobStore.pauses`."""
    found = session.read_one(PAUSED)
    groups = {scope: frozenset(name for of, name in found if of == scope) for scope in ("TRIGGER", "JOB")}
    return Pauses(any(scope == "ALL" for scope, _ in found), groups["TRIGGER"], groups["JOB"])


def paused(session: SqlSession, scope: str) -> set[str]:
    return {name for found, name in session.read_one(PAUSED) if found == scope}


def waiting_dispatch_keys(session: SqlSession) -> set[DispatchKey]:
    return {DispatchKey(*row) for row in session.read_one(WAITING_DISPATCH_KEYS)}


def list_running(session: SqlSession) -> list[RunningRecord]:
    return [
        RunningRecord(fire_id, TriggerKey(name, group), JobKey(job_name, job_group), *columns)
        for fire_id, group, name, job_group, job_name, *columns in session.read_one(RUNNING)
    ]


def execution(session: SqlSession, fire_id: int) -> ExecutionRecord | None:
    found = session.read_one(EXECUTION, fire_id=fire_id)
    return replace(execution_of(*found[0][:-1]), log_text=found[0][-1], log_is_read=True) if found else None


def execution_of(
    state: str, fire_id: int | None, group: str, name: str, job_group: str, job_name: str, *columns: Any
) -> ExecutionRecord:
    return ExecutionRecord(
        ExecutionState(state), fire_id, TriggerKey(name, group), JobKey(job_name, job_group), *columns
    )


def counts(session: SqlSession) -> dict[str, Any]:
    [(jobs, triggers, running)] = session.read_one(COUNTS)
    return {"jobs": jobs, "triggers": json.loads(triggers), "running": running}


def matched_groups(matcher: GroupMatcher, groups: Sequence[str]) -> set[str]:
    """Return the groups that match; a group that is named by EQUALS need not exist yet."""
    named = {matcher.value} if matcher.operator is MatchOperator.EQUALS else set()
    return named | {group for group in groups if matcher.matches(group)}
