-- The planner is steered here: see docs/planner.md.

-- `admit` runs before `acquire`, and `charge` after it; `shared_limits.py` says what for. Triggers that wait for limits
-- are read by an index of their own, by the limits that they need; the scheduler is an expression in it, and so is the
-- state in its predicate: no other index of waiting triggers can serve these statements, whatever the planner believes.
-- No statement here walks over triggers that wait for a limit which is used up.
--
-- A slot of a limit is used by each execution that `limit_uses` names, as long as its row of
-- `fired_triggers` is there. Nothing gives a slot back: whatever ends an execution deletes that row.

-- name: admit
-- All limits of a trigger are decided together, for all triggers that are due, in their order: a trigger gets a slot of
-- each of its limits, or none. What a trigger needs that has waited for longer than the misfire threshold, and that
-- lacks a slot of one limit, is not given to those after it. Else a trigger that needs two limits would wait for ever
-- for both to have a slot at the same instant. Only the first of each set of limits has this right, so that few slots
-- are unused, and only if a live node runs it.
--
-- A trigger is late if its limits would have admitted it longer ago than its misfire threshold: then the misfire step
-- decides about it. `full_until` is the last instant at which a limit of executions had no slot. It is written where
-- the slots were all taken when the limit was asked last, and some are not now.
WITH RECURSIVE
-- include: node
-- include: keys
,
-- include: limit_sets
asking AS MATERIALIZED (
    SELECT node.at, sets.*, string_to_array(sets.limits, ',') AS names
      FROM node CROSS JOIN sets WHERE sets.next_fire_time <= node.at
),
-- include: limits_in_use
-- Limits whose rows are written, and which another transaction has locked: they admit nothing now.
held AS MATERIALIZED (
    SELECT u.name
      FROM in_use u
      LEFT JOIN LATERAL (
        SELECT true AS is_free FROM qrtz_limits q
         WHERE q.sched_name = :'sched' AND q.limit_name = u.name
           FOR NO KEY UPDATE SKIP LOCKED) AS f ON true
     WHERE ((u.free > 0 AND u.has_rate) OR (u.was_full AND u.ended > 0)) AND f.is_free IS NULL
),
open AS MATERIALIZED (
    SELECT u.name, u.row, CASE WHEN h.name IS NULL THEN u.free ELSE 0 END AS free,
           u.was_full AND u.ended > 0 AS was_full,
           greatest(CASE WHEN u.was_full THEN u.at ELSE u.full_until END, u.opens) AS admits_since
      FROM in_use u LEFT JOIN held h ON h.name = u.name
),
asked AS MATERIALIZED (
    SELECT a.*, need.free, need.admits_since,
           CASE WHEN pool.slot_pool IS NOT NULL
                THEN least(:'limit'::int, pool.workers, pool.group_slots) END AS slots,
           a.next_fire_time < a.at - :'threshold'::interval AS has_waited
      FROM asking a
      LEFT JOIN unnest(:'slot_pools'::text[], :'workers'::int[], :'group_slots'::int[])
                AS pool(slot_pool, workers, group_slots) ON pool.slot_pool = a.slot_pool
     CROSS JOIN LATERAL (
        SELECT min(o.free) AS free, max(o.admits_since) AS admits_since FROM open o WHERE o.name = ANY(a.names)) AS need
),
due AS MATERIALIZED (
    SELECT a.at, a.names, a.slot_pool, a.slots, a.has_waited, a.admits_since, front.*,
           row_number() OVER (PARTITION BY a.limits, a.slot_pool
                                  ORDER BY front.next_fire_time, front.priority DESC) AS nth
      FROM asked a
     CROSS JOIN LATERAL (
        SELECT t.ctid AS row, t.next_fire_time, t.priority, t.job_group, t.job_name, t.concurrency_key,
               CASE t.overlap_policy WHEN 'block' THEN t.max_concurrent END AS max_concurrent,
               CASE WHEN t.misfire_instruction <> 'ignore' AND t.catch_up_until IS NULL
                    THEN coalesce(t.misfire_threshold, :'threshold'::interval) END AS patience
          FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.limits = a.limits AND t.slot_pool = a.slot_pool
           AND t.trigger_state || '' = 'WAITING' AND t.misfire_rule = 'RATE_LIMIT'
           AND t.next_fire_time <= a.at
           AND t.generation <> ALL(:'passed_over'::bigint[])
           -- include: runs_here
         ORDER BY t.next_fire_time, t.priority DESC
         -- Where the first is late, so may be many others, which get no slot. Where its job has a limit of its own, it
         -- may be full.
         LIMIT CASE WHEN a.has_waited AND a.admits_since < a.at - :'threshold'::interval THEN 500
                    WHEN a.max_concurrent IS NOT NULL THEN 200 + least(a.free, a.slots)
                    ELSE least(a.free, a.slots) END
           FOR NO KEY UPDATE OF t SKIP LOCKED) AS front
     WHERE a.free > 0 AND a.slots > 0
),
judged AS MATERIALIZED (
    SELECT d.*, coalesce(greatest(d.next_fire_time, d.admits_since) < d.at - d.patience, false) AS is_late,
           coalesce(d.max_concurrent <= full_job.running, false) AS is_blocked
      FROM due d
      LEFT JOIN (
        SELECT job.job_group, job.job_name, job.concurrency_key, executions.running
          FROM (SELECT DISTINCT job_group, job_name, concurrency_key FROM due WHERE max_concurrent IS NOT NULL) AS job
         CROSS JOIN LATERAL (
            SELECT count(*) AS running FROM qrtz_fired_triggers r
             WHERE r.sched_name = :'sched' AND r.job_group = job.job_group AND r.job_name = job.job_name
               AND r.concurrency_key = job.concurrency_key AND r.max_concurrent IS NOT NULL
         ) AS executions) AS full_job USING (job_group, job_name, concurrency_key)
),
contenders AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY c.next_fire_time, c.priority DESC, c.row) AS place, c.names, c.row, c.reserves
      FROM (SELECT j.names, j.row, j.next_fire_time, j.priority, j.has_waited AND j.nth = 1 AS reserves
              FROM judged j WHERE NOT j.is_late AND NOT j.is_blocked
            UNION ALL
            SELECT a.names, NULL, a.next_fire_time, a.priority, true
              FROM asked a
             WHERE a.free <= 0 AND a.has_waited AND cardinality(a.names) > 1
               -- include: runs_somewhere
           ) AS c
),
-- One after the other, with what is free then.
allotted AS (
    SELECT 0::bigint AS place, NULL::tid AS row, false AS gets,
           coalesce((SELECT jsonb_object_agg(name, free) FROM open), '{}') AS free
    UNION ALL
    SELECT c.place, c.row, own.gets, CASE WHEN own.gets OR c.reserves THEN a.free || own.rest ELSE a.free END
      FROM allotted a
      JOIN contenders c ON c.place = a.place + 1
     CROSS JOIN LATERAL (
        SELECT c.row IS NOT NULL AND bool_and((a.free ->> n.name)::int > 0) AS gets,
               jsonb_object_agg(n.name, greatest((a.free ->> n.name)::int - 1, 0)) AS rest
          FROM unnest(c.names) AS n(name)) AS own
),
late AS (
    UPDATE qrtz_triggers t SET admission = 'LATE' FROM judged j WHERE t.ctid = j.row AND j.is_late AND NOT j.is_blocked
),
-- As in `acquire`: they are parked at their own gate.
parked AS (
    UPDATE qrtz_triggers t
       SET trigger_state = 'BLOCKED',
           -- include: prepared_once
      FROM judged j
     WHERE t.ctid = j.row AND j.is_blocked
),
admitted AS (
    UPDATE qrtz_triggers t
       SET admission = 'ADMITTED'
      FROM allotted a WHERE t.ctid = a.row AND a.gets
    RETURNING t.trigger_group, t.trigger_name, t.limits
),
-- What nothing has settled: what a recovery has ended.
ended AS (
    DELETE FROM qrtz_limit_uses u
     USING (SELECT name FROM in_use WHERE ended > 0 AND name NOT IN (SELECT name FROM held)) AS l
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_limit_uses o
         WHERE o.sched_name = :'sched' AND o.limit_name = l.name
           AND NOT EXISTS (SELECT FROM qrtz_fired_triggers f WHERE f.fire_id = o.fire_id OFFSET 0)
           FOR UPDATE SKIP LOCKED) AS over
     WHERE u.ctid = over.row
),
filled AS (
    UPDATE qrtz_limits q SET full_until = node.at
      FROM node CROSS JOIN open o WHERE q.ctid = o.row AND o.was_full AND o.name NOT IN (SELECT name FROM held)
)
SELECT set_config('quartzpy.sharing', jsonb_build_object(
           'after', nextval('qrtz_fire_ids'),
           'admitted', coalesce((SELECT jsonb_agg(to_jsonb(admitted)) FROM admitted), '[]'))::text, true);

