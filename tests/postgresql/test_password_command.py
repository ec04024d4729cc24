"""Passwords that expire: nodes, commands and migrations log in with the one that a command prints, or a function."""

from __future__ import annotations

import shlex
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import create_engine, make_url

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.cli.main import cli
from quartzpy.errors import AuthenticationError, SettingsError, StoreUnavailableError
from quartzpy.store.postgresql.connection import password_command
from quartzpy.store.postgresql.connection.password_command import PasswordCommand
from tests.database import connect_to, libpq_url
from tests.facade import jobs
from tests.proxy import moved
from tests.waiting import wait_until
from tests.worlds.bouncer import pooler
from tests.worlds.installed import pgbouncer

FINE = (0, 1)
"""The exit statuses of a command that has read the database: `doctor` finds that the tests' server is not durable."""
pytestmark = pytest.mark.new_sessions


@dataclass
class Login:
    """A role whose password changes, and what a command prints as its password."""

    administrator_dsn: str
    role: str
    file: Path

    @property
    def url(self) -> str:
        """The URL, without a password."""
        url = make_url(self.administrator_dsn).set(username=self.role, password="x")
        return url.render_as_string(hide_password=False).replace(":x@", "@", 1)

    @property
    def command(self) -> str:
        """The command, which notes each of its runs."""
        text = f"print(open({str(self.file)!r}).read()); open({str(self.runs)!r}, 'a').write('.')"
        return shlex.join([sys.executable, "-S", "-c", text])

    @property
    def runs(self) -> Path:
        return self.file.with_suffix(".runs")

    @property
    def number_of_runs(self) -> int:
        return len(self.runs.read_text()) if self.runs.exists() else 0

    def renew(self) -> str:
        """Change the password; return the new one."""
        new = uuid.uuid4().hex
        with connect_to(self.administrator_dsn) as connection:
            connection.execute(f"ALTER ROLE {self.role} PASSWORD '{new}'".encode())
        self.file.write_text(new)
        return new

    @property
    def sessions(self) -> int:
        """The number of the role's sessions."""
        return len(self._of_sessions("pid"))

    def end_sessions(self) -> None:
        """End all sessions of the role, as a failover or a provider does."""
        self._of_sessions("pg_terminate_backend(pid)")

    def _of_sessions(self, what: str) -> list[Any]:
        with connect_to(self.administrator_dsn) as connection:
            statement = f"SELECT {what} FROM pg_stat_activity WHERE usename = %s"
            return connection.execute(statement.encode(), [self.role]).fetchall()


@pytest.fixture
def login(administrator_dsn: str, tmp_path: Path) -> Iterator[Login]:
    login = Login(administrator_dsn, f"app_{uuid.uuid4().hex[:8]}", tmp_path / "password")
    url = libpq_url(make_url(administrator_dsn).set(password="no").render_as_string(hide_password=False))
    try:
        psycopg.connect(url, connect_timeout=60).close()
    except psycopg.OperationalError:
        pass
    else:
        pytest.skip("this server asks for no password")
    with connect_to(administrator_dsn) as connection:
        connection.execute(f"CREATE ROLE {login.role} LOGIN SUPERUSER".encode())
    login.renew()
    yield login
    with connect_to(administrator_dsn) as connection:
        connection.execute(f"DROP OWNED BY {login.role}; DROP ROLE {login.role}".encode())


def run(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), env=variables, catch_exceptions=False)


def test_a_node_goes_on_when_its_password_changes_and_its_sessions_end(login: Login) -> None:
    jobs.reset()
    scheduler = Scheduler(login.url, password_command=login.command, **jobs.arguments())
    try:
        scheduler.schedule_job(
            JobDetail(jobs.Recorded, "steady"), SimpleTrigger("steady", interval=timedelta(seconds=0.2))
        )
        scheduler.start()
        for _ in range(3):
            jobs.ran.get(timeout=60)
        for _ in range(3):
            wait_until(lambda: login.sessions >= 3)
            login.renew()
            login.end_sessions()
            ended = datetime.now(UTC)
            while jobs.ran.get(timeout=60).scheduled_fire_time < ended:
                pass
        assert scheduler.misfires().count() == 0
    finally:
        scheduler.shutdown()


def test_one_run_of_the_command_serves_all_connections_of_a_start(login: Login) -> None:
    scheduler = Scheduler(login.url, password_command=login.command, **jobs.arguments())
    try:
        scheduler.start()
        wait_until(lambda: login.sessions >= 3)
        assert login.number_of_runs == 1
    finally:
        scheduler.shutdown()


@pytest.mark.parametrize("way", ["beside a server that is down", "behind PgBouncer"])
def test_a_password_that_changed_is_asked_for_at_once(way: str, login: Login) -> None:
    with ExitStack() as stack:
        if way == "behind PgBouncer":
            if pgbouncer() is None:
                pytest.skip("PgBouncer is not installed")
            url = moved(login.url, stack.enter_context(pooler(make_url(login.administrator_dsn))).port)
        else:
            url = login.url.replace("@", "@127.0.0.1:1,", 1)

        def connect(password: str) -> None:
            psycopg.connect(libpq_url(url), password=password, connect_timeout=60).close()

        passwords = PasswordCommand(login.command)
        for number in (1, 2):
            login.renew()
            passwords.connect(connect)
            assert login.number_of_runs == number


