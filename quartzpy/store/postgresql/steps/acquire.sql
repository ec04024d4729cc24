-- A row is looked up by LATERAL with a lock or a limit, here and in all steps, and updated by its `ctid`. So no
-- statistics can make the planner choose a scan of the whole table for each row. Where a row is looked up by its key,
-- its state is compared as an expression, so that the partial index of claimed and blocked triggers does not match: it
-- looks small to the planner, but can have an entry for each running one-shot trigger.
--
-- A subquery of EXISTS that is to be looked up by its key, once for each row, ends with OFFSET 0, here and in all steps.
-- A session keeps its plans. Without this end, one that was made for a small table may read the whole table into a hash.
--
-- Here and in the fire step, `candidates` has these columns:
--
-- - `at`, the time of the step; `row`, the ctid of the locked trigger;
-- - `job_group`, `job_name`, `concurrency_key`, `max_concurrent`, `overlap_policy`, `priority` of the trigger;
-- - `scheduled_time` and `previous_time`, its next and previous fire times before the step;
-- - `is_due`: the trigger can fire now; `following`: the fire times after `scheduled_time`, `following_is_complete` if
--   no others come after them; `also_due`: the number of the following ones that this fire coalesces, as they are due,
--   too;
-- - `coalesced_fire_times`, those that it coalesces already; `fire_id`, the id of the claim or of the execution;
-- - `overtakes`: a trigger of the job that is due before it waits for a slot, and must have it first.
--
-- `decisions` adds `decision`: FIRE, CLAIM, SKIP, or BLOCK.

-- name: acquire
-- Claims triggers of all jobs, and fires those that are due already. Where all slots are of one executor and one group,
-- as on most nodes, `limit` is the only limit that counts, which saves two sorts.
WITH
-- include: node
-- The guard of the step. It is empty if this epoch is no longer registered, and then all that follows is empty, too.
-- `at` is the one instant by which the whole step decides.
node AS MATERIALIZED (
    SELECT :now AS at FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
),
-- end
\if :many_pools
-- include: ranges
-- Where the ranges of the front are many, most of what waits in one is later than what waits in others. So the first few
-- of each are read without a lock, and more of those whose first few are all among the soonest. Only as many of each are
-- locked as are among the soonest then. With the default frame of the windows, PostgreSQL before 16 would read all
-- triggers of the same instant.
few AS MATERIALIZED (
    SELECT slots.place, rule.name, first_of_range.*
      FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'sinces'::timestamptz[], :'workers'::int[], :'group_slots'::int[])
                WITH ORDINALITY AS slots(slot_pool, since, workers, group_slots, place)
     CROSS JOIN
        -- include: acquired_rules
        (VALUES ('NODE'), ('OWN'), ('IGNORE')) AS rule(name)
        -- end
     CROSS JOIN LATERAL (
        SELECT t.next_fire_time, t.priority,
               row_number() OVER (ORDER BY t.next_fire_time, t.priority DESC ROWS UNBOUNDED PRECEDING) AS nth
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at + :'look_ahead'::interval
           AND t.next_fire_time >= CASE WHEN :'admits'::bool AND rule.name = 'IGNORE' THEN '-infinity' ELSE slots.since END
           -- include: is_in_time
           -- It is no misfire; as a range of the index.
           AND t.next_fire_time >= CASE rule.name
                   WHEN 'NODE' THEN node.at - :'threshold'::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
           AND t.generation <> ALL(:'passed_over'::bigint[])
           -- end
           -- include: is_not_refused
           -- This node has not said that it does not run such triggers.
           \if :refuses_many
           AND NOT EXISTS (SELECT FROM qrtz_node_keys k
                            WHERE k.epoch = :'epoch'::bigint AND k.job_type = t.job_type
                              AND k.placement = t.placement AND NOT k.runs OFFSET 0)
           \else
           AND t.job_type || E'\n' || t.placement <> ALL(:'refused'::text[])
           \endif
           -- end
           -- include: is_not_spared
           -- No part of the backlog of skipped fires that this step leaves out.
           AND (t.overlap_policy = 'block' OR NOT :'spares_skips'::bool)
           -- end
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT least(:'few'::int, slots.workers, slots.group_slots)) AS first_of_range
),
-- All of these may be among the soonest of all, and more behind them.
deep AS MATERIALIZED (
    SELECT place, name
      FROM (SELECT * FROM few ORDER BY next_fire_time, priority DESC, nth LIMIT :'limit'::int) AS soonest
     GROUP BY place, name HAVING count(*) = :'few'::int
),
so_far AS MATERIALIZED (
    SELECT next_fire_time AS until FROM few ORDER BY next_fire_time OFFSET :'limit'::int - 1 LIMIT 1
),
many AS MATERIALIZED (
    SELECT rule.place, rule.name, first_of_range.*
      FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'sinces'::timestamptz[], :'workers'::int[], :'group_slots'::int[])
                WITH ORDINALITY AS slots(slot_pool, since, workers, group_slots, place)
      JOIN deep AS rule ON rule.place = slots.place
     CROSS JOIN LATERAL (
        SELECT t.next_fire_time, t.priority,
               row_number() OVER (ORDER BY t.next_fire_time, t.priority DESC ROWS UNBOUNDED PRECEDING) AS nth
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= least(node.at + :'look_ahead'::interval, (SELECT until FROM so_far))
           AND t.next_fire_time >= CASE WHEN :'admits'::bool AND rule.name = 'IGNORE' THEN '-infinity' ELSE slots.since END
           -- include: is_in_time
           -- It is no misfire; as a range of the index.
           AND t.next_fire_time >= CASE rule.name
                   WHEN 'NODE' THEN node.at - :'threshold'::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
           AND t.generation <> ALL(:'passed_over'::bigint[])
           -- end
           -- include: is_not_refused
           -- This node has not said that it does not run such triggers.
           \if :refuses_many
           AND NOT EXISTS (SELECT FROM qrtz_node_keys k
                            WHERE k.epoch = :'epoch'::bigint AND k.job_type = t.job_type
                              AND k.placement = t.placement AND NOT k.runs OFFSET 0)
           \else
           AND t.job_type || E'\n' || t.placement <> ALL(:'refused'::text[])
           \endif
           -- end
           -- include: is_not_spared
           -- No part of the backlog of skipped fires that this step leaves out.
           AND (t.overlap_policy = 'block' OR NOT :'spares_skips'::bool)
           -- end
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT least(:'limit'::int, slots.workers, slots.group_slots)) AS first_of_range
),
-- The ranges that have some of the soonest of all, and how many.
ranges AS MATERIALIZED (
    SELECT place, name, count(*) AS most
      FROM (SELECT place, name
              FROM (SELECT * FROM few WHERE (place, name) NOT IN (SELECT place, name FROM deep)
                    UNION ALL SELECT * FROM many) AS all_ranges
             ORDER BY next_fire_time, priority DESC, nth LIMIT :'limit'::int) AS soonest
     GROUP BY place, name
),
-- end
\endif
-- include: accepted
-- What the node runs. With `||`, a large array is read once, and not for each row.
accepted AS MATERIALIZED (
    SELECT accepted_keys || '{}' AS hashes FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
),
-- end
-- The front of the index of waiting triggers, locked, for the slots that the node has free. Their fire times are at most
-- `look_ahead` ahead, and not before `since`.
front AS MATERIALIZED (
    SELECT node.at, slots.slot_pool, of_range.*
\if :several_pools
           , slots.executor, slots.workers, slots.execution_group, slots.group_slots
\endif
      FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'sinces'::timestamptz[], :'executors'::text[], :'workers'::int[],
                       :'groups'::text[], :'group_slots'::int[]) WITH ORDINALITY
                AS slots(slot_pool, since, executor, workers, execution_group, group_slots, place)
