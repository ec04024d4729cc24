"""`quartzpy serve` after kill -9: the next start on the same data takes the work over at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from quartzpy.embedded import ScheduleServer
from quartzpy.store import process_identity
from tests.waiting import wait_until

SCHEDULE = """
time_zone: UTC
jobs:
  lost: {command: "touch begun; sleep 1000", schedule: every 1h}
  next: {command: "true", schedule: every 1h}
"""
PROGRAM = """
import sys
from quartzpy.embedded import ScheduleServer
with ScheduleServer("schedule.yaml", "data"):
    sys.stdin.read()
"""


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(prefix="quartzpy-takeover-") as name:
        directory = Path(name)
        (directory / "schedule.yaml").write_text(SCHEDULE)
        monkeypatch.chdir(directory)
        yield directory


@pytest.mark.parametrize("container", [False, True], ids=["here", "in another container"])
def test_a_server_that_was_killed_is_replaced_without_a_wait(
    directory: Path, container: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE) as former:
        try:
            wait_until(lambda: (directory / "begun").exists())
        finally:
            former.kill()
    if container:
        # Its process ids say nothing about those of the former one.
        monkeypatch.setattr(process_identity, "_pid_space", lambda: "boot/namespace")
    with ScheduleServer("schedule.yaml", "data") as server:
        scheduler = server.scheduler
        assert [record.state for record in scheduler.executions(job="lost")] == ["TERMINATED"]
        assert [node.instance_id for node in scheduler.nodes().nodes] == ["serve"]
        with ScheduleServer("schedule.yaml", "data") as second:
            assert second.scheduler.nodes().nodes[0].instance_id != second.scheduler.nodes().nodes[1].instance_id
            assert {node.instance_id for node in scheduler.nodes().nodes} > {"serve"}
