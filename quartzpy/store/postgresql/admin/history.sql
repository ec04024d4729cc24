-- The planner is steered here: see docs/planner.md.

-- name: minutes
-- Most executions succeed, so only the other outcomes are returned one by one. A minute is its number since the epoch,
-- because `date_trunc` takes several times as long.
SELECT timestamptz 'epoch' + minute * interval '1 minute', number, others, late[1], late[2],
       CASE WHEN sum(number) OVER () < :'most'::int THEN :'since'::timestamptz ELSE min(first_ended) OVER () END
  FROM (SELECT minute, count(*) AS number, min(ended_at) AS first_ended,
               array_agg(outcome) FILTER (WHERE outcome <> 'SUCCEEDED') AS others,
               percentile_disc(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY late) AS late
          FROM (SELECT floor(date_part('epoch', ended_at) / 60) AS minute, ended_at, outcome::text AS outcome,
                       GREATEST(started_at - scheduled_time, interval '0') AS late
                  FROM qrtz_executions
                 WHERE sched_name = :'sched' AND ended_at >= :'since'::timestamptz
                 ORDER BY ended_at DESC LIMIT :'most'::int) AS latest
         GROUP BY minute) AS of_minutes
 ORDER BY minute;

-- name: last
SELECT
    -- include: ended_columns
  FROM unnest(:'groups'::text[], :'names'::text[]) AS k(of_group, of_name)
 CROSS JOIN LATERAL (
    SELECT * FROM qrtz_executions
     WHERE trigger_group = k.of_group AND trigger_name = k.of_name AND sched_name = :'sched'
     ORDER BY generation DESC, scheduled_time DESC LIMIT :'limit'::int) AS e
 ORDER BY generation DESC, scheduled_time DESC;

-- name: last_of_job
-- The own executions of at most 50 of its triggers are looked up.
WITH of_job AS (
    SELECT e.fire_id
      FROM (SELECT trigger_group, trigger_name FROM qrtz_triggers
             WHERE job_group = :'group' AND job_name = :'name' AND sched_name || '' = :'sched'
             LIMIT 50) AS t
     CROSS JOIN LATERAL (
        SELECT fire_id FROM qrtz_executions
         WHERE trigger_group = t.trigger_group AND trigger_name = t.trigger_name AND sched_name = :'sched'
         ORDER BY generation DESC, scheduled_time DESC LIMIT :'limit'::int) AS e
    UNION
    SELECT fire_id
      FROM (SELECT fire_id, job_group, job_name FROM qrtz_executions
             WHERE sched_name = :'sched' ORDER BY ended_at DESC LIMIT :'among'::int) AS latest
     WHERE job_group = :'group' AND job_name = :'name'
)
SELECT
    -- include: ended_columns
  FROM of_job JOIN qrtz_executions USING (fire_id)
 ORDER BY ended_at DESC, fire_id DESC LIMIT :'limit'::int;

