"""The tables: the single source of the schema. Migrations and `schema/postgresql.sql` are compared with them.

Every row carries `sched_name`: logical schedulers share a database and never meet. An index exists for a query
that runs, and no other; the comments say for which.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
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
from quartzpy.states import FiredState, JobMode, MisfireAction, Outcome, TriggerState, WhenFull

metadata = MetaData()

Name = String(MAX_NAME_LENGTH)
Instant = DateTime(timezone=True)


def _one_of(column: str, words: type[StrEnum]) -> str:
    return f"{column} IN ({', '.join(repr(str(word)) for word in words)})"


fire_ids = Sequence("qrtz_fire_ids", metadata=metadata, data_type=BigInteger)
"""Fences and generations: numbers that only rise."""
epochs = Sequence("qrtz_epochs", metadata=metadata, data_type=BigInteger)

job_details = Table(
    "qrtz_job_details",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
    Column("description", Text),
    Column("job_type", Name, nullable=False),
    Column("is_durable", Boolean, nullable=False),
    # So many executions at once in the whole cluster; 1 is Quartz's DisallowConcurrentExecution, NULL no limit.
    Column("max_concurrent", Integer),
    # What fires do when so many run.
    Column("overlap_policy", String(12), nullable=False, server_default=text("'block'")),
    # The executor, group and labels that it asks for; empty where it runs anywhere.
    Column("placement", Text, nullable=False, server_default=text("''")),
    Column("persists_data", Boolean, nullable=False),
    Column("requests_recovery", Boolean, nullable=False),
    Column("retry_policy", JSONB),
    Column("timeout", Interval),
    # MANUAL: only triggers made by hand fire; DISABLED: none does.
    Column("mode", String(10), nullable=False, server_default=text("'ENABLED'")),
    # Who declared it (Scheduler.sync): pruning removes only what is its owner's.
    Column("owner", Name),
    # So many nodes died while they executed it, since it last succeeded.
    Column("node_deaths", Integer, nullable=False, server_default=text("0")),
    Column("job_data", JSONB),
    PrimaryKeyConstraint("sched_name", "job_group", "job_name", name="qrtz_job_details_pkey"),
    CheckConstraint("max_concurrent > 0", name="qrtz_job_details_max_concurrent_check"),
    CheckConstraint(_one_of("mode", JobMode), name="qrtz_job_details_mode_check"),
    CheckConstraint(_one_of("overlap_policy", WhenFull), name="qrtz_job_details_when_full_check"),
)

# storing: whether any job is not simply enabled
Index(
    "qrtz_job_details_mode",
    job_details.c.sched_name,
    postgresql_where=text("mode <> 'ENABLED'"),
)
# complete: the few whose success is to be noted
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
    # Rises with each change: what was computed from an older one is refused.
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
    # Copies of the job's, so that claiming reads one table by one index.
    Column("job_type", Name, nullable=False),
    Column("max_concurrent", Integer),
    Column("overlap_policy", String(12), nullable=False, server_default=text("'block'")),
    Column("placement", Text, nullable=False, server_default=text("''")),
    Column("description", Text),
    Column("kind", String(40), nullable=False),
    Column("schedule", JSONB, nullable=False),
    Column("trigger_state", String(16), nullable=False),
    Column("next_fire_time", Instant),
    Column("prev_fire_time", Instant),
    # The fire times after the next one; none follow them where upcoming_is_complete.
    Column("upcoming", ARRAY(Instant), nullable=False, server_default=text("'{}'")),
    Column("upcoming_is_complete", Boolean, nullable=False, server_default=text("false")),
    # The missed instants that the next fire stands for.
    Column("coalesced_fire_times", ARRAY(Instant)),
    Column("generation", BigInteger, nullable=False),
    Column("times_triggered", BigInteger, nullable=False, server_default=text("0")),
    # Which attempt at its execution a fire of this trigger is: above 1 for a retry.
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    Column("start_time", Instant, nullable=False),
    Column("end_time", Instant),
    Column("priority", Integer, nullable=False),
    Column("misfire_instruction", String(60), nullable=False),
    # Who says when it is too late: the scheduler's threshold, the trigger's own, or nobody. NEW, or HELD while it is
    # paused: not looked at yet since a user's transaction stored it.
    Column("misfire_rule", String(10), nullable=False),
    Column("misfire_threshold", Interval),
    # It makes up for missed fires up to then, and nobody says meanwhile that it is too late.
    Column("catch_up_until", Instant),
    Column("calendar_name", Name),
    Column("job_data", JSONB),
    # The claim that an ACQUIRED trigger belongs to, or the last fire of a COMPLETE one while that runs.
    Column("fire_id", BigInteger),
    Column("error", Text),
    Column("owner", Name),
    # Identifies the schedule as it was declared, whatever misfires have made of it since: storing the same schedule
    # again keeps the trigger's progress.
    Column("schedule_hash", BigInteger),
    # It is PAUSED only because its job is disabled or by hand only, or because of manual mode: ending that resumes it.
    Column("held_by_mode", Boolean, nullable=False, server_default=text("false")),
    # The scheduler last: no other index than the due one may begin with it, or serve as badly as a scan where the
    # planner has no statistics, or those of an emptied table.
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
        "misfire_rule IN ('SCHEDULER', 'IGNORE', 'SKIP', 'ONCE', 'NEW', 'HELD')"
        " OR (misfire_rule = 'OWN' AND misfire_threshold IS NOT NULL)",
        name="qrtz_triggers_misfire_rule_check",
    ),
    # Within what an instant can be moved by, however the row was written: acquire subtracts it.
    CheckConstraint(
        "misfire_threshold BETWEEN interval '0' AND interval '876600 hours'",
        name="qrtz_triggers_misfire_threshold_check",
    ),
    CheckConstraint("catch_up_until IS NULL OR misfire_rule = 'IGNORE'", name="qrtz_triggers_catch_up_check"),
    CheckConstraint(
        "CASE trigger_state WHEN 'ACQUIRED' THEN fire_id IS NOT NULL WHEN 'COMPLETE' THEN true ELSE fire_id IS NULL"
        " END",
        name="qrtz_triggers_acquired_check",
    ),
)
# acquire and misfire: each job type's due triggers in order. The type, the placement and the misfire rule come first,
# so that what a node cannot take, has no room for, or must leave to the misfire step, is never walked over.
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
# acquire: what users' transactions stored
Index(
    "qrtz_triggers_new",
    triggers.c.sched_name,
    triggers.c.next_fire_time,
    postgresql_where=text("misfire_rule = 'NEW'"),
)
# acquire: which placements there are
Index(
    "qrtz_triggers_placed",
    triggers.c.sched_name,
    triggers.c.placement,
    triggers.c.job_type,
    postgresql_where=text("trigger_state = 'WAITING' AND placement <> ''"),
)
# a job's triggers: blocking, releasing, deleting, and the foreign key
# Without the scheduler, here and below: with it an index would serve to find a trigger by its key, as badly as a scan
# of the table, and without statistics the planner takes it for that.
Index("qrtz_triggers_job", triggers.c.job_group, triggers.c.job_name)
# replacing and removing a calendar, and its foreign key
Index(
    "qrtz_triggers_calendar",
    triggers.c.sched_name,
    triggers.c.calendar_name,
    postgresql_where=text("calendar_name IS NOT NULL"),
)
# sync: what an owner declared
Index(
    "qrtz_triggers_owner",
    triggers.c.sched_name,
    triggers.c.owner,
    postgresql_where=text("owner IS NOT NULL"),
)
# complete and recover: the few that something holds, by their job
Index(
    "qrtz_triggers_held",
    triggers.c.job_group,
    triggers.c.job_name,
    postgresql_where=text("trigger_state IN ('ACQUIRED', 'BLOCKED', 'PAUSED_BLOCKED', 'COMPLETE')"),
)
# queries: what somebody paused, and what needs mending
Index(
    "qrtz_triggers_stopped",
    triggers.c.trigger_group,
    triggers.c.trigger_name,
    postgresql_where=text("trigger_state IN ('ERROR', 'PAUSED', 'PAUSED_BLOCKED')"),
)

owners = Table(
    "qrtz_owners",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("owner", Name, nullable=False),
    # The version of the program whose sync wrote the owner's declarations last: an older one changes nothing.
    Column("version", Text, nullable=False),
    PrimaryKeyConstraint("sched_name", "owner", name="qrtz_owners_pkey"),
)

paused_groups = Table(
    "qrtz_paused_trigger_groups",
    metadata,
    Column("sched_name", Name, nullable=False),
    # TRIGGER: triggers of this group; JOB: triggers of jobs of this group; ALL: every trigger; MANUAL: every one that
    # a schedule made
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
    Column("requests_recovery", Boolean, nullable=False),
    Column("attempt", Integer, nullable=False, server_default=text("1")),
    # Somebody asked this execution to stop.
    Column("cancel_requested", Boolean, nullable=False, server_default=text("false")),
    # The trigger's data as it was at the fire: a recovery needs it even where the trigger is gone.
    Column("trigger_data", JSONB),
    # The instants that an execution stands for, where they are several.
    Column("coalesced_fire_times", ARRAY(Instant)),
    PrimaryKeyConstraint("fire_id", name="qrtz_fired_triggers_pkey"),
    CheckConstraint(_one_of("state", FiredState), name="qrtz_fired_triggers_state_check"),
)
# What runs of a job that has a limit: acquire and fire count it
Index(
    "qrtz_fired_triggers_limited",
    fired_triggers.c.sched_name,
    fired_triggers.c.job_group,
    fired_triggers.c.job_name,
    postgresql_where=text("state = 'EXECUTING' AND max_concurrent IS NOT NULL"),
)
# Two executions of a job that disallows them cannot be committed, whatever the code does.
Index(
    "qrtz_fired_triggers_one_running",
    fired_triggers.c.sched_name,
    fired_triggers.c.job_group,
    fired_triggers.c.job_name,
    unique=True,
    postgresql_where=text("state = 'EXECUTING' AND max_concurrent = 1"),
)
# No index by epoch: there are never more rows than the cluster has workers, and each fire would pay for it.

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
    # The silence after which the others may declare it dead: its own setting, whatever theirs are.
    Column("failure_window", Interval, nullable=False, server_default=text("'20 seconds'")),
    # Which process of all machines it is, as far as its own machine can tell.
    Column("process", Text, nullable=False, server_default=text("''")),
    # What it can run: job types, executors, groups with limits, labels.
    Column("capabilities", JSONB, nullable=False, server_default=text("'{}'")),
    # Its time zone data, release, settings and clock: where nodes differ, it is said.
    Column("facts", JSONB, nullable=False, server_default=text("'{}'")),
    PrimaryKeyConstraint("sched_name", "instance_id", name="qrtz_scheduler_state_pkey"),
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
    # As the job was given it, to be run again by.
    Column("trigger_data", JSONB),
    Column("result", JSONB),
    # When the next attempt runs; NULL for a failure that is not retried.
    Column("retry_at", Instant),
    PrimaryKeyConstraint("fire_id", name="qrtz_executions_pkey"),
    CheckConstraint(_one_of("outcome", Outcome), name="qrtz_executions_outcome_check"),
)
# An instant of a trigger is in the history once, whatever the code does; also a trigger's history. Not the scheduler
# first: without statistics the latest executions would be sought here, among all of the scheduler.
Index(
    "qrtz_executions_instant",
    executions.c.trigger_group,
    executions.c.trigger_name,
    executions.c.sched_name,
    executions.c.generation,
    executions.c.scheduled_time,
    unique=True,
)
# the latest executions, and purging the oldest. Rows come nearly in this order: each is appended at the right edge.
Index("qrtz_executions_ended", executions.c.sched_name, executions.c.ended_at)
# the latest failures that are not retried: only these pay for it
Index(
    "qrtz_executions_exhausted",
    executions.c.sched_name,
    executions.c.ended_at,
    postgresql_where=text("outcome = 'FAILED' AND retry_at IS NULL"),
)


misfires = Table(
    "qrtz_misfires",
    metadata,
    # Rises with time.
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
    # The fire that was found late.
    Column("scheduled_time", Instant, nullable=False),
    # The instants that got no run of their own; others come after these where has_more.
    Column("missed", ARRAY(Instant), nullable=False),
    Column("has_more", Boolean, nullable=False),
    # So many follow that run late, each by itself.
    Column("made_up", BigInteger, nullable=False),
    # Where the trigger went; NULL: it fires no more.
    Column("next_fire_time", Instant),
    # the latest misfires, and purging the oldest
    PrimaryKeyConstraint("sched_name", "id", name="qrtz_misfires_pkey"),
    CheckConstraint(_one_of("action", MisfireAction), name="qrtz_misfires_action_check"),
)
# a trigger's latest
Index("qrtz_misfires_trigger", misfires.c.trigger_group, misfires.c.trigger_name, misfires.c.id)
