-- Parts that the statements of several steps include.
-- The planner is steered here: see docs/planner.md.

-- part: prepared_once
-- PostgreSQL 18 prepares the generated columns for each row anew, unless a column that they depend on is set.
catch_up_until = t.catch_up_until

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

-- part: shared_limits
-- The gates that have opened: by ends, and by time.
opened_gates AS MATERIALIZED (
    SELECT o.job_group, o.job_name, o.concurrency_key, o.limits, false AS by_time
      FROM node
     CROSS JOIN unnest(:'opened_groups'::text[], :'opened_jobs'::text[], :'opened_keys'::text[],
                       :'opened_limits'::text[]) AS o(job_group, job_name, concurrency_key, limits)
    UNION ALL
    SELECT l.job_group, l.job_name, l.concurrency_key, coalesce(first_of_gate.limits, l.limit_name), true
      FROM node
     CROSS JOIN LATERAL (
        SELECT * FROM qrtz_limits o WHERE o.sched_name = :'sched' AND o.opens_at <= node.at
         ORDER BY o.opens_at LIMIT 100) AS l
      LEFT JOIN LATERAL (
        SELECT t.limits FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.job_group || '' = l.job_group AND t.job_name || '' = l.job_name
           AND t.concurrency_key || '' = l.concurrency_key AND t.trigger_state = 'BLOCKED'
         LIMIT 1) AS first_of_gate ON true
),
-- The shared limits of these and of the front.
named AS MATERIALIZED (
    SELECT array_agg(DISTINCT n.name) AS names
      FROM (SELECT limits FROM front UNION SELECT limits FROM opened_gates) AS s
     CROSS JOIN unnest(string_to_array(s.limits, ',')) AS n(name)
),
-- As `parked_sets` of other steps; nothing is read where nobody asks.
parked_sets AS (
    (
     -- include: first_parked_set
        AND (SELECT names FROM named) IS NOT NULL
      ORDER BY t.parked_at, t.next_fire_time LIMIT 1)
    UNION ALL
    -- include: next_parked_set
),
-- The sets at which somebody is parked for one of these.
sets AS MATERIALIZED (
    SELECT s.*, string_to_array(s.limits, ',') AS names FROM parked_sets s
     WHERE string_to_array(s.limits, ',') && (SELECT names FROM named)
),
-- What is free of all the limits that these ask. One that is not stored has no place.
limits AS MATERIALIZED (
    SELECT node.at, asked.name, stored.row, stored.tat, stored.opens_at, stored.is_held, rate.gap, rate.tolerance, rate.ahead,
           CASE WHEN stored.row IS NULL OR stored.is_held THEN 0
                ELSE greatest(least(stored.max_concurrent - coalesce(taken.number, 0), rate.admits, 1000000), 0)
                END AS free
      FROM node
     CROSS JOIN (SELECT unnest(names) FROM named UNION SELECT unnest(names) FROM sets) AS asked(name)
      LEFT JOIN LATERAL (
        SELECT o.ctid AS row, o.max_concurrent, o.rate_limit, o.tat, o.opens_at,
               num_nonnulls(o.rate_limit, o.opens_at) > 0 AND
               -- include: is_held
               AS is_held
          FROM qrtz_limits o
         WHERE o.sched_name = :'sched' AND o.limit_name = asked.name
           AND o.job_group = '' AND o.job_name = '' AND o.concurrency_key = '' LIMIT 1) AS stored ON true
      LEFT JOIN (
        SELECT n.name, count(*) AS number
          FROM qrtz_fired_triggers f
         CROSS JOIN unnest(string_to_array(f.limits, ',')) AS n(name)
         WHERE f.sched_name || '' = :'sched' AND f.limits IS NOT NULL AND (SELECT names FROM named) IS NOT NULL
         GROUP BY n.name) AS taken ON taken.name = asked.name
     CROSS JOIN LATERAL (SELECT stored.rate_limit) AS slots
     CROSS JOIN LATERAL (
        -- include: rate
       ) AS rate
),
-- The soonest that are parked at these sets, as many as may run. Where nothing is free, the first one reserves what is
-- left of its other limits, if it has waited for long and a live node runs it: else, others would take these for ever.
at_sets AS MATERIALIZED (
    SELECT node.at, of_set.*, a.free <= 0 AS reserves
      FROM node
     CROSS JOIN (
        SELECT s.limits, min(s.next_fire_time) AS first_time, min(s.key_hash) AS key_hash, count(*) AS number,
               min(l.free) AS free
          FROM sets s
         CROSS JOIN unnest(s.names) AS n(name)
          JOIN limits l ON l.name = n.name
         GROUP BY s.limits) AS a
     CROSS JOIN LATERAL (
        SELECT t.slot_pool, t.generation,
               -- include: is_not_run
               AS is_foreign,
               -- include: candidate_columns
               , t.misfire_rule = 'LATE' AS is_late
          FROM qrtz_triggers t
         -- include: passed_instants
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED' AND t.parked_at = a.limits
         ORDER BY t.next_fire_time, t.priority DESC
         LIMIT CASE WHEN a.free > 0 THEN least(a.free, 1000) ELSE 1 END
           FOR NO KEY UPDATE OF t SKIP LOCKED) AS of_set
     WHERE a.free > 0
        OR (a.first_time < node.at - :'threshold'::interval AND a.number > 1
            -- include: runs_somewhere
           )
),

