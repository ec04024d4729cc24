-- Compares the triggers that users' transactions have committed since with the current pauses, running executions and
-- jobs. Such a transaction takes no lock, so it stores its triggers with the misfire rule NEW (HELD if they are paused
-- afterwards), and no other step takes triggers with that rule. Locked rows are reconciled later, and those of locked
-- jobs: the statement that follows in this transaction updates a trigger again, and the foreign key of a row that the
-- transaction itself has written is checked once more, which would wait for the job.
UPDATE qrtz_triggers t
   SET trigger_state = s.new_state, held_by_mode = s.new_hold,
       -- the regular rule, as `usual_rule` in other statements, by the rate limit that the job has now
       misfire_rule = CASE WHEN s.rate_limit IS NOT NULL AND t.misfire_rule <> 'IGNORE' THEN 'RATE_LIMIT'
                           WHEN t.misfire_rule NOT IN ('SKIP', 'ONCE', 'NEW', 'HELD') THEN t.misfire_rule
                           WHEN t.misfire_instruction = 'ignore' THEN 'IGNORE'
                           WHEN t.misfire_threshold IS NULL THEN 'SCHEDULER' ELSE 'OWN' END,
       job_type = s.job_type, max_concurrent = s.max_concurrent, overlap_policy = s.overlap_policy,
       placement = s.placement, concurrency_key = s.new_key, rate_limit = s.rate_limit
  FROM (SELECT o.row, j.*, own.new_key,
               CASE WHEN o.trigger_state IN ('WAITING', 'PAUSED', 'BLOCKED', 'PAUSED_BLOCKED') THEN
                    -- include: new_state
                    CASE WHEN usual.is_so THEN 'WAITING'
                         ELSE coalesce(nullif(ltrim(
                             CASE WHEN checked.group_is_paused OR checked.mode_forbids THEN 'PAUSED' ELSE '' END
                             || CASE WHEN checked.job_is_full THEN '_BLOCKED' ELSE '' END, '_'), ''), 'WAITING') END
                    -- end
                    ELSE o.trigger_state END AS new_state,
               -- Leaving a mode resumes the triggers that only the mode pauses.
               NOT usual.is_so AND NOT checked.group_is_paused AND checked.mode_forbids AS new_hold
          FROM (SELECT
                -- include: ordinary
                -- Nothing is paused, limited or in manual mode: checked once per statement, not once per row.
                (SELECT NOT EXISTS (SELECT FROM qrtz_paused_trigger_groups p WHERE p.sched_name = %(sched)s)
                    AND NOT EXISTS (SELECT FROM qrtz_job_details m
                                     WHERE m.sched_name = %(sched)s AND m.mode <> 'ENABLED')
                    AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f
                                     WHERE f.sched_name = %(sched)s AND f.state = 'EXECUTING'
                                       AND f.max_concurrent IS NOT NULL))
                -- end
                AS is_so) AS usual
         CROSS JOIN (
            SELECT n.ctid AS row, n.trigger_group, n.job_group, n.job_name, n.trigger_state, n.job_data
              FROM qrtz_triggers n
             WHERE n.sched_name = %(sched)s AND n.misfire_rule = 'NEW'
             ORDER BY n.next_fire_time
             LIMIT 500
               FOR NO KEY UPDATE SKIP LOCKED) AS o
         CROSS JOIN LATERAL (
            SELECT d.job_type, d.max_concurrent, d.overlap_policy, d.placement, d.concurrency_key, d.rate_limit,
                   d.job_data
              FROM qrtz_job_details d
             WHERE d.sched_name = %(sched)s AND d.job_group = o.job_group AND d.job_name = o.job_name
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
                       WHERE p.sched_name = %(sched)s
                         AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = o.trigger_group)
                              OR (p.scope = 'JOB' AND p.group_name = o.job_group))) AS group_is_paused,
                   EXISTS (
                      SELECT FROM qrtz_job_details m
                       WHERE m.sched_name = %(sched)s AND m.job_group = o.job_group AND m.job_name = o.job_name
                         AND (m.mode = 'DISABLED'
                              OR (m.mode = 'MANUAL' AND o.trigger_group NOT IN (
                                      'MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS'))))
                   OR (o.trigger_group NOT IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
                       AND EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                                    WHERE p.sched_name = %(sched)s AND p.scope = 'MANUAL')) AS mode_forbids,
                   j.overlap_policy = 'block' AND j.max_concurrent <= (
                      SELECT count(*) FROM qrtz_fired_triggers f
                       WHERE f.sched_name = %(sched)s AND f.job_group = o.job_group AND f.job_name = o.job_name
                         AND f.concurrency_key = own.new_key AND f.state = 'EXECUTING'
                         AND f.max_concurrent IS NOT NULL) AS job_is_full) AS checked
         -- end
       ) AS s
 WHERE t.ctid = s.row