\if :many_pools
      JOIN ranges AS rule ON rule.place = slots.place
\else
     CROSS JOIN
        -- include: acquired_rules
        (VALUES ('NODE'), ('OWN'), ('IGNORE')) AS rule(name)
        -- end
\endif
     CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.next_fire_time AS scheduled_time, t.priority, t.max_concurrent,
               t.job_group, t.job_name, t.job_type, t.placement, t.concurrency_key,
               -- include: key_hash
               hashtextextended(t.job_type, hashtextextended(t.placement, 0))
               -- end
               AS key_hash,
               t.overlap_policy, t.prev_fire_time AS previous_time, t.upcoming AS following,
               t.upcoming_is_complete AS following_is_complete, t.coalesced_fire_times, late.also_due,
               t.next_fire_time <= node.at
                   AND (t.upcoming_is_complete OR cardinality(t.upcoming) > late.also_due) AS is_due
          FROM qrtz_triggers t
         CROSS JOIN LATERAL (
            SELECT CASE WHEN t.overlap_policy IN ('buffer_one', 'cancel_other')
                        THEN (SELECT count(*) FROM unnest(t.upcoming) AS u(instant)
                               WHERE u.instant <= node.at)
                        ELSE 0 END::int AS also_due) AS late
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at + :'look_ahead'::interval
           -- What a rate limit has admitted may be due at any time.
           AND t.next_fire_time >= CASE WHEN :'admits'::bool AND rule.name = 'IGNORE' THEN '-infinity' ELSE slots.since END
           -- include: is_in_time
           -- It is no misfire; as a range of the index.
           AND t.next_fire_time >= CASE rule.name
                   WHEN 'NODE' THEN node.at - :'threshold'::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
           AND t.generation <> ALL(:'passed_over'::bigint[])
           -- end
           -- include: is_not_refused
           -- This node has not said that it does not run such triggers.
           \if :refuses_many
           AND NOT EXISTS (SELECT FROM qrtz_node_keys k
                            WHERE k.epoch = :'epoch'::bigint AND k.job_type = t.job_type
                              AND k.placement = t.placement AND NOT k.runs OFFSET 0)
           \else
           AND t.job_type || E'\n' || t.placement <> ALL(:'refused'::text[])
           \endif
           -- end
           -- include: is_not_spared
           -- No part of the backlog of skipped fires that this step leaves out.
           AND (t.overlap_policy = 'block' OR NOT :'spares_skips'::bool)
           -- end
         ORDER BY t.next_fire_time, t.priority DESC
\if :many_pools
         LIMIT least(rule.most, slots.workers, slots.group_slots)
\else
         LIMIT least(:'limit'::int, slots.workers, slots.group_slots)