-- name: charge
-- Each fire of the acquire step has a higher fire_id than the one that `admit` took.
WITH sharing AS MATERIALIZED (SELECT current_setting('quartzpy.sharing')::jsonb AS value),
admitted AS MATERIALIZED (
    SELECT a.*
      FROM sharing
     CROSS JOIN jsonb_to_recordset(sharing.value -> 'admitted') AS a(trigger_group text, trigger_name text, limits text)
),
restored AS (
    UPDATE qrtz_triggers t SET admission = NULL
      FROM admitted a
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row, o.admission FROM qrtz_triggers o
         WHERE o.sched_name = :'sched' AND o.trigger_group = a.trigger_group AND o.trigger_name = a.trigger_name
         ORDER BY o.times_triggered DESC
         LIMIT 1) AS own
     WHERE t.ctid = own.row AND own.admission = 'ADMITTED'
),
used AS (
    INSERT INTO qrtz_limit_uses (sched_name, limit_name, fire_id)
    SELECT :'sched', n.name, f.fire_id
      FROM (SELECT r.fire_id, r.trigger_group, r.trigger_name FROM qrtz_fired_triggers r
             WHERE r.fire_id > (SELECT (value ->> 'after')::bigint FROM sharing) AND r.sched_name = :'sched') AS f
      JOIN admitted a ON a.trigger_group = f.trigger_group AND a.trigger_name = f.trigger_name
     CROSS JOIN unnest(string_to_array(a.limits, ',')) AS n(name)
    RETURNING limit_name
)
UPDATE qrtz_limits q
   SET tat = greatest(:now, CASE WHEN q.tat IS NOT NULL
                                 THEN least(q.tat, :now + rate.gap * (q.rate_limit ->> 'burst')::bigint) END)
             + rate.gap * u.fires
  FROM (SELECT limit_name, count(*) AS fires FROM used GROUP BY limit_name) AS u
 CROSS JOIN LATERAL (
    SELECT o.ctid AS row,
           ((o.rate_limit ->> 'per_us')::bigint + (o.rate_limit ->> 'limit')::bigint - 1)
           / (o.rate_limit ->> 'limit')::bigint * interval '1 microsecond' AS gap
      FROM qrtz_limits o
     WHERE o.sched_name = :'sched' AND o.limit_name = u.limit_name AND o.rate_limit IS NOT NULL LIMIT 1) AS rate
 WHERE q.ctid = rate.row;

