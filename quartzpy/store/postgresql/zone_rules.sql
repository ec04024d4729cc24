-- name: note
-- Notes the rules of the zones by which the caller computes what it stores. A row is written again only when a minute
-- has passed. Where another transaction is writing the rules of a zone, it is left to that one, and not waited for.
INSERT INTO qrtz_zone_rules AS z (sched_name, zone_name, digest, version, rules, noted_at)
SELECT :'sched'::text, w.zone_name, w.digest, w.version, w.rules::jsonb, :now
  FROM unnest(:'zones'::text[], :'zone_digests'::text[], :'zone_versions'::text[], :'zone_rules'::text[])
       AS w(zone_name, digest, version, rules)
 WHERE NOT EXISTS (
        SELECT FROM qrtz_zone_rules o
         WHERE o.sched_name = :'sched' AND o.zone_name = w.zone_name AND o.digest = w.digest
           AND o.noted_at > :now - interval '1 minute')
   AND pg_try_advisory_xact_lock(hashtextextended('quartzpy:zone:' || w.zone_name || ':' || :'sched'::text, 0))
    ON CONFLICT (sched_name, zone_name, digest) DO UPDATE SET noted_at = excluded.noted_at, version = excluded.version;

-- name: noted
SELECT zone_name, digest, version, rules::text, noted_at, :now FROM qrtz_zone_rules
 WHERE sched_name = :'sched' ORDER BY zone_name, noted_at, digest;

-- name: claim
-- Leaves the renewal of what was computed by other rules to one node. Returns the zones that this node has to renew.
UPDATE qrtz_zone_rules z
   SET renewed_by = :'epoch'::bigint, renewed_until = :now + interval '1 minute'
  FROM unnest(:'zones'::text[], :'zone_digests'::text[]) AS w(zone_name, digest)
 WHERE z.sched_name = :'sched' AND z.zone_name = w.zone_name AND z.digest <> w.digest
   AND (z.renewed_by = :'epoch'::bigint OR z.renewed_until IS NULL OR z.renewed_until < :now)
RETURNING z.zone_name;

-- name: trigger_page
-- The triggers that may depend on one of these zones, by their schedules or calendars, in the order of their keys. It
-- reads all triggers once, which happens when the rules of a zone have changed.
SELECT t.trigger_group, t.trigger_name
  FROM qrtz_triggers t
 WHERE t.sched_name = :'sched' AND (t.trigger_group, t.trigger_name) > (:'after_group', :'after_name')
   AND t.next_fire_time IS NOT NULL AND t.trigger_state <> 'COMPLETE'
   AND (EXISTS (SELECT FROM unnest(:'zones'::text[]) AS z(name) WHERE strpos(t.schedule::text, z.name) > 0)
        OR t.calendar_name IN (
            SELECT c.calendar_name FROM qrtz_calendars c
             WHERE c.sched_name = :'sched'
               AND EXISTS (SELECT FROM unnest(:'zones'::text[]) AS z(name) WHERE strpos(c.calendar::text, z.name) > 0)))
 ORDER BY t.trigger_group, t.trigger_name
 LIMIT :'limit'::int;

-- name: move_window
-- Gives a window that has not begun its next time by other rules.
UPDATE qrtz_maintenance_windows
   SET starts_at = :'starts_at'::timestamptz, ends_at = :'ends_at'::timestamptz, due_at = :'due_at'::timestamptz
 WHERE sched_name = :'sched' AND window_name = :'window_name' AND NOT is_open
   AND starts_at = :'expected_start'::timestamptz;

-- name: move_end_of_window
-- Gives a window that is open its end by other rules, and the pause that it has made.
WITH moved AS (
    UPDATE qrtz_maintenance_windows w
       SET ends_at = :'ends_at'::timestamptz, due_at = :'ends_at'::timestamptz
      FROM (SELECT ends_at FROM qrtz_maintenance_windows
             WHERE sched_name = :'sched' AND window_name = :'window_name' AND is_open
               AND starts_at = :'expected_start'::timestamptz
               FOR UPDATE) AS before
     WHERE w.sched_name = :'sched' AND w.window_name = :'window_name' AND :'ends_at'::timestamptz > w.starts_at
    RETURNING before.ends_at AS ended_at
)
UPDATE qrtz_paused_trigger_groups p
   SET pause_until = :'ends_at'::timestamptz
  FROM moved
 WHERE p.sched_name = :'sched' AND p.window_name = :'window_name' AND p.pause_until = moved.ended_at;

-- name: forget
-- Rules by which nothing is stored any more: they were noted before the last renewal began, and some time before it.
DELETE FROM qrtz_zone_rules z
 USING unnest(:'zones'::text[], :'zone_digests'::text[]) AS w(zone_name, digest)
 WHERE z.sched_name = :'sched' AND z.zone_name = w.zone_name AND z.digest = w.digest
   AND z.noted_at < :'before'::timestamptz - interval '2 minutes';
