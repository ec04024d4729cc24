"""`plan`, `apply` and `export` on a real database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quartzpy import CronTrigger, JobDetail, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.errors import StoreUnavailableError
from tests.cli.conftest import Terminal
from tests.cluster.app import Quick

FILE = """
[[job]]
type = "tests.cluster.app:Quick"
name = "report"
group = "eu"
timeout = "30m"
data = { region = "eu", api_token = "s3cr3t" }

  [[job.trigger]]
  name = "nightly"
  expression = "0 0 2 ? * MON-FRI"
  time_zone = "Europe/Berlin"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.toml"
    path.write_text(FILE)
    return path


def test_a_plan_shows_the_differences_and_apply_makes_them(terminal: Terminal, file: Path) -> None:
    assert terminal.ok("plan", str(file)) == (
        "+ job eu.report\n"
        "    type: tests.cluster.app:Quick\n"
        "+ trigger eu.nightly\n"
        "    schedule: 0 0 2 ? * MON-FRI\n"
        "2 to add, 0 to change, 0 to remove; 0 unchanged\n"
    )
    assert terminal.run("plan", str(file), "--exit-code").status == 1
    assert not list(terminal.scheduler.jobs()), "a plan changes nothing"
    assert terminal.run("apply", str(file)).status == 8, "nobody can be asked"
    assert not list(terminal.scheduler.jobs())
    assert terminal.ok("apply", str(file), "--yes").endswith(
        "applied: 2 to add, 0 to change, 0 to remove; 0 unchanged\n"
    )
    assert terminal.ok("plan", str(file), "--exit-code") == "nothing to change: 2 unchanged\n"
    file.write_text(FILE.replace("30m", "1h").replace("0 0 2", "0 0 3").replace("s3cr3t", "n3w"))
    changed = terminal.ok("plan", str(file))
    assert "~ job eu.report\n" in changed
    assert "    timeout: 30m -> 1h\n" in changed
    assert "    expression: '0 0 2 ? * MON-FRI' -> '0 0 3 ? * MON-FRI'\n" in changed
    assert "s3cr3t" not in changed
    assert "n3w" not in changed
    [job, trigger] = json.loads(terminal.ok("plan", str(file), "--json"))["changes"]
    assert (job["sign"], job["kind"], job["key"]) == ("~", "job", {"group": "eu", "name": "report"})
    assert trigger["differences"][0]["name"] == "expression"
    done = json.loads(terminal.ok("apply", str(file), "--yes", "--json"))
    assert len(done["changes"]) == 2


def test_an_older_version_of_the_program_changes_nothing(terminal: Terminal, file: Path) -> None:
    terminal.ok("apply", str(file), "--yes", "--program-version", "2.10")
    file.write_text(FILE.replace("30m", "1h"))
    done = terminal.run("apply", str(file), "--yes", "--program-version", "2.9")
    assert (done.status, done.out) == (9, "nothing to change: version 2.10 of the program is newer\n")
    [job] = terminal.scheduler.jobs()
    assert job.job.timeout == timedelta(minutes=30)
    terminal.ok("apply", str(file), "--yes", "--program-version", "2.11")
    assert terminal.ok("plan", str(file)).startswith("nothing to change")


def test_prune_removes_what_the_owner_no_longer_declares(terminal: Terminal, file: Path) -> None:
    terminal.ok("apply", str(file), "--yes", "--owner", "reports")
    terminal.scheduler.schedule_job(JobDetail(Quick, "by-a-program"), CronTrigger("0 0 4 * * ?"))
    file.write_text("job = []\n")
    assert terminal.ok("plan", str(file), "--owner", "reports") == "nothing to change: 0 unchanged\n"
    assert "- job eu.report" in terminal.ok("plan", str(file), "--owner", "reports", "--prune")
    terminal.ok("apply", str(file), "--owner", "reports", "--prune", "--yes")
    assert [record.key.name for record in terminal.scheduler.jobs()] == ["by-a-program"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[[job]]\nnme = 1\n", "'nme' is not known; did you mean name?"),
        ('[[job]]\ntype = "no.such:Job"\nname = "x"\n', "No module named 'no'"),
        ("", "declares no job"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(terminal: Terminal, file: Path, content: str, message: str) -> None:
    file.write_text(content)
    for command in (("plan",), ("apply", "--yes")):
        done = terminal.run(*command, str(file))
        assert (done.status, done.out) == (2, "")
        assert message in done.err
    assert terminal.run("plan", "nowhere.toml").status == 2


def test_an_export_that_fails_leaves_the_file_as_it_was(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        terminal.scheduler.add_job(JobDetail(Quick, name, durable=True))
    file = tmp_path / "exported.toml"
    terminal.ok("export", "-o", str(file))
    before = file.read_text()
    file.chmod(0o640)
    terminal.ok("export", "-o", str(file))
    assert (file.read_text(), file.stat().st_mode & 0o777) == (before, 0o640)

    def breaking(*arguments: object, **options: object) -> Iterator[str]:
        yield "job = []"
        raise StoreUnavailableError("the connection broke")

    monkeypatch.setattr("quartzpy.scheduling.exporting.written", breaking)
    assert terminal.run("export", "-o", str(file)).status != 0
    assert file.read_text() == before
    assert not list(tmp_path.glob("*.part"))


def test_an_export_is_applied_elsewhere_and_exported_the_same(
    terminal: Terminal, postgres_dsn: str, tmp_path: Path
) -> None:
    later = datetime(2090, 1, 1, tzinfo=UTC)
    source = terminal.scheduler
    source.schedule_job(
        JobDetail(Quick, "a.b'\"; 報告", "eu", data={"when": later, "n": 1, "none": None}, timeout="90s"),
        [
            CronTrigger("0 0 2 ? * MON-FRI", "nightly", time_zone="Europe/Berlin"),
            SimpleTrigger(
                "every", start_time=later, interval=timedelta(minutes=5), misfire="fire_all", catch_up_max=9, priority=9
            ),
        ],
    )
    source.schedule_job(JobDetail(Quick, "ended"), SimpleTrigger("paused-one-shot"))
    source.pause_trigger(TriggerKey("paused-one-shot"))
    exported = tmp_path / "exported.toml"
    terminal.ok("export", "-o", str(exported))
    body = exported.read_text().partition("\n")[2]
    assert "MANUAL_TRIGGERS" not in body
    unchanged = terminal.ok("plan", str(exported))
    assert "0 to add, 5 to change" in unchanged
    assert unchanged.count("becomes the owner") == 5, "nothing but the owner differs"
    other = Scheduler(postgres_dsn, name=f"{source.name}-copy")
    try:
        other.add_job(JobDetail(Quick, "to-create-the-scheduler", durable=True))
        place = ("--name", other.name)
        terminal.ok("apply", str(exported), "--yes", *place)
        other.delete_job("to-create-the-scheduler")
        assert terminal.ok("export", *place).partition("\n")[2] == body
        assert terminal.ok("plan", str(exported), "--exit-code", *place) == "nothing to change: 5 unchanged\n"
    finally:
        other.clear()
        other.shutdown()
    assert terminal.ok("export", "--group", "nothing").endswith("job = []\n")
