"""The state of a newly stored trigger, which depends on pauses, modes and running executions.

A user's transaction takes no lock, so its rows may be out of date when it commits: a pause or another definition of the
job may have been committed in the meantime. Therefore it stores its triggers with the misfire rule NEW (HELD if they
are paused afterwards), and no step takes triggers with that rule. The next `acquire` reconciles them under
TRIGGER_ACCESS: it checks the pauses and the job again, and sets their regular misfire rule.
"""

from __future__ import annotations

from quartzpy.keys import UNSCHEDULED_GROUPS

# A key is part of an index entry, whose size is limited: a longer value is represented by its hash.
MAX_KEY_LENGTH = 60


def key_of(data: str, job: str) -> str:
    """Return the SQL for the concurrency key of a trigger that has `data` (a jsonb) and belongs to `job`."""
    return f"""
CASE WHEN {job}.concurrency_key IS NULL THEN ''
     ELSE (SELECT CASE WHEN length(k.value) <= {MAX_KEY_LENGTH} THEN k.value ELSE md5(k.value) END
             FROM (SELECT coalesce((coalesce({job}.job_data, '{{}}') || coalesce({data}, '{{}}'))
                                   ->> {job}.concurrency_key, '') AS value) AS k) END
"""


# What a trigger that is stored now may do. Its own fire does not block it anew: `t` is the table or the new row.
UNSCHEDULED = f"({', '.join(repr(group) for group in UNSCHEDULED_GROUPS)})"
# The mode of its job, or manual mode, prevents a trigger from firing.
MODE_FORBIDS = f"""
(EXISTS (SELECT FROM $job_details m
          WHERE m.sched_name = %(sched)s AND m.job_group = {{row}}.job_group AND m.job_name = {{row}}.job_name
            AND (m.mode = 'DISABLED' OR (m.mode = 'MANUAL' AND {{row}}.trigger_group NOT IN {UNSCHEDULED})))
 OR ({{row}}.trigger_group NOT IN {UNSCHEDULED}
     AND EXISTS (SELECT FROM $paused_groups p WHERE p.sched_name = %(sched)s AND p.scope = 'MANUAL')))
"""


def group_is_paused(trigger_group: str, job_group: str) -> str:
    """Return the SQL that is true if triggers of one of these groups (SQL expressions) start paused."""
    return f"""
EXISTS (SELECT FROM $paused_groups p
         WHERE p.sched_name = %(sched)s
           AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = {trigger_group})
                OR (p.scope = 'JOB' AND p.group_name = {job_group})))
"""


_GROUP_IS_PAUSED = group_is_paused("{row}.trigger_group", "{row}.job_group")
NEW_STATE = f"""
CASE WHEN {_GROUP_IS_PAUSED}
          OR {MODE_FORBIDS}
     THEN 'PAUSED' ELSE '' END ||
CASE WHEN {{job}}.overlap_policy = 'block' AND {{job}}.max_concurrent <= (
              SELECT count(*) FROM $fired_triggers f
               WHERE f.sched_name = %(sched)s AND f.job_group = {{row}}.job_group AND f.job_name = {{row}}.job_name
                 AND f.concurrency_key = {{key}} AND f.state = 'EXECUTING' AND f.max_concurrent IS NOT NULL)
     THEN '_BLOCKED' ELSE '' END
"""
# Nothing is paused, limited or in manual mode: checked once per statement, not once per row.
ORDINARY = """
(SELECT NOT EXISTS (SELECT FROM $paused_groups p WHERE p.sched_name = %(sched)s)
    AND NOT EXISTS (SELECT FROM $job_details m WHERE m.sched_name = %(sched)s AND m.mode <> 'ENABLED')
    AND NOT EXISTS (SELECT FROM $fired_triggers f
                     WHERE f.sched_name = %(sched)s AND f.state = 'EXECUTING' AND f.max_concurrent IS NOT NULL))
"""


def state_of(row: str, job: str, key: str, *, ordinary: str = ORDINARY) -> str:
    """Return the SQL for the state of a new trigger `row` of `job` that has the concurrency key `key`.

    `ordinary` may be a column that has the value of `ORDINARY`.
    """
    suffixes = NEW_STATE.format(row=row, job=job, key=f"({key})")
    return f"""
CASE WHEN {ordinary} THEN 'WAITING'
     ELSE coalesce(nullif(ltrim({suffixes}, '_'), ''), 'WAITING') END
"""


def held_by_mode(row: str, *, ordinary: str = ORDINARY) -> str:
    """Return the SQL that is true if only a mode pauses a new trigger `row`, so that leaving the mode resumes it."""
    return f"(NOT {ordinary} AND NOT {_GROUP_IS_PAUSED.format(row=row)} AND {MODE_FORBIDS.format(row=row)})"


