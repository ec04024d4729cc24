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
\set ask_all {false}
\set ask_fire_ids {1}
\set channel quartzpy_channel
\set claims {3,4}
\set count_fire_ids {1,2}
\set data '{"{\\"n\\": 1}"}'
\set data_fire_ids {2}
\set ended '{2026-01-01 00:00:02+00,2026-01-01 00:00:02+00}'
\set ended_us {1767225602000000,1767225602000000}
\set epoch 1
\set errors '{NULL,"it failed"}'
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
\set handed_back {false,false}
\set instance node
\set last {false,true}
\set logs '{NULL,"a line"}'
\set outcomes {SUCCEEDED,FAILED}
\set reasons '{"cannot be computed","has no next fire time"}'
\set results {42,NULL}
\set retry_after '{NULL,1 hour}'
\set sched samples
\set started '{2026-01-01 00:00:01+00,2026-01-01 00:00:01+00}'
\set started_us {1767225601000000,1767225601000000}
\set stores_data {false,true}
\set wakes_others true
