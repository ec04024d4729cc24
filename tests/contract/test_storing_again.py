"""Storing again what is stored already: the same changes nothing, and an unchanged schedule keeps its progress."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from quartzpy.errors import ObjectAlreadyExistsError
from quartzpy.store.protocol import NamedTriggers, Node
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger
from tests.contract.harness import (
    HOUR,
    MINUTE,
    SECOND,
    THRESHOLD,
    Harness,
    at,
    every,
    job,
    job_key,
    key,
    once,
    serial,
    stored_trigger,
)

INTERVAL = timedelta(seconds=10)


def begins_when_stored(**values: Any) -> SimpleTrigger:
    return SimpleTrigger("every", interval=INTERVAL, repeat_count=None, **values)


def fired_once(store: Harness) -> Node:
    node = store.node()
    store.schedule(job(), begins_when_stored())
    store.complete(node, store.fire_one(node))
    store.clock.advance(4 * SECOND)
    return node


def test_the_same_stored_again_changes_nothing(store: Harness) -> None:
    fired_once(store)
    before = store.everything()
    assert store.schedule(job(), begins_when_stored()) == at(10)
    assert store.everything() == before


def test_the_same_job_with_one_trigger_more_is_no_error(store: Harness) -> None:
    fired_once(store)
    store.schedule(job(), begins_when_stored(), once("more", at(60)))
    assert store.progress("every").next_fire_time == at(10)
    assert store.progress("more").next_fire_time == at(60)


@pytest.mark.parametrize(
    ("again", "said"),
    [
        (begins_when_stored(priority=9), "priority is 5, not 9"),
        (begins_when_stored(data={"n": 1}), r"data is None, not \{'n': 1\}"),
        (CronTrigger("0 0 2 * * ?", "every"), "kind is 'simple', not 'cron'"),
    ],
)
def test_something_else_is_refused_and_the_differences_are_named(store: Harness, again: Trigger, said: str) -> None:
    fired_once(store)
    before = store.everything()
    with pytest.raises(ObjectAlreadyExistsError, match=rf"trigger DEFAULT\.every .*{said}; pass replace=True"):
        store.schedule(job(), again)
    assert store.everything() == before


def test_another_job_is_refused_and_the_differences_are_named(store: Harness) -> None:
    store.schedule(job(description="old"), once())
    with pytest.raises(ObjectAlreadyExistsError, match=r"job DEFAULT\.job .*description is 'old', not 'new'"):
        store.schedule(job(description="new"), once("other"))


@pytest.mark.parametrize(
    "again",
    [
        begins_when_stored(),
        begins_when_stored(priority=9, description="new", data={"n": 1}),
        begins_when_stored(misfire="ignore"),
        begins_when_stored(misfire_threshold=HOUR),
        begins_when_stored(misfire="fire_all", catch_up_max=3),
    ],
    ids=["same", "values", "misfire", "threshold", "catch-up"],
)
def test_a_replaced_trigger_of_the_same_schedule_keeps_its_progress(store: Harness, again: SimpleTrigger) -> None:
    node = fired_once(store)
    progress, generation = store.progress("every"), store.generation("every")
    assert store.schedule(job(description="new"), again, replace=True) == at(10)
    assert (store.progress("every"), store.generation("every")) == (progress, generation)
    record = stored_trigger(store.store, key("every"))
    assert record is not None
    assert record.trigger == record.trigger.with_values_of(again)
    assert not store.fire_due(node)
    store.clock.set(at(10))
    assert store.fire_one(node).scheduled_fire_time == at(10)


def test_a_replaced_trigger_of_the_same_schedule_stays_paused(store: Harness) -> None:
    fired_once(store)
    store.store.pause(NamedTriggers([key("every")]))
    store.schedule(job(description="new"), begins_when_stored(priority=7), replace=True)
    assert store.state("every") == "PAUSED"


def test_a_replaced_trigger_of_a_running_serial_job_stays_blocked_until_it_ends(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), begins_when_stored())
    running = store.fire_one(node)
    store.schedule(serial(description="new"), begins_when_stored(), replace=True)
    assert store.state("every") == "BLOCKED"
    store.complete(node, running)
    assert store.state("every") == "WAITING"


def test_a_replaced_trigger_of_the_same_schedule_keeps_its_misfire(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), CronTrigger("0/20 * * * * ?", "every", misfire="fire_once_now"))
    store.clock.advance(THRESHOLD + 2 * MINUTE)
    late = store.progress("every").next_fire_time
    store.schedule(job(), CronTrigger("0/20 * * * * ?", "every", misfire="fire_once_now"), replace=True)
    assert store.progress("every").next_fire_time == late
    store.misfire(node)
    assert len(store.fire_due(node)) == 1


def test_a_start_that_a_misfire_moved_is_no_other_schedule(store: Harness) -> None:
    node = store.node()
    declared = every(10, times=5, misfire="reschedule_now_with_remaining_repeat_count")
    store.schedule(job(), declared)
    store.clock.advance(HOUR)
    store.misfire(node)
    before = store.everything()
    record = stored_trigger(store.store, key("every"))
    assert record is not None
    assert record.trigger.start_time != declared.start_time
    store.schedule(job(), declared)
    assert store.everything() == before
    progress = store.progress("every")
    store.schedule(job(), declared, replace=True)
    assert store.progress("every") == progress


def test_what_is_read_from_the_store_and_stored_again_keeps_its_progress(store: Harness) -> None:
    fired_once(store)
    record = stored_trigger(store.store, key("every"))
    assert record is not None
    store.add_triggers(job_key(), record.trigger, replace=True)
    assert store.progress("every") == record.progress


def test_a_different_schedule_restarts_the_trigger(store: Harness) -> None:
    fired_once(store)
    store.store.pause(NamedTriggers([key("every")]))
    generation = store.generation("every")
    store.schedule(job(), SimpleTrigger("every", interval=2 * INTERVAL, repeat_count=None), replace=True)
    assert store.generation("every") > generation
    assert store.progress("every").next_fire_time == at(4)


def test_a_trigger_that_is_stored_for_another_job_restarts(store: Harness) -> None:
    fired_once(store)
    store.schedule(job("other"), begins_when_stored(), replace=True)
    assert store.progress("every").next_fire_time == at(4)


def test_the_data_that_a_job_persists_outlives_its_replacement(store: Harness) -> None:
    store.schedule(job(persist_data=True, data={"n": 7}), once())
    store.schedule(job(persist_data=True, data={"n": 0}, description="new"), replace=True)
    assert store.job_data(job_key()) == {"n": 7}
    store.store.modify_job(job_key(), lambda known: known.with_values({"data": {"n": 1}}), keeps_data=False)
    assert store.job_data(job_key()) == {"n": 1}
