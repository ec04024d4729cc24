"""A run in a world has all that the world consists of."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import __main__ as program
from tests.worlds import current
from tests.worlds.world import COMPETITORS


@pytest.fixture(autouse=True)
def _same_world_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "world", current.world)


def test_a_run_in_the_starved_world_shares_one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def play_all(given: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
        busy = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, check=True)
        seen.append((len(os.sched_getaffinity(0)), len(busy.stdout.split()) >= COMPETITORS, current.or_newest().name))
        return 0

    monkeypatch.setattr(program, "_play_all", play_all)
    monkeypatch.setattr(sys, "argv", ["chaos", "--world", "starved"])
    before = os.sched_getaffinity(0)
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 0
    assert seen == [(1, True, "starved")]
    assert os.sched_getaffinity(0) == before


def test_a_run_in_the_world_of_another_python_begins_anew_with_that(monkeypatch: pytest.MonkeyPatch) -> None:
    class BeganAnewError(Exception):
        pass

    def execute(path: Path, arguments: list[str]) -> None:
        assert str(path) == arguments[0]
        raise BeganAnewError(arguments)

    monkeypatch.setattr(program, "interpreter", lambda version: Path("/python") / version)
    monkeypatch.setattr(os, "execv", execute)
    monkeypatch.setattr(sys, "argv", ["chaos", "--seed", "7", "--world", "python3.13"])
    with pytest.raises(BeganAnewError) as began:
        program.main()
    assert began.value.args[0] == ["/python/3.13", "-m", "tests.chaos", "--seed", "7", "--world", "python3.13"]
