"""Nodes as processes of their own, and what a scenario asks of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from benchmarks.machine import ROOT
from benchmarks.processes import Heap, cpu_seconds, resident_mebibytes

NAME = "benchmark"
# Nothing may misfire in a scenario that does not ask for it.
SETTINGS: dict[str, Any] = {"name": NAME, "workers": 200, "misfire_threshold": "1d"}


class Start(NamedTuple):
    """The start of a job, as the process of its node saw it."""

    job: str
    scheduled: float
    started: float

    @property
    def late_ms(self) -> float:
        return (self.started - self.scheduled) * 1000


class NodeError(Exception):
    """A node's process ended before it was asked to."""


class NodeProcess:
    """A node that starts in standby, so that several can be released at the same instant.

    It knows the types of `benchmarks.jobs`, and so many numbered ones.
    """

    def __init__(self, url: str, *, switch_interval: float | None = None, job_types: int = 0, **settings: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.node"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        order = {
            "url": url,
            "settings": {**SETTINGS, **settings},
            "switch_interval": switch_interval,
            "job_types": job_types,
        }
        try:
            self._tell(json.dumps(order))
        except OSError as error:
            self.stop()
            raise NodeError(f"the node ended with status {self._process.returncode}") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        self._answer()

    def start(self) -> None:
        self._tell("start")
        self._answer()

    def standby(self) -> None:
        self._tell("standby")
        self._answer()

    def schedule(self, situation: str) -> None:
        """Let the node itself schedule the jobs of `benchmarks.situations`, as a program with memory:// has to."""
        self._tell(f"schedule {situation}")
        self._answer()

    @property
    def runs(self) -> int:
        """The number of jobs that have run."""
        self._tell("runs")
        return int(self._answer())

    def heap(self) -> Heap:
        """Return what the process holds in memory."""
        self._tell("heap")
        return Heap(**self._answer())

    def objects(self) -> dict[str, int]:
        """Return the number of objects that the garbage collector tracks, by their types."""
        self._tell("objects")
        return dict(self._answer())

    def starts(self) -> list[Start]:
        """Return the starts that jobs have noted since the last call."""
        self._tell("starts")
        return [Start(*one) for one in self._answer()]

    @property
    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    @property
    def resident_mebibytes(self) -> float:
        return resident_mebibytes(self.pid)

    def stop(self) -> None:
        """Let the node drain and end."""
        try:
            self._tell("stop")
            self._process.wait(40)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                # What was not written to a process that has ended cannot be flushed.
                with suppress(OSError):
                    stream.close()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise NodeError(f"the node ended with status {self._process.wait()}")
        return json.loads(line)


@contextmanager
def nodes(url: str, count: int = 1, **options: Any) -> Iterator[list[NodeProcess]]:
    """Provide nodes that are in standby, and stop them at the end."""
    with ExitStack() as stack:
        several = []
        for _ in range(count):
            several.append(NodeProcess(url, **options))
            stack.callback(several[-1].stop)
        for node in several:
            node.wait_until_ready()
        yield several


def wait_for(reached: Callable[[], bool], seconds: float, subject: str, *, every: float = 0.02) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: it does not hold after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s for {subject}")
        time.sleep(every)
