-- The planner is steered here: see docs/planner.md.

-- name: next_change
-- How long it is until a pause ends or a maintenance window needs something; NULL: there is none of either. The tables
-- of groups and windows are small, and of the triggers the first entry of an index is read.
SELECT least((SELECT min(p.pause_until) FROM qrtz_paused_trigger_groups p WHERE p.sched_name = :'sched'),
             (SELECT min(w.due_at) FROM qrtz_maintenance_windows w WHERE w.sched_name = :'sched'),
             (SELECT t.pause_until FROM qrtz_triggers t
               WHERE t.sched_name = :'sched' AND t.pause_until IS NOT NULL ORDER BY t.pause_until LIMIT 1)) - :now;

-- name: end_own_pauses
-- A slice of the triggers whose own pause has ended. One whose group is paused as well is held by that from now on, and
-- one that a mode forbids to fire, by the mode.
WITH affected AS (
    SELECT t.trigger_group, t.trigger_name, t.job_group, t.pause_until, t.paused_by, t.pause_reason, t.pause_missed,
           t.trigger_state = 'PAUSED' AND t.next_fire_time IS NOT NULL AS is_paused,
           -- include: group_is_paused_t
           AS is_covered,
           -- include: mode_forbids_t
           AS is_forbidden,
           CASE WHEN t.next_fire_time < :now
                     AND t.trigger_group NOT IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
                THEN nullif(t.pause_missed, 'misfire') END AS missed_policy
      FROM qrtz_triggers t
     WHERE t.sched_name = :'sched' AND t.pause_until <= (SELECT :now)
     ORDER BY t.pause_until
     LIMIT :'limit'::int
       FOR NO KEY UPDATE SKIP LOCKED
),
ended AS (
    UPDATE qrtz_triggers t
       SET pause_until = NULL, pause_missed = NULL, paused_at = cover.paused_at, paused_by = cover.paused_by,
           pause_reason = cover.pause_reason,
           trigger_state = CASE WHEN going.is_so THEN 'WAITING' ELSE t.trigger_state END,
           held_by_mode = affected.is_paused AND affected.is_forbidden AND NOT affected.is_covered,
           unreconciled = CASE WHEN going.is_so AND t.unreconciled IS NOT NULL THEN 'NEW' ELSE t.unreconciled END,
           missed_policy = CASE WHEN going.is_so THEN affected.missed_policy ELSE t.missed_policy END,
           catch_up_until = CASE WHEN NOT going.is_so OR affected.missed_policy IS NULL THEN t.catch_up_until END,
           resumed_at = CASE WHEN going.is_so
                             THEN :now ELSE t.resumed_at END
      FROM affected
     CROSS JOIN LATERAL (
        SELECT affected.is_paused AND NOT affected.is_covered AND NOT affected.is_forbidden AS is_so) AS going
      -- What holds it from now on says since when, by whom and why; of several, the one that lasts longest.
      LEFT JOIN LATERAL (
        SELECT p.paused_at, p.paused_by, p.pause_reason FROM qrtz_paused_trigger_groups p
         WHERE affected.is_paused AND affected.is_covered AND p.sched_name = :'sched'
           AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = affected.trigger_group)
                OR (p.scope = 'JOB' AND p.group_name = affected.job_group))
         ORDER BY p.pause_until DESC NULLS FIRST, p.paused_at LIMIT 1) AS cover ON true
     -- include: own_of_affected
     WHERE t.ctid = own.row
    RETURNING affected.trigger_group, affected.trigger_name, affected.pause_until, affected.paused_by,
              affected.pause_reason, affected.pause_missed, affected.is_paused, going.is_so AS goes
),
-- The triggers that one action paused have one row.
recorded AS (
    INSERT INTO qrtz_audit (id, sched_name, at, ended_at, actor, role, action, subject, reason, state, count, before,
                            after)
    SELECT nextval('qrtz_fire_ids'), :'sched', :now, :now, :'actor', 'node', 'pause_ended',
           left(CASE WHEN count(*) = 1 THEN 'trigger ' || min(trigger_group) || '.' || min(trigger_name)
                     ELSE count(*) || ' triggers, ' || min(trigger_group || '.' || trigger_name) || ' among them' END,
                500),
           'The pause was to end at this time.', 'SUCCEEDED', count(*),
           jsonb_build_object('by', paused_by, 'reason', pause_reason, 'until', pause_until, 'missed', pause_missed),
           jsonb_build_object('resumed', count(*) FILTER (WHERE goes))
      FROM ended WHERE is_paused
     GROUP BY pause_until, paused_by, pause_reason, pause_missed
)
SELECT trigger_group, trigger_name, goes FROM ended;

-- name: ended_groups
SELECT p.scope, p.group_name, p.pause_until, p.pause_missed
  FROM qrtz_paused_trigger_groups p
 WHERE p.sched_name = :'sched' AND p.pause_until <= :now
 ORDER BY p.pause_until, p.scope, p.group_name;

-- name: note_resumed
-- The slices count on the row of the pause, so that the number is right whichever nodes end it.
UPDATE qrtz_paused_trigger_groups p SET resumed = p.resumed + :'number'::int
 WHERE p.sched_name = :'sched' AND p.scope = :'scope' AND p.group_name = :'group'
   AND p.pause_until = :'until'::timestamptz;

