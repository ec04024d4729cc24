"""Runs a test in a process of its own, on a build with a guard taken out or on the build as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.database import DSN_VARIABLE
from tests.sabotage.build import ROOT, Sabotage

TEST_SECONDS = 60
HANGING_SECONDS = 15
"""So long may a test take that waits for ever, and fails by that."""
RUN_SECONDS = 240
ORDINARY = (
    "tests/contract/test_acquire.py::test_what_is_due_fires_in_the_same_transaction[postgresql]",
    "tests/contract/test_checkin.py::test_a_check_in_renews_the_lease_and_answers_with_all_nodes[postgresql]",
    "tests/contract/test_complete.py::test_an_ended_execution_releases_its_claim_and_enters_the_history[postgresql]",
    "tests/contract/test_complete.py::test_changed_job_data_is_stored_and_given_to_the_next_fire[postgresql]",
    "tests/contract/test_acquire.py::test_a_trigger_moves_on_by_its_stored_instants[postgresql]",
    "tests/contract/test_recover.py::test_an_execution_that_does_not_request_recovery_is_lost[postgresql]",
    "tests/contract/test_retry.py::test_the_next_attempt_fires_after_its_delay[postgresql]",
    "tests/contract/test_replacing.py::test_replacing_a_job_keeps_its_triggers[postgresql]",
    "tests/contract/test_replacing.py::test_a_replaced_job_type_decides_which_nodes_claim_its_triggers[postgresql]",
    "tests/facade/test_using.py::test_it_is_committed_with_the_users_data",
)
"""What works on every such build: a guard is missed only where something goes wrong. A build that cannot run at all
would fail every test, and say nothing of them."""
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")


@dataclass(frozen=True)
class Trial:
    """What became of a run of one test."""

    status: int
    counts: dict[str, int]
    seconds: float
    output: str

    @property
    def failed(self) -> bool:
        """A test failed; nothing failed before it was run."""
        return self.status == 1 and self.counts.get("failed", 0) > 0 and "error" not in self.counts

    @property
    def passed(self) -> bool:
        return self.status == 0 and self.counts.get("passed", 0) > 0 and self.counts.keys() <= {"passed"}


def run(tests: Sequence[str], sabotage: Sabotage | None, dsn: str) -> Trial:
    """Run tests on the server of `dsn`, to the first that fails; without a sabotage, on quartzpy as it is."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=short", "-p", "tests.sabotage.plugin"]
    seconds = HANGING_SECONDS if sabotage is not None and sabotage.hangs else TEST_SECONDS
    command += [f"--timeout={seconds}", "--timeout-method=signal"]
    if sabotage is not None:
        command += ["--sabotage", sabotage.name]
    began = time.monotonic()
    done = subprocess.run(
        [*command, *tests],
        cwd=ROOT,
        # Nothing of the run that this one is a part of.
        env={**{name: at for name, at in os.environ.items() if not name.startswith("PYTEST_")}, DSN_VARIABLE: dsn},
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


def collect(tests: Sequence[str]) -> None:
    """Check that tests exist, without running them; raises AssertionError that tells which do not."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", *tests],
        cwd=ROOT,
        env={name: at for name, at in os.environ.items() if not name.startswith("PYTEST_")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
