"""A chaos run in the test command: 12 faults by default; `--chaos=quick`, `long` and `day` play others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.__main__ import play, show

NEEDED_PIPELINES = ("acquire", "refill", "complete", "check_in", "misfire", "recover", "pause")


@pytest.mark.timeout(0)
def test_nothing_is_lost_doubled_or_stuck(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    mode = pytestconfig.getoption("chaos")
    if mode == "off":
        pytest.skip("--chaos=off")
    seed = pytestconfig.getoption("chaos_seed")
    told: list[str] = []
    minutes = {"long": pytestconfig.getoption("chaos_minutes"), "day": 1.0}.get(mode)
    report = play(mode, seed, tmp_path, say=told.append, minutes=minutes)
    show(report, told.append)
    print("\n".join(told))
    assert report.violations == [], f"seed {seed}, records in {tmp_path}\n" + "\n".join(told)
    # A proxy that does not recognise the round trips would have lost none of them.
    seen = {kind for pipelines in report.figures["pipelines"].values() for kind, count in pipelines.items() if count}
    # Nobody dies in a day: there may be nothing to recover, and nothing that is late.
    assert {kind for kind in NEEDED_PIPELINES if mode != "day" or kind not in ("misfire", "recover")} <= seen
    assert report.figures["targets"] > 300
