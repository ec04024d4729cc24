"""The command line: `quartzpy COMMAND`. Commands import what they need when they run."""

from __future__ import annotations

import os
import sys

import click

from quartzpy.cli.cron import cron
from quartzpy.cli.db import db
from quartzpy.cli.demo import demo
from quartzpy.cli.doctor import doctor
from quartzpy.cli.exits import status_of
from quartzpy.cli.node import node
from quartzpy.cli.tables import jobs, nodes, running, triggers, why
from quartzpy.errors import QuartzpyError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="quartzpy")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def cli(debug: bool) -> None:
    """A clustered job scheduler over PostgreSQL."""


for command in (demo, node, db, doctor, cron, triggers, jobs, nodes, running, why):
    cli.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Run a command; errors of ours are one line on standard error, and an exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        cli.main(args=given, prog_name="quartzpy", standalone_mode=True)
    except QuartzpyError as error:
        if "--debug" in given:
            raise
        click.echo(f"quartzpy: {type(error).__name__}: {error}", err=True)
        sys.exit(status_of(error))
    except BrokenPipeError:
        # The reader of a pipe has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
