from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.nodes import Cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture
def make_cluster(postgres_dsn: str, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(dsn: str = postgres_dsn, **settings: Any) -> Cluster:
        made.append(Cluster(dsn, tmp_path, **settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


@pytest.fixture
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    return make_cluster()
