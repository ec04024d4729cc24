"""`quartzpy node` with metrics, probes and JSON logs: a real process, from its start to its drain."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.code_blocks import ROOT
from tests.metrics.scrape import scraped
from tests.metrics.test_probes import asked
from tests.waiting import wait_until

APP = """
    import os
    from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger

    class Long(Job):
        def execute(self, context: JobExecutionContext) -> None:
            context.log.info("it runs")
            context.wait_cancelled(60)

    scheduler = Scheduler(os.environ["DSN"], name="command")
    scheduler.schedule_job(JobDetail(Long, "long", "shop"), SimpleTrigger("t"), replace=True)
"""


class Node:
    """A process of `quartzpy node`, whose log lines are read as JSON."""

    def __init__(self, directory: Path, dsn: str) -> None:
        (directory / "app.py").write_text(textwrap.dedent(APP))
        command = ["node", "--app", "app:scheduler", "--log-format", "json", "--metrics-port", "0", "--interrupt"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "quartzpy", *command],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT), "DSN": dsn},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.seen: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.put(json.loads(line))

    def line(self, pattern: str) -> dict[str, Any]:
        """The first line from now on whose message has the pattern."""
        until = time.monotonic() + 60
        while True:
            found = self.lines.get(timeout=max(0.1, until - time.monotonic()))
            self.seen.append(found)
            if re.search(pattern, found["message"]):
                return found

    def end(self) -> int:
        status = self.process.wait(60)
        self._reader.join(60)
        return status


@pytest.fixture
def node(tmp_path: Path, postgres_dsn: str) -> Iterator[Node]:
    running = Node(tmp_path, postgres_dsn)
    yield running
    running.process.kill()
    running.end()
    assert running.process.stderr is not None
    running.process.stderr.close()


def test_a_node_is_scraped_probed_and_drained(node: Node) -> None:
    told = node.line("metrics and probes are at")
    port = int(str(told["message"]).rsplit(":", 1)[1])
    assert told["logger"] == "quartzpy.metrics.plugin"
    wait_until(lambda: asked(port, "/readyz")[0] == 200, seconds=60)
    running = node.line("it runs")
    assert (running["job"], running["level"]) == ("shop.long", "INFO")
    assert scraped(port).value("quartzpy_workers_busy", scheduler="command") == 1
    node.process.send_signal(signal.SIGTERM)
    node.line("stopping; waiting")
    assert node.end() == 0
