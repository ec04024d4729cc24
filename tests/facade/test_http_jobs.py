"""Calls of URLs as jobs: what is sent, what an answer means, and where no call goes."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import hmac
import itertools
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from quartzpy import HttpJob, HttpRequest, JobDetail, Outcome, RetryPolicy, Scheduler, SimpleTrigger
from quartzpy.errors import InvalidJobDataError, NotAllowedError, SettingsError
from quartzpy.jobs import http
from quartzpy.jobs.http_hosts import AllowedHosts, checked_host, target_of
from quartzpy.store.records import ExecutionRecord
from quartzpy.testing import SchedulerHarness
from tests.waiting import wait_until

PEM = Path(__file__).with_name("api_test.pem")
"""A key and a certificate for api.test, which no authority has signed."""
LOOPBACK = "127.0.0.0/8"


class Server(ThreadingHTTPServer):
    """A server that answers by path, and keeps what it has received."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.received: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: dict[str, Callable[[Handler], None]] = {}
        self.end = threading.Event()

    @property
    def port(self) -> int:
        return self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away in the middle."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.received.append((self.command, self.path, headers, body))
        path = self.path.partition("?")[0]
        self.server.answers.get(path, lambda handler: handler.send(200, b"hello"))(self)

    do_GET = do_POST = do_PUT = do_HEAD = answer

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"content-length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.end.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """The answers to look-ups of each name, one after the other; the last one stays. Others lead to 127.0.0.1."""
    answers: dict[str, list[list[str]]] = {}

    async def resolve(host: str, port: int) -> list[str]:
        left = answers.get(host, [["127.0.0.1"]])
        return left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(http, "resolve", resolve)
    return answers


@pytest.fixture
def run(server: Server, names: dict[str, Any]) -> Iterator[Callable[..., ExecutionRecord]]:
    """Runs a call on a node that allows api.test and other.test, and returns its record."""
    made: list[Scheduler] = []

    def call(
        url: str = "/", *, settings: dict[str, Any] | None = None, options: dict[str, Any] | None = None, **values: Any
    ) -> ExecutionRecord:
        hosts = [f"http://{host}:{server.port}" for host in ("api.test", "other.test")]
        scheduler = Scheduler("memory://", **{"http_hosts": [*hosts, LOOPBACK], **(settings or {})})
        made.append(scheduler)
        whole = f"http://api.test:{server.port}{url}" if url.startswith("/") else url
        request = HttpRequest(whole, **{"timeout": "60s", **values})
        scheduler.schedule_job(JobDetail(HttpJob, "job", data=request, **(options or {})), SimpleTrigger("now"))
        scheduler.start()
        wait_until(lambda: scheduler.executions().count() > 0, seconds=90)
        return next(iter(scheduler.executions()))

    yield call
    for scheduler in made:
        scheduler.shutdown(wait=False)


def error_of(record: ExecutionRecord) -> str:
    assert record.outcome is Outcome.FAILED
    return (record.error or "").splitlines()[-1]


# --- what is sent, and what an answer means


def test_a_call_sends_values_and_facts_and_returns_the_beginning(
    server: Server, run: Callable[..., ExecutionRecord]
) -> None:
    record = run(
        "/reports/{region}?at={scheduled_fire_time}",
        method="post",
        headers={"X-Trigger": "{trigger}"},
        json={"id": "{fire_id}", "text": "no {region}", "list": ["{n}", "{{n}}"], "in {n}": None},
        values={"region": "a/b?c", "n": 7},
    )
    assert record.outcome is Outcome.SUCCEEDED, record.error
    assert record.result == {"status": 200, "body": "hello"}
    [(method, path, headers, body)] = server.received
    at = record.scheduled_fire_time.isoformat().replace(":", "%3A").replace("+", "%2B")
    assert (method, path) == ("POST", f"/reports/a%2Fb%3Fc?at={at}")
    assert json.loads(body) == {"id": record.fire_id, "text": "no a/b?c", "list": [7, "{n}"], "in {n}": None}
    assert headers["host"] == f"api.test:{server.port}"
    assert headers["x-trigger"] == "DEFAULT.now"
    assert headers["content-type"] == "application/json"
    assert headers["idempotency-key"].startswith("DEFAULT.now@20")
    assert headers["accept-encoding"] == "identity"
    assert "authorization" not in headers
    assert "cookie" not in headers


@pytest.mark.parametrize(
    ("status", "success", "outcome"),
    [
        (204, ["200-299"], Outcome.SUCCEEDED),
        (404, ["200-299"], Outcome.FAILED),
        (404, [200, "404-410"], Outcome.SUCCEEDED),
        (200, [201], Outcome.FAILED),
    ],
)
def test_the_status_decides(
    server: Server, run: Callable[..., ExecutionRecord], status: int, success: list[Any], outcome: Outcome
) -> None:
    server.answers["/"] = lambda handler: handler.send(status, b"" if status == 204 else b"why")
    record = run(success=success)
    assert record.outcome is outcome
    assert record.result["status"] == status
    if outcome is Outcome.FAILED:
        assert f"answered with status {status}; the answer begins with:\nwhy" in (record.error or "")


def test_only_the_statuses_that_mean_retry_are_retried_with_the_same_key(
    server: Server, run: Callable[..., ExecutionRecord]
) -> None:
    statuses = [503, 404, 200]
    server.answers["/"] = lambda handler: handler.send(statuses.pop(0))
    policy = RetryPolicy(attempts=5, delay="10ms")
    run(retry=[429, "500-599"], options={"retry": policy})
    wait_until(lambda: len(server.received) == 2, seconds=90)
    assert len({headers["idempotency-key"] for _, _, headers, _ in server.received}) == 1
    assert statuses == [200]


def test_a_cancellation_ends_a_call(server: Server, names: dict[str, Any]) -> None:
    server.answers["/"] = lambda handler: server.end.wait(90) and None
    with_hosts = Scheduler("memory://", http_hosts=[f"http://api.test:{server.port}", LOOPBACK])
    try:
        request = HttpRequest(f"http://api.test:{server.port}/", timeout="90s")
        with_hosts.schedule_job(JobDetail(HttpJob, "job", data=request), SimpleTrigger("now"))
        with_hosts.start()
        wait_until(lambda: server.received, seconds=90)
        [running] = with_hosts.running()
        with_hosts.cancel(running.fire_id)
        wait_until(lambda: with_hosts.executions().count() == 1, seconds=60)
        [record] = with_hosts.executions()
        assert record.outcome is Outcome.CANCELLED
    finally:
        with_hosts.shutdown(wait=False)


# --- who calls

SECRETS = {
    "erp": "env:ERP_TOKEN@http://api.test:{port}",
    "client": "env:ERP_TOKEN@http://api.test:{port} http://other.test:{port}",
}


def secrets(server: Server) -> dict[str, Any]:
    return {"http_secrets": {name: place.format(port=server.port) for name, place in SECRETS.items()}}


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ERP_TOKEN", "s3cret")
    http._tokens.clear()


@pytest.mark.parametrize(
    ("auth", "name", "value"),
    [({"bearer": "erp"}, "authorization", "Bearer s3cret"), ({"headers": {"X-Api-Key": "erp"}}, "x-api-key", "s3cret")],
)
def test_a_secret_is_sent(
    server: Server, run: Callable[..., ExecutionRecord], auth: dict[str, Any], name: str, value: str
) -> None:
    record = run(auth=auth, settings=secrets(server))
    assert record.outcome is Outcome.SUCCEEDED, record.error
    assert server.received[0][2][name] == value


def test_a_body_is_signed(server: Server, run: Callable[..., ExecutionRecord]) -> None:
    record = run(method="POST", json={"n": 1}, auth={"hmac": "erp"}, settings=secrets(server))
    assert record.outcome is Outcome.SUCCEEDED, record.error
    [(_, _, headers, body)] = server.received
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = base64.b64encode(hmac.new(b"s3cret", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"


def oidc(server: Server, host: str = "other.test") -> dict[str, Any]:
    url = f"http://{host}:{server.port}/token"
    return {"oidc": {"token_url": url, "client_id": "me:1", "secret": "client", "scope": "read"}}


def give_tokens(server: Server, expires_in: float = 3600) -> list[str]:
    """Let the server give the tokens t1, t2 and so on, and return those that are valid, in a list to be changed."""
    valid: list[str] = []
    numbers = itertools.count(1)

    def give(handler: Handler) -> None:
        valid.append(f"t{next(numbers)}")
        handler.send(200, json.dumps({"access_token": valid[-1], "expires_in": expires_in}).encode())

    def check(handler: Handler) -> None:
        token = handler.headers["authorization"].removeprefix("Bearer ")
        handler.send(200 if token in valid else 401, token.encode())

    server.answers |= {"/token": give, "/": check}
    return valid


def paths(server: Server) -> list[str]:
    return [path for _, path, _, _ in server.received]


def test_a_token_is_fetched_once_and_again_after_it_was_refused(
    server: Server, run: Callable[..., ExecutionRecord]
) -> None:
    valid = give_tokens(server)
    for _ in range(2):
        assert run(auth=oidc(server), settings=secrets(server)).outcome is Outcome.SUCCEEDED
    # It expires by the clock of the other side, or is revoked. The call of the same execution is made once more.
    valid.clear()
    record = run(method="POST", json={"n": 1}, auth=oidc(server), settings=secrets(server))
    assert record.outcome is Outcome.SUCCEEDED
    assert record.result == {"status": 200, "body": "t2"}
    assert paths(server) == ["/token", "/", "/", "/", "/token", "/"]
    refused, repeated = server.received[3], server.received[5]
    assert refused[3] == repeated[3] == b'{"n": 1}'
    assert refused[2]["idempotency-key"] == repeated[2]["idempotency-key"]
    _, _, headers, body = server.received[0]
    assert body == b"grant_type=client_credentials&scope=read"
    assert base64.b64decode(headers["authorization"].removeprefix("Basic ")) == b"me%3A1:s3cret"
    sent = [headers["authorization"] for _, path, headers, _ in server.received if path == "/"]
    assert sent == ["Bearer t1", "Bearer t1", "Bearer t1", "Bearer t2"]


# --- hostile tries: where no call goes


def test_a_fresh_token_that_is_refused_is_an_answer(server: Server, run: Callable[..., ExecutionRecord]) -> None:
    give_tokens(server)
    server.answers["/"] = lambda handler: handler.send(401)
    for _ in range(2):
        assert "answered with status 401" in error_of(run(auth=oidc(server), settings=secrets(server)))
    assert paths(server) == ["/token", "/", "/token", "/"]


def test_another_server_that_refuses_gets_no_token(server: Server, run: Callable[..., ExecutionRecord]) -> None:
    give_tokens(server)
    run(auth=oidc(server), settings=secrets(server))
    server.answers["/"] = lambda handler: handler.send(302, location=f"http://other.test:{server.port}/there")
    server.answers["/there"] = lambda handler: handler.send(401)
    run(auth=oidc(server), settings=secrets(server), redirects=1)
    assert paths(server) == ["/token", "/", "/", "/there"]
    assert "authorization" not in server.received[-1][2]


@pytest.mark.parametrize(("expires_in", "fetched"), [(3600, 2), (20, 4)])
def test_a_token_that_expires_between_two_fires_is_fetched_again(
    server: Server,
    run: Callable[..., ExecutionRecord],
    monkeypatch: pytest.MonkeyPatch,
    expires_in: int,
    fetched: int,
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(http, "time", SimpleNamespace(monotonic=lambda: clock.now, time=time.time))
    give_tokens(server, expires_in)
    for clock.now in (1_000, 4_569, 4_571, 4_600):
        assert run(auth=oidc(server), settings=secrets(server)).outcome is Outcome.SUCCEEDED
    # One that lasts for less than half a minute is used once.
    assert paths(server).count("/token") == fetched
    assert paths(server).count("/") == 4


def test_calls_that_begin_together_fetch_one_token(server: Server, names: dict[str, Any]) -> None:
    give_tokens(server)
    hosts = AllowedHosts([f"http://{host}:{server.port}" for host in ("api.test", "other.test")] + [LOOPBACK])
    target = target_of(f"http://api.test:{server.port}/")

    async def tokens() -> list[str]:
        callers = [http._Caller(hosts, secrets(server)["http_secrets"], ssl.create_default_context()) for _ in range(4)]
        return await asyncio.gather(*(caller._token(oidc(server)["oidc"], target) for caller in callers))

    assert asyncio.run(tokens()) == ["t1"] * 4
    assert paths(server) == ["/token"]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://api.test/", "file:///etc/passwd", "gopher://api.test/", "//api.test/", "api.test", "https://",
        "https://user@api.test/", "https://api.test@evil.test/", "https://api.test:pass@evil.test/",
        "https://api.test\\@evil.test/", "https://api.test#@evil.test/x y", "https://api.test/\r\nX: y", "https://api.test/\t",
        "https://\u0430pi.test/", "https://ap\u0131.test/", "https://api\u3002test/", "https://api.test:0/", "https://api.test:99999/",
        "https://api.test:/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://0177.0.0.1/",
        "https://127.1/", "https://127.0.0.1.1/", "https://1.2.3.4.5/", "https://[::1%25lo]/", "https://[v1.x]/",
        "https://[::ffff:127.0.0.1/", "https://api.test/../admin", "https://api.test/a/%2e%2E/b", "https://api.test/./b",
        "https://api..test/", "https://-api.test/", "https://api.test/{x}", "https://api%2etest/",
    ],
)  # fmt: skip
def test_a_url_that_programs_read_differently_is_refused(url: str) -> None:
    with pytest.raises(NotAllowedError):
        target_of(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("HTTPS://API.test./a?b=c#d", "https://api.test/a?b=c"),
        ("https://api.test:443", "https://api.test/"),
        ("https://[::FFFF:7f00:1]:8443/", "https://[::ffff:127.0.0.1]:8443/"),
        ("https://127.0.0.1/", "https://127.0.0.1/"),
    ],
)
def test_a_url_has_one_form(url: str, shown: str) -> None:
    target = target_of(url)
    assert str(target) == shown or target.host == str(checked_host("::ffff:7f00:1", True))


@pytest.mark.parametrize(
    ("item", "allowed", "refused"),
    [
        ("api.test", ["https://api.test/", "https://API.TEST./x"], ["http://api.test/", "https://api.test:8443/"]),
        ("api.test", [], ["https://xapi.test/", "https://api.test.evil.test/", "https://a.api.test/"]),
        ("*.api.test", ["https://a.api.test/", "https://a.b.api.test/"], ["https://api.test/", "https://xapi.test/"]),
        ("http://api.test:80", ["http://api.test/"], ["https://api.test/", "https://api.test:80/"]),
        ("10.0.0.5:8080", ["https://10.0.0.5:8080/"], ["https://10.0.0.6:8080/"]),
        ("[fd00::1]", ["https://[fd00:0::1]/"], ["https://[fd00::2]/"]),
        ("10.0.0.0/8", [], ["https://10.0.0.5/", "https://api.test/"]),
    ],
)
def test_a_host_is_allowed_with_its_scheme_and_port(item: str, allowed: list[str], refused: list[str]) -> None:
    hosts = AllowedHosts(SchedulerHarness(http_hosts=(item,)).config.http_hosts)
    assert [hosts.allows(target_of(url)) for url in allowed + refused] == [True] * len(allowed) + [False] * len(refused)


PRIVATE = (
    *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("168.63.129.16", "100.100.100.200", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "2001::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::"),
    *("2002:a00:1::", "::ffff:169.254.169.254", "not-an-address", ""),
)


@pytest.mark.parametrize("address", PRIVATE)
def test_a_name_that_leads_to_no_public_address_is_refused(address: str) -> None:
    target = target_of("https://api.test/")
    with pytest.raises(NotAllowedError):
        AllowedHosts(["api.test"]).check_addresses(target, [address])
    with pytest.raises(NotAllowedError):
        AllowedHosts(["api.test"]).check_addresses(target, ["93.184.215.14", address])


def test_a_network_allows_private_addresses_and_no_credentials_of_the_machine() -> None:
    hosts = AllowedHosts(["api.test", "10.0.0.0/8", "169.254.0.0/16", "168.63.129.16/32"])
    target = target_of("https://api.test/")
    addresses = ["10.1.2.3", "::ffff:10.1.2.3", "168.63.129.16", "93.184.215.14", "2606:2800::1"]
    assert hosts.check_addresses(target, addresses) == [str(checked_host(a, ":" in a)) for a in addresses]
    with pytest.raises(NotAllowedError):
        hosts.check_addresses(target, ["169.254.169.254"])


SPECIAL = [
    *("0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "169.254.1.1", "172.31.0.1", "192.0.0.9", "192.0.0.192"),
    *("192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.0.1", "192.175.48.1", "198.19.0.1"),
    *("198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::ffff:10.0.0.1"),
    *("64:ff9b::a00:1", "64:ff9b:1::1", "100::1", "100:0:0:1::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1"),
    *(
        "2001:db8::1",
        "2002:a00:1::",
        "2620:4f:8000::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ),
    *("4000::1", "fd00:ec2::254", "168.63.129.16", "100.100.100.200", "::10.0.0.1"),
]


@pytest.mark.parametrize("address", SPECIAL)
@pytest.mark.parametrize(
    "item", ["http://127.0.0.1:9000", "http://[::1]:9000", "http://169.254.169.254", "192.0.0.192"]
)
def test_an_address_among_the_hosts_allows_no_name_to_lead_anywhere(address: str, item: str) -> None:
    hosts = AllowedHosts(["*.example.com", item])
    with pytest.raises(NotAllowedError, match="not a public address"):
        hosts.check_addresses(target_of("https://a.example.com/"), [address])


def test_an_address_among_the_hosts_is_called_by_itself() -> None:
    hosts = AllowedHosts(["http://127.0.0.1:9000", "http://[fd00::7]:9000"])
    assert hosts.check_addresses(target_of("http://127.0.0.1:9000/"), ["127.0.0.1"]) == ["127.0.0.1"]
    assert hosts.check_addresses(target_of("http://[fd00::7]:9000/"), ["fd00::7"]) == ["fd00::7"]
    for url in ("http://127.0.0.1:9001/", "https://127.0.0.1:9000/"):
        with pytest.raises(NotAllowedError):
            hosts.check_addresses(target_of(url), ["127.0.0.1"])
    assert AllowedHosts([]).check_addresses(target_of("https://a.test/"), ["2606:4700::1111", "8.8.8.8"])


def test_a_private_address_is_not_called(server: Server, run: Callable[..., ExecutionRecord]) -> None:
    record = run(settings={"http_hosts": [f"http://api.test:{server.port}"]})
    assert "api.test leads to 127.0.0.1, which is not a public address" in error_of(record)
    assert server.received == []


def test_a_name_is_looked_up_once_and_the_checked_address_is_called(
    server: Server, run: Callable[..., ExecutionRecord], names: dict[str, list[list[str]]]
) -> None:
    """The second answer, which a further look-up would get, leads elsewhere."""
    names["api.test"] = [["127.0.0.1"], ["127.66.66.66"]]
    record = run()
    assert record.outcome is Outcome.SUCCEEDED, record.error
    assert names["api.test"] == [["127.66.66.66"]]


@pytest.mark.parametrize(
    "location",
    [
        "http://evil.test/", "//evil.test/x", "http://169.254.169.254/latest/meta-data/", "http://[::1]/", "file:///etc/passwd",
        "http://2130706433/", "http://api.test@evil.test/", "http://api.test/", "http://api.test/../x",
    ],
)  # fmt: skip
def test_a_redirect_out_of_what_is_allowed_is_refused(
    server: Server, run: Callable[..., ExecutionRecord], location: str
) -> None:
    server.answers["/"] = lambda handler: handler.send(302, location=location)
    assert error_of(run(redirects=3)).startswith("quartzpy.errors.NotAllowedError")
    assert len(server.received) == 1


def test_the_address_of_a_redirect_is_checked(
    server: Server, run: Callable[..., ExecutionRecord], names: dict[str, list[list[str]]]
) -> None:
    names["other.test"] = [["10.0.0.1"]]
    server.answers["/"] = lambda handler: handler.send(302, location=f"http://other.test:{server.port}/x")
    assert "other.test leads to 10.0.0.1" in error_of(run(redirects=1))


def test_redirects_are_counted_and_lose_secrets_at_another_server(
    server: Server, run: Callable[..., ExecutionRecord]
) -> None:
    server.answers["/"] = lambda handler: handler.send(307, location="/same")
    server.answers["/same"] = lambda handler: handler.send(302, location=f"http://other.test:{server.port}/x")
    values: dict[str, Any] = {"method": "POST", "body": "a", "auth": {"bearer": "erp"}, "settings": secrets(server)}
    assert "answered with status 307" in error_of(run(**values))
    assert "answered with status 302" in error_of(run(**values, redirects=1))
    server.received.clear()
    assert run(**values, redirects=2).outcome is Outcome.SUCCEEDED
    sent = [(method, path, "authorization" in headers, body) for method, path, headers, body in server.received]
    assert sent == [("POST", "/", True, b"a"), ("POST", "/same", True, b"a"), ("GET", "/x", False, b"")]


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ({"bearer": "nobody"}, "has no 'nobody'"),
        ({"bearer": "other"}, "is not for http://api.test"),
        ({"bearer": "unset"}, "cannot be read"),
        ({"hmac": "file"}, "cannot be read"),
    ],
)
def test_a_secret_that_is_not_there_or_for_another_host_is_not_sent(
    server: Server, run: Callable[..., ExecutionRecord], auth: dict[str, Any], said: str
) -> None:
    places = {
        "other": "env:ERP_TOKEN@other.test",
        "unset": "env:NOT_SET@http://api.test:{}",
        "file": "file:/none@http://api.test:{}",
    }
    allowed = {name: place.format(server.port) for name, place in places.items()}
    assert said in error_of(run(auth=auth, settings={"http_secrets": allowed}))
    assert server.received == []


def test_a_token_is_not_fetched_for_a_server_that_its_client_is_not_for(
    server: Server, run: Callable[..., ExecutionRecord]
) -> None:
    allowed = {"client": f"env:ERP_TOKEN@http://other.test:{server.port}"}
    assert "is not for http://api.test" in error_of(run(auth=oidc(server), settings={"http_secrets": allowed}))
    assert server.received == []


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\x7fb", "\u00e9"])
def test_a_value_adds_no_header(server: Server, run: Callable[..., ExecutionRecord], value: str) -> None:
    record = run(headers={"X-Region": "{region}"}, values={"region": value})
    assert "has characters that a header cannot have" in error_of(record)
    assert server.received == []


@pytest.mark.parametrize("value", ["..", ".", ""])
def test_a_value_does_not_climb_in_the_path(server: Server, run: Callable[..., ExecutionRecord], value: str) -> None:
    assert "consists of dots" in error_of(run("/files/{name}/x", values={"name": value}))
    assert server.received == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"url": "https://{host}/"}, "cannot contain values"),
        ({"url": "{scheme}://api.test/"}, "cannot contain values"),
        ({"method": "CONNECT"}, "method must be one of"),
        ({"method": "GET / HTTP/1.1\r\nX: y"}, "method must be one of"),
        ({"headers": {"Authorization": "Bearer x"}}, "is a secret"),
        ({"headers": {"Cookie": "x"}}, "is a secret"),
        ({"headers": {"Host": "evil.test"}}, "cannot be set"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "cannot be set"),
        ({"headers": {"X\r\nY": "z"}}, "not the name of a header"),
        ({"headers": {"X": "a\r\nb"}}, "characters that a header cannot have"),
        ({"values": {"fire_id": 1}}, "is a fact of the fire"),
        ({"json": 1, "body": "x"}, "exclude each other"),
        ({"success": ["2xx"]}, "a status is a number"),
        ({"redirects": 11}, "redirects must be from 0 to 10"),
        ({"auth": {"basic": "x"}}, "auth must have one of the keys"),
        ({"auth": {"oidc": {"token_url": "https://x/"}}}, "oidc needs 'client_id'"),
    ],
)
def test_wrong_data_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidJobDataError, match=said):
        HttpRequest(**{"url": "https://api.test/", **values})


@pytest.mark.parametrize(
    "text", ["{fire_id.__class__}", "{fire_id!r}", "{0}", "{fire_id:>99999999}", "{}", "{ fire_id }"]
)
def test_a_text_is_no_format(text: str) -> None:
    assert http.fill(text, {"fire_id": 7}) == text


def test_an_unknown_name_is_an_error_and_braces_are_none() -> None:
    with pytest.raises(InvalidJobDataError, match="neither a value nor a fact"):
        http.fill("{__class__}", {})
    assert http.fill('{"a": {"b": "{n}"}} {{n}}', {"n": 1}) == '{"a": {"b": "1"}} {n}'
    assert http.fill("{a}", {"a": "{b}", "b": "no"}) == "{b}"


@pytest.mark.parametrize(
    "settings",
    [
        {"http_hosts": ["https://api.test/path"]}, {"http_hosts": ["*"]}, {"http_hosts": ["*.*.test"]},
        {"http_hosts": ["10.0.0.1/8"]}, {"http_hosts": ["api.test:99999"]}, {"http_hosts": "api.test"},
        {"http_secrets": {"a": "s3cret"}},
        {"http_secrets": {"a": "env:X"}}, {"http_secrets": {"a": "file:relative@api.test"}},
    ],
)  # fmt: skip
def test_wrong_settings_are_refused_without_the_secret(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="http_") as error:
        SchedulerHarness(**settings)
    assert "s3cret" not in str(error.value)


# --- hostile answers


def test_a_slow_answer_ends_at_the_time_limit(server: Server, run: Callable[..., ExecutionRecord]) -> None:
    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "1000000")
        handler.end_headers()
        while not server.end.wait(0.05):
            handler.wfile.write(b".")

    server.answers["/"] = drip
    assert "no answer within 2s" in error_of(run(timeout="2s"))


def test_an_answer_without_end_is_cut(server: Server, run: Callable[..., ExecutionRecord]) -> None:
    def flood(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("connection", "close")
        handler.end_headers()
        while not server.end.is_set():
            handler.wfile.write(b"\x00" * 65_536)

    server.answers["/"] = flood
    record = run(result_bytes=6_000)
    assert record.outcome is Outcome.SUCCEEDED, record.error
    assert len(json.dumps(record.result)) < 8_192


def test_headers_without_end_are_refused(server: Server, run: Callable[..., ExecutionRecord]) -> None:
    def flood(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not server.end.is_set():
            handler.wfile.write(b"X: " + b"y" * 1_000 + b"\r\n")

    server.answers["/"] = flood
    assert "RemoteProtocolError" in error_of(run())


def test_a_compressed_answer_is_not_unfolded(server: Server, run: Callable[..., ExecutionRecord]) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    server.answers["/"] = lambda handler: handler.send(200, bomb, content_encoding="gzip")
    record = run(result_bytes=1_000)
    assert record.result == {"status": 200, "body": "0" * 1_000}


@pytest.mark.parametrize("answer", [b"nonsense\r\n\r\n", b"", b"HTTP/1.1 999999 X\r\n\r\n"])
def test_nonsense_is_a_failure(server: Server, run: Callable[..., ExecutionRecord], answer: bytes) -> None:
    def send(handler: Handler) -> None:
        handler.wfile.write(answer)
        handler.close_connection = True

    server.answers["/"] = send
    assert error_of(run()).startswith("quartzpy.errors.HttpFailedError: GET http://api.test")


@pytest.mark.parametrize(
    ("host", "trusted", "said"),
    [
        ("api.test", True, None),
        ("api.test", False, "certificate verify failed"),
        ("other.test", True, "certificate verify failed"),
    ],
)
def test_the_certificate_has_to_be_that_of_the_name(
    server: Server,
    run: Callable[..., ExecutionRecord],
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    trusted: bool,
    said: str | None,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
    url = f"https://{host}:{server.port}/"
    record = run(url, settings={"http_hosts": [f"{host}:{server.port}", LOOPBACK]})
    if said is None:
        assert record.outcome is Outcome.SUCCEEDED, record.error
    else:
        assert said in error_of(record)
        assert server.received == []


# --- which nodes call


def test_a_node_without_the_setting_does_not_take_calls_and_why_says_so() -> None:
    scheduler = Scheduler("memory://")
    try:
        scheduler.schedule_job(JobDetail(HttpJob, "job", data=HttpRequest("https://api.test/")), SimpleTrigger("now"))
        scheduler.start()
        why = scheduler.why(SimpleTrigger("now").key)
        assert "No running node allows jobs of the type 'quartzpy.HttpJob'; see the setting http_hosts." in why
        assert scheduler.executions().count() == 0
    finally:
        scheduler.shutdown(wait=False)


# --- secrets that come back


@pytest.mark.parametrize("auth", [{"bearer": "erp"}, {"headers": {"X-Api-Key": "erp"}}, {"hmac": "erp"}, "oidc"])
def test_a_server_that_repeats_a_secret_gives_it_to_nobody(
    server: Server, run: Callable[..., ExecutionRecord], auth: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def echo(handler: Handler) -> None:
        text = json.dumps(dict(handler.headers.items()))
        body = f"{text}\n{base64.b64encode(text.encode()).decode()}\n{quote(text)}\ns3cret".encode()
        handler.send(401, body, Set_Cookie="t=s3cret", X_Echo=text.replace("\n", ""))

    given = json.dumps({"access_token": "t0ken-of-oauth", "expires_in": 60}).encode()
    server.answers["/token"] = lambda handler: handler.send(200, given)
    server.answers["/echo"] = echo
    caplog.set_level("DEBUG")
    auth = oidc(server, "api.test") if auth == "oidc" else auth
    options = {"capture_logs": "DEBUG"}
    record = run("/echo", auth=auth, settings=secrets(server), options=options, result_bytes=4_000)
    sent = ["s3cret", "t0ken-of-oauth", *(base64.b64encode(text).decode() for text in (b"s3cret", b"me%3A1:s3cret"))]
    assert record.outcome is Outcome.FAILED
    assert "[redacted]" in str(record.result)
    for text in (str(record.error), str(record.result), caplog.text):
        for secret in sent:
            assert secret not in text
