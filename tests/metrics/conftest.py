"""Schedulers that are measured, on both stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import Scheduler
from quartzpy.metrics import Metrics
from tests.facade import jobs


@pytest.fixture(params=["memory", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    return "memory://" if request.param == "memory" else request.getfixturevalue("postgres_dsn")


@pytest.fixture
def make(url: str) -> Iterator[Callable[..., tuple[Scheduler, Metrics]]]:
    """Makes a scheduler with metrics at a free port."""
    jobs.reset()
    made: list[Scheduler] = []

    def one(dsn: str = url, metrics: Metrics | None = None, **settings: Any) -> tuple[Scheduler, Metrics]:
        measuring = metrics or Metrics(port=0)
        made.append(Scheduler(dsn, plugins=[measuring], **jobs.arguments(**settings)))
        return made[-1], measuring

    yield one
    jobs.go_on.set()
    for scheduler in made:
        scheduler.shutdown(timeout=timedelta(seconds=60), interrupt=True)