-- name: cells
-- Counts the executions that overlap a span: by lane, by cell, which is one of the equal parts of the span, and by
-- outcome. They are the last `limit` ones. An execution is in the cell in which it ended, or in the last one if it ended
-- after the span. Of the lanes, those with the most executions are returned. What is alone in its count is returned in
-- full, up to `bars` of them.
WITH RECURSIVE
-- The end of what is looked at after the span.
until AS MATERIALIZED (
    SELECT coalesce((SELECT ended_at FROM qrtz_executions
                      WHERE sched_name = :'sched'
                        AND ended_at >= :'end'::timestamptz AND ended_at <= :'end'::timestamptz + :'margin'::interval
                      ORDER BY ended_at OFFSET :'most_after'::int LIMIT 1),
                    :'end'::timestamptz + :'margin'::interval) AS at
),
\if :has_many_lanes
-- A cluster may run very many jobs, of which few are returned. To count their executions by cell takes several times as
-- long as by lane, so they are read twice.
ended AS NOT MATERIALIZED (
    SELECT job_group, job_name, outcome, ended_at AS at
      FROM qrtz_executions
     WHERE sched_name = :'sched'
       AND ended_at >= :'start'::timestamptz AND ended_at <= (SELECT at FROM until)
       AND fired_time < :'end'::timestamptz
       \if :in_group
       AND job_group = :'group'
       \endif
     ORDER BY ended_at DESC LIMIT :'limit'::int
),
of_lanes AS MATERIALIZED (
    SELECT job_group, job_name, count(*) AS number, min(at) AS first_ended FROM ended GROUP BY 1, 2
),
-- By the order of bytes: very many lanes may have the same number.
most AS MATERIALIZED (
    SELECT job_group, job_name FROM of_lanes
     ORDER BY number DESC, job_group COLLATE "C", job_name COLLATE "C" LIMIT :'lanes'::int
),
cells AS MATERIALIZED (
    SELECT job_group::text AS lane_group, job_name::text AS lane_name, outcome::text AS outcome,
           -- include: cell
           count(*) AS number, min(at) AS first_ended
      FROM ended JOIN most USING (job_group, job_name)
     GROUP BY 1, 2, 3, 4
),
\else
after AS MATERIALIZED (
    SELECT
           -- include: lane
           outcome::text AS outcome, count(*)::int AS number, min(ended_at) AS first_ended
      FROM (SELECT instance_id, job_group, job_name, outcome, ended_at FROM qrtz_executions
             WHERE sched_name = :'sched'
               AND ended_at >= :'end'::timestamptz AND ended_at <= (SELECT at FROM until)
               AND fired_time < :'end'::timestamptz
               \if :in_group
               AND job_group = :'group'
               \endif
             ORDER BY ended_at DESC LIMIT :'limit'::int) AS ended
     GROUP BY 1, 2, 3
),
-- The cells are read one by one, the last one first, so that an execution is grouped by few values, and by node from an
-- index alone. `remaining` is the number of executions that may still be counted.
parts AS (
    SELECT :'cells'::int AS cell, :'limit'::int - coalesce(sum(number), 0)::int AS remaining,
           NULL::text[] COLLATE "C" AS lane_groups, NULL::text[] COLLATE "C" AS lane_names, NULL::text[] AS outcomes,
           NULL::int[] AS numbers, NULL::timestamptz[] AS firsts
      FROM after
    UNION ALL
    SELECT p.cell - 1, p.remaining - c.number, c.lane_groups, c.lane_names, c.outcomes, c.numbers, c.firsts
      FROM parts p
     CROSS JOIN LATERAL (
        SELECT coalesce(sum(number), 0)::int AS number, array_agg(lane_group) COLLATE "C" AS lane_groups,
               array_agg(lane_name) COLLATE "C" AS lane_names, array_agg(outcome) AS outcomes,
               array_agg(number) AS numbers, array_agg(first_ended) AS firsts
          FROM (SELECT
                       -- include: lane
                       outcome::text AS outcome, count(*)::int AS number, min(ended_at) AS first_ended
                  FROM (SELECT instance_id, job_group, job_name, outcome, ended_at FROM qrtz_executions
                         WHERE sched_name = :'sched'
                           AND ended_at >= :'start'::timestamptz
                                           + (p.cell - 1) / :'cells'::float * (:'end'::timestamptz - :'start'::timestamptz)
                           AND ended_at < :'start'::timestamptz
                                          + p.cell / :'cells'::float * (:'end'::timestamptz - :'start'::timestamptz)
                           \if :in_group
                           AND job_group = :'group'
                           \endif
                         ORDER BY ended_at DESC LIMIT p.remaining) AS ended
                 GROUP BY 1, 2, 3) AS counted
     ) AS c
     WHERE p.cell > 0 AND p.remaining > 0
),
cells AS MATERIALIZED (
    SELECT c.*, p.cell
      FROM parts p
     CROSS JOIN unnest(p.lane_groups, p.lane_names, p.outcomes, p.numbers, p.firsts)
                AS c(lane_group, lane_name, outcome, number, first_ended)
    UNION ALL
    SELECT *, :'cells'::int - 1 FROM after
),
of_lanes AS MATERIALIZED (
    SELECT lane_group, lane_name, sum(number) AS number, min(first_ended) AS first_ended FROM cells GROUP BY 1, 2
),
\endif
chosen AS (
    SELECT c.*, CASE WHEN c.number = 1 THEN row_number() OVER (PARTITION BY c.number ORDER BY c.first_ended DESC) END
                AS place
      FROM cells c
\if :has_many_lanes
\else
      JOIN (SELECT lane_group, lane_name FROM of_lanes
             ORDER BY number DESC, lane_group, lane_name LIMIT :'lanes'::int) AS l USING (lane_group, lane_name)
\endif
)
SELECT (SELECT CASE WHEN sum(number) < :'limit'::int THEN :'start'::timestamptz ELSE min(first_ended) END FROM of_lanes),
       (SELECT count(*) FROM of_lanes),
       c.lane_group, c.lane_name, c.outcome, c.cells, c.numbers,
       e.fire_id, e.trigger_group, e.trigger_name, e.job_group, e.job_name, e.instance_id, e.scheduled_time,
       coalesce(e.started_at, e.fired_time), e.ended_at
  FROM (SELECT lane_group, lane_name, outcome, alone, array_agg(cell) AS cells, array_agg(number) AS numbers
          FROM (SELECT *, CASE WHEN place <= :'bars'::int THEN first_ended END AS alone FROM chosen) AS with_bars
         GROUP BY lane_group, lane_name, outcome, alone) AS c
  LEFT JOIN LATERAL (
    SELECT * FROM qrtz_executions x
     WHERE x.sched_name = :'sched' AND x.ended_at = c.alone AND x.outcome = c.outcome
       AND x.fired_time < :'end'::timestamptz
\if :by_node
       AND x.instance_id = c.lane_name
\else
       AND x.job_group = c.lane_group
\if :by_group
\else
       AND x.job_name = c.lane_name
\endif
\endif
     LIMIT 1) AS e ON true;

