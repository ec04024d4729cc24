"""Read-only queries for the facade, the command line and the page. No lock."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from quartzpy.job import JobDetail
from quartzpy.keys import RECOVERING_JOBS, JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher, MatchOperator
from quartzpy.states import PUBLIC, MisfireAction, Outcome, PublicState, TriggerState
from quartzpy.store.protocol import ExecutionRecord, JobRecord, MisfireRecord, RunningRecord, TriggerRecord
from quartzpy.store.sql import rows
from quartzpy.store.sql.session import SqlSession
from quartzpy.triggers.trigger import TriggerProgress

_JOB = """
SELECT j.job_name, j.job_group, j.job_type, j.description, j.is_durable, j.max_concurrent, j.skips_when_full,
       j.persists_data, j.requests_recovery, j.retry_policy::text, j.timeout, j.job_data::text
  FROM $job_details j
"""
JOB = f"{_JOB} WHERE sched_name = %(sched)s AND job_group = %(group)s AND job_name = %(name)s"

LIST_JOBS = """
SELECT (SELECT count(*) FROM $triggers t WHERE t.sched_name = j.sched_name AND t.job_group = j.job_group
           AND t.job_name = j.job_name),
       j.job_name, j.job_group, j.job_type, j.description, j.is_durable, j.max_concurrent, j.skips_when_full,
       j.persists_data, j.requests_recovery, j.retry_policy::text, j.timeout, j.job_data::text
  FROM $job_details j
 WHERE sched_name = %(sched)s
 ORDER BY job_group, job_name
 LIMIT %(limit)s::int
"""

_TRIGGER = """
SELECT t.trigger_name, t.trigger_group, t.job_group, t.job_name, t.kind, t.schedule::text, t.description,
       t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold, t.calendar_name,
       t.job_data::text, t.job_type, t.trigger_state, t.next_fire_time, t.prev_fire_time, t.times_triggered,
       t.generation, t.upcoming, t.error, t.catch_up_until
  FROM $triggers t
 WHERE t.sched_name = %(sched)s
"""
TRIGGER = f"{_TRIGGER} AND t.trigger_group = %(group)s AND t.trigger_name = %(name)s"
TRIGGERS_OF_JOB = f"""
{_TRIGGER} AND t.job_group = %(group)s AND t.job_name = %(name)s ORDER BY t.trigger_group, t.trigger_name
"""
TRIGGERS_OF_CALENDAR = f"""
{_TRIGGER} AND t.calendar_name = %(name)s ORDER BY t.trigger_group, t.trigger_name
"""
LIST_TRIGGERS = f"""
{_TRIGGER} ORDER BY t.next_fire_time NULLS LAST, t.priority DESC, t.trigger_group, t.trigger_name
 LIMIT %(limit)s::int
"""

STATES = """
SELECT t.trigger_group, t.trigger_name, t.trigger_state
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
  JOIN $triggers t
    ON t.sched_name = %(sched)s AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
"""

# A group against a matcher: text functions, so that every character is literal.
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
# One step along the index of what waits for each type: as quick with a million triggers as with ten.
WAITING_JOB_TYPES = """
WITH RECURSIVE waiting AS (
    (SELECT job_type FROM $triggers WHERE sched_name = %(sched)s AND trigger_state = 'WAITING'
      ORDER BY job_type LIMIT 1)
    UNION ALL
    SELECT (SELECT t.job_type FROM $triggers t
             WHERE t.sched_name = %(sched)s AND t.trigger_state = 'WAITING' AND t.job_type > w.job_type
             ORDER BY t.job_type LIMIT 1)
      FROM waiting w WHERE w.job_type IS NOT NULL
)
SELECT job_type FROM waiting WHERE job_type IS NOT NULL
"""
# While all are paused, a group that was stored since is paused like those that were.
PAUSED = """
SELECT scope, group_name FROM $paused_groups WHERE sched_name = %(sched)s
UNION
SELECT 'TRIGGER', t.trigger_group FROM $triggers t
 WHERE t.sched_name = %(sched)s AND t.trigger_state IN ('PAUSED', 'PAUSED_BLOCKED')
   AND EXISTS (SELECT FROM $paused_groups WHERE sched_name = %(sched)s AND scope = 'ALL')
