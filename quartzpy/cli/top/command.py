"""`quartzpy top`: reads snapshots on a thread, draws them, and does what the keys say."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from quartzpy.cli.cells import LOCAL, Cells
from quartzpy.cli.exits import USAGE
from quartzpy.cli.listing import suppressed_interrupt
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import QuartzpyError, SettingsError
from quartzpy.instants import as_span
from quartzpy.texts import reason

if TYPE_CHECKING:
    from quartzpy.cli.top.model import Snapshot
    from quartzpy.cli.top.terminal import Terminal
    from quartzpy.cli.top.view import Details, Proposal, View
    from quartzpy.operations.operations import Operations

_TICK = 1.0
_REASON = "quartzpy top"


@click.command()
@scheduler_options
@click.option("--every", default="2s", show_default=True, help="The time between two readings of the database.")
@click.option("--zone", default=LOCAL, help="The time zone of the output. [default: that of this machine]")
def top(target: Target, every: str, zone: str) -> None:
    """Show the cluster live, and act on it.

    It shows nodes with their load, and what runs, is late, failed, comes next, and is wrong.

    The key ? lists the keys. Actions ask for confirmation and are recorded in the audit log.
    """
    period = as_span(every, "--every", SettingsError, above_zero=True).total_seconds()
    cells = Cells(zone)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo(
            "quartzpy: top needs a terminal; `quartzpy running --watch` and `quartzpy tail` write to pipes", err=True
        )
        sys.exit(USAGE)
    if os.environ.get("TERM", "dumb") == "dumb":
        click.echo("quartzpy: top needs a terminal that can move its cursor (TERM is not set, or dumb)", err=True)
        sys.exit(USAGE)
    from quartzpy.cli.top.terminal import Terminal

    with target.operations() as operations:
        # An error of the first connection is more readable before the screen is taken.
        operations.now()
        with suppressed_interrupt(), Terminal() as terminal:
            _Top(operations, terminal, cells, period).run()


class _Top:
    def __init__(self, operations: Operations, terminal: Terminal, cells: Cells, period: float) -> None:
        from quartzpy.cli.top.model import Snapshot
        from quartzpy.cli.top.view import View

        self._operations = operations
        self._terminal = terminal
        self._cells = cells
        self._period = period
        self._snapshot: Snapshot = Snapshot()
        self._view: View = View()
        self._closed = threading.Event()
        self._read_now = threading.Event()

    def run(self) -> None:
        reader = threading.Thread(target=self._read, name="top reader", daemon=True)
        reader.start()
        try:
            while not self._view.quit:
                self._draw()
                for key in self._terminal.wait(_TICK):
                    self._press(key)
        except EOFError:
            return
        finally:
            self._closed.set()
            self._read_now.set()
            reader.join(5)

    def _draw(self) -> None:
        from quartzpy.cli.top.frame import draw_frame

        width, height = self._terminal.size
        name = self._operations.scheduler.name
        self._terminal.show(draw_frame(self._snapshot, self._view, self._cells, name, width, height))

    def _press(self, key: str) -> None:
        from quartzpy.cli.top.frame import page_of
        from quartzpy.cli.top.view import Details, Proposal

        asked = self._view.press(key, self._snapshot, page_of(self._terminal.size[1]))
        match asked:
            case Proposal():
                self._view.message = f"{asked.question.rstrip('?')} ..."
                self._apart(lambda: self._act(asked))
            case Details():
                self._view.message = "reading ..."
                self._apart(lambda: self._show(asked))
        if key == " " and not self._view.frozen:
            self._read_now.set()

    def _apart(self, work: Callable[[], None]) -> None:
        """Do work that may wait for the database, while the keys still work."""

        def run() -> None:
            try:
                work()
            except QuartzpyError as error:
                self._view.message = f"{type(error).__name__}: {reason(error)}"
            self._terminal.wake()

        threading.Thread(target=run, name="top action", daemon=True).start()

    def _act(self, proposal: Proposal) -> None:
        act = getattr(self._operations.actions, proposal.action)
        self._view.message = act(*proposal.subjects, **proposal.arguments, reason=_REASON).text
        self._read_now.set()

    def _show(self, details: Details) -> None:
        from quartzpy.cli.sheet import Sheet
        from quartzpy.cli.show import draw_execution, draw_trigger

        sheet = Sheet(self._cells, self._terminal.size[0])
        if details.kind == "execution":
            draw_execution(sheet, self._operations.execution(details.subject))
        elif details.kind == "incident":
            sheet.plain((details.subject.what, *details.subject.why))
        else:
            draw_trigger(sheet, self._operations.trigger(details.subject))
        self._view.message = ""
        self._view.text = str(sheet).split("\n")

    def _read(self) -> None:
        from quartzpy.cli.top.model import read

        while not self._closed.is_set():
            if not self._view.frozen:
                try:
                    self._snapshot = read(self._operations)
                except QuartzpyError as error:
                    self._snapshot = replace(self._snapshot, error=reason(error))
                self._terminal.wake()
            self._read_now.wait(self._period)
            self._read_now.clear()
