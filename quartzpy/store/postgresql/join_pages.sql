-- name: page
-- The joins and batches that match all filters, the latest first.
\if :count
SELECT count(*) FROM (
\endif
SELECT job_group, job_name, occasion, state, opened_at, last_end_at, total, ended::text, succeeded, failed, removed,
       fire_id
  FROM qrtz_joins
 WHERE sched_name = :'sched'
\if :of_job
   AND job_group = :'job_group' AND job_name = :'job_name'
\endif
\if :of_state
   AND state = :'join_state'
\endif
\if :of_occasion
   AND occasion = :'occasion'
\endif
\if :after
   AND opened_at <= :'after_at'::timestamptz
   AND (opened_at < :'after_at'::timestamptz
        OR (job_group, job_name, occasion) > (:'after_group', :'after_name', :'after_occasion'))
\endif
 ORDER BY opened_at DESC, job_group, job_name, occasion LIMIT :'limit'::int
\if :count
) AS matching
\endif
;
