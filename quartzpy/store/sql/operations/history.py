"""Aggregates of the history: throughput and lateness by minute, and the last executions of triggers and jobs.

Each query walks an index from its end and stops after a number of rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime, timedelta

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.states import Outcome
from quartzpy.store.protocol import MinuteRecord, Minutes
from quartzpy.store.records import ExecutionRecord
from quartzpy.store.sql.db.session import SqlSession
from quartzpy.store.sql.db.sql_files import SqlFile
from quartzpy.store.sql.lookups import ENDED_COLUMNS, execution_of

_SQL = SqlFile("operations/history.sql")
ATTEMPTS = _SQL("attempts")
MINUTES = """
WITH latest AS MATERIALIZED (
    SELECT date_trunc('minute', ended_at, 'UTC') AS minute, ended_at, outcome,
           GREATEST(started_at - scheduled_time, interval '0') AS late
      FROM $executions
     WHERE sched_name = %(sched)s AND ended_at >= %(since)s::timestamptz
     ORDER BY ended_at DESC LIMIT %(most)s::int),
lateness AS (
    SELECT minute, percentile_disc(0.5) WITHIN GROUP (ORDER BY late) AS p50,
           percentile_disc(0.99) WITHIN GROUP (ORDER BY late) AS p99
      FROM latest WHERE late IS NOT NULL GROUP BY minute),
outcomes AS (SELECT minute, outcome, count(*) AS number FROM latest GROUP BY minute, outcome)
SELECT minute, jsonb_object_agg(outcome, number)::text,
       (SELECT p50 FROM lateness l WHERE l.minute = o.minute), (SELECT p99 FROM lateness l WHERE l.minute = o.minute),
       (SELECT CASE WHEN count(*) < %(most)s::int THEN %(since)s::timestamptz ELSE min(ended_at) END FROM latest)
  FROM outcomes o
 GROUP BY minute
 ORDER BY minute
"""
LAST = f"""
{ENDED_COLUMNS}
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(of_group, of_name)
 CROSS JOIN LATERAL (
    SELECT * FROM $executions
     WHERE trigger_group = k.of_group AND trigger_name = k.of_name AND sched_name = %(sched)s
     ORDER BY generation DESC, scheduled_time DESC LIMIT %(limit)s::int) AS e
 ORDER BY generation DESC, scheduled_time DESC
"""
MOST_TRIGGERS = 50
"""The number of a job's triggers whose own executions are looked up."""
LAST_OF_JOB = f"""
WITH of_job AS (
    SELECT e.fire_id
      FROM (SELECT trigger_group, trigger_name FROM $triggers
             WHERE job_group = %(group)s AND job_name = %(name)s AND sched_name || '' = %(sched)s
             LIMIT {MOST_TRIGGERS}) AS t
     CROSS JOIN LATERAL (
        SELECT fire_id FROM $executions
         WHERE trigger_group = t.trigger_group AND trigger_name = t.trigger_name AND sched_name = %(sched)s
         ORDER BY generation DESC, scheduled_time DESC LIMIT %(limit)s::int) AS e
    UNION
    SELECT fire_id
      FROM (SELECT fire_id, job_group, job_name FROM $executions
             WHERE sched_name = %(sched)s ORDER BY ended_at DESC LIMIT %(among)s::int) AS latest
     WHERE job_group = %(group)s AND job_name = %(name)s)
{ENDED_COLUMNS}
  FROM of_job JOIN $executions USING (fire_id)
 ORDER BY ended_at DESC, fire_id DESC LIMIT %(limit)s::int
"""
# Without errors and data: a page has thousands of rows.
BETWEEN = """
SELECT outcome, fire_id, trigger_group, trigger_name, job_group, job_name, job_type, instance_id,
       scheduled_time, fired_time, started_at, ended_at, attempt, NULL::text, NULL::text, NULL::text, retry_at
  FROM $executions
 WHERE sched_name = %(sched)s
   AND ended_at >= %(start)s::timestamptz AND ended_at <= %(end)s::timestamptz + %(margin)s::interval
   AND fired_time < %(end)s::timestamptz
 ORDER BY ended_at DESC LIMIT %(limit)s::int
"""


def minutes(session: SqlSession, since: datetime, most: int) -> Minutes:
    found = session.read_one(MINUTES, since=since, most=most)
    records = [
        MinuteRecord(at, {Outcome(name): number for name, number in json.loads(outcomes).items()}, p50, p99)
        for at, outcomes, p50, p99, _ in found
    ]
    return Minutes(records, found[0][-1] if found else since)


def last_executions(
    session: SqlSession, keys: Collection[TriggerKey], limit: int
) -> dict[TriggerKey, list[ExecutionRecord]]:
    values = {"groups": [key.group for key in keys], "names": [key.name for key in keys], "limit": limit}
    found: dict[TriggerKey, list[ExecutionRecord]] = {}
    for row in session.read_one(LAST, **values):
        record = execution_of(*row)
        found.setdefault(record.trigger_key, []).append(record)
    return found


def last_executions_of_job(session: SqlSession, key: JobKey, limit: int, among: int) -> list[ExecutionRecord]:
    rows = session.read_one(LAST_OF_JOB, group=key.group, name=key.name, limit=limit, among=among)
    return [execution_of(*row) for row in rows]


def attempts(session: SqlSession, fire_ids: Collection[int], limit: int) -> dict[int, list[ExecutionRecord]]:
    found: dict[int, list[ExecutionRecord]] = {}
    for root, _, *row in session.read_one(ATTEMPTS, fire_ids=list(fire_ids), limit=limit):
        found.setdefault(root, []).append(execution_of(*row))
    return {root: chain[:limit] for root, chain in found.items()}


def executions_between(
    session: SqlSession, start: datetime, end: datetime, limit: int, margin: timedelta
) -> list[ExecutionRecord]:
    return [execution_of(*row) for row in session.read_one(BETWEEN, start=start, end=end, limit=limit, margin=margin)]
