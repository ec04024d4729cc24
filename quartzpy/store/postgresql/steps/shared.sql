-- Parts that the statements of several steps include.
-- The planner is steered here: see docs/planner.md.

-- part: admission_of_job
-- What the former rate limit said means nothing to another one.
admission = CASE WHEN t.rate_limit = j.rate_limit OR t.limits = j.limits THEN t.admission END,
rate_limited_until = CASE WHEN t.rate_limit = j.rate_limit THEN t.rate_limited_until END

-- part: admission_afresh
-- A rate limit is asked again about a trigger that was late.
admission = nullif(t.admission, 'LATE'),

-- part: prepared_once
-- PostgreSQL 18 prepares the generated columns for each row anew, unless a column that they depend on is set.
admission = t.admission

-- part: rest_of_job
j.description AS job_description, j.concurrency_key AS key_entry, j.rate_limit::text AS rate_limit,
j.display_name, j.documentation_url, j.after::text AS after, j.expect::text AS expect

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

-- part: is_not_refused
-- This node has not said that it does not run such triggers.
\if :refuses_many
AND NOT EXISTS (SELECT FROM qrtz_node_keys k
                 WHERE k.epoch = :'epoch'::bigint AND k.job_type = t.job_type
                   AND k.placement = t.placement AND NOT k.runs OFFSET 0)
\else
AND t.job_type || E'\n' || t.placement <> ALL(:'refused'::text[])
\endif

-- part: accepted
-- What the node runs. With `||`, a large array is read once, and not for each row.
accepted AS MATERIALIZED (
    SELECT accepted_keys || '{}' AS hashes FROM qrtz_scheduler_state
     WHERE sched_name = :'sched' AND instance_id = :'instance' AND epoch = :'epoch'::bigint
),

-- part: key_hash
hashtextextended(t.job_type, hashtextextended(t.placement, 0))

-- part: sooner_waits
-- A step that begins at a time has not read what waits before it.
(SELECT max(since) > '-infinity' FROM unnest(:'sinces'::timestamptz[]) AS since)
AND EXISTS (
    SELECT FROM
           -- include: acquired_rules
     CROSS JOIN LATERAL (
        SELECT FROM qrtz_triggers w
         WHERE w.sched_name || '' = :'sched' AND w.job_group || '' = due.job_group
           AND w.job_name || '' = due.job_name AND w.concurrency_key || '' = due.concurrency_key
           AND w.trigger_state = 'BLOCKED' AND w.misfire_rule = rule.name
           AND w.next_fire_time < due.scheduled_time
           AND w.next_fire_time >= CASE rule.name
                   WHEN 'NODE' THEN due.at - :'threshold'::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR w.next_fire_time >= due.at - w.misfire_threshold)
         LIMIT 1) AS sooner
    OFFSET 0)

-- part: has_said
-- The node has said that it runs the type with the placement. It has said nothing yet about a pair that nobody
-- has used before: such triggers stay as they are, and `undecided` names the pair. Bisection among the hashes of
-- what it runs takes a quarter of the time of a look-up.
(((SELECT hashes FROM accepted))[width_bucket(front.key_hash, (SELECT hashes FROM accepted))] = front.key_hash
 OR EXISTS (SELECT FROM qrtz_node_keys k
             WHERE k.epoch = :'epoch'::bigint AND k.job_type = front.job_type
               AND k.placement = front.placement AND k.runs OFFSET 0))

