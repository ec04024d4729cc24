"""`quartzpy groups` and `limits`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from quartzpy.cli.listing import Answer, Options, listing_options, run_listing
from quartzpy.cli.target import Target
from quartzpy.operations.lists.spec import Column, Look
from quartzpy.texts import numbered

if TYPE_CHECKING:
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.views.limits import Groups, GroupView, Limits


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


GROUPS: Sequence[Column[_Group]] = (
    Column("group", lambda row: row.group.name, Look.NAME, readable=28),
    Column("of", lambda row: row.kind, Look.WORD),
    Column("count", lambda row: str(row.group.count), Look.NUMBER),
    Column("state", lambda row: "PAUSED" if row.group.is_paused else None, Look.STATE),
    Column("until", lambda row: row.group.paused_until, Look.INSTANT, drop=3),
    Column("paused", lambda row: str(row.group.paused), Look.NUMBER, drop=2),
    Column("in error", lambda row: str(row.group.in_error), Look.NUMBER, drop=1),
)

LIMITS: Sequence[Column[_Limit]] = (
    Column("limit of", lambda row: row.kind, Look.WORD),
    Column("subject", lambda row: row.subject, Look.NAME, readable=28),
    Column("for", lambda row: row.of, Look.NAME, drop=2),
    Column("limit", lambda row: row.limit, Look.NUMBER),
    Column("running", lambda row: row.running, Look.NUMBER),
    Column("headroom", lambda row: row.headroom, Look.NUMBER),
    Column("note", lambda row: row.note, drop=1),
)


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
