"""The demo on a terminal: the whole cluster on one screen, redrawn several times a second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
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
from quartzpy.demo.spans import OURS
from quartzpy.demo.story import BURST, DEAD_NODE, OWN_JOB, Look, Scene, Stretch, narrate, seconds, until_removal
from quartzpy.demo.views import NEXT_STEPS, Audience, headline, summary_rows, verdict
from quartzpy.keys import RECOVERING_JOBS, RETRYING_JOBS, JobKey
from quartzpy.states import TriggerState
from quartzpy.store.records import TriggerRecord

LONGEST_AXIS = 60.0
"""The longest span of time in a lane, in seconds."""
LANE_MARGIN = 33
"""The columns beside a lane, which show the name of the node and its state."""
SHOWN_NOTES = 5
ALL_COLUMNS, DESCRIPTIONS = 112, 94
"""The least widths of a terminal for all columns of the table of jobs, and for the description of each job."""

LETTERS = {
    jobs.LONG_EXPORT.name: "E",
    jobs.FLAKY_IMPORT.name: "i",
    jobs.SERIAL_REPORT.name: "s",
    jobs.THUMBNAILS.name: "t",
    jobs.HEARTBEAT.name: "h",
}
"""The letter of each job in a lane. If several ran in one moment, the first in this order is shown."""
STYLES = {
    Look.RUNS: "bold green",
    Look.ENDED: "green",
    Look.FAILED: "bold red",
    Look.KILLED: "white on red",
    Look.RECOVERY: "bold magenta",
}
KEYS = "k kill a node   n start a node   p pause or resume   w why is it (not) running   q quit"


class LiveScreen(Audience):
    """Draws the scenes on the terminal's alternate screen, and always leaves that screen at the end."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live: Live | None = None
        self._preparing: list[str] = []
        self._is_showing = False

    @contextmanager
    def opened(self) -> Iterator[None]:
        with Live(console=self._console, screen=True, auto_refresh=False, transient=True) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def event(self, name: str, text: str, **facts: Any) -> None:
        if name == "kept":
            self._preparing = [text]
        elif name == "paused":
            self._draw(Panel(f"{text} ...", title="quartzpy demo"))
        elif not self._is_showing:
            self._preparing.append(text)
            self._draw(Panel("\n".join(self._preparing), title="quartzpy demo"))

    def scene(self, scene: Scene) -> None:
        if not self._is_showing:
            self._preparing = []
        self._is_showing = True
        self._draw(draw(scene, self._console.width))

    def summary(self, summary: Summary) -> None:
        for text in self._preparing:
            self._console.print(text, highlight=False, soft_wrap=True)
        self._console.print(draw_summary(summary))

    def _draw(self, picture: RenderableType) -> None:
        if self._live is not None:
            self._live.update(picture, refresh=True)


def draw(scene: Scene, width: int) -> RenderableType:
    """Return the picture of one scene."""
    title = Table.grid(expand=True)
    title.add_column()
    title.add_column(justify="right")
    title.add_row(Text("quartzpy demo", "bold"), f"{scene.elapsed:.0f} s of {scene.duration:.0f} s")
    parts: list[RenderableType] = [
        title,
        _line(ProgressBar(total=scene.duration, completed=scene.elapsed)),
        Text(f"▶ {narrate(scene)}", "bold yellow", no_wrap=True, overflow="ellipsis"),
        Text(),
        draw_lanes(scene, width),
        legend(),
        Text(),
        draw_jobs(scene, width),
        draw_burst(scene),
        Text(),
    ]
    if scene.why is not None:
        trigger, said = scene.why
        parts.append(Panel("\n".join(said), title=f"why: {trigger} (w shows the next one)", style="cyan"))
    else:
        parts.append(Rule("what happened", align="left", style="dim"))
        parts += [
            Text(note, _note_style(note), no_wrap=True, overflow="ellipsis") for note in scene.notes[-SHOWN_NOTES:]
        ]
    parts += [Text(), Text(KEYS, "reverse")]
    return Group(*parts)


