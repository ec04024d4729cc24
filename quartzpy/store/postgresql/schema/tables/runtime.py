"""The tables of what happens now: running executions, limits, nodes and locks."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Index,
    Integer,
    Interval,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from quartzpy.states import JoinState, NodeMode
from quartzpy.store.postgresql.schema.tables.shared import (
    BY_SCHEDULER,
    IS_RATE_LIMIT,
    Instant,
    Key,
    Name,
    are_instants,
    filled_to,
    metadata,
    one_of,
    word,
)

# The order is that of `executions`, and for the same reason.
fired_triggers = Table(
    "qrtz_fired_triggers",
    metadata,
    Column("fire_id", BigInteger, nullable=False, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("fired_time", Instant, nullable=False),
    Column("scheduled_time", Instant, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    Column("requests_recovery", Boolean, nullable=False),
    # A request to stop this execution.
    Column("cancel_requested", Boolean, nullable=False, server_default=text("false")),
    Column("max_concurrent", Integer),
    Column("sched_name", Name, nullable=False),
    Column("trigger_group", Name, nullable=False),
    Column("trigger_name", Name, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
    Column("job_type", Name, nullable=False),
    Column("instance_id", Name, nullable=False),
    Column("concurrency_key", Key, nullable=False, server_default=text("''")),
    # The trigger's data at the time of the fire, for a recovery after the trigger has been removed.
    Column("trigger_data", JSONB),
    # The fire times that the execution coalesces, if there are several.
    Column("coalesced_fire_times", ARRAY(Instant)),
    # The progress that the job last reported: a fraction from 0 to 1.
    Column("progress", Double),
    Column("progress_message", Text),
    # The last captured log lines of a running job, until the history has all of them.
    Column("recent_log", Text),
    # The shared limits of which it has a place each, until this row is gone for whatever reason.
    Column("limits", Key),
    # Of an execution on an engine: the number of its latest submission; NULL if no ticket is needed to run it.
    Column("submission", Integer),
    # The worker that has taken the ticket of a submission, since when it has it, and when it was last heard of.
    Column("worker", Text),
    Column("worker_since", Instant),
    Column("worker_seen", Instant),
    # It goes on if its node ends, and another node adopts it.
    Column("outlives_node", Boolean),
    # How it has ended on the worker, as JSON, until its node completes it.
    Column("ending", Text),
    PrimaryKeyConstraint("fire_id", name="qrtz_fired_triggers_pkey"),
    # What recovery computes with: a value that it cannot would hold up the recovery of all others.
    CheckConstraint(
        f"{are_instants('fired_time', 'scheduled_time')} AND attempt BETWEEN 1 AND 1000000000",
        name="qrtz_fired_triggers_values_check",
    ),
)
# running executions of jobs with a limit: acquire and fire count them. What differs most comes first here and in the
# other indexes that each fire writes, because a comparison ends at the first column that differs. The database refuses
# two concurrent executions of a job that disallows them, even if the code has a bug: theirs is the same last value.
Index(
    "qrtz_fired_triggers_limited",
    fired_triggers.c.job_name,
    fired_triggers.c.concurrency_key,
    fired_triggers.c.job_group,
    fired_triggers.c.sched_name,
    text("(fire_id * least(max_concurrent - 1, 1))"),
    unique=True,
    postgresql_where=text("max_concurrent IS NOT NULL"),
)
# acquire: the places of shared limits that are taken
Index(
    "qrtz_fired_triggers_limits",
    BY_SCHEDULER,
    fired_triggers.c.limits,
    postgresql_where=text("limits IS NOT NULL"),
)
# There is no index by epoch: the table has no more rows than the cluster has workers, and it would slow each fire.

limits = Table(
    "qrtz_limits",
    metadata,
    Column("sched_name", Name, nullable=False),
    # The name of a limit that jobs share. Empty: the state of the rate of one job, for one concurrency key, whose
    # definition stands in its triggers.
    Column("limit_name", Name, nullable=False),
    Column("job_group", Name, nullable=False, server_default=text("''")),
    Column("job_name", Name, nullable=False, server_default=text("''")),
    Column("concurrency_key", Key, nullable=False, server_default=text("''")),
    # The number of executions of all these jobs at the same time; NULL: any.
    Column("max_concurrent", Integer),
    # The fires of all these jobs in a period, in the form that jobs have; NULL: any.
    Column("rate_limit", JSONB),
    # The theoretical arrival time of the next fire, as GCRA defines it. An instant in the past means nothing.
    Column("tat", Instant),
    # The instant at which the rate admits the next fire, while somebody is parked for it.
    Column("opens_at", Instant),
    PrimaryKeyConstraint(
        "sched_name", "limit_name", "job_group", "job_name", "concurrency_key", name="qrtz_limits_pkey"
    ),
    CheckConstraint("max_concurrent >= 0", name="qrtz_limits_max_concurrent_check"),
    CheckConstraint(IS_RATE_LIMIT, name="qrtz_limits_rate_limit_check"),
    CheckConstraint(are_instants("tat", "opens_at"), name="qrtz_limits_instants_check"),
)
# acquire: the limits that open by time
Index(
    "qrtz_limits_opens",
    limits.c.sched_name,
    limits.c.opens_at,
    postgresql_where=text("opens_at IS NOT NULL"),
)

# The rules of a time zone by which stored instants may have been computed. Usually there is one row for each zone.
zone_rules = Table(
    "qrtz_zone_rules",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("zone_name", Name, nullable=False),
    # Identifies the offsets: releases of the time zone data in which they are the same have the same.
    Column("digest", word(16), nullable=False),
    # The release of the time zone data, for people.
    Column("version", Text, nullable=False),
    # The offsets: [[seconds since 1970 from which on it holds, seconds east of UTC], ...]
    Column("rules", JSONB, nullable=False),
    # The last time, to the minute, at which somebody computed by them and stored what came out.
    Column("noted_at", Instant, nullable=False),
    # The epoch of the node that renews what was computed by them, and until when no other node does.
    Column("renewed_by", BigInteger),
    Column("renewed_until", Instant),
    PrimaryKeyConstraint("sched_name", "zone_name", "digest", name="qrtz_zone_rules_pkey"),
)

# The database for which the tables were made, or by which they were adopted: the only row.
identity = Table(
    "qrtz_identity",
    metadata,
    Column("id", Integer, nullable=False, autoincrement=False),
    # Of the server: pg_control_system(). NULL: the role may not call it.
    Column("system_identifier", Text),
    Column("database_oid", BigInteger, nullable=False),
    Column("database_name", Text, nullable=False),
    Column("adopted_at", Instant, nullable=False),
    Column("adopted_by", Name, nullable=False),
    PrimaryKeyConstraint("id", name="qrtz_identity_pkey"),
    CheckConstraint("id = 1", name="qrtz_identity_only_check"),
)

joins = Table(
    "qrtz_joins",
    metadata,
    # The job that runs when enough has ended.
    Column("sched_name", Name, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
    # The scheduled instant or the day of the executions, or the id of the batch.
    Column("occasion", Name, nullable=False),
    Column("state", String(8), nullable=False),
    Column("opened_at", Instant, nullable=False),
    # The last end that was counted.
    Column("last_end_at", Instant),
    # The triggers of a batch, and the outcomes for which its job runs; NULL for the jobs that a job runs after.
    Column("total", BigInteger),
    Column("outcomes", JSONB),
    # The executions that have ended, by the keys of their jobs; NULL for a batch, whose ends are counted only.
    Column("ended", JSONB),
    Column("succeeded", BigInteger, nullable=False, server_default=text("0")),
    Column("failed", BigInteger, nullable=False, server_default=text("0")),
    # The triggers of a batch that ended without a fire. Who removes them counts them, outside of the lock of the steps.
    Column("removed", BigInteger, nullable=False, server_default=text("0")),
    # The execution with whose end the job was started.
    Column("fire_id", BigInteger),
    # The instant at which it is an incident that the job still waits; NULL if it never is, or is one already.
    Column("due_at", Instant),
    PrimaryKeyConstraint("sched_name", "job_group", "job_name", "occasion", name="qrtz_joins_pkey"),
    CheckConstraint(one_of("state", JoinState), name="qrtz_joins_state_check"),
    # Room for the next versions of a row in the same page: each end of a batch makes one.
    **filled_to(50),
)
# judging: those that wait for longer than they may
Index("qrtz_joins_due", joins.c.sched_name, joins.c.due_at, postgresql_where=text("due_at IS NOT NULL"))
# purge, queries: the latest ones
Index("qrtz_joins_opened", BY_SCHEDULER, joins.c.opened_at)

scheduler_state = Table(
    "qrtz_scheduler_state",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("instance_id", Name, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("last_checkin", Instant, nullable=False),
    Column("checkin_count", BigInteger, nullable=False),
    # The check-in that ended the latest gap between its check-ins: the outage of the database, or a pause of the node.
    Column("back_since", Instant),
    # What the node found wrong with itself before its last check-in: of each the kind, a sentence and the instant since
    # when. NULL: nothing.
    Column("problems", JSONB),
    Column("checkin_interval", Interval, nullable=False),
    # The silence after which other nodes may declare this one dead: its own setting, which theirs do not affect.
    Column("failure_window", Interval, nullable=False, server_default=text("'20 seconds'")),
    # Identifies the node's process among all machines.
    Column("process", Text, nullable=False, server_default=text("''")),
    # The node's job types, executors, group limits and labels.
    Column("capabilities", JSONB, nullable=False, server_default=text("'{}'")),
    # The node's time zone data, release, settings and clock; differences between nodes are reported.
    Column("facts", JSONB, nullable=False, server_default=text("'{}'")),
    # The mode that an operator or the node itself has set, and the instant of that, which rises with each change.
    Column("mode", String(16), nullable=False, server_default=text("'RUNNING'")),
    Column("mode_since", Instant),
    # What the node has said about the job types and placements that it has met, as hashes of these in ascending order:
    # which of them it runs. A step takes no trigger about which its own epoch has not said so.
    Column("runs", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    Column("refuses", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    PrimaryKeyConstraint("sched_name", "instance_id", name="qrtz_scheduler_state_pkey"),
    CheckConstraint(one_of("mode", NodeMode), name="qrtz_scheduler_state_mode_check"),
    # Tells older releases if they can work with these tables; see `schema_version.usable_from`.
    comment="tables of revision 0002, usable by releases from revision 0001 on",
    **filled_to(50),
)

locks = Table(
    "qrtz_locks",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("lock_name", word(40), nullable=False),
    PrimaryKeyConstraint("sched_name", "lock_name", name="qrtz_locks_pkey"),
)
