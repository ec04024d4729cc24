"""Run suites in worlds: `python -m tests.worlds [--worlds NAME,NAME] [--suites NAME,NAME] [--markdown]`.

All worlds that are installed, by default. What is not installed is named, with what installs it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.worlds import results
from tests.worlds.competition import competition
from tests.worlds.environments import ROOT, interpreter
from tests.worlds.exceptions import LEFT_OUT
from tests.worlds.installed import all_missing
from tests.worlds.results import Result
from tests.worlds.world import WORLDS, World, named

SUITES = {
    "contract": "tests/contract",
    "facade": "tests/facade",
    "alone": "tests/alone",
    "chaos smoke": "tests/chaos/test_smoke.py",
}


def run(world: World, suite: str, *, workers: int, arguments: Sequence[str]) -> Result:
    """Run one suite in one world, and show what it prints."""
    if not (ROOT / SUITES[suite]).exists():
        return Result(trouble=f"there is no {SUITES[suite]}")
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        command = [
            *(str(interpreter(world.python)), "-m", "pytest", "--quiet", "--world", world.name, SUITES[suite]),
            *("-n", str(workers), "--dist", "loadscope", f"--junit-xml={report}", *arguments),
        ]
        print(f"\n== {world.name}: {suite}", flush=True)
        begun = time.monotonic()
        # Without bytecode, each process that a test starts would compile the package anew.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with competition(world.competitors):
            subprocess.run(command, cwd=ROOT, check=False, env=environment)
        return results.read(report, time.monotonic() - begun)


def chosen(names: str | None) -> tuple[Sequence[World], int]:
    """The worlds to run, and how many of those that were asked for cannot be; says what they lack."""
    lacking = all_missing()
    wanted = list(WORLDS.values()) if names is None else list(named(names))
    for world in wanted:
        if world.name in lacking:
            print(f"not installed: {world.name} ({world.title}) needs {'; '.join(lacking[world.name])}")
    absent = 0 if names is None else sum(world.name in lacking for world in wanted)
    return [world for world in wanted if world.name not in lacking], absent


def show_list() -> None:
    """Say which worlds there are, what they lack here, and what is left out of them."""
    lacking = all_missing()
    for world in WORLDS.values():
        state = f" (not installed: {'; '.join(lacking[world.name])})" if world.name in lacking else ""
        print(f"{world.name:14} {world.title}{state}")
        for beginning, why in LEFT_OUT.get(world.name, {}).items():
            print(f"{'':14} without {beginning}: {why}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.worlds", description=__doc__)
    parser.add_argument("--worlds", metavar="NAME,NAME", help="only these; all that are installed by default")
    parser.add_argument("--suites", metavar="NAME,NAME", help=f"only these of {', '.join(SUITES)}")
    parser.add_argument("-n", "--workers", type=int, default=4, help="the workers of each run (4)")
    parser.add_argument("--markdown", action="store_true", help="print the table of the documentation, too")
    parser.add_argument("--list", action="store_true", help="say which worlds there are, and run nothing")
    given, rest = parser.parse_known_args(arguments)
    if given.list:
        show_list()
        return 0
    suites = given.suites.split(",") if given.suites else list(SUITES)
    if unknown := [suite for suite in suites if suite not in SUITES]:
        parser.error(f"there is no suite {unknown[0]!r}; there are {', '.join(SUITES)}")
    try:
        worlds, absent = chosen(given.worlds)
    except LookupError as error:
        parser.error(str(error))
    found: dict[str, dict[str, Result]] = {}
    for world in worlds:
        for suite in suites:
            result = run(world, suite, workers=given.workers, arguments=rest)
            found.setdefault(world.name, {})[suite] = result
    print("\n" + results.as_text(found, suites))
    if given.markdown:
        print("\n" + results.as_markdown(found, suites))
    good = found and all(result.is_good for suite in found.values() for result in suite.values())
    return 0 if good and not absent else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
