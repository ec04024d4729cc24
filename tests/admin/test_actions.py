"""Tests of the audit log of operators' actions, and of commands to nodes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from quartzpy.errors import LeaseLostError
from quartzpy.states import ActionState, NodeMode
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import ActionEntry
from quartzpy.store.protocol import JobStore, NamedTriggers, Notification
from quartzpy.store.queries import ActionQuery
from quartzpy.store.records import ActionRecord
from tests.contract.harness import HOUR, MINUTE, START, Harness, job, key, once

ENTRY = ActionEntry("ann", "operator", "pause", "trigger g.t", "stocktaking", before_text='{"state": "WAITING"}')


def actions(store: Harness, **filters: object) -> list[ActionRecord]:
    return admin(store.store).find(ActionQuery(**filters), None)  # type: ignore[arg-type]


def test_an_action_is_recorded_with_the_time_of_the_store(store: Harness) -> None:
    number = admin(store.store).record_action(ENTRY)
    [found] = actions(store)
    assert (found.action_id, found.at, found.ended_at) == (number, START, None)
    assert (found.actor, found.role, found.action, found.subject) == ("ann", "operator", "pause", "trigger g.t")
    assert (found.reason, found.state, found.count) == ("stocktaking", ActionState.RUNNING, 0)
    assert (found.before, found.after, found.error) == ({"state": "WAITING"}, None, None)


def test_an_action_that_has_ended_already_has_its_end(store: Harness) -> None:
    admin(store.store).record_action(
        ActionEntry("a", "admin", "delete", "job g.j", state=ActionState.FAILED, count=1, error="no")
    )
    [found] = actions(store)
    assert (found.ended_at, found.state, found.error) == (START, ActionState.FAILED, "no")


def test_several_actions_are_recorded_in_their_order(store: Harness) -> None:
    ended = ActionEntry("bob", "admin", "apply", "job g.j", state=ActionState.SUCCEEDED, count=1, after_text='{"a": 1}')
    admin(store.store).record_actions([ENTRY, ended, replace(ended, subject="job g.k", error="no")])
    admin(store.store).record_actions([])
    last, middle, first = actions(store)
    assert (first.subject, first.state, first.ended_at, first.updated_at) == (ENTRY.subject, "RUNNING", None, START)
    assert (first.before, first.after, first.reason) == ({"state": "WAITING"}, None, "stocktaking")
    assert (middle.actor, middle.after, middle.count, middle.ended_at) == ("bob", {"a": 1}, 1, START)
    assert (last.subject, last.error, last.updated_at) == ("job g.k", "no", None)


def test_a_running_action_is_updated_until_it_has_ended(store: Harness) -> None:
    number = admin(store.store).record_action(ENTRY)
    store.clock.advance(MINUTE)
    admin(store.store).update_action(number, state=ActionState.RUNNING, count=200)
    [found] = actions(store)
    assert (found.count, found.ended_at) == (200, None)
    admin(store.store).update_action(number, state=ActionState.RUNNING, count=100)
    [found] = actions(store)
    assert found.count == 200, "it never falls: the caller may not know of its last change"
    after = json.dumps({"failed": 1})
    admin(store.store).update_action(number, state=ActionState.SUCCEEDED, count=300, after_text=after)
    [ended] = actions(store)
    assert (ended.count, ended.at, ended.ended_at) == (300, START, START + MINUTE)
    assert (ended.before, ended.after) == ({"state": "WAITING"}, {"failed": 1})
    admin(store.store).update_action(number, state=ActionState.FAILED, count=1, error="late")
    assert actions(store) == [ended], "an action that has ended does not change"


def test_an_action_that_is_not_updated_is_interrupted_and_goes_on_if_its_process_was_only_slow(store: Harness) -> None:
    silent, busy = admin(store.store).record_action(ENTRY), admin(store.store).record_action(ENTRY)
    admin(store.store).record_action(replace(ENTRY, state=ActionState.SUCCEEDED))
    admin(store.store).update_action(silent, state=ActionState.RUNNING, count=200)
    store.clock.advance(2 * MINUTE)
    admin(store.store).update_action(busy, state=ActionState.RUNNING, count=100)
    assert admin(store.store).interrupt_actions(2 * MINUTE) == 0
    assert len(actions(store, state=ActionState.RUNNING)) == 2
    assert admin(store.store).interrupt_actions(MINUTE) == 1
    assert admin(store.store).interrupt_actions(MINUTE) == 0
    [found] = actions(store, state=ActionState.INTERRUPTED)
    assert (found.action_id, found.count, found.ended_at) == (silent, 200, START)
    assert found.error is not None
    admin(store.store).update_action(silent, state=ActionState.RUNNING, count=400)
    assert [(one.action_id, one.error) for one in actions(store, state=ActionState.RUNNING)] == [
        (busy, None),
        (silent, None),
    ]
    admin(store.store).update_action(silent, state=ActionState.SUCCEEDED, count=500)
    assert [one.count for one in actions(store, state=ActionState.SUCCEEDED)] == [0, 500]
    store.clock.advance(2 * MINUTE)
    store.store.purge_history(None, limit=10, ended_triggers=HOUR)
    assert [one.action_id for one in actions(store, state=ActionState.INTERRUPTED)] == [busy], "a node marks it"


def test_actions_are_found_by_each_filter_latest_first(store: Harness) -> None:
    for actor, action in (("ann", "pause"), ("bob", "pause"), ("ann", "resume")):
        admin(store.store).record_action(ActionEntry(actor, "admin", action, f"trigger g.{actor}"))
        store.clock.advance(MINUTE)
    assert [(one.actor, one.action) for one in actions(store)] == [
        ("ann", "resume"),
        ("bob", "pause"),
        ("ann", "pause"),
    ]
    assert [one.action for one in actions(store, actor="ann")] == ["resume", "pause"]
    assert [one.actor for one in actions(store, action="pause")] == ["bob", "ann"]
    assert [one.actor for one in actions(store, subject="trigger g.bob")] == ["bob"]
    assert len(actions(store, since=START + MINUTE, until=START + 2 * MINUTE)) == 1
    assert actions(store, state=ActionState.FAILED) == []
    assert store.store.count(ActionQuery(actor="ann")) == 2


def test_the_audit_log_outlives_clear_and_is_purged_by_its_own_time(store: Harness) -> None:
    for _ in range(3):
        admin(store.store).record_action(ENTRY)
        store.clock.advance(HOUR)
    store.store.clear()
    assert len(actions(store)) == 3
    assert store.store.purge_history(MINUTE, limit=10).rows == 0
    assert store.store.purge_history(None, limit=1, actions=1.5 * HOUR).rows == 1
    assert store.store.purge_history(None, limit=10, actions=1.5 * HOUR).rows == 1
    assert [one.at for one in actions(store)] == [START + 2 * HOUR]


def test_changes_that_are_made_together_are_kept_together(store: Harness) -> None:
    store.schedule(job(), once("t"))

    def work(inside: JobStore) -> int:
        inside.pause(NamedTriggers([key("t")]))
        return admin(inside).record_action(ENTRY)

    number = store.store.together(work)
    assert store.state("t") == "PAUSED"
    assert [one.action_id for one in actions(store)] == [number]


# --- commands to nodes


def test_a_node_starts_as_running_and_takes_the_mode_that_was_set(store: Harness) -> None:
    node = store.node("a")
    [record] = store.store.list_nodes().nodes
    assert (record.mode, record.mode_since) == (NodeMode.RUNNING, None)
    since = store.store.set_node_mode("a", NodeMode.DRAINING)
    [record] = store.store.check_in(node).nodes
    assert (record.mode, record.mode_since) == (NodeMode.DRAINING, since)
    assert since == START


def test_the_instant_of_a_command_rises_even_if_the_clock_does_not(store: Harness) -> None:
    store.node("a")
    first = store.store.set_node_mode("a", NodeMode.STANDBY)
    second = store.store.set_node_mode("a", NodeMode.RUNNING)
    assert first is not None
    assert second is not None
    assert second > first


def test_a_command_to_a_node_that_is_not_registered_changes_nothing(store: Harness) -> None:
    store.node("a")
    assert store.store.set_node_mode("b", NodeMode.STANDBY) is None
    assert [one.mode for one in store.store.list_nodes().nodes] == [NodeMode.RUNNING]


def test_the_next_epoch_of_a_node_starts_as_running(store: Harness) -> None:
    node = store.node("a")
    store.store.set_node_mode("a", NodeMode.DRAINING)
    store.node("a", ended_epoch=node.epoch)
    [record] = store.store.list_nodes().nodes
    assert (record.mode, record.mode_since) == (NodeMode.RUNNING, None)
    with pytest.raises(LeaseLostError):
        store.store.check_in(node)


def test_a_command_is_announced(store: Harness) -> None:
    store.node("a")
    subscription = store.store.subscribe()
    if subscription is None:
        return
    try:
        store.store.set_node_mode("a", NodeMode.STANDBY)
        assert Notification.COMMANDED in subscription.wait(10)
    finally:
        subscription.close()


def test_pages_of_actions_are_the_whole_in_pieces(store: Harness) -> None:
    views, query = admin(store.store), ActionQuery()
    for number in range(3):
        views.record_action(ActionEntry("ann", "operator", "pause", f"trigger g.{number}"))
    whole = views.find(query, None)
    assert [record.subject for record in whole] == ["trigger g.2", "trigger g.1", "trigger g.0"]
    for size in (1, 2, 3, 100):
        after, pages = None, []
        while page := views.find(query, size, after):
            pages += page
            after = query.position(page[-1])
        assert pages == whole
    assert views.count(query) == len(whole)
    assert views.find(query, 0) == []
