-- The planner is steered here: see docs/planner.md.

-- name: list_expected
-- Once in a while: takes up the triggers that have an expectation, by themselves or by their jobs, and makes those due
-- whose schedule or expectation is another one, that were resumed, or that fire sooner than they were going to at the
-- last look. All others are only read. Triggers are stored with what is expected of them; of one that is not listed, the
-- expectation was stored since the last time, so its fires are judged from then on. Continuations have one fire, which
-- is judged whenever it was: those that have ended since the last time are found among the latest executions.
WITH before AS MATERIALIZED (
    SELECT listed_at FROM qrtz_health_runs
     WHERE sched_name = :'sched'
       AND (listed_at IS NULL OR listed_at <= :now - :'every'::interval OR listed_at > :now + :'every'::interval)
),
taken AS (
    UPDATE qrtz_health_runs SET listed_at = :now FROM before WHERE sched_name = :'sched'
    RETURNING coalesce(before.listed_at, :now) AS since
),
expected AS (
    SELECT t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name, t.next_fire_time, t.resumed_at,
           coalesce(t.schedule -> 'expect', j.expect) AS expect
      FROM taken
     CROSS JOIN qrtz_job_details j
     CROSS JOIN LATERAL (
        SELECT * FROM qrtz_triggers o
         WHERE o.job_group = j.job_group AND o.job_name = j.job_name AND o.sched_name || '' = j.sched_name) AS t
     WHERE j.sched_name = :'sched' AND j.expect IS NOT NULL
    UNION ALL
    SELECT t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name, t.next_fire_time, t.resumed_at,
           t.schedule -> 'expect'
      FROM taken
     CROSS JOIN qrtz_triggers t
     WHERE t.has_expectation AND t.sched_name || '' = :'sched'
    UNION ALL
    SELECT e.trigger_group, e.trigger_name, e.generation, e.job_group, e.job_name, e.scheduled_time, NULL, j.expect
      FROM taken
     CROSS JOIN LATERAL (
        SELECT * FROM qrtz_executions o
         WHERE o.sched_name = :'sched' AND o.ended_at >= taken.since
           AND EXISTS (SELECT FROM qrtz_job_details x WHERE x.sched_name = :'sched' AND x.expect IS NOT NULL)
         ORDER BY o.ended_at DESC LIMIT :'among'::int) AS e
      JOIN qrtz_job_details j
        ON j.sched_name = :'sched' AND j.job_group = e.job_group AND j.job_name = e.job_name AND j.expect IS NOT NULL
     WHERE e.trigger_group = 'CONTINUATIONS'
)
INSERT INTO qrtz_expectations AS e (sched_name, trigger_group, trigger_name, generation, due_at, checkpoint)
SELECT DISTINCT ON (x.trigger_group, x.trigger_name) :'sched', x.trigger_group, x.trigger_name, x.generation, :now,
       jsonb_build_object('created', first.at, 'since', first.at, 'expect', x.expect,
                          'job', jsonb_build_array(x.job_group, x.job_name))
  FROM taken
 CROSS JOIN expected x
 CROSS JOIN LATERAL (
    SELECT CASE x.trigger_group
           WHEN 'CONTINUATIONS' THEN least(taken.since, x.next_fire_time) - interval '1 microsecond'
           ELSE taken.since END AS at) AS first
 WHERE (x.trigger_group = 'CONTINUATIONS'
        OR x.trigger_group NOT IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS'))
   AND NOT EXISTS (
       SELECT FROM qrtz_expectations k
        WHERE k.trigger_group = x.trigger_group AND k.trigger_name = x.trigger_name AND k.sched_name = :'sched'
          AND k.generation = x.generation AND k.checkpoint -> 'expect' = x.expect
          AND x.resumed_at IS NOT DISTINCT FROM (k.checkpoint ->> 'resumed')::timestamptz
          AND (x.next_fire_time IS NULL
               OR coalesce((k.checkpoint ->> 'next')::timestamptz, 'infinity') <= x.next_fire_time))
 ORDER BY x.trigger_group, x.trigger_name
    ON CONFLICT (trigger_group, trigger_name, sched_name) DO UPDATE
   SET generation = excluded.generation, due_at = least(e.due_at, :now);

-- name: due_expectations
SELECT trigger_group, trigger_name, checkpoint::text
  FROM qrtz_expectations
 WHERE sched_name = :'sched' AND due_at <= (SELECT :now)
 ORDER BY due_at LIMIT :'limit'::int;

-- name: move_checkpoints
-- Whoever has judged for so long that the turn is another one's changes nothing.
UPDATE qrtz_expectations e
   SET due_at = w.due_at, checkpoint = coalesce(w.checkpoint::jsonb, e.checkpoint), generation = coalesce(w.generation, e.generation)
  FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[], :'due_ats'::timestamptz[],
              :'checkpoints'::text[])
       AS w(trigger_group, trigger_name, generation, due_at, checkpoint)
 WHERE e.trigger_group = w.trigger_group AND e.trigger_name = w.trigger_name AND e.sched_name = :'sched'
   AND EXISTS (SELECT FROM qrtz_health_runs WHERE sched_name = :'sched' AND due_at = :'turn'::timestamptz);

