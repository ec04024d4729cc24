"""What a request from anywhere can make the web page do before anybody has logged in."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard import basic_auth, create_app, token_auth
from quartzpy.dashboard.login_throttle import BURST, MAX_A_MINUTE, LoginThrottle
from quartzpy.dashboard.middleware import MAX_BYTES, MAX_BYTES_OF_LOGIN, RequestLimits
from quartzpy.operations import Actor, Role
from quartzpy.store.postgresql.admin.operators import Admin
from tests.waiting import wait_until

TOKEN = "correct horse"
CHUNK = b"x" * 65_536
HTML = {"Accept": "text/html"}
LOCAL: dict[str, Any] = {"base_url": "http://127.0.0.1", "client": ("127.0.0.1", 50_000)}


@pytest.fixture
def scheduler(postgres_dsn: str) -> Iterator[Scheduler]:
    made = Scheduler(postgres_dsn)
    yield made
    made.shutdown()


@pytest.fixture(autouse=True)
def still_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The waits after wrong tokens do not end while a slow machine runs a test."""
    monkeypatch.setattr("quartzpy.dashboard.auth.LoginThrottle", lambda: LoginThrottle(lambda: 0.0))


def outside(app: Starlette, address: str = "203.0.113.9", **options: Any) -> TestClient:
    return TestClient(app, **{"base_url": "http://jobs.example", "client": (address, 1), **options})


class Sender:
    """A client that sends a body without an end, and counts how much of it is taken."""

    def __init__(self, path: str, *headers: tuple[bytes, bytes], method: str = "POST") -> None:
        self.taken = 0
        self.status = 0
        self.body = b""
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "client": ("203.0.113.9", 1),
            "server": ("jobs.example", 80),
            "headers": [(b"host", b"jobs.example"), *headers],
        }

    def send_to(self, app: Starlette) -> int:
        async def receive() -> dict[str, Any]:
            assert self.taken < 150_000_000, "the whole body was read"
            self.taken += len(CHUNK)
            return {"type": "http.request", "body": CHUNK, "more_body": True}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = dict(message["headers"])
            else:
                self.body += message.get("body", b"")

        asyncio.run(app(self._scope, receive, send))
        return self.status


BEARER = (b"authorization", f"Bearer {TOKEN}".encode())


@pytest.mark.parametrize(
    ("path", "kind", "headers", "limit"),
    [
        ("/login", b"application/x-www-form-urlencoded", (), MAX_BYTES_OF_LOGIN),
        ("/login", b"multipart/form-data; boundary=b", (), MAX_BYTES_OF_LOGIN),
        ("/login/", b"text/plain", (), MAX_BYTES_OF_LOGIN),
        ("/api/v1/actions/pause", b"application/json", (), MAX_BYTES),
        ("/api/v1/actions/pause", b"application/json", (BEARER,), MAX_BYTES),
        ("/actions/pause", b"application/x-www-form-urlencoded", (BEARER,), MAX_BYTES),
    ],
)
def test_a_body_is_counted_while_it_is_read(
    scheduler: Scheduler, path: str, kind: bytes, headers: tuple[tuple[bytes, bytes], ...], limit: int
) -> None:
    sender = Sender(path, (b"content-type", kind), *headers)
    status = sender.send_to(create_app(scheduler, auth=token_auth(TOKEN), read_only=False))
    assert sender.taken <= limit + len(CHUNK)
    assert status in (413, 401, 307, 404, 400, 415)
    if sender.taken > limit:
        assert status == 413
        assert b"bytes" in sender.body


