"""Tests of bounded catch-up (`misfire="fire_all"`): the last missed fires run, each with its own fire time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import Any

import pytest

from quartzpy.calendars.times import DailyCalendar
from quartzpy.keys import TriggerKey
from quartzpy.states import Outcome
from quartzpy.store.protocol import NamedTriggers, Node, TriggerMove
from quartzpy.store.queries import MisfireQuery
from quartzpy.store.records import MisfireRecord, TriggerRecord
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.upcoming import PreparedTrigger, UpcomingFireTimes, moved_to
from tests.contract.harness import (
    HOUR,
    MINUTE,
    SECOND,
    START,
    Harness,
    every,
    job,
    job_key,
    key,
    serial,
    stored_trigger,
)

NIGHTS = DailyCalendar(time(0), time(6), time_zone="UTC")
"""A calendar that excludes none of these hours."""
OUTAGE = 2 * HOUR - SECOND
"""The downtime after which a minutely trigger that begins at START has missed 120 fires."""


def minutely(name: str = "t", **values: Any) -> CronTrigger:
    values = {"misfire": "fire_all", "start_time": START, "catch_up_max": 10, **values}
    return CronTrigger("0 * * * * ?", name, **values)


def minutes(*numbers: int) -> list[datetime]:
    return [START + n * MINUTE for n in numbers]


def run_out(store: Harness, node: Node) -> list[datetime]:
    """Run everything that is due, until nothing is due any more."""
    seen = []
    while fired := store.fire_due(node):
        seen += [one.scheduled_fire_time for one in fired]
        store.complete(node, *fired)
    return seen


def record(store: Harness, name: str = "t") -> TriggerRecord:
    found = stored_trigger(store.store, key(name))
    assert found is not None
    return found


def latest(store: Harness) -> MisfireRecord:
    return store.store.find(MisfireQuery(), 1)[0]


def handled(store: Harness, *triggers: CronTrigger) -> Node:
    """A node that has just handled an outage of two hours."""
    node = store.node()
    store.schedule(job(durable=True), *triggers)
    store.clock.advance(OUTAGE)
    store.misfire(node)
    return node


def test_after_two_hours_the_last_ten_minutes_are_caught_up_and_the_rest_is_recorded(store: Harness) -> None:
    node = handled(store, minutely())
    now = store.clock.now()
    noted = latest(store)
    assert (noted.action, noted.caught_up, noted.has_more) == ("CATCHING_UP", 10, False)
    assert list(noted.missed) == minutes(*range(110))
    assert (noted.handled_at, noted.next_fire_time, noted.misfire) == (now, *minutes(110), "fire_all")
    assert record(store).catch_up_until == now
    assert not store.misfire(node).misfired, "a fire that is caught up does not misfire again"

    fired = []
    for _ in range(10):
        [one] = store.fire_due(node)
        assert one.coalesced_fire_times == ()
        fired.append(one.scheduled_fire_time)
        store.complete(node, one)
    assert fired == minutes(*range(110, 120))
    assert record(store).catch_up_until is None
    assert store.progress("t").times_triggered == 10
    assert not store.fire_due(node)

    store.clock.advance(SECOND)
    assert run_out(store, node) == minutes(120)
    assert [one.scheduled_fire_time for one in store.history()] == minutes(*range(120, 109, -1))
    assert len(store.store.find(MisfireQuery(), 10)) == 1


def test_a_later_outage_is_handled_by_itself(store: Harness) -> None:
    node = handled(store, minutely())
    run_out(store, node)
    store.clock.advance(OUTAGE)
    assert not store.fire_due(node), "its regular threshold applies again"
    assert list(store.misfire(node).misfired) == [key("t")]
    assert list(latest(store).missed) == minutes(*range(120, 230))
    assert run_out(store, node) == minutes(*range(230, 240))


def test_its_own_threshold_judges_it_again(store: Harness) -> None:
    node = handled(store, minutely(misfire_threshold=5 * MINUTE))
    run_out(store, node)
    store.clock.advance(4 * MINUTE)
    assert not store.misfire(node).misfired
    store.clock.advance(2 * MINUTE)
    assert store.misfire(node).misfired


def test_a_backlog_within_the_limits_of_catching_up_does_not_move(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), minutely())
    store.clock.advance(5 * MINUTE)
    assert store.misfire(node).earliest == START
    assert (latest(store).missed, latest(store).caught_up) == ((), 6)
    assert run_out(store, node) == minutes(*range(6))


def test_fires_that_are_too_old_are_skipped(store: Harness) -> None:
    node = handled(
        store, minutely(catch_up_max=None, catch_up_within=3 * MINUTE), minutely("both", catch_up_within=3 * MINUTE)
    )
    assert run_out(store, node) == [at for at in minutes(117, 118, 119) for _ in range(2)]
    assert record(store).catch_up_until is None


def test_if_all_missed_fires_are_too_old_the_schedule_continues(store: Harness) -> None:
    node = handled(store, minutely(catch_up_within=30 * SECOND))
    assert (latest(store).action, latest(store).caught_up) == ("SKIPPED", 0)
    assert (record(store).catch_up_until, record(store).progress.next_fire_time) == (None, *minutes(120))
    assert not store.fire_due(node)


def test_executions_of_a_serial_job_come_one_after_the_other(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), minutely(catch_up_max=3))
    store.clock.advance(OUTAGE)
    store.misfire(node)
    seen = []
    for _ in range(3):
        [one] = store.fire_due(node)
        seen.append(one.scheduled_fire_time)
        assert store.state("t") == "BLOCKED"
        assert not store.fire_due(node)
        store.clock.advance(10 * SECOND)
        store.complete(node, one)
    assert seen == minutes(117, 118, 119)
    # The last fire began when all 120 were due already, so it is late but not a misfire.
    assert store.fire_one(node).scheduled_fire_time == minutes(120)[0]


def test_a_second_outage_keeps_the_fires_to_catch_up_and_decides_on_the_later_ones(store: Harness) -> None:
    node = handled(store, minutely(catch_up_max=4))
    assert store.fire_one(node).scheduled_fire_time == minutes(116)[0]
    store.clock.advance(HOUR)
    assert not store.misfire(node).misfired
    assert run_out(store, node) == minutes(117, 118, 119)
    assert store.misfire(node).misfired
    assert (latest(store).scheduled_fire_time, latest(store).caught_up) == (*minutes(120), 4)
    assert run_out(store, node) == minutes(176, 177, 178, 179)


def test_it_catches_up_through_claims_too(store: Harness) -> None:
    """The following fire times are not stored, as after a calendar was replaced."""
    store.put_calendar("nights", NIGHTS)
    node = store.node()
    store.schedule(job(), minutely(calendar="nights"), calendar=NIGHTS)
    store.clock.advance(OUTAGE)
    store.misfire(node)
    seen = []
    for _ in range(10):
        store.put_calendar("nights", NIGHTS, replace=True)
        took = store.acquire(node)
        assert not took.fired
        store.refill(node, took.unfilled)
        [one] = store.acquire(node).fired
        seen.append(one.scheduled_fire_time)
        store.complete(node, one)
    assert seen == minutes(*range(110, 120))
    assert record(store).catch_up_until is None


def test_the_last_fire_of_all_ends_it(store: Harness) -> None:
    node = handled(store, minutely(end_time=START + HOUR, catch_up_max=2))
    assert run_out(store, node) == minutes(59, 60)
    assert store.state("t") == "gone"


def test_what_a_full_job_skips_counts_as_caught_up(store: Harness) -> None:
    node = store.node()
    store.schedule(job(max_concurrent=1, overlap_policy="skip"), minutely(catch_up_max=3))
    store.clock.advance(OUTAGE)
    store.misfire(node)
    store.fire_one(node)
    assert not store.fire_due(node)
    assert not store.fire_due(node)
    assert [one.outcome for one in store.history()] == [Outcome.SKIPPED] * 2
    assert (record(store).catch_up_until, record(store).progress.next_fire_time) == (None, *minutes(120))


def test_a_pause_holds_it_and_forgets_nothing(store: Harness) -> None:
    node = handled(store, minutely(catch_up_max=3))
    store.fire_one(node)
    store.store.pause(NamedTriggers([key("t")]))
    assert not store.fire_due(node)
    store.clock.advance(HOUR)
    store.store.resume(NamedTriggers([key("t")]))
    assert not store.misfire(node).misfired
    assert run_out(store, node) == minutes(118, 119)


def test_an_unfilled_trigger_is_still_caught_up(store: Harness) -> None:
    store.put_calendar("nights", NIGHTS)
    node = store.node()
    store.schedule(job(), minutely(calendar="nights", catch_up_max=2), calendar=NIGHTS)
    store.clock.advance(OUTAGE)
    store.misfire(node)
    store.put_calendar("nights", NIGHTS, replace=True)
    [_] = store.acquire(node).unfilled
    store.clock.advance(HOUR)
    assert not store.misfire(node).misfired
    assert run_out(store, node) == minutes(118, 119)


def _reschedule(store: Harness) -> None:
    store.store.replace_trigger(key("t"), store.prepare(minutely(), job_key()))


def _delete_and_store(store: Harness) -> None:
    store.store.delete_triggers([TriggerKey("t", "DEFAULT")])
    store.add_triggers(job_key(), minutely())


@pytest.mark.parametrize("change", [_reschedule, _delete_and_store])
def test_a_trigger_that_is_replaced_restarts(store: Harness, change: Callable[[Harness], None]) -> None:
    node = handled(store, minutely())
    change(store)
    assert record(store).catch_up_until is None
    assert not store.fire_due(node), "it is late by the usual rule"
    assert store.misfire(node).misfired
    assert run_out(store, node) == minutes(*range(110, 120))


def test_a_new_calendar_that_moves_a_trigger_beyond_its_backlog_ends_catching_up(store: Harness) -> None:
    store.put_calendar("c", NIGHTS)
    node = store.node()
    store.schedule(job(), minutely(calendar="c"), calendar=NIGHTS)
    store.clock.advance(OUTAGE)
    store.misfire(node)
    afternoons = DailyCalendar(time(6), time(15), time_zone="UTC")
    store.put_calendar("c", afternoons, replace=True)
    seen = record(store)
    progress = seen.trigger.with_new_calendar(
        seen.progress, afternoons, now=store.clock.now(), late_after=timedelta(minutes=1)
    )
    [stored] = store.store.calendars(["c"]).values()
    there = PreparedTrigger(seen.trigger, progress, UpcomingFireTimes(), stored.revision)
    assert store.store.move_triggers([TriggerMove(seen, moved_to(there, progress, afternoons))])
    assert progress.next_fire_time is not None
    assert progress.next_fire_time > store.clock.now()
    assert (record(store).catch_up_until, record(store).progress) == (None, progress)
    store.clock.set(progress.next_fire_time + HOUR)
    assert store.misfire(node).misfired


def test_two_nodes_share_the_work_and_none_is_done_twice(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), minutely("t"), minutely("u"))
    store.clock.advance(OUTAGE)
    store.misfire(a)
    assert not store.misfire(b).misfired
    seen = []
    for _ in range(10):
        fired = [*store.fire_due(a, limit=1), *store.fire_due(b)]
        seen += [(one.trigger_name, one.scheduled_fire_time) for one in fired]
    assert sorted(seen) == [(name, at) for name in "tu" for at in minutes(*range(110, 120))]


def test_a_simple_trigger_catches_up_too_and_its_count_ends_it(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(60, "t", times=8, misfire="fire_all", catch_up_max=2))
    store.clock.advance(5.5 * MINUTE)
    store.misfire(node)
    assert run_out(store, node) == minutes(4, 5)
    store.clock.advance(MINUTE)
    assert run_out(store, node) == minutes(6)
    store.clock.advance(MINUTE)
    assert run_out(store, node) == minutes(7)
    assert store.state("t") == "gone"
