"""What the kernel says of processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.processes import cpu_seconds


def test_a_process_that_ends_while_it_is_read_takes_no_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cpu_seconds(os.getpid()) > 0

    def gone(directory: Path, pattern: str) -> Iterator[Path]:
        raise FileNotFoundError(directory)

    monkeypatch.setattr(Path, "glob", gone)
    assert cpu_seconds(os.getpid()) == 0
