"""A dashboard, and a client of it on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard import Authenticator, create_app
from quartzpy.operations.actions.action import local_user
from tests.dashboard.scene import fill

LOCAL = {"base_url": "http://127.0.0.1", "client": ("127.0.0.1", 50_000)}


THIS_USER: Authenticator = lambda request: local_user()  # noqa: E731
"""Lets everybody do what the user of this process may."""


@pytest.fixture
def scheduler(postgres_dsn: str) -> Iterator[Scheduler]:
    """A client with jobs and triggers of all kinds and states."""
    made = Scheduler(postgres_dsn, name="scene")
    fill(made)
    yield made
    made.shutdown()


@pytest.fixture
def open_page(scheduler: Scheduler) -> Callable[..., TestClient]:
    """Makes clients of a dashboard with given options."""

    def make(**options: Any) -> TestClient:
        return TestClient(create_app(scheduler, **options), **LOCAL)

    return make


@pytest.fixture
def client(open_page: Callable[..., TestClient]) -> TestClient:
    return open_page()
