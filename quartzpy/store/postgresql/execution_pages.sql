-- The planner is steered here: see docs/planner.md.

-- name: page
-- The executions that match all filters, the latest first, then those that are to come, the soonest first. The history
-- is walked from its end; with `examined` only over the first `among`. The first part is always empty: it names the
-- columns and gives them their types.
--
-- A walk along an index has the order of the index alone, and WITH TIES: before PostgreSQL 16 the planner would rather
-- sort everything than sort each few rows of the same instant.
WITH
-- include: full_jobs
\if :count
SELECT count(*) FROM (
\endif
SELECT *
  FROM (SELECT NULL::text AS state, NULL::bigint AS fire_id, NULL::text AS trigger_group, NULL::text AS trigger_name,
               NULL::text AS job_group, NULL::text AS job_name, NULL::text AS job_type, NULL::text AS instance_id,
               NULL::timestamptz AS scheduled_time, NULL::timestamptz AS fired_time, NULL::timestamptz AS started_at,
               NULL::timestamptz AS ended_at, NULL::int AS attempt, NULL::text AS error, NULL::text AS trigger_data,
               NULL::text AS result, NULL::timestamptz AS retry_at
         WHERE false
\if :ended
\if :of_trigger
        -- The index of a trigger's history has the order of scheduled times: the executions that end last are among
        -- those that were scheduled last, or scheduled at most an hour before these, or among the few that took longer.
        -- Only fires up to the cursor can have ended before it. With an upper bound the planner also expects few rows.
        UNION ALL
       (WITH last AS MATERIALIZED (
            -- OFFSET 0 keeps the other conditions away, one of which the index of the ends could serve.
            SELECT scheduled_time
              FROM (SELECT * FROM qrtz_executions
                     WHERE sched_name = :'sched' AND trigger_group = :'trigger_group' AND trigger_name = :'trigger_name'
                       AND scheduled_time <= coalesce(:'after_at'::timestamptz + interval '1 minute', 'infinity')
                       -- include: in_span
                     ORDER BY generation DESC, scheduled_time DESC
                    OFFSET 0) AS own
             WHERE true
               -- include: is_wanted
             ORDER BY generation DESC, scheduled_time DESC LIMIT :'limit'::int
        ),
        since AS MATERIALIZED (
            SELECT CASE WHEN count(*) = :'limit'::int THEN min(scheduled_time) - interval '61 minutes'
                        ELSE '-infinity' END AS instant FROM last
        )
        SELECT
               -- include: ended_columns
          FROM (SELECT *
                  FROM (SELECT * FROM qrtz_executions
                         WHERE sched_name || '' = :'sched' AND trigger_group = :'trigger_group'
                           AND trigger_name = :'trigger_name' AND scheduled_time >= (SELECT instant FROM since)
                           AND scheduled_time <= coalesce(:'after_at'::timestamptz + interval '1 minute', 'infinity')
                        OFFSET 0) AS soon
                 UNION ALL
                SELECT *
                  -- OFFSET 0 keeps all other conditions away, so that only the partial index can serve.
                  FROM (SELECT * FROM qrtz_executions
                         WHERE ended_at - scheduled_time > interval '1 hour'
                           AND scheduled_time < (SELECT instant FROM since)
                        OFFSET 0) AS l
                 WHERE sched_name = :'sched' AND trigger_group = :'trigger_group' AND trigger_name = :'trigger_name')
            AS of_trigger
         WHERE sched_name || '' = :'sched'
           -- include: is_wanted
           -- include: in_span
         ORDER BY ended_at DESC, fire_id DESC LIMIT :'limit'::int)
\else
        UNION ALL
       (SELECT
               -- include: ended_columns
          FROM (
\if :examined
                SELECT * FROM (
\endif
                SELECT * FROM qrtz_executions
                 WHERE sched_name = :'sched'
                   -- include: is_walked
\if :examined
                 ORDER BY ended_at DESC FETCH FIRST (:'among'::int) ROWS WITH TIES) AS latest
                 ORDER BY ended_at DESC, fire_id DESC LIMIT :'among'::int
\endif
               ) AS walked
         WHERE true
           -- include: is_wanted
           -- include: in_span
         ORDER BY ended_at DESC FETCH FIRST (:'limit'::int) ROWS WITH TIES)
\if :until
        UNION ALL
       (SELECT
               -- include: ended_columns
          FROM (SELECT * FROM qrtz_executions
                 WHERE ended_at - scheduled_time > interval '1 hour' AND scheduled_time < :'until'::timestamptz
                OFFSET 0) AS later
         WHERE ended_at >= :'until'::timestamptz + interval '61 minutes' AND sched_name || '' = :'sched'
           -- include: is_wanted
           -- include: in_span
         ORDER BY ended_at DESC, fire_id DESC LIMIT :'limit'::int)
\endif
\endif
\endif
\if :fired
        UNION ALL
       (SELECT
               -- include: fired_columns
          FROM qrtz_fired_triggers
         WHERE sched_name = :'sched'
           AND CASE WHEN fired_time > :now THEN 'ACQUIRED' ELSE 'EXECUTING' END = ANY(:'fired_states'::text[])
           -- include: is_of
\if :of_node
           AND instance_id = :'node'
\endif
           -- include: in_span
\if :after
           AND (fired_time, fire_id)
               < (:'after_at'::timestamptz, :'after_id'::bigint)
\endif
       )
\endif
\if :to_come
        UNION ALL
       (
\if :of_trigger
        SELECT
               -- include: scheduled_columns
          FROM qrtz_triggers t
         WHERE sched_name = :'sched'
           AND
               -- include: is_to_come
           -- include: is_of
           -- include: is_in_span
         ORDER BY next_fire_time, trigger_group, trigger_name LIMIT :'limit'::int
\else
\if :of_job
        -- Up to a number, the waiting triggers of a job are sorted.
        WITH few AS MATERIALIZED (
            SELECT count(*) <= :'most_few'::int AS holds
              FROM (SELECT FROM qrtz_triggers
                     WHERE job_group = :'job_group' AND job_name = :'job_name'
                     LIMIT :'most_few'::int + 1) AS counted)
       (SELECT *
          FROM (SELECT
                       -- include: scheduled_columns
                  FROM qrtz_triggers t
                 WHERE sched_name || '' = :'sched'
                   AND
                       -- include: is_to_come
                   -- include: is_of
                   -- include: is_in_span
                 ORDER BY next_fire_time, trigger_group, trigger_name LIMIT :'limit'::int) AS t
         WHERE (SELECT holds FROM few))
        UNION ALL
       (SELECT * FROM (
\endif
        -- The front of the due index, for each slot pool and misfire rule, without the triggers that wait for a slot,
        -- and those that have one again, of each job whose rows still say that they are blocked.
        WITH RECURSIVE waiting AS (
            -- include: waiting
        ),
        held AS (
            -- include: held_ranges
        )
        SELECT
               -- include: scheduled_columns
          FROM ((SELECT of_key.*
                   FROM waiting w
                  CROSS JOIN
                     -- include: each_rule
                  CROSS JOIN LATERAL (
                     SELECT * FROM qrtz_triggers t
                      WHERE sched_name = :'sched' AND trigger_state = 'WAITING'
                        AND
                            -- include: is_to_come
                        -- include: is_of
                        -- include: is_in_span
                        AND slot_pool = w.slot_pool AND misfire_rule = rule.name
                      ORDER BY next_fire_time FETCH FIRST (:'limit'::int) ROWS WITH TIES) AS of_key)
                UNION ALL
                (SELECT of_key.*
                   FROM (SELECT t.*
                           FROM held h
                          CROSS JOIN LATERAL (
                             SELECT h.*,
                                    -- include: limits_of_job
                               FROM qrtz_job_details j
                              WHERE j.sched_name = :'sched' AND j.job_group = h.job_group AND j.job_name = h.job_name
                              LIMIT 1) AS t
                          WHERE t.trigger_state = 'BLOCKED'
                            AND
                                -- include: is_to_come
                         OFFSET 0) AS k
                  CROSS JOIN LATERAL (
                     SELECT * FROM qrtz_triggers t
                      WHERE t.sched_name || '' = :'sched' AND trigger_state = 'BLOCKED'
                        AND job_group || '' = k.job_group AND job_name || '' = k.job_name
                        AND concurrency_key || '' = k.concurrency_key
                        AND
                            -- include: held_lane
                            = k.lane
                        -- include: is_of
                        -- include: is_in_span
                      ORDER BY next_fire_time FETCH FIRST (:'limit'::int) ROWS WITH TIES) AS of_key)) AS t
         ORDER BY next_fire_time, trigger_group, trigger_name LIMIT :'limit'::int
\if :of_job
       ) AS t WHERE NOT (SELECT holds FROM few))
\endif
\endif
       )
\endif
       ) AS e
 ORDER BY CASE state WHEN 'SCHEDULED' THEN scheduled_time END NULLS FIRST,
          coalesce(ended_at, fired_time, scheduled_time) DESC, fire_id DESC, trigger_group, trigger_name
 LIMIT :'limit'::int
\if :count
) AS matching
\endif
;