-- name: misfires
-- Counts the misfires that were handled within a span, by lane and by cell, as `cells` does: among the latest ones,
-- because no index has the order of time.
SELECT
       -- include: lane
       -- include: cell
       count(*)
  FROM (SELECT job_group, job_name, instance_id, handled_at AS at
          FROM qrtz_misfires WHERE sched_name = :'sched' ORDER BY id DESC LIMIT :'limit'::int) AS latest
 WHERE at >= :'start'::timestamptz AND at < :'end'::timestamptz
   \if :in_group
   AND job_group = :'group'
   \endif
 GROUP BY 1, 2, 3;

-- name: failing_jobs
-- The jobs of which some executions failed for good, among the latest executions of all jobs. One that failed and is
-- retried is neither a failure nor a success: its retry is.
WITH latest AS MATERIALIZED (
    SELECT fire_id, job_group, job_name, ended_at, outcome, retry_at
      FROM qrtz_executions
     WHERE sched_name = :'sched' ORDER BY ended_at DESC LIMIT :'among'::int
),
-- Most jobs have no failures. What follows is computed for the others.
failing AS MATERIALIZED (
    SELECT job_group, job_name FROM latest WHERE outcome = 'FAILED' AND retry_at IS NULL
     GROUP BY job_group, job_name HAVING count(*) >= :'fewest'::int
),
decided AS (
    SELECT fire_id, job_group, job_name, ended_at, outcome = 'FAILED' AS is_failure,
           max(ended_at) FILTER (WHERE outcome = 'SUCCEEDED') OVER of_job AS last_success,
           row_number() OVER (of_job ORDER BY ended_at DESC, fire_id DESC) AS place
      FROM latest
     WHERE (outcome = 'SUCCEEDED' OR (outcome = 'FAILED' AND retry_at IS NULL))
       AND (job_group, job_name) IN (SELECT * FROM failing)
    WINDOW of_job AS (PARTITION BY job_group, job_name)
),
of_jobs AS (
    SELECT job_group, job_name, max(last_success) AS last_success,
           count(*) FILTER (WHERE is_failure AND (last_success IS NULL OR ended_at > last_success)) AS in_a_row,
           min(ended_at) FILTER (WHERE is_failure AND (last_success IS NULL OR ended_at > last_success)) AS since,
           count(*) FILTER (WHERE place <= :'recent'::int) AS recent,
           count(*) FILTER (WHERE place <= :'recent'::int AND is_failure) AS recent_failures,
           min(ended_at) FILTER (WHERE place <= :'recent'::int AND is_failure) AS recent_since,
           bool_or(is_failure) FILTER (WHERE place <= :'fewest'::int) AS fails_now,
           array_agg(fire_id ORDER BY place) FILTER (WHERE is_failure AND place <= :'recent'::int) AS fire_ids,
           max(fire_id) FILTER (WHERE is_failure) AS last_failure
      FROM decided
     GROUP BY job_group, job_name
)
SELECT job_group, job_name, last_success, in_a_row, since, recent, recent_failures, recent_since, fails_now, last_failure,
       -- So much that the line which names the error is within it, before the output of a command.
       (SELECT jsonb_agg(right(e.error, 2500) ORDER BY e.fire_id DESC)::text
          FROM qrtz_executions e WHERE e.fire_id = ANY(fire_ids)),
       (SELECT CASE WHEN count(*) >= :'among'::int THEN min(ended_at) END FROM latest)
  FROM of_jobs
 ORDER BY in_a_row DESC, recent_failures DESC, job_group, job_name LIMIT :'limit'::int;

