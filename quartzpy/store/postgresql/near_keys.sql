-- name: jobs
-- Each part is one walk along the primary key, or one for each group, which a loose index scan finds.
WITH RECURSIVE each_group AS (
    (SELECT job_group AS name FROM qrtz_job_details WHERE sched_name = :'sched' ORDER BY job_group LIMIT 1)
    UNION ALL
    SELECT (SELECT k.job_group FROM qrtz_job_details k WHERE k.sched_name = :'sched' AND k.job_group > g.name
             ORDER BY k.job_group LIMIT 1)
      FROM each_group g WHERE g.name IS NOT NULL
)
(SELECT job_group, job_name FROM qrtz_job_details WHERE sched_name = :'sched'
  ORDER BY job_group, job_name LIMIT :'limit'::int)
UNION
(SELECT job_group, job_name FROM qrtz_job_details WHERE sched_name = :'sched' AND job_group = :'group'
  ORDER BY job_name LIMIT :'limit'::int)
UNION
(SELECT job_group, job_name FROM qrtz_job_details
  WHERE sched_name = :'sched' AND job_group = :'group' AND job_name < :'name'
  ORDER BY job_name DESC LIMIT :'limit'::int)
UNION
(SELECT job_group, job_name FROM qrtz_job_details
  WHERE sched_name = :'sched' AND job_group = :'group' AND job_name > :'name'
  ORDER BY job_name LIMIT :'limit'::int)
UNION
SELECT job_group, job_name FROM qrtz_job_details
 WHERE sched_name = :'sched' AND job_group = :'name' AND job_name = :'group'
UNION
SELECT beside.*
  FROM (SELECT name FROM each_group WHERE name IS NOT NULL LIMIT :'limit'::int) AS g
 CROSS JOIN LATERAL (
    (SELECT job_group, job_name FROM qrtz_job_details
      WHERE sched_name = :'sched' AND job_group = g.name AND job_name < :'name'
      ORDER BY job_name DESC LIMIT 1)
    UNION ALL
    (SELECT job_group, job_name FROM qrtz_job_details
      WHERE sched_name = :'sched' AND job_group = g.name AND job_name >= :'name'
      ORDER BY job_name LIMIT 2)) AS beside;

-- name: triggers
-- As `jobs`.
WITH RECURSIVE each_group AS (
    (SELECT trigger_group AS name FROM qrtz_triggers WHERE sched_name = :'sched' ORDER BY trigger_group LIMIT 1)
    UNION ALL
    SELECT (SELECT k.trigger_group FROM qrtz_triggers k WHERE k.sched_name = :'sched' AND k.trigger_group > g.name
             ORDER BY k.trigger_group LIMIT 1)
      FROM each_group g WHERE g.name IS NOT NULL
)
(SELECT trigger_group, trigger_name FROM qrtz_triggers WHERE sched_name = :'sched'
  ORDER BY trigger_group, trigger_name LIMIT :'limit'::int)
UNION
(SELECT trigger_group, trigger_name FROM qrtz_triggers WHERE sched_name = :'sched' AND trigger_group = :'group'
  ORDER BY trigger_name LIMIT :'limit'::int)
UNION
(SELECT trigger_group, trigger_name FROM qrtz_triggers
  WHERE sched_name = :'sched' AND trigger_group = :'group' AND trigger_name < :'name'
  ORDER BY trigger_name DESC LIMIT :'limit'::int)
UNION
(SELECT trigger_group, trigger_name FROM qrtz_triggers
  WHERE sched_name = :'sched' AND trigger_group = :'group' AND trigger_name > :'name'
  ORDER BY trigger_name LIMIT :'limit'::int)
UNION
SELECT trigger_group, trigger_name FROM qrtz_triggers
 WHERE sched_name = :'sched' AND trigger_group = :'name' AND trigger_name = :'group'
UNION
SELECT beside.*
  FROM (SELECT name FROM each_group WHERE name IS NOT NULL LIMIT :'limit'::int) AS g
 CROSS JOIN LATERAL (
    (SELECT trigger_group, trigger_name FROM qrtz_triggers
      WHERE sched_name = :'sched' AND trigger_group = g.name AND trigger_name < :'name'
      ORDER BY trigger_name DESC LIMIT 1)
    UNION ALL
    (SELECT trigger_group, trigger_name FROM qrtz_triggers
      WHERE sched_name = :'sched' AND trigger_group = g.name AND trigger_name >= :'name'
      ORDER BY trigger_name LIMIT 2)) AS beside;
