-- The planner is steered here: see docs/planner.md.

-- name: record
INSERT INTO qrtz_audit (id, sched_name, at, ended_at, actor, role, action, subject, reason, state, count, before, after,
                        error, updated_at)
SELECT nextval('qrtz_fire_ids'), :'sched', :now, CASE WHEN state <> 'RUNNING' THEN :now END,
       actor, role, action, subject, reason, state, count, before::jsonb, after::jsonb, error,
       CASE WHEN state = 'RUNNING' THEN :now END
  FROM unnest(:'actors'::text[], :'roles'::text[], :'action_names'::text[], :'subjects'::text[], :'reasons'::text[],
              :'action_states'::text[], :'changed'::bigint[], :'befores'::text[], :'afters'::text[], :'errors'::text[])
       WITH ORDINALITY AS entry(actor, role, action, subject, reason, state, count, before, after, error, number)
 ORDER BY number
RETURNING id;

-- name: update
-- The count never falls: a slice whose answer was lost has raised it beyond the count that the caller knows of.
UPDATE qrtz_audit
   SET state = :'state'::text, count = greatest(count, :'count'::bigint),
       ended_at = CASE WHEN :'state'::text <> 'RUNNING' THEN :now END,
       updated_at = CASE WHEN :'state'::text = 'RUNNING' THEN :now END,
       after = coalesce(:'after_json'::jsonb, after), error = :'error'
 WHERE sched_name = :'sched' AND id = :'action_id'::bigint AND state IN ('RUNNING', 'INTERRUPTED');

-- name: node_ends
-- The nodes that were lost or that left within a day, among the latest entries.
SELECT subject, at, action, actor, before ->> 'host', (before ->> 'pid')::bigint, (before ->> 'last_checkin')::timestamptz,
       (after ->> 'repeated')::bigint, (after ->> 'lost')::bigint
  FROM (SELECT * FROM qrtz_audit
         WHERE sched_name = :'sched' AND at >= :now - interval '1 day'
         ORDER BY at DESC LIMIT :'among'::int) AS latest
 WHERE role = 'node' AND action IN ('lost', 'left')
 ORDER BY at DESC, id DESC LIMIT :'limit'::int;

-- name: ended_pauses
-- The pauses of operators that began before the end of a span and ended after its start, with what they are about: a row
-- for each job, and one for a whole group of jobs, or one with neither if everything was paused. Only pauses among the
-- latest entries before that end are seen. A pause ends when the same is resumed, or what it is part of, which is
-- one of the next 100 entries about that.
WITH
\if :of_everything
\else
-- Whether one may have ended after the start: usually nothing was resumed since then.
resumed AS MATERIALIZED (
    SELECT coalesce(bool_or(action = 'resume' AND state = 'SUCCEEDED'), false) OR count(*) = :'limit'::int AS is_possible
      FROM (SELECT action, state FROM qrtz_audit
             WHERE sched_name = :'sched' AND at >= :'start'::timestamptz
             ORDER BY at LIMIT :'limit'::int) AS since
),
\endif
pauses AS (
    SELECT id, at, actor, reason, subject,
           CASE WHEN subject ~ '^(trigger|job) group ' THEN substr(subject, strpos(subject, ' group ') + 7)
                WHEN subject ~ '^(trigger|job) [^.]+[.][^.]+$' THEN split_part(substr(subject, strpos(subject, ' ') + 1), '.', 1)
           END AS of_group,
           CASE WHEN subject ~ '^(trigger|job) (?!group )[^.]+[.][^.]+$' THEN split_part(subject, '.', 2) END AS of_name
      FROM (SELECT * FROM qrtz_audit
             WHERE at < :'end'::timestamptz
             \if :of_everything
               -- Few entries are about everything, and only the index by subject finds them.
               AND subject = 'everything' AND sched_name || '' = :'sched'
             ORDER BY id DESC
             \else
               AND sched_name = :'sched'
             ORDER BY at DESC
             \endif
             LIMIT :'among'::int) AS latest
     WHERE action = 'pause' AND state = 'SUCCEEDED'
\if :of_everything
\else
       AND (SELECT is_possible FROM resumed)
\endif
     ORDER BY at DESC LIMIT :'limit'::int
),
subjects AS (
    SELECT p.id, p.subject, p.at, p.actor, p.reason, j.job_group, j.job_name
      FROM pauses p
      LEFT JOIN LATERAL (
        SELECT p.of_group AS job_group, p.of_name AS job_name WHERE p.subject LIKE 'job %'
         UNION ALL
        (SELECT d.job_group, d.job_name FROM qrtz_job_details d
          WHERE p.subject LIKE 'job group %' AND d.sched_name = :'sched' AND d.job_group = p.of_group
          ORDER BY d.job_name LIMIT 100)
         UNION ALL
        (SELECT t.job_group, t.job_name FROM qrtz_triggers t
          WHERE p.subject LIKE 'trigger %' AND t.sched_name = :'sched'
            AND t.trigger_group = p.of_group AND t.trigger_name = p.of_name)
         UNION ALL
        (SELECT DISTINCT first.job_group, first.job_name
           FROM (SELECT t.job_group, t.job_name FROM qrtz_triggers t
                  WHERE p.subject LIKE 'trigger group %' AND t.sched_name = :'sched' AND t.trigger_group = p.of_group
                  ORDER BY t.trigger_name LIMIT 1000) AS first
          LIMIT 100)
      ) AS j ON true
     WHERE j.job_group IS NOT NULL OR p.subject = 'everything'
)
-- What was paused twice before it was resumed was paused once.
SELECT DISTINCT ON (r.id, s.subject, s.job_group, s.job_name)
       s.subject, s.job_group, s.job_name, s.at, r.at, s.actor, r.actor, s.reason
  FROM subjects s
 CROSS JOIN LATERAL (
    SELECT ended.id, ended.at, ended.actor
      FROM unnest(ARRAY[s.subject, 'everything',
                        CASE WHEN s.subject LIKE 'trigger %' AND s.subject NOT LIKE 'trigger group %'
                             THEN 'trigger group ' || split_part(substr(s.subject, 9), '.', 1) END,
                        'job ' || s.job_group || '.' || s.job_name, 'job group ' || s.job_group]) AS other(subject)
     CROSS JOIN LATERAL (
        SELECT a.id, a.at, a.actor
          FROM (SELECT * FROM qrtz_audit
                 WHERE sched_name = :'sched' AND subject = other.subject AND id > s.id ORDER BY id LIMIT 100) AS a
         WHERE a.action = 'resume' AND a.state = 'SUCCEEDED'
         ORDER BY a.id LIMIT 1) AS ended
     ORDER BY ended.id LIMIT 1) AS r
 WHERE r.at >= :'start'::timestamptz
 ORDER BY r.id, s.subject, s.job_group, s.job_name, s.id;
