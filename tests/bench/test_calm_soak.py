"""The calm soak: the slope of a series, what grew, and the scenario with tiny numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import measure
from benchmarks.bench import QUICK
from benchmarks.scenarios.calm_soak import grown_types, per_hour
from tests.bench.test_harness import STARTED
from tests.database import Server


def test_the_slope_of_a_series_is_per_hour_and_ignores_single_peaks() -> None:
    rising = [(float(minute), 60 + minute * 0.1) for minute in range(20)]
    assert per_hour(rising) == pytest.approx(6.0)
    flat = [(float(minute), 60.0) for minute in range(20)]
    flat[7] = (7.0, 90.0)
    assert per_hour(flat) == 0


def test_the_types_that_became_more_are_listed_the_most_first() -> None:
    before, after = {"dict": 10, "list": 5, "set": 3}, {"dict": 12, "list": 50, "set": 3, "Attempt": 4}
    assert grown_types(before, after) == [("list", 45), ("Attempt", 4), ("dict", 2)]


def test_a_short_calm_soak_runs_each_kind_of_job_and_judges_nothing(postgres_server: Server, tmp_path: Path) -> None:
    scale = replace(QUICK, calm_seconds=1.0, calm_warm_up_seconds=0.5)
    run = measure(
        ["calm-soak"], scale, url=postgres_server.dsn_of("postgres"), with_peers=False,
        command="test", started=STARTED, directory=tmp_path,
    )  # fmt: skip
    assert run.failures == {}
    (result,) = run.results
    assert [goal.measured for goal in result.goals] == [None]
    assert len(result.figures["node 1, MiB"]) == len(result.figures["node 2, MiB"]) > 0
