"""Imports from crontabs."""

from __future__ import annotations

import subprocess
from datetime import datetime
from pathlib import Path

import pytest

from quartzpy import CronTrigger, Job, JobExecutionContext
from quartzpy.definitions.files import load_definitions
from quartzpy.embedded.schedule_file import read_schedule
from quartzpy.expect import EACH_FAILURE, Expect
from quartzpy.migrate import ImportPlan
from quartzpy.migrate.crontab import read_crontab
from quartzpy.migrate.schedule_text import program_of, schedule_text
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
    assert backup.job.description == "Backups of the database"
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


def test_lines_of_another_user_are_left_out() -> None:
    plan = read_crontab("@daily ada x\n@daily root y\n", time_zone="UTC", job_type=TYPE, system=True, user="ada")
    assert [imported.job.data for imported in plan.jobs] == [{"command": "x", "user": "ada"}]
    assert [str(note) for note in plan.notes] == [
        "left out: line 2: it runs as root, and not as ada; import it as that user"
    ]


@pytest.mark.parametrize(
    ("above", "description"),
    [
        ("# m h  dom mon dow   command\n", None),
        ("# |  |  |  |  |\n# *  *  *  *  * user-name command\n", None),
        ("# Old\n#0 5 * * 1 tar -zcf /var/backups/home.tgz /home/\n", None),
        ("# Far away\n\n", None),
        ("# Two\n# lines\n", "Two lines"),
        ("#0 5 * * * /opt/old\n# At 5 * 60 seconds\nA=b\n", "At 5 * 60 seconds"),
    ],
)
def test_the_comment_directly_above_is_the_description(above: str, description: str | None) -> None:
    [imported] = read(f"{above}@daily x\n").jobs
    assert imported.job.description == description


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("/opt/backup.sh --all", "backup.sh"),
        ("cd /srv && nice -n 5 /opt/backup.sh", "backup.sh"),
        ("test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )", "run-parts"),
        ("[ -f /x ] && PGUSER=app env LANG=C pg_dump app | gzip > /x", "pg_dump"),
        ("sleep 30; curl -fsS https://example.com/", "curl"),
        ('"$HOME/my jobs/report" --day', "report"),
        ("cd /srv", "cd"),
        ("echo 'it", "echo"),
        ("$(x)", "command"),
        ("* * *", "command"),
    ],
)
def test_a_job_is_named_by_its_program(command: str, program: str) -> None:
    assert program_of(command) == program


SCHEDULE = """\
# From crontab crontab.
time_zone: Europe/Berlin
directory: /home/ada
environment:
  SHELL: /bin/bash

jobs:
  backup.sh:
    description: Nightly
    command: '/opt/backup.sh --to "/mnt/a b" # all'
    schedule: 30 2 * * 1-5
    misfire: do_nothing

  date:
    command: |-
      exec <<'INPUT_'
      INPUT
      second
      INPUT_
      date +%F; cat
    schedule: '@hourly'
    misfire: do_nothing
    environment:
      LEVEL: it's 5

  backup.sh-2:
    command:
      shell: /opt/backup.sh
      directory: /srv
    schedule: 0 9 * * *
    time_zone: America/New_York
    misfire: do_nothing
    environment:
      LEVEL: it's 5
      HOME: /srv
"""


def test_a_crontab_becomes_a_schedule_file(tmp_path: Path) -> None:
    plan = read(
        "SHELL=/bin/bash\n"
        "# Nightly\n"
        '30 2 * * 1-5 /opt/backup.sh --to "/mnt/a b" # all\n'
        "LEVEL=it's 5\n"
        "@hourly date +\\%F; cat%INPUT%second\n"
        "CRON_TZ=America/New_York\nHOME=/srv\n"
        "0 9 * * * /opt/backup.sh\n"
    )
    text = schedule_text(plan, time_zone="Europe/Berlin", home=lambda user: "/home/ada")
    assert text == SCHEDULE
    file = tmp_path / "schedule.yaml"
    file.write_text(text)
    schedule = read_schedule(file)
    assert schedule.settings["commands"] == ("/bin/sh",)
    (backup, _), (date, _), (later, [trigger]) = schedule.declarations.jobs
    assert backup.data["directory"] == "/home/ada"
    assert trigger.time_zone == "America/New_York"  # type: ignore[attr-defined]
    assert later.data["directory"] == "/srv"
    # The shell itself says what the line means.
    for job, said in ((backup, "bash /mnt/a b"), (date, f"{datetime.now():%Y}")):  # noqa: DTZ005
        line = job.data["shell"].replace("/opt/backup.sh --to", 'echo "${BASH_VERSION:+bash}"').replace("%F", "%Y")
        done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[0] == said
    assert done.stdout.splitlines()[1:] == ["INPUT", "second"]


def test_the_command_writes_a_schedule_file(tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("*/5 * * * * /opt/poll\n@reboot /opt/start\n5~9 * * * * /opt/any\n")
    refused = quartzpy("import", "crontab", str(file))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "undecided: line 3: minutes field '5~9'" in refused.stderr
    done = quartzpy("import", "crontab", str(file), "--skip-undecided", "--time-zone", "Asia/Tokyo")
    assert done.returncode == 0
    assert "left out: line 2: @reboot" in done.stderr
    assert "schedule.yaml: 1 job; quartzpy serve schedule.yaml --data data runs them" in done.stderr
    (tmp_path / "schedule.yaml").write_text(done.stdout)
    [(job, _)] = read_schedule(tmp_path / "schedule.yaml").declarations.jobs
    assert job.name == "poll"
    assert "time_zone: Asia/Tokyo" in done.stdout
    apply = quartzpy("import", "crontab", str(file), "--apply")
    assert apply.returncode == 2
    assert "--apply needs --job-type" in apply.stderr


@pytest.mark.parametrize(
    ("line", "severity", "text"),
    [
        ("@reboot /opt/x", "left out", "@reboot is no time of a schedule; start the program as a service"),
        ("0 1 * * *", "left out", "it is no line of a crontab, which has a schedule and a command: '0 1 * * *'"),
        ("61 1 * * * x", "undecided", "61"),
        ("MAILTO=ops@example.org", "differs", "the output is not mailed to ops@example.org"),
        ("RANDOM_DELAY=5", "differs", "without a random delay"),
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
    assert "left out: line 2: @reboot is no time of a schedule" in stored.stdout
    assert "1 new jobs, 1 new triggers" in stored.stdout


def test_who_asked_for_mail_is_told_of_each_failure(tmp_path: Path) -> None:
    plan = read('0 1 * * * /opt/quiet\nMAILTO=ops@example.org\n0 2 * * * /opt/told\nMAILTO=""\n0 3 * * * /opt/muted\n')
    each_failure = Expect(**EACH_FAILURE)
    assert [job.job.expect for job in plan.jobs] == [None, each_failure, None]
    file = tmp_path / "schedule.yaml"
    file.write_text(schedule_text(plan, time_zone="Europe/Berlin", home=lambda user: "/home/ada"))
    jobs = [job for job, _ in read_schedule(file).declarations.jobs]
    assert {job.name: job.expect for job in jobs} == {"quiet": None, "told": each_failure, "muted": None}
