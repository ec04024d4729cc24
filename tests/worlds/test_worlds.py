"""The worlds themselves: which there are, what they lack, what they change, and what is said of them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import make_url

from quartzpy.config.config import SchedulerConfig
from quartzpy.store.postgresql.connection.urls import parse_dsn
from tests.proxy import moved, place_of
from tests.worlds import __main__ as driver
from tests.worlds import bouncer, exceptions, install, installed, results, role
from tests.worlds.competition import competition
from tests.worlds.inside import sitecustomize as inside
from tests.worlds.results import Result
from tests.worlds.stage import NotInstalledError, binaries_of, way
from tests.worlds.world import NEWEST, OLDEST, PYTHONS, UNTRIED_PYTHON, WORLDS, World, named, spread

ROOT = Path(__file__).resolve().parents[2]
DIRECT = make_url("postgresql+psycopg://super:secret@127.0.0.1:5433/app")


def test_four_workers_have_two_servers_and_two_kinds_of_connections() -> None:
    found = [(world.server, world.connection) for world in spread([16, 18])]
    assert found == [(18, "tcp"), (16, "unix"), (18, "unix"), (16, "tcp")]


def test_one_server_is_spread_over_its_kinds_of_connections() -> None:
    assert [(world.server, world.connection) for world in spread([17])] == [(17, "tcp"), (17, "unix")]


def test_without_a_server_there_is_nothing_to_spread() -> None:
    with pytest.raises(LookupError, match="pip install"):
        spread([])


def test_a_name_that_no_world_has_is_refused() -> None:
    assert [world.name for world in named("pg15,role")] == ["pg15", "role"]
    with pytest.raises(LookupError, match="no world is called pg7; there are pg15"):
        named("pg15,pg7")


def test_what_the_readme_claims_is_what_the_worlds_run() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert {world.server for world in WORLDS.values()} == set(range(OLDEST, NEWEST + 1))
    assert {world.python for world in WORLDS.values()} == {*PYTHONS, UNTRIED_PYTHON}
    assert f"PostgreSQL {OLDEST} to {NEWEST}" in readme
    assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in readme
    project = (ROOT / "pyproject.toml").read_text()
    assert [version for version in PYTHONS if f"Python :: {version}" not in project] == []


def test_the_tests_that_are_left_out_exist() -> None:
    for world, left_out in exceptions.LEFT_OUT.items():
        assert world in WORLDS
        for beginning, why in left_out.items():
            path, _, name = beginning.partition("::")
            assert (ROOT / path).exists(), beginning
            assert name.partition("[")[0] in (ROOT / path).read_text() if name else True
            assert why


# --- what is installed


def test_what_is_not_installed_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installed, "servers", lambda: {18: Path("/there")})
    monkeypatch.setattr(installed, "pgbouncer", lambda: None)
    assert installed.missing(WORLDS["pg15"]) == ["PostgreSQL 15: python -m tests.worlds.install 15"]
    assert installed.missing(WORLDS["pgbouncer"]) == ["PgBouncer: apt-get install pgbouncer"]
    assert installed.missing(World("py", python="3.99"))[0].startswith("Python 3.99: ")
    with pytest.raises(NotInstalledError, match="the world pg15 needs PostgreSQL 15: python -m tests"):
        binaries_of(WORLDS["pg15"])

    worlds, absent = driver.chosen("pg15,pg18")
    assert [world.name for world in worlds] == ["pg18"]
    assert absent == 1
    assert "not installed: pg15 (PostgreSQL 15, TCP) needs PostgreSQL 15" in capsys.readouterr().out


def test_the_newest_release_of_a_major_version_is_installed() -> None:
    versions = ["15.9.0-beta.15", "15.18.0-beta.15", "15.18.0-beta.16", "16.1.0-beta.1"]
    assert install.newest(versions, 15) == "15.18.0-beta.16"
    with pytest.raises(install.InstallError, match="no release of PostgreSQL 14"):
        install.newest(versions, 14)


def _package(path: Path, links: list[dict[str, str]]) -> Path:
    files = {"bin/postgres": b"#!/bin/sh\n", "lib/libpq.so.5.13": b"elf", install.LINKS: json.dumps(links).encode()}
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/native/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_a_package_is_unpacked_with_its_links_and_programs_that_run(tmp_path: Path) -> None:
    links = [{"source": "native/lib/libpq.so.5.13", "target": "native/lib/libpq.so.5"}]
    install.unpack(_package(tmp_path / "package.tgz", links), tmp_path / "servers" / "15")
    moved_to = (tmp_path / "servers" / "15").rename(tmp_path / "elsewhere")
    assert (moved_to / "lib" / "libpq.so.5").read_bytes() == b"elf"
    assert os.access(moved_to / "bin" / "postgres", os.X_OK)


def test_a_link_out_of_a_package_is_refused(tmp_path: Path) -> None:
    links = [{"source": "native/lib/libpq.so.5.13", "target": "native/../../../outside"}]
    with pytest.raises(install.InstallError, match="is outside of the package"):
        install.unpack(_package(tmp_path / "package.tgz", links), tmp_path / "servers" / "15")


# --- the way to a server


def test_the_url_of_a_unix_socket_means_the_same_to_all(tmp_path: Path) -> None:
    with way(DIRECT, WORLDS["unix18"], tmp_path) as url:
        text = url.render_as_string(hide_password=False)
        assert parse_dsn(text).parameters == {
            "host": str(tmp_path),
            "port": "5433",
            "user": "super",
            "password": "secret",
            "dbname": "app",
        }
        assert place_of(url) == ("127.0.0.1", 5433)
        assert moved(text, 7) == "postgresql+psycopg://super:secret@127.0.0.1:7/app"


def test_a_role_without_superuser_logs_in() -> None:
    with way(DIRECT, WORLDS["role"]) as url:
        assert (url.username, url.host, url.port) == (role.LOGIN, "127.0.0.1", 5433)


def test_the_pooler_has_the_setting_that_the_documentation_asks_for() -> None:
    setting = "server_login_retry = 1"
    assert setting in bouncer.CONFIGURATION.splitlines()
    assert setting in (ROOT / "docs" / "how-to" / "pgbouncer.md").read_text()


@pytest.mark.parametrize(
    ("port", "pooled", "listens"),
    [(6432, True, "postgresql+psycopg://u@h:5432/app"), (7000, True, None), (5432, False, None)],
    ids=["the pooler", "a proxy in front of it", "the server"],
)
def test_a_store_behind_the_pooler_knows_it(port: int, pooled: bool, listens: str | None) -> None:
    class Store:
        def __init__(self, source: object, config: SchedulerConfig) -> None:
            self.config = config

    inside.behind_pooler(SimpleNamespace(SqlJobStore=Store), {"pooler": 6432, "direct": 5432})
    config = Store(f"postgresql+psycopg://u@h:{port}/app", SchedulerConfig(name="app")).config
    assert (config.pooled, config.listen_url) == (pooled, listens)


def test_processes_that_are_started_live_in_the_same_world(postgres_dsn: str) -> None:
    asked = (
        "import os, socket, sys, psycopg\n"
        "connection = psycopg.connect(sys.argv[1])\n"
        "with socket.socket(fileno=os.dup(connection.pgconn.socket)) as copy:\n"
        "    print(copy.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))\n"
    )
    plain = postgres_dsn.replace("+psycopg", "")
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(inside.__file__).parent),
        inside.VARIABLE: json.dumps({"send_buffer": 4096}),
    }
    command = [sys.executable, "-c", asked, plain]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    # Linux doubles what is asked for, and has a least size of its own.
    assert 4096 <= int(done.stdout) <= 4 * 4096
    with psycopg.connect(plain) as ours:
        assert ours.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux says which CPUs a process may use")
def test_competitors_leave_when_the_tests_have_ended() -> None:
    before = os.sched_getaffinity(0)
    with competition(2):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


# --- what is said


REPORT = """<testsuites><testsuite>
<testcase name="a"/><testcase name="b"><failure message="no"/></testcase>
<testcase name="c"><error message="no"/></testcase>
<testcase name="d"><skipped message="world role: a superuser is needed"/></testcase>
<testcase name="e"><skipped message="needs something else"/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_counted_and_what_was_left_out_has_its_reason(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    found = results.read(tmp_path / "report.xml", 2.0)
    assert (found.passed, found.failed, found.left_out) == (1, 2, 1)
    assert found.reasons == ("a superuser is needed",)
    assert not found.is_good
    assert not results.read(tmp_path / "missing.xml", 2.0).is_good
    assert not Result().is_good, "a suite that ran nothing is not good"


def test_the_table_names_each_world_and_suite() -> None:
    found = {"role": {"facade": Result(passed=5, left_out=1, seconds=3, reasons=("a superuser is needed",))}}
    suites = ["facade", "alone"]
    assert results.as_markdown(found, suites) == (
        "| world | facade | alone |\n|---|---|---|\n"
        "| `role`: PostgreSQL 18, TCP, role without superuser | 5 passed, 1 left out | – |"
    )
    assert results.as_text(found, suites).splitlines() == [
        "world  facade                       alone",
        "role   5 passed, 1 left out in 3 s  –",
        "left out of role: a superuser is needed",
    ]
