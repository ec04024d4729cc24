-- name: page
-- The executions that match all filters, the latest first, then those that are to come, the soonest first. The history
-- is walked from its end; with `examined` only over the first `among`. The first part is always empty: it names the
-- columns and gives them their types.
--
-- A walk along an index has the order of the index alone, and WITH TIES: before PostgreSQL 16 the planner would rather
-- sort everything than sort each few rows of the same instant.
WITH
-- include: full_jobs
-- The limits that running executions reach, by job and concurrency key: each limit up to their number. A trigger whose
-- own limit is among them waits for a slot, whatever its row says.
full_jobs AS MATERIALIZED (
    SELECT job_group, job_name, concurrency_key,
           row_number() OVER (PARTITION BY job_group, job_name, concurrency_key)::int AS max_concurrent
      FROM qrtz_fired_triggers
     WHERE sched_name = :'sched' AND state = 'EXECUTING' AND max_concurrent IS NOT NULL
)
-- end
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
                       \if :since
                       AND scheduled_time >= :'since'::timestamptz
                       \endif
                       \if :until
                       AND scheduled_time < :'until'::timestamptz
                       \endif
                       -- end
                     ORDER BY generation DESC, scheduled_time DESC
                    OFFSET 0) AS own
             WHERE true
               -- include: is_wanted
               AND outcome = ANY(:'outcomes'::text[])
\if :exhausted
               AND outcome = 'FAILED' AND retry_at IS NULL
\endif
\if :of_job
               AND job_group = :'job_group' AND job_name = :'job_name'
\endif
\if :in_group
               AND CASE :'operator'
                       WHEN 'equals' THEN job_group = :'group'
                       WHEN 'starts_with' THEN starts_with(job_group, :'group')
                       WHEN 'ends_with' THEN right(job_group, length(:'group')) = :'group'
                       ELSE strpos(job_group, :'group') > 0
                   END
\endif
\if :of_type
               AND job_type = :'job_type'
\endif
\if :has_error
               AND strpos(error, :'error') > 0
\endif
\if :of_node
               AND instance_id = :'instance'
\endif
\if :after
               AND ended_at <= :'after_at'::timestamptz
               AND (ended_at, fire_id) < (:'after_at'::timestamptz, :'after_id'::bigint)
\endif
               -- end
             ORDER BY generation DESC, scheduled_time DESC LIMIT :'limit'::int
        ),
        since AS MATERIALIZED (
            SELECT CASE WHEN count(*) = :'limit'::int THEN min(scheduled_time) - interval '61 minutes'
                        ELSE '-infinity' END AS instant FROM last
        )
        SELECT
               -- include: ended_columns
               outcome AS state, fire_id, trigger_group, trigger_name, job_group, job_name, job_type, instance_id,
               scheduled_time, fired_time, started_at, ended_at, attempt, error, trigger_data::text, result::text,
               retry_at
               -- end
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
                          AND outcome = ANY(:'outcomes'::text[])
           \if :exhausted
                          AND outcome = 'FAILED' AND retry_at IS NULL
           \endif
           \if :of_job
                          AND job_group = :'job_group' AND job_name = :'job_name'
           \endif
           \if :in_group
                          AND CASE :'operator'
                                  WHEN 'equals' THEN job_group = :'group'
                                  WHEN 'starts_with' THEN starts_with(job_group, :'group')
                                  WHEN 'ends_with' THEN right(job_group, length(:'group')) = :'group'
                                  ELSE strpos(job_group, :'group') > 0
                              END
           \endif
           \if :of_type
                          AND job_type = :'job_type'
           \endif
           \if :has_error
                          AND strpos(error, :'error') > 0
           \endif
           \if :of_node
                          AND instance_id = :'instance'
           \endif
           \if :after
                          AND ended_at <= :'after_at'::timestamptz
                          AND (ended_at, fire_id) < (:'after_at'::timestamptz, :'after_id'::bigint)
           \endif
           -- end
           -- include: in_span
           \if :since
           AND scheduled_time >= :'since'::timestamptz
           \endif
           \if :until
           AND scheduled_time < :'until'::timestamptz
           \endif
           -- end
         ORDER BY ended_at DESC, fire_id DESC LIMIT :'limit'::int)
