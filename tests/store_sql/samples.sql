-- Sample values of all statements. psql \set cannot say NULL, so each has a value of its type.
\set now clock_timestamp()
\set channel quartzpy_channel
\set claims {3,4}
\set epoch 1
\set executions {5,6}
\set executors {default}
\set fire_ids {1,2}
\set group_slots {5}
\set groups {a}
\set instance node
\set job_types {a.job}
\set limit 10
\set look_ahead '1 s'
\set passed_over {7}
\set placements '{""}'
\set reasons '{"cannot be computed","has no next fire time"}'
\set sched samples
\set since -infinity
\set threshold '60 s'
\set workers {5}
