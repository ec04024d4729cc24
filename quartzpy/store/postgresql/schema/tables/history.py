"""The tables of the past: executions that ended, and misfires."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from quartzpy.states import MisfireAction, Outcome
from quartzpy.store.postgresql.schema.tables.shared import Instant, Name, metadata, one_of

# Columns of a fixed width come first, so that none of their bytes is padding: each fire inserts such a row.
executions = Table(
    "qrtz_executions",
    metadata,
    Column("fire_id", BigInteger, nullable=False, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("fired_time", Instant, nullable=False),
    Column("scheduled_time", Instant, nullable=False),
    Column("started_at", Instant),
    Column("ended_at", Instant, nullable=False),
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    Column("sched_name", Name, nullable=False),
    Column("trigger_group", Name, nullable=False),
    Column("trigger_name", Name, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
    Column("job_type", Name, nullable=False),
    Column("instance_id", Name, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("error", Text),
    # The trigger data of the execution, for running it again.
    Column("trigger_data", JSONB),
    Column("result", JSONB),
    # The time of the next attempt; NULL if the failure is not retried.
    Column("retry_at", Instant),
    # The log lines of the execution, if its job asked for them (capture_logs).
    Column("log", Text),
    PrimaryKeyConstraint("fire_id", name="qrtz_executions_pkey"),
    CheckConstraint(one_of("outcome", Outcome), name="qrtz_executions_outcome_check"),
)
# The database refuses a second record of the same fire of a trigger, even if the code has a bug; also the history of a
# trigger. The scheduler does not come first: without statistics the planner would use this index for the latest
# executions of all triggers.
Index(
    "qrtz_executions_instant",
    executions.c.trigger_name,
    executions.c.trigger_group,
    executions.c.sched_name,
    executions.c.generation,
    executions.c.scheduled_time,
    unique=True,
)
# the latest executions, and purging the oldest. Rows arrive nearly in this order, so they are appended at the end. A
# timeline by node counts a span of any length from this index alone.
Index(
    "qrtz_executions_ended",
    executions.c.sched_name,
    executions.c.ended_at,
    postgresql_include=["instance_id", "outcome"],
)
# queries by scheduled time, or of a trigger: the few executions that ended much later than they were scheduled. The
# others are found by their end. Only their rows are indexed. Without the scheduler, no other index is preferred to it.
Index(
    "qrtz_executions_long",
    executions.c.scheduled_time,
    postgresql_where=text("ended_at - scheduled_time > interval '1 hour'"),
)
# the latest failures that are not retried: only their rows are indexed
Index(
    "qrtz_executions_exhausted",
    executions.c.sched_name,
    executions.c.ended_at,
    postgresql_where=text("outcome = 'FAILED' AND retry_at IS NULL"),
)
# incidents: the executions that ended with their nodes
Index(
    "qrtz_executions_lost",
    executions.c.sched_name,
    executions.c.ended_at,
    postgresql_where=text("outcome = 'TERMINATED'"),
)

misfires = Table(
    "qrtz_misfires",
    metadata,
    # Increases with time.
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("sched_name", Name, nullable=False),
    Column("trigger_group", Name, nullable=False),
    Column("trigger_name", Name, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
    # The node that handled it.
    Column("instance_id", Name, nullable=False),
    Column("handled_at", Instant, nullable=False),
    Column("misfire_instruction", String(60), nullable=False),
    Column("action", String(16), nullable=False),
    # The fire time that was found to be late.
    Column("scheduled_time", Instant, nullable=False),
    # The fire times that got no run of their own; has_more if there are others after these.
    Column("missed", ARRAY(Instant), nullable=False),
    Column("has_more", Boolean, nullable=False),
    # The number of missed fires that run late, each by itself.
    Column("caught_up", BigInteger, nullable=False),
    # The trigger's new fire time; NULL if it will not fire again.
    Column("next_fire_time", Instant),
    # the latest misfires, and purging the oldest
    PrimaryKeyConstraint("sched_name", "id", name="qrtz_misfires_pkey"),
    CheckConstraint(one_of("action", MisfireAction), name="qrtz_misfires_action_check"),
)
# a trigger's latest
Index("qrtz_misfires_trigger", misfires.c.trigger_group, misfires.c.trigger_name, misfires.c.id)