-- part: limited
-- The number of running executions of each job with a limit that has candidates, for each concurrency key. A job with
-- one candidate and a free slot `is_free`: no order has to be found.
executions AS MATERIALIZED (
    SELECT job.*, counted.running,
           job.candidates = 1 AND counted.running < job.slots AND NOT job.overtakes AS is_free
      FROM (SELECT job_group, job_name, concurrency_key, count(*) AS candidates, min(max_concurrent) AS slots,
                   bool_or(overtakes) AS overtakes
              FROM candidates WHERE max_concurrent IS NOT NULL
             GROUP BY job_group, job_name, concurrency_key) AS job
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key AND r.max_concurrent IS NOT NULL
     ) AS counted
),
-- The candidates of the others, in the order in which they get the free slots: the soonest first, but the newest first
-- if it replaces running executions. Those that are filled are ranked apart from those that are not, unless they block.
limited AS MATERIALIZED (
    SELECT c.*, executions.running,
           row_number() OVER (PARTITION BY c.job_group, c.job_name, c.concurrency_key,
                                           c.overlap_policy <> 'block' AND c.is_filled
                                  ORDER BY CASE c.overlap_policy WHEN 'cancel_other' THEN c.scheduled_time END DESC,
                                           c.scheduled_time, c.priority DESC) AS rank
      FROM candidates c
      JOIN executions
        ON executions.job_group = c.job_group AND executions.job_name = c.job_name
       AND executions.concurrency_key = c.concurrency_key AND NOT executions.is_free
     WHERE c.max_concurrent IS NOT NULL
),
-- The jobs for which a trigger may have to wait, and with an execution whose row another transaction has locked, or has
-- changed or deleted meanwhile. An end that takes no lock would not see that something waits for it, so nothing waits for
-- these now.
held AS MATERIALIZED (
    SELECT e.job_group, e.job_name, e.concurrency_key
      FROM (SELECT job_group, job_name, concurrency_key, bool_or(overlap_policy = 'cancel_other') AS is_replaced
              FROM limited
             WHERE overtakes OR (rank > max_concurrent - running
                                 AND (overlap_policy = 'block' OR (overlap_policy <> 'skip' AND is_filled)))
             GROUP BY job_group, job_name, concurrency_key) AS full_job
     CROSS JOIN LATERAL (
        SELECT r.ctid AS row, r.job_group, r.job_name, r.concurrency_key FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = full_job.job_group AND r.job_name = full_job.job_name
           AND r.concurrency_key = full_job.concurrency_key
           AND r.max_concurrent IS NOT NULL
           AND (NOT r.awaited OR (full_job.is_replaced AND NOT r.cancel_requested)) OFFSET 0) AS e
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_fired_triggers o
         WHERE o.ctid = e.row FOR NO KEY UPDATE SKIP LOCKED) AS f ON true
     WHERE f.is_free IS NULL
),
-- One decision for each candidate.
decisions AS MATERIALIZED (
    -- Nothing holds up these.
    SELECT c.*, 0::bigint AS running, 1::bigint AS rank, 0::bigint AS fires,
           CASE WHEN c.is_filled THEN 'FIRE' ELSE 'REFILL' END AS decision
      FROM candidates c
     WHERE c.max_concurrent IS NULL
        OR (c.job_group, c.job_name, c.concurrency_key)
           IN (SELECT job_group, job_name, concurrency_key FROM executions WHERE is_free)
    UNION ALL
    -- Its job waits for a slot. What is met while executions have all slots leaves the index of waiting triggers, so
    -- that no further step reads it before the end of one of them releases it. Other triggers of the job stay as they
    -- are. So do those for which unfilled triggers leave no slot: they have yet to fire.
    SELECT s.*,
           CASE WHEN s.overtakes OR s.rank > s.max_concurrent - s.running THEN 'BLOCK'
                WHEN s.is_filled THEN 'FIRE' ELSE 'REFILL' END
      FROM (SELECT l.*, count(*) FILTER (WHERE l.is_filled AND l.rank <= l.max_concurrent - l.running)
                                OVER (PARTITION BY l.job_group, l.job_name, l.concurrency_key) AS fires
              FROM limited l WHERE l.overlap_policy = 'block') AS s
     WHERE NOT (s.overtakes OR s.rank > s.max_concurrent - s.running)
        OR ((s.overtakes OR s.running + s.fires >= s.max_concurrent)
            AND (s.job_group, s.job_name, s.concurrency_key)
                NOT IN (SELECT job_group, job_name, concurrency_key FROM held))
    UNION ALL
    -- Its job does not wait for a slot.
    SELECT o.*
      FROM (SELECT l.*, 0::bigint AS fires,
                   CASE WHEN l.is_filled THEN
                       CASE WHEN l.rank <= l.max_concurrent - l.running THEN 'FIRE'
                            WHEN l.overlap_policy = 'cancel_other' AND l.rank <= l.max_concurrent THEN 'BLOCK'
                            WHEN l.overlap_policy = 'buffer_one'
                                 AND l.rank = greatest(l.max_concurrent - l.running, 0) + 1
                                 AND NOT EXISTS (
                                    SELECT FROM qrtz_triggers w
                                     WHERE w.sched_name || '' = :'sched' AND w.job_group || '' = l.job_group
                                       AND w.job_name || '' = l.job_name AND w.concurrency_key || '' = l.concurrency_key
                                       AND w.trigger_state = 'BLOCKED' OFFSET 0)
                                 THEN 'BLOCK'
                            ELSE 'SKIP' END
                       ELSE 'REFILL' END AS decision
              FROM limited l WHERE l.overlap_policy <> 'block') AS o
     WHERE NOT (o.overlap_policy = 'cancel_other' OR o.decision = 'BLOCK')
        OR (o.job_group, o.job_name, o.concurrency_key)
           NOT IN (SELECT job_group, job_name, concurrency_key FROM held)
),

