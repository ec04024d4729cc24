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
-- was announced. No row: the epoch is no longer registered.
WITH node AS MATERIALIZED (
    SELECT sched_name, epoch FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
),
said AS (
    INSERT INTO qrtz_node_keys AS k (sched_name, epoch, job_type, placement, runs)
    SELECT node.sched_name, node.epoch, w.job_type, w.placement, w.runs
      FROM node
     CROSS JOIN unnest(:'job_types'::text[], :'placements'::text[], :'runs'::bool[]) AS w(job_type, placement, runs)
        ON CONFLICT (epoch, job_type, placement) DO UPDATE SET runs = excluded.runs WHERE k.runs <> excluded.runs
)
SELECT epoch FROM node;

-- name: note_accepted
-- What the node runs now, after `decide`. If the row is locked, a step looks up what is new. It passes over what the node
-- has just refused in any case. Of more keys than `most_hashes`, none is noted, and no more are read.
UPDATE qrtz_scheduler_state s
   SET accepted_keys = (SELECT array_agg(said.key_hash ORDER BY said.key_hash) FILTER (WHERE said.runs)
                          FROM (SELECT
                                       -- include: key_hash
                                       AS key_hash, t.runs
                                  FROM qrtz_node_keys t
                                 WHERE t.epoch = :'epoch'::bigint
                                 LIMIT :'most_hashes'::int + 1) AS said
                        HAVING count(*) <= :'most_hashes'::int)
  FROM (SELECT o.ctid AS row FROM qrtz_scheduler_state o
         WHERE o.sched_name = :'sched' AND o.instance_id = :'instance' AND o.epoch = :'epoch'::bigint
           FOR NO KEY UPDATE SKIP LOCKED) AS held
 WHERE s.ctid = held.row;

-- name: forget
-- What nodes have said that are no longer registered.
DELETE FROM qrtz_node_keys k
 WHERE k.sched_name = :'sched'
   AND NOT EXISTS (SELECT FROM qrtz_scheduler_state s
                    WHERE s.sched_name = k.sched_name AND s.epoch = k.epoch);

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