-- name: next_turn
-- The earliest instant at which the limits are to be asked about a trigger that this node runs; and the job types and
-- placements of the first about which it has yet to say whether it runs them. A trigger that waits for the end of an
-- execution has no such instant: that end says so (`freed`).
WITH RECURSIVE node AS MATERIALIZED (SELECT :now AS at),
-- include: keys
,
-- include: limit_sets
asking AS MATERIALIZED (
    SELECT node.at, sets.*, string_to_array(sets.limits, ',') AS names FROM node CROSS JOIN sets
),
-- include: limits_in_use
needs AS MATERIALIZED (
    SELECT a.*, need.*, a.next_fire_time < a.at - :'threshold'::interval AS has_waited
      FROM asking a
     CROSS JOIN LATERAL (
        SELECT min(u.free) AS free, bool_and(u.has_slot) AS has_slots, max(u.opens) FILTER (WHERE u.free <= 0) AS opens
          FROM in_use u WHERE u.name = ANY(a.names)) AS need
),
-- The first of each set that this node does not refuse; and those whose slots are not given to others, as in `admit`.
contenders AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY c.next_fire_time, c.priority DESC, c.is_own) AS place, c.*
      FROM (SELECT n.names, n.opens, n.has_waited AND n.next_fire_time = front.next_fire_time AS reserves,
                   true AS is_own, front.*
              FROM needs n
              JOIN unnest(:'slot_pools'::text[]) AS pool(slot_pool) ON pool.slot_pool = n.slot_pool
             CROSS JOIN LATERAL (
                SELECT t.next_fire_time, t.priority, t.job_type, t.placement,
                       -- include: is_not_run
                       AS is_undecided
                  FROM qrtz_triggers t
                 WHERE t.sched_name || '' = :'sched' AND t.limits = n.limits AND t.slot_pool = n.slot_pool
                   AND t.trigger_state || '' = 'WAITING' AND t.misfire_rule = 'RATE_LIMIT'
                   AND t.generation <> ALL(:'passed_over'::bigint[])
                   -- include: is_not_refused
                 ORDER BY t.next_fire_time, t.priority DESC
                 LIMIT 1) AS front
             WHERE n.has_slots
            UNION ALL
            SELECT a.names, a.opens, true, false, a.next_fire_time, a.priority, NULL, NULL, false
              FROM needs a
             WHERE a.free <= 0 AND a.has_waited AND cardinality(a.names) > 1
               -- include: runs_somewhere
           ) AS c
),
allotted AS (
    SELECT 0::bigint AS place, false AS gets, coalesce((SELECT jsonb_object_agg(name, free) FROM in_use), '{}') AS free
    UNION ALL
    SELECT c.place, own.gets, CASE WHEN own.gets OR c.reserves THEN a.free || own.rest ELSE a.free END
      FROM allotted a
      JOIN contenders c ON c.place = a.place + 1
     CROSS JOIN LATERAL (
        SELECT c.is_own AND bool_and((a.free ->> n.name)::int > 0) AS gets,
               jsonb_object_agg(n.name, greatest((a.free ->> n.name)::int - 1, 0)) AS rest
          FROM unnest(c.names) AS n(name)) AS own
)
SELECT min(greatest(c.next_fire_time, c.opens)),
       coalesce(array_agg(c.job_type ORDER BY c.place) FILTER (WHERE c.is_undecided), '{}'),
       coalesce(array_agg(c.placement ORDER BY c.place) FILTER (WHERE c.is_undecided), '{}')
  FROM contenders c
  JOIN allotted a ON a.place = c.place
 -- What a rate holds back has its turn when the rate admits it. What others must have first has it after them.
 WHERE c.is_own AND (a.gets OR c.opens IS NOT NULL);

