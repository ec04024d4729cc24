-- name: notify
SELECT pg_notify(:'channel', :'news');

-- name: announce
-- Notifies nodes that may be asleep beyond these fire times. Rows that this transaction has written itself are
-- recognised by their xmin.
SELECT pg_notify(:'channel', CASE WHEN bool_or(w.at <= :now) THEN :'news_of_due' ELSE :'news' END)
  FROM unnest(:'groups'::text[], :'names'::text[], :'instants'::timestamptz[]) AS w(job_group, job_name, at)
  JOIN qrtz_job_details j ON j.sched_name = :'sched' AND j.job_group = w.job_group AND j.job_name = w.job_name
 WHERE w.at <= :now
    OR NOT EXISTS (SELECT FROM qrtz_triggers t
                    WHERE t.sched_name = :'sched' AND t.job_type = j.job_type AND t.placement = j.placement
                      AND t.misfire_rule IN ('SCHEDULER', 'OWN', 'IGNORE', 'RATE_LIMIT') AND t.trigger_state = 'WAITING'
                      AND t.next_fire_time > :now AND t.next_fire_time <= w.at
                      AND t.xmin <> pg_current_xact_id()::xid)
HAVING count(*) > 0;
