"""The application inside others, under a prefix: every link and every cookie stays below it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from quartzpy import Scheduler
from quartzpy.dashboard import create_app, token_auth
from tests import django_project
from tests.dashboard.conftest import LOCAL

PREFIX = "/ops/quartz"


def in_starlette(page: ASGIApp) -> ASGIApp:
    return Starlette(routes=[Mount(PREFIX, page)])


def in_fastapi(page: ASGIApp) -> ASGIApp:
    from fastapi import FastAPI

    app = FastAPI()
    app.mount(PREFIX, page)
    return app


def in_two_levels(page: ASGIApp) -> ASGIApp:
    return Starlette(routes=[Mount("/ops", Starlette(routes=[Mount("/quartz", page)]))])


def beside_django(page: ASGIApp) -> ASGIApp:
    from django.core.asgi import get_asgi_application

    django_project.configure()
    django: Any = get_asgi_application()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(f"{PREFIX}/"):
            await page({**scope, "root_path": PREFIX}, receive, send)
        else:
            await django(scope, receive, send)

    return app


HOSTS = [in_starlette, in_fastapi, in_two_levels, beside_django]


@pytest.mark.parametrize("host", HOSTS)
def test_every_link_stays_below_the_prefix_and_works(scheduler: Scheduler, host: Any) -> None:
    client = TestClient(host(create_app(scheduler)), **LOCAL)
    seen: set[str] = set()
    for path in ("/", "/jobs", "/triggers"):
        page = client.get(f"{PREFIX}{path}")
        assert page.status_code == 200
        seen |= set(re.findall(r'(?:href|src|action|hx-get|data-live)="([^"#]+)"', page.text))
    assert len(seen) > 30
    assert [link for link in seen if not link.startswith(f"{PREFIX}/")] == []
    for link in (f"{PREFIX}/nodes", next(link for link in seen if link.endswith("app.css"))):
        assert client.get(link).status_code == 200


@pytest.mark.parametrize("host", HOSTS)
def test_cookies_and_the_login_stay_below_the_prefix(scheduler: Scheduler, host: Any) -> None:
    client = TestClient(host(create_app(scheduler, auth=token_auth("correct horse"))), **LOCAL)
    asked = client.get(f"{PREFIX}/jobs", headers={"Accept": "text/html"})
    assert asked.url.path == f"{PREFIX}/login"
    form = {"csrf_token": client.cookies["quartzpy_csrf"], "token": "correct horse", "next": f"{PREFIX}/jobs"}
    assert client.post(f"{PREFIX}/login", data=form).url.path == f"{PREFIX}/jobs"
    assert {cookie.path for cookie in client.cookies.jar} == {PREFIX}
