"""Each page: it answers, it escapes, and its links lead back to what they name."""

from __future__ import annotations

import re
from datetime import timedelta
from html import escape, unescape
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from quartzpy import JobDetail, Scheduler
from quartzpy.dashboard import create_app
from quartzpy.keys import TriggerKey
from quartzpy.operations import Operations
from quartzpy.operations.views import search
from tests.dashboard.conftest import LOCAL
from tests.dashboard.scene import HOSTILE
from tests.dashboard.troubles import Quick
from tests.database import connect_to

PAGES = ("/", "/jobs", "/triggers", "/executions", "/misfires", "/nodes")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_answers_as_a_document_and_as_a_fragment(client: TestClient, path: str) -> None:
    whole = client.get(path)
    assert whole.status_code == 200, whole.text
    assert whole.text.startswith("<!doctype html>")
    part = client.get(path, headers={"HX-Request": "true"})
    assert part.status_code == 200
    assert part.text.strip().startswith('<div id="content"')
    # Only what the script asks for is compressed, if it is large: a whole page has the CSRF token.
    assert ("content-encoding" in part.headers) is (len(part.content) >= 1_000)
    assert "content-encoding" not in whole.headers
    plain = client.get(path, headers={"HX-Request": "true", "Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text.strip().startswith('<div id="content"')


@pytest.mark.parametrize("kind", ["job", "trigger"])
def test_hostile_names_are_escaped_and_their_links_lead_to_their_page(client: TestClient, kind: str) -> None:
    listing = client.get(f"/{kind}s?all=yes").text
    links = dict.fromkeys(unescape(link) for link in re.findall(rf'href="(/{kind}\?[^"]*)"', listing))
    titles = set()
    for link in links:
        page = client.get(link)
        assert page.status_code == 200, link
        for raw in HOSTILE:
            assert raw not in page.text or not set(raw) & set("<>\"'&"), link
        found = re.search(r"<h1><bdi>(.*?)</bdi>", page.text, re.DOTALL)
        assert found is not None
        titles.add(unescape(found[1]))
    assert titles >= set(HOSTILE)


@pytest.mark.parametrize("name", HOSTILE)
def test_lists_find_what_a_hostile_name_selects(client: TestClient, name: str) -> None:
    filters = {"job": name, "job_group": "DEFAULT"}
    assert (
        escape(f"/trigger?{urlencode({'group': 'DEFAULT', 'name': name})}")
        in client.get("/triggers", params=filters).text
    )
    for path in ("/executions", "/misfires"):
        assert client.get(path, params=filters).status_code == 200
    assert urlencode({"name": name}) in unescape(client.get("/jobs", params={"contains": name}).text)
    assert urlencode({"name": name}) in unescape(client.get("/search", params={"q": name}).text)


def test_an_empty_list_says_what_it_looked_for(client: TestClient) -> None:
    page = client.get("/jobs?contains=<b>nothing").text
    assert "No jobs match" in page
    assert "&lt;b&gt;nothing" in page


def test_a_search_that_stopped_says_so_and_goes_on(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    # The last letters of a name, which no index finds.
    texts = [client.get("/search?q=othing-like-this").text]
    assert "Search on" not in texts[0]
    monkeypatch.setattr(search, "SEARCHED", 1)
    texts = [client.get("/search?q=othing-like-this").text]
    while (on := re.search(r'rel="next" href="([^"]*)"', texts[-1])) is not None:
        assert "more are left" in texts[-1]
        texts.append(client.get(unescape(on[1])).text)
    assert len(texts) > 2
    assert "No more names have" in texts[-1]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/nowhere", 404, "This dashboard has no page /nowhere."),
        ("/job?name=missing", 404, "missing"),
        ("/job", 400, "name"),
        ("/executions/abc", 400, "abc"),
        ("/executions/1", 404, "1"),
        ("/triggers?state=WRONG", 400, "WRONG"),
        ("/executions?since=soonish", 400, "soonish"),
        ("/jobs?after=nonsense", 400, "cursor"),
    ],
)
def test_an_error_has_a_page_that_says_what_was_wrong(client: TestClient, path: str, status: int, text: str) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert text in unescape(answer.text)
    assert 'aria-label="Pages"' in answer.text


def test_secrets_in_data_are_hidden(client: TestClient) -> None:
    page = client.get("/job?group=billing&name=nightly").text
    assert "region" in page
    assert "t0p" not in page


@pytest.mark.parametrize("name", ["Nightly report", None])
def test_a_job_links_its_documentation(scheduler: Scheduler, client: TestClient, name: str | None) -> None:
    url = 'https://wiki.example.com/nightly?a=1&b="><script>'
    scheduler.add_job(JobDetail(Quick, "job", durable=True, display_name=name, documentation_url=url))
    page = client.get("/job?group=DEFAULT&name=job").text
    [attributes] = re.findall(r"<a ([^>]*)>documentation</a>", page)
    href = "https://wiki.example.com/nightly?a=1&amp;b=&#34;&gt;&lt;script&gt;"
    assert attributes == f'href="{href}" rel="noopener noreferrer"'


def test_a_job_without_documentation_links_none(scheduler: Scheduler, client: TestClient) -> None:
    scheduler.add_job(JobDetail(Quick, "job", durable=True, display_name="Nightly report"))
    assert "documentation</a>" not in client.get("/job?group=DEFAULT&name=job").text


def test_an_execution_that_has_ended_shows_where_its_time_went(postgres_dsn: str) -> None:
    with Scheduler(postgres_dsn, name="timed") as scheduler:
        scheduler.add_job(JobDetail(Quick, "job", durable=True))
        ended = scheduler.trigger_job("job").wait(60)
        page = TestClient(create_app(scheduler), **LOCAL).get(f"/executions/{ended.fire_id}").text
    assert re.findall(r"</i>(\w+) ", page) == ["waited", "queued", "ran"]


def test_a_job_that_cannot_be_read_shows_no_rules_that_it_does_not_have(postgres_dsn: str) -> None:
    with Scheduler(postgres_dsn, name="poisoned") as scheduler:
        detail = JobDetail(Quick, "job", durable=True, max_concurrent=1, data={"region": "eu"})
        scheduler.add_job(detail)
        client = TestClient(create_app(scheduler), **LOCAL)
        assert "at most 1" in client.get("/job?group=DEFAULT&name=job").text
        with connect_to(postgres_dsn) as connection:
            connection.execute(
                """UPDATE qrtz_job_details SET definition = '{"timeout": -1}' WHERE sched_name = 'poisoned'"""
            )
        page = client.get("/job?group=DEFAULT&name=job").text
        scheduler.delete_job("job")
    assert "unreadable: " in page
    for wrong in ("no limit", "Timeout", "Durable", "<h2>Data</h2>"):
        assert wrong not in page


def test_relative_times_are_by_the_clock_of_the_store(
    scheduler: Scheduler, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_two = scheduler.trigger_record(TriggerKey("at-two", "billing"))
    assert at_two is not None
    assert at_two.next_fire_time is not None
    ahead = at_two.next_fire_time - timedelta(hours=3)
    # The machine of the dashboard may have a wrong clock.
    monkeypatch.setattr(Operations, "now", lambda operations: ahead)
    assert ">in 3 h</time>" in client.get("/trigger?group=billing&name=at-two").text


def test_a_list_that_has_searched_a_part_leads_on(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quartzpy.operations.views.triggers.EXAMINED", 1)
    page = client.get("/triggers?contains=no-such-name").text
    assert "None of the 1 triggers searched match" in page
    assert "Search on" in page


def test_executions_are_found_by_their_error_and_a_span(client: TestClient, postgres_dsn: str) -> None:
    """As the form sends it: a part of the error, and two times of the reader's clock."""
    with connect_to(postgres_dsn) as connection:
        for fire_id, error in ((901, "ValueError: feed 7"), (902, "KeyError: 'id'")):
            connection.execute(
                """
                INSERT INTO qrtz_executions (fire_id, sched_name, trigger_group, trigger_name, generation, job_group,
                    job_name, job_type, instance_id, fired_time, scheduled_time, ended_at, outcome, error)
                SELECT %s, 'scene', 'g', 't', %s, 'g', 'j', 'x:J', 'n', at, at, at, 'FAILED', %s
                  FROM (SELECT timestamptz '2026-03-02 12:00Z' AS at) AS s
                """,
                [fire_id, fire_id, error],
            )

    def found(**query: str) -> list[str]:
        page = client.get("/executions", params={"zone": "Asia/Kolkata", **query})
        return sorted(set(re.findall(r'href="/executions/(\d+)', page.text)))

    assert found(error="feed 7") == ["901"]
    # The errors of a job lead to their executions.
    with connect_to(postgres_dsn) as connection:
        [(group, name)] = connection.execute("SELECT job_group, job_name FROM qrtz_job_details LIMIT 1").fetchall()
        connection.execute("UPDATE qrtz_executions SET job_group = %s, job_name = %s", [group, name])
    page = client.get("/job", params={"group": group, "name": name}).text
    [link] = [unescape(url) for url in re.findall(r'href="([^"]*error=[^"]*)"', page) if "feed" in url]
    assert re.findall(r'href="/executions/(\d+)', client.get(link).text)[:1] == ["901"]
    assert found(error="Error") == ["901", "902"]
    assert found(error="no such") == []
    assert found(**{"error": "Error", "from": "2026-03-02T17:29", "to": "2026-03-02T17:31"}) == ["901", "902"]
    assert found(**{"error": "Error", "from": "2026-03-02T17:31"}) == []
    assert found(error="Error", to="2026-03-02T17:30") == []


@pytest.mark.parametrize("path", ["/misfires", "/audit"])
def test_misfires_and_actions_are_found_by_a_span(client: TestClient, postgres_dsn: str, path: str) -> None:
    with connect_to(postgres_dsn) as connection:
        connection.execute(
            """
            INSERT INTO qrtz_misfires (id, sched_name, trigger_group, trigger_name, generation, job_group, job_name,
                instance_id, handled_at, misfire_instruction, action, scheduled_time, missed, has_more, caught_up)
            SELECT 1, 'scene', 'g', 'marked-in-march', 1, 'g', 'j', 'n', at, 'smart', 'SKIPPED', at, '{}', false, 0
              FROM (SELECT timestamptz '2026-03-02 12:00Z' AS at) AS s
            """
        )
        connection.execute(
            """
            INSERT INTO qrtz_audit (id, sched_name, at, actor, role, action, subject, reason, state, count)
            VALUES (1, 'scene', '2026-03-02 12:00Z', 'marked-in-march', 'admin', 'pause', 'all', '', 'SUCCEEDED', 1)
            """
        )
    spans = {"2026-03-02T17:29": True, "2026-03-02T17:31": False}
    for at, is_found in spans.items():
        page = client.get(path, params={"zone": "Asia/Kolkata", "from": at})
        assert ("marked-in-march" in page.text) is is_found
        page = client.get(path, params={"zone": "Asia/Kolkata", "to": at})
        assert ("marked-in-march" in page.text) is not is_found
        assert f'name="to" value="{at}"' in page.text


def test_an_empty_scheduler_begins_with_three_steps(postgres_dsn: str) -> None:
    empty = Scheduler(postgres_dsn, name="new-shop")
    page = TestClient(create_app(empty), **LOCAL)
    text = unescape(page.get("/").text)
    assert "Three steps to the first fire" in text
    assert 'name="new-shop"' in text
    assert "No node is running" not in text
    # The program of the page is one that runs.
    [program] = re.findall(r"<pre>(from quartzpy.*?)</pre>", text, re.DOTALL)
    compile(program, "jobs.py", "exec")
    empty.schedule_job(JobDetail("x:J", "job"), "0 0 2 * * ?")
    later = unescape(page.get("/").text)
    assert "No node is running, so nothing fires." in later
    assert "Three steps" not in later
    empty.shutdown()
