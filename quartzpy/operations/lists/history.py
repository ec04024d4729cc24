"""The lists of what has happened, and of what runs and comes next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from quartzpy.operations.lists.spec import Column, ListSpec, Look
from quartzpy.store.filters import filtered
from quartzpy.store.queries import ActionQuery, ExecutionQuery, IncidentQuery, MisfireQuery

if TYPE_CHECKING:
    from quartzpy.operations.actions.audit_log import AuditEntry
    from quartzpy.operations.incidents.late_triggers import LateTrigger
    from quartzpy.operations.incidents.recorded import RecordedIncident
    from quartzpy.operations.views.agenda import PlannedRun
    from quartzpy.operations.views.executions import ExecutionSummary, MisfireView, RunningView

EXECUTIONS: ListSpec[ExecutionSummary] = ListSpec(
    "executions",
    "execution",
    "The executions, the latest first.",
    (
        Column("id", lambda row: row.fire_id, Look.NUMBER, aside=True),
        Column("ended", lambda row: row.ended_at, Look.INSTANT, drop=2, classes="nowrap"),
        Column("job", lambda row: row.job, Look.NAME, readable=28, classes=""),
        Column("state", lambda row: row.state, Look.STATE, label="Outcome", classes=""),
        Column("scheduled", lambda row: row.scheduled_fire_time, Look.INSTANT, aside=True),
        Column("ran", lambda row: row.ran, Look.SPAN, drop=9, classes=""),
        Column(
            "waited",
            lambda row: row.waited,
            Look.SPAN,
            "Late by",
            "The time from the scheduled instant until a node fired it",
            drop=7,
            classes="wide least",
        ),
        Column("attempt", lambda row: row.attempt, Look.NUMBER, drop=4, aside=True),
        Column("node", lambda row: row.node, Look.NAME, drop=6, classes="wide least"),
        Column("trigger", lambda row: row.trigger, Look.NAME, drop=3, aside=True),
        Column("fired at", lambda row: row.fire_time, Look.INSTANT, extra=True, aside=True),
        Column("started", lambda row: row.started_at, Look.INSTANT, extra=True, aside=True),
        Column("queued", lambda row: row.queued, Look.SPAN, extra=True, aside=True),
        Column("retry at", lambda row: row.retry_at, Look.INSTANT, drop=1, aside=True),
        Column("recovering", lambda row: row.recovering, Look.WORD, extra=True, aside=True),
        Column("by hand by", lambda row: row.triggered_by, drop=5, aside=True),
        Column("type", lambda row: row.job_type, Look.NAME, extra=True, aside=True),
        Column("error", lambda row: row.error, drop=8),
    ),
    ExecutionQuery,
    title="Executions",
    menu="History",
    key="e",
    more="By default they are those that have ended; another state (SCHEDULED, ENQUEUED, PROCESSING) must be named.",
)


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """Selects running executions."""

    node: str | None = filtered(str, "Only those of this node", hint="node-a")


RUNNING: ListSpec[RunningView] = ListSpec(
    "running",
    "running execution",
    "What runs now, with nodes, times and progress.",
    (
        Column("id", lambda row: row.fire_id, Look.NUMBER, aside=True),
        Column("job", lambda row: row.job, Look.NAME, readable=28, classes="name"),
        Column("state", lambda row: row.state, Look.STATE, classes=""),
        Column("for", lambda row: row.elapsed, Look.SPAN, "Runs for", classes="nowrap"),
        Column("progress", lambda row: None if row.progress is None else f"{row.progress:.0%}", Look.NUMBER),
        Column("message", lambda row: row.progress_message, drop=5),
        Column("node", lambda row: row.node, Look.NAME, drop=7),
        Column("worker", lambda row: row.worker, Look.NAME, title="Of an engine", drop=1, aside=True),
        Column("worker since", lambda row: row.worker_since, Look.INSTANT, extra=True, aside=True),
        Column("submission", lambda row: row.submission, Look.NUMBER, extra=True, aside=True),
        Column("scheduled", lambda row: row.scheduled_fire_time, Look.INSTANT, drop=6, aside=True),
        Column("fired at", lambda row: row.fire_time, Look.INSTANT, drop=2, aside=True),
        Column("attempt", lambda row: row.attempt, Look.NUMBER, drop=3, aside=True),
        Column("trigger", lambda row: row.trigger, Look.NAME, drop=4, classes="wide least"),
        Column("by hand by", lambda row: row.triggered_by, drop=2, aside=True),
        Column("cancelling", lambda row: row.cancel_requested, Look.WORD, drop=1, aside=True),
        Column("recovering", lambda row: row.recovering, Look.WORD, extra=True, aside=True),
    ),
    RunningQuery,
    empty="nothing runs",
    more="ENQUEUED are fires whose instants are a moment away, PROCESSING are running executions.",
    title="Running",
    intro="The executions that have not ended, and the fires whose instants are a moment away.",
    live="executions nodes schedule",
    menu="Now",
    key="r",
)

MISFIRES: ListSpec[MisfireView] = ListSpec(
    "misfires",
    "misfire",
    "The misfires that the cluster has handled, the latest first.",
    (
        Column("id", lambda row: row.misfire_id, Look.NUMBER, drop=3, aside=True),
        Column("handled at", lambda row: row.handled_at, Look.INSTANT, "Handled", extra=True, classes=""),
        Column("trigger", lambda row: row.trigger, Look.NAME, readable=28, classes=""),
        Column("scheduled", lambda row: row.scheduled_fire_time, Look.INSTANT, aside=True),
        Column("late", lambda row: row.late, Look.SPAN, "Late by", classes=""),
        Column("action", lambda row: row.action, Look.STATE, "Result", classes=""),
        Column(
            "missed",
            lambda row: f"{len(row.missed):,}{'+' if row.has_more else ''}",
            Look.NUMBER,
            order=lambda row: len(row.missed),
            drop=7,
        ),
        Column("instruction", lambda row: row.instruction, drop=6),
        Column("caught up", lambda row: row.caught_up, Look.NUMBER, drop=2, aside=True),
        Column("node", lambda row: row.node, Look.NAME, drop=1),
        Column("next", lambda row: row.next_fire_time, Look.INSTANT, "Then due", drop=5, classes=""),
        Column("job", lambda row: row.job, Look.NAME, drop=4, aside=True),
    ),
    MisfireQuery,
    title="Misfires",
    menu="History",
    key="m",
    intro="Fires that came too late, and what the trigger's misfire instruction did about them.",
    is_steady=True,
)


@dataclass(frozen=True, slots=True)
class UpcomingQuery:
    """Selects fires that are to come."""

    until: datetime | None = filtered(
        datetime,
        "They are before this",
        default="1h",
        is_ahead=True,
        is_rare=True,
        label="Within",
        spans=(("", "1 hour"), ("6h", "6 hours"), ("1d", "1 day"), ("7d", "7 days")),
    )


UPCOMING: ListSpec[PlannedRun] = ListSpec(
    "upcoming",
    "fire",
    "The fires to come, the soonest first.",
    (
        Column("at", lambda row: row.at, Look.INSTANT, classes="nowrap"),
        Column("trigger", lambda row: row.trigger, Look.NAME, readable=28, classes="name"),
        Column("job", lambda row: row.job, Look.NAME, drop=3, classes="wide name"),
        Column("local", lambda row: row.local, Look.WORD, "Local time", "That of the zone of the schedule", drop=2),
        Column("zone", lambda row: row.zone, drop=2, classes="wide least"),
        Column("clock change", lambda row: row.clock_change, drop=4, aside=True),
    ),
    UpcomingQuery,
    is_bounded=True,
    empty="nothing fires within the next hour",
    more="Several fires of one trigger are included. LOCAL is the wall-clock time in the zone of the schedule.",
    title="Upcoming fires",
    intro="The fires to come, the soonest first; of one trigger there may be several.",
    menu="Now",
    key="f",
)

LATE: ListSpec[LateTrigger] = ListSpec(
    "late",
    "late trigger",
    "The triggers that are due and that no node has fired, without the reasons.",
    (
        Column("trigger", lambda row: row.trigger, Look.NAME, readable=28),
        Column("late", lambda row: row.late, Look.SPAN),
        Column("due at", lambda row: row.due_at, Look.INSTANT, drop=3),
        Column("job", lambda row: row.job, Look.NAME, drop=2),
        Column("why", lambda row: " ".join(row.why), Look.SENTENCE, drop=1),
    ),
    has_command=False,
)

AUDIT_LOG: ListSpec[AuditEntry] = ListSpec(
    "audit",
    "entry",
    "What operators did, the latest first.",
    (
        Column("id", lambda row: row.action_id, Look.NUMBER, drop=2, aside=True),
        Column("at", lambda row: row.at, Look.INSTANT, "When", classes="nowrap"),
        Column("actor", lambda row: row.actor, Look.NAME, "Who", classes="nowrap run-on"),
        Column("action", lambda row: row.action, Look.WORD, classes="run-on"),
        Column("subject", lambda row: row.subject, Look.NAME, readable=28, classes=""),
        Column("reason", lambda row: row.reason, drop=6),
        Column("state", lambda row: row.state, Look.STATE, "Result", drop=5, classes=""),
        Column("count", lambda row: row.count, Look.NUMBER, drop=3, aside=True),
        Column("error", lambda row: row.error, drop=4, aside=True),
        Column("role", lambda row: row.role, drop=1, aside=True),
        Column("before", lambda row: row.before, extra=True, aside=True),
        Column("after", lambda row: row.after, extra=True, aside=True),
        Column("undone by", lambda row: row.undone_by, extra=True, aside=True),
    ),
    ActionQuery,
    plural="entries",
    reads="audit_log",
    title="Audit log",
    menu="History",
    key="a",
    intro="What people and programs did by this page, the command line and the API.",
    is_stack=True,
)

PAST_INCIDENTS: ListSpec[RecordedIncident] = ListSpec(
    "past_incidents",
    "incident",
    "The incidents that are over, by their ends, the latest first.",
    (
        Column("from", lambda row: row.began_at, Look.INSTANT),
        Column("until", lambda row: row.closed_at, Look.INSTANT),
        Column("lasted", lambda row: row.lasted, Look.SPAN),
        Column("severity", lambda row: str(row.severity), Look.STATE, drop=3),
        Column("what", lambda row: row.what, Look.SENTENCE, readable=40),
        Column("why", lambda row: " ".join(row.why), Look.SENTENCE, drop=2),
        Column("acknowledged by", lambda row: row.acknowledgement and row.acknowledgement.by, drop=1),
        Column("id", lambda row: row.incident_id, extra=True),
        Column("kind", lambda row: row.kind, extra=True),
        Column("subject", lambda row: row.subject, extra=True),
    ),
    IncidentQuery,
    has_command=False,
)
