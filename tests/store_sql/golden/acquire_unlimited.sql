-- Claims triggers of jobs without a limit, and fires those that are due already. Where all slots are of one executor
-- and one group, as on most nodes, `limit` is the only limit that counts, which saves two sorts.
WITH
-- The guard of the step. It is empty if this epoch is no longer registered, and then all that follows is empty, too.
-- `at` is the one instant by which the whole step decides.
node AS MATERIALIZED (
    SELECT clock_timestamp() AS at FROM qrtz_scheduler_state
     WHERE sched_name = %(sched)s AND instance_id = %(instance)s AND epoch = %(epoch)s::bigint
),
-- The triggers that this node can take, as in `acquire`.
candidates AS MATERIALIZED (
    SELECT *
      FROM (SELECT node.at, of_key.*
                   , slots.workers, slots.group_slots,
                   row_number() OVER (PARTITION BY slots.executor
                                          ORDER BY of_key.scheduled_time, of_key.priority DESC) AS executor_rank,
                   row_number() OVER (PARTITION BY slots.execution_group
                                          ORDER BY of_key.scheduled_time, of_key.priority DESC) AS group_rank
              FROM node
             CROSS JOIN unnest(%(job_types)s::text[], %(placements)s::text[], %(executors)s::text[], %(workers)s::int[],
                               %(groups)s::text[], %(group_slots)s::int[])
                        AS slots(job_type, placement, executor, workers, execution_group, group_slots)
             CROSS JOIN (VALUES ('SCHEDULER'), ('OWN'), ('IGNORE')) AS rule(name)
             CROSS JOIN LATERAL (
                SELECT t.ctid AS row, t.next_fire_time AS scheduled_time, t.priority, t.max_concurrent,
                       t.prev_fire_time AS previous_time, t.coalesced_fire_times,
                       t.next_fire_time <= node.at
                           AND (t.upcoming_is_complete OR cardinality(t.upcoming) > 0) AS is_due
                  FROM qrtz_triggers t
                 WHERE t.sched_name = %(sched)s AND t.job_type = slots.job_type AND t.placement = slots.placement
                   AND t.misfire_rule = rule.name AND t.trigger_state = 'WAITING'
                   AND t.next_fire_time <= node.at + %(look_ahead)s::interval
                   AND t.next_fire_time >= %(since)s::timestamptz
                   -- include: is_in_time
                   -- It is no misfire; as a range of the index.
                   AND t.next_fire_time >= CASE rule.name
                           WHEN 'SCHEDULER' THEN node.at - %(threshold)s::interval ELSE '-infinity' END
                   AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
                   AND t.generation <> ALL(%(passed_over)s::bigint[])
                   -- end
                 ORDER BY t.next_fire_time, t.priority DESC
                 LIMIT least(%(limit)s::int, slots.workers, slots.group_slots)
                   FOR NO KEY UPDATE OF t SKIP LOCKED
             ) AS of_key) AS found
     WHERE executor_rank <= workers AND group_rank <= group_slots
     ORDER BY scheduled_time, priority DESC
     LIMIT %(limit)s::int
),
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
           misfire_rule = CASE WHEN t.catch_up_until
                                    < coalesce(CASE WHEN d.is_due THEN t.upcoming[1] ELSE t.next_fire_time END,
                                               'infinity')
                               THEN CASE WHEN t.rate_limit IS NOT NULL THEN 'RATE_LIMIT'
                                         WHEN t.misfire_threshold IS NULL THEN 'SCHEDULER' ELSE 'OWN' END
                               ELSE CASE WHEN t.rate_limit IS NULL THEN t.misfire_rule ELSE 'RATE_LIMIT' END END,
           catch_up_until = CASE WHEN t.catch_up_until
                                      >= CASE WHEN d.is_due THEN t.upcoming[1] ELSE t.next_fire_time END
                                 THEN t.catch_up_until END,
           times_triggered = t.times_triggered + d.is_due::int
      FROM (SELECT *, nextval('qrtz_fire_ids') AS fire_id FROM candidates WHERE max_concurrent IS NULL) AS d
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
-- include: stored
-- The claim, or the running execution.
stored AS (
    INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, state, fired_time, scheduled_time, priority, max_concurrent,
        concurrency_key, requests_recovery, attempt, trigger_data, coalesced_fire_times)
    SELECT t.fire_id, %(sched)s, t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, %(instance)s, %(epoch)s::bigint,
           CASE t.decision WHEN 'FIRE' THEN 'EXECUTING' ELSE 'ACQUIRED' END, t.fire_time, t.scheduled_fire_time,
           t.priority, t.max_concurrent, t.concurrency_key, t.requests_recovery, t.attempt, t.trigger_data::jsonb,
           CASE t.decision WHEN 'FIRE' THEN t.coalesced END
      FROM claimed t WHERE t.decision <> 'SKIP'
)
-- end
SELECT * FROM claimed ORDER BY scheduled_fire_time, priority DESC
