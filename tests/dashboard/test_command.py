"""`quartzpy dashboard`: what it refuses, and what it says instead."""

from __future__ import annotations

import re
import socket
import sys

import pytest
from click.testing import CliRunner
from starlette.requests import Request

from quartzpy.cli import dashboard as command
from quartzpy.cli.dashboard import dashboard
from quartzpy.errors import SettingsError
from quartzpy.installing import install_line
from quartzpy.operations import Actor, Grant, Role

DSN = ["--dsn", "postgresql+psycopg://nobody@127.0.0.1:1/none", "--name", "x"]


def error_of(*arguments: str, **environment: str) -> str:
    result = CliRunner().invoke(dashboard, [*DSN, *arguments], env=environment)
    assert isinstance(result.exception, SettingsError), result.output
    return str(result.exception)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_it_listens_beyond_this_machine_only_with_authentication(host: str) -> None:
    said = error_of("--host", host)
    assert f"QUARTZPY_DASHBOARD_TOKEN=... quartzpy dashboard --host {host}" in said


def test_a_token_from_the_environment_is_authentication(monkeypatch: pytest.MonkeyPatch) -> None:
    # The address is not one of this machine: it gets as far as listening.
    assert "cannot listen" in error_of("--host", "192.0.2.1", QUARTZPY_DASHBOARD_TOKEN="correct horse")


def test_an_address_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = error_of("--port", port)
    assert said.startswith(f"cannot listen on 127.0.0.1, port {port}")
    assert "--port" in said


@pytest.mark.parametrize("user", ["ann", "ann:", ":password", "ann::viewer"])
def test_a_user_without_a_name_or_a_password_is_refused(user: str) -> None:
    assert "NAME:PASSWORD" in error_of("--basic-user", user) or user == "ann::viewer"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--grant", "bob"], r"must be NAME:GROUPS or .* \(got 'bob'\)"),
        (["--grant", "bob:shop,"], r"--grant 'bob:shop,': groups: a list of patterns"),
        (["--grant", "bob:shop"], r"no user 'bob'; set a token, or users"),
        (["--token", "long enough", "--grant", "bob:shop"], r"no user 'bob'; the users are token"),
        (["--basic-user", "ann:password", "--grant", "bob:shop"], r"no user 'bob'; the users are ann"),
    ],
)
def test_a_grant_that_cannot_be_one_is_refused(arguments: list[str], said: str) -> None:
    assert re.search(said, error_of(*arguments))


@pytest.mark.parametrize(
    ("arguments", "login"),
    [
        (
            ["--token", "long enough", "--token-role", "viewer", "--grant", "token:shop,shop-*:shop.jobs:*"],
            "Bearer long enough",
        ),
        (["--basic-user", "bob:pass:word", "--grant", "bob:shop,shop-*:shop.jobs:*"], "Basic Ym9iOnBhc3M6d29yZA=="),
    ],
)
def test_a_grant_of_the_command_is_that_of_its_user(arguments: list[str], login: str) -> None:
    options = dashboard.make_context("dashboard", [*DSN, *arguments]).params
    auth = command._authenticator(*(options[name] for name in ("token", "token_role", "users", "grants")))
    assert auth is not None
    scope = {"type": "http", "headers": [(b"authorization", login.encode())], "client": ("127.0.0.1", 1)}
    actor = auth(Request(scope))
    assert isinstance(actor, Actor)
    assert (actor.role, actor.defines) == (Role.VIEWER, Grant(["shop", "shop-*"], ["shop.jobs:*"]))


def test_a_short_token_and_two_kinds_of_authentication_are_refused() -> None:
    assert "at least 8 characters" in error_of("--token", "short")
    assert "exclude each other" in error_of("--token", "long enough", "--basic-user", "ann:password")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("quartzpy.dashboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    said = error_of()
    assert install_line("dashboard") in said
