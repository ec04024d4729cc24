"""An action costs an entry of the table and a method: each face, the roles and the audit log derive from these."""

from __future__ import annotations

import html
import re

import pytest
from starlette.testclient import TestClient

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey
from quartzpy.dashboard import create_app
from quartzpy.dashboard.api import openapi
from quartzpy.errors import ForbiddenError
from quartzpy.operations import ActionResult, Actions, Actor, Operations, Role
from quartzpy.operations.actions.action import Action
from quartzpy.operations.actions.inputs import Instant, Text
from quartzpy.operations.actions.log import SubjectChange
from quartzpy.operations.actions.table import ACTIONS, SECTIONS
from quartzpy.operations.selection import Subject, named
from quartzpy.scheduler.typed_text import FUTURE
from tests.cli.conftest import Terminal
from tests.dashboard.conftest import LOCAL, THIS_USER
from tests.dashboard.test_actions import do, notice

MARK = Action(
    name="mark",
    role=Role.OPERATOR,
    subjects={Subject.JOB: "Mark JOB with WORDS.\n\nThey are in front of its description."},
    is_single=True,
    inputs=(
        Text("words", "What it is marked with.", "Words", is_required=True, is_argument=True),
        Instant("until", "Until when.", "Until", direction=FUTURE),
    ),
    question="Mark",
    is_always_offered=True,
    explanation="The words stand in front of its description.",
)


def mark(self: Actions, job: JobKey, words: str, until: object = None, *, reason: str = "") -> ActionResult:
    """Mark a job with words."""

    def change(transaction: object) -> SubjectChange:
        self._log.scheduler.modify_job(job, description=words)
        text = f"Marked job {job} with {words} until {until}."
        return SubjectChange(text, {"description": None}, {"description": words}, (job,))

    return self._change_one("mark", named(Subject.JOB, job), reason, change)


class Report(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


@pytest.fixture(autouse=True)
def action(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more action: its entry and its method are all that was written."""
    monkeypatch.setattr(Actions, "mark", mark, raising=False)
    monkeypatch.setitem(ACTIONS, "mark", MARK)
    monkeypatch.setitem(SECTIONS, "Change", (*SECTIONS["Change"], MARK))
    terminal.scheduler.add_job(JobDetail(Report, "report", durable=True))


def described(terminal: Terminal) -> str | None:
    detail = terminal.scheduler.get_job_detail(JobKey("report"))
    assert detail is not None
    return detail.description


def test_it_is_a_command(terminal: Terminal) -> None:
    assert "Mark JOB with WORDS." in terminal.ok("--help")
    assert "[OPTIONS] JOB WORDS" in terminal.ok("mark", "--help")
    assert terminal.ok("mark", "report", "old", "--dry-run") == "would mark job DEFAULT.report\n"
    assert described(terminal) is None
    assert "Marked job DEFAULT.report with old until None." in terminal.ok("mark", "report", "old", "--reason", "so")
    assert described(terminal) == "old"
    assert "until 20" in terminal.ok("mark", "report", "old", "--until", "2h")
    assert "--until" in terminal.run("mark", "report", "old", "--until", "soon").err


def test_it_has_a_route_of_the_api_with_its_schema_and_is_refused_to_other_roles(terminal: Terminal) -> None:
    client = TestClient(create_app(terminal.scheduler, auth=THIS_USER, read_only=False), **LOCAL)
    bearer = {"Authorization": "Bearer any"}
    body = {"job": {"name": "report"}, "words": "new", "until": "2h"}
    answer = client.post("/api/v1/actions/mark", json=body, headers=bearer)
    assert answer.status_code == 200, answer.text
    assert answer.json()["text"].startswith("Marked job DEFAULT.report with new until 20")
    schema = openapi.document()["paths"]["/actions/mark"]["post"]["requestBody"]
    assert "What it is marked with." in str(schema)
    wrong = client.post("/api/v1/actions/mark", json={"job": {"name": "report"}}, headers=bearer)
    assert wrong.json()["detail"] == "words: is missing; mark needs job, words"
    viewer = Operations(terminal.scheduler, actor=Actor("eve", Role.VIEWER)).actions
    with pytest.raises(ForbiddenError, match="operator"):
        viewer.mark(JobKey("report"), "x")  # type: ignore[attr-defined]


def test_it_has_a_button_and_a_form_on_the_page_and_an_entry_in_the_audit_log(terminal: Terminal) -> None:
    client = TestClient(create_app(terminal.scheduler, auth=THIS_USER, read_only=False), **LOCAL)
    page = html.unescape(client.get("/job?group=DEFAULT&name=report").text)
    link = re.search(r'href="(/actions/mark\?[^"]*)" data-action="mark">Mark</a>', page)
    assert link is not None
    form = client.get(link[1]).text
    assert 'name="words"' in form
    assert "The words stand in front of its description." in form
    assert notice(client, do(client, link[1], words="by hand", reason="a look")).startswith("Marked job DEFAULT.report")
    assert described(terminal) == "by hand"
    [entry] = Operations(terminal.scheduler).audit_log(action="mark")
    assert (entry.reason, entry.after) == ("a look", {"description": "by hand"})
    assert "mark" in terminal.ok("audit")
    assert "a look" in client.get("/audit").text
