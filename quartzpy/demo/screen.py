"""The demo on a terminal: the whole cluster on one screen, redrawn several times a second."""

from __future__ import annotations

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
from quartzpy.demo.views import NEXT_STEPS, Audience, Scene, headline, summary_rows, verdict

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
        self._live = Live(console=self._console, screen=True, auto_refresh=False, transient=True)
        self._texts: list[str] = []
        self._is_showing = False

    def opened(self) -> Live:
        return self._live

    def event(self, name: str, text: str, **facts: Any) -> None:
        if not self._live.is_started:
            self._console.print(text, highlight=False, soft_wrap=True)
        elif name == "paused" or not self._is_showing:
            self._texts = [*self._texts, text] if not self._is_showing else [text]
            self._live.update(Panel("\n".join(self._texts), title="quartzpy demo"), refresh=True)

    def scene(self, scene: Scene) -> None:
        self._is_showing = True
        self._live.update(draw(scene, self._console.width), refresh=True)

    def summary(self, summary: Summary) -> None:
        self._console.print(draw_summary(summary))


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
    for name in scene.nodes:
        if name in scene.killed:
            wait = scene.until_removal(name)
            text = "dead, removed" if wait is None else f"silent, {wait.total_seconds():.1f} s left"
            mark, state = Text(f"✗ {name}", "bold red"), Text(text, "red")
        else:
            busy = sum(record.instance_id == name for record in scene.running)
            mark, state = Text(f"● {name}", "bold green"), Text(f"alive, runs {busy}", "green")
        lane = Text.assemble(*((letter, STYLES[style]) for letter, style in scene.lanes.get(name, ())[-width:]))
        grid.add_row(mark, state, lane)
    return grid


def legend() -> Text:
    """Return the meaning of the letters and colours."""
    text = Text("  ", "dim")
    for job, (letter, _) in jobs.LABELS.items():
        text.append(letter, "bold").append(f" {job.name}  ", "dim")
    for style in ("failed", "killed", "again"):
        text.append(f" {style} ", STYLES[style]).append(" ")
    return text.append("\n")


def draw_jobs(scene: Scene) -> RenderableType:
    """Return a line for each job, with the nodes that run it and its counts."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold dim")
    for name in ("job", "", "runs on", "done", "failed"):
        table.add_column(name, no_wrap=True, justify="right" if name in ("done", "failed") else "left")
    for job, (_, text) in jobs.LABELS.items():
        ended = [record for record in scene.history if record.job_key == job]
        failed = sum(record.outcome == "FAILED" for record in ended)
        nodes = {record.instance_id for record in scene.running if record.job_key == job}
        on = Text(", ".join(sorted(nodes)), "green" if nodes & set(scene.alive) else "red")
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
