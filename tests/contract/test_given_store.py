"""The option `--store`: the contract tests run on the store of somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.code_blocks import ROOT, blocks

MODULE = "my_store.py"
SOME = "tests/contract/test_slots.py"


def on_store(directory: Path, store: str) -> subprocess.CompletedProcess[str]:
    [block] = [block for block in blocks([ROOT / "docs" / "store-protocol.md"]) if "class MyHarness" in block.code]
    (directory / MODULE).write_text(block.code)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", SOME, f"--store={store}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_the_harness_of_the_manual_runs_the_tests_once(tmp_path: Path) -> None:
    ran = on_store(tmp_path, "my_store:MyHarness")
    assert ran.returncode == 0, ran.stdout
    assert "passed" in ran.stdout
    assert "[given" in ran.stdout
    assert "postgresql" not in ran.stdout


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("my_store:Missing", "--store=my_store:Missing: module 'my_store' has no attribute 'Missing'"),
        ("my_store:RamJobStore", "--store=my_store:RamJobStore: it is no subclass of tests.contract.harness.Harness"),
    ],
)
def test_what_is_no_harness_is_refused(tmp_path: Path, given: str, words: str) -> None:
    ran = on_store(tmp_path, given)
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert words in ran.stderr