def _line(part: RenderableType) -> RenderableType:
    """Return a text that ends its line."""
    grid = Table.grid(expand=True)
    grid.add_row(part)
    return grid


def _note_style(note: str) -> str:
    if note.startswith("killed"):
        return "bold red"
    return "magenta" if note.endswith("again") else ""


# --- lanes


def draw_lanes(scene: Scene, width: int) -> RenderableType:
    """Return a line for each node, with its state and its executions over time."""
    cells = max(10, width - LANE_MARGIN)
    listed = [node.instance_id for node in scene.cluster.nodes]
    lanes = Table.grid(padding=(0, 1))
    lanes.add_column(min_width=10)
    lanes.add_column(min_width=20)
    for name in sorted({*scene.alive, *scene.killed, *listed}, key=_by_number):
        lanes.add_row(*node_state(scene, name), lane(scene, name, cells))
    return lanes


def _by_number(name: str) -> tuple[int, str]:
    number = name.rpartition("-")[2]
    return (int(number) if number.isdigit() else 0, name)


def node_state(scene: Scene, name: str) -> tuple[Text, Text]:
    """Return the name of a node, and its state in words."""
    busy = sum(one.instance_id == name and one.state == "EXECUTING" for one in scene.running)
    if name in scene.killed:
        left = until_removal(scene, name)
        state = "dead, removed" if left is None else f"silent, {seconds(left)} left"
        return Text(f"✗ {name}", "bold red"), Text(state, "red")
    if name in scene.alive:
        return Text(f"● {name}", "bold green"), Text(f"alive, runs {busy}", "green")
    return Text(f"? {name}", "dim"), Text("not of this demo", "dim")


def lane(scene: Scene, node: str, cells: int) -> Text:
    """Return the executions of a node up to now, as one letter for each moment."""
    shown = min(scene.duration, LONGEST_AXIS)
    end = max(scene.began + timedelta(seconds=shown), scene.now)
    start = end - timedelta(seconds=shown)
    step = timedelta(seconds=shown / cells)
    mine = sorted((one for one in scene.lanes if one.node == node), key=_rank)
    text = Text(no_wrap=True)
    for number in range(cells):
        left = start + number * step
        text.append(*_cell(scene, node, mine, (left, left + step)))
    return text


def _rank(stretch: Stretch) -> int:
    return list(LETTERS).index(stretch.job) if stretch.job in LETTERS else len(LETTERS)


def _cell(scene: Scene, node: str, stretches: list[Stretch], moment: tuple[datetime, datetime]) -> tuple[str, str]:
    died = scene.killed.get(node)
    if moment[0] >= scene.now:
        return " ", ""
    if died is not None and moment[1] > died:
        return ("✗", "bold white on red") if moment[0] <= died else ("·", "dim red")
    for stretch in stretches:
        if stretch.span[0] < moment[1] and stretch.span[1] >= moment[0]:
            return LETTERS.get(stretch.job, "?"), STYLES[stretch.look]
    return "·", "dim"


def legend() -> Text:
    """Return the meaning of the letters and colours."""
    text = Text("  ", "dim")
    for name, letter in LETTERS.items():
        text.append(letter, "bold").append(f" {name}  ", "dim")
    for look in (Look.FAILED, Look.KILLED, Look.RECOVERY):
        text.append(f" {look} ", STYLES[look]).append(" ")
    return text


# --- jobs


