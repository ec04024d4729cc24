BEGIN;

CREATE TABLE qrtz_alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT qrtz_alembic_version_pkc PRIMARY KEY (version_num)
);


CREATE SEQUENCE qrtz_fire_ids AS BIGINT;

CREATE SEQUENCE qrtz_epochs AS BIGINT;

CREATE TABLE qrtz_calendars (
    sched_name VARCHAR(200) NOT NULL,
    calendar_name VARCHAR(200) NOT NULL,
    calendar JSONB NOT NULL,
    revision BIGINT NOT NULL,
    CONSTRAINT qrtz_calendars_pkey PRIMARY KEY (sched_name, calendar_name)
);

CREATE TABLE qrtz_executions (
    fire_id BIGINT NOT NULL,
    sched_name VARCHAR(200) NOT NULL,
    trigger_group VARCHAR(200) NOT NULL,
    trigger_name VARCHAR(200) NOT NULL,
    generation BIGINT NOT NULL,
    job_group VARCHAR(200) NOT NULL,
    job_name VARCHAR(200) NOT NULL,
    job_type VARCHAR(200) NOT NULL,
    instance_id VARCHAR(200) NOT NULL,
    epoch BIGINT NOT NULL,
    fired_time TIMESTAMP WITH TIME ZONE NOT NULL,
    scheduled_time TIMESTAMP WITH TIME ZONE NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE,
    ended_at TIMESTAMP WITH TIME ZONE NOT NULL,
    outcome VARCHAR(16) NOT NULL,
    attempt INTEGER DEFAULT 1 NOT NULL,
    error TEXT,
    trigger_data JSONB,
    result JSONB,
    retry_at TIMESTAMP WITH TIME ZONE,
    log TEXT,
    CONSTRAINT qrtz_executions_pkey PRIMARY KEY (fire_id),
    CONSTRAINT qrtz_executions_outcome_check CHECK (outcome IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'SKIPPED', 'SNOOZED', 'TERMINATED'))
);

CREATE INDEX qrtz_executions_ended ON qrtz_executions (sched_name, ended_at);

CREATE INDEX qrtz_executions_exhausted ON qrtz_executions (sched_name, ended_at) WHERE outcome = 'FAILED' AND retry_at IS NULL;

CREATE UNIQUE INDEX qrtz_executions_instant ON qrtz_executions (trigger_group, trigger_name, sched_name, generation, scheduled_time);

CREATE TABLE qrtz_fired_triggers (
    fire_id BIGINT NOT NULL,
    sched_name VARCHAR(200) NOT NULL,
    trigger_group VARCHAR(200) NOT NULL,
    trigger_name VARCHAR(200) NOT NULL,
    generation BIGINT NOT NULL,
    job_group VARCHAR(200) NOT NULL,
    job_name VARCHAR(200) NOT NULL,
    job_type VARCHAR(200) NOT NULL,
    instance_id VARCHAR(200) NOT NULL,
    epoch BIGINT NOT NULL,
    state VARCHAR(16) NOT NULL,
    fired_time TIMESTAMP WITH TIME ZONE NOT NULL,
    scheduled_time TIMESTAMP WITH TIME ZONE NOT NULL,
    priority INTEGER NOT NULL,
    max_concurrent INTEGER,
    concurrency_key TEXT DEFAULT '' NOT NULL,
    requests_recovery BOOLEAN NOT NULL,
    attempt INTEGER DEFAULT 1 NOT NULL,
    cancel_requested BOOLEAN DEFAULT false NOT NULL,
    trigger_data JSONB,
    coalesced_fire_times TIMESTAMP WITH TIME ZONE[],
    progress DOUBLE PRECISION,
    progress_message TEXT,
    CONSTRAINT qrtz_fired_triggers_pkey PRIMARY KEY (fire_id),
    CONSTRAINT qrtz_fired_triggers_state_check CHECK (state IN ('ACQUIRED', 'EXECUTING'))
);

CREATE INDEX qrtz_fired_triggers_limited ON qrtz_fired_triggers (sched_name, job_group, job_name, concurrency_key) WHERE state = 'EXECUTING' AND max_concurrent IS NOT NULL;

CREATE UNIQUE INDEX qrtz_fired_triggers_one_running ON qrtz_fired_triggers (sched_name, job_group, job_name, concurrency_key) WHERE state = 'EXECUTING' AND max_concurrent = 1;