\endif
           FOR NO KEY UPDATE OF t SKIP LOCKED
     ) AS of_range
),
-- The triggers that this node can take. One of a job with a limit may have been read from a time on before which a trigger
-- of the job waits since an end has just released it: it `overtakes` those that are still blocked.
candidates AS MATERIALIZED (
    SELECT due.at, due.row, due.job_group, due.job_name, due.concurrency_key, due.max_concurrent, due.overlap_policy,
           due.priority, due.scheduled_time, due.previous_time, due.is_due, due.following, due.following_is_complete,
           due.also_due, due.coalesced_fire_times, nextval('qrtz_fire_ids') AS fire_id,
           due.max_concurrent IS NOT NULL AND due.overlap_policy = 'block' AND
               -- include: sooner_waits
               -- A step that begins at a time has not read what waits before it.
               (SELECT max(since) > '-infinity' FROM unnest(:'sinces'::timestamptz[]) AS since)
               AND EXISTS (
                   SELECT FROM
                          -- include: acquired_rules
                          (VALUES ('NODE'), ('OWN'), ('IGNORE')) AS rule(name)
                          -- end
                    CROSS JOIN LATERAL (
                       SELECT FROM qrtz_triggers w
                        WHERE w.sched_name || '' = :'sched' AND w.job_group || '' = due.job_group
                          AND w.job_name || '' = due.job_name AND w.concurrency_key || '' = due.concurrency_key
                          AND w.trigger_state = 'BLOCKED' AND w.misfire_rule = rule.name
                          AND w.next_fire_time < due.scheduled_time
                          AND w.next_fire_time >= CASE rule.name
                                  WHEN 'NODE' THEN due.at - :'threshold'::interval ELSE '-infinity' END
                          AND (rule.name <> 'OWN' OR w.next_fire_time >= due.at - w.misfire_threshold)
                        LIMIT 1) AS sooner
                   OFFSET 0)
               -- end
               AS overtakes
      FROM (
        SELECT *
          FROM (SELECT front.*
\if :several_pools
                       , row_number() OVER (PARTITION BY executor
                                              ORDER BY scheduled_time, priority DESC, row) AS executor_rank,
                       row_number() OVER (PARTITION BY execution_group
                                              ORDER BY scheduled_time, priority DESC, row) AS group_rank
\endif
                  FROM front
                 WHERE
                    -- include: has_said
                    -- The node has said that it runs the type with the placement. It has said nothing yet about a pair that nobody
                    -- has used before: such triggers stay as they are, and `undecided` names the pair. Bisection among the hashes of
                    -- what it runs takes a quarter of the time of a look-up.
                    (((SELECT hashes FROM accepted))[width_bucket(front.key_hash, (SELECT hashes FROM accepted))] = front.key_hash
                     OR EXISTS (SELECT FROM qrtz_node_keys k
                                 WHERE k.epoch = :'epoch'::bigint AND k.job_type = front.job_type
                                   AND k.placement = front.placement AND k.runs OFFSET 0))
                    -- end
                 ) AS ranked
\if :several_pools
         WHERE executor_rank <= workers AND group_rank <= group_slots
\endif
         ORDER BY scheduled_time, priority DESC, row
         LIMIT :'limit'::int) AS due
),
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
-- include: stored
-- The claim, or the running execution.
stored AS (
    INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, state, fired_time, scheduled_time, priority, max_concurrent,
        concurrency_key, requests_recovery, attempt, trigger_data, coalesced_fire_times)
    SELECT t.fire_id, :'sched', t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, :'instance', :'epoch'::bigint,
           CASE t.decision WHEN 'FIRE' THEN 'EXECUTING' ELSE 'ACQUIRED' END, t.fire_time, t.scheduled_fire_time,
           t.priority, t.max_concurrent, t.concurrency_key, t.requests_recovery, t.attempt, t.trigger_data::jsonb,
           CASE t.decision WHEN 'FIRE' THEN t.coalesced END
      FROM claimed t WHERE t.decision <> 'SKIP'
)
-- end
,
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
,
-- A node with few free workers takes few candidates, and triggers of full jobs could be all of them, step after step.
-- So a step that meets some of them among as many candidates as it may take looks further along the front of the index.
further AS MATERIALIZED (
    SELECT soonest.*
      FROM node
     CROSS JOIN (SELECT s.slot_pool, s.since
                   FROM unnest(:'slot_pools'::text[], :'sinces'::timestamptz[]) AS s(slot_pool, since)
                  WHERE s.slot_pool IN (SELECT f.slot_pool FROM front f JOIN decisions d ON d.row = f.row
                                         WHERE d.decision = 'BLOCK' AND d.overlap_policy = 'block')
                    AND :'limit'::int < 200
                    AND (SELECT count(*) FROM candidates) = :'limit'::int) AS slots
     CROSS JOIN
        -- include: acquired_rules
        (VALUES ('NODE'), ('OWN'), ('IGNORE')) AS rule(name)
        -- end
     CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.job_group, t.job_name, t.concurrency_key, t.overlap_policy, t.max_concurrent
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at
           AND t.next_fire_time >= slots.since
           -- include: is_in_time
           -- It is no misfire; as a range of the index.
           AND t.next_fire_time >= CASE rule.name
                   WHEN 'NODE' THEN node.at - :'threshold'::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
           AND t.generation <> ALL(:'passed_over'::bigint[])
           -- end
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT 200) AS soonest
     WHERE soonest.overlap_policy = 'block' AND soonest.max_concurrent IS NOT NULL
       AND soonest.row NOT IN (SELECT row FROM candidates)
),
-- The jobs and keys of these that have no slot left after this step, and whose executions are all awaited.
full_jobs AS MATERIALIZED (
    SELECT job.job_group, job.job_name, job.concurrency_key
      FROM (SELECT job_group, job_name, concurrency_key, min(max_concurrent) AS slots
              FROM further GROUP BY job_group, job_name, concurrency_key) AS job
     CROSS JOIN LATERAL (
        SELECT count(*) AS running, coalesce(bool_and(r.awaited), true) AS are_awaited FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL
     ) AS executions
     CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE a.decision = 'FIRE') AS number,
               coalesce(bool_or(a.decision = 'BLOCK'), false) AS has_blocked
          FROM advanced a
         WHERE a.job_group = job.job_group AND a.job_name = job.job_name
           AND a.concurrency_key = job.concurrency_key) AS fires
     WHERE executions.running + fires.number >= job.slots AND (executions.are_awaited OR fires.has_blocked)
),
-- Their triggers become BLOCKED as well.
crowded AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'BLOCKED',
           -- include: keeps_old_entries
           -- PostgreSQL does not search the full pages of `qrtz_triggers_job` for old versions (decision 65).
           concurrency_key = t.concurrency_key,
           -- end
           -- include: prepared_once
           -- PostgreSQL 18 prepares the generated columns for each row anew, unless a column that they depend on is set.
           admission = t.admission
           -- end
      FROM (SELECT mine.row
              FROM further
             CROSS JOIN LATERAL (
                SELECT o.ctid AS row FROM qrtz_triggers o
                 WHERE o.ctid = further.row FOR NO KEY UPDATE SKIP LOCKED) AS mine
             WHERE (further.job_group, further.job_name, further.concurrency_key)
                   IN (SELECT job_group, job_name, concurrency_key FROM full_jobs)) AS others
     WHERE t.ctid = others.row
)
SELECT * FROM claimed ORDER BY scheduled_fire_time, priority DESC;

