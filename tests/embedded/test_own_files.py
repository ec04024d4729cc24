"""The embedded server where other users may write, and what its user can see of root's process."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from quartzpy.embedded import EmbeddedPostgres
from quartzpy.embedded.account import environment, server_account
from quartzpy.embedded.binaries import find_programs
from quartzpy.embedded.own_files import open_own, read_own, replace
from quartzpy.errors import SettingsError, StoreUnavailableError
from tests.database import connect_to

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="acts as several users")
OURS = [os.geteuid()]
NOBODY = 65534


@pytest.fixture
def private() -> Iterator[Path]:
    """A directory that only its owner can enter."""
    with TemporaryDirectory(prefix="quartzpy-private-") as directory:
        yield Path(directory)


def test_a_link_is_not_followed_and_its_target_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("precious")
    for points_at in (target, tmp_path / "nothing"):
        link.symlink_to(points_at)
        with pytest.raises(SettingsError, match="link is a link, and is not followed"):
            open_own(link, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OURS)
        replace(link, "ours")
        assert read_own(link, OURS) == "ours"
        link.unlink()
    assert target.read_text() == "precious"
    assert not (tmp_path / "nothing").exists()


def test_what_is_no_file_of_ours_alone_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for flags in (os.O_RDONLY, os.O_WRONLY):
        with pytest.raises(SettingsError, match="is no regular file"):
            open_own(tmp_path / "pipe", flags, OURS)
    (tmp_path / "file").write_text("")
    (tmp_path / "second").hardlink_to(tmp_path / "file")
    with pytest.raises(SettingsError, match="has a second name"):
        read_own(tmp_path / "file", OURS)
    (tmp_path / "second").unlink()
    with pytest.raises(SettingsError, match=r"belongs to \w+; expected a file of 4711"):
        read_own(tmp_path / "file", [4711])
    with pytest.raises(FileNotFoundError):
        read_own(tmp_path / "missing", OURS)


def test_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    os.close(open_own(tmp_path / "lock", os.O_RDWR | os.O_CREAT, OURS))
    replace(tmp_path / "password", "secret")
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "password"]


def test_files_beside_it_are_not_deleted_for_a_server(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.txt").write_text("precious")
    with pytest.raises(SettingsError, match="holds other files than the data of a PostgreSQL server"):
        EmbeddedPostgres(tmp_path).start()
    assert (tmp_path / "data" / "thesis.txt").read_text() == "precious"


def _shared(place: Path, name: str) -> Path:
    """A directory in which another user has put a link to a file of ours."""
    target = place / "target"
    target.write_text("precious")
    shared = place / "shared"
    shared.mkdir()
    (shared / name).symlink_to(target)
    return shared


@pytest.mark.parametrize("name", ["server.log", "lease.lock", "start.lock", "data"])
def test_a_server_is_not_started_through_a_link(tmp_path: Path, name: str) -> None:
    shared = _shared(tmp_path, name)
    with pytest.raises(SettingsError, match=name):
        EmbeddedPostgres(shared).start()
    assert (tmp_path / "target").read_text() == "precious"


@pytest.mark.parametrize("name", ["password", "port", "data.unfinished", ".port-1"])
def test_a_link_in_the_place_of_what_is_written_is_replaced_and_its_target_stays(tmp_path: Path, name: str) -> None:
    shared = _shared(tmp_path, name)
    with EmbeddedPostgres(shared, durable=False) as server:
        assert server.postmaster_pid is not None
    target = tmp_path / "target"
    assert (target.read_text(), target.stat().st_uid) == ("precious", os.geteuid())


@ROOT_ONLY
def test_root_has_a_server_in_a_directory_that_only_root_can_enter_whose_mode_stays(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "s3cret")
    (private / "letter").write_text("private")
    for _ in range(2):
        with EmbeddedPostgres(private, durable=False) as server, connect_to(server.dsn) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
            pid = server.postmaster_pid
            assert pid is not None
            assert Path(f"/proc/{pid}").stat().st_uid == NOBODY
            variables = Path(f"/proc/{pid}/environ").read_bytes()
            assert b"s3cret" not in variables
            names = {variable.partition(b"=")[0].decode() for variable in variables.split(b"\0")} - {""}
            assert names <= {*environment(), "PWD", "OLDPWD", "_", "SHLVL"} | {
                name for name in names if name.startswith(("PG", "LC_"))
            }
            server.restart()
            with connect_to(server.dsn) as again:
                assert again.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    owners = {path.name: path.stat().st_uid for path in private.iterdir()}
    assert owners.pop("data") == NOBODY
    assert set(owners.values()) == {0}
    as_nobody = subprocess.run(["cat", private / "letter"], check=False, capture_output=True, user=NOBODY, group=NOBODY)
    assert as_nobody.returncode != 0


@ROOT_ONLY
def test_the_user_of_roots_server_is_chosen_and_keeps_its_data(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedPostgres(private, durable=False, run_as="games"):
        assert (private / "data").owner() == "games"
    account = server_account(None, private / "data")
    assert account is not None
    assert account.name == "games", "the owner of the data, if nobody says otherwise"
    with pytest.raises(SettingsError, match=r"belongs to games, and PostgreSQL is to run as daemon: .*chown -R daemon"):
        EmbeddedPostgres(private, run_as="daemon").start()
    for variable, name, message in (
        (None, "nobody-here", "run_as: this machine has no user 'nobody-here'; make one"),
        (None, "root", "run_as: PostgreSQL refuses to run as root"),
        ("nobody-here", None, "QUARTZPY_PG_USER: this machine has no user 'nobody-here'"),
    ):
        if variable is not None:
            monkeypatch.setenv("QUARTZPY_PG_USER", variable)
        with pytest.raises(SettingsError, match=message):
            server_account(name)


@ROOT_ONLY
def test_data_of_another_user_are_not_served(private: Path) -> None:
    data = private / "data"
    data.mkdir()
    (data / "PG_VERSION").write_text("18\n")
    os.chown(data, 1, 1)
    with pytest.raises(SettingsError, match="belongs to daemon, and PostgreSQL is to run as nobody"):
        EmbeddedPostgres(private, run_as="nobody").start()


@ROOT_ONLY
def test_a_user_without_a_name_has_a_server_or_the_line_that_helps(private: Path) -> None:
    program = (
        "import sys; from quartzpy.embedded import EmbeddedPostgres\n"
        "with EmbeddedPostgres(sys.argv[1], durable=False, binaries=sys.argv[2]) as server:\n"
        "    print(server.postmaster_pid)"
    )
    # The interpreter and the package may be below a directory of root alone. The capability lets the user read them; it
    # ends in a namespace, so initdb is one that everybody can reach.
    as_the_user = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    as_the_user += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    binaries = find_programs(run_as="nobody").directory
    os.chown(private, 12345, 12345)
    for namespaces in (True, False):
        # Without namespaces, as in a container whose profile forbids them.
        hidden = "" if namespaces else "import shutil, os; os.environ['PATH'] = '/nowhere'\n"
        done = subprocess.run(
            [*as_the_user, sys.executable, "-c", hidden + program, private / str(namespaces), binaries],
            check=False,
            capture_output=True,
            text=True,
            cwd="/",
        )
        if done.returncode:
            assert "RUN useradd --uid 12345 quartzpy" in done.stderr, done.stderr
        assert namespaces or done.returncode


def test_the_error_of_initdb_begins_with_its_cause_and_says_as_whom_it_runs(
    private: Path,
) -> None:
    programs = private / "bin"
    programs.mkdir()
    for name in ("initdb", "postgres", "pg_ctl"):
        (programs / name).write_text(
            '#!/bin/sh\n[ "$1" = --version ] && { echo 18.4; exit; }\necho files belong to a user\n'
            "echo initdb: error: no space left\necho a hint\nexit 1\n"
        )
        (programs / name).chmod(0o755)
    private.chmod(0o755)
    with pytest.raises(
        StoreUnavailableError,
        match=r"^initdb, which runs as the user \w+, failed in \S+: initdb: error: no space left\n",
    ):
        EmbeddedPostgres(private / "server", binaries=programs).start()
    assert not list((private / "server").glob("data*"))
