"""The processes of the nodes that benchmarks measure."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from benchmarks import nodes


def run_a_node() -> None:
    node = nodes.NodeProcess("postgresql://nobody@127.0.0.1:1/none")
    try:
        node.wait_until_ready()
        node.start()
    finally:
        node.stop()


@pytest.mark.parametrize("ends", ["at once", "later"])
def test_a_node_that_ends_by_itself_leaves_no_pipe_open(monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    """A pipe that is left open fails whichever test runs when it is collected."""
    started: list[subprocess.Popen[str]] = []
    start = subprocess.Popen
    program = "" if ends == "at once" else "input()"

    def begin(command: list[str], **settings: Any) -> subprocess.Popen[str]:
        started.append(start([sys.executable, "-c", program], **settings))
        if ends == "at once":
            started[0].wait()
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", begin)
    with pytest.raises((nodes.NodeError, OSError)):
        run_a_node()
    [process] = started
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        assert stream.closed
