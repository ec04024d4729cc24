"""The arithmetic of the benchmarks, and their report."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks import plots, report
from benchmarks.figures import (
    Chart,
    ContestantError,
    Goal,
    Line,
    Result,
    Spread,
    Table,
    interleaved,
    percentile,
    rate_table,
    rounded,
)
from benchmarks.jobs import Counter
from benchmarks.report import Run
from benchmarks.steady import distribution
from quartzpy.installing import install_line


def test_a_percentile_is_the_smallest_value_that_so_many_values_do_not_exceed() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, percent) for percent in (1, 50, 99, 99.9, 100)] == [1, 50, 99, 100, 100]
    assert percentile([7.0], 50) == 7.0
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_a_ratio_compares_rounds_so_a_slow_minute_cancels_out() -> None:
    # The machine was half as fast in the second round and twice as fast in the third.
    ours, theirs = Spread((80.0, 40.0, 160.0)), Spread((100.0, 50.0, 200.0))
    assert ours.ratio(theirs) == pytest.approx(0.8)
    assert (ours.median, ours.least, ours.most) == (80.0, 40.0, 160.0)


def test_contestants_take_turns_and_each_round_begins_with_another_one() -> None:
    order: list[str] = []

    def contestant(name: str) -> float:
        order.append(name)
        return float(len(order))

    spreads, notes = interleaved(3, {name: lambda name=name: contestant(name) for name in "abc"})  # type: ignore[misc]
    assert "".join(order) == "abc" + "bca" + "cab"
    assert spreads["a"].values == (1.0, 6.0, 8.0)
    assert notes == []


def test_a_contestant_that_fails_is_left_out_with_a_note_and_the_others_go_on() -> None:
    def broken() -> float:
        raise ContestantError("no such program")

    spreads, notes = interleaved(2, {"broken": broken, "sound": lambda: 3.0})
    assert spreads == {"sound": Spread((3.0, 3.0))}
    assert notes == ["broken was left out: no such program"]


def test_an_error_of_our_own_is_not_taken_for_one_of_a_contestant() -> None:
    def broken() -> float:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        interleaved(1, {"broken": broken})


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal("a ratio", 0.9, 0.9), True),
        (Goal("a ratio", 0.9, 0.89), False),
        (Goal("a delay", 5.0, 5.0, "ms", at_most=True), True),
        (Goal("a delay", 5.0, 5.1, "ms", at_most=True), False),
        (Goal("a delay", 5.0, None, "ms", at_most=True), None),
    ],
)
def test_a_goal_is_met_or_not_or_was_not_measured(goal: Goal, met: bool | None) -> None:
    assert goal.is_met is met


def test_values_are_shown_with_three_digits() -> None:
    assert [rounded(value) for value in (0, 0.01234, 1.5, 99.96, 123.4, 12_345.6)] == [
        "0", "0.0123", "1.5", "100", "123", "12,346",
    ]  # fmt: skip


def test_a_table_of_rates_compares_with_its_first_row() -> None:
    table = rate_table("rates", {"one": Spread((100.0,)), "other": Spread((50.0,))}, {"other": "slow"})
    assert table.rows == (("one", "100", "100 to 100", "1.00", ""), ("other", "50", "50 to 50", "0.50", "slow"))


def test_a_distribution_falls_from_all_jobs_to_the_last_one() -> None:
    points = distribution([float(value) for value in range(1, 1001)])
    assert points[0] == (1.0, 100.0)
    assert points[-1][1] == pytest.approx(0.1)
    assert points[-1][0] >= 999
    assert all(later[0] >= earlier[0] for earlier, later in pairwise(points))


def test_a_counter_counts_what_threads_add_and_not_its_readers() -> None:
    counter = Counter()

    def add() -> None:
        for _ in range(1_000):
            counter.add()

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        assert 0 <= counter.value <= 4_000
    for thread in threads:
        thread.join()
    assert (counter.value, counter.value) == (4_000, 4_000)


@pytest.fixture
def run() -> Run:
    result = Result(
        "example",
        goals=[Goal("fast enough", 10, 12.5, "ms", at_most=True), Goal("times a peer", 1.2, None)],
        tables=[Table("A table", ("", "value"), (("a|b", "1"),))],
        charts=[Chart("example", "A chart", "x", "y", (Line("a", ((1.0, 2.0), (2.0, 3.0))),))],
        notes=["A note."],
        figures={"values": [1.0, 2.0]},
    )
    return Run(
        started=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        command="python -m benchmarks example",
        machine={"cores": 2},
        server_settings={"fsync": "on"},
        peers={"quartz": "skipped; apt-get install quartz"},
        results=[result],
        failures={"other": "ValueError: broken"},
    )


def test_the_report_says_which_goals_are_met_which_peers_are_absent_and_what_failed(run: Run) -> None:
    text = report.markdown(run)
    assert "| example | fast enough | at most 10 ms | 12.5 ms | **not met** |" in text
    assert "| example | times a peer | at least 1.2 |  | not measured |" in text
    assert "| quartz | skipped; apt-get install quartz |" in text
    assert "fsync on." in text
    assert r"| a\|b | 1 |" in text
    assert "The scenario failed: ValueError: broken" in text


def test_the_json_holds_all_values_and_the_verdicts(run: Run, tmp_path: Path) -> None:
    report.write(run, tmp_path / "out")
    stored = json.loads((tmp_path / "out" / "results.json").read_text())
    assert stored["started"] == "2026-01-02T03:04:00+00:00"
    assert stored["results"][0]["figures"] == {"values": [1.0, 2.0]}
    assert [goal["is_met"] for goal in stored["results"][0]["goals"]] == [False, None]
    assert stored["machine"] == {"cores": 2}
    assert (tmp_path / "out" / "example.svg").exists() == plots.can_draw()


def test_without_matplotlib_the_report_says_how_to_install_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "can_draw", lambda: False)
    text = report.markdown(run)
    assert install_line("bench") in text
    assert ".svg" not in text