\else
        UNION ALL
       (SELECT
               -- include: ended_columns
               outcome AS state, fire_id, trigger_group, trigger_name, job_group, job_name, job_type, instance_id,
               scheduled_time, fired_time, started_at, ended_at, attempt, error, trigger_data::text, result::text,
               retry_at
               -- end
          FROM (
\if :examined
                SELECT * FROM (
\endif
                SELECT * FROM qrtz_executions
                 WHERE sched_name = :'sched'
                   -- include: is_walked
                   -- An execution ends at most an hour after its scheduled time, or it is among the few of a partial
                   -- index. The clocks of nodes, which tell the end, may be a minute wrong.
\if :since
                   AND ended_at >= :'since'::timestamptz - interval '1 minute'
\endif
\if :until
                   AND ended_at < :'until'::timestamptz + interval '61 minutes'
\endif
\if :after
                   AND ended_at <= :'after_at'::timestamptz
                   AND (ended_at, fire_id) < (:'after_at'::timestamptz, :'after_id'::bigint)
\endif
                   -- end
\if :examined
                 ORDER BY ended_at DESC FETCH FIRST (:'among'::int) ROWS WITH TIES) AS latest
                 ORDER BY ended_at DESC, fire_id DESC LIMIT :'among'::int
\endif
               ) AS walked
         WHERE true
           -- include: is_wanted
                          AND outcome = ANY(:'outcomes'::text[])
           \if :exhausted
                          AND outcome = 'FAILED' AND retry_at IS NULL
           \endif
           \if :of_job
                          AND job_group = :'job_group' AND job_name = :'job_name'
           \endif
           \if :in_group
                          AND CASE :'operator'
                                  WHEN 'equals' THEN job_group = :'group'
                                  WHEN 'starts_with' THEN starts_with(job_group, :'group')
                                  WHEN 'ends_with' THEN right(job_group, length(:'group')) = :'group'
                                  ELSE strpos(job_group, :'group') > 0
                              END
           \endif
           \if :of_type
                          AND job_type = :'job_type'
           \endif
           \if :has_error
                          AND strpos(error, :'error') > 0
           \endif
           \if :of_node
                          AND instance_id = :'instance'
           \endif
           \if :after
                          AND ended_at <= :'after_at'::timestamptz
                          AND (ended_at, fire_id) < (:'after_at'::timestamptz, :'after_id'::bigint)
           \endif
           -- end
           -- include: in_span
           \if :since
           AND scheduled_time >= :'since'::timestamptz
           \endif
           \if :until
           AND scheduled_time < :'until'::timestamptz
           \endif
           -- end
         ORDER BY ended_at DESC FETCH FIRST (:'limit'::int) ROWS WITH TIES)
