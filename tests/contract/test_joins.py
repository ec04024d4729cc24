"""Tests of the jobs that run after several others: `JobDetail(after=...)`."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from quartzpy.errors import JobNotFoundError, ObjectAlreadyExistsError
from quartzpy.job_data import JOINED, PREDECESSOR_FIRE_ID
from quartzpy.jobs.internal_entries import BatchKey, batch_entry, joined_of, repeats
from quartzpy.jobs.join import ON, Join
from quartzpy.keys import CONTINUATIONS, MANUAL_TRIGGERS, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import CompletionInstruction, Missed, Outcome
from quartzpy.store.protocol import BatchEntry, FiredTrigger, JobEntry, NamedTriggers, Node
from quartzpy.store.queries import JoinQuery
from quartzpy.triggers.simple import SimpleTrigger
from tests.contract.harness import SECOND, START, Harness, at, data_of, every, job, job_key, key, once, stored_job


def waiting(store: Harness) -> list[str]:
    """The jobs that were started by the ends of others, and wait to run."""
    keys = sorted(store.store.keys(TriggerKey, GroupMatcher.equals(CONTINUATIONS)))
    return [record.trigger.job_key.name for record in store.store.triggers(keys).values() if record.trigger.job_key]


def schedule(store: Harness, after: Any, *names: str, seconds: float = 100, **values: Any) -> None:
    """Store the job `report` behind jobs of these names, which are due at the same instants."""
    for name in names or ("a", "b"):
        store.schedule(job(name, durable=True, **values), every(seconds, name))
    store.schedule(job("report", after=after))


def fire(store: Harness, node: Node) -> dict[str, FiredTrigger]:
    return {fired.job_name: fired for fired in store.fire_due(node)}


def test_a_job_runs_once_for_each_instant_when_all_have_ended(store: Harness) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    for n in range(2):
        fired = fire(store, node)
        assert not store.complete(node, fired["a"], result='{"rows": 7}').earliest_unblocked
        assert not waiting(store)
        assert store.complete(node, fired["b"]).earliest_unblocked == store.clock.now()
        started = store.fire_one(node)
        assert started.job_name == "report"
        joined = joined_of(data_of(started)[1])
        assert joined is not None
        assert joined.occasion == at(100 * n).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        assert (joined.succeeded, joined.failed) == (2, 0)
        assert {key.name: (end.fire_id, end.outcome, end.result) for key, end in joined.predecessors.items()} == {
            "a": (fired["a"].fire_id, Outcome.SUCCEEDED, {"rows": 7}),
            "b": (fired["b"].fire_id, Outcome.SUCCEEDED, None),
        }
        assert data_of(started)[1][PREDECESSOR_FIRE_ID] == fired["b"].fire_id
        store.complete(node, started)
        store.clock.set(at(100 * (n + 1)))


def test_executions_of_different_instants_are_not_joined(store: Harness) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    first = fire(store, node)
    store.complete(node, first["a"])
    store.clock.set(at(100))
    second = fire(store, node)
    store.complete(node, second["b"])
    assert not waiting(store)
    store.complete(node, second["a"])
    assert waiting(store) == ["report"]
    store.complete(node, first["b"])
    assert waiting(store) == ["report", "report"]


def test_ends_that_are_recorded_together_start_the_job_once(store: Harness) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    store.complete(node, *fire(store, node).values())
    assert waiting(store) == ["report"]


def test_a_completion_that_is_sent_again_counts_once(store: Harness) -> None:
    node = store.node()
    schedule(store, Join(["a", "b"], need=2))
    fired = fire(store, node)
    for name in ("a", "a", "b", "b", "a"):
        store.complete(node, fired[name])
    assert waiting(store) == ["report"]


@pytest.mark.parametrize(("need", "after"), [("any", 1), (2, 2), ("all", 3)])
def test_as_many_ends_as_are_needed_start_the_job_and_later_ones_nothing(store: Harness, need: Any, after: int) -> None:
    node = store.node()
    schedule(store, Join(["a", "b", "c"], need=need), "a", "b", "c")
    fired = fire(store, node)
    started = []
    for name in "abc":
        store.complete(node, fired[name])
        started.append(len(waiting(store)))
    assert started == [0] * (after - 1) + [1] * (4 - after)


@pytest.mark.parametrize(
    ("on", "outcomes", "starts"),
    [
        ("success", (Outcome.SUCCEEDED, Outcome.FAILED), False),
        ("end", (Outcome.CANCELLED, Outcome.FAILED), True),
        ("failure", (Outcome.FAILED, Outcome.FAILED), True),
        ("failure", (Outcome.FAILED, Outcome.CANCELLED), False),
    ],
)
def test_the_outcomes_that_count_decide(store: Harness, on: Any, outcomes: tuple[Outcome, ...], starts: bool) -> None:
    node = store.node()
    schedule(store, Join(["a", "b"], on=on))
    fired = fire(store, node)
    for name, outcome in zip("ab", outcomes, strict=True):
        store.complete(node, fired[name], outcome=outcome, error="no" if outcome is Outcome.FAILED else None)
    assert waiting(store) == ["report"] * starts


def test_a_failure_that_is_retried_is_no_end_and_the_retry_counts_for_its_instant(store: Harness) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    fired = fire(store, node)
    store.complete(node, fired["a"], outcome=Outcome.FAILED, error="no", retry_after=SECOND)
    store.complete(node, fired["b"])
    assert not waiting(store)
    store.clock.advance(SECOND)
    store.complete(node, store.fire_one(node))
    assert waiting(store) == ["report"]
    assert joined_of(data_of(store.fire_one(node))[1]).occasion.startswith(f"{START:%Y-%m-%dT%H:%M:%S}")  # type: ignore[union-attr]


def again(store: Harness, fired: FiredTrigger, name: str) -> None:
    """Run an execution again by hand, as `run_again` does."""
    data = repeats(fired.trigger_key, fired.scheduled_fire_time, json.loads(fired.trigger_data or "{}"))
    trigger = SimpleTrigger(name, MANUAL_TRIGGERS, job_key=fired.job_key, start_time=store.clock.now(), data=data)
    store.add_triggers(fired.job_key, trigger)


def test_one_that_is_run_again_by_hand_counts_for_the_instant_of_the_original(store: Harness) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    fired = fire(store, node)
    store.complete(node, fired["a"], outcome=Outcome.FAILED, error="no")
    store.complete(node, fired["b"])
    store.clock.advance(SECOND)
    again(store, fired["a"], "again")
    store.complete(node, store.fire_one(node))
    assert waiting(store) == ["report"]
    store.complete(node, store.fire_one(node))
    # Once the job was started, whatever is run again starts it no more.
    again(store, fired["b"], "once more")
    store.complete(node, store.fire_one(node))
    assert not waiting(store)


def test_an_execution_that_counts_is_not_undone_by_one_that_does_not(store: Harness) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    fired = fire(store, node)
    store.complete(node, fired["a"])
    again(store, fired["a"], "again")
    store.complete(node, store.fire_one(node), outcome=Outcome.FAILED, error="no")
    store.complete(node, fired["b"])
    assert waiting(store) == ["report"]


def test_the_executions_of_a_day_in_a_zone_are_joined(store: Harness) -> None:
    node = store.node()
    zone = "Pacific/Kiritimati"
    for name, hours in (("a", 0), ("b", 1), ("c", 26)):
        store.schedule(job(name, durable=True), once(name, at(hours * 3600), misfire="ignore"))
    for name, needed in (("same", ["a", "b"]), ("other", ["a", "c"])):
        store.schedule(job(name, after=Join(needed, per="day", time_zone=zone)))
    store.clock.advance(timedelta(hours=26))
    store.complete(node, *store.fire_due(node))
    assert waiting(store) == ["same"]
    joined = joined_of(data_of(store.fire_one(node))[1])
    assert joined is not None
    assert joined.occasion == Join(["a"], per="day", time_zone=zone).occasion(START)


def test_one_that_makes_up_for_a_missed_instant_counts_for_it(store: Harness) -> None:
    node = store.node()
    for name in "ab":
        store.schedule(job(name, durable=True), once(name))
    store.schedule(job("report", after=["a", "b"]))
    store.store.pause(NamedTriggers([key("b")]))
    store.complete(node, store.fire_one(node))
    store.clock.advance(timedelta(hours=1))
    store.store.resume(NamedTriggers([key("b")]))
    store.misfire(node)
    late = store.fire_one(node)
    assert late.scheduled_fire_time != START
    store.complete(node, late)
    assert waiting(store) == ["report"]


def test_an_execution_whose_node_died_is_an_end(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    schedule(store, Join(["a", "b"], on="end"))
    fired = fire(store, a)
    store.complete(a, fired["a"])
    store.recover(b, a)
    assert waiting(store) == ["report"]
    assert store.complete(a, fired["b"]).fenced == {fired["b"].fire_id}
    assert waiting(store) == ["report"]


def test_an_execution_that_runs_again_after_its_node_died_counts_once(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    schedule(store, ["a", "b"], requests_recovery=True)
    fired = fire(store, a)
    store.complete(a, fired["a"])
    store.recover(b, a)
    assert not waiting(store)
    store.complete(b, store.fire_one(b))
    assert waiting(store) == ["report"]


def test_a_job_may_wait_for_one_that_others_follow_and_for_several_joins(store: Harness) -> None:
    node = store.node()
    store.schedule(job("mail", durable=True))
    schedule(store, ["a", "b"], continuations=["mail"])
    store.schedule(job("sum", after=["a", "report"]))
    fired = fire(store, node)
    store.complete(node, fired["a"], fired["b"])
    assert sorted(waiting(store)) == ["mail", "mail", "report"]


def test_a_join_is_read_back_and_the_job_is_durable(store: Harness) -> None:
    schedule(store, Join(["a", "b"], need=1, on="end", per="day", time_zone="Europe/Berlin", within="2h"))
    read = stored_job(store.store, job_key("report"))
    assert read is not None
    assert read.after == Join(
        ["a", "b"], need=1, on="end", per="day", time_zone="Europe/Berlin", within=timedelta(hours=2)
    )
    assert read.durable
    node = store.node()
    store.complete(node, *store.fire_due(node))
    assert store.fire_one(node).job_detail.after == read.after


def test_a_job_that_is_not_stored_cannot_be_waited_for(store: Harness) -> None:
    store.schedule(job("a", durable=True))
    with pytest.raises(JobNotFoundError, match=r"after: no job DEFAULT\.b is stored"):
        store.schedule(job("report", after=["a", "b"]))
    assert stored_job(store.store, job_key("report")) is None
    store.schedule(job("report", durable=True))
    with pytest.raises(JobNotFoundError, match=r"after: no job DEFAULT\.b is stored"):
        store.store.modify_job(job_key("report"), lambda old: old.with_values({"after": ["b"]}), keeps_data=True)


def test_only_a_job_that_others_wait_for_says_so(store: Harness) -> None:
    """Its ends alone need the lock."""
    node = store.node()
    schedule(store, ["a"])
    assert {name: fired.joins for name, fired in fire(store, node).items()} == {"a": True, "b": False}
    for change in (["b"], None):
        store.store.modify_job(
            job_key("report"), lambda old, change=change: old.with_values({"after": change}), keeps_data=True
        )
        store.clock.advance(timedelta(seconds=100))
        assert {name: fired.joins for name, fired in fire(store, node).items()} == {"a": False, "b": change is not None}
    store.schedule(job("report", after=["a", "b"]), replace=True)
    store.store.delete_jobs([job_key("report")])
    store.clock.advance(timedelta(seconds=100))
    assert not any(fired.joins for fired in store.fire_due(node))


def test_a_job_that_is_deleted_and_stored_again_is_waited_for(store: Harness) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    store.store.delete_jobs([job_key("a")])
    store.schedule(job("a", durable=True), every(100, "a"))
    store.complete(node, *store.fire_due(node))
    assert waiting(store) == ["report"]


def test_two_jobs_wait_for_the_same(store: Harness) -> None:
    node = store.node()
    schedule(store, ["a", "b"])
    store.schedule(job("alert", after=Join(["a", "b"], need="any", on="failure")))
    fired = fire(store, node)
    store.complete(node, fired["a"], outcome=Outcome.FAILED, error="no")
    assert waiting(store) == ["alert"]
    assert JOINED in data_of(store.fire_one(node))[1]


# --- batches


def schedule_batch(store: Harness, number: int, on: str = "end", name: str = "batch") -> None:
    """Store triggers of one job that are due, after whose ends `report` runs."""
    batch = BatchKey(job_key("report"), name)
    data = batch_entry(batch)
    triggers = [store.prepare(once(f"{name}-{n}", data=data), job_key("part")) for n in range(number)]
    parts, report = job("part", durable=True), job("report", durable=True)
    store.store.store_jobs(
        [JobEntry(parts, triggers), JobEntry(report)], replace=False, batch=BatchEntry(batch, number, ON[on])
    )


@pytest.mark.parametrize(
    ("on", "outcomes", "starts"),
    [
        ("end", (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELLED), True),
        ("success", (Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.SUCCEEDED), True),
        ("success", (Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.FAILED), False),
        ("failure", (Outcome.FAILED, Outcome.SUCCEEDED, Outcome.SUCCEEDED), True),
        ("failure", (Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.SUCCEEDED), False),
    ],
)
def test_a_job_runs_once_when_all_of_a_batch_have_ended(
    store: Harness, on: str, outcomes: tuple[Outcome, ...], starts: bool
) -> None:
    node = store.node()
    schedule_batch(store, 3, on)
    for fired, outcome in zip(store.fire_due(node), outcomes, strict=True):
        assert not waiting(store)
        store.complete(node, fired, outcome=outcome, error="no" if outcome is Outcome.FAILED else None)
        store.complete(node, fired, outcome=outcome)
    assert waiting(store) == ["report"] * starts
    if starts:
        joined = joined_of(data_of(store.fire_one(node))[1])
        assert joined is not None
        succeeded = outcomes.count(Outcome.SUCCEEDED)
        assert joined == ("batch", (), succeeded, 3 - succeeded, 0)


def test_ends_of_a_batch_that_are_recorded_together_or_by_different_nodes_count_once(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    schedule_batch(store, 5)
    fired = store.fire_due(a)
    store.complete(a, *fired[:2])
    store.complete(a, *fired[:3])
    assert not waiting(store)
    store.recover(b, a)
    assert waiting(store) == ["report"]


def test_a_retry_is_the_end_of_its_trigger_and_a_run_by_hand_is_none(store: Harness) -> None:
    node = store.node()
    schedule_batch(store, 2)
    first, second = store.fire_due(node)
    store.complete(node, first, outcome=Outcome.FAILED, error="no", retry_after=SECOND)
    again(store, second, "again")
    store.complete(node, store.fire_one(node))
    store.complete(node, second)
    assert not waiting(store)
    store.clock.advance(SECOND)
    store.complete(node, store.fire_one(node))
    assert waiting(store) == ["report"]


def test_a_batch_is_stored_once_and_needs_its_job(store: Harness) -> None:
    schedule_batch(store, 2)
    with pytest.raises(ObjectAlreadyExistsError, match=r"batch 'batch' of job DEFAULT\.report exists already"):
        schedule_batch(store, 3)
    assert len(store.store.keys(TriggerKey, GroupMatcher.anything())) == 2
    entry = BatchEntry(BatchKey(job_key("nowhere"), "other"), 1, ON["end"])
    trigger = store.prepare(once("other"), job_key("part"))
    with pytest.raises(JobNotFoundError, match=r"no job DEFAULT\.nowhere is stored"):
        store.store.store_jobs([JobEntry(None, [trigger])], replace=False, batch=entry)
    assert len(store.store.keys(TriggerKey, GroupMatcher.anything())) == 2


def test_what_is_cleared_is_forgotten(store: Harness) -> None:
    node = store.node()
    schedule_batch(store, 2)
    fired = store.fire_due(node)
    store.store.clear()
    store.complete(node, *fired)
    assert not waiting(store)
    schedule_batch(store, 1)
    store.complete(node, store.fire_one(node))
    assert waiting(store) == ["report"]


def counts(store: Harness) -> tuple[int, int, int]:
    """What the row of the batch says: ends with success, other ends, triggers that ended without a fire."""
    [row] = store.store.find(JoinQuery(), None)
    return row.succeeded, row.failed, row.removed


def delete(store: Harness, name: str) -> None:
    store.store.delete_triggers([key(name)])


def replace_by_another(store: Harness, name: str) -> None:
    new = store.prepare(once("other"), job_key("part"))
    store.store.replace_trigger(key(name), new)
    store.store.pause(NamedTriggers([key("other")]))


def replace_in_place(store: Harness, name: str) -> None:
    store.add_triggers(job_key("part"), once(name), replace=True)
    store.store.pause(NamedTriggers([key(name)]))


def skip(store: Harness, name: str) -> None:
    """End a trigger by the skip of its misfire."""
    store.store.pause(NamedTriggers([key(name)]))
    store.clock.advance(timedelta(hours=1))
    store.store.resume(NamedTriggers([key(name)]), Missed.SKIP)
    store.misfire(store.node("misfires"))


REMOVALS = (delete, replace_by_another, replace_in_place, skip)


@pytest.mark.parametrize("remove", REMOVALS)
@pytest.mark.parametrize(("on", "starts"), [("end", True), ("success", False), ("failure", True)])
def test_a_trigger_of_a_batch_that_ends_without_a_fire_is_an_end_without_success(
    store: Harness, remove: Callable[[Harness, str], None], on: str, starts: bool
) -> None:
    schedule_batch(store, 2, on)
    store.store.pause(NamedTriggers([key("batch-1")]))
    node = store.node()
    store.complete(node, store.fire_one(node))
    remove(store, "batch-1")
    assert counts(store) == (1, 0, 1)
    assert waiting(store) == ["report"] * starts
    delete(store, "batch-1")
    assert counts(store) == (1, 0, 1)
    if starts:
        [started] = store.fire_due(node)
        assert joined_of(data_of(started)[1]) == ("batch", (), 1, 0, 1)


def test_a_trigger_of_a_batch_that_has_fired_is_counted_by_its_end_only(store: Harness) -> None:
    node = store.node()
    schedule_batch(store, 2)
    store.store.pause(NamedTriggers([key("batch-1")]))
    fired = store.fire_one(node)
    delete(store, "batch-0")
    assert counts(store) == (0, 0, 0)
    delete(store, "batch-1")
    assert not waiting(store)
    store.complete(node, fired, outcome=Outcome.FAILED, error="no", retry_after=SECOND)
    store.store.delete_triggers(store.store.keys(TriggerKey, GroupMatcher.equals("RETRYING_JOBS")))
    assert counts(store) == (0, 0, 2)
    assert waiting(store) == ["report"]


def test_the_triggers_of_a_deleted_job_are_ends_and_its_running_execution_is(store: Harness) -> None:
    node = store.node()
    schedule_batch(store, 3)
    store.store.pause(NamedTriggers([key("batch-1"), key("batch-2")]))
    fired = store.fire_one(node)
    store.store.delete_jobs([job_key("part")])
    assert counts(store) == (0, 0, 2)
    store.complete(node, fired)
    assert counts(store) == (1, 0, 2)
    assert waiting(store) == ["report"]


def test_what_the_job_of_a_batch_asks_for_all_its_triggers_ends_them(store: Harness) -> None:
    node = store.node()
    schedule_batch(store, 3)
    store.store.pause(NamedTriggers([key("batch-1"), key("batch-2")]))
    store.complete_asking(node, store.fire_one(node), CompletionInstruction.SET_ALL_JOB_TRIGGERS_COMPLETE)
    store.store.purge_history(timedelta(days=1), limit=100)
    assert counts(store) == (1, 0, 2)
    assert waiting(store) == ["report"]
    store.store.purge_history(timedelta(days=1), limit=100)
    assert counts(store) == (1, 0, 2)


def test_a_fire_of_a_batch_that_is_skipped_is_an_end(store: Harness) -> None:
    node = store.node()
    batch = BatchKey(job_key("report"), "batch")
    triggers = [store.prepare(once(f"batch-{n}", data=batch_entry(batch)), job_key("part")) for n in range(2)]
    parts = job("part", durable=True, max_concurrent=1, overlap_policy="skip")
    entries = [JobEntry(parts, triggers), JobEntry(job("report", durable=True))]
    store.store.store_jobs(entries, replace=False, batch=BatchEntry(batch, 2, ON["end"]))
    fired = store.fire_one(node)
    store.recover(node)
    store.store.purge_history(timedelta(days=1), limit=100)
    assert counts(store) == (0, 0, 1)
    store.complete(node, fired)
    assert waiting(store) == ["report"]
