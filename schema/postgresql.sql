BEGIN;

CREATE TABLE qrtz_alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT qrtz_alembic_version_pkc PRIMARY KEY (version_num)
);


CREATE SEQUENCE qrtz_fire_ids AS BIGINT;

CREATE SEQUENCE qrtz_epochs AS BIGINT;

CREATE TABLE qrtz_audit (
    id BIGINT NOT NULL,
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    actor VARCHAR(200) COLLATE "C" NOT NULL,
    role VARCHAR(16) NOT NULL,
    action VARCHAR(40) NOT NULL,
    subject VARCHAR(500) COLLATE "C" NOT NULL,
    reason TEXT NOT NULL,
    state VARCHAR(16) NOT NULL,
    count BIGINT NOT NULL,
    before JSONB,
    after JSONB,
    error TEXT,
    updated_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT qrtz_audit_pkey PRIMARY KEY (sched_name, id),
    CONSTRAINT qrtz_audit_state_check CHECK (state = ANY ('{RUNNING,SUCCEEDED,FAILED,INTERRUPTED,REFUSED}'))
);

CREATE INDEX qrtz_audit_subject ON qrtz_audit (subject, id);

CREATE INDEX qrtz_audit_at ON qrtz_audit (sched_name, at);

CREATE INDEX qrtz_audit_unsuccessful ON qrtz_audit (sched_name, id) WHERE state <> 'SUCCEEDED';

CREATE TABLE qrtz_calendars (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    calendar_name VARCHAR(200) COLLATE "C" NOT NULL,
    calendar JSONB NOT NULL,
    revision BIGINT NOT NULL,
    owner VARCHAR(200) COLLATE "C",
    CONSTRAINT qrtz_calendars_pkey PRIMARY KEY (sched_name, calendar_name)
);

CREATE TABLE qrtz_executions (
    fire_id BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    fired_time TIMESTAMP WITH TIME ZONE NOT NULL,
    scheduled_time TIMESTAMP WITH TIME ZONE NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE,
    ended_at TIMESTAMP WITH TIME ZONE NOT NULL,
    attempt INTEGER DEFAULT 1 NOT NULL,
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_group VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_name VARCHAR(200) COLLATE "C" NOT NULL,
    job_group VARCHAR(200) COLLATE "C" NOT NULL,
    job_name VARCHAR(200) COLLATE "C" NOT NULL,
    job_type VARCHAR(200) COLLATE "C" NOT NULL,
    instance_id VARCHAR(200) COLLATE "C" NOT NULL,
    outcome VARCHAR(16) NOT NULL,
    error TEXT,
    trigger_data JSONB,
    result JSONB,
    retry_at TIMESTAMP WITH TIME ZONE,
    log TEXT,
    CONSTRAINT qrtz_executions_pkey PRIMARY KEY (fire_id),
    CONSTRAINT qrtz_executions_outcome_check CHECK (outcome = ANY ('{SUCCEEDED,FAILED,CANCELLED,SKIPPED,SNOOZED,TERMINATED}'))
);

CREATE INDEX qrtz_executions_ended ON qrtz_executions (sched_name, ended_at) INCLUDE (instance_id, outcome);

CREATE INDEX qrtz_executions_long ON qrtz_executions (scheduled_time) WHERE ended_at - scheduled_time > interval '1 hour';

CREATE INDEX qrtz_executions_exhausted ON qrtz_executions (sched_name, ended_at) WHERE outcome = 'FAILED' AND retry_at IS NULL;

CREATE INDEX qrtz_executions_lost ON qrtz_executions (sched_name, ended_at) WHERE outcome = 'TERMINATED';

CREATE UNIQUE INDEX qrtz_executions_instant ON qrtz_executions (trigger_name, trigger_group, sched_name, generation, scheduled_time);

CREATE TABLE qrtz_fired_triggers (
    fire_id BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    fired_time TIMESTAMP WITH TIME ZONE NOT NULL,
    scheduled_time TIMESTAMP WITH TIME ZONE NOT NULL,
    priority INTEGER NOT NULL,
    attempt INTEGER DEFAULT 1 NOT NULL,
    requests_recovery BOOLEAN NOT NULL,
    cancel_requested BOOLEAN DEFAULT false NOT NULL,
    max_concurrent INTEGER,
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_group VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_name VARCHAR(200) COLLATE "C" NOT NULL,
    job_group VARCHAR(200) COLLATE "C" NOT NULL,
    job_name VARCHAR(200) COLLATE "C" NOT NULL,
    job_type VARCHAR(200) COLLATE "C" NOT NULL,
    instance_id VARCHAR(200) COLLATE "C" NOT NULL,
    concurrency_key TEXT COLLATE "C" DEFAULT '' NOT NULL,
    trigger_data JSONB,
    coalesced_fire_times TIMESTAMP WITH TIME ZONE[],
    progress DOUBLE PRECISION,
    progress_message TEXT,
    recent_log TEXT,
    limits TEXT COLLATE "C",
    CONSTRAINT qrtz_fired_triggers_pkey PRIMARY KEY (fire_id),
    CONSTRAINT qrtz_fired_triggers_values_check CHECK (least(fired_time, scheduled_time) >= timestamptz '0001-01-01 00:00:00+00' AND greatest(fired_time, scheduled_time) < timestamptz '10000-01-01 00:00:00+00' AND attempt BETWEEN 1 AND 1000000000)
);

CREATE INDEX qrtz_fired_triggers_limits ON qrtz_fired_triggers ((sched_name || ''), limits) WHERE limits IS NOT NULL;

CREATE UNIQUE INDEX qrtz_fired_triggers_limited ON qrtz_fired_triggers (job_name, concurrency_key, job_group, sched_name, (fire_id * least(max_concurrent - 1, 1))) WHERE max_concurrent IS NOT NULL;

