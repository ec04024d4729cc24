"""A list is described once: its command, its resource of the API and its page derive from that."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard import create_app
from quartzpy.dashboard.api.reads import READS, of_list
from quartzpy.dashboard.pages import PAGES, PageEntry, list_page
from quartzpy.operations import Operations
from quartzpy.operations.lists.spec import Column, ListSpec, Look
from quartzpy.operations.lists.table import LISTS
from quartzpy.scheduler.querying import Page, query_of
from quartzpy.states import Word
from quartzpy.store.filters import filtered, filters_of
from quartzpy.store.queries import (
    ActionQuery,
    ExecutionQuery,
    IncidentQuery,
    JobQuery,
    JoinQuery,
    MisfireQuery,
    Position,
    RecordQuery,
    Shape,
    TriggerQuery,
)
from tests.cli.conftest import Terminal
from tests.dashboard.conftest import LOCAL


class Weather(Word):
    """The weather of a note."""

    RAIN = "RAIN"
    CLEAR_SKY = "CLEAR_SKY"


@dataclass(frozen=True, slots=True)
class Note:
    """A note of somebody on night duty."""

    text: str
    weather: Weather
    at: datetime


@dataclass(frozen=True, slots=True)
class NoteQuery(RecordQuery[Note]):
    """Selects notes."""

    of = "notes"
    text: str | None = filtered(str, "A part of the text", hint="a word")
    weather: Weather | None = filtered(Weather, "The weather")
    since: datetime | None = filtered(datetime, "The earliest instant")

    @property
    def shape(self) -> Shape:
        return ((str,),)

    def position(self, record: Note) -> Position:
        return (record.text,)


STORED = [
    Note("the pump was loud", Weather.RAIN, datetime(2026, 11, 22, 1, tzinfo=UTC)),
    Note("all was quiet", Weather.CLEAR_SKY, datetime(2026, 11, 23, 1, tzinfo=UTC)),
]
NOTES: ListSpec[Note] = ListSpec(
    "notes",
    "note",
    "The notes of the night.",
    (
        Column("noted at", lambda row: row.at, Look.INSTANT),
        Column("weather", lambda row: row.weather, Look.STATE, drop=1),
        Column("text", lambda row: row.text),
        Column("letters", lambda row: len(row.text), Look.NUMBER, extra=True, aside=True),
    ),
    NoteQuery,
    title="Notes",
    intro="What was noted.",
)


def notes(self: Operations, *, limit: int = 100, after: str | None = None, **filters: Any) -> Page[Note]:
    """Return a page of notes."""
    query = query_of(NoteQuery, filters)
    return Page(
        [
            note
            for note in STORED
            if (query.text or "") in note.text
            and query.weather in (None, note.weather)
            and (query.since is None or note.at >= query.since)
        ],
        None,
    )


@pytest.fixture
def client(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A web page and an API with one more list: its record, its query and its description are all that was written."""
    monkeypatch.setattr(Operations, "notes", notes, raising=False)
    monkeypatch.setitem(LISTS, "notes", NOTES)
    reads = (*READS, of_list(NOTES))
    monkeypatch.setattr("quartzpy.dashboard.api.app.READS", reads)
    monkeypatch.setattr("quartzpy.dashboard.api.openapi.READS", reads)
    monkeypatch.setattr("quartzpy.dashboard.app.PAGES", [*PAGES, PageEntry("/notes", list_page(NOTES), "Notes", "Now")])
    return TestClient(create_app(terminal.scheduler), **LOCAL)


def test_a_new_list_is_a_command(terminal: Terminal, client: TestClient) -> None:
    assert "List the notes of the night." in terminal.ok("notes", "--help")
    assert "List the notes of the night." in terminal.ok("--help")
    assert terminal.ok("notes", "--zone", "UTC").splitlines() == [
        "NOTED AT (UTC)       WEATHER    TEXT",
        "2026-11-22 01:00:00  RAIN       the pump was loud",
        "2026-11-23 01:00:00  CLEAR_SKY  all was quiet",
    ]
    chosen = terminal.ok("notes", "--columns", "letters", "--weather", "clear-sky", "--since", "2026-11-23T00:00Z")
    assert chosen.split() == ["LETTERS", "13"]
    assert "no note matches --text storm; the scheduler" in terminal.run("notes", "--text", "storm").err


def test_a_new_list_is_a_resource_of_the_api_with_its_schema(client: TestClient) -> None:
    answer = client.get("/api/v1/notes?weather=RAIN").json()
    assert [item["text"] for item in answer["items"]] == ["the pump was loud"]
    described = client.get("/api/v1/openapi.json").json()
    parameters = {one["name"]: one for one in described["paths"]["/notes"]["get"]["parameters"]}
    assert list(parameters) == ["limit", "after", "text", "weather", "since"]
    assert parameters["weather"]["schema"] == {"type": "string", "enum": ["RAIN", "CLEAR_SKY"]}
    assert parameters["since"]["description"] == "The earliest instant: an instant, or a length of time ago."
    assert set(described["components"]["schemas"]["Note"]["properties"]) == {"text", "weather", "at"}
    assert client.get("/api/v1/notes?colour=red").json()["detail"].startswith("colour: is not a parameter")


def test_a_new_list_has_a_page_with_its_filters_columns_and_orders(client: TestClient) -> None:
    text = client.get("/notes").text
    assert 'href="/notes" aria-current="page"' in text, "it is in the menu"
    assert re.findall(r"<th(?: [^>]*)?>(?:<a[^>]*>)?([^<]*)", text) == ["Noted at", "Weather", "Text"]
    assert 'name="text"' in text
    assert 'href="/notes?weather=CLEAR_SKY"' in text
    assert 'type="datetime-local" name="from"' in text
    assert "all was quiet" not in client.get("/notes?text=pump").text
    first, second = "the pump was loud", "all was quiet"
    ordered = client.get("/notes?sort=text").text
    assert ordered.index(second) < ordered.index(first)
    client.get("/notes?columns=&columns=letters")
    assert re.findall(r"<th(?: [^>]*)?>(?:<a[^>]*>)?([^<]*)", client.get("/notes").text) == ["Noted at", "Letters"]


@pytest.mark.parametrize("name", ["jobs", "triggers", "executions", *(name for name in LISTS if LISTS[name].title)])
def test_the_terminal_and_the_page_have_the_same_columns(name: str, terminal: Terminal, client: TestClient) -> None:
    offered = re.findall(r'name="columns" value="(\w+)"', client.get(f"/{name}").text)
    assert offered == [column.option for column in LISTS[name].columns]
    assert terminal.run(name, "--columns", ",".join(offered)).status == 0


@pytest.mark.parametrize(
    ("method", "query"),
    [
        (Scheduler.jobs, JobQuery),
        (Scheduler.triggers, TriggerQuery),
        (Scheduler.executions, ExecutionQuery),
        (Scheduler.misfires, MisfireQuery),
        (Scheduler.joins, JoinQuery),
        (Operations.audit_log, ActionQuery),
        (Operations.past_incidents, IncidentQuery),
    ],
)
def test_the_arguments_of_a_method_are_the_filters_of_its_query(method: Any, query: type[Any]) -> None:
    _, *parameters = inspect.signature(method).parameters.values()
    defaults = {field.name: field.default for field in fields(query)}
    declared = {one.name: defaults[one.field] for one in filters_of(query)}
    assert {one.name: one.default for one in parameters if one.name not in ("limit", "after")} == declared
