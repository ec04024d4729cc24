-- Sample values of all statements. psql \set cannot say NULL, so each has a value of its type.
\set now clock_timestamp()
\set after '{2026-01-01 00:00:00+00}'
\set all {f,t}
\set ask_all {false}
\set ask_fire_ids {1}
\set channel quartzpy_channel
\set claims {3,4}
\set complete {t,t}
\set count_fire_ids {1,2}
\set counts {7}
\set data '{"{\\"n\\": 1}"}'
\set data_fire_ids {2}
\set died {8}
\set ended '{2026-01-01 00:00:02+00,2026-01-01 00:00:02+00}'
\set ended_us {1767225602000000,1767225602000000}
\set epoch 1
\set epochs {8}
\set errors '{NULL,"it failed"}'
\set executions {5,6}
\set fire_ids {1,2}
\set further '{"{2026-01-02 00:00:00+00}"}'
\set generations {1}
\set groups {a}
\set handed_back {false,false}
\set instance node
\set instances {dead}
\set last {false,true}
\set logs '{NULL,"a line"}'
\set max_deaths 3
\set names {n}
\set next '{"2030-01-02 00:00:00+00"}'
\set not_failed 'it did not fail'
\set outcomes {SUCCEEDED,FAILED}
\set prefixes {quartzpy-sample-of-no-session}
\set reasons '{"cannot be computed","has no next fire time"}'
\set results {42,NULL}
\set retry_after '{NULL,1 hour}'
\set revisions {1}
\set sched samples
\set seen '{"2030-01-01 00:00:00+00"}'
\set started '{2026-01-01 00:00:01+00,2026-01-01 00:00:01+00}'
\set started_us {1767225601000000,1767225601000000}
\set states {PAUSED,ERROR}
\set stores_data {false,true}
\set wakes_others true

-- Settings of the transaction that a statement leaves to one after it.
SET quartzpy.ended = '{1,2}';