-- name: acquire_unlimited
-- Claims triggers of jobs without a limit, and fires those that are due already. For one executor and one group as in
-- `acquire`. With `takes_free`, it takes those of free jobs with a limit, too.
WITH
-- The guard of the step. It is empty if this epoch is no longer registered, and then all that follows is empty, too.
-- `at` is the one instant by which the whole step decides.
node AS MATERIALIZED (
    SELECT :now AS at FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
\if :if_locked
       -- It is empty as well if `lock_if_due`, before it in this transaction, has not taken the lock.
       AND EXISTS (SELECT FROM qrtz_locks l
                    WHERE l.sched_name = :'sched' AND l.lock_name = 'TRIGGER_ACCESS'
                      AND l.xmax = pg_current_xact_id_if_assigned()::xid)
\endif
),
\if :many_pools
-- include: ranges
-- Where the ranges of the front are many, most of what waits in one is later than what waits in others. So the first few
-- of each are read without a lock, and more of those whose first few are all among the soonest. Only as many of each are
-- locked as are among the soonest then. With the default frame of the windows, PostgreSQL before 16 would read all
-- triggers of the same instant.
few AS MATERIALIZED (
    SELECT slots.place, rule.name, first_of_range.*
      FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'sinces'::timestamptz[], :'workers'::int[], :'group_slots'::int[])
                WITH ORDINALITY AS slots(slot_pool, since, workers, group_slots, place)
     CROSS JOIN
        -- include: acquired_rules
        (VALUES ('NODE'), ('OWN'), ('IGNORE')) AS rule(name)
        -- end
     CROSS JOIN LATERAL (
        SELECT t.next_fire_time, t.priority,
               row_number() OVER (ORDER BY t.next_fire_time, t.priority DESC ROWS UNBOUNDED PRECEDING) AS nth
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at + :'look_ahead'::interval
           AND t.next_fire_time >= CASE WHEN :'admits'::bool AND rule.name = 'IGNORE' THEN '-infinity' ELSE slots.since END
           -- include: is_in_time
           -- It is no misfire; as a range of the index.
           AND t.next_fire_time >= CASE rule.name
                   WHEN 'NODE' THEN node.at - :'threshold'::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
           AND t.generation <> ALL(:'passed_over'::bigint[])
           -- end
           -- include: is_not_refused
           -- This node has not said that it does not run such triggers.
           \if :refuses_many
           AND NOT EXISTS (SELECT FROM qrtz_node_keys k
                            WHERE k.epoch = :'epoch'::bigint AND k.job_type = t.job_type
                              AND k.placement = t.placement AND NOT k.runs OFFSET 0)
           \else
           AND t.job_type || E'\n' || t.placement <> ALL(:'refused'::text[])
           \endif
           -- end
           -- include: is_not_spared
           -- No part of the backlog of skipped fires that this step leaves out.
           AND (t.overlap_policy = 'block' OR NOT :'spares_skips'::bool)
           -- end
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT least(:'few'::int, slots.workers, slots.group_slots)) AS first_of_range
),
-- All of these may be among the soonest of all, and more behind them.
deep AS MATERIALIZED (
    SELECT place, name
      FROM (SELECT * FROM few ORDER BY next_fire_time, priority DESC, nth LIMIT :'limit'::int) AS soonest
     GROUP BY place, name HAVING count(*) = :'few'::int
),
so_far AS MATERIALIZED (
    SELECT next_fire_time AS until FROM few ORDER BY next_fire_time OFFSET :'limit'::int - 1 LIMIT 1
),
many AS MATERIALIZED (
    SELECT rule.place, rule.name, first_of_range.*
      FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'sinces'::timestamptz[], :'workers'::int[], :'group_slots'::int[])
                WITH ORDINALITY AS slots(slot_pool, since, workers, group_slots, place)
      JOIN deep AS rule ON rule.place = slots.place
     CROSS JOIN LATERAL (
        SELECT t.next_fire_time, t.priority,
               row_number() OVER (ORDER BY t.next_fire_time, t.priority DESC ROWS UNBOUNDED PRECEDING) AS nth
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= least(node.at + :'look_ahead'::interval, (SELECT until FROM so_far))
           AND t.next_fire_time >= CASE WHEN :'admits'::bool AND rule.name = 'IGNORE' THEN '-infinity' ELSE slots.since END
           -- include: is_in_time
           -- It is no misfire; as a range of the index.
           AND t.next_fire_time >= CASE rule.name
                   WHEN 'NODE' THEN node.at - :'threshold'::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
           AND t.generation <> ALL(:'passed_over'::bigint[])
           -- end
           -- include: is_not_refused
           -- This node has not said that it does not run such triggers.
           \if :refuses_many
           AND NOT EXISTS (SELECT FROM qrtz_node_keys k
                            WHERE k.epoch = :'epoch'::bigint AND k.job_type = t.job_type
                              AND k.placement = t.placement AND NOT k.runs OFFSET 0)
           \else
           AND t.job_type || E'\n' || t.placement <> ALL(:'refused'::text[])
           \endif
           -- end
           -- include: is_not_spared
           -- No part of the backlog of skipped fires that this step leaves out.
           AND (t.overlap_policy = 'block' OR NOT :'spares_skips'::bool)
           -- end
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT least(:'limit'::int, slots.workers, slots.group_slots)) AS first_of_range
),
-- The ranges that have some of the soonest of all, and how many.
ranges AS MATERIALIZED (
    SELECT place, name, count(*) AS most
      FROM (SELECT place, name
              FROM (SELECT * FROM few WHERE (place, name) NOT IN (SELECT place, name FROM deep)
                    UNION ALL SELECT * FROM many) AS all_ranges
             ORDER BY next_fire_time, priority DESC, nth LIMIT :'limit'::int) AS soonest
     GROUP BY place, name
),
-- end
\endif
-- include: accepted
-- What the node runs. With `||`, a large array is read once, and not for each row.
accepted AS MATERIALIZED (
    SELECT accepted_keys || '{}' AS hashes FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
),
-- end
-- The front of the index, as in `acquire`.
front AS MATERIALIZED (
    SELECT node.at, of_range.*
\if :several_pools
           , slots.executor, slots.workers, slots.execution_group, slots.group_slots
\endif
      FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'sinces'::timestamptz[], :'executors'::text[], :'workers'::int[],
                       :'groups'::text[], :'group_slots'::int[]) WITH ORDINALITY
                AS slots(slot_pool, since, executor, workers, execution_group, group_slots, place)
