"""Notifications are stored with their incidents, each once, whatever nodes judge; and what a channel receives."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quartzpy import HolidayCalendar, Scheduler
from quartzpy.config.notifying import Channel, Route
from quartzpy.keys import NOTIFICATIONS, JobKey
from quartzpy.operations import Actor, Operations, Role
from quartzpy.operations.telling.delivery import NotificationJob, send
from quartzpy.operations.telling.health_check import EVERY, LEAST_GAP, LISTED_EVERY, HealthCheck
from quartzpy.operations.telling.notifications import RETRY, job_key_of
from quartzpy.outgoing import OutgoingError
from quartzpy.states import NodeMode, TriggerState
from quartzpy.store.postgresql.admin import admin, incidents
from quartzpy.store.postgresql.admin.records import HealthRun
from quartzpy.store.protocol import Node
from quartzpy.store.queries import TriggerQuery
from tests.contract.harness import Harness, at, every, job, key
from tests.database import execute
from tests.operations.test_incidents import a_node
from tests.waiting import wait_until
from tests.webhooks import SECRET, Receiver, receiver

ROUTES = [Route(kinds=["trigger-*"])]
CHANNELS = {"ops": Channel(url="env:OPS_URL", secret="env:OPS_SECRET", remind_after="10m", routes=ROUTES)}
SENT = "SELECT channel, event, message->>'number', attempts FROM qrtz_notifications ORDER BY created_at, id"


@pytest.fixture
def node(store: Harness) -> Node:
    return a_node(store)


@pytest.fixture
def operations(store: Harness) -> Operations:
    return operations_of(store)


def operations_of(store: Harness, **settings: Any) -> Operations:
    settings = {"notify_channels": CHANNELS, **settings}
    return Operations(Scheduler(store.store, name="contract", **settings), actor=Actor("ann", Role.ADMIN))


@pytest.fixture(scope="module")
def server() -> Iterator[Receiver]:
    with receiver() as server:
        os.environ |= {"OPS_URL": f"{server.url}/ops", "OPS_SECRET": SECRET}
        yield server
        del os.environ["OPS_URL"], os.environ["OPS_SECRET"]


@pytest.fixture(autouse=True)
def _begun(store: Harness, node: Node, server: Receiver) -> None:
    server.requests.clear()
    server.decide = lambda path, headers: 200
    admin(store.store).take_slot(EVERY, LISTED_EVERY)


def judge(store: Harness, operations: Operations, node: Node) -> HealthRun:
    """Let the time of a turn pass, and judge."""
    store.clock.advance(EVERY)
    store.store.check_in(node)
    turn = admin(store.store).take_slot(EVERY, LISTED_EVERY)
    assert turn.turn is not None
    HealthCheck(operations.scheduler).judge(turn)
    return turn


def break_triggers(store: Harness, *names: str) -> None:
    for name in names:
        store.schedule(job(name), every(3600, name, start=at(3600)))
        store.set_state(key(name), TriggerState.ERROR)


def states(store: Harness, channel: str = "ops") -> list[str]:
    """The states of the triggers that send."""
    records = store.store.find(TriggerQuery(job_key=JobKey(channel, NOTIFICATIONS)), 100)
    return [str(record.state) for record in records]


def waiting(store: Harness, channel: str = "ops") -> list[str]:
    """The ids of the notifications that wait to be sent, by the triggers of the channel's job."""
    records = store.store.find(TriggerQuery(job_key=JobKey(channel, NOTIFICATIONS)), 100)
    return [str((record.trigger.data or {})["notification"]) for record in records]


def run(operations: Operations, notification_id: str, attempt: int = 1, channel: str = "ops") -> Any:
    """Run the job of the channel once for a notification."""
    context = SimpleNamespace(
        scheduler=operations.scheduler,
        job_key=job_key_of(channel),
        job_data={"notification": notification_id},
        attempt=attempt,
    )
    return NotificationJob().execute(cast(Any, context))