CREATE TABLE qrtz_job_details (
    sched_name VARCHAR(200) NOT NULL,
    job_group VARCHAR(200) NOT NULL,
    job_name VARCHAR(200) NOT NULL,
    display_name TEXT,
    description TEXT,
    job_type VARCHAR(200) NOT NULL,
    is_durable BOOLEAN NOT NULL,
    max_concurrent INTEGER,
    overlap_policy VARCHAR(12) DEFAULT 'block' NOT NULL,
    concurrency_key VARCHAR(200),
    rate_limit JSONB,
    placement TEXT DEFAULT '' NOT NULL,
    persists_data BOOLEAN NOT NULL,
    requests_recovery BOOLEAN NOT NULL,
    retry_policy JSONB,
    timeout INTERVAL,
    mode VARCHAR(10) DEFAULT 'ENABLED' NOT NULL,
    owner VARCHAR(200),
    node_deaths INTEGER DEFAULT 0 NOT NULL,
    pause_after_failures INTEGER,
    consecutive_failures INTEGER DEFAULT 0 NOT NULL,
    capture_logs VARCHAR(10),
    job_data JSONB,
    continuations JSONB,
    CONSTRAINT qrtz_job_details_pkey PRIMARY KEY (sched_name, job_group, job_name),
    CONSTRAINT qrtz_job_details_max_concurrent_check CHECK (max_concurrent > 0),
    CONSTRAINT qrtz_job_details_mode_check CHECK (mode IN ('ENABLED', 'MANUAL', 'DISABLED')),
    CONSTRAINT qrtz_job_details_when_full_check CHECK (overlap_policy IN ('block', 'skip', 'buffer_one', 'cancel_other'))
);

CREATE INDEX qrtz_job_details_deaths ON qrtz_job_details (sched_name) WHERE node_deaths > 0;

CREATE INDEX qrtz_job_details_mode ON qrtz_job_details (sched_name) WHERE mode <> 'ENABLED';

CREATE INDEX qrtz_job_details_rate_limit ON qrtz_job_details (sched_name) WHERE rate_limit IS NOT NULL;

CREATE TABLE qrtz_locks (
    sched_name VARCHAR(200) NOT NULL,
    lock_name VARCHAR(40) NOT NULL,
    CONSTRAINT qrtz_locks_pkey PRIMARY KEY (sched_name, lock_name)
);

CREATE TABLE qrtz_misfires (
    id BIGINT NOT NULL,
    sched_name VARCHAR(200) NOT NULL,
    trigger_group VARCHAR(200) NOT NULL,
    trigger_name VARCHAR(200) NOT NULL,
    generation BIGINT NOT NULL,
    job_group VARCHAR(200) NOT NULL,
    job_name VARCHAR(200) NOT NULL,
    instance_id VARCHAR(200) NOT NULL,
    handled_at TIMESTAMP WITH TIME ZONE NOT NULL,
    misfire_instruction VARCHAR(60) NOT NULL,
    action VARCHAR(16) NOT NULL,
    scheduled_time TIMESTAMP WITH TIME ZONE NOT NULL,
    missed TIMESTAMP WITH TIME ZONE[] NOT NULL,
    has_more BOOLEAN NOT NULL,
    caught_up BIGINT NOT NULL,
    next_fire_time TIMESTAMP WITH TIME ZONE,
    CONSTRAINT qrtz_misfires_pkey PRIMARY KEY (sched_name, id),
    CONSTRAINT qrtz_misfires_action_check CHECK (action IN ('FIRED_ONCE', 'RESCHEDULED', 'SKIPPED', 'CATCHING_UP', 'ENDED'))
);

CREATE INDEX qrtz_misfires_trigger ON qrtz_misfires (trigger_group, trigger_name, id);

CREATE TABLE qrtz_owners (
    sched_name VARCHAR(200) NOT NULL,
    owner VARCHAR(200) NOT NULL,
    version TEXT NOT NULL,
    CONSTRAINT qrtz_owners_pkey PRIMARY KEY (sched_name, owner)
);

CREATE TABLE qrtz_paused_trigger_groups (
    sched_name VARCHAR(200) NOT NULL,
    scope VARCHAR(8) NOT NULL,
    group_name VARCHAR(200) NOT NULL,
    CONSTRAINT qrtz_paused_trigger_groups_pkey PRIMARY KEY (sched_name, scope, group_name),
    CONSTRAINT qrtz_paused_trigger_groups_scope_check CHECK (scope IN ('TRIGGER', 'JOB', 'ALL', 'MANUAL'))
);

CREATE TABLE qrtz_rate_limits (
    sched_name VARCHAR(200) NOT NULL,
    job_group VARCHAR(200) NOT NULL,
    job_name VARCHAR(200) NOT NULL,
    concurrency_key TEXT NOT NULL,
    tat TIMESTAMP WITH TIME ZONE NOT NULL,
    queued_until TIMESTAMP WITH TIME ZONE,
    queued_interval INTERVAL,
    CONSTRAINT qrtz_rate_limits_pkey PRIMARY KEY (sched_name, job_group, job_name, concurrency_key)
);

CREATE INDEX qrtz_rate_limits_tat ON qrtz_rate_limits (sched_name, tat);

CREATE TABLE qrtz_scheduler_state (
    sched_name VARCHAR(200) NOT NULL,
    instance_id VARCHAR(200) NOT NULL,
    epoch BIGINT NOT NULL,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_checkin TIMESTAMP WITH TIME ZONE NOT NULL,
    checkin_count BIGINT NOT NULL,
    checkin_interval INTERVAL NOT NULL,
    failure_window INTERVAL DEFAULT '20 seconds' NOT NULL,
    process TEXT DEFAULT '' NOT NULL,
    capabilities JSONB DEFAULT '{}' NOT NULL,
    facts JSONB DEFAULT '{}' NOT NULL,
    CONSTRAINT qrtz_scheduler_state_pkey PRIMARY KEY (sched_name, instance_id)
)
 WITH (fillfactor = 50);

