-- Parts that several statements include.
-- The planner is steered here: see docs/planner.md.

-- part: ended_columns
outcome AS state, fire_id, trigger_group, trigger_name, job_group, job_name, job_type, instance_id,
scheduled_time, fired_time, started_at, ended_at, attempt, error, trigger_data::text, result::text,
retry_at

-- part: full_jobs
-- The limits that running executions reach, by job and concurrency key: each limit up to their number. A trigger whose
-- own limit is among them waits for a slot, whatever its row says.
full_jobs AS MATERIALIZED (
    SELECT job_group, job_name, concurrency_key,
           row_number() OVER (PARTITION BY job_group, job_name, concurrency_key)::int AS max_concurrent
      FROM qrtz_fired_triggers
     WHERE sched_name = :'sched' AND max_concurrent IS NOT NULL
)

-- part: is_full
(t.max_concurrent IS NOT NULL
 AND (t.job_group, t.job_name, t.concurrency_key, t.max_concurrent) IN (SELECT * FROM full_jobs))

-- part: seen_state
-- What waits for a rate, or for limits that jobs share, is BLOCKED in its row.
CASE WHEN t.overlap_policy <> 'block' OR t.trigger_state IN ('COMPLETE', 'ERROR') THEN t.trigger_state
     WHEN
          -- include: is_full
     THEN CASE WHEN t.trigger_state = 'PAUSED' THEN 'PAUSED_BLOCKED' ELSE 'BLOCKED' END
     WHEN t.trigger_state = 'BLOCKED' AND num_nonnulls(t.rate_limit, t.limits) > 0 THEN 'BLOCKED'
     WHEN t.trigger_state = 'BLOCKED' THEN 'WAITING'
     ELSE t.trigger_state
END

-- part: limits_of_job
j.overlap_policy, j.max_concurrent, j.rate_limit, j.limits

-- part: is_to_come
-- Nothing but its instant, a rate, limits that jobs share, or a worker keeps it from its fire.
CASE WHEN t.trigger_state NOT IN ('WAITING', 'BLOCKED') THEN false
     WHEN t.overlap_policy <> 'block' AND t.trigger_state = 'WAITING' THEN true
     WHEN t.overlap_policy <> 'block' AND num_nonnulls(t.rate_limit, t.limits) = 0 THEN false
     ELSE NOT
          -- include: is_full
END

-- part: held_lane
-- As the index of held triggers has it.
coalesce(left(t.parked_at, 0), t.misfire_rule)

-- part: each_lane
(VALUES ('NODE'), ('OWN'), ('IGNORE'), ('LATE'), ('NEW'), ('')) AS lane(name)

-- part: incident
SELECT id, kind, subject, identity, severity, cause, began_as, what, why::text, trigger_group, trigger_name, job_group,
       job_name, since, opened_at, confirmed_at, closed_at, acknowledged_at, acknowledged_by, acknowledged_reason,
       acknowledged_until, acknowledged_severity, acknowledged_cause, notified::text

-- part: waiting
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

-- part: each_rule
(VALUES ('NODE'), ('OWN'), ('IGNORE'), ('LATE'), ('NEW')) AS rule(name)

-- part: full_keys
-- The jobs and concurrency keys that wait for a slot, by which an index finds their triggers.
, full_keys AS MATERIALIZED (
    SELECT f.job_group, f.job_name, f.concurrency_key, of_job.slot_pool
      FROM full_jobs f
     CROSS JOIN LATERAL (
        SELECT j.slot_pool FROM qrtz_job_details j
         WHERE j.sched_name = :'sched' AND j.job_group = f.job_group AND j.job_name = f.job_name
           AND j.max_concurrent = f.max_concurrent AND j.overlap_policy = 'block' LIMIT 1) AS of_job
)

-- part: cleared
SET upcoming = '{}', upcoming_is_complete = false,
    -- As in `prepared_once` of the steps.
    catch_up_until = t.catch_up_until

