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

-- part: is_not_refused
-- This node has not said that it does not run such triggers.
AND (NOT (SELECT refuses_some FROM keys)
     OR ((SELECT refuses FROM keys))[width_bucket(
            -- include: key_hash
            , (SELECT refuses FROM keys))] IS DISTINCT FROM
        -- include: key_hash
    )

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

-- part: passed_instants
CROSS JOIN LATERAL (
   SELECT CASE WHEN t.overlap_policy IN ('buffer_one', 'cancel_other')
               THEN (SELECT count(*) FROM unnest(t.upcoming) AS u(instant)
                      WHERE u.instant <= node.at)
               ELSE 0 END::int AS passed) AS late

-- part: placed
-- The place of each candidate at its gate, and what becomes of it by that: it may FIRE, has to PARK, or is to SKIP this
-- fire. The soonest come first, but the newest if they replace running executions; those that are late come behind. Those
-- that are filled are counted apart from those that are not, unless they wait.
placed AS MATERIALIZED (
    SELECT c.*, NULL::bigint AS gate, 0::bigint AS running, 1::bigint AS nth, false AS is_occupied, 'FIRE' AS wish
      FROM candidates c WHERE c.max_concurrent IS NULL
    UNION ALL
    SELECT p.*,
           CASE WHEN nth <= max_concurrent - running OR (overlap_policy <> 'block' AND NOT is_filled) THEN 'FIRE'
                WHEN overlap_policy = 'block'
                  OR (overlap_policy = 'cancel_other' AND nth <= max_concurrent)
                  OR (overlap_policy = 'buffer_one' AND NOT is_occupied
                      AND nth = greatest(max_concurrent - running, 0) + 1) THEN 'PARK'
                ELSE 'SKIP' END
      FROM (SELECT c.*, g.gate, g.running,
                   row_number() OVER (PARTITION BY g.gate, c.overlap_policy <> 'block' AND c.is_filled
                                          ORDER BY CASE c.overlap_policy WHEN 'cancel_other' THEN c.scheduled_time END DESC,
                                                   c.is_late, c.scheduled_time, c.priority DESC, c.row) AS nth,
                   -- A trigger is parked that is no candidate.
                   g.policy_of_parked IS NOT NULL AND g.free <= 0 AS is_occupied
              FROM candidates c
              JOIN gates g ON g.job_group = c.job_group AND g.job_name = c.job_name
                          AND g.concurrency_key = c.concurrency_key
             WHERE c.max_concurrent IS NOT NULL) AS p
),