-- name: lost_executions
-- What ended with its node within a day, and is neither recovered nor run again by hand; those that were lost first come
-- first. The names of the triggers that repeat an execution have its number.
SELECT e.instance_id, e.fire_id, e.trigger_group, e.trigger_name, e.job_group, e.job_name, e.scheduled_time, e.ended_at,
       EXISTS (SELECT FROM qrtz_job_details j
                WHERE j.sched_name = e.sched_name AND j.job_group = e.job_group AND j.job_name = e.job_name)
  FROM qrtz_executions e
 CROSS JOIN LATERAL (
    SELECT 'RECOVERING_JOBS' AS trigger_group,
           ('recover_' || left(e.instance_id, 150) || '_' || e.fire_id) COLLATE "C" AS first_name,
           ('recover_' || left(e.instance_id, 150) || '_' || e.fire_id) COLLATE "C" AS last_name
    UNION ALL
    SELECT 'MANUAL_TRIGGERS', ('MT_again_' || e.fire_id || '_') COLLATE "C",
           ('MT_again_' || e.fire_id || '_~') COLLATE "C") AS by
 WHERE e.sched_name = :'sched' AND e.outcome = 'TERMINATED' AND e.ended_at >= :now - interval '1 day'
 GROUP BY e.fire_id
HAVING NOT bool_or(
           EXISTS (SELECT FROM qrtz_triggers t
                    WHERE t.sched_name = e.sched_name AND t.trigger_group = by.trigger_group
                      AND t.trigger_name BETWEEN by.first_name AND by.last_name)
           OR EXISTS (SELECT FROM qrtz_fired_triggers f
                       WHERE f.sched_name = e.sched_name AND f.trigger_group = by.trigger_group
                         AND f.trigger_name BETWEEN by.first_name AND by.last_name)
           OR EXISTS (SELECT FROM qrtz_executions x
                       WHERE x.trigger_name BETWEEN by.first_name AND by.last_name
                         AND x.trigger_group = by.trigger_group AND x.sched_name = e.sched_name))
 ORDER BY e.ended_at, e.fire_id LIMIT :'limit'::int;