\if :many_pools
      JOIN ranges AS rule ON rule.place = slots.place
\else
     CROSS JOIN
        -- include: acquired_rules
        (VALUES ('NODE'), ('OWN'), ('IGNORE')) AS rule(name)
        -- end
\endif
     CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.next_fire_time AS scheduled_time, t.priority, t.max_concurrent,
               t.job_type, t.placement, t.prev_fire_time AS previous_time, t.coalesced_fire_times,
               -- include: key_hash
               hashtextextended(t.job_type, hashtextextended(t.placement, 0))
               -- end
               AS key_hash,
\if :takes_free
               t.job_group, t.job_name, t.concurrency_key, t.overlap_policy,
\endif
               t.next_fire_time <= node.at
                   AND (t.upcoming_is_complete OR cardinality(t.upcoming) > 0) AS is_due
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at + :'look_ahead'::interval
           -- What a rate limit has admitted may be due at any time.
           AND t.next_fire_time >= CASE WHEN :'admits'::bool AND rule.name = 'IGNORE' THEN '-infinity' ELSE slots.since END
           -- include: is_in_time
           -- It is no misfire; as a range of the index.
           AND t.next_fire_time >= CASE rule.name
                   WHEN 'NODE' THEN node.at - :'threshold'::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
           AND t.generation <> ALL(:'passed_over'::bigint[])
           -- end
           -- include: is_not_refused
           -- This node has not said that it does not run such triggers.
           \if :refuses_many
           AND NOT EXISTS (SELECT FROM qrtz_node_keys k
                            WHERE k.epoch = :'epoch'::bigint AND k.job_type = t.job_type
                              AND k.placement = t.placement AND NOT k.runs OFFSET 0)
           \else
           AND t.job_type || E'\n' || t.placement <> ALL(:'refused'::text[])
           \endif
           -- end
           -- include: is_not_spared
           -- No part of the backlog of skipped fires that this step leaves out.
           AND (t.overlap_policy = 'block' OR NOT :'spares_skips'::bool)
           -- end
         ORDER BY t.next_fire_time, t.priority DESC
\if :many_pools
         LIMIT least(rule.most, slots.workers, slots.group_slots)
\else
         LIMIT least(:'limit'::int, slots.workers, slots.group_slots)
