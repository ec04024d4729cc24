-- The planner is steered here: see docs/planner.md.

-- `admit` runs before `acquire`, and `spend` after it; `rate_limits.py` says what for. The rule of a trigger is
-- compared as an expression, so that the index of due triggers, which is in another order, does not match.

-- name: admit
-- `gap` is the emission interval. `free` is the number of fires that conform now, and `opens` the instant of the next
-- one after them. A trigger is late if the limit would have admitted it longer ago than its misfire threshold: then the
-- misfire step decides about it. Triggers that are held back for the first time queue behind all others of their
-- bucket; one whose turn has come without a fire stays in front. Nothing is held back where the node has fewer slots
-- than the limit admits fires. `queued_until` is void if the limit has changed since, and the TAT is bounded: it is
-- later than the limit allows if the limit was raised or the database's clock was set back. All instants that are
-- computed with are finite, also if a row has another one: no server before PostgreSQL 17 subtracts infinite instants.
WITH node AS MATERIALIZED (
    SELECT :now AS at FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
),
-- include: keys
,
-- Those of jobs whose row another transaction has locked are left to a later step, and hide no others: the check of the
-- foreign key would wait for the job, because the steps of this transaction update a trigger several times.
due AS MATERIALIZED (
    SELECT node.at, front.*, pool.slot_pool, least(:'limit'::int, pool.workers, pool.group_slots) AS slots
      FROM node
     CROSS JOIN unnest(:'slot_pools'::text[], :'workers'::int[], :'group_slots'::int[])
           AS pool(slot_pool, workers, group_slots)
     CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.concurrency_key,
               t.next_fire_time, t.prev_fire_time, t.priority, t.rate_limited_until, t.rate_limit,
               CASE WHEN t.misfire_instruction <> 'ignore' AND t.catch_up_until IS NULL
                    THEN coalesce(t.misfire_threshold, :'threshold'::interval) END AS patience
          FROM qrtz_triggers t
         CROSS JOIN LATERAL (
            SELECT FROM qrtz_job_details j
             WHERE j.sched_name = :'sched' AND j.job_group = t.job_group AND j.job_name = t.job_name
               FOR NO KEY UPDATE SKIP LOCKED) AS job
         WHERE t.sched_name = :'sched' AND t.slot_pool = pool.slot_pool
           AND t.rate_limit IS NOT NULL AND t.trigger_state = 'WAITING' AND t.misfire_rule || '' = 'RATE_LIMIT'
           AND t.generation <> ALL(:'passed_over'::bigint[])
           AND greatest(t.rate_limited_until, t.next_fire_time) <= node.at
           -- include: runs_here
         ORDER BY greatest(t.rate_limited_until, t.next_fire_time)
         LIMIT 100
           FOR NO KEY UPDATE OF t SKIP LOCKED) AS front
),
limits AS (
    SELECT at, job_group, job_name, concurrency_key, count(*) AS triggers,
           max(((rate_limit ->> 'per_us')::bigint + (rate_limit ->> 'limit')::bigint - 1)
               / (rate_limit ->> 'limit')::bigint) * interval '1 microsecond' AS gap,
           min((rate_limit ->> 'burst')::bigint) AS burst
      FROM due GROUP BY at, job_group, job_name, concurrency_key
),
-- Buckets whose row another transaction has locked: their triggers are left to a later step.
held AS MATERIALIZED (
    SELECT l.job_group, l.job_name, l.concurrency_key
      FROM limits l
     CROSS JOIN LATERAL (
        SELECT q.sched_name, q.job_group, q.job_name, q.concurrency_key FROM qrtz_rate_limits q
         WHERE q.sched_name = :'sched' AND q.job_group = l.job_group AND q.job_name = l.job_name
           AND q.concurrency_key = l.concurrency_key LIMIT 1) AS stored
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_rate_limits q
         WHERE q.sched_name = stored.sched_name AND q.job_group = stored.job_group AND q.job_name = stored.job_name
           AND q.concurrency_key = stored.concurrency_key
           FOR NO KEY UPDATE SKIP LOCKED) AS f ON true
     WHERE f.is_free IS NULL
),
stored AS (
    SELECT l.*, l.gap * (l.burst - 1) AS tolerance,
           CASE WHEN r.tat > l.at + l.gap * l.burst THEN l.at + l.gap * l.burst
                -- the TAT of a bucket without a row
                ELSE greatest(r.tat, timestamptz 'epoch') END AS tat,
           r.tat > l.at + l.gap * l.burst AS is_bounded,
           CASE WHEN r.queued_interval = l.gap AND isfinite(r.queued_until) THEN r.queued_until END AS queued_until
      FROM limits l
      LEFT JOIN LATERAL (
        SELECT q.tat, q.queued_until, q.queued_interval FROM qrtz_rate_limits q
         WHERE q.sched_name = :'sched' AND q.job_group = l.job_group AND q.job_name = l.job_name
           AND q.concurrency_key = l.concurrency_key LIMIT 1) AS r ON true
     WHERE (job_group, job_name, concurrency_key) NOT IN (SELECT job_group, job_name, concurrency_key FROM held)
),
counted AS (
    SELECT s.*, greatest(s.tat, s.at) AS base,
           CASE WHEN s.tat - s.at > s.tolerance THEN 0
                ELSE floor(extract(epoch FROM s.tolerance - (greatest(s.tat, s.at) - s.at))
                           / extract(epoch FROM s.gap)) + 1 END AS free
      FROM stored s
),
buckets AS MATERIALIZED (
    SELECT c.*, c.base + c.gap * c.free::float8 - c.tolerance AS opens, c.tat - c.tolerance AS admits_since
      FROM counted c
),
judged AS MATERIALIZED (
    SELECT d.*, b.gap, b.base, b.free, b.opens, b.queued_until, is_late,
           row_number() OVER (PARTITION BY job_group, job_name, concurrency_key, is_late
                                  ORDER BY next_fire_time, priority DESC) AS place,
           coalesce(d.rate_limited_until <= d.next_fire_time, true) AS is_new
      FROM due d
      JOIN (SELECT job_group, job_name, concurrency_key, gap, base, free, opens, queued_until, admits_since
              FROM buckets) AS b USING (job_group, job_name, concurrency_key)
     CROSS JOIN LATERAL (
        SELECT coalesce(greatest(d.next_fire_time, d.rate_limited_until, b.admits_since) < d.at - d.patience, false)
               AS is_late) AS l
),
chosen AS (
    SELECT j.*, row_number() OVER (PARTITION BY slot_pool ORDER BY next_fire_time, priority DESC) AS slot
      FROM judged j WHERE NOT is_late AND place <= free
),
excess AS (
    SELECT j.*, row_number() OVER (PARTITION BY job_group, job_name, concurrency_key, is_new ORDER BY place) AS nth,
           count(*) FILTER (WHERE NOT is_new) OVER (PARTITION BY job_group, job_name, concurrency_key) AS before_new
      FROM judged j WHERE NOT is_late AND place > free AND free < slots
),
turns AS MATERIALIZED (
    SELECT e.*, CASE WHEN is_new THEN greatest(queued_until, opens + gap * (before_new - 1)) + gap * nth
                     ELSE opens + gap * (nth - 1) END AS turn
      FROM excess e
),
held_back AS (
    UPDATE qrtz_triggers t
       SET rate_limited_until = u.turn,
           -- include: prepared_once
      FROM turns u WHERE t.ctid = u.row
),
late AS (
    UPDATE qrtz_triggers t SET admission = 'LATE' FROM judged j WHERE t.ctid = j.row AND j.is_late
),
admitted AS (
    UPDATE qrtz_triggers t
       SET admission = 'ADMITTED'
      FROM chosen c WHERE t.ctid = c.row AND c.slot <= c.slots
    RETURNING c.*
),
queued AS (
    INSERT INTO qrtz_rate_limits AS r (sched_name, job_group, job_name, concurrency_key, tat, queued_until,
        queued_interval)
    SELECT :'sched', job_group, job_name, concurrency_key, b.tat, last.turn, last.gap
      FROM buckets b
      LEFT JOIN (
        SELECT job_group, job_name, concurrency_key, max(turn) AS turn, max(gap) AS gap
          FROM turns WHERE is_new GROUP BY job_group, job_name, concurrency_key) AS last
     USING (job_group, job_name, concurrency_key)
     WHERE b.is_bounded OR last.turn IS NOT NULL
        ON CONFLICT (sched_name, job_group, job_name, concurrency_key) DO UPDATE
       SET tat = excluded.tat, queued_until = coalesce(excluded.queued_until, r.queued_until),
           queued_interval = coalesce(excluded.queued_interval, r.queued_interval)
)
SELECT set_config('quartzpy.admitted', coalesce((
    SELECT jsonb_agg(jsonb_build_object(
               'trigger_group', trigger_group, 'trigger_name', trigger_name, 'before', prev_fire_time,
               'job_group', job_group, 'job_name', job_name, 'concurrency_key', concurrency_key,
               'tat', base, 'gap', gap)) FROM admitted), '[]')::text, true);

