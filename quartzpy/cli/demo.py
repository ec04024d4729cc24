"""`quartzpy demo`: see a cluster work, lose a node, and recover."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import click

from quartzpy.cli.exits import PROMISE_BROKEN
from quartzpy.errors import SettingsError
from quartzpy.instants import as_span


@click.command()
@click.option("--duration", default="30s", show_default=True, help="How long the show lasts.")
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(1, 20), help="Node processes.")
@click.option("--json", "json_output", is_flag=True, help="One JSON object a line; the last is the summary.")
@click.option("--keep", is_flag=True, help="Leave the database running at the end and print its DSN.")
@click.option("--stop", is_flag=True, help="Only stop the database that --keep left.")
@click.option("--dsn", help="Use this database instead of an embedded PostgreSQL.")
def demo(duration: str, nodes: int, json_output: bool, keep: bool, stop: bool, dsn: str | None) -> None:
    """Run a real cluster on an embedded PostgreSQL, kill a node, and check the promises.

    Exit status 1 says that one of the promises was broken.
    """
    from quartzpy.demo.stage import Audience, Demo, stop_database
    from quartzpy.demo.views import JsonLines, LiveScreen, PlainLines

    if stop:
        click.echo("stopped" if stop_database() else "no database of the demo is running")
        return
    audience: Audience = JsonLines() if json_output else LiveScreen() if sys.stdout.isatty() else PlainLines()
    seconds = f"{duration}s" if duration.isdigit() else duration
    show = Demo(audience, nodes=nodes, duration=as_span(seconds, "--duration", SettingsError), dsn=dsn, keep=keep)

    def interrupt(number: int, frame: FrameType | None) -> None:
        show.interrupt()

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    if not show.run().promises_kept:
        sys.exit(PROMISE_BROKEN)
