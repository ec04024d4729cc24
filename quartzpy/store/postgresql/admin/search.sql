-- name: near_jobs
-- A text with dots has several readings as a key: each dot may end the group.
-- A loose index scan finds the groups. The names in a group that begin with the text follow each other in the index, at
-- least in the collation "C"; the walk finds those that are elsewhere. With that collation, which changes the case of
-- ASCII letters only, the search is several times as fast.
WITH RECURSIVE groups AS (
    (SELECT job_group AS name, 1 AS number FROM qrtz_job_details
      WHERE sched_name = :'sched' ORDER BY job_group LIMIT 1)
    UNION ALL
    SELECT following.name, g.number + 1
      FROM groups g
     CROSS JOIN LATERAL (
        SELECT job_group AS name FROM qrtz_job_details
         WHERE sched_name = :'sched' AND job_group > g.name ORDER BY job_group LIMIT 1) AS following
     WHERE g.number < 1000
)
(SELECT k.*
   FROM (SELECT :'exact_group'::text AS in_group, :'exact_name'::text AS name
          UNION
         SELECT 'DEFAULT', :'part'::text
          UNION
         SELECT left(:'part', place - 1), substr(:'part', place + 1)
           FROM generate_series(1, length(:'part')) AS place WHERE substr(:'part', place, 1) = '.') AS e
  CROSS JOIN LATERAL (
    SELECT job_group, job_name FROM qrtz_job_details
     WHERE sched_name = :'sched' AND job_group = e.in_group AND job_name = e.name LIMIT 1) AS k)
UNION
(SELECT k.*
   FROM (SELECT name FROM groups WHERE lower(name COLLATE "C") LIKE :'pattern'::text COLLATE "C"
          ORDER BY name LIMIT :'limit'::int) AS g
  CROSS JOIN LATERAL (
    SELECT job_group, job_name FROM qrtz_job_details
     WHERE sched_name = :'sched' AND job_group = g.name
     ORDER BY job_name LIMIT :'limit'::int) AS k
  LIMIT :'limit'::int)
UNION
(SELECT k.*
   FROM (SELECT name FROM groups ORDER BY name) AS g
  CROSS JOIN LATERAL (
    SELECT job_group, job_name FROM qrtz_job_details
     WHERE sched_name = :'sched' AND job_group = g.name AND job_name >= :'part'
     ORDER BY job_name LIMIT :'limit'::int) AS k
  WHERE starts_with(k.job_name, :'part')
  LIMIT :'limit'::int);

-- name: matching_jobs
SELECT *
  FROM (SELECT job_group, job_name FROM qrtz_job_details
         WHERE sched_name = :'sched' AND (job_group, job_name) > (:'after_group', :'after_name')
         ORDER BY job_group, job_name LIMIT :'among'::int) AS examined
 WHERE lower(job_name COLLATE "C") LIKE :'pattern'::text COLLATE "C"
    OR lower(job_group COLLATE "C") LIKE :'pattern'::text COLLATE "C"
 ORDER BY job_group, job_name LIMIT :'walked'::int;

-- name: last_examined_jobs
SELECT job_group, job_name FROM qrtz_job_details
 WHERE sched_name = :'sched' AND (job_group, job_name) > (:'after_group', :'after_name')
 ORDER BY job_group, job_name OFFSET :'among'::int - 1 LIMIT 1;

-- name: near_triggers
-- As `near_jobs`.
WITH RECURSIVE groups AS (
    (SELECT trigger_group AS name, 1 AS number FROM qrtz_triggers
      WHERE sched_name = :'sched' ORDER BY trigger_group LIMIT 1)
    UNION ALL
    SELECT following.name, g.number + 1
      FROM groups g
     CROSS JOIN LATERAL (
        SELECT trigger_group AS name FROM qrtz_triggers
         WHERE sched_name = :'sched' AND trigger_group > g.name ORDER BY trigger_group LIMIT 1) AS following
     WHERE g.number < 1000
)
(SELECT k.*
   FROM (SELECT :'exact_group'::text AS in_group, :'exact_name'::text AS name
          UNION
         SELECT 'DEFAULT', :'part'::text
          UNION
         SELECT left(:'part', place - 1), substr(:'part', place + 1)
           FROM generate_series(1, length(:'part')) AS place WHERE substr(:'part', place, 1) = '.') AS e
  CROSS JOIN LATERAL (
    SELECT trigger_group, trigger_name FROM qrtz_triggers
     WHERE sched_name = :'sched' AND trigger_group = e.in_group AND trigger_name = e.name LIMIT 1) AS k)
UNION
(SELECT k.*
   FROM (SELECT name FROM groups WHERE lower(name COLLATE "C") LIKE :'pattern'::text COLLATE "C"
          ORDER BY name LIMIT :'limit'::int) AS g
  CROSS JOIN LATERAL (
    SELECT trigger_group, trigger_name FROM qrtz_triggers
     WHERE sched_name = :'sched' AND trigger_group = g.name
     ORDER BY trigger_name LIMIT :'limit'::int) AS k
  LIMIT :'limit'::int)
UNION
(SELECT k.*
   FROM (SELECT name FROM groups ORDER BY name) AS g
  CROSS JOIN LATERAL (
    SELECT trigger_group, trigger_name FROM qrtz_triggers
     WHERE sched_name = :'sched' AND trigger_group = g.name AND trigger_name >= :'part'
     ORDER BY trigger_name LIMIT :'limit'::int) AS k
  WHERE starts_with(k.trigger_name, :'part')
  LIMIT :'limit'::int);

-- name: matching_triggers
SELECT *
  FROM (SELECT trigger_group, trigger_name FROM qrtz_triggers
         WHERE sched_name = :'sched' AND (trigger_group, trigger_name) > (:'after_group', :'after_name')
         ORDER BY trigger_group, trigger_name LIMIT :'among'::int) AS examined
 WHERE lower(trigger_name COLLATE "C") LIKE :'pattern'::text COLLATE "C"
    OR lower(trigger_group COLLATE "C") LIKE :'pattern'::text COLLATE "C"
 ORDER BY trigger_group, trigger_name LIMIT :'walked'::int;

-- name: last_examined_triggers
SELECT trigger_group, trigger_name FROM qrtz_triggers
 WHERE sched_name = :'sched' AND (trigger_group, trigger_name) > (:'after_group', :'after_name')
 ORDER BY trigger_group, trigger_name OFFSET :'among'::int - 1 LIMIT 1;
