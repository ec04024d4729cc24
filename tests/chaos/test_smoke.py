"""A chaos run in the test command: 12 faults by default; `--chaos=quick`, `long`, `day` and `engines` play others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.__main__ import play, show

NEEDED_PIPELINES = ("acquire", "refill", "complete", "check_in", "misfire", "recover", "pause")
NEEDED_IN_A_DAY = ("acquire", "complete", "check_in", "pause")
"""Nobody dies in it, and it is short: perhaps nothing is to recover, nothing late, no stored fire times used up."""


@pytest.mark.timeout(0)
def test_nothing_is_lost_doubled_or_stuck(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    mode = pytestconfig.getoption("chaos")
    if mode == "off":
        pytest.skip("--chaos=off")
    seed = pytestconfig.getoption("chaos_seed")
    told: list[str] = []
    minutes = {"long": pytestconfig.getoption("chaos_minutes"), "day": 1.0, "engines": 1.0}.get(mode)
    report = play(mode, seed, tmp_path, say=told.append, minutes=minutes)
    show(report, told.append)
    print("\n".join(told))
    assert report.violations == [], f"seed {seed}, records in {tmp_path}\n" + "\n".join(told)
    # A proxy that does not recognise the round trips would have lost none of them.
    seen = {kind for pipelines in report.figures["pipelines"].values() for kind, count in pipelines.items() if count}
    assert set(NEEDED_IN_A_DAY if mode in ("day", "engines") else NEEDED_PIPELINES) <= seen
    assert report.figures["targets"] > (50 if mode == "engines" else 300)
