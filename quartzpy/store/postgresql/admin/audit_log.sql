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
       (after ->> 'released')::bigint, (after ->> 'repeated')::bigint, (after ->> 'lost')::bigint
  FROM (SELECT * FROM qrtz_audit
         WHERE sched_name = :'sched' AND at >= :now - interval '1 day'
         ORDER BY at DESC LIMIT :'among'::int) AS latest
 WHERE role = 'node' AND action IN ('lost', 'left')
 ORDER BY at DESC, id DESC LIMIT :'limit'::int;
