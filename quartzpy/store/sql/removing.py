"""Removes jobs and triggers, with the claims on them."""

from __future__ import annotations

from collections.abc import Collection

from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.sql.db.session import SqlSession, Transaction
from quartzpy.store.sql.steps.orphans import orphans

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

CLEAR = (
    "DELETE FROM $triggers WHERE sched_name = %(sched)s",
    "DELETE FROM $fired_triggers WHERE sched_name = %(sched)s AND state = 'ACQUIRED'",
    "DELETE FROM $job_details WHERE sched_name = %(sched)s",
    "DELETE FROM $calendars WHERE sched_name = %(sched)s",
    "DELETE FROM $paused_groups WHERE sched_name = %(sched)s",
    "DELETE FROM $owners WHERE sched_name = %(sched)s",
)


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
