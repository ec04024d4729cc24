"""The actions of the page: each form without a script, the dialog's answers, refusals, and what is recorded."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from quartzpy import CronTrigger, JobDetail, Scheduler, SimpleTrigger
from quartzpy.dashboard import allow_everyone, background, create_app
from quartzpy.job_data import TRIGGERED_BY
from quartzpy.keys import MANUAL_TRIGGERS, JobKey, TriggerKey
from quartzpy.operations import Operations, Role
from quartzpy.operations.actions.table import ACTIONS
from quartzpy.states import JobMode, TriggerState
from tests.dashboard.conftest import THIS_USER
from tests.dashboard.scene import HOSTILE, Report

OFTEN, AT_TWO, NIGHTLY = TriggerKey("often", "billing"), TriggerKey("at-two", "billing"), JobKey("nightly", "billing")
_INPUT = re.compile(r"<(input|textarea|button)\b([^>]*)>(?:([^<]*)</textarea>)?")
_ATTRIBUTE = re.compile(r'([a-z-]+)(?:="([^"]*)")?')


@pytest.fixture
def admin(open_page: Callable[..., TestClient]) -> TestClient:
    return open_page(auth=THIS_USER, read_only=False)


def url_of(action: str, key: JobKey | TriggerKey | None = None, **query: Any) -> str:
    if key is not None:
        query |= {"kind": "job" if isinstance(key, JobKey) else "trigger", "group": key.group, "name": key.name}
    return f"/actions/{action}?{urlencode(query, doseq=True)}"


def form_of(text: str) -> dict[str, str | list[str]]:
    """Return the fields of the form of an action as a browser would send them without any input."""
    [form] = re.findall(r'<form class="panel action".*?</form>', text, re.DOTALL)
    fields: dict[str, str | list[str]] = {}
    for tag, attributes, content in _INPUT.findall(form):
        found = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(attributes)}
        name = found.get("name")
        if name is None or tag == "button" or (found.get("type") in ("radio", "checkbox") and "checked" not in found):
            continue
        value = html.unescape(content) if tag == "textarea" else found.get("value", "")
        known = fields.get(name)
        fields[name] = value if known is None else [*(known if isinstance(known, list) else [known]), value]
    return fields


def token_of(client: TestClient) -> str:
    """Return the token of this browser; a page without a form gives it none, so that one is made up."""
    known = client.cookies.get("quartzpy_csrf")
    if known is None:
        known = "t" * 43
        client.cookies.set("quartzpy_csrf", known)
    return known


def do(client: TestClient, url: str, referer: str = "/triggers?state=ERROR", **inputs: str) -> httpx2.Response:
    """Open the form of an action, fill it in and send it, as a browser without a script does."""
    asked = client.get(url, headers={"Referer": f"http://127.0.0.1{referer}"})
    assert asked.status_code == 200, asked.text[-500:]
    return client.post(url, data={**form_of(asked.text), **inputs}, follow_redirects=False)


def notice(client: TestClient, answer: httpx2.Response) -> str:
    assert answer.status_code == 303, visible_text(answer.text)
    found = re.search(r'<p class="notice" role="status">(.*?)</p>', client.get(answer.headers["location"]).text)
    assert found is not None
    return html.unescape(found[1])


def visible_text(text: str) -> str:
    """Return the words of the content of a page, or of a part of one."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text.partition("<main>")[2] or text)).split())


def state(scheduler: Scheduler, key: TriggerKey) -> TriggerState:
    record = scheduler.trigger_record(key)
    assert record is not None
    return record.state


# --- each action


def test_pause_and_resume_return_to_the_page_they_came_from(admin: TestClient, scheduler: Scheduler) -> None:
    answer = do(admin, url_of("pause", AT_TWO), reason="the warehouse moves")
    assert answer.headers["location"] == "/triggers?state=ERROR"
    assert notice(admin, answer) == "Paused trigger billing.at-two."
    assert state(scheduler, AT_TWO) == "PAUSED"
    record = scheduler.trigger_record(AT_TWO)
    assert record is not None
    assert record.pause_reason == "the warehouse moves"
    assert "notice" not in admin.get("/").text, "it is shown once"
    answer = do(admin, url_of("resume", AT_TWO), missed="skip")
    assert "Resumed trigger billing.at-two." in notice(admin, answer)
    [entry] = Operations(scheduler).audit_log(action="resume")
    assert entry.after["missed"] == "skip"


