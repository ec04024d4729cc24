"""Tests of executions in all states, from before their fire to the history."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from quartzpy.states import ENDED, ExecutionState, Outcome
from quartzpy.store.protocol import NamedTriggers
from quartzpy.store.queries import HISTORY, ExecutionQuery
from quartzpy.store.records import ExecutionRecord
from tests.contract.harness import HOUR, SECOND, Harness, at, job, job_key, key, once

EVERY = frozenset(ExecutionState)
INVOICE = "invoice"
"""A second job type: what is scheduled is found by its type."""
NEWEST_FIRST = [
    "enqueued",
    "processing",
    "snoozed",
    "skipped",
    "cancelled",
    "failed",
    "succeeded",
    "terminated",
    "soon",
    "late",
]


@pytest.fixture
def world(store: Harness) -> Harness:
    """A store with one execution in each state, of which two are to come. Triggers are named after them."""
    dead, alive = store.node("dead"), store.node("alive")
    store.schedule(job("lost"), once("terminated"))
    store.fire_one(dead)
    store.recover(alive, dead)
    for outcome in (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELLED, Outcome.SKIPPED):
        store.clock.advance(SECOND)
        store.schedule(job("ends"), once(outcome.lower(), store.clock.now()))
        fired = store.fire_one(alive)
        store.clock.advance(SECOND)
        store.complete(alive, fired, outcome=outcome, error="traceback" if outcome is Outcome.FAILED else None)
    store.schedule(job("waits"), once("snoozed", store.clock.now()))
    store.complete(alive, store.fire_one(alive), outcome=Outcome.SNOOZED)
    store.clock.advance(SECOND)
    store.schedule(job("runs"), once("processing", at(9)))
    store.fire_one(alive)
    store.schedule(job("claimed"), once("enqueued", at(14)))
    [_] = store.acquire(alive, look_ahead=10 * SECOND).fired
    store.schedule(job("later"), once("late", at(0) + 9 * HOUR), once("paused", at(0) + HOUR))
    store.store.pause(NamedTriggers([key("paused")]))
    store.schedule(job("sooner", job_type=INVOICE), once("soon", at(0) + HOUR, misfire="ignore"))
    return store


def executions(store: Harness, limit: int = 100, **wanted: object) -> dict[str, ExecutionRecord]:
    query = ExecutionQuery(**{"states": EVERY, **wanted})  # type: ignore[arg-type]
    return {record.trigger_key.name: record for record in store.store.find(query, limit)}


def test_they_are_listed_newest_first_and_then_what_is_to_come_soonest_first(world: Harness) -> None:
    assert list(executions(world)) == NEWEST_FIRST


@pytest.mark.parametrize("limit", [0, 1, 3, 8])
def test_a_limit_cuts_off_the_oldest_and_the_latest_to_come(world: Harness, limit: int) -> None:
    assert list(executions(world, limit)) == NEWEST_FIRST[:limit]
    states = frozenset({ExecutionState.SCHEDULED})
    assert list(executions(world, limit, states=states)) == ["soon", "late"][:limit]


def test_each_is_in_its_state(world: Harness) -> None:
    found = executions(world)
    wanted = {state.lower(): state for state in EVERY - {ExecutionState.SCHEDULED}}
    wanted |= {"soon": ExecutionState.SCHEDULED, "late": ExecutionState.SCHEDULED}
    assert {name: record.state for name, record in found.items()} == wanted
    assert all(type(record.state) is ExecutionState for record in found.values())


@pytest.mark.parametrize("state", ExecutionState)
def test_one_state_is_found_alone(world: Harness, state: ExecutionState) -> None:
    found = executions(world, states=frozenset({state}))
    assert list(found) == (["soon", "late"] if state is ExecutionState.SCHEDULED else [state.lower()])


def test_without_a_query_they_are_those_that_ended(world: Harness) -> None:
    found = world.store.find(HISTORY, 100)
    assert [record.trigger_key.name for record in found] == NEWEST_FIRST[2:8]
    assert {record.state for record in found} == ENDED
    assert [record.outcome for record in found] == [Outcome(record.state) for record in found]


def test_no_state_finds_nothing(world: Harness) -> None:
    assert executions(world, states=frozenset()) == {}


def test_a_record_says_what_is_known_by_then(world: Harness) -> None:
    found = executions(world)
    soon, claimed, runs, failed, lost = (
        found[name] for name in ("soon", "enqueued", "processing", "failed", "terminated")
    )
    assert soon == ExecutionRecord(
        state=ExecutionState.SCHEDULED,
        fire_id=None,
        trigger_key=key("soon"),
        job_key=job_key("sooner"),
        job_type=INVOICE,
        instance_id=None,
        scheduled_fire_time=at(0) + HOUR,
        fire_time=None,
        started_at=None,
        ended_at=None,
        attempt=1,
        error=None,
    )
    assert (soon.fire_id, soon.outcome) == (None, None)
    assert (claimed.instance_id, claimed.scheduled_fire_time, claimed.fire_time) == ("alive", at(14), None)
    assert claimed.fire_id == world.claims()[0].fire_id
    assert (runs.job_type, runs.fire_time, runs.started_at, runs.ended_at) == ("report", at(9), None, None)
    assert (runs.fire_id, runs.outcome) == (world.running()[0].fire_id, None)
    assert (failed.fire_time, failed.started_at, failed.ended_at, failed.error) == (at(3), at(4), at(4), "traceback")
    assert (lost.instance_id, lost.started_at, lost.ended_at) == ("dead", None, at(0))


@pytest.mark.parametrize("name", NEWEST_FIRST)
def test_those_of_a_job_and_of_a_trigger_are_found(world: Harness, name: str) -> None:
    record = executions(world)[name]
    assert executions(world, trigger_key=record.trigger_key) == {name: record}
    of_job = executions(world, job_key=record.job_key)
    ends = ["skipped", "cancelled", "failed", "succeeded"]
    assert list(of_job) == (ends if name in ends else [name])
    assert executions(world, job_key=record.job_key, trigger_key=record.trigger_key) == {name: record}
    assert executions(world, job_key=job_key("other"), trigger_key=record.trigger_key) == {}
    assert executions(world, trigger_key=key(name, "other")) == executions(world, job_key=job_key(name, "other")) == {}


def test_a_part_of_the_error_selects_those_that_have_it(world: Harness) -> None:
    [failed] = executions(world, error="trace")
    assert failed == "failed"
    assert list(executions(world, error="trace", trigger_key=key("failed"))) == ["failed"]
    assert list(executions(world, error="trace", states=EVERY)) == ["failed"]
    assert executions(world, error="Trace") == {}, "upper and lower case differ"
    assert executions(world, error="trace", trigger_key=key("succeeded")) == {}
    assert executions(world, error="%") == {}


@pytest.mark.parametrize("seconds", [0, 1, 3, 9, 14, 3600, 9 * 3600])
def test_since_is_from_an_instant_on_and_until_before_it(world: Harness, seconds: int) -> None:
    instant = at(seconds)
    found = executions(world)
    before = {name for name, record in found.items() if record.scheduled_fire_time < instant}
    assert set(executions(world, until=instant)) == before
    assert set(executions(world, since=instant)) == found.keys() - before
    of_that_instant = {name for name, record in found.items() if record.scheduled_fire_time == instant}
    assert set(executions(world, since=instant, until=instant + SECOND)) == of_that_instant != set()


def test_what_is_due_and_waits_for_a_worker_is_still_scheduled(store: Harness) -> None:
    store.schedule(job(), once())
    store.clock.advance(SECOND)
    assert [record.state for record in executions(store).values()] == ["SCHEDULED"]


def test_a_retry_to_come_is_scheduled_as_its_attempt(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), once())
    store.complete(node, store.fire_one(node), outcome=Outcome.FAILED, error="once", retry_after=timedelta(hours=1))
    retry, failed = sorted(executions(store).values(), key=lambda record: -record.attempt)
    assert (retry.state, retry.attempt, retry.scheduled_fire_time) == ("SCHEDULED", 2, at(3600))
    assert (failed.state, failed.attempt) == ("FAILED", 1)


def test_the_history_keeps_what_the_trigger_brought_and_what_came_of_it(store: Harness) -> None:
    node = store.node("a")
    store.schedule(
        job(max_concurrent=1, overlap_policy="skip"),
        once("first", data={"n": [1, "\u00e9"]}, priority=9),
        once("second", data={"n": 2}),
    )
    first, other = executions(store)["first"], executions(store)["second"]
    assert (first.trigger_data, other.trigger_data) == ({"n": [1, "\u00e9"]}, {"n": 2})
    fired = store.fire_one(node)
    running = store.store.execution(fired.fire_id)
    assert running is not None
    assert (running.state, running.trigger_data, running.result) == ("PROCESSING", {"n": [1, "\u00e9"]}, None)
    store.complete(node, fired, result='{"$decimal": "1.50"}')
    ended = store.store.execution(fired.fire_id)
    assert ended == executions(store)["first"]
    assert ended is not None
    assert (ended.trigger_data, ended.result) == ({"n": [1, "\u00e9"]}, Decimal("1.50"))
    skipped = executions(store)["second"]
    assert (skipped.state, skipped.trigger_data, skipped.result) == ("SKIPPED", {"n": 2}, None)


def test_what_a_dead_node_did_not_end_is_kept_with_its_data(store: Harness) -> None:
    dead, alive = store.node("dead"), store.node("alive")
    store.schedule(job(), once("lost", data={"n": 1}))
    fired = store.fire_one(dead)
    store.recover(alive, dead)
    lost = store.store.execution(fired.fire_id)
    assert lost is not None
    assert (lost.state, lost.trigger_data) == ("TERMINATED", {"n": 1})


def test_an_execution_is_found_by_its_number_in_each_state_that_has_one(world: Harness) -> None:
    for record in executions(world).values():
        if record.fire_id is not None:
            assert world.store.execution(record.fire_id) == record
    assert world.store.execution(10**15) is None