"""

RUNNING = """
SELECT fence, trigger_group, trigger_name, job_group, job_name, instance_id, epoch, state, scheduled_time, fired_time,
       attempt, cancel_requested
  FROM $fired_triggers WHERE sched_name = %(sched)s ORDER BY fired_time, fence
"""
EXECUTIONS = """
SELECT fence, trigger_group, trigger_name, job_group, job_name, instance_id, scheduled_time, fired_time, started_at,
       ended_at, outcome, error, attempt
  FROM $executions WHERE sched_name = %(sched)s ORDER BY ended_at DESC, fence DESC LIMIT %(limit)s::int
"""
_MISFIRES = """
SELECT trigger_group, trigger_name, job_group, job_name, instance_id, handled_at, misfire_instruction, action,
       scheduled_time, missed, has_more, made_up, next_fire_time
  FROM $misfires WHERE sched_name = %(sched)s
"""
MISFIRES = f"{_MISFIRES} ORDER BY id DESC LIMIT %(limit)s::int"
MISFIRES_OF_TRIGGER = f"""
{_MISFIRES} AND trigger_group = %(group)s AND trigger_name = %(name)s ORDER BY id DESC LIMIT %(limit)s::int
"""
COUNTS = """
SELECT (SELECT count(*) FROM $job_details WHERE sched_name = %(sched)s),
       (SELECT coalesce(jsonb_object_agg(trigger_state, n), '{}')::text
          FROM (SELECT trigger_state, count(*) AS n FROM $triggers
                 WHERE sched_name = %(sched)s GROUP BY trigger_state) AS s),
       (SELECT count(*) FROM $fired_triggers WHERE sched_name = %(sched)s AND state = 'EXECUTING')
