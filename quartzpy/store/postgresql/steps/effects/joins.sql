-- name: hold_joins
-- Holds the joins and batches that the ends for good concern, and the jobs that these may start.
WITH
-- include: ended
bare_ends AS (SELECT * FROM ended WHERE retry_at IS NULL),
-- include: joins
held_up AS (SELECT fire_id FROM joins_held)
-- include: unrecorded
;

-- name: count_joins
-- Counts the ends in each join, and starts the jobs that have waited for the last of them.
WITH
-- include: ended
bare_ends AS (SELECT * FROM ended WHERE retry_at IS NULL),
-- include: joins
done_ends AS MATERIALIZED (SELECT fire_id, outcome, result FROM bare_ends),
-- include: joined
successors AS (SELECT * FROM joined),
continued AS (
    -- include: continued
      JOIN ended AS f USING (fire_id)
    RETURNING trigger_state, next_fire_time
),
waiting AS (SELECT next_fire_time FROM continued WHERE trigger_state = 'WAITING')
-- include: wakes
;
