-- Parts that the statements of several steps include.
-- The planner is steered here: see docs/planner.md.

-- part: prepared_once
-- PostgreSQL 18 prepares the generated columns for each row anew, unless a column that they depend on is set.
catch_up_until = t.catch_up_until

-- part: rest_of_job
j.concurrency_key AS key_entry, j.rate_limit::text AS rate_limit, j.after::text AS after, j.expect::text AS expect

-- part: prepared_once_of_job
-- As `prepared_once`.
placement = j.placement

-- part: held
unreconciled = CASE WHEN t.unreconciled IS NOT NULL THEN 'HELD' END,

-- part: ordinary
-- Nothing is paused or in manual mode: checked once per statement, not once per row.
(SELECT NOT EXISTS (SELECT FROM qrtz_paused_trigger_groups p WHERE p.sched_name = :'sched')
    AND NOT EXISTS (SELECT FROM qrtz_job_details m
                     WHERE m.sched_name = :'sched' AND m.mode || '' <> 'ENABLED'))

-- part: registered
SELECT FROM qrtz_scheduler_state
 WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint

-- part: still_unfilled
-- As it was when its fire times were computed: the schedule, the next fire time, and the calendar.
SELECT o.ctid AS row
  FROM qrtz_triggers o
 WHERE o.sched_name = :'sched' AND o.trigger_group = w.trigger_group AND o.trigger_name = w.trigger_name
   AND o.generation = w.generation AND o.next_fire_time = w.scheduled AND o.trigger_state || '' = 'WAITING'
   AND (o.calendar_name IS NULL
        OR EXISTS (SELECT FROM qrtz_calendars c
                    WHERE c.sched_name = o.sched_name AND c.calendar_name = o.calendar_name
                      AND c.revision = w.revision
                   OFFSET 0))
   FOR NO KEY UPDATE SKIP LOCKED

-- part: node
-- The guard of the step. It is empty if this epoch is no longer registered, and then all that follows is empty, too.
-- `at` is the one instant by which the whole step decides.
node AS MATERIALIZED (
    SELECT :now AS at FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
),

-- part: acquired_rules
(VALUES ('NODE'), ('OWN'), ('IGNORE')) AS rule(name)

-- part: is_in_time
-- It is no misfire; as a range of the index.
AND t.next_fire_time >= CASE rule.name
        WHEN 'NODE' THEN node.at - :'threshold'::interval ELSE '-infinity' END
AND (rule.name <> 'OWN' OR t.next_fire_time >= node.at - t.misfire_threshold)
AND t.generation <> ALL(:'passed_over'::bigint[])

-- part: has_slots_only
\if :shared
\else
-- Whoever knows of no rates and shared limits leaves what has them.
AND num_nonnulls(t.rate_limit, t.limits) = 0
\endif

-- part: keys
-- What the node runs, and what it refuses, in ascending order: a key is found by bisection, which takes a quarter of the
-- time of a look-up. With `||`, a large array is read once, and not for each row.
keys AS MATERIALIZED (
    SELECT runs || '{}' AS runs, refuses || '{}' AS refuses, refuses <> '{}' AS refuses_some FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
)

-- part: key_hash
hashtextextended(t.job_type, hashtextextended(t.placement, 0))

-- part: runs_here
-- This node has said that it runs such triggers.
AND ((SELECT runs FROM keys))[width_bucket(
        -- include: key_hash
        , (SELECT runs FROM keys))] =
    -- include: key_hash

-- part: is_not_run
-- This node has not said that it runs it.
((SELECT runs FROM keys))[width_bucket(
    -- include: key_hash
    , (SELECT runs FROM keys))] IS DISTINCT FROM
-- include: key_hash

