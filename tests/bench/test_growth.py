"""The scenario `growth`, run with tiny numbers: that its code works, not how fast it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.__main__ import main, measure
from benchmarks.bench import FULL, QUICK, Bench, Scale
from benchmarks.figures import ContestantError, Spread
from benchmarks.growth import backlogs, bulk, clusters, lateness, rows
from benchmarks.growth.backlogs import RATE, TENANT, Backlog
from benchmarks.growth.rows import SERVER, Part, Row
from benchmarks.jobs import Aside, numbered_type
from benchmarks.scenarios.growth import KINDS
from benchmarks.server import Server as MeasuredServer
from benchmarks.server import running_server
from tests.database import Server

TINY = Scale(
    size_rounds=1,
    warm_up_runs=5,
    warm_up_seconds=0.0,
    idle_seconds=0.2,
    growth_share=0.0005,
    growth_kinds=("keys",),
    growth_seconds=1.5,
    growth_nodes=(1, 2, 3),
)
PATIENT = replace(TINY, growth_seconds=60.0)
"""For a pace, whose measurement ends with its backlog."""


@pytest.fixture
def bench(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    # The server of the tests has no process of ours, whose time could be read.
    monkeypatch.setattr(MeasuredServer, "cpu_seconds", property(lambda server: time.perf_counter()))
    with running_server(postgres_server.dsn_of("postgres")) as server:
        yield Bench(server, TINY)


def test_a_run_has_the_rows_the_goals_and_the_chart_of_its_kinds(postgres_server: Server, tmp_path: Path) -> None:
    run = measure(
        ["growth"], PATIENT, url=postgres_server.dsn_of("postgres"), with_peers=False,
        command="test", started=datetime(2026, 1, 2, tzinfo=UTC), directory=tmp_path,
    )  # fmt: skip
    assert run.failures == {}
    [result] = run.results
    [table] = result.tables
    assert [row[0] for row in table.rows] == [
        "baseline: 10 triggers of one job, no limit",
        "limit 1 per key: 10 keys with 1 trigger each",
        "limit 1 per key: 1 keys with 20 triggers each",
    ]
    assert all(row[1].endswith(" a second") for row in table.rows)
    assert [goal.target for goal in result.goals] == [0.85, 0.8]
    assert all(goal.measured is not None and goal.measured > 0 for goal in result.goals)
    [chart] = result.charts
    [line] = chart.lines
    assert (line.label, [number for number, _ in line.points]) == ("triggers of each key", [1, 20])
    assert "at least 0.85" in (tmp_path / "report.md").read_text()


def test_the_pace_of_a_backlog_of_every_kind_beside_another_one(bench: Bench) -> None:
    backlog = Backlog(
        jobs=2,
        triggers=6,
        job_type=numbered_type,
        options=lambda job: {"requires": [f"label-{job}"], "max_concurrent": 1, "concurrency_key": TENANT},
        keys=3,
    )
    other = Backlog(1, 3, job_type=lambda job: Aside, options=lambda job: {"rate_limit": "10/s"})
    patient = replace(bench, scale=PATIENT)
    values = backlogs.pace(patient, backlog, beside=other, job_types=2, labels=["label-0", "label-1"])
    assert values[RATE] > 0
    assert values[SERVER] > 0


def test_a_backlog_that_nobody_works_off_has_no_pace(bench: Bench) -> None:
    backlog = Backlog(1, 3, options=lambda job: {"requires": ["absent"]})
    hurried = replace(bench, scale=replace(TINY, growth_seconds=0.1))
    assert backlogs.pace(hurried, backlog) == {RATE: 0.0}


def test_the_lateness_beside_types_and_beside_a_backlog(bench: Bench) -> None:
    bench = replace(bench, scale=replace(TINY, growth_seconds=4.0))
    values = lateness.beside_types(bench, 2)
    assert 0 < values[lateness.P50] <= values[lateness.P99]
    values = lateness.beside_backlog(bench, 5, Aside, 4.0)
    assert 0 < values[lateness.FIRES] <= 400
    assert values[backlogs.MEASURED] > 0


def test_what_two_nodes_spend(bench: Bench) -> None:
    values = clusters.spent_together(bench, 2)
    assert values[clusters.CPU] > 0
    assert values[clusters.IDLE_NODES] >= 0


def test_where_the_time_of_the_server_cannot_be_read_a_cluster_is_left_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MeasuredServer, "cpu_seconds", None)
    with pytest.raises(ContestantError, match="cannot be read"):
        clusters.spent_together(bench, 1)


@pytest.mark.parametrize("job_count", [1, 3])
def test_for_how_long_operations_on_many_triggers_hold_up_others(bench: Bench, job_count: int) -> None:
    values = bulk.held_up(bench, 9, job_count)
    for verb in (bulk.PAUSE, bulk.RESUME, bulk.DELETE, bulk.MISFIRE):
        assert values[f"{verb}, s"] > 0
        assert values[f"{verb}, ms held"] > 0
    with bench.server.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_row_compares_with_the_baseline_of_the_same_rounds() -> None:
    spreads = {
        "all": {RATE: Spread((100.0, 50.0)), SERVER: Spread((7.0, 9.0))},
        "part": {RATE: Spread((20.0, 10.0)), SERVER: Spread((30.0, 50.0))},
    }
    row = rows.compared("a part", "a second", RATE, "part", "all", spreads, ratio_goal=0.9)
    assert row.cells == ("a part", "15 a second", "75 a second", "0.2", "at least 0.9", "40")
    assert row.goal is not None
    assert row.goal.is_met is False
    missing = rows.compared("another", "a second", RATE, "absent", "all", spreads, ratio_goal=0.9)
    assert missing.cells == ("another", "not measured", "75 a second", "", "at least 0.9", "")
    assert missing.goal is not None
    assert missing.goal.is_met is None


def test_a_row_may_have_a_goal_of_its_own_or_none() -> None:
    row = Row("a wait", 120.0, "ms", figure_goal=100.0, at_most=True)
    assert row.cells[4] == "at most 100 ms"
    assert row.goal is not None
    assert row.goal.is_met is False
    assert Row("a time", 1.0, "s").goal is None


def test_a_value_that_is_missing_in_one_round_is_left_out() -> None:
    rounds = iter([{"a": 1.0, "b": 2.0}, {"a": 3.0}])
    spreads, notes = rows.in_rounds(2, {"only": lambda: next(rounds)})
    assert spreads == {"only": {"a": Spread((1.0, 3.0))}}
    assert notes == []


def test_only_kinds_with_points_have_a_line() -> None:
    parts = {"types": Part(points=[(100, 2.0), (10, 1.0)]), "bulk": Part()}
    [line] = rows.lines(parts, {"types": "job types", "bulk": ""})
    assert (line.label, line.points) == ("job types", ((10, 1.0), (100, 2.0)))


def test_an_unknown_kind_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["growth", "--kinds", "types,kees"])
    message = capsys.readouterr().err
    assert "'kees' is not a kind" in message
    assert all(name in message for name in KINDS)


def test_a_quick_run_is_smaller() -> None:
    assert QUICK.growth_share < FULL.growth_share
    assert QUICK.growth_seconds < FULL.growth_seconds
    assert max(QUICK.growth_nodes) < max(FULL.growth_nodes)
