"""Who is admitted, what a response protects against, and that nothing happens without the form's token."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard import allow_everyone, basic_auth, create_app, token_auth
from quartzpy.errors import SettingsError
from quartzpy.operations import Actor, Role
from tests.dashboard.conftest import LOCAL

TOKEN = "correct horse"


def outside(app: object, **options: object) -> TestClient:
    return TestClient(app, **{"base_url": "http://jobs.example", "client": ("203.0.113.9", 1), **options})  # type: ignore[arg-type]


def test_without_authentication_only_this_machine_is_answered(scheduler: Scheduler) -> None:
    app = create_app(scheduler)
    assert TestClient(app, **LOCAL).get("/").status_code == 200
    for refused in (
        outside(app),
        # A name that an attacker lets lead to 127.0.0.1.
        TestClient(app, **{**LOCAL, "base_url": "http://evil.example"}),
        outside(app, base_url="http://127.0.0.1"),
        TestClient(app, **LOCAL, headers={"X-Forwarded-For": "203.0.113.9"}),
    ):
        answer = refused.get("/")
        assert answer.status_code == 403
        assert "token_auth" in answer.text


def test_a_token_is_asked_for_once_and_then_kept_in_a_session(scheduler: Scheduler) -> None:
    client = outside(create_app(scheduler, auth=token_auth(TOKEN)))
    html = {"Accept": "text/html"}
    asked = client.get("/jobs?contains=x", headers=html)
    assert asked.url.path == "/login"
    form = {"csrf_token": client.cookies["quartzpy_csrf"], "next": "/jobs?contains=x"}
    assert client.post("/login", data={**form, "token": "wrong"}).status_code == 403
    entered = client.post("/login", data={**form, "token": TOKEN})
    assert (entered.url.path, entered.url.query) == ("/jobs", b"contains=x")
    assert client.get("/").status_code == 200
    assert client.post("/logout", data=form).url.path == "/login"
    assert client.get("/", headers=html).url.path == "/login"


@pytest.mark.parametrize("wanted", ["//evil.example/", "https://evil.example/", "/\\evil.example", ""])
def test_the_login_leads_to_no_other_site(scheduler: Scheduler, wanted: str) -> None:
    client = outside(create_app(scheduler, auth=token_auth(TOKEN)), follow_redirects=False)
    client.get("/login")
    form = {"csrf_token": client.cookies["quartzpy_csrf"], "next": wanted, "token": TOKEN}
    assert client.post("/login", data=form).headers["location"] == "/"


def test_a_forged_or_expired_session_is_refused(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    auth = token_auth({TOKEN: Actor("ann", Role.OPERATOR)})
    client = outside(create_app(scheduler, auth=auth), follow_redirects=False)
    session = auth.log_in({"token": TOKEN})  # type: ignore[arg-type]
    assert session is not None
    expires, number, identity, signature = session.split(".")
    client.cookies.set("quartzpy_session", session)
    assert client.get("/").status_code == 200
    for forged in (
        f"{int(expires) + 1}.{number}.{identity}.{signature}",
        f"{expires}.{number[::-1]}.{identity}.{signature}",
        f"{expires}.{number}..{signature}",
        *("9" * 40, "a.b.c", "a.b.c.d", "1.b.c.d.e"),
    ):
        client.cookies.set("quartzpy_session", forged)
        assert client.get("/").status_code == 401
    client.cookies.set("quartzpy_session", session)
    monkeypatch.setattr("quartzpy.dashboard.auth.time.time", lambda: int(expires) + 1)
    assert client.get("/").status_code == 401


def test_a_program_sends_its_token(scheduler: Scheduler) -> None:
    client = outside(create_app(scheduler, auth=token_auth(TOKEN)))
    assert client.get("/jobs").status_code == 401
    assert client.get("/jobs", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/jobs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_basic_authentication_gives_each_user_a_role(scheduler: Scheduler) -> None:
    app = create_app(scheduler, auth=basic_auth({"ann": "secret:word", "bob": "password"}, {"ann": Role.ADMIN}))

    def page_of(user: str, password: str) -> tuple[int, str]:
        encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
        answer = outside(app).get("/", headers={"Authorization": f"Basic {encoded}"})
        return answer.status_code, answer.text

    assert outside(app).get("/").headers["www-authenticate"].startswith("Basic")
    assert page_of("ann", "wrong")[0] == page_of("eve", "password")[0] == 401
    assert "with the role admin" in page_of("ann", "secret:word")[1]
    assert "with the role viewer" in page_of("bob", "password")[1]


def test_a_callable_of_the_user_decides(scheduler: Scheduler) -> None:
    async def by_header(request: Request) -> Actor | None:
        name = request.headers.get("x-user")
        return None if name is None else Actor(name, Role.OPERATOR)

    client = outside(create_app(scheduler, auth=by_header))
    assert client.get("/").status_code == 401
    assert "with the role operator" in client.get("/", headers={"X-User": "zed"}).text
    assert outside(create_app(scheduler, auth=allow_everyone())).get("/").status_code == 200


@pytest.mark.parametrize("given", ["", "short", {}])
def test_a_weak_token_is_an_error(given: object) -> None:
    with pytest.raises(SettingsError, match="auth:"):
        token_auth(given)  # type: ignore[arg-type]


def test_every_response_has_the_security_headers(client: TestClient) -> None:
    for path in ("/", "/nowhere", "/job"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_a_form_without_the_token_of_its_page_is_refused(open_page: Callable[..., TestClient]) -> None:
    client = open_page(auth=token_auth(TOKEN))
    client.get("/login")
    token = client.cookies["quartzpy_csrf"]
    for form, headers in (
        ({}, {}),
        ({"csrf_token": "x" * 43}, {}),
        ({"csrf_token": token}, {"Origin": "https://evil.example"}),
        ({"csrf_token": token}, {"Sec-Fetch-Site": "cross-site"}),
    ):
        answer = client.post("/login", data={**form, "token": TOKEN}, headers=headers)
        assert answer.status_code == 403
        assert "quartzpy_session" not in client.cookies
    assert client.post("/login", data={"csrf_token": token, "token": TOKEN}).status_code == 200