-- part: is_computed
-- It has values that were computed from its calendar.
t.trigger_state <> 'COMPLETE'
AND (t.upcoming <> '{}' OR t.upcoming_is_complete)

-- part: lock
WITH held AS MATERIALIZED (
    SELECT FROM qrtz_locks WHERE sched_name = :'sched' AND lock_name = :'lock' FOR UPDATE
)
SELECT CASE count(*) WHEN 1 THEN 1
       ELSE repeat('quartzpy: the row of a lock is missing', 1 + count(*)::int)::int END
  FROM held

-- part: in_span
\if :since
AND scheduled_time >= :'since'::timestamptz
\endif
\if :until
AND scheduled_time < :'until'::timestamptz
\endif

-- part: of_jobs
\if :in_group
AND job_group = :'group'
\endif
\if :group_like
-- include: matches_group of job_group
\endif
\if :of_job_type
AND job_type = :'job_type'
\endif

-- part: is_of_job
\if :of_job
AND job_group = :'job_group' AND job_name = :'job_name'
\endif
-- include: of_jobs

-- part: is_wanted
AND outcome = ANY(:'outcomes'::text[])
\if :exhausted
AND outcome = 'FAILED' AND retry_at IS NULL
\endif
-- include: is_of_job
\if :of_error
AND strpos(error, :'error') > 0
\endif
\if :of_node
AND instance_id = :'node'
\endif
\if :after
AND ended_at <= :'after_at'::timestamptz
AND (ended_at, fire_id) < (:'after_at'::timestamptz, :'after_id'::bigint)
\endif

-- part: is_walked
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

-- part: fired_columns
CASE WHEN fired_time > :now THEN 'ENQUEUED' ELSE 'PROCESSING' END, fire_id, trigger_group, trigger_name, job_group,
job_name, job_type, instance_id, scheduled_time, CASE WHEN fired_time <= :now THEN fired_time END,
NULL::timestamptz, NULL::timestamptz, attempt, NULL::text, trigger_data::text, NULL::text, NULL::timestamptz

-- part: is_of
-- include: is_of_job
\if :of_trigger
AND trigger_group = :'trigger_group' AND trigger_name = :'trigger_name'
\endif

-- part: scheduled_columns
'SCHEDULED', NULL::bigint, trigger_group, trigger_name, job_group, job_name, job_type, NULL::text,
next_fire_time, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, attempt, NULL::text,
job_data::text, NULL::text, NULL::timestamptz

-- part: is_in_span
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

-- part: held_ranges
(SELECT job_group || '' AS job_group, job_name || '' AS job_name, concurrency_key || '' AS concurrency_key,
        trigger_state,
        -- include: held_lane
        AS lane
   FROM qrtz_triggers t
  WHERE sched_name || '' = :'sched' AND trigger_state IN ('BLOCKED', 'COMPLETE')
  ORDER BY 1, 2, 3, 4, 5
  LIMIT 1)
UNION ALL
SELECT other.*
  FROM held h
 CROSS JOIN LATERAL (
    SELECT t.job_group || '' AS job_group, t.job_name || '' AS job_name,
           t.concurrency_key || '' AS concurrency_key, t.trigger_state,
           -- include: held_lane
           AS lane
      FROM qrtz_triggers t
     WHERE t.sched_name || '' = :'sched' AND t.trigger_state IN ('BLOCKED', 'COMPLETE')
       AND (t.job_group || '', t.job_name || '', t.concurrency_key || '', t.trigger_state,
            -- include: held_lane
           ) > (h.job_group, h.job_name, h.concurrency_key, h.trigger_state, h.lane)
     ORDER BY 1, 2, 3, 4, 5
     LIMIT 1) AS other

-- part: job_columns
j.job_name, j.job_group, j.job_type, j.is_durable AS job_is_durable, j.max_concurrent, j.overlap_policy,
j.placement, j.persists_data, j.requests_recovery, j.definition::text AS definition, j.pause_after_failures,
j.job_data::text AS job_data, j.continuations::text AS continuations, j.limits,

