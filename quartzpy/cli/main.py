"""The command line `quartzpy COMMAND`. Commands import their dependencies when they run, to start fast."""

from __future__ import annotations

import os
import sys

import click

from quartzpy.cli.changing import delete, reschedule, reset
from quartzpy.cli.completion import completion
from quartzpy.cli.config import config
from quartzpy.cli.cron import cron
from quartzpy.cli.dashboard import dashboard
from quartzpy.cli.db import db
from quartzpy.cli.definitions import apply, export, plan
from quartzpy.cli.demo import demo
from quartzpy.cli.doctor import doctor
from quartzpy.cli.exits import INTERNAL, INTERRUPTED, status_of
from quartzpy.cli.health import health
from quartzpy.cli.imports import import_
from quartzpy.cli.incidents import incidents
from quartzpy.cli.list_cluster import audit, nodes
from quartzpy.cli.list_definitions import jobs, triggers
from quartzpy.cli.list_executions import executions, misfires, running, upcoming
from quartzpy.cli.list_limits import calendars, groups, limits, locks
from quartzpy.cli.log import log
from quartzpy.cli.node import node
from quartzpy.cli.pausing import disable, drain, enable, pause, resume, resume_node, skip_next, standby
from quartzpy.cli.running import backfill, cancel, run_again, trigger
from quartzpy.cli.show import show, why
from quartzpy.cli.tail import tail
from quartzpy.cli.top.command import top
from quartzpy.errors import QuartzpyError
from quartzpy.texts import reason, visible

_SECTIONS: tuple[tuple[str, tuple[click.Command, ...]], ...] = (
    (
        "See",
        (
            *(
                top,
                incidents,
                jobs,
                triggers,
                executions,
                running,
                misfires,
                upcoming,
                nodes,
                calendars,
                groups,
                limits,
            ),
            *(locks, audit),
        ),
    ),
    ("Understand", (show, why, log, doctor, health, tail)),
    ("Run", (trigger, cancel, run_again, backfill)),
    ("Hold back", (pause, resume, skip_next, enable, disable)),
    ("Change", (reschedule, reset, delete)),
    ("Command a node", (drain, standby, resume_node)),
    ("Keep jobs in files", (plan, apply, export, import_)),
    ("Set up", (demo, node, dashboard, db, config, cron, completion)),
)


class _Sections(click.Group):
    """Lists its commands by what they are for."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in _SECTIONS:
            with formatter.section(title):
                formatter.write_dl([(str(one.name), one.get_short_help_str(limit=100)) for one in commands])


@click.group(cls=_Sections, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="quartzpy")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def cli(debug: bool) -> None:
    """A clustered job scheduler over PostgreSQL.

    The commands find the database by --url, QUARTZPY_URL, or url in the nearest quartzpy.toml.
    """


for _, commands in _SECTIONS:
    for command in commands:
        cli.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Run a command. Print an error as one line on standard error, and exit with its status."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given
    try:
        status = cli.main(args=given, prog_name="quartzpy", standalone_mode=False)
        # --help and --version return a status; commands return None.
        sys.exit(status if isinstance(status, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("quartzpy: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. Python must not fail when it flushes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except QuartzpyError as error:
        if debug:
            raise
        click.echo(f"quartzpy: {type(error).__name__}: {visible(' '.join(str(error).split()))}", err=True)
        sys.exit(status_of(error))
    except Exception as error:
        if debug:
            raise
        click.echo(
            f"quartzpy: {type(error).__name__}: {reason(error)} (quartzpy --debug shows the traceback)", err=True
        )
        sys.exit(INTERNAL)
