"""`quartzpy jobs`, `triggers`, `calendars`, `groups`, `windows`, `limits` and `locks`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.drawing import Column
from quartzpy.cli.filters import JOB_FILTERS, TRIGGER_FILTERS, Filters, choice
from quartzpy.cli.formatter import short_span
from quartzpy.cli.listing import Answer, Listing, Options, listing_options, run_listing
from quartzpy.cli.target import Target
from quartzpy.states import TriggerState
from quartzpy.store.queries import TriggerOrder
from quartzpy.texts import numbered

if TYPE_CHECKING:
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.views.calendars import CalendarSummary
    from quartzpy.operations.views.jobs import JobSummary
    from quartzpy.operations.views.limits import Groups, GroupView, Limits
    from quartzpy.operations.views.maintenance_windows import WindowView
    from quartzpy.operations.views.triggers import TriggerSummary
    from quartzpy.store.postgresql.admin.records import LockRecord


START_A_NODE = "no node is running: start one with `quartzpy node --app MODULE:SCHEDULER`"

TRIGGERS: Listing[TriggerSummary] = Listing(
    (
        Column("trigger", lambda row: row.key, middle=True, readable=28),
        Column("state", lambda row: row.state, rigid=True, is_state=True),
        Column("next", lambda row: row.next_fire_time, rigid=True),
        Column("schedule", lambda row: row.schedule),
        Column("zone", lambda row: row.zone, drop=7),
        Column("job", lambda row: row.job, drop=8, middle=True),
        Column("calendar", lambda row: row.calendar, drop=6),
        Column("previous", lambda row: row.previous_fire_time, drop=5, rigid=True),
        Column("fired", lambda row: row.times_triggered, drop=4, rigid=True, right=True),
        Column("priority", lambda row: row.priority, drop=1, rigid=True, right=True),
        Column("kind", lambda row: row.kind, drop=2),
        Column("misfire", lambda row: row.misfire, drop=3),
        Column("words", lambda row: row.words, extra=True),
        Column("type", lambda row: row.job_type, extra=True, middle=True),
        Column("late", lambda row: row.late, extra=True, rigid=True, right=True),
        Column("paused at", lambda row: row.paused_at, extra=True, rigid=True),
        Column("paused by", lambda row: row.paused_by, extra=True),
        Column("pause reason", lambda row: row.pause_reason, extra=True),
        Column("paused until", lambda row: row.paused_until, extra=True, rigid=True),
        Column("description", lambda row: row.description, extra=True),
        Column("waits for", lambda row: row.waits_for, drop=8),
        Column("error", lambda row: row.error, drop=9),
    ),
    ("next", "previous", "paused at"),
)

JOBS: Listing[JobSummary] = Listing(
    (
        Column("job", lambda row: row.key, middle=True, readable=28),
        Column("mode", lambda row: row.mode, rigid=True, is_state=True),
        Column("triggers", lambda row: str(row.triggers), rigid=True, right=True),
        Column("next", lambda row: row.next_fire_time, drop=8, rigid=True),
        Column("previous", lambda row: row.previous_fire_time, drop=6, rigid=True),
        Column("waits for", lambda row: row.waits_for, drop=7),
        Column("type", lambda row: row.job_type, drop=7, middle=True),
        Column("display name", lambda row: row.display_name, drop=5),
        Column("limit", lambda row: row.max_concurrent, drop=4, rigid=True, right=True),
        Column("timeout", lambda row: row.timeout, drop=3, rigid=True, right=True),
        Column("recovers", lambda row: row.requests_recovery, drop=2, rigid=True),
        Column("durable", lambda row: row.durable, drop=2, rigid=True),
        Column("description", lambda row: row.description, drop=1),
    ),
    ("next", "previous"),
)


@click.command()
@listing_options
@TRIGGER_FILTERS.options
@click.option(
    "--order",
    type=choice(TriggerOrder),
    default=str(TriggerOrder.KEY),
    show_default=True,
    help="key reads only the triggers of the page, next_fire_time all that match.",
)
def triggers(target: Target, options: Options, order: str, **values: Any) -> None:
    """List triggers with their schedules, states and fire times."""
    filters = Filters(TRIGGER_FILTERS, values, options.formatter)

    def read(operations: Operations) -> Answer[TriggerSummary]:
        page = operations.triggers(
            limit=options.limit, after=options.after, order_by=order, **filters.values(operations)
        )
        empty = "" if page else filters.nothing(operations)
        return Answer(page, empty, None if options.json_output else _warnings(operations, page))

    run_listing(target, options, TRIGGERS, read)


def _warnings(operations: Operations, page: Sequence[TriggerSummary]) -> str | None:
    """Return what is wrong with triggers of a page: those in ERROR, and those that are overdue."""
    sentences = []
    broken = [row.key for row in page if row.state is TriggerState.ERROR]
    if broken:
        count = numbered(len(broken), "trigger is", "triggers are")
        sentences.append(f"{count} in ERROR: `quartzpy why {broken[0]}` says why")
    late = sorted(((row.late, row.key) for row in page if row.late is not None), reverse=True)
    if late:
        span, key = late[0]
        count = numbered(len(late), "trigger is", "triggers are")
        overdue = f"{count} overdue, {key} for {short_span(span)}"
        is_running = bool(operations.scheduler.nodes().nodes)
        sentences.append(
            f"{overdue}: `quartzpy why {key}` says why" if is_running else f"{overdue}, and {START_A_NODE}"
        )
    return "\n".join(sentences) or None


@click.command()
@listing_options
@JOB_FILTERS.options
def jobs(target: Target, options: Options, **values: Any) -> None:
    """List jobs with their types and options."""
    filters = Filters(JOB_FILTERS, values, options.formatter)

    def read(operations: Operations) -> Answer[JobSummary]:
        page = operations.jobs(limit=options.limit, after=options.after, **filters.values(operations))
        return Answer(page, "" if page else filters.nothing(operations))

    run_listing(target, options, JOBS, read)


@dataclass(frozen=True, slots=True)
class _Group:
    kind: str
    group: GroupView


@dataclass(frozen=True, slots=True)
class _Limit:
    """A limit of any kind, as a row."""

    kind: str
    subject: str
    of: str | None
    limit: str
    running: int | None
    headroom: int | None
    note: str | None = None


CALENDARS: Listing[CalendarSummary] = Listing(
    (
        Column("calendar", lambda row: row.name, middle=True, readable=28),
        Column("kind", lambda row: row.kind, rigid=True),
        Column("zone", lambda row: row.zone, drop=2),
        Column("description", lambda row: row.unreadable or row.description),
        Column("revision", lambda row: row.revision, drop=1, rigid=True, right=True),
    ),
)

GROUPS: Listing[_Group] = Listing(
    (
        Column("group", lambda row: row.group.name, middle=True, readable=28),
        Column("of", lambda row: row.kind, rigid=True),
        Column("count", lambda row: str(row.group.count), rigid=True, right=True),
        Column("state", lambda row: "PAUSED" if row.group.is_paused else None, rigid=True, is_state=True),
        Column("until", lambda row: row.group.paused_until, drop=3, rigid=True),
        Column("paused", lambda row: str(row.group.paused), drop=2, rigid=True, right=True),
        Column("in error", lambda row: str(row.group.in_error), drop=1, rigid=True, right=True),
    ),
)

WINDOWS: Listing[WindowView] = Listing(
    (
        Column("window", lambda row: row.name, middle=True, readable=20),
        Column("state", lambda row: "PAUSED" if row.is_open else None, rigid=True, is_state=True),
        Column("from", lambda row: row.starts_at, rigid=True),
        Column("until", lambda row: row.ends_at, rigid=True),
        Column("pauses", lambda row: row.what, middle=True),
        Column("schedule", lambda row: row.schedule, drop=3),
        Column("zone", lambda row: row.zone, drop=4),
        Column("missed", lambda row: row.missed, drop=5, rigid=True),
        Column("reason", lambda row: row.reason, drop=2),
        Column("by", lambda row: row.by, extra=True),
        Column("changed at", lambda row: row.changed_at, extra=True, rigid=True),
        Column("words", lambda row: row.words, extra=True),
    ),
)

LIMITS: Listing[_Limit] = Listing(
    (
        Column("limit of", lambda row: row.kind, rigid=True),
        Column("subject", lambda row: row.subject, middle=True, readable=28),
        Column("for", lambda row: row.of, drop=2, middle=True),
        Column("limit", lambda row: row.limit, rigid=True, right=True),
        Column("running", lambda row: row.running, rigid=True, right=True),
        Column("headroom", lambda row: row.headroom, rigid=True, right=True),
        Column("note", lambda row: row.note, drop=1),
    ),
)

LOCKS: Listing[LockRecord] = Listing(
    (
        Column("table", lambda row: row.table, middle=True),
        Column("mode", lambda row: row.mode, drop=3),
        Column("granted", lambda row: row.granted, rigid=True),
        Column("pid", lambda row: row.pid, rigid=True, right=True),
        Column("blocked by", lambda row: row.blocked_by, rigid=True),
        Column("since", lambda row: row.since, drop=4, rigid=True),
        Column("application", lambda row: row.application, drop=2, middle=True),
        Column("state", lambda row: row.state, drop=1),
    ),
    ("since",),
)


@click.command()
@listing_options
def calendars(target: Target, options: Options) -> None:
    """List the calendars.

    `quartzpy show calendar NAME` has the days that one of them excludes.
    """

    def read(operations: Operations) -> Answer[CalendarSummary]:
        records = operations.calendars()
        return Answer(records[: options.limit], f"the scheduler {operations.scheduler.name!r} has no calendars")

    run_listing(target, options, CALENDARS, read)


@click.command()
@listing_options
def groups(target: Target, options: Options) -> None:
    """List the groups of triggers and jobs with their pauses."""

    def read(operations: Operations) -> Answer[_Group]:
        records = operations.groups()
        rows = [
            *(_Group("triggers", row) for row in records.triggers),
            *(_Group("jobs", row) for row in records.jobs),
        ]
        empty = f"the scheduler {operations.scheduler.name!r} has no groups, because it has no jobs"
        return Answer(rows[: options.limit], empty, _pauses(records), whole=records)

    run_listing(target, options, GROUPS, read)


@click.command()
@listing_options
def windows(target: Target, options: Options) -> None:
    """List the maintenance windows, each with its present or next time.

    `quartzpy set-window` stores them, and `quartzpy delete-window` removes them.
    """

    def read(operations: Operations) -> Answer[WindowView]:
        records = operations.windows()
        empty = f"the scheduler {operations.scheduler.name!r} has no maintenance windows"
        return Answer(records[: options.limit], empty)

    run_listing(target, options, WINDOWS, read)


def _pauses(records: Groups) -> str | None:
    sentences = []
    if records.all_paused:
        sentences.append("everything is paused: `quartzpy resume everything` ends that")
    if records.manual:
        sentences.append("the manual mode is on: only runs by hand, retries and recoveries fire")
    if records.has_more:
        sentences.append("there are more groups than these")
    return "\n".join(sentences) or None


@click.command()
@listing_options
def limits(target: Target, options: Options) -> None:
    """List the limits that are in use, with their headroom, and those that jobs share.

    They are those of jobs, of rates, of execution groups, and of the worker pools of the nodes; and those that jobs
    share, which `quartzpy set-limit` sets, in use or not.
    """

    def read(operations: Operations) -> Answer[_Limit]:
        records = operations.limits()
        empty = "no limit is in use, and no node is running"
        return Answer(_limits(records, options)[: options.limit], empty, whole=records)

    run_listing(target, options, LIMITS, read)


def _limits(records: Limits, options: Options) -> list[_Limit]:
    text = options.formatter.text
    rows = [
        _Limit("job", str(row.job), row.concurrency_key or None, str(row.limit), row.running, row.headroom, note)
        for row in records.jobs
        for note in [numbered(row.blocked, "trigger waits", "triggers wait") if row.blocked else None]
    ]
    for rate in records.rates:
        notes = _waiting(rate.waiting)
        notes += [] if rate.headroom else [f"the next fire conforms at {text(rate.next_at)}"]
        notes += [f"the last of them at {text(rate.queued_until)}"] if rate.queued_until else []
        rows.append(
            _Limit(
                *("rate", str(rate.job), rate.concurrency_key or None, rate.limit, None, rate.headroom),
                note="; ".join(notes) or None,
            )
        )
    for shared in records.shared:
        notes = _waiting(shared.waiting)
        notes += [f"the next fire conforms at {text(shared.next_at)}"] if shared.next_at else []
        notes += (
            [f"used by {', '.join(f'{job} ({number})' for job, number in shared.used_by)}"] if shared.used_by else []
        )
        rows.append(
            _Limit(
                *("shared", shared.name, None, shared.limit, shared.running, shared.headroom),
                note="; ".join(notes) or None,
            )
        )
    rows += [_Limit("pool", row.executor, row.node, str(row.workers), row.busy, row.headroom) for row in records.pools]
    rows += [_Limit("group", row.group, row.node, str(row.limit), row.running, row.headroom) for row in records.groups]
    return rows


def _waiting(number: int) -> list[str]:
    return [numbered(number, "trigger waits", "triggers wait")] if number else []


@click.command()
@listing_options
def locks(target: Target, options: Options) -> None:
    """List the locks on the tables, and who waits for them.

    They are those that conflict with the locks of others.
    """

    def read(operations: Operations) -> Answer[LockRecord]:
        records = operations.locks()
        return Answer(records[: options.limit], "no session holds a lock that conflicts with others, or waits for one")

    run_listing(target, options, LOCKS, read)
