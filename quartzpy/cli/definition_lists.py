"""`quartzpy jobs`, `triggers`, `calendars`, `groups`, `limits` and `locks`."""

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
    from quartzpy.operations.calendars import CalendarSummary
    from quartzpy.operations.groups import Groups, GroupView
    from quartzpy.operations.jobs import JobSummary
    from quartzpy.operations.limits import Limits
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.triggers import TriggerSummary
    from quartzpy.store.protocol import LockRecord


START_A_NODE = "no node is running: start one with `quartzpy node --app MODULE:SCHEDULER`"

TRIGGERS: Listing[TriggerSummary] = Listing(
    (
        Column("trigger", lambda one: one.key, middle=True, readable=28),
        Column("state", lambda one: one.state, rigid=True, is_state=True),
        Column("next", lambda one: one.next_fire_time, rigid=True),
        Column("schedule", lambda one: one.schedule),
        Column("zone", lambda one: one.zone, drop=7),
        Column("job", lambda one: one.job, drop=8, middle=True),
        Column("calendar", lambda one: one.calendar, drop=6),
        Column("previous", lambda one: one.previous_fire_time, drop=5, rigid=True),
        Column("fired", lambda one: one.times_triggered, drop=4, rigid=True, right=True),
        Column("priority", lambda one: one.priority, drop=1, rigid=True, right=True),
        Column("kind", lambda one: one.kind, drop=2),
        Column("misfire", lambda one: one.misfire, drop=3),
        Column("words", lambda one: one.words, extra=True),
        Column("type", lambda one: one.job_type, extra=True, middle=True),
        Column("late", lambda one: one.late, extra=True, rigid=True, right=True),
        Column("paused at", lambda one: one.paused_at, extra=True, rigid=True),
        Column("paused by", lambda one: one.paused_by, extra=True),
        Column("pause reason", lambda one: one.pause_reason, extra=True),
        Column("description", lambda one: one.description, extra=True),
        Column("error", lambda one: one.error, drop=9),
    ),
    ("next", "previous", "paused at"),
)

JOBS: Listing[JobSummary] = Listing(
    (
        Column("job", lambda one: one.key, middle=True, readable=28),
        Column("mode", lambda one: one.mode, rigid=True, is_state=True),
        Column("triggers", lambda one: str(one.triggers), rigid=True, right=True),
        Column("next", lambda one: one.next_fire_time, drop=8, rigid=True),
        Column("previous", lambda one: one.previous_fire_time, drop=6, rigid=True),
        Column("type", lambda one: one.job_type, drop=7, middle=True),
        Column("display name", lambda one: one.display_name, drop=5),
        Column("limit", lambda one: one.max_concurrent, drop=4, rigid=True, right=True),
        Column("timeout", lambda one: one.timeout, drop=3, rigid=True, right=True),
        Column("recovers", lambda one: one.requests_recovery, drop=2, rigid=True),
        Column("durable", lambda one: one.durable, drop=2, rigid=True),
        Column("description", lambda one: one.description, drop=1),
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
def triggers(target: Target, options: Options, order: str, **given: Any) -> None:
    """List triggers with their schedules, states and fire times."""
    filters = Filters(TRIGGER_FILTERS, given, options.formatter)

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
    broken = [one.key for one in page if one.state is TriggerState.ERROR]
    if broken:
        count = numbered(len(broken), "trigger is", "triggers are")
        sentences.append(f"{count} in ERROR: `quartzpy why {broken[0]}` says why")
    late = sorted(((one.late, one.key) for one in page if one.late is not None), reverse=True)
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
def jobs(target: Target, options: Options, **given: Any) -> None:
    """List jobs with their types and options."""
    filters = Filters(JOB_FILTERS, given, options.formatter)

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
        Column("calendar", lambda one: one.name, middle=True, readable=28),
        Column("kind", lambda one: one.kind, rigid=True),
        Column("zone", lambda one: one.zone, drop=2),
        Column("description", lambda one: one.unreadable or one.description),
        Column("revision", lambda one: one.revision, drop=1, rigid=True, right=True),
    ),
)

