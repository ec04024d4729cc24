-- name: by_key
-- The triggers that match all filters, by key. With `examined` they are those among the first `among` by key, of the
-- group if it is one, or in ERROR or paused if only such are wanted; with `last`, the position of the last of those.
-- `few` are the triggers of a job, of a calendar, or of some states, which an index finds in no order: if they are few,
-- they are sorted, and otherwise they are found as if there were no such index.
\if :count
SELECT count(*) FROM (
\endif
\if :last
SELECT t.trigger_group, t.trigger_name
\else
SELECT
       -- include: trigger_columns
       t.trigger_name, t.trigger_group, t.job_group, t.job_name, t.kind, t.schedule::text AS schedule,
       t.description, t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold,
       t.calendar_name, t.job_data::text AS trigger_data, t.job_type, t.trigger_state, t.next_fire_time,
       t.prev_fire_time, t.times_triggered, t.generation, t.upcoming, t.error, t.catch_up_until, t.schedule_hash,
       t.paused_at, t.paused_by, t.pause_reason, t.rate_limited_until
       -- end
\endif
  FROM (
\if :few
        -- include: few
        -- They are counted along their index first, without a look at their rows.
        WITH few AS MATERIALIZED (
            SELECT count(*) <= :'most_few'::int AS holds
              FROM (SELECT FROM qrtz_triggers
\if :of_job
                     WHERE job_group = :'job_group' AND job_name = :'job_name'
\else
\if :of_calendar
                     WHERE sched_name = :'sched' AND calendar_name = :'calendar'
\else
                     WHERE trigger_state IN ('ACQUIRED', 'BLOCKED', 'COMPLETE', 'PAUSED_BLOCKED')
\endif
\endif
                     LIMIT :'most_few'::int + 1) AS counted)
        -- end
\if :last
\else
       -- include: few_rows
       -- The condition on `few` needs no row, so that only one part is executed. OFFSET 0 keeps the planner from walking
       -- another index that has the order of the query. With the scheduler as an expression, only the index of the few
       -- can serve.
       (SELECT * FROM qrtz_triggers t
\if :of_job
         WHERE t.sched_name || '' = :'sched' AND job_group = :'job_group' AND job_name = :'job_name'
\else
\if :of_calendar
         WHERE t.sched_name = :'sched' AND calendar_name = :'calendar'
\else
         WHERE t.sched_name || '' = :'sched'
           AND trigger_state IN ('ACQUIRED', 'BLOCKED', 'COMPLETE', 'PAUSED_BLOCKED')
\endif
\endif
           AND (SELECT holds FROM few) OFFSET 0)
        UNION ALL
       -- end
\endif
       (SELECT * FROM (
\endif
\if :named
        -- The keys are found in the index of the primary key, which is much smaller than the table.
        SELECT t.*
          FROM (SELECT trigger_group, trigger_name
                  FROM (SELECT trigger_group, trigger_name FROM qrtz_triggers
                         WHERE sched_name = :'sched'
\if :in_group
                           AND trigger_group = :'group'
\endif
\if :after
                           AND (trigger_group, trigger_name) > (:'after_group', :'after_name')
\endif
\if :examined
                         ORDER BY trigger_group, trigger_name LIMIT :'among'::int
\endif
                       ) AS t
                 WHERE true
\if :group_like
                   AND CASE :'operator'
                           WHEN 'starts_with' THEN starts_with(t.trigger_group, :'group')
                           WHEN 'ends_with' THEN right(t.trigger_group, length(:'group')) = :'group'
                           ELSE strpos(t.trigger_group, :'group') > 0
                       END
\endif
\if :contains
                   AND strpos(t.trigger_name, :'contains') > 0
\endif
                 ORDER BY trigger_group, trigger_name LIMIT :'limit'::int) AS k
          JOIN qrtz_triggers t USING (trigger_group, trigger_name)
         WHERE t.sched_name = :'sched' OFFSET 0
\else
\if :stopped
        SELECT o.*
          FROM unnest(:'states'::text[]) AS s(state)
         CROSS JOIN LATERAL (
            SELECT * FROM qrtz_triggers t
             WHERE t.sched_name = :'sched' AND t.trigger_state = s.state
               AND t.trigger_state IN ('ERROR', 'PAUSED', 'PAUSED_BLOCKED')
\if :examined
\if :in_group
               AND t.trigger_group = :'group'
\endif
\else
               -- include: matches
\if :some_states
               AND t.trigger_state = ANY(:'states'::text[])
\endif
\if :in_group
               AND t.trigger_group = :'group'
\endif
\if :group_like
               AND CASE :'operator'
                       WHEN 'starts_with' THEN starts_with(t.trigger_group, :'group')
                       WHEN 'ends_with' THEN right(t.trigger_group, length(:'group')) = :'group'
                       ELSE strpos(t.trigger_group, :'group') > 0
                   END
\endif
\if :contains
               AND strpos(t.trigger_name, :'contains') > 0
\endif
\if :of_job
               AND t.job_group = :'job_group' AND t.job_name = :'job_name'
\endif
\if :of_calendar
               AND t.calendar_name = :'calendar'
\endif
\if :of_type
               AND t.job_type = :'job_type'
\endif
\if :of_kind
               AND t.kind = :'kind'
\endif
\if :since
               AND t.next_fire_time >= :'since'::timestamptz
\endif
\if :until
               AND t.next_fire_time < :'until'::timestamptz
\endif
               -- end
\endif
\if :after
               AND (t.trigger_group, t.trigger_name) > (:'after_group', :'after_name')
\endif
             ORDER BY t.trigger_group, t.trigger_name LIMIT :'walked'::int) AS o
         ORDER BY o.trigger_group, o.trigger_name LIMIT :'walked'::int
\else
        SELECT * FROM qrtz_triggers t
         WHERE t.sched_name = :'sched'
\if :examined
\if :in_group
           AND t.trigger_group = :'group'
\endif
\else
           -- include: matches
           \if :some_states
                          AND t.trigger_state = ANY(:'states'::text[])
           \endif
           \if :in_group
                          AND t.trigger_group = :'group'
           \endif
           \if :group_like
                          AND CASE :'operator'
                                  WHEN 'starts_with' THEN starts_with(t.trigger_group, :'group')
                                  WHEN 'ends_with' THEN right(t.trigger_group, length(:'group')) = :'group'
                                  ELSE strpos(t.trigger_group, :'group') > 0
                              END
           \endif
           \if :contains
                          AND strpos(t.trigger_name, :'contains') > 0
           \endif
           \if :of_job
                          AND t.job_group = :'job_group' AND t.job_name = :'job_name'
           \endif
           \if :of_calendar
                          AND t.calendar_name = :'calendar'
           \endif
           \if :of_type
                          AND t.job_type = :'job_type'
           \endif
           \if :of_kind
                          AND t.kind = :'kind'
           \endif
           \if :since
                          AND t.next_fire_time >= :'since'::timestamptz
           \endif
           \if :until
                          AND t.next_fire_time < :'until'::timestamptz
           \endif
           -- end
\endif
\if :after
           AND (t.trigger_group, t.trigger_name) > (:'after_group', :'after_name')
\endif
         ORDER BY t.trigger_group, t.trigger_name LIMIT :'walked'::int
\endif
\endif
\if :few
        ) AS t WHERE NOT (SELECT holds FROM few))
\endif
       ) AS t
\if :last
 ORDER BY t.trigger_group, t.trigger_name OFFSET :'among'::int - 1 LIMIT 1
\else
 WHERE t.sched_name = :'sched'
   -- include: matches
   \if :some_states
                  AND t.trigger_state = ANY(:'states'::text[])
   \endif
   \if :in_group
                  AND t.trigger_group = :'group'
   \endif
   \if :group_like
                  AND CASE :'operator'
                          WHEN 'starts_with' THEN starts_with(t.trigger_group, :'group')
                          WHEN 'ends_with' THEN right(t.trigger_group, length(:'group')) = :'group'
                          ELSE strpos(t.trigger_group, :'group') > 0
                      END
   \endif
   \if :contains
                  AND strpos(t.trigger_name, :'contains') > 0
   \endif
   \if :of_job
                  AND t.job_group = :'job_group' AND t.job_name = :'job_name'
   \endif
   \if :of_calendar
                  AND t.calendar_name = :'calendar'
   \endif
   \if :of_type
                  AND t.job_type = :'job_type'
   \endif
   \if :of_kind
                  AND t.kind = :'kind'
   \endif
   \if :since
                  AND t.next_fire_time >= :'since'::timestamptz
   \endif
   \if :until
                  AND t.next_fire_time < :'until'::timestamptz
   \endif
   -- end
\if :after
   AND (t.trigger_group, t.trigger_name) > (:'after_group', :'after_name')
\endif
 ORDER BY t.trigger_group, t.trigger_name LIMIT :'limit'::int
\endif
\if :count
) AS matching
\endif
;

