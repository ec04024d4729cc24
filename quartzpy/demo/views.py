"""What the demo shows: scenes, and the views as plain lines and JSON lines. The one for a terminal is in `screen`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, TextIO

from quartzpy.demo import jobs
from quartzpy.demo.audit import Summary
from quartzpy.keys import JobKey
from quartzpy.operations.render import json_line
from quartzpy.states import FiredState
from quartzpy.store.protocol import CheckIn
from quartzpy.store.records import ExecutionRecord, RunningRecord, TriggerRecord

KILL_AFTER = timedelta(seconds=2)
"""The run time of a long export after which its node is killed."""
LETTERS = {
    jobs.LONG_EXPORT.name: "E",
    jobs.FLAKY_IMPORT.name: "i",
    jobs.SERIAL_REPORT.name: "s",
    jobs.THUMBNAILS.name: "t",
    jobs.HEARTBEAT.name: "h",
}
"""The letter of each job in a lane. If several ran in one moment, the first in this order is shown."""
NEXT_STEPS = (
    ("quartzpy demo --keep", "leaves this database running, so that quartzpy triggers can show it"),
    ("quartzpy db upgrade --dsn URL", "creates the tables in a database of yours"),
    ("quartzpy node --app billing.jobs:scheduler", "runs a node of your cluster; start it on many machines"),
)
"""The three commands to try after the demo, and their descriptions."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The cluster at one moment."""

    elapsed: float
    duration: float
    alive: Sequence[str]
    killed: Mapping[str, datetime]
    cluster: CheckIn
    triggers: Sequence[TriggerRecord]
    running: Sequence[RunningRecord]
    history: Sequence[ExecutionRecord]
    burst: Mapping[str, int] | None
    """How many executions of the burst each node has ended; None before it begins."""
    burst_size: int
    notes: Sequence[str] = ()
    lanes: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    """Of each node, the letter and the colour of each moment so far."""

    def running_job(self, job: JobKey) -> RunningRecord | None:
        """Return an execution of a job that runs on a living node."""
        for record in self.running:
            if record.job_key == job and record.state == FiredState.EXECUTING and record.instance_id in self.alive:
                return record
        return None

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
        if self.burst is not None and sum(self.burst.values()) < self.burst_size:
            return f"burst: {self.burst_size} thumbnails are due at the same instant, and each runs once"
        if export is not None and not self.killed and len(self.alive) > 1:
            wait = max(timedelta(), KILL_AFTER - (self.cluster.now - export.fire_time))
            return f"{export.instance_id} runs long-export and will be killed in {wait.total_seconds():.1f} s"
        return f"{len(self.alive)} nodes share one schedule: there is no leader"


class Audience:
    """A view of the demo. This one shows nothing."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Return the context in which the demo runs."""
        yield

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
