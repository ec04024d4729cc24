"""`quartzpy top`: reads snapshots on a thread, draws them, and does what the keys say."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from quartzpy.cli.cells import LOCAL, Cells
from quartzpy.cli.exits import USAGE
from quartzpy.cli.listing import suppressed_interrupt
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import QuartzpyError, SettingsError
from quartzpy.instants import as_span
from quartzpy.texts import reason

if TYPE_CHECKING:
    from rich.live import Live

    from quartzpy.cli.keyboard import Keyboard
    from quartzpy.cli.top.view import Details, Proposal
    from quartzpy.operations.operations import Operations

_TICK = 1.0
_REASON = "quartzpy top"
_REDRAW = "redraw"
"""Stands in the queue of keys for a change of what is shown."""


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
        _refuse("top needs a terminal; `quartzpy running --watch` and `quartzpy tail` write to pipes")
    if os.environ.get("TERM", "dumb") == "dumb":
        _refuse("top needs a terminal that can move its cursor (TERM is not set, or dumb)")
    try:
        from rich.live import Live
    except ModuleNotFoundError:
        _refuse("top needs rich: pip install 'quartzpy[terminal]'")
    from quartzpy.cli.keyboard import Keyboard

    with target.operations() as operations:
        # An error of the first connection is more readable before the screen is taken.
        operations.now()
        keys: SimpleQueue[str] = SimpleQueue()
        with (
            suppressed_interrupt(),
            Keyboard(sys.stdin, keys.put) as keyboard,
            Live(screen=True, auto_refresh=False) as live,
        ):
            _Top(operations, live, keys, cells, period).run(keyboard)


def _refuse(text: str) -> NoReturn:
    click.echo(f"quartzpy: {text}", err=True)
    sys.exit(USAGE)


class _Top:
    def __init__(self, operations: Operations, live: Live, keys: SimpleQueue[str], cells: Cells, period: float) -> None:
        from quartzpy.cli.top.view import Snapshot, View

        self._operations = operations
        self._live = live
        self._keys = keys
        self._cells = cells
        self._period = period
        self._snapshot = Snapshot()
        self._view = View()
        self._closed = threading.Event()
        self._read_now = threading.Event()

    def run(self, keyboard: Keyboard) -> None:
        def terminated(number: int, frame: FrameType | None) -> None:
            raise SystemExit(128 + number)

        def suspended(number: int, frame: FrameType | None) -> None:
            self._live.stop()
            keyboard.give_back()
            os.kill(os.getpid(), signal.SIGSTOP)
            # The process goes on here after `fg`.
            keyboard.take()
            self._live.start()
            self._keys.put(_REDRAW)

        handlers = {signal.SIGTERM: terminated, signal.SIGHUP: terminated, signal.SIGTSTP: suspended}
        handlers[signal.SIGWINCH] = lambda number, frame: self._keys.put(_REDRAW)
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        reader = threading.Thread(target=self._read, name="top reader", daemon=True)
        reader.start()
        try:
            while not self._view.quit:
                self._draw()
                self._press()
        finally:
            self._closed.set()
            self._read_now.set()
            reader.join(5)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _draw(self) -> None:
        from quartzpy.cli.top.frame import draw_frame

        width, height = self._live.console.size
        name = self._operations.scheduler.name
        self._live.update(draw_frame(self._snapshot, self._view, self._cells, name, width, height), refresh=True)

    def _press(self) -> None:
        """Wait for a key, and obey it."""
        from quartzpy.cli.top.view import Details, Proposal

        try:
            key = self._keys.get(timeout=_TICK)
        except Empty:
            return
        if key == _REDRAW:
            return
        if not key:
            self._view.quit = True
            return
        asked = self._view.press(key, self._snapshot, max(1, self._live.console.height // 2))
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
            self._keys.put(_REDRAW)

        threading.Thread(target=run, name="top action", daemon=True).start()

    def _act(self, proposal: Proposal) -> None:
        act = getattr(self._operations.actions, proposal.action)
        self._view.message = act(*proposal.subjects, **proposal.arguments, reason=_REASON).text
        self._read_now.set()

    def _show(self, details: Details) -> None:
        from quartzpy.cli.sheet import Sheet
        from quartzpy.cli.show import draw_execution, draw_trigger

        sheet = Sheet(self._cells, self._live.console.width)
        if details.kind == "execution":
            draw_execution(sheet, self._operations.execution(details.subject))
        elif details.kind == "incident":
            sheet.plain((details.subject.what, *details.subject.why))
        else:
            draw_trigger(sheet, self._operations.trigger(details.subject))
        self._view.message = ""
        self._view.text = str(sheet).split("\n")

    def _read(self) -> None:
        from quartzpy.cli.top.view import Snapshot

        while not self._closed.is_set():
            if not self._view.frozen:
                try:
                    self._snapshot = Snapshot(self._operations.overview(), self._operations.running())
                except QuartzpyError as error:
                    self._snapshot = replace(self._snapshot, error=reason(error))
                self._keys.put(_REDRAW)
            self._read_now.wait(self._period)
            self._read_now.clear()
