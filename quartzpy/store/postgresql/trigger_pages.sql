-- The planner is steered here: see docs/planner.md.

-- name: by_key
-- The triggers that match all filters, by key. With `examined` they are those among the first `among` by key, of the
-- group if it is one, or in ERROR or paused if only such are wanted; with `last`, the position of the last of those.
-- `few` are the triggers of a job, of a calendar, or of some states, which an index finds in no order: if they are few,
-- they are sorted, and otherwise they are found as if there were no such index.
WITH
-- include: full_jobs
\if :held
-- include: full_keys
-- They are few if those whose rows say that they are held are, and all those of the jobs at their limits, if some of
-- these can be wanted.
, few_held AS MATERIALIZED (
    SELECT count(*) <= :'most_few'::int AS holds
      FROM ((SELECT 1 FROM qrtz_triggers
              WHERE sched_name || '' = :'sched' AND trigger_state IN ('BLOCKED', 'COMPLETE')
              LIMIT :'most_few'::int + 1)
\if :of_full
            UNION ALL
            (SELECT 1
               FROM full_keys k
              CROSS JOIN LATERAL (
                 SELECT FROM qrtz_triggers o
                  WHERE o.job_group = k.job_group AND o.job_name = k.job_name AND o.concurrency_key = k.concurrency_key
                 OFFSET 0) AS of_key
              LIMIT :'most_few'::int + 1)
\endif
           ) AS counted)