-- part: placed
-- The place of each candidate at its gate, and what becomes of it by that: it may FIRE, has to PARK, or is to SKIP this
-- fire. The soonest come first, but the newest if they replace running executions; those that are late come behind. Those
-- that are filled are counted apart from those that are not, unless they wait.
\if :shared
at_own AS MATERIALIZED (
    SELECT c.*, NULL::bigint AS gate, NULL::int AS free, NULL::int AS free_slots, 1::bigint AS nth, false AS is_occupied,
           'FIRE' AS wish
      FROM candidates c WHERE num_nonnulls(c.max_concurrent, c.rate_limit) = 0
\else
placed AS MATERIALIZED (
    SELECT c.*, NULL::bigint AS gate, NULL::int AS free, 1::bigint AS nth, false AS is_occupied, 'FIRE' AS wish
      FROM candidates c WHERE c.max_concurrent IS NULL
\endif
    UNION ALL
    SELECT p.*,
           CASE WHEN nth <= free OR (overlap_policy <> 'block' AND NOT is_filled) THEN 'FIRE'
                WHEN overlap_policy = 'block'
\if :shared
                  -- Its rate holds it up, and not an execution.
                  OR nth <= free_slots
\endif
                  OR (overlap_policy = 'cancel_other' AND nth <= max_concurrent)
                  OR (overlap_policy = 'buffer_one' AND NOT is_occupied
\if :shared
                      AND nth = greatest(free_slots, 0) + 1) THEN 'PARK'
\else
                      AND nth = greatest(free, 0) + 1) THEN 'PARK'
\endif
                ELSE 'SKIP' END
      FROM (SELECT c.*, g.gate, g.free,
\if :shared
                   g.free_slots,
\endif
                   row_number() OVER (PARTITION BY g.gate, c.overlap_policy <> 'block' AND c.is_filled
                                          ORDER BY CASE c.overlap_policy WHEN 'cancel_other' THEN c.scheduled_time END DESC,
                                                   c.is_late, c.scheduled_time, c.priority DESC, c.row) AS nth,
                   -- A trigger is parked that is no candidate.
                   g.policy_of_parked IS NOT NULL AND g.free <= 0 AS is_occupied
              FROM candidates c
              JOIN gates g ON g.job_group = c.job_group AND g.job_name = c.job_name
                          AND g.concurrency_key = c.concurrency_key
\if :shared
             WHERE num_nonnulls(c.max_concurrent, c.rate_limit) > 0 AND g.is_held IS NOT TRUE) AS p
),
-- The places at shared limits of those that have one at their job's own. A set that lacks one takes none of the others,
-- unless it reserves them.
wishes AS MATERIALIZED (
    SELECT w.*, row_number() OVER (PARTITION BY name ORDER BY scheduled_time, priority DESC, row) AS place
      FROM (SELECT c.row, c.scheduled_time, c.priority, c.reserves, n.name, coalesce(l.free, 0) AS free,
                   min(coalesce(l.free, 0)) OVER (PARTITION BY c.row) AS free_of_set
              FROM at_own c
             CROSS JOIN unnest(string_to_array(c.limits, ',')) AS n(name)
              LEFT JOIN limits l ON l.name = n.name
             WHERE c.wish = 'FIRE') AS w
     WHERE free_of_set > 0 OR reserves
),
placed AS MATERIALIZED (
    SELECT a.*, a.wish <> 'FIRE' OR a.limits IS NULL OR coalesce(got.all_places, false) AS gets
      FROM at_own a
      LEFT JOIN (SELECT row, bool_and(place <= free) AS all_places FROM wishes GROUP BY row) AS got ON got.row = a.row
\else
             WHERE c.max_concurrent IS NOT NULL) AS p