def test_a_job_is_triggered_with_data(admin: TestClient, scheduler: Scheduler) -> None:
    answer = do(admin, url_of("trigger", NIGHTLY), data='{"region": "us"}', reason="asked by phone")
    assert "Job billing.nightly runs now" in notice(admin, answer)
    [made] = scheduler.triggers(group=MANUAL_TRIGGERS)
    data = dict(made.trigger.data)
    assert data.pop(TRIGGERED_BY)
    assert data == {"region": "us"}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ('{"region": }', "data: not JSON: Expecting value: line 1 column 12"),
        ("[1]", 'data: must be a JSON object such as {"region": "eu"} (got [1])'),
        ('{"x": {"$decimal": "no"}}', "no"),
    ],
)
def test_wrong_data_is_answered_in_place(admin: TestClient, scheduler: Scheduler, data: str, error: str) -> None:
    answer = do(admin, url_of("trigger", NIGHTLY), data=data, reason="why")
    assert answer.status_code == 422
    assert error in visible_text(answer.text)
    fields = form_of(answer.text)
    assert (fields["data"], fields["reason"]) == (data, "why"), "what was entered is kept"
    assert not scheduler.triggers(group=MANUAL_TRIGGERS)


def test_a_schedule_is_edited_with_a_preview(admin: TestClient, scheduler: Scheduler) -> None:
    url = url_of("reschedule", AT_TWO)
    text = admin.get(url).text
    assert form_of(text)["schedule"] == "0 0 2 ? * MON-FRI"
    assert "02:00:00" in visible_text(text), "the next fire times as they are now"
    query = {"kind": "trigger", "group": "billing", "name": "at-two", "in_zone": "Europe/Berlin"}
    preview = admin.get("/actions/reschedule/preview", params={**query, "schedule": "30 4 * * SUN"})
    assert re.search(r"04:30:00 CES?T", preview.text)
    assert "<html" not in admin.get("/actions/reschedule/preview", params=query, headers={"HX-Request": "true"}).text
    wrong = do(admin, url, schedule="0 0 25 * * ?")
    assert wrong.status_code == 422
    assert "0 0 25 * * ?\n    ^" in html.unescape(wrong.text), "the error points at its place"
    answer = do(admin, url, schedule="30 4 * * SUN", reason="after the backup")
    assert "at 04:30" in notice(admin, answer)
    trigger = scheduler.get_trigger(AT_TWO)
    assert trigger is not None
    assert (trigger.expression, trigger.time_zone) == ("30 4 * * SUN", "Europe/Berlin")  # type: ignore[attr-defined]


def test_the_preview_button_changes_nothing(admin: TestClient, scheduler: Scheduler) -> None:
    before = scheduler.get_trigger(AT_TWO)
    answer = do(admin, url_of("reschedule", AT_TWO), schedule="every 3h", confirmed="")
    assert answer.status_code == 200
    assert "every 3h" in visible_text(answer.text)
    assert form_of(answer.text)["schedule"] == "every 3h"
    assert scheduler.get_trigger(AT_TWO) == before


def test_a_backfill_says_how_many_fires_it_makes_before_it_makes_them(admin: TestClient, scheduler: Scheduler) -> None:
    url = url_of("backfill", AT_TWO)
    inputs = {"start": "2026-11-01T00:00", "end": "2026-11-15T00:00"}
    first = do(admin, url, **inputs, expected="1")
    assert first.status_code == 422
    assert "these are 10 fires" in visible_text(first.text)
    assert not scheduler.triggers(group=MANUAL_TRIGGERS)
    assert form_of(first.text)["expected"] == "10"
    answer = admin.post(url, data={**form_of(first.text), "reason": "the export was wrong"}, follow_redirects=False)
    assert notice(admin, answer).startswith("10 runs of trigger billing.at-two were stored")
    assert scheduler.triggers(group=MANUAL_TRIGGERS).count() == 10
    wrong = do(admin, url, start="soonish", end="2026-11-15T00:00")
    assert wrong.status_code == 422
    assert "start: must be an instant" in visible_text(wrong.text)
    shown = admin.get(
        "/actions/backfill/preview", params={**inputs, "kind": "trigger", "group": "billing", "name": "at-two"}
    )
    assert "10 fires will run" in visible_text(shown.text)


