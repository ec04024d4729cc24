"""What the kernel says of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.processes import cpu_seconds, cpu_seconds_with_children


def test_a_process_that_ends_while_it_is_read_takes_no_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cpu_seconds(os.getpid()) > 0

    def gone(directory: Path, pattern: str) -> Iterator[Path]:
        raise FileNotFoundError(directory)

    monkeypatch.setattr(Path, "glob", gone)
    assert cpu_seconds(os.getpid()) == 0


def test_the_time_of_a_child_counts_after_its_end() -> None:
    before = cpu_seconds_with_children(os.getpid())
    # It takes 0.2 s of processor time.
    child = subprocess.Popen([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"])
    child.wait()
    assert cpu_seconds_with_children(os.getpid()) - before >= 0.19
