"""`quartzpy notify test` sends a message and says what happened. It needs no database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from quartzpy.cli.main import cli
from tests.webhooks import SECRET, Receiver, receiver

FILE = """
name = "billing"
heartbeat_interval = "2m"

[notify_channels]
ops = "env:OPS_URL"

[notify_channels.hook]
url = "env:OPS_URL"
secret = "env:OPS_SECRET"
remind_after = "1h"
routes = [{ severity = "error", hours = "mon-fri 08:00-18:00" }, { kinds = ["dead-node"] }]

[monitors]
"*" = "https://hc-ping.com/PINGKEY/{job}"
"""


@pytest.fixture
def server() -> Iterator[Receiver]:
    with receiver() as server:
        yield server


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Receiver) -> Callable[..., Result]:
    (tmp_path / "quartzpy.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPS_URL", f"{server.url}/hidden")
    monkeypatch.setenv("OPS_SECRET", SECRET)
    return lambda *arguments: CliRunner().invoke(cli, list(arguments))


def test_a_test_is_sent_to_all_channels_or_to_one(run: Callable[..., Result], server: Receiver) -> None:
    done = run("notify", "test")
    assert (done.exit_code, done.output) == (0, "ops: delivered (status 200)\nhook: delivered (status 200)\n")
    assert [request.document["type"] for request in server.requests] == ["test", "test"]
    assert server.requests[1].is_signed
    assert server.requests[0].document["title"].startswith("[billing] ")
    assert run("notify", "test", "hook").output == "hook: delivered (status 200)\n"


def test_what_is_not_delivered_is_said_with_its_reason_and_without_the_url(
    run: Callable[..., Result], server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.decide = lambda path, headers: 404
    done = run("notify", "test", "ops")
    assert done.exit_code == 1
    assert done.output == "ops: not delivered: the webhook answered with status 404, which begins: not\\r\\nnow\n"
    monkeypatch.delenv("OPS_URL")
    assert run("notify", "test", "ops").output == "ops: not delivered: env:OPS_URL is empty, or not one line\n"


def test_a_channel_that_is_not_there(run: Callable[..., Result], tmp_path: Path) -> None:
    assert "there is no channel 'opps'; did you mean ops?" in str(run("notify", "test", "opps").exception)
    (tmp_path / "quartzpy.toml").write_text("")
    assert "notify_channels is not set" in str(run("notify", "test").exception)


def test_the_settings_are_printed_without_urls(run: Callable[..., Result]) -> None:
    printed = run("config").output
    assert "PINGKEY" not in printed
    assert "*=https://hc-ping.com/***" in printed
    assert "ops=Channel(url='env:OPS_URL', 1 routes)" in printed