-- part: trigger_columns
t.trigger_name, t.trigger_group, t.job_group, t.job_name, t.kind, t.schedule::text AS schedule,
t.description, t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold,
t.calendar_name, t.job_data::text AS trigger_data, t.job_type,

-- part: trigger_progress
t.next_fire_time, t.prev_fire_time, t.times_triggered, t.generation, t.upcoming, t.error, t.catch_up_until,
t.schedule_hash, t.paused_at, t.paused_by, t.pause_reason, t.pause_until, t.pause_missed, t.resumed_at,
-- include: is_full
AS is_full,
CASE WHEN t.trigger_state = 'BLOCKED' THEN t.parked_at END AS parked_at, t.rate_limit IS NOT NULL AS has_rate,
-- The instant at which the rate for which a trigger is parked admits the next fire; of several, the last one.
CASE WHEN t.trigger_state <> 'BLOCKED' THEN NULL
     WHEN t.parked_at IS NOT NULL
     THEN (SELECT max(l.opens_at) FROM qrtz_limits l
            WHERE l.sched_name = :'sched' AND l.limit_name = ANY(string_to_array(t.parked_at, ',')))
     WHEN t.rate_limit IS NOT NULL
     THEN (SELECT l.opens_at FROM qrtz_limits l
            WHERE l.sched_name = :'sched' AND l.limit_name = '' AND l.job_group = t.job_group
              AND l.job_name = t.job_name AND l.concurrency_key = t.concurrency_key)
END
AS opens_at

-- part: matches_group
-- The column is compared by text functions, not LIKE, so that every character is literal.
AND CASE :'operator'
    WHEN 'equals' THEN :column = :'group'
    WHEN 'starts_with' THEN starts_with(:column, :'group')
    WHEN 'ends_with' THEN right(:column, length(:'group')) = :'group'
    WHEN 'contains' THEN strpos(:column, :'group') > 0
    ELSE true
    END

-- part: is_chosen
\if :by_job
AND (t.job_group, t.job_name) IN (SELECT * FROM unnest(:'groups'::text[], :'names'::text[]))
\endif
\if :by_trigger_group
-- include: matches_group of t.trigger_group
\endif
\if :by_job_group
-- include: matches_group of t.job_group
\endif
\if :scheduled
AND t.trigger_group NOT IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
\endif

-- part: may_be_paused
(t.trigger_state IN ('WAITING', 'BLOCKED')
 OR (t.trigger_state = 'PAUSED'
     AND ((t.held_by_mode AND NOT :'by_mode'::bool)
          OR (:'alone'::bool AND (t.pause_until, t.pause_missed)
                                 IS DISTINCT FROM (:'until'::timestamptz, :'missed'::text))
          -- A pause of a group that has an end, such as a maintenance window, takes nobody's name off.
          OR (:'reason'::text IS NOT NULL
              AND (:'alone'::bool OR (t.pause_missed IS NULL AND :'until'::timestamptz IS NULL))
              AND (t.pause_reason, t.paused_by) IS DISTINCT FROM (:'reason'::text, :'by'::text)))))

-- part: own_of_affected
CROSS JOIN LATERAL (
   SELECT o.ctid AS row FROM qrtz_triggers o
    WHERE o.sched_name = :'sched' AND o.trigger_group = affected.trigger_group
      AND o.trigger_name = affected.trigger_name
    LIMIT 1) AS own

-- part: mode_forbids_t
(EXISTS (SELECT FROM qrtz_job_details m
          WHERE m.sched_name = :'sched' AND m.job_group = t.job_group AND m.job_name = t.job_name
            AND (m.mode = 'DISABLED'
                 OR (m.mode = 'MANUAL'
                     AND t.trigger_group
                         NOT IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS'))))
 OR (t.trigger_group NOT IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
     AND EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                  WHERE p.sched_name = :'sched' AND p.scope = 'MANUAL')))

-- part: no_other_pause
AND NOT EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                 WHERE p.sched_name = :'sched' AND (p.scope, p.group_name) <> (:'scope', :'group')
                   AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = t.trigger_group)
                        OR (p.scope = 'JOB' AND p.group_name = t.job_group)))

