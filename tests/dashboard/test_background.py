"""Actions on many subjects go on in the background, show their progress, and say what was done if they are stopped."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.config.config import SchedulerConfig
from quartzpy.dashboard import background, create_app
from quartzpy.dashboard.api import app as api
from quartzpy.errors import ObjectNotFoundError, StoreUnavailableError
from quartzpy.operations import ActionProgress, Operations, Selection
from quartzpy.operations.actions import log
from quartzpy.store.postgresql.store import SqlJobStore
from quartzpy.store.protocol import NO_NOTE, PauseNote, PauseSubjects
from tests.dashboard.conftest import LOCAL, THIS_USER
from tests.dashboard.scene import Report
from tests.dashboard.test_actions import form_of
from tests.waiting import wait_until

TRIGGERS = 6


class Gated(SqlJobStore):
    """A store with a gate at which actions wait after their first slice. It fails behind it on request."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, SchedulerConfig(name="many"))
        self.gate = threading.Event()
        self.reached = threading.Event()
        """Set when the first slice is changed and reported."""
        self.error: Exception | None = None

    def pause(self, subjects: PauseSubjects, note: PauseNote = NO_NOTE) -> set[str]:
        if self.error is not None and self.gate.is_set():
            raise self.error
        return super().pause(subjects, note)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, postgres_dsn: str) -> Gated:
    made, report = Gated(postgres_dsn), background._RunningAction._report

    def wait(running: background._RunningAction, progress: ActionProgress) -> None:
        report(running, progress)
        if progress.changed:
            made.reached.set()
            assert made.gate.wait(60)

    monkeypatch.setattr(background._RunningAction, "_report", wait)
    monkeypatch.setattr(log, "SLICE", 2)
    monkeypatch.setattr(background, "PATIENCE", 0.2)
    monkeypatch.setattr(background, "LAST_SLICE", 60)
    monkeypatch.setattr(api, "PATIENCE", 0.2)
    return made


@pytest.fixture
def scheduler(store: Gated) -> Iterator[Scheduler]:
    made = Scheduler(store, name="many")
    later = datetime.now(UTC) + timedelta(days=1)
    for n in range(TRIGGERS):
        made.schedule_job(JobDetail(Report, f"job-{n}"), SimpleTrigger(f"t-{n}", start_time=later))
    yield made
    store.gate.set()
    made.shutdown()


@pytest.fixture
def client(scheduler: Scheduler) -> TestClient:
    return TestClient(create_app(scheduler, auth=THIS_USER, read_only=False), **LOCAL)


def pause_all(client: TestClient) -> Any:
    page = client.get("/triggers?all=yes").text
    token = re.findall(r'name="csrf_token" value="([^"]+)"', page)[0]
    asked = client.post("/actions/pause?all=yes", data={"csrf_token": token, "of": "triggers", "scope": "all"})
    return client.post(
        "/actions/pause?all=yes", data={**form_of(asked.text), "next": "/triggers"}, follow_redirects=False
    )


def open_after(store: Gated, event: threading.Event) -> None:
    """Open the gate once something has happened."""
    threading.Thread(target=lambda: event.wait(60) and store.gate.set(), daemon=True).start()


