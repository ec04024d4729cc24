-- name: fire
-- Fires the claims that are due. Without limits, triggers of jobs with a limit stay claimed. `acquire.sql` describes
-- the columns of `candidates` and `decisions`.
WITH
-- include: node
-- The guard of the step. It is empty if this epoch is no longer registered, and then all that follows is empty, too.
-- `at` is the one instant by which the whole step decides.
node AS MATERIALIZED (
    SELECT :now AS at FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
),
-- end
-- The claims to fire, with the fire times that follow; each array comes as a text.
requested AS (
    SELECT r.fire_id, r.following::timestamptz[] AS following, r.following_is_complete
      FROM unnest(:'fire_ids'::bigint[], :'following'::text[], :'complete'::bool[])
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
           t.coalesced_fire_times, r.fire_id, false AS overtakes
      FROM node
     CROSS JOIN requested r
      JOIN qrtz_fired_triggers f
        ON f.fire_id = r.fire_id AND f.epoch = :'epoch'::bigint AND f.state = 'ACQUIRED'
         AND f.scheduled_time <= node.at + :'early'::interval
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.*
          FROM qrtz_triggers o
         WHERE o.sched_name = :'sched' AND o.trigger_group = f.trigger_group AND o.trigger_name = f.trigger_name
           AND o.trigger_state || '' = 'ACQUIRED' AND o.fire_id = r.fire_id
\if :with_limits
\else
           AND o.max_concurrent IS NULL
\endif
           FOR NO KEY UPDATE SKIP LOCKED) AS t
       FOR UPDATE OF f SKIP LOCKED
),
\if :with_limits
-- include: limited
-- The number of running executions of each job with a limit that has candidates, for each concurrency key. A job with
-- one candidate and a free slot `is_free`: no order has to be found.
executions AS MATERIALIZED (
    SELECT job.*, counted.running,
           job.candidates = 1 AND counted.running < job.slots AND NOT job.overtakes AS is_free
      FROM (SELECT job_group, job_name, concurrency_key, count(*) AS candidates, min(max_concurrent) AS slots,
                   bool_or(overtakes) AS overtakes
              FROM candidates WHERE max_concurrent IS NOT NULL
             GROUP BY job_group, job_name, concurrency_key) AS job
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL
     ) AS counted
),
-- The candidates of the others, in the order in which they get the free slots: the soonest first, but the newest first
-- if it replaces running executions. Those that are due are ranked apart from those that are not, unless they block.
limited AS MATERIALIZED (
    SELECT c.*, executions.running,
           row_number() OVER (PARTITION BY c.job_group, c.job_name, c.concurrency_key,
                                           c.overlap_policy <> 'block' AND c.is_due
                                  ORDER BY CASE c.overlap_policy WHEN 'cancel_other' THEN c.scheduled_time END DESC,
                                           c.scheduled_time, c.priority DESC) AS rank
      FROM candidates c
      JOIN executions
        ON executions.job_group = c.job_group AND executions.job_name = c.job_name
       AND executions.concurrency_key = c.concurrency_key AND NOT executions.is_free
     WHERE c.max_concurrent IS NOT NULL
),
-- The jobs for which a trigger may have to wait, and with an execution whose row another transaction has locked, or has
-- changed or deleted meanwhile. An end that takes no lock would not see that something waits for it, so nothing waits for
-- these now.
held AS MATERIALIZED (
    SELECT e.job_group, e.job_name, e.concurrency_key
      FROM (SELECT job_group, job_name, concurrency_key, bool_or(overlap_policy = 'cancel_other') AS is_replaced
              FROM limited
             WHERE overtakes OR (rank > max_concurrent - running
                                 AND (overlap_policy = 'block' OR (overlap_policy <> 'skip' AND is_due)))
             GROUP BY job_group, job_name, concurrency_key) AS full_job
     CROSS JOIN LATERAL (
        SELECT r.ctid AS row, r.job_group, r.job_name, r.concurrency_key FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = full_job.job_group AND r.job_name = full_job.job_name
           AND r.concurrency_key = full_job.concurrency_key
           AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL
           AND (NOT r.awaited OR (full_job.is_replaced AND NOT r.cancel_requested)) OFFSET 0) AS e
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_fired_triggers o
         WHERE o.ctid = e.row FOR NO KEY UPDATE SKIP LOCKED) AS f ON true
     WHERE f.is_free IS NULL
),
-- One decision for each candidate.
decisions AS MATERIALIZED (
    -- Nothing holds up these.
    SELECT c.*, 0::bigint AS running, 1::bigint AS rank, 0::bigint AS fires,
           CASE WHEN c.is_due THEN 'FIRE' ELSE 'CLAIM' END AS decision
      FROM candidates c
     WHERE c.max_concurrent IS NULL
        OR (c.job_group, c.job_name, c.concurrency_key)
           IN (SELECT job_group, job_name, concurrency_key FROM executions WHERE is_free)
    UNION ALL
    -- Its job waits for a slot. What is met while executions have all slots leaves the index of waiting triggers, so
    -- that no further step reads it before the end of one of them releases it. Other triggers of the job stay as they
    -- are. So do those for which claims leave no slot: the claims may not fire.
    SELECT s.*,
           CASE WHEN s.overtakes OR s.rank > s.max_concurrent - s.running THEN 'BLOCK'
                WHEN s.is_due THEN 'FIRE' ELSE 'CLAIM' END
      FROM (SELECT l.*, count(*) FILTER (WHERE l.is_due AND l.rank <= l.max_concurrent - l.running)
                                OVER (PARTITION BY l.job_group, l.job_name, l.concurrency_key) AS fires
              FROM limited l WHERE l.overlap_policy = 'block') AS s
     WHERE NOT (s.overtakes OR s.rank > s.max_concurrent - s.running)
        OR ((s.overtakes OR s.running + s.fires >= s.max_concurrent)
            AND (s.job_group, s.job_name, s.concurrency_key)
                NOT IN (SELECT job_group, job_name, concurrency_key FROM held))
    UNION ALL
    -- Its job does not wait for a slot.
    SELECT o.*
      FROM (SELECT l.*, 0::bigint AS fires,
                   CASE WHEN l.is_due THEN
                       CASE WHEN l.rank <= l.max_concurrent - l.running THEN 'FIRE'
                            WHEN l.overlap_policy = 'cancel_other' AND l.rank <= l.max_concurrent THEN 'BLOCK'
                            WHEN l.overlap_policy = 'buffer_one'
                                 AND l.rank = greatest(l.max_concurrent - l.running, 0) + 1
                                 AND NOT EXISTS (
                                    SELECT FROM qrtz_triggers w
                                     WHERE w.sched_name || '' = :'sched' AND w.job_group || '' = l.job_group
                                       AND w.job_name || '' = l.job_name AND w.concurrency_key || '' = l.concurrency_key
                                       AND w.trigger_state = 'BLOCKED' OFFSET 0)
                                 THEN 'BLOCK'
                            ELSE 'SKIP' END
                       ELSE 'CLAIM' END AS decision
              FROM limited l WHERE l.overlap_policy <> 'block') AS o
     WHERE NOT (o.overlap_policy = 'cancel_other' OR o.decision = 'BLOCK')
        OR (o.job_group, o.job_name, o.concurrency_key)
           NOT IN (SELECT job_group, job_name, concurrency_key FROM held)
),
-- end
\else
-- Nothing holds up a job without a limit.
decisions AS (SELECT *, 'FIRE'::text AS decision FROM candidates),
\endif
-- include: advanced
-- Carries the decisions out. A trigger that fires or is skipped moves on: to the first of its following fire times that
-- this fire does not coalesce, or to COMPLETE where there is none. A COMPLETE trigger keeps the id of its last fire,
-- whose end removes it. The row is the one that was locked above.
--
-- A trigger that catches up does so until its next fire time is later than the end of the catch-up. One that moves on
-- has to ask its rate limit again.
advanced AS (
    UPDATE qrtz_triggers t
       SET trigger_state = CASE WHEN d.decision = 'CLAIM' THEN 'ACQUIRED'
                                WHEN d.decision = 'BLOCK' THEN 'BLOCKED'
                                WHEN d.is_last THEN 'COMPLETE' ELSE 'WAITING' END,
           fire_id = CASE WHEN d.decision = 'CLAIM' OR (d.moves_on AND d.is_last) THEN d.fire_id END,
           prev_fire_time = CASE d.decision WHEN 'FIRE' THEN t.next_fire_time ELSE t.prev_fire_time END,
           next_fire_time = CASE WHEN d.moves_on THEN d.following[1 + d.coalesced] ELSE t.next_fire_time END,
           coalesced_fire_times = CASE WHEN d.moves_on THEN NULL ELSE t.coalesced_fire_times END,
           admission = CASE WHEN NOT d.moves_on THEN t.admission END,
           catch_up_until = CASE WHEN t.catch_up_until
                                      >= CASE WHEN d.moves_on THEN d.following[1 + d.coalesced]
                                              ELSE t.next_fire_time END
                                 THEN t.catch_up_until END,
           upcoming = CASE WHEN d.moves_on THEN d.following[2 + d.coalesced:] ELSE t.upcoming END,
           upcoming_is_complete = CASE WHEN d.moves_on THEN d.following_is_complete ELSE t.upcoming_is_complete END,
           -- include: keeps_old_entries
           -- PostgreSQL does not search the full pages of `qrtz_triggers_job` for old versions (decision 65).
           concurrency_key = t.concurrency_key,
           -- end
           times_triggered = t.times_triggered + CASE WHEN d.moves_on THEN 1 + d.coalesced ELSE 0 END
      FROM (SELECT *, cardinality(following) = coalesced AS is_last
              FROM (SELECT *, decision IN ('FIRE', 'SKIP') AS moves_on,
                           CASE decision WHEN 'FIRE' THEN also_due ELSE 0 END AS coalesced
                      FROM decisions) AS made) AS d
     WHERE t.ctid = d.row
    RETURNING d.decision, d.fire_id AS given_fire_id, d.at, d.scheduled_time, d.previous_time,
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
           t.max_concurrent, j.capture_logs, j.is_durable AS job_is_durable, j.limits,
           j.joined_by IS NOT NULL AS is_joined,
           t.decision, t.concurrency_key, t.overlap_policy, j.requests_recovery, c.calendar::text AS calendar_text,
           t.kind, t.schedule::text AS schedule, t.description, t.start_time, t.end_time, t.priority,
           t.misfire_instruction, t.misfire_threshold, t.calendar_name,
-- end
           -- include: rest_of_job
           j.description AS job_description, j.concurrency_key AS key_entry, j.rate_limit::text AS rate_limit,
           j.display_name, j.documentation_url, j.after::text AS after, j.expect::text AS expect
           -- end
-- include: from_advanced
      FROM advanced t
     CROSS JOIN LATERAL (
        SELECT * FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = t.job_group AND o.job_name = t.job_name LIMIT 1) AS j
      LEFT JOIN LATERAL (
        SELECT * FROM qrtz_calendars o
         WHERE o.sched_name = :'sched' AND o.calendar_name = t.calendar_name LIMIT 1) AS c ON true
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
\if :with_limits
,
-- A fire that is skipped, or whose trigger waits for a slot, keeps no claim.
unclaimed AS (
    DELETE FROM qrtz_fired_triggers f USING advanced
     WHERE f.fire_id = advanced.given_fire_id AND advanced.decision <> 'FIRE'
),
-- include: overlaps
-- The history of fires that a job at its limit does not run, by its overlap policy.
skipped AS (
    INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, fired_time, scheduled_time, ended_at, outcome, attempt, trigger_data)
    SELECT t.given_fire_id, :'sched', t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, :'instance', t.at, t.scheduled_time, t.at, 'SKIPPED', t.attempt,
           t.job_data
      FROM advanced t WHERE t.decision = 'SKIP'
        ON CONFLICT DO NOTHING
),
-- The executions for which something waits now: their ends take the lock (see `plain_completions`). CANCEL_OTHER: one of
-- them is asked to stop for each fire that waits to replace it, the longest-running first. The commit notifies the nodes.
awaited AS (
    UPDATE qrtz_fired_triggers f
       SET awaited = true, cancel_requested = f.cancel_requested OR running.is_replaced
      FROM (SELECT job_group, job_name, concurrency_key,
                   count(*) FILTER (WHERE overlap_policy = 'cancel_other') AS replacing
              FROM advanced WHERE decision = 'BLOCK'
             GROUP BY job_group, job_name, concurrency_key) AS job
     CROSS JOIN LATERAL (
        SELECT r.ctid AS row, r.awaited,
               NOT r.cancel_requested
                   AND row_number() OVER (ORDER BY r.cancel_requested, r.fired_time, r.fire_id) <= job.replacing
                   AS is_replaced
          FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key
           AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL) AS running
     WHERE f.ctid = running.row AND (NOT running.awaited OR running.is_replaced)
    RETURNING CASE WHEN running.is_replaced THEN pg_notify(:'channel', 'cancelled') END
)
-- end
\endif
SELECT * FROM claimed ORDER BY scheduled_fire_time, priority DESC;
