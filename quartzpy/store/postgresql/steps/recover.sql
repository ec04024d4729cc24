-- The planner is steered here: see docs/planner.md.

-- EXISTS ends with OFFSET 0 where it looks its row up by the key, once for each row: a plan that was made for a small
-- table may else read the whole table into a hash.

-- name: guard
-- No row means that the epoch is no longer registered.
SELECT :now FROM qrtz_scheduler_state
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: record_lost
-- What the nodes that are removed next have held, for the operators who ask later. An execution that was asked to stop
-- does not run again, and none whose job is gone.
INSERT INTO qrtz_audit (id, sched_name, at, ended_at, actor, role, action, subject, reason, state, count, before, after)
SELECT nextval('qrtz_fire_ids'), s.sched_name, :now, :now, :'instance', 'node', 'lost', left('node ' || s.instance_id, 500),
       '', 'SUCCEEDED', held.repeated + held.lost,
       jsonb_build_object('host', s.host, 'pid', s.pid, 'epoch', s.epoch, 'last_checkin', s.last_checkin),
       jsonb_build_object('repeated', held.repeated, 'lost', held.lost)
  FROM unnest(:'instances'::text[], :'epochs'::bigint[], :'counts'::bigint[]) AS d(instance_id, epoch, checkin_count)
  JOIN qrtz_scheduler_state s
    ON s.sched_name = :'sched' AND s.instance_id = d.instance_id AND s.epoch = d.epoch
   AND s.checkin_count = d.checkin_count
 CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE c.runs_again) AS repeated, count(*) FILTER (WHERE NOT c.runs_again) AS lost
      FROM (SELECT o.epoch,
                   o.requests_recovery AND o.cancel_requested IS FALSE
                   AND EXISTS (SELECT FROM qrtz_job_details j
                                WHERE j.sched_name = o.sched_name AND j.job_group = o.job_group
                                  AND j.job_name = o.job_name OFFSET 0) AS runs_again
              FROM qrtz_fired_triggers o
             WHERE o.sched_name = :'sched'
               -- include: ends_with_node of o
           ) AS c
     WHERE c.epoch = s.epoch) AS held;

-- name: record_left
-- A node that ends by itself has nothing left to lose.
INSERT INTO qrtz_audit (id, sched_name, at, ended_at, actor, role, action, subject, reason, state, count, before, after)
SELECT nextval('qrtz_fire_ids'), s.sched_name, :now, :now, s.instance_id, 'node', 'left', left('node ' || s.instance_id, 500),
       '', 'SUCCEEDED', 0,
       jsonb_build_object('host', s.host, 'pid', s.pid, 'epoch', s.epoch, 'last_checkin', s.last_checkin),
       jsonb_build_object('repeated', 0, 'lost', 0)
  FROM qrtz_scheduler_state s
 WHERE s.sched_name = :'sched' AND s.instance_id = :'instance' AND s.epoch = :'epoch'::bigint;

-- name: remove_dead
-- Only nodes that have not checked in since they were judged dead.
DELETE FROM qrtz_scheduler_state s
 USING unnest(:'instances'::text[], :'epochs'::bigint[], :'counts'::bigint[]) AS d(instance_id, epoch, checkin_count)
 WHERE s.sched_name = :'sched' AND s.instance_id = d.instance_id AND s.epoch = d.epoch
   AND s.checkin_count = d.checkin_count
RETURNING s.instance_id;

-- name: end_sessions
-- Their open transactions hold locks on rows that recovery would have to skip, so each has a moment to end.
SELECT count(*) FILTER (WHERE pg_terminate_backend(a.pid, 100))
  FROM unnest(:'instances'::text[], :'epochs'::bigint[], :'counts'::bigint[], :'prefixes'::text[])
           AS d(instance_id, epoch, checkin_count, prefix)
  JOIN qrtz_scheduler_state s
    ON s.sched_name = :'sched' AND s.instance_id = d.instance_id AND s.epoch = d.epoch
   AND s.checkin_count = d.checkin_count
  JOIN pg_stat_activity a
    ON a.datname = current_database() AND a.usename = current_user AND a.pid <> pg_backend_pid()
   AND starts_with(a.application_name, d.prefix);