def test_a_password_that_is_wrong_twice_is_an_error_of_authentication(login: Login) -> None:
    login.file.write_text("wrong")
    scheduler = Scheduler(login.url, password_command=login.command)
    with pytest.raises(AuthenticationError, match="password authentication failed") as raised:
        scheduler.jobs()
    assert "wrong" not in str(raised.value)
    login.renew()
    assert scheduler.jobs().count() == 0
    scheduler.shutdown()


def test_each_kind_of_command_logs_in_with_it(login: Login, fresh_database: Callable[[], str]) -> None:
    database = make_url(fresh_database()).database
    url = login.url.rpartition("/")[0] + f"/{database}"
    options = ("--url", url, "--password-command", login.command)
    assert "-> " in run("db", "upgrade", *options).output
    for command in (
        ("db", "current"),
        ("db", "check"),
        ("db", "wait"),
        ("db", "roles", "--apply"),
        ("jobs",),
        ("doctor",),
    ):
        done = run(*command, *options)
        assert done.exit_code in FINE, (command, done.output)
    assert run("jobs", QUARTZPY_URL=url, QUARTZPY_PASSWORD_COMMAND=login.command).exit_code == 0
    assert run("db", "downgrade", "base", "--yes", *options).exit_code == 0


MODULE = """
from pathlib import Path

import psycopg

calls = []

def connect():
    calls.append(1)
    return psycopg.connect({url!r}, password=Path({file!r}).read_text())

number = 3
"""


@pytest.fixture
def module(login: Login, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module with a function that connects."""
    name = f"billing_{uuid.uuid4().hex[:8]}"
    (tmp_path / f"{name}.py").write_text(MODULE.format(url=libpq_url(login.url), file=str(login.file)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_commands_and_programs_connect_by_a_function(module: str, postgres_dsn: str) -> None:
    for command in (("jobs",), ("db", "check"), ("db", "current"), ("doctor",), ("incidents",)):
        done = run(*command, "--connect", f"{module}:connect")
        assert done.exit_code in FINE, (command, done.output)
    assert sys.modules[module].calls
    scheduler = Scheduler.from_config(connect=f"{module}:connect")
    assert scheduler.jobs().count() == 0
    scheduler.shutdown()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("connect", "connect: 'NAME:connects': NAME has no 'connects'; did you mean connect?"),
        ("number", "connect: NAME:number must be a function (got 3)"),
    ],
)
def test_a_function_that_is_none_is_refused(module: str, name: str, words: str) -> None:
    given = f"{module}:connects" if name == "connect" else f"{module}:{name}"
    with pytest.raises(SettingsError) as raised:
        Scheduler.from_config(connect=given)
    assert words.replace("NAME", module) in str(raised.value)


def test_a_url_and_a_function_are_refused_together() -> None:
    with pytest.raises(SettingsError, match="url is from a keyword argument, connect from a keyword argument"):
        Scheduler.from_config(url="postgresql://localhost/x", connect="billing:connect")


@pytest.mark.parametrize("value", ["", "  ", "'open", 5, ["cat", "x"], "a\0b"])
def test_what_is_no_command_is_refused(value: Any) -> None:
    with pytest.raises(SettingsError, match="password_command"):
        Scheduler("postgresql://app@localhost/app", password_command=value)


def test_two_ways_to_log_in_are_refused() -> None:
    command = ["--password-command", "cat x"]
    with pytest.raises(SettingsError, match="has a password, too") as raised:
        Scheduler("postgresql://app:hush@localhost/app", password_command="cat x")
    assert "hush" not in str(raised.value)
    done = CliRunner().invoke(cli, ["db", "upgrade", "--url", "postgresql://app:hush@localhost/app", *command])
    assert "has a password, too" in str(done.exception)
    for arguments in ({"connect": lambda: None}, {"database": create_engine("postgresql+psycopg://localhost/app")}):
        with pytest.raises(SettingsError, match="logs in by itself"):
            Scheduler(**arguments, password_command="cat x")


def _python(text: str) -> str:
    return shlex.join([sys.executable, "-S", "-c", text])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/no/such/program", "'/no/such/program' cannot be run: No such file or directory"),
        (_python("import sys; sys.exit('no token: password=hush')"), "ended with status 1: no token: password=***"),
        (_python(""), "ended with status 0 and printed nothing"),
        (_python("import sys; sys.stderr.write('please log in')"), "and printed nothing: please log in"),
        (_python("print('one'); print('two')"), "must print the password as one line"),
        (_python("import os; os.write(1, b'\\xff')"), "must print the password as one line"),
        (_python("print('x' * 70_000)"), "must print the password as one line"),
    ],
)
def test_a_command_that_prints_no_password_is_named(command: str, words: str) -> None:
    scheduler = Scheduler("postgresql://app@localhost/app", password_command=command)
    with pytest.raises(StoreUnavailableError) as raised:
        scheduler.jobs()
    assert words in str(raised.value)
    assert "hush" not in str(raised.value)
    scheduler.shutdown()


def test_a_command_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_command, "LONGEST_RUN", timedelta(seconds=0.2))
    with pytest.raises(StoreUnavailableError, match="has not ended within"):
        PasswordCommand("sleep 60").connect(str)


def test_a_password_is_reused_for_a_minute(tmp_path: Path) -> None:
    now = 100.0
    passwords = PasswordCommand(_python("import uuid; print(uuid.uuid4())"), lambda: now)
    first = passwords.connect(str)
    now += 59.9
    assert passwords.connect(str) == first
    now += 0.2
    assert passwords.connect(str) != first