@pytest.mark.parametrize("path", ["/login", "/api/v1/actions/pause", "/actions/pause", "/"])
def test_a_body_that_is_announced_as_too_large_is_not_read(scheduler: Scheduler, path: str) -> None:
    sender = Sender(path, (b"content-length", b"150000000"))
    assert sender.send_to(create_app(scheduler, auth=token_auth(TOKEN))) == 413
    assert sender.taken == 0
    assert sender.headers[b"connection"] == b"close"
    assert b"150,000,000" in sender.body
    assert sender.headers[b"x-content-type-options"] == b"nosniff"


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def read_all(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass

    parts = iter([{"type": "http.request", "body": b"x", "more_body": True}])
    sent: list[Any] = []

    async def receive() -> Any:
        if (part := next(parts, None)) is None:
            await asyncio.Event().wait()
        return part

    async def send(message: Any) -> None:
        sent.append(message)

    limits = RequestLimits(read_all, body_timeout=0.05)
    asyncio.run(limits({"type": "http", "path": "/", "headers": [], "http_version": "1.1"}, receive, send))
    assert sent[0]["status"] == 408


# --- logging in


def log_in(client: TestClient, token: str) -> Any:
    client.get("/login")
    [name] = [name for name in client.cookies if name.endswith("quartzpy_csrf")]
    return client.post("/login", data={"csrf_token": client.cookies[name], "token": token})


def test_a_form_is_urlencoded_and_has_a_bounded_number_of_fields(scheduler: Scheduler) -> None:
    client = outside(create_app(scheduler, auth=token_auth(TOKEN), read_only=False))
    log_in(client, TOKEN)
    fields = {"csrf_token": client.cookies["quartzpy_csrf"], "token": TOKEN}
    for path in ("/login", "/logout", "/actions/pause"):
        refused = client.post(path, files={name: (None, value) for name, value in fields.items()})
        assert refused.status_code == 415, path
        assert "application/x-www-form-urlencoded" in refused.text
        many = "&".join(f"selected={number}" for number in range(1_001))
        kind = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
        assert client.post(path, content=many, headers=kind).status_code == 400, path
        assert client.post(path, content=b"\xff\xfe=%ff&&=&;", headers=kind).status_code == 403, path
        assert client.post(path, content=many[:100], headers={"content-type": "text/plain"}).status_code == 403, path
    assert log_in(client, TOKEN).status_code in (200, 303)


def test_a_session_ends_at_logout_for_whoever_has_its_cookie(scheduler: Scheduler) -> None:
    app, other = (create_app(scheduler, auth=token_auth(TOKEN)) for _ in range(2))
    client = outside(app)
    log_in(client, TOKEN)
    copied = outside(app, cookies=dict(client.cookies))
    elsewhere = outside(other, cookies=dict(client.cookies))
    assert copied.get("/").status_code == 200
    client.post("/logout", data={"csrf_token": client.cookies["quartzpy_csrf"]})
    assert copied.get("/").status_code == 401
    # A dashboard of the same scheduler that has not seen this session yet.
    assert elsewhere.get("/").status_code == 401
    # Another session of the same token goes on.
    again = outside(app)
    log_in(again, TOKEN)
    assert again.get("/").status_code == 200


def test_a_logout_that_cannot_be_recorded_holds_in_its_process(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from quartzpy.errors import SchemaError

    def refuse(*given: object) -> None:
        raise SchemaError("this role lacks INSERT on qrtz_audit")

    client = outside(create_app(scheduler, auth=token_auth(TOKEN)))
    log_in(client, TOKEN)
    copied = outside(client.app, cookies=dict(client.cookies))  # type: ignore[arg-type]
    monkeypatch.setattr(Admin, "record_action", refuse)
    assert client.post("/logout", data={"csrf_token": client.cookies["quartzpy_csrf"]}).url.path == "/login"
    assert copied.get("/").status_code == 401
    assert "lacks INSERT" in caplog.text


def test_wrong_tokens_are_limited_and_logged(scheduler: Scheduler, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    app = create_app(scheduler, auth=token_auth(TOKEN))
    client = outside(app)
    for number in range(BURST):
        answer = client.get("/", headers={"Authorization": f"Bearer secret-guess-{number}"})
        assert answer.status_code == 401
    refused = client.get("/", headers={"Authorization": "Bearer another"})
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) >= 1
    # The right token does not get through either, so that a guess tells nothing while it is refused.
    assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 429
    api = client.get("/api/v1/jobs", headers={"Authorization": "Bearer another"})
    assert (api.status_code, api.headers["content-type"]) == (429, "application/problem+json")
    assert int(api.headers["Retry-After"]) >= 1
    form = log_in(client, TOKEN)
    assert form.status_code == 429
    assert int(form.headers["Retry-After"]) >= 1
    assert "203.0.113.9" in caplog.text
    assert "secret-guess" not in caplog.text
    other = outside(app, "203.0.113.10")
    assert other.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_session_goes_on_while_its_address_is_refused(scheduler: Scheduler) -> None:
    app = create_app(scheduler, auth=token_auth(TOKEN))
    client = outside(app)
    log_in(client, TOKEN)
    assert client.get("/").status_code == 200
    guessing = outside(app)
    for number in range(BURST + 3):
        guessing.get("/", headers={"Authorization": f"Bearer guess-{number}"})
    assert guessing.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 429
    assert client.get("/").status_code == 200


def test_cookies_that_nobody_signed_are_guesses(scheduler: Scheduler) -> None:
    app = create_app(scheduler, auth=token_auth(TOKEN))
    for number in range(BURST):
        guessing = outside(app, cookies={"quartzpy_session": f"99999999999.{number}.a.b"})
        assert guessing.get("/").status_code == 401
    forged = token_auth(TOKEN).log_in({"token": TOKEN})  # type: ignore[arg-type]
    assert outside(app, cookies={"quartzpy_session": str(forged)}).get("/").status_code == 429


def test_wrong_passwords_are_limited_for_each_user(scheduler: Scheduler) -> None:
    app = create_app(scheduler, auth=basic_auth({"ann": "password", "bob": "password"}))
    for number in range(BURST):
        assert outside(app).get("/", auth=("ann", f"guess-{number}")).status_code == 401
    assert outside(app).get("/", auth=("ann", "password")).status_code == 429
    assert outside(app).get("/", auth=("bob", "password")).status_code == 200


def test_the_same_wrong_token_again_is_no_guess() -> None:
    guesses = LoginThrottle(lambda: 0.0)
    for _ in range(100):
        guesses.wrong("192.0.2.1", "old token")
    assert guesses.wait("192.0.2.1") == 0


def test_the_wait_grows_with_each_guess_and_ends() -> None:
    now = 0.0
    guesses = LoginThrottle(lambda: now)
    waits = []
    for number in range(BURST + 12):
        guesses.wrong("192.0.2.1", f"guess {number}")
        waits.append(guesses.wait("192.0.2.1"))
        now += waits[-1]
    assert waits[: BURST - 1] == [0] * (BURST - 1)
    assert waits[BURST - 1 :] == sorted(waits[BURST - 1 :])
    assert waits[BURST - 1] >= 1
    assert waits[-1] == waits[-2] <= 900
    assert guesses.wait("192.0.2.1") == 0
    now += 3600
    guesses.wrong("192.0.2.1", "much later")
    assert guesses.wait("192.0.2.1") == 0


def test_guesses_from_many_addresses_are_limited_together() -> None:
    now = 0.0
    guesses = LoginThrottle(lambda: now)
    guesses.right("198.51.100.7")
    for number in range(MAX_A_MINUTE):
        guesses.wrong(f"2001:db8:{number:x}::1", f"guess {number}")
    assert guesses.wait("192.0.2.1") > 0
    # Where the right token has come from before, programs go on.
    assert guesses.wait("198.51.100.7") == 0
    now += 61
    assert guesses.wait("192.0.2.1") == 0


def test_the_addresses_of_one_ipv6_network_are_one() -> None:
    guesses = LoginThrottle(lambda: 0.0)
    for number in range(BURST):
        guesses.wrong(f"2001:db8::{number:x}", f"guess {number}")
    assert guesses.wait("2001:db8::ffff") > 0
    assert guesses.wait("2001:db8:0:1::1") == 0


def test_the_addresses_that_are_remembered_are_bounded() -> None:
    guesses = LoginThrottle(lambda: 0.0, most_addresses=10)
    for number in range(100):
        guesses.wrong(f"192.0.2.{number}", "guess")
        guesses.right(f"192.0.2.{number}")
    assert guesses.remembered <= 20


# --- behind proxies

FORWARDED = [
    *("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Anything"),
    *("X-Real-IP", "X-Original-Forwarded-For", "X-Original-URL", "X-Rewrite-URL", "X-Client-IP", "Client-IP"),
    *("X-Cluster-Client-IP", "CF-Connecting-IP", "CF-Ray", "CDN-Loop", "True-Client-IP", "Fastly-Client-IP"),
    *("Fly-Client-IP", "X-Envoy-External-Address", "X-Amzn-Trace-Id", "X-Azure-ClientIP", "X-Appengine-User-IP"),
    *("X-Cloud-Trace-Context", "X-Varnish", "Incap-Client-IP", "X-Forwarded", "Forwarded-For", "X-ProxyUser-IP"),
]


@pytest.mark.parametrize("header", FORWARDED)
def test_without_authentication_no_proxy_may_stand_in_front(scheduler: Scheduler, header: str) -> None:
    answer = TestClient(create_app(scheduler), **LOCAL, headers={header: "1"}).get("/")
    assert answer.status_code == 403
    assert header.lower() in answer.text
    assert "--token" in answer.text


def test_a_request_as_nginx_forwards_it_without_headers_is_refused(scheduler: Scheduler) -> None:
    # HTTP/1.0 and the name of the upstream server: what nginx sends unless it is configured.
    sender = Sender("/")
    sender._scope |= {"http_version": "1.0", "client": ("127.0.0.1", 5), "headers": [(b"host", b"127.0.0.1:8686")]}
    assert sender.send_to(create_app(scheduler)) == 403
    sender._scope["http_version"] = "1.1"
    assert sender.send_to(create_app(scheduler)) == 405


def cookies_of(answer: Any) -> dict[str, str]:
    return {one.split("=", 1)[0]: one for one in answer.headers.get_list("set-cookie")}


@pytest.mark.parametrize(
    ("base_url", "options"),
    [("https://jobs.example", {}), ("http://jobs.example", {"behind_tls_proxy": True})],
)
def test_cookies_are_secure_over_tls(scheduler: Scheduler, base_url: str, options: dict[str, Any]) -> None:
    app = create_app(scheduler, auth=token_auth(TOKEN), **options)
    client = outside(app, base_url=base_url)
    shown = cookies_of(client.get("/login"))
    csrf = re.search(r'name="csrf_token" value="([^"]+)"', client.get("/login").text)
    # The test client sends no Secure cookie over http, as a browser sends none.
    secret = shown["__Host-quartzpy_csrf"].split("=", 1)[1].split(";")[0]
    assert csrf
    cookie = {"Cookie": f"__Host-quartzpy_csrf={secret}"}
    entered = client.post("/login", data={"csrf_token": secret, "token": TOKEN}, headers=cookie, follow_redirects=False)
    for name, line in (*shown.items(), *cookies_of(entered).items()):
        assert name.startswith("__Host-"), line
        assert "secure" in line.lower()
        assert "httponly" in line.lower()
        assert "samesite=lax" in line.lower()
        assert "path=/;" in line.lower()
    session = cookies_of(entered)["__Host-quartzpy_session"].split("=", 1)[1].split(";")[0]
    # A cookie without the prefix may have been set by another host, or without TLS.
    fresh = outside(app, base_url=base_url)
    assert fresh.get("/", headers={"Cookie": f"quartzpy_session={session}"}).status_code == 401
    assert fresh.get("/", headers={"Cookie": f"__Host-quartzpy_session={session}"}).status_code == 200


def test_below_a_prefix_secure_cookies_keep_their_path(scheduler: Scheduler) -> None:
    client = outside(create_app(scheduler, auth=token_auth(TOKEN)), base_url="https://jobs.example", root_path="/ops")
    [line] = cookies_of(client.get("/ops/login")).values()
    assert line.startswith("__Secure-quartzpy_csrf=")
    assert "path=/ops" in line.lower()


# --- the server of `quartzpy dashboard`


@contextmanager
def served(app: Starlette, **options: Any) -> Iterator[Callable[[], socket.socket]]:
    from quartzpy.dashboard.server import DashboardServer, listen

    with listen("127.0.0.1", 0) as listening:
        server = DashboardServer(app, **options)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            assert wait_until(lambda: server.started)
            yield lambda: socket.create_connection(listening.getsockname(), 60)
        finally:
            server.handle_exit(15, None)
            thread.join(60)


def answer_of(connection: socket.socket) -> bytes:
    found = b""
    while part := connection.recv(65_536):
        found += part
    return found


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: a\r\nX-Half: "])
def test_a_request_whose_headers_do_not_come_is_not_waited_for(scheduler: Scheduler, begun: bytes) -> None:
    with served(create_app(scheduler), header_timeout=0.3) as connect, closing(connect()) as connection:
        connection.sendall(begun)
        assert answer_of(connection) == b""


def test_the_second_request_of_a_connection_is_not_waited_for_either(scheduler: Scheduler) -> None:
    with served(create_app(scheduler), header_timeout=3.0) as connect, closing(connect()) as connection:
        connection.sendall(b"GET /static/x/y HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 ")
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
        answer_of(connection)


def test_the_address_behind_a_trusted_proxy_is_the_clients(scheduler: Scheduler) -> None:
    seen: list[Any] = []

    def who(request: Any) -> Actor:
        seen.append((request.client.host, request.url.scheme))
        return Actor("ann", Role.VIEWER)

    forwarded = b"X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n\r\n"
    for trusted, expected in (((), ("127.0.0.1", "http")), (("127.0.0.1",), ("203.0.113.9", "https"))):
        with (
            served(create_app(scheduler, auth=who), trusted_proxies=trusted) as connect,
            closing(connect()) as connection,
        ):
            connection.sendall(b"GET /nodes HTTP/1.1\r\nHost: a\r\n" + forwarded)
            assert answer_of(connection).startswith(b"HTTP/1.1 200")
            assert seen.pop() == expected


def test_streams_are_limited_for_each_session_and_in_all(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quartzpy.dashboard.live.MAX_STREAMS", 3)
    monkeypatch.setattr("quartzpy.dashboard.live.MAX_STREAMS_OF_ONE", 2)
    with served(create_app(scheduler)) as connect:
        opened: list[socket.socket] = []

        def status_of(browser: str) -> tuple[bytes, bytes]:
            connection = connect()
            opened.append(connection)
            cookie = f"Cookie: quartzpy_csrf={browser * 40}\r\n\r\n"
            connection.sendall(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n" + cookie.encode())
            found = b""
            while b"\r\n\r\n" not in found:
                found += connection.recv(65_536)
            return found[9:12], found

        assert [status_of("a")[0] for _ in range(3)] == [b"200", b"200", b"429"]
        assert status_of("b")[0] == b"200"
        status, found = status_of("c")
        assert status == b"503"
        assert b"retry-after: " in found.lower()
        for connection in opened:
            connection.close()
        # A stream that was closed makes room.
        assert wait_until(lambda: status_of("d")[0] == b"200", seconds=60)
        for connection in opened:
            connection.close()