-- part: decisions
-- The gates with an execution that is to be asked to stop, and whose row somebody else holds: nothing is parked for it now.
unaskable AS MATERIALIZED (
    SELECT e.gate
      FROM (SELECT DISTINCT gate, job_group, job_name, concurrency_key
              FROM placed WHERE overlap_policy = 'cancel_other' AND wish = 'PARK' AND NOT is_parked) AS job
     CROSS JOIN LATERAL (
        SELECT r.ctid AS row, job.gate FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key AND r.max_concurrent IS NOT NULL
           AND NOT r.cancel_requested OFFSET 0) AS e
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_fired_triggers o
         WHERE o.ctid = e.row FOR NO KEY UPDATE SKIP LOCKED) AS f ON true
     WHERE f.is_free IS NULL
),
-- One decision for each candidate. Where its gate has a place left after this step, what has found none waits for the
-- next one.
decisions AS MATERIALIZED (
    SELECT d.*, nextval('qrtz_fire_ids') AS fire_id
      FROM (SELECT counted.*,
                   CASE WHEN wish = 'FIRE' AND is_taken THEN CASE WHEN is_filled THEN 'FIRE' ELSE 'REFILL' END
                        WHEN wish = 'FIRE' THEN CASE WHEN is_parked THEN 'UNPARK' END
                        WHEN running + fires < max_concurrent THEN NULL
                        WHEN wish = 'PARK'
                        THEN CASE WHEN NOT is_parked AND gate NOT IN (SELECT gate FROM unaskable) THEN 'PARK' END
                        WHEN is_taken THEN 'SKIP' END AS decision
              FROM (SELECT t.*, count(*) FILTER (WHERE wish = 'FIRE' AND is_taken AND is_filled)
                                    OVER (PARTITION BY gate) AS fires
                      FROM (SELECT *, fits AND row_number() OVER (PARTITION BY fits
                                                                      ORDER BY scheduled_time, priority DESC, row)
                                               <= :'limit'::int AS is_taken
                              FROM taken) AS t) AS counted) AS d
     WHERE d.decision IS NOT NULL
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
       SET trigger_state = CASE WHEN d.decision = 'PARK' THEN 'BLOCKED'
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
           CASE WHEN t.max_concurrent IS NOT NULL AND t.overlap_policy <> 'skip' THEN t.concurrency_key END AS gate_key,
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
-- CANCEL_OTHER: an execution is asked to stop for each fire that waits to replace one, the longest-running first. The
-- commit notifies the nodes.
replaced AS (
    UPDATE qrtz_fired_triggers f
       SET cancel_requested = true
      FROM (SELECT job_group, job_name, concurrency_key, count(*) AS replacing
              FROM advanced WHERE decision = 'PARK' AND overlap_policy = 'cancel_other'
             GROUP BY job_group, job_name, concurrency_key) AS job
     CROSS JOIN LATERAL (
        SELECT r.ctid AS row FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
           AND r.concurrency_key = job.concurrency_key
           AND r.max_concurrent IS NOT NULL AND NOT r.cancel_requested
         ORDER BY r.fired_time, r.fire_id
         LIMIT job.replacing) AS oldest
     WHERE f.ctid = oldest.row
    RETURNING pg_notify(:'channel', 'cancelled')
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
INSERT INTO qrtz_triggers (sched_name, generation, trigger_group, trigger_name, job_group, job_name, job_type,
    max_concurrent, overlap_policy, placement, rate_limit, limits, concurrency_key, kind, schedule, trigger_state,
    held_by_mode, next_fire_time, upcoming_is_complete, start_time, priority, misfire_instruction, attempt,
    coalesced_fire_times, job_data)
SELECT f.sched_name, nextval('qrtz_fire_ids'), 'CONTINUATIONS', 'after_' || j.fire_id || '_' || j.place,
       j.job_group, j.job_name, j.job_type, j.max_concurrent, j.overlap_policy, j.placement, j.rate_limit, j.limits,
       -- include: key_of_t
       ,
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
        SELECT o.ctid AS row, o.trigger_group, o.trigger_name, o.trigger_state, o.job_group, o.job_name
          FROM (
            SELECT b.job_group, b.job_name, b.concurrency_key, b.max_concurrent, b.overlap_policy
              FROM qrtz_triggers b
             WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = h.job_group AND b.job_name || '' = h.job_name
               AND b.concurrency_key || '' = h.concurrency_key AND b.trigger_state = 'BLOCKED'
             LIMIT 1) AS any_one
         CROSS JOIN LATERAL (
            SELECT b.ctid, b.* FROM qrtz_triggers b
             WHERE b.sched_name || '' = :'sched' AND b.job_group || '' = any_one.job_group
               AND b.job_name || '' = any_one.job_name AND b.concurrency_key || '' = any_one.concurrency_key
               AND b.trigger_state = 'BLOCKED' OFFSET 0) AS o
         WHERE any_one.max_concurrent IS NULL OR any_one.overlap_policy = 'skip') AS t
)

-- part: limit_sets
-- The sets of limits for which triggers wait, with the first that waits in each slot pool: a loose index scan.
sets AS (
    (SELECT t.limits, t.slot_pool, t.next_fire_time, t.priority, t.max_concurrent,
            -- include: key_hash
            AS key_hash
       FROM qrtz_triggers t
      WHERE t.sched_name || '' = :'sched' AND t.limits IS NOT NULL AND t.trigger_state || '' = 'WAITING'
        AND t.misfire_rule = 'RATE_LIMIT'
      ORDER BY t.limits, t.slot_pool, t.next_fire_time, t.priority DESC LIMIT 1)
    UNION ALL
    SELECT other.*
      FROM sets s
     CROSS JOIN LATERAL (
        SELECT t.limits, t.slot_pool, t.next_fire_time, t.priority, t.max_concurrent,
               -- include: key_hash
               AS key_hash
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
             WHERE n.sched_name = :'sched' AND n.runs[width_bucket(a.key_hash, n.runs)] = a.key_hash OFFSET 0)