-- name: health
-- How the last runs of some jobs or triggers went, at most `most_runs` of each. Those of a trigger are its own. Those of a
-- job are the last ones of a few of its triggers, however long ago, and its executions among the latest ones of all jobs.
-- An execution that failed and is retried is no run: its retry is, which is looked up, because it has another trigger.
WITH RECURSIVE own AS (
    SELECT k.of_group, k.of_name, e.job_group, e.job_name, e.fire_id, e.outcome, e.attempt, e.retry_at, e.started_at,
           e.ended_at
      FROM unnest(:'groups'::text[], :'names'::text[]) AS k(of_group, of_name)
     CROSS JOIN LATERAL (
\if :of_jobs
        SELECT trigger_group, trigger_name FROM qrtz_triggers
         WHERE job_group = k.of_group AND job_name = k.of_name AND sched_name || '' = :'sched'
         LIMIT :'most_triggers'::int
\else
        SELECT k.of_group AS trigger_group, k.of_name AS trigger_name
\endif
     ) AS t
     CROSS JOIN LATERAL (
        SELECT * FROM qrtz_executions x
         WHERE x.trigger_group = t.trigger_group AND x.trigger_name = t.trigger_name AND x.sched_name = :'sched'
         ORDER BY x.generation DESC, x.scheduled_time DESC LIMIT :'most_of_each'::int) AS e
    UNION ALL
    SELECT o.of_group, o.of_name, e.job_group, e.job_name, e.fire_id, e.outcome, e.attempt, e.retry_at, e.started_at,
           e.ended_at
      FROM own o
     CROSS JOIN LATERAL (
        SELECT * FROM qrtz_executions x
         WHERE x.trigger_group = 'RETRYING_JOBS' AND x.trigger_name = 'retry_' || o.attempt || '_' || o.fire_id
           AND x.sched_name = :'sched'
         ORDER BY x.generation DESC, x.scheduled_time DESC LIMIT 1) AS e
     WHERE o.outcome = 'FAILED' AND o.retry_at IS NOT NULL
),
runs AS (
    SELECT of_group, of_name, outcome, ended_at, ended_at >= :now - :'within'::interval AS is_recent,
           row_number() OVER (PARTITION BY of_group, of_name ORDER BY ended_at DESC, fire_id DESC) AS place,
           GREATEST(ended_at - started_at, interval '0') AS ran
      FROM ((SELECT of_group, of_name, fire_id, outcome, retry_at, started_at, ended_at
               FROM (SELECT * FROM own LIMIT :'most_examined'::int) AS o
\if :of_jobs
              WHERE job_group = of_group AND job_name = of_name)
            UNION
            (SELECT job_group, job_name, fire_id, outcome, retry_at, started_at, ended_at
               FROM (SELECT * FROM qrtz_executions
                      WHERE sched_name = :'sched' ORDER BY ended_at DESC LIMIT :'among'::int) AS latest
              WHERE (job_group, job_name) IN (SELECT * FROM unnest(:'groups'::text[], :'names'::text[])))
\else
            )
\endif
           ) AS e
     WHERE outcome IN ('SUCCEEDED', 'TERMINATED') OR (outcome = 'FAILED' AND retry_at IS NULL)
)
SELECT of_group, of_name,
       count(*) FILTER (WHERE is_recent), count(*) FILTER (WHERE is_recent AND outcome <> 'SUCCEEDED'),
       (array_agg(outcome ORDER BY place))[1], max(ended_at),
       percentile_disc(0.5) WITHIN GROUP (ORDER BY ran), percentile_disc(0.99) WITHIN GROUP (ORDER BY ran),
       array_agg(outcome ORDER BY place DESC) FILTER (WHERE place <= :'shown'::int),
       array_agg(date_part('epoch', ran) ORDER BY place DESC) FILTER (WHERE place <= :'shown'::int)
  FROM runs
 WHERE place <= :'most_runs'::int
 GROUP BY of_group, of_name;