\endif
           FOR NO KEY UPDATE OF t SKIP LOCKED
     ) AS of_range
),
-- The triggers that this node can take.
candidates AS MATERIALIZED (
    SELECT *
      FROM (SELECT front.*
\if :several_pools
                   , row_number() OVER (PARTITION BY executor
                                          ORDER BY scheduled_time, priority DESC, row) AS executor_rank,
                   row_number() OVER (PARTITION BY execution_group
                                          ORDER BY scheduled_time, priority DESC, row) AS group_rank
\endif
              FROM front
             WHERE
                -- include: has_said
                -- The node has said that it runs the type with the placement. It has said nothing yet about a pair that nobody
                -- has used before: such triggers stay as they are, and `undecided` names the pair. Bisection among the hashes of
                -- what it runs takes a quarter of the time of a look-up.
                (((SELECT hashes FROM accepted))[width_bucket(front.key_hash, (SELECT hashes FROM accepted))] = front.key_hash
                 OR EXISTS (SELECT FROM qrtz_node_keys k
                             WHERE k.epoch = :'epoch'::bigint AND k.job_type = front.job_type
                               AND k.placement = front.placement AND k.runs OFFSET 0))
                -- end
             ) AS ranked
\if :several_pools
     WHERE executor_rank <= workers AND group_rank <= group_slots
\endif
     ORDER BY scheduled_time, priority DESC, row
     LIMIT :'limit'::int
),
\if :takes_free
-- Those of jobs with a limit that are the only ones of their job and key here, and of which nothing runs. All others stay
-- as they are, for the other statement.
free AS MATERIALIZED (
    SELECT due.row
      FROM (SELECT job_group, job_name, concurrency_key, min(row) AS row, min(at) AS at,
                   min(scheduled_time) AS scheduled_time
              FROM candidates WHERE max_concurrent IS NOT NULL
             GROUP BY job_group, job_name, concurrency_key
            HAVING count(*) = 1 AND min(overlap_policy) IN ('block', 'skip')) AS due
     WHERE NOT EXISTS (
        SELECT FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = due.job_group AND r.job_name = due.job_name
           AND r.concurrency_key = due.concurrency_key AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL
        OFFSET 0)
       AND NOT (
           -- include: sooner_waits
           -- A step that begins at a time has not read what waits before it.
           (SELECT max(since) > '-infinity' FROM unnest(:'sinces'::timestamptz[]) AS since)
           AND EXISTS (
               SELECT FROM
                      -- include: acquired_rules
                      (VALUES ('NODE'), ('OWN'), ('IGNORE')) AS rule(name)
                      -- end
                CROSS JOIN LATERAL (
                   SELECT FROM qrtz_triggers w
                    WHERE w.sched_name || '' = :'sched' AND w.job_group || '' = due.job_group
                      AND w.job_name || '' = due.job_name AND w.concurrency_key || '' = due.concurrency_key
                      AND w.trigger_state = 'BLOCKED' AND w.misfire_rule = rule.name
                      AND w.next_fire_time < due.scheduled_time
                      AND w.next_fire_time >= CASE rule.name
                              WHEN 'NODE' THEN due.at - :'threshold'::interval ELSE '-infinity' END
                      AND (rule.name <> 'OWN' OR w.next_fire_time >= due.at - w.misfire_threshold)
                    LIMIT 1) AS sooner
               OFFSET 0)
           -- end
       )
),
\endif
-- A trigger that is due fires and moves on to the next of its upcoming fire times, or to COMPLETE where there is none;
-- any other is claimed. A trigger whose job has got a limit stays as it is, for the other statement. A trigger that
-- catches up does so until its next fire time is later than the end of the catch-up.
advanced AS (
    UPDATE qrtz_triggers t
       SET trigger_state = CASE WHEN NOT d.is_due THEN 'ACQUIRED'
                                WHEN cardinality(t.upcoming) = 0 THEN 'COMPLETE' ELSE 'WAITING' END,
           fire_id = CASE WHEN NOT d.is_due OR cardinality(t.upcoming) = 0 THEN d.fire_id END,
           prev_fire_time = CASE WHEN d.is_due THEN t.next_fire_time ELSE t.prev_fire_time END,
           next_fire_time = CASE WHEN d.is_due THEN t.upcoming[1] ELSE t.next_fire_time END,
           upcoming = CASE WHEN d.is_due THEN t.upcoming[2:] ELSE t.upcoming END,
           coalesced_fire_times = CASE WHEN NOT d.is_due THEN t.coalesced_fire_times END,
           admission = CASE WHEN NOT d.is_due THEN t.admission END,
           catch_up_until = CASE WHEN t.catch_up_until
                                      >= CASE WHEN d.is_due THEN t.upcoming[1] ELSE t.next_fire_time END
                                 THEN t.catch_up_until END,
           -- include: keeps_old_entries
           -- PostgreSQL does not search the full pages of `qrtz_triggers_job` for old versions (decision 65).
           concurrency_key = t.concurrency_key,
           -- end
           times_triggered = t.times_triggered + d.is_due::int
      FROM (SELECT *, nextval('qrtz_fire_ids') AS fire_id FROM candidates
\if :takes_free
             WHERE max_concurrent IS NULL OR row IN (SELECT row FROM free)) AS d
\else
             WHERE max_concurrent IS NULL) AS d
\endif
     WHERE t.ctid = d.row
    RETURNING CASE WHEN d.is_due THEN 'FIRE' ELSE 'CLAIM' END AS decision, d.fire_id AS given_fire_id, d.at,
              d.scheduled_time, d.previous_time, d.coalesced_fire_times AS coalesced,
              t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name, t.job_type,
              t.next_fire_time, t.upcoming, t.upcoming_is_complete, t.times_triggered, t.attempt, t.max_concurrent,
              t.overlap_policy, t.concurrency_key, t.placement, t.job_data, t.kind, t.schedule, t.description,
              t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold, t.calendar_name
),
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
-- include: stored
-- The claim, or the running execution.
stored AS (
    INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, state, fired_time, scheduled_time, priority, max_concurrent,
        concurrency_key, requests_recovery, attempt, trigger_data, coalesced_fire_times)
    SELECT t.fire_id, :'sched', t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, :'instance', :'epoch'::bigint,
           CASE t.decision WHEN 'FIRE' THEN 'EXECUTING' ELSE 'ACQUIRED' END, t.fire_time, t.scheduled_fire_time,
           t.priority, t.max_concurrent, t.concurrency_key, t.requests_recovery, t.attempt, t.trigger_data::jsonb,
           CASE t.decision WHEN 'FIRE' THEN t.coalesced END
      FROM claimed t WHERE t.decision <> 'SKIP'
)
-- end
SELECT * FROM claimed ORDER BY scheduled_fire_time, priority DESC;