GROUPS: Listing[_Group] = Listing(
    (
        Column("group", lambda one: one.group.name, middle=True, readable=28),
        Column("of", lambda one: one.kind, rigid=True),
        Column("count", lambda one: str(one.group.count), rigid=True, right=True),
        Column("state", lambda one: "PAUSED" if one.group.is_paused else None, rigid=True, is_state=True),
        Column("paused", lambda one: str(one.group.paused), drop=2, rigid=True, right=True),
        Column("in error", lambda one: str(one.group.in_error), drop=1, rigid=True, right=True),
    ),
)

LIMITS: Listing[_Limit] = Listing(
    (
        Column("limit of", lambda one: one.kind, rigid=True),
        Column("subject", lambda one: one.subject, middle=True, readable=28),
        Column("for", lambda one: one.of, drop=2, middle=True),
        Column("limit", lambda one: one.limit, rigid=True, right=True),
        Column("running", lambda one: one.running, rigid=True, right=True),
        Column("headroom", lambda one: one.headroom, rigid=True, right=True),
        Column("note", lambda one: one.note, drop=1),
    ),
)

LOCKS: Listing[LockRecord] = Listing(
    (
        Column("table", lambda one: one.table, middle=True),
        Column("mode", lambda one: one.mode, drop=3),
        Column("granted", lambda one: one.granted, rigid=True),
        Column("pid", lambda one: one.pid, rigid=True, right=True),
        Column("blocked by", lambda one: one.blocked_by, rigid=True),
        Column("since", lambda one: one.since, drop=4, rigid=True),
        Column("application", lambda one: one.application, drop=2, middle=True),
        Column("state", lambda one: one.state, drop=1),
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
        found = operations.calendars()
        return Answer(found[: options.limit], f"the scheduler {operations.scheduler.name!r} has no calendars")

    run_listing(target, options, CALENDARS, read)


@click.command()
@listing_options
def groups(target: Target, options: Options) -> None:
    """List the groups of triggers and jobs with their pauses."""

    def read(operations: Operations) -> Answer[_Group]:
        found = operations.groups()
        rows = [
            *(_Group("triggers", one) for one in found.triggers),
            *(_Group("jobs", one) for one in found.jobs),
        ]
        empty = f"the scheduler {operations.scheduler.name!r} has no groups, because it has no jobs"
        return Answer(rows[: options.limit], empty, _pauses(found), whole=found)

    run_listing(target, options, GROUPS, read)


def _pauses(found: Groups) -> str | None:
    sentences = []
    if found.all_paused:
        sentences.append("everything is paused: `quartzpy resume everything` ends that")
    if found.manual:
        sentences.append("the manual mode is on: only runs by hand, retries and recoveries fire")
    if found.has_more:
        sentences.append("there are more groups than these")
    return "\n".join(sentences) or None


@click.command()
@listing_options
def limits(target: Target, options: Options) -> None:
    """List the limits that are in use, with their headroom.

    They are those of jobs, of rates, of execution groups, and of the worker pools of the nodes.
    """

    def read(operations: Operations) -> Answer[_Limit]:
        found = operations.limits()
        empty = "no limit is in use, and no node is running"
        return Answer(_limits(found, options)[: options.limit], empty, whole=found)

    run_listing(target, options, LIMITS, read)


def _limits(found: Limits, options: Options) -> list[_Limit]:
    text = options.formatter.text
    rows = [
        _Limit("job", str(one.job), one.concurrency_key or None, str(one.limit), one.running, one.headroom, note)
        for one in found.jobs
        for note in [numbered(one.blocked, "trigger waits", "triggers wait") if one.blocked else None]
    ]
    rows += [
        _Limit(
            *("rate", str(one.job), one.concurrency_key or None, one.limit, None, one.headroom),
            note=None if one.headroom else f"the next fire conforms at {text(one.next_at)}",
        )
        for one in found.rates
    ]
    rows += [_Limit("pool", one.executor, one.node, str(one.workers), one.busy, one.headroom) for one in found.pools]
    rows += [_Limit("group", one.group, one.node, str(one.limit), one.running, one.headroom) for one in found.groups]
    return rows


@click.command()
@listing_options
def locks(target: Target, options: Options) -> None:
    """List the locks on the tables, and who waits for them.

    They are those that conflict with the locks of others.
    """

    def read(operations: Operations) -> Answer[LockRecord]:
        found = operations.locks()
        return Answer(found[: options.limit], "no session holds a lock that conflicts with others, or waits for one")

    run_listing(target, options, LOCKS, read)