\if :until
        UNION ALL
       (SELECT
               -- include: ended_columns
               outcome AS state, fire_id, trigger_group, trigger_name, job_group, job_name, job_type, instance_id,
               scheduled_time, fired_time, started_at, ended_at, attempt, error, trigger_data::text, result::text,
               retry_at
               -- end
          FROM (SELECT * FROM qrtz_executions
                 WHERE ended_at - scheduled_time > interval '1 hour' AND scheduled_time < :'until'::timestamptz
                OFFSET 0) AS later
         WHERE ended_at >= :'until'::timestamptz + interval '61 minutes' AND sched_name || '' = :'sched'
           -- include: is_wanted
                          AND outcome = ANY(:'outcomes'::text[])
           \if :exhausted
                          AND outcome = 'FAILED' AND retry_at IS NULL
           \endif
           \if :of_job
                          AND job_group = :'job_group' AND job_name = :'job_name'
           \endif
           \if :in_group
                          AND CASE :'operator'
                                  WHEN 'equals' THEN job_group = :'group'
                                  WHEN 'starts_with' THEN starts_with(job_group, :'group')
                                  WHEN 'ends_with' THEN right(job_group, length(:'group')) = :'group'
                                  ELSE strpos(job_group, :'group') > 0
                              END
           \endif
           \if :of_type
                          AND job_type = :'job_type'
           \endif
           \if :has_error
                          AND strpos(error, :'error') > 0
           \endif
           \if :of_node
                          AND instance_id = :'instance'
           \endif
           \if :after
                          AND ended_at <= :'after_at'::timestamptz
                          AND (ended_at, fire_id) < (:'after_at'::timestamptz, :'after_id'::bigint)
           \endif
           -- end
           -- include: in_span
           \if :since
           AND scheduled_time >= :'since'::timestamptz
           \endif
           \if :until
           AND scheduled_time < :'until'::timestamptz
           \endif
           -- end
         ORDER BY ended_at DESC, fire_id DESC LIMIT :'limit'::int)