-- part: advanced
-- Carries the decisions out. A trigger that fires or is skipped moves on: to the first of its following fire times that
-- this fire does not coalesce, or to COMPLETE where there is none. A COMPLETE trigger keeps the id of its last fire,
-- whose end removes it. The row is the one that was locked above.
--
-- A trigger that catches up does so until its next fire time is later than the end of the catch-up. One that moves on
-- has to ask its rate limit again.
advanced AS (
    UPDATE qrtz_triggers t
       SET trigger_state = CASE WHEN d.decision = 'BLOCK' THEN 'BLOCKED'
                                WHEN d.moves_on AND d.is_last THEN 'COMPLETE' ELSE 'WAITING' END,
           fire_id = CASE WHEN d.moves_on AND d.is_last THEN d.fire_id END,
           prev_fire_time = CASE d.decision WHEN 'FIRE' THEN t.next_fire_time ELSE t.prev_fire_time END,
           next_fire_time = CASE WHEN d.moves_on THEN d.following[1 + d.coalesced] ELSE t.next_fire_time END,
           coalesced_fire_times = CASE WHEN d.moves_on THEN NULL ELSE t.coalesced_fire_times END,
           admission = CASE WHEN NOT d.moves_on THEN t.admission END,
           catch_up_until = CASE WHEN t.catch_up_until
                                      >= CASE WHEN d.moves_on THEN d.following[1 + d.coalesced]
                                              ELSE t.next_fire_time END
                                 THEN t.catch_up_until END,
           upcoming = CASE WHEN d.moves_on THEN d.following[2 + d.coalesced:] ELSE t.upcoming END,
           upcoming_is_complete = CASE WHEN d.moves_on THEN d.following_is_complete ELSE t.upcoming_is_complete END,
           times_triggered = t.times_triggered + CASE WHEN d.moves_on THEN 1 + d.coalesced ELSE 0 END
      FROM (SELECT *, cardinality(following) = coalesced AS is_last
              FROM (SELECT *, decision IN ('FIRE', 'SKIP') AS moves_on,
                           CASE decision WHEN 'FIRE' THEN also_due ELSE 0 END AS coalesced
                      FROM decisions) AS made) AS d
     WHERE t.ctid = d.row
    RETURNING d.decision, d.fire_id AS given_fire_id, d.at, d.scheduled_time, d.previous_time,
              CASE WHEN d.coalesced = 0 THEN d.coalesced_fire_times
                   ELSE coalesce(d.coalesced_fire_times, ARRAY[d.scheduled_time]) || d.following[:d.coalesced] END
                   AS coalesced,
              -- Each further column would cost time, because the rows are copied from part to part.
              t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name, t.job_type,
              t.next_fire_time, t.upcoming, t.upcoming_is_complete, t.times_triggered, t.attempt, t.max_concurrent,
              t.overlap_policy, t.concurrency_key, t.placement, t.job_data, t.kind, t.schedule, t.description,
              t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold, t.calendar_name
),

-- part: claimed
-- All that the node needs to run the job: the trigger as it is now, its job, and its calendar. Of the fire times after
-- the next one, a node needs those that it may have to refill. The columns are those of `rows.CLAIMED`, in its order,
-- and so are those that `unknown_fires` of the holdings returns.
claimed AS MATERIALIZED (
    SELECT t.given_fire_id AS fire_id, t.at AS fire_time, t.trigger_group, t.trigger_name, t.job_group, t.job_name,
           t.job_type, t.generation, t.scheduled_time AS scheduled_fire_time, t.previous_time AS previous_fire_time,
           t.next_fire_time, t.times_triggered, t.attempt, t.placement, j.retry_policy::text AS retry, j.timeout,
           j.persists_data, j.job_data::text AS job_data, t.job_data::text AS trigger_data,
           c.revision AS calendar_revision,
           CASE WHEN cardinality(t.upcoming) < 3 THEN t.upcoming END AS upcoming_instants, t.upcoming_is_complete,
           t.coalesced, j.node_deaths, j.pause_after_failures, j.continuations::text AS continuations,
           t.max_concurrent, j.capture_logs, j.is_durable AS job_is_durable, j.limits,
           j.joined_by IS NOT NULL AS is_joined,
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
     WHERE t.decision <> 'BLOCK'
),

