"""The first tables."""

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None
phase = "pre"

Name = sa.String(200, collation="C")
Key = sa.Text(collation="C")
Instant = sa.DateTime(timezone=True)


def filled_to(percent):
    """The option of a table, which SQLAlchemy has since 2.1. In the statement of 2.0 it follows the access method."""
    if sa.__version__.startswith("2.0."):
        return {"postgresql_using": f"heap WITH (fillfactor = {percent})"}
    return {"postgresql_with": {"fillfactor": str(percent)}}


SEQUENCES = ("qrtz_fire_ids", "qrtz_epochs")
TABLES = (
    "qrtz_audit",
    "qrtz_executions",
    "qrtz_locks",
    "qrtz_misfires",
    "qrtz_scheduler_state",
    "qrtz_fired_triggers",
    "qrtz_incidents",
    "qrtz_joins",
    "qrtz_notifications",
    "qrtz_health_runs",
    "qrtz_maintenance_windows",
    "qrtz_expectations",
    "qrtz_breaches",
    "qrtz_paused_trigger_groups",
    "qrtz_owners",
    "qrtz_limits",
    "qrtz_zone_rules",
    "qrtz_identity",
    "qrtz_triggers",
    "qrtz_trigger_keys",
    "qrtz_calendars",
    "qrtz_job_upstreams",
    "qrtz_job_details",
)

# The key of each trigger is taken by its row in qrtz_trigger_keys, and not by its row in qrtz_triggers, which changes
# with each fire. A transaction may take a key before it inserts the trigger; then no other trigger may have it.
# The tables are those beside the one that is written, whatever the search path of the writer is, and wherever somebody
# has moved them; the settings end with the function. A session keeps the plans of the function, so they are those for
# large tables.
FUNCTION_OF_KEYS = """
CREATE FUNCTION {place}qrtz_write_trigger_keys() RETURNS trigger LANGUAGE plpgsql
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
END $$"""
TRIGGERS_OF_KEYS = {
    "qrtz_trigger_keys_new": "AFTER INSERT ON {place}qrtz_triggers REFERENCING NEW TABLE AS written FOR EACH STATEMENT",
    "qrtz_trigger_keys_old": "AFTER DELETE ON {place}qrtz_triggers REFERENCING OLD TABLE AS written FOR EACH STATEMENT",
    "qrtz_trigger_keys_none": "AFTER TRUNCATE ON {place}qrtz_triggers FOR EACH STATEMENT",
    # Of these columns alone, so that it costs other updates nothing.
    "qrtz_trigger_keys_same": (
        "AFTER UPDATE OF sched_name, trigger_group, trigger_name ON {place}qrtz_triggers FOR EACH ROW"
    ),
}

SLOT_POOL = "btrim(split_part(placement, '\"requires\":'::text, 1), '{,}'::text)"

# Which nodes are alive, as `quartzpy.store.node_states` judges it. One that is silent is still alive while each node
# that checks in has just come back from an outage, or, if none does, while the server has just started.
NODE_STATES = """
heard AS (
    SELECT n.*, statement_timestamp() - n.last_checkin > least(2 * n.checkin_interval, n.failure_window) AS is_silent,
           n.checkin_interval + least(interval '5 seconds', n.failure_window / 4) AS allowed
      FROM {place}qrtz_scheduler_state n
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
)"""

# A loose scan of the due index, because a range of fire times is only fast behind the columns that come before it.
# OFFSET 0 in the queries that use it keeps the planner from joining in another order, which reads the whole index.
WAITING_KEYS = """
WITH RECURSIVE waiting AS (
    (SELECT sched_name, slot_pool, misfire_rule FROM {place}qrtz_triggers
      WHERE trigger_state = 'WAITING'
      ORDER BY sched_name, slot_pool, misfire_rule LIMIT 1)
    UNION ALL
    SELECT following.*
      FROM waiting w
     CROSS JOIN LATERAL (
        SELECT t.sched_name, t.slot_pool, t.misfire_rule FROM {place}qrtz_triggers t
         WHERE t.trigger_state = 'WAITING'
           AND (t.sched_name, t.slot_pool, t.misfire_rule) > (w.sched_name, w.slot_pool, w.misfire_rule)
         ORDER BY t.sched_name, t.slot_pool, t.misfire_rule LIMIT 1) AS following
)"""
TRIGGER = """t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, t.next_fire_time"""
OF_WAITING_KEY = """t.trigger_state = 'WAITING' AND t.sched_name = w.sched_name AND t.slot_pool = w.slot_pool
           AND t.misfire_rule = w.misfire_rule"""
OF_LIMIT = """, t.rate_limit, t.limits, t.parked_at, t.max_concurrent, t.overlap_policy, t.concurrency_key"""
# The instant from which on the rate of `l` admits a fire.
OPENS = """l.tat - (({rate}.rate_limit ->> 'per_us')::bigint + ({rate}.rate_limit ->> 'limit')::bigint - 1)
               / ({rate}.rate_limit ->> 'limit')::bigint * (({rate}.rate_limit ->> 'burst')::bigint - 1)
               * interval '1 microsecond'"""
# The triggers of these jobs and concurrency keys wait for a slot, whatever their rows say.
FULL_JOBS = """,
full_jobs AS MATERIALIZED (
    SELECT sched_name, job_group, job_name, concurrency_key FROM {place}qrtz_full_jobs
),
full_limits AS MATERIALIZED (
    SELECT sched_name, array_agg(limit_name::text) AS names FROM {place}qrtz_limit_usage
     WHERE is_used_up GROUP BY sched_name
)"""
IS_LIMITED = """EXISTS (SELECT FROM full_limits l
                     WHERE l.sched_name = t.sched_name AND l.names && string_to_array(t.limits, ','))"""
IS_RATE_LIMITED = (
    """(t.rate_limit IS NOT NULL AND EXISTS (
        SELECT FROM {place}qrtz_limits l
         WHERE l.sched_name = t.sched_name AND l.limit_name = ''
           AND l.job_group = t.job_group AND l.job_name = t.job_name AND l.concurrency_key = t.concurrency_key AND """
    + OPENS.replace("{rate}", "t")
    + """ > statement_timestamp() OFFSET 0))"""
)
IS_BLOCKED = """(t.max_concurrent IS NOT NULL AND t.overlap_policy = 'block'
             AND (t.sched_name, t.job_group, t.job_name, t.concurrency_key) IN (SELECT * FROM full_jobs))"""