def test_the_life_of_an_incident_as_a_channel_hears_of_it(
    store: Harness, operations: Operations, node: Node, server: Receiver, postgres_dsn: str
) -> None:
    break_triggers(store, "bad")
    judge(store, operations, node)
    [first] = waiting(store)
    # Nobody is told twice, whichever node judges.
    for _ in range(3):
        judge(store, operations_of(store), node)
    assert execute(postgres_dsn, SENT) == [("ops", "began", "1", 0)]
    server.decide = lambda path, headers: 503
    with pytest.raises(OutgoingError, match=r"answered with status 503, which begins: not\\r\\nnow$"):
        run(operations, first)
    [open_one] = [incident for incident in operations.open_incidents() if incident.kind == "trigger-error"]
    [sent] = open_one.notifications
    assert (sent.channel, sent.event, sent.attempts, sent.delivered_at, sent.failed_at) == (
        "ops",
        "began",
        1,
        None,
        None,
    )
    assert "503" in (sent.error or "")
    server.decide = lambda path, headers: 200
    assert run(operations, first, attempt=2) == "status 200"
    # A repetition after a kill sends nothing more.
    assert run(operations, first, attempt=2) == "it was delivered before"
    assert [request.headers["webhook-id"] for request in server.requests] == [first, first]
    assert all(request.is_signed for request in server.requests)
    [listed] = server.requests[-1].document["incidents"]
    assert (listed["incident_id"], listed["subject"]) == (open_one.incident_id, "DEFAULT.bad")
    [sent] = operations.incident(open_one.incident_id).notifications
    assert (sent.attempts, sent.delivered_at, sent.error) == (2, store.clock.now(), None)
    # It is said again while it lasts, unless somebody takes note of it, and once when it is over.
    store.clock.advance(timedelta(minutes=10))
    judge(store, operations, node)
    operations.actions.acknowledge(open_one.incident_id, reason="I see to it")
    store.clock.advance(timedelta(minutes=10))
    judge(store, operations, node)
    operations.actions.reset(key("bad"))
    judge(store, operations_of(store, notify_channels={}), node)
    assert [row[1] for row in execute(postgres_dsn, SENT)] == ["began", "lasts", "over"]
    [closed] = [one for one in operations.past_incidents() if one.incident_id == open_one.incident_id]
    assert [row.event for row in closed.notifications] == ["began", "lasts", "over"]


