"""`quartzpy demo`: a demonstration of a cluster that loses a node and recovers."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING

import click

from quartzpy.cli.commands import NOT_OK
from quartzpy.errors import SettingsError
from quartzpy.installing import install_line
from quartzpy.instants import as_span

if TYPE_CHECKING:
    from quartzpy.demo.views import Audience


def chosen_audience(json_output: bool) -> Audience:
    """Return a view for standard output: JSON, plain lines, or a live screen on a terminal."""
    from quartzpy.demo.views import JsonLines, PlainLines

    if json_output:
        return JsonLines()
    if not sys.stdout.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        return PlainLines()
    try:
        from quartzpy.demo.screen import LiveScreen
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("rich"):
            raise
        click.echo(f"printing plain lines: the live screen needs {install_line('embedded')} (rich)", err=True)
        return PlainLines()
    return LiveScreen()


def interrupting(end_early: Callable[[], None]) -> Callable[[int, FrameType | None], None]:
    """Return a signal handler that ends the demo early; a second signal also skips the audit."""
    signals: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        if len(signals) > 1:
            raise KeyboardInterrupt
        end_early()

    return handler


@click.command()
@click.option("--duration", default="30s", show_default=True, help="The duration of the demo.")
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(1, 20), help="The number of node processes.")
@click.option(
    "--json", "json_output", is_flag=True, help="Print one JSON object per line; the last one is the summary."
)
@click.option("--keep", is_flag=True, help="Leave the database running at the end and print its URL.")
@click.option("--stop", is_flag=True, help="Only stop the database that --keep left running.")
@click.option("--url", "--dsn", "dsn", help="Use this database instead of an embedded PostgreSQL.")
def demo(duration: str, nodes: int, json_output: bool, keep: bool, stop: bool, dsn: str | None) -> None:
    """Run a real cluster on an embedded PostgreSQL, kill a node, and check the guarantees.

    On a terminal it shows a live screen with keys to kill or start a node, and to quit.
    Otherwise it prints one line per event. The exit status is 1 if a guarantee was broken.
    """
    from quartzpy.cli.keyboard import Keyboard
    from quartzpy.demo.cluster import stop_database
    from quartzpy.demo.stage import run_demo

    if stop:
        click.echo("stopped" if stop_database() else "no database of the demo is running")
        return
    seconds = f"{duration}s" if duration.isdigit() else duration
    length = as_span(seconds, "--duration", SettingsError)
    keys: SimpleQueue[str] = SimpleQueue()
    handler = interrupting(lambda: keys.put("q"))
    signal.signal(signal.SIGTERM, handler)
    signal.signal(signal.SIGINT, handler)
    with Keyboard(sys.stdin, keys.put):
        summary = run_demo(chosen_audience(json_output), keys, nodes=nodes, duration=length, dsn=dsn, keep=keep)
    if not summary.promises_kept:
        sys.exit(NOT_OK)
