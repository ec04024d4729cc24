"""Expectations in simulated days: everything injected is found, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.expectations.simulation import Simulation, of_judge


@pytest.mark.parametrize(
    ("start", "seed"),
    [
        pytest.param(datetime(2026, 3, 5, tzinfo=UTC), 1, id="clocks go forward in New York"),
        pytest.param(datetime(2026, 3, 26, tzinfo=UTC), 2, id="clocks go forward in Berlin"),
        pytest.param(datetime(2026, 10, 22, tzinfo=UTC), 3, id="clocks go back in Berlin"),
    ],
)
def test_what_is_injected_is_found_and_nothing_else(start: datetime, seed: int) -> None:
    simulation = Simulation(start, days=7, jobs=20, failures=20, seed=seed)
    simulation.run()
    score, found, injected = of_judge(simulation)
    assert found - injected == set()
    assert injected - found == set()
    assert score.right >= 5
