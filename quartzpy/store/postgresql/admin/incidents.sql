-- The planner is steered here: see docs/planner.md.

-- name: take_slot
-- Moves the instant of the next judgement if it has come, or is too far ahead because a clock was set back. Whoever moves
-- it judges; two that come at once wait for each other, and the second one finds it moved.
WITH present AS (
    SELECT due_at, listed_at FROM qrtz_health_runs WHERE sched_name = :'sched'
),
taken AS (
    UPDATE qrtz_health_runs SET due_at = :now + :'every'::interval
     WHERE sched_name = :'sched' AND (due_at <= :now OR due_at > :now + 2 * :'every'::interval)
    RETURNING due_at
),
begun AS (
    INSERT INTO qrtz_health_runs (sched_name, due_at)
    SELECT :'sched', :now + :'every'::interval WHERE NOT EXISTS (SELECT FROM present)
        ON CONFLICT (sched_name) DO NOTHING
)
SELECT (SELECT due_at FROM taken), (SELECT due_at FROM present), :now,
       -- Expectations are listed once in a while, or some are due, or a job waits or has waited for too long for others.
       CASE WHEN EXISTS (SELECT FROM taken)
            THEN (SELECT listed_at IS NULL OR listed_at <= :now - :'listed_every'::interval
                         OR listed_at > :now + :'listed_every'::interval
                    FROM present)
                 OR EXISTS (SELECT FROM qrtz_expectations WHERE sched_name = :'sched' AND due_at <= (SELECT :now))
                 OR EXISTS (SELECT FROM qrtz_joins WHERE sched_name = :'sched' AND due_at <= (SELECT :now))
                 OR EXISTS (SELECT FROM qrtz_breaches b
                             WHERE b.sched_name || '' = :'sched' AND b.over_at IS NULL AND b.kind = 'joins-late')
            ELSE false END,
       -- What lasts, for the node to say.
       (SELECT coalesce(json_agg(json_build_array(kind, severity, what, subject)), '[]')
          FROM (SELECT kind, severity, what, subject FROM qrtz_incidents
                 WHERE sched_name = :'sched' AND closed_at IS NULL
                 ORDER BY identity LIMIT :'most'::int) AS lasting)::text;

-- name: open_incidents
-- include: incident
  FROM qrtz_incidents
 WHERE sched_name = :'sched' AND closed_at IS NULL
 ORDER BY identity LIMIT :'limit'::int;

-- name: incident
-- include: incident
  FROM qrtz_incidents
 WHERE sched_name = :'sched' AND id = :'incident_id'::bigint;

-- name: hold_slot
-- Whoever notifies keeps the next turn waiting until that is committed, so that it sees who was notified.
SELECT FROM qrtz_health_runs WHERE sched_name = :'sched' AND due_at = :'turn'::timestamptz FOR NO KEY UPDATE;

-- name: open
-- What is open already stays as it is. Whoever has judged for so long that the turn is another one's changes nothing.
INSERT INTO qrtz_incidents (id, sched_name, kind, subject, identity, severity, cause, began_as, what, why, trigger_group,
                            trigger_name, job_group, job_name, since, opened_at, confirmed_at)
SELECT nextval('qrtz_fire_ids'), j.sched_name, kind, subject, identity, severity, cause, what, what, why::jsonb,
       trigger_group, trigger_name, job_group, job_name, since, :now, :now
  FROM qrtz_health_runs j
 CROSS JOIN unnest(:'kinds'::text[], :'subjects'::text[], :'identities'::text[], :'severities'::text[], :'causes'::text[],
              :'whats'::text[], :'whys'::text[], :'trigger_groups'::text[], :'trigger_names'::text[],
              :'job_groups'::text[], :'job_names'::text[], :'sinces'::timestamptz[])
       AS incident(kind, subject, identity, severity, cause, what, why, trigger_group, trigger_name, job_group, job_name,
                   since)
 WHERE j.sched_name = :'sched' AND j.due_at = :'turn'::timestamptz
 ORDER BY identity
    ON CONFLICT (sched_name, identity) WHERE closed_at IS NULL DO NOTHING
RETURNING id, identity;

