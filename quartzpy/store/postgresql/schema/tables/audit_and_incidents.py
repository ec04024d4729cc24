"""The tables of what operators did, and of what was wrong."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
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
from sqlalchemy.dialects.postgresql import JSONB

from quartzpy.expect import Breach
from quartzpy.states import ActionState
from quartzpy.store.health_findings import Severity
from quartzpy.store.postgresql.schema.tables.shared import (
    BY_SCHEDULER,
    Instant,
    Name,
    are_instants,
    filled_to,
    metadata,
    one_of,
    word,
)

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
    Column("subject", word(500), nullable=False),
    Column("reason", Text, nullable=False),
    Column("state", String(16), nullable=False),
    # The number of things that it has changed.
    Column("count", BigInteger, nullable=False),
    # The values that it changed, before and after, without secrets.
    Column("before", JSONB),
    Column("after", JSONB),
    Column("error", Text),
    # Of an action that is RUNNING: if it is long ago, its process has ended.
    Column("updated_at", Instant),
    # the latest actions, and purging the oldest
    PrimaryKeyConstraint("sched_name", "id", name="qrtz_audit_pkey"),
    CheckConstraint(one_of("state", ActionState), name="qrtz_audit_state_check"),
)
# the latest actions on one job, trigger, execution or node
Index("qrtz_audit_subject", audit.c.subject, audit.c.id)
# the actions of a span of time
Index("qrtz_audit_at", audit.c.sched_name, audit.c.at)
# the few actions that failed, were refused, or have not ended
Index("qrtz_audit_unsuccessful", audit.c.sched_name, audit.c.id, postgresql_where=text("state <> 'SUCCEEDED'"))

incidents = Table(
    "qrtz_incidents",
    metadata,
    # Increases with time.
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("sched_name", Name, nullable=False),
    # "dead-node", "trigger-error", ...; and what it is about, in words.
    Column("kind", String(40), nullable=False),
    Column("subject", Text, nullable=False),
    # A digest of the kind and of what stays the same about its subject while it lasts.
    Column("identity", word(64), nullable=False),
    Column("severity", String(16), nullable=False),
    # What tells one cause of it from another, the error for example; empty if nothing does.
    Column("cause", Text, nullable=False),
    # The sentence when it began, and the latest one with its reasons.
    Column("began_as", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("why", JSONB, nullable=False),
    # The affected trigger and job, and the instant since when it is so, if they are known.
    Column("trigger_group", Name),
    Column("trigger_name", Name),
    Column("job_group", Name),
    Column("job_name", Name),
    Column("since", Instant),
    Column("opened_at", Instant, nullable=False),
    # Moved once a minute while it lasts, and when it becomes worse or better.
    Column("confirmed_at", Instant, nullable=False),
    Column("closed_at", Instant),
    # Who has taken note of it, why and until when, and how it was then: it is shown again when it is worse.
    Column("acknowledged_at", Instant),
    Column("acknowledged_by", Name),
    Column("acknowledged_reason", Text),
    Column("acknowledged_until", Instant),
    Column("acknowledged_severity", String(16)),
    Column("acknowledged_cause", Text),
    # By channel: when it was notified last and of what severity, and the ids of the latest notifications.
    Column("notified", JSONB),
    PrimaryKeyConstraint("sched_name", "id", name="qrtz_incidents_pkey"),
    CheckConstraint(one_of("severity", Severity), name="qrtz_incidents_severity_check"),
    CheckConstraint("closed_at >= opened_at", name="qrtz_incidents_closed_check"),
    CheckConstraint(
        are_instants("since", "opened_at", "confirmed_at", "closed_at", "acknowledged_at", "acknowledged_until"),
        name="qrtz_incidents_instants_check",
    ),
    # Those that last are confirmed in place.
    **filled_to(70),
)
# What is open, each once, whichever nodes judge.
Index(
    "qrtz_incidents_open",
    incidents.c.sched_name,
    incidents.c.identity,
    unique=True,
    postgresql_where=text("closed_at IS NULL"),
)
# the latest that are over, and purging the oldest
Index(
    "qrtz_incidents_closed",
    incidents.c.sched_name,
    incidents.c.closed_at,
    incidents.c.id,
    postgresql_where=text("closed_at IS NOT NULL"),
)

notifications = Table(
    "qrtz_notifications",
    metadata,
    Column("sched_name", Name, nullable=False),
    # The idempotency key by which a receiver recognizes one that comes again.
    Column("id", word(64), nullable=False),
    Column("channel", Name, nullable=False),
    # "began", "worse", "lasts" or "over".
    Column("event", String(16), nullable=False),
    Column("message", JSONB, nullable=False),
    Column("created_at", Instant, nullable=False),
    # The attempts that have ended; when one of them succeeded, or the last one failed, and the latest error.
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("delivered_at", Instant),
    Column("failed_at", Instant),
    Column("error", Text),
    PrimaryKeyConstraint("sched_name", "id", name="qrtz_notifications_pkey"),
    CheckConstraint("attempts >= 0", name="qrtz_notifications_attempts_check"),
    CheckConstraint(
        are_instants("created_at", "delivered_at", "failed_at"),
        name="qrtz_notifications_instants_check",
    ),
)
# purging the oldest
Index("qrtz_notifications_created", BY_SCHEDULER, notifications.c.created_at)

judgements = Table(
    "qrtz_health_runs",
    metadata,
    Column("sched_name", Name, nullable=False),
    # The instant from which on a node judges what is wrong. Whoever does moves it first, so that nobody else does.
    Column("due_at", Instant, nullable=False),
    # The instant from which on it looks which triggers have an expectation.
    Column("listed_at", Instant),
    PrimaryKeyConstraint("sched_name", name="qrtz_health_runs_pkey"),
    **filled_to(50),
)

expectations = Table(
    "qrtz_expectations",
    metadata,
    # A trigger of whose fires something is expected, by itself or by its job.
    Column("sched_name", Name, nullable=False),
    Column("trigger_group", Name, nullable=False),
    Column("trigger_name", Name, nullable=False),
    # The schedule that was seen; another one is looked at at once.
    Column("generation", BigInteger, nullable=False),
    # The instant of the next look.
    Column("due_at", Instant, nullable=False),
    # What is judged already, and what is not over.
    Column("checkpoint", JSONB, nullable=False),
    PrimaryKeyConstraint("trigger_group", "trigger_name", "sched_name", name="qrtz_expectations_pkey"),
    CheckConstraint(are_instants("due_at"), name="qrtz_expectations_instants_check"),
    **filled_to(70),
)
# those to look at, the soonest first
Index("qrtz_expectations_due", expectations.c.sched_name, expectations.c.due_at)

breaches = Table(
    "qrtz_breaches",
    metadata,
    # Increases with time.
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("sched_name", Name, nullable=False),
    Column("trigger_group", Name, nullable=False),
    Column("trigger_name", Name, nullable=False),
    Column("job_group", Name, nullable=False),
    Column("job_name", Name, nullable=False),
    # The fire that did not do what was expected, and what that was.
    Column("scheduled_time", Instant, nullable=False),
    Column("kind", word(16), nullable=False),
    Column("what", Text, nullable=False),
    Column("why", JSONB, nullable=False),
    Column("found_at", Instant, nullable=False),
    # The number of fires in a row that broke it, with this one, and the instant at which the first was found.
    Column("in_a_row", BigInteger, nullable=False),
    Column("since", Instant, nullable=False),
    # A later fire kept it, or broke it as well.
    Column("over_at", Instant),
    PrimaryKeyConstraint("sched_name", "id", name="qrtz_breaches_pkey"),
    CheckConstraint(one_of("kind", Breach), name="qrtz_breaches_kind_check"),
    **filled_to(70),
)
# A fire breaks an expectation once, whoever judges, and however often.
Index(
    "qrtz_breaches_fire",
    breaches.c.trigger_group,
    breaches.c.trigger_name,
    breaches.c.sched_name,
    breaches.c.kind,
    breaches.c.scheduled_time,
    unique=True,
)
# what lasts
Index(
    "qrtz_breaches_open",
    breaches.c.trigger_group,
    breaches.c.trigger_name,
    breaches.c.sched_name,
    breaches.c.kind,
    postgresql_where=text("over_at IS NULL"),
)
# what is deleted when it has been over for long
Index(
    "qrtz_breaches_over",
    breaches.c.sched_name,
    breaches.c.over_at,
    postgresql_where=text("over_at IS NOT NULL"),
)
