"""The API as the dashboard's application mounts it: with its authentication and its protection against forgery."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard import create_app, token_auth
from quartzpy.operations import Actor, Role
from tests.facade.jobs import Recorded

TOKENS = {"viewers-token": Actor("bob", Role.VIEWER), "admins-token": Actor("ann", Role.ADMIN)}
PAUSE = {"selection": {"everything": True}, "reason": "test"}


@pytest.fixture
def client(postgres_dsn: str) -> Iterator[TestClient]:
    scheduler = Scheduler(postgres_dsn)
    scheduler.schedule_job(Recorded, "0 * * * *", name="hourly")
    app = create_app(scheduler, auth=token_auth(TOKENS), read_only=False)
    outer = Starlette(routes=[Mount("/ops", app=app)])
    with TestClient(outer, base_url="http://testserver/ops/api/v1/") as made:
        yield made
    scheduler.shutdown()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_bearer_token_reads_and_acts_without_another_proof(client: TestClient) -> None:
    assert client.get("jobs", headers=bearer("viewers-token")).json()["items"][0]["key"]["name"] == "hourly"
    refused = client.post("actions/pause", json=PAUSE, headers=bearer("viewers-token"))
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:quartzpy:ForbiddenError")
    assert client.post("actions/pause", json=PAUSE, headers=bearer("admins-token")).status_code == 200
    assert client.get("groups", headers=bearer("viewers-token")).json()["all_paused"]


def test_a_request_of_nobody_is_a_problem(client: TestClient) -> None:
    for headers in ({}, bearer("wrong-token"), {"Accept": "text/html"}):
        refused = client.get("jobs", headers=headers, follow_redirects=False)
        assert refused.status_code == 401
        assert refused.headers["content-type"] == "application/problem+json"


def test_a_session_of_a_browser_needs_the_token_against_forgery(client: TestClient) -> None:
    login = "http://testserver/ops/login"
    client.get(login)
    token = client.cookies["quartzpy_csrf"]
    done = client.post(login, data={"token": "admins-token", "csrf_token": token}, follow_redirects=False)
    assert done.status_code == 303
    assert client.get("jobs").status_code == 200
    refused = client.post("actions/pause", json=PAUSE)
    assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")
    assert not client.get("groups").json()["all_paused"]
    assert client.post("actions/pause", json=PAUSE, headers={"X-CSRF-Token": token}).status_code == 200


def test_read_only_applications_refuse_actions(postgres_dsn: str) -> None:
    scheduler = Scheduler(postgres_dsn)
    app = create_app(scheduler, auth=token_auth(TOKENS))
    with TestClient(app, base_url="http://testserver/api/v1/") as client:
        refused = client.post("actions/pause", json=PAUSE, headers=bearer("admins-token"))
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:quartzpy:ForbiddenError")
    scheduler.shutdown()
