-- Parts of the statement `acquire`, in its order.
-- The planner is steered here: see docs/planner.md.

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
            -- A live node runs it.
            AND EXISTS (SELECT FROM qrtz_scheduler_state n
                         WHERE n.sched_name = :'sched' AND n.runs[width_bucket(a.key_hash, n.runs)] = a.key_hash OFFSET 0)
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