-- part: stored
-- The running execution. Before its instant, where it was fired ahead of that.
stored AS (
    INSERT INTO qrtz_fired_triggers (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, epoch, fired_time, scheduled_time, priority, max_concurrent,
        concurrency_key, requests_recovery, attempt, trigger_data, coalesced_fire_times)
    SELECT t.fire_id, :'sched', t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, :'instance', :'epoch'::bigint,
           t.fire_time, t.scheduled_fire_time,
           t.priority, t.max_concurrent, t.concurrency_key, t.requests_recovery, t.attempt, t.trigger_data::jsonb,
           t.coalesced
      FROM claimed t WHERE t.decision = 'FIRE'
)

-- part: overlaps
-- The history of fires that a job at its limit does not run, by its overlap policy.
skipped AS (
    INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
        job_type, instance_id, fired_time, scheduled_time, ended_at, outcome, attempt, trigger_data)
    SELECT t.given_fire_id, :'sched', t.trigger_group, t.trigger_name, t.generation, t.job_group, t.job_name,
           t.job_type, :'instance', t.at, t.scheduled_time, t.at, 'SKIPPED', t.attempt,
           t.job_data
      FROM advanced t WHERE t.decision = 'SKIP'
        ON CONFLICT DO NOTHING
),
-- The executions for which something waits now: their ends take the lock (see `plain_completions`). CANCEL_OTHER: one of
-- them is asked to stop for each fire that waits to replace it, the longest-running first. The commit notifies the nodes.
awaited AS (
    UPDATE qrtz_fired_triggers f
       SET awaited = true, cancel_requested = f.cancel_requested OR running.is_replaced
      FROM (SELECT job_group, job_name, concurrency_key,
                   count(*) FILTER (WHERE overlap_policy = 'cancel_other') AS replacing
              FROM advanced WHERE decision = 'BLOCK'
             GROUP BY job_group, job_name, concurrency_key) AS job
     CROSS JOIN LATERAL (
        SELECT r.ctid AS row, r.awaited,
               NOT r.cancel_requested
                   AND row_number() OVER (ORDER BY r.cancel_requested, r.fired_time, r.fire_id) <= job.replacing
                   AS is_replaced
          FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key
           AND r.max_concurrent IS NOT NULL) AS running
     WHERE f.ctid = running.row AND (NOT running.awaited OR running.is_replaced)
    RETURNING CASE WHEN running.is_replaced THEN pg_notify(:'channel', 'cancelled') END
)

-- part: new_state
CASE WHEN usual.is_so OR NOT (checked.group_is_paused OR checked.mode_forbids)
     THEN 'WAITING' ELSE 'PAUSED' END

-- part: checked
-- A key is part of an index entry, whose size is limited: a longer value is represented by its hash.
CROSS JOIN LATERAL (
   SELECT CASE WHEN j.concurrency_key IS NULL THEN ''
               ELSE (SELECT CASE WHEN length(k.value) <= 60 THEN k.value ELSE md5(k.value) END
                       FROM (SELECT coalesce((coalesce(j.job_data, '{}') || coalesce(o.job_data, '{}'))
                                             ->> j.concurrency_key, '') AS value) AS k) END AS new_key) AS own
-- The mode of its job, or manual mode, prevents a trigger from firing.
CROSS JOIN LATERAL (
   SELECT EXISTS (
             SELECT FROM qrtz_paused_trigger_groups p
              WHERE p.sched_name = :'sched'
                AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = o.trigger_group)
                     OR (p.scope = 'JOB' AND p.group_name = o.job_group))) AS group_is_paused,
          EXISTS (
             SELECT FROM qrtz_job_details m
              WHERE m.sched_name = :'sched' AND m.job_group = o.job_group AND m.job_name = o.job_name
                AND (m.mode = 'DISABLED'
                     OR (m.mode = 'MANUAL' AND o.trigger_group NOT IN (
                             'MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS'))))
          OR (o.trigger_group NOT IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
              AND EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                           WHERE p.sched_name = :'sched' AND p.scope = 'MANUAL')) AS mode_forbids) AS checked

