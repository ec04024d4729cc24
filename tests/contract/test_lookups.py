"""Tests of queries by key and by group, of totals, and of notifications."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from quartzpy import Scheduler
from quartzpy.jobs.job import JobDetail
from quartzpy.keys import MANUAL_TRIGGERS, JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.scheduler.singles import state_of_trigger
from quartzpy.states import PublicState, TriggerState
from quartzpy.store.protocol import DispatchKey, FiredTrigger, NamedTriggers, NameKind, Node, Notification, Subscription
from quartzpy.store.queries import HISTORY, JobQuery, TriggerOrder, TriggerQuery
from tests.contract.harness import (
    HOUR,
    SECOND,
    START,
    Harness,
    at,
    every,
    job,
    job_key,
    key,
    once,
    serial,
    stored_job,
    stored_trigger,
)
from tests.contract.test_pausing import GROUPS, each_match, schedule_groups
from tests.waiting import LIMIT


def test_an_empty_store_has_nothing(store: Harness) -> None:
    look = store.store
    assert stored_job(look, job_key()) is None
    assert stored_trigger(look, key("once")) is None
    assert look.find(TriggerQuery(job_key=job_key()), None) == []
    assert look.keys(JobKey, GroupMatcher.anything()) == set()
    assert look.keys(TriggerKey, GroupMatcher.anything()) == set()
    assert (look.names(NameKind.JOB_GROUPS), look.names(NameKind.TRIGGER_GROUPS)) == ([], [])
    assert (look.pauses().trigger_groups, look.pauses().job_groups, look.pauses().everything) == (
        set(),
        set(),
        False,
    )
    assert look.waiting_dispatch_keys() == set()
    assert look.calendars(["absent"]) == {}
    assert (
        look.find(JobQuery(), 5),
        look.find(TriggerQuery(order=TriggerOrder.NEXT_FIRE_TIME), 5),
        look.list_running(),
        look.find(HISTORY, 5),
    ) == (
        [],
        [],
        [],
        [],
    )
    assert look.list_nodes().nodes == ()
    assert (look.count(JobQuery()), look.count(TriggerQuery())) == (0, 0)


def test_a_running_execution_names_who_asked_for_it_if_it_is_one_by_hand(store: Harness) -> None:
    node, asked = store.node(), {"QRTZ_TRIGGERED_BY": "ann", "region": "eu"}
    store.schedule(job(), once("scheduled", data=asked))
    store.add_triggers(job_key(), once("by hand", group=MANUAL_TRIGGERS, data=asked))
    store.fire_due(node)
    assert {row.trigger_key.name: row.triggered_by for row in store.running()} == {"scheduled": None, "by hand": "ann"}
    for row in store.running():
        record = store.store.execution(row.fire_id)
        assert record is not None
        assert record.triggered_by == row.triggered_by


def test_the_documentation_of_a_job_is_stored_and_is_part_of_its_fires(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True, documentation_url="https://wiki.example.com/old"), once())
    store.store.modify_job(
        job_key(), lambda one: one.with_values({"documentation_url": "https://wiki.example.com/new"}), keeps_data=True
    )
    [record] = store.store.find(JobQuery(), 5)
    assert record.job.documentation_url == "https://wiki.example.com/new"
    fired = store.fire_one(node)
    store.store.modify_job(job_key(), lambda one: one.with_values({"documentation_url": None}), keeps_data=True)
    assert fired.job_detail.documentation_url == "https://wiki.example.com/new", "as it was at the fire"
    stored = stored_job(store.store, job_key())
    assert stored is not None
    assert stored.documentation_url is None


def test_a_display_name_is_listed_and_changes_nothing_else(store: Harness) -> None:
    node = store.node()
    trigger = every(10)
    store.schedule(job(durable=True, display_name="Nightly report"), trigger)
    store.schedule(job("plain", durable=True))
    assert [(one.key.name, one.display_name) for one in store.store.find(JobQuery(), 5)] == [
        ("job", "Nightly report"),
        ("plain", None),
    ]
    fired = store.fire_one(node)
    before = stored_trigger(store.store, trigger.key)
    store.store.modify_job(job_key(), lambda one: one.with_values({"display_name": "Früh"}), keeps_data=True)
    stored = stored_job(store.store, job_key())
    assert stored is not None
    assert (stored.display_name, stored.description) == ("Früh", None)
    assert stored_trigger(store.store, trigger.key) == before
    assert fired.job_detail.display_name == "Nightly report", "as it was at the fire"


def test_public_states_are_quartzs(store: Harness) -> None:
    node = store.node()
    store.schedule(serial("serial"), every(10, "blocked"), once("paused_blocked", at(9)))
    store.store.pause(NamedTriggers([key("paused_blocked")]))
    store.schedule(job(), once("complete"))
    store.fire_due(node)
    store.schedule(job("more"), once("waiting", at(9)), once("paused"), once("error", at(9)))
    store.store.pause(NamedTriggers([key("paused")]))
    store.set_state(key("error"), TriggerState.ERROR)
    wanted = {
        "waiting": PublicState.NORMAL,
        "blocked": PublicState.BLOCKED,
        "paused": PublicState.PAUSED,
        "paused_blocked": PublicState.PAUSED,
        "complete": PublicState.COMPLETE,
        "error": PublicState.ERROR,
        "absent": PublicState.NONE,
    }
    assert {name: state_of_trigger(store.store, key(name)) for name in wanted} == wanted


def test_the_states_in_the_rows_are_quartzs(store: Harness) -> None:
    node = store.node()
    store.schedule(serial("serial"), every(10, "blocked"))
    store.schedule(job(), once("complete"))
    store.acquire(node)
    assert store.states("blocked", "complete") == ["BLOCKED", "COMPLETE"]


@each_match
def test_keys_are_found_by_each_operator(store: Harness, matcher: GroupMatcher, matched: set[str]) -> None:
    schedule_groups(store)
    assert store.store.keys(TriggerKey, matcher) == {key(group, group) for group in matched}
    assert store.store.keys(JobKey, matcher) == {job_key(group, group) for group in matched}


def test_groups_are_listed_once_and_in_order(store: Harness) -> None:
    schedule_groups(store)
    store.schedule(job("another", "billing"), once("another", group="billing"))
    assert sorted(store.store.names(NameKind.JOB_GROUPS)) == sorted(GROUPS)
    assert sorted(store.store.names(NameKind.TRIGGER_GROUPS)) == sorted(GROUPS)
    store.store.clear()
    for group in ("b", "c", "a"):
        store.schedule(job("j", group), once("t", group=group))
    assert store.store.names(NameKind.JOB_GROUPS) == store.store.names(NameKind.TRIGGER_GROUPS) == ["a", "b", "c"]


def test_many_jobs_and_triggers_are_found_at_once(store: Harness) -> None:
    store.schedule(job("a", "g", data={"n": 1}), once("a"))
    store.schedule(job("b", data={"n": 2}), once("b", group="g", priority=7), once("c"))
    look = store.store
    jobs = look.jobs([job_key("b"), job_key("absent"), job_key("a", "g"), job_key("b"), job_key("b", "g")])
    assert jobs == {one: stored_job(look, one) for one in (job_key("a", "g"), job_key("b"))}
    assert {one.name: detail.data for one, detail in jobs.items()} == {"a": {"n": 1}, "b": {"n": 2}}
    triggers = look.triggers([key("b", "g"), key("b"), key("a"), key("absent"), key("a")])
    assert triggers == {one: stored_trigger(look, one) for one in (key("a"), key("b", "g"))}
    assert triggers[key("b", "g")].trigger.priority == 7
    assert look.jobs([]) == {}
    assert look.triggers([]) == {}


def test_the_triggers_of_a_job_are_found(store: Harness) -> None:
    store.schedule(job("one"), once("b"), once("a", at(5)))
    store.schedule(job("two"), once("c"))
    records = store.store.find(TriggerQuery(job_key=job_key("one")), None)
    assert store.store.find(TriggerQuery(job_key=job_key("absent")), None) == []
    assert [record.trigger.key for record in records] == [key("a"), key("b")]
    assert records == [stored_trigger(store.store, key("a")), stored_trigger(store.store, key("b"))]


def test_waiting_dispatch_keys_are_those_that_a_trigger_waits_for(store: Harness) -> None:
    store.schedule(job("a", job_type="report"), once("a"))
    store.schedule(job("b", job_type="report"), once("b"))
    store.schedule(job("c", job_type="invoice"), once("c"))
    store.schedule(job("d", job_type="idle", durable=True))
    assert store.store.waiting_dispatch_keys() == {DispatchKey("report"), DispatchKey("invoice")}
    store.store.pause(NamedTriggers([key("c")]))
    assert store.store.waiting_dispatch_keys() == {DispatchKey("report")}


def test_jobs_are_listed_by_key_with_how_many_triggers_they_have(store: Harness) -> None:
    details: list[JobDetail] = [job("b", durable=True), job("a"), job("z", "A-GROUP")]
    store.schedule(details[0])
    store.schedule(details[1], once("one"), once("two"))
    store.schedule(details[2], once("three"))
    listed = store.store.find(JobQuery(), 10)
    assert [(record.job.key.name, record.trigger_count) for record in listed] == [("z", 1), ("a", 2), ("b", 0)]
    assert listed[1].job == details[1]
    assert len(store.store.find(JobQuery(), 2)) == 2


def test_triggers_are_listed_by_fire_time_those_without_one_last(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("over"))
    store.fire_one(node)
    store.schedule(
        job("more"),
        once("late", at(9)),
        once("low", at(5)),
        once("high", at(5), priority=9),
        once("early", at(1)),
    )
    listed = [record.trigger.name for record in store.store.find(TriggerQuery(order=TriggerOrder.NEXT_FIRE_TIME), 10)]
    assert listed == ["early", "high", "low", "late", "over"]
    assert len(store.store.find(TriggerQuery(order=TriggerOrder.NEXT_FIRE_TIME), 3)) == 3


def test_executions_are_listed_before_their_instants_too(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), once("claimed", at(2)))
    [early] = store.acquire(b, look_ahead=HOUR).fired
    store.schedule(job("other"), once("runs", at(1)))
    store.clock.advance(SECOND)
    fired = store.fire_one(a)
    running, claimed = store.store.list_running()
    assert (claimed.fire_id, claimed.trigger_key, claimed.job_key) == (early.fire_id, key("claimed"), job_key())
    assert (claimed.instance_id, claimed.epoch, claimed.state) == ("b", b.epoch, "ACQUIRED")
    assert (claimed.scheduled_fire_time, claimed.recovering) == (at(2), False)
    assert (running.fire_id, running.trigger_key, running.job_key) == (
        fired.fire_id,
        key("runs"),
        job_key("other"),
    )
    assert (running.instance_id, running.epoch, running.state) == ("a", a.epoch, "EXECUTING")
    assert (running.scheduled_fire_time, running.fire_time) == (at(1), at(1))


def test_everything_is_counted(store: Harness) -> None:
    node = store.node()
    store.schedule(serial("serial"), every(10, "blocked"))
    store.schedule(job(), once("complete"), once("waiting", at(9)), once("more", at(9)))
    store.acquire(node)
    assert Scheduler(store.store, name="contract").counts() == {
        "jobs": 2,
        "triggers": {"BLOCKED": 1, "COMPLETE": 1, "WAITING": 2},
        "running": 2,
    }


def test_looking_changes_nothing(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(data={"a": [1]}), every(10, data={"b": [2]}))
    store.fire_one(node)
    before = store.everything()
    detail, record = stored_job(store.store, job_key()), stored_trigger(store.store, key("every"))
    assert detail is not None
    assert record is not None
    (detail.data or {})["a"].append(2)
    (record.trigger.data or {})["b"].append(2)
    store.store.find(JobQuery(), 1)[0].job.data["a"].append(3)  # type: ignore[index]
    assert store.everything() == before


def received(subscription: Subscription, wanted: Notification = Notification.CANCELLED) -> set[Notification]:
    """Return the notifications that arrive until the wanted one is among them."""
    found: set[Notification] = set()
    for _ in range(round(LIMIT)):
        found |= set(subscription.wait(1.0))
        if wanted in found:
            break
    return found


def asked_by_a_user(store: Harness, node: Node, fired: FiredTrigger) -> None:
    assert store.store.request_cancel(fired.fire_id)


def asked_by_the_next_fire(store: Harness, node: Node, fired: FiredTrigger) -> None:
    store.clock.advance(10 * SECOND)
    assert store.fire_due(node) == []


@pytest.mark.parametrize("ask", [asked_by_a_user, asked_by_the_next_fire])
def test_a_subscriber_is_notified_of_a_request_to_stop(
    store: Harness, ask: Callable[[Harness, Node, FiredTrigger], None]
) -> None:
    subscription = store.store.subscribe()
    if subscription is None:
        pytest.skip("this store sends no notifications")
    node = store.node()
    store.schedule(job(max_concurrent=1, overlap_policy="cancel_other"), every(10))
    fired = store.fire_one(node)
    subscription.wait(0)
    ask(store, node, fired)
    assert Notification.CANCELLED in received(subscription)
    assert store.store.cancel_requests(node) == {fired.fire_id}
    subscription.close()


def test_an_ended_subscription_receives_nothing(store: Harness) -> None:
    first, second = store.store.subscribe(), store.store.subscribe()
    if first is None or second is None:
        pytest.skip("this store sends no notifications")
    first.close()
    node = store.node()
    store.schedule(job(), every(10))
    store.store.request_cancel(store.fire_one(node).fire_id)
    assert Notification.CANCELLED in received(second)
    second.close()


def test_a_wait_for_notifications_can_be_interrupted(store: Harness) -> None:
    subscription = store.store.subscribe()
    if subscription is None:
        pytest.skip("this store sends no notifications")
    waiting = threading.Thread(target=subscription.wait, args=(60.0,), daemon=True)
    waiting.start()
    subscription.interrupt()
    waiting.join(LIMIT)
    assert not waiting.is_alive()
    began = time.monotonic()
    subscription.wait(2 * LIMIT)
    assert time.monotonic() - began < LIMIT
    subscription.close()
    subscription.interrupt()


@pytest.mark.parametrize("count", [1, 3])
def test_the_next_fire_times_can_be_read_off_a_trigger(store: Harness, count: int) -> None:
    store.schedule(job(), every(10, times=count))
    assert store.progress("every").next_fire_time == START
    assert store.upcoming("every") == [at(10 * n) for n in range(1, count)]