-- name: give_back
-- Takes fires that were handed back off the rates of their limits: what repeats them is charged. Without them, the limit
-- would be charged for less by an interval each, but for the time since then, which others that fired may have used; so
-- the limit is not exceeded. A fire of longer ago is not taken off: since then, the limit may have been idle.
WITH
-- include: ended
handed_back AS (
    SELECT l.row, l.gap, count(*) AS fires, min(f.fired_time) AS since
      FROM ended f
     CROSS JOIN unnest(:'limit_names'::text[]) AS n(name)
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row,
               ((o.rate_limit ->> 'per_us')::bigint + (o.rate_limit ->> 'limit')::bigint - 1)
               / (o.rate_limit ->> 'limit')::bigint * interval '1 microsecond' AS gap
          FROM qrtz_limits o
         WHERE o.sched_name = :'sched' AND o.limit_name = n.name AND o.rate_limit IS NOT NULL
           FOR NO KEY UPDATE SKIP LOCKED) AS l
     WHERE f.fired_time + l.gap >= :now
       AND EXISTS (SELECT FROM qrtz_limit_uses u
                    WHERE u.sched_name = :'sched' AND u.limit_name = n.name AND u.fire_id = f.fire_id OFFSET 0)
     GROUP BY l.row, l.gap
)
UPDATE qrtz_limits q SET tat = q.tat - h.gap * h.fires + (:now - h.since) FROM handed_back h WHERE q.ctid = h.row;

