"""Imports from crontabs."""

from __future__ import annotations

from pathlib import Path

import pytest

from quartzpy import CronTrigger, Job, JobExecutionContext
from quartzpy.migrate import ImportPlan
from quartzpy.migrate.crontab import read_crontab
from quartzpy.scheduler.declarations import load_definitions
from tests.cli.test_commands import quartzpy

TYPE = "migrate.Command"


class Command(Job, type_name=TYPE):
    def execute(self, context: JobExecutionContext) -> None:
        return None


def read(text: str, system: bool = False) -> ImportPlan:
    return read_crontab(text, time_zone="Europe/Berlin", job_type=TYPE, system=system)


def test_lines_variables_and_input() -> None:
    plan = read(
        "# Backups\n"
        "  # of the database\n"
        "PATH=/usr/bin:/bin\n"
        "GREETING = 'hello  there'\n"
        '30 2 * * 1-5 /opt/backup.sh --to "/mnt/a b" >/dev/null 2>&1\n'
        "\n"
        "# Every hour\n"
        "@hourly date +\\%F; cat%first%second \\% third%\n"
        "CRON_TZ=America/New_York\n"
        "0 9 13 * fri\techo unlucky\n"
    )
    assert plan.notes == []
    backup, hourly, unlucky = plan.jobs
    environment = {"PATH": "/usr/bin:/bin", "GREETING": "hello  there"}
    assert backup.job.data == {
        "command": '/opt/backup.sh --to "/mnt/a b" >/dev/null 2>&1',
        "environment": environment,
    }
    assert backup.job.name.startswith("backup.sh-")
    assert backup.job.description == "of the database"
    assert backup.triggers[0].trigger == CronTrigger(
        "30 2 * * 1-5", backup.job.name, "crontab", dialect="crontab", time_zone="Europe/Berlin", job_key=backup.job.key
    )
    assert hourly.job.data == {
        "command": "date +%F; cat",
        "stdin": "first\nsecond % third\n",
        "environment": environment,
    }
    assert hourly.job.description == "Every hour"
    # crontab(5): where both day fields restrict the days, either matches.
    assert unlucky.triggers[0].trigger.day_or is None  # type: ignore[attr-defined]
    assert unlucky.triggers[0].trigger.time_zone == "America/New_York"  # type: ignore[attr-defined]


def test_names_do_not_depend_on_other_lines() -> None:
    first = read("0 1 * * * /opt/a\n0 2 * * * /opt/b\n")
    second = read("0 2 * * * /opt/b\n")
    assert first.jobs[1].job.key == second.jobs[0].job.key
    assert first.jobs[0].job.key != first.jobs[1].job.key


def test_the_crontab_of_the_system_names_users() -> None:
    plan = read("17 *\t* * *\troot    cd / && run-parts --report /etc/cron.hourly\n@daily www-data /opt/x\n", True)
    assert [one.job.data for one in plan.jobs] == [
        {"command": "cd / && run-parts --report /etc/cron.hourly", "user": "root"},
        {"command": "/opt/x", "user": "www-data"},
    ]


@pytest.mark.parametrize(
    ("line", "severity", "text"),
    [
        ("@reboot /opt/x", "left out", "@reboot has no meaning in a cluster; start the program as a service"),
        ("0 1 * * *", "left out", "it is no line of a crontab, which has a schedule and a command: '0 1 * * *'"),
        ("61 1 * * * x", "undecided", "61"),
        ("MAILTO=ops@example.org", "differs", "the output is not mailed to ops@example.org"),
        ("0 1 * * * x\n0 1 * * * x", "differs", "it repeats a line before; the job runs once for both"),
    ],
)
def test_what_does_not_come_over_is_said(line: str, severity: str, text: str) -> None:
    [note] = read(line).notes
    assert note.severity == severity
    assert text in note.text
    assert note.subject == f"line {1 + line.count(chr(10))}"


def test_the_command_writes_declared_jobs(tmp_path: Path) -> None:
    given, written = tmp_path / "crontab", tmp_path / "jobs.toml"
    given.write_text('# It\'s "quoted"\nA=\u007f\n*/5 * * * * printf "a\\tb" \'c\' # \\% Grüße\n@weekly true%in\\put\n')
    done = quartzpy(
        *("import", "crontab", str(given), "--time-zone", "Europe/Berlin", "--job-type", TYPE),
        *("--write", str(written)),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{written}: 2 jobs\n"
    plan = read(given.read_text())
    declared = load_definitions(written).jobs
    assert [(job.key, job.data, job.description) for job, _ in declared] == [
        (one.job.key, one.job.data, one.job.description) for one in plan.jobs
    ]
    assert [triggers[0] for _, triggers in declared] == [one.triggers[0].trigger for one in plan.jobs]


def test_the_command_stores_jobs(postgres_dsn: str, tmp_path: Path) -> None:
    given = tmp_path / "crontab"
    given.write_text("*/5 * * * * /opt/poll\n@reboot /opt/start\n")
    command = ("import", "crontab", str(given), "--time-zone", "UTC", "--job-type", TYPE)
    refused = quartzpy(*command, "--apply", QUARTZPY_URL="")
    assert refused.returncode == 2
    assert "no database is selected: give --url" in refused.stderr
    stored = quartzpy(*command, "--dsn", postgres_dsn, "--name", "imported", "--apply")
    assert stored.returncode == 0, stored.stderr
    assert "left out: line 2: @reboot has no meaning in a cluster" in stored.stdout
    assert "1 new jobs, 1 new triggers" in stored.stdout
