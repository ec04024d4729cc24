-- Sample values of all statements. psql \set cannot say NULL, so each has a value of its type.
-- Settings that one statement of a transaction leaves to another one.
\set now clock_timestamp()
\set actions {SKIPPED}
\set after '{2026-01-01 00:00:00+00}'
\set ages {1h}
\set all {f,t}
\set ask_all {false}
\set ask_fire_ids {1}
\set at '2030-01-01 00:00:00+00'
\set before '2026-01-01 00:00:00+00'
\set by somebody
\set by_mode false
\set calendar '{"kind": "annual"}'
\set calendars {NULL,NULL}
\set capabilities '{"executors": {"default": 5}}'
\set capture_logs {NULL,INFO}
\set caught_up {0}
\set channel quartzpy_channel
\set checkin_interval '5 s'
\set claims {3,4}
\set clock_ahead clock_ahead
\set coalesces {t}
\set columns {state,count}
\set complete {f,t}
\set concurrency_keys {NULL,region}
\set continuations {NULL,NULL}
\set count_fire_ids {1,2}
\set counts {7}
\set data '{NULL,"{\\"region\\": \\"eu\\"}"}'
\set data_fire_ids {2}
\set descriptions {NULL,long}
\set died {8}
\set display_names {NULL,NULL}
\set durable {t,f}
\set earliest 2000-01-01T00:00:00Z
\set early '10 ms'
\set ended '{2026-01-01 00:00:02+00,2026-01-01 00:00:02+00}'
\set ended_epoch 7
\set ended_us {1767225602000000,1767225602000000}
\set ends {NULL,NULL}
\set epoch 1
\set epochs {8}
\set error 'it failed'
\set errors '{NULL,"it failed"}'
\set executions {5,6}
\set executors {default}
\set facts '{"release": "1.0"}'
\set fire_id 9
\set fire_ids {1,2}
\set following '{"{2030-01-01 00:00:00+00,2030-01-02 00:00:00+00}","{}"}'
\set fractions {0.5,NULL}
\set further '{"{2026-01-02 00:00:00+00}"}'
\set generations {1,2}
\set group g
\set group_slots {5}
\set groups {g,g}
\set handed_back {false,false}
\set hashes {1,NULL}
\set host somewhere
\set idle_limit 30000ms
\set instance node
\set instances {dead}
\set instants {2026-01-01T00:00:00Z,2026-01-01T00:00:00Z}
\set job_groups {g,g}
\set job_names {a,b}
\set job_types {a.job}
\set keep 1000
\set keeps_data false
\set keeps_persisted true
\set kinds {simple,cron}
\set last {false,true}
\set latest 2999-01-01T00:00:00Z
\set left {8}
\set limit 10
\set limits {NULL,1}
\set lock TRIGGER_ACCESS
\set logs '{NULL,"a line"}'
\set look_ahead '1 s'
\set max_deaths 3
\set messages '{"half done",NULL}'
\set misfires {smart,smart}
\set missed misfire
\set missed_times {"{}","{}"}
\set mode ENABLED
\set more {f}
\set most 10
\set name a
\set names {a,b}
\set news scheduled
\set news_of_due due
\set next {2026-01-02T00:00:00Z,2026-01-02T00:00:00Z}
\set not_failed 'it did not fail'
\set older_than '7 days'
\set operator equals
\set outcomes {SUCCEEDED,FAILED}
\set overlap_policy {block,block}
\set passed_over {7}
\set patience 1h
\set pause_after {NULL,3}
\set persists {f,t}
\set pid 4711
\set pids {0}
\set placements '{"",""}'
\set prefix qrtz_
\set prefixes {quartzpy-sample-of-no-session}
\set previous '{"2030-01-01 00:00:00+00"}'
\set priorities {5,9}
\set process 0123456789abcdef
\set rate_limits {NULL,NULL}
\set reason why
\set reasons '{"cannot be computed","has no next fire time"}'
\set recovery {f,t}
\set releases {f,f}
\set replace true
\set results {42,NULL}
\set retries {NULL,NULL}
\set retry_after '{NULL,1 hour}'
\set revisions {1}
\set rows '{"(0,1)"}'
\set rules {SCHEDULER,OWN}
\set sched samples
\set schedules '{"{}","{}"}'
\set schema public
\set scope TRIGGER
\set seen {2026-01-01T00:00:00Z,2026-01-01T00:00:00Z}
\set silent_for '60 s'
\set since -infinity
\set started '{2026-01-01 00:00:01+00,2026-01-01 00:00:01+00}'
\set started_us {1767225601000000,1767225601000000}
\set starts {2030-01-01T00:00:00Z,2030-01-01T00:00:00Z}
\set states {PAUSED,ERROR}
\set stores_data {false,true}
\set table qrtz_scheduler_state
\set threshold '60 s'
\set thresholds {NULL,1h}
\set timeouts {NULL,1h}
\set times {0,1}
\set types {report,report}
\set upcoming '{"{2026-01-03T00:00:00Z}","{}"}'
\set value g
\set verbs {SELECT,USAGE}
\set wakes_others true
\set wall 1767225601.5
\set window '20 s'
\set workers {5}
SET quartzpy.ended = '{1,2}';
SET quartzpy.role = none;
SET quartzpy.search_path = public;
