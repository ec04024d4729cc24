"""The names of the tables and of their columns, without SQLAlchemy.

Generated from `tables` by `python -m tools.table_columns`; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping

_TEXT = """
qrtz_audit: id sched_name at ended_at actor role action subject reason state count before after error updated_at
qrtz_breaches: id sched_name trigger_group trigger_name job_group job_name scheduled_time kind what why found_at\
 in_a_row since over_at
qrtz_calendars: sched_name calendar_name calendar revision owner
qrtz_executions: fire_id generation fired_time scheduled_time started_at ended_at attempt sched_name trigger_group\
 trigger_name job_group job_name job_type instance_id outcome error trigger_data result retry_at log
qrtz_expectations: sched_name trigger_group trigger_name generation due_at checkpoint
qrtz_fired_triggers: fire_id generation epoch fired_time scheduled_time priority attempt requests_recovery\
 cancel_requested max_concurrent sched_name trigger_group trigger_name job_group job_name job_type instance_id\
 concurrency_key trigger_data coalesced_fire_times progress progress_message recent_log limits submission worker\
 worker_since worker_seen outlives_node ending
qrtz_health_runs: sched_name due_at listed_at
qrtz_identity: id system_identifier database_oid database_name adopted_at adopted_by
qrtz_incidents: id sched_name kind subject identity severity cause began_as what why trigger_group trigger_name\
 job_group job_name since opened_at confirmed_at closed_at acknowledged_at acknowledged_by acknowledged_reason\
 acknowledged_until acknowledged_severity acknowledged_cause notified
qrtz_job_details: sched_name job_group job_name job_type is_durable max_concurrent overlap_policy concurrency_key\
 rate_limit limits placement slot_pool persists_data requests_recovery definition mode owner node_deaths is_stopping\
 pause_after_failures consecutive_failures job_data continuations after joined_by expect
qrtz_job_upstreams: sched_name job_group job_name upstream_group upstream_name
qrtz_joins: sched_name job_group job_name occasion state opened_at last_end_at total outcomes ended succeeded failed\
 removed fire_id due_at
qrtz_limits: sched_name limit_name job_group job_name concurrency_key max_concurrent rate_limit tat opens_at
qrtz_locks: sched_name lock_name
qrtz_maintenance_windows: sched_name window_name scope group_name definition changed_at changed_by starts_at ends_at\
 is_open due_at
qrtz_misfires: id sched_name trigger_group trigger_name generation job_group job_name instance_id handled_at\
 misfire_instruction action scheduled_time missed has_more caught_up next_fire_time
qrtz_notifications: sched_name id channel event message created_at attempts delivered_at failed_at error
qrtz_owners: sched_name owner version
qrtz_paused_trigger_groups: sched_name scope group_name paused_at paused_by pause_reason pause_until pause_missed\
 with_all window_name resumed
qrtz_scheduler_state: sched_name instance_id epoch host pid started_at last_checkin checkin_count back_since problems\
 checkin_interval failure_window process capabilities facts mode mode_since runs refuses
qrtz_trigger_keys: sched_name trigger_group trigger_name
qrtz_zone_rules: sched_name zone_name digest version rules noted_at renewed_by renewed_until
qrtz_triggers: sched_name trigger_group trigger_name job_group job_name job_type max_concurrent overlap_policy\
 concurrency_key placement slot_pool rate_limit limits description kind schedule has_expectation trigger_state\
 parked_at times_triggered next_fire_time prev_fire_time upcoming upcoming_is_complete coalesced_fire_times generation\
 attempt start_time end_time priority misfire_instruction misfire_rule misfire_threshold catch_up_until missed_policy\
 resumed_at unreconciled calendar_name job_data fire_id error owner schedule_hash held_by_mode paused_at paused_by\
 pause_reason pause_until pause_missed
"""

TABLES: Mapping[str, tuple[str, ...]] = {
    table: tuple(columns.split()) for table, columns in (line.split(": ") for line in _TEXT.strip().split("\n"))
}