-- name: lost
-- The executions that have no owner as soon as these instances are gone, and which of them may run again. `record`, which
-- has the lock, asks again.
SELECT f.fire_id, f.requests_recovery AND NOT f.cancel_requested, f.trigger_group || '.' || f.trigger_name, f.instance_id
  FROM qrtz_fired_triggers f
 WHERE f.sched_name = :'sched'
   AND NOT EXISTS (SELECT FROM qrtz_scheduler_state s
                    WHERE s.sched_name = f.sched_name AND s.epoch = f.epoch
                      AND s.instance_id <> ALL(:'instances'::text[]))
   -- include: ends_with_node of f
 ORDER BY f.fire_id;

-- name: adoptable
-- Whether executions go on without an owner as soon as these instances are gone, and this node is to adopt them.
SELECT EXISTS (
    SELECT
    -- include: adoptable
);

-- name: adopt
-- Makes them this node's, which finds them when it compares what it has in hand. Limits, keys and a request to stop hold
-- as before. A row that its worker writes at this moment follows at the next check-in.
UPDATE qrtz_fired_triggers f
   SET epoch = :'epoch'::bigint, instance_id = :'instance'
  FROM (SELECT f.ctid AS row
        -- include: adoptable
           FOR NO KEY UPDATE OF f SKIP LOCKED) AS own
 WHERE f.ctid = own.row
RETURNING f.fire_id;

-- name: record
-- Records the ends of executions that no registered node holds, and locks the rows of their fires. One that is to run
-- again is recorded, too, until it has had its effects: see `forget_repeated`. One that was asked to stop does not run again, and
-- none whose job is gone.
WITH fires AS MATERIALIZED (
    SELECT f.*
      FROM unnest(:'fire_ids'::bigint[]) AS a(fire_id)
     CROSS JOIN LATERAL (
        SELECT r.* FROM qrtz_fired_triggers r
         WHERE r.fire_id = a.fire_id
           AND NOT EXISTS (SELECT FROM qrtz_scheduler_state s
                            WHERE s.sched_name = r.sched_name AND s.epoch = r.epoch)
           -- include: ends_with_node of r
         LIMIT 1
           FOR UPDATE SKIP LOCKED) AS f
),
recorded AS (
    INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, fired_time, scheduled_time, ended_at, outcome, error, attempt, trigger_data, log,
        retry_at)
    SELECT c.fire_id, c.sched_name, c.trigger_group, c.trigger_name, c.generation, c.job_group, c.job_name, c.job_type,
           c.instance_id, c.fired_time, c.scheduled_time, :now, 'TERMINATED', 'its node stopped while executing it',
           c.attempt, c.trigger_data, c.recent_log,
           CASE WHEN c.requests_recovery AND NOT c.cancel_requested
                     AND EXISTS (SELECT FROM qrtz_job_details j
                                  WHERE j.sched_name = c.sched_name AND j.job_group = c.job_group
                                    AND j.job_name = c.job_name
                                 OFFSET 0) THEN :now END
      FROM fires c
        ON CONFLICT DO NOTHING
    RETURNING fire_id
),
-- include: twice
SELECT fire_id FROM twice;

-- name: count_deaths
-- Counts the deaths of nodes for the jobs that were running on them.
WITH
-- include: ended
killed AS (SELECT DISTINCT job_group, job_name FROM ended WHERE epoch = ANY(:'died'::bigint[]))
UPDATE qrtz_job_details j
   SET node_deaths = j.node_deaths + 1,
       -- include: prepared_once_of_job
  FROM killed k
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM qrtz_job_details o
     WHERE o.sched_name = :'sched' AND o.job_group = k.job_group AND o.job_name = k.job_name
       FOR NO KEY UPDATE SKIP LOCKED) AS own
 WHERE j.ctid = own.row;

