"""A type of triggers costs one class: it is stored, read from files and documents, described, and shown."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from starlette.testclient import TestClient

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, Trigger, TriggerKey
from quartzpy.dashboard import create_app
from quartzpy.keys import DEFAULT_GROUP
from quartzpy.triggers import trigger as kinds
from quartzpy.triggers.recurring import RecurringTrigger
from tests.cli.conftest import Terminal
from tests.dashboard.conftest import LOCAL, THIS_USER

TIDE = timedelta(hours=12, minutes=25)
START = datetime(2099, 1, 1, 4, 10, tzinfo=UTC)


@pytest.fixture
def tide_trigger(monkeypatch: pytest.MonkeyPatch) -> type[Trigger]:
    """A type of triggers that is known for one test. The class is all that somebody writes for it."""
    monkeypatch.setattr(kinds, "_KINDS", dict(kinds._KINDS))

    @dataclass(frozen=True)
    class TideTrigger(RecurringTrigger):
        """Fires at each high tide of a harbour, of which the first is its start time."""

        kind: ClassVar[str] = "tide"

        name: str | None = None
        group: str = DEFAULT_GROUP
        _: KW_ONLY
        harbour: str

        def next_after(self, instant: datetime) -> datetime | None:
            return self.anchor + max(0, (instant - self.anchor) // TIDE + 1) * TIDE

        @property
        def final_fire_time(self) -> None:
            return None

        @property
        def text(self) -> str:
            return f"tides of {self.harbour}"

        @property
        def words(self) -> str:
            return f"at each high tide of {self.harbour}"

        def schedule(self) -> dict[str, Any]:
            return {"harbour": self.harbour}

        @classmethod
        def from_schedule(cls, schedule: Mapping[str, Any], **common: Any) -> Self:
            return cls(**schedule, **common)

    return TideTrigger


class Sail(Job):
    """The job of these triggers."""

    def execute(self, context: JobExecutionContext) -> None: ...


FILE = f"""
[[job]]
type = "{__name__}:Sail"
name = "sail"

  [[job.trigger]]
  kind = "tide"
  harbour = "Dover"
  start_time = 2099-01-01T04:10:00Z
"""


def test_a_type_of_triggers_costs_one_class(tide_trigger: type[Any], terminal: Terminal, tmp_path: Path) -> None:
    # Of a file, in the database.
    (tmp_path / "jobs.toml").write_text(FILE)
    assert "sail" in terminal.ok("apply", "jobs.toml", "--yes")
    stored: Any = terminal.scheduler.get_trigger(TriggerKey("sail"))
    assert stored == tide_trigger("sail", harbour="Dover", start_time=START, job_key=stored.job_key)
    assert 'harbour = "Dover"' in terminal.ok("export")

    # In memory.
    with Scheduler("memory://") as memory:
        memory.schedule_job(JobDetail(Sail, "sail"), tide_trigger("low", harbour="Calais", start_time=START))
        low: Any = memory.get_trigger(TriggerKey("low"))
        assert low.harbour == "Calais"

    # On the terminal.
    assert "tides of Dover" in terminal.ok("triggers")
    assert "at each high tide of Dover" in terminal.ok("show", "trigger", "sail")
    assert "2099-01-01 16:35" in terminal.ok("show", "trigger", "sail", "--zone", "UTC")

    # Over HTTP, with its schema, and on the page.
    client = TestClient(create_app(terminal.scheduler, auth=THIS_USER, read_only=False), **LOCAL)
    schemas = client.get("/api/v1/openapi.json").json()["components"]["schemas"]
    assert {"$ref": "#/components/schemas/TideTriggerDocument"} in schemas["TriggerDocument"]["anyOf"]
    described = schemas["TideTriggerDocument"]
    assert described["description"] == tide_trigger.__doc__
    assert described["properties"]["harbour"] == {"type": "string"}
    document = {"kind": "tide", "harbour": "Oban", "job": {"name": "sail"}, "start_time": "2099-01-01T04:10:00+00:00"}
    csrf = {"Authorization": "Bearer none"}
    answer = client.put("/api/v1/triggers/DEFAULT/north", json=document, headers=csrf)
    assert answer.status_code == 201, answer.text
    wrong = client.put("/api/v1/triggers/DEFAULT/x", json={**document, "harbor": "Oban"}, headers=csrf).json()
    assert "did you mean harbour?" in str(wrong)
    page = html.unescape(client.get("/triggers").text)
    assert "at each high tide of Oban" in page
    assert "at each high tide of Dover" in html.unescape(client.get("/trigger?group=DEFAULT&name=sail").text)
