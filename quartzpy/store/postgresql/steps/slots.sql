-- name: pass_on
-- Releases triggers that wait for a slot of a job that has one. The end of an execution gives its slot to one of them.
-- If that one does not take it, because it was paused, deleted or moved in the meantime, or if its row was locked, this
-- gives the slot to the next one: at each check-in, for all jobs, and where a trigger of a job is taken away. A claimed
-- trigger takes a slot soon; one that is released in vain is blocked again.
WITH RECURSIVE
\if :of_jobs
-- The keys of these jobs of which triggers wait for a slot, by a loose index scan.
blocked AS (
    SELECT first_of_job.*
      FROM unnest(:'job_groups'::text[], :'job_names'::text[]) AS named(job_group, job_name)
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key, t.max_concurrent, t.overlap_policy FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED'
           AND t.job_group || '' = named.job_group AND t.job_name || '' = named.job_name
         ORDER BY t.concurrency_key || '' LIMIT 1) AS first_of_job
    UNION ALL
    SELECT other.*
      FROM blocked b
     CROSS JOIN LATERAL (
        SELECT t.job_group, t.job_name, t.concurrency_key, t.max_concurrent, t.overlap_policy FROM qrtz_triggers t
         WHERE t.sched_name || '' = :'sched' AND t.trigger_state = 'BLOCKED'
           AND t.job_group || '' = b.job_group AND t.job_name || '' = b.job_name
           AND t.concurrency_key || '' > b.concurrency_key
         ORDER BY t.concurrency_key || '' LIMIT 1) AS other
),
\else
-- include: blocked
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
-- end
\endif
-- include: open_slots
-- The slots that nothing takes: neither an execution, nor a claimed trigger. Without a limit, or where what finds none
-- is skipped, nothing waits for one.
freed AS MATERIALIZED (
    SELECT :now AS at, b.job_group, b.job_name, b.concurrency_key,
           CASE WHEN b.max_concurrent IS NULL OR b.overlap_policy = 'skip' THEN 2147483647
                ELSE b.max_concurrent - executions.running - claims.number END AS slots, false AS frees_all
      FROM blocked b
     CROSS JOIN LATERAL (
        SELECT count(*) AS running FROM qrtz_fired_triggers r
         WHERE r.sched_name = :'sched' AND r.job_group = b.job_group AND r.job_name = b.job_name
           AND r.concurrency_key = b.concurrency_key AND r.state = 'EXECUTING' AND r.max_concurrent IS NOT NULL
     ) AS executions
     CROSS JOIN LATERAL (
        SELECT count(*) AS number FROM qrtz_triggers c
         WHERE c.sched_name || '' = :'sched' AND c.job_group || '' = b.job_group AND c.job_name || '' = b.job_name
           AND c.concurrency_key || '' = b.concurrency_key AND c.trigger_state = 'ACQUIRED') AS claims
     WHERE b.max_concurrent IS NULL OR b.overlap_policy = 'skip'
        OR (b.overlap_policy = 'block' AND b.max_concurrent > executions.running + claims.number)
)
-- end
,
-- include: released
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
           -- include: keeps_old_entries
           -- PostgreSQL does not search the full pages of `qrtz_triggers_job` for old versions (decision 65).
           concurrency_key = t.concurrency_key,
           -- end
           -- include: prepared_once
           -- PostgreSQL 18 prepares the generated columns for each row anew, unless a column that they depend on is set.
           admission = t.admission
           -- end
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
-- end
SELECT (SELECT count(*) FROM released),
       (SELECT count(pg_notify(:'channel', 'scheduled')) FROM (SELECT FROM released LIMIT 1) AS any_released);