-- name: forget_repeated
-- An execution that runs again has not ended: the one that repeats it will.
DELETE FROM qrtz_executions e
 USING unnest(:'fire_ids'::bigint[]) AS a(fire_id)
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row FROM qrtz_executions o
     WHERE o.fire_id = a.fire_id AND o.outcome || '' = 'TERMINATED' AND o.retry_at IS NOT NULL LIMIT 1) AS own
 WHERE e.ctid = own.row
RETURNING a.fire_id;

-- name: quarantine
-- After the ends, because it changes triggers that these have just stored. A recovery
-- trigger becomes ERROR as well, and runs when somebody resets it, so that no fire is lost. The count restarts.
-- Few triggers change here, under the lock. If there are more, only the recovery triggers do, which nobody may fire; the
-- jobs are marked, and the others follow in slices: see `stop_slice`.
WITH deadly AS MATERIALIZED (
    SELECT o.ctid AS row, o.job_group, o.job_name, o.node_deaths AS deaths FROM qrtz_job_details o
     WHERE o.sched_name = :'sched' AND o.node_deaths > 0 AND o.node_deaths >= :'max_deaths'::int AND NOT o.is_stopping
       FOR NO KEY UPDATE SKIP LOCKED
),
-- So many of their triggers that it shows whether there are too many.
some_triggers AS MATERIALIZED (
    SELECT t.row, t.trigger_state, d.deaths
      FROM deadly d
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.trigger_state FROM qrtz_triggers o
         WHERE o.sched_name = :'sched' AND o.job_group = d.job_group AND o.job_name = d.job_name
         LIMIT :'most'::int + 1) AS t
     LIMIT :'most'::int + 1
),
number AS MATERIALIZED (SELECT count(*) <= :'most'::int AS is_small FROM some_triggers),
affected AS MATERIALIZED (
    SELECT s.row, s.deaths FROM some_triggers s
     WHERE s.trigger_state NOT IN ('COMPLETE', 'ERROR') AND (SELECT is_small FROM number)
    UNION ALL
    SELECT r.row, d.deaths
      FROM (SELECT o.ctid AS row, o.job_group, o.job_name FROM qrtz_triggers o
             WHERE o.sched_name = :'sched' AND o.trigger_group = 'RECOVERING_JOBS'
               AND o.trigger_state || '' NOT IN ('COMPLETE', 'ERROR') AND NOT (SELECT is_small FROM number)
            OFFSET 0) AS r
      JOIN deadly d USING (job_group, job_name)
),
stopped AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'ERROR', fire_id = NULL,
           error = own.deaths || ' nodes died in a row while they executed its job (max_node_deaths)',
           -- include: prepared_once
      FROM (SELECT a.row, a.deaths
              FROM affected a
             CROSS JOIN LATERAL (
                SELECT FROM qrtz_triggers o WHERE o.ctid = a.row FOR NO KEY UPDATE SKIP LOCKED) AS free) AS own
     WHERE t.ctid = own.row
    RETURNING t.generation
),
-- A trigger whose row another transaction holds follows in a slice.
result AS MATERIALIZED (
    SELECT is_small AND (SELECT count(*) FROM stopped) = (SELECT count(*) FROM affected) AS is_whole FROM number
),
quarantined_jobs AS (
    UPDATE qrtz_job_details j
       SET node_deaths = CASE WHEN result.is_whole THEN 0 ELSE j.node_deaths END, is_stopping = NOT result.is_whole,
           -- include: prepared_once_of_job
      FROM deadly, result
     WHERE j.ctid = deadly.row
    RETURNING j.job_group, j.job_name, j.is_stopping
)
SELECT job_group, job_name, is_stopping FROM quarantined_jobs ORDER BY 1, 2;

-- name: stopping
SELECT job_group, job_name FROM qrtz_job_details
 WHERE sched_name = :'sched' AND node_deaths > 0 AND is_stopping;

