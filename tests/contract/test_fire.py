"""Tests of the fire step, and of releasing claims."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from quartzpy.errors import LeaseLostError
from quartzpy.matchers import GroupMatcher
from quartzpy.store.protocol import (
    EVERYTHING,
    AcquiredTrigger,
    JobGroups,
    NamedTriggers,
    Node,
    TriggerGroups,
    TriggersOfJobs,
)
from tests.contract.harness import (
    HOUR,
    SECOND,
    START,
    Harness,
    at,
    data_of,
    every,
    job,
    job_key,
    key,
    names,
    once,
    serial,
    stored_trigger,
)


def claimed(store: Harness, node: Node) -> AcquiredTrigger:
    """The claim on the one trigger that is due within the hour."""
    [claim] = store.acquire(node, look_ahead=HOUR).acquired
    return claim


def test_a_claim_fires_at_its_instant(store: Harness) -> None:
    node = store.node()
    detail = job(data={"a": 1})
    store.schedule(detail, every(10, start=at(5), data={"b": 2}))
    claim = claimed(store, node)
    store.clock.advance(5 * SECOND)
    firing = store.fire(node, [claim])
    [fired] = firing.fired
    assert (firing.now, set(firing.not_due)) == (at(5), set())
    assert fired.fire_id == claim.fire_id
    assert (fired.scheduled_fire_time, fired.fire_time) == (at(5), at(5))
    assert (fired.previous_fire_time, fired.next_fire_time, fired.times_triggered) == (None, at(15), 1)
    assert data_of(fired) == ({"a": 1}, {"b": 2})
    assert (fired.trigger, fired.job_detail) == (replace(claim.trigger, data={"b": 2}), detail)
    assert store.state("every") == "WAITING"
    assert store.progress("every").next_fire_time == at(15)
    assert store.progress("every").previous_fire_time == at(5)
    assert not store.claims()
    assert len(store.running()) == 1


def test_the_instants_computed_for_a_claim_are_stored_with_its_fire(store: Harness) -> None:
    node = store.node()
    store.schedule_exhausted(job(), every(10))
    [claim] = store.acquire(node).acquired
    [fired] = store.fire(node, [claim]).fired
    assert store.upcoming("every") == [at(10 * n) for n in range(2, 10)]
    assert fired.upcoming is None, "enough are left"
    store.clock.advance(10 * SECOND)
    assert names(store.acquire(node).fired) == ["every"]


def test_what_is_not_due_yet_stays_claimed(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("soon", at(1)), once("later", at(2)))
    claims = store.acquire(node, look_ahead=HOUR).acquired
    store.clock.advance(SECOND)
    firing = store.fire(node, claims)
    assert names(firing.fired) == ["soon"]
    assert set(firing.not_due) == {claims[1].fire_id}
    assert store.state("later") == "ACQUIRED"
    store.clock.advance(SECOND)
    assert names(store.fire(node, [claims[1]]).fired) == ["later"]


def test_a_claim_is_fired_early_if_the_node_asks_for_it_and_its_fire_time_is_the_scheduled_one(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10, start=at(1)), once("later", at(2)))
    claims = store.acquire(node, look_ahead=HOUR).acquired
    firing = store.fire(node, claims, early=SECOND)
    [fired] = firing.fired
    assert (firing.now, fired.fire_time, fired.scheduled_fire_time) == (START, at(1), at(1))
    assert set(firing.not_due) == {claims[1].fire_id}
    assert store.progress("every").next_fire_time == at(11)
    store.clock.advance(2 * SECOND)
    assert store.fire(node, [claims[1]], early=SECOND).fired[0].fire_time == at(2)
    assert not store.complete(node, fired).fenced


def test_the_last_fire_of_a_claim_leaves_the_trigger_complete(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once(when=at(1)))
    claim = claimed(store, node)
    store.clock.advance(SECOND)
    [fired] = store.fire(node, [claim]).fired
    assert fired.next_fire_time is None
    assert store.state("once") == "COMPLETE"


def test_firing_nothing_is_possible(store: Harness) -> None:
    node = store.node()
    firing = store.fire(node, [])
    assert (firing.now, tuple(firing.fired), set(firing.not_due)) == (START, (), set())


def test_a_claim_fires_once(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10, start=at(1)))
    claim = claimed(store, node)
    store.clock.advance(SECOND)
    assert store.fire(node, [claim]).fired
    again = store.fire(node, [claim])
    assert (tuple(again.fired), set(again.not_due)) == ((), set())
    assert store.progress("every").times_triggered == 1
    assert len(store.running()) == 1


def test_a_claim_fires_only_for_the_node_that_has_it(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), once(when=at(1)))
    claim = claimed(store, a)
    store.clock.advance(SECOND)
    assert not store.fire(b, [claim]).fired
    assert store.state("once") == "ACQUIRED"
    assert names(store.fire(a, [claim]).fired) == ["once"]


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(lambda h: h.store.pause(NamedTriggers([key("every")])), id="paused"),
        pytest.param(lambda h: h.store.pause(TriggersOfJobs([job_key()])), id="job paused"),
        pytest.param(lambda h: h.store.pause(TriggerGroups(GroupMatcher.equals("DEFAULT"))), id="group paused"),
        pytest.param(lambda h: h.store.pause(JobGroups(GroupMatcher.equals("DEFAULT"))), id="job group paused"),
        pytest.param(lambda h: h.store.pause(EVERYTHING), id="all paused"),
        pytest.param(lambda h: h.store.delete_triggers([key("every")]), id="deleted"),
        pytest.param(lambda h: h.store.delete_jobs([job_key()]), id="job deleted"),
        pytest.param(lambda h: h.store.clear(), id="cleared"),
        pytest.param(
            lambda h: h.store.replace_trigger(key("every"), h.prepare(every(20, start=at(1)), job_key())),
            id="rescheduled",
        ),
    ],
)
def test_a_claim_that_was_lost_meanwhile_does_not_fire(store: Harness, lose: object) -> None:
    node = store.node()
    store.schedule(job(), every(10, start=at(1)))
    claim = claimed(store, node)
    lose(store)  # type: ignore[operator]
    before = store.state("every")
    assert not store.claims()
    store.clock.advance(SECOND)
    firing = store.fire(node, [claim])
    assert (tuple(firing.fired), set(firing.not_due)) == ((), set())
    assert store.state("every") == before
    assert not store.running()
    store.store.release(node, [claim.fire_id])
    assert store.state("every") == before


def test_a_claim_that_was_paused_and_resumed_does_not_fire(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), every(10, start=at(1)))
    claim = claimed(store, a)
    store.store.pause(NamedTriggers([key("every")]))
    store.store.resume(NamedTriggers([key("every")]))
    assert store.state("every") == "WAITING"
    new = claimed(store, b)
    store.clock.advance(SECOND)
    assert not store.fire(a, [claim]).fired
    assert store.state("every") == "ACQUIRED"
    assert names(store.fire(b, [new]).fired) == ["every"]


def test_one_of_two_claims_on_a_serial_job_fires_and_the_other_is_dropped(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), once("low", at(1), priority=1), once("high", at(1), priority=9), once("late", at(2)))
    claims = [claimed(store, node) for _ in range(3)]
    assert sorted(names(claims)) == ["high", "late", "low"]
    store.clock.advance(3 * SECOND)
    firing = store.fire(node, claims)
    assert names(firing.fired) == ["high"]
    assert not firing.not_due
    assert store.states("high", "low", "late") == ["COMPLETE", "BLOCKED", "BLOCKED"]
    assert not store.claims()


def test_a_claimed_serial_fire_blocks_all_other_triggers_of_its_job(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(serial(), every(10, start=at(1)), once("claimed", at(2)), once("paused", at(9)), once("far", at(9)))
    store.store.pause(NamedTriggers([key("paused")]))
    mine, other = claimed(store, a), claimed(store, b)
    assert (names([mine]), names([other])) == (["every"], ["claimed"])
    store.clock.advance(2 * SECOND)
    assert names(store.fire(a, [mine]).fired) == ["every"]
    assert store.states("every", "claimed", "paused", "far") == [
        "BLOCKED",
        "BLOCKED",
        "PAUSED_BLOCKED",
        "BLOCKED",
    ]
    assert not store.fire(b, [other]).fired
    assert len(store.running()) == 1


def test_a_released_claim_waits_again(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), once(when=at(1)))
    claim = claimed(store, a)
    store.store.release(a, [claim.fire_id])
    assert store.state("once") == "WAITING"
    assert not store.claims()
    store.clock.advance(SECOND)
    assert not store.fire(a, [claim]).fired
    assert names(store.acquire(b).fired) == ["once"]


def test_release_touches_only_what_is_acquired_with_that_fire_id(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(serial(), every(10))
    store.schedule(job("other"), once(when=at(1)))
    running = store.acquire(a).fired[0]
    theirs = claimed(store, b)
    store.store.release(a, [running.fire_id, theirs.fire_id, 999_999])
    assert store.states("every", "once") == ["BLOCKED", "ACQUIRED"]
    assert len(store.running()) == 1
    assert len(store.claims()) == 1


def test_releasing_nothing_is_possible(store: Harness) -> None:
    store.store.release(store.node(), [])


def test_a_dead_epoch_fires_nothing(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), every(10, start=at(1)))
    claim = claimed(store, a)
    store.recover(b, a)
    store.clock.advance(SECOND)
    with pytest.raises(LeaseLostError):
        store.fire(a, [claim])
    assert store.state("every") == "WAITING"
    assert not store.store.list_running()


def test_a_dead_epoch_releases_nothing_that_others_have(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), every(10, start=at(1)))
    old = claimed(store, a)
    store.recover(b, a)
    claimed(store, b)
    with suppress(LeaseLostError):
        store.store.release(a, [old.fire_id])
    assert store.state("every") == "ACQUIRED"


def test_a_new_epoch_of_the_same_id_cannot_fire_the_old_ones_claims(store: Harness) -> None:
    a = store.node("a")
    store.schedule(job(), every(10, start=at(1)))
    claim = claimed(store, a)
    new = store.node("a", ended_epoch=a.epoch)
    store.clock.advance(SECOND)
    assert not store.fire(new, [claim]).fired
    with pytest.raises(LeaseLostError):
        store.fire(a, [claim])


def test_a_rejected_claim_is_in_error_whatever_its_reason_holds(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(10, start=at(5)))
    claim = claimed(store, node)
    store.store.reject(node, {claim.fire_id: "cannot be computed: \0 \ud800"})
    record = stored_trigger(store.store, key("every"))
    assert record is not None
    assert (record.state, "cannot be computed" in str(record.error)) == ("ERROR", True)
    assert not store.claims()
