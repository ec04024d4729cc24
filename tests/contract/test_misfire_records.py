"""Tests of the fire times that a misfire coalesces, and of the records of misfires."""

from __future__ import annotations

from datetime import datetime
from itertools import islice

import pytest

from quartzpy.states import MisfireAction
from quartzpy.store.protocol import Node
from quartzpy.store.queries import MisfireQuery
from quartzpy.store.records import MisfireRecord
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.trigger import Trigger
from tests.contract.harness import (
    HOUR,
    MINUTE,
    START,
    Harness,
    at,
    every,
    job,
    job_key,
    key,
    once,
)
from tests.contract.test_misfire import HOURLY, cron


def covers(store: Harness, node: Node) -> list[datetime]:
    [fired] = store.fire_due(node)
    return list(fired.coalesced_fire_times)


def test_one_fire_coalesces_all_missed_fires(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), cron(misfire="fire_once_now"))
    missed = list(islice(CronTrigger(HOURLY, start_time=START, time_zone="UTC").fire_times(), 3))
    store.clock.set(missed[2] + 10 * MINUTE)
    store.misfire(node)
    assert covers(store, node) == missed
    store.clock.set(missed[2] + HOUR)
    assert covers(store, node) == [], "the next one stands for itself"


def test_a_simple_trigger_covers_what_its_count_allows(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(30, times=3, misfire="reschedule_now_with_remaining_repeat_count"))
    store.clock.advance(HOUR)
    store.misfire(node)
    assert covers(store, node) == [at(0), at(30), at(60)]


@pytest.mark.parametrize("instruction", ["do_nothing", "ignore"])
def test_skipped_and_caught_up_fires_are_not_coalesced(store: Harness, instruction: str) -> None:
    node = store.node()
    store.schedule(job(), cron(misfire=instruction))
    store.clock.advance(2.5 * HOUR)
    store.misfire(node)
    store.clock.advance(HOUR)
    fired = store.fire_due(node, threshold=9 * HOUR)
    assert fired
    assert all(one.coalesced_fire_times == () for one in fired)


def test_what_is_covered_is_bounded(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1, misfire="reschedule_now_with_existing_repeat_count"))
    store.clock.advance(HOUR)
    store.misfire(node)
    assert covers(store, node) == [at(n) for n in range(1000)]


# --- misfire records


def test_each_handled_misfire_is_recorded(store: Harness) -> None:
    node = store.node("a")
    store.schedule(job(group="reports"), cron(misfire="fire_once_now", misfire_threshold=MINUTE))
    store.clock.advance(2.5 * HOUR)
    store.misfire(node)
    [noted] = store.store.find(MisfireQuery(), 10)
    assert noted == (
        MisfireRecord(
            misfire_id=noted.misfire_id,
            trigger_key=key("cron"),
            job_key=job_key(group="reports"),
            instance_id="a",
            handled_at=at(9000),
            misfire="fire_once_now",
            action=MisfireAction.FIRED_ONCE,
            scheduled_fire_time=START,
            missed=(START, START + HOUR, START + 2 * HOUR),
            has_more=False,
            caught_up=0,
            next_fire_time=at(9000),
        )
    )
    assert not store.misfire(node).misfired
    store.complete(node, store.fire_one(node))
    assert len(store.store.find(MisfireQuery(), 10)) == 1


def test_the_outcome_has_the_missed_fires(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), cron(misfire="do_nothing"), every(600, times=2))
    store.clock.advance(1.5 * HOUR)
    outcome = store.misfire(node)
    missed = {one: list(instants) for one, instants in outcome.misfired.items()}
    assert missed == {key("cron"): [START, START + HOUR], key("every"): [at(0), at(600)]}


@pytest.mark.parametrize(
    ("trigger", "action"),
    [
        (cron("t", misfire="do_nothing"), "SKIPPED"),
        (cron("t", misfire="do_nothing", end_time=at(60)), "ENDED"),
        (every(3600, "t", times=9), "RESCHEDULED"),
        (once("t"), "FIRED_ONCE"),
    ],
)
def test_the_record_has_the_action_of_the_misfire(store: Harness, trigger: Trigger, action: str) -> None:
    node = store.node()
    store.schedule(job(), trigger)
    store.clock.advance(1.5 * HOUR)
    store.misfire(node)
    [noted] = store.store.find(MisfireQuery(), 10)
    assert (noted.action, noted.next_fire_time) == (action, store.progress("t").next_fire_time)
    assert noted.misfire == trigger.misfire


def test_records_of_misfires_come_latest_first_for_one_trigger_or_all(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), cron("a", misfire="do_nothing"), cron("b", misfire="do_nothing"))
    for _ in range(3):
        store.clock.advance(1.5 * HOUR)
        store.misfire(node, limit=1)
        store.misfire(node, limit=1)
    every_note = store.store.find(MisfireQuery(), 10)
    assert len(every_note) == 6
    assert [one.handled_at for one in every_note] == sorted((one.handled_at for one in every_note), reverse=True)
    assert store.store.find(MisfireQuery(), 2) == every_note[:2]
    assert (
        store.store.find(MisfireQuery(trigger_key=key("a")), 2)
        == [one for one in every_note if one.trigger_key == key("a")][:2]
    )
    assert store.store.find(MisfireQuery(trigger_key=key("c")), 9) == []


def test_records_of_misfires_outlive_their_trigger_until_the_history_is_purged(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), cron(misfire="do_nothing"))
    for _ in range(4):
        store.clock.advance(1.5 * HOUR)
        store.misfire(node)
    store.store.delete_triggers([key("cron")])
    older = 2 * HOUR  # handled at 1.5, 3, 4.5 and 6 hours
    assert store.store.purge_history(older, limit=1).rows == 1
    assert store.store.purge_history(older, limit=10).rows == 1
    assert store.store.purge_history(older, limit=10).rows == 0
    assert [one.handled_at for one in store.store.find(MisfireQuery(), 10)] == [
        START + 6 * HOUR,
        START + 4.5 * HOUR,
    ]


def test_a_coalesced_fire_that_misfires_itself_coalesces_all(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), cron(misfire="fire_once_now"))
    store.clock.advance(1.5 * HOUR)
    store.misfire(node)
    store.clock.advance(1.5 * HOUR)
    store.misfire(node)
    second, first = store.store.find(MisfireQuery(), 10)
    assert first.missed == (START, START + HOUR)
    assert (second.scheduled_fire_time, second.missed) == (at(5400), (START + 2 * HOUR, START + 3 * HOUR))
    assert covers(store, node) == [START + n * HOUR for n in range(4)]


def test_what_a_replaced_trigger_missed_is_not_covered_by_the_new_one(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), cron(misfire="fire_once_now"))
    store.clock.advance(1.5 * HOUR)
    store.misfire(node)
    store.schedule(job(), once("cron", store.clock.now()), replace=True)
    assert covers(store, node) == []


def test_more_missed_fires_than_are_recorded_are_reported_as_more(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(1, misfire="reschedule_next_with_existing_count"))
    store.clock.advance(HOUR)
    store.misfire(node)
    [noted] = store.store.find(MisfireQuery(), 10)
    assert (noted.missed, noted.has_more) == (tuple(at(n) for n in range(1000)), True)
