"""Random graphs of joins, continuations and batches start what a model of a few lines says, each occasion once.

`--long` plays 10,000 of them on the store in memory and 300 on PostgreSQL, and other runs a sample.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.contract.harness import Harness, RamHarness, SqlBackend, SqlHarness
from tests.protocol.join_graphs import Life, lived
from tests.protocol.options import is_long


def play(seeds: range, store: Callable[[], Harness]) -> int:
    """Live as many lives; return the number of starts."""
    starts = 0
    for seed in seeds:
        life = lived(store(), seed)
        assert not (differences := life.differences()), f"seed {seed}: {differences}\n" + "\n".join(life.log)
        starts += sum(life.observed.values())
    return starts


def test_random_graphs_in_memory_start_what_the_model_says(pytestconfig: pytest.Config) -> None:
    lives = 10_000 if is_long(pytestconfig) else 100
    assert play(range(lives), RamHarness) > 5 * lives


def test_random_graphs_on_postgresql_start_what_the_model_says(
    pytestconfig: pytest.Config, postgres_dsn: str, request: pytest.FixtureRequest
) -> None:
    empty_tables = request.getfixturevalue("_empty_tables")
    backend = SqlBackend(postgres_dsn)

    def empty() -> Harness:
        empty_tables()
        return SqlHarness(backend)

    lives = 300 if is_long(pytestconfig) else 6
    try:
        assert play(range(lives), empty) > 5 * lives
    finally:
        backend.close()


def test_the_model_finds_what_was_not_started_and_what_waits_in_vain() -> None:
    life = Life(RamHarness(), 1)
    while not life.model.starts:
        life.step()
    life.run_out()
    assert not life.differences()
    place = next(iter(life.model.starts))
    life.observed[place] -= 1
    assert len(life.differences()) == 1
