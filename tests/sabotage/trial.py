"""Runs a test in a process of its own, on a build with a guard taken out or on the build as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass

from tests.database import DSN_VARIABLE
from tests.sabotage.build import ROOT, Sabotage

TEST_SECONDS = 60
HANGING_SECONDS = 15
"""So long may a test take that waits for ever, and fails by that."""
RUN_SECONDS = 240
_FAILED = re.compile(r"^FAILED (\S+)", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")


@dataclass(frozen=True)
class Trial:
    """What became of a run of one test."""

    status: int
    counts: dict[str, int]
    seconds: float
    output: str

    @property
    def failures(self) -> list[str]:
        """The ids of the tests that failed."""
        return _FAILED.findall(self.output)

    @property
    def failed(self) -> bool:
        """A test failed; nothing failed before it was run."""
        return self.status == 1 and self.counts.get("failed", 0) > 0 and "error" not in self.counts

    @property
    def passed(self) -> bool:
        return self.status == 0 and self.counts.get("passed", 0) > 0 and self.counts.keys() <= {"passed"}


def run(test: str, sabotage: Sabotage | None, dsn: str) -> Trial:
    """Run a test on the server of `dsn`; without a sabotage, on quartzpy as it is."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=short", "-p", "tests.sabotage.plugin"]
    seconds = HANGING_SECONDS if sabotage is not None and sabotage.hangs else TEST_SECONDS
    command += [f"--timeout={seconds}", "--timeout-method=signal"]
    if sabotage is not None:
        command += ["--sabotage", sabotage.name]
    began = time.monotonic()
    done = subprocess.run(
        [*command, test],
        cwd=ROOT,
        env={**os.environ, DSN_VARIABLE: dsn},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=RUN_SECONDS,
        check=False,
    )
    last = next((line for line in reversed(done.stdout.splitlines()) if _COUNT.search(line)), "")
    counts = {kind.rstrip("s") if kind != "passed" else kind: int(number) for number, kind in _COUNT.findall(last)}
    return Trial(done.returncode, counts, time.monotonic() - began, done.stdout[-6_000:] + done.stderr[-2_000:])
