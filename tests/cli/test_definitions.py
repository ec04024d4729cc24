"""`plan`, `apply` and `export` on a real database."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from importlib import import_module
from pathlib import Path

import pytest

from quartzpy import CronTrigger, JobDetail, MaintenanceWindow, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.calendars.calendar import CALENDAR_KINDS
from quartzpy.calendars.days import HolidayCalendar, WeeklyCalendar
from quartzpy.calendars.times import DailyCalendar
from quartzpy.errors import StoreUnavailableError
from quartzpy.operations.actions.action import local_user
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

    monkeypatch.setattr("quartzpy.definitions.writer.written", breaking)
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
    windows = [
        MaintenanceWindow('a.b "', start=later, end=later + timedelta(hours=1), missed="skip"),
        MaintenanceWindow("other", cron="0 0 2 ? * SUN", duration="90m", job_group="us"),
        MaintenanceWindow(
            "weekly", cron="@weekly", duration="4h", time_zone="Europe/Berlin", job_group="eu", reason="x"
        ),
    ]
    for window in windows:
        source.add_maintenance_window(window)
    exported = tmp_path / "exported.toml"
    terminal.ok("export", "-o", str(exported))
    body = exported.read_text().partition("\n")[2]
    assert "MANUAL_TRIGGERS" not in body
    unchanged = terminal.ok("plan", str(exported))
    assert "0 to add, 5 to change" in unchanged
    assert "3 unchanged" in unchanged, "the windows have no owner but who changed them"
    assert unchanged.count("becomes the owner") == 5, "nothing but the owner differs"
    other = Scheduler(postgres_dsn, name=f"{source.name}-copy")
    try:
        other.add_job(JobDetail(Quick, "to-create-the-scheduler", durable=True))
        place = ("--name", other.name)
        planned = terminal.ok("plan", str(exported), *place)
        assert "+ window weekly\n    cron: @weekly\n    duration: 4h\n    time_zone: Europe/Berlin\n" in planned
        terminal.ok("apply", str(exported), "--yes", *place)
        assert [record.window for record in other.maintenance_windows()] == windows
        other.delete_job("to-create-the-scheduler")
        assert terminal.ok("export", *place).partition("\n")[2] == body
        assert terminal.ok("plan", str(exported), "--exit-code", *place) == "nothing to change: 8 unchanged\n"
    finally:
        other.clear()
        other.shutdown()
    assert terminal.ok("export", "--group", "nothing").endswith("job = []\n")
    of_group = terminal.ok("export", "--group", "eu")
    assert "[window.weekly]" in of_group
    assert of_group.count("[window") == 1, "the others concern more than what is exported"


def test_a_type_with_a_name_of_its_own_is_declared_by_its_class_or_its_module(
    terminal: Terminal, tmp_path: Path
) -> None:
    name = f"named_{terminal.scheduler.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(
        f"from quartzpy import Job\nclass Report(Job, type_name='shop.{name}'):\n    def execute(self, context): ...\n"
    )
    declared = '[[job]]\ntype = "{}"\nname = "report"\ntrigger = "0 0 2 * * ?"\n'
    by_name, by_class = tmp_path / "by_name.toml", tmp_path / "by_class.toml"
    by_name.write_text(declared.format(f"shop.{name}"))
    by_class.write_text(declared.format(f"{name}:Report"))
    refused = terminal.run("plan", str(by_name))
    assert refused.status == 2
    assert f"type 'shop.{name}' is not registered by any imported module; write module:class, or import" in refused.err
    assert f"    type: shop.{name}\n" in terminal.ok("plan", str(by_class))
    terminal.ok("apply", str(by_name), "--import", name, "--yes")
    assert terminal.ok("plan", str(by_class), "--exit-code").startswith("nothing to change")
    assert f'type = "shop.{name}"' in terminal.ok("export")


CALENDARS = """
import datetime
from dataclasses import dataclass

from quartzpy.calendars.calendar import WholeDayCalendar


@dataclass(frozen=True)
class Tides(WholeDayCalendar):
    kind = "tides-of-a-user"
    high: tuple[datetime.date, ...] = ()

    def excludes_day(self, day):
        return day in self.high
