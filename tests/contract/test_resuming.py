"""Tests of the treatment of fires that a trigger missed while it was paused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from quartzpy.calendars.days import WeeklyCalendar
from quartzpy.keys import MANUAL_TRIGGERS
from quartzpy.matchers import GroupMatcher
from quartzpy.states import MisfireAction, Missed
from quartzpy.store.protocol import (
    EVERYTHING,
    JobGroups,
    NamedTriggers,
    PauseSubjects,
    TriggerGroups,
    TriggerMove,
    TriggersOfJobs,
)
from quartzpy.store.queries import MisfireQuery, TriggerQuery
from quartzpy.triggers.calendar_interval import IntervalUnit
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.daily_time_interval import DailyTimeIntervalTrigger
from quartzpy.triggers.trigger import Trigger
from quartzpy.triggers.upcoming import moved_to
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
    names,
    once,
    serial,
    stored_trigger,
)

MINUTE = 60 * SECOND
LATE = 10 * MINUTE + 5 * SECOND


def cron(**values: Any) -> CronTrigger:
    return CronTrigger("0 * * * * ?", "t", start_time=START, time_zone="UTC", **values)


KINDS: dict[str, Trigger] = {
    "for ever": every(60, "t"),
    "so many times": every(60, "t", times=100),
    "cron": cron(),
    "cron, do nothing": cron(misfire="do_nothing"),
    "cron, ignore": cron(misfire="ignore"),
    "cron, own threshold": cron(misfire_threshold=timedelta(days=1)),
    "cron, in bounds": cron(misfire="fire_all", catch_up_max=3),
    "daily": DailyTimeIntervalTrigger("t", interval=1, unit=IntervalUnit.MINUTE, start_time=START, time_zone="UTC"),
}
each_kind = pytest.mark.parametrize("trigger", KINDS.values(), ids=KINDS)


def paused(store: Harness, trigger: Trigger, late: timedelta = LATE) -> None:
    store.schedule(job(), trigger)
    store.store.pause(NamedTriggers([trigger.key]))
    store.clock.advance(late)


@each_kind
def test_missed_fires_are_skipped(store: Harness, trigger: Trigger) -> None:
    node = store.node()
    paused(store, trigger)
    store.store.resume(NamedTriggers([key("t")]), Missed.SKIP)
    assert store.state("t") == "WAITING"
    assert store.fire_due(node) == [], "no step but the misfire step takes it"
    assert list(store.misfire(node).misfired) == [key("t")]
    assert store.progress("t").next_fire_time == at(660)
    assert store.fire_due(node) == []
    [noted] = store.store.find(MisfireQuery(), 10)
    assert (noted.action, noted.misfire) == (MisfireAction.SKIPPED, str(trigger.misfire))
    store.clock.set(at(660))
    fired = store.fire_one(node)
    assert (fired.scheduled_fire_time, fired.coalesced_fire_times) == (at(660), ())


@each_kind
def test_fires_that_come_due_after_the_resumption_are_not_skipped(store: Harness, trigger: Trigger) -> None:
    node = store.node()
    paused(store, trigger)
    store.store.resume(NamedTriggers([key("t")]), Missed.SKIP)
    # No node acts for a while, in which the trigger comes due again.
    store.clock.set(at(665))
    [missed] = store.misfire(node).misfired.values()
    assert list(missed)[-1] == at(600)
    assert store.progress("t").next_fire_time == at(660)
    assert store.fire_one(node).scheduled_fire_time == at(660)


def test_a_later_resumption_counts(store: Harness) -> None:
    node = store.node()
    paused(store, every(60, "t"))
    store.store.resume(NamedTriggers([key("t")]), Missed.SKIP)
    store.store.pause(NamedTriggers([key("t")]))
    store.clock.set(at(725))
    store.store.resume(NamedTriggers([key("t")]), Missed.SKIP)
    store.misfire(node)
    assert store.progress("t").next_fire_time == at(780)


@each_kind
def test_one_fire_coalesces_the_missed_ones(store: Harness, trigger: Trigger) -> None:
    node = store.node()
    paused(store, trigger)
    store.store.resume(NamedTriggers([key("t")]), Missed.ONCE)
    assert store.fire_due(node) == []
    assert store.misfire(node).misfired
    fired = store.fire_one(node)
    assert list(fired.coalesced_fire_times) == [at(60 * n) for n in range(11)]
    assert not store.misfire(node).misfired
    assert store.fire_due(node) == [], "once"


@each_kind
def test_it_is_as_it_was_afterwards(store: Harness, trigger: Trigger) -> None:
    node = store.node()
    paused(store, trigger)
    store.store.resume(NamedTriggers([key("t")]), Missed.SKIP)
    store.misfire(node)
    record = stored_trigger(store.store, key("t"))
    assert record is not None
    assert (record.trigger.misfire, record.trigger.catch_up_max) == (trigger.misfire, trigger.catch_up_max)
    # Later than anything but its own threshold: its own instruction counts again.
    store.clock.set(at(660) + HOUR)
    handled = store.misfire(node).misfired
    assert bool(handled) is not (trigger.ignores_misfires or trigger.misfire_threshold is not None)


@pytest.mark.parametrize("missed", [Missed.SKIP, Missed.ONCE])
def test_lateness_within_the_threshold_counts_too(store: Harness, missed: Missed) -> None:
    node = store.node()
    paused(store, every(3600, "t"), 5 * SECOND)
    store.store.resume(NamedTriggers([key("t")]), missed)
    assert store.fire_due(node) == []
    assert store.misfire(node).misfired
    assert names(store.fire_due(node)) == ([] if missed is Missed.SKIP else ["t"])


def test_what_is_on_time_fires_on_time(store: Harness) -> None:
    node = store.node()
    paused(store, once("t", at(60)), 59 * SECOND)
    store.store.resume(NamedTriggers([key("t")]), Missed.SKIP)
    store.clock.set(at(61))
    assert not store.misfire(node).misfired
    assert names(store.fire_due(node)) == ["t"]


@pytest.mark.parametrize("first", [Missed.SKIP, Missed.ONCE])
def test_only_the_last_word_counts(store: Harness, first: Missed) -> None:
    node = store.node()
    paused(store, cron(misfire="ignore"))
    store.store.resume(NamedTriggers([key("t")]), first)
    store.store.pause(NamedTriggers([key("t")]))
    assert not store.misfire(node).misfired
    store.store.resume(NamedTriggers([key("t")]))
    assert not store.misfire(node).misfired
    assert store.fire_one(node).scheduled_fire_time == START


def test_a_single_fire_that_is_skipped_was_the_last(store: Harness) -> None:
    node = store.node()
    paused(store, once("t"))
    store.store.resume(NamedTriggers([key("t")]), Missed.SKIP)
    assert list(store.misfire(node).finalized) == [key("t")]
    assert store.state("t") == "COMPLETE"


def test_manual_fires_are_not_skipped(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("by hand", group=MANUAL_TRIGGERS), once("scheduled"))
    store.store.pause(EVERYTHING)
    store.clock.advance(5 * SECOND)
    store.store.resume(EVERYTHING, Missed.SKIP)
    assert names(store.fire_due(node)) == ["by hand"]
    assert list(store.misfire(node).misfired) == [key("scheduled")]


def test_it_waits_for_the_end_of_what_runs(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(60, "t"), once("other"))
    store.store.pause(NamedTriggers([key("t")]))
    fired = store.fire_one(node)
    store.clock.advance(LATE)
    store.store.resume(NamedTriggers([key("t")]), Missed.ONCE)
    assert store.state("t") == "BLOCKED"
    assert not store.misfire(node).misfired
    store.complete(node, fired)
    assert store.fire_due(node) == []
    assert store.misfire(node).misfired
    assert len(store.fire_one(node).coalesced_fire_times) == 11


def test_a_fire_that_a_calendar_moved_meanwhile_is_not_skipped(store: Harness) -> None:
    node = store.node()
    store.put_calendar("days", WeeklyCalendar(excluded_days=frozenset(), time_zone="UTC"))
    hourly = every(3600, "t", calendar="days")
    store.schedule(job(), hourly, calendar=WeeklyCalendar(excluded_days=frozenset(), time_zone="UTC"))
    store.store.pause(NamedTriggers([key("t")]))
    store.clock.advance(LATE)
    store.store.resume(NamedTriggers([key("t")]), Missed.SKIP)
    [seen] = store.store.find(TriggerQuery(calendar="days"), None)
    later = type(seen.progress)(at(1200), None, 0)
    assert store.store.move_triggers([TriggerMove(seen, moved_to(store.prepare(hourly, job_key()), later, None))])
    store.clock.set(at(1201))
    assert not store.misfire(node).misfired
    assert names(store.fire_due(node)) == ["t"]


def test_a_catch_up_is_called_off(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), cron(misfire="fire_all", catch_up_max=3))
    store.clock.advance(LATE)
    store.misfire(node)
    store.fire_one(node)
    store.store.pause(NamedTriggers([key("t")]))
    store.store.resume(NamedTriggers([key("t")]), Missed.SKIP)
    assert store.misfire(node).misfired
    record = stored_trigger(store.store, key("t"))
    assert record is not None
    assert (record.catch_up_until, record.progress.next_fire_time) == (None, at(660))


@pytest.mark.parametrize(
    "subjects",
    [
        pytest.param(TriggersOfJobs([job_key()]), id="jobs"),
        pytest.param(TriggerGroups(GroupMatcher.equals("DEFAULT")), id="trigger groups"),
        pytest.param(JobGroups(GroupMatcher.equals("DEFAULT")), id="job groups"),
        pytest.param(EVERYTHING, id="all"),
    ],
)
def test_it_holds_whatever_is_resumed(store: Harness, subjects: PauseSubjects) -> None:
    node = store.node()
    store.schedule(job(), every(60, "t"))
    store.store.pause(subjects)
    store.clock.advance(5 * SECOND)
    store.store.resume(subjects, Missed.SKIP)
    assert store.fire_due(node) == []
    assert list(store.misfire(node).misfired) == [key("t")]
    assert store.progress("t").next_fire_time == at(60)
