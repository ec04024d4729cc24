-- Sample values of all statements. psql \set cannot say NULL, so each has a value of its type.
\set now clock_timestamp()
\set actions {SKIPPED}
\set at '2030-01-01 00:00:00+00'
\set caught_up {0}
\set channel quartzpy_channel
\set claims {3,4}
\set coalesces {t}
\set complete {t,t}
\set early '10 ms'
\set epoch 1
\set executions {5,6}
\set executors {default}
\set fire_ids {1,2}
\set following '{"{2030-01-01 00:00:00+00,2030-01-02 00:00:00+00}","{}"}'
\set generations {1}
\set group_slots {5}
\set groups {a}
\set instance node
\set job_types {a.job}
\set left {8}
\set limit 10
\set look_ahead '1 s'
\set missed '{"{}"}'
\set more {f}
\set names {n}
\set next '{"2030-01-02 00:00:00+00"}'
\set passed_over {7}
\set placements '{""}'
\set previous '{"2030-01-01 00:00:00+00"}'
\set reasons '{"cannot be computed","has no next fire time"}'
\set revisions {1}
\set rows '{"(0,1)"}'
\set sched samples
\set schedules '{"{}"}'
\set seen '{"2030-01-01 00:00:00+00"}'
\set since -infinity
\set starts '{"2030-01-01 00:00:00+00"}'
\set threshold '60 s'
\set times {1}
\set upcoming '{"{}"}'
\set workers {5}
