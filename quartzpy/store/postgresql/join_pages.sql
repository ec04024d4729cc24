-- The planner is steered here: see docs/planner.md.

-- name: page
-- The joins and batches that match all filters, the latest first. The scheduler is compared twice: for the key, and for
-- the index of the latest ones.
\if :count
SELECT count(*) FROM (
\endif
SELECT job_group, job_name, occasion, state, opened_at, last_end_at, total, ended::text, succeeded, failed, removed,
       fire_id
  FROM qrtz_joins
 WHERE sched_name = :'sched' AND sched_name || '' = :'sched'
\if :of_job
   AND job_group = :'job_group' AND job_name = :'job_name'
\endif
\if :of_state
   AND state = :'state'
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

-- name: waiting_jobs
-- The jobs that run after this one and others, with the outcome with which it has ended for their latest occasion, which
-- is read off the end of the key of joins.
SELECT by.spec ->> 'job_group', by.spec ->> 'job_name',
       latest.ended -> jsonb_build_array(own.job_group, own.job_name)::text ->> 'outcome'
  FROM qrtz_job_details own
 CROSS JOIN LATERAL jsonb_array_elements(own.joined_by) WITH ORDINALITY AS by(spec, place)
  LEFT JOIN LATERAL (
    SELECT j.ended FROM qrtz_joins j
     WHERE j.sched_name = :'sched' AND j.job_group = by.spec ->> 'job_group' AND j.job_name = by.spec ->> 'job_name'
       AND j.total IS NULL
     ORDER BY j.occasion DESC LIMIT 1) AS latest ON true
 WHERE own.sched_name = :'sched' AND own.job_group = :'group' AND own.job_name = :'name'
 ORDER BY by.place LIMIT :'limit'::int;
