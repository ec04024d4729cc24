"""The programs of the pages about engines run, on a real PostgreSQL and a real Dask cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from quartzpy import Scheduler
from tests.docs.code_blocks import ROOT, write_files
from tests.waiting import wait_until


def _environ(url: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "QUARTZPY_URL": url}


def test_process_workers_count_primes(tmp_path: Path, new_database: str) -> None:
    [path] = write_files("engines/processes.md", tmp_path)
    path.write_text(path.read_text().replace("postgresql+psycopg://app@db/app", new_database))
    client = Scheduler(new_database)
    with subprocess.Popen([sys.executable, path], env=_environ(new_database)) as program:
        try:
            [execution] = wait_until(client.executions, seconds=60)
            program.send_signal(signal.SIGTERM)
            assert program.wait(60) == 0
        finally:
            program.kill()
    assert (execution.state, execution.result) == ("SUCCEEDED", 1_229)
    client.shutdown()


def test_numpy_runs_on_a_local_dask_cluster(tmp_path: Path, new_database: str) -> None:
    write_files("engines/dask.md", tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "risk.node"],
        cwd=tmp_path,
        env=_environ(new_database),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr[-5_000:]
    assert 0.08 < float(ran.stdout) < 0.09
    client = Scheduler(new_database)
    executions = list(client.executions())
    assert len(executions) == 20
    assert {execution.state for execution in executions} == {"SUCCEEDED"}
    client.shutdown()
