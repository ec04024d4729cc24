"""What people type means the same at every face: to the command, the JSON API and the page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest
from starlette.testclient import TestClient

from quartzpy import JobDetail, JobKey, TriggerKey, every
from quartzpy.dashboard import create_app
from quartzpy.dashboard.api.app import PREFIX
from quartzpy.dashboard.links import Links
from quartzpy.dashboard.rendering import said
from quartzpy.dashboard.shown_times import Times
from quartzpy.errors import InvalidKeyError, InvalidValueError
from quartzpy.keys import Naming, key_readings
from quartzpy.scheduler.typed_text import FUTURE, PAST, read_group, read_instant
from tests.cli.conftest import Terminal
from tests.cli.test_listings import Quick
from tests.dashboard.conftest import LOCAL

KEYS = (("c", "a.b"), ("c.d", "x"), ("dotted.name", "DEFAULT"), ("plain", "mail"), ("other", "hotmail-eu"))
"""Names and groups of the jobs, each with a trigger of the same key."""
Face = Callable[[str, dict[str, str]], list[tuple[str, str]] | int]
"""Returns the names and groups of the jobs that a list of triggers has with some filters, or the status of an error."""


@pytest.fixture
def faces(terminal: Terminal) -> dict[str, Face]:
    for name, group in KEYS:
        terminal.scheduler.schedule_job(
            JobDetail(Quick, name, group),
            every("1h", name=name, group=group, start_time=datetime(2090, 1, 1, tzinfo=UTC)),
        )
    client = TestClient(create_app(terminal.scheduler), raise_server_exceptions=False, **LOCAL)

    def command(kind: str, filters: dict[str, str]) -> list[tuple[str, str]] | int:
        options = [word for name, text in filters.items() for word in (f"--{name}", text)]
        done = terminal.run(kind, *options, "--json")
        if done.status:
            return 400 if done.status == 2 else 404
        return [(one["key"]["name"], one["key"]["group"]) for one in json.loads(done.out)["items"]]

    def api(kind: str, filters: dict[str, str]) -> list[tuple[str, str]] | int:
        answer = client.get(f"{PREFIX}/{kind}", params=filters)
        if answer.status_code != 200:
            return answer.status_code
        return [(one["key"]["name"], one["key"]["group"]) for one in answer.json()["items"]]

    def page(kind: str, filters: dict[str, str]) -> list[tuple[str, str]] | int:
        answer = client.get(f"/{kind}", params=filters)
        if answer.status_code != 200:
            return answer.status_code
        links = re.findall(rf'href="(/{kind[:-1]}\?[^"]*)"', answer.text)
        queries = [parse_qs(urlsplit(unescape(link)).query) for link in dict.fromkeys(links)]
        return [(query["name"][0], query["group"][0]) for query in queries]

    return {"command": command, "API": api, "page": page}


ALL = sorted(KEYS)


@pytest.mark.parametrize(
    ("kind", "filters", "selected"),
    [
        ("jobs", {"group": "*mail*"}, [("other", "hotmail-eu"), ("plain", "mail")]),
        ("jobs", {"group": "*mail"}, [("plain", "mail")]),
        ("jobs", {"group": "mail*"}, [("plain", "mail")]),
        ("jobs", {"group": "mail"}, [("plain", "mail")]),
        ("jobs", {"group": "*"}, ALL),
        ("jobs", {"group": "***"}, ALL),
        ("triggers", {"group": "*"}, ALL),
        ("jobs", {"group": "a*b"}, 400),
        ("jobs", {"group": "*a*b*"}, 400),
        ("triggers", {"group": "*.b"}, [("c", "a.b")]),
        ("triggers", {"job": "a.b.c"}, [("c", "a.b")]),
        ("triggers", {"job": "x.c.d"}, [("c.d", "x")]),
        ("triggers", {"job": "dotted.name"}, [("dotted.name", "DEFAULT")]),
        ("triggers", {"job": "DEFAULT.dotted.name"}, [("dotted.name", "DEFAULT")]),
        ("triggers", {"job": "mail.plain"}, [("plain", "mail")]),
        ("triggers", {"state": "waiting"}, ALL),
        ("triggers", {"state": "Paused-Blocked"}, []),
        ("triggers", {"state": "hungry"}, 400),
        ("jobs", {"mode": "enabled"}, ALL),
        ("jobs", {"mode": "ENABLED"}, ALL),
    ],
)
def test_the_same_text_selects_the_same_at_every_face(
    faces: dict[str, Face], kind: str, filters: dict[str, str], selected: list[tuple[str, str]] | int
) -> None:
    for name, face in faces.items():
        answer = face(kind, filters)
        assert (answer if isinstance(answer, int) else sorted(answer)) == selected, name


def test_a_text_with_several_stored_readings_is_refused_at_every_face(
    terminal: Terminal, faces: dict[str, Face]
) -> None:
    terminal.scheduler.schedule_job(JobDetail(Quick, "b.c", "a"), every("1h", name="b.c", group="a"))
    for name, face in faces.items():
        assert face("triggers", {"job": "a.b.c"}) == 400, name


def test_an_unknown_key_is_answered_with_the_nearest_one(terminal: Terminal, faces: dict[str, Face]) -> None:
    client = TestClient(create_app(terminal.scheduler), **LOCAL)
    assert "did you mean mail.plain?" in terminal.run("show", "job", "mail.plian").err
    assert "did you mean mail.plain?" in client.get(f"{PREFIX}/job?group=mail&name=plian").json()["detail"]
    page = client.get("/job?group=mail&name=plian")
    assert (page.status_code, 'href="/job?group=mail&amp;name=plain"' in page.text) == (404, True)
    page = client.get("/job?group=a.b&name=cc")
    assert page.status_code == 404


@pytest.mark.parametrize(
    ("text", "group", "readings"),
    [
        ("a", None, [("a", "DEFAULT")]),
        ("a.b", None, [("b", "a"), ("a.b", "DEFAULT")]),
        ("a.b.c", None, [("c", "a.b"), ("b.c", "a"), ("a.b.c", "DEFAULT")]),
        (".a", None, [(".a", "DEFAULT")]),
        ("a.", None, [("a.", "DEFAULT")]),
        ("a.b", "g", [("a.b", "g")]),
    ],
)
def test_the_readings_of_a_key(text: str, group: str | None, readings: list[tuple[str, str]]) -> None:
    assert key_readings(text, JobKey, group) == [JobKey(*reading) for reading in readings]


def test_a_text_that_no_key_can_have_is_refused() -> None:
    with pytest.raises(InvalidKeyError):
        key_readings("", JobKey)
    for text in ("", "a*b"):
        with pytest.raises(InvalidValueError, match="group: must be a group"):
            read_group(text)


NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "direction", "at"),
    [
        ("now", PAST, NOW),
        ("2h", PAST, NOW - timedelta(hours=2)),
        ("2h", FUTURE, NOW + timedelta(hours=2)),
        ("+2h", PAST, NOW + timedelta(hours=2)),
        ("-1h30m", FUTURE, NOW - timedelta(minutes=90)),
        ("today", PAST, datetime(2026, 3, 28, 23, tzinfo=UTC)),
        ("tomorrow", PAST, datetime(2026, 3, 29, 22, tzinfo=UTC)),
        ("18:00", PAST, datetime(2026, 3, 29, 16, tzinfo=UTC)),
        ("2026-03-29T18:00", PAST, datetime(2026, 3, 29, 16, tzinfo=UTC)),
        ("2026-03-29", PAST, datetime(2026, 3, 28, 23, tzinfo=UTC)),
        ("2026-03-29T18:00Z", PAST, datetime(2026, 3, 29, 18, tzinfo=UTC)),
        ("2026-03-29T18:00:00 02:00", PAST, datetime(2026, 3, 29, 16, tzinfo=UTC)),
    ],
)
def test_the_readings_of_an_instant(text: str, direction: int, at: datetime) -> None:
    assert read_instant(text, "since", lambda: NOW, BERLIN, direction=direction) == at


@pytest.mark.parametrize("text", ["18:00", "today", "2026-03-29T18:00", "soonish", "", "9999999h"])
def test_without_a_zone_an_instant_needs_an_offset(text: str) -> None:
    with pytest.raises(InvalidValueError, match=r"^since: "):
        read_instant(text, "since", lambda: NOW, None)


def test_a_sentence_links_the_keys_that_it_has_and_not_its_words() -> None:
    links, times = Links(""), Times(lambda: NOW, "UTC", "server")
    job, trigger = JobKey("b.c d", "a"), TriggerKey("b.c d", "a")
    sentence = "Job a.b.c d waits for trigger a.b.c d of job other.job: no trigger e.f, job a.b.c dx"
    assert 'href="/job' not in said(times, sentence, links)
    text = str(said(times, sentence, links, (trigger, job, None)))
    assert text.startswith('Job <a href="/job?group=a&amp;name=b.c+d">a.b.c d</a> waits')
    assert 'trigger <a href="/trigger?group=a&amp;name=b.c+d">a.b.c d</a> of job other.job' in text
    assert text.count("<a ") == 2
    assert said(times, Naming("It is held by job x.y.z.", JobKey("y.z", "x")), links).count("name=y.z") == 1
    hostile = JobKey("<b>(.*", "g")
    assert "&lt;b&gt;(.*</a>" in said(times, "Job g.<b>(.* failed", links, [hostile])
