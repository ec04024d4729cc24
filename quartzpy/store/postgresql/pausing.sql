-- The planner is steered here: see docs/planner.md.

-- name: pause
-- A trigger that only a mode pauses can be paused by name as well: then the end of the mode does not resume it.
WITH affected AS (
    SELECT t.trigger_group, t.trigger_name, t.trigger_state
\if :by_page
      FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[])
           AS k(trigger_group, trigger_name, generation)
     CROSS JOIN LATERAL (
        SELECT t.* FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
           AND t.generation = k.generation
           AND
               -- include: may_be_paused
\if :from_start
           AND t.next_fire_time >= :'starts_at'::timestamptz
\endif
         LIMIT 1
           FOR NO KEY UPDATE SKIP LOCKED) AS t
\else
      FROM qrtz_triggers t
     WHERE t.sched_name = :'sched'
\if :from_start
       AND t.next_fire_time >= :'starts_at'::timestamptz
\endif
\if :by_trigger
       AND (t.trigger_group, t.trigger_name) IN (SELECT * FROM unnest(:'groups'::text[], :'names'::text[]))
\endif
       -- include: is_chosen
       AND
           -- include: may_be_paused
       FOR NO KEY UPDATE
\if :under_lock
       SKIP LOCKED
\endif
\endif
),
paused AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'PAUSED', fire_id = NULL, held_by_mode = :'by_mode'::bool,
           paused_at = CASE WHEN :'by_mode'::bool THEN NULL
                            WHEN t.trigger_state = 'PAUSED' THEN coalesce(t.paused_at, :now)
                            ELSE :now END,
           -- include: held
           paused_by = :'by'::text, pause_reason = :'reason'::text,
           -- A pause of a group does not change the end of one by name.
           pause_until = CASE WHEN :'alone'::bool THEN :'until'::timestamptz
                              WHEN t.trigger_state = 'PAUSED' THEN t.pause_until END,
           pause_missed = CASE WHEN :'alone'::bool THEN :'missed'::text
                               WHEN t.trigger_state = 'PAUSED' THEN t.pause_missed END
      FROM affected
     -- include: own_of_affected
     WHERE t.ctid = own.row
       AND
           -- include: may_be_paused
    RETURNING t.generation
)
\if :by_page
SELECT generation FROM paused
\else
SELECT count(*) FROM paused
\endif
;

-- name: resume
-- A trigger without a further fire time does not change. A late one becomes WAITING, and the misfire step handles it.
-- Triggers without a schedule (manual fires, retries, recoveries) are not skipped. If a mode forbids a trigger to fire,
-- only that mode keeps it paused from now on.
WITH
\if :ended
-- The pause of a group that has ended, unless somebody has changed it, or is changing it. Those that it alone holds are
-- resumed.
mark AS MATERIALIZED (
    SELECT p.scope, p.group_name FROM qrtz_paused_trigger_groups p
     WHERE p.sched_name = :'sched' AND p.scope = :'scope' AND p.group_name = :'group'
       AND p.pause_until = :'until'::timestamptz
       FOR NO KEY UPDATE SKIP LOCKED
),
\endif
affected AS (
    SELECT t.trigger_group, t.trigger_name,
           -- include: mode_forbids_t
           AS is_forbidden,
           -- the policy for what it has missed, where that is not its misfire instruction
           CASE WHEN t.next_fire_time < :now
                     AND t.trigger_group NOT IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
                THEN nullif(:'missed'::text, 'misfire') END AS missed_policy
\if :by_page
      FROM unnest(:'groups'::text[], :'names'::text[], :'generations'::bigint[])
           AS k(trigger_group, trigger_name, generation)
     CROSS JOIN LATERAL (
        SELECT t.* FROM qrtz_triggers t
         WHERE t.sched_name = :'sched' AND t.trigger_group = k.trigger_group AND t.trigger_name = k.trigger_name
           AND t.generation = k.generation
           AND t.trigger_state = 'PAUSED' AND t.next_fire_time IS NOT NULL
\if :ended
           AND t.pause_missed IS NULL AND NOT t.held_by_mode
           AND EXISTS (SELECT FROM mark)
           -- include: no_other_pause
\endif
         LIMIT 1
           FOR NO KEY UPDATE SKIP LOCKED) AS t
\else
      FROM qrtz_triggers t
     WHERE t.sched_name = :'sched'
\if :by_trigger
       AND (t.trigger_group, t.trigger_name) IN (SELECT * FROM unnest(:'groups'::text[], :'names'::text[]))
\endif
       -- include: is_chosen
\if :held_by_mode
       AND t.held_by_mode
\endif
       AND t.trigger_state = 'PAUSED' AND t.next_fire_time IS NOT NULL
\if :under_lock
       -- Triggers that stay paused by a mode would be updated again, and the foreign key of a row that the transaction
       -- itself has written is checked, which waits for a locked job.
       AND t.xmin <> pg_current_xact_id()::xid
\endif
       FOR NO KEY UPDATE
\if :under_lock
       SKIP LOCKED
\endif
\endif
)
UPDATE qrtz_triggers t
   SET held_by_mode = affected.is_forbidden, paused_at = NULL, paused_by = NULL, pause_reason = NULL,
       pause_until = NULL, pause_missed = NULL,
       trigger_state =
           CASE WHEN NOT affected.is_forbidden THEN 'WAITING' ELSE t.trigger_state END,
       unreconciled = CASE WHEN affected.is_forbidden THEN t.unreconciled
                           WHEN t.unreconciled IS NOT NULL THEN 'NEW' END,
       missed_policy = CASE WHEN affected.is_forbidden THEN t.missed_policy ELSE affected.missed_policy END,
       catch_up_until = CASE WHEN affected.is_forbidden OR affected.missed_policy IS NULL THEN t.catch_up_until END,
       resumed_at = CASE WHEN affected.is_forbidden THEN t.resumed_at ELSE :now END
  FROM affected
 -- include: own_of_affected
 WHERE t.ctid = own.row AND t.trigger_state || '' = 'PAUSED'