-- name: drop_checkpoints
WITH gone AS (
    DELETE FROM qrtz_expectations e
     USING unnest(:'groups'::text[], :'names'::text[]) AS w(trigger_group, trigger_name)
     WHERE e.trigger_group = w.trigger_group AND e.trigger_name = w.trigger_name AND e.sched_name = :'sched'
       AND EXISTS (SELECT FROM qrtz_health_runs WHERE sched_name = :'sched' AND due_at = :'turn'::timestamptz)
    RETURNING e.trigger_group, e.trigger_name
)
UPDATE qrtz_breaches b SET over_at = :now
  FROM gone
 WHERE b.trigger_group = gone.trigger_group AND b.trigger_name = gone.trigger_name AND b.sched_name = :'sched'
   AND b.over_at IS NULL AND b.kind <> 'joins-late';

-- name: open_breaches
-- A fire that is recorded already stays as it is, so that each breach is returned once, to whoever recorded it.
INSERT INTO qrtz_breaches (id, sched_name, trigger_group, trigger_name, job_group, job_name, scheduled_time, kind, what,
                           why, found_at, in_a_row, since)
SELECT nextval('qrtz_fire_ids'), j.sched_name, n.trigger_group, n.trigger_name, n.job_group, n.job_name,
       n.scheduled_time, n.kind, n.what, n.why::jsonb, :now, coalesce(last.in_a_row, 0) + 1, coalesce(last.since, :now)
  FROM qrtz_health_runs j
 CROSS JOIN unnest(:'groups'::text[], :'names'::text[], :'job_groups'::text[], :'job_names'::text[],
                   :'scheduled_times'::timestamptz[], :'breach_kinds'::text[], :'whats'::text[], :'whys'::text[])
       AS n(trigger_group, trigger_name, job_group, job_name, scheduled_time, kind, what, why)
  LEFT JOIN LATERAL (
     SELECT b.in_a_row, b.since FROM qrtz_breaches b
      WHERE b.trigger_group = n.trigger_group AND b.trigger_name = n.trigger_name AND b.sched_name = j.sched_name
        AND b.kind = n.kind AND b.over_at IS NULL
      ORDER BY b.scheduled_time DESC LIMIT 1) AS last ON true
 WHERE j.sched_name = :'sched' AND j.due_at = :'turn'::timestamptz
    ON CONFLICT (trigger_group, trigger_name, sched_name, kind, scheduled_time) DO NOTHING
RETURNING
    -- include: breach
;

-- name: close_breaches
-- What a later fire has kept, or has broken as well.
UPDATE qrtz_breaches b SET over_at = :now
  FROM unnest(:'groups'::text[], :'names'::text[], :'breach_kinds'::text[], :'scheduled_times'::timestamptz[])
       AS k(trigger_group, trigger_name, kind, scheduled_time)
 WHERE b.trigger_group = k.trigger_group AND b.trigger_name = k.trigger_name AND b.sched_name = :'sched'
   AND b.kind = k.kind AND b.over_at IS NULL AND b.scheduled_time < k.scheduled_time
   AND EXISTS (SELECT FROM qrtz_health_runs WHERE sched_name = :'sched' AND due_at = :'turn'::timestamptz);

-- name: lasting_breaches
SELECT
    -- include: breach
  FROM qrtz_breaches
 WHERE sched_name || '' = :'sched' AND over_at IS NULL
 ORDER BY trigger_group, trigger_name LIMIT :'limit'::int;

-- name: breaches_of_trigger
-- The latest ones of a trigger, of each kind.
SELECT
    -- include: breach
  FROM qrtz_breaches
 WHERE trigger_group = :'group' AND trigger_name = :'name' AND sched_name = :'sched' AND over_at IS NULL
   AND kind <> 'joins-late'
 ORDER BY kind LIMIT :'limit'::int;

-- name: end_late_joins
-- The jobs of which the wait for others is over: the row does not wait any more, or is gone, or a later one has started
-- the job. The key of such a breach is that of the job, and its instant that of the occasion.
UPDATE qrtz_breaches b SET over_at = :now
 WHERE b.sched_name || '' = :'sched' AND b.over_at IS NULL AND b.kind = 'joins-late'
   AND (NOT EXISTS (
           SELECT FROM qrtz_joins j
            WHERE j.sched_name = :'sched' AND j.job_group = b.job_group AND j.job_name = b.job_name
              AND j.occasion IN (to_char(b.scheduled_time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                                 to_char(b.scheduled_time AT TIME ZONE 'UTC', 'YYYY-MM-DD'))
              AND j.state = 'WAITING' AND j.total IS NULL OFFSET 0)
        OR EXISTS (
           SELECT FROM qrtz_joins j
            WHERE j.sched_name = :'sched' AND j.job_group = b.job_group AND j.job_name = b.job_name
              AND j.occasion > to_char(b.scheduled_time AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
              AND j.state = 'FIRED' AND j.total IS NULL OFFSET 0));

-- name: late_joins
SELECT job_group, job_name, occasion, ended::text
  FROM qrtz_joins
 WHERE sched_name = :'sched' AND due_at <= (SELECT :now)
 ORDER BY due_at LIMIT :'limit'::int;

-- name: note_late_joins
UPDATE qrtz_joins j SET due_at = NULL
  FROM unnest(:'groups'::text[], :'names'::text[], :'occasions'::text[]) AS k(job_group, job_name, occasion)
 WHERE j.sched_name = :'sched' AND j.job_group = k.job_group AND j.job_name = k.job_name AND j.occasion = k.occasion
   AND EXISTS (SELECT FROM qrtz_health_runs WHERE sched_name = :'sched' AND due_at = :'turn'::timestamptz);
