"""`quartzpy top`: reads the cluster on a thread, shows it on the whole terminal, and does what the keys say."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import click

from quartzpy.cli.cluster import INCIDENTS, last_hour
from quartzpy.cli.drawing import DetailView, cell, draw
from quartzpy.cli.formatter import LOCAL, Formatter, faint, heading, styled
from quartzpy.cli.keyboard import Keyboard, ask_key
from quartzpy.cli.listing import chosen_columns, suppressed_interrupt, terminal_width
from quartzpy.cli.target import Target, scheduler_options
from quartzpy.errors import QuartzpyError, SettingsError
from quartzpy.installing import install_line
from quartzpy.instants import as_span
from quartzpy.operations.lists.cluster import NODES
from quartzpy.operations.lists.history import EXECUTIONS, LATE, RUNNING, UPCOMING
from quartzpy.operations.lists.spec import Column
from quartzpy.texts import numbered, reason, visible

if TYPE_CHECKING:
    from quartzpy.operations.operations import Operations
    from quartzpy.operations.overview import Overview

TABS: Sequence[tuple[str, str, Sequence[Column[Any]], str]] = (
    ("Running", "running", RUNNING.columns, "nothing runs"),
    ("Late", "late", LATE.columns, "no trigger is late"),
    ("Failed", "failed", EXECUTIONS.columns, "no execution has failed"),
    ("Next", "agenda", UPCOMING.columns, "nothing fires within the next hour"),
    ("Wrong", "incidents", INCIDENTS, "nothing is wrong"),
)
"""Of each table: its title, the attribute of the overview that has its rows, its columns, and the text without rows."""
_ACTIONS = {"c": "cancel", "a": "run_again", "t": "trigger", "p": "pause", "u": "resume", "n": "skip_next"}
_SUBJECTS = {"cancel": "fire_id", "run_again": "fire_id", "trigger": "job"}  # Of the other actions, it is the trigger.
_STEPS = {"down": 1, "j": 1, "up": -1, "k": -1, "home": -(10**9), "g": -(10**9), "end": 10**9, "G": 10**9}
_KEYS = "q quit  ? help  / filter  s sort  Enter why  c cancel  m mend  p pause"


@click.command()
@scheduler_options
@click.option("--every", default="2s", show_default=True, help="The time between two readings of the database.")
@click.option("--zone", default=LOCAL, help="The time zone of the output. [default: that of this machine]")
def top(target: Target, every: str, zone: str) -> None:
    """Show the cluster live: nodes with their load, and what runs, is late, failed, comes next, and is wrong.

    Actions ask for confirmation and are recorded in the audit log.

    \b
    1 2 3 4 5, Tab            running, late, failed, next, and what is wrong
    arrows, PgUp, End, j, k   select a row
    Enter, w                  show the row with all that is known, and why
    /, Esc                    show only rows with a text; show all
    s, r                      sort by the next column; reverse the order
    Space                     freeze the screen, or go on
    c, a                      cancel the running execution; run the failed one again
    t, p, u, n                run the job now; pause, resume, or skip the next fire of the trigger
    m, ?, q                   mend what is wrong by the remedy of the row; this help; quit
    """
    period = as_span(every, "--every", SettingsError, above_zero=True).total_seconds()
    formatter = Formatter(zone)
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        raise SettingsError("top needs a terminal that can move its cursor; `quartzpy tail` writes to pipes")
    with target.operations() as operations, suppressed_interrupt():
        # An error of the first connection is more readable before the screen is taken.
        operations.now()
        screen, closed = Screen(operations.scheduler.name, formatter), threading.Event()
        threading.Thread(target=_read, args=(operations, screen, period, closed), daemon=True).start()
        try:
            while (pressed := _watch(screen)) is not None:
                screen.message = _obey(operations, formatter, *pressed)
        finally:
            closed.set()


@dataclass
class Screen:
    """What was read of the cluster, and what the user has chosen to see of it."""

    name: str
    formatter: Formatter
    overview: Overview | None = None
    error: str | None = None
    """Why the last attempt to read the cluster failed."""
    tab: int = 0
    selected: dict[int, Any] = field(default_factory=dict)
    """The identity of the selected row of each tab."""
    order: dict[int, int] = field(default_factory=dict)
    """The column by which each tab is sorted, from 1; 0 is the order of the overview."""
    is_reversed: bool = False
    contains: str = ""
    is_typing: bool = False
    """True while the user types the text that rows must contain."""
    is_frozen: bool = False
    message: str = ""

    def rows(self) -> list[Any]:
        """Return the rows of the tab, in their order, of which a column contains the text."""
        _, attribute, columns, _ = TABS[self.tab]
        columns, sought = chosen_columns(columns, ()), self.contains.lower()
        rows = [
            row
            for row in getattr(self.overview, attribute, ())
            if any(sought in cell(column, row, self.formatter).lower() for column in columns)
        ]
        if order := self.order.get(self.tab):
            value = columns[order - 1].value
            rows.sort(key=lambda row: (value(row) is None, value(row)))
        return rows[::-1] if self.is_reversed else rows

    def position(self, rows: Sequence[Any]) -> int:
        """Return the index of the selected row; that of the first if the selected one has gone."""
        return next((n for n, row in enumerate(rows) if _identity(row) == self.selected.get(self.tab)), 0)

    def press(self, key: str, page: int = 10) -> Any | None:
        """Obey a key: a character, or a name such as "up". Return the selected row if the key is for it."""
        self.message = ""
        step = (_STEPS | {"pagedown": page, "pageup": -page}).get(key)
        match key:
            case "enter" | "escape" if self.is_typing:
                self.is_typing, self.contains = False, self.contains if key == "enter" else ""
            case _ if self.is_typing:
                typed = key if len(key) == 1 and key.isprintable() else ""
                self.contains = self.contains[:-1] if key == "backspace" else self.contains + typed
            case "1" | "2" | "3" | "4" | "5":
                self.tab = int(key) - 1
            case "tab" | "right" | "backtab" | "left":
                self.tab = (self.tab + (1 if key in ("tab", "right") else -1)) % len(TABS)
            case "s":
                columns = chosen_columns(TABS[self.tab][2], ())
                self.order[self.tab] = (self.order.get(self.tab, 0) + 1) % (len(columns) + 1)
            case "r":
                self.is_reversed = not self.is_reversed
            case "/":
                self.is_typing = True
            case "escape":
                self.contains = ""
            case " ":
                self.is_frozen = not self.is_frozen
            case "?" | "h":
                return key
            case _ if (step or key in ("enter", "w", "m", *_ACTIONS)) and (rows := self.rows()):
                row = rows[max(0, min(self.position(rows) + (step or 0), len(rows) - 1))]
                self.selected[self.tab] = _identity(row)
                return None if step else row
        return None

    def lines(self, width: int, height: int) -> list[str]:
        """Return the picture for a terminal of this size."""
        if width < 40 or height < 10:
            return [f"too small: {width}x{height}, 40x10 is needed"]
        overview = self.overview
        if overview is None:
            text = f"the database cannot be read: {visible(self.error)}" if self.error else "reading the database ..."
            lines = [self._title(), "", *textwrap.wrap(text, width)][: height - 1]
        else:
            lines = [self._title(), *self._incidents(overview)]
            lines += [*self._nodes(overview, width, height - len(lines) - 10), *last_hour(overview, width - 25)]
            lines = [*lines[: height - 6], self._tabs(overview)]  # The table has a heading and three rows at least.
            lines += self._table(width, height - len(lines) - 1)
        footer = f"/{visible(self.contains)}_" if self.is_typing else visible(self.message) or faint(_KEYS)
        return [*lines, *[""] * (height - len(lines) - 1), footer]

    def _title(self) -> str:
        words = [*["FROZEN"] * self.is_frozen, *["DATABASE UNAVAILABLE"] * bool(self.error)]
        words.append(f"quartzpy top: {visible(self.name)}")
        if self.overview is not None:
            alive = sum(node.state != "dead" for node in self.overview.nodes)
            words.append(f"{alive} of {numbered(len(self.overview.nodes), 'node', 'nodes')}")
            words.append(f"{self.formatter.local(self.overview.now):%H:%M:%S} {self.formatter.zone_name}")
        return heading("   ".join(words))

    def _incidents(self, overview: Overview) -> list[str]:
        lines = []
        for incident in overview.incidents[:3]:
            text = ": ".join([incident.what.rstrip("."), *incident.why[:1]])
            lines.append(styled(str(incident.severity), self.formatter.sentence(f"! {text}")))
        return lines

    def _nodes(self, overview: Overview, width: int, room: int) -> list[str]:
        if not overview.nodes:
            return ["no node is running: start one with `quartzpy node --app MODULE:SCHEDULER`"]
        nodes = overview.nodes[: max(1, min(8, room))]
        return draw(chosen_columns(NODES.columns, ()), nodes, self.formatter, width=width, note=False).split("\n")

    def _tabs(self, overview: Overview) -> str:
        titles = [f" {n} {tab[0]} {len(getattr(overview, tab[1]))} " for n, tab in enumerate(TABS, 1)]
        titles[self.tab] = click.style(titles[self.tab], reverse=True)
        order = self.order.get(self.tab, 0)
        by = f"  by {chosen_columns(TABS[self.tab][2], ())[order - 1].name}" if order else ""
        contains = f'  with "{visible(self.contains)}"' if self.contains else ""
        return "".join(titles) + faint(f"{by}{'  reversed' if self.is_reversed else ''}{contains}")

    def _table(self, width: int, room: int) -> list[str]:
        _, _, columns, empty = TABS[self.tab]
        rows, size = self.rows(), max(1, room - 1)
        if not rows:
            return ["", f"  {empty}" + (f' with "{visible(self.contains)}"' if self.contains else "")]
        at = self.position(rows)
        first = max(0, min(at - size // 2, len(rows) - size))
        page = rows[first : first + size]
        lines = draw(chosen_columns(columns, ()), page, self.formatter, width=width, note=False).split("\n")
        lines[at - first + 1] = click.style(click.unstyle(lines[at - first + 1]), reverse=True)
        return lines


def _identity(row: Any) -> tuple[Any, ...]:
    """Return the values by which the selection follows a row from reading to reading."""
    return tuple(getattr(row, name, None) for name in ("fire_id", "trigger", "at", "kind", "subject"))


def _read(operations: Operations, screen: Screen, period: float, closed: threading.Event) -> None:
    while not closed.is_set():
        if not screen.is_frozen:
            try:
                screen.overview, screen.error = replace(operations.overview(), running=operations.running()), None
            except QuartzpyError as error:
                screen.error = reason(error)
        closed.wait(period)


def _watch(screen: Screen) -> tuple[str, Any] | None:
    """Show the screen until a key is for more than it. Return the key and the selected row; None at the end."""
    try:
        from rich.live import Live
        from rich.text import Text
    except ModuleNotFoundError as error:
        raise SettingsError(f"top needs rich: {install_line('terminal')}") from error

    def picture() -> Text:
        return Text.from_ansi("\n".join(screen.lines(*shutil.get_terminal_size())), no_wrap=True, overflow="ellipsis")

    def signalled(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    keys: SimpleQueue[str] = SimpleQueue()
    before = {number: signal.signal(number, signalled) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)}
    live = Live(get_renderable=picture, refresh_per_second=2, screen=True)
    try:
        with Keyboard(sys.stdin, keys.put), live:
            while (key := keys.get()) and (key != "q" or screen.is_typing):
                row = screen.press(key, live.console.height // 2)
                if row is not None:
                    return key, row
                live.refresh()
            return None
    except SystemExit as error:
        if error.code != 128 + signal.SIGTSTP:
            raise
        os.kill(os.getpid(), signal.SIGSTOP)
        # The process goes on here after `fg`.
        return "", None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _obey(operations: Operations, formatter: Formatter, key: str, row: Any) -> str:
    """Show help or the row, or do an action after a question. Return what the screen says then."""
    from quartzpy.cli.show import draw_row
    from quartzpy.operations.actions.table import ACTIONS

    details = DetailView(formatter, terminal_width())
    name = _ACTIONS.get(key, "")
    arguments, subject = {}, getattr(row, _SUBJECTS.get(name, "trigger"), None)
    try:
        if key in ("enter", "w", "?", "h"):
            if row == key:
                click.echo(click.get_current_context().get_help())
            else:
                draw_row(details, operations, row)
            ask_key(f"{details}\n\nany key goes back ")
            return ""
        if key == "m" and getattr(row, "remedies", None):
            name, arguments, subject = row.remedies[0].action, row.remedies[0].arguments, row.subject
        elif name and subject is not None:
            arguments = {ACTIONS[name].parameter: subject}
        if not arguments:
            return "this action does not apply to the selected row" if key else ""
        kind = next(iter(ACTIONS[name].subjects))
        if ask_key(f"{ACTIONS[name].question} {kind} {visible(str(subject))}? [y/N] ") not in ("y", "Y"):
            return "nothing was changed"
        text = str(getattr(operations.actions, name)(**arguments, reason="quartzpy top").text)
        click.echo(text)
    except QuartzpyError as error:
        text = f"{type(error).__name__}: {reason(error)}"
    return text