-- part: group_is_paused_t
EXISTS (SELECT FROM qrtz_paused_trigger_groups p
         WHERE p.sched_name = :'sched'
           AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = t.trigger_group)
                OR (p.scope = 'JOB' AND p.group_name = t.job_group)))

-- part: upstreams
changed AS MATERIALIZED (
    SELECT k.job_group, k.job_name, d.after
      FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
      LEFT JOIN LATERAL (
        SELECT o.after FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = k.job_group AND o.job_name = k.job_name LIMIT 1) AS d ON true
),
named AS MATERIALIZED (
    SELECT DISTINCT c.job_group AS by_group, c.job_name AS by_name,
           up.spec ->> 'job_group' AS job_group, up.spec ->> 'job_name' AS job_name
      FROM changed c
     CROSS JOIN LATERAL jsonb_array_elements(c.after -> 'jobs') AS up(spec)
),
former AS MATERIALIZED (
    SELECT c.job_group AS by_group, c.job_name AS by_name, u.job_group, u.job_name, u.row
      FROM changed c
     CROSS JOIN LATERAL (
        SELECT o.upstream_group AS job_group, o.upstream_name AS job_name, o.ctid AS row FROM qrtz_job_upstreams o
         WHERE o.sched_name = :'sched' AND o.job_group = c.job_group AND o.job_name = c.job_name OFFSET 0) AS u
),
upstreams AS MATERIALIZED (
    SELECT job_group, job_name,
           jsonb_agg(jsonb_build_object('job_group', by_group, 'job_name', by_name))
               FILTER (WHERE n.is_named) AS named_by
      FROM (SELECT *, true AS is_named FROM named) AS n
      FULL JOIN (SELECT *, true AS was_named FROM former) AS f USING (by_group, by_name, job_group, job_name)
     GROUP BY job_group, job_name
    HAVING NOT bool_and(n.is_named IS NOT DISTINCT FROM f.was_named)
)

-- part: copied_of_j
-- What triggers have copies of.
j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit, j.limits

-- part: other_job
(t.job_type, t.max_concurrent, t.overlap_policy, t.placement, t.rate_limit, t.limits)
    IS DISTINCT FROM (
        -- include: copied_of_j
    )

-- part: becomes_of_j
job_type = j.job_type, max_concurrent = j.max_concurrent, overlap_policy = j.overlap_policy,
placement = j.placement, rate_limit = j.rate_limit, limits = j.limits

-- part: one_shot
-- Stores triggers that fire once, for jobs `j`: their values follow in this order.
INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
    max_concurrent, overlap_policy, placement, rate_limit, limits, concurrency_key, kind, schedule, trigger_state,
    held_by_mode, next_fire_time, upcoming_is_complete, start_time, priority, misfire_instruction, attempt, job_data

-- part: key_of_t
-- A key is part of an index entry, whose size is limited: a longer value is represented by its hash.
CASE WHEN j.concurrency_key IS NULL THEN ''
     ELSE (SELECT CASE WHEN length(k.value) <= 60 THEN k.value ELSE md5(k.value) END
             FROM (SELECT coalesce((coalesce(j.job_data, '{}') || coalesce(t.job_data, '{}'))
                                   ->> j.concurrency_key, '') AS value) AS k) END