CREATE TABLE qrtz_job_details (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    job_group VARCHAR(200) COLLATE "C" NOT NULL,
    job_name VARCHAR(200) COLLATE "C" NOT NULL,
    job_type VARCHAR(200) COLLATE "C" NOT NULL,
    is_durable BOOLEAN NOT NULL,
    max_concurrent INTEGER,
    overlap_policy VARCHAR(12) DEFAULT 'block' NOT NULL,
    concurrency_key VARCHAR(200) COLLATE "C",
    rate_limit JSONB,
    limits TEXT COLLATE "C",
    placement TEXT COLLATE "C" DEFAULT '' NOT NULL,
    slot_pool TEXT COLLATE "C" GENERATED ALWAYS AS (btrim(split_part(placement, '"requires":'::text, 1), '{,}'::text)) STORED NOT NULL,
    persists_data BOOLEAN NOT NULL,
    requests_recovery BOOLEAN NOT NULL,
    definition JSONB,
    mode VARCHAR(10) DEFAULT 'ENABLED' NOT NULL,
    owner VARCHAR(200) COLLATE "C",
    node_deaths INTEGER DEFAULT 0 NOT NULL,
    is_stopping BOOLEAN DEFAULT false NOT NULL,
    pause_after_failures INTEGER,
    consecutive_failures INTEGER DEFAULT 0 NOT NULL,
    job_data JSONB,
    continuations JSONB,
    after JSONB,
    joined_by JSONB,
    expect JSONB,
    CONSTRAINT qrtz_job_details_pkey PRIMARY KEY (sched_name, job_group, job_name),
    CONSTRAINT qrtz_job_details_max_concurrent_check CHECK (max_concurrent > 0),
    CONSTRAINT qrtz_job_details_mode_check CHECK (mode = ANY ('{ENABLED,MANUAL,DISABLED}')),
    CONSTRAINT qrtz_job_details_when_full_check CHECK (overlap_policy = ANY ('{block,skip,buffer_one,cancel_other}')),
    CONSTRAINT qrtz_job_details_rate_limit_check CHECK (rate_limit IS NULL OR (int8range '[1,1000000]' @> (rate_limit ->> 'limit')::bigint AND int8range '[1,1000000]' @> (rate_limit ->> 'burst')::bigint AND int8range '[1,3155760000000000]' @> (rate_limit ->> 'per_us')::bigint) IS TRUE),
    CONSTRAINT qrtz_job_details_definition_check CHECK (jsonb_typeof(definition) = 'object'),
    CONSTRAINT qrtz_job_details_continuations_check CHECK (jsonb_typeof(continuations) = 'array'),
    CONSTRAINT qrtz_job_details_after_check CHECK (after IS NULL OR (jsonb_typeof(after -> 'jobs') = 'array' AND jsonb_typeof(after -> 'outcomes') = 'array' AND (after ->> 'needed')::int BETWEEN 1 AND 100 AND after ->> 'per' = ANY ('{instant,day}') AND after ->> 'time_zone' IS NOT NULL AND coalesce((after ->> 'within_us')::bigint, 1) BETWEEN 1 AND 3155760000000000) IS TRUE),
    CONSTRAINT qrtz_job_details_counters_check CHECK (node_deaths BETWEEN 0 AND 1000000000 AND consecutive_failures BETWEEN 0 AND 1000000000)
);

CREATE INDEX qrtz_job_details_deaths ON qrtz_job_details (sched_name) WHERE node_deaths > 0;

CREATE INDEX qrtz_job_details_dispatch ON qrtz_job_details ((sched_name || ''), job_type, placement);

CREATE INDEX qrtz_job_details_expect ON qrtz_job_details (sched_name, job_group, job_name) WHERE expect IS NOT NULL;

CREATE INDEX qrtz_job_details_mode ON qrtz_job_details (sched_name) WHERE mode || '' <> 'ENABLED';

CREATE INDEX qrtz_job_details_rate_limit ON qrtz_job_details (sched_name) WHERE rate_limit IS NOT NULL OR limits IS NOT NULL;

CREATE TABLE qrtz_incidents (
    id BIGINT NOT NULL,
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    kind VARCHAR(40) NOT NULL,
    subject TEXT NOT NULL,
    identity VARCHAR(64) COLLATE "C" NOT NULL,
    severity VARCHAR(16) NOT NULL,
    cause TEXT NOT NULL,
    began_as TEXT NOT NULL,
    what TEXT NOT NULL,
    why JSONB NOT NULL,
    trigger_group VARCHAR(200) COLLATE "C",
    trigger_name VARCHAR(200) COLLATE "C",
    job_group VARCHAR(200) COLLATE "C",
    job_name VARCHAR(200) COLLATE "C",
    since TIMESTAMP WITH TIME ZONE,
    opened_at TIMESTAMP WITH TIME ZONE NOT NULL,
    confirmed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    closed_at TIMESTAMP WITH TIME ZONE,
    acknowledged_at TIMESTAMP WITH TIME ZONE,
    acknowledged_by VARCHAR(200) COLLATE "C",
    acknowledged_reason TEXT,
    acknowledged_until TIMESTAMP WITH TIME ZONE,
    acknowledged_severity VARCHAR(16),
    acknowledged_cause TEXT,
    notified JSONB,
    CONSTRAINT qrtz_incidents_pkey PRIMARY KEY (sched_name, id),
    CONSTRAINT qrtz_incidents_severity_check CHECK (severity = ANY ('{error,warning,info}')),
    CONSTRAINT qrtz_incidents_closed_check CHECK (closed_at >= opened_at),
    CONSTRAINT qrtz_incidents_instants_check CHECK (least(since, opened_at, confirmed_at, closed_at, acknowledged_at, acknowledged_until) >= timestamptz '0001-01-01 00:00:00+00' AND greatest(since, opened_at, confirmed_at, closed_at, acknowledged_at, acknowledged_until) < timestamptz '10000-01-01 00:00:00+00')
)
 WITH (fillfactor = 70);

CREATE UNIQUE INDEX qrtz_incidents_open ON qrtz_incidents (sched_name, identity) WHERE closed_at IS NULL;

CREATE INDEX qrtz_incidents_closed ON qrtz_incidents (sched_name, closed_at, id) WHERE closed_at IS NOT NULL;

CREATE TABLE qrtz_notifications (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    id VARCHAR(64) COLLATE "C" NOT NULL,
    channel VARCHAR(200) COLLATE "C" NOT NULL,
    event VARCHAR(16) NOT NULL,
    message JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    attempts INTEGER DEFAULT '0' NOT NULL,
    delivered_at TIMESTAMP WITH TIME ZONE,
    failed_at TIMESTAMP WITH TIME ZONE,
    error TEXT,
    CONSTRAINT qrtz_notifications_pkey PRIMARY KEY (sched_name, id),
    CONSTRAINT qrtz_notifications_attempts_check CHECK (attempts >= 0),
    CONSTRAINT qrtz_notifications_instants_check CHECK (least(created_at, delivered_at, failed_at) >= timestamptz '0001-01-01 00:00:00+00' AND greatest(created_at, delivered_at, failed_at) < timestamptz '10000-01-01 00:00:00+00')
);

CREATE INDEX qrtz_notifications_created ON qrtz_notifications ((sched_name || ''), created_at);

CREATE TABLE qrtz_health_runs (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE NOT NULL,
    listed_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT qrtz_health_runs_pkey PRIMARY KEY (sched_name)
)
 WITH (fillfactor = 50);

CREATE TABLE qrtz_job_upstreams (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    job_group VARCHAR(200) COLLATE "C" NOT NULL,
    job_name VARCHAR(200) COLLATE "C" NOT NULL,
    upstream_group VARCHAR(200) COLLATE "C" NOT NULL,
    upstream_name VARCHAR(200) COLLATE "C" NOT NULL,
    CONSTRAINT qrtz_job_upstreams_pkey PRIMARY KEY (sched_name, job_group, job_name, upstream_group, upstream_name)
);

CREATE INDEX qrtz_job_upstreams_upstream ON qrtz_job_upstreams ((upstream_group || ''), (upstream_name || ''), (sched_name || ''), job_group);

CREATE TABLE qrtz_joins (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    job_group VARCHAR(200) COLLATE "C" NOT NULL,
    job_name VARCHAR(200) COLLATE "C" NOT NULL,
    occasion VARCHAR(200) COLLATE "C" NOT NULL,
    state VARCHAR(8) NOT NULL,
    opened_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_end_at TIMESTAMP WITH TIME ZONE,
    total BIGINT,
    outcomes JSONB,
    ended JSONB,
    succeeded BIGINT DEFAULT 0 NOT NULL,
    failed BIGINT DEFAULT 0 NOT NULL,
    removed BIGINT DEFAULT 0 NOT NULL,
    fire_id BIGINT,
    due_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT qrtz_joins_pkey PRIMARY KEY (sched_name, job_group, job_name, occasion),
    CONSTRAINT qrtz_joins_state_check CHECK (state = ANY ('{WAITING,FIRED,UNMET}'))
)
 WITH (fillfactor = 50);

