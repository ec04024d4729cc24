"""One-shot triggers that run a job again: after its node died (recovery), or after it failed (retry).

They carry the keys and times of the original execution, under Quartz's names and ours; one that is repeated again keeps
the keys of the first original.

Such a trigger refers to its job: storing it under the lock would wait there for any open transaction that deletes or
redefines the job. So the job's row is locked first, or skipped if another transaction has it. The lock is stronger than
the foreign key requires, because the check of the key would wait for a row that was updated and then locked.
"""

from __future__ import annotations

from dataclasses import dataclass

from quartzpy.job_data import (
    ORIGINAL_FIRE_TIME,
    ORIGINAL_GROUP,
    ORIGINAL_NAME,
    ORIGINAL_SCHEDULED_FIRE_TIME,
    RETRIED_GROUP,
    RETRIED_NAME,
    RETRIED_SCHEDULED_FIRE_TIME,
)
from quartzpy.keys import RECOVERING_JOBS, RETRYING_JOBS
from quartzpy.store.sql.steps.settling import group_is_paused


def _milliseconds(column: str) -> str:
    # Before PostgreSQL 14, `extract` returns a float, which is exact for these two parts but not for their sum.
    return (
        f"trim_scale(extract(epoch FROM date_trunc('minute', {column}))::numeric * 1000"
        f" + extract(microseconds FROM {column})::numeric / 1000)::text"
    )


_FIRED_AT = _milliseconds("f.fired_time")
_SCHEDULED_AT = _milliseconds("f.scheduled_time")


@dataclass(frozen=True, slots=True)
class Rerun:
    """A kind of one-shot trigger, as SQL over the fired row `f`.

    `identity` are the columns by which `f` is joined with the job that the trigger fires.
    """

    group: str
    name: str
    at: str
    attempt: str
    original: str
    identity: str = "fire_id"
    coalesced: str = "f.coalesced_fire_times"
    keeps_admission: str | None = None
    """Whether the rate limit was charged for this run already, so that it is not asked again."""


RECOVERY = Rerun(
    group=RECOVERING_JOBS,
    name="'recover_' || left(f.instance_id, 150) || '_' || f.fire_id",
    at="f.scheduled_time",
    attempt="f.attempt",
    original=f"""
        '{ORIGINAL_NAME}', f.trigger_name,
        '{ORIGINAL_GROUP}', f.trigger_group,
        '{ORIGINAL_FIRE_TIME}', {_FIRED_AT},
        '{ORIGINAL_SCHEDULED_FIRE_TIME}', {_SCHEDULED_AT}""",
)
RETRY = Rerun(
    group=RETRYING_JOBS,
    name="'retry_' || f.attempt || '_' || f.fire_id",
    at="$now + f.retry_after",
    # One that was snoozed has not used up an attempt.
    attempt="f.attempt + (f.outcome = 'FAILED')::int",
    original=f"""
        '{RETRIED_NAME}', f.trigger_name,
        '{RETRIED_GROUP}', f.trigger_group,
        '{RETRIED_SCHEDULED_FIRE_TIME}', {_SCHEDULED_AT}""",
    keeps_admission="f.is_handed_back",
)


def repeatable(name: str, fired: str) -> str:
    """Return a CTE that locks the jobs of `fired` (rows of fire_ids that will run again), skipping those that another
    transaction has locked."""
    return f"""
{name} AS MATERIALIZED (
    SELECT f.fire_id, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit, j.mode
      FROM {fired} AS f
     CROSS JOIN LATERAL (
        SELECT o.job_type, o.max_concurrent, o.overlap_policy, o.placement, o.rate_limit, o.mode FROM $job_details o
         WHERE o.sched_name = %(sched)s AND o.job_group = f.job_group AND o.job_name = f.job_name
           FOR NO KEY UPDATE SKIP LOCKED) AS j
)"""


def rerun(name: str, fired: str, jobs: str, kind: Rerun) -> str:
    """Return SQL, which the caller completes, that stores a trigger for each row of `fired`; `jobs` is `repeatable`."""
    asks_no_limit = " OR ".join(filter(None, ("j.rate_limit IS NULL", kind.keeps_admission)))
    is_paused = group_is_paused(f"'{kind.group}'", "f.job_group")
    return f"""
{name} AS (
    INSERT INTO $triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
        max_concurrent, overlap_policy, placement, rate_limit, concurrency_key, kind, schedule,
        trigger_state, held_by_mode,
        next_fire_time, upcoming_is_complete, start_time, priority,
        misfire_instruction, misfire_rule, attempt, coalesced_fire_times, job_data)
    SELECT f.sched_name, nextval('$fire_ids'), '{kind.group}', {kind.name},
           f.job_group, f.job_name, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit,
           f.concurrency_key,
           'simple',
           '{{"interval_us": 0, "repeat_count": 0}}',
           CASE WHEN {is_paused} OR j.mode = 'DISABLED'
                THEN 'PAUSED' ELSE 'WAITING' END,
           j.mode = 'DISABLED' AND NOT {is_paused},
           {kind.at}, true, {kind.at}, f.priority, 'ignore',
           CASE WHEN {asks_no_limit} THEN 'IGNORE' ELSE 'RATE_LIMIT' END,
           {kind.attempt}, {kind.coalesced},
           jsonb_build_object({kind.original}) || coalesce(f.trigger_data, '{{}}')
      FROM (SELECT * FROM {fired}) AS f
      JOIN {jobs} AS j USING ({kind.identity})
        ON CONFLICT DO NOTHING"""
