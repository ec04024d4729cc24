"""Tests of the misfire step: late triggers are handled by their misfire instruction, in batches."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from quartzpy.calendars.days import DayOfWeek, WeeklyCalendar
from quartzpy.errors import LeaseLostError
from quartzpy.states import TriggerState
from quartzpy.store.protocol import NamedTriggers
from quartzpy.store.queries import MisfireQuery
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger, TriggerProgress
from quartzpy.triggers.upcoming import look_ahead
from tests.contract.harness import (
    HOUR,
    MINUTE,
    SECOND,
    START,
    THRESHOLD,
    Harness,
    at,
    every,
    job,
    job_key,
    key,
    names,
    once,
    serial,
    stored_job,
    stored_trigger,
)

HOURLY = "0 0 * ? * *"
SIMPLE_INSTRUCTIONS = sorted(set(SimpleTrigger.misfire_type) - {"ignore", "fire_all"})
CRON_INSTRUCTIONS = sorted(set(CronTrigger.misfire_type) - {"ignore", "fire_all"})


def cron(name: str = "cron", **values: object) -> CronTrigger:
    return CronTrigger(HOURLY, name, start_time=START, time_zone="UTC", **values)  # type: ignore[arg-type]


def expected(trigger: Trigger, now: datetime) -> tuple[Trigger, TriggerProgress]:
    return trigger.after_misfire(trigger.started(), now=now)


@pytest.mark.parametrize("instruction", CRON_INSTRUCTIONS)
def test_each_instruction_of_a_cron_trigger_is_applied(store: Harness, instruction: str) -> None:
    node = store.node()
    store.schedule(job(), cron(misfire=instruction))
    store.clock.advance(2.5 * HOUR)
    _, progress = expected(cron(misfire=instruction), store.clock.now())
    outcome = store.misfire(node)
    assert list(outcome.misfired) == [key("cron")]
    assert (outcome.now, outcome.earliest, outcome.more) == (at(9000), progress.next_fire_time, False)
    assert store.progress("cron") == progress
    assert store.state("cron") == "WAITING"


@pytest.mark.parametrize("instruction", SIMPLE_INSTRUCTIONS)
@pytest.mark.parametrize("times", [1, 5, 100, None])
def test_each_instruction_of_a_simple_trigger_is_applied(store: Harness, instruction: str, times: int | None) -> None:
    node = store.node()
    given = every(30, times=times, misfire=instruction)
    bound = store.prepare(given, job_key()).trigger
    store.schedule(job(durable=True), given)
    store.clock.advance(100 * SECOND)
    trigger, progress = expected(bound, store.clock.now())
    outcome = store.misfire(node)
    assert list(outcome.misfired) == [key("every")]
    assert outcome.earliest == progress.next_fire_time
    if progress.next_fire_time is None:
        assert store.state("every") == "COMPLETE"
        return
    record = stored_trigger(store.store, key("every"))
    assert record is not None
    assert (record.trigger, record.progress, record.state) == (trigger, progress, TriggerState.WAITING)
    assert tuple(record.upcoming) == look_ahead(trigger, progress, None).instants
    assert record.trigger.same_schedule(bound), "what is scheduled again is recognized after a misfire"


@pytest.mark.parametrize("times", [1, 4])
def test_a_simple_trigger_fires_on_as_its_instruction_says(store: Harness, times: int) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(30, times=times))
    store.clock.advance(100 * SECOND)
    store.misfire(node)
    trigger, progress = expected(store.prepare(every(30, times=times), job_key()).trigger, at(100))
    wanted = []
    while progress.next_fire_time is not None:
        wanted.append(progress.next_fire_time)
        progress = trigger.triggered(progress)
    seen = []
    for _ in range(20):
        for fired in store.fire_due(node):
            seen.append(fired.scheduled_fire_time)
            store.complete(node, fired)
        store.clock.advance(30 * SECOND)
    assert seen == wanted
    assert store.state("every") == "gone"


def test_after_fire_once_now_a_trigger_fires_once_and_continues_its_schedule(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), cron(misfire="fire_once_now"))
    store.clock.advance(2.5 * HOUR)
    assert not store.fire_due(node)
    store.misfire(node)
    fired = store.fire_one(node)
    assert (fired.scheduled_fire_time, fired.next_fire_time) == (at(9000), START + 3 * HOUR)
    assert not store.fire_due(node)


def test_after_do_nothing_a_trigger_fires_at_its_next_time_only(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), cron(misfire="do_nothing"))
    store.clock.advance(2.5 * HOUR)
    store.misfire(node)
    assert not store.fire_due(node)
    store.clock.set(START + 3 * HOUR)
    assert store.fire_one(node).scheduled_fire_time == START + 3 * HOUR


def test_a_trigger_that_ignores_misfires_catches_up_on_each_fire(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), cron(misfire="ignore"))
    store.clock.advance(2.5 * HOUR)
    assert not store.misfire(node).misfired
    assert [store.fire_one(node).scheduled_fire_time for _ in range(3)] == [START + n * HOUR for n in range(3)]
    assert not store.fire_due(node)


def test_a_fire_within_the_threshold_has_not_misfired(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), every(3600))
    store.clock.advance(THRESHOLD)
    assert not store.misfire(node).misfired
    assert store.fire_one(node).scheduled_fire_time == START


def test_a_fire_beyond_the_threshold_is_either_misfired_or_fired(
    store: Harness,
) -> None:
    node = store.node()
    store.schedule(job(), every(3600))
    store.clock.advance(THRESHOLD + timedelta(microseconds=1))
    assert not store.fire_due(node)
    assert store.misfire(node).misfired


def test_a_triggers_own_threshold_decides(store: Harness) -> None:
    node = store.node()
    store.schedule(
        job(),
        every(3600, "strict", misfire_threshold=SECOND),
        every(3600, "patient", misfire_threshold=2 * HOUR),
        every(3600, "usual"),
    )
    store.clock.advance(2 * SECOND)
    assert list(store.misfire(node).misfired) == [key("strict")]
    store.clock.advance(THRESHOLD)
    assert key("usual") in store.misfire(node).misfired
    store.clock.advance(HOUR)
    assert key("patient") not in store.misfire(node).misfired
    assert store.progress("patient").next_fire_time == START


def test_late_triggers_are_handled_in_slices_oldest_first(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), *[every(86400, f"t{n}", start=at(n)) for n in range(5)])
    store.clock.advance(HOUR)
    seen = []
    for wanted, more in ((2, True), (2, True), (1, False), (0, False)):
        outcome = store.misfire(node, limit=2)
        assert (len(outcome.misfired), outcome.more) == (wanted, more)
        seen.append({one.name for one in outcome.misfired})
    assert seen == [{"t0", "t1"}, {"t2", "t3"}, {"t4"}, set()]


def test_a_slice_that_is_exactly_full_leaves_no_more(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), *[every(86400, f"t{n}") for n in range(2)])
    store.clock.advance(HOUR)
    outcome = store.misfire(node, limit=2)
    assert (len(outcome.misfired), outcome.more) == (2, False)


def test_a_trigger_that_cannot_fire_again_is_complete(store: Harness) -> None:
    node = store.node()
    store.schedule(
        job("short"),
        CronTrigger(HOURLY, "cron", start_time=START, end_time=at(60), time_zone="UTC", misfire="do_nothing"),
    )
    store.schedule(
        job("kept", durable=True),
        CronTrigger(HOURLY, "other", start_time=START, end_time=at(60), time_zone="UTC", misfire="do_nothing"),
    )
    store.clock.advance(HOUR)
    outcome = store.misfire(node)
    assert set(outcome.misfired) == {key("cron"), key("other")}
    assert outcome.earliest is None
    assert store.states("cron", "other") == ["COMPLETE", "COMPLETE"]
    assert store.progress("cron").next_fire_time is None
    assert not store.upcoming("cron")
    assert stored_job(store.store, job_key("short")) is not None
    assert not store.store.recover(node, []).changed_anything
    assert not store.misfire(node).misfired


def test_a_trigger_that_misfired_for_the_last_time_leaves_the_others_of_its_job(store: Harness) -> None:
    node = store.node()
    store.schedule(
        job(),
        CronTrigger(HOURLY, "cron", start_time=START, end_time=at(60), time_zone="UTC", misfire="do_nothing"),
        once("far", START + 9 * HOUR),
    )
    store.clock.advance(HOUR)
    store.misfire(node)
    assert store.states("cron", "far") == ["COMPLETE", "WAITING"]


def test_only_known_job_types_are_handled(store: Harness) -> None:
    node = store.node()
    store.schedule(job("mine"), every(86400, "mine"))
    store.schedule(job("other", job_type="invoice"), every(86400, "other"))
    store.clock.advance(HOUR)
    assert list(store.misfire(node).misfired) == [key("mine")]
    assert store.progress("other").next_fire_time == START


def test_only_waiting_triggers_misfire(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), every(60), once("blocked", at(1)))
    store.schedule(job("other"), every(86400, "paused"), once("fired", at(1)))
    store.store.pause(NamedTriggers([key("paused")]))
    fired = store.acquire(node, limit=1).fired
    assert names(fired) == ["every"]
    assert names(store.acquire(node, look_ahead=SECOND).fired) == ["fired"]
    store.clock.advance(HOUR)
    assert not store.misfire(node).misfired
    assert store.states("every", "blocked", "paused", "fired") == [
        "BLOCKED",
        "BLOCKED",
        "PAUSED",
        "COMPLETE",
    ]


def test_a_trigger_that_was_paused_too_long_misfires_when_it_is_resumed(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), cron(misfire="do_nothing"))
    store.store.pause(NamedTriggers([key("cron")]))
    store.clock.advance(1.5 * HOUR)
    store.store.resume(NamedTriggers([key("cron")]))
    assert not store.fire_due(node)
    assert store.misfire(node).misfired
    assert store.progress("cron").next_fire_time == START + 2 * HOUR


def test_a_misfire_keeps_the_generation_and_what_was_counted(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), cron())
    store.complete(node, store.fire_one(node))
    generation = store.generation("cron")
    store.clock.advance(1.5 * HOUR)
    store.misfire(node)
    assert store.generation("cron") == generation
    assert store.progress("cron").times_triggered == 1
    assert store.progress("cron").previous_fire_time == START


def test_the_calendar_is_applied_when_a_misfire_is_handled(store: Harness) -> None:
    weekend = WeeklyCalendar(excluded_days=frozenset({DayOfWeek.MONDAY}), time_zone="UTC")
    store.put_calendar("no-mondays", weekend)
    node = store.node()
    given = CronTrigger(HOURLY, "cron", start_time=START, time_zone="UTC", misfire="do_nothing", calendar="no-mondays")
    store.schedule(job(), given, calendar=weekend)
    assert store.progress("cron").next_fire_time == datetime(2026, 3, 3, tzinfo=START.tzinfo)
    store.clock.set(datetime(2026, 3, 8, 23, 30, tzinfo=START.tzinfo))  # the Sunday before a Monday
    store.misfire(node)
    assert store.progress("cron").next_fire_time == datetime(2026, 3, 10, tzinfo=START.tzinfo)


def test_two_nodes_do_not_misfire_one_trigger_twice(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), every(86400))
    store.clock.advance(HOUR)
    assert store.misfire(a).misfired
    assert not store.misfire(b).misfired


def test_a_dead_epoch_handles_no_misfires(store: Harness) -> None:
    a, b = store.node("a"), store.node("b")
    store.schedule(job(), every(86400))
    store.clock.advance(HOUR + MINUTE)
    store.recover(b, a)
    with pytest.raises(LeaseLostError):
        store.misfire(a)
    assert store.progress("every").next_fire_time == START
    assert store.store.find(MisfireQuery(), 10) == []
