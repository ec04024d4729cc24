"""Process workers for several tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quartzpy.node.engines.runs import EngineRuns
from tests.node.processes import workers


@pytest.fixture(scope="module")
def shared() -> Iterator[EngineRuns]:
    made = workers()
    yield made
    made.close(5)


@pytest.fixture
def fifo(tmp_path: Path) -> Callable[[str], str]:
    def make(name: str) -> str:
        path = tmp_path / name
        os.mkfifo(path)
        return str(path)

    return make