-- part: candidate_columns
t.ctid AS row, t.next_fire_time AS scheduled_time, t.priority, t.max_concurrent,
t.job_group, t.job_name, t.concurrency_key, t.overlap_policy, t.prev_fire_time AS previous_time, t.upcoming AS following,
t.upcoming_is_complete AS following_is_complete, t.coalesced_fire_times,
-- At least one must remain for the trigger to wait for.
least(late.passed, cardinality(t.upcoming) - CASE WHEN t.upcoming_is_complete THEN 0 ELSE 1 END) AS also_due,
t.upcoming_is_complete OR cardinality(t.upcoming) > least(late.passed, 1000) AS is_filled
\if :shared
, t.rate_limit, t.limits, t.parked_at
\endif

-- part: passed_instants
CROSS JOIN LATERAL (
   SELECT CASE WHEN t.overlap_policy IN ('buffer_one', 'cancel_other')
               THEN (SELECT count(*) FROM unnest(t.upcoming) AS u(instant)
                      WHERE u.instant <= node.at)
               ELSE 0 END::int AS passed) AS late

-- part: rate
-- A rate as `slots.rate_limit` tells it, with its state `stored` at `node.at`: by the GCRA, in microseconds. `ahead` is how
-- far its theoretical arrival time lies ahead, at most as far as the limit allows: it is later if the limit was another
-- one, or the database's clock was set back. `admits` is the number of fires that conform now.
SELECT r.gap, r.gap * (r.burst - 1) AS tolerance, r.ahead,
       CASE WHEN r.gap IS NOT NULL
            THEN greatest(floor((r.gap * (r.burst - 1) - r.ahead) / r.gap) + 1, 0)::int END AS admits
  FROM (SELECT g.gap, g.burst,
               least(greatest(extract(epoch FROM stored.tat - node.at) * 1000000, 0), g.gap * g.burst) AS ahead
          FROM (SELECT div((slots.rate_limit ->> 'per_us')::numeric + (slots.rate_limit ->> 'limit')::numeric - 1,
                           (slots.rate_limit ->> 'limit')::numeric) AS gap,
                       (slots.rate_limit ->> 'burst')::numeric AS burst) AS g) AS r

-- part: is_held
-- Another transaction has locked it: it admits nothing now, nothing is parked for it, and it is not written.
NOT EXISTS (SELECT FROM qrtz_limits f WHERE f.ctid = o.ctid FOR NO KEY UPDATE SKIP LOCKED)

-- part: handed
-- All that the node needs to run the job: the trigger as it is now, its job, and its calendar. Of the fire times after
-- the next one, a node needs those that it may have to refill. The columns are those of `rows.HANDED_OVER`, in its order,
-- and so are those that `unknown_fires` of the holdings returns.
handed AS MATERIALIZED (
    SELECT t.given_fire_id AS fire_id, t.at AS fire_time, t.trigger_group, t.trigger_name, t.job_group, t.job_name,
           t.job_type, t.generation, t.scheduled_time AS scheduled_fire_time, t.previous_time AS previous_fire_time,
           t.next_fire_time, t.times_triggered, t.attempt, t.placement,
           j.definition::text AS definition, j.persists_data, j.job_data::text AS job_data, t.job_data::text AS trigger_data,
           c.revision AS calendar_revision,
           CASE WHEN cardinality(t.upcoming) < 3 THEN t.upcoming END AS upcoming_instants, t.upcoming_is_complete,
           t.coalesced, j.node_deaths, j.pause_after_failures, j.continuations::text AS continuations,
           t.max_concurrent, j.is_durable AS job_is_durable, t.limits, j.joined_by IS NOT NULL AS is_joined,
           CASE WHEN t.max_concurrent IS NOT NULL AND (t.overlap_policy <> 'skip' OR j.rate_limit IS NOT NULL)
                THEN t.concurrency_key END AS gate_key,
           t.decision, t.concurrency_key, t.overlap_policy, j.requests_recovery, c.calendar::text AS calendar_text,
           t.kind, t.schedule::text AS schedule, t.description, t.start_time, t.end_time, t.priority,
           t.misfire_instruction, t.misfire_threshold, t.calendar_name,

-- part: from_advanced
      FROM advanced t
     CROSS JOIN LATERAL (
        SELECT * FROM qrtz_job_details o
         WHERE o.sched_name = :'sched' AND o.job_group = t.job_group AND o.job_name = t.job_name LIMIT 1) AS j
      LEFT JOIN LATERAL (
        SELECT * FROM qrtz_calendars o
         WHERE o.sched_name = :'sched' AND o.calendar_name = t.calendar_name LIMIT 1) AS c ON true
     WHERE t.decision <> 'PARK'
),