-- name: spend
-- Every fire sets the compared column.
WITH admitted AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(current_setting('quartzpy.admitted')::jsonb)
        AS a(trigger_group text, trigger_name text, before timestamptz, job_group text, job_name text,
             concurrency_key text, tat timestamptz, gap interval)
),
acquired AS MATERIALIZED (
    SELECT a.*, o.row, o.admission,
           o.prev_fire_time IS DISTINCT FROM a.before AS is_taken
      FROM admitted a
     CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.admission, t.prev_fire_time FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.trigger_group = a.trigger_group AND t.trigger_name = a.trigger_name
         ORDER BY t.times_triggered DESC
         LIMIT 1) AS o
),
restored AS (
    UPDATE qrtz_triggers t SET admission = NULL
      FROM acquired a WHERE t.ctid = a.row AND a.admission = 'ADMITTED'
)
INSERT INTO qrtz_rate_limits AS r (sched_name, job_group, job_name, concurrency_key, tat)
SELECT :'sched', job_group, job_name, concurrency_key, greatest(:now, max(tat)) + max(gap) * count(*)
  FROM acquired WHERE is_taken GROUP BY job_group, job_name, concurrency_key
    ON CONFLICT (sched_name, job_group, job_name, concurrency_key) DO UPDATE SET tat = excluded.tat;

