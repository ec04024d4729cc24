-- The planner is steered here: see docs/planner.md.

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
\if :last
\else
\if :of_actor
   AND actor = :'actor'
\endif
\if :of_action
   AND action = :'action'
\endif
\if :of_state
   AND state = :'state'
\endif
\endif
 ORDER BY id DESC LIMIT :'limit'::int
\if :count
) AS matching
\endif
;
