"""`quartzpy notify test` sends a message and says what happened. It needs no database."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from quartzpy import Scheduler
from quartzpy.cli.main import cli
from quartzpy.cli.node import _app_with_settings
from quartzpy.errors import SettingsError
from tests.webhooks import SECRET, Receiver, receiver

FILE = """
name = "billing"

[tell]
heartbeat_interval = "2m"

[tell.notify_channels]
ops = "env:OPS_URL"

[tell.notify_channels.hook]
url = "env:OPS_URL"
secret = "env:OPS_SECRET"
remind_after = "1h"
routes = [{ severity = "error", hours = "mon-fri 08:00-18:00" }, { kinds = ["dead-node"] }]

[tell.monitors]
"*" = "https://hc-ping.com/PINGKEY/{job}"
"""
DELIVERED = "delivered (status 200) by this process. Whether nodes have this channel, --url says\n"


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
    assert (done.exit_code, done.output) == (0, f"ops: {DELIVERED}hook: {DELIVERED}")
    assert [request.document["type"] for request in server.requests] == ["test", "test"]
    assert server.requests[1].is_signed
    assert server.requests[0].document["title"].startswith("[billing] ")
    assert run("notify", "test", "hook").output == f"hook: {DELIVERED}"


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


@pytest.mark.parametrize("has_channel", [True, False])
def test_the_live_nodes_that_have_the_channel_are_named(
    run: Callable[..., Result], postgres_dsn: str, has_channel: bool
) -> None:
    channels = {"ops": "env:OPS_URL"} if has_channel else {}
    with Scheduler(postgres_dsn, name="billing", instance_id="n1", notify_channels=channels) as node:
        node.start()
        done = run("notify", "test", "ops", "--url", postgres_dsn)
        assert done.exit_code == (0 if has_channel else 1)
        said = "; 1 live node has this channel: n1" if has_channel else " by this process, but NO LIVE NODE HAS THIS"
        assert done.output.startswith(f"ops: delivered (status 200){said}")


def test_a_process_without_channels_says_which_nodes_have_some(
    run: Callable[..., Result], postgres_dsn: str, tmp_path: Path
) -> None:
    (tmp_path / "quartzpy.toml").write_text("")
    with Scheduler(postgres_dsn, name="billing", instance_id="n1", notify_channels={"ops": "env:OPS_URL"}) as node:
        node.start()
        refused = run("notify", "test", "--url", postgres_dsn, "--name", "billing").exception
    assert str(refused).endswith("; n1 has the channel ops")


APP = """
from quartzpy import Scheduler


def by_file():
    return Scheduler.from_config(url="postgresql://nobody@127.0.0.1:1/none")


def by_code():
    return Scheduler("postgresql://nobody@127.0.0.1:1/none", name="billing")
"""


@pytest.fixture
def app(tmp_path: Path, run: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"app_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(APP)
    monkeypatch.setenv("QUARTZPY_CONFIG", "")
    monkeypatch.delenv("QUARTZPY_CONFIG")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)


def test_a_program_reads_the_file_that_is_given(app: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    scheduler = _app_with_settings(f"{app}:by_file", "quartzpy.toml")
    assert set(scheduler.config.channels) == {"ops", "hook"}
    assert "settings: those of quartzpy.toml" in caplog.text


def test_a_file_that_a_program_does_not_read_is_refused_or_named(
    app: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UsageError, match="has read no file; a program reads the file if it makes its scheduler by"):
        _app_with_settings(f"{app}:by_code", "quartzpy.toml")
    with pytest.raises(SettingsError, match="does-not-exist"):
        _app_with_settings(f"{app}:by_file", "does-not-exist.toml")
    os.environ.pop("QUARTZPY_CONFIG", None)
    for name in ("by_code", "by_file"):
        caplog.clear()
        _app_with_settings(f"{app}:{name}", None)
        assert f"{tmp_path}/quartzpy.toml is NOT read" in caplog.text
