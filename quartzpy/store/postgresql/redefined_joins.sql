-- The planner is steered here: see docs/planner.md.

-- name: decide
-- Decides anew what jobs of the call wait for, after their definitions were written: their rows are locked, so that no
-- step counts an end meanwhile. A row of which nothing that has ended is waited for any more, or whose occasion is of
-- another kind, is UNMET. The one-shot trigger of a job that is started is NEW, as those of a user's transaction are,
-- because nothing here runs under the lock of the steps.
WITH waiting AS MATERIALIZED (
    SELECT w.*, d.after
      FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
     CROSS JOIN LATERAL (
        SELECT o.after FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = k.job_group AND o.job_name = k.job_name LIMIT 1) AS d
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.job_group, o.job_name, o.occasion, o.ended FROM qrtz_joins o
         WHERE o.sched_name = :'sched' AND o.job_group = k.job_group AND o.job_name = k.job_name
           AND o.state = 'WAITING' AND o.total IS NULL
           FOR UPDATE) AS w
),
decided AS MATERIALIZED (
    SELECT w.*, ends.last_end,
           CASE WHEN ends.named IS NULL OR ends.named = 0
                     OR (w.after ->> 'per' = 'day') = (strpos(w.occasion, 'T') > 0) THEN 'UNMET'
                WHEN ends.counting >= (w.after ->> 'needed')::int THEN 'FIRED' ELSE 'WAITING' END AS state
      FROM waiting w
      LEFT JOIN LATERAL (
        SELECT count(e.value) AS named,
               count(*) FILTER (WHERE jsonb_exists(w.after -> 'outcomes', e.value ->> 'outcome')) AS counting,
               (array_agg(e.value ORDER BY (e.value ->> 'fire_id')::bigint DESC)
                    FILTER (WHERE jsonb_exists(w.after -> 'outcomes', e.value ->> 'outcome')))[1] AS last_end
          FROM jsonb_array_elements(w.after -> 'jobs') AS up(spec)
         CROSS JOIN LATERAL (
            SELECT w.ended -> jsonb_build_array(up.spec ->> 'job_group', up.spec ->> 'job_name')::text AS value) AS e
       ) AS ends ON true
),
changed AS (
    UPDATE qrtz_joins j
       SET state = d.state,
           fire_id = CASE WHEN d.state = 'FIRED' THEN (d.last_end ->> 'fire_id')::bigint END,
           -- One that was late already is not late again.
           due_at = CASE WHEN d.state = 'WAITING' AND (j.due_at IS NOT NULL OR due.at > :now) THEN due.at END
      FROM decided d
     CROSS JOIN LATERAL (
        SELECT o.opened_at + (d.after ->> 'within_us')::bigint * interval '1 microsecond' AS at
          FROM qrtz_joins o WHERE o.ctid = d.row) AS due
     WHERE j.ctid = d.row
    RETURNING j.job_group, j.job_name, j.occasion, j.succeeded, j.failed, j.removed, j.ended, j.state, d.after,
              d.last_end
),
started AS (
    -- include: one_shot
        , unreconciled)
    SELECT :'sched', nextval('qrtz_fire_ids'), 'CONTINUATIONS', 'after_' || nextval('qrtz_fire_ids') || '_join',
           j.job_group, j.job_name,
           -- include: copied_of_j
           , '', 'simple', '{"interval_us": 0, "repeat_count": 0}', 'WAITING', false, :now, true, :now, 5, 'ignore', 1,
           jsonb_build_object(
               'QRTZ_PREDECESSOR_JOB_NAME', c.last_end -> 'job_name',
               'QRTZ_PREDECESSOR_JOB_GROUP', c.last_end -> 'job_group',
               'QRTZ_PREDECESSOR_FIRE_ID', c.last_end -> 'fire_id',
               'QRTZ_PREDECESSOR_OUTCOME', c.last_end -> 'outcome',
               'QRTZ_PREDECESSOR_RESULT', c.last_end -> 'result',
               'QRTZ_NOMINAL_FIRE_TIME', to_char(
                   CASE c.after ->> 'per'
                        WHEN 'day' THEN c.occasion::timestamp AT TIME ZONE (c.after ->> 'time_zone')
                        ELSE c.occasion::timestamptz END AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
               'QRTZ_JOINED', jsonb_build_object(
                   'occasion', c.occasion, 'succeeded', c.succeeded, 'failed', c.failed, 'removed', c.removed,
                   'ended', (SELECT jsonb_agg(entry.value) FROM jsonb_each(c.ended) AS entry))),
           'NEW'
      FROM changed c
     CROSS JOIN LATERAL (
        SELECT * FROM qrtz_job_details d
         WHERE d.sched_name = :'sched' AND d.job_group = c.job_group AND d.job_name = c.job_name
           FOR KEY SHARE) AS j
     WHERE c.state = 'FIRED'
    RETURNING trigger_name
)
SELECT count(pg_notify(:'channel', 'scheduled')) FROM (SELECT FROM started LIMIT 1) AS any_started;

-- name: abandon
-- What jobs that are deleted have waited for. A batch of theirs is not counted to its end, and is not met.
UPDATE qrtz_joins j SET state = 'UNMET', due_at = NULL
  FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
 WHERE j.sched_name = :'sched' AND j.job_group = k.job_group AND j.job_name = k.job_name AND j.state = 'WAITING';

-- name: circle
-- A job of the call that would wait for itself, and the job through which it does.
WITH RECURSIVE reached AS (
    SELECT u.job_group AS from_group, u.job_name AS from_name, u.upstream_group AS by_group, u.upstream_name AS by_name,
           u.upstream_group AS job_group, u.upstream_name AS job_name
      FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
     CROSS JOIN LATERAL (
        SELECT o.job_group, o.job_name, o.upstream_group, o.upstream_name FROM qrtz_job_upstreams o
         WHERE o.sched_name = :'sched' AND o.job_group = k.job_group AND o.job_name = k.job_name OFFSET 0) AS u
    UNION
    SELECT r.from_group, r.from_name, r.by_group, r.by_name, u.upstream_group, u.upstream_name
      FROM reached r
     CROSS JOIN LATERAL (
        SELECT o.upstream_group, o.upstream_name FROM qrtz_job_upstreams o
         WHERE o.sched_name = :'sched' AND o.job_group = r.job_group AND o.job_name = r.job_name OFFSET 0) AS u
)
SELECT from_group, from_name, by_group, by_name FROM reached
 WHERE (job_group, job_name) = (from_group, from_name) ORDER BY 1, 2, 3, 4 LIMIT 1;
