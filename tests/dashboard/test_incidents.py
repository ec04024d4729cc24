"""The pages show what is wrong, what somebody has taken note of, and what was; and how a run ended."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard import create_app
from quartzpy.operations import Operations
from quartzpy.states import Outcome, TriggerState
from quartzpy.store.postgresql.admin import admin
from tests.admin.conftest import pytest_generate_tests as pytest_generate_tests
from tests.contract.conftest import sql_backends as sql_backends
from tests.contract.conftest import store as store
from tests.contract.harness import SECOND, Harness, at, every, job, key
from tests.dashboard.conftest import LOCAL, THIS_USER
from tests.dashboard.test_states import do
from tests.database import execute
from tests.operations.test_health_check import judge_once
from tests.operations.test_incidents import a_node

SENTENCE = "Trigger DEFAULT.bad is in ERROR and does not fire."


@pytest.fixture
def operations(store: Harness) -> Operations:
    return Operations(Scheduler(store.store, name="contract"))


@pytest.fixture
def client(operations: Operations) -> TestClient:
    return TestClient(create_app(operations.scheduler, auth=THIS_USER, read_only=False), **LOCAL)


@pytest.fixture
def incident(store: Harness, operations: Operations) -> int:
    """The number of an incident that is recorded."""
    node = a_node(store)
    judge_once(store, operations)
    store.schedule(job("bad"), every(3600, "bad", start=at(3600)))
    store.set_state(key("bad"), TriggerState.ERROR)
    store.store.check_in(node)
    judge_once(store, operations)
    [record] = admin(store.store).open_incidents(10)
    return record.incident_id


def panel(text: str, heading: str) -> str:
    """Return the panel of a page with this id of its heading."""
    [found] = re.findall(rf'<section class="panel[^"]*" aria-labelledby="{heading}">.*?</section>', text, re.DOTALL)
    return found


def test_an_incident_is_acknowledged_on_the_page_and_shown_again(
    store: Harness, client: TestClient, incident: int
) -> None:
    overview = client.get("/").text
    [link] = re.findall(r'href="(/actions/acknowledge\?[^"]+)"', panel(overview, "incidents"))
    form = client.get(link).text
    assert f"Acknowledge <bdi>incident {incident}</bdi>" in form
    assert SENTENCE in form
    refused = do(client, link)
    assert refused.status_code == 422
    assert "reason: say why nothing has to be done now" in refused.text
    answer = do(client, link, reason="<b>known</b>", until="2026-03-02T14:00")
    assert answer.status_code == 200, answer.text
    assert f"Incident {incident} is acknowledged until" in answer.text
    lasting = panel(client.get("/incidents").text, "now")
    assert "No incidents last" in lasting
    for path, heading in (("/", "incidents"), ("/incidents", "now")):
        shown = panel(client.get(path).text, heading)
        assert "No incidents" in shown
        assert "1 acknowledged incident" in shown
        assert "&lt;b&gt;known&lt;/b&gt;" in shown
        assert "/actions/acknowledge?" not in shown
        [undo] = re.findall(r'href="(/actions/unacknowledge\?[^"]+)"', shown)
    assert do(client, undo).status_code == 200
    assert "1 incident<" in panel(client.get("/").text, "incidents")


def test_what_is_over_stays_for_a_day_and_is_found_by_text_and_span(
    store: Harness, client: TestClient, operations: Operations, incident: int
) -> None:
    assert 'id="was"' not in client.get("/").text
    operations.actions.reset(key("bad"))
    judge_once(store, operations)
    was = panel(client.get("/").text, "was")
    assert SENTENCE in was
    assert ">5.0 s<" in was, "it lasted so long"

    def over(**filters: str) -> str:
        return panel(client.get("/incidents", params=filters).text, "over")

    assert SENTENCE in over()
    assert SENTENCE in over(contains="in error")
    assert "No incidents match" in over(contains="elsewhere")
    assert "No incidents match" in over(kind="dead-node")
    store.clock.advance(timedelta(days=1, seconds=1))
    assert 'id="was"' not in client.get("/").text
    assert "No incident ended within the last day." in over()
    assert SENTENCE in over(since="7d")
    past = client.get("/api/v1/past-incidents", params={"contains": "BAD"}).json()
    assert [row["incident_id"] for row in past["items"]] == [incident]
    one = client.get("/api/v1/incident", params={"incident_id": incident}).json()
    assert (one["what"], one["lasted"]) == (SENTENCE, past["items"][0]["lasted"])


def test_the_page_says_whom_an_incident_was_told_to(
    store: Harness, client: TestClient, operations: Operations, incident: int, postgres_dsn: str
) -> None:
    assert "that it began" not in client.get("/incidents").text
    at = store.clock.now().isoformat()
    execute(
        postgres_dsn,
        f"""INSERT INTO qrtz_notifications (sched_name, id, channel, event, message, created_at, attempts, delivered_at,
                failed_at, error)
            VALUES ('contract', 'n1', 'ops', 'began', '{{}}', '{at}', 1, '{at}', NULL, NULL),
                   ('contract', 'n2', 'team', 'began', '{{}}', '{at}', 20, NULL, '{at}', 'no <answer>'),
                   ('contract', 'n3', 'wait', 'lasts', '{{}}', '{at}', 0, NULL, NULL, NULL) RETURNING 1""",
    )
    note = {"at": at, "severity": "error"}
    notified = {
        "ops": {**note, "ids": ["n1", "gone"]},
        "team": {**note, "ids": ["n2"]},
        "wait": {**note, "ids": ["n3"]},
    }
    execute(postgres_dsn, f"UPDATE qrtz_incidents SET notified = '{json.dumps(notified)}' RETURNING 1")
    lines = [
        " ".join(re.sub("<[^>]+>", "", row).split())
        for row in re.findall("<li>(.*?)</li>", panel(client.get("/incidents").text, "now"), re.DOTALL)
    ]
    told = [line for line in lines if line.startswith(("ops", "team", "wait"))]
    assert [line.partition(" at ")[0].partition(" since ")[0] for line in told] == [
        "ops: that it began, delivered",
        "team: that it began, not delivered after 20 attempts: no &lt;answer&gt;",
        "wait: that it lasts, to be sent",
    ]
    one = client.get("/api/v1/incident", params={"incident_id": incident}).json()
    assert [(row["channel"], row["attempts"], row["error"]) for row in one["notifications"]] == [
        ("ops", 1, None),
        ("team", 20, "no <answer>"),
        ("wait", 0, None),
    ]
    operations.actions.reset(key("bad"))
    judge_once(store, operations)
    assert "who was notified" in panel(client.get("/incidents").text, "over")


def test_the_api_acknowledges_with_the_same_words(client: TestClient, incident: int) -> None:
    url, headers = "/api/v1/actions/acknowledge", {"X-Requested-With": "tests"}
    token = re.search(
        r'name="csrf_token" value="([^"]+)"', client.get(f"/actions/acknowledge?incident={incident}").text
    )
    assert token is not None
    headers |= {"X-CSRF-Token": token[1]}
    wrong = client.post(url, json={"incident": "x", "reason": "known"}, headers=headers)
    assert wrong.status_code == 400, wrong.text
    assert "incident: must be a whole number from 1 on" in wrong.text
    body = {"incident": incident, "until": None, "reason": "known"}
    answer = client.post(url, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.json()["text"] == f"Incident {incident} is acknowledged until it is over: {SENTENCE}"
    wrong_link = client.get("/actions/acknowledge?incident=x")
    assert wrong_link.status_code == 400
    assert client.get("/actions/acknowledge?incident=999999").status_code == 404
    known = client.get("/api/v1/incidents").json()
    assert known["incidents"] == []
    assert known["acknowledged"][0]["acknowledgement"]["reason"] == "known"


def follow(client: TestClient, url: str) -> tuple[str, str]:
    """Do an action, and return the notice with its end, and the URL that asks for it."""
    text = do(client, url).text
    [(said, query)] = re.findall(r'<p class="notice" role="status">(.*?) <span hx-get="([^"]+)"', text)
    return said, query.replace("&amp;", "&")


def test_the_notice_of_a_run_follows_it_to_its_end(store: Harness, client: TestClient) -> None:
    node = a_node(store)
    store.schedule(job("report", durable=True), every(3600, "hourly"))
    fired = store.fire_one(node)
    store.complete(node, fired, outcome=Outcome.FAILED, error="ValueError: no feed")
    said, query = follow(client, f"/actions/run_again?fire_id={fired.fire_id}")
    assert said.startswith(f"Execution {fired.fire_id} of job DEFAULT.report runs again")
    assert "hx-get=" in client.get(query).text, "it is asked again"
    again = store.fire_one(node)
    assert "It runs." in client.get(query).text
    store.clock.advance(2 * SECOND)
    store.complete(node, again, outcome=Outcome.FAILED, error="Traceback\nValueError: no <feed>")
    end = client.get(query).text
    assert '<span class="bad"><bdi>It ran again and failed: ValueError: no &lt;feed&gt;</bdi></span>' in end
    _, query = follow(client, "/actions/trigger?kind=job&group=DEFAULT&name=report")
    run, started = store.fire_one(node), store.clock.now()
    store.clock.advance(2 * SECOND)
    store.complete(node, run, started_at=started)
    assert client.get(query).text.strip() == "<span><bdi>It ran and succeeded, in 2s.</bdi></span>"
    assert "hx-get" not in re.findall(r'<p class="notice".*?</p>', client.get("/").text), "it is shown once"


def test_the_notice_of_a_reset_says_that_the_trigger_failed_again(store: Harness, client: TestClient) -> None:
    node = a_node(store)
    store.schedule(job("report"), every(10, "often"))
    store.set_state(key("often"), TriggerState.ERROR)
    _, query = follow(client, "/actions/reset?kind=trigger&group=DEFAULT&name=often")
    assert "hx-get=" in client.get(query).text
    store.complete(node, store.fire_one(node), outcome=Outcome.FAILED, error="KeyError: 'x'")
    assert "It ran again and failed: KeyError: &#39;x&#39;" in client.get(query).text
    store.set_state(key("often"), TriggerState.ERROR)
    _, query = follow(client, "/actions/reset?kind=trigger&group=DEFAULT&name=often")
    store.set_state(key("often"), TriggerState.ERROR)
    assert "The trigger is in ERROR again: no reason was recorded" in client.get(query).text
    store.schedule(job("nightly"), every(3600, "later", start=at(3600)))
    store.set_state(key("later"), TriggerState.ERROR)
    _, query = follow(client, "/actions/reset?kind=trigger&group=DEFAULT&name=later")
    end = client.get(query).text
    assert "It fires at " in end
    assert "hx-get" not in end
    assert client.get("/followed?group=DEFAULT&name=later&after=x").status_code == 400