\endif
\if :count
SELECT count(*) FROM (
\endif
\if :last
SELECT t.trigger_group, t.trigger_name
\else
SELECT
       -- include: trigger_columns
       -- include: seen_state
       AS trigger_state,
       -- include: trigger_progress
\endif
  FROM (
\if :few
        -- include: few
\if :last
\else
       -- include: few_rows
       \if :of_full
       (SELECT t.*
          FROM full_keys k
         CROSS JOIN LATERAL (
            SELECT * FROM qrtz_triggers o
             WHERE o.sched_name || '' = :'sched' AND o.job_group = k.job_group AND o.job_name = k.job_name
               AND o.concurrency_key = k.concurrency_key AND o.trigger_state IN ('WAITING', 'PAUSED')
               AND (SELECT holds FROM few_held) OFFSET 0) AS t)
        UNION ALL
       \endif
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
                   -- include: key_matches
                 ORDER BY trigger_group, trigger_name LIMIT :'limit'::int) AS k
          JOIN qrtz_triggers t USING (trigger_group, trigger_name)
         WHERE t.sched_name = :'sched' OFFSET 0
\else
\if :stopped
        SELECT o.*
          FROM unnest(:'stored'::text[]) AS s(state)
         CROSS JOIN LATERAL (
            SELECT * FROM qrtz_triggers t
             WHERE t.sched_name = :'sched' AND t.trigger_state = s.state
               AND t.trigger_state IN ('ERROR', 'PAUSED')
\if :examined
\if :in_group
               AND t.trigger_group = :'group'
\endif
\else
               -- include: matches
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
WITH RECURSIVE
-- include: full_jobs
\if :held
-- include: full_keys
-- The ranges of the index of held triggers, by a loose index scan.
, held AS (
    -- include: held_ranges
)
-- Held triggers are read whole if they are few, in many ranges. Otherwise a page reads the front of each range.
, few_held AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM held OFFSET :'few_ranges'::int) AND
           (SELECT count(*) FROM (SELECT FROM qrtz_triggers
              WHERE sched_name || '' = :'sched' AND trigger_state IN ('BLOCKED', 'COMPLETE')
              LIMIT :'most_few'::int + 1) AS counted) <= :'most_few'::int AS holds
)
\if :of_full
-- Whether the triggers of the jobs at their limits are few.
, few_full AS MATERIALIZED (
    SELECT count(*) <= :'most_few'::int AS holds
      FROM (SELECT
              FROM full_keys k
             CROSS JOIN LATERAL (
                SELECT FROM qrtz_triggers o
                 WHERE o.job_group = k.job_group AND o.job_name = k.job_name AND o.concurrency_key = k.concurrency_key
                OFFSET 0) AS of_key
             LIMIT :'most_few'::int + 1) AS counted
)
\endif
\endif
\if :count
SELECT count(*) FROM (
\endif
\if :last
SELECT t.next_fire_time, -t.priority, t.trigger_group, t.trigger_name
\else
SELECT
       -- include: trigger_columns
       -- include: seen_state
       AS trigger_state,
       -- include: trigger_progress
\endif
  FROM (
\if :few
        -- include: few
\if :last
\else
       -- include: few_rows
\endif
       (SELECT * FROM (
\endif
\if :last
\else
        -- The rows are looked up once it is known which ones come first: sorting needs no more than these columns.
        SELECT t.*
          FROM (
\if :examined
                SELECT * FROM (
\endif
\endif
        SELECT t.next_fire_time, t.priority, t.trigger_group, t.trigger_name,
               coalesce(t.next_fire_time, 'infinity') AS at, -t.priority AS rank
          FROM (SELECT * FROM qrtz_triggers WHERE false
\if :waiting
                UNION ALL
               -- The front of the due index for each slot pool and misfire rule, in the order of next fire times.
               (WITH RECURSIVE waiting AS (
                    -- include: waiting
                )
                SELECT t.*
\if :of_full
                  FROM (SELECT * FROM waiting
                         WHERE slot_pool IN (SELECT slot_pool FROM full_keys) OFFSET 0) AS w
\else
                  FROM waiting w
\endif
                 CROSS JOIN
                    -- include: each_rule
                 CROSS JOIN LATERAL (
                    SELECT * FROM qrtz_triggers t
                     WHERE t.sched_name = :'sched' AND t.trigger_state = 'WAITING' AND t.slot_pool = w.slot_pool
                       AND t.misfire_rule = rule.name
\if :after
                       AND t.next_fire_time >= coalesce(:'after_at'::timestamptz, 'infinity')
\endif
                       -- include: in_walk
                     ORDER BY t.next_fire_time, t.priority DESC FETCH FIRST (:'walked'::int) ROWS WITH TIES) AS t
\if :of_full
                 WHERE NOT (SELECT holds FROM few_full)
\endif
               )
\endif
\if :held
                UNION ALL
               (SELECT * FROM qrtz_triggers
                 WHERE sched_name || '' = :'sched' AND trigger_state = ANY(:'stored'::text[])
                   AND trigger_state IN ('BLOCKED', 'COMPLETE')
                   AND (SELECT holds FROM few_held))
\if :of_full
                UNION ALL
               (SELECT t.*
                  FROM full_keys k
                 CROSS JOIN LATERAL (
                    SELECT * FROM qrtz_triggers o
                     WHERE o.sched_name || '' = :'sched' AND o.job_group = k.job_group AND o.job_name = k.job_name
                       AND o.concurrency_key = k.concurrency_key AND o.trigger_state IN ('WAITING', 'PAUSED')
                       AND (SELECT holds FROM few_full) OFFSET 0) AS t)
\endif
                UNION ALL
               -- The front of each range of the held triggers. The first query finds the ranges, the second one those whose
               -- triggers can be wanted: the limit of their job decides for all of them.
               (SELECT of_range.*
                  FROM (SELECT t.*
                          FROM held h
                         CROSS JOIN LATERAL (
                            SELECT h.*,
                                   -- include: limits_of_job
                              FROM qrtz_job_details j
                             WHERE j.sched_name = :'sched' AND j.job_group = h.job_group AND j.job_name = h.job_name
                             LIMIT 1) AS t
                         WHERE NOT (SELECT holds FROM few_held) AND t.trigger_state = ANY(:'stored'::text[])
\if :seen
                           AND
                               -- include: seen_state
                               = ANY(:'states'::text[])
\endif
                        OFFSET 0) AS r
                 CROSS JOIN LATERAL (
                    SELECT * FROM qrtz_triggers t
                     WHERE t.sched_name || '' = :'sched' AND t.job_group || '' = r.job_group AND t.job_name || '' = r.job_name
                       AND t.concurrency_key || '' = r.concurrency_key AND t.trigger_state = r.trigger_state
                       AND t.trigger_state IN ('BLOCKED', 'COMPLETE')
                       AND
                           -- include: held_lane
                           = r.lane
                       -- include: in_walk
                     ORDER BY t.next_fire_time, t.priority DESC FETCH FIRST (:'walked'::int) ROWS WITH TIES) AS of_range)
\endif
\if :stopped
                UNION ALL
               -- The front of each of these states.
               (SELECT of_state.*
                  FROM unnest(:'stored'::text[]) AS state(name)
                 CROSS JOIN LATERAL (
                    SELECT * FROM qrtz_triggers t
                     WHERE t.sched_name || '' = :'sched' AND t.trigger_state || '' = state.name
                       AND t.trigger_state || '' IN ('ERROR', 'PAUSED')
                       -- include: in_walk
                     ORDER BY t.next_fire_time, t.priority DESC FETCH FIRST (:'walked'::int) ROWS WITH TIES) AS of_state)
\endif
               ) AS t
         WHERE t.sched_name = :'sched'
           -- include: in_walk
         ORDER BY coalesce(t.next_fire_time, 'infinity'), -t.priority, t.trigger_group, t.trigger_name
         LIMIT :'walked'::int
\if :last
\else
\if :examined
                 ) AS t
                 WHERE true
                   -- include: key_matches
\endif
               ) AS k
         CROSS JOIN LATERAL (
            SELECT * FROM qrtz_triggers o
             WHERE o.sched_name = :'sched' AND o.trigger_group = k.trigger_group AND o.trigger_name = k.trigger_name
            OFFSET 0) AS t
\if :examined
         WHERE true
           -- include: matches
\endif
         -- In the order of the keys, so that the server looks up no more rows than it needs.
         ORDER BY k.at, k.rank, k.trigger_group, k.trigger_name LIMIT :'limit'::int
\endif
\if :few
        ) AS t WHERE NOT (SELECT holds FROM few))
\endif
       ) AS t
\if :last
 ORDER BY coalesce(t.next_fire_time, 'infinity'), -t.priority, t.trigger_group, t.trigger_name
 OFFSET :'among'::int - 1 LIMIT 1
\else
 WHERE t.sched_name = :'sched'
\if :few
   -- The few are read whole; the others match already.
   -- include: matches
\if :after
   AND (coalesce(t.next_fire_time, 'infinity'), -t.priority, t.trigger_group, t.trigger_name)
       > (coalesce(:'after_at'::timestamptz, 'infinity'), :'after_priority'::int, :'after_group', :'after_name')
\endif
\endif
 ORDER BY coalesce(t.next_fire_time, 'infinity'), -t.priority, t.trigger_group, t.trigger_name
 LIMIT :'limit'::int
\endif
\if :count
) AS matching
\endif
;