CREATE INDEX qrtz_joins_due ON qrtz_joins (sched_name, due_at) WHERE due_at IS NOT NULL;

CREATE INDEX qrtz_joins_opened ON qrtz_joins ((sched_name || ''), opened_at);

CREATE TABLE qrtz_expectations (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_group VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_name VARCHAR(200) COLLATE "C" NOT NULL,
    generation BIGINT NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE NOT NULL,
    checkpoint JSONB NOT NULL,
    CONSTRAINT qrtz_expectations_pkey PRIMARY KEY (trigger_group, trigger_name, sched_name),
    CONSTRAINT qrtz_expectations_instants_check CHECK (least(due_at) >= timestamptz '0001-01-01 00:00:00+00' AND greatest(due_at) < timestamptz '10000-01-01 00:00:00+00')
)
 WITH (fillfactor = 70);

CREATE INDEX qrtz_expectations_due ON qrtz_expectations (sched_name, due_at);

CREATE TABLE qrtz_breaches (
    id BIGINT NOT NULL,
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_group VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_name VARCHAR(200) COLLATE "C" NOT NULL,
    job_group VARCHAR(200) COLLATE "C" NOT NULL,
    job_name VARCHAR(200) COLLATE "C" NOT NULL,
    scheduled_time TIMESTAMP WITH TIME ZONE NOT NULL,
    kind VARCHAR(16) COLLATE "C" NOT NULL,
    what TEXT NOT NULL,
    why JSONB NOT NULL,
    found_at TIMESTAMP WITH TIME ZONE NOT NULL,
    in_a_row BIGINT NOT NULL,
    since TIMESTAMP WITH TIME ZONE NOT NULL,
    over_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT qrtz_breaches_pkey PRIMARY KEY (sched_name, id),
    CONSTRAINT qrtz_breaches_kind_check CHECK (kind = ANY ('{starts-late,ends-late,runs-long,fails-often,joins-late}'))
)
 WITH (fillfactor = 70);

CREATE UNIQUE INDEX qrtz_breaches_fire ON qrtz_breaches (trigger_group, trigger_name, sched_name, kind, scheduled_time);

CREATE INDEX qrtz_breaches_open ON qrtz_breaches (trigger_group, trigger_name, sched_name, kind) WHERE over_at IS NULL;

CREATE INDEX qrtz_breaches_over ON qrtz_breaches (sched_name, over_at) WHERE over_at IS NOT NULL;

CREATE TABLE qrtz_locks (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    lock_name VARCHAR(40) COLLATE "C" NOT NULL,
    CONSTRAINT qrtz_locks_pkey PRIMARY KEY (sched_name, lock_name)
);

CREATE TABLE qrtz_misfires (
    id BIGINT NOT NULL,
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_group VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_name VARCHAR(200) COLLATE "C" NOT NULL,
    generation BIGINT NOT NULL,
    job_group VARCHAR(200) COLLATE "C" NOT NULL,
    job_name VARCHAR(200) COLLATE "C" NOT NULL,
    instance_id VARCHAR(200) COLLATE "C" NOT NULL,
    handled_at TIMESTAMP WITH TIME ZONE NOT NULL,
    misfire_instruction VARCHAR(60) NOT NULL,
    action VARCHAR(16) NOT NULL,
    scheduled_time TIMESTAMP WITH TIME ZONE NOT NULL,
    missed TIMESTAMP WITH TIME ZONE[] NOT NULL,
    has_more BOOLEAN NOT NULL,
    caught_up BIGINT NOT NULL,
    next_fire_time TIMESTAMP WITH TIME ZONE,
    CONSTRAINT qrtz_misfires_pkey PRIMARY KEY (sched_name, id),
    CONSTRAINT qrtz_misfires_action_check CHECK (action = ANY ('{FIRED_ONCE,RESCHEDULED,SKIPPED,CATCHING_UP,ENDED}'))
);

CREATE INDEX qrtz_misfires_trigger ON qrtz_misfires (trigger_group, trigger_name, id);

CREATE TABLE qrtz_owners (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    owner VARCHAR(200) COLLATE "C" NOT NULL,
    version TEXT NOT NULL,
    CONSTRAINT qrtz_owners_pkey PRIMARY KEY (sched_name, owner)
);

CREATE TABLE qrtz_paused_trigger_groups (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    scope VARCHAR(8) COLLATE "C" NOT NULL,
    group_name VARCHAR(200) COLLATE "C" NOT NULL,
    paused_at TIMESTAMP WITH TIME ZONE NOT NULL,
    paused_by VARCHAR(200) COLLATE "C",
    pause_reason TEXT,
    pause_until TIMESTAMP WITH TIME ZONE,
    pause_missed VARCHAR(10) DEFAULT 'misfire' NOT NULL,
    with_all BOOLEAN DEFAULT false NOT NULL,
    window_name VARCHAR(200) COLLATE "C",
    resumed BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT qrtz_paused_trigger_groups_pkey PRIMARY KEY (sched_name, scope, group_name),
    CONSTRAINT qrtz_paused_trigger_groups_scope_check CHECK (scope = ANY ('{TRIGGER,JOB,ALL,MANUAL}')),
    CONSTRAINT qrtz_paused_trigger_groups_missed_check CHECK (pause_missed = ANY ('{misfire,skip,once}')),
    CONSTRAINT qrtz_paused_trigger_groups_instants_check CHECK (least(paused_at, pause_until) >= timestamptz '0001-01-01 00:00:00+00' AND greatest(paused_at, pause_until) < timestamptz '10000-01-01 00:00:00+00')
);

CREATE TABLE qrtz_maintenance_windows (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    window_name VARCHAR(200) COLLATE "C" NOT NULL,
    scope VARCHAR(8) COLLATE "C" NOT NULL,
    group_name VARCHAR(200) COLLATE "C" NOT NULL,
    definition JSONB NOT NULL,
    changed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    changed_by VARCHAR(200) COLLATE "C",
    starts_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ends_at TIMESTAMP WITH TIME ZONE NOT NULL,
    is_open BOOLEAN DEFAULT false NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT qrtz_maintenance_windows_pkey PRIMARY KEY (sched_name, window_name),
    CONSTRAINT qrtz_maintenance_windows_scope_check CHECK (scope = ANY ('{TRIGGER,JOB,ALL}')),
    CONSTRAINT qrtz_maintenance_windows_span_check CHECK (ends_at > starts_at),
    CONSTRAINT qrtz_maintenance_windows_instants_check CHECK (least(changed_at, starts_at, ends_at, due_at) >= timestamptz '0001-01-01 00:00:00+00' AND greatest(changed_at, starts_at, ends_at, due_at) < timestamptz '10000-01-01 00:00:00+00')
);

