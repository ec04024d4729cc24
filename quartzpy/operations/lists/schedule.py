"""The lists of what is stored: jobs, triggers, calendars and windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from quartzpy.operations.lists.spec import Column, ListSpec, Look
from quartzpy.store.queries import JobQuery, TriggerQuery

if TYPE_CHECKING:
    from quartzpy.operations.views.calendars import CalendarSummary
    from quartzpy.operations.views.jobs import JobSummary
    from quartzpy.operations.views.maintenance_windows import WindowView
    from quartzpy.operations.views.triggers import TriggerSummary
    from quartzpy.store.postgresql.admin.records import Health

    class _Healthy(Protocol):
        @property
        def health(self) -> Health | None: ...


def _of_health(value: Callable[[Health], Any]) -> Callable[[_Healthy], Any]:
    return lambda row: None if row.health is None else value(row.health)


def _failed(health: Health) -> str:
    return f"{health.failures:,} of {health.runs:,}" if health.runs else ""


_MARKS = {"SUCCEEDED": "✓", "FAILED": "✗", "TERMINATED": "✗"}
_OF_RUNS = "of its last runs, at most 100"


def _runs(*, aside: bool) -> tuple[Column[Any], ...]:
    """Return the columns that say how the last runs of a job or a trigger went."""
    return (
        Column(
            "result",
            _of_health(lambda health: health.last_outcome),
            Look.STATE,
            "Last result",
            drop=12,
            classes="wide least" if aside else "",
        ),
        Column(
            "failed",
            _of_health(_failed),
            Look.NUMBER,
            "Failed, 24 h",
            f"How many {_OF_RUNS}, failed for good or were lost, among those that ended within 24 hours",
            order=_of_health(lambda health: (health.failures, health.runs)),
            drop=11,
            aside=aside,
        ),
        Column(
            "runs",
            _of_health(lambda health: "".join(_MARKS.get(run.outcome, "·") for run in health.last_runs)),
            Look.WORD,
            "Last runs",
            "The outcomes and durations of the last 20 runs, the latest at the right",
            extra=True,
            aside=aside,
        ),
        Column(
            "p50",
            _of_health(lambda health: health.typical),
            Look.SPAN,
            "p50",
            f"The median duration {_OF_RUNS}",
            drop=6,
            aside=aside,
        ),
        Column(
            "p99",
            _of_health(lambda health: health.slow),
            Look.SPAN,
            "p99",
            f"The 99th percentile of the durations {_OF_RUNS}",
            drop=5,
            aside=aside,
            classes="wide least",
        ),
    )


JOBS: ListSpec[JobSummary] = ListSpec(
    "jobs",
    "job",
    "The jobs, with their options and how their last runs went.",
    (
        Column("job", lambda row: row.key, Look.NAME, readable=28, classes="named"),
        Column("mode", lambda row: row.mode, Look.STATE, drop=9, aside=True),
        Column(
            "type",
            lambda row: row.job_type,
            Look.NAME,
            title="The last part of the name of its class or function",
            drop=7,
            classes="wide less",
        ),
        *_runs(aside=False),
        Column("triggers", lambda row: row.triggers, Look.NUMBER, drop=8, classes="wide least"),
        Column("next", lambda row: row.next_fire_time, Look.INSTANT, "Next fire", drop=10, classes=""),
        Column("previous", lambda row: row.previous_fire_time, Look.INSTANT, "Last fire", drop=6, classes="wide less"),
        Column("waits for", lambda row: row.waits_for, drop=8, aside=True),
        Column("display name", lambda row: row.display_name, drop=5, aside=True),
        Column("limit", lambda row: row.max_concurrent, Look.NUMBER, drop=4, aside=True),
        Column("timeout", lambda row: row.timeout, Look.SPAN, drop=3, aside=True),
        Column("recovers", lambda row: row.requests_recovery, Look.WORD, drop=2, aside=True),
        Column("durable", lambda row: row.durable, Look.WORD, drop=2, aside=True),
        Column("description", lambda row: row.description, drop=1, aside=True),
    ),
    JobQuery,
    title="Jobs",
    live="schedule executions",
    menu="Schedule",
    key="j",
)

TRIGGERS: ListSpec[TriggerSummary] = ListSpec(
    "triggers",
    "trigger",
    "The triggers, with their schedules, states and fire times.",
    (
        Column("trigger", lambda row: row.key, Look.NAME, readable=28, classes="name"),
        Column("job", lambda row: row.job, Look.NAME, drop=8, classes="wide name"),
        Column("state", lambda row: row.state, Look.STATE, classes="state"),
        Column("schedule", lambda row: row.schedule, classes="schedule"),
        *_runs(aside=True),
        Column("next", lambda row: row.next_fire_time, Look.INSTANT, "Next fire", classes=""),
        Column("previous", lambda row: row.previous_fire_time, Look.INSTANT, "Last fire", drop=5, classes="wide less"),
        Column("zone", lambda row: row.zone, drop=7, aside=True),
        Column("calendar", lambda row: row.calendar, drop=6, aside=True),
        Column("fired", lambda row: row.times_triggered, Look.NUMBER, drop=4, aside=True),
        Column("priority", lambda row: row.priority, Look.NUMBER, drop=1, aside=True),
        Column("kind", lambda row: row.kind, drop=2, aside=True),
        Column("misfire", lambda row: row.misfire, drop=3, aside=True),
        Column("words", lambda row: row.words, extra=True, aside=True),
        Column("type", lambda row: row.job_type, Look.NAME, extra=True, aside=True),
        Column("late", lambda row: row.late, Look.SPAN, extra=True, aside=True),
        Column("paused at", lambda row: row.paused_at, Look.INSTANT, extra=True, aside=True),
        Column("paused by", lambda row: row.paused_by, extra=True, aside=True),
        Column("pause reason", lambda row: row.pause_reason, extra=True, aside=True),
        Column("paused until", lambda row: row.paused_until, Look.INSTANT, extra=True, aside=True),
        Column("description", lambda row: row.description, extra=True, aside=True),
        Column("waits for", lambda row: row.waits_for, drop=8, aside=True),
        Column("error", lambda row: row.error, drop=9, aside=True),
    ),
    TriggerQuery,
    title="Triggers",
    menu="Schedule",
    key="t",
)

CALENDARS: ListSpec[CalendarSummary] = ListSpec(
    "calendars",
    "calendar",
    "The calendars.",
    (
        Column("calendar", lambda row: row.name, Look.NAME, readable=28, classes=""),
        Column("kind", lambda row: row.kind, Look.WORD, classes=""),
        Column("zone", lambda row: row.zone, label="Time zone", drop=2, classes=""),
        Column("description", lambda row: row.unreadable or row.description),
        Column("revision", lambda row: row.revision, Look.NUMBER, drop=1, aside=True),
    ),
    title="Calendars",
    menu="Schedule",
    key="c",
    intro="Times at which the triggers that use them do not fire.",
    more="`quartzpy show calendar NAME` has the days that one of them excludes.",
)

WINDOWS: ListSpec[WindowView] = ListSpec(
    "windows",
    "maintenance window",
    "The maintenance windows, each with its present or next time.",
    (
        Column("window", lambda row: row.name, Look.NAME, readable=20, classes="name"),
        Column("state", lambda row: "PAUSED" if row.is_open else None, Look.STATE, aside=True),
        Column("from", lambda row: row.starts_at, Look.INSTANT, classes=""),
        Column("until", lambda row: row.ends_at, Look.INSTANT, classes=""),
        Column("pauses", lambda row: row.what, Look.NAME, classes=""),
        Column("schedule", lambda row: row.schedule, drop=3, aside=True),
        Column("zone", lambda row: row.zone, drop=4, aside=True),
        Column("missed", lambda row: row.missed, Look.WORD, drop=5, aside=True),
        Column("reason", lambda row: row.reason, drop=2),
        Column("by", lambda row: row.by, extra=True, aside=True),
        Column("changed at", lambda row: row.changed_at, Look.INSTANT, extra=True, aside=True),
        Column("words", lambda row: row.words, label="Schedule in words", extra=True),
    ),
    more="`quartzpy window set` stores them, and `quartzpy window delete` removes them.",
    title="Maintenance windows",
    intro="Times in which a part of the schedule is paused, once or again and again.",
    menu="Schedule",
    key="d",
    template="windows.html",
)
