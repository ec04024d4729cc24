"""The first tables."""

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None
phase = "pre"

Name = sa.String(200)
Instant = sa.DateTime(timezone=True)

SEQUENCES = ("qrtz_fire_ids", "qrtz_epochs")
TABLES = (
    "qrtz_executions",
    "qrtz_locks",
    "qrtz_misfires",
    "qrtz_scheduler_state",
    "qrtz_fired_triggers",
    "qrtz_paused_trigger_groups",
    "qrtz_owners",
    "qrtz_rate_limits",
    "qrtz_triggers",
    "qrtz_calendars",
    "qrtz_job_details",
)


def upgrade() -> None:
    schema = context.config.attributes["schema"]
    prefix = f"{schema}." if schema else ""
    for name in SEQUENCES:
        op.execute(sa.schema.CreateSequence(sa.Sequence(name, schema=schema, data_type=sa.BigInteger)))
    op.create_table(
        "qrtz_calendars",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("calendar_name", Name, nullable=False),
        sa.Column("calendar", JSONB(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sched_name", "calendar_name", name="qrtz_calendars_pkey"),
        schema=schema,
    )
    op.create_table(
        "qrtz_executions",
        sa.Column("fire_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("trigger_group", Name, nullable=False),
        sa.Column("trigger_name", Name, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("job_group", Name, nullable=False),
        sa.Column("job_name", Name, nullable=False),
        sa.Column("job_type", Name, nullable=False),
        sa.Column("instance_id", Name, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("fired_time", Instant, nullable=False),
        sa.Column("scheduled_time", Instant, nullable=False),
        sa.Column("started_at", Instant, nullable=True),
        sa.Column("ended_at", Instant, nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("trigger_data", JSONB(), nullable=True),
        sa.Column("result", JSONB(), nullable=True),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("log", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'SKIPPED', 'SNOOZED', 'TERMINATED')",
            name="qrtz_executions_outcome_check",
        ),
        sa.PrimaryKeyConstraint("fire_id", name="qrtz_executions_pkey"),
        schema=schema,
    )
    op.create_index(
        "qrtz_executions_ended",
        "qrtz_executions",
        ["sched_name", "ended_at"],
        unique=False,
        schema=schema,
    )
    op.create_index(
        "qrtz_executions_exhausted",
        "qrtz_executions",
        ["sched_name", "ended_at"],
        unique=False,
        postgresql_where=sa.text("outcome = 'FAILED' AND retry_at IS NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_executions_instant",
        "qrtz_executions",
        ["trigger_group", "trigger_name", "sched_name", "generation", "scheduled_time"],
        unique=True,
        schema=schema,
    )
    op.create_table(
        "qrtz_fired_triggers",
        sa.Column("fire_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("trigger_group", Name, nullable=False),
        sa.Column("trigger_name", Name, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("job_group", Name, nullable=False),
        sa.Column("job_name", Name, nullable=False),
        sa.Column("job_type", Name, nullable=False),
        sa.Column("instance_id", Name, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("fired_time", Instant, nullable=False),
        sa.Column("scheduled_time", Instant, nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("max_concurrent", sa.Integer(), nullable=True),
        sa.Column("concurrency_key", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("requests_recovery", sa.Boolean(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("trigger_data", JSONB(), nullable=True),
        sa.Column("coalesced_fire_times", sa.ARRAY(Instant), nullable=True),
        sa.Column("progress", sa.Double(), nullable=True),
        sa.Column("progress_message", sa.Text(), nullable=True),
        sa.CheckConstraint("state IN ('ACQUIRED', 'EXECUTING')", name="qrtz_fired_triggers_state_check"),
        sa.PrimaryKeyConstraint("fire_id", name="qrtz_fired_triggers_pkey"),
        schema=schema,
    )
    op.create_index(
        "qrtz_fired_triggers_limited",
        "qrtz_fired_triggers",
        ["sched_name", "job_group", "job_name", "concurrency_key"],
        unique=False,
        postgresql_where=sa.text("state = 'EXECUTING' AND max_concurrent IS NOT NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_fired_triggers_one_running",
        "qrtz_fired_triggers",
        ["sched_name", "job_group", "job_name", "concurrency_key"],
        unique=True,
        postgresql_where=sa.text("state = 'EXECUTING' AND max_concurrent = 1"),
        schema=schema,
    )
    op.create_table(
        "qrtz_job_details",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("job_group", Name, nullable=False),
        sa.Column("job_name", Name, nullable=False),
        sa.Column("display_name", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("job_type", Name, nullable=False),
        sa.Column("is_durable", sa.Boolean(), nullable=False),
        sa.Column("max_concurrent", sa.Integer(), nullable=True),
        sa.Column("overlap_policy", sa.String(length=12), server_default=sa.text("'block'"), nullable=False),
        sa.Column("concurrency_key", Name, nullable=True),
        sa.Column("rate_limit", JSONB(), nullable=True),
        sa.Column("placement", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("persists_data", sa.Boolean(), nullable=False),
        sa.Column("requests_recovery", sa.Boolean(), nullable=False),
        sa.Column("retry_policy", JSONB(), nullable=True),
        sa.Column("timeout", sa.Interval(), nullable=True),
        sa.Column("mode", sa.String(length=10), server_default=sa.text("'ENABLED'"), nullable=False),
        sa.Column("owner", Name, nullable=True),
        sa.Column("node_deaths", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("pause_after_failures", sa.Integer(), nullable=True),
        sa.Column("consecutive_failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("capture_logs", sa.String(length=10), nullable=True),
        sa.Column("job_data", JSONB(), nullable=True),
        sa.Column("continuations", JSONB(), nullable=True),
        sa.CheckConstraint("max_concurrent > 0", name="qrtz_job_details_max_concurrent_check"),
        sa.CheckConstraint("mode IN ('ENABLED', 'MANUAL', 'DISABLED')", name="qrtz_job_details_mode_check"),
        sa.CheckConstraint(
            "overlap_policy IN ('block', 'skip', 'buffer_one', 'cancel_other')", name="qrtz_job_details_when_full_check"
        ),
        sa.PrimaryKeyConstraint("sched_name", "job_group", "job_name", name="qrtz_job_details_pkey"),
        schema=schema,
    )
    op.create_index(
        "qrtz_job_details_deaths",
        "qrtz_job_details",
        ["sched_name"],
        unique=False,
        postgresql_where=sa.text("node_deaths > 0"),
        schema=schema,
    )
    op.create_index(
        "qrtz_job_details_mode",
        "qrtz_job_details",
        ["sched_name"],
        unique=False,
        postgresql_where=sa.text("mode <> 'ENABLED'"),
        schema=schema,
    )
    op.create_index(
        "qrtz_job_details_rate_limit",
        "qrtz_job_details",
        ["sched_name"],
        unique=False,
        postgresql_where=sa.text("rate_limit IS NOT NULL"),
        schema=schema,
    )
    op.create_table(
        "qrtz_locks",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("lock_name", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("sched_name", "lock_name", name="qrtz_locks_pkey"),
        schema=schema,
    )
    op.create_table(
        "qrtz_misfires",
        sa.Column("id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("trigger_group", Name, nullable=False),
        sa.Column("trigger_name", Name, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("job_group", Name, nullable=False),
        sa.Column("job_name", Name, nullable=False),
        sa.Column("instance_id", Name, nullable=False),
        sa.Column("handled_at", Instant, nullable=False),
        sa.Column("misfire_instruction", sa.String(length=60), nullable=False),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("scheduled_time", Instant, nullable=False),
        sa.Column("missed", ARRAY(Instant), nullable=False),
        sa.Column("has_more", sa.Boolean(), nullable=False),
        sa.Column("caught_up", sa.BigInteger(), nullable=False),
        sa.Column("next_fire_time", Instant, nullable=True),
        sa.CheckConstraint(
            "action IN ('FIRED_ONCE', 'RESCHEDULED', 'SKIPPED', 'CATCHING_UP', 'ENDED')",
            name="qrtz_misfires_action_check",
        ),
        sa.PrimaryKeyConstraint("sched_name", "id", name="qrtz_misfires_pkey"),
        schema=schema,
    )
    op.create_index(
        "qrtz_misfires_trigger",
        "qrtz_misfires",
        ["trigger_group", "trigger_name", "id"],
        unique=False,
        schema=schema,
    )
    op.create_table(
        "qrtz_owners",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("owner", Name, nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sched_name", "owner", name="qrtz_owners_pkey"),
        schema=schema,
    )
    op.create_table(
        "qrtz_paused_trigger_groups",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("scope", sa.String(length=8), nullable=False),
        sa.Column("group_name", Name, nullable=False),
        sa.CheckConstraint(
            "scope IN ('TRIGGER', 'JOB', 'ALL', 'MANUAL')", name="qrtz_paused_trigger_groups_scope_check"
        ),
        sa.PrimaryKeyConstraint("sched_name", "scope", "group_name", name="qrtz_paused_trigger_groups_pkey"),
        schema=schema,
    )
    op.create_table(
        "qrtz_rate_limits",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("job_group", Name, nullable=False),
        sa.Column("job_name", Name, nullable=False),
        sa.Column("concurrency_key", sa.Text(), nullable=False),
        sa.Column("tat", Instant, nullable=False),
        sa.Column("queued_until", Instant, nullable=True),
        sa.Column("queued_interval", sa.Interval(), nullable=True),
        sa.PrimaryKeyConstraint("sched_name", "job_group", "job_name", "concurrency_key", name="qrtz_rate_limits_pkey"),
        schema=schema,
    )
    op.create_index(
        "qrtz_rate_limits_tat",
        "qrtz_rate_limits",
        ["sched_name", "tat"],
        unique=False,
        schema=schema,
    )
    op.create_table(
        "qrtz_scheduler_state",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("instance_id", Name, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("started_at", Instant, nullable=False),
        sa.Column("last_checkin", Instant, nullable=False),
        sa.Column("checkin_count", sa.BigInteger(), nullable=False),
        sa.Column("checkin_interval", sa.Interval(), nullable=False),
        sa.Column("failure_window", sa.Interval(), server_default=sa.text("'20 seconds'"), nullable=False),
        sa.Column("process", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("capabilities", JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("facts", JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.PrimaryKeyConstraint("sched_name", "instance_id", name="qrtz_scheduler_state_pkey"),
        postgresql_with={"fillfactor": "50"},
        schema=schema,
    )
    op.create_table(
        "qrtz_triggers",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("trigger_group", Name, nullable=False),
        sa.Column("trigger_name", Name, nullable=False),
        sa.Column("job_group", Name, nullable=False),
        sa.Column("job_name", Name, nullable=False),
        sa.Column("job_type", Name, nullable=False),
        sa.Column("max_concurrent", sa.Integer(), nullable=True),
        sa.Column("overlap_policy", sa.String(length=12), server_default=sa.text("'block'"), nullable=False),
        sa.Column("concurrency_key", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("placement", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("rate_limit", JSONB(), nullable=True),
        sa.Column("rate_limited_until", Instant, nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("schedule", JSONB(), nullable=False),
        sa.Column("trigger_state", sa.String(length=16), nullable=False),
        sa.Column("times_triggered", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("next_fire_time", Instant, nullable=True),
        sa.Column("prev_fire_time", Instant, nullable=True),
        sa.Column(
            "upcoming",
            ARRAY(Instant),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.Column("upcoming_is_complete", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("coalesced_fire_times", sa.ARRAY(Instant), nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("start_time", Instant, nullable=False),
        sa.Column("end_time", Instant, nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("misfire_instruction", sa.String(length=60), nullable=False),
        sa.Column("misfire_rule", sa.String(length=10), nullable=False),
        sa.Column("misfire_threshold", sa.Interval(), nullable=True),
        sa.Column("catch_up_until", Instant, nullable=True),
        sa.Column("resumed_at", Instant, nullable=True),
        sa.Column("calendar_name", Name, nullable=True),
        sa.Column("job_data", JSONB(), nullable=True),
        sa.Column("fire_id", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("owner", Name, nullable=True),
        sa.Column("schedule_hash", sa.BigInteger(), nullable=True),
        sa.Column("held_by_mode", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("paused_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("paused_by", sa.String(length=200), nullable=True),
        sa.Column("pause_reason", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "CASE trigger_state WHEN 'ACQUIRED' THEN fire_id IS NOT NULL"
            " WHEN 'COMPLETE' THEN true ELSE fire_id IS NULL END",
            name="qrtz_triggers_acquired_check",
        ),
        sa.CheckConstraint(
            "misfire_threshold BETWEEN interval '0' AND interval '876600 hours'",
            name="qrtz_triggers_misfire_threshold_check",
        ),
        sa.CheckConstraint(
            "catch_up_until IS NULL OR misfire_rule IN ('IGNORE', 'RATE_LIMIT')", name="qrtz_triggers_catch_up_check"
        ),
        sa.CheckConstraint(
            "misfire_rule IN ('SCHEDULER', 'IGNORE', 'RATE_LIMIT', 'LATE', 'SKIP', 'ONCE', 'NEW', 'HELD')"
            " OR (misfire_rule = 'OWN' AND misfire_threshold IS NOT NULL)",
            name="qrtz_triggers_misfire_rule_check",
        ),
        sa.CheckConstraint(
            "trigger_state <> 'WAITING' OR next_fire_time IS NOT NULL", name="qrtz_triggers_waiting_check"
        ),
        sa.CheckConstraint(
            "trigger_state IN ('WAITING', 'ACQUIRED', 'BLOCKED', 'PAUSED', 'PAUSED_BLOCKED', 'COMPLETE', 'ERROR')",
            name="qrtz_triggers_state_check",
        ),
        sa.ForeignKeyConstraint(
            ["sched_name", "calendar_name"],
            [f"{prefix}qrtz_calendars.sched_name", f"{prefix}qrtz_calendars.calendar_name"],
            name="qrtz_triggers_calendar_fkey",
        ),
        sa.ForeignKeyConstraint(
            ["sched_name", "job_group", "job_name"],
            [
                f"{prefix}qrtz_job_details.sched_name",
                f"{prefix}qrtz_job_details.job_group",
                f"{prefix}qrtz_job_details.job_name",
            ],
            name="qrtz_triggers_job_fkey",
        ),
        sa.PrimaryKeyConstraint("trigger_group", "trigger_name", "sched_name", name="qrtz_triggers_pkey"),
        postgresql_with={"fillfactor": "70"},
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_calendar",
        "qrtz_triggers",
        ["sched_name", "calendar_name"],
        unique=False,
        postgresql_where=sa.text("calendar_name IS NOT NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_due",
        "qrtz_triggers",
        ["sched_name", "job_type", "placement", "misfire_rule", "next_fire_time", sa.text("priority DESC")],
        unique=False,
        postgresql_where=sa.text("trigger_state = 'WAITING'"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_new",
        "qrtz_triggers",
        ["sched_name", "next_fire_time"],
        unique=False,
        postgresql_where=sa.text("misfire_rule = 'NEW'"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_rate_limited",
        "qrtz_triggers",
        ["sched_name", "job_type", "placement", sa.text("GREATEST(rate_limited_until, next_fire_time)")],
        unique=False,
        postgresql_where=sa.text("trigger_state = 'WAITING' AND rate_limit IS NOT NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_placed",
        "qrtz_triggers",
        ["sched_name", "placement", "job_type"],
        unique=False,
        postgresql_where=sa.text("trigger_state = 'WAITING' AND placement <> ''"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_stopped",
        "qrtz_triggers",
        ["trigger_group", "trigger_name"],
        unique=False,
        postgresql_where=sa.text("trigger_state IN ('ERROR', 'PAUSED', 'PAUSED_BLOCKED')"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_held",
        "qrtz_triggers",
        ["job_group", "job_name"],
        unique=False,
        postgresql_where=sa.text("trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_owner",
        "qrtz_triggers",
        ["sched_name", "owner"],
        unique=False,
        postgresql_where=sa.text("owner IS NOT NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_job",
        "qrtz_triggers",
        ["job_group", "job_name"],
        unique=False,
        schema=schema,
    )


def downgrade() -> None:
    schema = context.config.attributes["schema"]
    for table in TABLES:
        op.drop_table(table, schema=schema)
    for name in SEQUENCES:
        op.execute(sa.schema.DropSequence(sa.Sequence(name, schema=schema)))