CREATE TABLE qrtz_limits (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    limit_name VARCHAR(200) COLLATE "C" NOT NULL,
    job_group VARCHAR(200) COLLATE "C" DEFAULT '' NOT NULL,
    job_name VARCHAR(200) COLLATE "C" DEFAULT '' NOT NULL,
    concurrency_key TEXT COLLATE "C" DEFAULT '' NOT NULL,
    max_concurrent INTEGER,
    rate_limit JSONB,
    tat TIMESTAMP WITH TIME ZONE,
    opens_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT qrtz_limits_pkey PRIMARY KEY (sched_name, limit_name, job_group, job_name, concurrency_key),
    CONSTRAINT qrtz_limits_max_concurrent_check CHECK (max_concurrent >= 0),
    CONSTRAINT qrtz_limits_rate_limit_check CHECK (rate_limit IS NULL OR (int8range '[1,1000000]' @> (rate_limit ->> 'limit')::bigint AND int8range '[1,1000000]' @> (rate_limit ->> 'burst')::bigint AND int8range '[1,3155760000000000]' @> (rate_limit ->> 'per_us')::bigint) IS TRUE),
    CONSTRAINT qrtz_limits_instants_check CHECK (least(tat, opens_at) >= timestamptz '0001-01-01 00:00:00+00' AND greatest(tat, opens_at) < timestamptz '10000-01-01 00:00:00+00')
);

CREATE INDEX qrtz_limits_opens ON qrtz_limits (sched_name, opens_at) WHERE opens_at IS NOT NULL;

CREATE TABLE qrtz_zone_rules (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    zone_name VARCHAR(200) COLLATE "C" NOT NULL,
    digest VARCHAR(16) COLLATE "C" NOT NULL,
    version TEXT NOT NULL,
    rules JSONB NOT NULL,
    noted_at TIMESTAMP WITH TIME ZONE NOT NULL,
    renewed_by BIGINT,
    renewed_until TIMESTAMP WITH TIME ZONE,
    CONSTRAINT qrtz_zone_rules_pkey PRIMARY KEY (sched_name, zone_name, digest)
);

CREATE TABLE qrtz_identity (
    id INTEGER NOT NULL,
    system_identifier TEXT,
    database_oid BIGINT NOT NULL,
    database_name TEXT NOT NULL,
    adopted_at TIMESTAMP WITH TIME ZONE NOT NULL,
    adopted_by VARCHAR(200) COLLATE "C" NOT NULL,
    CONSTRAINT qrtz_identity_pkey PRIMARY KEY (id),
    CONSTRAINT qrtz_identity_only_check CHECK (id = 1)
);

CREATE TABLE qrtz_scheduler_state (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    instance_id VARCHAR(200) COLLATE "C" NOT NULL,
    epoch BIGINT NOT NULL,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_checkin TIMESTAMP WITH TIME ZONE NOT NULL,
    checkin_count BIGINT NOT NULL,
    back_since TIMESTAMP WITH TIME ZONE,
    problems JSONB,
    checkin_interval INTERVAL NOT NULL,
    failure_window INTERVAL DEFAULT '20 seconds' NOT NULL,
    process TEXT DEFAULT '' NOT NULL,
    capabilities JSONB DEFAULT '{}' NOT NULL,
    facts JSONB DEFAULT '{}' NOT NULL,
    mode VARCHAR(16) DEFAULT 'RUNNING' NOT NULL,
    mode_since TIMESTAMP WITH TIME ZONE,
    runs BIGINT[] DEFAULT '{}' NOT NULL,
    refuses BIGINT[] DEFAULT '{}' NOT NULL,
    CONSTRAINT qrtz_scheduler_state_pkey PRIMARY KEY (sched_name, instance_id),
    CONSTRAINT qrtz_scheduler_state_mode_check CHECK (mode = ANY ('{RUNNING,STANDBY,DRAINING}'))
)
 WITH (fillfactor = 50);

COMMENT ON TABLE qrtz_scheduler_state IS 'tables of revision 0001, usable by releases from revision 0001 on';

CREATE TABLE qrtz_triggers (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_group VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_name VARCHAR(200) COLLATE "C" NOT NULL,
    job_group VARCHAR(200) COLLATE "C" NOT NULL,
    job_name VARCHAR(200) COLLATE "C" NOT NULL,
    job_type VARCHAR(200) COLLATE "C" NOT NULL,
    max_concurrent INTEGER,
    overlap_policy VARCHAR(12) DEFAULT 'block' NOT NULL,
    concurrency_key TEXT COLLATE "C" DEFAULT '' NOT NULL,
    placement TEXT COLLATE "C" DEFAULT '' NOT NULL,
    slot_pool TEXT COLLATE "C" GENERATED ALWAYS AS (btrim(split_part(placement, '"requires":'::text, 1), '{,}'::text)) STORED NOT NULL,
    rate_limit JSONB,
    limits TEXT COLLATE "C",
    description TEXT,
    kind VARCHAR(40) NOT NULL,
    schedule JSONB NOT NULL,
    has_expectation BOOLEAN GENERATED ALWAYS AS (schedule ? 'expect') STORED NOT NULL,
    trigger_state VARCHAR(16) COLLATE "C" NOT NULL,
    parked_at TEXT COLLATE "C",
    times_triggered BIGINT DEFAULT 0 NOT NULL,
    next_fire_time TIMESTAMP WITH TIME ZONE,
    prev_fire_time TIMESTAMP WITH TIME ZONE,
    upcoming TIMESTAMP WITH TIME ZONE[] DEFAULT '{}' NOT NULL,
    upcoming_is_complete BOOLEAN DEFAULT false NOT NULL,
    coalesced_fire_times TIMESTAMP WITH TIME ZONE[],
    generation BIGINT NOT NULL,
    attempt INTEGER DEFAULT 1 NOT NULL,
    start_time TIMESTAMP WITH TIME ZONE NOT NULL,
    end_time TIMESTAMP WITH TIME ZONE,
    priority INTEGER NOT NULL,
    misfire_instruction VARCHAR(60) NOT NULL,
    misfire_rule VARCHAR(10) COLLATE "C" GENERATED ALWAYS AS (CASE WHEN unreconciled IS NOT NULL THEN 'NEW'::text WHEN missed_policy IS NOT NULL THEN 'LATE'::text WHEN catch_up_until IS NOT NULL OR misfire_instruction::text = 'ignore'::text THEN 'IGNORE'::text WHEN misfire_threshold IS NULL THEN 'NODE'::text ELSE 'OWN'::text END) STORED NOT NULL,
    misfire_threshold INTERVAL,
    catch_up_until TIMESTAMP WITH TIME ZONE,
    missed_policy VARCHAR(10),
    resumed_at TIMESTAMP WITH TIME ZONE,
    unreconciled VARCHAR(10),
    calendar_name VARCHAR(200) COLLATE "C",
    job_data JSONB,
    fire_id BIGINT,
    error TEXT,
    owner VARCHAR(200) COLLATE "C",
    schedule_hash BIGINT,
    held_by_mode BOOLEAN DEFAULT false NOT NULL,
    paused_at TIMESTAMP WITH TIME ZONE,
    paused_by VARCHAR(200) COLLATE "C",
    pause_reason TEXT,
    pause_until TIMESTAMP WITH TIME ZONE,
    pause_missed VARCHAR(10),
    CONSTRAINT qrtz_triggers_pkey PRIMARY KEY (trigger_group, trigger_name, sched_name, times_triggered),
    CONSTRAINT qrtz_triggers_fire_id_check CHECK (fire_id IS NULL OR trigger_state = 'COMPLETE'),
    CONSTRAINT qrtz_triggers_misfire_threshold_check CHECK (misfire_threshold BETWEEN interval '0' AND interval '876600 hours'),
    CONSTRAINT qrtz_triggers_catch_up_check CHECK (catch_up_until IS NULL OR misfire_rule = 'IGNORE'),
    CONSTRAINT qrtz_triggers_missed_policy_check CHECK (missed_policy = ANY ('{skip,once}')),
    CONSTRAINT qrtz_triggers_pause_missed_check CHECK (pause_missed = ANY ('{misfire,skip,once}')),
    CONSTRAINT qrtz_triggers_unreconciled_check CHECK (unreconciled = ANY ('{NEW,HELD}')),
    CONSTRAINT qrtz_triggers_waiting_check CHECK (trigger_state <> 'WAITING' OR next_fire_time IS NOT NULL),
    CONSTRAINT qrtz_triggers_state_check CHECK (trigger_state = ANY ('{WAITING,BLOCKED,PAUSED,COMPLETE,ERROR}')),
    CONSTRAINT qrtz_triggers_rate_limit_check CHECK (rate_limit IS NULL OR (int8range '[1,1000000]' @> (rate_limit ->> 'limit')::bigint AND int8range '[1,1000000]' @> (rate_limit ->> 'burst')::bigint AND int8range '[1,3155760000000000]' @> (rate_limit ->> 'per_us')::bigint) IS TRUE),
    CONSTRAINT qrtz_triggers_instants_check CHECK (least(next_fire_time, prev_fire_time, start_time, end_time, paused_at, pause_until, resumed_at) >= timestamptz '0001-01-01 00:00:00+00' AND greatest(next_fire_time, prev_fire_time, start_time, end_time, paused_at, pause_until, resumed_at) < timestamptz '10000-01-01 00:00:00+00'),
    CONSTRAINT qrtz_triggers_upcoming_check CHECK ((timestamptz '0001-01-01 00:00:00+00' <= ALL (upcoming) AND timestamptz '10000-01-01 00:00:00+00' > ALL (upcoming)) IS TRUE),
    CONSTRAINT qrtz_triggers_coalesced_check CHECK (coalesced_fire_times IS NULL OR (timestamptz '0001-01-01 00:00:00+00' <= ALL (coalesced_fire_times) AND timestamptz '10000-01-01 00:00:00+00' > ALL (coalesced_fire_times)) IS TRUE),
    CONSTRAINT qrtz_triggers_counters_check CHECK (times_triggered BETWEEN 0 AND 1000000000000000000 AND attempt BETWEEN 1 AND 1000000000),
    CONSTRAINT qrtz_triggers_calendar_fkey FOREIGN KEY(sched_name, calendar_name) REFERENCES qrtz_calendars (sched_name, calendar_name),
    CONSTRAINT qrtz_triggers_job_fkey FOREIGN KEY(sched_name, job_group, job_name) REFERENCES qrtz_job_details (sched_name, job_group, job_name)
)
 WITH (fillfactor = 70);