-- name: freed
-- After the end of executions that share limits: forgets the slots that they have used, and notes until when the limits
-- were full. Returns the soonest trigger that waits for one of these limits: the node asks them again. It notifies the
-- others if it does not run that trigger, or takes no more work.
WITH RECURSIVE
-- include: limit_sets
waiting AS MATERIALIZED (
    SELECT s.next_fire_time, s.key_hash
      FROM sets s WHERE string_to_array(s.limits, ',') && :'limit_names'::text[]
     ORDER BY s.next_fire_time, s.priority DESC LIMIT 1
),
uses AS MATERIALIZED (
    SELECT u.ctid AS row, u.limit_name,
           NOT EXISTS (SELECT FROM qrtz_fired_triggers f WHERE f.fire_id = u.fire_id OFFSET 0) AS has_ended
      FROM qrtz_limit_uses u
     WHERE u.sched_name = :'sched' AND u.limit_name = ANY(:'limit_names'::text[])
),
-- The limits that were full. Where another transaction has locked the row of one, the next step that asks settles it.
full_before AS MATERIALIZED (
    SELECT c.limit_name, mine.row
      FROM (SELECT limit_name, count(*) AS number, count(*) FILTER (WHERE has_ended) AS ended
              FROM uses GROUP BY limit_name) AS c
     CROSS JOIN LATERAL (
        SELECT q.max_concurrent FROM qrtz_limits q
         WHERE q.sched_name = :'sched' AND q.limit_name = c.limit_name LIMIT 1) AS l
      LEFT JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_limits o
         WHERE o.sched_name = :'sched' AND o.limit_name = c.limit_name
           FOR NO KEY UPDATE SKIP LOCKED) AS mine ON true
     WHERE c.ended > 0 AND c.number >= l.max_concurrent
),
filled AS (
    UPDATE qrtz_limits q SET full_until = :now FROM full_before f WHERE q.ctid = f.row
),
ended AS (
    DELETE FROM qrtz_limit_uses u
     USING uses
     CROSS JOIN LATERAL (
        SELECT o.ctid AS row FROM qrtz_limit_uses o WHERE o.ctid = uses.row FOR UPDATE SKIP LOCKED) AS over
     WHERE u.ctid = over.row AND uses.has_ended
       AND uses.limit_name NOT IN (SELECT limit_name FROM full_before WHERE row IS NULL)
)
SELECT (SELECT next_fire_time FROM waiting),
       (SELECT count(pg_notify(:'channel', 'scheduled')) FROM waiting w
         WHERE :'wakes_others'::bool
            OR NOT EXISTS (SELECT FROM qrtz_scheduler_state n
                            WHERE n.sched_name = :'sched' AND n.epoch = :'epoch'::bigint
                              AND n.runs[width_bucket(w.key_hash, n.runs)] = w.key_hash OFFSET 0));

