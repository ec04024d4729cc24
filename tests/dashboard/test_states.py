"""What the pages show and offer depends on the state of what they are about."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import escape, unescape

import httpx2
import pytest
from starlette.testclient import TestClient

from quartzpy import Scheduler
from quartzpy.dashboard import create_app, rendering
from quartzpy.dashboard.links import Links
from quartzpy.dashboard.shown_times import Times
from quartzpy.jobs.context import Progress
from quartzpy.jobs.continuation import Continuation
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import UNSCHEDULED_GROUPS
from quartzpy.operations import Actor, Role
from quartzpy.states import Outcome, TriggerState
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import NamedTriggers
from quartzpy.triggers.cron import CronTrigger
from tests.admin.conftest import pytest_generate_tests as pytest_generate_tests
from tests.contract.conftest import sql_backends as sql_backends
from tests.contract.conftest import store as store
from tests.contract.harness import HOUR, MINUTE, Harness, at, every, job, key, once
from tests.dashboard.conftest import LOCAL, THIS_USER


@pytest.fixture
def client(store: Harness) -> TestClient:
    """A client of a dashboard on this store."""
    return TestClient(create_app(Scheduler(store.store, name="contract"), auth=THIS_USER, read_only=False), **LOCAL)


def do(client: TestClient, url: str, **fields: str) -> httpx2.Response:
    """Open the form of an action, and send it."""
    token = re.search(r'name="csrf_token" value="([^"]+)"', client.get(url).text)
    assert token is not None
    return client.post(url, data={"csrf_token": token[1], "confirmed": "yes", **fields})


def test_a_running_execution_shows_its_progress_and_its_last_log_lines(store: Harness, client: TestClient) -> None:
    node = store.node()
    store.schedule(job(), once())
    fired = store.fire_one(node)
    url = f"/executions/{fired.fire_id}"
    assert "None were captured yet" in client.get(url).text
    store.store.report_progress(node, {fired.fire_id: Progress(0.5, "halfway")}, {fired.fire_id: "<reading>"})
    page = client.get(url).text
    assert "halfway" in page
    assert "The last log lines" in page
    assert "&lt;reading&gt;" in page
    assert 'data-topics="executions schedule"' in page, "no event announces progress and lines"
    assert client.get(f"/api/v1/execution?fire_id={fired.fire_id}").json()["log"] == "<reading>"
    store.complete(node, fired, log="<reading>\ndone")
    page = client.get(url).text
    assert "done" in page
    assert "The last log lines" not in page
    assert 'data-topics="executions"' in page


def test_a_page_offers_only_the_actions_that_are_possible(store: Harness, client: TestClient) -> None:
    node = store.node()
    store.schedule(job(), once())
    fired = store.fire_one(node)
    url = f"/executions/{fired.fire_id}"
    assert "/actions/cancel?" in client.get(url).text
    store.complete(node, fired, outcome=Outcome.FAILED)
    assert not client.get("/job?name=job").is_success, "the job was deleted with its last trigger"
    for path in (url, "/"):
        assert "/actions/run_again?" not in client.get(path).text
    answer = do(client, f"/actions/run_again?fire_id={fired.fire_id}")
    assert answer.status_code == 404
    assert f"execution {fired.fire_id} cannot run again: its job DEFAULT.job is not stored any more" in answer.text


def test_a_page_about_nothing_leads_to_what_was_probably_meant(store: Harness, client: TestClient) -> None:
    store.schedule(job("nightly", "billing"), every(3600, "often", group="billing"))
    for kind, near in (("job", "nightly"), ("trigger", "often")):
        answer = client.get(f"/{kind}?group=billing&name={near}s")
        assert answer.status_code == 404
        assert f'href="/{kind}?group=billing&amp;name={near}"' in answer.text
    assert "Show that" not in client.get("/job?group=x&name=y").text


def test_each_page_says_who_asked_for_a_run_by_hand(store: Harness) -> None:
    by_ann = Actor("<ann>", Role.ADMIN)
    app = create_app(Scheduler(store.store, name="contract"), read_only=False, auth=lambda request: by_ann)
    client = TestClient(app, **LOCAL)
    node = store.node()
    store.schedule(job(durable=True, retry=RetryPolicy(attempts=2, delay=MINUTE)), every(3600, start=at(3600)))
    assert do(client, "/actions/trigger?kind=job&group=DEFAULT&name=job").is_success

    def texts(*paths: str) -> list[str]:
        return [unescape(re.sub(r"<[^>]*>", "", client.get(path).text)) for path in paths]

    [waiting] = texts("/triggers?all=yes")
    assert "by hand by <ann>" in waiting
    fired = store.fire_one(node)
    for text in texts("/", "/job?group=DEFAULT&name=job", "/executions?state=RUNNING"):
        assert "by hand by <ann>" in text
    store.complete(node, fired, outcome=Outcome.FAILED, error="no", retry_after=MINUTE)
    store.clock.advance(MINUTE)
    retried = store.fire_one(node)
    heads = [" ".join(text.split()) for text in texts(*(f"/executions/{one.fire_id}" for one in (fired, retried)))]
    assert "of job, by hand by <ann> on" in heads[0]
    assert "of job, retry 1 of 1 of a run by hand by <ann> on" in heads[1]
    assert client.get(f"/api/v1/execution?fire_id={fired.fire_id}").json()["execution"]["triggered_by"] == "<ann>"


def test_a_run_again_under_a_pause_can_be_stored_nevertheless(store: Harness, client: TestClient) -> None:
    node = store.node()
    store.schedule(job(durable=True), once())
    fired = store.fire_one(node)
    store.complete(node, fired)
    Scheduler(store.store, name="contract").pause_all()
    url = f"/actions/run_again?fire_id={fired.fire_id}"
    refused = do(client, url)
    assert refused.status_code == 409
    assert "would not run now, because everything is paused; resume everything first" in refused.text
    assert do(client, url, even_if_paused="yes").is_success


def test_incidents_name_instants_in_the_zone_of_the_reader(store: Harness, client: TestClient) -> None:
    store.clock.set(datetime(2026, 3, 28, 12, tzinfo=UTC))
    store.node()
    store.schedule(job(), CronTrigger("0 30 2 * * ?", "in-the-gap", time_zone="Europe/Berlin"))
    text = client.get("/?zone=Asia/Tokyo").text
    assert "move forward by 1h at" in text
    assert "2026-03-29 10:00:00 JST" in text
    assert "UTC" not in re.sub(r"<nav.*?</nav>|<details class=\"pop\">.*?</details>", "", text, flags=re.DOTALL)


def test_a_node_whose_clock_is_off_is_an_incident_that_leads_to_the_node(
    store: Harness, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.node("node 1")
    store.node("other")
    metadata, list_nodes = {"node 1": {"clock_ahead": -3.2}}, SqlJobStore.list_nodes
    monkeypatch.setattr(SqlJobStore, "list_nodes", lambda store: replace(list_nodes(store), metadata=metadata))
    text = client.get("/").text
    assert "The clock of node node 1 is -3.2 s off." in text
    assert "recorded starts and ends are" in text
    link = re.search(r'<h3><a href="([^"]+)"', text)
    assert link is not None
    page = client.get(unescape(link[1])).text
    assert "<h1>Node <bdi>node 1</bdi></h1>" in page
    assert ">other<" not in page
    assert unescape(page).count('href="/executions?node=node+1') == 2, "the number of its executions, and a button"


def test_a_node_that_is_gone_leads_to_its_executions(store: Harness, client: TestClient) -> None:
    store.node("a")
    page = client.get("/nodes?node=<gone>").text
    assert "No node “<bdi>&lt;gone&gt;</bdi>” is in the cluster" in page
    assert 'href="/executions?node=%3Cgone%3E"' in page


def test_what_only_the_history_knows_has_a_page_that_leads_to_its_executions(
    store: Harness, client: TestClient
) -> None:
    node = store.node()
    store.schedule(job(), once("t"))
    store.complete(node, store.fire_one(node))
    for url, said, executions in (
        ("/trigger?name=t", "Trigger DEFAULT.t is not stored any more", "trigger=t&trigger_group=DEFAULT"),
        ("/job?name=job", "Job DEFAULT.job was deleted, or it went with its last trigger", "job=job&job_group=DEFAULT"),
    ):
        page = client.get(url)
        assert page.status_code == 404
        assert said in re.sub(r"<[^>]*>", "", page.text)
        link = f"/executions?{executions}"
        assert f'href="{escape(link)}"' in page.text
        assert "1 execution<" in client.get(link).text
    never = client.get("/trigger?name=never")
    assert (never.status_code, "not stored any more" in never.text) == (404, False)
    assert client.get("/job?name=never").status_code == 404


def test_a_trigger_in_error_promises_no_next_fire(store: Harness, client: TestClient) -> None:
    store.schedule(job(), every(60, "t", start=at(60)))
    store.set_state(key("t"), TriggerState.ERROR)
    page = client.get("/trigger?name=t").text
    assert "It does not fire before it is reset from ERROR." in page
    assert "none before it is reset; by its schedule" in page
    assert "then choose “Reset from error”." in page


def test_an_empty_list_names_only_the_filters_that_were_given(client: TestClient) -> None:
    page = re.sub(r"<[^>]+>", "", client.get("/jobs?contains=zzz&group=&job_type=").text)
    assert "No jobs match contains “zzz”." in page


def test_an_error_within_a_dialog_has_no_page_around_it(client: TestClient) -> None:
    token = re.search(r'name="csrf_token" value="([^"]+)"', client.get("/actions/pause?kind=everything").text)
    assert token is not None
    fields = {"csrf_token": token[1], "of": "triggers", "scope": "selected"}
    answer = client.post("/actions/pause", data=fields, headers={"X-Dialog": "yes"})
    assert answer.status_code == 400
    assert "No triggers are selected" in answer.text
    assert "data-close" in answer.text
    assert "<nav" not in answer.text
    assert "<nav" in client.post("/actions/pause", data=fields).text


def test_a_span_that_ends_before_it_begins_is_refused_in_the_words_of_the_form(
    store: Harness, client: TestClient
) -> None:
    store.schedule(job(), every(60, "t", start=at(60)))
    url = "/actions/backfill?kind=trigger&group=DEFAULT&name=t&start=2026-03-02T12:00&end=2026-03-01T12:00"
    assert "“Until before” must be later than “From”" in client.get(url).text


@pytest.mark.parametrize(
    ("url", "offered"),
    [
        ("/triggers", ["pause", "resume", "skip_next", "reset", "delete"]),
        ("/triggers?state=ERROR", ["reset", "delete"]),
        ("/triggers?state=PAUSED", ["resume", "skip_next", "delete"]),
        ("/triggers?state=LATE", ["pause", "skip_next", "delete"]),
        ("/jobs", ["pause", "resume", "enable", "disable", "delete"]),
        ("/jobs?mode=DISABLED", ["enable", "delete"]),
        ("/executions", ["run_again"]),
        ("/executions?state=FAILED", ["run_again"]),
        ("/executions?state=EXHAUSTED", ["run_again"]),
        ("/executions?state=RUNNING", ["cancel"]),
        ("/executions?state=SCHEDULED", []),
    ],
)
def test_a_list_offers_what_is_possible_on_the_states_that_it_shows(
    store: Harness, client: TestClient, url: str, offered: list[str]
) -> None:
    node = store.node()
    for n, state in enumerate((None, TriggerState.ERROR, TriggerState.PAUSED)):
        store.schedule(job(f"job-{n}", durable=True), every(60, f"t-{n}", start=at(-120)))
        if state is not None:
            store.set_state(key(f"t-{n}"), state)
    store.schedule(job("ended", durable=True), once("ended"))
    store.schedule(job("running", durable=True), once("running"))
    store.schedule(job("disabled", durable=True))
    Scheduler(store.store, name="contract").set_mode("disabled", "DISABLED")
    fired = [one for one in store.fire_due(node) if one.trigger_name == "ended"]
    store.complete(node, *fired, outcome=Outcome.FAILED)
    page = client.get(url).text
    assert re.findall(r'formaction="/actions/([a-z_]+)', page) == offered


def test_plumbing_is_called_by_what_it_is_for(store: Harness, client: TestClient) -> None:
    node = store.node()
    store.schedule(job(), every(60, "often"))
    fired = store.fire_one(node)
    store.store.complete(
        node, [store.ended(fired, outcome=Outcome.FAILED, error="x", retry_after=timedelta(seconds=1))]
    )
    store.clock.advance(timedelta(seconds=2))
    retried = store.fire_one(node)
    page = re.sub(r"<[^>]*>", "", client.get(f"/executions/{retried.fire_id}").text)
    assert ", retry 1 of often" in page
    assert "QRTZ_" not in page
    store.complete(node, retried)
    store.clock.advance(timedelta(seconds=88))
    assert "due 30 s ago, waits" in re.sub(r"<[^>]*>", "", client.get("/triggers").text)
    assert "<code>quartzpy node --app MODULE:SCHEDULER</code>" in said_of(
        "Start it with `quartzpy node --app MODULE:SCHEDULER`."
    )


def said_of(sentence: str) -> str:
    return str(rendering.said(Times(lambda: datetime.now(UTC), "UTC", "server"), sentence))


def test_what_a_sentence_names_is_a_link(store: Harness, client: TestClient) -> None:
    node = store.node()
    store.schedule(job("slow", "etl", max_concurrent=1), once("first", group="etl"), once("second", group="etl"))
    fired = store.fire_one(node)
    store.clock.advance(timedelta(seconds=15))
    store.store.check_in(node)
    page = client.get("/").text
    assert f'Execution <a href="/executions/{fired.fire_id}">{fired.fire_id}</a> of job' in page
    assert 'job <a href="/job?group=etl&amp;name=slow">etl.slow</a>' in page
    links = Links("")
    now = Times(lambda: datetime.now(UTC), "UTC", "server")
    plain = "the trigger waits. A node is late, and job type 'x' of execution 12345678901234567890123 is not known"
    assert str(rendering.said(now, plain, links)) == plain.replace("'", "&#39;")
    assert '<a href="/nodes?node=node-b">node-b</a>.' in rendering.said(now, "It ran on node node-b.", links)


INTERNALS = (
    *UNSCHEDULED_GROUPS,
    "QRTZ_",
    "qrtz_",
    "MT_",
    "BF_",
    "retry_1",
    "recover_",
    "after_1",
)
"""What only the code calls things."""


def test_no_page_shows_the_names_of_internals(store: Harness, client: TestClient) -> None:
    """A busy cluster: with a retry, a run by hand, a recovery, a continuation, and a pause, each of which waits."""
    node, lost = store.node("a"), store.node("b")
    then = job("then", "etl")
    first = job("first", "etl", retry=RetryPolicy(attempts=3, delay=HOUR), continuations=[Continuation(then.key)])
    store.schedule(first, every(3600, "often", group="etl"), every(60, "late", start=at(1)))
    store.schedule(then, once("held", at(7200)))
    store.schedule(job("safe", requests_recovery=True), once("of-lost"))
    scheduler = Scheduler(store.store, name="contract")
    for fired in store.fire_due(lost):
        if fired.job_key.name == "first":
            failed = {"outcome": Outcome.FAILED, "error": "ValueError: feed", "retry_after": HOUR}
            store.store.complete(lost, [store.ended(fired, **failed)])
    scheduler.trigger_job(first.key, delay="1h")
    scheduler.pause_trigger(key("held"), reason="maintenance", by="ann")
    store.clock.advance(timedelta(minutes=10))
    store.store.check_in(node)
    store.recover(node, lost)
    store.misfire(node)
    store.clock.advance(MINUTE)
    for fired in store.fire_due(node):
        if fired.trigger_name == "late":
            store.complete(node, fired)
    made = [record.key for record in scheduler.triggers() if record.key.group in UNSCHEDULED_GROUPS]
    assert {trigger.group for trigger in made} == {*UNSCHEDULED_GROUPS}
    paths = ["/", "/jobs", "/triggers", "/triggers?all=yes", "/triggers?all=yes&sort=next", "/timeline", "/groups"]
    paths += ["/windows", "/limits", "/running", "/upcoming"]
    paths += ["/executions", "/executions?state=SCHEDULED", "/misfires", "/audit", "/nodes", "/search?q=often"]
    paths += ["/job?group=etl&name=first", "/job?group=etl&name=then", "/trigger?group=etl&name=often", "/calendars"]
    paths += [Links("").trigger(trigger) for trigger in made]
    paths += [Links("").execution(run.fire_id) for run in scheduler.executions() if run.fire_id is not None]
    shown: dict[str, list[str]] = {}
    for path in paths:
        page = client.get(path)
        assert page.status_code == 200, path
        # Links have keys in them, and so have the values of the boxes that select a row. People see neither.
        text = re.sub(r'(href|formaction|action|hx-get|value)="[^"]*"', "", page.text)
        wrong = [name for name in INTERNALS if name in unescape(text)]
        wrong += re.findall(r"\bsmart\b", text)
        if wrong:
            shown[path] = wrong
    assert shown == {}
    text = re.sub(r"<[^>]*>", "", client.get("/triggers?all=yes").text)
    assert "retry 1 of 2 of often" in text
    assert "by hand" in text


def test_the_joins_of_a_job_are_a_graph_that_says_what_has_come(store: Harness, client: TestClient) -> None:
    node = store.node()
    for name in ("extract-a", "extract-b", "extract <c>"):
        store.schedule(job(name, durable=True), once(name))
    store.schedule(job("report", after=["extract-a", "extract-b", "extract <c>"]))
    store.schedule(job("mail", group="office", after=["report", "extract-b"]))
    store.store.pause(NamedTriggers([key("extract <c>")]))
    first, second = sorted(store.fire_due(node), key=lambda fired: fired.job_name)
    store.complete(node, first)
    store.complete(node, second, outcome=Outcome.FAILED, error="no")
    text = client.get("/job?group=DEFAULT&name=report").text
    [drawing] = re.findall(r'<svg class="joins".*?</svg>', text, re.DOTALL)
    assert re.findall(r'<path class="(edge[^"]*)"', drawing) == [
        "edge came line-good",
        "edge came line-bad",
        "edge",
        "edge",
        "edge came",
        "edge came",
    ]
    assert re.findall(r'aria-label="(Job [^"]*: [^"]*)"', drawing) == [
        "Job DEFAULT.extract-a: succeeded",
        "Job DEFAULT.extract-b: failed",
        "Job DEFAULT.extract &lt;c&gt;: waited for",
        "Job office.mail: waited for",
    ]
    assert 'href="/job?group=office&amp;name=mail"' in drawing
    assert (
        'aria-label="Job DEFAULT.report runs after DEFAULT.extract-a (has come, succeeded),'
        " DEFAULT.extract-b (has come, failed), DEFAULT.extract &lt;c&gt; (waited for)."
        " After DEFAULT.report and others run office.mail (waited for)."
    ) in drawing
    below = client.get("/job?group=DEFAULT&name=extract-b").text
    assert re.findall(r'aria-label="(Job [^"]*: [^"]*)"', below) == [
        "Job DEFAULT.report: failed",
        "Job office.mail: failed",
    ]
    store.schedule(job("alone", durable=True))
    assert 'class="joins"' not in client.get("/job?group=DEFAULT&name=alone").text
