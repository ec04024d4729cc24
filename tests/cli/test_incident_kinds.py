"""A kind of incident costs one file: it is asked, judged, recorded, shown on each face, and in the runbook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from quartzpy import Job, JobExecutionContext, every
from quartzpy.dashboard import create_app
from quartzpy.operations import Operations
from quartzpy.operations.incidents import kinds
from quartzpy.operations.telling.health_check import LISTED_EVERY, HealthCheck
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import HealthRun
from tests.cli.conftest import Terminal
from tests.dashboard.conftest import LOCAL
from tests.docs import incidents_page
from tests.waiting import wait_until

KIND = '''"""Jobs have no description.

Say what each of them is for.
"""

from quartzpy.operations.incidents.cluster_facts import ClusterFacts
from quartzpy.operations.incidents.incident import About, Incident, IncidentKind, Remedy, Rounds
from quartzpy.store.health_findings import Severity
from quartzpy.store.queries import JobQuery


def judge(facts: ClusterFacts) -> Rounds:
    jobs = facts.reading.defer(lambda store: store.find(JobQuery(), 10))
    yield
    return [
        Incident(
            Severity.INFO,
            "no-description",
            str(record.key),
            f"Job {record.key} has no description.",
            remedies=(Remedy("pause", {"selection": record.key}, "pause job"),),
            job=record.key,
        )
        for record in jobs()
    ]


KIND = IncidentKind(("no-description",), About.JOBS, __doc__, judge)
'''


class Report(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


@pytest.fixture
def kind_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "kind").mkdir()
    (tmp_path / "kind" / "no_description.py").write_text(KIND)
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(tmp_path / "kind")])
    kinds.all_kinds.cache_clear()
    yield
    kinds.all_kinds.cache_clear()


@pytest.mark.usefixtures("kind_of_one_file")
def test_a_kind_of_incident_costs_one_file(terminal: Terminal) -> None:
    terminal.scheduler.start()
    terminal.scheduler.schedule_job(Report, every("1h"), name="report")
    what = "Job DEFAULT.report has no description."

    assert f"INFO: {what}" in terminal.run("incidents").out
    assert "quartzpy pause --job=DEFAULT.report" in terminal.run("incidents").out
    with TestClient(create_app(terminal.scheduler), **LOCAL) as browser:
        [row] = browser.get("/api/v1/incidents").json()["incidents"]
        assert (row["kind"], row["severity"], row["what"]) == ("no-description", "info", what)
        assert what in browser.get("/").text

    store = admin(terminal.scheduler._store)
    turns: list[HealthRun] = []

    def has_turn() -> bool:
        turns.append(store.take_slot(timedelta(microseconds=1), LISTED_EVERY))
        return turns[-1].turn is not None

    wait_until(has_turn)
    HealthCheck(terminal.scheduler).judge(turns[-1])
    [recorded] = Operations(terminal.scheduler).open_incidents()
    assert (recorded.kind, recorded.what) == ("no-description", what)
    [listed] = json.loads(terminal.run("incidents", "--json").out)
    assert listed["incident_id"] == recorded.incident_id

    assert "### no-description\n\nJobs have no description.\nSay what each of them is for.\n" in incidents_page.page()


def test_each_name_is_of_one_kind_and_each_kind_says_what_to_do() -> None:
    names = [name for kind in kinds.all_kinds() for name in kind.names]
    assert len(names) == len(set(names)) >= 26
    for kind in kinds.all_kinds():
        head, _, rest = kind.runbook.partition("\n\n")
        assert head.replace("\n", " ").endswith("."), kind.names
        assert rest.strip(), kind.names
