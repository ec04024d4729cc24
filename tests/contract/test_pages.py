"""Tests of queries with filters that are read page by page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from quartzpy.keys import UNSCHEDULED_GROUPS
from quartzpy.matchers import GroupMatcher
from quartzpy.states import ExecutionState, JobMode, MisfireAction, Outcome, TriggerState
from quartzpy.store.protocol import NamedTriggers
from quartzpy.store.queries import (
    AnyQuery,
    ExecutionQuery,
    JobQuery,
    MisfireQuery,
    RecordQuery,
    TriggerOrder,
    TriggerQuery,
)
from tests.contract.harness import HOUR, SECOND, START, Harness, at, every, job, job_key, key, once

EVERY_STATE = frozenset(ExecutionState)
BY_TIME = TriggerOrder.NEXT_FIRE_TIME


def find(store: Harness, query: AnyQuery, limit: int | None = None, after: Any = None) -> list[Any]:
    selected: RecordQuery[Any] = query
    return store.store.find(selected, limit, after)


def identity(record: Any) -> object:
    numbered = getattr(record, "misfire_id", None)
    return getattr(record, "key", None) or numbered or (record.fire_id, record.trigger_key)


@pytest.fixture
def busy(store: Harness) -> Harness:
    """A store with jobs of two groups, triggers in several states, executions of all sorts, and misfires."""
    node, other = store.node("one"), store.node("two")
    for n, outcome in enumerate([Outcome.SUCCEEDED, Outcome.FAILED, Outcome.FAILED, Outcome.CANCELLED]):
        store.schedule(job(f"done-{n}", "past"), once(f"done-{n}", START, group="past"))
        fired = store.fire_one(node if n % 2 else other)
        # The last two end at the same instant.
        store.clock.advance(SECOND if n < 3 else timedelta())
        retry_after = HOUR if n == 1 else None
        store.complete(node if n % 2 else other, fired, outcome=outcome, retry_after=retry_after)
    store.clock.advance(SECOND)
    store.schedule(job("late", "reports"), every(60, "late", start=store.clock.now(), misfire="fire_now", times=3))
    store.clock.advance(HOUR / 2)
    store.misfire(node)
    store.schedule(job("runs", "reports"), once("runs", store.clock.now()))
    store.fire_due(node)
    store.schedule(job("reports-daily", "reports", job_type="invoice"), once("a", at(9 * 3600), group="g", priority=1))
    store.schedule(job("empty", durable=True))
    store.schedule(
        job("many"),
        *(once(f"m{n}", at(7200 + n // 3), priority=5 + n % 2) for n in range(7)),
        once("paused", at(9000)),
        once("broken", at(9000)),
    )
    store.store.pause(NamedTriggers([key("paused")]))
    store.set_state(key("broken"), TriggerState.ERROR)
    store.store.set_mode(job_key("reports-daily", "reports"), JobMode.DISABLED)
    return store


QUERIES: dict[str, AnyQuery] = {
    "jobs": JobQuery(),
    "triggers by key": TriggerQuery(),
    "triggers by time": TriggerQuery(order=BY_TIME),
    "triggers of a job": TriggerQuery(job_key=job_key("many")),
    "triggers of a job by time": TriggerQuery(job_key=job_key("many"), order=BY_TIME),
    "the history": ExecutionQuery(),
    "executions in all states": ExecutionQuery(states=EVERY_STATE),
    "executions to come of a job": ExecutionQuery(states=EVERY_STATE, job_key=job_key("many")),
    "misfires": MisfireQuery(),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_pages_are_the_whole_in_pieces(busy: Harness, query: AnyQuery) -> None:
    whole = find(busy, query)
    assert whole
    for size in (1, 2, 3, 100):
        after, pages = None, []
        while found := find(busy, query, size, after):
            pages += found
            after = query.position(found[-1])
        assert list(map(identity, pages)) == list(map(identity, whole))
    assert busy.store.count(query) == len(whole)
    assert find(busy, query, 0) == []


def test_rows_that_change_between_two_pages_do_not_shift_the_rest(busy: Harness) -> None:
    query = TriggerQuery(job_key=job_key("many"))
    first = find(busy, query, 4)
    after = query.position(first[-1])
    rest = [record.key.name for record in find(busy, query, None, after)]
    busy.schedule(job("other"), once("aaa", at(9000)), once("zzz", at(9000)))
    busy.store.delete_triggers([first[0].key, first[3].key])
    assert [record.key.name for record in find(busy, query, None, after)] == rest


def names(store: Harness, query: AnyQuery) -> set[str]:
    return {
        (getattr(record, "key", None) and record.key.name) or record.trigger_key.name for record in find(store, query)
    }


MANY = {f"m{n}" for n in range(7)}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (JobQuery(group=GroupMatcher.equals("reports")), {"late", "runs", "reports-daily"}),
        (JobQuery(group=GroupMatcher.starts_with("rep")), {"late", "runs", "reports-daily"}),
        (JobQuery(group=GroupMatcher.anything(), contains="reports"), {"reports-daily"}),
        (JobQuery(contains="Reports"), set()),
        (JobQuery(contains="%"), set()),
        (JobQuery(job_type="invoice"), {"reports-daily"}),
        (JobQuery(mode=JobMode.DISABLED), {"reports-daily"}),
        (TriggerQuery(job_key=job_key("many"), contains="m"), MANY),
        (TriggerQuery(job_key=job_key("many", "other")), set()),
        (TriggerQuery(group=GroupMatcher.ends_with("g")), {"a"}),
        (TriggerQuery(states=frozenset({TriggerState.ERROR})), {"broken"}),
        (TriggerQuery(states=frozenset({TriggerState.PAUSED, TriggerState.PAUSED_BLOCKED})), {"paused", "a"}),
        (TriggerQuery(states=frozenset()), set()),
        (TriggerQuery(job_type="invoice"), {"a"}),
        (TriggerQuery(kind="cron"), set()),
        (TriggerQuery(calendar="absent"), set()),
        (TriggerQuery(contains="m", since=at(7201), until=at(7202)), {"m3", "m4", "m5"}),
        (TriggerQuery(contains="m", since=at(7201), until=at(7202), order=BY_TIME), {"m3", "m4", "m5"}),
        (ExecutionQuery(states=frozenset({ExecutionState.FAILED})), {"done-1", "done-2"}),
        (ExecutionQuery(exhausted=True), {"done-2"}),
        (ExecutionQuery(exhausted=True, states=EVERY_STATE), {"done-2"}),
        (ExecutionQuery(instance_id="two"), {"done-0", "done-2"}),
        (ExecutionQuery(instance_id="two", states=EVERY_STATE), {"done-0", "done-2"}),
        (ExecutionQuery(job_group=GroupMatcher.equals("past"), job_type="invoice"), set()),
        (ExecutionQuery(states=EVERY_STATE, job_type="invoice"), set()),
        (ExecutionQuery(job_key=job_key("done-3", "past")), {"done-3"}),
        (ExecutionQuery(trigger_key=key("done-3", "past")), {"done-3"}),
        (ExecutionQuery(until=START), set()),
        (MisfireQuery(trigger_key=key("late")), {"late"}),
        (MisfireQuery(job_key=job_key("late", "reports"), instance_id="one"), {"late"}),
        (MisfireQuery(instance_id="two"), set()),
        (MisfireQuery(action=MisfireAction.ENDED), set()),
        (MisfireQuery(until=at(4)), set()),
        (MisfireQuery(since=at(4), until=at(5)), {"late"}),
    ],
)
def test_a_filter_selects(busy: Harness, query: AnyQuery, found: set[str]) -> None:
    assert names(busy, query) == found
    assert busy.store.count(query) == len(found)


def test_a_job_is_listed_with_a_summary_of_its_triggers(store: Harness) -> None:
    store.schedule(job("recurring"), every(10), once("later", at(3600)))
    store.schedule(job("durable", durable=True))
    node = store.node()
    store.fire_one(node)
    store.clock.advance(timedelta(seconds=10))
    store.fire_one(node)
    store.set_state(key("later"), TriggerState.ERROR)
    durable, recurring = find(store, JobQuery())
    assert (durable.trigger_count, durable.next_fire_time, durable.previous_fire_time) == (0, None, None)
    assert (recurring.trigger_count, recurring.next_fire_time, recurring.previous_fire_time) == (2, at(20), at(10))
    assert recurring.state is JobMode.ENABLED


def test_a_trigger_is_listed_flat(store: Harness) -> None:
    store.schedule(job(), every(10, priority=7, description="often"))
    store.fire_one(store.node())
    [record] = find(store, TriggerQuery())
    assert (record.next_fire_time, record.previous_fire_time, record.times_triggered) == (at(10), START, 1)
    assert (record.kind, record.priority, record.description, record.calendar) == ("simple", 7, "often", None)
    assert record.state is TriggerState.WAITING
    assert record.public_state == "NORMAL"


@pytest.mark.parametrize(
    ("outcome", "retry_after", "exhausted"),
    [(Outcome.FAILED, None, True), (Outcome.FAILED, HOUR, False), (Outcome.SUCCEEDED, None, False)],
)
def test_a_failure_that_no_retry_follows_is_exhausted(
    store: Harness, outcome: Outcome, retry_after: timedelta | None, exhausted: bool
) -> None:
    node = store.node()
    store.schedule(job(), once("once"))
    store.complete(node, store.fire_one(node), outcome=outcome, retry_after=retry_after)
    [record] = store.history()
    assert record.exhausted is exhausted
    assert record.retry_at == (None if retry_after is None else START + retry_after)
    assert find(store, ExecutionQuery(exhausted=True)) == ([record] if exhausted else [])


def test_a_failure_of_a_job_that_is_gone_is_exhausted(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once("once"))
    fired = store.fire_one(node)
    store.store.delete_jobs([job_key()])
    store.complete(node, fired, outcome=Outcome.FAILED, retry_after=HOUR)
    assert [record.exhausted for record in store.history()] == [True]


@pytest.mark.parametrize("make", [JobQuery, TriggerQuery, ExecutionQuery, MisfireQuery])
def test_an_empty_store_answers_every_query(store: Harness, make: Callable[[], AnyQuery]) -> None:
    assert find(store, make(), 5) == []
    assert store.store.count(make()) == 0


def test_triggers_that_repeat_by_a_schedule_are_told_from_those_that_fire_once(store: Harness) -> None:
    store.schedule(
        job("j"),
        every(3600, "often", start=at(60)),
        every(3600, "thrice", start=at(30), times=3),
        once("once", at(10)),
        *(every(3600, "made", start=at(20), group=group) for group in UNSCHEDULED_GROUPS),
    )
    for order, names in ((TriggerOrder.KEY, ["often", "thrice"]), (BY_TIME, ["thrice", "often"])):
        query = TriggerQuery(by_schedule=True, order=order)
        assert [record.key.name for record in store.store.find(query, 10, None)] == names
        first = store.store.find(replace(query, among=100), 1, None)
        rest = store.store.find(replace(query, among=100), 10, query.position(first[0]))
        assert [record.key.name for record in (*first, *rest)] == names
