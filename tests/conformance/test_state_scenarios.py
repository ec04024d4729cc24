"""The state machine, transition by transition: what clustered Quartz nodes did on PostgreSQL, played on our stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from quartzpy.clock import SystemClock
from quartzpy.config.config import SchedulerConfig
from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import JobStore
from tests.conformance.loading import Case, family
from tests.conformance.player import Player


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    directory = metafunc.config.getoption("--conformance-dir")
    try:
        scenarios = family(directory, "state_scenarios")
    except pytest.skip.Exception:
        scenarios = []
    metafunc.parametrize("scenario", scenarios, ids=[f"{case['id']}" for case in scenarios])


@pytest.fixture(params=["memory", "postgresql"])
def new_store(request: pytest.FixtureRequest) -> Callable[[SchedulerConfig], JobStore]:
    if request.param == "memory":
        shared = RamJobStore(SystemClock())
        return lambda config: shared
    dsn: str = request.getfixturevalue("postgres_dsn")
    return lambda config: SqlJobStore(dsn, config)


def test_triggers_go_through_the_states_that_quartz_puts_them_into(
    conformance_dir: Path, scenario: Case, new_store: Callable[[SchedulerConfig], JobStore]
) -> None:
    assert conformance_dir
    player = Player(scenario, new_store, scheduler_name="played")
    try:
        player.play()
    finally:
        player.close()