def text_of(client: TestClient, url: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", client.get(url).text)).split())


def paused(scheduler: Scheduler) -> int:
    return scheduler.triggers(state="PAUSED").count()


def test_a_long_action_answers_at_once_and_leads_to_its_progress(
    client: TestClient, scheduler: Scheduler, store: Gated
) -> None:
    answer = pause_all(client)
    assert answer.status_code == 303
    progress = answer.headers["location"]
    assert re.fullmatch(r"/audit/\d+\?next=%2Ftriggers", progress)
    assert store.reached.wait(60)
    page = client.get(progress).text
    assert 'data-topics="audit schedule"' in page
    assert '<a class="button" href="/triggers">Back</a>' in page
    assert "2 of 6 changed It goes on in the background" in text_of(client, progress)
    assert paused(scheduler) == 2
    store.gate.set()
    wait_until(lambda: "What was done 6 changed." in text_of(client, progress), "the end of the action")
    assert paused(scheduler) == TRIGGERS
    assert "data-topics" not in client.get(progress).text
    assert f'href="{progress.partition("?")[0]}"' in client.get("/audit").text


def test_a_long_action_by_the_api_is_accepted_and_has_an_address_with_its_progress(
    client: TestClient, scheduler: Scheduler, store: Gated
) -> None:
    client.get("/triggers?all=yes")
    proof = {"x-csrf-token": client.cookies["quartzpy_csrf"]}
    body = {"selection": {"triggers": {}}, "reason": "stocktaking"}
    answer = client.post("/api/v1/actions/pause", json=body, headers=proof)
    assert answer.status_code == 202
    accepted = answer.json()
    assert accepted == {"action_id": accepted["action_id"], "changed": 2, "failed": 0, "total": TRIGGERS}
    place = answer.headers["location"]
    assert place == f"/api/v1/audit-entry?action_id={accepted['action_id']}"
    seen = client.get(place).json()
    assert (seen["state"], seen["count"], seen["reason"]) == ("RUNNING", 2, "stocktaking")
    store.gate.set()
    wait_until(lambda: client.get(place).json()["state"] == "SUCCEEDED", "the end of the action")
    assert (client.get(place).json()["count"], paused(scheduler)) == (TRIGGERS, TRIGGERS)
    at_once = client.post("/api/v1/actions/pause", json={"selection": {"trigger": {"name": "t-1"}}}, headers=proof)
    assert (at_once.status_code, at_once.json()["count"]) == (200, 1)


def test_an_action_in_another_process_shows_its_count(client: TestClient, scheduler: Scheduler, store: Gated) -> None:
    progress = pause_all(client).headers["location"]
    assert store.reached.wait(60)
    other = TestClient(create_app(scheduler), **LOCAL)
    seen = text_of(other, progress)
    assert "2 changed. Another process carries it out." in seen
    store.gate.set()
    wait_until(lambda: paused(scheduler) == TRIGGERS, "the end of the action")


def test_the_end_of_the_process_stops_an_action_after_a_slice_and_records_its_count(
    scheduler: Scheduler, store: Gated
) -> None:
    app = create_app(scheduler, auth=THIS_USER, read_only=False)
    with TestClient(app, **LOCAL) as client:
        progress = pause_all(client).headers["location"]
        assert store.reached.wait(60)
        open_after(store, app.state.background._stopping)
    [entry] = Operations(scheduler).audit_log(action="pause")
    assert (entry.state, entry.count, paused(scheduler)) == ("FAILED", 4, 4)
    assert "the process of the page ended" in (entry.error or "")
    assert "4 changed. the process of the page ended" in text_of(TestClient(app, **LOCAL), progress)


def test_a_store_that_fails_midway_leaves_a_count(client: TestClient, scheduler: Scheduler, store: Gated) -> None:
    store.error = StoreUnavailableError("no route to host")
    progress = pause_all(client).headers["location"]
    assert store.reached.wait(60)
    store.gate.set()
    wait_until(lambda: "failed" in text_of(client, progress), "the failure")
    assert "2 changed. no route to host" in text_of(client, progress)


def test_an_error_within_the_patience_of_the_request_says_what_was_done(
    client: TestClient, store: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PATIENCE", 60)
    store.error = StoreUnavailableError("no route to host")
    open_after(store, store.reached)
    answer = pause_all(client)
    assert answer.status_code == 503
    assert "Paused 2 triggers, and then failed: no route to host" in answer.text


def test_an_action_whose_thread_the_system_refuses_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    actions = background.BackgroundActions(lambda: None)
    with monkeypatch.context() as refused:
        refused.setattr(threading.Thread, "start", _refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            actions.run(lambda report: pytest.fail("it has begun"), 2)
    actions.close()


def _refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_report_that_raises_ends_the_action(scheduler: Scheduler) -> None:
    seen: list[ActionProgress] = []

    def report(progress: ActionProgress) -> None:
        seen.append(progress)
        if progress.changed >= 2:
            raise KeyError("enough")

    operations = Operations(scheduler)
    with pytest.raises(KeyError):
        operations.actions.reporting(report).delete(Selection.triggers())
    [entry] = operations.audit_log()
    assert [(one.action_id, one.changed) for one in seen] == [(entry.action_id, 0), (entry.action_id, 2)]
    assert (entry.state, entry.count) == ("FAILED", 2)
    assert operations.audit_entry(entry.action_id) == entry
    with pytest.raises(ObjectNotFoundError, match="action 999 is not in the audit log"):
        operations.audit_entry(999)


@pytest.mark.parametrize(("path", "status"), [("/audit/999", 404), ("/audit/0", 400), ("/audit/x", 404)])
def test_a_wrong_entry_is_refused(client: TestClient, path: str, status: int) -> None:
    assert client.get(path).status_code == status


def test_the_way_back_leads_to_no_other_site(client: TestClient, store: Gated) -> None:
    store.gate.set()
    pause_all(client)
    for wrong in ("https://evil.example/", "//evil.example", "/\\evil.example"):
        page = client.get("/audit/1", params={"next": wrong}).text
        assert 'href="https://evil' not in page
        assert 'href="//evil' not in page
        assert ">Back<" not in page
