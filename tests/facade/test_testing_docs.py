"""Jobs that are written as the documentation advises can be tested: its examples run on the test scheduler."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import quartzpy
from quartzpy.testing import SchedulerHarness

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / f"{name}.md" for name in ("jobs", "execution", "failures", "limits", "listeners")]
PAGES += [DOCS / "how-to" / "after-several-jobs.md"]
BLOCKS = [block for page in PAGES for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)]
EXAMPLES = [block for block in BLOCKS if 'Scheduler("memory://"' in block]
FROM_ANOTHER_THREAD = ".wait(10)"
"""Such an example waits, beside the scheduler, for a job to run. In a test a call at an instant takes its place."""


def harness(url: str, **settings: Any) -> SchedulerHarness:
    return SchedulerHarness(datetime.now(UTC), **settings)


@pytest.mark.parametrize("block", [block for block in EXAMPLES if FROM_ANOTHER_THREAD not in block])
def test_an_example_of_these_pages_runs_on_the_test_scheduler(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quartzpy, "Scheduler", harness)
    module = type(quartzpy)("example_on_the_test_scheduler")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block, "example", "exec"), module.__dict__)
    assert isinstance(module.__dict__["scheduler"], SchedulerHarness)


def test_most_examples_of_these_pages_are_among_them() -> None:
    left_out = [block for block in EXAMPLES if FROM_ANOTHER_THREAD in block]
    assert len(EXAMPLES) >= 8
    assert len(left_out) <= 1
