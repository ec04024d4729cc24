"""Orphans: jobs that are not durable and whose last trigger has gone."""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.store.sql.db.flight import Send
from quartzpy.store.sql.db.session import SqlSession

# Locks non-durable jobs that seem to have no trigger left. One that is receiving a trigger is locked, and is skipped.
HOLD_ORPHANS = """
SELECT 1
  FROM unnest(%(job_groups)s::text[], %(job_names)s::text[]) AS named(job_group, job_name)
 CROSS JOIN LATERAL (
    SELECT FROM $job_details o
     WHERE o.sched_name = %(sched)s AND o.job_group = named.job_group AND o.job_name = named.job_name
       AND NOT o.is_durable
       AND (SELECT true FROM $triggers t WHERE t.sched_name = o.sched_name
               AND t.job_group = o.job_group AND t.job_name = o.job_name LIMIT 1) IS NULL
       FOR UPDATE SKIP LOCKED) AS j
"""
# A separate statement, because it must see a trigger that was stored between the check and the lock.
ORPHANED_JOBS = """
DELETE FROM $job_details j
 USING unnest(%(job_groups)s::text[], %(job_names)s::text[]) AS named(job_group, job_name)
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM $job_details o
     WHERE o.sched_name = %(sched)s AND o.job_group = named.job_group AND o.job_name = named.job_name
       AND NOT o.is_durable
       AND (SELECT true FROM $triggers t WHERE t.sched_name = o.sched_name
               AND t.job_group = o.job_group AND t.job_name = o.job_name LIMIT 1) IS NULL
       FOR UPDATE SKIP LOCKED) AS orphan
 WHERE j.ctid = orphan.row
"""


def orphans(session: SqlSession, jobs: Collection[tuple[str, str]]) -> list[Send]:
    """Return the statements that remove those of the jobs that are not durable and have no trigger left."""
    keys = sorted(set(jobs))
    values = {"job_groups": [group for group, _ in keys], "job_names": [name for _, name in keys]}
    return [session.send(text, **values) for text in (HOLD_ORPHANS, ORPHANED_JOBS)] if keys else []
