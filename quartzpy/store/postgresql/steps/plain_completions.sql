-- The planner is steered here: see docs/planner.md.

-- name: complete
-- Ends executions that affect nothing else. has_details: one of them did not succeed, or has a result or log lines.
-- ends_triggers: it was the last fire of one of their triggers.
WITH ended AS MATERIALIZED (
    -- The instants come as microseconds, because their texts take both sides several times as long.
    SELECT e.*, timestamptz 'epoch' + e.started_us * interval '1 microsecond' AS started_at,
           timestamptz 'epoch' + e.ended_us * interval '1 microsecond' AS ended_at
      FROM unnest(:'fire_ids'::bigint[], :'started_us'::bigint[], :'ended_us'::bigint[]
\if :has_details
                  , :'outcomes'::text[], :'errors'::text[], :'results'::text[], :'logs'::text[]
\endif
\if :ends_triggers
                  , :'last'::bool[]
\endif
                 ) AS e(fire_id, started_us, ended_us
\if :has_details
                        , outcome, error, result, log
\endif
\if :ends_triggers
                        , is_last
\endif
                       )
),
-- The end of the executions: the history depends on these rows. A row of another epoch is left as it is.
done AS (
    DELETE FROM qrtz_fired_triggers f
     USING ended e
     CROSS JOIN LATERAL (
        SELECT r.ctid AS row, r.xmax <> '0'::xid AS may_be_locked FROM qrtz_fired_triggers r
         WHERE r.fire_id = e.fire_id AND r.epoch = :'epoch'::bigint
         LIMIT 1) AS own
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_fired_triggers r
         WHERE own.may_be_locked AND r.ctid = own.row FOR UPDATE SKIP LOCKED) AS locked ON true
     WHERE f.ctid = own.row
       AND (locked.is_free OR NOT own.may_be_locked)
    RETURNING f.fire_id, f.sched_name, f.trigger_group, f.trigger_name, f.generation, f.job_group, f.job_name,
              f.job_type, f.instance_id, f.epoch, f.fired_time, f.scheduled_time, f.attempt, f.trigger_data,
              e.started_at, e.ended_at
\if :has_details
              , e.outcome, e.error, e.result, e.log
\endif
\if :ends_triggers
              , e.is_last
\endif
),
\if :ends_triggers
-- include: ended_triggers
,
\endif
-- There is no ON CONFLICT, as it costs another look into each unique index and a record of the log. The instants are
-- limited to the time between the fire and now, as in `complete.sql`.
history AS (
    INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, fired_time, scheduled_time, started_at, ended_at, attempt, trigger_data, outcome
\if :has_details
        , error, result, log
\endif
        )
    SELECT fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name, job_type, instance_id,
           fired_time, scheduled_time, least(greatest(started_at, fired_time), :now),
           least(greatest(ended_at, fired_time), :now), attempt, trigger_data,
\if :has_details
           outcome, error, result::jsonb, log
\else
           'SUCCEEDED'
\endif
      FROM done
)
SELECT :now, ARRAY(SELECT fire_id FROM done);