-- part: runs_here
-- This node has said that it runs such triggers.
AND EXISTS (SELECT FROM qrtz_node_keys k
             WHERE k.epoch = :'epoch'::bigint AND k.job_type = t.job_type
               AND k.placement = t.placement AND k.runs OFFSET 0)

-- part: ended
-- Those of these executions that this transaction ends: they are recorded, and their claims still stand, which no commit
-- leaves together. So what is sent again because its answer was lost finds nothing.
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
     USING (SELECT fire_id FROM claims EXCEPT SELECT fire_id FROM recorded) AS d
     CROSS JOIN LATERAL (SELECT o.ctid AS row FROM qrtz_fired_triggers o WHERE o.fire_id = d.fire_id LIMIT 1) AS own
     WHERE f.ctid = own.row
    RETURNING f.fire_id
)

-- part: unrecorded
-- What cannot end now has no record, and so no effects. Its claim stands, and the node tries again.
DELETE FROM qrtz_executions e
 USING (SELECT DISTINCT fire_id FROM held_up) AS h
 CROSS JOIN LATERAL (SELECT o.ctid AS row FROM qrtz_executions o WHERE o.fire_id = h.fire_id LIMIT 1) AS own
 WHERE e.ctid = own.row
RETURNING h.fire_id

-- part: own_record
-- The end that this node has recorded, after the claim has gone.
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
-- execution, and one for the batch of its trigger. A job that was deleted while it ran is still waited for. A run by hand
-- is no part of a batch: it has the data of a trigger that has been counted.
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
                 WHERE o.sched_name = :'sched' AND e.trigger_group <> 'MANUAL_TRIGGERS'
                   AND o.job_group = e.trigger_data -> 'QRTZ_BATCH' ->> 'job_group'
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

-- part: released
-- As many of the triggers that wait as there are slots, the soonest first, for each misfire rule by which the acquire
-- step takes a trigger.
in_time AS MATERIALIZED (
    SELECT open.job_group, open.job_name, open.concurrency_key, waiting.row
      FROM (SELECT * FROM freed WHERE NOT frees_all AND slots > 0) AS open
     CROSS JOIN (VALUES ('NODE'), ('OWN'), ('IGNORE'), ('RATE_LIMIT')) AS rule(name)
     CROSS JOIN LATERAL (
        SELECT s.ctid AS row FROM qrtz_triggers s
         WHERE s.sched_name || '' = :'sched' AND s.job_group || '' = open.job_group
           AND s.job_name || '' = open.job_name AND s.concurrency_key || '' = open.concurrency_key
           AND s.trigger_state = 'BLOCKED'
           AND s.misfire_rule = rule.name
           AND s.next_fire_time >= CASE rule.name
                   WHEN 'NODE' THEN open.at - :'misfire_threshold'::interval ELSE '-infinity' END
           AND (rule.name <> 'OWN' OR s.next_fire_time >= open.at - s.misfire_threshold)
         ORDER BY s.next_fire_time, s.priority DESC
         LIMIT open.slots
           FOR NO KEY UPDATE SKIP LOCKED) AS waiting
),
-- Where too few are in time, the soonest of those that are late: these are the misfire step's, which handles the others
-- of the job with them. One that is released in vain is blocked again.
released AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'WAITING',
           -- include: prepared_once
      FROM (SELECT row FROM in_time
            UNION ALL
            SELECT waiting.row
              FROM (SELECT f.*, f.slots - (SELECT count(*) FROM in_time i
                                            WHERE i.job_group = f.job_group AND i.job_name = f.job_name
                                              AND i.concurrency_key = f.concurrency_key) AS rest
                      FROM freed f WHERE NOT f.frees_all) AS open
             CROSS JOIN (VALUES ('NODE'), ('OWN'), ('LATE')) AS rule(name)
             CROSS JOIN LATERAL (
                SELECT s.ctid AS row FROM qrtz_triggers s
                 WHERE s.sched_name || '' = :'sched' AND s.job_group || '' = open.job_group
                   AND s.job_name || '' = open.job_name AND s.concurrency_key || '' = open.concurrency_key
                   AND s.trigger_state = 'BLOCKED'
                   AND s.misfire_rule = rule.name
                   AND s.next_fire_time < CASE rule.name
                           WHEN 'NODE' THEN open.at - :'misfire_threshold'::interval ELSE 'infinity' END
                   AND (rule.name <> 'OWN' OR s.next_fire_time < open.at - s.misfire_threshold)
                 ORDER BY s.next_fire_time, s.priority DESC
                 LIMIT greatest(open.rest, 0)
                   FOR NO KEY UPDATE SKIP LOCKED) AS waiting
             WHERE open.rest > 0) AS waiting
     WHERE t.ctid = waiting.row
    RETURNING t.next_fire_time
)

