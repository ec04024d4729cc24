"""The stores that keep the contract: every test of this folder runs on each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.harness import Harness, RamHarness, SqlHarness


@pytest.fixture(params=["ram", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """A store with its clock; for a database, on tables that are empty."""
    harness: Harness
    if request.param == "ram":
        harness = RamHarness()
    else:
        harness = SqlHarness(request.getfixturevalue("postgres_dsn"))
    yield harness
    harness.close()
