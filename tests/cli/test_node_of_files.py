"""`quartzpy node jobs.yaml --url ...`: a node of declared jobs, without a module for its scheduler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quartzpy import Scheduler
from tests.cli.test_commands import quartzpy

JOBS = """
job:
  type: collecting:collect
  name: collect
  data: {region: eu}
  trigger: every 0.2s
"""
MODULE = """
from quartzpy import job

@job
def collect(region: str) -> str:
    return f"collected {region}"
"""


def write(directory: Path) -> None:
    (directory / "collecting.py").write_text(MODULE)
    (directory / "jobs.yaml").write_text(JOBS)


def test_a_node_runs_the_jobs_of_a_file_and_says_so(tmp_path: Path, postgres_dsn: str) -> None:
    write(tmp_path)
    command = [sys.executable, "-m", "quartzpy", "node", "jobs.yaml", "--url", postgres_dsn, "--name", "of-files"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUARTZPY_")}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as node:
        assert node.stdout is not None
        lines = []
        for line in node.stdout:
            lines.append(line)
            if "DEFAULT.collect is SUCCEEDED" in line:
                node.send_signal(signal.SIGTERM)
                break
        else:
            pytest.fail("no execution had a line in the log:\n" + "".join(lines))
        node.stdout.read()
        assert node.wait(30) == 0
    scheduler = Scheduler(postgres_dsn, name="of-files")
    assert {execution.result for execution in scheduler.executions()} == {"collected eu"}
    scheduler.shutdown()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("node",), "give --app billing.jobs:scheduler, a file of declared jobs"),
        (("node", "--url", "postgresql://a@b/c"), "this node would know no jobs"),
        (("node", "nothing.yaml"), "'nothing.yaml' does not exist"),
        (("node", "jobs.yaml"), "no database is selected: give --url, set QUARTZPY_URL"),
        (("node", "jobs.yaml", "--app", "a.b:c"), "jobs.yaml: the scheduler of --app has these already"),
        (("node", "--name", "x", "--app", "a.b:c"), "--name: the scheduler of --app has these already"),
    ],
)
def test_what_is_missing_or_too_much_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], says: str
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QUARTZPY_URL", raising=False)
    done = quartzpy(*arguments)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
