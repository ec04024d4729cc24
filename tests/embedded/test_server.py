"""The embedded PostgreSQL: shared, gone with its last user, and nothing left behind."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Timer

import psycopg
import pytest

from quartzpy import Scheduler
from quartzpy.demo import cluster as database
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.embedded.binaries import find_programs
from quartzpy.errors import StoreUnavailableError
from tests.database import connect_to, libpq_url
from tests.docs.code_blocks import write_files
from tests.waiting import LIMIT, wait_until

USER = """
import sys
from pathlib import Path
from quartzpy.demo import cluster as database
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.embedded.binaries import find_programs
from quartzpy.errors import StoreUnavailableError

with EmbeddedPostgres(Path(sys.argv[1]), durable=False) as server:
    print(server.postmaster_pid, server.port, flush=True)
    sys.stdin.read()
"""


class User:
    """A process that uses the server of a directory."""

    def __init__(self, directory: Path, how: str = "removed=False") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER.replace("durable=False", f"durable=False, {how}"), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def joined(self) -> tuple[int, int]:
        assert self.process.stdout is not None
        pid, port = self.process.stdout.readline().split()
        return int(pid), int(port)

    def leave(self) -> None:
        self.process.communicate("", LIMIT)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def select_one(dsn: str) -> int:
    with connect_to(dsn, autocommit=False) as connection:
        row = connection.execute("SELECT 1").fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def directory() -> Iterator[Path]:
    # Not below pytest's own directory: an unprivileged server cannot reach that.
    with tempfile.TemporaryDirectory(prefix="quartzpy-embedded-") as parent:
        Path(parent).chmod(0o755)
        yield Path(parent) / "pg"


def test_several_processes_that_start_at_once_share_one_server_and_the_last_stops_it(directory: Path) -> None:
    users = [User(directory) for _ in range(3)]
    joined = {user.joined() for user in users}
    assert len(joined) == 1
    [(pid, _)] = joined
    for user in users[:2]:
        user.leave()
        assert alive(pid)
    users[2].leave()
    wait_until(lambda: not alive(pid))


def test_a_watcher_that_sees_the_free_lease_first_does_not_keep_the_last_user_from_stopping_the_server(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedPostgres(directory, durable=False) as server:
        leave = server._give_up_lease
        watched = Event()

        def a_watcher_has_it() -> None:
            leave()
            lease = os.open(directory / "lease.lock", os.O_RDWR)
            fcntl.flock(lease, fcntl.LOCK_EX)
            watched.set()
            Timer(0.2, os.close, [lease]).start()

        monkeypatch.setattr(server, "_give_up_lease", a_watcher_has_it)
        server.stop()
        assert watched.is_set()
        assert server.postmaster_pid is None


def test_a_server_whose_users_were_all_killed_stops(directory: Path) -> None:
    users = [User(directory) for _ in range(2)]
    pid, _ = users[0].joined()
    users[1].joined()
    users[0].kill()
    assert alive(pid)
    users[1].kill()
    wait_until(lambda: not alive(pid))


def test_the_directory_of_a_temporary_server_is_removed_even_if_its_user_was_killed(directory: Path) -> None:
    user = User(directory, "removed=True")
    pid, _ = user.joined()
    user.kill()
    wait_until(lambda: not alive(pid))
    wait_until(lambda: not directory.exists())


def test_what_was_stored_is_there_after_a_stop_and_start(directory: Path) -> None:
    with EmbeddedPostgres(directory) as server:
        dsn = server.dsn
        with connect_to(dsn) as connection:
            connection.execute("CREATE TABLE kept (n int); INSERT INTO kept VALUES (42)")
    with EmbeddedPostgres(directory) as server, connect_to(server.dsn, autocommit=False) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (42,)


def test_a_directory_is_a_text_or_a_path_and_does_not_follow_the_working_directory(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory.parent)
    binaries = os.path.relpath(find_programs().directory)
    with EmbeddedPostgres(directory.name, durable=False, binaries=binaries) as server:
        monkeypatch.chdir("/")
        assert select_one(server.dsn) == 1
        pid = server.postmaster_pid
        with EmbeddedPostgres(directory, durable=False) as other:
            assert other.postmaster_pid == pid
    assert pid is not None
    wait_until(lambda: not alive(pid))


def _program(page: str, name: str, interval: str, directory: Path) -> list[str]:
    directory.mkdir()
    directory.chmod(0o755)
    write_files(page, directory)
    text = (directory / name).read_text()
    assert f'every("{interval}")' in text
    (directory / name).write_text(text.replace(f'every("{interval}")', 'every("0.2s")'))
    return [sys.executable, name]


def test_the_documented_program_keeps_its_data(directory: Path) -> None:
    command = _program("database.md", "local.py", "10s", directory)
    for _ in range(2):
        with subprocess.Popen(
            command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as program:
            assert program.stdout is not None
            lines = iter(program.stdout.readline, "")
            assert any("collected" in line for line in lines)
            program.send_signal(signal.SIGINT)
            list(lines)
            assert program.wait(LIMIT) == 0
    with EmbeddedPostgres(directory / "data") as server:
        scheduler = Scheduler(server.dsn, name="local")
        nodes = {execution.instance_id for execution in scheduler.executions()}
        scheduler.shutdown()
    assert len(nodes) == 2


@pytest.mark.parametrize(
    ("page", "name"), [("how-to/from-celery-beat.md", "beat.py"), ("from-apscheduler.md", "billing.py")]
)
def test_the_first_program_of_a_page_for_newcomers_is_a_cluster_that_survives_a_kill(
    page: str, name: str, directory: Path
) -> None:
    command = _program(page, name, "5s", directory)
    outputs = [directory / "first.txt", directory / "second.txt"]
    programs = []
    for output in outputs:
        with output.open("w") as file:
            programs.append(subprocess.Popen(command, cwd=directory, stdout=file, stderr=subprocess.STDOUT))
        wait_until(lambda output=output: "node" in output.read_text())
    try:
        wait_until(lambda: any("ping" in output.read_text().splitlines() for output in outputs))
        programs[0].kill()
        programs[0].wait()
        before = outputs[1].read_text().splitlines().count("ping")
        wait_until(lambda: outputs[1].read_text().splitlines().count("ping") > before)
        programs[1].send_signal(signal.SIGINT)
        assert programs[1].wait(LIMIT) == 0
    finally:
        for program in programs:
            program.kill()
    with EmbeddedPostgres(directory / "data") as server:
        scheduler = Scheduler(server.dsn, name=Path(name).stem)
        pings = [each.scheduled_fire_time for each in scheduler.executions() if each.job_key.name == "ping"]
        scheduler.shutdown()
    assert len(pings) == len(set(pings)) > 0


def test_the_documented_program_dumps_and_restores_the_data(directory: Path) -> None:
    write_files("operate/backup.md", directory)
    command = [sys.executable, "dump.py"]
    with EmbeddedPostgres(directory / "data") as server, connect_to(server.dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
        subprocess.run(command, cwd=directory, check=True)
        connection.execute("DROP TABLE kept")
    restore = ["pg_restore", "--clean", "--if-exists", "--no-owner", "--exit-on-error", "--dbname=quartzpy"]
    subprocess.run([*command, *restore, "schedule.dump"], cwd=directory, check=True)
    with EmbeddedPostgres(directory / "data") as server, connect_to(server.dsn) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (42,)


def test_a_server_that_was_killed_is_started_again(directory: Path) -> None:
    with EmbeddedPostgres(directory) as server:
        pid = server.postmaster_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid))
    with EmbeddedPostgres(directory) as server:
        assert select_one(server.dsn) == 1


def test_a_restart_keeps_the_address(directory: Path) -> None:
    with EmbeddedPostgres(directory, durable=False) as server:
        before = server.dsn
        server.restart("immediate")
        assert server.dsn == before
        assert select_one(before) == 1


def test_a_temporary_server_leaves_nothing() -> None:
    with EmbeddedPostgres.temporary() as server:
        root = server.log_path.parent
        pid = server.postmaster_pid
        assert select_one(server.dsn) == 1
    assert pid is not None
    wait_until(lambda: not alive(pid))
    assert not root.exists()


def test_a_server_that_is_kept_outlives_its_users_until_the_next_stops_it(directory: Path) -> None:
    with EmbeddedPostgres(directory, durable=False) as server:
        dsn, pid = server.dsn, server.postmaster_pid
        server.keep_running()
    assert pid is not None
    assert select_one(dsn) == 1
    with EmbeddedPostgres(directory, durable=False) as server:
        assert server.postmaster_pid == pid
    wait_until(lambda: not alive(pid))


def test_it_listens_on_loopback_only_and_requires_the_password(directory: Path) -> None:
    with EmbeddedPostgres(directory, durable=False) as server:
        with connect_to(server.dsn, autocommit=False) as connection:
            assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        user, _, host = libpq_url(server.dsn).partition("@")
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"{user.rsplit(':', 1)[0]}:wrong@{host}")
        assert (directory / "password").stat().st_mode & 0o077 == 0


def test_data_of_another_major_version_are_refused_with_words_and_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "server" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("9.6\n")
    with pytest.raises(StoreUnavailableError, match=r"holds the data of PostgreSQL 9\.6, and PostgreSQL \d+ cannot"):
        EmbeddedPostgres(tmp_path / "server").start()
    assert [path.name for path in data.iterdir()] == ["PG_VERSION"]


def test_the_demo_has_a_directory_for_each_major_version_and_stops_servers_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "data_home", lambda: tmp_path)
    older = tmp_path / "postgresql-9" / "data"
    older.mkdir(parents=True)
    (older / "PG_VERSION").write_text("9.6\n")
    assert database.data_directory().name == f"postgresql-{find_programs().version.partition('.')[0]}"
    assert not database.stop_database(), "nothing runs"
