"""Who gets in by the page: names of hosts, the token of a page on its own machine, and the limit of wrong passwords."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from quartzpy import JobDetail, Scheduler
from quartzpy.dashboard import basic_auth, create_app, token_auth
from quartzpy.dashboard.auth import LocalToken
from quartzpy.dashboard.hosts import host_of, is_loopback
from quartzpy.dashboard.local_token import token_in
from quartzpy.dashboard.login_throttle import BURST, MAX_A_MINUTE, LoginThrottle
from quartzpy.errors import SettingsError
from quartzpy.operations import Actor, Role
from tests.security.test_smuggled_data import Open
from tests.security.test_web_requests import LOCAL, Sender

TOKEN = "a token of this machine"


@pytest.fixture
def scheduler(postgres_dsn: str) -> Iterator[Scheduler]:
    made = Scheduler(postgres_dsn)
    made.add_job(JobDetail(Open, "job", durable=True))
    yield made
    made.shutdown()


# --- the Host header

HOSTS = {
    **{name: name for name in ("localhost", "127.0.0.1", "jobs.example", "a-b.test", "service_1")},
    "LOCALHOST:8686": "localhost",
    "localhost.": "localhost.",
    "[::1]:8686": "::1",
    "[0:0:0:0:0:0:0:1]": "::1",
    "127.0.0.1:0": "127.0.0.1",
}
NOT_HOSTS = [
    *("a{b.evil.com", "a`b.evil.com", "évil.com", "evil.com:99999", "evil.com@localhost", "localhost@evil.com"),
    *("localhost:", "localhost:x", "localhost/", "localhost evil.com", "localhost\tx", "localhost,evil.com", "[::1"),
    *("::1", "[::1]evil", "[evil]", "[fe80::1%25eth0]", "localhost\\evil", "localhost?", "localhost#", "%6cocalhost"),
    *("localhost:8686:1", "http://localhost", " ", "*", "localhost:-1", "localhost:٣"),
]


def scope_of(*hosts: str) -> dict[str, object]:
    return {"headers": [(b"Host", host.encode()) for host in hosts]}


def test_a_host_is_read_by_a_strict_grammar() -> None:
    assert {text: host_of(scope_of(text)) for text in HOSTS} == HOSTS
    assert [text for text in NOT_HOSTS if host_of(scope_of(text)) is not None] == []
    assert host_of(scope_of("localhost", "localhost")) is None
    assert host_of(scope_of()) == ""
    for name in ("localhost.evil.com", "127.0.0.1.evil.com", "evil-localhost", "0.0.0.0", ""):
        assert not is_loopback(name), name


def test_a_malformed_host_gets_nothing_from_any_page(scheduler: Scheduler) -> None:
    for auth in (None, token_auth(TOKEN), LocalToken(TOKEN, Actor("ann", Role.ADMIN))):
        app = create_app(scheduler, auth=auth)
        for host in NOT_HOSTS:
            for path in ("/", "/login", "/api/v1/jobs", "/static/x/y"):
                sender = Sender(path, method="GET")
                headers = [(b"host", host.encode()), (b"authorization", f"Bearer {TOKEN}".encode())]
                sender._scope |= {"client": ("127.0.0.1", 5), "headers": headers, "server": ("127.0.0.1", 8686)}
                assert sender.send_to(app) == 400, (auth, host, path)


def test_another_name_of_this_machine_is_another_site_without_authentication(scheduler: Scheduler) -> None:
    for auth in (None, LocalToken(TOKEN, Actor("ann", Role.ADMIN))):
        client = TestClient(create_app(scheduler, auth=auth, read_only=auth is None), **LOCAL)
        for path in ("/", f"/login?token={TOKEN}", "/api/v1/jobs"):
            if auth is not None or "login" not in path:
                assert client.get(path, headers={"Host": "evil.com"}).status_code == 403, path
        assert client.get("/").status_code == 200


# --- the token of a page on its own machine


def test_without_the_token_a_page_on_this_machine_changes_nothing(scheduler: Scheduler) -> None:
    app = create_app(scheduler, auth=LocalToken(TOKEN, Actor("ann", Role.ADMIN)), read_only=False)
    client = TestClient(app, **LOCAL, follow_redirects=False)
    body = {"job": {"name": "job"}}
    assert client.get("/jobs").status_code == 200
    page = client.get("/job?group=DEFAULT&name=job")
    headers = {"X-CSRF-Token": client.cookies.get("quartzpy_csrf", "")}
    assert client.post("/api/v1/actions/trigger", json=body, headers=headers).status_code == 403
    assert client.put("/api/v1/jobs/DEFAULT/x", json={"type": "x"}, headers=headers).status_code == 403
    assert client.delete("/api/v1/jobs/DEFAULT/job", headers=headers).status_code == 403
    wrong = {"Authorization": "Bearer some other token"}
    assert client.post("/api/v1/actions/trigger", json=body, headers=wrong).status_code == 401
    assert "Log in" in page.text
    assert TOKEN not in page.text
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert client.post("/api/v1/actions/trigger", json=body, headers=right).status_code == 200


def test_the_link_logs_in_once_and_the_form_as_well(scheduler: Scheduler) -> None:
    app = create_app(scheduler, auth=LocalToken(TOKEN, Actor("ann", Role.ADMIN)), read_only=False)
    client = TestClient(app, **LOCAL, follow_redirects=False)
    assert client.get("/login?token=another").status_code == 403
    led = client.get(f"/login?token={TOKEN}", headers={"Sec-Fetch-Site": "cross-site"})
    assert (led.status_code, "quartzpy_session" in client.cookies) == (200, False), "another site chooses no session"
    entered = client.get(f"/login?token={TOKEN}")
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert "ann" in client.get("/jobs").text
    others = TestClient(create_app(scheduler, auth=token_auth(TOKEN)), **LOCAL, follow_redirects=False)
    assert others.get(f"/login?token={TOKEN}").status_code == 200, "no link where more than a machine is asked"
    assert "quartzpy_session" not in others.cookies


def test_the_token_is_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "page-token"
    token, is_new = token_in(path)
    assert is_new
    assert len(token) >= 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token_in(path) == (token, False)
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="others may know the token"):
        token_in(path)
    path.unlink()
    (tmp_path / "elsewhere").write_text("chosen by somebody else")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsError, match="cannot be read"):
        token_in(path)


# --- wrong passwords


def test_invented_users_of_one_address_keep_nobody_else_out(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The waits do not end while a slow machine runs this test.
    monkeypatch.setattr("quartzpy.dashboard.auth.LoginThrottle", lambda: LoginThrottle(lambda: 0.0))
    app = create_app(scheduler, auth=basic_auth({"ann": "password", "bob": "password"}))
    for address in ("203.0.113.9", "2001:db8::1"):
        statuses = [
            TestClient(app, client=(address, 1)).get("/", auth=(f"user-{number}", "x")).status_code
            for number in range(2 * MAX_A_MINUTE)
        ]
        assert statuses.count(401) == BURST, "then the address has to wait, whatever the name is"
    assert TestClient(app, client=("198.51.100.7", 1)).get("/", auth=("ann", "password")).status_code == 200


def test_one_site_takes_no_more_than_its_part_of_the_limit_of_all() -> None:
    guesses = LoginThrottle(lambda: 0.0)
    for number in range(5 * MAX_A_MINUTE):
        guesses.wrong(f"2001:db8:7:{number:x}::1", f"guess {number}")
        guesses.wrong(f"::ffff:192.0.2.{number % 250}", f"guess {number}") if number < BURST else None
        guesses.wrong("192.0.2.77", f"guess {number}")
    assert guesses.wait("198.51.100.7") == 0
    assert guesses.wait("::ffff:192.0.2.77") == guesses.wait("192.0.2.77") > 0


def test_an_address_that_tries_one_password_with_each_user_has_to_wait() -> None:
    guesses = LoginThrottle(lambda: 0.0)
    guesses.right("192.0.2.1", "user-0")
    for number in range(3 * BURST):
        guesses.wrong("192.0.2.1", f"user-{number}\0password", f"user-{number}")
    assert guesses.wait("192.0.2.1", "user-99") > 0
    assert guesses.wait("192.0.2.1", "user-0") == 0, "who has logged in from there goes on"


def test_the_networks_of_one_site_guess_no_more_than_one_address_for_long() -> None:
    now = 0.0
    guesses = LoginThrottle(lambda: now, most_addresses=100)
    guesses.right("2001:db8:1:ffff::1")
    looked_at = 0
    for number in range(3_000):
        now += 0.1
        if guesses.wait(address := f"2001:db8:1:{number % 60_000:x}::{number % 7:x}") == 0:
            guesses.wrong(address, f"guess {number}")
            looked_at += 1
    assert looked_at < 70, "five minutes"
    assert guesses.wait("2001:db8:1:ffff::1") == 0, "who has logged in goes on"
    assert guesses.wait("2001:db8:2::1") == 0, "another site is none of it"


@pytest.mark.parametrize("auth", [None, "token"])
def test_a_page_that_changes_things_knows_who_asks(scheduler: Scheduler, auth: str | None) -> None:
    if auth is None:
        with pytest.raises(SettingsError, match=r"every user and program of this machine could .* auth=token_auth"):
            create_app(scheduler, read_only=False)
    else:
        assert create_app(scheduler, auth=token_auth(TOKEN), read_only=False).routes
