"""Claimed and fired triggers: how a decision moves a trigger on, what a node learns of it, and its row of the history.

`CLAIMED` and `FIRED_UNANSWERED` of `holdings` return the same columns, in the order in which `rows.decode_row` reads
them.
"""

from __future__ import annotations

from quartzpy.store.sql.steps.misfire_rule import caught_up
from quartzpy.triggers.upcoming import REFILL_BELOW

# The columns of a trigger, as it is now, that the later parts of a step use. Each further column would cost time,
# because the rows are copied from part to part.
OF_TRIGGER = """\
t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name, t.job_type,
              t.next_fire_time, t.upcoming, t.upcoming_is_complete, t.times_triggered, t.attempt, t.max_concurrent,
              t.overlap_policy, t.concurrency_key, t.placement, t.job_data, t.kind, t.schedule, t.description,
              t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold, t.calendar_name"""

_NEXT = "CASE WHEN d.moves_on THEN d.following[1 + d.coalesced] ELSE t.next_fire_time END"
# One that stays where it is keeps its rule; `rate_limits.SPEND` restores the rule of those that were just admitted.
_RULE = "CASE WHEN t.rate_limit IS NULL OR NOT d.moves_on THEN t.misfire_rule ELSE 'RATE_LIMIT' END"
ADVANCED = f"""
-- Carries the decisions out. A trigger that fires or is skipped moves on: to the first of its following fire times that
-- this fire does not coalesce, or to COMPLETE where there is none. A COMPLETE trigger keeps the id of its last fire,
-- whose end removes it. The row is the one that was locked above.
advanced AS (
    UPDATE $triggers t
       SET trigger_state = CASE WHEN d.decision = 'CLAIM' THEN 'ACQUIRED'
                                WHEN d.decision = 'BLOCK' THEN 'BLOCKED'
                                WHEN d.is_last THEN 'COMPLETE'
                                WHEN d.fills_limit THEN 'BLOCKED' ELSE 'WAITING' END,
           fire_id = CASE WHEN d.decision = 'CLAIM' OR (d.moves_on AND d.is_last) THEN d.fire_id END,
           prev_fire_time = CASE d.decision WHEN 'FIRE' THEN t.next_fire_time ELSE t.prev_fire_time END,
           next_fire_time = {_NEXT},
           coalesced_fire_times = CASE WHEN d.moves_on THEN NULL ELSE t.coalesced_fire_times END,
{caught_up(_NEXT, otherwise=_RULE)},
           upcoming = CASE WHEN d.moves_on THEN d.following[2 + d.coalesced:] ELSE t.upcoming END,
           upcoming_is_complete = CASE WHEN d.moves_on THEN d.following_is_complete ELSE t.upcoming_is_complete END,
           times_triggered = t.times_triggered + CASE WHEN d.moves_on THEN 1 + d.coalesced ELSE 0 END
      FROM (SELECT *, cardinality(following) = coalesced AS is_last
              FROM (SELECT *, decision IN ('FIRE', 'SKIP') AS moves_on,
                           CASE decision WHEN 'FIRE' THEN also_due ELSE 0 END AS coalesced
                      FROM decisions) AS made) AS d
     WHERE t.ctid = d.row
    RETURNING d.decision, d.fire_id AS given_fire_id, d.at, d.scheduled_time, d.previous_time, d.fills_limit,
              CASE WHEN d.coalesced = 0 THEN d.coalesced_fire_times
                   ELSE coalesce(d.coalesced_fire_times, ARRAY[d.scheduled_time]) || d.following[:d.coalesced] END
                   AS coalesced,
              {OF_TRIGGER}
)"""

CLAIMED = f"""
-- All that the node needs to run the job: the trigger as it is now, its job, and its calendar. Of the fire times after
-- the next one, a node needs those that it may have to refill.
claimed AS MATERIALIZED (
    SELECT t.decision, t.given_fire_id, t.at, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type,
           t.generation, t.scheduled_time, t.previous_time, t.next_fire_time,
           CASE WHEN cardinality(t.upcoming) < {REFILL_BELOW} THEN t.upcoming END AS upcoming, t.upcoming_is_complete,
           t.times_triggered, t.attempt, t.max_concurrent, t.overlap_policy, t.placement, t.job_data::text AS
           trigger_data, t.concurrency_key,
           t.kind, t.schedule::text, t.description, t.start_time, t.end_time, t.priority, t.misfire_instruction,
           t.misfire_threshold, t.calendar_name,
           j.description AS job_description, j.is_durable, j.persists_data, j.requests_recovery,
           j.retry_policy::text, j.timeout, j.job_data::text AS job_data, c.calendar::text, c.revision, t.coalesced,
           j.node_deaths, j.pause_after_failures, j.concurrency_key AS key_entry,
           j.continuations::text AS continuations, j.rate_limit::text AS rate_limit, j.display_name, j.capture_logs
      FROM advanced t
     CROSS JOIN LATERAL (
        SELECT * FROM $job_details o
         WHERE o.sched_name = %(sched)s AND o.job_group = t.job_group AND o.job_name = t.job_name LIMIT 1) AS j
      LEFT JOIN LATERAL (
        SELECT * FROM $calendars o
         WHERE o.sched_name = %(sched)s AND o.calendar_name = t.calendar_name LIMIT 1) AS c ON true
     WHERE t.decision <> 'BLOCK'
)"""
RESULT = "SELECT * FROM claimed ORDER BY scheduled_time, priority DESC\n"

STORED = """
-- The claim, or the running execution.
stored AS (
    INSERT INTO $fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, state, fired_time, scheduled_time, priority, max_concurrent,
        concurrency_key, requests_recovery, attempt, trigger_data, coalesced_fire_times)
    SELECT t.given_fire_id, %(sched)s, t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, %(instance)s, %(epoch)s::bigint,
           CASE t.decision WHEN 'FIRE' THEN 'EXECUTING' ELSE 'ACQUIRED' END, t.at, t.scheduled_time, t.priority,
           t.max_concurrent, t.concurrency_key, t.requests_recovery, t.attempt, t.trigger_data::jsonb,
           CASE t.decision WHEN 'FIRE' THEN t.coalesced END
      FROM claimed t WHERE t.decision <> 'SKIP'
)"""

SKIPPED = """
-- The history of fires that a job at its limit does not run, by its overlap policy.
skipped AS (
    INSERT INTO $executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, ended_at, outcome, attempt, trigger_data)
    SELECT t.given_fire_id, %(sched)s, t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, %(instance)s, %(epoch)s::bigint, t.at, t.scheduled_time, t.at, 'SKIPPED', t.attempt,
           t.job_data
      FROM advanced t WHERE t.decision = 'SKIP'
        ON CONFLICT DO NOTHING
)"""
