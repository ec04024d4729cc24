"""`quartzpy running`, `upcoming` and `log`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quartzpy.cli.formatter import instant
from quartzpy.cli.keys import execution_id
from quartzpy.cli.listing import Answer, Options, listing_options, run_listing
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.operations.lists.history import RUNNING, UPCOMING
from quartzpy.scheduler.typed_text import FUTURE
from quartzpy.texts import number_of, visible

if TYPE_CHECKING:
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.views.agenda import PlannedRun
    from quartzpy.operations.views.executions import RunningView


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

    run_listing(target, options, RUNNING.columns, read)


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

    run_listing(target, options, UPCOMING.columns, read)


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
