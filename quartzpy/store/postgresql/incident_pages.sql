-- name: page
-- The incidents that are over and match all filters, by their ends, the latest first; with `examined` those among the
-- first `among` that ended late enough. With `last`, the position of the last one that is examined.
\if :count
SELECT count(*) FROM (
\endif
\if :last
SELECT closed_at, id
\else
-- include: incident
\endif
  FROM (SELECT * FROM qrtz_incidents
         WHERE sched_name = :'sched' AND closed_at IS NOT NULL
\if :since
           AND closed_at >= :'since'::timestamptz
\endif
\if :after
           AND (closed_at, id) < (:'after_at'::timestamptz, :'after_id'::bigint)
\endif
\if :examined
         ORDER BY closed_at DESC, id DESC
\if :last
         OFFSET :'among'::int - 1 LIMIT 1
\else
         LIMIT :'among'::int
\endif
\endif
       ) AS walked
 WHERE true
\if :last
\else
\if :until
   AND opened_at < :'until'::timestamptz
\endif
\if :of_kind
   AND kind = :'kind'
\endif
\if :of_contains
   AND strpos(lower((subject || E'\n' || what) COLLATE "C"), :'contains') > 0
\endif
\endif
 ORDER BY closed_at DESC, id DESC LIMIT :'limit'::int
\if :count
) AS matching
\endif
;
