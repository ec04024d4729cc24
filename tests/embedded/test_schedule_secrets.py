"""The variables of a schedule file: they reach the command, and nothing else shows them."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from quartzpy import JobDetail, Scheduler
from quartzpy.cli.main import cli
from quartzpy.cli.notify import _of_schedule_file
from quartzpy.embedded.schedule_file import read_schedule
from quartzpy.errors import SettingsError
from quartzpy.jobs.command import Command, CommandJob

SECRET = "pa55 w'ord\"$HOME`"
FILE = f"""
time_zone: UTC
environment: {{PGPASSWORD: {json.dumps(SECRET)}, COMMON: c}}
jobs:
  line: {{command: "true", schedule: every 1h, environment: {{AWS_SECRET_ACCESS_KEY: {json.dumps(SECRET)}}}}}
  words: {{command: [/bin/echo, a b], schedule: every 1h}}
  found: {{command: [echo, a b], schedule: every 1h, environment: {{PATH: /opt/bin}}}}
  bash: {{command: "echo x", schedule: every 1h, group: ops, environment: {{SHELL: /bin/bash}}}}
  plain: {{url: "https://api.example.com/", schedule: every 1h}}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "schedule.yaml"
    made.write_text(FILE)
    return made


def test_no_variable_of_a_file_is_in_a_job(path: Path) -> None:
    schedule = read_schedule(path)
    stored = {job.name: dict(job.data or {}) for job, _ in schedule.declarations.jobs}
    assert SECRET not in repr(stored)
    assert "pa55" not in repr(stored)
    assert (stored["line"]["shell"], stored["words"]["argv"]) == ("true", ["/bin/echo", "a b"])
    assert stored["found"]["shell"] == "exec echo 'a b'", "a program is found in the PATH of its own variables"
    assert stored["bash"]["shell"] == "exec /bin/bash -c 'echo x'"
    variables: Mapping[str, Any] = schedule.variables
    assert variables["DEFAULT.line"] == {"PGPASSWORD": SECRET, "COMMON": "c", "AWS_SECRET_ACCESS_KEY": SECRET}
    assert sorted(variables) == ["DEFAULT.found", "DEFAULT.line", "DEFAULT.words", "ops.bash"]
    scheduler = Scheduler("memory://", **schedule.allowed)
    assert "pa55" not in repr(scheduler.config) + repr(schedule)


def test_the_variables_reach_the_command_by_its_environment_alone() -> None:
    program = "import os, sys; print(os.environ['SECRET'], os.environ.get('OTHER'), sys.argv[1:])"
    variables = {"DEFAULT.mine": {"SECRET": SECRET, "QUARTZPY_FIRE_ID": "7"}, "DEFAULT.other": {"OTHER": "x"}}
    with Scheduler("memory://", commands=[sys.executable], command_variables=variables) as node:
        node.schedule_job(JobDetail(CommandJob, "mine", data=Command([sys.executable, "-c", program]), durable=True))
        handle = node.trigger_job("mine")
        record = handle.wait("60s")
        assert record.error is None
        log = node.execution_log(record.fire_id)
        assert f"{SECRET} None []" in (log or "")
        assert "pa55" not in repr(node.job("mine"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"a": "x"}, "a mapping of names"),
        ({"a": {"X=Y": "s3cret"}}, "is not the name of a variable"),
        ({"a": {"X": "s3cret\0"}}, "without NUL"),
        ({"a": {"X": 5}}, "must be a text"),
        ([], "a mapping of jobs"),
    ],
)
def test_wrong_variables_are_refused_without_their_values(wrong: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        Scheduler("memory://", command_variables=wrong)
    assert "s3cret" not in str(caught.value)


def test_a_wrong_value_in_a_file_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "schedule.yaml"
    path.write_text("environment: {PGPASSWORD: [s3cret]}\njobs: {}")
    with pytest.raises(SettingsError, match="PGPASSWORD must be a text") as caught:
        read_schedule(path)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("mode", [None, 0o644, 0o666])
@pytest.mark.parametrize("options", [[], ["--job-type", "app:Line"]])
def test_an_import_is_written_for_its_owner_alone(tmp_path: Path, mode: int | None, options: list[str]) -> None:
    written = tmp_path / "schedule.yaml"
    if mode is not None:
        written.write_text("")
        written.chmod(mode)
    crontab = f"PGPASSWORD={SECRET}\n0 2 * * * pg_dump app\n"
    source = tmp_path / "crontab"
    source.write_text(crontab)
    before = os.umask(0)
    try:
        done = CliRunner().invoke(cli, ["import", "crontab", str(source), "--write", str(written), *options])
    finally:
        os.umask(before)
    assert done.exit_code == 0, done.output
    assert "pg_dump" in written.read_text()
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert sorted(tmp_path.iterdir()) == [source, written]


@pytest.mark.parametrize(
    ("command", "name", "skips"),
    [
        ("flock -n /run/lock/x /opt/backup.sh --all", "backup.sh", True),
        ("/usr/bin/flock --nonblock /run/x -c 'nice -n 10 /opt/backup.sh'", "backup.sh", True),
        ("cd /srv && flock -xn /run/x timeout 5m chronic /opt/sync", "sync", True),
        ("flock -w 10 /run/x /opt/backup.sh", "backup.sh", False),
        ("timeout -k 10 2h ionice -c 3 env A=b /opt/report", "report", False),
    ],
)
def test_a_crontab_line_is_named_by_what_it_runs_and_skips_as_its_lock_says(
    tmp_path: Path, command: str, name: str, *, skips: bool
) -> None:
    (tmp_path / "crontab").write_text(f"0 2 * * * {command}\n")
    done = CliRunner().invoke(cli, ["import", "crontab", str(tmp_path / "crontab")])
    assert done.exit_code == 0, done.output
    assert f"  {name}:\n" in done.output
    assert ("overlap_policy: skip" in done.output) is skips
    assert ("max_concurrent: 1" in done.output) is skips


def test_a_field_for_a_user_in_a_crontab_of_a_user_is_noted(tmp_path: Path) -> None:
    lines = "17 * * * * root cd / && run-parts /etc/cron.hourly\n@daily root /opt/x\n0 2 * * * pg_dump app\n"
    (tmp_path / "crontab").write_text(lines)
    done = CliRunner().invoke(cli, ["import", "crontab", str(tmp_path / "crontab")])
    assert done.output.count("it begins with the name of a user") == 2
    assert "--system" in done.output


def test_the_channels_of_a_served_file_can_be_tried(tmp_path: Path) -> None:
    # Nothing listens there: the answer names the channel, whose URL was found in the copy of the file.
    (tmp_path / "accepted.yaml").write_text("notify: {me: 'http://127.0.0.1:9/s3cret'}\njobs: {}")
    target = SimpleNamespace(values={"url": f"embedded:{tmp_path}"})
    assert list(_of_schedule_file(target)) == ["me"]  # type: ignore[arg-type]
    assert list(_of_schedule_file(SimpleNamespace(values={}))) == []  # type: ignore[arg-type]


def test_a_command_that_fails_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with Scheduler("memory://", commands=["/bin/sh"]) as node:
        node.schedule_job(JobDetail(CommandJob, "job", data=Command(shell="echo disk full; exit 69"), durable=True))
        node.trigger_job("job").wait("60s")
    [record] = [record for record in caplog.records if "exit status 69" in record.getMessage()]
    assert (record.exc_info, "\n" in record.getMessage()) == (None, False)
    assert "disk full" in record.getMessage()
