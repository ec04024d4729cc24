"""The command line: each command as a process of its own, as an operator runs it."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.bench import Bench
from benchmarks.operated.measuring import times_of
from benchmarks.operated.rows import CALENDAR
from quartzpy.cli.main import main
from quartzpy.store.postgresql.connection.connections import Connections

START = ("--version",)
"""The command that needs neither the database nor the modules that read it."""
_JOB, _TRIGGER, _HOT = "group-7.job-7", "group-45.trigger-2345", "group-0.trigger-0"
_PLANNED = """
[[job]]
name = "planned"
type = "quartzpy.NoOpJob"
durable = true
"""
# Its parent is small, because the memory of a process counts from the fork.
_RUN = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
_ENDS = {"doctor": {0, 1, 2}, "health": {0, 1}}
"""The statuses of commands that have one for a cluster that is not well."""


@dataclass(frozen=True)
class Command:
    """The times of a command, each in milliseconds."""

    wall: list[float]
    """From the start of the process to its end."""
    database: float | None
    """The time for which it waits for answers of the database; None for a command without one."""
    mebibytes: float | None = None
    """The largest memory of the process, where it was measured."""


def measure(bench: Bench, url: str, executions: int) -> dict[str, Command]:
    """Return the times of the commands that read what they show."""
    repeats = 2 * bench.scale.rounds
    return {_name(words): _measured(url, words, repeats) for words in [START, *_commands(executions)]}


def measure_whole(url: str, directory: Path) -> dict[str, Command]:
    """Return the times and the memory of the commands that read whole tables, each run once."""
    file = directory / "jobs.toml"
    file.write_text(_PLANNED)
    found = [("export", "--output", str(directory / "all.toml")), ("plan", str(file)), ("doctor",)]
    return {_name(words): _once(url, words) for words in found}


def _once(url: str, words: Sequence[str]) -> Command:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *_line(words)], env=_environment(url), capture_output=True, text=True, check=True
    )
    wall = (time.perf_counter() - began) * 1000
    status, kibibytes = map(int, done.stdout.split())
    if status not in _ENDS.get(words[0], {0}):
        raise RuntimeError(f"{_name(words)}: {status}: {done.stderr.strip()[-500:]}")
    return Command([wall], None, kibibytes / 1024)


def _commands(executions: int) -> list[tuple[str, ...]]:
    fire_id = str(executions // 2)
    return [
        ("jobs",),
        ("jobs", "--contains", "999"),
        ("jobs", "--json"),
        ("triggers",),
        ("triggers", "--state", "error"),
        ("triggers", "--state", "paused"),
        ("triggers", "--group", "group-50"),
        ("triggers", "--job", _JOB),
        ("triggers", "--calendar", CALENDAR),
        ("triggers", "--contains", "nothing-of-this"),
        ("triggers", "--order", "next_fire_time"),
        ("triggers", "--until", "1h"),
        ("executions",),
        ("executions", "--state", "failed"),
        ("executions", "--job", _JOB),
        ("executions", "--trigger", _HOT),
        ("executions", "--node", "node-3"),
        ("executions", "--node", "node-99"),
        ("executions", "--since", "20d", "--until", "19d"),
        ("executions", "--exhausted"),
        ("misfires",),
        ("misfires", "--node", "node-99"),
        ("misfires", "--action", "ended"),
        ("misfires", "--since", "20d", "--until", "19d"),
        ("running",),
        ("running", "--node", "node-3"),
        ("upcoming",),
        ("nodes",),
        ("calendars",),
        ("groups",),
        ("limits",),
        ("locks",),
        ("audit",),
        ("audit", "--action", "delete"),
        ("audit", "--since", "320d", "--until", "319d"),
        ("show", "job", _JOB),
        ("show", "trigger", _TRIGGER),
        ("show", "execution", fire_id),
        ("show", "calendar", CALENDAR),
        ("show", "node", "node-3"),
        ("why", _TRIGGER),
        ("log", fire_id),
        ("health",),
        ("health", "--ready"),
    ]


def _name(words: Sequence[str]) -> str:
    shown = [Path(word).name if word.startswith("/") else word for word in words]
    return " ".join(["quartzpy", *shown])


def _measured(url: str, words: Sequence[str], repeats: int) -> Command:
    def run() -> None:
        done = subprocess.run(_line(words), env=_environment(url), capture_output=True, text=True, check=False)
        if done.returncode not in _ENDS.get(words[0], {0}) or "Error" in done.stderr:
            raise RuntimeError(f"{_name(words)}: {done.returncode}: {done.stderr.strip()[-500:]}")

    if words == START:
        return Command(times_of(run, repeats), None)
    return Command(times_of(run, repeats), _waited_ms(url, words))


def _waited_ms(url: str, words: Sequence[str]) -> float:
    """Run a command in this process, and return the milliseconds that its round trips took."""
    spent = 0.0
    ask = Connections.execute

    def timed(*arguments: Any, **options: Any) -> Any:
        nonlocal spent
        began = time.perf_counter()
        try:
            return ask(*arguments, **options)
        finally:
            spent += (time.perf_counter() - began) * 1000

    with contextlib.ExitStack() as stack:
        # Reads pass through it as well.
        stack.enter_context(mock.patch.object(Connections, "execute", timed))
        stack.enter_context(mock.patch.dict(os.environ, _environment(url)))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(contextlib.suppress(SystemExit))
        main(list(words))
    return spent


def _line(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "quartzpy", *words]


def _environment(url: str) -> dict[str, str]:
    return {**os.environ, "QUARTZPY_URL": url}