-- part: stored
-- The running execution. Before its instant, where it was fired ahead of that.
stored AS (
    INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, priority, max_concurrent,
        concurrency_key, requests_recovery, attempt, trigger_data, coalesced_fire_times, limits)
    SELECT t.fire_id, :'sched', t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, :'instance', :'epoch'::bigint,
           t.fire_time, t.scheduled_fire_time,
           t.priority, t.max_concurrent, t.concurrency_key, t.requests_recovery, t.attempt, t.trigger_data::jsonb,
           t.coalesced, t.limits
      FROM handed t WHERE t.decision = 'FIRE'
)

-- part: new_state
CASE WHEN usual.is_so OR NOT (checked.group_is_paused OR checked.mode_forbids)
     THEN 'WAITING' ELSE 'PAUSED' END

-- part: own_key
CROSS JOIN LATERAL (SELECT o.trigger_group, o.job_group, o.job_name, o.job_data) AS t
CROSS JOIN LATERAL (
   SELECT
          -- include: key_of_t
          AS new_key) AS own

-- part: checked
-- The mode of its job, or manual mode, prevents a trigger from firing.
-- include: own_key
CROSS JOIN LATERAL (
   SELECT
          -- include: group_is_paused_t
          AS group_is_paused,
          -- include: mode_forbids_t
          AS mode_forbids) AS checked

-- part: ended
-- Those of these executions that this transaction ends: they are recorded, and the rows of their fires stand, which
-- no commit leaves together. So what is sent again because its answer was lost finds nothing.
ended AS MATERIALIZED (
    SELECT f.*, record.outcome, record.result, record.retry_at
      FROM unnest(:'fire_ids'::bigint[]) AS a(fire_id)
     CROSS JOIN LATERAL (
        SELECT e.outcome, e.result, e.retry_at FROM qrtz_executions e WHERE e.fire_id = a.fire_id LIMIT 1) AS record
     CROSS JOIN LATERAL (SELECT * FROM qrtz_fired_triggers r WHERE r.fire_id = a.fire_id LIMIT 1) AS f
),

-- part: twice
-- Those whose instant the history has already. They have no effects.
twice AS (
    DELETE FROM qrtz_fired_triggers f
     USING (SELECT fire_id FROM fires EXCEPT SELECT fire_id FROM recorded) AS d
     CROSS JOIN LATERAL (SELECT o.ctid AS row FROM qrtz_fired_triggers o WHERE o.fire_id = d.fire_id LIMIT 1) AS own
     WHERE f.ctid = own.row
    RETURNING f.fire_id
)

-- part: unrecorded
-- What cannot end now has no record, and so no effects. The row of its fire stands, and the node tries again.
DELETE FROM qrtz_executions e
 USING (SELECT DISTINCT fire_id FROM held_up) AS h
 CROSS JOIN LATERAL (SELECT o.ctid AS row FROM qrtz_executions o WHERE o.fire_id = h.fire_id LIMIT 1) AS own
 WHERE e.ctid = own.row
RETURNING h.fire_id

-- part: own_record
-- The end that this node has recorded, after the row of the fire has gone.
CROSS JOIN LATERAL (
   SELECT r.trigger_group, r.trigger_name, r.generation, r.job_group, r.job_name, r.outcome, r.error
     FROM qrtz_executions r
    WHERE r.fire_id = a.fire_id AND r.instance_id = :'instance' AND r.outcome || '' <> 'TERMINATED' LIMIT 1) AS e

