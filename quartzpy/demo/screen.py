"""The demo on a terminal: the whole cluster on one screen, redrawn several times a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from quartzpy.demo import jobs
from quartzpy.demo.audit import Summary
from quartzpy.demo.views import LETTERS, NEXT_STEPS, Audience, Scene, headline, summary_rows, verdict

KEYS = "k kill a node   n start a node   q quit"
LANE_MARGIN = 33
"""The columns beside a lane, which show the name of the node and its state."""
SHOWN_NOTES = 5
STYLES = {
    "runs": "bold green",
    "ended": "green",
    "failed": "bold red",
    "killed": "white on red",
    "again": "bold magenta",
    "dead": "dim red",
    "idle": "dim",
}


class LiveScreen(Audience):
    """Draws the scenes on the terminal's alternate screen, and always leaves that screen at the end."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live: Live | None = None
        self._texts: list[str] = []
        self._last_text = ""
        self._is_showing = False

    @contextmanager
    def opened(self) -> Iterator[None]:
        with Live(console=self._console, screen=True, auto_refresh=False, transient=True) as self._live:
            yield

    def event(self, name: str, text: str, **facts: Any) -> None:
        if name == "kept":
            self._last_text = text
        elif name == "paused" or not self._is_showing:
            self._texts = [*self._texts, text] if not self._is_showing else [text]
            self._draw(Panel("\n".join(self._texts), title="quartzpy demo"))

    def scene(self, scene: Scene) -> None:
        self._is_showing = True
        self._draw(draw(scene, self._console.width))

    def summary(self, summary: Summary) -> None:
        if self._last_text:
            self._console.print(self._last_text, highlight=False, soft_wrap=True)
        self._console.print(draw_summary(summary))

    def _draw(self, picture: RenderableType) -> None:
        assert self._live is not None
        self._live.update(picture, refresh=True)


def draw(scene: Scene, width: int) -> RenderableType:
    """Return the picture of one scene."""
    title = Table.grid(expand=True)
    title.add_row(
        Text("quartzpy demo", "bold"), Text(f"{scene.elapsed:.0f} s of {scene.duration:.0f} s", justify="right")
    )
    bar = Table.grid(expand=True)
    bar.add_row(ProgressBar(total=scene.duration, completed=scene.elapsed))
    notes = [Text(note, no_wrap=True, overflow="ellipsis") for note in scene.notes[-SHOWN_NOTES:]]
    return Group(
        title,
        bar,
        Text(f"\n▶ {scene.narrate()}\n", "bold yellow", no_wrap=True, overflow="ellipsis"),
        draw_lanes(scene, max(10, width - LANE_MARGIN)),
        legend(),
        draw_jobs(scene),
        Rule("what happened", align="left", style="dim"),
        *notes,
        Text(f"\n{KEYS}", "reverse"),
    )


def draw_lanes(scene: Scene, width: int) -> RenderableType:
    """Return a line for each node, with its state and its last moments."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(min_width=10)
    grid.add_column(min_width=20)
    for name in sorted({*scene.alive, *scene.killed}, key=lambda name: (len(name), name)):
        busy = sum(record.instance_id == name and record.state == "EXECUTING" for record in scene.running)
        state = Text(f"alive, runs {busy}", "green")
        if name in scene.killed:
            wait = scene.until_removal(name)
            text = "dead, removed" if wait is None else f"silent, {wait.total_seconds():.1f} s left"
            state = Text(text, "red")
        mark = Text(f"✗ {name}", "bold red") if name in scene.killed else Text(f"● {name}", "bold green")
        lane = Text.assemble(*((letter, STYLES[style]) for letter, style in scene.lanes.get(name, ())[-width:]))
        grid.add_row(mark, state, lane)
    return grid


def legend() -> Text:
    """Return the meaning of the letters and colours."""
    text = Text("  ", "dim")
    for name, letter in LETTERS.items():
        text.append(letter, "bold").append(f" {name}  ", "dim")
    for style in ("failed", "killed", "again"):
        text.append(f" {style} ", STYLES[style]).append(" ")
    return text.append("\n")


def draw_jobs(scene: Scene) -> RenderableType:
    """Return a line for each job, with the nodes that run it and its counts."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold dim")
    for name in ("job", "", "runs on", "done", "failed"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("done", "failed") else "left")
    for job, text in (
        (jobs.HEARTBEAT, "every 2 s"),
        (jobs.SERIAL_REPORT, "never overlaps"),
        (jobs.LONG_EXPORT, "outlives its node"),
        (jobs.FLAKY_IMPORT, "fails on purpose"),
        (jobs.THUMBNAILS, "a burst"),
    ):
        ended = [record for record in scene.history if record.job_key == job]
        failed = sum(record.outcome == "FAILED" for record in ended)
        running = [record for record in scene.running if record.job_key == job and record.state == "EXECUTING"]
        nodes = {record.instance_id for record in running}
        style = "green" if nodes & set(scene.alive) else "red"
        on = Text(", ".join(sorted(nodes)), style)
        table.add_row(job.name, Text(text, "dim"), on, str(len(ended) - failed), str(failed))
    return table


def draw_summary(summary: Summary) -> RenderableType:
    """Return the last panel: the result of the audit, and the commands to try next."""
    grid = Table.grid(padding=(0, 2))
    for name, count in summary_rows(summary):
        grid.add_row(name, str(count))
    steps = Table.grid(padding=(0, 2))
    for command, text in NEXT_STEPS:
        steps.add_row(Text(command, "bold cyan"), Text(text, "dim"))
    style = "green" if summary.promises_kept else "red"
    result = Text(f"\n{verdict(summary)}\n", f"bold {style}")
    body = Group(headline(summary), Text(), grid, result, "What to try next:", steps)
    return Panel(body, title="quartzpy demo", border_style=style)