def test_many_are_one_message_and_what_cannot_be_stored_is_told_at_the_next_turn(
    store: Harness, operations: Operations, node: Node, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_triggers(store, *(f"t{number:02}" for number in range(30)))

    def broken(*arguments: object) -> None:
        raise RuntimeError("in the middle of the transaction")

    monkeypatch.setattr(incidents, "prepare", broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        judge(store, operations, node)
    assert execute(postgres_dsn, "SELECT count(*) FROM qrtz_incidents") == [(30,)], "recorded without the message"
    assert execute(postgres_dsn, SENT) == [], "of which nothing is stored"
    monkeypatch.undo()
    judge(store, operations, node)
    assert execute(postgres_dsn, "SELECT count(*) FROM qrtz_incidents") == [(30,)]
    assert execute(postgres_dsn, SENT) == [("ops", "began", "30", 0)]
    assert len(waiting(store)) == 1


def test_an_end_whose_message_cannot_be_stored_is_told_at_the_next_turn(
    store: Harness, operations: Operations, node: Node, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_triggers(store, "bad")
    judge(store, operations, node)
    operations.actions.reset(key("bad"))

    def broken(*arguments: object) -> None:
        raise RuntimeError("in the middle of the transaction")

    monkeypatch.setattr(incidents, "prepare", broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        judge(store, operations, node)
    monkeypatch.undo()
    judge(store, operations, node)
    assert [row[1] for row in execute(postgres_dsn, SENT)] == ["began", "over"]
    assert not operations.open_incidents()


def test_a_judgement_whose_turn_is_another_ones_notifies_nobody(
    store: Harness, operations: Operations, node: Node, postgres_dsn: str
) -> None:
    break_triggers(store, "bad")
    store.clock.advance(EVERY)
    stale = admin(store.store).take_slot(EVERY, LISTED_EVERY)
    judge(store, operations_of(store), node)
    HealthCheck(operations.scheduler).judge(stale)
    assert execute(postgres_dsn, SENT) == [("ops", "began", "1", 0)]


def test_time_in_which_nobody_judged_is_told_when_it_is_over(store: Harness, node: Node, postgres_dsn: str) -> None:
    operations = operations_of(store, notify_channels={"ops": "env:OPS_URL"})
    store.clock.advance(LEAST_GAP + EVERY)
    judge(store, operations, node)
    assert ("ops", "over", "1", 0) in execute(postgres_dsn, SENT)


def test_a_pause_of_everything_does_not_hold_notifications_and_one_of_their_group_does(
    store: Harness, operations: Operations, node: Node
) -> None:
    operations.scheduler.pause_all()
    break_triggers(store, "bad")
    judge(store, operations, node)
    store.acquire(node)
    assert states(store) == ["WAITING"]
    operations.scheduler.pause_job_group(NOTIFICATIONS)
    judge(store, operations, node)
    assert states(store) == ["PAUSED"]


def test_a_calendar_and_groups_decide_as_they_are_stored(store: Harness, node: Node, postgres_dsn: str) -> None:
    today = store.clock.now().date()
    store.store.put_calendar("working", HolidayCalendar([today]), replace=True)
    channels = {
        "closed": Channel(url="env:OPS_URL", routes=[Route(calendar="working", kinds=["trigger-*"])]),
        "typo": Channel(url="env:OPS_URL", routes=[Route(calendar="not stored", kinds=["trigger-*"])]),
        "group": Channel(url="env:OPS_URL", routes=[Route(groups=["elsewhere"])]),
    }
    break_triggers(store, "bad")
    judge(store, operations_of(store, notify_channels=channels), node)
    assert execute(postgres_dsn, SENT) == [("typo", "began", "1", 0)]


def test_without_channels_nothing_is_asked_and_nothing_is_stored(
    store: Harness, node: Node, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HealthCheck, "_deliver_in_spite_of", lambda self, pauses: None)
    break_triggers(store, "bad")
    judge(store, operations_of(store, notify_channels={}), node)
    assert execute(postgres_dsn, "SELECT count(*), count(notified) FROM qrtz_incidents") == [(1, 0)]
    assert execute(postgres_dsn, SENT) == []
    assert store.store.jobs({job_key_of("ops")}) == {}


def test_the_heartbeat_is_sent_by_whoever_judges_while_a_node_takes_triggers(
    store: Harness, node: Node, server: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    def operations(url: str = f"{server.url}/beat", every: str = "5s") -> Operations:
        return operations_of(store, notify_channels={}, heartbeat_url=url, heartbeat_interval=every)

    judge(store, operations(), node)
    wait_until(lambda: len(server.requests) == 1, "the heartbeat")
    assert (server.requests[0].method, server.requests[0].path) == ("GET", "/beat")
    judge(store, operations("env:NO_SUCH_VARIABLE"), node)
    assert "heartbeat_url: env:NO_SUCH_VARIABLE is empty" in caplog.text
    # Not in the same interval again, and not while nobody takes triggers.
    judge(store, operations(every="10d"), node)
    store.store.set_node_mode("a", NodeMode.STANDBY)
    judge(store, operations(), node)
    store.store.set_node_mode("a", NodeMode.RUNNING)
    judge(store, operations(f"{server.url}/last"), node)
    wait_until(lambda: len(server.requests) == 2, "the next heartbeat")
    assert server.requests[1].path == "/last"


def test_the_last_attempt_is_noted_and_its_error_has_a_bound(
    store: Harness, operations: Operations, node: Node, server: Receiver
) -> None:
    break_triggers(store, "bad")
    judge(store, operations, node)
    [number] = waiting(store)
    server.decide = lambda path, headers: 302
    with pytest.raises(OutgoingError, match="status 302"):
        run(operations, number, attempt=RETRY.attempts)
    [sent] = operations.open_incidents()[0].notifications
    assert sent.failed_at == store.clock.now()
    assert len(sent.error or "") <= 500


def test_old_notifications_are_deleted(store: Harness, operations: Operations, node: Node, postgres_dsn: str) -> None:
    break_triggers(store, "bad")
    judge(store, operations, node)
    store.clock.advance(timedelta(days=8))
    store.store.purge_history(timedelta(days=7), limit=100)
    assert execute(postgres_dsn, SENT) == []


# --- what is sent, to where

# Some versions of apprise import what Python is about to remove.
APPRISE = pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")


@APPRISE
@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://127.0.0.1:1/secret", r"^no answer: ConnectionRefusedError: Connection refused$"),
        ("http://no-such-host.invalid/secret", r"^no answer: gaierror: "),
        ("http://127.0.0.1:x/secret", r"^no answer: ValueError$"),
        ("http://[::1/secret", r"^no answer: ValueError$"),
        ("http:///secret", "not one with http:// or https:// and a host"),
        ("nonsense://secret", "apprise does not know this URL"),
        ("json://127.0.0.1:1/secret", "apprise did not deliver it"),
        ("env:NO_SUCH_VARIABLE", "env:NO_SUCH_VARIABLE is empty"),
        ("file:/nowhere/secret.txt", "file:/nowhere/secret.txt cannot be read: FileNotFoundError"),
    ],
)
def test_an_error_says_what_is_wrong_without_the_url(url: str, error: str, caplog: pytest.LogCaptureFixture) -> None:
    document = {"title": "t", "text": "x", "severity": "error"}
    with pytest.raises(OutgoingError, match=error) as failed:
        send(Channel(url=url), document, "n1")
    assert "secret" not in str(failed.value) or url.startswith("file:")


def test_a_webhook_receives_what_no_text_can_break(server: Receiver) -> None:
    document = {"title": "a\r\nx-injected: 1", "text": "\ud800 \0 é", "severity": "error"}
    assert send(Channel(url=f"{server.url}/a%20b?c=ü"), document, "n1") == "status 200"
    [request] = server.requests
    assert request.path == "/a%20b?c=%C3%BC"
    assert "x-injected" not in request.headers
    assert request.document["title"] == document["title"]
    assert request.headers["idempotency-key"] == request.headers["webhook-id"] == "n1"
    assert "webhook-signature" not in request.headers


def test_an_id_cannot_inject_a_header(server: Receiver) -> None:
    with pytest.raises(OutgoingError, match="no answer: ValueError"):
        send(Channel(url=server.url), {"title": "", "text": "", "severity": "error"}, "n1\r\nx: 1")
    assert server.requests == []


@APPRISE
def test_apprise_gets_the_title_on_one_line_and_the_severity(server: Receiver) -> None:
    url = server.url.replace("http://", "json://")
    document = {"title": "[main] It\nbroke", "text": "Because.\nand 3 more", "severity": "error"}
    assert send(Channel(url=f"{url}/hook"), document, "n1") == "delivered"
    [request] = server.requests
    assert (request.document["title"], request.document["type"]) == ("[main] It\\nbroke", "failure")
    assert json.loads(request.body)["message"] == "Because.\nand 3 more"
