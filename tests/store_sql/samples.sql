-- Sample values of all statements. psql \set cannot say NULL, so each has a value of its type.
\set now clock_timestamp()
\set after '{2026-01-01 00:00:00+00}'
\set all {f,t}
\set ask_all {false}
\set ask_fire_ids {1}
\set before '2026-01-01 00:00:00+00'
\set capabilities '{"executors": {"default": 5}}'
\set channel quartzpy_channel
\set checkin_interval '5 s'
\set claims {3,4}
\set clock_ahead clock_ahead
\set complete {t,t}
\set count_fire_ids {1,2}
\set counts {7}
\set data '{"{\\"n\\": 1}"}'
\set data_fire_ids {2}
\set died {8}
\set ended '{2026-01-01 00:00:02+00,2026-01-01 00:00:02+00}'
\set ended_epoch 7
\set ended_us {1767225602000000,1767225602000000}
\set epoch 1
\set epochs {8}
\set error 'it failed'
\set errors '{NULL,"it failed"}'
\set executions {5,6}
\set facts '{"release": "1.0"}'
\set fire_id 9
\set fire_ids {1,2}
\set fractions {0.5,NULL}
\set further '{"{2026-01-02 00:00:00+00}"}'
\set generations {1}
\set group a
\set groups {a}
\set handed_back {false,false}
\set host somewhere
\set instance node
\set instances {dead}
\set job_groups {a}
\set job_names {j}
\set job_types {a.job}
\set keep 1000
\set last {false,true}
\set limit 10
\set logs '{NULL,"a line"}'
\set look_ahead '10 ms'
\set max_deaths 3
\set messages '{"half done",NULL}'
\set most 10
\set name j
\set names {n}
\set next '{"2030-01-02 00:00:00+00"}'
\set not_failed 'it did not fail'
\set older_than '7 days'
\set outcomes {SUCCEEDED,FAILED}
\set passed_over {7}
\set pid 4711
\set prefixes {quartzpy-sample-of-no-session}
\set process 0123456789abcdef
\set reasons '{"cannot be computed","has no next fire time"}'
\set results {42,NULL}
\set retry_after '{NULL,1 hour}'
\set revisions {1}
\set sched samples
\set seen '{"2030-01-01 00:00:00+00"}'
\set silent_for '60 s'
\set since -infinity
\set started '{2026-01-01 00:00:01+00,2026-01-01 00:00:01+00}'
\set started_us {1767225601000000,1767225601000000}
\set states {PAUSED,ERROR}
\set stores_data {false,true}
\set wakes_others true
\set wall 1767225601.5
\set window '20 s'

-- Settings that one statement of a transaction leaves to another one.
SET quartzpy.ended = '{1,2}';
SET quartzpy.role = none;
SET quartzpy.search_path = public;