-- part: wakes
-- The node takes the triggers that wait now; it notifies the others if it takes no more work.
SELECT min(next_fire_time),
       (SELECT count(pg_notify(:'channel', 'scheduled'))
          FROM (SELECT FROM waiting WHERE :'wakes_others'::bool LIMIT 1) AS any_waiting)
  FROM waiting

-- part: arrivals
-- What each of these ends for good means to the jobs that wait for several: one row for each job that names the job of the
-- execution, and one for the batch of its trigger. A job that was deleted while it ran is still waited for.
arrivals AS MATERIALIZED (
    SELECT e.fire_id, e.job_group AS ended_group, e.job_name AS ended_name, waits.*
      FROM (SELECT f.*,
                   -- include: nominal_of_f
                   AS instant
              FROM ended f WHERE retry_at IS NULL) AS e
     CROSS JOIN LATERAL (
        SELECT d.row, d.job_group, d.job_name, d.after,
               CASE d.after ->> 'per'
                    WHEN 'day' THEN to_char(e.instant AT TIME ZONE (d.after ->> 'time_zone'), 'YYYY-MM-DD')
                    ELSE to_char(e.instant AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') END AS occasion
          FROM (SELECT u.job_group, u.job_name FROM qrtz_job_upstreams u
                 WHERE u.sched_name || '' = :'sched' AND u.upstream_group || '' = e.job_group
                   AND u.upstream_name || '' = e.job_name) AS by
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row, o.job_group, o.job_name, o.after FROM qrtz_job_details o
             WHERE o.sched_name = :'sched' AND o.job_group = by.job_group AND o.job_name = by.job_name LIMIT 1) AS d
         WHERE d.after -> 'jobs' @> jsonb_build_array(jsonb_build_object('job_group', e.job_group,
                                                                         'job_name', e.job_name))
        UNION ALL
        SELECT d.row, d.job_group, d.job_name, NULL, e.trigger_data -> 'QRTZ_BATCH' ->> 'batch'
          FROM (SELECT o.ctid AS row, o.job_group, o.job_name FROM qrtz_job_details o
                 WHERE o.sched_name = :'sched' AND o.job_group = e.trigger_data -> 'QRTZ_BATCH' ->> 'job_group'
                   AND o.job_name = e.trigger_data -> 'QRTZ_BATCH' ->> 'job_name' LIMIT 1) AS d) AS waits
),