SEEN = (
    """CASE WHEN """
    + IS_BLOCKED
    + """ THEN 'BLOCKED'
            WHEN t.trigger_state = 'BLOCKED' AND t.overlap_policy = 'block' AND num_nonnulls(t.rate_limit, t.limits) = 0
            THEN 'WAITING'
            ELSE t.trigger_state END"""
)
VIEWS = {
    "qrtz_full_jobs": """
SELECT j.sched_name, j.job_group, j.job_name, f.concurrency_key, j.max_concurrent, f.executing
  FROM (SELECT sched_name, job_group, job_name, concurrency_key, count(*) AS executing
          FROM {place}qrtz_fired_triggers
         WHERE max_concurrent IS NOT NULL
         GROUP BY sched_name, job_group, job_name, concurrency_key) AS f
  JOIN {place}qrtz_job_details j USING (sched_name, job_group, job_name)
 WHERE j.overlap_policy = 'block' AND f.executing >= j.max_concurrent
""",
    "qrtz_limit_usage": """
SELECT l.sched_name, l.limit_name, l.max_concurrent, l.rate_limit, coalesce(used.number, 0) AS in_use,
       coalesce(used.number >= l.max_concurrent, false)
       OR coalesce("""
    + OPENS.replace("{rate}", "l")
    + """ > statement_timestamp(), false) AS is_used_up
  FROM {place}qrtz_limits l
  LEFT JOIN (
    SELECT f.sched_name, n.name, count(*) AS number
      FROM {place}qrtz_fired_triggers f
     CROSS JOIN unnest(string_to_array(f.limits, ',')) AS n(name)
     WHERE f.limits IS NOT NULL
     GROUP BY f.sched_name, n.name) AS used ON used.sched_name = l.sched_name AND used.name = l.limit_name
 WHERE l.limit_name <> ''
""",
    "qrtz_due_now": WAITING_KEYS
    + FULL_JOBS
    + """
SELECT t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, t.placement, t.priority,
       t.next_fire_time, statement_timestamp() - t.next_fire_time AS due_for
  FROM (SELECT of_key.*
          FROM waiting w
         CROSS JOIN LATERAL (
                SELECT """
    + TRIGGER
    + """, t.placement, t.priority"""
    + OF_LIMIT
    + """
                  FROM {place}qrtz_triggers t
                 WHERE """
    + OF_WAITING_KEY
    + """
                   AND t.next_fire_time <= statement_timestamp() OFFSET 0) AS of_key
        UNION ALL
        SELECT """
    + TRIGGER
    + """, t.placement, t.priority"""
    + OF_LIMIT
    + """
          FROM {place}qrtz_triggers t
         WHERE t.trigger_state = 'BLOCKED' AND t.overlap_policy = 'block'
           AND num_nonnulls(t.rate_limit, t.limits) = 0 AND t.next_fire_time <= statement_timestamp()) AS t
 WHERE NOT """
    + IS_BLOCKED
    + """
   AND NOT """
    + IS_RATE_LIMITED
    + """
   AND NOT """
    + IS_LIMITED
    + """
""",
    "qrtz_running": """
WITH"""
    + NODE_STATES
    + """
SELECT f.fire_id, f.sched_name, f.trigger_group, f.trigger_name, f.job_group, f.job_name, f.job_type, f.instance_id,
       EXISTS (SELECT FROM node_states n
                WHERE n.sched_name = f.sched_name AND n.epoch = f.epoch AND n.status <> 'DEAD') AS node_is_alive,
       f.scheduled_time, f.fired_time, f.fired_time - f.scheduled_time AS fired_late_by,
       statement_timestamp() - f.fired_time AS running_for,
       f.attempt, f.cancel_requested, f.progress, f.progress_message
  FROM {place}qrtz_fired_triggers f
 WHERE f.fired_time <= statement_timestamp()
""",
    "qrtz_late": WAITING_KEYS
    + FULL_JOBS
    + ","
    + NODE_STATES
    + """,
alive AS (
    SELECT n.sched_name, n.capabilities -> 'job_types' AS job_types FROM node_states n WHERE n.status <> 'DEAD'
),
late AS (
    SELECT of_key.*
      FROM waiting w
     CROSS JOIN LATERAL (
        SELECT """
    + TRIGGER
    + """, t.trigger_state"""
    + OF_LIMIT
    + """
          FROM {place}qrtz_triggers t
         WHERE """
    + OF_WAITING_KEY
    + """
           AND t.next_fire_time < statement_timestamp() - interval '5 seconds' OFFSET 0) AS of_key
    UNION ALL
    SELECT """
    + TRIGGER
    + """, t.trigger_state"""
    + OF_LIMIT
    + """
      FROM {place}qrtz_triggers t
     WHERE t.trigger_state = 'BLOCKED'
       AND t.next_fire_time < statement_timestamp() - interval '5 seconds'
),
seen AS (
    SELECT """
    + TRIGGER
    + """, t.limits,
       CASE WHEN """
    + IS_BLOCKED
    + """ THEN 'its job is at its limit of concurrent executions'
            WHEN t.trigger_state <> 'BLOCKED' THEN NULL
            WHEN t.parked_at IS NOT NULL THEN 'a limit that its job shares is used up'
            WHEN t.rate_limit IS NOT NULL THEN 'the rate limit of its job holds it back'
            ELSE 'its job is at its limit of concurrent executions' END AS blocked_by,
       """
    + SEEN
    + """ AS trigger_state,
       """
    + IS_RATE_LIMITED
    + """ AS is_rate_limited
      FROM late t
)
SELECT t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name, t.job_type, t.trigger_state,
       t.next_fire_time, statement_timestamp() - t.next_fire_time AS late_by,
       CASE WHEN t.trigger_state = 'BLOCKED' THEN t.blocked_by
            WHEN t.is_rate_limited THEN 'the rate limit of its job holds it back'
            WHEN """
    + IS_LIMITED
    + """ THEN 'a limit that its job shares is used up'
            WHEN NOT EXISTS (SELECT FROM alive a WHERE a.sched_name = t.sched_name) THEN 'no node is alive'
            WHEN NOT EXISTS (SELECT FROM alive a WHERE a.sched_name = t.sched_name AND a.job_types ? t.job_type)
                 THEN 'no live node knows its job type'
            ELSE 'no worker that can run it is free' END AS reason
  FROM seen t
""",
    "qrtz_errors": """
SELECT 'TRIGGER' AS kind, t.sched_name, t.trigger_group, t.trigger_name, t.job_group, t.job_name,
       NULL::bigint AS fire_id, NULL::timestamptz AS ended_at, NULL::text AS outcome, NULL::text AS instance_id,
       NULL::integer AS attempt, NULL::timestamptz AS retry_at, t.error
  FROM {place}qrtz_triggers t
 WHERE t.trigger_state = 'ERROR'
UNION ALL
SELECT 'EXECUTION', e.sched_name, e.trigger_group, e.trigger_name, e.job_group, e.job_name,
       e.fire_id, e.ended_at, e.outcome, e.instance_id, e.attempt, e.retry_at, e.error
  FROM (SELECT DISTINCT l.sched_name FROM {place}qrtz_locks l) AS scheduler
 CROSS JOIN LATERAL (
        SELECT x.trigger_group, x.trigger_name, x.job_group, x.job_name, x.sched_name, x.fire_id, x.ended_at, x.outcome,
               x.instance_id, x.attempt, x.retry_at, x.error
          FROM {place}qrtz_executions x
         WHERE x.sched_name = scheduler.sched_name AND x.ended_at >= statement_timestamp() - interval '24 hours'
           AND x.outcome IN ('FAILED', 'TERMINATED') OFFSET 0) AS e
""",
    "qrtz_next_24h": WAITING_KEYS
    + """,
coming AS (
    SELECT of_key.*
      FROM waiting w
     CROSS JOIN LATERAL (
        SELECT """
    + TRIGGER
    + """, t.priority, t.upcoming, t.upcoming_is_complete
          FROM {place}qrtz_triggers t
         WHERE """
    + OF_WAITING_KEY
    + """
           AND t.next_fire_time <= statement_timestamp() + interval '24 hours' OFFSET 0) AS of_key
    UNION ALL
    SELECT """
    + TRIGGER
    + """, t.priority, t.upcoming, t.upcoming_is_complete
      FROM {place}qrtz_triggers t WHERE t.trigger_state = 'BLOCKED'
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
 WHERE known.fire_time > statement_timestamp() AND known.fire_time <= statement_timestamp() + interval '24 hours'
""",
    "qrtz_node_health": """
WITH"""
    + NODE_STATES
    + """
SELECT n.sched_name, n.instance_id, n.status, n.host, n.pid, n.facts ->> 'release' AS release, n.started_at,
       n.last_checkin, statement_timestamp() - n.last_checkin AS checkin_age, n.checkin_interval, n.failure_window,
       (SELECT coalesce(sum(size::integer), 0)
          FROM jsonb_each_text(n.capabilities -> 'workers') AS pool(name, size)) AS workers,
       held.claimed, held.executing, (n.facts ->> 'clock_ahead')::float8 AS clock_ahead, n.problems
  FROM node_states n
 CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE f.fired_time > statement_timestamp()) AS claimed,
           count(*) FILTER (WHERE f.fired_time <= statement_timestamp()) AS executing
      FROM {place}qrtz_fired_triggers f
     WHERE f.sched_name = n.sched_name AND f.epoch = n.epoch) AS held
""",
}