CREATE TABLE qrtz_triggers (
    sched_name VARCHAR(200) NOT NULL,
    trigger_group VARCHAR(200) NOT NULL,
    trigger_name VARCHAR(200) NOT NULL,
    job_group VARCHAR(200) NOT NULL,
    job_name VARCHAR(200) NOT NULL,
    job_type VARCHAR(200) NOT NULL,
    max_concurrent INTEGER,
    overlap_policy VARCHAR(12) DEFAULT 'block' NOT NULL,
    concurrency_key TEXT DEFAULT '' NOT NULL,
    placement TEXT DEFAULT '' NOT NULL,
    rate_limit JSONB,
    rate_limited_until TIMESTAMP WITH TIME ZONE,
    description TEXT,
    kind VARCHAR(40) NOT NULL,
    schedule JSONB NOT NULL,
    trigger_state VARCHAR(16) NOT NULL,
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
    misfire_rule VARCHAR(10) NOT NULL,
    misfire_threshold INTERVAL,
    catch_up_until TIMESTAMP WITH TIME ZONE,
    resumed_at TIMESTAMP WITH TIME ZONE,
    calendar_name VARCHAR(200),
    job_data JSONB,
    fire_id BIGINT,
    error TEXT,
    owner VARCHAR(200),
    schedule_hash BIGINT,
    held_by_mode BOOLEAN DEFAULT false NOT NULL,
    paused_at TIMESTAMP WITH TIME ZONE,
    paused_by VARCHAR(200),
    pause_reason TEXT,
    CONSTRAINT qrtz_triggers_pkey PRIMARY KEY (trigger_group, trigger_name, sched_name),
    CONSTRAINT qrtz_triggers_acquired_check CHECK (CASE trigger_state WHEN 'ACQUIRED' THEN fire_id IS NOT NULL WHEN 'COMPLETE' THEN true ELSE fire_id IS NULL END),
    CONSTRAINT qrtz_triggers_misfire_threshold_check CHECK (misfire_threshold BETWEEN interval '0' AND interval '876600 hours'),
    CONSTRAINT qrtz_triggers_catch_up_check CHECK (catch_up_until IS NULL OR misfire_rule IN ('IGNORE', 'RATE_LIMIT')),
    CONSTRAINT qrtz_triggers_misfire_rule_check CHECK (misfire_rule IN ('SCHEDULER', 'IGNORE', 'RATE_LIMIT', 'LATE', 'SKIP', 'ONCE', 'NEW', 'HELD') OR (misfire_rule = 'OWN' AND misfire_threshold IS NOT NULL)),
    CONSTRAINT qrtz_triggers_waiting_check CHECK (trigger_state <> 'WAITING' OR next_fire_time IS NOT NULL),
    CONSTRAINT qrtz_triggers_state_check CHECK (trigger_state IN ('WAITING', 'ACQUIRED', 'BLOCKED', 'PAUSED', 'PAUSED_BLOCKED', 'COMPLETE', 'ERROR')),
    CONSTRAINT qrtz_triggers_calendar_fkey FOREIGN KEY(sched_name, calendar_name) REFERENCES qrtz_calendars (sched_name, calendar_name),
    CONSTRAINT qrtz_triggers_job_fkey FOREIGN KEY(sched_name, job_group, job_name) REFERENCES qrtz_job_details (sched_name, job_group, job_name)
)
 WITH (fillfactor = 70);

CREATE INDEX qrtz_triggers_calendar ON qrtz_triggers (sched_name, calendar_name) WHERE calendar_name IS NOT NULL;

CREATE INDEX qrtz_triggers_due ON qrtz_triggers (sched_name, job_type, placement, misfire_rule, next_fire_time, priority DESC) WHERE trigger_state = 'WAITING';

CREATE INDEX qrtz_triggers_new ON qrtz_triggers (sched_name, next_fire_time) WHERE misfire_rule = 'NEW';

CREATE INDEX qrtz_triggers_rate_limited ON qrtz_triggers (sched_name, job_type, placement, GREATEST(rate_limited_until, next_fire_time)) WHERE trigger_state = 'WAITING' AND rate_limit IS NOT NULL;

CREATE INDEX qrtz_triggers_placed ON qrtz_triggers (sched_name, placement, job_type) WHERE trigger_state = 'WAITING' AND placement <> '';

CREATE INDEX qrtz_triggers_stopped ON qrtz_triggers (trigger_group, trigger_name) WHERE trigger_state IN ('ERROR', 'PAUSED', 'PAUSED_BLOCKED');

CREATE INDEX qrtz_triggers_held ON qrtz_triggers (job_group, job_name) WHERE trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE');

CREATE INDEX qrtz_triggers_owner ON qrtz_triggers (sched_name, owner) WHERE owner IS NOT NULL;

CREATE INDEX qrtz_triggers_job ON qrtz_triggers (job_group, job_name);

INSERT INTO qrtz_alembic_version (version_num) VALUES ('0001') RETURNING qrtz_alembic_version.version_num;

COMMIT;
