"""What the demo shows: scenes, and the views as plain lines and JSON lines. The one for a terminal is in `screen`."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, TextIO

from quartzpy.demo import jobs
from quartzpy.demo.audit import Summary
from quartzpy.keys import JobKey
from quartzpy.operations.render import json_line
from quartzpy.store.protocol import CheckIn
from quartzpy.store.records import ExecutionRecord, RunningRecord

KILL_AFTER = timedelta(seconds=2)
"""The run time of a long export after which its node is killed."""
NEXT_STEPS = (
    ("quartzpy demo --keep", "leaves this database running, so that quartzpy triggers can show it"),
    ("quartzpy db upgrade --url URL", "creates the tables in a database of yours"),
    ("quartzpy node --app billing.jobs:scheduler", "runs a node of your cluster; start it on many machines"),
)
"""The three commands to try after the demo, and their descriptions."""


@dataclass(slots=True)
class Scene:
    """The cluster as the demo sees it at the moment."""

    duration: float
    cluster: CheckIn
    killed: Mapping[str, datetime]
    """The instant at which each dead node was killed."""
    elapsed: float = 0.0
    alive: Sequence[str] = ()
    running: Sequence[RunningRecord] = ()
    history: list[ExecutionRecord] = field(default_factory=list)
    burst_due: datetime | None = None
    """The instant at which all thumbnails are due; None before they are scheduled."""
    notes: list[str] = field(default_factory=list)
    lanes: defaultdict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    """Of each node, the letter and the colour of each moment so far."""

    @property
    def nodes(self) -> list[str]:
        """The nodes that run or were killed, in the order of their starts."""
        return sorted({*self.alive, *self.killed}, key=lambda name: (len(name), name))

    @property
    def burst(self) -> list[ExecutionRecord]:
        """The thumbnails that have been made."""
        return [record for record in self.history if record.job_key == jobs.THUMBNAILS]

    @property
    def is_bursting(self) -> bool:
        return self.burst_due is not None and len(self.burst) < jobs.BURST_SIZE

    def running_job(self, job: JobKey) -> RunningRecord | None:
        """Return an execution of a job that runs on a living node."""
        running = (record for record in self.running if record.job_key == job and record.instance_id in self.alive)
        return next(running, None)

    def until_removal(self, node: str) -> timedelta | None:
        """Return the time until a dead node is removed, or None if it is removed already."""
        for record in self.cluster.nodes:
            if record.instance_id == node:
                return max(timedelta(), record.last_checkin + record.failure_window - self.cluster.now)
        return None

    def narrate(self) -> str:
        """Return one sentence on what is happening, the most dramatic event first."""
        for node in self.killed:
            if (wait := self.until_removal(node)) is not None:
                return f"{node} is silent: {wait.total_seconds():.1f} s to its removal by the others"
        export = self.running_job(jobs.LONG_EXPORT)
        if export is not None and export.recovering:
            return f"{export.instance_id} runs long-export again, which {', '.join(self.killed) or 'a dead node'} left"
        if self.is_bursting:
            return f"burst: {jobs.BURST_SIZE} thumbnails are due at the same instant, and each runs once"
        if export is not None and not self.killed and len(self.alive) > 1:
            wait = max(timedelta(), KILL_AFTER - (self.cluster.now - export.fire_time))
            return f"{export.instance_id} runs long-export and will be killed in {wait.total_seconds():.1f} s"
        return f"{len(self.alive)} nodes share one schedule: there is no leader"

    def lengthen_lanes(self, ended: Sequence[ExecutionRecord]) -> None:
        """Add one moment to the lane of each node: the letter of a job that ran there, and its colour."""
        priority = list(jobs.LABELS).index
        records: list[RunningRecord | ExecutionRecord] = [*self.running, *ended]
        for node in self.nodes:
            lane = self.lanes[node]
            if node in self.killed:
                lane.append(("·", "dead") if ("✗", "killed") in lane else ("✗", "killed"))
                continue
            here = [record for record in records if record.instance_id == node]
            shown = min(here, key=lambda record: priority(record.job_key), default=None)
            lane.append(("·", "idle") if shown is None else (jobs.LABELS[shown.job_key][0], _style(shown)))


def _style(record: RunningRecord | ExecutionRecord) -> str:
    if isinstance(record, RunningRecord):
        return "again" if record.recovering else "runs"
    return "failed" if record.outcome == "FAILED" else "ended"


class Audience:
    """A view of the demo. This one shows nothing."""

    def opened(self) -> AbstractContextManager[object]:
        """Return the context in which the demo runs."""
        return nullcontext()

    def event(self, name: str, text: str, **facts: Any) -> None: ...

    def scene(self, scene: Scene) -> None: ...

    def summary(self, summary: Summary) -> None: ...


class PlainLines(Audience):
    """Writes one line for each event: for a log, a pipe, or a terminal without a cursor."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout

    def event(self, name: str, text: str, **facts: Any) -> None:
        print(text, file=self._out, flush=True)

    def summary(self, summary: Summary) -> None:
        rows = [f"{name:<36}{count}" for name, count in summary_rows(summary)]
        steps = [f"  {command:<44}{text}" for command, text in NEXT_STEPS]
        lines = ["", headline(summary), *rows, verdict(summary), "", "What to try next:", *steps]
        print("\n".join(lines), file=self._out, flush=True)


class JsonLines(PlainLines):
    """Writes one JSON object per line for each event. The last one is the summary."""

    def event(self, name: str, text: str, **facts: Any) -> None:
        super().event(name, json_line({"event": name, **facts}))

    def summary(self, summary: Summary) -> None:
        self.event("summary", "", **asdict(summary))


def summary_rows(summary: Summary) -> list[tuple[str, int]]:
    """Return the counts of the audit with their names."""
    return [
        ("failed on purpose", summary.failed),
        ("retries that succeeded", summary.retried),
        ("recovered after the death of a node", summary.recovered),
        ("overlaps of the serial job", summary.overlaps),
        ("lost fires", summary.lost),
        ("duplicated fires", summary.duplicated),
    ]


def headline(summary: Summary) -> str:
    """Return one sentence on the number of executions."""
    by_job = ", ".join(f"{name} {count}" for name, count in sorted(summary.fires_by_job.items()))
    return f"{summary.fires} executions on {summary.nodes} nodes: {by_job}"


def verdict(summary: Summary) -> str:
    """Return a sentence on the result of the audit."""
    if summary.promises_kept:
        return "every promise was kept: nothing lost, nothing twice, no overlap"
    return "A PROMISE WAS BROKEN"
