"""`quartzpy serve`: the commands of the page "Coming from cron", in a fresh directory."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from quartzpy import Scheduler
from quartzpy.embedded import ScheduleServer
from quartzpy.embedded.schedule_file import read_schedule
from quartzpy.errors import SettingsError
from tests.cli.test_commands import quartzpy
from tests.docs.code_blocks import ROOT
from tests.ports import free_port
from tests.waiting import wait_until

PAGE = (ROOT / "docs" / "how-to" / "from-cron.md").read_text()
FILES = dict(re.findall(r'^```(?:yaml|python) title="([^"]+)"\n(.*?)^```', PAGE, re.S | re.M))
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("QUARTZPY_")} | {
    "PYTHONPATH": str(ROOT),
    "PYTHONUNBUFFERED": "1",
}
[COMMAND] = re.findall(r"^quartzpy serve .*", PAGE, re.M)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that PostgreSQL's own user can reach, unlike those of pytest."""
    path = Path(tempfile.mkdtemp(prefix="quartzpy-serve-"))
    path.chmod(0o755)
    for name, text in FILES.items():
        (path / name).write_text(text)
    yield path
    # PostgreSQL may still be removing its own files.
    shutil.rmtree(path, ignore_errors=True)


class Served:
    """The command of the page, and its output so far."""

    def __init__(self, directory: Path, *options: str) -> None:
        words = shlex.split(COMMAND)
        assert words[0] == "quartzpy"
        self.process = subprocess.Popen(
            # Another program of this machine may listen at the port of the page.
            [sys.executable, "-m", "quartzpy", *words[1:], "--port", "0", *options],
            cwd=directory,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []

    def read_until(self, *texts: str) -> None:
        """Read the output until it has had all of these, in any order."""
        assert self.process.stdout is not None
        missing = set(texts)
        for line in self.process.stdout:
            self.lines.append(line)
            missing = {text for text in missing if text not in line}
            if not missing:
                return
        pytest.fail(f"{missing} is not in the output:\n{''.join(self.lines)}")

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        assert self.process.stdout is not None
        self.process.stdout.read()
        return self.process.wait(120)

    def close(self) -> None:
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def test_the_page_to_the_letter(directory: Path) -> None:
    served = Served(directory)
    try:
        served.read_until("4 jobs, time zone Europe/Berlin, data in data")
        served.read_until("the page is http://127.0.0.1:")
        served.read_until("DEFAULT.hello is SUCCEEDED")
        text = FILES["schedule.yaml"]
        (directory / "schedule.yaml").write_text(text.replace("schedule: every 1s", "schedule: every now and then"))
        served.read_until("not reloaded, nothing has changed: schedule.yaml:", "job hello: ")
        served.read_until("DEFAULT.hello is SUCCEEDED")
        changed = text.replace('echo "hello from', 'echo "good day from').replace("backup:\n", "archive:\n")
        (directory / "schedule.yaml").write_text(changed)
        served.read_until("schedule.yaml: reloaded:")
        served.read_until("good day from DEFAULT.hello")
        assert served.end(signal.SIGTERM) == 0
    finally:
        served.close()
    with ScheduleServer(directory / "schedule.yaml", directory / "data") as server:
        scheduler = server.scheduler
        assert {record.key.name for record in scheduler.jobs()} == {"archive", "hello", "ping", "report"}
        assert scheduler.executions(job="hello").count() >= 2
        handle = scheduler.trigger_job("report")
        assert handle.wait("90s").result == "the report of eu"
        assert handle.wait("90s").error is None


def test_a_file_that_is_wrong_at_the_start_leaves_what_was_stored(directory: Path) -> None:
    path, data = directory / "schedule.yaml", directory / "data"
    path.write_text('environment: {WORD: s3cret}\njobs: {say: {command: "echo $WORD", schedule: every 1s}}')
    reports: list[str] = []
    with pytest.raises(SettingsError, match="cannot be read"):
        ScheduleServer(directory / "missing.yaml", directory / "other", report=reports.append).open()
    with ScheduleServer(path, data, report=reports.append):
        pass
    [copy] = data.glob("accepted*")
    assert copy.stat().st_mode & 0o777 == 0o600
    good = path.read_text()
    for wrong in ("jobs: [", good.replace("every 1s}", "every 1s, limits: [none-such]}"), None):
        path.unlink() if wrong is None else path.write_text(wrong)
        reports.clear()
        with ScheduleServer(path, data, report=reports.append, reread_every="100ms") as server:
            assert "is wrong, and what was stored before it runs" in reports[0]
            # So the page, the incidents and the doctor say it, too.
            assert "is not what runs" in " ".join(server.scheduler.health().problems)
            fire_id = server.scheduler.trigger_job("say").wait("60s").fire_id
            assert server.scheduler.execution_log(fire_id) is not None, "its command is allowed, with its variables"
            path.write_text(good.replace("say:", "tell:"))
            wait_until(lambda: any("reloaded" in report for report in reports))
            assert "is not what runs" not in " ".join(server.scheduler.health().problems)
            assert [job.key.name for job in server.scheduler.jobs()] == ["tell"]
            path.write_text(good)
            wait_until(lambda: [job.key.name for job in server.scheduler.jobs()] == ["say"])


def test_a_page_whose_port_is_taken_comes_later_and_its_token_is_told_once(directory: Path) -> None:
    path, data = directory / "schedule.yaml", directory / "data"
    path.write_text("jobs: {say: {command: echo hello, schedule: every 1s}}")
    with socket.create_server(("127.0.0.1", free_port())) as taken, ExitStack() as stack:
        port = taken.getsockname()[1]
        served = subprocess.Popen(
            [
                *(sys.executable, "-m", "quartzpy", "serve", str(path), "--data", str(data)),
                *("--port", str(port), "--allow-actions"),
            ],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert served.stdout is not None
            lines: list[str] = []

            def read_until(text: str) -> str:
                assert served.stdout is not None
                for line in served.stdout:
                    lines.append(line)
                    if text in line:
                        return line
                pytest.fail(f"{text} is not in the output:\n{''.join(lines)}")

            assert f"port {port}" in read_until("no page yet")
            read_until("DEFAULT.say is SUCCEEDED")
            taken.close()
            link = read_until("log in by ")
            token = (data / "page-token").read_text().strip()
            assert link.strip().endswith(f"/login?token={token}")
            assert (data / "page-token").stat().st_mode & 0o777 == 0o600
            http = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60))
            body = {"job": {"name": "say"}}
            bearer = {"Authorization": f"Bearer {token}"}
            assert http.get("/api/v1/jobs").status_code == 200
            assert http.post("/api/v1/actions/trigger", json=body).status_code == 403
            assert http.put("/api/v1/jobs/DEFAULT/x", json={"type": "x"}).status_code == 403
            assert http.post("/api/v1/actions/trigger", json=body, headers=bearer).status_code == 200
            served.send_signal(signal.SIGTERM)
            rest = served.stdout.read()
            assert served.wait(120) == 0
            assert "".join([*lines, rest]).count(token) == 1
        finally:
            served.kill()
            served.wait()
            assert served.stdout is not None
            served.stdout.close()