def upgrade() -> None:
    schema = context.config.attributes["schema"]
    prefix = f"{schema}." if schema else ""
    for name in SEQUENCES:
        op.execute(sa.schema.CreateSequence(sa.Sequence(name, schema=schema, data_type=sa.BigInteger)))
    op.create_table(
        "qrtz_audit",
        sa.Column("id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("at", Instant, nullable=False),
        sa.Column("ended_at", Instant, nullable=True),
        sa.Column("actor", Name, nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=500, collation="C"), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("before", JSONB(), nullable=True),
        sa.Column("after", JSONB(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("updated_at", Instant, nullable=True),
        sa.CheckConstraint(
            "state = ANY ('{RUNNING,SUCCEEDED,FAILED,INTERRUPTED,REFUSED}')", name="qrtz_audit_state_check"
        ),
        sa.PrimaryKeyConstraint("sched_name", "id", name="qrtz_audit_pkey"),
        schema=schema,
    )
    op.create_index("qrtz_audit_subject", "qrtz_audit", ["subject", "id"], unique=False, schema=schema)
    op.create_index("qrtz_audit_at", "qrtz_audit", ["sched_name", "at"], unique=False, schema=schema)
    op.create_index(
        "qrtz_audit_unsuccessful",
        "qrtz_audit",
        ["sched_name", "id"],
        unique=False,
        schema=schema,
        postgresql_where=sa.text("state <> 'SUCCEEDED'"),
    )
    op.create_table(
        "qrtz_calendars",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("calendar_name", Name, nullable=False),
        sa.Column("calendar", JSONB(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("owner", Name, nullable=True),
        sa.PrimaryKeyConstraint("sched_name", "calendar_name", name="qrtz_calendars_pkey"),
        schema=schema,
    )
    op.create_table(
        "qrtz_executions",
        sa.Column("fire_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("fired_time", Instant, nullable=False),
        sa.Column("scheduled_time", Instant, nullable=False),
        sa.Column("started_at", Instant, nullable=True),
        sa.Column("ended_at", Instant, nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("trigger_group", Name, nullable=False),
        sa.Column("trigger_name", Name, nullable=False),
        sa.Column("job_group", Name, nullable=False),
        sa.Column("job_name", Name, nullable=False),
        sa.Column("job_type", Name, nullable=False),
        sa.Column("instance_id", Name, nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("trigger_data", JSONB(), nullable=True),
        sa.Column("result", JSONB(), nullable=True),
        sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("log", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "outcome = ANY ('{SUCCEEDED,FAILED,CANCELLED,SKIPPED,SNOOZED,TERMINATED}')",
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
        postgresql_include=["instance_id", "outcome"],
    )
    op.create_index(
        "qrtz_executions_long",
        "qrtz_executions",
        ["scheduled_time"],
        unique=False,
        postgresql_where=sa.text("ended_at - scheduled_time > interval '1 hour'"),
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
        "qrtz_executions_lost",
        "qrtz_executions",
        ["sched_name", "ended_at"],
        unique=False,
        postgresql_where=sa.text("outcome = 'TERMINATED'"),
        schema=schema,
    )
    op.create_index(
        "qrtz_executions_instant",
        "qrtz_executions",
        ["trigger_name", "trigger_group", "sched_name", "generation", "scheduled_time"],
        unique=True,
        schema=schema,
    )
    op.create_table(
        "qrtz_fired_triggers",
        sa.Column("fire_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("fired_time", Instant, nullable=False),
        sa.Column("scheduled_time", Instant, nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("requests_recovery", sa.Boolean(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("max_concurrent", sa.Integer(), nullable=True),
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("trigger_group", Name, nullable=False),
        sa.Column("trigger_name", Name, nullable=False),
        sa.Column("job_group", Name, nullable=False),
        sa.Column("job_name", Name, nullable=False),
        sa.Column("job_type", Name, nullable=False),
        sa.Column("instance_id", Name, nullable=False),
        sa.Column("concurrency_key", Key, server_default=sa.text("''"), nullable=False),
        sa.Column("trigger_data", JSONB(), nullable=True),
        sa.Column("coalesced_fire_times", sa.ARRAY(Instant), nullable=True),
        sa.Column("progress", sa.Double(), nullable=True),
        sa.Column("progress_message", sa.Text(), nullable=True),
        sa.Column("recent_log", sa.Text(), nullable=True),
        sa.Column("limits", Key, nullable=True),
        sa.CheckConstraint(
            "least(fired_time, scheduled_time) >= timestamptz '0001-01-01 00:00:00+00'"
            " AND greatest(fired_time, scheduled_time) < timestamptz '10000-01-01 00:00:00+00'"
            " AND attempt BETWEEN 1 AND 1000000000",
            name="qrtz_fired_triggers_values_check",
        ),
        sa.PrimaryKeyConstraint("fire_id", name="qrtz_fired_triggers_pkey"),
        schema=schema,
    )
    op.create_index(
        "qrtz_fired_triggers_limits",
        "qrtz_fired_triggers",
        [sa.text("(sched_name || '')"), "limits"],
        unique=False,
        postgresql_where=sa.text("limits IS NOT NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_fired_triggers_limited",
        "qrtz_fired_triggers",
        [
            "job_name",
            "concurrency_key",
            "job_group",
            "sched_name",
            sa.text("(fire_id * least(max_concurrent - 1, 1))"),
        ],
        unique=True,
        postgresql_where=sa.text("max_concurrent IS NOT NULL"),
        schema=schema,
    )
    op.create_table(
        "qrtz_job_details",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("job_group", Name, nullable=False),
        sa.Column("job_name", Name, nullable=False),
        sa.Column("job_type", Name, nullable=False),
        sa.Column("is_durable", sa.Boolean(), nullable=False),
        sa.Column("max_concurrent", sa.Integer(), nullable=True),
        sa.Column("overlap_policy", sa.String(length=12), server_default=sa.text("'block'"), nullable=False),
        sa.Column("concurrency_key", Name, nullable=True),
        sa.Column("rate_limit", JSONB(), nullable=True),
        sa.Column("limits", Key, nullable=True),
        sa.Column("placement", Key, server_default=sa.text("''"), nullable=False),
        sa.Column("slot_pool", Key, sa.Computed(SLOT_POOL, persisted=True), nullable=False),
        sa.Column("persists_data", sa.Boolean(), nullable=False),
        sa.Column("requests_recovery", sa.Boolean(), nullable=False),
        sa.Column("definition", JSONB(), nullable=True),
        sa.Column("mode", sa.String(length=10), server_default=sa.text("'ENABLED'"), nullable=False),
        sa.Column("owner", Name, nullable=True),
        sa.Column("node_deaths", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("is_stopping", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("pause_after_failures", sa.Integer(), nullable=True),
        sa.Column("consecutive_failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("job_data", JSONB(), nullable=True),
        sa.Column("continuations", JSONB(), nullable=True),
        sa.Column("after", JSONB(), nullable=True),
        sa.Column("joined_by", JSONB(), nullable=True),
        sa.Column("expect", JSONB(), nullable=True),
        sa.CheckConstraint("max_concurrent > 0", name="qrtz_job_details_max_concurrent_check"),
        sa.CheckConstraint("mode = ANY ('{ENABLED,MANUAL,DISABLED}')", name="qrtz_job_details_mode_check"),
        sa.CheckConstraint(
            "overlap_policy = ANY ('{block,skip,buffer_one,cancel_other}')", name="qrtz_job_details_when_full_check"
        ),
        sa.CheckConstraint(
            "rate_limit IS NULL OR (int8range '[1,1000000]' @> (rate_limit ->> 'limit')::bigint"
            " AND int8range '[1,1000000]' @> (rate_limit ->> 'burst')::bigint"
            " AND int8range '[1,3155760000000000]' @> (rate_limit ->> 'per_us')::bigint) IS TRUE",
            name="qrtz_job_details_rate_limit_check",
        ),
        sa.CheckConstraint("jsonb_typeof(definition) = 'object'", name="qrtz_job_details_definition_check"),
        sa.CheckConstraint("jsonb_typeof(continuations) = 'array'", name="qrtz_job_details_continuations_check"),
        sa.CheckConstraint(
            "after IS NULL OR (jsonb_typeof(after -> 'jobs') = 'array' AND jsonb_typeof(after -> 'outcomes') = 'array'"
            " AND (after ->> 'needed')::int BETWEEN 1 AND 100 AND after ->> 'per' = ANY ('{instant,day}')"
            " AND after ->> 'time_zone' IS NOT NULL"
            " AND coalesce((after ->> 'within_us')::bigint, 1) BETWEEN 1 AND 3155760000000000) IS TRUE",
            name="qrtz_job_details_after_check",
        ),
        sa.CheckConstraint(
            "node_deaths BETWEEN 0 AND 1000000000 AND consecutive_failures BETWEEN 0 AND 1000000000",
            name="qrtz_job_details_counters_check",
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
        "qrtz_job_details_dispatch",
        "qrtz_job_details",
        [sa.text("(sched_name || '')"), "job_type", "placement"],
        unique=False,
        schema=schema,
    )
    op.create_index(
        "qrtz_job_details_expect",
        "qrtz_job_details",
        ["sched_name", "job_group", "job_name"],
        unique=False,
        postgresql_where=sa.text("expect IS NOT NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_job_details_mode",
        "qrtz_job_details",
        ["sched_name"],
        unique=False,
        postgresql_where=sa.text("mode || '' <> 'ENABLED'"),
        schema=schema,
    )
    op.create_index(
        "qrtz_job_details_rate_limit",
        "qrtz_job_details",
        ["sched_name"],
        unique=False,
        postgresql_where=sa.text("rate_limit IS NOT NULL OR limits IS NOT NULL"),
        schema=schema,
    )
    op.create_table(
        "qrtz_incidents",
        sa.Column("id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("identity", sa.String(length=64, collation="C"), nullable=False),
        sa.Column("severity", sa.String(length=16), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("began_as", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("why", JSONB(), nullable=False),
        sa.Column("trigger_group", Name, nullable=True),
        sa.Column("trigger_name", Name, nullable=True),
        sa.Column("job_group", Name, nullable=True),
        sa.Column("job_name", Name, nullable=True),
        sa.Column("since", Instant, nullable=True),
        sa.Column("opened_at", Instant, nullable=False),
        sa.Column("confirmed_at", Instant, nullable=False),
        sa.Column("closed_at", Instant, nullable=True),
        sa.Column("acknowledged_at", Instant, nullable=True),
        sa.Column("acknowledged_by", Name, nullable=True),
        sa.Column("acknowledged_reason", sa.Text(), nullable=True),
        sa.Column("acknowledged_until", Instant, nullable=True),
        sa.Column("acknowledged_severity", sa.String(length=16), nullable=True),
        sa.Column("acknowledged_cause", sa.Text(), nullable=True),
        sa.Column("notified", JSONB(), nullable=True),
        sa.CheckConstraint("severity = ANY ('{error,warning,info}')", name="qrtz_incidents_severity_check"),
        sa.CheckConstraint("closed_at >= opened_at", name="qrtz_incidents_closed_check"),
        sa.CheckConstraint(
            "least(since, opened_at, confirmed_at, closed_at, acknowledged_at, acknowledged_until)"
            " >= timestamptz '0001-01-01 00:00:00+00'"
            " AND greatest(since, opened_at, confirmed_at, closed_at, acknowledged_at, acknowledged_until)"
            " < timestamptz '10000-01-01 00:00:00+00'",
            name="qrtz_incidents_instants_check",
        ),
        sa.PrimaryKeyConstraint("sched_name", "id", name="qrtz_incidents_pkey"),
        **filled_to(70),
        schema=schema,
    )
    op.create_index(
        "qrtz_incidents_open",
        "qrtz_incidents",
        ["sched_name", "identity"],
        unique=True,
        postgresql_where=sa.text("closed_at IS NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_incidents_closed",
        "qrtz_incidents",
        ["sched_name", "closed_at", "id"],
        unique=False,
        postgresql_where=sa.text("closed_at IS NOT NULL"),
        schema=schema,
    )
    op.create_table(
        "qrtz_notifications",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("id", sa.String(length=64, collation="C"), nullable=False),
        sa.Column("channel", Name, nullable=False),
        sa.Column("event", sa.String(length=16), nullable=False),
        sa.Column("message", JSONB(), nullable=False),
        sa.Column("created_at", Instant, nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("delivered_at", Instant, nullable=True),
        sa.Column("failed_at", Instant, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint("attempts >= 0", name="qrtz_notifications_attempts_check"),
        sa.CheckConstraint(
            "least(created_at, delivered_at, failed_at) >= timestamptz '0001-01-01 00:00:00+00'"
            " AND greatest(created_at, delivered_at, failed_at) < timestamptz '10000-01-01 00:00:00+00'",
            name="qrtz_notifications_instants_check",
        ),
        sa.PrimaryKeyConstraint("sched_name", "id", name="qrtz_notifications_pkey"),
        schema=schema,
    )
    op.create_index(
        "qrtz_notifications_created",
        "qrtz_notifications",
        [sa.text("(sched_name || '')"), "created_at"],
        unique=False,
        schema=schema,
    )
    op.create_table(
        "qrtz_health_runs",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("due_at", Instant, nullable=False),
        sa.Column("listed_at", Instant, nullable=True),
        sa.PrimaryKeyConstraint("sched_name", name="qrtz_health_runs_pkey"),
        **filled_to(50),
        schema=schema,
    )
    op.create_table(
        "qrtz_job_upstreams",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("job_group", Name, nullable=False),
        sa.Column("job_name", Name, nullable=False),
        sa.Column("upstream_group", Name, nullable=False),
        sa.Column("upstream_name", Name, nullable=False),
        sa.PrimaryKeyConstraint(
            "sched_name", "job_group", "job_name", "upstream_group", "upstream_name", name="qrtz_job_upstreams_pkey"
        ),
        schema=schema,
    )
    op.create_index(
        "qrtz_job_upstreams_upstream",
        "qrtz_job_upstreams",
        [
            sa.text("(upstream_group || '')"),
            sa.text("(upstream_name || '')"),
            sa.text("(sched_name || '')"),
            "job_group",
        ],
        unique=False,
        schema=schema,
    )
    op.create_table(
        "qrtz_joins",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("job_group", Name, nullable=False),
        sa.Column("job_name", Name, nullable=False),
        sa.Column("occasion", Name, nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("opened_at", Instant, nullable=False),
        sa.Column("last_end_at", Instant, nullable=True),
        sa.Column("total", sa.BigInteger(), nullable=True),
        sa.Column("outcomes", JSONB(), nullable=True),
        sa.Column("ended", JSONB(), nullable=True),
        sa.Column("succeeded", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("failed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("removed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("fire_id", sa.BigInteger(), nullable=True),
        sa.Column("due_at", Instant, nullable=True),
        sa.CheckConstraint("state = ANY ('{WAITING,FIRED,UNMET}')", name="qrtz_joins_state_check"),
        sa.PrimaryKeyConstraint("sched_name", "job_group", "job_name", "occasion", name="qrtz_joins_pkey"),
        schema=schema,
        **filled_to(50),
    )
    op.create_index(
        "qrtz_joins_due",
        "qrtz_joins",
        ["sched_name", "due_at"],
        unique=False,
        postgresql_where=sa.text("due_at IS NOT NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_joins_opened",
        "qrtz_joins",
        [sa.text("(sched_name || '')"), "opened_at"],
        unique=False,
        schema=schema,
    )
    op.create_table(
        "qrtz_expectations",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("trigger_group", Name, nullable=False),
        sa.Column("trigger_name", Name, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("due_at", Instant, nullable=False),
        sa.Column("checkpoint", JSONB(), nullable=False),
        sa.CheckConstraint(
            "least(due_at) >= timestamptz '0001-01-01 00:00:00+00'"
            " AND greatest(due_at) < timestamptz '10000-01-01 00:00:00+00'",
            name="qrtz_expectations_instants_check",
        ),
        sa.PrimaryKeyConstraint("trigger_group", "trigger_name", "sched_name", name="qrtz_expectations_pkey"),
        **filled_to(70),
        schema=schema,
    )
    op.create_index(
        "qrtz_expectations_due",
        "qrtz_expectations",
        ["sched_name", "due_at"],
        unique=False,
        schema=schema,
    )
    op.create_table(
        "qrtz_breaches",
        sa.Column("id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("trigger_group", Name, nullable=False),
        sa.Column("trigger_name", Name, nullable=False),
        sa.Column("job_group", Name, nullable=False),
        sa.Column("job_name", Name, nullable=False),
        sa.Column("scheduled_time", Instant, nullable=False),
        sa.Column("kind", sa.String(length=16, collation="C"), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("why", JSONB(), nullable=False),
        sa.Column("found_at", Instant, nullable=False),
        sa.Column("in_a_row", sa.BigInteger(), nullable=False),
        sa.Column("since", Instant, nullable=False),
        sa.Column("over_at", Instant, nullable=True),
        sa.CheckConstraint(
            "kind = ANY ('{starts-late,ends-late,runs-long,fails-often,joins-late}')",
            name="qrtz_breaches_kind_check",
        ),
        sa.PrimaryKeyConstraint("sched_name", "id", name="qrtz_breaches_pkey"),
        **filled_to(70),
        schema=schema,
    )
    op.create_index(
        "qrtz_breaches_fire",
        "qrtz_breaches",
        ["trigger_group", "trigger_name", "sched_name", "kind", "scheduled_time"],
        unique=True,
        schema=schema,
    )
    op.create_index(
        "qrtz_breaches_open",
        "qrtz_breaches",
        ["trigger_group", "trigger_name", "sched_name", "kind"],
        unique=False,
        postgresql_where=sa.text("over_at IS NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_breaches_over",
        "qrtz_breaches",
        ["sched_name", "over_at"],
        unique=False,
        postgresql_where=sa.text("over_at IS NOT NULL"),
        schema=schema,
    )
    op.create_table(
        "qrtz_locks",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("lock_name", sa.String(length=40, collation="C"), nullable=False),
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
            "action = ANY ('{FIRED_ONCE,RESCHEDULED,SKIPPED,CATCHING_UP,ENDED}')",
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
        sa.Column("scope", sa.String(length=8, collation="C"), nullable=False),
        sa.Column("group_name", Name, nullable=False),
        sa.Column("paused_at", Instant, nullable=False),
        sa.Column("paused_by", Name, nullable=True),
        sa.Column("pause_reason", sa.Text(), nullable=True),
        sa.Column("pause_until", Instant, nullable=True),
        sa.Column("pause_missed", sa.String(length=10), server_default=sa.text("'misfire'"), nullable=False),
        sa.Column("with_all", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("window_name", Name, nullable=True),
        sa.Column("resumed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint("scope = ANY ('{TRIGGER,JOB,ALL,MANUAL}')", name="qrtz_paused_trigger_groups_scope_check"),
        sa.CheckConstraint(
            "pause_missed = ANY ('{misfire,skip,once}')", name="qrtz_paused_trigger_groups_missed_check"
        ),
        sa.CheckConstraint(
            "least(paused_at, pause_until) >= timestamptz '0001-01-01 00:00:00+00'"
            " AND greatest(paused_at, pause_until) < timestamptz '10000-01-01 00:00:00+00'",
            name="qrtz_paused_trigger_groups_instants_check",
        ),
        sa.PrimaryKeyConstraint("sched_name", "scope", "group_name", name="qrtz_paused_trigger_groups_pkey"),
        schema=schema,
    )
    op.create_table(
        "qrtz_maintenance_windows",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("window_name", Name, nullable=False),
        sa.Column("scope", sa.String(length=8, collation="C"), nullable=False),
        sa.Column("group_name", Name, nullable=False),
        sa.Column("definition", JSONB(), nullable=False),
        sa.Column("changed_at", Instant, nullable=False),
        sa.Column("changed_by", Name, nullable=True),
        sa.Column("starts_at", Instant, nullable=False),
        sa.Column("ends_at", Instant, nullable=False),
        sa.Column("is_open", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("due_at", Instant, nullable=False),
        sa.CheckConstraint("scope = ANY ('{TRIGGER,JOB,ALL}')", name="qrtz_maintenance_windows_scope_check"),
        sa.CheckConstraint("ends_at > starts_at", name="qrtz_maintenance_windows_span_check"),
        sa.CheckConstraint(
            "least(changed_at, starts_at, ends_at, due_at) >= timestamptz '0001-01-01 00:00:00+00'"
            " AND greatest(changed_at, starts_at, ends_at, due_at) < timestamptz '10000-01-01 00:00:00+00'",
            name="qrtz_maintenance_windows_instants_check",
        ),
        sa.PrimaryKeyConstraint("sched_name", "window_name", name="qrtz_maintenance_windows_pkey"),
        schema=schema,
    )
    op.create_table(
        "qrtz_limits",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("limit_name", Name, nullable=False),
        sa.Column("job_group", Name, server_default=sa.text("''"), nullable=False),
        sa.Column("job_name", Name, server_default=sa.text("''"), nullable=False),
        sa.Column("concurrency_key", Key, server_default=sa.text("''"), nullable=False),
        sa.Column("max_concurrent", sa.Integer(), nullable=True),
        sa.Column("rate_limit", JSONB(), nullable=True),
        sa.Column("tat", Instant, nullable=True),
        sa.Column("opens_at", Instant, nullable=True),
        sa.CheckConstraint("max_concurrent >= 0", name="qrtz_limits_max_concurrent_check"),
        sa.CheckConstraint(
            "rate_limit IS NULL OR (int8range '[1,1000000]' @> (rate_limit ->> 'limit')::bigint"
            " AND int8range '[1,1000000]' @> (rate_limit ->> 'burst')::bigint"
            " AND int8range '[1,3155760000000000]' @> (rate_limit ->> 'per_us')::bigint) IS TRUE",
            name="qrtz_limits_rate_limit_check",
        ),
        sa.CheckConstraint(
            "least(tat, opens_at) >= timestamptz '0001-01-01 00:00:00+00'"
            " AND greatest(tat, opens_at) < timestamptz '10000-01-01 00:00:00+00'",
            name="qrtz_limits_instants_check",
        ),
        sa.PrimaryKeyConstraint(
            "sched_name", "limit_name", "job_group", "job_name", "concurrency_key", name="qrtz_limits_pkey"
        ),
        schema=schema,
    )
    op.create_index(
        "qrtz_limits_opens",
        "qrtz_limits",
        ["sched_name", "opens_at"],
        unique=False,
        postgresql_where=sa.text("opens_at IS NOT NULL"),
        schema=schema,
    )
    op.create_table(
        "qrtz_zone_rules",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("zone_name", Name, nullable=False),
        sa.Column("digest", sa.String(length=16, collation="C"), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("rules", JSONB(), nullable=False),
        sa.Column("noted_at", Instant, nullable=False),
        sa.Column("renewed_by", sa.BigInteger(), nullable=True),
        sa.Column("renewed_until", Instant, nullable=True),
        sa.PrimaryKeyConstraint("sched_name", "zone_name", "digest", name="qrtz_zone_rules_pkey"),
        schema=schema,
    )
    op.create_table(
        "qrtz_identity",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("system_identifier", sa.Text(), nullable=True),
        sa.Column("database_oid", sa.BigInteger(), nullable=False),
        sa.Column("database_name", sa.Text(), nullable=False),
        sa.Column("adopted_at", Instant, nullable=False),
        sa.Column("adopted_by", Name, nullable=False),
        sa.PrimaryKeyConstraint("id", name="qrtz_identity_pkey"),
        sa.CheckConstraint("id = 1", name="qrtz_identity_only_check"),
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
        sa.Column("back_since", Instant, nullable=True),
        sa.Column("problems", JSONB(), nullable=True),
        sa.Column("checkin_interval", sa.Interval(), nullable=False),
        sa.Column("failure_window", sa.Interval(), server_default=sa.text("'20 seconds'"), nullable=False),
        sa.Column("process", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("capabilities", JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("facts", JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("mode", sa.String(length=16), server_default=sa.text("'RUNNING'"), nullable=False),
        sa.Column("mode_since", Instant, nullable=True),
        sa.Column("runs", sa.ARRAY(sa.BigInteger()), nullable=False, server_default=sa.text("'{}'")),
        sa.Column("refuses", sa.ARRAY(sa.BigInteger()), nullable=False, server_default=sa.text("'{}'")),
        sa.CheckConstraint("mode = ANY ('{RUNNING,STANDBY,DRAINING}')", name="qrtz_scheduler_state_mode_check"),
        sa.PrimaryKeyConstraint("sched_name", "instance_id", name="qrtz_scheduler_state_pkey"),
        **filled_to(50),
        comment="tables of revision 0001, usable by releases from revision 0001 on",
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
        sa.Column("concurrency_key", Key, server_default=sa.text("''"), nullable=False),
        sa.Column("placement", Key, server_default=sa.text("''"), nullable=False),
        sa.Column("slot_pool", Key, sa.Computed(SLOT_POOL, persisted=True), nullable=False),
        sa.Column("rate_limit", JSONB(), nullable=True),
        sa.Column("limits", Key, nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("schedule", JSONB(), nullable=False),
        sa.Column(
            "has_expectation",
            sa.Boolean(),
            sa.Computed("schedule ? 'expect'", persisted=True),
            nullable=False,
        ),
        sa.Column("trigger_state", sa.String(length=16, collation="C"), nullable=False),
        sa.Column("parked_at", Key, nullable=True),
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
        sa.Column(
            "misfire_rule",
            sa.String(length=10, collation="C"),
            sa.Computed(
                "CASE WHEN unreconciled IS NOT NULL THEN 'NEW'::text"
                " WHEN missed_policy IS NOT NULL THEN 'LATE'::text"
                " WHEN catch_up_until IS NOT NULL OR misfire_instruction::text = 'ignore'::text THEN 'IGNORE'::text"
                " WHEN misfire_threshold IS NULL THEN 'NODE'::text ELSE 'OWN'::text END",
                persisted=True,
            ),
            nullable=False,
        ),
        sa.Column("misfire_threshold", sa.Interval(), nullable=True),
        sa.Column("catch_up_until", Instant, nullable=True),
        sa.Column("missed_policy", sa.String(length=10), nullable=True),
        sa.Column("resumed_at", Instant, nullable=True),
        sa.Column("unreconciled", sa.String(length=10), nullable=True),
        sa.Column("calendar_name", Name, nullable=True),
        sa.Column("job_data", JSONB(), nullable=True),
        sa.Column("fire_id", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("owner", Name, nullable=True),
        sa.Column("schedule_hash", sa.BigInteger(), nullable=True),
        sa.Column("held_by_mode", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("paused_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("paused_by", Name, nullable=True),
        sa.Column("pause_reason", sa.Text(), nullable=True),
        sa.Column("pause_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pause_missed", sa.String(length=10), nullable=True),
        sa.CheckConstraint("fire_id IS NULL OR trigger_state = 'COMPLETE'", name="qrtz_triggers_fire_id_check"),
        sa.CheckConstraint(
            "misfire_threshold BETWEEN interval '0' AND interval '876600 hours'",
            name="qrtz_triggers_misfire_threshold_check",
        ),
        sa.CheckConstraint("catch_up_until IS NULL OR misfire_rule = 'IGNORE'", name="qrtz_triggers_catch_up_check"),
        sa.CheckConstraint("missed_policy = ANY ('{skip,once}')", name="qrtz_triggers_missed_policy_check"),
        sa.CheckConstraint("pause_missed = ANY ('{misfire,skip,once}')", name="qrtz_triggers_pause_missed_check"),
        sa.CheckConstraint("unreconciled = ANY ('{NEW,HELD}')", name="qrtz_triggers_unreconciled_check"),
        sa.CheckConstraint(
            "trigger_state <> 'WAITING' OR next_fire_time IS NOT NULL", name="qrtz_triggers_waiting_check"
        ),
        sa.CheckConstraint(
            "trigger_state = ANY ('{WAITING,BLOCKED,PAUSED,COMPLETE,ERROR}')",
            name="qrtz_triggers_state_check",
        ),
        sa.CheckConstraint(
            "rate_limit IS NULL OR (int8range '[1,1000000]' @> (rate_limit ->> 'limit')::bigint"
            " AND int8range '[1,1000000]' @> (rate_limit ->> 'burst')::bigint"
            " AND int8range '[1,3155760000000000]' @> (rate_limit ->> 'per_us')::bigint) IS TRUE",
            name="qrtz_triggers_rate_limit_check",
        ),
        sa.CheckConstraint(
            "least(next_fire_time, prev_fire_time, start_time, end_time, paused_at, pause_until,"
            " resumed_at) >= timestamptz '0001-01-01 00:00:00+00'"
            " AND greatest(next_fire_time, prev_fire_time, start_time, end_time, paused_at, pause_until,"
            " resumed_at) < timestamptz '10000-01-01 00:00:00+00'",
            name="qrtz_triggers_instants_check",
        ),
        sa.CheckConstraint(
            "(timestamptz '0001-01-01 00:00:00+00' <= ALL (upcoming) AND"
            " timestamptz '10000-01-01 00:00:00+00' > ALL (upcoming)) IS TRUE",
            name="qrtz_triggers_upcoming_check",
        ),
        sa.CheckConstraint(
            "coalesced_fire_times IS NULL OR"
            " (timestamptz '0001-01-01 00:00:00+00' <= ALL (coalesced_fire_times) AND"
            " timestamptz '10000-01-01 00:00:00+00' > ALL (coalesced_fire_times)) IS TRUE",
            name="qrtz_triggers_coalesced_check",
        ),
        sa.CheckConstraint(
            "times_triggered BETWEEN 0 AND 1000000000000000000 AND attempt BETWEEN 1 AND 1000000000",
            name="qrtz_triggers_counters_check",
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
        sa.PrimaryKeyConstraint(
            "trigger_group", "trigger_name", "sched_name", "times_triggered", name="qrtz_triggers_pkey"
        ),
        **filled_to(70),
        schema=schema,
    )
    op.create_table(
        "qrtz_trigger_keys",
        sa.Column("sched_name", Name, nullable=False),
        sa.Column("trigger_group", Name, nullable=False),
        sa.Column("trigger_name", Name, nullable=False),
        sa.PrimaryKeyConstraint("trigger_group", "trigger_name", "sched_name", name="qrtz_trigger_keys_pkey"),
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
        ["sched_name", "slot_pool", "misfire_rule", "next_fire_time", sa.text("priority DESC")],
        unique=False,
        postgresql_where=sa.text("trigger_state = 'WAITING'"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_new",
        "qrtz_triggers",
        ["sched_name", "next_fire_time"],
        unique=False,
        postgresql_where=sa.text("unreconciled = 'NEW'"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_parked",
        "qrtz_triggers",
        [sa.text("(sched_name || '')"), "parked_at", "next_fire_time", sa.text("priority DESC")],
        unique=False,
        postgresql_where=sa.text("trigger_state = 'BLOCKED' AND parked_at IS NOT NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_unfired",
        "qrtz_triggers",
        ["sched_name"],
        unique=False,
        postgresql_where=sa.text("trigger_state = 'COMPLETE' AND prev_fire_time IS NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_stopped",
        "qrtz_triggers",
        ["trigger_state", "trigger_group", "trigger_name", "sched_name"],
        unique=False,
        postgresql_where=sa.text("trigger_state IN ('ERROR', 'PAUSED')"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_stopped_due",
        "qrtz_triggers",
        [sa.text("(sched_name || '')"), sa.text("(trigger_state || '')"), "next_fire_time", sa.text("priority DESC")],
        unique=False,
        postgresql_include=["trigger_group", "trigger_name", "sched_name", "trigger_state"],
        postgresql_where=sa.text("trigger_state || '' IN ('ERROR', 'PAUSED')"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_pause_until",
        "qrtz_triggers",
        ["pause_until", "sched_name"],
        unique=False,
        postgresql_where=sa.text("pause_until IS NOT NULL"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_held",
        "qrtz_triggers",
        [
            sa.text("(sched_name || '')"),
            sa.text("(job_group || '')"),
            sa.text("(job_name || '')"),
            sa.text("(concurrency_key || '')"),
            "trigger_state",
            sa.text('(COALESCE("left"(parked_at, 0), misfire_rule::text))'),
            "next_fire_time",
            sa.text("priority DESC"),
        ],
        unique=False,
        postgresql_where=sa.text("trigger_state IN ('BLOCKED', 'COMPLETE')"),
        schema=schema,
    )
    op.create_index(
        "qrtz_triggers_expect",
        "qrtz_triggers",
        ["trigger_group", "trigger_name", "sched_name"],
        unique=False,
        postgresql_where=sa.text("has_expectation"),
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
        ["job_name", "job_group", "concurrency_key"],
        unique=False,
        schema=schema,
    )
    place = _place(schema)
    op.execute(FUNCTION_OF_KEYS.format(place=place))
    for name, when in TRIGGERS_OF_KEYS.items():
        op.execute(
            f"CREATE TRIGGER {name} {when.format(place=place)} EXECUTE FUNCTION {place}qrtz_write_trigger_keys()"
        )
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {place}{name} AS{query.format(place=place).rstrip()}")


def _place(schema: str | None) -> str:
    return f'"{schema}".' if schema else ""


def downgrade() -> None:
    schema = context.config.attributes["schema"]
    for view in reversed(VIEWS):
        op.execute(f"DROP VIEW {_place(schema)}{view}")
    for table in TABLES:
        op.drop_table(table, schema=schema)
    op.execute(f"DROP FUNCTION {_place(schema)}qrtz_write_trigger_keys()")
    for name in SEQUENCES:
        op.execute(sa.schema.DropSequence(sa.Sequence(name, schema=schema)))