-- part: continued
-- A one-shot trigger for each job that runs after one of these executions. A second one of the same name, which only a
-- bug can cause, fails the statement: what is recorded as a start is one.
INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
    max_concurrent, overlap_policy, placement, rate_limit, limits, concurrency_key, kind, schedule, trigger_state,
    held_by_mode, next_fire_time, upcoming_is_complete, start_time, priority, misfire_instruction, attempt,
    coalesced_fire_times, job_data)
SELECT f.sched_name, nextval('qrtz_fire_ids'), 'CONTINUATIONS', 'after_' || j.fire_id || '_' || j.place,
       j.job_group, j.job_name, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit, j.limits,
       CASE WHEN j.concurrency_key IS NULL THEN ''
            ELSE (SELECT CASE WHEN length(k.value) <= 60 THEN k.value ELSE md5(k.value) END
                    FROM (SELECT coalesce((coalesce(j.job_data, '{}') || coalesce(j.link_data, '{}'))
                                          ->> j.concurrency_key, '') AS value) AS k) END,
       'simple', '{"interval_us": 0, "repeat_count": 0}',
       CASE WHEN pause.applies OR j.mode = 'DISABLED' THEN 'PAUSED' ELSE 'WAITING' END,
       j.mode = 'DISABLED' AND NOT pause.applies,
       :now, true, :now, f.priority, 'ignore', 1, NULL,
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
 CROSS JOIN LATERAL (
    SELECT EXISTS (SELECT FROM qrtz_paused_trigger_groups p
                    WHERE p.sched_name = :'sched'
                      AND (p.scope = 'ALL' OR (p.scope = 'TRIGGER' AND p.group_name = 'CONTINUATIONS')
                           OR (p.scope = 'JOB' AND p.group_name = j.job_group))) AS applies) AS pause

-- part: ended_triggers
-- The triggers whose last fire this was. A declared one (it has an owner) stays, or the next sync would store it anew.
ended_triggers AS (
    DELETE FROM qrtz_triggers t
     USING (SELECT sched_name, trigger_group, trigger_name, generation FROM done WHERE is_last) AS d
     CROSS JOIN LATERAL (
        SELECT c.ctid AS row
          FROM qrtz_triggers c
         WHERE c.sched_name = d.sched_name AND c.trigger_group = d.trigger_group AND c.trigger_name = d.trigger_name
           AND c.generation = d.generation AND c.trigger_state || '' = 'COMPLETE' AND c.owner IS NULL
           FOR UPDATE SKIP LOCKED) AS over
     WHERE t.ctid = over.row
)

-- part: paused_by_failures
SET trigger_state = CASE WHEN t.trigger_state = 'BLOCKED' AND t.overlap_policy <> 'block'
                         THEN 'PAUSED_BLOCKED' ELSE 'PAUSED' END,
    fire_id = NULL,
    -- include: held
    paused_at = :now, paused_by = 'pause_after_failures', pause_reason = locked.reason, pause_until = NULL,
    pause_missed = 'misfire'

-- part: is_paused_by_failures
AND t.trigger_group NOT IN ('MANUAL_TRIGGERS', 'RECOVERING_JOBS', 'RETRYING_JOBS', 'CONTINUATIONS')
AND t.trigger_state IN ('WAITING', 'BLOCKED')

-- part: late_rules
(VALUES ('NODE'), ('OWN'), ('LATE')) AS rule(name)

-- part: is_late
AND t.next_fire_time < CASE rule.name
        WHEN 'NODE' THEN node.at - :'threshold'::interval ELSE node.at END
AND (rule.name <> 'OWN' OR t.next_fire_time < node.at - t.misfire_threshold)
AND t.generation <> ALL(:'passed_over'::bigint[])