-- name: prune
-- Rows without an instant in the future: a bucket without a row is the same. The condition is repeated, so that it
-- holds for the version of the row that is deleted: old minor versions do not compare the ctid of a row that has
-- changed.
DELETE FROM qrtz_rate_limits
 WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM qrtz_rate_limits
     WHERE sched_name || '' = :'sched' AND tat <= :now AND (queued_until IS NULL OR queued_until <= :now)
     ORDER BY tat LIMIT 100 FOR UPDATE SKIP LOCKED))
   AND tat <= :now AND (queued_until IS NULL OR queued_until <= :now);

-- name: next_turn
-- The earliest instant at which a rate limit is to be asked about a trigger; and the job types and placements of the first
-- about which this node has yet to say whether it runs them. And of the jobs that ask limits: whether some have a limit of
-- executions as well, whether some have a rate limit, and whether some share limits; or whether they are too many to see.
WITH
-- include: keys
SELECT min(front.at),
       coalesce(array_agg(front.job_type ORDER BY front.slot_pool) FILTER (WHERE front.is_undecided), '{}'),
       coalesce(array_agg(front.placement ORDER BY front.slot_pool) FILTER (WHERE front.is_undecided), '{}'),
       (SELECT ARRAY[count(*) = 100 OR coalesce(bool_or(j.max_concurrent IS NOT NULL), false),
                     count(*) = 100 OR coalesce(bool_or(j.limits IS NULL), false),
                     count(*) = 100 OR coalesce(bool_or(j.limits IS NOT NULL), false)]
          FROM (SELECT max_concurrent, limits FROM qrtz_job_details
                 WHERE sched_name = :'sched' AND (rate_limit IS NOT NULL OR limits IS NOT NULL) LIMIT 100) AS j)
  FROM unnest(:'slot_pools'::text[]) AS pool(slot_pool)
 CROSS JOIN LATERAL (
    SELECT greatest(t.rate_limited_until, t.next_fire_time) AS at, t.job_type, t.placement, t.slot_pool,
           -- include: is_not_run
           AS is_undecided
      FROM qrtz_triggers t
     WHERE t.sched_name = :'sched' AND t.slot_pool = pool.slot_pool
       AND t.rate_limit IS NOT NULL AND t.trigger_state = 'WAITING' AND t.misfire_rule || '' = 'RATE_LIMIT'
       AND t.generation <> ALL(:'passed_over'::bigint[])
       -- include: is_not_refused
     ORDER BY greatest(t.rate_limited_until, t.next_fire_time)
     LIMIT 1) AS front;