-- name: ranked
-- The ended executions that match all filters and ran longest, or waited longest for a node, among the latest `among` of
-- all, or of the trigger. The few that ended more than an hour after their scheduled time are no longer near a bound.
SELECT
               -- include: ended_columns
  FROM ((SELECT * FROM qrtz_executions
\if :of_trigger
          WHERE trigger_group = :'trigger_group' AND trigger_name = :'trigger_name' AND sched_name = :'sched'
          ORDER BY generation DESC, scheduled_time DESC LIMIT :'among'::int)
\else
          WHERE sched_name = :'sched'
                   -- include: is_walked
          ORDER BY ended_at DESC FETCH FIRST (:'among'::int) ROWS WITH TIES)
\if :until
        UNION ALL
        (SELECT * FROM (SELECT * FROM qrtz_executions
                         WHERE ended_at - scheduled_time > interval '1 hour' AND scheduled_time < :'until'::timestamptz
                        OFFSET 0) AS later
          WHERE ended_at >= :'until'::timestamptz + interval '61 minutes' AND sched_name || '' = :'sched'
          LIMIT :'among'::int)
\endif
\endif
       ) AS walked
 WHERE true
               -- include: is_wanted
               -- include: in_span
\if :by_duration
   AND started_at IS NOT NULL
 ORDER BY ended_at - started_at DESC,
\else
 ORDER BY fired_time - scheduled_time DESC,
\endif
          ended_at DESC, fire_id DESC LIMIT :'limit'::int;

-- name: last
-- The last execution that a page examines.
SELECT ended_at, fire_id
  FROM (SELECT ended_at, fire_id FROM qrtz_executions
         WHERE sched_name = :'sched'
   -- include: is_walked
         ORDER BY ended_at DESC FETCH FIRST (:'among'::int) ROWS WITH TIES) AS walked
 ORDER BY ended_at DESC, fire_id DESC OFFSET :'among'::int - 1 LIMIT 1;
