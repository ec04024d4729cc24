"""Tests of everything that is known of a fire, in each of the ways in which the fire is stored once more.

`FACTS` says what becomes of each fact. A fact that a store adds has to be entered there: tests compare the table with
the fields and columns in which facts are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from enum import StrEnum
from itertools import product
from typing import Any

import pytest

from quartzpy.calendars.times import DailyCalendar
from quartzpy.job_data import decode
from quartzpy.jobs.context import Progress
from quartzpy.jobs.fired_trigger import FireFacts
from quartzpy.jobs.job import JobDetail
from quartzpy.jobs.retry import RetryPolicy
from quartzpy.keys import JobKey
from quartzpy.states import Outcome
from quartzpy.store.protocol import FiredTrigger, NamedTriggers, Node
from quartzpy.triggers.cron import CronTrigger
from tests.contract.harness import MINUTE, SECOND, START, Harness, job, job_key


class Way(StrEnum):
    """A way in which a fire is stored again."""

    RETRY = "retry"
    """A failed execution is tried again, by its retry policy."""
    SNOOZE = "snooze"
    """The job has asked to run later."""
    HAND_BACK = "hand_back"
    """The node gives back a fire whose job has not begun."""
    RECOVERY = "recovery"
    """The node died, and the job requests recovery."""
    CONTINUATION = "continuation"
    """Another job runs after this one."""
    RUN_AGAIN = "run_again"
    """Somebody runs an ended execution again, from the history."""
    BACKFILL = "backfill"
    """Somebody runs the job for an instant of a trigger in the past."""


class Fate(StrEnum):
    """What becomes of a fact."""

    CARRIED = "carried"
    """It has the value that it had in the fire."""
    FRESH = "fresh"
    """It belongs to the new trigger, or to its fire."""
    OF_JOB = "of the job"
    """It is what the job says at that time."""
    NONE = "none"
    """It is empty, or has the value of a first attempt."""


REPEATS = (Way.RETRY, Way.SNOOZE, Way.HAND_BACK, Way.RECOVERY)
"""The ways in which the same execution is repeated. The others begin another one."""
BY_HAND = (Way.RUN_AGAIN, Way.BACKFILL)


@dataclass(frozen=True)
class Fact:
    """What becomes of a fact, and why."""

    repeated: Fate
    continued: Fate
    by_hand: Fate
    why: str
    but: Mapping[Way, Fate] = field(default_factory=dict)

    def in_way(self, way: Way) -> Fate:
        otherwise = self.repeated if way in REPEATS else self.by_hand if way in BY_HAND else self.continued
        return self.but.get(way, otherwise)


def _always(fate: Fate, why: str) -> Fact:
    return Fact(fate, fate, fate, why)


CARRIED, FRESH, OF_JOB, NONE = Fate.CARRIED, Fate.FRESH, Fate.OF_JOB, Fate.NONE
_ITS_OWN = "a repetition has a trigger of its own, whose data names the original one"
_ONE_FIRE = "the new trigger fires once, without a calendar"
_AS_IT_IS = "a run uses its job as it is defined when it fires"
_OF_THE_RUN = "it is about the run that has ended"

OF_ENGINES = ("submission", "worker", "worker_since", "worker_seen", "outlives_node", "ending")
FACTS: Mapping[str, Fact] = {
    "fire_id": _always(FRESH, "each run has a row of its own in the history"),
    "trigger_group": _always(FRESH, _ITS_OWN),
    "trigger_name": _always(FRESH, _ITS_OWN),
    "generation": _always(FRESH, _ITS_OWN),
    "load_trigger": _always(FRESH, _ITS_OWN),
    "job_group": Fact(CARRIED, FRESH, CARRIED, "a continuation is another job"),
    "job_name": Fact(CARRIED, FRESH, CARRIED, "a continuation is another job"),
    "fire_time": _always(FRESH, "it is the instant of the new fire"),
    "scheduled_fire_time": Fact(
        FRESH, FRESH, FRESH, "it is when the new trigger is due; `nominal_fire_time` is kept", {Way.RECOVERY: CARRIED}
    ),
    "previous_fire_time": _always(NONE, _ONE_FIRE),
    "next_fire_time": _always(NONE, _ONE_FIRE),
    "upcoming": _always(FRESH, _ONE_FIRE),
    "times_triggered": _always(FRESH, _ONE_FIRE),
    "calendar_revision": _always(NONE, _ONE_FIRE),
    "load_calendar": _always(NONE, _ONE_FIRE),
    "attempt": Fact(CARRIED, NONE, NONE, "only a failure uses up an attempt", {Way.RETRY: FRESH}),
    "coalesced_fire_times": Fact(
        CARRIED, NONE, NONE, "a job that makes up for what was missed has to know it; the history does not keep it"
    ),
    "trigger_data": Fact(CARRIED, FRESH, CARRIED, "a continuation has data of its own"),
    "priority": Fact(CARRIED, CARRIED, FRESH, "what somebody runs by hand has a priority of its own"),
    "concurrency_key": Fact(CARRIED, FRESH, CARRIED, "it follows from the data, which are carried"),
    "job_type": _always(OF_JOB, _AS_IT_IS),
    "placement": _always(OF_JOB, _AS_IT_IS),
    "definition": _always(OF_JOB, _AS_IT_IS),
    "persists_data": _always(OF_JOB, _AS_IT_IS),
    "job_data": _always(OF_JOB, _AS_IT_IS),
    "load_job": _always(OF_JOB, _AS_IT_IS),
    "node_deaths": _always(OF_JOB, _AS_IT_IS),
    "pause_after_failures": _always(OF_JOB, _AS_IT_IS),
    "continues": _always(OF_JOB, _AS_IT_IS),
    "max_concurrent": _always(OF_JOB, _AS_IT_IS),
    "job_is_durable": _always(OF_JOB, _AS_IT_IS),
    "limits": _always(OF_JOB, _AS_IT_IS),
    "is_joined": _always(OF_JOB, _AS_IT_IS),
    "requests_recovery": _always(OF_JOB, _AS_IT_IS),
    "cancel_requested": _always(NONE, "an execution that was asked to stop does not run again"),
    "progress": _always(NONE, _OF_THE_RUN),
    "progress_message": _always(NONE, _OF_THE_RUN),
    "recent_log": _always(NONE, _OF_THE_RUN),
    **dict.fromkeys(OF_ENGINES, _always(NONE, _OF_THE_RUN)),
    "instance_id": _always(FRESH, "any node may run it"),
    "epoch": _always(FRESH, "any node may run it"),
}
"""What becomes of each fact of a fire. Those that no field of `FiredTrigger` has are in the row of the fire."""


# --- the tests

NIGHTS = DailyCalendar(time(0), time(6), time_zone="UTC")
ORIGIN = "QRTZ_"
"""The beginning of the entries by which a trigger names the execution that it repeats."""
DELAY = timedelta(seconds=7)


def rich(**values: Any) -> JobDetail:
    """Return a job of which each fire has as many facts as possible."""
    given = {
        "durable": True,
        "requests_recovery": True,
        "concurrency_key": "who",
        "max_concurrent": 5,
        "retry": RetryPolicy(attempts=9),
        "timeout": MINUTE,
        "capture_logs": "INFO",
        "pause_after_failures": 99,
        "persist_data": True,
        "continuations": ["follower"],
        "data": {"of": "job"},
    }
    return job(**{**given, **values})


CHANGED = {
    "retry": None,
    "timeout": 2 * MINUTE,
    "capture_logs": "ERROR",
    "pause_after_failures": 98,
    "max_concurrent": 4,
    "persist_data": False,
    "data": {"of": "changed job"},
}


def missed_fire(store: Harness, node: Node) -> FiredTrigger:
    """Fire a trigger that has coalesced four fire times."""
    store.put_calendar("nights", NIGHTS)
    store.schedule(job("follower", durable=True, data={"of": "follower"}))
    trigger = CronTrigger(
        "0 * * * * ?",
        "minutely",
        start_time=START,
        calendar="nights",
        misfire="fire_once_now",
        priority=8,
        data={"who": "x", "day": 3},
    )
    store.schedule(rich(), trigger, calendar=NIGHTS)
    store.clock.advance(3 * MINUTE + SECOND)
    store.misfire(node)
    fired = store.fire_one(node)
    assert len(fired.coalesced_fire_times) == 4
    store.store.pause(NamedTriggers([fired.trigger_key]))
    return fired


def repeat(store: Harness, node: Node, fired: FiredTrigger, way: Way, *, asks_to_stop: bool = False) -> None:
    """Let this execution be stored again."""
    if asks_to_stop:
        assert store.store.request_cancel(fired.fire_id)
    if way is Way.RETRY:
        store.complete(node, fired, outcome=Outcome.FAILED, error="wrong", retry_after=DELAY)
    elif way is Way.SNOOZE:
        store.complete(node, fired, outcome=Outcome.SNOOZED, error="later", retry_after=DELAY)
    elif way is Way.HAND_BACK:
        store.complete(node, fired, outcome=Outcome.SNOOZED, retry_after=timedelta(), is_handed_back=True)
    else:
        assert way is Way.RECOVERY
        store.recover(store.node(f"survivor-of-{fired.fire_id}"), node)


def fire_of(store: Harness, job: JobKey) -> tuple[Node, FiredTrigger]:
    """Let another node fire what is due of a job."""
    store.clock.advance(DELAY)
    node = store.node(f"node-{store.clock.monotonic()}")
    [fired] = [one for one in store.fire_due(node) if one.job_key == job]
    return node, fired


def control(store: Harness, node: Node) -> FiredTrigger:
    """Fire a trigger of the job that repeats nothing."""
    store.add_triggers(job_key(), CronTrigger("* * * * * ?", "control", start_time=store.clock.now()))
    [fired] = [one for one in store.fire_due(node) if one.trigger_name == "control"]
    return fired


def without_origin(data: str | None) -> dict[str, Any]:
    return {name: value for name, value in decode(data).items() if not name.startswith(ORIGIN)}


def value_of(fired: FiredTrigger, fact: str) -> Any:
    """Return the value of a fact of a fire."""
    if fact == "trigger_data":
        return without_origin(fired.trigger_data)
    return fired.trigger.priority if fact == "priority" else getattr(fired, fact)


OBSERVED = [fact for fact in FACTS if fact in (*FireFacts._fields, "priority")]
"""The facts that a node sees. Other tests observe the others."""
_UNKEPT: dict[str, Callable[[Any], bool]] = {
    "attempt": lambda value: value == 1,
    "coalesced_fire_times": lambda value: value == (),
}


def check(way: Way, fired: FiredTrigger, again: FiredTrigger, usual: FiredTrigger | None) -> None:
    """Check all facts of a fire that repeats another one; `usual` is a fire of the same job that repeats nothing."""
    for fact in OBSERVED:
        was, value, fate = value_of(fired, fact), value_of(again, fact), FACTS[fact].in_way(way)
        if fate is CARRIED:
            assert value == was, (way, fact)
        elif fate is NONE:
            assert _UNKEPT.get(fact, lambda value: value is None)(value), (way, fact, value)
        elif fate is OF_JOB and usual is not None:
            assert value == value_of(usual, fact), (way, fact)


@pytest.mark.parametrize("ways", list(product(REPEATS, REPEATS)), ids="-".join)
def test_what_a_repeated_fire_keeps(store: Harness, ways: tuple[Way, Way]) -> None:
    node = store.node()
    first = fired = missed_fire(store, node)
    failures = 0
    for way in ways:
        repeat(store, node, fired, way)
        node, again = fire_of(store, job_key())
        failures += way is Way.RETRY
        check(way, fired, again, None)
        assert again.attempt == 1 + failures
        fired = again
    assert fired.coalesced_fire_times == first.coalesced_fire_times
    assert without_origin(fired.trigger_data) == {"who": "x", "day": 3}


@pytest.mark.parametrize("way", REPEATS)
def test_a_repeated_fire_takes_the_rest_from_its_job_as_it_is_now(store: Harness, way: Way) -> None:
    node = store.node()
    fired = missed_fire(store, node)
    # The data of a job that persists them are kept where it is only stored again.
    store.store.modify_job(job_key(), lambda one: rich(**CHANGED), keeps_data=False)
    repeat(store, node, fired, way)
    node, again = fire_of(store, job_key())
    usual = control(store, node)
    assert decode(usual.job_data) == {"of": "changed job"}
    check(way, fired, again, usual)


def test_what_a_continuation_keeps(store: Harness) -> None:
    node = store.node()
    fired = missed_fire(store, node)
    store.complete(node, fired)
    _, again = fire_of(store, job_key("follower"))
    check(Way.CONTINUATION, fired, again, None)
    assert decode(again.job_data) == {"of": "follower"}


@pytest.mark.parametrize("way", REPEATS)
def test_a_repeated_fire_counts_for_the_key_of_its_data(store: Harness, way: Way) -> None:
    node = store.node()
    fired = missed_fire(store, node)
    store.store.modify_job(job_key(), lambda one: rich(max_concurrent=1), keeps_data=False)
    repeat(store, node, fired, way)
    node, _ = fire_of(store, job_key())
    now = store.clock.now()
    for who in ("x", "y"):
        store.add_triggers(job_key(), CronTrigger("* * * * * ?", who, start_time=now, data={"who": who}))
    assert [one.trigger_name for one in store.fire_due(node)] == ["y"], "x runs already"


@pytest.mark.parametrize("way", REPEATS)
def test_a_repeated_fire_shows_nothing_of_the_run_before(store: Harness, way: Way) -> None:
    node = store.node()
    fired = missed_fire(store, node)
    store.store.report_progress(node, {fired.fire_id: Progress(0.5, "half")}, {fired.fire_id: "a line"})
    repeat(store, node, fired, way)
    node, again = fire_of(store, job_key())
    [row] = store.running()
    assert (row.fire_id, row.progress, row.progress_message, row.cancel_requested) == (again.fire_id, None, None, False)
    record = store.store.execution(again.fire_id)
    assert record is not None
    assert record.log_text is None


# --- an execution that was asked to stop is not repeated

ENDS = {
    Way.RETRY: ("FAILED", "wrong"),
    Way.SNOOZE: ("CANCELLED", "later"),
    Way.HAND_BACK: ("CANCELLED", None),
    Way.RECOVERY: ("TERMINATED", "its node stopped while executing it"),
}


@pytest.mark.parametrize("way", REPEATS)
def test_an_execution_that_was_asked_to_stop_does_not_run_again(store: Harness, way: Way) -> None:
    node = store.node()
    fired = missed_fire(store, node)
    repeat(store, node, fired, way, asks_to_stop=True)
    store.clock.advance(DELAY)
    survivor = store.node("other")
    assert [one for one in store.fire_due(survivor) if one.job_key == job_key()] == []
    [record] = store.history()
    assert (str(record.outcome), record.error, record.retry_at) == (*ENDS[way], None)
    assert [row for row in store.running() if row.job_key == job_key()] == []


@pytest.mark.parametrize("way", [Way.RETRY, Way.SNOOZE, Way.HAND_BACK])
def test_a_step_tells_which_executions_do_not_run_again(store: Harness, way: Way) -> None:
    node = store.node()
    store.schedule(job(durable=True), *[CronTrigger("* * * * * ?", f"t{n}", start_time=START) for n in range(3)])
    one, two, three = store.fire_due(node)
    assert store.store.request_cancel(two.fire_id)
    assert store.store.request_cancel(three.fire_id)
    outcome = Outcome.FAILED if way is Way.RETRY else Outcome.SNOOZED
    again = {"outcome": outcome, "retry_after": DELAY, "is_handed_back": way is Way.HAND_BACK}
    ended = [store.ended(one, **again), store.ended(two, **again), store.ended(three)]
    assert set(store.store.complete(node, ended).stopped) == {two.fire_id}
    store.store.pause(NamedTriggers([each.trigger_key for each in (one, two, three)]))
    store.clock.advance(DELAY)
    assert len(store.fire_due(node)) == 1


# --- each repetition asks the rate limit again


def turns(store: Harness, node: Node) -> list[tuple[datetime, str]]:
    """Fire everything, each at the instant at which the store allows it; return what fired when."""
    fired: list[tuple[datetime, str]] = []
    for _ in range(20):
        took = store.acquire(node)
        fired += [(store.clock.now(), decode(one.trigger_data)["name"]) for one in took.fired]
        store.complete(node, *took.fired)
        if not took.fired:
            if took.next_due is None:
                return fired
            store.clock.set(max(took.next_due, store.clock.now()))
    raise AssertionError("this takes too many steps")


def limited(store: Harness, node: Node, **values: Any) -> FiredTrigger:
    """Fire the first of three triggers of a job that may fire once a minute."""
    store.schedule(
        job(durable=True, rate_limit="1/minute", requests_recovery=True, **values),
        *[
            CronTrigger("0 0 12 2 3 ? 2026", f"t{n}", start_time=START, priority=9 - n, data={"name": f"t{n}"})
            for n in range(3)
        ],
    )
    fired = store.fire_one(node)
    assert fired.trigger_name == "t0"
    return fired


@pytest.mark.parametrize("way", REPEATS)
def test_a_run_asks_the_rate_limit_again(store: Harness, way: Way) -> None:
    node = store.node()
    fired = limited(store, node)
    repeat(store, node, fired, way)
    store.clock.advance(DELAY)
    again = store.node("again")
    ran = turns(store, again)
    assert sorted(name for _, name in ran) == ["t0", "t1", "t2"]
    assert sorted(at for at, _ in ran) == [START + number * MINUTE for number in (1, 2, 3)]


def test_another_limit_is_asked_by_all_triggers(store: Harness) -> None:
    node = store.node()
    fired = limited(store, node)
    repeat(store, node, fired, Way.HAND_BACK)
    store.schedule(job(durable=True, rate_limit="1/hour"), replace=True)
    assert store.fire_due(node) == []