def test_a_backfill_of_a_trigger_that_fires_often_begins_with_a_span_that_is_allowed(
    admin: TestClient, scheduler: Scheduler
) -> None:
    often = CronTrigger("0/10 * * * * ?", "every-10s", "billing", job_key=NIGHTLY, time_zone="UTC")
    scheduler.schedule(often)
    first = admin.get(url_of("backfill", often.key))
    assert "360 fires will run" in visible_text(first.text)
    preview = {**form_of(first.text), "kind": "trigger", "group": "billing", "name": "every-10s"}
    long = admin.get("/actions/backfill/preview", params={**preview, "start": "2026-03-01T00:00"})
    assert re.search(
        r"There are more than 1,000 fires in this span, the first of them from 2026-03-01 00:00:00 \S+ to 2026-03-01"
        r" 02:46:30 \S+\. Choose a shorter span, or allow more fires \(at most 10,000\)\.",
        visible_text(long.text),
    )
    empty = admin.get("/actions/backfill/preview", params={**preview, "start": ""})
    assert "Enter a span to see the fires in it." in visible_text(empty.text)


def test_skip_disable_enable_reset_and_delete(admin: TestClient, scheduler: Scheduler) -> None:
    assert "Skipped 2 fires" in notice(admin, do(admin, url_of("skip_next", AT_TWO), count="2"))
    assert do(admin, url_of("skip_next", AT_TWO), count="-1").status_code == 422
    notice(admin, do(admin, url_of("disable", NIGHTLY), reason="broken"))
    assert scheduler.job(NIGHTLY).mode is JobMode.DISABLED
    notice(admin, do(admin, url_of("enable", NIGHTLY)))
    assert scheduler.job(NIGHTLY).mode is JobMode.ENABLED
    not_now = do(admin, url_of("reset", AT_TWO))
    assert not_now.status_code == 409
    assert "ERROR" in visible_text(not_now.text)
    answer = do(admin, url_of("delete", AT_TWO), referer="/trigger?group=billing&name=at-two")
    assert answer.headers["location"] == "/triggers", "the page of what was deleted is gone"
    assert scheduler.get_trigger(AT_TWO) is None
    assert admin.get(url_of("delete", AT_TWO)).status_code in (200, 404)
    assert (
        admin.post(url_of("delete", AT_TWO), data=form_of(admin.get(url_of("delete", NIGHTLY)).text)).status_code == 404
    )


def test_a_group_and_everything_are_paused(admin: TestClient, scheduler: Scheduler) -> None:
    notice(admin, do(admin, url_of("pause", kind="trigger_group", group="billing")))
    assert scheduler.paused_trigger_groups() == {"billing"}
    notice(admin, do(admin, url_of("resume", kind="trigger_group", group="billing")))
    notice(admin, do(admin, url_of("pause", kind="everything")))
    assert scheduler.pauses.everything


def test_a_limit_that_jobs_share_is_set_shown_and_removed(admin: TestClient, scheduler: Scheduler) -> None:
    assert 'name="limit"' in admin.get("/limits").text
    answer = do(admin, "/actions/set_limit?limit=erp", referer="/limits", value="5", reason="the contract")
    assert "Limit erp is 5." in notice(admin, answer)
    scheduler.modify_job(NIGHTLY, limits=["erp"])
    page = visible_text(admin.get("/limits").text)
    assert "shared erp – 5 0 of 5 5 0" in " ".join(page.split())
    assert do(admin, "/actions/set_limit?limit=erp", value="many").status_code == 422
    assert admin.get("/actions/set_limit?limit=e%2Cp").status_code == 400
    refused = do(admin, "/actions/delete_limit?limit=erp")
    assert refused.status_code == 409
    assert "limit 'erp' is shared by jobs (billing.nightly)" in visible_text(refused.text)
    scheduler.modify_job(NIGHTLY, limits=[])
    assert "Limit erp was removed." in notice(admin, do(admin, "/actions/delete_limit?limit=erp"))
    assert not scheduler.limits()


