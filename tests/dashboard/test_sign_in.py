"""Single sign-on: at a provider of OpenID Connect, by a proxy's headers, and with tokens of machines."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import httpx2 as httpx
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.cli.main import cli
from quartzpy.dashboard import create_app, oidc
from quartzpy.dashboard.identity_headers import IdentityHeaders
from quartzpy.dashboard.oidc import OidcAuth
from quartzpy.dashboard.passes import PASS_COOKIE, PassAuth, PassKind, PassSigner
from quartzpy.errors import SettingsError
from quartzpy.operations import Role
from tests.dashboard.provider import CLIENT, OTHER_KEY, SECRET, SHARED_KEY, Provider, path_of, running_provider

ROLES = {"ops": "operator", "admins": "admin"}
LONG_SECRET = "a secret that nobody can guess at all"
HTML = {"accept": "text/html"}


@pytest.fixture
def client_of(postgres_dsn: str) -> Iterator[Callable[..., TestClient]]:
    """Makes browsers of a page with an authenticator."""
    scheduler = Scheduler(postgres_dsn, name="sign-in")

    def make(auth: Any, **options: Any) -> TestClient:
        app = create_app(scheduler, auth=auth, read_only=False)
        settings = {"base_url": "http://127.0.0.1", "client": ("127.0.0.1", 5), "follow_redirects": False, **options}
        return TestClient(app, **settings)

    yield make
    scheduler.shutdown()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


def auth_of(provider: Provider, **options: Any) -> OidcAuth:
    return OidcAuth(provider.url, CLIENT, SECRET, **{"roles": ROLES, **options})


def sign_in(client: TestClient, wanted: str = "/jobs") -> httpx.Response:
    """Sign in as a browser does; return the answer to the way back."""
    asked = client.get(wanted, headers=HTML)
    assert asked.status_code == 303
    to_provider = client.get(asked.headers["location"])
    if to_provider.status_code != 303:
        return to_provider
    back = httpx.get(to_provider.headers["location"], timeout=60)
    return client.get(path_of(back.headers["location"]))


def role_shown(client: TestClient) -> str | None:
    page = client.get("/jobs", headers=HTML)
    match = re.search(r"You are ([^,]+), with the role (\w+)", page.text)
    return f"{match[1]} {match[2]}" if page.status_code == 200 and match else None


def test_who_signs_in_gets_to_the_wanted_page_in_the_role_of_the_groups(
    client_of: Callable[..., TestClient], provider: Provider
) -> None:
    client = client_of(auth_of(provider))
    done = sign_in(client, "/jobs?sort=name")
    assert (done.status_code, done.headers["location"]) == (303, "/jobs?sort=name")
    assert role_shown(client) == "ada operator"
    assert provider.codes == {}
    assert client.get("/api/v1/jobs").status_code == 200


@pytest.mark.parametrize(
    ("user", "options", "shown"),
    [
        ({"groups": ["x", "admins", "ops"]}, {}, "ada admin"),
        ({"groups": []}, {"roles": {"*": "viewer", **ROLES}}, "ada viewer"),
        ({"groups": None, "realm": {"roles": ["ops"]}}, {"role_claim": "realm.roles"}, "ada operator"),
        ({"groups": "ops"}, {}, "ada operator"),
        ({"preferred_username": None, "email": "a@b.c"}, {}, "a@b.c operator"),
        ({"preferred_username": None}, {}, "1 operator"),
        ({"upn": "ada@x"}, {"name_claim": "upn"}, "ada@x operator"),
        # The audit log refuses these characters.
        ({"preferred_username": "a\0\u202eda\n"}, {}, "a\\x00\\u202eda\\n operator"),
    ],
)
def test_roles_and_names_come_from_claims(
    client_of: Callable[..., TestClient],
    provider: Provider,
    user: dict[str, Any],
    options: dict[str, Any],
    shown: str,
) -> None:
    provider.user |= user
    client = client_of(auth_of(provider, **options))
    assert sign_in(client).status_code == 303
    assert role_shown(client) == shown


def test_groups_may_be_in_the_userinfo_alone(client_of: Callable[..., TestClient], provider: Provider) -> None:
    del provider.user["groups"]
    provider.userinfo = {"sub": "1", "groups": ["admins"]}
    client = client_of(auth_of(provider))
    assert sign_in(client).status_code == 303
    assert role_shown(client) == "ada admin"


def test_keys_of_unknown_kinds_are_passed_over(client_of: Callable[..., TestClient], provider: Provider) -> None:
    """Providers publish keys for other programs beside those of ID tokens (RFC 7517, section 5)."""
    provider.further_keys = [{"kty": "EC", "crv": "BP-256", "x": "AA", "y": "AA"}, {"kid": "x"}, {"kty": "new"}, 5]
    client = client_of(auth_of(provider))
    assert sign_in(client).status_code == 303
    assert role_shown(client) == "ada operator"


def test_the_issuer_may_be_the_address_of_its_description(
    client_of: Callable[..., TestClient], provider: Provider
) -> None:
    address = f"{provider.url}/.well-known/openid-configuration"
    assert sign_in(client_of(OidcAuth(address, CLIENT, SECRET, ROLES))).status_code == 303


PAST = int(time.time()) - 3_600
HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "another issuer of the token": ({"claims": {"iss": "https://evil.example"}}, "not accepted"),
    "no issuer": ({"claims": {"iss": None}}, "not accepted"),
    "another audience": ({"claims": {"aud": "another"}}, "not accepted"),
    "several audiences, and another party": ({"claims": {"aud": [CLIENT, "b"], "azp": "b"}}, "not accepted"),
    "expired": ({"claims": {"exp": PAST}}, "not accepted"),
    "no expiry": ({"claims": {"exp": None}}, "not accepted"),
    "issued in the future": ({"claims": {"iat": int(time.time()) + 864_000}}, "not accepted"),
    "another nonce": ({"claims": {"nonce": "another"}}, "not accepted"),
    "no nonce": ({"claims": {"nonce": None}}, "not accepted"),
    "no subject": ({"claims": {"sub": None}}, "not accepted"),
    "another key": ({"key": OTHER_KEY}, "not accepted"),
    "signed by the shared secret": ({"key": SHARED_KEY, "algorithm": "HS256"}, "not accepted"),
    "not signed": ({"algorithm": "none", "key": None}, "not accepted"),
    "another state": ({"answer": {"state": "another"}}, "not begun in this browser"),
    "another code": ({"answer": {"code": "another"}}, "refused the code"),
    "an error": ({"answer": {"error": "access_denied"}}, "has not signed you in: 'access_denied'"),
    "an answer of another provider": ({"answer": {"iss": "https://evil.example"}}, "another provider"),
    "somebody else's userinfo": (
        {"userinfo": {"sub": "2", "groups": ["admins"]}, "user": {"sub": "1"}},
        "somebody else",
    ),
    "no role": ({"user": {"sub": "1", "groups": ["sales"]}}, "none of your groups has a role"),
    "groups that are no list": ({"user": {"sub": "1", "groups": {"ops": 1}}}, "none of your groups has a role"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_answer_is_refused(client_of: Callable[..., TestClient], provider: Provider, case: str) -> None:
    changes, words = HOSTILE[case]
    for name, value in changes.items():
        setattr(provider, name, value)
    client = client_of(auth_of(provider))
    done = sign_in(client)
    assert done.status_code == 403, done.text
    assert words in done.text.replace("&#39;", "'")
    assert PASS_COOKIE not in client.cookies
    assert role_shown(client) is None


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"issuer": "https://evil.example"}, "calls itself"),
        ({"token_endpoint": "http://evil.example/token"}, "must be https"),
        ({"jwks_uri": None}, "must be a URL"),
    ],
)
def test_a_hostile_provider_is_refused(
    client_of: Callable[..., TestClient], provider: Provider, metadata: dict[str, Any], words: str
) -> None:
    provider.metadata = metadata
    done = client_of(auth_of(provider)).get("/login")
    assert done.status_code == 502
    assert words in done.text


def test_a_provider_that_hangs_or_is_down_is_named_and_holds_nobody_else(
    client_of: Callable[..., TestClient], provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "PROVIDER_TIMEOUT", 0.2)
    provider.hangs = True
    done = client_of(auth_of(provider)).get("/login")
    assert (done.status_code, "does not answer" in done.text) == (502, True)
    provider.url = "http://127.0.0.1:9"
    done = client_of(auth_of(provider)).get("/login")
    assert (done.status_code, "does not answer" in done.text) == (502, True)


def test_a_sign_in_of_another_browser_is_refused(client_of: Callable[..., TestClient], provider: Provider) -> None:
    auth = auth_of(provider)
    victim, other = client_of(auth), client_of(auth)
    to_provider = other.get("/login")
    back = httpx.get(to_provider.headers["location"], timeout=60)
    done = victim.get(path_of(back.headers["location"]))
    assert done.status_code == 403
    assert role_shown(victim) is None


@pytest.mark.parametrize(
    "wanted", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"]
)
def test_nobody_is_led_to_another_site(client_of: Callable[..., TestClient], provider: Provider, wanted: str) -> None:
    client = client_of(auth_of(provider))
    back = httpx.get(client.get("/login", params={"next": wanted}).headers["location"], timeout=60)
    assert client.get(path_of(back.headers["location"])).headers["location"] == "/"


def test_made_up_tokens_do_not_make_the_page_ask_for_keys_again_and_again(
    client_of: Callable[..., TestClient], provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Later, they may be others.
    now = time.monotonic()
    monkeypatch.setattr(oidc, "time", SimpleNamespace(monotonic=lambda: now, time=time.time))
    provider.key = OTHER_KEY
    client = client_of(auth_of(provider))
    for _ in range(5):
        assert sign_in(client).status_code == 403
    assert provider.asked.count("keys") == 1
    assert provider.asked.count("metadata") == 1


def test_a_session_ends_by_logging_out_in_each_process(
    client_of: Callable[..., TestClient], provider: Provider
) -> None:
    client, elsewhere = client_of(auth_of(provider)), client_of(auth_of(provider))
    sign_in(client)
    for name, value in client.cookies.items():
        elsewhere.cookies.set(name, value)
    copied = dict(client.cookies)
    token = re.search(r'name="csrf_token" value="([^"]+)"', client.get("/jobs", headers=HTML).text)
    assert token is not None
    out = client.post("/logout", data={"csrf_token": token[1]})
    assert "logged out" in client.get(out.headers["location"]).text
    assert role_shown(client) is None
    client.cookies.update(copied)
    assert role_shown(client) is None
    assert role_shown(elsewhere) is None


def test_a_changed_cookie_admits_nobody(client_of: Callable[..., TestClient], provider: Provider) -> None:
    client = client_of(auth_of(provider))
    sign_in(client)
    text = client.cookies[PASS_COOKIE]
    body, _, signature = text.partition(".")
    token, _ = PassSigner(LONG_SECRET).issue("ada", Role.ADMIN, PassKind.SESSION, timedelta(hours=1))
    for forged in (body, f"{body}.", f"{body[:-2]}AA.{signature}", token, "", ".", "é.é", "x" * 10_000):
        assert PassSigner(LONG_SECRET + "x").read(forged, PassKind.SESSION) is None
        client.cookies.clear()
        if forged.isascii():
            client.cookies.set(PASS_COOKIE, forged, domain="127.0.0.1")
        assert role_shown(client) is None, forged


# --- tokens of machines


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def test_a_token_of_a_machine_has_a_role_and_an_expiry_and_can_be_ended(
    client_of: Callable[..., TestClient], postgres_dsn: str
) -> None:
    options = ("--url", postgres_dsn, "--name", "sign-in")
    new = ("dashboard-token", "--secret", LONG_SECRET, *options)
    made = CliRunner().invoke(cli, [*new, "--for", "deploy", "--role", "operator", "--expires", "1d"])
    assert made.exit_code == 0, made.output
    assert "deploy is operator until " in made.stderr
    client = client_of(PassAuth(LONG_SECRET))
    token = made.stdout.strip()
    assert client.get("/api/v1/jobs", headers=bearer(token)).status_code == 200
    # What an operator may not do.
    limit = {"limit": "erp", "value": "5", "reason": "the contract"}
    denied = client.post("/api/v1/actions/set-limit", headers=bearer(token), json=limit)
    assert denied.status_code == 403
    ended = re.search(r"--end (\w+)", made.stderr)
    assert ended is not None
    assert CliRunner().invoke(cli, ["dashboard-token", *options, "--end", ended[1]]).exit_code == 0
    assert client_of(PassAuth(LONG_SECRET)).get("/api/v1/jobs", headers=bearer(token)).status_code == 401


def test_passes_are_refused_where_they_do_not_belong(client_of: Callable[..., TestClient]) -> None:
    client = client_of(PassAuth(LONG_SECRET))
    passes = PassSigner(LONG_SECRET)
    session, _ = passes.issue("ada", Role.ADMIN, PassKind.SESSION, timedelta(hours=1))
    expired, _ = passes.issue("ada", Role.ADMIN, PassKind.TOKEN, timedelta(seconds=-1))
    foreign, _ = PassSigner(LONG_SECRET + "!").issue("ada", Role.ADMIN, PassKind.TOKEN, timedelta(hours=1))
    for text in (session, expired, foreign, "", "x"):
        assert client.get("/api/v1/jobs", headers=bearer(text)).status_code == 401
    assert client.get("/api/v1/jobs", headers={"Authorization": "Basic YTpi"}).status_code == 401


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give --for NAME"),
        (["--for", "x"], "QUARTZPY_DASHBOARD_SECRET"),
        (["--for", "x", "--secret", "short"], "at least 32 characters"),
        (["--for", "x", "--secret", LONG_SECRET, "--expires", "900d"], "--expires"),
        # Nothing that they do could be recorded.
        (["--for", "", "--secret", LONG_SECRET], "must not be empty"),
        (["--for", "a\nb", "--secret", LONG_SECRET], "control character"),
        (["--for", "x" * 300, "--secret", LONG_SECRET], "at most 200"),
    ],
)
def test_a_token_that_cannot_be_made_is_refused(postgres_dsn: str, arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(cli, ["dashboard-token", "--url", postgres_dsn, *arguments])
    assert done.exit_code != 0
    assert words in f"{done.output}{done.exception}"


def test_what_is_not_the_number_of_a_token_is_not_ended(postgres_dsn: str) -> None:
    """It may be the token itself, which is nothing for the audit log."""
    token, _ = PassSigner(LONG_SECRET).issue("deploy", Role.ADMIN, PassKind.TOKEN, timedelta(hours=1))
    for wrong in ("", "x", token, "0" * 31):
        done = CliRunner().invoke(cli, ["dashboard-token", "--url", postgres_dsn, "--end", wrong])
        assert "32 hexadecimal digits" in str(done.exception)
        assert token not in f"{done.output}{done.exception}"


def test_a_token_whose_end_cannot_be_recorded_does_not_count_as_ended(postgres_dsn: str) -> None:
    read_only = f"{postgres_dsn}?options=-c%20default_transaction_read_only%3Don"
    done = CliRunner().invoke(cli, ["dashboard-token", "--url", read_only, "--end", "0" * 32])
    assert done.exit_code != 0
    assert "is ended" not in done.output


# --- headers of a proxy

USER = {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "sales, ops"}


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("10.0.0.7", USER, 200),
        ("10.0.0.8", USER, 403),
        ("10.0.0.7", {}, 403),
        ("10.0.0.7", {"X-Forwarded-User": ""}, 403),
        ("10.0.0.7", {"X-Forwarded-User": "a\tb"}, 403),
        ("10.0.0.7", {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "sales"}, 403),
        ("10.0.0.8", {**USER, "X-Forwarded-For": "10.0.0.7", "X-Real-IP": "10.0.0.7"}, 403),
        ("10.0.0.7", [*USER.items(), ("X-Forwarded-User", "eve")], 403),
        ("10.0.0.7", [*USER.items(), ("X-Forwarded-Groups", "admins")], 403),
        ("", USER, 403),
    ],
)
def test_the_headers_of_a_declared_proxy_alone_count(
    client_of: Callable[..., TestClient], address: str, headers: Any, status: int
) -> None:
    client = client_of(IdentityHeaders(["10.0.0.7"], ROLES), client=(address, 5))
    assert client.get("/jobs", headers=headers).status_code == status


def test_names_and_groups_of_a_proxy_are_utf_8(client_of: Callable[..., TestClient]) -> None:
    client = client_of(IdentityHeaders(["10.0.0.7"], {"équipe": "operator"}), client=("10.0.0.7", 5))
    user = {"X-Forwarded-User": "Łukasz".encode(), "X-Forwarded-Groups": "équipe".encode()}
    assert "You are Łukasz, with the role operator" in client.get("/jobs", headers=user).text
    # What a server of old writes.
    latin = {"X-Forwarded-User": "José".encode("latin-1"), "X-Forwarded-Groups": "équipe".encode("latin-1")}
    assert "You are José, with the role operator" in client.get("/jobs", headers=latin).text


@pytest.mark.parametrize("names", [(), ("",), ("a\tb",), ("ada", "eve"), ("x" * 201,)])
def test_who_has_no_name_is_told_so(client_of: Callable[..., TestClient], names: tuple[str, ...]) -> None:
    client = client_of(IdentityHeaders(["10.0.0.7"], ROLES), client=("10.0.0.7", 5))
    headers = [("X-Forwarded-Groups", "ops"), *(("X-Forwarded-User", name) for name in names)]
    assert "has not said who you are" in client.get("/jobs", headers=headers).text


def test_a_proxy_and_tokens_of_machines_go_together(client_of: Callable[..., TestClient]) -> None:
    client = client_of(IdentityHeaders(["10.0.0.0/24"], ROLES, secret=LONG_SECRET), client=("10.0.0.9", 5))
    token, _ = PassSigner(LONG_SECRET).issue("deploy", Role.VIEWER, PassKind.TOKEN, timedelta(hours=1))
    assert client.get("/api/v1/jobs", headers=bearer(token)).status_code == 200
    assert client.get("/api/v1/jobs", headers={**USER, **bearer("x")}).status_code == 403
    assert client.get("/jobs", headers=USER).status_code == 200


@pytest.mark.parametrize(
    "make",
    [
        lambda: IdentityHeaders([], ROLES),
        lambda: IdentityHeaders("10.0.0.7", ROLES),
        lambda: IdentityHeaders(["proxy.internal"], ROLES),
        lambda: IdentityHeaders(["0.0.0.0/0"], ROLES),
        lambda: IdentityHeaders(["10.0.0.7"], {}),
        lambda: IdentityHeaders(["10.0.0.7"], {"ops": "root"}),
        lambda: OidcAuth("login.example.com", CLIENT, SECRET, ROLES),
        lambda: OidcAuth("http://login.example.com", CLIENT, SECRET, ROLES),
        lambda: OidcAuth("https://login.example.com", "", SECRET, ROLES),
        lambda: OidcAuth("https://login.example.com", CLIENT, "", ROLES),
        lambda: OidcAuth("https://login.example.com", CLIENT, SECRET, {}),
        lambda: OidcAuth("https://login.example.com", CLIENT, SECRET, ROLES, secret="short"),
        lambda: PassAuth("short"),
    ],
)
def test_a_sign_in_that_cannot_be_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(SettingsError) as raised:
        make()
    assert SECRET not in str(raised.value)
