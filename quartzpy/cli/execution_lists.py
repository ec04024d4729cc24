"""`quartzpy executions`, `running`, `misfires`, `upcoming` and `log`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.drawing import Column
from quartzpy.cli.filters import EXECUTION_FILTERS, MISFIRE_FILTERS, Filters
from quartzpy.cli.formatter import Sentence, instant
from quartzpy.cli.keys import execution_id
from quartzpy.cli.listing import Answer, Listing, Options, listing_options, run_listing
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.scheduler.typed_text import FUTURE
from quartzpy.texts import number_of, visible

if TYPE_CHECKING:
    from quartzpy.operations.incidents.late_triggers import LateTrigger
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.views.agenda import PlannedRun
    from quartzpy.operations.views.executions import ExecutionSummary, MisfireView, RunningView


EXECUTIONS: Listing[ExecutionSummary] = Listing(
    (
        Column("id", lambda row: row.fire_id, rigid=True, right=True),
        Column("job", lambda row: row.job, middle=True, readable=28),
        Column("state", lambda row: row.state, rigid=True, is_state=True),
        Column("scheduled", lambda row: row.scheduled_fire_time, rigid=True),
        Column("waited", lambda row: row.waited, drop=7, rigid=True, right=True),
        Column("ran", lambda row: row.ran, drop=9, rigid=True, right=True),
        Column("attempt", lambda row: row.attempt, drop=4, rigid=True, right=True),
        Column("node", lambda row: row.node, drop=6, middle=True),
        Column("trigger", lambda row: row.trigger, drop=3, middle=True),
        Column("fired at", lambda row: row.fire_time, extra=True, rigid=True),
        Column("started", lambda row: row.started_at, extra=True, rigid=True),
        Column("ended", lambda row: row.ended_at, drop=2, rigid=True),
        Column("queued", lambda row: row.queued, extra=True, rigid=True, right=True),
        Column("retry at", lambda row: row.retry_at, drop=1, rigid=True),
        Column("recovering", lambda row: row.recovering, extra=True, rigid=True),
        Column("by hand by", lambda row: row.triggered_by, drop=5),
        Column("type", lambda row: row.job_type, extra=True, middle=True),
        Column("error", lambda row: row.error, drop=8),
    ),
    ("scheduled", "fired at", "started", "ended", "retry at"),
)

RUNNING: Listing[RunningView] = Listing(
    (
        Column("id", lambda row: row.fire_id, rigid=True, right=True),
        Column("job", lambda row: row.job, middle=True, readable=28),
        Column("state", lambda row: row.state, rigid=True, is_state=True),
        Column("for", lambda row: row.elapsed, rigid=True, right=True),
        Column("progress", lambda row: None if row.progress is None else f"{row.progress:.0%}", rigid=True, right=True),
        Column("message", lambda row: row.progress_message, drop=5),
        Column("node", lambda row: row.node, drop=7, middle=True),
        Column("scheduled", lambda row: row.scheduled_fire_time, drop=6, rigid=True),
        Column("fired at", lambda row: row.fire_time, drop=2, rigid=True),
        Column("attempt", lambda row: row.attempt, drop=3, rigid=True, right=True),
        Column("trigger", lambda row: row.trigger, drop=4, middle=True),
        Column("by hand by", lambda row: row.triggered_by, drop=2),
        Column("cancelling", lambda row: row.cancel_requested, drop=1, rigid=True),
        Column("recovering", lambda row: row.recovering, extra=True, rigid=True),
    ),
    ("scheduled", "fired at"),
)

MISFIRES: Listing[MisfireView] = Listing(
    (
        Column("id", lambda row: row.misfire_id, drop=3, rigid=True, right=True),
        Column("trigger", lambda row: row.trigger, middle=True, readable=28),
        Column("scheduled", lambda row: row.scheduled_fire_time, rigid=True),
        Column("late", lambda row: row.late, rigid=True, right=True),
        Column("action", lambda row: row.action, rigid=True, is_state=True),
        Column("instruction", lambda row: row.instruction, drop=6),
        Column("missed", lambda row: _missed(row), drop=7, rigid=True, right=True),
        Column("caught up", lambda row: row.caught_up, drop=2, rigid=True, right=True),
        Column("next", lambda row: row.next_fire_time, drop=5, rigid=True),
        Column("job", lambda row: row.job, drop=4, middle=True),
        Column("node", lambda row: row.node, drop=1, middle=True),
        Column("handled at", lambda row: row.handled_at, extra=True, rigid=True),
    ),
    ("scheduled", "next", "handled at"),
)

UPCOMING: Listing[PlannedRun] = Listing(
    (
        Column("at", lambda row: row.at, rigid=True),
        Column("trigger", lambda row: row.trigger, middle=True, readable=28),
        Column("job", lambda row: row.job, drop=3, middle=True),
        Column("local", lambda row: row.local, drop=2, rigid=True),
        Column("zone", lambda row: row.zone, drop=2),
        Column("clock change", lambda row: row.clock_change, drop=4),
    ),
    ("at",),
)

LATE: Listing[LateTrigger] = Listing(
    (
        Column("trigger", lambda row: row.trigger, middle=True, readable=28),
        Column("late", lambda row: row.late, rigid=True, right=True),
        Column("due at", lambda row: row.due_at, drop=3, rigid=True),
        Column("job", lambda row: row.job, drop=2, middle=True),
        Column("why", lambda row: Sentence(" ".join(row.why)), drop=1),
    ),
    ("due at",),
)


def _missed(misfire: MisfireView) -> str:
    return f"{len(misfire.missed):,}{'+' if misfire.has_more else ''}"


@click.command()
@listing_options
@EXECUTION_FILTERS.options
def executions(target: Target, options: Options, **values: Any) -> None:
    """List executions, the latest first.

    By default they are those that have ended; another state (SCHEDULED, ENQUEUED, PROCESSING) must be asked for.
    """
    filters = Filters(EXECUTION_FILTERS, values, options.formatter)

    def read(operations: Operations) -> Answer[ExecutionSummary]:
        page = operations.executions(limit=options.limit, after=options.after, **filters.values(operations))
        return Answer(page, "" if page else filters.nothing(operations))

    run_listing(target, options, EXECUTIONS, read)


@click.command()
@listing_options
@MISFIRE_FILTERS.options
def misfires(target: Target, options: Options, **values: Any) -> None:
    """List the misfires that the cluster has handled, the latest first."""
    filters = Filters(MISFIRE_FILTERS, values, options.formatter)

    def read(operations: Operations) -> Answer[MisfireView]:
        page = operations.misfires(limit=options.limit, after=options.after, **filters.values(operations))
        return Answer(page, "" if page else filters.nothing(operations))

    run_listing(target, options, MISFIRES, read)


@click.command()
@listing_options
@click.option("--node", help="Only those of this node.")
def running(target: Target, options: Options, node: str | None) -> None:
    """List what runs now, with nodes, times and progress.

    ENQUEUED are fires whose instants are a moment away, PROCESSING are running executions.
    """

    def read(operations: Operations) -> Answer[RunningView]:
        records = [row for row in operations.running() if node is None or row.node == node]
        nodes = len(operations.scheduler.nodes().nodes)
        where = f"node {node}" if node is not None else f"any of {number_of(nodes, 'node')}"
        empty = f"nothing runs on {where}" if nodes or node else "nothing runs: there is no node"
        return Answer(records[: options.limit], empty)

    run_listing(target, options, RUNNING, read)


@click.command()
@listing_options
@click.option(
    "--until", help="The end of the list: an instant, or a length of time from now.", default="1h", show_default=True
)
def upcoming(target: Target, options: Options, until: str) -> None:
    """List the fires to come, the soonest first.

    Several fires of one trigger are included. LOCAL is the wall-clock time in the zone of the schedule.
    """

    def read(operations: Operations) -> Answer[PlannedRun]:
        end = instant(until, "--until", options.formatter, operations.now(), direction=FUTURE)
        records = operations.upcoming(until=end, limit=options.limit)
        return Answer(records, f"nothing will fire before {options.formatter.text(end)}")

    run_listing(target, options, UPCOMING, read)


@click.command()
@scheduler_options
@click.argument("fire_id")
def log(target: Target, fire_id: str) -> None:
    """Print the log lines of the execution FIRE_ID.

    They are kept of jobs with `capture_logs`. Of a running execution, these are the last lines, which may be two
    seconds old. Control characters are written as escapes.
    """
    with target.client() as scheduler:
        text = scheduler.execution_log(execution_id(fire_id))
    if text is None:
        click.echo(f"execution {fire_id} has no log lines", err=True)
    else:
        click.echo("\n".join(map(visible, text.split("\n"))))
