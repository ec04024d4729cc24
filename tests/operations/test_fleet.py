"""Several schedulers in one view: 20 on two databases, one at a port where nothing listens, one that hangs."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from quartzpy import Job, JobExecutionContext, Scheduler
from quartzpy.cli.fleet import fleet as command
from quartzpy.cli.fleet import members_in
from quartzpy.config.fleet import fleet_from_toml
from quartzpy.dashboard import create_app
from quartzpy.errors import SettingsError
from quartzpy.jobs.job import JobDetail
from quartzpy.operations.fleet import Fleet, FleetRow, FleetState
from tests.dashboard_api.test_api import schema_of, validate
from tests.database import Server
from tests.proxy import Proxy, moved

ALIVE = 18
DEADLINE = 60.0
"""Of the one that hangs: whoever waited for it would be seen to."""
WITHIN = 15
"""The seconds in which the others answer, also on a busy machine."""
LOCAL: dict[str, Any] = {"base_url": "http://127.0.0.1", "client": ("127.0.0.1", 50_000)}


class Report(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


@pytest.fixture
def file(tmp_path: Path, postgres_server: Server, fresh_database: Callable[..., str]) -> Iterator[Path]:
    """A file of 20 schedulers: 18 on two databases, `s18`, which is down, and `s19`, which hangs."""
    databases = [fresh_database(postgres_server.tables) for _ in range(2)]
    urls = [databases[number % 2] for number in range(ALIVE)]
    for number, url in enumerate(urls):
        scheduler = Scheduler(url, name=f"s{number:02}")
        try:
            scheduler.add_job(JobDetail(Report, "report", durable=True))
        finally:
            scheduler.shutdown()
    with Proxy.to(databases[0]) as proxy, socket.socket() as refusing:
        proxy.black_hole()
        # It does not listen, and nobody else gets its port.
        refusing.bind(("127.0.0.1", 0))
        urls += [moved(databases[0], refusing.getsockname()[1]), proxy.through(databases[0])]
        path = tmp_path / "fleet.toml"
        path.write_text(
            "\n".join(
                f'[[scheduler]]\nname = "s{number:02}"\nurl = "{url}"\ndashboard = "https://ops.example.com/s{number:02}"\n'
                f'database.connect_timeout = "{DEADLINE}s"'
                for number, url in enumerate(urls)
            )
        )
        yield path


@pytest.fixture
def scheduler(postgres_dsn: str) -> Iterator[Scheduler]:
    made = Scheduler(postgres_dsn, name="of-a-fleet")
    made.add_job(JobDetail(Report, "report", durable=True), replace=True)
    yield made
    made.shutdown()


def run(*arguments: str, status: int = 0) -> str:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == status, (done.output, done.exception)
    return done.stdout


def test_the_command_shows_each_and_waits_for_the_one_that_hangs_no_longer_than_it_may(file: Path) -> None:
    began = time.monotonic()
    rows = json.loads(run("--fleet", str(file), "--json", "--deadline", f"{WITHIN}s"))
    assert time.monotonic() - began < DEADLINE
    assert [row["scheduler"] for row in rows] == [f"s{number:02}" for number in range(20)]
    answered, down, hanging = rows[:ALIVE], rows[ALIVE], rows[ALIVE + 1]
    for row in answered:
        assert (row["state"], row["nodes"], row["late"]["number"], row["error"]) == ("error", 0, 0, None), row
        assert row["age"] < DEADLINE
    assert down["state"] == hanging["state"] == "unreachable"
    assert "refused" in down["error"]
    assert hanging["error"].startswith("no answer for")
    assert down["age"] is hanging["age"] is down["nodes"] is None


def test_each_that_does_not_answer_is_an_incident_of_the_fleet(file: Path) -> None:
    text = run("incidents", "--fleet", str(file), "--json", "--deadline", f"{WITHIN}s", status=1)
    of_kind = {each["scheduler"] for each in json.loads(text) if each["incident"]["kind"] == "no-answer"}
    assert of_kind == {"s18", "s19"}
    assert {each["scheduler"] for each in json.loads(text) if each["incident"]["kind"] == "no-node"} == {
        f"s{number:02}" for number in range(ALIVE)
    }


def test_the_page_and_the_api_wait_for_none_once_each_was_asked(file: Path) -> None:
    own = Scheduler(fleet_from_toml(file)[0].settings["url"], name="s00")
    fleet = Fleet(members_in(str(file)), deadline=WITHIN)
    try:
        with TestClient(create_app(own, fleet=fleet), **LOCAL) as client:
            client.get("/fleet")
            began = time.monotonic()
            text = client.get("/fleet").text
            listed = client.get("/api/v1/fleet").json()
            incidents = client.get("/fleet-incidents").text
            # Each of the three would wait for it.
            assert time.monotonic() - began < 3 * WITHIN
            assert '<a href="https://ops.example.com/s07"><bdi>s07</bdi></a>' in text
            assert text.count("is-bad") >= 20
            assert 'aria-current="page"' in text
            assert [row["state"] for row in listed] == ["error"] * ALIVE + ["unreachable"] * 2
            assert "The scheduler s19 does not answer." in incidents
            troubles = client.get("/api/v1/fleet-incidents").json()
            assert troubles[0]["incident"]["severity"] == "error"
            validate(listed, schema_of("/fleet"))
            validate(troubles, schema_of("/fleet-incidents"))
    finally:
        fleet.close()
        own.shutdown()


def test_without_a_fleet_there_is_no_page_of_one(scheduler: Scheduler) -> None:
    client = TestClient(create_app(scheduler), **LOCAL)
    assert client.get("/fleet").status_code == 404
    assert "/fleet" not in client.get("/").text


def test_one_that_comes_back_answers_again(postgres_dsn: str, tmp_path: Path, scheduler: Scheduler) -> None:
    with Proxy.to(postgres_dsn) as proxy:
        path = tmp_path / "fleet.toml"
        path.write_text(f'[[scheduler]]\nname = "{scheduler.name}"\nurl = "{proxy.through(postgres_dsn)}"\n')
        fleet = Fleet(members_in(str(path)), period=0.05, deadline=30.0)
        try:
            assert fleet.rows()[0].error is None
            proxy.refuse()
            lost = _until(fleet, lambda: fleet.rows()[0].state is FleetState.UNREACHABLE)
            # What it told last stays, with its age.
            assert lost.nodes == 0
            assert fleet.incidents()[0].incident.since is not None
            proxy.admit()
            assert _until(fleet, lambda: fleet.rows()[0].error is None).state is FleetState.ERROR
        finally:
            fleet.close()


def _until(fleet: Fleet, holds: Callable[[], bool]) -> FleetRow:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)
    return fleet.rows()[0]


def test_the_doctor_examines_all(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quartzpy.cli.fleet._EXAMINED_WITHIN", 20.0)
    reports = json.loads(run("doctor", "--fleet", str(file), "--json", status=2))
    assert len(reports) == 20
    assert reports["s18"]["findings"][0]["check"] == reports["s19"]["findings"][0]["check"] == "unusable"
    assert not any(finding["check"] == "unusable" for finding in reports["s03"]["findings"])


def test_a_url_may_be_at_a_place_and_no_error_shows_one(
    tmp_path: Path, postgres_dsn: str, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fleet.toml").write_text(f'[[scheduler]]\nname = "{scheduler.name}"\nurl = "env:BILLING"\n')
    monkeypatch.chdir(tmp_path)
    missing = json.loads(run("--json"))
    assert "env:BILLING is empty" in missing[0]["error"]
    monkeypatch.setenv("BILLING", postgres_dsn)
    assert json.loads(run("--json"))[0]["error"] is None
    assert "s3cret" not in repr(fleet_from_toml(tmp_path / "fleet.toml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"must have a table \[\[scheduler\]\] for each"),
        ("[scheduler]\nname = 'a'", r"must have a table \[\[scheduler\]\] for each"),
        ("name = 'a'\n[[scheduler]]", r"and nothing beside it \(got 'name'\)"),
        ("[[scheduler]]\nname = 'a'", r"\[\[scheduler\]\] 1 has no database; write url = "),
        ("[[scheduler]]\nurl = 'postgresql://s3cret@h/d'", r"has no name; write name = "),
        ("[[scheduler]]\nname = 'a'\nurll = 'postgresql://s3cret@h/d'", r"urll is not a setting; did you mean url"),
        (
            "[[scheduler]]\nname = 'a'\nurl = 'x'\npool_size = 9",
            r"write pool_size = \.\.\. under \[scheduler\.database\]",
        ),
        ("[[scheduler]]\nname = 'a'\nurl = 'x'\ndashboard = 'ops'", r"dashboard must be the URL of a page"),
        ("[[scheduler]]\nname = 'a'\nurl = 'x'\ntitle = 7", r"title must be a text \(got 7\)"),
        (
            "[[scheduler]]\nname='a'\nurl='x'\n[[scheduler]]\nname='a'\nurl='y'",
            r"two schedulers are called a; tell them",
        ),
        ("[[scheduler]]\nname='a'\nurl='x'\ndatabase.connect='m:f'", r"url and connect are two ways to the database"),
    ],
)
def test_a_file_that_is_wrong_says_what_would_be_right(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=said) as refused:
        fleet_from_toml(path)
    assert "s3cret" not in str(refused.value)
