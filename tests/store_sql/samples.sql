-- Sample values of all statements. psql \set cannot say NULL, so each has a value of its type.
\set now clock_timestamp()
\set channel quartzpy_channel
\set claims {3,4}
\set epoch 1
\set executions {5,6}
\set fire_ids {1,2}
\set instance node
\set limit 10
\set reasons '{"cannot be computed","has no next fire time"}'
\set sched samples