CREATE TABLE qrtz_trigger_keys (
    sched_name VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_group VARCHAR(200) COLLATE "C" NOT NULL,
    trigger_name VARCHAR(200) COLLATE "C" NOT NULL,
    CONSTRAINT qrtz_trigger_keys_pkey PRIMARY KEY (trigger_group, trigger_name, sched_name)
);

CREATE INDEX qrtz_triggers_calendar ON qrtz_triggers (sched_name, calendar_name) WHERE calendar_name IS NOT NULL;

CREATE INDEX qrtz_triggers_due ON qrtz_triggers (sched_name, slot_pool, misfire_rule, next_fire_time, priority DESC) WHERE trigger_state = 'WAITING';

CREATE INDEX qrtz_triggers_new ON qrtz_triggers (sched_name, next_fire_time) WHERE unreconciled = 'NEW';

CREATE INDEX qrtz_triggers_parked ON qrtz_triggers ((sched_name || ''), parked_at, next_fire_time, priority DESC) WHERE trigger_state = 'BLOCKED' AND parked_at IS NOT NULL;

CREATE INDEX qrtz_triggers_unfired ON qrtz_triggers (sched_name) WHERE trigger_state = 'COMPLETE' AND prev_fire_time IS NULL;

CREATE INDEX qrtz_triggers_stopped ON qrtz_triggers (trigger_state, trigger_group, trigger_name, sched_name) WHERE trigger_state IN ('ERROR', 'PAUSED');

CREATE INDEX qrtz_triggers_stopped_due ON qrtz_triggers ((sched_name || ''), (trigger_state || ''), next_fire_time, priority DESC) INCLUDE (trigger_group, trigger_name, sched_name, trigger_state) WHERE trigger_state || '' IN ('ERROR', 'PAUSED');

CREATE INDEX qrtz_triggers_pause_until ON qrtz_triggers (pause_until, sched_name) WHERE pause_until IS NOT NULL;

CREATE INDEX qrtz_triggers_held ON qrtz_triggers ((sched_name || ''), (job_group || ''), (job_name || ''), (concurrency_key || ''), trigger_state, (COALESCE("left"(parked_at, 0), misfire_rule::text)), next_fire_time, priority DESC) WHERE trigger_state IN ('BLOCKED', 'COMPLETE');

CREATE INDEX qrtz_triggers_expect ON qrtz_triggers (trigger_group, trigger_name, sched_name) WHERE has_expectation;

CREATE INDEX qrtz_triggers_owner ON qrtz_triggers (sched_name, owner) WHERE owner IS NOT NULL;

CREATE INDEX qrtz_triggers_job ON qrtz_triggers (job_name, job_group, concurrency_key);

CREATE FUNCTION qrtz_write_trigger_keys() RETURNS trigger LANGUAGE plpgsql
   SET search_path = pg_catalog SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    number bigint;
    taken record;
BEGIN
    PERFORM set_config('search_path', quote_ident(TG_TABLE_SCHEMA), true);
    IF TG_OP = 'INSERT' THEN
        INSERT INTO qrtz_trigger_keys (sched_name, trigger_group, trigger_name)
        SELECT w.sched_name, w.trigger_group, w.trigger_name FROM written w
         ORDER BY w.trigger_group, w.trigger_name, w.sched_name
            ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS number = ROW_COUNT;
        IF number < (SELECT count(*) FROM written) THEN
            SELECT w.sched_name, w.trigger_group, w.trigger_name INTO taken
              FROM written w
             CROSS JOIN LATERAL (
                SELECT FROM qrtz_triggers t
                 WHERE t.trigger_group = w.trigger_group AND t.trigger_name = w.trigger_name
                   AND t.sched_name = w.sched_name
                OFFSET 1 LIMIT 1) AS other
             LIMIT 1;
            IF FOUND THEN
                RAISE unique_violation USING
                    MESSAGE = 'duplicate key value violates unique constraint "qrtz_trigger_keys_pkey"',
                    DETAIL = 'Key (trigger_group, trigger_name, sched_name)=('
                        || concat_ws(', ', taken.trigger_group, taken.trigger_name, taken.sched_name)
                        || ') already exists.',
                    SCHEMA = TG_TABLE_SCHEMA, TABLE = 'qrtz_trigger_keys', CONSTRAINT = 'qrtz_trigger_keys_pkey';
            END IF;
        END IF;
    ELSIF TG_OP = 'DELETE' THEN
        DELETE FROM qrtz_trigger_keys k
         USING written w
         CROSS JOIN LATERAL (
            SELECT o.ctid AS row FROM qrtz_trigger_keys o
             WHERE o.trigger_group = w.trigger_group AND o.trigger_name = w.trigger_name
               AND o.sched_name = w.sched_name
             LIMIT 1) AS own
         WHERE k.ctid = own.row;
    ELSIF TG_OP = 'TRUNCATE' THEN
        DELETE FROM qrtz_trigger_keys;
    ELSIF (OLD.sched_name, OLD.trigger_group, OLD.trigger_name)
          IS DISTINCT FROM (NEW.sched_name, NEW.trigger_group, NEW.trigger_name) THEN
        RAISE feature_not_supported USING
            MESSAGE = 'the key of a trigger cannot change; delete the trigger, and insert it with the other key';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER qrtz_trigger_keys_new AFTER INSERT ON qrtz_triggers REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION qrtz_write_trigger_keys();

