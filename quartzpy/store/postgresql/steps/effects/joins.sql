-- The planner is steered here: see docs/planner.md.

-- name: hold_joins
-- Holds the joins and batches that the ends for good concern, and the jobs that these may start.
WITH
-- include: ended
-- include: arrivals
-- Each is one row, however large the batch is. The lock of the step orders all that count.
joins_held AS MATERIALIZED (
    SELECT a.job_group, a.job_name, a.occasion
      FROM (SELECT DISTINCT job_group, job_name, occasion, row, after FROM arrivals) AS a
      LEFT JOIN LATERAL (
        SELECT o.ctid AS row, o.state FROM qrtz_joins o
         WHERE o.sched_name = :'sched' AND o.job_group = a.job_group AND o.job_name = a.job_name
           AND o.occasion = a.occasion LIMIT 1) AS stored ON true
      LEFT JOIN LATERAL (
        -- A version that is newer than what was read: somebody has removed a trigger of the batch meanwhile.
        SELECT o.ctid AS row FROM qrtz_joins o WHERE o.ctid = stored.row FOR UPDATE SKIP LOCKED) AS own ON true
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_job_details o
         WHERE o.ctid = a.row AND stored.state IS DISTINCT FROM 'FIRED'
           FOR NO KEY UPDATE SKIP LOCKED) AS job ON true
     -- A batch that is no longer stored was purged, or removed with everything else.
     WHERE (a.after IS NOT NULL OR stored.row IS NOT NULL)
       AND (job.is_free IS NULL AND stored.state IS DISTINCT FROM 'FIRED' OR stored.row IS DISTINCT FROM own.row)
),
held_up AS (SELECT fire_id FROM arrivals JOIN joins_held USING (job_group, job_name, occasion))
-- include: unrecorded
;

-- name: count_joins
-- Counts the ends in each join, and decides which are met by the last of them. An execution that counts is not replaced
-- by one of the same job that does not. What is held before is not passed over: were a job to have begun to wait in
-- between, this waits for its row.
WITH
-- include: ended
-- include: arrivals
joins AS MATERIALIZED (
    SELECT a.*, stored.*
      FROM (SELECT DISTINCT job_group, job_name, occasion, after FROM arrivals) AS a
      LEFT JOIN LATERAL (
        SELECT o.ctid AS row, o.state, o.ended, o.total, o.outcomes, o.succeeded, o.failed, o.removed
          FROM qrtz_joins o
         WHERE o.sched_name = :'sched' AND o.job_group = a.job_group AND o.job_name = a.job_name
           AND o.occasion = a.occasion
           FOR UPDATE) AS stored ON true
     -- A batch that is no longer stored was purged, or removed with everything else.
     WHERE a.after IS NOT NULL OR stored.row IS NOT NULL
),
added AS MATERIALIZED (
    SELECT j.job_group, j.job_name, j.occasion, max(e.fire_id) AS fire_id,
           jsonb_object_agg(
               jsonb_build_array(a.ended_group, a.ended_name)::text,
               jsonb_build_object('job_group', a.ended_group, 'job_name', a.ended_name, 'fire_id', e.fire_id,
                                  'outcome', e.outcome, 'result', e.result::jsonb)
               ORDER BY jsonb_exists(j.after -> 'outcomes', e.outcome), e.fire_id)
               FILTER (WHERE j.after IS NOT NULL
                         AND (jsonb_exists(j.after -> 'outcomes', e.outcome)
                              OR NOT coalesce(jsonb_exists(j.after -> 'outcomes',
                                  j.ended -> jsonb_build_array(a.ended_group, a.ended_name)::text ->> 'outcome'),
                                  false))) AS ended,
           count(*) FILTER (WHERE e.outcome = 'SUCCEEDED') AS succeeded,
           count(*) FILTER (WHERE e.outcome <> 'SUCCEEDED') AS failed
      FROM arrivals a
      JOIN (SELECT fire_id, outcome, result FROM ended) AS e USING (fire_id)
      JOIN joins j USING (job_group, job_name, occasion)
     GROUP BY j.job_group, j.job_name, j.occasion
),
decided AS MATERIALIZED (
    SELECT s.*,
           CASE WHEN s.former = 'FIRED' OR (s.former = 'UNMET' AND s.after IS NULL) THEN s.former
                WHEN s.after IS NOT NULL
                THEN CASE WHEN (SELECT count(*)
                                  FROM jsonb_array_elements(s.after -> 'jobs') AS up(spec)
                                 WHERE jsonb_exists(s.after -> 'outcomes',
                                           s.ended -> jsonb_build_array(up.spec ->> 'job_group',
                                                                        up.spec ->> 'job_name')::text ->> 'outcome')
                               ) >= (s.after ->> 'needed')::int THEN 'FIRED' ELSE 'WAITING' END
                WHEN s.succeeded + s.failed + s.removed < s.total THEN 'WAITING'
                WHEN jsonb_exists(s.outcomes, 'FAILED')
                     AND (s.failed + s.removed > 0 OR jsonb_exists(s.outcomes, 'SUCCEEDED'))
                     OR s.failed + s.removed = 0 AND jsonb_exists(s.outcomes, 'SUCCEEDED') THEN 'FIRED'
                ELSE 'UNMET' END AS state
      FROM (SELECT j.job_group, j.job_name, j.occasion, j.row, j.after, j.state AS former, j.total, j.outcomes,
                   CASE WHEN j.after IS NOT NULL
                        THEN coalesce(j.ended, '{}') || coalesce(a.ended, '{}') END AS ended,
                   coalesce(j.succeeded, 0) + a.succeeded AS succeeded, coalesce(j.failed, 0) + a.failed AS failed,
                   coalesce(j.removed, 0) AS removed, a.fire_id
              FROM added a
              JOIN joins j USING (job_group, job_name, occasion)) AS s
),
counted AS (
    UPDATE qrtz_joins j
       SET state = d.state, ended = d.ended, succeeded = d.succeeded, failed = d.failed, last_end_at = :now,
           fire_id = CASE WHEN d.state = 'FIRED' AND d.former <> 'FIRED' THEN d.fire_id ELSE j.fire_id END,
           due_at = CASE WHEN d.state = 'WAITING' THEN j.due_at END
      FROM decided d
     WHERE j.ctid = d.row
)
INSERT INTO qrtz_joins (sched_name, job_group, job_name, occasion, state, opened_at, last_end_at, ended, succeeded,
                        failed, fire_id, due_at)