RETURNING t.generation, t.job_group, t.job_name, t.next_fire_time, affected.is_forbidden;

-- name: remember
-- What a pause of everything pauses besides stays as it is where it is paused already, and a maintenance window makes a
-- pause longer only.
INSERT INTO qrtz_paused_trigger_groups AS p (sched_name, scope, group_name, paused_at, paused_by, pause_reason,
                                             pause_until, pause_missed, with_all, window_name)
SELECT :'sched', :'scope', name, :now, :'by'::text, :'reason'::text, :'until'::timestamptz, :'missed'::text,
       :'with_all'::bool, :'window_name'::text
  FROM unnest(:'names'::text[]) AS name
    ON CONFLICT (sched_name, scope, group_name) DO UPDATE
   SET paused_by = excluded.paused_by, pause_reason = excluded.pause_reason, pause_until = excluded.pause_until,
       pause_missed = excluded.pause_missed, with_all = false, window_name = excluded.window_name, resumed = 0
 WHERE NOT excluded.with_all
   AND CASE WHEN excluded.window_name IS NULL
            THEN (p.paused_by, p.pause_reason, p.pause_until, p.pause_missed, p.with_all, p.window_name)
                 IS DISTINCT FROM (excluded.paused_by, excluded.pause_reason, excluded.pause_until,
                                   excluded.pause_missed, excluded.with_all, excluded.window_name)
            ELSE p.pause_until < excluded.pause_until END;

-- name: forget_with_all
-- A pause of everything that ends does not leave groups behind that an endless one had paused.
DELETE FROM qrtz_paused_trigger_groups WHERE sched_name = :'sched' AND with_all;

-- name: forget
DELETE FROM qrtz_paused_trigger_groups
 WHERE sched_name = :'sched' AND scope = :'scope'
   -- include: matches_group of group_name
;

-- name: forget_all
DELETE FROM qrtz_paused_trigger_groups WHERE sched_name = :'sched' AND scope <> 'MANUAL';

-- name: forget_manual
DELETE FROM qrtz_paused_trigger_groups WHERE sched_name = :'sched' AND scope = 'MANUAL';

-- name: reset_from_error
-- Gives triggers in ERROR the states of newly stored ones.
UPDATE qrtz_triggers t
   SET error = NULL, pause_until = NULL, pause_missed = NULL,
       -- As `prepared_once` of the steps.
       catch_up_until = t.catch_up_until,
       trigger_state =
           CASE WHEN t.next_fire_time IS NULL THEN 'COMPLETE'
                WHEN
                -- include: ordinary
                THEN 'WAITING'
                WHEN
                  -- include: group_is_paused_t
                  OR
            -- include: mode_forbids_t
                     THEN 'PAUSED' ELSE 'WAITING' END,
       held_by_mode =
           (NOT
            -- include: ordinary
            AND NOT
            -- include: group_is_paused_t
            AND
            -- include: mode_forbids_t
           )
 WHERE t.sched_name = :'sched' AND t.trigger_state = 'ERROR'
   AND (t.trigger_group, t.trigger_name) IN (SELECT * FROM unnest(:'groups'::text[], :'names'::text[]))
RETURNING t.trigger_group, t.trigger_name, t.next_fire_time;

-- name: set_mode
UPDATE qrtz_job_details j
   SET mode = :'mode',
       -- include: prepared_once_of_job
 WHERE j.sched_name = :'sched' AND j.job_group = :'group' AND j.job_name = :'name'
RETURNING j.job_name;