CREATE TRIGGER qrtz_trigger_keys_old AFTER DELETE ON qrtz_triggers REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION qrtz_write_trigger_keys();

CREATE TRIGGER qrtz_trigger_keys_none AFTER TRUNCATE ON qrtz_triggers FOR EACH STATEMENT EXECUTE FUNCTION qrtz_write_trigger_keys();

CREATE TRIGGER qrtz_trigger_keys_same AFTER UPDATE OF sched_name, trigger_group, trigger_name ON qrtz_triggers FOR EACH ROW EXECUTE FUNCTION qrtz_write_trigger_keys();

CREATE VIEW qrtz_full_jobs AS
SELECT j.sched_name, j.job_group, j.job_name, f.concurrency_key, j.max_concurrent, f.executing
  FROM (SELECT sched_name, job_group, job_name, concurrency_key, count(*) AS executing
          FROM qrtz_fired_triggers
         WHERE max_concurrent IS NOT NULL
         GROUP BY sched_name, job_group, job_name, concurrency_key) AS f
  JOIN qrtz_job_details j USING (sched_name, job_group, job_name)
 WHERE j.overlap_policy = 'block' AND f.executing >= j.max_concurrent;

CREATE VIEW qrtz_limit_usage AS
SELECT l.sched_name, l.limit_name, l.max_concurrent, l.rate_limit, coalesce(used.number, 0) AS in_use,
       coalesce(used.number >= l.max_concurrent, false)
       OR coalesce(l.tat - ((l.rate_limit ->> 'per_us')::bigint + (l.rate_limit ->> 'limit')::bigint - 1)
               / (l.rate_limit ->> 'limit')::bigint * ((l.rate_limit ->> 'burst')::bigint - 1)
               * interval '1 microsecond' > statement_timestamp(), false) AS is_used_up
  FROM qrtz_limits l
  LEFT JOIN (
    SELECT f.sched_name, n.name, count(*) AS number
      FROM qrtz_fired_triggers f
     CROSS JOIN unnest(string_to_array(f.limits, ',')) AS n(name)
     WHERE f.limits IS NOT NULL
     GROUP BY f.sched_name, n.name) AS used ON used.sched_name = l.sched_name AND used.name = l.limit_name
 WHERE l.limit_name <> '';

