"""Shell completion of names from the database, `tail`, `health`, `config`, and one way to name the database."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from quartzpy import Job, JobDetail, JobExecutionContext, SimpleTrigger
from quartzpy.cli.completion import PROGRAM, VARIABLE
from quartzpy.cli.main import cli
from quartzpy.cli.setup import without_password
from tests.cli.conftest import Terminal
from tests.cluster.app import Quick

LATER = datetime(2090, 1, 1, tzinfo=UTC)


def offered(*words: str) -> list[str]:
    """The completions of the last word of a command line."""
    *before, last = words
    return [item.value for item in ShellComplete(cli, {}, PROGRAM, VARIABLE).get_completions(before, last)]


def test_names_are_completed_from_the_database(terminal: Terminal, postgres_dsn: str) -> None:
    for name, group in (("import-invoices", "billing"), ("import-orders", "billing"), ("heartbeat", "DEFAULT")):
        terminal.scheduler.schedule_job(
            JobDetail(Quick, name, group), SimpleTrigger(f"{name}-trigger", group, start_time=LATER)
        )
    assert offered("show", "job", "bil") == ["billing.import-invoices", "billing.import-orders"]
    assert offered("show", "job", "billing.import-o") == ["billing.import-orders"]
    assert offered("trigger", "heart") == ["heartbeat"]
    assert offered("pause", "DEFAULT.h") == ["DEFAULT.heartbeat", "DEFAULT.heartbeat-trigger"]
    assert offered("pause", "--trigger", "DEFAULT.h") == ["DEFAULT.heartbeat-trigger"]
    assert offered("triggers", "--job", "billing.import-i") == ["billing.import-invoices"]
    assert offered("show", "job", "--url", postgres_dsn, "--name", terminal.scheduler.name, "hea") == ["heartbeat"]
    assert offered("--url", postgres_dsn, "--name", terminal.scheduler.name, "show", "job", "hea") == ["heartbeat"]
    assert offered("sho") == ["show"]


def test_completion_is_silent_about_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert offered("show", "job", "x") == []
    assert offered("show", "job", "--url", "postgresql+psycopg://u@127.0.0.1:9/x", "x") == []
    (tmp_path / "quartzpy.toml").write_text("wokers = 1\n")
    assert offered("drain", "") == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(terminal: Terminal, shell: str) -> None:
    script = terminal.ok("completion", shell)
    assert VARIABLE in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=30)


class Sometimes(Job):
    def execute(self, context: JobExecutionContext) -> None:
        if context.job_data["fail"]:
            raise ValueError("no such region")


def test_the_events_of_the_cluster_are_printed_as_they_happen(terminal: Terminal) -> None:
    scheduler = terminal.scheduler
    for name, fail in (("good", False), ("bad", True)):
        scheduler.schedule_job(
            JobDetail(Sometimes, name, data={"fail": fail}),
            SimpleTrigger(name, interval=timedelta(milliseconds=200), repeat_count=200),
        )
    scheduler.start()
    lines = terminal.ok("tail", "--ends", "--count", "4").splitlines()
    assert len(lines) == 4
    [line] = terminal.ok("tail", "--job", "bad", "--state", "failed", "--count", "1").splitlines()
    assert "FAILED" in line
    assert f"DEFAULT.bad on {scheduler.instance_id}" in line
    assert line.endswith(": ValueError: no such region")
    event = json.loads(terminal.ok("tail", "--json", "--job", "good", "--ends", "--count", "1"))
    assert event["event"] == "ended"
    assert event["execution"]["job"] == {"group": "DEFAULT", "name": "good"}


def test_health_says_why_it_is_not_well(terminal: Terminal) -> None:
    assert terminal.run("health").status == 1
    assert json.loads(terminal.run("health", "--json").out) == {
        "ok": False,
        "problems": ["no node is running"],
        "nodes": 0,
        "alive": 0,
    }
    assert terminal.run("health", "--host", "nowhere").out == "there is no node on host nowhere\n"
    assert terminal.run("health", "--url", "postgresql+psycopg://u@127.0.0.1:9/x").status == 3
    terminal.scheduler.start()
    assert terminal.ok("health", "--ready") == "ok: 1 of 1 node is alive\n"


def test_settings_come_from_options_environment_and_file_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from quartzpy.cli.main import main

    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    path = tmp_path / "quartzpy.toml"
    path.write_text('url = "postgresql+psycopg://ann:p@ss@h/x"\nname = "file"\nschema = "file"\nworkers = 5\n')

    def sources(*options: str) -> dict[str, tuple[object, str]]:
        with pytest.raises(SystemExit):
            main(["config", "--json", *options])
        rows = json.loads(capsys.readouterr().out)
        return {row["setting"]: (row["value"], row["source"]) for row in rows}

    assert sources() == {
        "url": ("postgresql+psycopg://ann:***@h/x", str(path)),
        "name": ("file", str(path)),
        "schema": ("file", str(path)),
        "workers": (5, str(path)),
    }
    monkeypatch.setenv("QUARTZPY_NAME", "environment")
    monkeypatch.setenv("QUARTZPY_SCHEMA", "environment")
    found = sources("--name", "option")
    assert found["name"] == ("option", "--name")
    assert found["schema"] == ("environment", "QUARTZPY_SCHEMA")
    other = tmp_path / "other.toml"
    other.write_text('[quartzpy]\nname = "other"\n')
    monkeypatch.delenv("QUARTZPY_NAME")
    assert sources("--config", str(other))["name"] == ("other", str(other))
    monkeypatch.setenv("QUARTZPY_CONFIG", str(other))
    assert sources()["name"] == ("other", str(other))
    assert sources("--all")["batch_size"] == (200, "default")
    monkeypatch.setenv("QUARTZPY_NAME"[:-4] + "NMAE", "x")
    with pytest.raises(SystemExit) as ended:
        main(["jobs"])
    assert ended.value.code == 2
    assert "did you mean QUARTZPY_NAME?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql+psycopg://u:p@h/d", "postgresql+psycopg://u:***@h/d"),
        ("postgresql+psycopg://u:p@q:r@h/d", "postgresql+psycopg://u:***@h/d"),
        (
            "postgresql+psycopg://u@h/d?password=p&sslmode=require",
            "postgresql+psycopg://u@h/d?password=***&sslmode=require",
        ),
        ("memory://", "memory://"),
    ],
)
def test_passwords_are_not_printed(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_every_command_has_a_help_text_and_a_line_in_the_list() -> None:
    def commands(group: click.Group) -> list[click.Command]:
        found: list[click.Command] = []
        for command in group.commands.values():
            found += [command, *(commands(command) if isinstance(command, click.Group) else [])]
        return found

    for command in commands(cli):
        assert command.help, command.name
        assert command.get_short_help_str(200).endswith("."), command.name