-- name: limits
-- The stored limits, with the jobs whose executions use them, and how many triggers wait for each: at most `most`, of
-- each set of limits and slot pool.
WITH RECURSIVE
-- include: limit_sets
waiting AS MATERIALIZED (
    SELECT string_to_array(s.limits, ',') AS names, due.number
      FROM sets s
     CROSS JOIN LATERAL (
        SELECT count(*) AS number
          FROM (SELECT FROM qrtz_triggers t
                 WHERE t.sched_name || '' = :'sched' AND t.limits = s.limits AND t.slot_pool = s.slot_pool
                   AND t.trigger_state || '' = 'WAITING' AND t.misfire_rule = 'RATE_LIMIT' AND t.next_fire_time <= :now
                 LIMIT :'most'::int) AS first_of_set) AS due
)
SELECT l.limit_name, l.max_concurrent, l.rate_limit::text, l.tat, :now,
       coalesce((SELECT sum(w.number) FROM waiting w WHERE l.limit_name = ANY(w.names)), 0)::bigint,
       uses.job_groups, uses.job_names, uses.numbers
  FROM qrtz_limits l
 CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(job.job_group), '{}') AS job_groups, coalesce(array_agg(job.job_name), '{}') AS job_names,
           coalesce(array_agg(job.number), '{}') AS numbers
      FROM (SELECT f.job_group, f.job_name, count(*) AS number
              FROM qrtz_limit_uses u
             CROSS JOIN LATERAL (
                SELECT r.job_group, r.job_name FROM qrtz_fired_triggers r WHERE r.fire_id = u.fire_id LIMIT 1) AS f
             WHERE u.sched_name = l.sched_name AND u.limit_name = l.limit_name
             GROUP BY f.job_group, f.job_name ORDER BY count(*) DESC, f.job_group, f.job_name) AS job) AS uses
 WHERE l.sched_name = :'sched'
 ORDER BY l.limit_name;

-- name: put_limit
-- What waited for another limit is not late.
INSERT INTO qrtz_limits AS l (sched_name, limit_name, max_concurrent, rate_limit, full_until)
VALUES (:'sched', :'name', :'max_concurrent'::int, :'rate_limit'::jsonb, :now)
    ON CONFLICT (sched_name, limit_name) DO UPDATE
   SET max_concurrent = excluded.max_concurrent, rate_limit = excluded.rate_limit, full_until = excluded.full_until;

-- name: delete_limit
-- Unless jobs share it. Returns some of these, and whether the limit was stored.
WITH sharing AS MATERIALIZED (
    SELECT j.job_group, j.job_name FROM qrtz_job_details j
     WHERE j.sched_name = :'sched' AND (j.rate_limit IS NOT NULL OR j.limits IS NOT NULL)
       AND :'name' = ANY(string_to_array(j.limits, ','))
     ORDER BY j.job_group, j.job_name LIMIT 3
),
removed AS (
    DELETE FROM qrtz_limits l
     WHERE l.sched_name = :'sched' AND l.limit_name = :'name' AND NOT EXISTS (SELECT FROM sharing)
    RETURNING l.limit_name
)
SELECT (SELECT count(*) FROM removed) > 0, ARRAY(SELECT job_group FROM sharing), ARRAY(SELECT job_name FROM sharing);

-- name: missing
-- The names among these under which no limit is stored, and the stored ones.
SELECT ARRAY(SELECT n.name FROM unnest(:'limit_names'::text[]) AS n(name)
              WHERE NOT EXISTS (SELECT FROM qrtz_limits l
                                 WHERE l.sched_name = :'sched' AND l.limit_name = n.name OFFSET 0)),
       ARRAY(SELECT l.limit_name FROM qrtz_limits l WHERE l.sched_name = :'sched' ORDER BY l.limit_name);
