-- The planner is steered here: see docs/planner.md.

-- name: check_in
-- Renews the lease, and stores what the node finds wrong with itself. No row: the epoch no longer exists.
UPDATE qrtz_scheduler_state
   SET back_since = CASE WHEN :now - last_checkin > 2 * checkin_interval THEN :now ELSE back_since END,
       last_checkin = :now, checkin_count = checkin_count + 1,
       problems = :'problems'::jsonb
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
RETURNING epoch;

-- name: nodes
SELECT instance_id, epoch, host, pid, started_at, last_checkin, checkin_count, checkin_interval,
       failure_window, process, capabilities::text, mode, mode_since, back_since, problems::text
  FROM qrtz_scheduler_state
 WHERE sched_name = :'sched'
 ORDER BY instance_id;

-- name: publish
UPDATE qrtz_scheduler_state SET capabilities = :'capabilities'::jsonb
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: decide
-- Lock: TRIGGER_ACCESS. An announcement of another transaction sees what this node has refused, or this node sees what
-- was announced. No row: the epoch is no longer registered. If another transaction has locked the node's row, nothing is
-- stored: the cluster does not wait for it.
WITH said AS MATERIALIZED (
    SELECT DISTINCT ON (key_hash) s.key_hash, s.is_run
      FROM (SELECT
                   -- include: key_hash
                   AS key_hash, t.is_run
              FROM unnest(:'job_types'::text[], :'placements'::text[], :'runs'::bool[])
                   AS t(job_type, placement, is_run)) AS s
),
own AS MATERIALIZED (
    SELECT o.ctid AS row, o.runs, o.refuses FROM qrtz_scheduler_state o
     WHERE o.sched_name = :'sched' AND o.instance_id = :'instance' AND o.epoch = :'epoch'::bigint
       FOR NO KEY UPDATE SKIP LOCKED
),
decided AS (
    UPDATE qrtz_scheduler_state s
       SET runs = keys.runs, refuses = keys.refuses
      FROM own
     CROSS JOIN LATERAL (
        SELECT coalesce(array_agg(k.key_hash ORDER BY k.key_hash) FILTER (WHERE k.is_run), '{}') AS runs,
               coalesce(array_agg(k.key_hash ORDER BY k.key_hash) FILTER (WHERE NOT k.is_run), '{}') AS refuses
          FROM (SELECT key_hash, is_run FROM said
                UNION ALL
                SELECT before.key_hash, before.is_run
                  FROM (SELECT unnest(own.runs), true UNION ALL SELECT unnest(own.refuses), false)
                       AS before(key_hash, is_run)
                 WHERE before.key_hash NOT IN (SELECT key_hash FROM said)) AS k) AS keys
     WHERE s.ctid = own.row
    RETURNING s.epoch
)
SELECT EXISTS (SELECT FROM decided) FROM qrtz_scheduler_state n
 WHERE n.sched_name = :'sched' AND n.instance_id = :'instance' AND n.epoch = :'epoch'::bigint;

-- name: replace_silent
-- Locks: STATE_ACCESS, TRIGGER_ACCESS. An older epoch of this id is removed if it has been silent for its own stored
-- window, or if its process is known to have ended.
DELETE FROM qrtz_scheduler_state
 WHERE sched_name = :'sched' AND instance_id = :'instance'
   AND (last_checkin < :now - failure_window OR epoch = :'ended_epoch'::bigint);

-- name: register
-- Begins an epoch. No row: another node uses the id.
INSERT INTO qrtz_scheduler_state
       (sched_name, instance_id, epoch, host, pid, started_at, last_checkin, checkin_count, checkin_interval,
        failure_window, process)
SELECT :'sched', :'instance', nextval('qrtz_epochs'), :'host', :'pid'::bigint, :now, :now, 0,
       :'checkin_interval'::interval, :'window'::interval, :'process'
    ON CONFLICT (sched_name, instance_id) DO NOTHING
RETURNING epoch;

-- name: leave
-- After its departure, a node executes nothing.
DELETE FROM qrtz_scheduler_state
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: subtract_node_deaths
-- Subtracts node deaths.
UPDATE qrtz_job_details j
   SET node_deaths = j.node_deaths - 1,
       -- include: prepared_once_of_job
  FROM (SELECT o.ctid AS row
          FROM unnest(:'groups'::text[], :'names'::text[]) AS k(job_group, job_name)
         CROSS JOIN LATERAL (
            SELECT d.ctid FROM qrtz_job_details d
             WHERE d.sched_name = :'sched' AND d.job_group = k.job_group AND d.job_name = k.job_name
               AND d.node_deaths + 0 > 0 AND NOT d.is_stopping
               FOR NO KEY UPDATE SKIP LOCKED) AS o) AS held
 WHERE j.ctid = held.row;

-- name: set_mode
-- The instant rises with each change, even if the clock of a new primary is behind: by it, a node tells a command that
-- it has not carried out yet from an older one.
WITH commanded AS (
    UPDATE qrtz_scheduler_state
       SET mode = :'node_mode', mode_since = greatest(:now, mode_since + interval '1 microsecond')
     WHERE sched_name = :'sched' AND instance_id = :'instance'
    RETURNING mode_since
), notified AS (
    SELECT pg_notify(:'channel', :'news') WHERE EXISTS (SELECT FROM commanded)
)
SELECT mode_since FROM commanded LEFT JOIN notified ON true;
