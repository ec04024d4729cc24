"""The option `--engine`: the contract tests run on the engine of somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.code_blocks import ROOT, blocks

SOME = "tests/contract/test_engines.py::test_a_call_ends_with_what_its_job_returned"


def on_engine(directory: Path, engine: str) -> subprocess.CompletedProcess[str]:
    page = ROOT / "docs" / "engines" / "your-own.md"
    [block] = [block for block in blocks([page]) if "class MyHarness" in block.code]
    (directory / "my_engine.py").write_text(block.code)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", SOME, f"--engine={engine}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_the_harness_of_the_manual_runs_the_tests_once(tmp_path: Path) -> None:
    ran = on_engine(tmp_path, "my_engine:MyHarness")
    assert ran.returncode == 0, ran.stdout
    assert "[given]" in ran.stdout
    assert "1 passed" in ran.stdout


def test_what_is_no_harness_is_refused(tmp_path: Path) -> None:
    ran = on_engine(tmp_path, "quartzpy:Job")
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--engine=quartzpy:Job: it is no subclass of tests.contract.engine_harness.EngineHarness" in ran.stderr