-- part: unseen
-- As `held` and `awaited` of the acquire step: nothing waits for a job with an execution that may end without seeing it.
unseen AS MATERIALIZED (
    SELECT e.job_group, e.job_name, e.concurrency_key
      FROM waited_for job
     CROSS JOIN LATERAL (
        SELECT r.ctid AS row, r.job_group, r.job_name, r.concurrency_key FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key
           AND r.max_concurrent IS NOT NULL AND NOT r.awaited OFFSET 0) AS e
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_fired_triggers o
         WHERE o.ctid = e.row FOR NO KEY UPDATE SKIP LOCKED) AS f ON true
     WHERE f.is_free IS NULL
),
awaited AS (
    UPDATE qrtz_fired_triggers f SET awaited = true
      FROM (SELECT job_group, job_name, concurrency_key FROM waited_for
            EXCEPT SELECT job_group, job_name, concurrency_key FROM unseen) AS job
     CROSS JOIN LATERAL (
        SELECT r.ctid AS row FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key
           AND r.max_concurrent IS NOT NULL AND NOT r.awaited OFFSET 0) AS running
     WHERE f.ctid = running.row
),

-- part: stuck
-- The jobs and keys that hold triggers, by a loose index scan: however many triggers of a job wait for a slot, it makes
-- one step for all of them.
held AS (
    (SELECT job_group, job_name, concurrency_key FROM qrtz_triggers
      WHERE sched_name || '' = :'sched' AND trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
      ORDER BY job_group || '', job_name || '', concurrency_key || '' LIMIT 1)
    UNION ALL
    SELECT other.job_group, other.job_name, other.concurrency_key
      FROM held h
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')
           AND (t.job_group || '', t.job_name || '', t.concurrency_key || '')
               > (h.job_group, h.job_name, h.concurrency_key)
         ORDER BY t.job_group || '', t.job_name || '', t.concurrency_key || '' LIMIT 1) AS other
),
-- Triggers in a state that says that something holds them, when nothing does. This is possible only by editing tables,
-- or if a step skipped a row that a transaction had locked. Where triggers wait for a slot of a job that has one, the
-- next check-in releases them; see `pass_on`.
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
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM (
            SELECT b.job_group, b.job_name, b.concurrency_key, b.max_concurrent, b.overlap_policy
              FROM qrtz_triggers b
             WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = h.job_group AND b.job_name || '' = h.job_name
               AND b.concurrency_key || '' = h.concurrency_key AND b.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED')
             LIMIT 1) AS any_one
         CROSS JOIN LATERAL (
            SELECT b.ctid, b.* FROM qrtz_triggers b
             WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = any_one.job_group
               AND b.job_name || '' = any_one.job_name AND b.concurrency_key || '' = any_one.concurrency_key
               AND b.trigger_state IN ('BLOCKED', 'PAUSED_BLOCKED') OFFSET 0) AS o
         WHERE any_one.max_concurrent IS NULL OR any_one.overlap_policy = 'skip'
            OR (any_one.overlap_policy <> 'block' AND any_one.max_concurrent > (
                SELECT count(*) FROM qrtz_fired_triggers f
                 WHERE f.sched_name = :'sched' AND f.job_group = h.job_group AND f.job_name = h.job_name
                   AND f.concurrency_key = h.concurrency_key
                   AND f.max_concurrent IS NOT NULL))) AS t
)

-- part: blocked
-- The jobs and keys of which triggers wait for a slot, by a loose index scan.
blocked AS (
    (SELECT job_group, job_name, concurrency_key, max_concurrent, overlap_policy FROM qrtz_triggers
      WHERE sched_name || '' = :'sched' AND trigger_state = 'BLOCKED'
      ORDER BY job_group || '', job_name || '', concurrency_key || '' LIMIT 1)
    UNION ALL
    SELECT other.*
      FROM blocked b
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key, t.max_concurrent, t.overlap_policy FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED'
           AND (t.job_group || '', t.job_name || '', t.concurrency_key || '')
               > (b.job_group, b.job_name, b.concurrency_key)
         ORDER BY t.job_group || '', t.job_name || '', t.concurrency_key || '' LIMIT 1) AS other
),

-- part: open_slots
-- The slots that no execution takes. Without a limit, or where what finds none is skipped, nothing waits for one.
freed AS MATERIALIZED (
    SELECT :now AS at, b.job_group, b.job_name, b.concurrency_key,
           CASE WHEN b.max_concurrent IS NULL OR b.overlap_policy = 'skip' THEN 2147483647
                ELSE b.max_concurrent - executions.running END AS slots, false AS frees_all
      FROM blocked b
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = b.job_group AND r.job_name = b.job_name
           AND r.concurrency_key = b.concurrency_key AND r.max_concurrent IS NOT NULL
     ) AS executions
     WHERE b.max_concurrent IS NULL OR b.overlap_policy = 'skip'
        OR (b.overlap_policy = 'block' AND b.max_concurrent > executions.running)
)

