"""The tables of what is scheduled: jobs, triggers and calendars, with their owners and paused groups."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    ForeignKeyConstraint,
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

from quartzpy.states import STORED_STATES, JobMode, Missed, OverlapPolicy, Unreconciled
from quartzpy.store.postgresql.schema.tables.shared import (
    BY_SCHEDULER,
    IS_AWAITED,
    IS_DEFINITION,
    IS_FOLLOWED,
    IS_RATE_LIMIT,
    Instant,
    Key,
    Name,
    are_all_instants,
    are_instants,
    filled_to,
    metadata,
    one_of,
    word,
)

# As `states.misfire_rule_of`. Its casts are those that the server writes: alembic compares the texts.
MISFIRE_RULE = (
    "CASE WHEN unreconciled IS NOT NULL THEN 'NEW'::text"
    " WHEN missed_policy IS NOT NULL THEN 'LATE'::text"
    " WHEN catch_up_until IS NOT NULL OR misfire_instruction::text = 'ignore'::text THEN 'IGNORE'::text"
    " WHEN misfire_threshold IS NULL THEN 'NODE'::text ELSE 'OWN'::text END"
)

# As `placement.slot_pool_of`.
SLOT_POOL = "btrim(split_part(placement, '\"requires\":'::text, 1), '{,}'::text)"

job_details = Table(
    "qrtz_job_details",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
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
    # The names of the limits that it shares with other jobs, in their order: "crm,erp"; NULL: it shares none.
    Column("limits", Key),
    # The executor, group and labels that it asks for; empty where it runs anywhere.
    Column("placement", Key, nullable=False, server_default=text("''")),
    # The executor and the group of the placement: the jobs that share the slots of a node. It is computed here.
    Column("slot_pool", Key, Computed(SLOT_POOL, persisted=True), nullable=False),
    Column("persists_data", Boolean, nullable=False),
    Column("requests_recovery", Boolean, nullable=False),
    # Its options that no statement reads, by the words of a declared file: {"timeout": "90s"}; NULL: it has none.
    Column("definition", JSONB),
    # MANUAL: only manual triggers fire; DISABLED: none fires.
    Column("mode", String(10), nullable=False, server_default=text("'ENABLED'")),
    # The owner that declared the job (Scheduler.sync): pruning removes only an owner's own jobs.
    Column("owner", Name),
    # The number of nodes that died while executing the job since its last success.
    Column("node_deaths", Integer, nullable=False, server_default=text("0")),
    # So many nodes have died that its triggers go to ERROR, and some have not done so yet.
    Column("is_stopping", Boolean, nullable=False, server_default=text("false")),
    # Its triggers are paused after this number of failed executions in a row; NULL: never.
    Column("pause_after_failures", Integer),
    # The failed executions since the last success; counted only where pause_after_failures is set.
    Column("consecutive_failures", Integer, nullable=False, server_default=text("0")),
    Column("job_data", JSONB),
    # The jobs that run after it, and after which outcomes.
    Column("continuations", JSONB),
    # The jobs that it runs after, and how many of them it needs.
    Column("after", JSONB),
    # The jobs that wait for it, which name it in `after`. NULL: its ends concern no other job in that way.
    Column("joined_by", JSONB),
    # What is expected of the fires of its triggers: {"starts_within_us": 120000000, "ends_by": "06:00:00"}
    Column("expect", JSONB),
    PrimaryKeyConstraint("sched_name", "job_group", "job_name", name="qrtz_job_details_pkey"),
    CheckConstraint("max_concurrent > 0", name="qrtz_job_details_max_concurrent_check"),
    CheckConstraint(one_of("mode", JobMode), name="qrtz_job_details_mode_check"),
    CheckConstraint(one_of("overlap_policy", OverlapPolicy), name="qrtz_job_details_when_full_check"),
    # Values that the steps compute with: one that they cannot is refused when somebody stores it by hand.
    CheckConstraint(IS_RATE_LIMIT, name="qrtz_job_details_rate_limit_check"),
    CheckConstraint(IS_DEFINITION, name="qrtz_job_details_definition_check"),
    CheckConstraint(IS_FOLLOWED, name="qrtz_job_details_continuations_check"),
    CheckConstraint(IS_AWAITED, name="qrtz_job_details_after_check"),
    CheckConstraint(
        "node_deaths BETWEEN 0 AND 1000000000 AND consecutive_failures BETWEEN 0 AND 1000000000",
        name="qrtz_job_details_counters_check",
    ),
)

# storing: is any job not ENABLED?
Index(
    "qrtz_job_details_mode",
    job_details.c.sched_name,
    postgresql_where=text("mode || '' <> 'ENABLED'"),
)
# acquire: has any job a rate limit, or one that it shares?
Index(
    "qrtz_job_details_rate_limit",
    job_details.c.sched_name,
    postgresql_where=text("rate_limit IS NOT NULL OR limits IS NOT NULL"),
)
# complete: the few jobs whose success resets node_deaths; recover: those that nodes died of
Index(
    "qrtz_job_details_deaths",
    job_details.c.sched_name,
    postgresql_where=text("node_deaths > 0"),
)

# judging: the few jobs with an expectation
Index(
    "qrtz_job_details_expect",
    job_details.c.sched_name,
    job_details.c.job_group,
    job_details.c.job_name,
    postgresql_where=text("expect IS NOT NULL"),
)

# check-in: the job types and placements of all jobs, by a loose index scan. The scheduler is an expression: what does
# not write it so, to look a job up, is not served by this index.
Index(
    "qrtz_job_details_dispatch",
    BY_SCHEDULER,
    job_details.c.job_type,
    job_details.c.placement,
)

calendars = Table(
    "qrtz_calendars",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("calendar_name", Name, nullable=False),
    Column("calendar", JSONB, nullable=False),
    # Increases with each change: values that were computed from an older revision are refused.
    Column("revision", BigInteger, nullable=False),
    Column("owner", Name),
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
    # Copies of the job's columns, so that the acquire step reads a single table through a single index.
    Column("job_type", Name, nullable=False),
    Column("max_concurrent", Integer),
    Column("overlap_policy", String(12), nullable=False, server_default=text("'block'")),
    # The value that the job's concurrency_key has in the data of this trigger; empty where it has none.
    Column("concurrency_key", Key, nullable=False, server_default=text("''")),
    Column("placement", Key, nullable=False, server_default=text("''")),
    # The executor and the group of the placement: the triggers that share the slots of a node. It is computed here.
    Column("slot_pool", Key, Computed(SLOT_POOL, persisted=True), nullable=False),
    Column("rate_limit", JSONB),
    Column("limits", Key),
    Column("description", Text),
    Column("kind", String(40), nullable=False),
    Column("schedule", JSONB, nullable=False),
    # The schedule has an expectation of its own. It is computed here.
    Column("has_expectation", Boolean, Computed("schedule ? 'expect'", persisted=True), nullable=False),
    Column("trigger_state", word(16), nullable=False),
    # The set of shared limits at which a BLOCKED trigger is parked; NULL: at the limit of its job's own. In any other
    # state it means nothing.
    Column("parked_at", Key),
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
    # When a WAITING trigger misfires, and so which step takes it. It is computed from the other columns, here alone.
    Column("misfire_rule", word(10), Computed(MISFIRE_RULE, persisted=True), nullable=False),
    Column("misfire_threshold", Interval),
    # The trigger catches up on missed fires until this instant, and does not misfire in the meantime.
    Column("catch_up_until", Instant),
    # What becomes of the fires that were missed in a pause; NULL: the misfire instruction decides.
    Column("missed_policy", String(10)),
    # The instant of the last resumption. With the policy skip, what comes due after it is not skipped.
    Column("resumed_at", Instant),
    # NEW, or HELD while it is paused: a user's transaction stored the trigger, and no step has compared it with the
    # pauses, limits and definition of its job yet.
    Column("unreconciled", String(10)),
    Column("calendar_name", Name),
    Column("job_data", JSONB),
    # The last fire of a COMPLETE trigger, while its execution runs.
    Column("fire_id", BigInteger),
    Column("error", Text),
    Column("owner", Name),
    # Identifies the schedule as it was declared, before any changes by misfires: storing the same schedule again keeps
    # the trigger's progress.
    Column("schedule_hash", BigInteger),
    # The trigger is PAUSED only because of its job's mode or of manual mode: ending that mode resumes it.
    Column("held_by_mode", Boolean, nullable=False, server_default=text("false")),
    # Of the last pause by a method; they mean something only while it is PAUSED.
    Column("paused_at", Instant),
    Column("paused_by", Name),
    Column("pause_reason", Text),
    # Of a trigger that is paused by its name or its job, and not only by its group: the end of that pause, if it has
    # one, and what becomes then of the fires that were missed. pause_missed is NULL where it is not.
    Column("pause_until", Instant),
    Column("pause_missed", String(10)),
    # A key is that of one trigger because of qrtz_trigger_keys. Of the key alone, the check of each new version would
    # visit every old one, and there are as many as fires while somebody holds an old snapshot. With the count, a look
    # for the newest version meets it first.
    # The scheduler comes last, because only the due index may begin with it: without statistics, or with those of an
    # emptied table, the planner would use any other such index instead, which is as slow as a full scan.
    PrimaryKeyConstraint("trigger_group", "trigger_name", "sched_name", "times_triggered", name="qrtz_triggers_pkey"),
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
    CheckConstraint(one_of("trigger_state", STORED_STATES), name="qrtz_triggers_state_check"),
    CheckConstraint("trigger_state <> 'WAITING' OR next_fire_time IS NOT NULL", name="qrtz_triggers_waiting_check"),
    CheckConstraint(one_of("missed_policy", (Missed.SKIP, Missed.ONCE)), name="qrtz_triggers_missed_policy_check"),
    CheckConstraint(one_of("pause_missed", Missed), name="qrtz_triggers_pause_missed_check"),
    CheckConstraint(one_of("unreconciled", Unreconciled), name="qrtz_triggers_unreconciled_check"),
    # Within the range that an instant can be shifted by, because acquire subtracts it, even from hand-written rows.
    CheckConstraint(
        "misfire_threshold BETWEEN interval '0' AND interval '876600 hours'",
        name="qrtz_triggers_misfire_threshold_check",
    ),
    CheckConstraint("catch_up_until IS NULL OR misfire_rule = 'IGNORE'", name="qrtz_triggers_catch_up_check"),
    CheckConstraint("fire_id IS NULL OR trigger_state = 'COMPLETE'", name="qrtz_triggers_fire_id_check"),
    CheckConstraint(IS_RATE_LIMIT, name="qrtz_triggers_rate_limit_check"),
    CheckConstraint(
        are_instants(
            "next_fire_time", "prev_fire_time", "start_time", "end_time", "paused_at", "pause_until", "resumed_at"
        ),
        name="qrtz_triggers_instants_check",
    ),
    CheckConstraint(are_all_instants("upcoming"), name="qrtz_triggers_upcoming_check"),
    CheckConstraint(
        f"coalesced_fire_times IS NULL OR {are_all_instants('coalesced_fire_times')}",
        name="qrtz_triggers_coalesced_check",
    ),
    # Each fire adds to them.
    CheckConstraint(
        "times_triggered BETWEEN 0 AND 1000000000000000000 AND attempt BETWEEN 1 AND 1000000000",
        name="qrtz_triggers_counters_check",
    ),
    # Room for the next versions of a row in the same page.
    **filled_to(70),
)
# acquire and misfire: the due triggers in order. The slot pool and the misfire rule come first, so that a step never
# walks over triggers that the node has no slots for, or must leave to the misfire step. Neither the job type nor the
# labels are part of it: the cost of a step does not grow with their number.
Index(
    "qrtz_triggers_due",
    triggers.c.sched_name,
    triggers.c.slot_pool,
    triggers.c.misfire_rule,
    triggers.c.next_fire_time,
    triggers.c.priority.desc(),
    postgresql_where=text("trigger_state = 'WAITING'"),
)
# acquire: triggers that are parked at sets of shared limits, in order. The sets come first, so that a step does not
# walk over those that wait for a limit which is used up.
Index(
    "qrtz_triggers_parked",
    BY_SCHEDULER,
    triggers.c.parked_at,
    triggers.c.next_fire_time,
    triggers.c.priority.desc(),
    postgresql_where=text("trigger_state = 'BLOCKED' AND parked_at IS NOT NULL"),
)
# acquire: triggers that users' transactions stored
Index(
    "qrtz_triggers_new",
    triggers.c.sched_name,
    triggers.c.next_fire_time,
    postgresql_where=text("unreconciled = 'NEW'"),
)
# a job's triggers, and those of one concurrency key: deleting, and the foreign key.
# The scheduler is not part of this and the following indexes: with it, an index could be used to find a trigger by its
# key, as slowly as a table scan, and without statistics the planner would choose it.
Index("qrtz_triggers_job", triggers.c.job_name, triggers.c.job_group, triggers.c.concurrency_key)
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
# complete and recover: the triggers that are blocked or ended, by their job; of those that wait at its own limit, the
# soonest for each misfire rule, as in the due index. Those that are parked at shared limits are apart, so that
# what reads the others does not walk over them. The scheduler, the job and its key are expressions: what does not write
# them is not served by this index (see above), and what does is not served by the index of all triggers of a job. The
# planner takes that one for as good where the table is small or most jobs have few triggers.
Index(
    "qrtz_triggers_held",
    BY_SCHEDULER,
    text("(job_group || '')"),
    text("(job_name || '')"),
    text("(concurrency_key || '')"),
    triggers.c.trigger_state,
    text('(COALESCE("left"(parked_at, 0), misfire_rule::text))'),
    triggers.c.next_fire_time,
    triggers.c.priority.desc(),
    postgresql_where=text("trigger_state IN ('BLOCKED', 'COMPLETE')"),
)
# judging: the few triggers with an expectation of their own
Index(
    "qrtz_triggers_expect",
    triggers.c.trigger_group,
    triggers.c.trigger_name,
    triggers.c.sched_name,
    postgresql_where=text("has_expectation"),
)
# queries: triggers of one state that are paused or in ERROR, by key, and their number
Index(
    "qrtz_triggers_stopped",
    triggers.c.trigger_state,
    triggers.c.trigger_group,
    triggers.c.trigger_name,
    triggers.c.sched_name,
    postgresql_where=text("trigger_state IN ('ERROR', 'PAUSED')"),
)
# queries: the same by next fire time, and those that are overdue. It includes what a page is sorted by, and the columns
# of its expressions, so that no rows are read for that. What does not write the expressions is not served by it.
Index(
    "qrtz_triggers_stopped_due",
    BY_SCHEDULER,
    text("(trigger_state || '')"),
    triggers.c.next_fire_time,
    triggers.c.priority.desc(),
    postgresql_include=["trigger_group", "trigger_name", "sched_name", "trigger_state"],
    postgresql_where=text("trigger_state || '' IN ('ERROR', 'PAUSED')"),
)
# purge: the triggers that ended without a fire, which a batch may wait for
Index(
    "qrtz_triggers_unfired",
    triggers.c.sched_name,
    postgresql_where=text("trigger_state = 'COMPLETE' AND prev_fire_time IS NULL"),
)
# the pauses that end by themselves, the soonest first
Index(
    "qrtz_triggers_pause_until",
    triggers.c.pause_until,
    triggers.c.sched_name,
    postgresql_where=text("pause_until IS NOT NULL"),
)

# The keys of the triggers, which no fire changes. Database triggers on qrtz_triggers write them, whoever writes that.
trigger_keys = Table(
    "qrtz_trigger_keys",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("trigger_group", Name, nullable=False),
    Column("trigger_name", Name, nullable=False),
    PrimaryKeyConstraint("trigger_group", "trigger_name", "sched_name", name="qrtz_trigger_keys_pkey"),
)

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
    Column("scope", word(8), nullable=False),
    Column("group_name", Name, nullable=False),
    Column("paused_at", Instant, nullable=False),
    Column("paused_by", Name),
    Column("pause_reason", Text),
    # The end of the pause, if it has one, and what becomes then of the fires that were missed.
    Column("pause_until", Instant),
    Column("pause_missed", String(10), nullable=False, server_default=text("'misfire'")),
    # A pause of everything paused this group of triggers as well: a pause of everything with an end covers it.
    Column("with_all", Boolean, nullable=False, server_default=text("false")),
    # The time-off window that began the pause.
    Column("window_name", Name),
    # The number of triggers that its end has resumed so far.
    Column("resumed", BigInteger, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("sched_name", "scope", "group_name", name="qrtz_paused_trigger_groups_pkey"),
    CheckConstraint(
        one_of("scope", ("TRIGGER", "JOB", "ALL", "MANUAL")), name="qrtz_paused_trigger_groups_scope_check"
    ),
    CheckConstraint(one_of("pause_missed", Missed), name="qrtz_paused_trigger_groups_missed_check"),
    CheckConstraint(are_instants("paused_at", "pause_until"), name="qrtz_paused_trigger_groups_instants_check"),
)

# The jobs that `after` of each job names, stored or not.
job_upstreams = Table(
    "qrtz_job_upstreams",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
    Column("upstream_group", Name, nullable=False),
    Column("upstream_name", Name, nullable=False),
    PrimaryKeyConstraint(
        "sched_name", "job_group", "job_name", "upstream_group", "upstream_name", name="qrtz_job_upstreams_pkey"
    ),
)

# storing: which jobs wait for this one?
Index(
    "qrtz_job_upstreams_upstream",
    # No other index has the expressions: plans that were made for a small table take the other one otherwise.
    text("(upstream_group || '')"),
    text("(upstream_name || '')"),
    BY_SCHEDULER,
    job_upstreams.c.job_group,
)

maintenance_windows = Table(
    "qrtz_maintenance_windows",
    metadata,
    Column("sched_name", Name, nullable=False),
    Column("window_name", Name, nullable=False),
    # What is paused meanwhile, as in qrtz_paused_trigger_groups.
    Column("scope", word(8), nullable=False),
    Column("group_name", Name, nullable=False),
    # Its schedule and its treatment of missed fires; see `MaintenanceWindow.as_json`.
    Column("definition", JSONB, nullable=False),
    Column("changed_at", Instant, nullable=False),
    Column("changed_by", Name),
    # The present or the next time, and whether it has begun: the triggers are paused then.
    Column("starts_at", Instant, nullable=False),
    Column("ends_at", Instant, nullable=False),
    Column("is_open", Boolean, nullable=False, server_default=text("false")),
    # The instant at which a cluster manager has to do something for it.
    Column("due_at", Instant, nullable=False),
    PrimaryKeyConstraint("sched_name", "window_name", name="qrtz_maintenance_windows_pkey"),
    CheckConstraint(one_of("scope", ("TRIGGER", "JOB", "ALL")), name="qrtz_maintenance_windows_scope_check"),
    CheckConstraint("ends_at > starts_at", name="qrtz_maintenance_windows_span_check"),
    CheckConstraint(
        are_instants("changed_at", "starts_at", "ends_at", "due_at"), name="qrtz_maintenance_windows_instants_check"
    ),
)
