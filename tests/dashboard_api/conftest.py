"""The API over a store whose time a test moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard.api.app import PREFIX, create_api
from quartzpy.dashboard.background import BackgroundActions
from quartzpy.operations import Actor, Operations, Role
from tests.admin.conftest import pytest_generate_tests as pytest_generate_tests
from tests.contract.conftest import sql_backends as sql_backends
from tests.contract.conftest import store as store
from tests.contract.harness import Harness

CHECKED = "X-Checked"


class RefusedError(Exception):
    """A request without the proof that it comes from this site."""


@dataclass
class Api:
    """A client of the API. Requests are those of `actor`, and carry the proof unless `proves` is false."""

    client: TestClient
    operations: Operations
    actor: Actor | None
    proves: bool = True


@pytest.fixture
def api(store: Harness) -> Iterator[Api]:
    def check(request: Request) -> None:
        if not found.proves:
            raise RefusedError("the token is missing")

    operations = Operations(Scheduler(store.store, name="contract"))
    background = BackgroundActions(lambda: None)
    inner = create_api(
        operations, background, actor_of=lambda _: found.actor, check_request=check, refused=RefusedError
    )
    app = Starlette(routes=[Mount(f"/ops{PREFIX}", app=inner)])
    with TestClient(app, base_url=f"http://testserver/ops{PREFIX}/", raise_server_exceptions=False) as client:
        found = Api(client, operations, Actor("ann", Role.ADMIN))
        yield found
