"""Joins whose definitions change while they wait: what is met now starts, and what cannot be met any more says so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from quartzpy.errors import InvalidJobError
from quartzpy.job_data import PREDECESSOR_FIRE_ID
from quartzpy.jobs.internal_entries import BatchKey, batch_entry, joined_of
from quartzpy.jobs.join import ON, Join, occasion_of_instant
from quartzpy.states import JoinState, Outcome
from quartzpy.store.protocol import BatchEntry, JobEntry
from quartzpy.store.queries import JoinQuery
from tests.contract.harness import SECOND, START, Harness, at, data_of, every, job, job_key, key, once, stored_job
from tests.contract.test_join_chains import nominal
from tests.contract.test_joins import schedule, schedule_batch, waiting

both_ways = pytest.mark.parametrize("way", ["modify", "replace"])


def redefine(store: Harness, way: str, after: Any, name: str = "report") -> None:
    if way == "modify":
        store.store.modify_job(job_key(name), lambda old: old.with_values({"after": after}), keeps_data=True)
    else:
        store.schedule(job(name, after=after, durable=True), replace=True)


def state(store: Harness) -> JoinState:
    [row] = store.store.find(JoinQuery(), None)
    return row.state


@both_ways
@pytest.mark.parametrize(
    "after",
    [["a", "b"], Join(["a", "b", "c"], need=2), Join(["a", "b", "c"], need="any"), ["a"]],
    ids=["fewer-jobs", "fewer-needed", "any", "one"],
)
def test_what_the_new_rule_meets_starts(store: Harness, way: str, after: Any) -> None:
    node = store.node()
    schedule(store, ["a", "b", "c"], "a", "b", "c")
    fired = {one.job_name: one for one in store.fire_due(node)}
    store.complete(node, fired["a"])
    store.complete(node, fired["b"], result="7")
    store.clock.advance(SECOND)
    redefine(store, way, after)
    assert state(store) is JoinState.FIRED
    started = store.fire_one(node)
    joined = joined_of(data_of(started)[1])
    assert joined is not None
    assert (joined.occasion, joined.succeeded) == (occasion_of_instant(START), 2)
    assert {key.name for key in joined.predecessors} == {"a", "b"}
    last = fired["a"] if after == ["a"] else max(fired["a"], fired["b"], key=lambda one: one.fire_id)
    assert data_of(started)[1][PREDECESSOR_FIRE_ID] == last.fire_id
    assert nominal(started) == START
    store.complete(node, started)
    store.complete(node, fired["c"])
    redefine(store, way, after)
    assert not store.fire_due(node)


@both_ways
def test_outcomes_that_count_now_start_the_job(store: Harness, way: str) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    fired = {one.job_name: one for one in store.fire_due(node)}
    store.complete(node, fired["a"])
    store.complete(node, fired["b"], outcome=Outcome.FAILED, error="no")
    redefine(store, way, Join(["a", "b"], on="failure"))
    assert (state(store), waiting(store)) == (JoinState.WAITING, [])
    redefine(store, way, Join(["a", "b"], on="end"))
    assert (state(store), waiting(store)) == (JoinState.FIRED, ["report"])


@both_ways
@pytest.mark.parametrize("after", [None, ["b"], Join(["a", "b"], per="day")])
def test_what_nothing_can_meet_any_more_is_unmet(store: Harness, way: str, after: Any) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    fired = {one.job_name: one for one in store.fire_due(node)}
    store.complete(node, fired["a"])
    redefine(store, way, after)
    assert (state(store), waiting(store)) == (JoinState.UNMET, [])


@both_ways
def test_what_is_waited_for_again_goes_on_with_the_next_end(store: Harness, way: str) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    fired = {one.job_name: one for one in store.fire_due(node)}
    store.complete(node, fired["a"])
    redefine(store, way, None)
    redefine(store, way, ["a", "b"])
    store.complete(node, fired["b"])
    assert (state(store), waiting(store)) == (JoinState.FIRED, ["report"])


@both_ways
def test_a_job_that_is_named_now_is_waited_for(store: Harness, way: str) -> None:
    node = store.node()
    schedule(store, ["a", "b"], "a", "b", "c")
    fired = {one.job_name: one for one in store.fire_due(node)}
    store.complete(node, fired["a"])
    redefine(store, way, ["a", "b", "c"])
    store.complete(node, fired["b"])
    assert (state(store), waiting(store)) == (JoinState.WAITING, [])
    store.clock.set(at(100))
    store.complete(node, *store.fire_due(node))
    assert waiting(store) == ["report"]


def test_the_same_definition_changes_nothing(store: Harness) -> None:
    node = store.node()
    after = Join(["a", "b"], within="1h")
    schedule(store, after)
    fired = {one.job_name: one for one in store.fire_due(node)}
    store.complete(node, fired["a"])
    before = store.store.find(JoinQuery(), None)
    redefine(store, "replace", after)
    assert store.store.find(JoinQuery(), None) == before


def test_a_deleted_job_waits_for_nothing(store: Harness) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    fired = {one.job_name: one for one in store.fire_due(node)}
    store.complete(node, fired["a"])
    store.store.delete_jobs([job_key("report")])
    assert state(store) is JoinState.UNMET
    store.schedule(job("report", after=["a", "b"]))
    assert not waiting(store)
    store.complete(node, fired["b"])
    assert (state(store), waiting(store)) == (JoinState.FIRED, ["report"])


def test_a_batch_whose_job_is_deleted_is_not_met_and_not_kept_for_ever(store: Harness) -> None:
    node = store.node()
    schedule_batch(store, 2)
    first, second = store.fire_due(node)
    store.complete(node, first)
    store.store.delete_jobs([job_key("report")])
    assert state(store) is JoinState.UNMET
    store.schedule(job("report", durable=True))
    store.complete(node, second)
    assert (state(store), waiting(store)) == (JoinState.UNMET, [])
    store.clock.advance(timedelta(days=2))
    store.store.purge_history(timedelta(days=1), limit=100)
    assert not store.store.find(JoinQuery(), None)


@pytest.mark.parametrize("then", ["part", "report"])
def test_what_is_deleted_with_a_job_does_not_start_it(store: Harness, then: str) -> None:
    batch = BatchKey(job_key(then), "batch")
    part = store.prepare(once("part", at(1), data=batch_entry(batch)), job_key("part"))
    entries = [JobEntry(job("part", durable=True), [part]), JobEntry(job("report", durable=True))]
    store.store.store_jobs(entries, replace=False, batch=BatchEntry(batch, 1, ON["end"]))
    store.store.delete_jobs([job_key("part"), job_key("report")])
    assert (state(store), waiting(store)) == (JoinState.UNMET, [])


def test_a_job_is_kept_while_a_batch_waits_for_it(store: Harness) -> None:
    """It is not durable, and has a trigger that ends before the batch."""
    node = store.node()
    batch = BatchKey(job_key("report"), "batch")
    part = store.prepare(once("part", at(1), data=batch_entry(batch)), job_key("part"))
    own = store.prepare(once("own"), job_key("report"))
    entries = [JobEntry(job("part"), [part]), JobEntry(job("report"), [own])]
    store.store.store_jobs(entries, replace=False, batch=BatchEntry(batch, 1, ON["end"]))
    ended = store.fire_one(node)
    store.complete(node, ended)
    store.store.delete_triggers([key("own")])
    store.clock.advance(SECOND)
    store.complete(node, store.fire_one(node))
    assert stored_job(store.store, job_key("report")) is not None
    assert waiting(store) == ["report"]


# --- circles


def test_jobs_that_wait_for_each_other_are_refused(store: Harness) -> None:
    store.schedule(job("a", durable=True), every(100, "a"))
    store.schedule(job("b", after=["a"]))
    store.schedule(job("c", after=["b"]))
    with pytest.raises(InvalidJobError, match=r"DEFAULT\.a cannot run after DEFAULT\.c, which runs after DEFAULT\.a"):
        store.schedule(job("a", after=["c"]), replace=True)
    with pytest.raises(InvalidJobError, match=r"cannot run after"):
        store.store.modify_job(job_key("a"), lambda old: old.with_values({"after": ["c"]}), keeps_data=True)
    circle = [JobEntry(job("x", after=["y"])), JobEntry(job("y", after=["x"]))]
    with pytest.raises(InvalidJobError, match=r"job DEFAULT\.x cannot run after DEFAULT\.y"):
        store.store.store_jobs(circle, replace=False)
    assert stored_job(store.store, job_key("x")) is None
    read = stored_job(store.store, job_key("a"))
    assert read is not None
    assert read.after is None


def test_a_diamond_is_no_circle(store: Harness) -> None:
    store.schedule(job("a", durable=True))
    for name, after in (("b", ["a"]), ("c", ["a"]), ("d", ["b", "c", "a"])):
        store.schedule(job(name, after=after))
    store.schedule(job("b", after=["a"]), replace=True)