-- name: lock_if_due
-- Takes the lock of the acquire step if a trigger without a limit is due, and unless another transaction has the lock.
-- A lock writes to the log of the server, so a node that would find nothing does not take it.
WITH
-- The guard of the step. It is empty if this epoch is no longer registered, and then all that follows is empty, too.
-- `at` is the one instant by which the whole step decides.
node AS MATERIALIZED (
    SELECT :now AS at FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
)
SELECT 1
  FROM qrtz_locks
 WHERE sched_name = :'sched' AND lock_name = 'TRIGGER_ACCESS'
   AND EXISTS (
    SELECT FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'sinces'::timestamptz[]) AS slots(slot_pool, since)
     CROSS JOIN
        -- include: acquired_rules
        (VALUES ('NODE'), ('OWN'), ('IGNORE')) AS rule(name)
        -- end
     CROSS JOIN LATERAL (
        SELECT t.max_concurrent
          FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
           AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
           AND t.next_fire_time <= node.at + :'look_ahead'::interval
           AND t.next_fire_time >= slots.since
           -- include: is_in_time
           -- It is no misfire; as a range of the index.
           AND t.next_fire_time >= CASE rule.name
                   WHEN 'NODE' THEN node.at - :'threshold'::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
           AND t.generation <> ALL(:'passed_over'::bigint[])
           -- end
           -- include: is_not_refused
           -- This node has not said that it does not run such triggers.
           \if :refuses_many
           AND NOT EXISTS (SELECT FROM qrtz_node_keys k
                            WHERE k.epoch = :'epoch'::bigint AND k.job_type = t.job_type
                              AND k.placement = t.placement AND NOT k.runs OFFSET 0)
           \else
           AND t.job_type || E'\n' || t.placement <> ALL(:'refused'::text[])
           \endif
           -- end
           -- include: is_not_spared
           -- No part of the backlog of skipped fires that this step leaves out.
           AND (t.overlap_policy = 'block' OR NOT :'spares_skips'::bool)
           -- end
         ORDER BY t.next_fire_time
         LIMIT 1
     ) AS first_of_range
     WHERE first_of_range.max_concurrent IS NULL)
   FOR UPDATE SKIP LOCKED;

-- name: next_due
-- What waits for this node, without a lock. No row: the epoch is no longer registered.
WITH node AS MATERIALIZED (
    SELECT :now AS at, clock_timestamp() AS began FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
),
-- The soonest trigger of each slot pool; of jobs with a limit; and whether this node has yet to say that it runs it.
waiting AS (
    SELECT slots.place, min(first_of_range.next_fire_time) AS soonest,
           min(first_of_range.next_fire_time) FILTER (WHERE first_of_range.max_concurrent IS NOT NULL) AS limited,
           bool_or(NOT EXISTS (SELECT FROM qrtz_node_keys k
                                WHERE k.epoch = :'epoch'::bigint AND k.job_type = first_of_range.job_type
                                  AND k.placement = first_of_range.placement AND k.runs OFFSET 0))
               FILTER (WHERE first_of_range.next_fire_time IS NOT NULL) AS is_undecided
      FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'sinces'::timestamptz[]) WITH ORDINALITY AS slots(slot_pool, since, place)
     CROSS JOIN
        -- include: acquired_rules
        (VALUES ('NODE'), ('OWN'), ('IGNORE')) AS rule(name)
        -- end
      LEFT JOIN LATERAL (
            SELECT t.next_fire_time, t.max_concurrent, t.job_type, t.placement
              FROM qrtz_triggers t
             WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
               AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
               AND t.next_fire_time >= slots.since
               -- include: is_in_time
               -- It is no misfire; as a range of the index.
               AND t.next_fire_time >= CASE rule.name
                       WHEN 'NODE' THEN node.at - :'threshold'::interval ELSE '-infinity' END
               AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
               AND t.generation <> ALL(:'passed_over'::bigint[])
               -- end
               -- include: is_not_refused
               -- This node has not said that it does not run such triggers.
               \if :refuses_many
               AND NOT EXISTS (SELECT FROM qrtz_node_keys k
                                WHERE k.epoch = :'epoch'::bigint AND k.job_type = t.job_type
                                  AND k.placement = t.placement AND NOT k.runs OFFSET 0)
               \else
               AND t.job_type || E'\n' || t.placement <> ALL(:'refused'::text[])
               \endif
               -- end
               -- include: is_not_spared
               -- No part of the backlog of skipped fires that this step leaves out.
               AND (t.overlap_policy = 'block' OR NOT :'spares_skips'::bool)
               -- end
             ORDER BY t.next_fire_time
             LIMIT 1) AS first_of_range ON true
     GROUP BY slots.place
)
SELECT node.at,
       -- triggers that users' transactions have stored, and that no step has reconciled yet
       (SELECT min(n.next_fire_time) FROM qrtz_triggers n WHERE n.sched_name = :'sched' AND n.unreconciled = 'NEW'),
       of_pools.limited,
       EXISTS (SELECT FROM qrtz_job_details WHERE sched_name = :'sched'
                                                   AND (rate_limit IS NOT NULL OR limits IS NOT NULL)),
       -- Slot pools for which triggers wait and that this node has not met: the first between each two that it has, and
       -- behind the last. So the fronts of those that it has met are not read.
       ARRAY(SELECT following_met.slot_pool
               FROM unnest(:'met_pools'::text[], :'following_pools'::text[]) AS met(slot_pool, following)
              CROSS JOIN LATERAL (
                 SELECT t.slot_pool FROM qrtz_triggers t
                  WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING'
                    AND t.slot_pool > met.slot_pool AND t.slot_pool < met.following
                  ORDER BY t.slot_pool LIMIT 1) AS following_met),
       of_pools.soonest,
       of_pools.is_undecided,
       extract(epoch FROM clock_timestamp() - node.began)::float8
  FROM node
 CROSS JOIN (SELECT coalesce(array_agg(soonest ORDER BY place), '{}') AS soonest, min(limited) AS limited,
                    coalesce(bool_or(is_undecided), false) AS is_undecided
               FROM waiting) AS of_pools;