-- name: confirm
UPDATE qrtz_incidents i
   SET subject = c.subject, severity = c.severity, cause = c.cause, what = c.what, why = c.why::jsonb, since = c.since,
       trigger_group = c.trigger_group, trigger_name = c.trigger_name, job_group = c.job_group, job_name = c.job_name,
       confirmed_at = :now
  FROM unnest(:'incident_ids'::bigint[], :'subjects'::text[], :'severities'::text[], :'causes'::text[],
              :'whats'::text[], :'whys'::text[], :'trigger_groups'::text[], :'trigger_names'::text[],
              :'job_groups'::text[], :'job_names'::text[], :'sinces'::timestamptz[])
       AS c(id, subject, severity, cause, what, why, trigger_group, trigger_name, job_group, job_name, since)
 WHERE i.sched_name = :'sched' AND i.id = c.id AND i.closed_at IS NULL
   AND EXISTS (SELECT FROM qrtz_health_runs WHERE sched_name = :'sched' AND due_at = :'turn'::timestamptz);

-- name: close
-- The clock of a new primary may be behind that of the one before.
UPDATE qrtz_incidents SET closed_at = greatest(:now, opened_at)
 WHERE sched_name = :'sched' AND id = ANY(:'incident_ids'::bigint[]) AND closed_at IS NULL
   AND EXISTS (SELECT FROM qrtz_health_runs WHERE sched_name = :'sched' AND due_at = :'turn'::timestamptz);

-- name: record_gap
-- An incident that is over before anybody could judge it: the time in which nobody judged.
INSERT INTO qrtz_incidents (id, sched_name, kind, subject, identity, severity, cause, began_as, what, why, since,
                            opened_at, confirmed_at, closed_at)
SELECT nextval('qrtz_fire_ids'), j.sched_name, :'incident_kind', :'subject', :'identity', :'severity', '', :'what',
       :'what', :'why_json'::jsonb, :'since'::timestamptz, :'since'::timestamptz, :'until'::timestamptz,
       :'until'::timestamptz
  FROM qrtz_health_runs j
 WHERE j.sched_name = :'sched' AND j.due_at = :'turn'::timestamptz
RETURNING id, identity;

-- name: notify
INSERT INTO qrtz_notifications (sched_name, id, channel, event, message, created_at)
SELECT :'sched', n.id, n.channel, n.event, n.message::jsonb, :now
  FROM unnest(:'notification_ids'::text[], :'channels'::text[], :'notification_events'::text[], :'documents'::text[])
       AS n(id, channel, event, message)
    ON CONFLICT (sched_name, id) DO NOTHING;

-- name: note_notified
UPDATE qrtz_incidents i SET notified = n.notified::jsonb
  FROM unnest(:'incident_ids'::bigint[], :'notified_list'::text[]) AS n(id, notified)
 WHERE i.sched_name = :'sched' AND i.id = n.id;

-- name: notification
SELECT channel, event, message::text, delivered_at IS NOT NULL
  FROM qrtz_notifications
 WHERE sched_name = :'sched' AND id = :'notification_id';

-- name: notifications
-- Each is looked up by its key: without statistics, a join or a list of ids would read the other index of the table.
SELECT n.id, n.channel, n.event, n.created_at, n.attempts, n.delivered_at, n.failed_at, n.error
  FROM unnest(:'notification_ids'::text[]) AS k(id)
 CROSS JOIN LATERAL (
    SELECT * FROM qrtz_notifications o WHERE o.sched_name = :'sched' AND o.id = k.id LIMIT 1) AS n;

-- name: note_attempt
-- An attempt of a node that was taken for dead may end after that of another one.
UPDATE qrtz_notifications
   SET attempts = attempts + 1,
       delivered_at = CASE WHEN :'error'::text IS NULL THEN :now END,
       failed_at = CASE WHEN :'error'::text IS NOT NULL AND :'is_last'::bool THEN :now END,
       error = :'error'::text
 WHERE sched_name = :'sched' AND id = :'notification_id' AND delivered_at IS NULL;

-- name: acknowledge
-- It is remembered how the incident is, so that it is shown again when it becomes worse.
UPDATE qrtz_incidents
   SET acknowledged_at = :now, acknowledged_by = :'by', acknowledged_reason = :'reason',
       acknowledged_until = :'until'::timestamptz, acknowledged_severity = severity, acknowledged_cause = cause
 WHERE sched_name = :'sched' AND id = :'incident_id'::bigint AND num_nonnulls(closed_at) = 0;

-- name: unacknowledge
UPDATE qrtz_incidents
   SET acknowledged_at = NULL, acknowledged_by = NULL, acknowledged_reason = NULL, acknowledged_until = NULL,
       acknowledged_severity = NULL, acknowledged_cause = NULL
 WHERE sched_name = :'sched' AND id = :'incident_id'::bigint AND num_nonnulls(closed_at) = 0 AND acknowledged_at IS NOT NULL;
