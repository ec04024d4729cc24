from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.ha.cluster import PatroniCluster
from tests.ha.options import parts_here, why_not
from tests.ha.workload import Workload


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = [item for item in items if item.get_closest_marker("ha")]
    if chosen and (reason := why_not(config)) is not None:
        for item in chosen:
            item.add_marker(pytest.mark.skip(reason=f"failovers of a Patroni cluster: {reason}"))


def _cluster(*, synchronous: bool) -> Iterator[PatroniCluster]:
    parts, _ = parts_here()
    assert parts is not None
    with PatroniCluster(parts, synchronous=synchronous) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def patroni() -> Iterator[PatroniCluster]:
    """A cluster whose commits wait for a standby."""
    yield from _cluster(synchronous=True)


@pytest.fixture
def start_workload(patroni: PatroniCluster) -> Iterator[Callable[..., Workload]]:
    """Starts nodes and load under a name of their own."""
    started: list[Workload] = []

    def start(name: str, **settings: Any) -> Workload:
        workload = Workload(patroni.dsn, patroni.directory / f"nodes-{name}", name=name, **settings)
        started.append(workload)
        workload.start()
        return workload

    yield start
    for workload in started:
        workload.stop()
