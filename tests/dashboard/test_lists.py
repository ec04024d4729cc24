"""The lists: how the runs of their rows went, their order and columns, and what they leave out."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard import create_app
from quartzpy.keys import CONTINUATIONS, MANUAL_TRIGGERS, RECOVERING_JOBS, RETRYING_JOBS
from quartzpy.states import Outcome
from quartzpy.store.protocol import NamedTriggers
from tests.contract.conftest import sql_backends as sql_backends
from tests.contract.conftest import store as store
from tests.contract.harness import HOUR, SECOND, Harness, at, every, job, key, once
from tests.dashboard.conftest import LOCAL, THIS_USER
from tests.full_reads import _every_read_is_full as _every_read_is_full


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        metafunc.parametrize("store", ["postgresql"], indirect=True)


@pytest.fixture
def page(store: Harness) -> TestClient:
    return TestClient(create_app(Scheduler(store.store, name="contract"), auth=THIS_USER, read_only=False), **LOCAL)


def names(client: TestClient, path: str, kind: str) -> list[str]:
    """The names of the rows of a list, in their order."""
    rows = re.findall(rf'<tr[^>]*>.*?href="/{kind}\?[^"]*?name=([^"&]+)"', client.get(path).text, re.DOTALL)
    return [unescape(name) for name in rows]


def heads(client: TestClient, path: str) -> list[str]:
    [head] = re.findall(r"<thead>(.*?)</thead>", client.get(path).text, re.DOTALL)
    return [
        re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<th(?! class=\"check).*?</th>", head, re.DOTALL)
    ]


def run(store: Harness, node: Any, *, failing: str = "", lasting: timedelta = SECOND) -> None:
    """Run everything that is due; the job `failing` fails."""
    for fired in store.fire_due(node):
        started = store.clock.now()
        store.clock.advance(lasting)
        failed = {"outcome": Outcome.FAILED, "error": "ValueError: x"} if fired.job_key.name == failing else {}
        ended = store.ended(fired, **failed)
        store.store.complete(node, [ended.__class__(fired, started, ended.ended_at, ended.outcome, error=ended.error)])


def test_a_short_list_of_jobs_is_sorted_by_any_column(store: Harness, page: TestClient) -> None:
    node = store.node()
    for number, name in enumerate(("a", "bad", "c")):
        store.schedule(job(name), every(3600, name, start=at(number)))
    store.clock.advance(5 * SECOND)
    run(store, node, failing="bad")
    assert names(page, "/jobs", "job") == ["a", "bad", "c"]
    assert names(page, "/jobs?sort=-failed", "job")[0] == "bad"
    assert names(page, "/jobs?sort=result", "job")[0] == "bad"
    assert names(page, "/jobs?sort=-job", "job") == ["c", "bad", "a"]
    text = page.get("/jobs?sort=-failed").text
    assert re.search(r'aria-sort="descending"[^>]*><a class="sort" href="/jobs\?sort=failed">Failed', text)
    assert 'aria-label="1 run: 1 failed; 1.0 s to 1.0 s"' in text
    assert "1 of 1" in text
    assert names(page, "/jobs?sort=nonsense", "job") == ["a", "bad", "c"]
    assert names(page, "/jobs?sort=-failed&contains=c", "job") == ["c"]


def test_a_long_list_offers_the_orders_of_its_indexes_only(
    store: Harness, page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quartzpy.dashboard.pages.MAX_SORTED", 3)
    monkeypatch.setattr("quartzpy.dashboard.pages.PAGE_SIZE", 2)
    for number in range(4):
        store.schedule(job(f"j{number}"), every(3600, f"t{number}", start=at(60 - number)))
    text = page.get("/jobs?sort=-failed").text
    assert names(page, "/jobs?sort=-failed", "job") == ["j0", "j1"]
    assert "aria-sort" in text
    assert 'sort=-failed"' not in re.findall(r"<thead>(.*?)</thead>", text, re.DOTALL)[0]
    assert names(page, "/triggers?sort=next", "trigger") == ["t3", "t2"]
    head = re.findall(r"<thead>(.*?)</thead>", page.get("/triggers").text, re.DOTALL)[0]
    assert re.findall(r'href="/triggers\?sort=([^"]*)"', head) == ["next"]
    store.store.pause(NamedTriggers([key("t0")]))
    # One that fits the bound is read as a whole, beyond one page too.
    assert names(page, "/jobs?sort=-job&contains=j&group=DEFAULT&job_type=", "job") == ["j0", "j1"]
    monkeypatch.setattr("quartzpy.dashboard.pages.MAX_SORTED", 4)
    assert names(page, "/jobs?sort=-job", "job") == ["j3", "j2", "j1", "j0"]
    assert 'href="/jobs?sort=-failed"' in page.get("/jobs").text


def test_columns_are_chosen_and_kept_for_each_list(store: Harness, page: TestClient) -> None:
    store.schedule(job("a"), every(3600, "a"))
    assert "Last fire" in heads(page, "/jobs")[-1]
    answer = page.get("/jobs?contains=a&columns=&columns=p50&columns=next", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?contains=a")
    assert heads(page, "/jobs") == ["Job", "p50", "Next fire"]
    assert "Last runs" not in heads(page, "/triggers")
    page.get("/triggers?columns=runs&columns=nonsense")
    assert heads(page, "/triggers") == ["Trigger", "Last runs"]
    assert heads(page, "/jobs") == ["Job", "p50", "Next fire"]
    page.get("/jobs?columns=")
    assert heads(page, "/jobs") == ["Job"]
    page.get("/executions?columns=&columns=error")
    run(store, store.node())
    assert heads(page, "/executions") == ["Ended", "Error"]


def test_triggers_that_nobody_scheduled_to_repeat_are_left_out_until_they_are_wanted(
    store: Harness, page: TestClient
) -> None:
    groups = (MANUAL_TRIGGERS, RETRYING_JOBS, RECOVERING_JOBS, CONTINUATIONS)
    others = [every(3600, f"of-{group}", group=group) for group in groups]
    store.schedule(job("a"), every(3600, "often"), once("once", at(HOUR.total_seconds())), *others)
    text = re.sub(r"<[^>]*>", "", page.get("/triggers").text)
    assert names(page, "/triggers", "trigger") == ["often"]
    assert names(page, "/triggers?sort=next", "trigger") == ["often"]
    assert "Triggers that fire once are left out, and 4 of runs by hand, retries and the like." in text
    assert len(names(page, "/triggers?all=yes", "trigger")) == 6
    assert len(names(page, "/triggers?job=a&job_group=DEFAULT", "trigger")) == 6, "a filter searches all"
    shown = re.sub(r"<[^>]*>", "", page.get("/triggers?all=yes").text)
    assert "by hand" in shown
    assert "left out" not in shown
    # What is done to all that match is done to these.
    text = page.get("/triggers").text
    token = re.findall(r'name="csrf_token" value="([^"]+)"', text)[0]
    assert 'formaction="/actions/pause"' in text
    asked = page.post("/actions/pause", data={"csrf_token": token, "of": "triggers", "scope": "all"})
    assert "Pause 1 trigger" in re.sub(r"<[^>]*>", "", asked.text)


def test_a_list_of_what_fires_once_says_that_it_leaves_them_out(store: Harness, page: TestClient) -> None:
    store.schedule(job("a"), once("once", at(HOUR.total_seconds())))
    assert "No trigger fires by a schedule." in page.get("/triggers").text


def test_executions_are_sorted_by_duration_and_by_lateness(store: Harness, page: TestClient) -> None:
    node = store.node()
    for name, late, lasts in (("quick", 9, 1), ("slow", 1, 5), ("medium", 4, 3)):
        store.schedule(job(name), once(name, store.clock.now()))
        store.clock.advance(late * SECOND)
        run(store, node, lasting=lasts * SECOND, failing="medium")
    assert names(page, "/executions?sort=-ran", "job") == ["slow", "medium", "quick"]
    assert names(page, "/executions?sort=-waited", "job") == ["quick", "medium", "slow"]
    assert names(page, "/executions?sort=-ran&job=slow", "job") == ["slow"]
    assert names(page, "/executions?sort=-ran&state=FAILED", "job") == ["medium"]
    assert names(page, "/executions?sort=-ran&trigger=quick", "job") == ["quick"]
    ended = names(page, "/executions", "job")
    assert ended == ["medium", "slow", "quick"]
    assert 'aria-sort="descending"' in page.get("/executions?sort=-ran").text
    # Those that run have no duration yet: no order is offered, and none is obeyed.
    assert "sort=-ran" not in page.get("/executions?state=RUNNING").text.partition("<main>")[2]
    assert page.get("/executions?state=RUNNING&sort=-ran").status_code == 200


def test_the_longest_executions_are_those_of_a_span_that_is_named(
    store: Harness, page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quartzpy.operations.views.executions.EXAMINED", 2)
    node = store.node()
    for lasts in (9, 1, 2):
        store.schedule(job(f"lasts-{lasts}"), once(f"lasts-{lasts}", store.clock.now()))
        run(store, node, lasting=lasts * SECOND)
    text = re.sub(r"<[^>]*>", "", page.get("/executions?sort=-ran").text)
    assert names(page, "/executions?sort=-ran", "job") == ["lasts-2", "lasts-1"]
    assert "among the latest 20,000: they ended since" in text
    [on] = re.findall(r'rel="next" href="([^"]*)">Search on', page.get("/executions?sort=-ran").text)
    assert names(page, unescape(on), "job") == ["lasts-9"]
    assert 'rel="next"' not in page.get(unescape(on)).text


def test_a_filter_by_a_job_that_is_not_stored_says_so(store: Harness, page: TestClient) -> None:
    store.schedule(job("charge-cards", "billing"), every(3600, "often"))
    text = page.get("/executions?job=billing.chrge-cards").text
    assert "The job <bdi>billing.chrge-cards</bdi> is not stored." in text
    link = re.findall(r'Did you mean <a href="([^"]*)"><bdi>billing.charge-cards</bdi>', text)
    assert link == ["/executions?job=charge-cards&amp;job_group=billing"]
    run(store, store.node())
    found = page.get(unescape(link[0])).text
    assert 'value="billing.charge-cards"' in found
    assert "is not stored" not in found
    assert names(page, "/executions?job=billing.charge-cards", "job") == ["charge-cards"]
