"""The state of a newly stored trigger, which depends on pauses, modes and running executions.

A user's transaction takes no lock, so its rows may be out of date when it commits: a pause or another definition of the
job may have been committed in the meantime. Therefore it stores its triggers with the misfire rule NEW (HELD if they
are paused afterwards), and no step takes triggers with that rule. The next `acquire` reconciles them under
TRIGGER_ACCESS: it checks the pauses and the job again, and sets their regular misfire rule.
"""

from __future__ import annotations

from quartzpy.keys import UNSCHEDULED_GROUPS
from quartzpy.store.sql.db.sql_files import SqlFile

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


COPIES = (
    "job_type = j.job_type, max_concurrent = j.max_concurrent, overlap_policy = j.overlap_policy,"
    f" placement = j.placement, concurrency_key = {_KEY}, rate_limit = j.rate_limit, misfire_rule = {RULE_OF_JOB},"
    " rate_limited_until = CASE WHEN t.rate_limit = j.rate_limit THEN t.rate_limited_until END"
)
"""The SQL, for SET, that copies what a trigger has of its job `j`."""

_OTHER_JOB = """
(t.job_type, t.max_concurrent, t.overlap_policy, t.placement, t.rate_limit)
    IS DISTINCT FROM (j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit)
"""
OUT_OF_DATE = f"({_OTHER_JOB} OR {IS_OTHER_KEY})"

_SQL = SqlFile("steps/settling.sql")
SETTLE_NEW = _SQL("settle_new")
IS_ORDINARY = _SQL("is_ordinary")
STILL_ORDINARY = _SQL("still_ordinary")
