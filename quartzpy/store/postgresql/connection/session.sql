-- name: now
SELECT :now;

-- name: allow_pauses
-- A process that computes in the middle of a transaction leaves its connection idle, perhaps for seconds, for example
-- while Python collects garbage among millions of objects.
SELECT set_config('idle_in_transaction_session_timeout', :'idle_limit'::text, true);
