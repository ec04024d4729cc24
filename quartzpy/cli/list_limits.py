"""`quartzpy calendars`, `groups`, `limits` and `locks`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from quartzpy.cli.layout import Column
from quartzpy.cli.listing import Answer, Listing, Options, listing_options, run_listing
from quartzpy.cli.target import Target
from quartzpy.texts import numbered

if TYPE_CHECKING:
    from quartzpy.operations.calendars import CalendarSummary
    from quartzpy.operations.groups import Groups, GroupView, Limits
    from quartzpy.operations.operations import Operations
    from quartzpy.store.postgresql.admin.records import LockRecord


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
    text = options.cells.text
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