-- name: forget_ended
-- Whoever stores a trigger under the lock has either committed before, and is seen here, or does not see the pause. One
-- that is left, because its row was locked, is resumed by the next pass.
WITH gone AS (
    DELETE FROM qrtz_paused_trigger_groups g
     WHERE g.sched_name = :'sched' AND g.scope = :'scope' AND g.group_name = :'group'
       AND g.pause_until = :'until'::timestamptz
       AND NOT EXISTS (
           SELECT FROM qrtz_triggers t
            WHERE t.sched_name = :'sched'
\if :by_trigger_group
              AND t.trigger_group = :'group'
\endif
\if :by_job_group
              AND t.job_group = :'group'
\endif
              AND t.trigger_state = 'PAUSED' AND t.next_fire_time IS NOT NULL
              AND t.pause_missed IS NULL AND NOT t.held_by_mode
              -- include: no_other_pause
           )
    RETURNING g.*
)
INSERT INTO qrtz_audit (id, sched_name, at, ended_at, actor, role, action, subject, reason, state, count, before, after)
SELECT nextval('qrtz_fire_ids'), :'sched', :now, :now, :'actor', 'node', 'pause_ended', left(:'subject', 500),
       'The pause was to end at this time.', 'SUCCEEDED', g.resumed,
       jsonb_build_object('by', g.paused_by, 'reason', g.pause_reason, 'until', g.pause_until,
                          'missed', g.pause_missed, 'window', g.window_name),
       jsonb_build_object('resumed', g.resumed)
  FROM gone g
RETURNING count;

-- name: windows
SELECT w.window_name, w.scope, w.group_name, w.definition::text, w.changed_at, w.changed_by, w.starts_at, w.ends_at,
       w.is_open
  FROM qrtz_maintenance_windows w
 WHERE w.sched_name = :'sched'
\if :of_name
   AND w.window_name = :'window_name'
\endif
 ORDER BY w.window_name;

-- name: put_window
INSERT INTO qrtz_maintenance_windows AS w (sched_name, window_name, scope, group_name, definition, changed_at,
                                           changed_by, starts_at, ends_at, due_at)
VALUES (:'sched', :'window_name', :'scope', :'group', :'definition'::jsonb, :now, :'by'::text,
        :'starts_at'::timestamptz, :'ends_at'::timestamptz, :'due_at'::timestamptz)
    ON CONFLICT (sched_name, window_name) DO NOTHING
RETURNING w.window_name;

-- name: close_window
-- The triggers that a window pauses, or has paused ahead of its beginning, are resumed by the next turn.
WITH w AS (
    SELECT * FROM qrtz_maintenance_windows o
     WHERE o.sched_name = :'sched' AND o.window_name = :'window_name'
       AND (o.is_open OR :now >= o.starts_at - :'lead'::interval)
       FOR UPDATE
)
INSERT INTO qrtz_paused_trigger_groups AS p (sched_name, scope, group_name, paused_at, paused_by, pause_until,
                                             pause_missed, window_name)
SELECT w.sched_name, w.scope, w.group_name, :now, w.changed_by, :now, w.definition ->> 'missed', w.window_name
  FROM w
    ON CONFLICT (sched_name, scope, group_name) DO UPDATE
   SET pause_until = least(p.pause_until, excluded.pause_until)
 WHERE p.window_name = excluded.window_name;

-- name: delete_window
DELETE FROM qrtz_maintenance_windows w
 WHERE w.sched_name = :'sched' AND w.window_name = :'window_name'
RETURNING w.window_name;

-- name: due_windows
-- Whoever moves the instant of the next turn takes care of the window. If its node dies, another one does after that.
UPDATE qrtz_maintenance_windows w
   SET due_at = :now + :'wait'::interval
  FROM (SELECT o.window_name, o.due_at FROM qrtz_maintenance_windows o
         WHERE o.sched_name = :'sched' AND o.due_at <= :now
         ORDER BY o.window_name
           FOR NO KEY UPDATE SKIP LOCKED) AS due
 WHERE w.sched_name = :'sched' AND w.window_name = due.window_name
RETURNING w.window_name, w.scope, w.group_name, w.definition::text, w.changed_at, w.changed_by, w.starts_at, w.ends_at,
          w.is_open, due.due_at, :now;

-- name: wait_for_window
UPDATE qrtz_maintenance_windows w SET due_at = :'due_at'::timestamptz
 WHERE w.sched_name = :'sched' AND w.window_name = :'window_name' AND w.starts_at = :'starts_at'::timestamptz
   AND NOT w.is_open;

-- name: open_window
WITH opened AS (
    UPDATE qrtz_maintenance_windows w SET is_open = true, due_at = w.ends_at
     WHERE w.sched_name = :'sched' AND w.window_name = :'window_name' AND w.starts_at = :'starts_at'::timestamptz
       AND NOT w.is_open
    RETURNING w.*
)
INSERT INTO qrtz_audit (id, sched_name, at, ended_at, actor, role, action, subject, reason, state, count, before, after)
SELECT nextval('qrtz_fire_ids'), :'sched', :now, :now, :'actor', 'node', 'window_began',
       left('window ' || w.window_name, 500), coalesce(w.definition ->> 'reason', ''), 'SUCCEEDED', 1, NULL,
       jsonb_build_object('what', :'subject'::text, 'start', w.starts_at, 'until', w.ends_at, 'by', w.changed_by)
  FROM opened w
RETURNING subject;

-- name: next_window
UPDATE qrtz_maintenance_windows w
   SET starts_at = :'starts_at'::timestamptz, ends_at = :'ends_at'::timestamptz, due_at = :'due_at'::timestamptz,
       is_open = false
 WHERE w.sched_name = :'sched' AND w.window_name = :'window_name' AND w.ends_at = :'ended_at'::timestamptz;

-- name: last_window
DELETE FROM qrtz_maintenance_windows w
 WHERE w.sched_name = :'sched' AND w.window_name = :'window_name' AND w.ends_at = :'ended_at'::timestamptz;
