"""`quartzpy log`: the captured log lines of an execution."""

from __future__ import annotations

import click

from quartzpy.cli.keys import execution_id
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.texts import visible


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
