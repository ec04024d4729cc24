"""The state of a trigger that is stored: what pauses, modes and running executions let it do.

A transaction of the user's takes no lock, so what it stores may be out of date when it commits: a pause or another
definition of its job was committed meanwhile. Its triggers wait under a rule of their own, NEW (HELD where they were
paused since), which no step takes them by, until the next `acquire` settles them under TRIGGER_ACCESS: it looks at
the pauses and at the job again, and gives them the rule that they ask for.
"""

from __future__ import annotations

from quartzpy.keys import UNSCHEDULED_GROUPS
from quartzpy.store.sql.misfire import USUAL_RULE

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
GROUP_IS_PAUSED = """
EXISTS (SELECT FROM $paused_groups p
         WHERE p.sched_name = %(sched)s
           AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = {row}.trigger_group)
                OR (p.scope = 'JOB' AND p.group_name = {row}.job_group)))
"""
NEW_STATE = f"""
CASE WHEN {GROUP_IS_PAUSED}
          OR {MODE_FORBIDS}
     THEN 'PAUSED' ELSE '' END ||
CASE WHEN {{job}}.overlap_policy = 'block' AND {{job}}.max_concurrent <= (
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


def held_by_mode(row: str) -> str:
    """The SQL that says whether a mode alone pauses a new trigger `row`, so that the end of the mode resumes it."""
    return f"(NOT {ORDINARY} AND NOT {GROUP_IS_PAUSED.format(row=row)} AND {MODE_FORBIDS.format(row=row)})"


COPIES = (
    "job_type = j.job_type, max_concurrent = j.max_concurrent, overlap_policy = j.overlap_policy,"
    " placement = j.placement"
)
"""The SQL, for SET, that copies what a trigger has of its job `j`."""

OUT_OF_DATE = """
(t.job_type, t.max_concurrent, t.overlap_policy, t.placement)
    IS DISTINCT FROM (j.job_type, j.max_concurrent, j.overlap_policy, j.placement)
"""

# Under the lock: what was stored a moment ago, against the pauses, the running jobs and the jobs of this moment.
SETTLE_NEW = f"""
UPDATE $triggers t SET trigger_state = {state_of("t", "j")}, held_by_mode = {held_by_mode("t")}, {COPIES}
  FROM unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row, o.job_group, o.job_name FROM $triggers o
     WHERE o.sched_name = %(sched)s AND o.trigger_group = k.trigger_group AND o.trigger_name = k.trigger_name
     LIMIT 1) AS own
 CROSS JOIN LATERAL (
    SELECT d.job_type, d.max_concurrent, d.overlap_policy, d.placement FROM $job_details d
     WHERE d.sched_name = %(sched)s AND d.job_group = own.job_group AND d.job_name = own.job_name
     LIMIT 1) AS j
 WHERE t.ctid = own.row
   AND t.trigger_state IN ('WAITING', 'PAUSED', 'BLOCKED', 'PAUSED_BLOCKED')
   AND (t.trigger_state <> {state_of("t", "j")} OR t.held_by_mode <> {held_by_mode("t")} OR {OUT_OF_DATE})
"""

# The same for what transactions of users stored and committed since. A row that somebody holds is settled later.
SETTLE = f"""
UPDATE $triggers t
   SET trigger_state = s.new_state, held_by_mode = s.new_hold, misfire_rule = {USUAL_RULE},
       job_type = s.job_type, max_concurrent = s.max_concurrent, overlap_policy = s.overlap_policy,
       placement = s.placement
  FROM (SELECT o.row, j.*,
               CASE WHEN o.trigger_state IN ('WAITING', 'PAUSED', 'BLOCKED', 'PAUSED_BLOCKED')
                    THEN {state_of("o", "j")} ELSE o.trigger_state END AS new_state,
               {held_by_mode("o")} AS new_hold
          FROM (SELECT n.ctid AS row, n.trigger_group, n.job_group, n.job_name, n.trigger_state
                  FROM $triggers n
                 WHERE n.sched_name = %(sched)s AND n.misfire_rule = 'NEW'
                 ORDER BY n.next_fire_time
                 LIMIT 500
                   FOR NO KEY UPDATE SKIP LOCKED) AS o
         CROSS JOIN LATERAL (
            SELECT d.job_type, d.max_concurrent, d.overlap_policy, d.placement FROM $job_details d
             WHERE d.sched_name = %(sched)s AND d.job_group = o.job_group AND d.job_name = o.job_name
             LIMIT 1) AS j) AS s
 WHERE t.ctid = s.row
"""

IS_ORDINARY = f"SELECT {ORDINARY}"

# An error where that is no longer so, or a job is no longer what its new triggers have copies of.
STILL_ORDINARY = f"""
SELECT 1 / count(*)
  FROM (SELECT 1 WHERE {ORDINARY} AND NOT EXISTS (
           SELECT FROM unnest(%(groups)s::text[], %(names)s::text[], %(types)s::text[], %(limits)s::int[],
                              %(overlap_policy)s::text[], %(placements)s::text[])
                       AS t(job_group, job_name, job_type, max_concurrent, overlap_policy, placement)
             JOIN $job_details j
               ON j.sched_name = %(sched)s AND j.job_group = t.job_group AND j.job_name = t.job_name
            WHERE {OUT_OF_DATE})) AS so
"""