-- part: few
-- They are counted along their index first, without a look at their rows.
WITH few AS MATERIALIZED (
\if :of_job
    SELECT count(*) <= :'most_few'::int AS holds
      FROM (SELECT FROM qrtz_triggers WHERE job_group = :'job_group' AND job_name = :'job_name'
             LIMIT :'most_few'::int + 1) AS counted
\else
\if :of_calendar
    SELECT count(*) <= :'most_few'::int AS holds
      FROM (SELECT FROM qrtz_triggers WHERE sched_name = :'sched' AND calendar_name = :'calendar'
             LIMIT :'most_few'::int + 1) AS counted
\else
    SELECT holds FROM few_held
\endif
\endif
)

-- part: few_rows
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
    AND trigger_state IN ('BLOCKED', 'COMPLETE')
\endif
\endif
    AND (SELECT holds FROM few) OFFSET 0)
 UNION ALL

-- part: matches
\if :some_states
AND t.trigger_state = ANY(:'stored'::text[])
\endif
    -- include: key_matches
\if :of_job
AND t.job_group = :'job_group' AND t.job_name = :'job_name'
\endif
\if :of_calendar
AND t.calendar_name = :'calendar'
\endif
\if :of_job_type
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
\if :by_schedule
AND t.trigger_group NOT IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
AND (t.kind <> 'simple' OR t.schedule ->> 'repeat_count' IS DISTINCT FROM '0')
\endif
\if :seen
AND
    -- include: seen_state
    = ANY(:'states'::text[])
\endif

-- part: key_matches
\if :in_group
AND t.trigger_group = :'group'
\endif
\if :group_like
-- include: matches_group of t.trigger_group
\endif
\if :of_contains
AND strpos(t.trigger_name, :'contains') > 0
\endif

-- part: in_walk
-- What a walk examines, or what matches, after the last one of the page before.
\if :examined
\if :since
AND t.next_fire_time >= :'since'::timestamptz
\endif
\if :until
AND t.next_fire_time < :'until'::timestamptz
\endif
\else
    -- include: matches
\endif
\if :after
AND (coalesce(t.next_fire_time, 'infinity'), -t.priority, t.trigger_group, t.trigger_name)
    > (coalesce(:'after_at'::timestamptz, 'infinity'), :'after_priority'::int, :'after_group', :'after_name')
\endif

-- part: may_go_on
-- The execution is still the one of its epoch, or waits for a node that adopts it.
AND (f.outlives_node
     OR EXISTS (SELECT FROM qrtz_scheduler_state s
                 WHERE s.sched_name = f.sched_name AND s.instance_id = f.instance_id AND s.epoch = f.epoch
                OFFSET 0))

-- part: ends_with_node
-- An execution that has ended on a worker, or goes on there without its node, is adopted instead.
AND (:column.submission IS NULL OR (:column.outlives_node IS NOT TRUE AND :column.ending IS NULL))

-- part: adoptable
-- Executions that a node can adopt that has their executor and their job type; if none has them, any node, but not what no
-- worker has taken yet: its engine may still have it.
  FROM qrtz_fired_triggers f
 CROSS JOIN LATERAL (
    SELECT (SELECT nullif(j.placement, '')::jsonb ->> 'executor' FROM qrtz_job_details j
             WHERE j.sched_name = f.sched_name AND j.job_group = f.job_group AND j.job_name = f.job_name) AS name
   ) AS executor
 WHERE f.sched_name = :'sched' AND f.submission IS NOT NULL AND (f.outlives_node OR f.ending IS NOT NULL)
   AND NOT EXISTS (SELECT FROM qrtz_scheduler_state s
                    WHERE s.sched_name = f.sched_name AND s.epoch = f.epoch
                      AND s.instance_id <> ALL(:'instances'::text[]))
   AND coalesce((SELECT bool_or(s.epoch = :'epoch'::bigint) FROM qrtz_scheduler_state s
                  WHERE s.sched_name = :'sched' AND s.instance_id <> ALL(:'instances'::text[])
                    AND jsonb_exists(s.capabilities -> 'job_types', f.job_type)
                    AND (executor.name IS NULL OR jsonb_exists(s.capabilities -> 'executors', executor.name))),
                f.worker IS NOT NULL OR f.ending IS NOT NULL)
