from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from quartzpy import Scheduler
from quartzpy.cli.main import main

_numbers = itertools.count()


@dataclass(frozen=True)
class Done:
    """The exit status of a command, and its output."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Terminal:
    """Runs commands in this process, on one scheduler of a real database."""

    scheduler: Scheduler
    run: Callable[..., Done]

    def ok(self, *arguments: str) -> str:
        """The output of a command that must succeed."""
        done = self.run(*arguments)
        assert done.status == 0, (arguments, done)
        return done.out


@pytest.fixture
def terminal(
    postgres_dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Terminal]:
    """Commands find the database and the scheduler in a file, as in a directory of a user."""
    name = f"terminal-{os.getpid()}-{next(_numbers)}"
    (tmp_path / "quartzpy.toml").write_text(f'url = "{postgres_dsn}"\nname = "{name}"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: str) -> Done:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        written = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, written.out, written.err)

    scheduler = Scheduler(postgres_dsn, name=name)
    try:
        yield Terminal(scheduler, run)
    finally:
        scheduler.shutdown()
