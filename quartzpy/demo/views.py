"""Views of the demo without a terminal: plain lines, or JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from quartzpy.demo.audit import Summary
from quartzpy.demo.stage import summary_facts
from quartzpy.demo.story import Scene
from quartzpy.operations.render import json_line

NEXT_STEPS = (
    ("quartzpy demo --keep", "leaves this database running, so that quartzpy triggers can show it"),
    ("quartzpy db upgrade --dsn URL", "creates the tables in a database of yours"),
    (
        "quartzpy node --app billing.jobs:scheduler",
        "runs a node of your cluster; start it on as many machines as you like",
    ),
)
"""The three commands to try after the demo, and their descriptions."""


class JsonLines:
    """Writes one JSON object per line for each event. The last one is the summary."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout

    @contextmanager
    def opened(self) -> Iterator[None]:
        yield

    def event(self, name: str, text: str, **facts: Any) -> None:
        self._write({"event": name, **facts})

    def scene(self, scene: Scene) -> None:
        """Write nothing: the events have said it."""

    def summary(self, summary: Summary) -> None:
        self._write({"event": "summary", **summary_facts(summary)})

    def _write(self, event: dict[str, Any]) -> None:
        self._out.write(json_line(event) + "\n")
        self._out.flush()


class PlainLines:
    """Writes one line for each event: for a log, a pipe, or a terminal without a cursor."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout

    @contextmanager
    def opened(self) -> Iterator[None]:
        yield

    def event(self, name: str, text: str, **facts: Any) -> None:
        self._write(text)

    def scene(self, scene: Scene) -> None:
        """Write nothing: the events have said it."""

    def summary(self, summary: Summary) -> None:
        width = max(len(command) for command, _ in NEXT_STEPS)
        steps = [f"  {command.ljust(width)}  {text}" for command, text in NEXT_STEPS]
        self._write("\n".join(["", *summary_lines(summary), "", "What to try next:", *steps]))

    def _write(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()


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


def summary_lines(summary: Summary) -> list[str]:
    """Return the summary as lines of text."""
    rows = summary_rows(summary)
    width = max(len(name) for name, _ in rows)
    return [headline(summary), *(f"{name.ljust(width)}  {count}" for name, count in rows), verdict(summary)]
