-- name: settle_new
-- Under the lock: compares newly stored triggers with the current pauses, running executions and jobs. Each value is
-- computed once, because the server prepares every subquery of a statement before it runs, whether it is used or not.
UPDATE qrtz_triggers t
   SET trigger_state = j.new_state, held_by_mode = j.new_hold,
       job_type = j.job_type, max_concurrent = j.max_concurrent, overlap_policy = j.overlap_policy,
       placement = j.placement, concurrency_key = j.new_key, rate_limit = j.rate_limit,
       misfire_rule =
           -- include: rule_of_job
           CASE WHEN t.misfire_rule IN ('SKIP', 'ONCE', 'NEW', 'HELD') THEN t.misfire_rule
                WHEN t.misfire_rule = 'IGNORE' AND t.rate_limit = j.rate_limit THEN 'IGNORE'
                WHEN j.rate_limit IS NOT NULL THEN 'RATE_LIMIT'
                WHEN t.misfire_rule NOT IN ('RATE_LIMIT', 'LATE') THEN t.misfire_rule
                WHEN t.misfire_instruction = 'ignore' OR t.catch_up_until IS NOT NULL THEN 'IGNORE'
                WHEN t.misfire_threshold IS NULL THEN 'SCHEDULER' ELSE 'OWN' END
           -- end
           ,
       rate_limited_until = CASE WHEN t.rate_limit = j.rate_limit THEN t.rate_limited_until END
  FROM (SELECT o.row, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit, own.new_key,
               -- include: new_state
               CASE WHEN usual.is_so THEN 'WAITING'
                    ELSE coalesce(nullif(ltrim(
                        CASE WHEN checked.group_is_paused OR checked.mode_forbids THEN 'PAUSED' ELSE '' END
                        || CASE WHEN checked.job_is_full THEN '_BLOCKED' ELSE '' END, '_'), ''), 'WAITING') END
               -- end
               AS new_state,
               -- Leaving a mode resumes the triggers that only the mode pauses.
               NOT usual.is_so AND NOT checked.group_is_paused AND checked.mode_forbids AS new_hold
          FROM (SELECT
                -- include: ordinary
                -- Nothing is paused, limited or in manual mode: checked once per statement, not once per row.
                (SELECT NOT EXISTS (SELECT FROM qrtz_paused_trigger_groups p WHERE p.sched_name = :'sched')
                    AND NOT EXISTS (SELECT FROM qrtz_job_details m
                                     WHERE m.sched_name = :'sched' AND m.mode <> 'ENABLED')
                    AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f
                                     WHERE f.sched_name = :'sched' AND f.state = 'EXECUTING'
                                       AND f.max_concurrent IS NOT NULL))
                -- end
                AS is_so) AS usual
         CROSS JOIN unnest(:'groups'::text[], :'names'::text[]) AS k(trigger_group, trigger_name)
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row, o.trigger_group, o.job_group, o.job_name, o.job_data FROM qrtz_triggers o
             WHERE o.sched_name = :'sched' AND o.trigger_group = k.trigger_group AND o.trigger_name = k.trigger_name
             LIMIT 1) AS o
         CROSS JOIN LATERAL (
            SELECT d.job_type, d.max_concurrent, d.overlap_policy, d.placement, d.concurrency_key, d.rate_limit,
                   d.job_data
              FROM qrtz_job_details d
             WHERE d.sched_name = :'sched' AND d.job_group = o.job_group AND d.job_name = o.job_name
             LIMIT 1) AS j
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
                                    WHERE p.sched_name = :'sched' AND p.scope = 'MANUAL')) AS mode_forbids,
                   j.overlap_policy = 'block' AND j.max_concurrent <= (
                      SELECT count(*) FROM qrtz_fired_triggers f
                       WHERE f.sched_name = :'sched' AND f.job_group = o.job_group AND f.job_name = o.job_name
                         AND f.concurrency_key = own.new_key AND f.state = 'EXECUTING'
                         AND f.max_concurrent IS NOT NULL) AS job_is_full) AS checked
         -- end
        OFFSET 0) AS j
 WHERE t.ctid = j.row
   AND t.trigger_state IN ('WAITING', 'PAUSED', 'BLOCKED', 'PAUSED_BLOCKED')
   AND (t.trigger_state <> j.new_state OR t.held_by_mode <> j.new_hold
        OR
        -- include: other_job
        (t.job_type, t.max_concurrent, t.overlap_policy, t.placement, t.rate_limit)
            IS DISTINCT FROM (j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit)
        -- end
        OR t.concurrency_key <> j.new_key);

-- name: is_ordinary
SELECT
-- include: ordinary
-- Nothing is paused, limited or in manual mode: checked once per statement, not once per row.
(SELECT NOT EXISTS (SELECT FROM qrtz_paused_trigger_groups p WHERE p.sched_name = :'sched')
    AND NOT EXISTS (SELECT FROM qrtz_job_details m
                     WHERE m.sched_name = :'sched' AND m.mode <> 'ENABLED')
    AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f
                     WHERE f.sched_name = :'sched' AND f.state = 'EXECUTING'
                       AND f.max_concurrent IS NOT NULL))
-- end
;

-- name: still_ordinary
-- Fails if that is no longer the case, or if a job differs from the copies in its new triggers.
SELECT 1 / count(*)
  FROM (SELECT 1
         WHERE
               -- include: ordinary
               -- Nothing is paused, limited or in manual mode: checked once per statement, not once per row.
               (SELECT NOT EXISTS (SELECT FROM qrtz_paused_trigger_groups p WHERE p.sched_name = :'sched')
                   AND NOT EXISTS (SELECT FROM qrtz_job_details m
                                    WHERE m.sched_name = :'sched' AND m.mode <> 'ENABLED')
                   AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f
                                    WHERE f.sched_name = :'sched' AND f.state = 'EXECUTING'
                                      AND f.max_concurrent IS NOT NULL))
               -- end
           AND NOT EXISTS (
               SELECT FROM unnest(:'groups'::text[], :'names'::text[], :'types'::text[], :'limits'::int[],
                                  :'overlap_policy'::text[], :'placements'::text[],
                                  :'rate_limits'::text[]::jsonb[])
                           AS t(job_group, job_name, job_type, max_concurrent, overlap_policy, placement, rate_limit)
                 JOIN qrtz_job_details j
                   ON j.sched_name = :'sched' AND j.job_group = t.job_group AND j.job_name = t.job_name
                WHERE
                      -- include: other_job
                      (t.job_type, t.max_concurrent, t.overlap_policy, t.placement, t.rate_limit)
                          IS DISTINCT FROM (j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit)
                      -- end
       )) AS so;
