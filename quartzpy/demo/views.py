"""Views of the demo: plain lines and JSON lines. The one for a terminal is in `screen`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, TextIO

from quartzpy.demo.audit import Summary
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


class Audience:
    """A view of the demo. This one shows nothing."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Return the context in which the demo runs."""
        yield

    def event(self, name: str, text: str, **facts: Any) -> None: ...

    def scene(self, scene: Scene) -> None: ...

    def summary(self, summary: Summary) -> None: ...


class _Lines(Audience):
    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout

    def _write(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()


class JsonLines(_Lines):
    """Writes one JSON object per line for each event. The last one is the summary."""

    def event(self, name: str, text: str, **facts: Any) -> None:
        self._write(json_line({"event": name, **facts}))

    def summary(self, summary: Summary) -> None:
        self.event("summary", "", **asdict(summary))


class PlainLines(_Lines):
    """Writes one line for each event: for a log, a pipe, or a terminal without a cursor."""

    def event(self, name: str, text: str, **facts: Any) -> None:
        self._write(text)

    def summary(self, summary: Summary) -> None:
        rows = [(name, str(count)) for name, count in summary_rows(summary)]
        steps = [f"  {line}" for line in _aligned(NEXT_STEPS)]
        self._write(
            "\n".join(["", headline(summary), *_aligned(rows), verdict(summary), "", "What to try next:", *steps])
        )


def _aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"{name.ljust(width)}  {text}" for name, text in rows]


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