-- name: by_next_fire_time
-- As `by_key`, but the soonest first, then the highest priority; those without a next fire time come last. With
-- `examined` they are those among the first `among` of the states and the span of time. The first part is always empty.
\if :count
SELECT count(*) FROM (
\endif
\if :last
SELECT t.next_fire_time, -t.priority, t.trigger_group, t.trigger_name
\else
SELECT
       -- include: trigger_columns
       t.trigger_name, t.trigger_group, t.job_group, t.job_name, t.kind, t.schedule::text AS schedule,
       t.description, t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold,
       t.calendar_name, t.job_data::text AS trigger_data, t.job_type, t.trigger_state, t.next_fire_time,
       t.prev_fire_time, t.times_triggered, t.generation, t.upcoming, t.error, t.catch_up_until, t.schedule_hash,
       t.paused_at, t.paused_by, t.pause_reason, t.rate_limited_until
       -- end
\endif
  FROM (
\if :few
        -- include: few
                -- They are counted along their index first, without a look at their rows.
                WITH few AS MATERIALIZED (
                    SELECT count(*) <= :'most_few'::int AS holds
                      FROM (SELECT FROM qrtz_triggers
        \if :of_job
                             WHERE job_group = :'job_group' AND job_name = :'job_name'
        \else
        \if :of_calendar
                             WHERE sched_name = :'sched' AND calendar_name = :'calendar'
        \else
                             WHERE trigger_state IN ('ACQUIRED', 'BLOCKED', 'COMPLETE', 'PAUSED_BLOCKED')
        \endif
        \endif
                             LIMIT :'most_few'::int + 1) AS counted)
        -- end
\if :last
\else
       -- include: few_rows
              -- The condition on `few` needs no row, so that only one part is executed. OFFSET 0 keeps the planner from walking
              -- another index that has the order of the query. With the scheduler as an expression, only the index of the few
              -- can serve.
              (SELECT * FROM qrtz_triggers t
       \if :of_job
                WHERE t.sched_name || '' = :'sched' AND job_group = :'job_group' AND job_name = :'job_name'
       \else
       \if :of_calendar
                WHERE t.sched_name = :'sched' AND calendar_name = :'calendar'
       \else
                WHERE t.sched_name || '' = :'sched'
                  AND trigger_state IN ('ACQUIRED', 'BLOCKED', 'COMPLETE', 'PAUSED_BLOCKED')
       \endif
       \endif
                  AND (SELECT holds FROM few) OFFSET 0)
               UNION ALL
       -- end
\endif
       (SELECT * FROM (
\endif
        SELECT *
          FROM (SELECT * FROM qrtz_triggers WHERE false
\if :waiting
                UNION ALL
               -- The front of the due index for each dispatch key and misfire rule, in the order of next fire times.
               (WITH RECURSIVE waiting AS (
                    -- include: waiting
                    -- A loose index scan: one step per dispatch key, so the cost does not depend on the number of triggers.
                    (SELECT job_type, placement FROM qrtz_triggers WHERE sched_name = :'sched' AND trigger_state = 'WAITING'
                      ORDER BY job_type, placement LIMIT 1)
                    UNION ALL
                    SELECT other.job_type, other.placement
                      FROM waiting w
                     CROSS JOIN LATERAL (
                        SELECT t.job_type, t.placement FROM qrtz_triggers t
                         WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING'
                           AND (t.job_type, t.placement) > (w.job_type, w.placement)
                         ORDER BY t.job_type, t.placement LIMIT 1) AS other
                    -- end
                )
                SELECT t.*
                  FROM waiting w
                 CROSS JOIN
                    -- include: each_rule
                    (VALUES ('SCHEDULER'), ('OWN'), ('IGNORE'), ('LATE'), ('RATE_LIMIT'), ('NEW')) AS rule(name)
                    -- end
                 CROSS JOIN LATERAL (
                    SELECT * FROM qrtz_triggers t
                     WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.job_type = w.job_type
                       AND t.placement = w.placement AND t.misfire_rule = rule.name
\if :examined
\if :since
                       AND t.next_fire_time >= :'since'::timestamptz
\endif
\if :until
                       AND t.next_fire_time < :'until'::timestamptz
\endif
\else
                       -- include: matches
                       \if :some_states
                                      AND t.trigger_state = ANY(:'states'::text[])
                       \endif
                       \if :in_group
                                      AND t.trigger_group = :'group'
                       \endif
                       \if :group_like
                                      AND CASE :'operator'
                                              WHEN 'starts_with' THEN starts_with(t.trigger_group, :'group')
                                              WHEN 'ends_with' THEN right(t.trigger_group, length(:'group')) = :'group'
                                              ELSE strpos(t.trigger_group, :'group') > 0
                                          END
                       \endif
                       \if :contains
                                      AND strpos(t.trigger_name, :'contains') > 0
                       \endif
                       \if :of_job
                                      AND t.job_group = :'job_group' AND t.job_name = :'job_name'
                       \endif
                       \if :of_calendar
                                      AND t.calendar_name = :'calendar'
                       \endif
                       \if :of_type
                                      AND t.job_type = :'job_type'
                       \endif
                       \if :of_kind
                                      AND t.kind = :'kind'
                       \endif
                       \if :since
                                      AND t.next_fire_time >= :'since'::timestamptz
                       \endif
                       \if :until
                                      AND t.next_fire_time < :'until'::timestamptz
                       \endif
                       -- end
\endif
\if :after
                       AND t.next_fire_time >= coalesce(:'after_at'::timestamptz, 'infinity')
\endif
\if :after
                       AND (coalesce(t.next_fire_time, 'infinity'), -t.priority, t.trigger_group, t.trigger_name)
                           > (coalesce(:'after_at'::timestamptz, 'infinity'), :'after_priority'::int, :'after_group', :'after_name')
\endif
                     ORDER BY t.next_fire_time, t.priority DESC, t.trigger_group, t.trigger_name
                     LIMIT :'walked'::int) AS t)
\endif
\if :held
                UNION ALL
               (SELECT * FROM qrtz_triggers
                 WHERE sched_name || '' = :'sched' AND trigger_state = ANY(:'states'::text[])
                   AND trigger_state IN ('ACQUIRED', 'BLOCKED', 'COMPLETE', 'PAUSED_BLOCKED'))
\endif
\if :stopped
                UNION ALL
               (SELECT * FROM qrtz_triggers
                 WHERE sched_name || '' = :'sched' AND trigger_state = ANY(:'states'::text[])
                   AND trigger_state IN ('ERROR', 'PAUSED'))
\endif
               ) AS t
         WHERE t.sched_name = :'sched'
\if :examined
\if :since
           AND t.next_fire_time >= :'since'::timestamptz
\endif
\if :until
           AND t.next_fire_time < :'until'::timestamptz
\endif
\else
           -- include: matches
           \if :some_states
                          AND t.trigger_state = ANY(:'states'::text[])
           \endif
           \if :in_group
                          AND t.trigger_group = :'group'
           \endif
           \if :group_like
                          AND CASE :'operator'
                                  WHEN 'starts_with' THEN starts_with(t.trigger_group, :'group')
                                  WHEN 'ends_with' THEN right(t.trigger_group, length(:'group')) = :'group'
                                  ELSE strpos(t.trigger_group, :'group') > 0
                              END
           \endif
           \if :contains
                          AND strpos(t.trigger_name, :'contains') > 0
           \endif
           \if :of_job
                          AND t.job_group = :'job_group' AND t.job_name = :'job_name'
           \endif
           \if :of_calendar
                          AND t.calendar_name = :'calendar'
           \endif
           \if :of_type
                          AND t.job_type = :'job_type'
           \endif
           \if :of_kind
                          AND t.kind = :'kind'
           \endif
           \if :since
                          AND t.next_fire_time >= :'since'::timestamptz
           \endif
           \if :until
                          AND t.next_fire_time < :'until'::timestamptz
           \endif
           -- end
\endif
\if :after
           AND (coalesce(t.next_fire_time, 'infinity'), -t.priority, t.trigger_group, t.trigger_name)
               > (coalesce(:'after_at'::timestamptz, 'infinity'), :'after_priority'::int, :'after_group', :'after_name')
\endif
         ORDER BY coalesce(t.next_fire_time, 'infinity'), -t.priority, t.trigger_group, t.trigger_name
         LIMIT :'walked'::int
\if :few
        ) AS t WHERE NOT (SELECT holds FROM few))
\endif
       ) AS t
\if :last
 ORDER BY coalesce(t.next_fire_time, 'infinity'), -t.priority, t.trigger_group, t.trigger_name
 OFFSET :'among'::int - 1 LIMIT 1
\else
 WHERE t.sched_name = :'sched'
   -- include: matches
   \if :some_states
                  AND t.trigger_state = ANY(:'states'::text[])
   \endif
   \if :in_group
                  AND t.trigger_group = :'group'
   \endif
   \if :group_like
                  AND CASE :'operator'
                          WHEN 'starts_with' THEN starts_with(t.trigger_group, :'group')
                          WHEN 'ends_with' THEN right(t.trigger_group, length(:'group')) = :'group'
                          ELSE strpos(t.trigger_group, :'group') > 0
                      END
   \endif
   \if :contains
                  AND strpos(t.trigger_name, :'contains') > 0
   \endif
   \if :of_job
                  AND t.job_group = :'job_group' AND t.job_name = :'job_name'
   \endif
   \if :of_calendar
                  AND t.calendar_name = :'calendar'
   \endif
   \if :of_type
                  AND t.job_type = :'job_type'
   \endif
   \if :of_kind
                  AND t.kind = :'kind'
   \endif
   \if :since
                  AND t.next_fire_time >= :'since'::timestamptz
   \endif
   \if :until
                  AND t.next_fire_time < :'until'::timestamptz
   \endif
   -- end
\if :after
   AND (coalesce(t.next_fire_time, 'infinity'), -t.priority, t.trigger_group, t.trigger_name)
       > (coalesce(:'after_at'::timestamptz, 'infinity'), :'after_priority'::int, :'after_group', :'after_name')
\endif
 ORDER BY coalesce(t.next_fire_time, 'infinity'), -t.priority, t.trigger_group, t.trigger_name
 LIMIT :'limit'::int
\endif
\if :count
) AS matching
\endif
;