\endif
),

-- part: may
runs_here AND wish <> 'PARK'
\if :shared
AND gets
\endif

-- part: decisions
-- The gates with an execution that is to be asked to stop, and whose row somebody else holds: nothing is parked for it now.
unaskable AS MATERIALIZED (
    SELECT e.gate
      FROM (SELECT DISTINCT gate, job_group, job_name, concurrency_key
              FROM placed WHERE overlap_policy = 'cancel_other' AND wish = 'PARK' AND NOT is_parked
\if :shared
               AND nth > free_slots
\endif
           ) AS job
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
-- Which of these the node takes, and the fires of each gate.
counted AS (
    SELECT t.*, count(*) FILTER (WHERE wish = 'FIRE' AND is_taken AND is_filled) OVER (PARTITION BY gate) AS fires
      FROM (SELECT *, fits AND row_number() OVER (PARTITION BY fits ORDER BY scheduled_time, priority DESC, row)
                               <= :'limit'::int AS is_taken
              FROM taken) AS t
),
\if :shared
-- The shared limits that have nothing left after this step. What needs one that was not asked asks it in the next step.
used_up AS MATERIALIZED (
    SELECT coalesce(array_agg(l.name), '{}') AS names
      FROM limits l
      LEFT JOIN (SELECT n.name, count(*) AS number
                   FROM counted c
                  CROSS JOIN unnest(string_to_array(c.limits, ',')) AS n(name)
                  WHERE c.wish = 'FIRE' AND c.is_taken AND c.is_filled
                  GROUP BY n.name) AS fires ON fires.name = l.name
      LEFT JOIN (SELECT w.name, count(*) AS number
                   FROM wishes w WHERE w.reserves AND w.free_of_set <= 0 AND w.place <= w.free
                  GROUP BY w.name) AS kept ON kept.name = l.name
     WHERE l.free - coalesce(fires.number, 0) - coalesce(kept.number, 0) <= 0 AND l.is_held IS NOT TRUE
),
\endif
-- One decision for each candidate. Where its gate has a place left after this step, what has found none waits for the
-- next one.
decisions AS MATERIALIZED (
    SELECT d.*, nextval('qrtz_fire_ids') AS fire_id
      FROM (SELECT counted.*,
                   CASE WHEN wish = 'FIRE' AND is_taken THEN CASE WHEN is_filled THEN 'FIRE' ELSE 'REFILL' END
\if :shared
                        WHEN wish = 'FIRE' AND gets THEN CASE WHEN is_parked THEN 'UNPARK' END
                        WHEN wish = 'SKIP' AND fires >= free_slots THEN CASE WHEN is_taken THEN 'SKIP' END
                        -- It is parked at the first of its limits that has nothing left.
                        WHEN gate IS NULL OR fires < free
                        THEN CASE WHEN string_to_array(limits, ',') && (SELECT names FROM used_up)
                                  THEN CASE WHEN parked_at IS DISTINCT FROM limits THEN 'PARK' END
                                  WHEN is_parked THEN 'UNPARK' END
\else
                        WHEN wish = 'FIRE' THEN CASE WHEN is_parked THEN 'UNPARK' END
                        WHEN fires < free THEN NULL
                        WHEN wish = 'SKIP' THEN CASE WHEN is_taken THEN 'SKIP' END
\endif
                        WHEN (NOT is_parked
\if :shared
                              OR parked_at IS NOT NULL
\endif
                             ) AND gate NOT IN (SELECT gate FROM unaskable) THEN 'PARK' END AS decision
              FROM counted) AS d
     WHERE d.decision IS NOT NULL
),

-- part: advanced
-- Carries the decisions out. A trigger that fires or is skipped moves on: to the first of its following fire times that
-- this fire does not coalesce, or to COMPLETE where there is none. A COMPLETE trigger keeps the id of its last fire,
-- whose end removes it. The row is the one that was locked above.
--
-- A trigger that catches up does so until its next fire time is later than the end of the catch-up.
advanced AS (
    UPDATE qrtz_triggers t
       SET trigger_state = CASE WHEN d.decision = 'PARK' THEN 'BLOCKED'
                                WHEN d.moves_on AND d.is_last THEN 'COMPLETE' ELSE 'WAITING' END,
           fire_id = CASE WHEN d.moves_on AND d.is_last THEN d.fire_id END,
           prev_fire_time = CASE d.decision WHEN 'FIRE' THEN t.next_fire_time ELSE t.prev_fire_time END,
           next_fire_time = CASE WHEN d.moves_on THEN d.following[1 + d.coalesced] ELSE t.next_fire_time END,
           coalesced_fire_times = CASE WHEN d.moves_on THEN NULL ELSE t.coalesced_fire_times END,
\if :shared
           parked_at = CASE WHEN d.decision = 'PARK' AND (d.gate IS NULL OR d.fires < d.free) THEN t.limits END,
\else
           parked_at = NULL,
\endif
\if :shared
           -- What a rate or a shared limit has held back is not late, nor are its next fire times by now.
           catch_up_until = CASE WHEN greatest(t.catch_up_until, d.held_until)
                                      >= CASE WHEN d.moves_on THEN d.following[1 + d.coalesced]
                                              ELSE t.next_fire_time END
                                 THEN greatest(t.catch_up_until, d.held_until) END,
\else
           catch_up_until = CASE WHEN t.catch_up_until
                                      >= CASE WHEN d.moves_on THEN d.following[1 + d.coalesced]
                                              ELSE t.next_fire_time END
                                 THEN t.catch_up_until END,
\endif
           upcoming = CASE WHEN d.moves_on THEN d.following[2 + d.coalesced:] ELSE t.upcoming END,
           upcoming_is_complete = CASE WHEN d.moves_on THEN d.following_is_complete ELSE t.upcoming_is_complete END,
           times_triggered = t.times_triggered + CASE WHEN d.moves_on THEN 1 + d.coalesced ELSE 0 END
      FROM (SELECT *, cardinality(following) = coalesced AS is_last
              FROM (SELECT *, decision IN ('FIRE', 'SKIP') AS moves_on,
\if :shared
                           CASE WHEN is_parked AND num_nonnulls(rate_limit, limits) > 0 AND NOT is_late
                                 AND decision IN ('FIRE', 'REFILL', 'UNPARK') THEN at END AS held_until,
\endif
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
              t.start_time, t.end_time, t.priority, t.misfire_instruction, t.misfire_threshold, t.calendar_name,
              t.limits
\if :shared
              , d.nth > d.free_slots AS replaces
\endif
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
           t.max_concurrent, j.capture_logs, j.is_durable AS job_is_durable,
           t.limits, j.joined_by IS NOT NULL AS is_joined,
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
\if :shared
               AND replaces
\endif
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

-- part: charged
-- The rates of the limits that this step has asked, with its fires, and those that it has let wait for any node, or at
-- other limits: these have a place, too, and may fire later. An instant at which nobody is parked any more goes. Of a
-- set, as many were met as may run: where one of these waits at its job's own limit now, the next step looks there again.
rates AS MATERIALIZED (
    SELECT node.at, '' AS limit_name, g.job_group, g.job_name, g.concurrency_key, g.gap, g.ahead, g.tolerance, g.tat,
           g.opens_at, coalesce(u.fires, 0) AS fires, coalesce(u.others, 0) AS others, coalesce(u.parks, false) AS parks,
           false AS is_left
      FROM node
     CROSS JOIN gates g
      LEFT JOIN (SELECT d.gate, count(*) FILTER (WHERE d.decision = 'FIRE') AS fires,
                        count(*) FILTER (WHERE d.decision <> 'FIRE' AND d.is_parked AND d.wish = 'FIRE') AS others,
                        bool_or(d.decision = 'PARK' AND d.fires >= d.free) AS parks
                   FROM decisions d GROUP BY d.gate) AS u ON u.gate = g.gate
     WHERE g.is_held IS NOT TRUE AND num_nonnulls(g.gap, g.opens_at) > 0
    UNION ALL
    SELECT l.at, l.name, '', '', '', l.gap, l.ahead, l.tolerance, l.tat,
           l.opens_at, coalesce(u.fires, 0), coalesce(u.others, 0), coalesce(u.parks, false), coalesce(u.moves, false)
      FROM limits l
      LEFT JOIN (SELECT n.name, count(*) FILTER (WHERE d.decision = 'FIRE') AS fires,
                        count(*) FILTER (WHERE d.decision <> 'FIRE' AND d.is_parked AND d.wish = 'FIRE' AND d.gets) AS others,
                        bool_or(d.decision = 'PARK' AND (d.gate IS NULL OR d.fires < d.free)) AS parks,
                        bool_or(d.decision = 'PARK' AND d.parked_at IS NOT NULL AND d.fires >= d.free) AS moves
                   FROM decisions d
                  CROSS JOIN unnest(string_to_array(d.limits, ',')) AS n(name)
                  GROUP BY n.name) AS u ON u.name = l.name
     WHERE l.row IS NOT NULL AND l.is_held IS NOT TRUE AND (num_nonnulls(l.gap, l.opens_at) > 0 OR u.moves)
),
charged AS (
    INSERT INTO qrtz_limits AS l (sched_name, limit_name, job_group, job_name, concurrency_key, tat, opens_at)
    SELECT :'sched', r.limit_name, r.job_group, r.job_name, r.concurrency_key, r.tat, r.opens_at
      FROM (SELECT r.limit_name, r.job_group, r.job_name, r.concurrency_key, r.tat AS former, r.opens_at AS opened,
                   -- One that is too late is stored as it counts: later, it would count as a later one.
                   CASE WHEN r.gap IS NULL OR (r.fires = 0 AND r.ahead < r.gap + r.tolerance) THEN r.tat
                        ELSE r.at + least(r.ahead + r.gap * r.fires, 1e16)::float8 * interval '1 microsecond' END AS tat,
                   CASE WHEN (r.is_left OR r.ahead + r.gap * (r.fires + r.others) > r.tolerance)
                         AND (r.parks OR CASE WHEN r.limit_name = '' THEN EXISTS (
                                SELECT FROM qrtz_triggers t
                                 WHERE t.sched_name || '' = :'sched' AND t.job_group || '' = r.job_group
                                   AND t.job_name || '' = r.job_name AND t.concurrency_key || '' = r.concurrency_key
                                   AND t.trigger_state = 'BLOCKED' AND coalesce(left(t.parked_at, 0), t.misfire_rule) > ''
                                   AND t.ctid NOT IN (SELECT d.row FROM decisions d WHERE d.is_parked) OFFSET 0)
                              ELSE EXISTS (
                                SELECT FROM parked_sets s
                                 CROSS JOIN LATERAL (
                                    SELECT FROM qrtz_triggers t
                                     WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED'
                                       AND t.parked_at = s.limits
                                       AND t.ctid NOT IN (SELECT d.row FROM decisions d WHERE d.is_parked) LIMIT 1) AS left_there
                                 WHERE r.limit_name = ANY(string_to_array(s.limits, ',')) OFFSET 0) END)
                        THEN r.at + CASE WHEN r.is_left THEN 0
                                         ELSE least(r.ahead + r.gap * (r.fires + r.others) - r.tolerance, 1e16) END::float8
                                    * interval '1 microsecond' END AS opens_at
              FROM rates r OFFSET 0) AS r
     WHERE (r.tat, r.opens_at) IS DISTINCT FROM (r.former, r.opened)
        ON CONFLICT (sched_name, limit_name, job_group, job_name, concurrency_key) DO UPDATE
       SET tat = excluded.tat, opens_at = excluded.opens_at
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

-- part: runs_somewhere
-- A live node runs it.
AND EXISTS (SELECT FROM qrtz_scheduler_state n
             WHERE n.sched_name = :'sched' AND n.runs[width_bucket(a.key_hash, n.runs)] = a.key_hash OFFSET 0)