-- name: undecided
-- The job types and placements among the soonest triggers of these slot pools about which this node has said nothing yet,
-- or says anew that it does not run them.
SELECT met.job_type, met.placement
  FROM (SELECT DISTINCT soonest.job_type, soonest.placement
          FROM unnest(:'slot_pools'::text[]) AS slots(slot_pool)
         CROSS JOIN
            (VALUES ('NODE'), ('OWN'), ('IGNORE'), ('RATE_LIMIT'), ('LATE')) AS rule(name)
         CROSS JOIN LATERAL (
            SELECT t.job_type, t.placement
              FROM qrtz_triggers t
             WHERE t.sched_name = :'sched' AND t.slot_pool = slots.slot_pool
               AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
               -- include: is_not_refused
               -- This node has not said that it does not run such triggers.
               \if :refuses_many
               AND NOT EXISTS (SELECT FROM qrtz_node_keys k
                                WHERE k.epoch = :'epoch'::bigint AND k.job_type = t.job_type
                                  AND k.placement = t.placement AND NOT k.runs OFFSET 0)
               \else
               AND t.job_type || E'\n' || t.placement <> ALL(:'refused'::text[])
               \endif
               -- end
             ORDER BY t.next_fire_time
             LIMIT 5000) AS soonest) AS met
 WHERE NOT EXISTS (SELECT FROM qrtz_node_keys k
                    WHERE k.epoch = :'epoch'::bigint AND k.job_type = met.job_type AND k.placement = met.placement
                      AND k.runs OFFSET 0);

-- name: reconcile_new
-- Compares the triggers that users' transactions have committed since with the current pauses, running executions and
-- jobs. Such a transaction takes no lock, so it stores its triggers as NEW (HELD if they are paused afterwards), and no
-- other step takes such triggers. Locked rows are reconciled later, and those of locked
-- jobs: the statement that follows in this transaction updates a trigger again, and the foreign key of a row that the
-- transaction itself has written is checked once more, which would wait for the job.
UPDATE qrtz_triggers t
   SET trigger_state = j.new_state, held_by_mode = j.new_hold, unreconciled = NULL,
       job_type = j.job_type, max_concurrent = j.max_concurrent, overlap_policy = j.overlap_policy,
       placement = j.placement, concurrency_key = j.new_key, rate_limit = j.rate_limit, limits = j.limits,
       -- include: admission_of_job
       -- What the former rate limit said means nothing to another one.
       admission = CASE WHEN t.rate_limit = j.rate_limit OR t.limits = j.limits THEN t.admission END,
       rate_limited_until = CASE WHEN t.rate_limit = j.rate_limit THEN t.rate_limited_until END
       -- end
  FROM (SELECT o.row, j.*, own.new_key,
               CASE WHEN o.trigger_state IN ('WAITING', 'PAUSED', 'BLOCKED', 'PAUSED_BLOCKED') THEN
                    -- include: new_state
                    CASE WHEN usual.is_so OR NOT (checked.group_is_paused OR checked.mode_forbids)
                         THEN 'WAITING' ELSE 'PAUSED' END
                    -- end
                    ELSE o.trigger_state END AS new_state,
               -- Leaving a mode resumes the triggers that only the mode pauses.
               NOT usual.is_so AND NOT checked.group_is_paused AND checked.mode_forbids AS new_hold
          FROM (SELECT
                -- include: ordinary
                -- Nothing is paused or in manual mode: checked once per statement, not once per row.
                (SELECT NOT EXISTS (SELECT FROM qrtz_paused_trigger_groups p WHERE p.sched_name = :'sched')
                    AND NOT EXISTS (SELECT FROM qrtz_job_details m
                                     WHERE m.sched_name = :'sched' AND m.mode || '' <> 'ENABLED'))
                -- end
                AS is_so) AS usual
         CROSS JOIN (
            SELECT n.ctid AS row, n.trigger_group, n.job_group, n.job_name, n.trigger_state, n.job_data
              FROM qrtz_triggers n
             WHERE n.sched_name = :'sched' AND n.unreconciled = 'NEW'
             ORDER BY n.next_fire_time
             LIMIT 500
               FOR NO KEY UPDATE SKIP LOCKED) AS o
         CROSS JOIN LATERAL (
            SELECT d.job_type, d.max_concurrent, d.overlap_policy, d.placement, d.concurrency_key, d.rate_limit,
                   d.limits, d.job_data
              FROM qrtz_job_details d
             WHERE d.sched_name = :'sched' AND d.job_group = o.job_group AND d.job_name = o.job_name
             LIMIT 1
               FOR NO KEY UPDATE SKIP LOCKED) AS j
         -- include: checked
         -- A key is part of an index entry, whose size is limited: a longer value is represented by its hash.
         CROSS JOIN LATERAL (
            SELECT CASE WHEN j.concurrency_key IS NULL THEN ''
                        ELSE (SELECT CASE WHEN length(k.value) <= 60 THEN k.value ELSE md5(k.value) END
                                FROM (SELECT coalesce((coalesce(j.job_data, '{}') || coalesce(o.job_data, '{}'))
                                                      ->> j.concurrency_key, '') AS value) AS k) END AS new_key) AS own
         -- The mode of its job, or manual mode, prevents a trigger from firing.
         CROSS JOIN LATERAL (
            SELECT EXISTS (
                      SELECT FROM qrtz_paused_trigger_groups p
                       WHERE p.sched_name = :'sched'
                         AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = o.trigger_group)
                              OR (p.scope = 'JOB' AND p.group_name = o.job_group))) AS group_is_paused,
                   EXISTS (
                      SELECT FROM qrtz_job_details m
                       WHERE m.sched_name = :'sched' AND m.job_group = o.job_group AND m.job_name = o.job_name
                         AND (m.mode = 'DISABLED'
                              OR (m.mode = 'MANUAL' AND o.trigger_group NOT IN (
                                      'MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS'))))
                   OR (o.trigger_group NOT IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
                       AND EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                                    WHERE p.sched_name = :'sched' AND p.scope = 'MANUAL')) AS mode_forbids) AS checked
         -- end
       ) AS j
 WHERE t.ctid = j.row;