def draw_jobs(scene: Scene, width: int) -> RenderableType:
    """Return a line for each job, with its state, its counts and the causes of its delays."""
    causes = {"late: own job": OWN_JOB, "dead node": DEAD_NODE, "burst": BURST, "ours": OURS}
    if width < ALL_COLUMNS:
        del causes["dead node"], causes["burst"]
    described = width >= DESCRIPTIONS
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold dim")
    table.add_column("job", no_wrap=True, min_width=13)
    if described:
        table.add_column("", no_wrap=True, overflow="ellipsis")
    table.add_column("now", no_wrap=True, min_width=21)
    for column in ("done", "failed", *causes):
        table.add_column(column, no_wrap=True, min_width=len(column), justify="right")
    for job, text in (
        (jobs.HEARTBEAT, "every 2 s"),
        (jobs.SERIAL_REPORT, "never overlaps"),
        (jobs.LONG_EXPORT, "outlives its node"),
        (jobs.FLAKY_IMPORT, "fails on purpose"),
    ):
        ended = [one for one in scene.history if one.job_key == job]
        failed = sum(one.outcome == "FAILED" for one in ended)
        delays = scene.delays.get(job.name, {})
        table.add_row(
            job.name,
            *([Text(text, "dim")] if described else []),
            job_state(scene, job),
            str(len(ended) - failed),
            Text(str(failed), "red") if failed else "-",
            *(_delay(delays, cause) for cause in causes.values()),
        )
    return table


def _delay(delays: Any, cause: str) -> str:
    part = delays.get(cause)
    return seconds(part) if part else "-"


def job_state(scene: Scene, job: JobKey) -> Text:
    """Return the current state of a job in words."""
    running = [one for one in scene.running if one.job_key == job and one.state == "EXECUTING"]
    living = [one for one in running if one.instance_id in scene.alive]
    if living:
        recovery = any(one.recovering for one in living)
        again = " again" if recovery else ""
        nodes = ", ".join(sorted({one.instance_id for one in living}))
        return Text(f"runs{again} on {nodes}", STYLES[Look.RECOVERY if recovery else Look.RUNS])
    if running:
        return Text(f"was on {running[0].instance_id}", "bold red")
    return _waiting(scene, [record for record in scene.triggers if record.job_key == job])


def _waiting(scene: Scene, records: list[TriggerRecord]) -> Text:
    states = {record.state for record in records}
    due = [
        (at, record.key.group)
        for record in records
        if (at := record.progress.next_fire_time) is not None and record.state != TriggerState.COMPLETE
    ]
    if not due:
        return Text("has ended", "dim")
    if states & {TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED}:
        return Text("paused", "yellow")
    if TriggerState.BLOCKED in states:
        return Text("waits for its own job", "yellow")
    at, group = min(due)
    what = {RETRYING_JOBS: "retry", RECOVERING_JOBS: "recovery"}.get(group, "next")
    left = (at - scene.now).total_seconds()
    return Text(f"{what} in {left:.1f} s" if left > 0 else f"{what}: due now", "cyan" if what == "retry" else "")


def draw_burst(scene: Scene) -> RenderableType:
    """Return the counter of the burst."""
    burst = scene.burst
    if burst is None:
        return Text("burst: comes later", "dim")
    grid = Table.grid(padding=(0, 1))
    shares = ", ".join(f"{node} {count}" for node, count in burst.done.items())
    bar = ProgressBar(total=burst.size, completed=burst.count, width=30)
    grid.add_row(Text("burst", "bold"), bar, f"{burst.count} of {burst.size} thumbnails", Text(shares, "dim"))
    return grid


# --- the end


def draw_summary(summary: Summary) -> RenderableType:
    """Return the last panel: the result of the audit, and the commands to try next."""
    counts = Table.grid(padding=(0, 2))
    for name, count in summary_rows(summary):
        counts.add_row(name, str(count))
    steps = Table.grid(padding=(0, 2))
    for command, text in NEXT_STEPS:
        steps.add_row(Text(command, "bold cyan"), Text(text, "dim"))
    kept = summary.promises_kept
    style = "green" if kept else "red"
    body = Group(
        headline(summary),
        Text(),
        counts,
        Text(),
        Text(verdict(summary), f"bold {style}"),
        Text(),
        "What to try next:",
        steps,
    )
    return Panel(body, title="quartzpy demo", border_style=style)
