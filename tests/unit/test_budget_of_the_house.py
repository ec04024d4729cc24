"""The house keeps within its budget: `tools/budget.toml` says how much of what it may have."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools import journeys

FILE = Path(journeys.__file__).with_name("budget.toml")
BUDGET = tomllib.loads(FILE.read_text(encoding="utf-8"))["budget"]
SPARE = 1.1
"""A figure this far below its budget lowers the budget, so that what was won is not spent without a word."""


def test_the_budget_names_each_figure() -> None:
    assert set(BUDGET) == set(journeys.budget())


@pytest.mark.parametrize("figure", BUDGET)
def test_a_figure_keeps_within_its_budget(figure: str) -> None:
    present = journeys.budget()[figure]
    assert present <= BUDGET[figure], (
        f"{figure}: {present}. Lower something else, or write the decision that raises {BUDGET[figure]} in {FILE.name}"
    )
    assert BUDGET[figure] <= max(present * SPARE, present + 5), f"{figure}: lower the budget to {present}"
