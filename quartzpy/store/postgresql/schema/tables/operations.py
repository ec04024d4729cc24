"""The table of what operators did."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, PrimaryKeyConstraint, String, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from quartzpy.states import ActionState
from quartzpy.store.postgresql.schema.tables.base import Instant, Name, metadata, one_of

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
