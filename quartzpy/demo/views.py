"""Three ways to watch the demo: a live screen, plain lines, JSON lines."""

from __future__ import annotations

import shutil
import sys
from typing import Any, TextIO

from quartzpy.demo.audit import Summary
from quartzpy.demo.stage import Scene, summary_facts
from quartzpy.keys import RECOVERING_JOBS
from quartzpy.operations.render import json_line, table

CLEAR = "\x1b[H\x1b[J"
BOLD, DIM, RED, GREEN, RESET = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[0m"


class JsonLines:
    """One JSON object a line as things happen; the last is the summary."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out

    def event(self, name: str, text: str, **facts: Any) -> None:
        self._write({"event": name, **facts})

    def scene(self, scene: Scene) -> None:
        """A machine has the events."""

    def summary(self, summary: Summary) -> None:
        self._write({"event": "summary", **summary_facts(summary)})

    def _write(self, event: dict[str, Any]) -> None:
        self._out.write(json_line(event) + "\n")
        self._out.flush()


class PlainLines:
    """One line as each thing happens: for a log, or a terminal that is none."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out

    def event(self, name: str, text: str, **facts: Any) -> None:
        self._write(text)

    def scene(self, scene: Scene) -> None:
        """The lines said it."""

    def summary(self, summary: Summary) -> None:
        self._write(summary_text(summary))

    def _write(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()


class LiveScreen(PlainLines):
    """The whole cluster on one screen, redrawn several times a second."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        super().__init__(out)
        self._drawing = False

    def event(self, name: str, text: str, **facts: Any) -> None:
        if name == "executed":
            return
        # While the screen is drawn, the scene's notes say it.
        if not (self._drawing and name in ("node_killed", "node_removed", "recovering")):
            self._write(text)

    def scene(self, scene: Scene) -> None:
        self._drawing = True
        width, height = shutil.get_terminal_size((100, 40))
        lines = [line[: width + 20] for line in draw(scene)]
        self._out.write(CLEAR + "\n".join(lines[: height - 1]) + "\n")
        self._out.flush()

    def summary(self, summary: Summary) -> None:
        self._drawing = False
        good = summary.promises_kept
        self._write(f"{GREEN if good else RED}{summary_text(summary)}{RESET}")


def draw(scene: Scene) -> list[str]:
    """The lines of one screen."""
    lines = [f"{BOLD}quartzpy demo{RESET}   {scene.elapsed:4.0f} s of {scene.duration:.0f} s", ""]
    nodes = []
    checked_in = {node.instance_id: node for node in scene.cluster.nodes}
    for name in sorted({*scene.alive, *scene.killed, *checked_in}):
        record = checked_in.get(name)
        ago = "-" if record is None else f"{(scene.now - record.last_checkin).total_seconds():.1f}s ago"
        state = "alive" if name in scene.alive else "KILLED, recovered" if record is None else "KILLED"
        busy = sum(one.instance_id == name and one.state == "EXECUTING" for one in scene.running)
        nodes.append((name, scene.alive.get(name), state, ago, busy))
    lines += [*table(("node", "pid", "state", "check-in", "running"), nodes).splitlines(), ""]
    triggers = [
        (
            record.key.name if record.key.group != RECOVERING_JOBS else "recovery",
            record.job_key.name if record.job_key else None,
            record.state,
            _seconds(scene, record.progress.next_fire_time),
            record.progress.times_triggered,
        )
        for record in scene.triggers
    ]
    lines += [*table(("trigger", "job", "state", "next", "fired"), triggers).splitlines(), ""]
    running = [
        (
            one.job_key.name,
            one.instance_id,
            one.state,
            f"{(scene.now - one.fire_time).total_seconds():.1f}s",
            "recovery" if one.recovering else "",
        )
        for one in scene.running
    ]
    lines += [*table(("running", "node", "state", "for", ""), running).splitlines(), ""]
    ended = [
        (
            one.job_key.name,
            one.instance_id,
            one.outcome,
            f"{(one.fire_time - one.scheduled_fire_time).total_seconds() * 1000:.0f} ms late",
            "recovery" if one.recovering else "",
        )
        for one in scene.executions[:10]
        if one.fire_time is not None
    ]
    lines += [*table(("ended", "node", "outcome", "fired", ""), ended).splitlines(), ""]
    return [*lines, *(f"{RED}{note}{RESET}" for note in scene.notes)]


def _seconds(scene: Scene, instant: Any) -> str:
    return "-" if instant is None else f"{(instant - scene.now).total_seconds():+.1f}s"


def summary_text(summary: Summary) -> str:
    """The summary in words, as checked from the database."""
    jobs = ", ".join(f"{name} {count}" for name, count in sorted(summary.fires_by_job.items()))
    verdict = "every promise was kept" if summary.promises_kept else "A PROMISE WAS BROKEN"
    return "\n".join(
        [
            "",
            f"{summary.fires} executions on {summary.nodes} nodes: {jobs}",
            f"failed (on purpose)                 {summary.failed}",
            f"recovered after a node's death      {summary.recovered}",
            f"overlaps of the non-concurrent job  {summary.overlaps}",
            f"lost fires                          {summary.lost}",
            f"duplicated fires                    {summary.duplicated}",
            verdict,
        ]
    )