-- name: stop_slice
-- Sets a slice of the triggers of jobs that are stopping to ERROR. What others hold is passed
-- over, and the jobs stay marked.
WITH stopped AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'ERROR', fire_id = NULL,
           error = own.deaths || ' nodes died in a row while they executed its job (max_node_deaths)',
           -- include: prepared_once
      FROM (SELECT o.row, job.deaths
              FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[])
                   AS k(trigger_group, trigger_name, generation)
             CROSS JOIN LATERAL (
                SELECT c.ctid AS row, c.job_group, c.job_name FROM qrtz_triggers c
                 WHERE c.sched_name = :'sched' AND c.trigger_group = k.trigger_group AND c.trigger_name = k.trigger_name
                   AND c.generation = k.generation AND c.trigger_state || '' NOT IN ('COMPLETE', 'ERROR')
                   FOR NO KEY UPDATE SKIP LOCKED) AS o
             CROSS JOIN LATERAL (
                SELECT j.node_deaths AS deaths FROM qrtz_job_details j
                 WHERE j.sched_name = :'sched' AND j.job_group = o.job_group AND j.job_name = o.job_name AND j.is_stopping
                 LIMIT 1) AS job) AS own
     WHERE t.ctid = own.row
    RETURNING t.generation
)
SELECT generation FROM stopped;

-- name: all_stopped
-- Removes the mark of jobs of which no trigger is left to stop.
UPDATE qrtz_job_details j
   SET node_deaths = 0, is_stopping = false,
       -- include: prepared_once_of_job
  FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
 WHERE j.sched_name = :'sched' AND j.job_group = k.job_group AND j.job_name = k.job_name AND j.is_stopping
   AND NOT EXISTS (SELECT FROM qrtz_triggers t
                    WHERE t.sched_name = :'sched' AND t.job_group = k.job_group AND t.job_name = k.job_name
                      AND t.trigger_state || '' NOT IN ('COMPLETE', 'ERROR') OFFSET 0);

-- name: stuck
WITH RECURSIVE
-- include: stuck
SELECT trigger_group, trigger_name, trigger_state, job_group, job_name FROM stuck;

-- name: anything_stuck
-- A check without a lock whether there is anything to repair; almost always there is nothing.
WITH RECURSIVE
-- include: stuck
SELECT EXISTS (SELECT FROM stuck),
       EXISTS (SELECT FROM qrtz_job_details j WHERE j.sched_name = :'sched' AND j.node_deaths > 0 AND j.is_stopping);