CREATE VIEW qrtz_due_now AS
WITH RECURSIVE waiting AS (
    (SELECT sched_name, slot_pool, misfire_rule FROM qrtz_triggers
      WHERE trigger_state = 'WAITING'
      ORDER BY sched_name, slot_pool, misfire_rule LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM waiting w
     CROSS JOIN LATERAL (
        SELECT t.sched_name, t.slot_pool, t.misfire_rule FROM qrtz_triggers t
         WHERE t.trigger_state = 'WAITING'
           AND (t.sched_name, t.slot_pool, t.misfire_rule) > (w.sched_name, w.slot_pool, w.misfire_rule)
         ORDER BY t.sched_name, t.slot_pool, t.misfire_rule LIMIT 1) AS following
),
full_jobs AS MATERIALIZED (
    SELECT sched_name, job_group, job_name, concurrency_key FROM qrtz_full_jobs
),
full_limits AS MATERIALIZED (
    SELECT sched_name, array_agg(limit_name::text) AS names FROM qrtz_limit_usage
     WHERE is_used_up GROUP BY sched_name
)
SELECT t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, t.placement, t.priority,
       t.next_fire_time, statement_timestamp() - t.next_fire_time AS due_for
  FROM (SELECT of_key.*
          FROM waiting w
         CROSS JOIN LATERAL (
                SELECT t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, t.next_fire_time, t.placement, t.priority, t.rate_limit, t.limits, t.parked_at, t.max_concurrent, t.overlap_policy, t.concurrency_key
                  FROM qrtz_triggers t
                 WHERE t.trigger_state = 'WAITING' AND t.sched_name = w.sched_name AND t.slot_pool = w.slot_pool
           AND t.misfire_rule = w.misfire_rule
                   AND t.next_fire_time <= statement_timestamp() OFFSET 0) AS of_key
        UNION ALL
        SELECT t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, t.next_fire_time, t.placement, t.priority, t.rate_limit, t.limits, t.parked_at, t.max_concurrent, t.overlap_policy, t.concurrency_key
          FROM qrtz_triggers t
         WHERE t.trigger_state = 'BLOCKED' AND t.overlap_policy = 'block'
           AND num_nonnulls(t.rate_limit, t.limits) = 0 AND t.next_fire_time <= statement_timestamp()) AS t
 WHERE NOT (t.max_concurrent IS NOT NULL AND t.overlap_policy = 'block'
             AND (t.sched_name, t.job_group, t.job_name, t.concurrency_key) IN (SELECT * FROM full_jobs))
   AND NOT (t.rate_limit IS NOT NULL AND EXISTS (
        SELECT FROM qrtz_limits l
         WHERE l.sched_name = t.sched_name AND l.limit_name = ''
           AND l.job_group = t.job_group AND l.job_name = t.job_name AND l.concurrency_key = t.concurrency_key AND l.tat - ((t.rate_limit ->> 'per_us')::bigint + (t.rate_limit ->> 'limit')::bigint - 1)
               / (t.rate_limit ->> 'limit')::bigint * ((t.rate_limit ->> 'burst')::bigint - 1)
               * interval '1 microsecond' > statement_timestamp() OFFSET 0))
   AND NOT EXISTS (SELECT FROM full_limits l
                     WHERE l.sched_name = t.sched_name AND l.names && string_to_array(t.limits, ','));

CREATE VIEW qrtz_running AS
WITH
heard AS (
    SELECT n.*, statement_timestamp() - n.last_checkin > least(2 * n.checkin_interval, n.failure_window) AS is_silent,
           n.checkin_interval + least(interval '5 seconds', n.failure_window / 4) AS allowed
      FROM qrtz_scheduler_state n
),
node_states AS (
    SELECT n.*,
           CASE WHEN NOT n.is_silent
                  OR (SELECT coalesce(
                                 bool_and(o.back_since IS NOT NULL AND n.last_checkin < o.back_since
                                          AND statement_timestamp() >= o.back_since
                                          AND statement_timestamp() < o.back_since + n.allowed),
                                 n.last_checkin < pg_catalog.pg_postmaster_start_time()
                                 AND statement_timestamp() < pg_catalog.pg_postmaster_start_time() + n.allowed)
                        FROM heard o WHERE o.sched_name = n.sched_name AND NOT o.is_silent)
                THEN 'ALIVE'
                WHEN statement_timestamp() - n.last_checkin > n.failure_window THEN 'DEAD'
                ELSE 'OVERDUE' END AS status
      FROM heard n
)
SELECT f.fire_id, f.sched_name, f.trigger_group, f.trigger_name, f.job_group, f.job_name, f.job_type, f.instance_id,
       EXISTS (SELECT FROM node_states n
                WHERE n.sched_name = f.sched_name AND n.epoch = f.epoch AND n.status <> 'DEAD') AS node_is_alive,
       f.scheduled_time, f.fired_time, f.fired_time - f.scheduled_time AS fired_late_by,
       statement_timestamp() - f.fired_time AS running_for,
       f.attempt, f.cancel_requested, f.progress, f.progress_message
  FROM qrtz_fired_triggers f
 WHERE f.fired_time <= statement_timestamp();

CREATE VIEW qrtz_late AS
WITH RECURSIVE waiting AS (
    (SELECT sched_name, slot_pool, misfire_rule FROM qrtz_triggers
      WHERE trigger_state = 'WAITING'
      ORDER BY sched_name, slot_pool, misfire_rule LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM waiting w
     CROSS JOIN LATERAL (
        SELECT t.sched_name, t.slot_pool, t.misfire_rule FROM qrtz_triggers t
         WHERE t.trigger_state = 'WAITING'
           AND (t.sched_name, t.slot_pool, t.misfire_rule) > (w.sched_name, w.slot_pool, w.misfire_rule)
         ORDER BY t.sched_name, t.slot_pool, t.misfire_rule LIMIT 1) AS following
),
full_jobs AS MATERIALIZED (
    SELECT sched_name, job_group, job_name, concurrency_key FROM qrtz_full_jobs
),
full_limits AS MATERIALIZED (
    SELECT sched_name, array_agg(limit_name::text) AS names FROM qrtz_limit_usage
     WHERE is_used_up GROUP BY sched_name
),
heard AS (
    SELECT n.*, statement_timestamp() - n.last_checkin > least(2 * n.checkin_interval, n.failure_window) AS is_silent,
           n.checkin_interval + least(interval '5 seconds', n.failure_window / 4) AS allowed
      FROM qrtz_scheduler_state n
),
node_states AS (
    SELECT n.*,
           CASE WHEN NOT n.is_silent
                  OR (SELECT coalesce(
                                 bool_and(o.back_since IS NOT NULL AND n.last_checkin < o.back_since
                                          AND statement_timestamp() >= o.back_since
                                          AND statement_timestamp() < o.back_since + n.allowed),
                                 n.last_checkin < pg_catalog.pg_postmaster_start_time()
                                 AND statement_timestamp() < pg_catalog.pg_postmaster_start_time() + n.allowed)
                        FROM heard o WHERE o.sched_name = n.sched_name AND NOT o.is_silent)
                THEN 'ALIVE'
                WHEN statement_timestamp() - n.last_checkin > n.failure_window THEN 'DEAD'
                ELSE 'OVERDUE' END AS status
      FROM heard n
),
alive AS (
    SELECT n.sched_name, n.capabilities -> 'job_types' AS job_types FROM node_states n WHERE n.status <> 'DEAD'
),
late AS (
    SELECT of_key.*
      FROM waiting w
     CROSS JOIN LATERAL (
        SELECT t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, t.next_fire_time, t.trigger_state, t.rate_limit, t.limits, t.parked_at, t.max_concurrent, t.overlap_policy, t.concurrency_key
          FROM qrtz_triggers t
         WHERE t.trigger_state = 'WAITING' AND t.sched_name = w.sched_name AND t.slot_pool = w.slot_pool
           AND t.misfire_rule = w.misfire_rule
           AND t.next_fire_time < statement_timestamp() - interval '5 seconds' OFFSET 0) AS of_key
    UNION ALL
    SELECT t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, t.next_fire_time, t.trigger_state, t.rate_limit, t.limits, t.parked_at, t.max_concurrent, t.overlap_policy, t.concurrency_key
      FROM qrtz_triggers t
     WHERE t.trigger_state = 'BLOCKED'
       AND t.next_fire_time < statement_timestamp() - interval '5 seconds'
),
seen AS (
    SELECT t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, t.next_fire_time, t.limits,
       CASE WHEN (t.max_concurrent IS NOT NULL AND t.overlap_policy = 'block'
             AND (t.sched_name, t.job_group, t.job_name, t.concurrency_key) IN (SELECT * FROM full_jobs)) THEN 'its job is at its limit of concurrent executions'
            WHEN t.trigger_state <> 'BLOCKED' THEN NULL
            WHEN t.parked_at IS NOT NULL THEN 'a limit that its job shares is used up'
            WHEN t.rate_limit IS NOT NULL THEN 'the rate limit of its job holds it back'
            ELSE 'its job is at its limit of concurrent executions' END AS blocked_by,
       CASE WHEN (t.max_concurrent IS NOT NULL AND t.overlap_policy = 'block'
             AND (t.sched_name, t.job_group, t.job_name, t.concurrency_key) IN (SELECT * FROM full_jobs)) THEN 'BLOCKED'
            WHEN t.trigger_state = 'BLOCKED' AND t.overlap_policy = 'block' AND num_nonnulls(t.rate_limit, t.limits) = 0
            THEN 'WAITING'
            ELSE t.trigger_state END AS trigger_state,
       (t.rate_limit IS NOT NULL AND EXISTS (
        SELECT FROM qrtz_limits l
         WHERE l.sched_name = t.sched_name AND l.limit_name = ''
           AND l.job_group = t.job_group AND l.job_name = t.job_name AND l.concurrency_key = t.concurrency_key AND l.tat - ((t.rate_limit ->> 'per_us')::bigint + (t.rate_limit ->> 'limit')::bigint - 1)
               / (t.rate_limit ->> 'limit')::bigint * ((t.rate_limit ->> 'burst')::bigint - 1)
               * interval '1 microsecond' > statement_timestamp() OFFSET 0)) AS is_rate_limited
      FROM late t
)
SELECT t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, t.trigger_state,
       t.next_fire_time, statement_timestamp() - t.next_fire_time AS late_by,
       CASE WHEN t.trigger_state = 'BLOCKED' THEN t.blocked_by
            WHEN t.is_rate_limited THEN 'the rate limit of its job holds it back'
            WHEN EXISTS (SELECT FROM full_limits l
                     WHERE l.sched_name = t.sched_name AND l.names && string_to_array(t.limits, ',')) THEN 'a limit that its job shares is used up'
            WHEN NOT EXISTS (SELECT FROM alive a WHERE a.sched_name = t.sched_name) THEN 'no node is alive'
            WHEN NOT EXISTS (SELECT FROM alive a WHERE a.sched_name = t.sched_name AND a.job_types ? t.job_type)
                 THEN 'no live node knows its job type'
            ELSE 'no worker that can run it is free' END AS reason
  FROM seen t;

CREATE VIEW qrtz_errors AS
SELECT 'TRIGGER' AS kind, t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name,
       NULL::bigint AS fire_id, NULL::timestamptz AS ended_at, NULL::text AS outcome, NULL::text AS instance_id,
       NULL::integer AS attempt, NULL::timestamptz AS retry_at, t.error
  FROM qrtz_triggers t
 WHERE t.trigger_state = 'ERROR'
UNION ALL
SELECT 'EXECUTION', e.sched_name, e.trigger_group, e.trigger_name, e.job_group, e.job_name,
       e.fire_id, e.ended_at, e.outcome, e.instance_id, e.attempt, e.retry_at, e.error
  FROM (SELECT DISTINCT l.sched_name FROM qrtz_locks l) AS scheduler
 CROSS JOIN LATERAL (
        SELECT x.trigger_group, x.trigger_name, x.job_group, x.job_name, x.sched_name, x.fire_id, x.ended_at, x.outcome,
               x.instance_id, x.attempt, x.retry_at, x.error
          FROM qrtz_executions x
         WHERE x.sched_name = scheduler.sched_name AND x.ended_at >= statement_timestamp() - interval '24 hours'
           AND x.outcome IN ('FAILED', 'TERMINATED') OFFSET 0) AS e;

CREATE VIEW qrtz_next_24h AS
WITH RECURSIVE waiting AS (
    (SELECT sched_name, slot_pool, misfire_rule FROM qrtz_triggers
      WHERE trigger_state = 'WAITING'
      ORDER BY sched_name, slot_pool, misfire_rule LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM waiting w
     CROSS JOIN LATERAL (
        SELECT t.sched_name, t.slot_pool, t.misfire_rule FROM qrtz_triggers t
         WHERE t.trigger_state = 'WAITING'
           AND (t.sched_name, t.slot_pool, t.misfire_rule) > (w.sched_name, w.slot_pool, w.misfire_rule)
         ORDER BY t.sched_name, t.slot_pool, t.misfire_rule LIMIT 1) AS following
),
coming AS (
    SELECT of_key.*
      FROM waiting w
     CROSS JOIN LATERAL (
        SELECT t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, t.next_fire_time, t.priority, t.upcoming, t.upcoming_is_complete
          FROM qrtz_triggers t
         WHERE t.trigger_state = 'WAITING' AND t.sched_name = w.sched_name AND t.slot_pool = w.slot_pool
           AND t.misfire_rule = w.misfire_rule
           AND t.next_fire_time <= statement_timestamp() + interval '24 hours' OFFSET 0) AS of_key
    UNION ALL
    SELECT t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, t.next_fire_time, t.priority, t.upcoming, t.upcoming_is_complete
      FROM qrtz_triggers t WHERE t.trigger_state = 'BLOCKED'
)
SELECT t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, known.fire_time, t.priority,
       known.number > cardinality(t.upcoming) AND NOT t.upcoming_is_complete AS more_follow
  FROM coming t
 CROSS JOIN LATERAL (
    SELECT t.next_fire_time, 1
    UNION ALL
    SELECT later.at, later.number + 1
      FROM unnest(t.upcoming) WITH ORDINALITY AS later(at, number)
     WHERE t.upcoming[1] <= statement_timestamp() + interval '24 hours') AS known(fire_time, number)
 WHERE known.fire_time > statement_timestamp() AND known.fire_time <= statement_timestamp() + interval '24 hours';

CREATE VIEW qrtz_node_health AS
WITH
heard AS (
    SELECT n.*, statement_timestamp() - n.last_checkin > least(2 * n.checkin_interval, n.failure_window) AS is_silent,
           n.checkin_interval + least(interval '5 seconds', n.failure_window / 4) AS allowed
      FROM qrtz_scheduler_state n
),
node_states AS (
    SELECT n.*,
           CASE WHEN NOT n.is_silent
                  OR (SELECT coalesce(
                                 bool_and(o.back_since IS NOT NULL AND n.last_checkin < o.back_since
                                          AND statement_timestamp() >= o.back_since
                                          AND statement_timestamp() < o.back_since + n.allowed),
                                 n.last_checkin < pg_catalog.pg_postmaster_start_time()
                                 AND statement_timestamp() < pg_catalog.pg_postmaster_start_time() + n.allowed)
                        FROM heard o WHERE o.sched_name = n.sched_name AND NOT o.is_silent)
                THEN 'ALIVE'
                WHEN statement_timestamp() - n.last_checkin > n.failure_window THEN 'DEAD'
                ELSE 'OVERDUE' END AS status
      FROM heard n
)
SELECT n.sched_name, n.instance_id, n.status, n.host, n.pid, n.facts ->> 'release' AS release, n.started_at,
       n.last_checkin, statement_timestamp() - n.last_checkin AS checkin_age, n.checkin_interval, n.failure_window,
       (SELECT coalesce(sum(size::integer), 0)
          FROM jsonb_each_text(n.capabilities -> 'workers') AS pool(name, size)) AS workers,
       held.claimed, held.executing, (n.facts ->> 'clock_ahead')::float8 AS clock_ahead, n.problems
  FROM node_states n
 CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE f.fired_time > statement_timestamp()) AS claimed,
           count(*) FILTER (WHERE f.fired_time <= statement_timestamp()) AS executing
      FROM qrtz_fired_triggers f
     WHERE f.sched_name = n.sched_name AND f.epoch = n.epoch) AS held;

INSERT INTO qrtz_alembic_version (version_num) VALUES ('0001') RETURNING qrtz_alembic_version.version_num;


ALTER TABLE qrtz_fired_triggers ADD COLUMN submission INTEGER;

ALTER TABLE qrtz_fired_triggers ADD COLUMN worker TEXT;

ALTER TABLE qrtz_fired_triggers ADD COLUMN worker_since TIMESTAMP WITH TIME ZONE;

ALTER TABLE qrtz_fired_triggers ADD COLUMN worker_seen TIMESTAMP WITH TIME ZONE;

ALTER TABLE qrtz_fired_triggers ADD COLUMN outlives_node BOOLEAN;

ALTER TABLE qrtz_fired_triggers ADD COLUMN ending TEXT;

CREATE OR REPLACE VIEW qrtz_running AS
WITH
heard AS (
    SELECT n.*, statement_timestamp() - n.last_checkin > least(2 * n.checkin_interval, n.failure_window) AS is_silent,
           n.checkin_interval + least(interval '5 seconds', n.failure_window / 4) AS allowed
      FROM qrtz_scheduler_state n
),
node_states AS (
    SELECT n.*,
           CASE WHEN NOT n.is_silent
                  OR (SELECT coalesce(
                                 bool_and(o.back_since IS NOT NULL AND n.last_checkin < o.back_since
                                          AND statement_timestamp() >= o.back_since
                                          AND statement_timestamp() < o.back_since + n.allowed),
                                 n.last_checkin < pg_catalog.pg_postmaster_start_time()
                                 AND statement_timestamp() < pg_catalog.pg_postmaster_start_time() + n.allowed)
                        FROM heard o WHERE o.sched_name = n.sched_name AND NOT o.is_silent)
                THEN 'ALIVE'
                WHEN statement_timestamp() - n.last_checkin > n.failure_window THEN 'DEAD'
                ELSE 'OVERDUE' END AS status
      FROM heard n
)
SELECT f.fire_id, f.sched_name, f.trigger_group, f.trigger_name, f.job_group, f.job_name, f.job_type, f.instance_id,
       EXISTS (SELECT FROM node_states n
                WHERE n.sched_name = f.sched_name AND n.epoch = f.epoch AND n.status <> 'DEAD') AS node_is_alive,
       f.scheduled_time, f.fired_time, f.fired_time - f.scheduled_time AS fired_late_by,
       statement_timestamp() - f.fired_time AS running_for,
       f.attempt, f.cancel_requested, f.progress, f.progress_message, f.submission, f.worker, f.worker_since
  FROM qrtz_fired_triggers f
 WHERE f.fired_time <= statement_timestamp();

COMMENT ON TABLE qrtz_scheduler_state IS 'tables of revision 0002, usable by releases from revision 0001 on';

UPDATE qrtz_alembic_version SET version_num='0002' WHERE qrtz_alembic_version.version_num = '0001';

COMMIT;