-- name: attempts
-- The trigger of a retry or of a recovery is named after the execution that it repeats. So each step to the attempt
-- before, or to the next one at any stage, is a look-up by an index. The expressions leave only that index.
WITH RECURSIVE
-- include: full_jobs
, before AS (
    SELECT root.fire_id AS root, 0 AS place, e.*
      FROM unnest(:'fire_ids'::bigint[]) AS root(fire_id)
     CROSS JOIN LATERAL (
        -- include: any_execution
     ) AS e
    UNION ALL
    SELECT b.root, b.place - 1, e.*
      FROM before b
     CROSS JOIN LATERAL (
        SELECT substring(b.trigger_name FROM '^(?:retry_\d+|recover_.*)_(\d{1,18})$')::bigint AS fire_id) AS root
     CROSS JOIN LATERAL (
        -- include: any_execution
     ) AS e
     WHERE b.trigger_group IN ('RETRYING_JOBS', 'RECOVERING_JOBS') AND 1 - b.place < :'limit'::int
),
following AS (
    SELECT * FROM before WHERE place = 0
    UNION ALL
    SELECT f.root, f.place + 1, e.*
      FROM following f
     CROSS JOIN LATERAL (
        SELECT 'RETRYING_JOBS' AS of_group, 'retry_' || f.attempt || '_' || f.fire_id AS of_name
         WHERE f.retry_at IS NOT NULL
        UNION ALL
        SELECT 'RECOVERING_JOBS', 'recover_' || left(f.instance_id, 150) || '_' || f.fire_id
         WHERE f.retry_at IS NULL AND f.state = 'TERMINATED') AS k
     CROSS JOIN LATERAL (
        SELECT *
          FROM ((SELECT outcome, fire_id, trigger_group, trigger_name, job_group, job_name, job_type, instance_id::text,
                        scheduled_time, fired_time, started_at, ended_at, attempt, error, trigger_data::text,
                        result::text, retry_at
                   FROM qrtz_executions
                  WHERE trigger_group = k.of_group AND trigger_name = k.of_name AND sched_name = :'sched'
                  ORDER BY generation DESC, scheduled_time DESC LIMIT 1)
                UNION ALL
                SELECT CASE WHEN fired_time > :now THEN 'ENQUEUED' ELSE 'PROCESSING' END, fire_id, trigger_group,
                       trigger_name, job_group, job_name, job_type, instance_id::text, scheduled_time,
                       CASE WHEN fired_time <= :now THEN fired_time END,
                       NULL::timestamptz, NULL::timestamptz, attempt, NULL::text, trigger_data::text, NULL::text,
                       NULL::timestamptz
                  FROM qrtz_fired_triggers
                 WHERE sched_name = :'sched' AND trigger_group = k.of_group AND trigger_name = k.of_name
                UNION ALL
                SELECT 'SCHEDULED', NULL::bigint, trigger_group, trigger_name, job_group, job_name, job_type,
                       NULL::text, next_fire_time, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, attempt,
                       NULL::text, job_data::text, NULL::text, NULL::timestamptz
                  FROM qrtz_triggers t
                 WHERE sched_name = :'sched' AND trigger_group = k.of_group AND trigger_name = k.of_name
                   AND
                       -- include: is_to_come
                       ) AS any_stage
         ORDER BY outcome = 'SCHEDULED', coalesce(ended_at, fired_time, scheduled_time) DESC, fire_id DESC
         LIMIT 1) AS e
     WHERE f.place < :'limit'::int
)
SELECT * FROM before WHERE place < 0
UNION ALL
SELECT * FROM following
 ORDER BY root, place;
