"""The command line: commands that end are run in this process, nodes and pipes are real processes."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import pytest

from quartzpy import CronTrigger, Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger, WeeklyCalendar, every
from quartzpy.cli.main import main
from quartzpy.config.config import SchedulerConfig
from quartzpy.store.postgresql.schema_version import HEAD
from quartzpy.store.postgresql.store import SqlJobStore
from tests.cluster.app import Quick
from tests.database import connect_to
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user types it."""
    return subprocess.run(
        [sys.executable, "-m", "quartzpy", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def quartzpy(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which saves the second that a new one needs for its imports."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment),
        redirect_stdout(output),
        redirect_stderr(errors),
        pytest.raises(SystemExit) as ended,
    ):
        main(list(arguments))
    assert isinstance(ended.value.code, int)
    return subprocess.CompletedProcess(arguments, ended.value.code, output.getvalue(), errors.getvalue())


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
    assert db("upgrade") == f"nothing -> {HEAD}"
    assert db("current") == HEAD
    assert db("check") == f"revision {HEAD}: the tables match this release"
    assert db("upgrade", "--schema", "billing") == f"nothing -> {HEAD}"
    assert db("wait", "--timeout", "60s") == ""
    assert db("downgrade", "base", "--yes") == "now at nothing"
    assert db("current", "--schema", "billing") == HEAD


def test_the_sql_needs_no_database() -> None:
    done = process("db", "sql")
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
        (("node", "--app", "nothing"), 2, r"--app: must be module:name, such as billing.jobs:scheduler"),
        (("node", "--app", "no.such.module:scheduler"), 2, r"No module named 'no'"),
        (("node", "--app", "tests.cluster.app:Quick.nothing"), 2, r"Quick has no .nothing."),
        (("node", "--app", "json:dumps"), 2, r"json:dumps"),
        (("demo", "--nodes", "0"), 2, r"'--nodes'"),
        (("demo", "--duration", "long"), 2, r"--duration: must be a length of time"),
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


def test_the_status_and_the_message_of_a_wrong_command_reach_the_shell() -> None:
    done = process("nonsense")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command" in done.stderr


PAGE = "https://wiki.example.com/quick?page=1#top"


def test_the_state_tables_to_read_and_as_json(postgres_dsn: str, make_client: Callable[[str], Scheduler]) -> None:
    client = make_client("shown")
    start = datetime(2090, 1, 1, tzinfo=UTC)
    given = SimpleTrigger("t", "g", start_time=start, misfire="fire_all", catch_up_max=9)
    client.schedule_job(
        JobDetail(Quick, "job", "g", display_name="Quick one", description="d", documentation_url=PAGE), given
    )

    def shown(table: str, *options: str) -> str:
        done = quartzpy(table, "--dsn", postgres_dsn, "--name", "shown", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    header, row = shown("triggers").splitlines()
    assert header.split()[:3] == ["TRIGGER", "JOB", "STATE"]
    assert "NEXT (" in header, "it says in which time zone the instants are printed"
    assert row.split()[:3] == ["g.t", "g.job", "WAITING"]
    [trigger] = json.loads(shown("triggers", "--json"))["items"]
    assert (trigger["key"], trigger["misfire"]) == ({"group": "g", "name": "t"}, "fire_all max 9")
    assert datetime.fromisoformat(trigger["next_fire_time"]) == start
    [job] = json.loads(shown("jobs", "--json"))["items"]
    assert (job["key"]["name"], job["job_type"], job["trigger_count"]) == ("job", "tests.cluster.app:Quick", 1)
    assert job["display_name"] == "Quick one"
    done = quartzpy("show", "job", "g.job", "--dsn", postgres_dsn, "--name", "shown")
    assert [line.split()[-1] for line in done.stdout.splitlines() if "documentation url" in line] == [PAGE]
    done = quartzpy("show", "job", "g.job", "--json", "--dsn", postgres_dsn, "--name", "shown")
    assert json.loads(done.stdout)["definition"]["documentation_url"] == PAGE
    assert json.loads(shown("running", "--json")) == []
    assert shown("nodes") == ""
    assert shown("why", "g.t").splitlines()[1:] == [
        "No node is running.",
        "It has not fired yet.",
    ]
    assert json.loads(shown("why", "g.t", "--json"))["g.t"][1] == "No node is running."


Run = Callable[..., tuple[int, str, str]]


def test_the_state_of_a_node_follows_from_the_age_of_its_last_check_in(postgres_dsn: str, run: Run) -> None:
    # The interval and the window of each, in seconds. On a busy machine each keeps its state, and a server that was
    # started just now gives the last one no time.
    ages = {"a": ("0 s", 600, 3_600), "b": ("15 s", 5, 3_600), "c": ("106 s", 0.1, 1)}
    store = SqlJobStore(postgres_dsn, SchedulerConfig(name="ages"))
    store.open()
    seconds = timedelta(seconds=1)
    for instance_id, (_, interval, window) in ages.items():
        store.register(instance_id, host="h", pid=1, checkin_interval=interval * seconds, window=window * seconds)
    with connect_to(postgres_dsn, autocommit=False) as connection:
        for instance_id, (age, *_) in ages.items():
            connection.execute(
                "UPDATE qrtz_scheduler_state SET last_checkin = now() - %s::interval"
                " WHERE sched_name = 'ages' AND instance_id = %s",
                (age, instance_id),
            )
    try:
        status, text, _ = run("nodes", "--dsn", postgres_dsn, "--name", "ages", "--json")
    finally:
        store.close()
    states = {node["node"]: node["state"] for node in json.loads(text)["nodes"]}
    assert (status, states) == (0, {"a": "alive", "b": "late", "c": "dead"})


class Telling(Job):
    def execute(self, context: JobExecutionContext) -> None:
        context.log.info("red: \x1b[31m\nsecond line")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process; its exit status, and what it wrote."""

    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        written = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, written.out, written.err

    return command


def test_a_mistyped_name_says_which_names_there_are_and_the_only_scheduler_is_found(
    fresh_database: Callable[[], str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = fresh_database()
    monkeypatch.setenv("QUARTZPY_URL", dsn)
    assert run("db", "upgrade")[0] == 0
    status, text, remark = run("triggers", "--name", "anything")
    assert (status, text, remark) == (0, "", "the scheduler 'anything' has no triggers\n"), "the database is new"
    for name in ("billing", "reports"):
        client = Scheduler(dsn, name=name)
        client.schedule_job(JobDetail(Quick, f"job-of-{name}"), SimpleTrigger("t", start_time=datetime.now(UTC)))
        client.shutdown()
        if name == "billing":
            assert "job-of-billing" in run("triggers")[1], "the only scheduler needs no name"
            assert run("why", "t")[0] == 0
            assert run("doctor")[0] in (0, 1)
    status, text, complaint = run("triggers")
    assert (status, text) == (2, "")
    assert "--name is required: the database has several schedulers: billing, reports" in complaint
    for arguments in (("triggers",), ("jobs",), ("nodes",), ("running",), ("why", "t"), ("doctor",)):
        status, text, complaint = run(*arguments, "--name", "biling")
        assert (status, text) == (5, "")
        assert "no scheduler named 'biling'; did you mean billing? (known schedulers: billing, reports)" in complaint
    assert "job-of-reports" in run("triggers", "--name", "reports")[1]


def test_the_options_of_the_connection_stand_before_the_command_or_after_it(
    postgres_dsn: str, make_client: Callable[[str], Scheduler], tmp_path: Path
) -> None:
    make_client("one").schedule_job(JobDetail(Quick, "first"), every(hours=1))
    make_client("two").schedule_job(JobDetail(Quick, "second"), every(hours=1))
    for words in (
        ("--url", postgres_dsn, "--name", "two", "jobs"),
        ("--url", postgres_dsn, "jobs", "--name", "two"),
        ("--url", postgres_dsn, "--name", "one", "jobs", "--name", "two"),
    ):
        answer = quartzpy(*words, "--json")
        assert answer.returncode == 0, answer.stderr
        assert [job["key"]["name"] for job in json.loads(answer.stdout)["items"]] == ["second"], words

    shown = quartzpy("--help").stdout
    assert shown.count("--table-prefix") == 1
    assert "QUARTZPY_TABLE_PREFIX" in shown
    shown = quartzpy("jobs", "--help").stdout
    assert shown.count("--table-prefix") == 1
    assert "See `quartzpy --help`" in shown
    assert "QUARTZPY_TABLE_PREFIX" not in shown

    answer = quartzpy("--name", "one", "completion", "bash")
    assert answer.returncode == 2
    assert "`quartzpy completion` takes no --name" in answer.stderr
    answer = quartzpy("--name", "one", "fleet")
    assert answer.returncode == 2
    assert "`quartzpy fleet` takes no --name" in answer.stderr


def test_the_log_lines_of_an_execution_are_printed(
    postgres_dsn: str, make_client: Callable[[str], Scheduler], run: Run
) -> None:
    client = make_client("logging")
    options = ("--dsn", postgres_dsn, "--name", "logging")
    client.start()
    for name, level in (("captured", "INFO"), ("plain", None)):
        client.schedule_job(JobDetail(Telling, name, capture_logs=level), SimpleTrigger(name))
    assert client.wait_until_recorded(2, timedelta(seconds=20))
    [captured] = client.executions(job="captured")
    [plain] = client.executions(job="plain")
    status, text, complaint = run("log", str(captured.fire_id), *options)
    assert (status, complaint) == (0, "")
    assert text.endswith("INFO tests.cli.test_commands: red: \\x1b[31m\nsecond line\n")
    status, text, complaint = run("log", str(plain.fire_id), *options)
    assert (status, text) == (0, "")
    assert f"execution {plain.fire_id} has no log lines" in complaint
    assert run("log", "999999999", *options)[0] == 5
    assert run("log", "yesterday", *options)[0] == 2


def test_an_error_is_one_line_and_overdue_triggers_are_reported(
    postgres_dsn: str, make_client: Callable[[str], Scheduler], run: Run
) -> None:
    client = make_client("overdue")
    long_ago = datetime.now(UTC) - timedelta(minutes=5)
    zoned = CronTrigger("0 0 2 ? * MON-FRI", "zoned", time_zone="Europe/Berlin", calendar="workdays")
    client.add_calendar("workdays", WeeklyCalendar())
    client.schedule_job(
        JobDetail(Quick, "job"),
        [SimpleTrigger("late", start_time=long_ago, misfire="ignore"), zoned, every("1d", "odd")],
    )
    with connect_to(postgres_dsn, autocommit=False) as connection:
        connection.execute(
            "UPDATE qrtz_triggers SET trigger_state = 'ERROR', error = %s WHERE trigger_name = 'zoned'",
            ["Traceback (most recent call last):\n  File ...\nValueError: no such region"],
        )
        connection.execute("UPDATE qrtz_triggers SET schedule = '{}' WHERE trigger_name = 'odd'")
        connection.execute(
            """UPDATE qrtz_job_details SET definition = '{"timeout": -1}' WHERE sched_name = 'overdue'"""
        )
    options = ("--dsn", postgres_dsn, "--name", "overdue")
    _, text, warning = run("triggers", *options)
    rows = text.splitlines()[1:]
    assert len(rows) == 3, "an error takes no line of its own"
    assert [row.count("unreadable") for row in rows if "odd" in row] == [1]
    [row] = [row for row in rows if "zoned" in row]
    for part in ("0 0 2 ? * MON-FRI", "Europe/Berlin", "workdays", "ValueError: no such region"):
        assert part in row
    assert "Traceback" not in text
    assert re.search(r"1 trigger is overdue, DEFAULT\.late for 5m(\d+s)?, and no node is running: start one", warning)
    _, details, _ = run("show", "job", "job", *options)
    assert "problem" in details
    assert "durable" not in details, "no rules are shown that the job does not have"
    _, text, _ = run("triggers", *options, "--json")
    [shown] = [row for row in json.loads(text)["items"] if row["key"]["name"] == "zoned"]
    assert shown["error"] == "ValueError: no such region"
    assert (shown["schedule"], shown["zone"], shown["calendar"]) == ("0 0 2 ? * MON-FRI", "Europe/Berlin", "workdays")


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_a_table_fits_the_terminal(
    postgres_dsn: str,
    make_client: Callable[[str], Scheduler],
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
) -> None:
    client = make_client("narrow")
    daily = CronTrigger("0 0 2 ? * MON-FRI", "a-trigger-with-a-rather-long-name", time_zone="Europe/Berlin")
    client.schedule_job(JobDetail(Quick, "a-job-with-a-long-name"), daily)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    for command in ("triggers", "jobs", "nodes", "running"):
        status, text, told = run(command, "--dsn", postgres_dsn, "--name", "narrow")
        assert status == 0
        assert ("no node is running" in told) == (command == "nodes")
        assert ("there is no node" in told) == (command == "running")
        assert all(len(line) <= columns for line in text.splitlines()), text
    _, text, _ = run("triggers", "--dsn", postgres_dsn, "--name", "narrow")
    assert "0 0 2 ? * MON-FRI" in text, "what it is for stays"
    assert ("--json)" in text) == ("PRIORITY" not in text), "it says which columns it left out"
    assert "CALENDAR" not in text, "nothing is in it"


def test_a_pipe_that_is_closed_early_is_no_error(postgres_dsn: str, make_client: Callable[[str], Scheduler]) -> None:
    client = make_client("piped")
    later = datetime.now(UTC) + timedelta(hours=1)
    client.schedule_job(JobDetail(Quick, "job"), [SimpleTrigger(f"t{n}", start_time=later) for n in range(500)])
    command = f"{shlex.quote(sys.executable)} -m quartzpy triggers --name piped --dsn '{postgres_dsn}' | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("TRIGGER")
    assert re.fullmatch(r"more follow: --after \S+\n", done.stderr)


def test_a_node_runs_until_a_signal_and_a_second_signal_ends_it_at_once(
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

    client.schedule_job(JobDetail(Long, "long", data={"seconds": 110}), SimpleTrigger("t"))
    command = [sys.executable, "-m", "quartzpy", "node", "--app", "tests.cluster.app:make_scheduler"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: [row for row in client.running() if row.state == "EXECUTING"], "the job to run")
    assert process.stderr is not None
    with process.stderr:
        process.send_signal(signal.SIGTERM)
        said = ""
        # Two signals of which the first has not been handled yet are one.
        while "a second signal ends this process at once" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        assert "started (epoch" in said
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM


def test_a_node_abandons_its_jobs_after_the_drain_timeout_and_logs_them(
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
    wait_until(lambda: [row for row in client.running() if row.state == "EXECUTING"], "the job to run")
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 6
