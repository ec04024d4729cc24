"""The tables: the single source of the schema. Migrations and `schema/postgresql.sql` are compared with them.

Every row has a `sched_name`: logical schedulers share a database and never affect each other. Each index serves a query
that runs; the comments name it.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    Interval,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from quartzpy.keys import MAX_NAME_LENGTH
from quartzpy.states import (
    ActionState,
    FiredState,
    JobMode,
    MisfireAction,
    NodeMode,
    Outcome,
    OverlapPolicy,
    TriggerState,
)

metadata = MetaData()

Name = String(MAX_NAME_LENGTH)
Instant = DateTime(timezone=True)


def _one_of(column: str, words: type[StrEnum]) -> str:
    return f"{column} IN ({', '.join(repr(str(word)) for word in words)})"


fire_ids = Sequence("qrtz_fire_ids", metadata=metadata, data_type=BigInteger)
"""Increasing numbers, for fire_ids and generations."""
epochs = Sequence("qrtz_epochs", metadata=metadata, data_type=BigInteger)

job_details = Table(
    "qrtz_job_details",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
    # The name that people see; NULL: they see job_name.
    Column("display_name", Text),
    Column("description", Text),
    Column("job_type", Name, nullable=False),
    Column("is_durable", Boolean, nullable=False),
    # The limit of concurrent executions in the cluster; 1 is Quartz's DisallowConcurrentExecution, NULL is no limit.
    Column("max_concurrent", Integer),
    # The treatment of a fire at that limit.
    Column("overlap_policy", String(12), nullable=False, server_default=text("'block'")),
    # The entry of the data whose value max_concurrent holds for; NULL: it holds for the whole job.
    Column("concurrency_key", Name),
    # The limit of fires in a period: {"limit": 10, "per_us": 60000000, "burst": 1}; NULL is no limit.
    Column("rate_limit", JSONB),
    # The executor, group and labels that it asks for; empty where it runs anywhere.
    Column("placement", Text, nullable=False, server_default=text("''")),
    Column("persists_data", Boolean, nullable=False),
    Column("requests_recovery", Boolean, nullable=False),
    Column("retry_policy", JSONB),
    Column("timeout", Interval),
    # MANUAL: only manual triggers fire; DISABLED: none fires.
    Column("mode", String(10), nullable=False, server_default=text("'ENABLED'")),
    # The owner that declared the job (Scheduler.sync): pruning removes only an owner's own jobs.
    Column("owner", Name),
    # The number of nodes that died while executing the job since its last success.
    Column("node_deaths", Integer, nullable=False, server_default=text("0")),
    # Its triggers are paused after this number of failed executions in a row; NULL: never.
    Column("pause_after_failures", Integer),
    # The failed executions since the last success; counted only where pause_after_failures is set.
    Column("consecutive_failures", Integer, nullable=False, server_default=text("0")),
    # The level from which on the history keeps the log lines of its executions; NULL or OFF: it keeps none.
    Column("capture_logs", String(10)),
    Column("job_data", JSONB),
    # The jobs that run after it, and after which outcomes.
    Column("continuations", JSONB),
    PrimaryKeyConstraint("sched_name", "job_group", "job_name", name="qrtz_job_details_pkey"),
    CheckConstraint("max_concurrent > 0", name="qrtz_job_details_max_concurrent_check"),
    CheckConstraint(_one_of("mode", JobMode), name="qrtz_job_details_mode_check"),
    CheckConstraint(_one_of("overlap_policy", OverlapPolicy), name="qrtz_job_details_when_full_check"),
)

# storing: is any job not ENABLED?
Index(
    "qrtz_job_details_mode",
    job_details.c.sched_name,
    postgresql_where=text("mode <> 'ENABLED'"),
)
# acquire: has any job a rate limit?
Index(
    "qrtz_job_details_rate_limit",
    job_details.c.sched_name,
    postgresql_where=text("rate_limit IS NOT NULL"),
)
# complete: the few jobs whose success resets node_deaths
Index(
    "qrtz_job_details_deaths",
    job_details.c.sched_name,
    postgresql_where=text("node_deaths > 0"),
)

calendars = Table(
    "qrtz_calendars",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("calendar_name", Name, nullable=False),
    Column("calendar", JSONB, nullable=False),
    # Increases with each change: values that were computed from an older revision are refused.
    Column("revision", BigInteger, nullable=False),
    PrimaryKeyConstraint("sched_name", "calendar_name", name="qrtz_calendars_pkey"),
)

triggers = Table(
    "qrtz_triggers",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("trigger_group", Name, nullable=False),
    Column("trigger_name", Name, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
    # Copies of the job's columns, so that claiming reads a single table through a single index.
    Column("job_type", Name, nullable=False),
    Column("max_concurrent", Integer),
    Column("overlap_policy", String(12), nullable=False, server_default=text("'block'")),
    # The value that the job's concurrency_key has in the data of this trigger; empty where it has none.
    Column("concurrency_key", Text, nullable=False, server_default=text("''")),
    Column("placement", Text, nullable=False, server_default=text("''")),
    Column("rate_limit", JSONB),
    # The rate limit holds the trigger back until then, and is asked again; an instant in the past means nothing.
    Column("rate_limited_until", Instant),
    Column("description", Text),
    Column("kind", String(40), nullable=False),
    Column("schedule", JSONB, nullable=False),
    Column("trigger_state", String(16), nullable=False),
    # A fire changes these columns. They are adjacent, so that the log of an update within a page, which leaves out the
    # common beginning and end of the two versions, is short.
    Column("times_triggered", BigInteger, nullable=False, server_default=text("0")),
    Column("next_fire_time", Instant),
    Column("prev_fire_time", Instant),
    # The fire times after the next one; upcoming_is_complete if no others follow them.
    Column("upcoming", ARRAY(Instant), nullable=False, server_default=text("'{}'")),
    Column("upcoming_is_complete", Boolean, nullable=False, server_default=text("false")),
    # The missed instants that the next fire coalesces.
    Column("coalesced_fire_times", ARRAY(Instant)),
    Column("generation", BigInteger, nullable=False),
    # The number of the attempt that a fire of this trigger is: above 1 for a retry.
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    Column("start_time", Instant, nullable=False),
    Column("end_time", Instant),
    Column("priority", Integer, nullable=False),
    Column("misfire_instruction", String(60), nullable=False),
    # The rule by which a fire is a misfire: the scheduler's threshold, the trigger's own, or never. NEW, or HELD while
    # it is paused: a user's transaction stored the trigger, and no step has reconciled it yet. RATE_LIMIT: the limit is
    # asked before each fire. LATE: it is late, and not because of its rate limit.
    Column("misfire_rule", String(10), nullable=False),
    Column("misfire_threshold", Interval),
    # The trigger catches up on missed fires until this instant, and does not misfire in the meantime.
    Column("catch_up_until", Instant),
    # The instant of the resumption that set the rule SKIP: what comes due after it is not skipped.
    Column("resumed_at", Instant),
    Column("calendar_name", Name),
    Column("job_data", JSONB),
    # The claim of an ACQUIRED trigger, or the last fire of a COMPLETE one while its execution runs.
    Column("fire_id", BigInteger),
    Column("error", Text),
    Column("owner", Name),
    # Identifies the schedule as it was declared, before any changes by misfires: storing the same schedule again keeps
    # the trigger's progress.
    Column("schedule_hash", BigInteger),
    # The trigger is PAUSED only because of its job's mode or of manual mode: ending that mode resumes it.
    Column("held_by_mode", Boolean, nullable=False, server_default=text("false")),
    # Of the last pause by a verb; they mean something only while it is PAUSED or PAUSED_BLOCKED.
    Column("paused_at", Instant),
    Column("paused_by", Name),
    Column("pause_reason", Text),
    # The scheduler comes last, because only the due index may begin with it: without statistics, or with those of an
    # emptied table, the planner would use any other such index instead, which is as slow as a full scan.
    PrimaryKeyConstraint("trigger_group", "trigger_name", "sched_name", name="qrtz_triggers_pkey"),
    ForeignKeyConstraint(
        ["sched_name", "job_group", "job_name"],
        [job_details.c.sched_name, job_details.c.job_group, job_details.c.job_name],
        name="qrtz_triggers_job_fkey",
    ),
    ForeignKeyConstraint(
        ["sched_name", "calendar_name"],
        [calendars.c.sched_name, calendars.c.calendar_name],
        name="qrtz_triggers_calendar_fkey",
    ),
    CheckConstraint(_one_of("trigger_state", TriggerState), name="qrtz_triggers_state_check"),
    CheckConstraint("trigger_state <> 'WAITING' OR next_fire_time IS NOT NULL", name="qrtz_triggers_waiting_check"),
    CheckConstraint(
        "misfire_rule IN ('SCHEDULER', 'IGNORE', 'RATE_LIMIT', 'LATE', 'SKIP', 'ONCE', 'NEW', 'HELD')"
        " OR (misfire_rule = 'OWN' AND misfire_threshold IS NOT NULL)",
        name="qrtz_triggers_misfire_rule_check",
    ),
    # Within the range that an instant can be shifted by, because acquire subtracts it, even from hand-written rows.
    CheckConstraint(
        "misfire_threshold BETWEEN interval '0' AND interval '876600 hours'",
        name="qrtz_triggers_misfire_threshold_check",
    ),
    CheckConstraint(
        "catch_up_until IS NULL OR misfire_rule IN ('IGNORE', 'RATE_LIMIT')", name="qrtz_triggers_catch_up_check"
    ),
    CheckConstraint(
        "CASE trigger_state WHEN 'ACQUIRED' THEN fire_id IS NOT NULL WHEN 'COMPLETE' THEN true ELSE fire_id IS NULL"
        " END",
        name="qrtz_triggers_acquired_check",
    ),
    # Room for the next versions of a row in the same page.
    postgresql_with={"fillfactor": "70"},
)
# acquire and misfire: each job type's due triggers in order. Job type, placement and misfire rule come first, so that a
# step never walks over triggers that the node cannot run, has no slots for, or must leave to the misfire step.
Index(
    "qrtz_triggers_due",
    triggers.c.sched_name,
    triggers.c.job_type,
    triggers.c.placement,
    triggers.c.misfire_rule,
    triggers.c.next_fire_time,
    triggers.c.priority.desc(),
    postgresql_where=text("trigger_state = 'WAITING'"),
)
# acquire: triggers of jobs with a rate limit, by the instant at which the limit is asked. GREATEST ignores NULL.
Index(
    "qrtz_triggers_rate_limited",
    triggers.c.sched_name,
    triggers.c.job_type,
    triggers.c.placement,
    text("GREATEST(rate_limited_until, next_fire_time)"),
    postgresql_where=text("trigger_state = 'WAITING' AND rate_limit IS NOT NULL"),
)
# acquire: triggers that users' transactions stored
Index(
    "qrtz_triggers_new",
    triggers.c.sched_name,
    triggers.c.next_fire_time,
    postgresql_where=text("misfire_rule = 'NEW'"),
)
# acquire: the existing placements
Index(
    "qrtz_triggers_placed",
    triggers.c.sched_name,
    triggers.c.placement,
    triggers.c.job_type,
    postgresql_where=text("trigger_state = 'WAITING' AND placement <> ''"),
)
# a job's triggers: blocking, unblocking, deleting, and the foreign key.
# The scheduler is not part of this and the following indexes: with it, an index could be used to find a trigger by its
# key, as slowly as a table scan, and without statistics the planner would choose it.
Index("qrtz_triggers_job", triggers.c.job_group, triggers.c.job_name)
# replacing and removing a calendar, and its foreign key
Index(
    "qrtz_triggers_calendar",
    triggers.c.sched_name,
    triggers.c.calendar_name,
    postgresql_where=text("calendar_name IS NOT NULL"),
)
# sync: the triggers that an owner declared
Index(
    "qrtz_triggers_owner",
    triggers.c.sched_name,
    triggers.c.owner,
    postgresql_where=text("owner IS NOT NULL"),
)
# complete and recover: the few triggers that are claimed, blocked or ended, by their job
Index(
    "qrtz_triggers_held",
    triggers.c.job_group,
    triggers.c.job_name,
    postgresql_where=text("trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')"),
)
# queries: triggers of one state that are paused or in ERROR, by key, and their number, which is read without the rows
Index(
    "qrtz_triggers_stopped",
    triggers.c.trigger_state,
    triggers.c.trigger_group,
    triggers.c.trigger_name,
    triggers.c.sched_name,
    postgresql_where=text("trigger_state IN ('ERROR', 'PAUSED', 'PAUSED_BLOCKED')"),
)

rate_limits = Table(
    "qrtz_rate_limits",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
    Column("concurrency_key", Text, nullable=False),
    # The theoretical arrival time of the next fire, as GCRA defines it. A row without an instant in the future means
    # nothing, and is deleted.
    Column("tat", Instant, nullable=False),
    # The last turn that was given to a trigger, and the interval between turns at that time.
    Column("queued_until", Instant),
    Column("queued_interval", Interval),
    PrimaryKeyConstraint("sched_name", "job_group", "job_name", "concurrency_key", name="qrtz_rate_limits_pkey"),
)
# acquire: the rows that mean nothing
Index("qrtz_rate_limits_tat", rate_limits.c.sched_name, rate_limits.c.tat)

owners = Table(
    "qrtz_owners",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("owner", Name, nullable=False),
    # The program version of the owner's last sync: an older version changes nothing.
    Column("version", Text, nullable=False),
    PrimaryKeyConstraint("sched_name", "owner", name="qrtz_owners_pkey"),
)

paused_groups = Table(
    "qrtz_paused_trigger_groups",
    metadata,
    Column("sched_name", Name, nullable=False),
    # TRIGGER: triggers of this group; JOB: triggers of jobs of this group; ALL: all triggers; MANUAL: all triggers
    # that are not manual
    Column("scope", String(8), nullable=False),
    Column("group_name", Name, nullable=False),
    PrimaryKeyConstraint("sched_name", "scope", "group_name", name="qrtz_paused_trigger_groups_pkey"),
    CheckConstraint("scope IN ('TRIGGER', 'JOB', 'ALL', 'MANUAL')", name="qrtz_paused_trigger_groups_scope_check"),
)

fired_triggers = Table(
    "qrtz_fired_triggers",
    metadata,
    Column("fire_id", BigInteger, nullable=False, autoincrement=False),
    Column("sched_name", Name, nullable=False),
    Column("trigger_group", Name, nullable=False),
    Column("trigger_name", Name, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
    Column("job_type", Name, nullable=False),
    Column("instance_id", Name, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("fired_time", Instant, nullable=False),
    Column("scheduled_time", Instant, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("max_concurrent", Integer),
    Column("concurrency_key", Text, nullable=False, server_default=text("''")),
    Column("requests_recovery", Boolean, nullable=False),
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    # A request to stop this execution.
    Column("cancel_requested", Boolean, nullable=False, server_default=text("false")),
    # The trigger's data at the time of the fire, for a recovery after the trigger has been removed.
    Column("trigger_data", JSONB),
    # The fire times that the execution coalesces, if there are several.
    Column("coalesced_fire_times", ARRAY(Instant)),
    # The progress that the job last reported: a fraction from 0 to 1.
    Column("progress", Double),
    Column("progress_message", Text),
    PrimaryKeyConstraint("fire_id", name="qrtz_fired_triggers_pkey"),
    CheckConstraint(_one_of("state", FiredState), name="qrtz_fired_triggers_state_check"),
)
# running executions of jobs with a limit: acquire and fire count them
Index(
    "qrtz_fired_triggers_limited",
    fired_triggers.c.sched_name,
    fired_triggers.c.job_group,
    fired_triggers.c.job_name,
    fired_triggers.c.concurrency_key,
    postgresql_where=text("state = 'EXECUTING' AND max_concurrent IS NOT NULL"),
)
# The database refuses two concurrent executions of a job that disallows them, even if the code has a bug.
Index(
    "qrtz_fired_triggers_one_running",
    fired_triggers.c.sched_name,
    fired_triggers.c.job_group,
    fired_triggers.c.job_name,
    fired_triggers.c.concurrency_key,
    unique=True,
    postgresql_where=text("state = 'EXECUTING' AND max_concurrent = 1"),
)
# There is no index by epoch: the table has no more rows than the cluster has workers, and it would slow each fire.

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
    PrimaryKeyConstraint("sched_name", "instance_id", name="qrtz_scheduler_state_pkey"),
    CheckConstraint(_one_of("mode", NodeMode), name="qrtz_scheduler_state_mode_check"),
    postgresql_with={"fillfactor": "50"},
)

locks = Table(
    "qrtz_locks",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("lock_name", String(40), nullable=False),
    PrimaryKeyConstraint("sched_name", "lock_name", name="qrtz_locks_pkey"),
)

executions = Table(
    "qrtz_executions",
    metadata,
    Column("fire_id", BigInteger, nullable=False, autoincrement=False),
    Column("sched_name", Name, nullable=False),
    Column("trigger_group", Name, nullable=False),
    Column("trigger_name", Name, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
    Column("job_type", Name, nullable=False),
    Column("instance_id", Name, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("fired_time", Instant, nullable=False),
    Column("scheduled_time", Instant, nullable=False),
    Column("started_at", Instant),
    Column("ended_at", Instant, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    Column("error", Text),
    # The trigger data of the execution, for running it again.
    Column("trigger_data", JSONB),
    Column("result", JSONB),
    # The time of the next attempt; NULL if the failure is not retried.
    Column("retry_at", Instant),
    # The log lines of the execution, if its job asked for them (capture_logs).
    Column("log", Text),
    PrimaryKeyConstraint("fire_id", name="qrtz_executions_pkey"),
    CheckConstraint(_one_of("outcome", Outcome), name="qrtz_executions_outcome_check"),
)
# The database refuses a second record of the same fire of a trigger, even if the code has a bug; also the history of a
# trigger. The scheduler does not come first: without statistics the planner would use this index for the latest
# executions of all triggers.
Index(
    "qrtz_executions_instant",
    executions.c.trigger_group,
    executions.c.trigger_name,
    executions.c.sched_name,
    executions.c.generation,
    executions.c.scheduled_time,
    unique=True,
)
# the latest executions, and purging the oldest. Rows arrive nearly in this order, so they are appended at the end.
Index("qrtz_executions_ended", executions.c.sched_name, executions.c.ended_at)
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
    CheckConstraint(_one_of("action", MisfireAction), name="qrtz_misfires_action_check"),
)
# a trigger's latest
Index("qrtz_misfires_trigger", misfires.c.trigger_group, misfires.c.trigger_name, misfires.c.id)

audit = Table(
    "qrtz_audit",
    metadata,
    # Increases with time.
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("sched_name", Name, nullable=False),
    Column("at", Instant, nullable=False),
    Column("ended_at", Instant),
    Column("actor", Name, nullable=False),
    Column("role", String(16), nullable=False),
    Column("action", String(40), nullable=False),
    # "trigger GROUP.NAME", or in words the filter that selected several.
    Column("subject", String(500), nullable=False),
    Column("reason", Text, nullable=False),
    Column("state", String(16), nullable=False),
    # The number of things that it has changed.
    Column("count", BigInteger, nullable=False),
    # The values that it changed, before and after, without secrets.
    Column("before", JSONB),
    Column("after", JSONB),
    Column("error", Text),
    # the latest actions, and purging the oldest
    PrimaryKeyConstraint("sched_name", "id", name="qrtz_audit_pkey"),
    CheckConstraint(_one_of("state", ActionState), name="qrtz_audit_state_check"),
)
# the latest actions on one job, trigger, execution or node
Index("qrtz_audit_subject", audit.c.subject, audit.c.id)
# the actions of a span of time
Index("qrtz_audit_at", audit.c.sched_name, audit.c.at)
# the few actions that failed, were refused, or have not ended
Index("qrtz_audit_unsuccessful", audit.c.sched_name, audit.c.id, postgresql_where=text("state <> 'SUCCEEDED'"))