-- part: limit_sets
-- The sets of limits for which triggers wait, with the first that waits in each slot pool: a loose index scan.
sets AS (
    (SELECT t.limits, t.slot_pool, t.next_fire_time, t.priority, t.job_type, t.placement, t.max_concurrent
       FROM qrtz_triggers t
      WHERE t.sched_name || '' = :'sched' AND t.limits IS NOT NULL AND t.trigger_state || '' = 'WAITING'
        AND t.misfire_rule = 'RATE_LIMIT'
      ORDER BY t.limits, t.slot_pool, t.next_fire_time, t.priority DESC LIMIT 1)
    UNION ALL
    SELECT other.*
      FROM sets s
     CROSS JOIN LATERAL (
        SELECT t.limits, t.slot_pool, t.next_fire_time, t.priority, t.job_type, t.placement, t.max_concurrent
          FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.limits IS NOT NULL AND t.trigger_state || '' = 'WAITING'
           AND t.misfire_rule = 'RATE_LIMIT' AND (t.limits, t.slot_pool) > (s.limits, s.slot_pool)
         ORDER BY t.limits, t.slot_pool, t.next_fire_time, t.priority DESC LIMIT 1) AS other
),

-- part: limits_in_use
-- How many slots of each limit are used, and how many triggers its rate admits now; `opens` is the instant at which it
-- admits the next one. All instants are finite, as in `rate_limits.sql`.
counted AS MATERIALIZED (
    SELECT named.at, named.name, l.row, l.max_concurrent, l.rate_limit IS NOT NULL AS has_rate, l.full_until,
           uses.number, uses.ended, rate.gap, rate.gap * (rate.burst - 1) AS tolerance,
           CASE WHEN l.rate_limit IS NOT NULL
                THEN greatest(CASE WHEN l.tat IS NOT NULL THEN least(l.tat, named.at + rate.gap * rate.burst) END,
                              timestamptz 'epoch') END AS tat
      FROM (SELECT DISTINCT asking.at, n.name FROM asking CROSS JOIN unnest(asking.names) AS n(name)) AS named
      LEFT JOIN LATERAL (
        SELECT q.ctid AS row, q.max_concurrent, q.rate_limit, q.tat, q.full_until FROM qrtz_limits q
         WHERE q.sched_name = :'sched' AND q.limit_name = named.name LIMIT 1) AS l ON true
     CROSS JOIN LATERAL (
        SELECT ((l.rate_limit ->> 'per_us')::bigint + (l.rate_limit ->> 'limit')::bigint - 1)
               / (l.rate_limit ->> 'limit')::bigint * interval '1 microsecond' AS gap,
               (l.rate_limit ->> 'burst')::bigint AS burst) AS rate
     CROSS JOIN LATERAL (
        SELECT count(*) AS number, count(*) FILTER (WHERE NOT held.is_there) AS ended
          FROM qrtz_limit_uses u
         CROSS JOIN LATERAL (
            SELECT EXISTS (SELECT FROM qrtz_fired_triggers f WHERE f.fire_id = u.fire_id OFFSET 0) AS is_there) AS held
         WHERE u.sched_name = :'sched' AND u.limit_name = named.name) AS uses
),
in_use AS MATERIALIZED (
    SELECT c.*, c.row IS NOT NULL AND coalesce(c.max_concurrent > c.number - c.ended, true) AS has_slot,
           c.number >= c.max_concurrent AS was_full, c.tat - c.tolerance AS opens,
           CASE WHEN c.row IS NULL THEN 0
                ELSE least(CASE WHEN c.max_concurrent IS NOT NULL
                                THEN greatest(c.max_concurrent - (c.number - c.ended), 0) END,
                           1000000,
                           CASE WHEN c.tat - c.at > c.tolerance THEN 0
                                ELSE floor(extract(epoch FROM c.tolerance - (greatest(c.tat, c.at) - c.at))
                                           / extract(epoch FROM c.gap)) + 1 END) END::int AS free
      FROM counted c
),

-- part: runs_somewhere
-- A live node runs it.
AND EXISTS (SELECT FROM qrtz_scheduler_state n
              JOIN qrtz_node_keys k ON k.epoch = n.epoch
             WHERE n.sched_name = :'sched' AND k.job_type = a.job_type AND k.placement = a.placement
               AND k.runs OFFSET 0)
