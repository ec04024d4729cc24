"""The command line as a user types it: real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from tests.cluster.app import Quick

ROOT = Path(__file__).resolve().parents[2]


def quartzpy(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "quartzpy", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def make_client(postgres_dsn: str) -> Iterator[Callable[[str], Scheduler]]:
    """Clients of the schedulers of these names, closed at the test's end whatever comes of it."""
    with ExitStack() as stack:

        def make(name: str) -> Scheduler:
            client = Scheduler(postgres_dsn, name=name)
            stack.callback(client.shutdown)
            return client

        yield make


def test_the_tables_are_made_checked_and_removed_by_command(fresh_database: Callable[[], str]) -> None:
    dsn = fresh_database()

    def db(*arguments: str) -> str:
        done = quartzpy("db", *arguments, QUARTZPY_URL=dsn)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert db("current") == "nothing"
    assert db("upgrade") == "nothing -> 0001"
    assert db("current") == "0001"
    assert db("check") == "revision 0001: the tables are as this release needs them"
    assert db("upgrade", "--schema", "billing") == "nothing -> 0001"
    assert db("wait", "--timeout", "5s") == ""
    assert db("downgrade", "base", "--yes") == "now at nothing"
    assert db("current", "--schema", "billing") == "0001"


def test_the_sql_needs_no_database() -> None:
    done = quartzpy("db", "sql")
    assert done.returncode == 0
    assert done.stdout == (ROOT / "schema" / "postgresql.sql").read_text()
    assert "CREATE TABLE billing.qrtz_triggers" in quartzpy("db", "sql", "--schema", "billing").stdout


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("db", "check"), 4, r"SchemaError: .*run `quartzpy db upgrade`"),
        (("triggers",), 4, r"SchemaError: there are no quartzpy tables"),
        (("triggers", "--dsn", "postgresql://u:secret@127.0.0.1:9/x"), 3, r"StoreUnavailableError: .*refused"),
        (("triggers", "--dsn", "mysql://u:secret@h/x"), 2, r"SettingsError: database URL: postgresql\+psycopg://"),
        (("jobs", "--limit", "many"), 2, r"Invalid value for '--limit'"),
        (("node", "--app", "nothing"), 2, r"module:scheduler is needed"),
        (("node", "--app", "no.such.module:scheduler"), 2, r"No module named 'no'"),
        (("node", "--app", "tests.cluster.app:Quick.nothing"), 2, r"a Scheduler, or a function"),
        (("node", "--app", "json:dumps"), 2, r"json:dumps"),
        (("demo", "--nodes", "0"), 2, r"'--nodes'"),
        (("demo", "--duration", "long"), 2, r"--duration: a timedelta, or 500ms"),
        (("nonsense",), 2, r"No such command"),
    ],
)
def test_a_wrong_command_says_what_is_wrong_in_few_lines(
    fresh_database: Callable[[], str], arguments: tuple[str, ...], status: int, message: str
) -> None:
    done = quartzpy(*arguments, QUARTZPY_URL=fresh_database())
    assert (done.returncode, done.stdout) == (status, "")
    assert re.search(message, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


def test_the_state_tables_to_read_and_as_json(postgres_dsn: str, make_client: Callable[[str], Scheduler]) -> None:
    client = make_client("shown")
    start = datetime(2090, 1, 1, tzinfo=UTC)
    given = SimpleTrigger("t", "g", start_time=start, misfire="fire_all", catch_up_max=9)
    client.schedule_job(JobDetail(Quick, "job", "g", description="d"), given)

    def shown(table: str, *options: str) -> str:
        done = quartzpy(table, "--dsn", postgres_dsn, "--name", "shown", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    header, row = shown("triggers").splitlines()
    assert header.split()[:4] == ["TRIGGER", "JOB", "KIND", "STATE"]
    assert row.split()[:4] == ["g.t", "g.job", "simple", "WAITING"]
    [trigger] = json.loads(shown("triggers", "--json"))
    assert (trigger["trigger"], trigger["misfire"]) == ("g.t", "fire_all max 9")
    assert datetime.fromisoformat(trigger["next"]) == start
    [job] = json.loads(shown("jobs", "--json"))
    assert (job["job"], job["type"], job["triggers"]) == ("g.job", "tests.cluster.app:Quick", 1)
    assert json.loads(shown("running", "--json")) == []
    assert shown("nodes").split()[0] == "NODE"
    assert shown("why", "g.t").splitlines()[1:] == [
        "No node is running.",
        "It has not fired yet.",
    ]
    assert json.loads(shown("why", "g.t", "--json"))[1] == {"said": "No node is running."}


def test_a_pipe_that_is_closed_early_is_no_error(postgres_dsn: str, make_client: Callable[[str], Scheduler]) -> None:
    client = make_client("piped")
    client.schedule_job(JobDetail(Quick, "job"), [SimpleTrigger(f"t{n}") for n in range(500)])
    command = f"{sys.executable} -m quartzpy triggers --name piped --dsn '{postgres_dsn}' | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("TRIGGER")
    assert done.stderr == ""


def test_a_node_runs_until_it_is_told_to_stop_and_a_second_signal_ends_it_at_once(
    postgres_dsn: str, make_client: Callable[[str], Scheduler], tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "QUARTZPY_TEST_NODE_DSN": postgres_dsn,
        "QUARTZPY_TEST_SETTINGS": json.dumps({"name": "as-a-process", "instance_id": "n"}),
        "QUARTZPY_TEST_JOURNAL": str(tmp_path / "journal"),
    }
    client = make_client("as-a-process")
    from tests.cluster.app import Long

    client.schedule_job(JobDetail(Long, "long", data={"seconds": 30}), SimpleTrigger("t"))
    command = [sys.executable, "-m", "quartzpy", "node", "--app", "tests.cluster.app:make_scheduler"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not [row for row in client.running() if row.state == "EXECUTING"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == 128 + signal.SIGTERM
    assert process.stderr is not None
    assert "started (epoch" in process.stderr.read()
    process.stderr.close()


def test_a_node_gives_up_its_jobs_after_the_drain_timeout_and_says_so(
    postgres_dsn: str, make_client: Callable[[str], Scheduler], tmp_path: Path
) -> None:
    from tests.cluster.app import Stubborn

    environment = {
        **os.environ,
        "QUARTZPY_TEST_NODE_DSN": postgres_dsn,
        "QUARTZPY_TEST_SETTINGS": json.dumps({"name": "stubborn", "instance_id": "n"}),
        "QUARTZPY_TEST_JOURNAL": str(tmp_path / "journal"),
    }
    client = make_client("stubborn")
    client.schedule_job(JobDetail(Stubborn, "stubborn"), SimpleTrigger("t"))
    command = [sys.executable, "-m", "quartzpy", "node", "--app", "tests.cluster.app:make_scheduler"]
    process = subprocess.Popen([*command, "--drain-timeout", "300ms"], cwd=ROOT, env=environment)
    deadline = time.monotonic() + 20
    while not [row for row in client.running() if row.state == "EXECUTING"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 6
