"""Tests of the aggregates for operators."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from quartzpy.matchers import GroupMatcher
from quartzpy.placement import Placement
from quartzpy.scheduler.singles import placements
from quartzpy.states import ExecutionState, Outcome, TriggerState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import CountedExecutions, GroupTally, Lanes, SlotUsage, Tallies
from quartzpy.store.protocol import NamedTriggers, TriggerGroups
from quartzpy.store.queries import ExecutionQuery, Position, TriggerOrder, TriggerQuery
from quartzpy.store.searches import FoundKeys, KeySearch
from tests.contract.harness import (
    HOUR,
    MINUTE,
    SECOND,
    START,
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


def test_tallies_count_up_to_a_maximum(store: Harness) -> None:
    node = store.node()
    for name in "abcd":
        store.schedule(job(name), once(name, at(100)))
    store.schedule(job("due"), every(60))
    store.store.pause(NamedTriggers([key("a"), key("b")]))
    [_] = store.fire_due(node)
    assert admin(store.store).tallies(10) == Tallies(5, {TriggerState.WAITING: 3, TriggerState.PAUSED: 2}, 0, 1, 0)
    store.clock.set(at(101))
    assert admin(store.store).tallies(1) == Tallies(2, {TriggerState.WAITING: 2, TriggerState.PAUSED: 2}, 0, 1, 2)
    for name in "efg":
        store.schedule(job(name), once(name, at(102)))
    store.fire_due(node, look_ahead=5 * SECOND)
    assert admin(store.store).tallies(1).claimed == 2


def test_tallies_of_an_empty_store_are_zero(store: Harness) -> None:
    assert admin(store.store).tallies(10) == Tallies(0, {}, 0, 0, 0)


def _ended_after(store: Harness, seconds: list[float], outcome: Outcome = Outcome.SUCCEEDED) -> None:
    """Let an execution end for each value, whose trigger started that many seconds late."""
    node = store.node(f"node-{store.clock.now():%H%M%S}")
    for number, late in enumerate(seconds):
        now = store.clock.now()
        name = f"{now:%H%M%S}-{number}"
        store.schedule(job(name), once(name, now - timedelta(seconds=late)))
        store.complete(node, store.fire_one(node), outcome=outcome)


def test_minutes_have_outcomes_and_percentiles_of_lateness(store: Harness) -> None:
    _ended_after(store, [1, 2, 3, 4])
    store.clock.advance(90 * SECOND)
    _ended_after(store, [7], Outcome.FAILED)
    found = admin(store.store).minutes(START, most=100)
    assert found.complete_since == START
    assert [(one.at, dict(one.outcomes)) for one in found.minutes] == [
        (START, {Outcome.SUCCEEDED: 4}),
        (START + MINUTE, {Outcome.FAILED: 1}),
    ]
    assert [(one.lateness_p50, one.lateness_p99) for one in found.minutes] == [
        (2 * SECOND, 4 * SECOND),
        (7 * SECOND, 7 * SECOND),
    ]


def test_minutes_say_from_when_on_they_are_complete(store: Harness) -> None:
    for _ in range(3):
        _ended_after(store, [0])
        store.clock.advance(MINUTE)
    found = admin(store.store).minutes(START, most=2)
    assert [one.at for one in found.minutes] == [START + MINUTE, START + 2 * MINUTE]
    assert found.complete_since == START + MINUTE
    assert admin(store.store).minutes(store.clock.now(), most=2).minutes == []


def test_the_last_executions_of_triggers_are_the_latest_of_each(store: Harness) -> None:
    node = store.node()
    store.schedule(job("a"), every(10, "a", times=4))
    store.schedule(job("b"), once("b"))
    for _ in range(3):
        store.complete(node, *store.fire_due(node))
        store.clock.advance(10 * SECOND)
    found = admin(store.store).last_executions([key("a"), key("b"), key("none")], 2)
    assert {of.name: [one.scheduled_fire_time for one in records] for of, records in found.items()} == {
        "a": [at(20), at(10)],
        "b": [START],
    }
    assert admin(store.store).last_executions([], 2) == {}


def test_the_last_executions_of_a_job_include_those_by_other_triggers(store: Harness) -> None:
    node = store.node()
    store.schedule(job(durable=True), every(10, "often", times=3), once("gone", at(5)))
    for _ in range(3):
        store.complete(node, *store.fire_due(node))
        store.clock.advance(5 * SECOND)
    store.schedule(job("other"), once("other", store.clock.now()))
    store.complete(node, *store.fire_due(node))
    found = admin(store.store).last_executions_of_job(job_key(), 10, among=100)
    assert [one.trigger_key.name for one in found] == ["often", "gone", "often"]
    assert [one.ended_at for one in found] == [at(10), at(5), START]
    [last] = admin(store.store).last_executions_of_job(job_key(), 1, among=100)
    assert last.ended_at == at(10)


def test_executions_of_a_span_are_those_that_overlap_it(store: Harness) -> None:
    node = store.node()
    store.schedule(job("long"), once("long"))
    long = store.fire_one(node)
    store.clock.advance(HOUR)
    store.schedule(job("short"), once("short", store.clock.now()))
    store.complete(node, store.fire_one(node))
    store.clock.advance(MINUTE)
    store.complete(node, long)

    def names(since: float, until: float, margin: timedelta = HOUR, limit: int = 10) -> list[str]:
        found = in_cells(store, since, until, margin=margin, limit=limit)
        return sorted(one.alone.trigger_key.name for one in found.cells if one.alone is not None)

    assert names(3000, 3700) == ["long", "short"]
    assert names(3000, 3600) == ["long"]
    assert names(3601, 4000) == ["long"]
    assert names(100, 200) == ["long"]
    assert names(100, 200, 30 * MINUTE) == []
    assert names(3661, 4000) == []
    assert names(3000, 3700, limit=1) == ["long"]
    assert in_cells(store, 3000, 3700, limit=1).complete_since == at(3660)
    assert in_cells(store, 3000, 3700).complete_since == at(3000)


def in_cells(store: Harness, since: float, until: float, by: Lanes = Lanes.JOB, **options: Any) -> CountedExecutions:
    values = {"cells": 10, "lanes": 10, "bars": 10, "limit": 100, "margin": HOUR, "most_after": 100, **options}
    return admin(store.store).executions_in_cells(at(since), at(until), by=by, **values)


def test_executions_of_a_span_are_counted_by_lane_cell_and_outcome(store: Harness) -> None:
    node = store.node()
    store.schedule(job("often", durable=True), every(10, "often", times=9))
    store.schedule(job("rare", group="other"), once("rare", at(45)))
    for number in range(9):
        for fired in store.fire_due(node):
            failed = fired.trigger.key.name == "often" and number in (1, 7)
            store.complete(node, fired, outcome=Outcome.FAILED if failed else Outcome.SUCCEEDED)
        store.clock.advance(10 * SECOND)

    def counts(by: Lanes, **options: Any) -> list[tuple[str, str, str, int, int]]:
        found = in_cells(store, 0, 100, by, cells=5, **options)
        return sorted((c.lane_group, c.lane_name, str(c.outcome), c.cell, c.number) for c in found.cells)

    often = [
        ("DEFAULT", "often", "FAILED", 0, 1),
        ("DEFAULT", "often", "FAILED", 3, 1),
        ("DEFAULT", "often", "SUCCEEDED", 0, 1),
        ("DEFAULT", "often", "SUCCEEDED", 1, 2),
        ("DEFAULT", "often", "SUCCEEDED", 2, 2),
        ("DEFAULT", "often", "SUCCEEDED", 3, 1),
        ("DEFAULT", "often", "SUCCEEDED", 4, 1),
    ]
    assert counts(Lanes.JOB) == [*often, ("other", "rare", "SUCCEEDED", 2, 1)]
    assert counts(Lanes.JOB, lanes=1) == often, "the lane with the most executions"
    assert in_cells(store, 0, 100, lanes=1).lanes == 2
    assert counts(Lanes.JOB, group="other") == [("other", "rare", "SUCCEEDED", 2, 1)]
    assert counts(Lanes.GROUP)[-1] == ("other", "", "SUCCEEDED", 2, 1)
    [*_, (_, name, _, _, total)] = counts(Lanes.NODE, group="DEFAULT")
    assert (name, total) == ("a", 1)
    found = in_cells(store, 0, 100, cells=5, bars=2).cells
    assert [one.alone is not None for one in found].count(True) == 2, "of those that are alone, so many in full"
    assert sum(one.number for one in found) == 10


def test_slot_usage_has_the_executions_and_the_blocked_triggers_of_each_key(store: Harness) -> None:
    node = store.node()
    store.schedule(serial("one"), once("a"), once("b"), once("c"))
    store.schedule(job("free"), once("free"))
    store.schedule(job("keyed", concurrency_key="shop"), once("x", data={"shop": "x"}), once("y", data={"shop": "y"}))
    store.fire_due(node)
    assert admin(store.store).slot_usage(10) == [
        SlotUsage(job_key("keyed"), "x", 1, 1, 0),
        SlotUsage(job_key("keyed"), "y", 1, 1, 0),
        SlotUsage(job_key("one"), "", 1, 1, 2),
    ]
    assert len(admin(store.store).slot_usage(2)) == 2


def test_placements_are_those_of_the_stored_jobs(store: Harness) -> None:
    store.schedule(job("placed", executor="process", execution_group="reports", requires=["gpu"]), once("a", at(60)))
    store.schedule(job("anywhere"), once("b", at(60)))
    assert placements(store.store, [job_key("placed"), job_key("anywhere"), job_key("none")]) == {
        job_key("placed"): Placement("process", "reports", ("gpu",)),
        job_key("anywhere"): Placement(),
    }
    assert placements(store.store, []) == {}


def test_rate_usage_has_the_limits_that_are_in_use(store: Harness) -> None:
    node = store.node()
    store.schedule(job("limited", rate_limit="6/minute"), every(1))
    assert admin(store.store).rate_usage(10) == []
    store.fire_due(node)
    [used] = admin(store.store).rate_usage(10)
    assert (used.job_key, used.limit.limit, used.theoretical_arrival) == (job_key("limited"), 6, at(10))
    store.clock.advance(5 * SECOND)
    store.fire_due(node)
    [used] = admin(store.store).rate_usage(10)
    assert (used.theoretical_arrival, used.waiting) == (at(10), 1)
    store.clock.advance(5 * SECOND)
    store.fire_one(node)
    store.clock.advance(11 * SECOND)
    assert admin(store.store).rate_usage(10) == []


def test_group_tallies_are_pages_of_groups_with_bounded_counts(store: Harness) -> None:
    for group, names in {"a": "xy", "b": "z", "c": "w"}.items():
        for name in names:
            store.schedule(job(name, group), once(name, at(60), group=group))
    store.store.pause(TriggerGroups(GroupMatcher.equals("a")))
    store.set_state(key("z", "b"), TriggerState.ERROR)
    assert admin(store.store).trigger_group_tallies(2, None, most=10) == [
        GroupTally("a", 2, 2, 0),
        GroupTally("b", 1, 0, 1),
    ]
    assert admin(store.store).trigger_group_tallies(2, "b", most=10) == [GroupTally("c", 1, 0, 0)]
    assert admin(store.store).trigger_group_tallies(2, "c", most=10) == []
    assert admin(store.store).job_group_tallies(9, None, most=10) == [
        GroupTally("a", 2, 2, 0),
        GroupTally("b", 1, 0, 1),
        GroupTally("c", 1, 0, 0),
    ]
    assert admin(store.store).job_group_tallies(9, None, most=1) == [
        GroupTally("a", 2, 2, 0),
        GroupTally("b", 1, 0, 1),
        GroupTally("c", 1, 0, 0),
    ]


def test_keys_are_found_by_a_part_in_any_case(store: Harness) -> None:
    store.schedule(job("Nightly-report", "billing"), once("nightly", at(60), group="billing"))
    store.schedule(job("weekly", "REPORTS"), once("100%_sure", at(60)))
    found = _first_page(store, "report", 10)
    assert {str(one) for one in found.jobs} == {"REPORTS.weekly", "billing.Nightly-report"}
    assert found.triggers == []
    assert found.next is None
    assert [one.name for one in _first_page(store, "0%_S", 10).triggers] == ["100%_sure"]
    assert [one.name for one in _first_page(store, "BILL", 10).triggers] == ["nightly"]
    of_one = _first_page(store, "e", 1)
    assert len(of_one.jobs) == 1
    assert of_one.next is not None
    assert len(admin(store.store).find_keys(KeySearch("e", 1, 100), of_one.next).jobs) == 1


def test_a_search_examines_no_more_keys_than_it_is_told_and_goes_on_from_there(store: Harness) -> None:
    for number in range(9):
        name = f"some-{number}" if number in (1, 5, 8) else f"n{number}"
        store.schedule(job(name, f"g{number}"), once(name, at(60), group=f"g{number}"))
    for of in ("jobs", "triggers"):
        # "ome" begins no name, so that only the walk finds it.
        assert _found(store, KeySearch("ome", 9, 3), of) == [["g1.some-1"], ["g5.some-5"], ["g8.some-8"], []]
        assert _found(store, KeySearch("ome", 1, 100), of) == [["g1.some-1"], ["g5.some-5"], ["g8.some-8"]]
        assert _found(store, KeySearch("nowhere", 9, 4), of) == [[], [], []]
        assert _found(store, KeySearch("some", 9, 9), of)[0] == ["g1.some-1", "g5.some-5", "g8.some-8"]


def test_the_first_page_of_a_search_has_what_an_index_finds_wherever_it_is(store: Harness) -> None:
    for group, name in (("a", "x"), ("b", "name"), ("c", "named"), ("rename", "y"), ("z", "unnamed"), ("name", "d.e")):
        store.schedule(job(name, group), once(name, at(60), group=group))
    begin_with, of_groups = ["b.name", "c.named"], ["name.d.e", "rename.y"]
    for of in ("jobs", "triggers"):
        pages = _found(store, KeySearch("name", 9, 1), of)
        assert pages[0] == [*begin_with, *of_groups], "the walk has examined only the first key"
        assert {one for page in pages for one in page} == {*begin_with, *of_groups, "z.unnamed"}
        assert _found(store, KeySearch("c.named", 1, 1), of)[0] == ["c.named"], "the key itself comes first"
        assert _found(store, KeySearch("NAME", 1, 1), of)[0] == ["name.d.e"]
        seen = _found(store, KeySearch("name", 2, 2), of)
        assert seen[0] == begin_with, "there is no room for others"
        assert {one for page in seen for one in page} == {*begin_with, *of_groups, "z.unnamed"}, "none is lost"
        assert max(len(page) for page in seen) == 2


def _first_page(store: Harness, text: str, limit: int) -> FoundKeys:
    return admin(store.store).find_keys(KeySearch(text, limit, 100), None)


def _found(store: Harness, search: KeySearch, of: str) -> list[list[str]]:
    """Return the keys of jobs or of triggers on each page of a search."""
    pages: list[list[str]] = []
    after = None
    while after is not None or not pages:
        found = admin(store.store).find_keys(search, after)
        pages.append([str(key) for key in getattr(found, of)])
        after = found.next
    return pages


def _history(store: Harness, count: int) -> None:
    """Let executions end, one a minute, by the trigger "often"; each third fails."""
    node = store.node()
    store.schedule(job("often"), every(60, "often", times=count))
    for number in range(count):
        outcome = Outcome.FAILED if number % 3 == 0 else Outcome.SUCCEEDED
        store.complete(node, store.fire_one(node), outcome=outcome)
        store.clock.advance(MINUTE)


def test_a_query_among_some_executions_examines_no_others(store: Harness) -> None:
    _history(store, 7)
    failed = ExecutionQuery(states=frozenset({ExecutionState.FAILED}), among=3)
    found: list[float] = []
    after: Position | None = None
    pages = 0
    while True:
        page = store.store.find(failed, 10, after)
        found += [(one.scheduled_fire_time - START).total_seconds() for one in page]
        pages += 1
        after = admin(store.store).last_examined(failed, after)
        if after is None:
            break
        assert len(page) <= 2
    assert found == [360, 180, 0]
    assert pages == 3
    assert admin(store.store).last_examined(ExecutionQuery(), None) is None
    assert admin(store.store).last_examined(ExecutionQuery(among=8), None) is None


def test_the_executions_of_a_trigger_come_by_their_ends_page_by_page_however_long_they_took(store: Harness) -> None:
    node = store.node()
    store.schedule(job("often"), every(60, "often", times=5))
    first = store.fire_one(node)
    for _ in range(4):
        store.clock.advance(MINUTE)
        store.complete(node, store.fire_one(node))
    store.clock.advance(2 * HOUR)
    store.complete(node, first)
    query = ExecutionQuery(trigger_key=key("often"))
    found: list[int] = []
    after: Position | None = None
    while page := store.store.find(query, 2, after):
        found += [int((one.scheduled_fire_time - START).total_seconds()) for one in page]
        after = query.position(page[-1])
    assert found == [0, 240, 180, 120, 60]


def test_executions_are_found_by_their_scheduled_time_however_long_they_took(store: Harness) -> None:
    node = store.node()
    store.schedule(job("long"), once("long"))
    long = store.fire_one(node)
    for name in ("a", "b"):
        store.clock.advance(MINUTE)
        store.schedule(job(name), once(name, store.clock.now()))
        store.complete(node, store.fire_one(node))
    store.clock.advance(5 * HOUR)
    store.complete(node, long)

    def names(since: float | None, until: float | None, among: int | None = None) -> list[str]:
        query = ExecutionQuery(
            since=None if since is None else at(since), until=None if until is None else at(until), among=among
        )
        return [one.trigger_key.name for one in store.store.find(query, 10)]

    assert names(None, 90) == names(0, 90) == names(0, 90, 9) == ["long", "a"]
    assert names(30, None) == names(30, 3600) == ["b", "a"]
    assert names(None, 90, 1) == ["long"]
    assert names(0, 60) == ["long"]


def test_triggers_by_next_fire_time_are_read_page_by_page_in_all_states(store: Harness) -> None:
    node = store.node()
    store.schedule(serial("serial"), once("runs"), once("blocked", at(1)))
    store.fire_due(node)
    store.schedule(job("a"), once("soon", at(30)), once("first", at(30), priority=9), once("paused", at(20)))
    store.schedule(job("b", job_type="invoice"), once("other", at(25)), once("broken", at(40)))
    store.store.pause(NamedTriggers([key("paused")]))
    store.set_state(key("broken"), TriggerState.ERROR)
    query = TriggerQuery(order=TriggerOrder.NEXT_FIRE_TIME)
    found: list[str] = []
    after: Position | None = None
    while page := store.store.find(query, 2, after):
        found += [one.key.name for one in page]
        after = query.position(page[-1])
    ended = ["runs"] if stored_trigger(store.store, key("runs")) is not None else []
    assert found == ["blocked", "paused", "other", "first", "soon", "broken", *ended]
    states = frozenset({TriggerState.PAUSED, TriggerState.WAITING})
    some = store.store.find(TriggerQuery(order=TriggerOrder.NEXT_FIRE_TIME, states=states), 9)
    assert [one.key.name for one in some] == ["paused", "other", "first", "soon"]
