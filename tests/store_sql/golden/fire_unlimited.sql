-- Fires the claims that are due. Without limits, triggers of jobs with a limit stay claimed. `acquire.sql` describes
-- the columns of `candidates` and `decisions`.
WITH
-- include: node
-- The guard of the step. It is empty if this epoch is no longer registered, and then all that follows is empty, too.
-- `at` is the one instant by which the whole step decides.
node AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM qrtz_scheduler_state
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
),
-- end
-- The claims to fire, with the fire times that follow; each array comes as a text.
requested AS (
    SELECT r.fire_id, r.following::timestamptz[] AS following, r.following_is_complete
      FROM unnest(%(fire_ids)s::bigint[], %(following)s::text[], %(complete)s::bool[])
        AS r(fire_id, following, following_is_complete)
),
-- The claims that still stand and that are due by the clock of the step, with their triggers locked.
candidates AS MATERIALIZED (
    SELECT greatest(node.at, f.scheduled_time) AS at, t.row, t.job_group, t.job_name, t.concurrency_key,
           t.max_concurrent, t.overlap_policy, t.priority, t.next_fire_time AS scheduled_time,
           t.prev_fire_time AS previous_time, true AS is_due, r.following, r.following_is_complete,
           CASE WHEN t.overlap_policy IN ('buffer_one', 'cancel_other')
                THEN least((SELECT count(*) FROM unnest(r.following) AS u(instant) WHERE u.instant <= node.at),
                           cardinality(r.following) - CASE WHEN r.following_is_complete THEN 0 ELSE 1 END)::int
                ELSE 0 END AS also_due,
           t.coalesced_fire_times, r.fire_id
      FROM node
     CROSS JOIN requested r
      JOIN qrtz_fired_triggers f
        ON f.fire_id = r.fire_id AND f.epoch = %(epoch)s::bigint AND f.state = 'ACQUIRED'
         AND f.scheduled_time <= node.at + %(early)s::interval
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.*
          FROM qrtz_triggers o
         WHERE o.sched_name = %(sched)s AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = r.fire_id
           AND o.max_concurrent IS NULL
           FOR NO KEY UPDATE SKIP LOCKED) AS t
       FOR UPDATE OF f SKIP LOCKED
),
-- Nothing holds up a job without a limit.
decisions AS (SELECT *, false AS fills_limit, 'FIRE'::text AS decision FROM candidates),
-- include: advanced
-- Carries the decisions out. A trigger that fires or is skipped moves on: to the first of its following fire times that
-- this fire does not coalesce, or to COMPLETE where there is none. A COMPLETE trigger keeps the id of its last fire,
-- whose end removes it. The row is the one that was locked above.
--
-- A trigger that catches up does so until its next fire time is later than the end of the catch-up. The rule of one
-- that stays where it is does not change: `spend` of the rate limits restores the rule of those just admitted.
advanced AS (
    UPDATE qrtz_triggers t
       SET trigger_state = CASE WHEN d.decision = 'CLAIM' THEN 'ACQUIRED'
                                WHEN d.decision = 'BLOCK' THEN 'BLOCKED'
                                WHEN d.is_last THEN 'COMPLETE'
                                WHEN d.fills_limit THEN 'BLOCKED' ELSE 'WAITING' END,
           fire_id = CASE WHEN d.decision = 'CLAIM' OR (d.moves_on AND d.is_last) THEN d.fire_id END,
           prev_fire_time = CASE d.decision WHEN 'FIRE' THEN t.next_fire_time ELSE t.prev_fire_time END,
           next_fire_time = CASE WHEN d.moves_on THEN d.following[1 + d.coalesced] ELSE t.next_fire_time END,
           coalesced_fire_times = CASE WHEN d.moves_on THEN NULL ELSE t.coalesced_fire_times END,
           misfire_rule = CASE WHEN t.catch_up_until
                                    < coalesce(CASE WHEN d.moves_on THEN d.following[1 + d.coalesced]
                                                    ELSE t.next_fire_time END, 'infinity')
                               THEN CASE WHEN t.rate_limit IS NOT NULL THEN 'RATE_LIMIT'
                                         WHEN t.misfire_threshold IS NULL THEN 'SCHEDULER' ELSE 'OWN' END
                               ELSE CASE WHEN t.rate_limit IS NULL OR NOT d.moves_on THEN t.misfire_rule
                                         ELSE 'RATE_LIMIT' END END,
           catch_up_until = CASE WHEN t.catch_up_until
                                      >= CASE WHEN d.moves_on THEN d.following[1 + d.coalesced]
                                              ELSE t.next_fire_time END
                                 THEN t.catch_up_until END,
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
              -- Each further column would cost time, because the rows are copied from part to part.
              t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name, t.job_type,
              t.next_fire_time, t.upcoming, t.upcoming_is_complete, t.times_triggered, t.attempt, t.max_concurrent,
              t.overlap_policy, t.concurrency_key, t.placement, t.job_data, t.kind, t.schedule, t.description,
              t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold, t.calendar_name
),
-- end
-- include: claimed
-- All that the node needs to run the job: the trigger as it is now, its job, and its calendar. Of the fire times after
-- the next one, a node needs those that it may have to refill. The columns are those of `rows.CLAIMED`, in its order,
-- and so are those that `unknown_fires` of the holdings returns.
claimed AS MATERIALIZED (
    SELECT t.given_fire_id AS fire_id, t.at AS fire_time, t.trigger_group, t.trigger_name, t.job_group, t.job_name,
           t.job_type, t.generation, t.scheduled_time AS scheduled_fire_time, t.previous_time AS previous_fire_time,
           t.next_fire_time, t.times_triggered, t.attempt, t.placement, j.retry_policy::text AS retry, j.timeout,
           j.persists_data, j.job_data::text AS job_data, t.job_data::text AS trigger_data,
           c.revision AS calendar_revision,
           CASE WHEN cardinality(t.upcoming) < 3 THEN t.upcoming END AS upcoming_instants, t.upcoming_is_complete,
           t.coalesced, j.node_deaths, j.pause_after_failures, j.continuations::text AS continuations,
           t.max_concurrent, j.capture_logs, j.is_durable AS job_is_durable,
           t.decision, t.concurrency_key, c.calendar::text AS calendar_text,
           t.kind, t.schedule::text AS schedule, t.description, t.start_time, t.end_time, t.priority,
           t.misfire_instruction, t.misfire_threshold, t.calendar_name,
           j.description AS job_description, t.overlap_policy, j.concurrency_key AS key_entry, j.requests_recovery,
           j.rate_limit::text AS rate_limit, j.display_name
      FROM advanced t
     CROSS JOIN LATERAL (
        SELECT * FROM qrtz_job_details o
         WHERE o.sched_name = %(sched)s AND o.job_group = t.job_group AND o.job_name = t.job_name LIMIT 1) AS j
      LEFT JOIN LATERAL (
        SELECT * FROM qrtz_calendars o
         WHERE o.sched_name = %(sched)s AND o.calendar_name = t.calendar_name LIMIT 1) AS c ON true
     WHERE t.decision <> 'BLOCK'
),
-- end
-- The claim becomes the row of the execution.
started AS (
    UPDATE qrtz_fired_triggers f
       SET state = 'EXECUTING', fired_time = advanced.at, coalesced_fire_times = advanced.coalesced,
           concurrency_key = advanced.concurrency_key, max_concurrent = advanced.max_concurrent
      FROM advanced WHERE f.fire_id = advanced.given_fire_id AND advanced.decision = 'FIRE'
)
SELECT * FROM claimed ORDER BY scheduled_fire_time, priority DESC