def test_executions_run_again_and_nodes_are_commanded(admin: TestClient, scheduler: Scheduler) -> None:
    scheduler.start()
    record = scheduler.trigger_job(NIGHTLY).wait("60s")
    assert "runs again" in notice(admin, do(admin, url_of("run_again", fire_id=record.fire_id)))
    ended = do(admin, url_of("cancel", fire_id=record.fire_id))
    assert ended.status_code == 409
    assert "only a running one can be cancelled" in visible_text(ended.text)
    name = scheduler.instance_id
    for action, mode in (("standby", "STANDBY"), ("drain", "DRAINING"), ("resume_node", "RUNNING")):
        notice(admin, do(admin, url_of(action, node=name)))
        assert [str(node.mode) for node in Operations(scheduler).cluster().nodes] == [mode]
    assert (
        admin.post(url_of("drain", node="x"), data=form_of(admin.get(url_of("drain", node="x")).text)).status_code
        == 404
    )


# --- many at once


def test_selected_triggers_are_confirmed_and_changed(admin: TestClient, scheduler: Scheduler) -> None:
    page = admin.get("/triggers?all=yes").text
    keys = [html.unescape(value) for value in re.findall(r'name="selected" form="bulk" value="([^"]*)"', page)]
    assert len(keys) == len(HOSTILE) + 2
    assert [json.loads(key)[1] for key in keys if json.loads(key)[0] == "DEFAULT"] == sorted(HOSTILE)
    token = re.findall(r'name="csrf_token" value="([^"]+)"', page)[0]
    sent = {"csrf_token": token, "of": "triggers", "scope": "selected", "selected": keys}
    asked = admin.post("/actions/pause", data=sent)
    assert f"Pause {len(keys)} triggers" in visible_text(asked.text)
    assert state(scheduler, AT_TWO) == "WAITING", "nothing happens before it is confirmed"
    answer = admin.post("/actions/pause", data={**form_of(asked.text), "reason": "all"}, follow_redirects=False)
    assert notice(admin, answer) == f"Paused {len(keys)} triggers."
    assert {record.state for record in scheduler.triggers()} == {TriggerState.PAUSED}
    nothing = admin.post("/actions/pause", data={**sent, "selected": []})
    assert nothing.status_code == 400
    assert "No triggers are selected" in visible_text(nothing.text)


