-- name: save
-- Stores the facts of a node, and by how many seconds its clock is ahead of the database's.
UPDATE qrtz_scheduler_state
   SET facts = :'facts'::jsonb || jsonb_build_object(
       :'clock_ahead'::text, round((:'wall'::float8 - extract(epoch FROM clock_timestamp())::float8)::numeric, 3))
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: save_zones
-- Adds the digests of the rules by which a node computes in time zones, by the names of the zones.
UPDATE qrtz_scheduler_state
   SET facts = coalesce(facts, '{}') || jsonb_build_object(:'zones_entry'::text, :'zones_json'::jsonb)
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint;

-- name: read
-- The facts of the nodes without those of their job types, which may be many.
SELECT instance_id, (facts - :'types_entry'::text)::text
  FROM qrtz_scheduler_state WHERE sched_name = :'sched' ORDER BY instance_id;

-- name: started
SELECT pg_postmaster_start_time();

-- name: read_types
SELECT instance_id, coalesce(facts -> :'types_entry'::text, '{}')::text
  FROM qrtz_scheduler_state WHERE sched_name = :'sched' ORDER BY instance_id;