-- part: nominal_of_f
-- The instant for which an execution counts: the last of those that it makes up for, that of the
-- original for one that repeats another, and that of its predecessors for one that follows others.
-- An entry that cannot be read, which only somebody else can have written, is none.
CASE WHEN cardinality(f.coalesced_fire_times) > 0
     THEN f.coalesced_fire_times[cardinality(f.coalesced_fire_times)]
     WHEN f.trigger_group
          IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
     THEN coalesce((jsonb_path_query_first(f.trigger_data, '
                            $.QRTZ_NOMINAL_FIRE_TIME ? (@ like_regex "^[0-9]{4}-")
                             .datetime("YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"")', '{}', true)
                                #>> '{}')::timestamp AT TIME ZONE 'UTC',
                   least(f.scheduled_time,
                         timestamptz 'epoch' + substring(f.trigger_data ->>
                         'QRTZ_RETRIED_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING'
                         FROM '^(?:-\d{1,13}|\d{1,15})(?:\.\d{1,6})?$')::numeric
                         * 1000 * interval '1 microsecond',
                         timestamptz 'epoch' + substring(f.trigger_data ->>
                         'QRTZ_FAILED_JOB_ORIG_TRIGGER_SCHEDULED_FIRETIME_IN_MILLISECONDS_AS_STRING'
                         FROM '^(?:-\d{1,13}|\d{1,15})(?:\.\d{1,6})?$')::numeric
                         * 1000 * interval '1 microsecond'))
     ELSE f.scheduled_time END

-- part: continued
-- A one-shot trigger for each job that runs after one of these executions. A second one of the same name, which only a
-- bug can cause, fails the statement: what is recorded as a start is one.
-- include: one_shot
    )
SELECT f.sched_name, nextval('qrtz_fire_ids'), 'CONTINUATIONS', 'after_' || j.fire_id || '_' || j.place,
       j.job_group, j.job_name,
       -- include: copied_of_j
       ,
       -- include: key_of_t
       ,
       'simple', '{"interval_us": 0, "repeat_count": 0}',
       CASE WHEN pause.applies OR j.mode = 'DISABLED' THEN 'PAUSED' ELSE 'WAITING' END,
       j.mode = 'DISABLED' AND NOT pause.applies,
       :now, true, :now, f.priority, 'ignore', 1,
       jsonb_build_object(
           'QRTZ_PREDECESSOR_JOB_NAME', f.job_name,
           'QRTZ_PREDECESSOR_JOB_GROUP', f.job_group,
           'QRTZ_PREDECESSOR_FIRE_ID', f.fire_id,
           'QRTZ_PREDECESSOR_OUTCOME', f.outcome,
           'QRTZ_PREDECESSOR_RESULT', f.result::jsonb)
       || coalesce(j.link_data, '{}')
       || jsonb_build_object('QRTZ_NOMINAL_FIRE_TIME', to_char(
           j.instant AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
  FROM successors AS j
 CROSS JOIN LATERAL (SELECT 'CONTINUATIONS' AS trigger_group, j.job_group, j.link_data AS job_data) AS t
 CROSS JOIN LATERAL (
    SELECT
           -- include: group_is_paused_t
           AS applies) AS pause

-- part: newest
-- The newest version of a trigger, by its key alone, here and in all statements on the way of a fire: what does not fit
-- is then no reason to visit the older versions, and there are as many as fires while somebody holds an old snapshot.
CROSS JOIN LATERAL (
   SELECT n.ctid AS row FROM qrtz_triggers n
    WHERE n.sched_name = :'sched' AND n.trigger_group = e.trigger_group AND n.trigger_name = e.trigger_name
    ORDER BY n.times_triggered DESC
    LIMIT 1) AS newest

-- part: ended_triggers
-- The triggers whose last fire this was. A declared one (it has an owner) stays, or the next sync would store it anew.
ended_triggers AS (
    DELETE FROM qrtz_triggers t
     USING (SELECT trigger_group, trigger_name, generation FROM done WHERE is_last) AS e
     -- include: newest
     CROSS JOIN LATERAL (
        SELECT c.ctid AS row
          FROM qrtz_triggers c
         WHERE c.ctid = newest.row
           AND c.generation = e.generation AND c.trigger_state || '' = 'COMPLETE' AND c.owner IS NULL
           FOR UPDATE SKIP LOCKED) AS over
     WHERE t.ctid = over.row
)

-- part: paused_by_failures
SET trigger_state = 'PAUSED',
    fire_id = NULL,
    -- include: held
    paused_at = :now, paused_by = 'pause_after_failures', pause_reason = locked.reason, pause_until = NULL,
    pause_missed = 'misfire'

-- part: is_paused_by_failures
AND t.trigger_group NOT IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
AND t.trigger_state IN ('WAITING', 'BLOCKED')

-- part: late_rules
(VALUES ('NODE'), ('OWN'), ('LATE')) AS rule(name)

-- part: is_overdue
AND t.next_fire_time < CASE rule.name
        WHEN 'NODE' THEN node.at - :'threshold'::interval ELSE node.at END
AND (rule.name <> 'OWN' OR t.next_fire_time < node.at - t.misfire_threshold)

-- part: is_late
-- include: is_overdue
AND t.generation <> ALL(:'passed_over'::bigint[])

-- part: stuck
-- The jobs and keys that hold triggers, by a loose index scan: however many triggers of a job wait for a slot, it makes
-- one step for all of them.
held AS (
    (SELECT job_group, job_name, concurrency_key FROM qrtz_triggers
      WHERE sched_name || '' = :'sched' AND trigger_state IN ('BLOCKED', 'COMPLETE')
      ORDER BY job_group || '', job_name || '', concurrency_key || '' LIMIT 1)
    UNION ALL
    SELECT other.job_group, other.job_name, other.concurrency_key
      FROM held h
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state IN ('BLOCKED', 'COMPLETE')
           AND (t.job_group || '', t.job_name || '', t.concurrency_key || '')
               > (h.job_group, h.job_name, h.concurrency_key)
         ORDER BY t.job_group || '', t.job_name || '', t.concurrency_key || '' LIMIT 1) AS other
),
-- Triggers in a state that says that something holds them, when nothing does. This is possible only by editing tables,
-- or if a step skipped a row that a transaction had locked. What is parked at a gate with a free place is none of them:
-- a node that looks there takes it; see `open_gates`.
stuck AS (
    SELECT t.*
      FROM held h
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM qrtz_triggers o
         WHERE o.sched_name || '' = :'sched' AND o.job_group || '' = h.job_group AND o.job_name || '' = h.job_name
           AND o.concurrency_key || '' = h.concurrency_key AND o.trigger_state = 'COMPLETE'
           AND o.fire_id IS NOT NULL AND o.owner IS NULL
           AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f WHERE f.fire_id = o.fire_id OFFSET 0)
        UNION ALL
        -- Those that are parked at a limit which their job does not have.
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM (
            SELECT b.job_group, b.job_name, b.concurrency_key,
                   num_nonnulls(b.max_concurrent, b.rate_limit) = 0
                   OR (b.overlap_policy = 'skip' AND b.rate_limit IS NULL) AS has_no_own, b.limits IS NULL AS shares_none
              FROM qrtz_triggers b
             WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = h.job_group AND b.job_name || '' = h.job_name
               AND b.concurrency_key || '' = h.concurrency_key AND b.trigger_state = 'BLOCKED'
             LIMIT 1) AS any_one
         CROSS JOIN (VALUES (false, 'A', 'Z'), (true, '', '')) AS lane(is_set, low, high)
         CROSS JOIN LATERAL (
            SELECT b.ctid, b.* FROM qrtz_triggers b
             WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = any_one.job_group
               AND b.job_name || '' = any_one.job_name AND b.concurrency_key || '' = any_one.concurrency_key
               AND b.trigger_state = 'BLOCKED'
               AND coalesce(left(b.parked_at, 0), b.misfire_rule) BETWEEN lane.low AND lane.high OFFSET 0) AS o
         WHERE CASE WHEN lane.is_set THEN any_one.shares_none ELSE any_one.has_no_own END) AS t
)

-- part: first_parked_set
SELECT t.parked_at AS limits, t.next_fire_time,
       -- include: key_hash
       AS key_hash
  FROM qrtz_triggers t
 WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED' AND t.parked_at IS NOT NULL

-- part: next_parked_set
SELECT other.*
  FROM parked_sets s
 CROSS JOIN LATERAL (
    SELECT t.parked_at, t.next_fire_time,
           -- include: key_hash
           AS key_hash
      FROM qrtz_triggers t
     WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED' AND t.parked_at > s.limits
     ORDER BY t.parked_at, t.next_fire_time LIMIT 1) AS other

-- part: parked_sets
-- The sets of shared limits at which triggers are parked, with the first of each: a loose index scan.
parked_sets AS (
    (
     -- include: first_parked_set
      ORDER BY t.parked_at, t.next_fire_time LIMIT 1)
    UNION ALL
    -- include: next_parked_set
)