\endif
\endif
\endif
\if :fired
        UNION ALL
       (SELECT
               -- include: fired_columns
               CASE state WHEN 'ACQUIRED' THEN 'ENQUEUED' ELSE 'PROCESSING' END, fire_id, trigger_group, trigger_name, job_group,
               job_name, job_type, instance_id, scheduled_time, CASE state WHEN 'EXECUTING' THEN fired_time END,
               NULL::timestamptz, NULL::timestamptz, attempt, NULL::text, trigger_data::text, NULL::text, NULL::timestamptz
               -- end
          FROM qrtz_fired_triggers
         WHERE sched_name = :'sched' AND state = ANY(:'fired_states'::text[])
           -- include: is_of
\if :of_job
           AND job_group = :'job_group' AND job_name = :'job_name'
\endif
\if :in_group
           AND CASE :'operator'
                   WHEN 'equals' THEN job_group = :'group'
                   WHEN 'starts_with' THEN starts_with(job_group, :'group')
                   WHEN 'ends_with' THEN right(job_group, length(:'group')) = :'group'
                   ELSE strpos(job_group, :'group') > 0
               END
\endif
\if :of_type
           AND job_type = :'job_type'
\endif
\if :of_trigger
           AND trigger_group = :'trigger_group' AND trigger_name = :'trigger_name'
\endif
           -- end
\if :of_node
           AND instance_id = :'instance'
\endif
\if :since
           AND scheduled_time >= :'since'::timestamptz
\endif
\if :until
           AND scheduled_time < :'until'::timestamptz
\endif
\if :after
           AND (CASE state WHEN 'EXECUTING' THEN fired_time ELSE scheduled_time END, fire_id)
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
               'SCHEDULED', NULL::bigint, trigger_group, trigger_name, job_group, job_name, job_type, NULL::text,
               next_fire_time, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, attempt, NULL::text,
               job_data::text, NULL::text, NULL::timestamptz
               -- end
          FROM qrtz_triggers t
         WHERE sched_name = :'sched' AND trigger_state IN ('WAITING', 'BLOCKED')
           AND
               -- include: seen_state
               CASE WHEN t.overlap_policy <> 'block' OR t.trigger_state IN ('COMPLETE', 'ERROR') THEN t.trigger_state
                    WHEN t.max_concurrent IS NOT NULL
                         AND (t.job_group, t.job_name, t.concurrency_key, t.max_concurrent) IN (SELECT * FROM full_jobs)
                    THEN CASE WHEN t.trigger_state IN ('PAUSED', 'PAUSED_BLOCKED') THEN 'PAUSED_BLOCKED' ELSE 'BLOCKED' END
                    ELSE CASE t.trigger_state WHEN 'BLOCKED' THEN 'WAITING' WHEN 'PAUSED_BLOCKED' THEN 'PAUSED'
                                              ELSE t.trigger_state END
               END
               -- end
               = 'WAITING'
           -- include: is_of
           \if :of_job
                      AND job_group = :'job_group' AND job_name = :'job_name'
           \endif
           \if :in_group
                      AND CASE :'operator'
                              WHEN 'equals' THEN job_group = :'group'
                              WHEN 'starts_with' THEN starts_with(job_group, :'group')
                              WHEN 'ends_with' THEN right(job_group, length(:'group')) = :'group'
                              ELSE strpos(job_group, :'group') > 0
                          END
           \endif
           \if :of_type
                      AND job_type = :'job_type'
           \endif
           \if :of_trigger
                      AND trigger_group = :'trigger_group' AND trigger_name = :'trigger_name'
           \endif
           -- end
           -- include: is_in_span
\if :since
           AND next_fire_time >= :'since'::timestamptz
\endif
\if :until
           AND next_fire_time < :'until'::timestamptz
\endif
\if :after_scheduled
           AND next_fire_time >= :'after_at'::timestamptz
           AND (next_fire_time, trigger_group, trigger_name)
               > (:'after_at'::timestamptz, :'after_group', :'after_name')
\endif
           -- end
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
                       'SCHEDULED', NULL::bigint, trigger_group, trigger_name, job_group, job_name, job_type, NULL::text,
                       next_fire_time, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, attempt, NULL::text,
                       job_data::text, NULL::text, NULL::timestamptz
                       -- end
                  FROM qrtz_triggers t
                 WHERE sched_name || '' = :'sched' AND trigger_state IN ('WAITING', 'BLOCKED')
                   AND
                       -- include: seen_state
                       CASE WHEN t.overlap_policy <> 'block' OR t.trigger_state IN ('COMPLETE', 'ERROR') THEN t.trigger_state
                            WHEN t.max_concurrent IS NOT NULL
                                 AND (t.job_group, t.job_name, t.concurrency_key, t.max_concurrent) IN (SELECT * FROM full_jobs)
                            THEN CASE WHEN t.trigger_state IN ('PAUSED', 'PAUSED_BLOCKED') THEN 'PAUSED_BLOCKED' ELSE 'BLOCKED' END
                            ELSE CASE t.trigger_state WHEN 'BLOCKED' THEN 'WAITING' WHEN 'PAUSED_BLOCKED' THEN 'PAUSED'
                                                      ELSE t.trigger_state END
                       END
                       -- end
                       = 'WAITING'
                   -- include: is_of
                   \if :of_job
                              AND job_group = :'job_group' AND job_name = :'job_name'
                   \endif
                   \if :in_group
                              AND CASE :'operator'
                                      WHEN 'equals' THEN job_group = :'group'
                                      WHEN 'starts_with' THEN starts_with(job_group, :'group')
                                      WHEN 'ends_with' THEN right(job_group, length(:'group')) = :'group'
                                      ELSE strpos(job_group, :'group') > 0
                                  END
                   \endif
                   \if :of_type
                              AND job_type = :'job_type'
                   \endif
                   \if :of_trigger
                              AND trigger_group = :'trigger_group' AND trigger_name = :'trigger_name'
                   \endif
                   -- end
                   -- include: is_in_span
                   \if :since
                              AND next_fire_time >= :'since'::timestamptz
                   \endif
                   \if :until
                              AND next_fire_time < :'until'::timestamptz
                   \endif
                   \if :after_scheduled
                              AND next_fire_time >= :'after_at'::timestamptz
                              AND (next_fire_time, trigger_group, trigger_name)
                                  > (:'after_at'::timestamptz, :'after_group', :'after_name')
                   \endif
                   -- end
                 ORDER BY next_fire_time, trigger_group, trigger_name LIMIT :'limit'::int) AS t
         WHERE (SELECT holds FROM few))
        UNION ALL
       (SELECT * FROM (
\endif
        -- The front of the due index, for each slot pool and misfire rule, without the triggers that wait for a slot,
        -- and those that have one again, of each job whose rows still say that they are blocked.
        WITH RECURSIVE waiting AS (
            -- include: waiting
            -- A loose index scan: one step per slot pool, so the cost does not depend on the number of triggers.
            (SELECT slot_pool FROM qrtz_triggers WHERE sched_name = :'sched' AND trigger_state = 'WAITING'
              ORDER BY slot_pool LIMIT 1)
            UNION ALL
            SELECT other.slot_pool
              FROM waiting w
             CROSS JOIN LATERAL (
                SELECT t.slot_pool FROM qrtz_triggers t
                 WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.slot_pool > w.slot_pool
                 ORDER BY t.slot_pool LIMIT 1) AS other
            -- end
        ),
        held AS (
            -- include: held_ranges
            (SELECT job_group || '' AS job_group, job_name || '' AS job_name, concurrency_key || '' AS concurrency_key,
                    trigger_state, misfire_rule
               FROM qrtz_triggers
              WHERE sched_name || '' = :'sched' AND trigger_state IN ('ACQUIRED', 'BLOCKED', 'COMPLETE', 'PAUSED_BLOCKED')
              ORDER BY job_group || '', job_name || '', concurrency_key || '', trigger_state, misfire_rule
              LIMIT 1)
            UNION ALL
            SELECT other.*
              FROM held h
             CROSS JOIN LATERAL (
                SELECT t.job_group || '' AS job_group, t.job_name || '' AS job_name,
                       t.concurrency_key || '' AS concurrency_key, t.trigger_state, t.misfire_rule
                  FROM qrtz_triggers t
                 WHERE t.sched_name || '' = :'sched' AND t.trigger_state IN ('ACQUIRED', 'BLOCKED', 'COMPLETE', 'PAUSED_BLOCKED')
                   AND (t.job_group || '', t.job_name || '', t.concurrency_key || '', t.trigger_state, t.misfire_rule)
                       > (h.job_group, h.job_name, h.concurrency_key, h.trigger_state, h.misfire_rule)
                 ORDER BY t.job_group || '', t.job_name || '', t.concurrency_key || '', t.trigger_state, t.misfire_rule
                 LIMIT 1) AS other
            -- end
        )
        SELECT
               -- include: scheduled_columns
               'SCHEDULED', NULL::bigint, trigger_group, trigger_name, job_group, job_name, job_type, NULL::text,
               next_fire_time, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, attempt, NULL::text,
               job_data::text, NULL::text, NULL::timestamptz
               -- end
          FROM ((SELECT of_key.*
                   FROM waiting w
                  CROSS JOIN
                     -- include: each_rule
                     (VALUES ('NODE'), ('OWN'), ('IGNORE'), ('LATE'), ('RATE_LIMIT'), ('NEW')) AS rule(name)
                     -- end
                  CROSS JOIN LATERAL (
                     SELECT * FROM qrtz_triggers t
                      WHERE sched_name = :'sched' AND trigger_state = 'WAITING'
                        AND
                            -- include: seen_state
                            CASE WHEN t.overlap_policy <> 'block' OR t.trigger_state IN ('COMPLETE', 'ERROR') THEN t.trigger_state
                                 WHEN t.max_concurrent IS NOT NULL
                                      AND (t.job_group, t.job_name, t.concurrency_key, t.max_concurrent) IN (SELECT * FROM full_jobs)
                                 THEN CASE WHEN t.trigger_state IN ('PAUSED', 'PAUSED_BLOCKED') THEN 'PAUSED_BLOCKED' ELSE 'BLOCKED' END
                                 ELSE CASE t.trigger_state WHEN 'BLOCKED' THEN 'WAITING' WHEN 'PAUSED_BLOCKED' THEN 'PAUSED'
                                                           ELSE t.trigger_state END
                            END
                            -- end
                            = 'WAITING'
                        -- include: is_of
                        \if :of_job
                                   AND job_group = :'job_group' AND job_name = :'job_name'
                        \endif
                        \if :in_group
                                   AND CASE :'operator'
                                           WHEN 'equals' THEN job_group = :'group'
                                           WHEN 'starts_with' THEN starts_with(job_group, :'group')
                                           WHEN 'ends_with' THEN right(job_group, length(:'group')) = :'group'
                                           ELSE strpos(job_group, :'group') > 0
                                       END
                        \endif
                        \if :of_type
                                   AND job_type = :'job_type'
                        \endif
                        \if :of_trigger
                                   AND trigger_group = :'trigger_group' AND trigger_name = :'trigger_name'
                        \endif
                        -- end
                        -- include: is_in_span
                        \if :since
                                   AND next_fire_time >= :'since'::timestamptz
                        \endif
                        \if :until
                                   AND next_fire_time < :'until'::timestamptz
                        \endif
                        \if :after_scheduled
                                   AND next_fire_time >= :'after_at'::timestamptz
                                   AND (next_fire_time, trigger_group, trigger_name)
                                       > (:'after_at'::timestamptz, :'after_group', :'after_name')
                        \endif
                        -- end
                        AND slot_pool = w.slot_pool AND misfire_rule = rule.name
                      ORDER BY next_fire_time FETCH FIRST (:'limit'::int) ROWS WITH TIES) AS of_key)
                UNION ALL
                (SELECT of_key.*
                   FROM (SELECT t.*
                           FROM held h
                          CROSS JOIN LATERAL (
                             SELECT h.*, j.overlap_policy, j.max_concurrent
                               FROM qrtz_job_details j
                              WHERE j.sched_name = :'sched' AND j.job_group = h.job_group AND j.job_name = h.job_name
                              LIMIT 1) AS t
                          WHERE t.trigger_state = 'BLOCKED'
                            AND
                                -- include: seen_state
                                CASE WHEN t.overlap_policy <> 'block' OR t.trigger_state IN ('COMPLETE', 'ERROR') THEN t.trigger_state
                                     WHEN t.max_concurrent IS NOT NULL
                                          AND (t.job_group, t.job_name, t.concurrency_key, t.max_concurrent) IN (SELECT * FROM full_jobs)
                                     THEN CASE WHEN t.trigger_state IN ('PAUSED', 'PAUSED_BLOCKED') THEN 'PAUSED_BLOCKED' ELSE 'BLOCKED' END
                                     ELSE CASE t.trigger_state WHEN 'BLOCKED' THEN 'WAITING' WHEN 'PAUSED_BLOCKED' THEN 'PAUSED'
                                                               ELSE t.trigger_state END
                                END
                                -- end
                                = 'WAITING'
                         OFFSET 0) AS k
                  CROSS JOIN LATERAL (
                     SELECT * FROM qrtz_triggers t
                      WHERE t.sched_name || '' = :'sched' AND trigger_state = 'BLOCKED'
                        AND trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
                        AND job_group || '' = k.job_group AND job_name || '' = k.job_name
                        AND concurrency_key || '' = k.concurrency_key
                        AND misfire_rule = k.misfire_rule
                        -- include: is_of
                        \if :of_job
                                   AND job_group = :'job_group' AND job_name = :'job_name'
                        \endif
                        \if :in_group
                                   AND CASE :'operator'
                                           WHEN 'equals' THEN job_group = :'group'
                                           WHEN 'starts_with' THEN starts_with(job_group, :'group')
                                           WHEN 'ends_with' THEN right(job_group, length(:'group')) = :'group'
                                           ELSE strpos(job_group, :'group') > 0
                                       END
                        \endif
                        \if :of_type
                                   AND job_type = :'job_type'
                        \endif
                        \if :of_trigger
                                   AND trigger_group = :'trigger_group' AND trigger_name = :'trigger_name'
                        \endif
                        -- end
                        -- include: is_in_span
                        \if :since
                                   AND next_fire_time >= :'since'::timestamptz
                        \endif
                        \if :until
                                   AND next_fire_time < :'until'::timestamptz
                        \endif
                        \if :after_scheduled
                                   AND next_fire_time >= :'after_at'::timestamptz
                                   AND (next_fire_time, trigger_group, trigger_name)
                                       > (:'after_at'::timestamptz, :'after_group', :'after_name')
                        \endif
                        -- end
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
               outcome AS state, fire_id, trigger_group, trigger_name, job_group, job_name, job_type, instance_id,
               scheduled_time, fired_time, started_at, ended_at, attempt, error, trigger_data::text, result::text,
               retry_at
               -- end
  FROM ((SELECT * FROM qrtz_executions
\if :of_trigger
          WHERE trigger_group = :'trigger_group' AND trigger_name = :'trigger_name' AND sched_name = :'sched'
          ORDER BY generation DESC, scheduled_time DESC LIMIT :'among'::int)
\else
          WHERE sched_name = :'sched'
                   -- include: is_walked
                   -- An execution ends at most an hour after its scheduled time, or it is among the few of a partial
                   -- index. The clocks of nodes, which tell the end, may be a minute wrong.
\if :since
                   AND ended_at >= :'since'::timestamptz - interval '1 minute'
\endif
\if :until
                   AND ended_at < :'until'::timestamptz + interval '61 minutes'
\endif
\if :after
                   AND ended_at <= :'after_at'::timestamptz
                   AND (ended_at, fire_id) < (:'after_at'::timestamptz, :'after_id'::bigint)
\endif
                   -- end
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
               AND outcome = ANY(:'outcomes'::text[])
\if :exhausted
               AND outcome = 'FAILED' AND retry_at IS NULL
\endif
\if :of_job
               AND job_group = :'job_group' AND job_name = :'job_name'
\endif
\if :in_group
               AND CASE :'operator'
                       WHEN 'equals' THEN job_group = :'group'
                       WHEN 'starts_with' THEN starts_with(job_group, :'group')
                       WHEN 'ends_with' THEN right(job_group, length(:'group')) = :'group'
                       ELSE strpos(job_group, :'group') > 0
                   END
\endif
\if :of_type
               AND job_type = :'job_type'
\endif
\if :has_error
               AND strpos(error, :'error') > 0
\endif
\if :of_node
               AND instance_id = :'instance'
\endif
\if :after
               AND ended_at <= :'after_at'::timestamptz
               AND (ended_at, fire_id) < (:'after_at'::timestamptz, :'after_id'::bigint)
\endif
               -- end
               -- include: in_span
               \if :since
               AND scheduled_time >= :'since'::timestamptz
               \endif
               \if :until
               AND scheduled_time < :'until'::timestamptz
               \endif
               -- end
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
                      -- An execution ends at most an hour after its scheduled time, or it is among the few of a partial
                      -- index. The clocks of nodes, which tell the end, may be a minute wrong.
   \if :since
                      AND ended_at >= :'since'::timestamptz - interval '1 minute'
   \endif
   \if :until
                      AND ended_at < :'until'::timestamptz + interval '61 minutes'
   \endif
   \if :after
                      AND ended_at <= :'after_at'::timestamptz
                      AND (ended_at, fire_id) < (:'after_at'::timestamptz, :'after_id'::bigint)
   \endif
   -- end
         ORDER BY ended_at DESC FETCH FIRST (:'among'::int) ROWS WITH TIES) AS walked
 ORDER BY ended_at DESC, fire_id DESC OFFSET :'among'::int - 1 LIMIT 1;