CRONTAB = """\
GREETING=it's cron
# Says hello
@every_second cat; echo "for $GREETING"%hello, 100\\%
@reboot /opt/start
"""
INTERRUPTED = """
  lost: {command: "echo $$ >> lost; sleep 1000; true", schedule: every 1h}
  again:
    command: test -e again || rest=1000; echo $$ >> again; sleep ${rest-0}
    schedule: every 1h
    requests_recovery: true
"""


def test_a_crontab_runs_and_goes_on_after_the_process_was_killed(directory: Path) -> None:
    imported = subprocess.run(
        [sys.executable, "-m", "quartzpy", "import", "crontab", "-"],
        input=CRONTAB,
        env=ENVIRONMENT | {"HOME": str(directory)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "left out: line 4: @reboot" in imported.stderr
    (directory / "schedule.yaml").write_text(imported.stdout + INTERRUPTED)
    served = Served(directory, "--no-page")
    try:
        served.read_until("3 jobs, time zone ")
        served.read_until("hello, 100%")
        served.read_until("for it's cron")
        pids = [int(wait_until(partial(read_lines, directory / name))[0]) for name in ("lost", "again")]
        served.process.kill()
        served.process.wait()
        # The process that keeps a command ends it when the node is gone.
        wait_until(lambda: not any(map(exists, pids)))
    finally:
        served.close()
    served = Served(directory, "--no-page")
    try:
        served.read_until("DEFAULT.cat is SUCCEEDED", "DEFAULT.again is SUCCEEDED")
        for job, state in (("DEFAULT.lost", "TERMINATED"), ("DEFAULT.again", "SUCCEEDED")):
            url = f"embedded:{directory / 'data'}"
            listed = json.loads(quartzpy("executions", "--url", url, "--job", job, "--json").stdout)
            assert [item["state"] for item in listed["items"]] == [state], listed
        assert served.end(signal.SIGINT) == 0
    finally:
        served.close()


def read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "begin with jobs:"),
        ("jobs: {}\ncommands: []", "'commands' is not known"),
        ("jobs: {a: {schedule: every 1s}}", "job a: exactly one of command, url, request, function"),
        ("jobs: {a: {command: x, url: y, schedule: every 1s}}", "exactly one of"),
        ("jobs: {a: {command: x}}", "schedule is missing"),
        ("jobs: {a: {command: x, schedule: every 1s, tiemout: 1h}}", "'tiemout' is not known; did you mean timeout"),
        ("jobs: {a: {command: [bin/x], schedule: every 1s}}", "must be an absolute path"),
        ("jobs: {a: {url: 'https://user@x.test/', schedule: every 1s}}", "user name"),
        ("jobs: {a: {function: nothing_here:x, schedule: every 1s}}", "No module named"),
        ("jobs: {a: {command: x, schedule: '61 * * * *'}}", "61"),
        ("jobs: [", "not YAML"),
        ("jobs: {}\ncalendars: [a]", "calendars is a mapping: below it each begins with its name"),
        ("jobs: {}\ncalendars: {a: {}}", "calendar 'a': kind is missing"),
        ("jobs: {}\nwindows: {w: {start: 2026-12-24T18:00}}", "window 'w': start and end belong together"),
        ("jobs: {}\nwindows: {w: {cron: '0 2 * * *', durration: 1h}}", "did you mean duration?"),
        (
            "jobs: {a: {command: x, schedule: {expression: '0 2 * * *', misfire: skip}, misfire: fire_now}}",
            "job a: misfire is given in the schedule and beside it; give one of them",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "schedule.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=re.escape(said)):
        read_schedule(path)


def test_what_has_a_time_zone_takes_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "schedule.yaml"
    path.write_text(
        """
        time_zone: Europe/Berlin
        calendars:
          holidays: {kind: holiday, excluded_dates: [2026-12-25]}
          office: {kind: weekly, excluded_days: [1, 7], time_zone: America/New_York}
        windows:
          move: {start: 2026-12-05 18:00, end: "2026-12-06T06:00"}
          backup: {cron: "0 2 * * SUN", duration: 4h, job_group: billing, missed: skip}
        jobs:
          text: {command: x, schedule: "0 2 * * *", calendar: holidays}
          table: {command: x, schedule: {expression: "0 3 * * *"}, misfire: do_nothing}
          other: {command: x, schedule: {expression: "0 3 * * *", time_zone: UTC}}
          series: {command: x, schedule: {kind: daily_time_interval, interval: 1, unit: hour}}
          last: {command: x, schedule: {kind: rolled, trigger: "0 0 18 L * ?"}, calendar: holidays}
          once: {command: x, schedule: 2026-12-24 18:00:00, misfire: fire_now}
          written: {command: x, schedule: "2026-12-24T18:00", time_zone: America/New_York}
          often: {command: x, schedule: every 1h, calendar: office}
        """
    )
    declared = read_schedule(path).declarations
    triggers: dict[str, Any] = {job.name: trigger for job, [trigger] in declared.jobs}
    zones = {name: triggers[name].time_zone for name in ("text", "table", "other", "series")}
    assert zones == {"text": "Europe/Berlin", "table": "Europe/Berlin", "other": "UTC", "series": "Europe/Berlin"}
    assert triggers["last"].trigger.time_zone == "Europe/Berlin"
    assert triggers["once"].start_time == datetime(2026, 12, 24, 17, tzinfo=UTC)
    assert triggers["written"].start_time == datetime(2026, 12, 24, 23, tzinfo=UTC)
    named = {name: trigger.calendar for name, trigger in triggers.items() if trigger.calendar is not None}
    assert named == {"text": "holidays", "last": "holidays", "often": "office"}
    assert [str(triggers[name].misfire) for name in ("table", "once")] == ["do_nothing", "fire_now"]
    calendars: dict[str, Any] = dict(declared.calendars)
    assert [calendars[name].time_zone for name in ("holidays", "office")] == ["Europe/Berlin", "America/New_York"]
    assert declared.windows is not None
    windows = {window.name: window for window in declared.windows}
    assert windows["move"].start == datetime(2026, 12, 5, 17, tzinfo=UTC)
    assert windows["move"].end == datetime(2026, 12, 6, 5, tzinfo=UTC)
    assert (windows["backup"].time_zone, windows["backup"].job_group) == ("Europe/Berlin", "billing")


def test_what_the_file_names_is_what_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "schedule.yaml"
    path.write_text(
        """
        networks: [10.0.0.0/8]
        secrets: {erp: "env:ERP@api.test"}
        notify: {me: "env:MAIL", ops: {url: "https://hooks.test/x", remind_after: 1h}}
        heartbeat_url: env:HEARTBEAT
        jobs:
          line: {command: date, schedule: every 1s}
          words: {command: [/usr/bin/rsync, -a], schedule: every 1s, misfire: fire_now}
          call: {url: "https://api.test/{trigger}", schedule: "@daily"}
          other: {request: {url: "http://10.0.0.5:80/", method: POST}, schedule: ["0 1 * * *", every 2h]}
        """
    )
    schedule = read_schedule(path)
    assert list(Scheduler("memory://", **schedule.at_start).config.notify_channels) == ["me", "ops"]
    assert schedule.at_start["heartbeat_url"] == "env:HEARTBEAT"
    settings: dict[str, Any] = schedule.settings
    assert settings == {
        "commands": ("/bin/sh", "/usr/bin/rsync"),
        "http_hosts": ("10.0.0.0/8", "http://10.0.0.5:80", "https://api.test:443"),
        "http_secrets": {"erp": "env:ERP@api.test"},
    }
