"""The triggers of jobs that run after others: stored by the statement that ends an execution.

As for a retry, the row of the job to run is held first, and an execution keeps its row, to be ended by a later try,
where somebody else holds that: see `rerun`.
"""

from __future__ import annotations

from quartzpy.job_data import (
    PREDECESSOR_FIRE_ID,
    PREDECESSOR_GROUP,
    PREDECESSOR_NAME,
    PREDECESSOR_OUTCOME,
    PREDECESSOR_RESULT,
)
from quartzpy.keys import CONTINUATIONS
from quartzpy.store.sql.steps.rerun import Rerun, rerun
from quartzpy.store.sql.steps.settling import key_of

CONTINUATION = Rerun(
    group=CONTINUATIONS,
    name="'after_' || f.fire_id || '_' || f.place",
    at="$now",
    attempt="1",
    coalesced="NULL",
    original=f"""
        '{PREDECESSOR_NAME}', f.ended_name,
        '{PREDECESSOR_GROUP}', f.ended_group,
        '{PREDECESSOR_FIRE_ID}', f.fire_id,
        '{PREDECESSOR_OUTCOME}', f.outcome,
        '{PREDECESSOR_RESULT}', f.result::jsonb""",
    identity="fire_id, place",
)

UNFOLLOWED = "SELECT fire_id FROM links EXCEPT ALL SELECT fire_id FROM followers"
"""The executions whose end must wait, because somebody holds the row of a job that runs after them."""


def followers(ended: str) -> str:
    """Return the SQL, CTEs, that holds the jobs to run after `ended`, rows of fire_id, job_group, job_name, outcome."""
    return f"""
links AS MATERIALIZED (
    SELECT e.fire_id, link.place, target.row, link.spec -> 'data' AS given
      FROM ({ended}) AS e
     CROSS JOIN LATERAL (
        SELECT o.continuations FROM $job_details o
         WHERE o.sched_name = %(sched)s AND o.job_group = e.job_group AND o.job_name = e.job_name LIMIT 1) AS own
     CROSS JOIN LATERAL jsonb_array_elements(own.continuations) WITH ORDINALITY AS link(spec, place)
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM $job_details o
         WHERE o.sched_name = %(sched)s AND o.job_group = link.spec ->> 'job_group'
           AND o.job_name = link.spec ->> 'job_name' LIMIT 1) AS target
     WHERE jsonb_exists(link.spec -> 'outcomes', e.outcome)
),
followers AS MATERIALIZED (
    SELECT l.fire_id, l.place, l.given, j.*
      FROM links l
     CROSS JOIN LATERAL (
        SELECT o.job_group, o.job_name, o.job_type, o.max_concurrent, o.overlap_policy, o.placement, o.mode,
               o.rate_limit, o.concurrency_key, o.job_data
          FROM $job_details o
         WHERE o.ctid = l.row
           FOR NO KEY UPDATE SKIP LOCKED) AS j
),
"""


def continued(ended: str) -> str:
    """Return the SQL, a CTE to be closed by the caller, that stores a trigger for each follower of `ended`.

    These are rows like those of `fired_triggers`, with an outcome and a result (a text).
    """
    return rerun(
        "continued",
        f"""(
        SELECT e.fire_id, e.sched_name, l.place, l.job_group, l.job_name, e.priority, l.given AS trigger_data,
               {key_of("l.given", "l")} AS concurrency_key,
               e.job_group AS ended_group, e.job_name AS ended_name, e.outcome, e.result
          FROM ({ended}) AS e JOIN followers l ON l.fire_id = e.fire_id) AS ended_by""",
        "followers",
        CONTINUATION,
    )
