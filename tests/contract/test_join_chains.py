"""Joins of joins and of continuations: one instant of the schedule runs through all that follows from it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from quartzpy.jobs.internal_entries import nominal_fire
from quartzpy.jobs.join import Join, occasion_of_instant
from quartzpy.states import CompletionInstruction, JoinState, Outcome
from quartzpy.store.protocol import FiredTrigger, Node
from quartzpy.store.queries import JoinQuery
from quartzpy.triggers.cron import CronTrigger
from tests.contract.harness import SECOND, START, Harness, at, data_of, every, job, job_key, key, once
from tests.contract.test_joins import again, schedule, schedule_batch, waiting


def run(store: Harness, node: Node, outcome: Callable[[FiredTrigger], Outcome] | None = None) -> list[str]:
    """Fire and end what is due until nothing is, and return the jobs that ran. Time passes with each round."""
    ran: list[str] = []
    while fired := store.fire_due(node):
        ran += sorted(one.job_name for one in fired)
        store.clock.advance(timedelta(milliseconds=7))
        for one in fired:
            ends = Outcome.SUCCEEDED if outcome is None else outcome(one)
            store.complete(node, one, outcome=ends, error="no" if ends is Outcome.FAILED else None)
    return ran


def states(store: Harness) -> dict[tuple[str, str], JoinState]:
    return {(row.job_key.name, row.occasion): row.state for row in store.store.find(JoinQuery(), None)}


def nominal(fired: FiredTrigger) -> datetime:
    return nominal_fire(fired.trigger_key, fired.scheduled_fire_time, data_of(fired)[1])[1]


def test_two_stages_of_joins_run_for_each_instant(store: Harness) -> None:
    node = store.node()
    schedule(store, ["a", "b"], "a", "b", "c")
    store.schedule(job("final", after=["report", "c"]))
    for n in range(3):
        store.clock.set(at(100 * n))
        assert run(store, node) == ["a", "b", "c", "report", "final"]
    assert set(states(store).values()) == {JoinState.FIRED}


def test_what_a_continuation_starts_is_joined(store: Harness) -> None:
    node = store.node()
    for name in "bc":
        store.schedule(job(name, durable=True))
    store.schedule(job("a", continuations=["b", "c"]), every(100))
    store.schedule(job("d", after=["b", "c"]))
    for n in range(2):
        store.clock.set(at(100 * n))
        assert run(store, node) == ["a", "b", "c", "d"]


def test_joins_and_continuations_compose_in_any_depth(store: Harness) -> None:
    """A diamond whose branches differ in length: x continues a, y runs after x, z continues y, end joins z and b."""
    node = store.node()
    store.schedule(job("x", durable=True))
    store.schedule(job("z", durable=True))
    schedule(store, ["a", "b"], continuations=["x"])
    store.schedule(job("y", after=["x", "report"], continuations=["z"]))
    store.schedule(job("end", after=["z", "b", "y"]))
    assert run(store, node)[-1] == "end"
    fired = START.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert states(store) == {(name, fired): JoinState.FIRED for name in ("report", "y", "end")}


@pytest.mark.parametrize("way", ["retry", "recovery", "run again"])
def test_whatever_repeats_a_continuation_counts_for_the_instant_of_the_original(store: Harness, way: str) -> None:
    node, other = store.node("a"), store.node("b")
    store.schedule(job("b", durable=True, requests_recovery=way == "recovery"))
    schedule(store, ["a"], "a", continuations=["b"])
    store.schedule(job("end", after=["report", "b"]))
    store.complete(node, store.fire_one(node))
    store.clock.advance(SECOND)
    fired = {one.job_name: one for one in store.fire_due(node)}
    store.complete(node, fired["report"])
    assert nominal(fired["report"]) == nominal(fired["b"]) == START
    if way == "retry":
        store.complete(node, fired["b"], outcome=Outcome.FAILED, error="no", retry_after=SECOND)
    elif way == "recovery":
        store.recover(other, node)
    else:
        store.complete(node, fired["b"], outcome=Outcome.FAILED, error="no")
        again(store, fired["b"], "again")
    store.clock.advance(SECOND)
    repeated = store.fire_one(other)
    assert (repeated.job_name, nominal(repeated)) == ("b", START)
    store.complete(other, repeated)
    assert waiting(store) == ["end"]


def test_what_follows_a_run_again_has_its_instant(store: Harness) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    store.schedule(job("end", after=["report", "b"]))
    fired = {one.job_name: one for one in store.fire_due(node)}
    store.complete(node, fired["a"], outcome=Outcome.FAILED, error="no")
    store.complete(node, fired["b"])
    store.clock.advance(SECOND)
    again(store, fired["a"], "again")
    assert run(store, node) == ["a", "report", "end"]


def test_what_follows_a_coalesced_fire_has_the_last_of_its_instants(store: Harness) -> None:
    node = store.node()
    store.schedule(job("b", durable=True))
    store.schedule(job("a", continuations=["b"]), CronTrigger("0 * * ? * *", "every", misfire="fire_once_now"))
    store.schedule(job("end", after=["a", "b"]))
    store.clock.set(at(1050))
    store.misfire(node)
    assert run(store, node) == ["a", "b", "end"]


def test_a_join_per_day_counts_for_the_beginning_of_the_day_in_its_zone(store: Harness) -> None:
    node = store.node()
    zone = "Pacific/Kiritimati"
    midnight = datetime(2026, 3, 3, tzinfo=START.tzinfo) - timedelta(hours=14)
    assert midnight < START
    for name in "ab":
        store.schedule(job(name, durable=True), once(name))
    store.schedule(job("report", after=Join(["a", "b"], per="day", time_zone=zone)))
    store.schedule(job("instant", after=["report"]))
    store.schedule(job("day", after=Join(["report", "a"], per="day", time_zone=zone)))
    assert run(store, node) == ["a", "b", "report", "day", "instant"]
    assert set(states(store)) == {
        ("report", "2026-03-03"),
        ("day", "2026-03-03"),
        ("instant", occasion_of_instant(midnight)),
    }


def test_what_the_end_of_a_batch_starts_has_one_instant(store: Harness) -> None:
    node = store.node()
    schedule_batch(store, 2)
    store.store.modify_job(job_key("report"), lambda old: old.with_values({"continuations": ["x"]}), keeps_data=True)
    store.schedule(job("x", durable=True))
    store.schedule(job("end", after=["report", "x"]))
    store.clock.advance(SECOND)
    assert run(store, node) == ["part", "part", "report", "x", "end"]


def test_what_continues_a_part_of_a_batch_is_joined_for_its_instant(store: Harness) -> None:
    node = store.node()
    store.schedule(job("x", durable=True))
    schedule_batch(store, 1)
    store.store.modify_job(job_key("part"), lambda old: old.with_values({"continuations": ["x"]}), keeps_data=True)
    store.schedule(job("end", after=["part", "x"]))
    assert run(store, node) == ["part", "report", "x", "end"]
    assert ("end", occasion_of_instant(START)) in states(store)


def test_each_of_the_jobs_that_ends_start_together_has_a_trigger(store: Harness) -> None:
    """The place of a job among those that wait for one upstream is also the place of another one for the other."""
    node = store.node()
    for name in "ab":
        store.schedule(job(name, durable=True), every(100, name))
    for name, after in (("p", ["a"]), ("q", ["a", "b"]), ("r", ["b"]), ("s", ["b", "a"])):
        store.schedule(job(name, after=after))
    fired = {one.job_name: one for one in store.fire_due(node)}
    store.complete(node, fired["a"], fired["b"])
    assert sorted(waiting(store)) == ["p", "q", "r", "s"]


def test_jobs_of_equal_names_in_several_groups_are_started_each(store: Harness) -> None:
    node = store.node()
    store.schedule(job("a", durable=True), once("a"))
    for group in ("one", "two", "three"):
        store.schedule(job("same", group, after=["a"]))
    store.complete(node, store.fire_one(node))
    assert sorted(one.job_key.group for one in store.fire_due(node)) == ["one", "three", "two"]


# --- ends of executions whose job is gone


def deleted_while_it_runs(store: Harness, node: Node, **values: object) -> FiredTrigger:
    schedule_batch(store, 1)
    if values:
        store.store.modify_job(job_key("part"), lambda old: old.with_values(values), keeps_data=True)
    fired = store.fire_one(node)
    store.store.delete_jobs([job_key("part")])
    return fired


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.SNOOZED])
def test_an_execution_that_would_run_again_ends_for_good_if_its_job_is_gone(store: Harness, outcome: Outcome) -> None:
    node = store.node()
    fired = deleted_while_it_runs(store, node)
    store.complete(node, fired, outcome=outcome, error="no", retry_after=SECOND)
    assert waiting(store) == ["report"]
    [record] = store.history()
    assert record.retry_at is None


def test_an_execution_that_would_be_recovered_ends_for_good_if_its_job_is_gone(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    deleted_while_it_runs(store, a, requests_recovery=True)
    outcome = store.recover(b, a)
    assert (outcome.recovered, outcome.lost) == (0, 1)
    assert waiting(store) == ["report"]


@pytest.mark.parametrize("recovers", [False, True])
def test_a_deleted_job_is_waited_for_while_it_runs(store: Harness, recovers: bool) -> None:
    a, b = store.node("a"), store.node("b")
    schedule(store, Join(["a", "b"], on="end"), requests_recovery=recovers)
    fired = {one.job_name: one for one in store.fire_due(a)}
    store.store.delete_jobs([job_key("a"), job_key("b")])
    store.complete(a, fired["a"])
    store.recover(b, a)
    assert waiting(store) == ["report"]


@pytest.mark.parametrize("by_job", [False, True])
def test_a_trigger_that_ended_without_a_fire_is_counted_when_it_is_deleted(store: Harness, by_job: bool) -> None:
    node = store.node()
    schedule_batch(store, 2)
    store.clock.advance(SECOND)
    [first] = store.fire_due(node, limit=1)
    store.complete_asking(node, first, CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE)
    if by_job:
        store.store.delete_jobs([job_key("part")])
    else:
        store.store.delete_triggers([key("batch-0"), key("batch-1")])
    assert waiting(store) == ["report"]


def test_a_retry_of_a_run_by_hand_is_no_part_of_the_batch(store: Harness) -> None:
    node = store.node()
    schedule_batch(store, 2)
    first, second = store.fire_due(node)
    store.complete(node, first)
    again(store, first, "again")
    store.complete(node, store.fire_one(node), outcome=Outcome.FAILED, error="no", retry_after=SECOND)
    store.clock.advance(SECOND)
    store.complete(node, store.fire_one(node))
    assert not waiting(store)
    store.complete(node, second)
    assert waiting(store) == ["report"]