"""


def test_calendars_are_exported_and_applied_with_the_jobs(
    terminal: Terminal, postgres_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"tides_{terminal.scheduler.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(CALENDARS.replace("tides-of-a-user", module))
    monkeypatch.syspath_prepend(str(tmp_path))
    source = terminal.scheduler
    tides = import_module(module).Tides((date(2090, 1, 1),), base=WeeklyCalendar({1}, time_zone="Asia/Tokyo"))
    source.add_calendar("tides", tides)
    source.add_calendar("a.b 'c'", HolidayCalendar({date(2090, 12, 25)}, base=DailyCalendar(time(0), time(8))))
    source.schedule_job(JobDetail(Quick, "at-low-water"), CronTrigger("0 0 2 ? * MON-FRI", calendar="tides"))
    exported = tmp_path / "exported.toml"
    terminal.ok("export", "-o", str(exported))
    body = exported.read_text().partition("\n")[2]
    assert f'class = "{module}:Tides"' in body
    assert "[calendar.tides]" in terminal.ok("export", "--contains", "low-water")
    assert "a.b" not in terminal.ok("export", "--contains", "low-water")
    other = Scheduler(postgres_dsn, name=f"{source.name}-copy")
    try:
        other.add_calendar("to-create-the-scheduler", WeeklyCalendar())
        place = ("--name", other.name)
        planned = terminal.ok("plan", str(exported), *place)
        assert f"+ calendar tides\n    kind: {module}\n" in planned
        assert "4 to add" in planned
        terminal.ok("apply", str(exported), "--yes", "--reason", "a new site", *place)
        other.delete_calendar("to-create-the-scheduler")
        assert terminal.ok("export", *place).partition("\n")[2] == body
        assert terminal.ok("plan", str(exported), "--exit-code", *place) == "nothing to change: 4 unchanged\n"
        rows = json.loads(terminal.ok("audit", "--json", *place))["items"]
        assert {(row["action"], row["actor"], row["reason"]) for row in rows} == {
            ("apply", local_user().name, "a new site")
        }
        assert len(rows) == 4
        exported.write_text("job = []\n")
        other.schedule_job(JobDetail(Quick, "by-a-program"), CronTrigger("0 0 2 * * ?", calendar="tides"))
        for command in (("plan",), ("apply", "--yes")):
            refused = terminal.run(*command, str(exported), "--prune", *place)
            assert refused.status == 9
            assert "'tides' is no longer declared, but trigger DEFAULT.by-a-program uses it" in refused.err
    finally:
        other.clear()
        other.shutdown()


def test_a_calendar_of_an_unknown_class_is_named_and_the_rest_is_exported(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"unknown_{terminal.scheduler.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(CALENDARS.replace("tides-of-a-user", module))
    with monkeypatch.context() as context:
        context.syspath_prepend(str(tmp_path))
        terminal.scheduler.add_calendar("tides", import_module(module).Tides())
    terminal.scheduler.add_calendar("weekend", WeeklyCalendar())
    del sys.modules[module], CALENDAR_KINDS[module]
    done = terminal.run("export")
    assert done.status == 1
    assert f"not exported: calendar tides cannot be read: calendar: no class of the kind '{module}'" in done.err
    assert "give its module by --import" in done.err
    assert "[calendar.weekend]" in done.out
    assert "[calendar.tides]" in terminal.ok("export", "--import", module)
    wrong = terminal.run("export", "--import", "no_such_module")
    assert wrong.status == 2
    assert "'no_such_module' cannot be imported: No module named 'no_such_module'" in wrong.err


def test_a_new_name_is_that_of_a_new_scheduler(terminal: Terminal, file: Path) -> None:
    terminal.ok("apply", str(file), "--yes", "--name", "first-team")
    plan = terminal.run("plan", str(file), "--name", "second-team")
    assert plan.status == 0
    assert "second-team" in plan.err
    terminal.ok("apply", str(file), "--yes", "--name", "second-team")
    assert terminal.ok("jobs", "--name", "second-team") == terminal.ok("jobs", "--name", "first-team")
    assert terminal.run("jobs", "--name", "third-team").status != 0
