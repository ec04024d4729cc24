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

-- name: page
-- The actions that match all filters, the latest first; with `examined` those among the first `among` that have the
-- subject, the state and the time. With `last`, the id of the last one that is examined. The scheduler as an expression
-- prevents the planner, when it has no statistics, from reading all actions for those of one subject.
\if :count
SELECT count(*) FROM (
\endif
\if :last
SELECT id
\else
SELECT id, at, ended_at, actor, role, action, subject, reason, state, count, before::text, after::text, error,
       updated_at
\endif
  FROM (SELECT * FROM qrtz_audit
\if :of_subject
         WHERE sched_name || '' = :'sched' AND subject = :'subject'
\else
         WHERE sched_name = :'sched'
\endif
\if :since
           -- Ids increase with time, except where a standby whose clock was behind became the primary.
           AND at >= :'since'::timestamptz
           AND id >= (SELECT id FROM qrtz_audit
                       WHERE sched_name = :'sched' AND at >= :'since'::timestamptz - interval '1 hour'
                       ORDER BY at LIMIT 1)
\endif
\if :until
           AND at < :'until'::timestamptz
           AND id <= (SELECT id FROM qrtz_audit
                       WHERE sched_name = :'sched' AND at < :'until'::timestamptz + interval '1 hour'
                       ORDER BY at DESC LIMIT 1)
\endif
\if :unsuccessful
           AND state = :'state' AND state <> 'SUCCEEDED'
\endif
\if :after
           AND id < :'after_id'::bigint
\endif
\if :examined
         ORDER BY id DESC
\if :last
         OFFSET :'among'::int - 1 LIMIT 1
\else
         LIMIT :'among'::int
\endif
\endif
       ) AS walked
 WHERE true
\if :by_actor
   AND actor = :'actor'
\endif
\if :of_action
   AND action = :'action'
\endif
\if :succeeded
   AND state = 'SUCCEEDED'
\endif
 ORDER BY id DESC LIMIT :'limit'::int
\if :count
) AS found
\endif
;
