-- name: database
SELECT d.oid::bigint, d.datname::text, has_function_privilege('pg_control_system()', 'EXECUTE')
  FROM pg_catalog.pg_database d WHERE d.datname = current_database();

-- name: system
SELECT system_identifier::text FROM pg_control_system();

-- name: recorded
SELECT system_identifier, database_oid, database_name, adopted_at FROM qrtz_identity;

-- name: record
INSERT INTO qrtz_identity (id, system_identifier, database_oid, database_name, adopted_at, adopted_by)
VALUES (1, :'system', :'oid'::bigint, :'database', clock_timestamp(), :'by')
    ON CONFLICT (id) DO NOTHING;

-- name: replace
INSERT INTO qrtz_identity AS i (id, system_identifier, database_oid, database_name, adopted_at, adopted_by)
VALUES (1, :'system', :'oid'::bigint, :'database', clock_timestamp(), :'by')
    ON CONFLICT (id) DO UPDATE
   SET system_identifier = excluded.system_identifier, database_oid = excluded.database_oid,
       database_name = excluded.database_name, adopted_at = excluded.adopted_at, adopted_by = excluded.adopted_by;

-- name: live_nodes
SELECT DISTINCT s.instance_id FROM qrtz_scheduler_state s WHERE s.last_checkin + s.failure_window >= clock_timestamp()
 ORDER BY s.instance_id LIMIT 5;

-- name: advance_fire_ids
SELECT setval('qrtz_fire_ids', nextval('qrtz_fire_ids') + 100000000);

-- name: advance_epochs
SELECT setval('qrtz_epochs', nextval('qrtz_epochs') + 1000000);

-- name: forget_nodes
-- The nodes of the former database that are silent here. What they ran is recovered by the next node that looks.
DELETE FROM qrtz_scheduler_state s WHERE s.last_checkin + s.failure_window < clock_timestamp()
RETURNING s.sched_name, s.instance_id;

-- name: forget_submissions
-- What runs on an engine is the former database's. No node here may watch it, or stop it, and no worker writes here.
UPDATE qrtz_fired_triggers SET submission = NULL, worker = NULL WHERE submission IS NOT NULL AND ending IS NULL;