def test_all_that_match_the_filter_of_the_list_are_changed(
    admin: TestClient, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PATIENCE", 60)
    for n in range(120):
        later = datetime.now(UTC) + timedelta(days=1)
        scheduler.schedule_job(
            JobDetail(Report, f"bulk-{n}", "bulk"), SimpleTrigger(f"bulk-{n}", "bulk", start_time=later)
        )
    page = admin.get("/jobs?group=bul*&contains=bulk").text
    [url] = re.findall(r'formaction="(/actions/disable[^"]*)"', page)
    token = re.findall(r'name="csrf_token" value="([^"]+)"', page)[0]
    asked = admin.post(html.unescape(url), data={"csrf_token": token, "of": "jobs", "scope": "all"})
    assert "Disable 120 jobs" in visible_text(asked.text)
    answer = admin.post(html.unescape(url), data=form_of(asked.text), follow_redirects=False)
    assert notice(admin, answer) == "Disabled 120 jobs."
    assert scheduler.jobs(mode="DISABLED").count() == 120
    [entry] = Operations(scheduler).audit_log(action="disable")
    assert (entry.count, entry.subject) == (120, "jobs with contains=bulk, group=bul*")


# --- hostile names


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_and_changed_as_they_are(admin: TestClient, scheduler: Scheduler, name: str) -> None:
    url = url_of("pause", TriggerKey(name))
    text = admin.get(url).text
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    notice(admin, do(admin, url, reason=name))
    assert state(scheduler, TriggerKey(name)) == "PAUSED"


# --- the dialog


def test_the_script_gets_the_form_alone_and_the_url_to_go_to(admin: TestClient, scheduler: Scheduler) -> None:
    dialog = {"X-Dialog": "yes"}
    url = url_of("pause", AT_TWO)
    asked = admin.get(url, headers=dialog)
    assert "<html" not in asked.text
    fields = {**form_of(asked.text), "next": "/trigger?group=billing&name=at-two"}
    done = admin.post(url, data=fields, headers=dialog)
    assert (done.status_code, done.headers["x-location"]) == (204, "/trigger?group=billing&name=at-two")
    assert "Paused trigger billing.at-two." in admin.get("/").text
    wrong = admin.post(url_of("skip_next", AT_TWO), data={**fields, "count": "x"}, headers=dialog)
    assert wrong.status_code == 200
    assert "count: must be a whole number" in wrong.text
    assert "<html" not in wrong.text


@pytest.mark.parametrize(
    "wanted", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", ""]
)
def test_an_action_leads_to_no_other_site(admin: TestClient, wanted: str) -> None:
    url = url_of("pause", AT_TWO)
    fields: Mapping[str, Any] = {**form_of(admin.get(url).text), "next": wanted}
    assert admin.post(url, data=fields, follow_redirects=False).headers["location"] == "/"


def test_a_mounted_page_stays_under_its_prefix(scheduler: Scheduler) -> None:
    app = Starlette(routes=[Mount("/ops/quartz", create_app(scheduler, auth=THIS_USER, read_only=False))])
    client = TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 50_000))
    url = f"/ops/quartz{url_of('pause', AT_TWO)}"
    text = client.get(url).text
    assert f'action="{html.escape(url)}"' in text
    sent = {**form_of(text), "next": "/ops/quartz/triggers"}
    answer = client.post(url, data=sent, follow_redirects=False)
    assert notice(client, answer) == "Paused trigger billing.at-two."
    for wanted in ("/elsewhere", "/ops/quartzite"):
        answer = client.post(url, data={**sent, "next": wanted}, follow_redirects=False)
        assert answer.headers["location"] == "/ops/quartz/"


def test_other_open_pages_learn_of_an_action_at_once(scheduler: Scheduler) -> None:
    app = create_app(scheduler, auth=THIS_USER, read_only=False)
    client = TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 50_000))
    topics: list[str] = []

    class Stream:
        def publish(self, *changed: str) -> None:
            topics.extend(changed)

    app.state.hub._watchers.add(Stream())
    do(client, url_of("pause", AT_TWO))
    assert topics == ["schedule", "nodes"]


# --- refusals


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_an_action_without_the_token_or_from_another_site_is_refused(
    admin: TestClient, scheduler: Scheduler, action: str
) -> None:
    url = url_of(action, NIGHTLY if action in ("trigger", "enable", "disable") else AT_TWO, node="n", fire_id=None)
    before = [(record.key, record.state) for record in scheduler.triggers()]
    for fields, headers in (
        ({}, {}),
        ({"csrf_token": "x" * 43}, {}),
        ({}, {"Sec-Fetch-Site": "cross-site"}),
    ):
        answer = admin.post(url, data={"confirmed": "yes", **fields}, headers=headers)
        assert answer.status_code == 403
    assert [(record.key, record.state) for record in scheduler.triggers()] == before
    assert not Operations(scheduler).audit_log()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_roles_hide_and_refuse(open_page: Callable[..., TestClient], scheduler: Scheduler, role: Role) -> None:
    client = open_page(read_only=False, auth=allow_everyone(role))
    page = client.get("/trigger?group=billing&name=at-two").text
    for action in ("pause", "skip_next", "reschedule", "delete"):
        may = role.includes(ACTIONS[action].role)
        assert (f'data-action="{action}"' in page) is may, action
        asked = client.get(url_of(action, AT_TWO))
        assert asked.status_code == (200 if may else 403), action
        if not may:
            assert "may do this" in visible_text(asked.text)
    # A form that was sent by hand is refused as well, and recorded.
    token = token_of(client)
    answer = client.post(url_of("delete", AT_TWO), data={"csrf_token": token, "confirmed": "yes"})
    assert answer.status_code == 403
    assert scheduler.get_trigger(AT_TWO) is not None
    [entry] = Operations(scheduler).audit_log()
    assert (entry.actor, entry.action, entry.state) == ("anonymous", "delete", "REFUSED")
    assert ('name="selected"' in client.get("/triggers").text) is (role is Role.OPERATOR)