-- name: open_gates
-- The gates at which triggers are parked although nothing holds them, without a lock: the node that was to look there has
-- died, or what it has let wait was taken away. And those at rates of which nobody knows when they open. Loose index scans.
WITH RECURSIVE node AS MATERIALIZED (SELECT :now AS at),
parked AS (
    (SELECT job_group, job_name, concurrency_key FROM qrtz_triggers
      WHERE sched_name || '' = :'sched' AND trigger_state = 'BLOCKED'
      ORDER BY job_group || '', job_name || '', concurrency_key || '' LIMIT 1)
    UNION ALL
    SELECT other.*
      FROM parked p
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED'
           AND (t.job_group || '', t.job_name || '', t.concurrency_key || '')
               > (p.job_group, p.job_name, p.concurrency_key)
         ORDER BY t.job_group || '', t.job_name || '', t.concurrency_key || '' LIMIT 1) AS other
),
-- include: parked_sets
,
taken AS MATERIALIZED (
    SELECT n.name, count(*) AS number
      FROM qrtz_fired_triggers f
     CROSS JOIN unnest(string_to_array(f.limits, ',')) AS n(name)
     WHERE f.sched_name || '' = :'sched' AND f.limits IS NOT NULL
     GROUP BY n.name
),
open_limits AS MATERIALIZED (
    SELECT asked.name
      FROM node
     CROSS JOIN (SELECT DISTINCT n.name FROM parked_sets s CROSS JOIN unnest(string_to_array(s.limits, ',')) AS n(name)) AS asked
     CROSS JOIN LATERAL (
        SELECT l.max_concurrent, l.rate_limit, l.tat, l.opens_at FROM qrtz_limits l
         WHERE l.sched_name = :'sched' AND l.limit_name = asked.name
           AND l.job_group = '' AND l.job_name = '' AND l.concurrency_key = '' LIMIT 1) AS stored
     CROSS JOIN LATERAL (SELECT stored.rate_limit) AS slots
     CROSS JOIN LATERAL (
        -- include: rate
       ) AS rate
      LEFT JOIN taken ON taken.name = asked.name
     WHERE coalesce(stored.max_concurrent > coalesce(taken.number, 0), true)
       AND (coalesce(rate.admits > 0, true) OR stored.opens_at IS NULL)
)
(SELECT p.job_group, p.job_name, p.concurrency_key, ''
   FROM node
  CROSS JOIN parked p
  CROSS JOIN LATERAL (
     SELECT b.max_concurrent, b.rate_limit FROM qrtz_triggers b
      WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = p.job_group AND b.job_name || '' = p.job_name
        AND b.concurrency_key || '' = p.concurrency_key AND b.trigger_state = 'BLOCKED'
        AND coalesce(left(b.parked_at, 0), b.misfire_rule) > '' LIMIT 1) AS slots
  CROSS JOIN LATERAL (
     SELECT count(*) AS running FROM qrtz_fired_triggers r
      WHERE r.sched_name = :'sched' AND r.job_group = p.job_group AND r.job_name = p.job_name
        AND r.concurrency_key = p.concurrency_key AND r.max_concurrent IS NOT NULL
  ) AS executions
   LEFT JOIN LATERAL (
     SELECT l.tat, l.opens_at FROM qrtz_limits l
      WHERE l.sched_name = :'sched' AND l.limit_name = '' AND l.job_group = p.job_group AND l.job_name = p.job_name
        AND l.concurrency_key = p.concurrency_key AND slots.rate_limit IS NOT NULL LIMIT 1) AS stored ON true
  CROSS JOIN LATERAL (
     -- include: rate
    ) AS rate
  WHERE num_nonnulls(slots.max_concurrent, slots.rate_limit) > 0
    AND coalesce(slots.max_concurrent > executions.running, true)
    AND (coalesce(rate.admits > 0, true) OR stored.opens_at IS NULL)
  LIMIT 1000)
UNION ALL
(SELECT '', '', '', s.limits FROM parked_sets s
  WHERE string_to_array(s.limits, ',') <@ ARRAY(SELECT name FROM open_limits)
  LIMIT 1000);

-- name: repair
WITH RECURSIVE
-- include: stuck
,
locked AS MATERIALIZED (
    SELECT s.*
      FROM stuck s
     CROSS JOIN LATERAL (
        SELECT FROM qrtz_triggers o
         WHERE o.ctid = s.row AND o.trigger_state || '' = s.trigger_state FOR UPDATE SKIP LOCKED) AS free
),
freed AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'WAITING', fire_id = NULL,
           -- include: prepared_once
      FROM locked l
     WHERE t.ctid = l.row AND l.trigger_state <> 'COMPLETE'
),
deleted AS (
    -- One of a batch that was skipped is counted first; see `leave`.
    DELETE FROM qrtz_triggers t USING locked l
     WHERE t.ctid = l.row AND l.trigger_state = 'COMPLETE'
       AND NOT (t.prev_fire_time IS NULL AND jsonb_exists(coalesce(t.job_data, '{}'), 'QRTZ_BATCH')
                AND NOT jsonb_exists(t.job_data -> 'QRTZ_BATCH', 'left'))
)
SELECT trigger_state, job_group, job_name FROM locked;

-- name: present_epoch
-- The present epoch of an instance id that is wanted. If it is removed, it counts as dead.
SELECT epoch FROM qrtz_scheduler_state WHERE sched_name = :'sched' AND instance_id = :'instance';
