-- Sample values of all statements. psql \set cannot say NULL, so each has a value of its type. The settings at the end
-- are those that one statement of a transaction leaves to another one.
\set limit_names {erp,crm}
\set limits_list '{NULL,"crm,erp"}'
\set max_concurrent 5
\set now clock_timestamp()
\set action pause
\set action_id 1
\set action_names {pause,resume}
\set action_states {SUCCEEDED,FAILED}
\set actions {SKIPPED}
\set actor ann
\set actors {ann,bob}
\set after '{2026-01-01 00:00:00+00}'
\set after_at '2026-01-01 00:00:00+00'
\set after_group g
\set after_id 9
\set after_json '{}'
\set after_list {NULL,NULL}
\set after_name n
\set after_occasion batch
\set after_priority -5
\set afters '{NULL,"{}"}'
\set ages {1h}
\set all {f,t}
\set alone false
\set among 100
\set bars 10
\set causes '{"it failed",""}'
\set cells 12
\set definition '{"missed": "misfire", "time_zone": "UTC"}'
\set due_at '2026-01-01 00:00:00+00'
\set ended_at '2026-01-01 00:00:00+00'
\set ends_at '2026-01-01 04:00:00+00'
\set every '5 s'
\set identities {a,b}
\set identity a
\set incident_id 1
\set incident_ids {1,2}
\set incident_kind trigger-error
\set lanes 10
\set at '2030-01-01 00:00:00+00'
\set batch batch
\set batch_entries '{NULL,"{\\"batch\\": \\"b\\"}"}'
\set batch_outcomes {SUCCEEDED}
\set before '2026-01-01 00:00:00+00'
\set befores '{NULL,"{}"}'
\set by somebody
\set by_mode false
\set calendar '{"kind": "annual"}'
\set calendar_name holidays
\set calendar_name_list {NULL,NULL}
\set capabilities '{"executors": {"default": 5}}'
\set caught_up {0}
\set changed {0,2}
\set channel quartzpy_channel
\set channels {ops,team}
\set checkin_interval '5 s'
\set clock_ahead clock_ahead
\set coalesces {t}
\set columns {state,count}
\set complete {f,t}
\set contains a
\set continuations_list {NULL,NULL}
\set count 5
\set counts {7}
\set data '{NULL,"{\\"region\\": \\"eu\\"}"}'
\set definition_list '{NULL,"{\\"timeout\\": \\"90s\\"}"}'
\set description_list {NULL,long}
\set died {8}
\set breach_kinds '{starts-late,ends-late}'
\set checkpoints '{NULL,"{\\"created\\": \\"2026-01-01T00:00:00+00:00\\"}"}'
\set due_ats {2026-01-01T00:00:00Z,2026-01-02T00:00:00Z}
\set scheduler samples
\set schedulers {samples,samples}
\set scheduled {2026-01-01T00:00:00Z,2026-01-02T00:00:00Z}
\set scheduled_times {2026-01-01T00:00:00Z,2026-01-02T00:00:00Z}
\set expect_list '{NULL,"{\\"starts_within_us\\": 120000000}"}'
\set earliest 2000-01-01T00:00:00Z
\set end '2026-01-01 00:00:00+00'
\set end_time_list {NULL,NULL}
\set ended '{2026-01-01 00:00:02+00,2026-01-01 00:00:02+00}'
\set ended_epoch 7
\set ended_us {1767225602000000,1767225602000000}
\set epoch 1
\set epochs {8}
\set documents '{"{}","{}"}'
\set error 'it failed'
\set ending '{"outcome": "SUCCEEDED"}'
\set errors '{NULL,"it failed"}'
\set exact_group g
\set exact_name n
\set executions {5,6}
\set executors {default}
\set expected {2026-01-01T00:00:00Z,2026-01-01T00:00:00Z}
\set facts '{"release": "1.0"}'
\set failures {NULL,2}
\set fire_id 9
\set fewest 3
\set fire_ids {1,2}
\set fired_states {ACQUIRED,EXECUTING}
\set fractions {0.5,NULL}
\set further '{"{2026-01-02 00:00:00+00}"}'
\set generations {1,2}
\set group g
\set group_slots {5}
\set following_pools {zzz}
\set groups {g,g}
\set handed_back {false,false}
\set hashes {1,NULL}
\set host somewhere
\set idle_limit 30000ms
\set is_last true
\set instance node
\set instances {dead}
\set instants {2026-01-01T00:00:00Z,2026-01-01T00:00:00Z}
\set job_data_list '{NULL,"{\\"region\\": \\"eu\\"}"}'
\set job_group g
\set job_group_list {g,g}
\set job_groups {g,g}
\set job_is_durable_list {t,f}
\set job_name j
\set job_name_list {a,b}
\set job_names {a,b}
\set job_type report
\set job_type_list {report,report}
\set job_types {a.job,b.job}
\set keep 1000
\set keeps_data false
\set keeps_persisted true
\set key_entry_list {NULL,region}
\set kind cron
\set kind_list {simple,cron}
\set kinds {simple,cron}
\set last {false,true}
\set late '10 s'
\set late_after '10 s'
\set late_fire_times {2026-01-01T00:00:00Z,2026-01-01T00:00:00Z}
\set latest 2999-01-01T00:00:00Z
\set lead '1 min'
\set limit 10
\set listed_every '1 min'
\set limits {NULL,1}
\set lock TRIGGER_ACCESS
\set logs '{NULL,"a line"}'
\set old '30 s'
\set long '10 min'
\set look_ahead '1 s'
\set margin '1 min'
\set max_concurrent_list {NULL,1}
\set max_deaths 3
\set met_pools {""}
\set messages '{"half done",NULL}'
\set misfire_instruction_list {smart,smart}
\set misfire_threshold_list {NULL,1h}
\set missed misfire
\set missed_times {"{}","{}"}
\set mode ENABLED
\set more {f}
\set most 10
\set most_after 10
\set most_examined 1000
\set most_few 100
\set few_ranges 20
\set most_of_each 50
\set most_runs 100
\set most_triggers 100
\set name a
\set names {a,b}
\set news scheduled
\set occasion 2026-01-01
\set occasions {2026-01-01,batch}
\set next {2026-01-02T00:00:00Z,2026-01-02T00:00:00Z}
\set node node
\set node_mode STANDBY
\set notification_events {began,over}
\set notification_id a1
\set notification_ids {a1,b2}
\set notified_list '{"{}","{}"}'
\set not_failed 'it did not fail'
\set number 0
\set older_than '7 days'
\set operator equals
\set outlives {t,f}
\set outcomes {SUCCEEDED,FAILED}
\set overlap_policy {block,block}
\set overlap_policy_list {block,block}
\set owner somebody
\set part a
\set passed_over {7}
\set patience 1h
\set pattern %a%
\set pause_after_failures_list {NULL,3}
\set persists_data_list {f,t}
\set pid 4711
\set pids {0}
\set placement_list '{"",""}'
\set placements '{"",""}'
\set pool_limits {10}
\set opened_groups '{DEFAULT}'
\set opened_jobs '{serial}'
\set opened_keys '{""}'
\set opened_limits '{"crm,erp"}'
\set prefix qrtz_
\set prefixes {quartzpy-sample-of-no-session}
\set previous '{"2030-01-01 00:00:00+00"}'
\set priority_list {5,9}
\set problems '[{"kind": "schema", "what": "a table is missing"}]'
\set process 0123456789abcdef
\set rate_limit '{"limit": 10, "per_us": 60000000, "burst": 1}'
\set rate_limit_list {NULL,NULL}
\set rate_limits {NULL,NULL}
\set rates {NULL,NULL}
\set reason why
\set recent 20
\set reasons '{"cannot be computed","has no next fire time"}'
\set replace true
\set reports {t,f}
\set refires {f,t}
\set requests_recovery_list {f,t}
\set results {42,NULL}
\set retry_after '{NULL,1 hour}'
\set revisions {1}
\set roles {admin,admin}
\set rows '{"(0,1)"}'
\set runs {t,f}
\set sched samples
\set schedule_list '{"{}","{}"}'
\set schedules '{"{}","{}"}'
\set schema billing
\set scope TRIGGER
\set severities {error,warning}
\set severity error
\set shared_limits '{NULL,"crm,erp"}'
\set shown 20
\set silent_for '60 s'
\set since -infinity
\set sinces {-infinity,2026-01-01T00:00:00Z}
\set slot_pools '{"","\\"executor\\":\\"cpu\\""}'
\set start '2026-01-01 00:00:00+00'
\set start_time_list {2030-01-01T00:00:00Z,2030-01-01T00:00:00Z}
\set seconds 0
\set started '{2026-01-01 00:00:01+00,2026-01-01 00:00:01+00}'
\set started_us {1767225601000000,1767225601000000}
\set starts {2030-01-01T00:00:00Z,2030-01-01T00:00:00Z}
\set starts_at '2026-01-01 02:00:00+00'
\set state FAILED
\set states {PAUSED,ERROR}
\set stored {BLOCKED,ERROR,PAUSED,WAITING}
\set submission 1
\set submissions {1,2}
\set subject everything
\set subjects {everything,everything}
\set table qrtz_scheduler_state
\set total 3
\set threshold '60 s'
\set times {0,1}
\set trigger_data_list '{NULL,"{\\"region\\": \\"eu\\"}"}'
\set trigger_group g
\set trigger_group_list {g,g}
\set trigger_groups '{g,NULL}'
\set trigger_name t
\set trigger_name_list {a,b}
\set trigger_names '{t,NULL}'
\set turn '2026-01-01 00:00:00+00'
\set types {report,report}
\set types_entry 'job types'
\set unreconciled NEW
\set until '2030-01-01 00:00:00+00'
\set upcoming '{"{2026-01-03T00:00:00Z}","{}"}'
\set verbs {SELECT,USAGE}
\set version 1
\set wait '30 s'
\set wakes_others true
\set walked 10
\set wall 1767225601.5
\set what 'Nobody judged.'
\set whats '{"Trigger a is in ERROR.","A node is late."}'
\set why_json '["it failed"]'
\set whys '{"[\\"it failed\\"]","[]"}'
\set window '20 s'
\set window_name w
\set with_all false
\set within '1 day'
\set worker host:1
\set workers {5}
\set zones {Asia/Tokyo}
\set zone_digests {0123456789abcdef}
\set zone_versions {2025b}
\set zone_rules '{"[[0,32400]]"}'
\set zones_entry zones
\set zones_json '{"Asia/Tokyo": "0123456789abcdef"}'
\set expected_start '2026-01-01 00:00:00+00'
\set system 7000000000000000000
\set oid 5
\set database jobs
\set commands {r,a,w,d}
SET quartzpy.role = none;
SET quartzpy.search_path = public;