def test_a_read_only_page_changes_nothing(open_page: Callable[..., TestClient], scheduler: Scheduler) -> None:
    client = open_page()
    page = client.get("/trigger?group=billing&name=at-two").text
    assert "data-action" not in page
    assert 'name="selected"' not in client.get("/triggers").text
    asked = client.get(url_of("pause", AT_TWO))
    assert asked.status_code == 403
    assert "read-only" in visible_text(asked.text)
    token = token_of(client)
    answer = client.post(url_of("pause", AT_TWO), data={"csrf_token": token, "confirmed": "yes"})
    assert answer.status_code == 403
    assert state(scheduler, AT_TWO) == "WAITING"


@pytest.mark.parametrize(
    ("url", "status", "said"),
    [
        ("/actions/explode?kind=trigger&group=g&name=t", 404, "there is no action explode"),
        ("/actions/pause", 400, "does not say what to do it to"),
        ("/actions/pause?kind=trigger&group=g", 400, "the link must say which one"),
        ("/actions/cancel?fire_id=abc", 400, "fire_id: must be a whole number"),
        ("/actions/drain", 400, "node: the link must say which one"),
        ("/actions/reschedule?of=triggers&scope=all", 400, "one trigger at a time"),
        ("/actions/pause?of=triggers&selected=x", 400, "selected: must be a list"),
        ("/actions/reschedule?kind=trigger&group=g&name=none", 404, "trigger g.none is not stored"),
    ],
)
def test_a_wrong_link_says_what_is_wrong(admin: TestClient, url: str, status: int, said: str) -> None:
    answer = admin.get(url)
    assert answer.status_code == status
    assert said in visible_text(answer.text)


def test_a_window_is_stored_listed_announced_and_deleted(admin: TestClient, scheduler: Scheduler) -> None:
    start = (datetime.now(UTC) + timedelta(hours=2)).replace(second=0, microsecond=0)
    times = {"start": f"{start:%Y-%m-%dT%H:%M}", "end": f"{start + timedelta(hours=1):%Y-%m-%dT%H:%M}"}
    url = url_of("set_window", window="move", zone="UTC")
    answer = do(admin, url, "/windows", **times, job_group="billing", reason="the racks are moved")
    assert notice(admin, answer).startswith("Maintenance window move pauses job group billing from ")
    [record] = scheduler.maintenance_windows()
    assert (record.starts_at, record.window.reason) == (start, "the racks are moved")
    for page in ("/windows", "/"):
        words = visible_text(admin.get(page).text)
        assert "job group billing" in words
        assert "the racks are moved" in words
    assert form_of(admin.get(url).text)["start"] == times["start"], "the form has what is stored"
    assert notice(admin, do(admin, url_of("delete_window", window="move"))) == "Deleted the maintenance window move."
    assert scheduler.maintenance_windows() == []


def test_a_pause_with_an_end_says_until_when(admin: TestClient, scheduler: Scheduler) -> None:
    answer = do(admin, url_of("pause", AT_TWO), end="2h", missed="skip")
    assert notice(admin, answer).startswith("Paused trigger billing.at-two until ")
    record = scheduler.trigger_record(AT_TWO)
    assert record is not None
    assert record.paused_until is not None
    refused = do(admin, url_of("pause", AT_TWO), end="soon")
    assert refused.status_code == 422
    assert "end: must be an instant such as" in visible_text(refused.text)