_KEY = key_of("t.job_data", "j")
IS_OTHER_KEY = f"t.concurrency_key <> {_KEY}"
# The misfire rule of a trigger once its job is `j`.
RULE_OF_JOB = """
CASE WHEN t.misfire_rule IN ('SKIP', 'ONCE', 'NEW', 'HELD') THEN t.misfire_rule
     WHEN t.misfire_rule = 'IGNORE' AND t.rate_limit = j.rate_limit THEN 'IGNORE'
     WHEN j.rate_limit IS NOT NULL THEN 'RATE_LIMIT'
     WHEN t.misfire_rule NOT IN ('RATE_LIMIT', 'LATE') THEN t.misfire_rule
     WHEN t.misfire_instruction = 'ignore' OR t.catch_up_until IS NOT NULL THEN 'IGNORE'
     WHEN t.misfire_threshold IS NULL THEN 'SCHEDULER' ELSE 'OWN' END
"""


def _copies(key: str) -> str:
    return (
        "job_type = j.job_type, max_concurrent = j.max_concurrent, overlap_policy = j.overlap_policy,"
        f" placement = j.placement, concurrency_key = {key}, rate_limit = j.rate_limit, misfire_rule = {RULE_OF_JOB},"
        " rate_limited_until = CASE WHEN t.rate_limit = j.rate_limit THEN t.rate_limited_until END"
    )


COPIES = _copies(_KEY)
"""The SQL, for SET, that copies what a trigger has of its job `j`."""

_OTHER_JOB = """
(t.job_type, t.max_concurrent, t.overlap_policy, t.placement, t.rate_limit)
    IS DISTINCT FROM (j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit)
"""
OUT_OF_DATE = f"({_OTHER_JOB} OR {IS_OTHER_KEY})"

_STORED_KEY = key_of("o.job_data", "d")
# Under the lock: compares newly stored triggers with the current pauses, running executions and jobs. Each value is
# computed once, because the server prepares every subquery of a statement before it runs, whether it is used or not.
SETTLE_NEW = f"""
UPDATE $triggers t SET trigger_state = j.new_state, held_by_mode = j.new_hold, {_copies("j.new_key")}
  FROM (SELECT o.row, d.job_type, d.max_concurrent, d.overlap_policy, d.placement, d.rate_limit,
               {_STORED_KEY} AS new_key,
               {state_of("o", "d", _STORED_KEY, ordinary="usual.is_so")} AS new_state,
               {held_by_mode("o", ordinary="usual.is_so")} AS new_hold
          FROM (SELECT {ORDINARY} AS is_so) AS usual
         CROSS JOIN unnest(%(groups)s::text[], %(names)s::text[]) AS k(trigger_group, trigger_name)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row, o.trigger_group, o.job_group, o.job_name, o.job_data FROM $triggers o
             WHERE o.sched_name = %(sched)s AND o.trigger_group = k.trigger_group AND o.trigger_name = k.trigger_name
             LIMIT 1) AS o
         CROSS JOIN LATERAL (
            SELECT d.job_type, d.max_concurrent, d.overlap_policy, d.placement, d.concurrency_key, d.rate_limit,
                   d.job_data
              FROM $job_details d
             WHERE d.sched_name = %(sched)s AND d.job_group = o.job_group AND d.job_name = o.job_name
             LIMIT 1) AS d
        OFFSET 0) AS j
 WHERE t.ctid = j.row
   AND t.trigger_state IN ('WAITING', 'PAUSED', 'BLOCKED', 'PAUSED_BLOCKED')
   AND (t.trigger_state <> j.new_state OR t.held_by_mode <> j.new_hold OR {_OTHER_JOB}
        OR t.concurrency_key <> j.new_key)
"""

IS_ORDINARY = f"SELECT {ORDINARY}"

# Fails if that is no longer the case, or if a job differs from the copies in its new triggers.
STILL_ORDINARY = f"""
SELECT 1 / count(*)
  FROM (SELECT 1 WHERE {ORDINARY} AND NOT EXISTS (
           SELECT FROM unnest(%(groups)s::text[], %(names)s::text[], %(types)s::text[], %(limits)s::int[],
                              %(overlap_policy)s::text[], %(placements)s::text[], %(rate_limits)s::text[]::jsonb[])
                       AS t(job_group, job_name, job_type, max_concurrent, overlap_policy, placement, rate_limit)
             JOIN $job_details j
               ON j.sched_name = %(sched)s AND j.job_group = t.job_group AND j.job_name = t.job_name
            WHERE {_OTHER_JOB})) AS so
"""