SELECT :'sched', d.job_group, d.job_name, d.occasion, d.state, :now, :now, d.ended, d.succeeded, d.failed,
       CASE WHEN d.state = 'FIRED' THEN d.fire_id END,
       CASE WHEN d.state = 'WAITING' THEN :now + (d.after ->> 'within_us')::bigint * interval '1 microsecond' END
  FROM decided d
 WHERE d.row IS NULL;

-- name: start_joined
-- Starts the jobs that have waited for the last of these ends: a join that is met names the end that met it. The jobs
-- that follow the same end are numbered, so that each has a trigger of its own. A job that runs after others counts for
-- the instant of the occasion, or for the beginning of the day; the end of a batch has no instant but its own.
WITH
-- include: ended
-- include: arrivals
successors AS (
    SELECT a.fire_id,
           CASE WHEN a.after IS NULL THEN 'batch_' ELSE 'join_' END
               || row_number() OVER (PARTITION BY a.fire_id ORDER BY a.job_group, a.job_name, a.occasion) AS place,
           CASE a.after ->> 'per'
                WHEN 'instant' THEN a.occasion::timestamptz
                WHEN 'day' THEN a.occasion::timestamp AT TIME ZONE (a.after ->> 'time_zone')
                ELSE :now END AS instant,
           jsonb_build_object('QRTZ_JOINED', jsonb_build_object(
               'occasion', a.occasion, 'succeeded', met.succeeded, 'failed', met.failed, 'removed', met.removed,
               'ended', coalesce((SELECT jsonb_agg(entry.value) FROM jsonb_each(met.ended) AS entry), '[]')))
               AS link_data,
           job.*
      FROM arrivals a
     CROSS JOIN LATERAL (
        SELECT o.succeeded, o.failed, o.removed, o.ended FROM qrtz_joins o
         WHERE o.sched_name = :'sched' AND o.job_group = a.job_group AND o.job_name = a.job_name
           AND o.occasion = a.occasion AND o.state = 'FIRED' AND o.fire_id = a.fire_id
         LIMIT 1) AS met
     CROSS JOIN LATERAL (
        SELECT j.job_group, j.job_name,
               -- include: copied_of_j
               , j.mode, j.concurrency_key, j.job_data
          FROM qrtz_job_details j
         WHERE j.sched_name = :'sched' AND j.job_group = a.job_group AND j.job_name = a.job_name
           FOR NO KEY UPDATE) AS job
),
continued AS (
    -- include: continued
      JOIN ended AS f USING (fire_id)
    RETURNING trigger_state, next_fire_time
),
waiting AS (SELECT next_fire_time FROM continued WHERE trigger_state = 'WAITING')
-- include: wakes
;