"""


def match_values(matcher: GroupMatcher) -> dict[str, str]:
    """What `MATCHES` is bound with."""
    return {"operator": str(matcher.operator), "value": matcher.value}


def job(session: SqlSession, key: JobKey) -> JobDetail | None:
    found = session.read_one(JOB, group=key.group, name=key.name)
    return rows.job(*found[0]) if found else None


def list_jobs(session: SqlSession, limit: int) -> list[JobRecord]:
    return [JobRecord(rows.job(*columns), n) for n, *columns in session.read_one(LIST_JOBS, limit=limit)]


def _record(row: tuple[Any, ...]) -> TriggerRecord:
    name, group, job_group, job_name, *columns = row[:14]
    job_type, state, following, previous, times, generation, upcoming, error, catch_up_until = row[14:]
    return TriggerRecord(
        trigger=rows.trigger(name, group, job_group, job_name, *columns),
        job_type=job_type,
        state=TriggerState(state),
        progress=TriggerProgress(following, previous, times),
        generation=generation,
        upcoming=tuple(upcoming),
        error=error,
        catch_up_until=catch_up_until,
    )


def trigger(session: SqlSession, key: TriggerKey) -> TriggerRecord | None:
    found = session.read_one(TRIGGER, group=key.group, name=key.name)
    return _record(found[0]) if found else None


def triggers_of_job(session: SqlSession, key: JobKey) -> list[TriggerRecord]:
    return [_record(row) for row in session.read_one(TRIGGERS_OF_JOB, group=key.group, name=key.name)]


def triggers_of_calendar(session: SqlSession, name: str) -> list[TriggerRecord]:
    return [_record(row) for row in session.read_one(TRIGGERS_OF_CALENDAR, name=name)]


def list_triggers(session: SqlSession, limit: int) -> list[TriggerRecord]:
    return [_record(row) for row in session.read_one(LIST_TRIGGERS, limit=limit)]


def trigger_states(session: SqlSession, keys: Collection[TriggerKey]) -> Mapping[TriggerKey, PublicState]:
    found = session.read_one(STATES, groups=[k.group for k in keys], names=[k.name for k in keys])
    states = {TriggerKey(group, name): PUBLIC[TriggerState(state)] for group, name, state in found}
    return {key: states.get(key, PublicState.NONE) for key in keys}


def job_keys(session: SqlSession, matcher: GroupMatcher) -> set[JobKey]:
    return {JobKey(*row) for row in session.read_one(JOB_KEYS, **match_values(matcher))}


def trigger_keys(session: SqlSession, matcher: GroupMatcher) -> set[TriggerKey]:
    return {TriggerKey(*row) for row in session.read_one(TRIGGER_KEYS, **match_values(matcher))}


def column(session: SqlSession, text: str) -> list[str]:
    """The first column of a query without values."""
    return [row[0] for row in session.read_one(text)]


def paused(session: SqlSession, scope: str) -> set[str]:
    return {name for found, name in session.read_one(PAUSED) if found == scope}


def list_running(session: SqlSession) -> list[RunningRecord]:
    return [
        RunningRecord(
            fence=fence,
            trigger_key=TriggerKey(group, name),
            job_key=JobKey(job_group, job_name),
            instance_id=instance_id,
            epoch=epoch,
            state=state,
            scheduled_fire_time=scheduled,
            fire_time=fired,
            recovering=group == RECOVERING_JOBS,
            attempt=attempt,
            cancel_requested=cancel_requested,
        )
        for (
            fence,
            group,
            name,
            job_group,
            job_name,
            instance_id,
            epoch,
            state,
            scheduled,
            fired,
            attempt,
            cancel_requested,
        ) in session.read_one(RUNNING)
    ]


def list_executions(session: SqlSession, limit: int) -> list[ExecutionRecord]:
    return [
        ExecutionRecord(
            fence=fence,
            trigger_key=TriggerKey(group, name),
            job_key=JobKey(job_group, job_name),
            instance_id=instance_id,
            scheduled_fire_time=scheduled,
            fire_time=fired,
            started_at=started,
            ended_at=ended,
            outcome=Outcome(outcome),
            error=error,
            recovering=group == RECOVERING_JOBS,
            attempt=attempt,
        )
        for (
            fence,
            group,
            name,
            job_group,
            job_name,
            instance_id,
            scheduled,
            fired,
            started,
            ended,
            outcome,
            error,
            attempt,
        ) in session.read_one(EXECUTIONS, limit=limit)
    ]


def list_misfires(session: SqlSession, limit: int, key: TriggerKey | None) -> list[MisfireRecord]:
    if key is None:
        found = session.read_one(MISFIRES, limit=limit)
    else:
        found = session.read_one(MISFIRES_OF_TRIGGER, limit=limit, group=key.group, name=key.name)
    return [
        MisfireRecord(
            trigger_key=TriggerKey(group, name),
            job_key=JobKey(job_group, job_name),
            instance_id=instance_id,
            handled_at=handled_at,
            misfire=instruction,
            action=MisfireAction(action),
            scheduled_fire_time=scheduled,
            missed=tuple(missed),
            has_more=has_more,
            made_up=made_up,
            next_fire_time=following,
        )
        for (
            group,
            name,
            job_group,
            job_name,
            instance_id,
            handled_at,
            instruction,
            action,
            scheduled,
            missed,
            has_more,
            made_up,
            following,
        ) in found
    ]


def counts(session: SqlSession) -> dict[str, Any]:
    [(jobs, triggers, running)] = session.read_one(COUNTS)
    return {"jobs": jobs, "triggers": json.loads(triggers), "running": running}


def matched_groups(matcher: GroupMatcher, groups: Sequence[str]) -> set[str]:
    """The groups that match; one that is named by EQUALS need not exist yet."""
    named = {matcher.value} if matcher.operator is MatchOperator.EQUALS else set()
    return named | {group for group in groups if matcher.matches(group)}
