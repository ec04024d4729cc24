"""Tests of pages that examine a limited number of records, so that they answer at once even if few of many match."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from quartzpy.calendars.days import WeeklyCalendar
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.matchers import GroupMatcher
from quartzpy.states import TriggerState
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.postgresql.admin.records import ActionEntry
from quartzpy.store.protocol import NamedTriggers
from quartzpy.store.queries import ActionQuery, JobQuery, MisfireQuery, Position, TriggerOrder, TriggerQuery
from tests.contract.harness import HOUR, SECOND, START, Harness, at, every, job, once


def test_pages_of_triggers_jobs_and_actions_examine_no_more_than_they_are_told(store: Harness) -> None:
    for number in range(7):
        name = f"n{number}" + ("-rare" if number in (1, 6) else "")
        store.schedule(job(name), once(name, at(60 + 10 * (7 - number))))
        admin(store.store).record_action(
            ActionEntry("ann", "admin", "pause" if number in (0, 4) else "resume", "everything")
        )
    by_time = TriggerOrder.NEXT_FIRE_TIME
    assert _pages(store, store.store.find, TriggerQuery(contains="rare", among=3)) == [
        ["n1-rare"],
        [],
        ["n6-rare"],
    ]
    assert _pages(store, store.store.find, TriggerQuery(contains="rare", job_type="x", among=3)) == [
        [],
        [],
        [],
    ]
    assert _pages(store, store.store.find, TriggerQuery(contains="rare", order=by_time, among=3)) == [
        ["n6-rare"],
        ["n1-rare"],
        [],
    ]
    assert _pages(store, store.store.find, JobQuery(contains="rare", among=3)) == [["n1-rare"], [], ["n6-rare"]]
    paused = [len(page) for page in _pages(store, admin(store.store).find, ActionQuery(action="pause", among=3))]
    assert paused == [1, 0, 1]


def test_a_bounded_page_examines_only_what_an_index_leaves(store: Harness) -> None:
    for number in range(6):
        store.schedule(job(f"n{number}"), once(f"n{number}", at(60), group="a" if number < 5 else "b"))
    store.store.pause(NamedTriggers([TriggerKey("n3", "a")]))
    find = store.store.find
    paused = frozenset({TriggerState.PAUSED})
    assert _pages(store, find, TriggerQuery(states=paused, contains="n", among=2)) == [["n3"]]
    assert _pages(store, find, TriggerQuery(group=GroupMatcher.equals("b"), contains="n", among=2)) == [["n5"]]
    assert _pages(store, find, TriggerQuery(group=GroupMatcher.ends_with("b"), among=4)) == [[], ["n5"]]
    assert _pages(store, find, TriggerQuery(job_key=JobKey("n5"), contains="n", among=1)) == [["n5"]]
    assert _pages(store, store.store.find, JobQuery(job_key=JobKey("n5"), among=1)) == [["n5"]]


def test_few_triggers_of_a_job_or_calendar_are_found_without_others_and_many_among_others(store: Harness) -> None:
    store.put_calendar("c", WeeklyCalendar())
    names = [f"n{number}" for number in range(8)]
    store.schedule(job("even"), *(once(name, at(10), calendar="c") for name in names[::2]))
    store.schedule(job("odd"), *(once(name, at(20)) for name in names[1::2]))
    find = store.store.find
    for order in TriggerOrder:
        for query in (TriggerQuery(job_key=JobKey("even"), order=order), TriggerQuery(calendar="c", order=order)):
            assert _pages(store, find, replace(query, among=4)) == [names[::2]], "they are few"
            assert [one.key.name for one in find(query, 10, None)] == names[::2]
            walked = _pages(store, find, replace(query, among=3))
            assert [name for page in walked for name in page] == names[::2], "they are many"
            assert len(walked) == 3
    of_odd = TriggerQuery(job_key=JobKey("odd"), contains="n7")
    assert _pages(store, find, replace(of_odd, among=4)) == [["n7"]]
    assert _pages(store, find, replace(of_odd, among=3)) == [[], [], ["n7"]]


def test_the_triggers_of_a_job_are_counted_up_to_a_number(store: Harness) -> None:
    store.schedule(job("many"), *(once(f"n{number}", at(10)) for number in range(3)))
    store.schedule(job("one"), once("one", at(20)))
    many, one = store.store.find(JobQuery(most_triggers=2), None, None)
    assert (many.trigger_count, many.has_more_triggers, many.next_fire_time) == (2, True, None)
    assert (one.trigger_count, one.has_more_triggers, one.next_fire_time) == (1, False, at(20))
    [all_of_many] = store.store.find(JobQuery(job_key=JobKey("many"), most_triggers=3), None, None)
    assert (all_of_many.trigger_count, all_of_many.has_more_triggers, all_of_many.next_fire_time) == (3, False, at(10))


def test_pages_of_misfires_examine_no_more_than_they_are_told(store: Harness) -> None:
    node, skip = store.node(), "reschedule_next_with_existing_count"
    for number in range(7):
        store.schedule(job(f"n{number}"), every(1_000_000, f"n{number}", start=store.clock.now(), misfire=skip))
        store.clock.advance(2 * HOUR)
        store.misfire(node)
    find = store.store.find
    latest = find(MisfireQuery(), 1)[0]
    assert [record.trigger_key.name for record in find(MisfireQuery(), 10)] == [f"n{6 - number}" for number in range(7)]
    for name, sizes in (("n6", [1, 0, 0]), ("n1", [0, 1, 0]), ("none", [0, 0, 0])):
        pages = _pages(store, find, MisfireQuery(job_key=JobKey(name), among=3))
        assert [len(page) for page in pages] == sizes
    of_none = MisfireQuery(instance_id="nobody", among=1)
    assert len(_pages(store, find, of_none)) == 8
    assert len(_pages(store, find, replace(of_none, since=latest.handled_at))) == 2, "the others were handled before"
    assert len(_pages(store, find, replace(of_none, trigger_key=latest.trigger_key, among=2))) == 1


def test_actions_of_a_span_of_time_are_found_without_the_later_ones(store: Harness) -> None:
    for number in range(6):
        admin(store.store).record_action(ActionEntry("ann", "admin", f"n{number}", "everything"))
        store.clock.advance(3 * HOUR)
    find, instants = admin(store.store).find, [START + 3 * number * HOUR for number in range(6)]

    def names(query: ActionQuery) -> list[str]:
        assert admin(store.store).last_examined(replace(query, among=3), None) is None
        return [one.action for one in find(query, None, None)]

    assert names(ActionQuery(since=instants[1], until=instants[3])) == ["n2", "n1"]
    assert names(ActionQuery(until=instants[1])) == ["n0"]
    assert names(ActionQuery(since=instants[5])) == ["n5"]
    assert names(ActionQuery(since=instants[5] + SECOND)) == []
    assert names(ActionQuery(until=START)) == []


def _pages(store: Harness, find: Callable[..., list[Any]], query: Any) -> list[list[str]]:
    """Return the names on each page of a query, the next one beginning after the last record that was examined."""
    pages: list[list[str]] = []
    after: Position | None = None
    while True:
        found = find(query, 10, after)
        pages.append([str(getattr(getattr(one, "key", None), "name", one)) for one in found])
        after = admin(store.store).last_examined(query, after)
        if after is None:
            return pages


def test_few_keys_are_read_to_find_the_one_that_a_user_meant(store: Harness) -> None:
    for group in ("a", "b", "c"):
        names = [f"{group}{number:02}" for number in range(20)]
        store.schedule(job(group, group), *(once(name, at(60), group=group) for name in names))
    store.schedule(job("x", "x"), once("b", at(60), group="swapped"))

    def near(name: str, group: str) -> set[str]:
        found = store.store.near_keys(TriggerKey(name, group), 2)
        assert len(found) <= 4 * 2 + 1 + 2 * 3
        return {f"{one.group}.{one.name}" for one in found}

    assert {"b.b10", "b.b11", "b.b12", "b.b13"} <= near("b11x", "b"), "the neighbours in the group"
    assert {"b.b00", "b.b01"} <= near("xb11", "b"), "the first of the group"
    assert {"b.b10", "b.b11"} <= near("b11", "a"), "the neighbours in other groups"
    assert {"a.a00", "a.a01"} <= near("b11", "nowhere"), "the first of all"
    assert "swapped.b" in near("swapped", "b")
    assert store.store.near_keys(JobKey("aa", "a"), 2) >= {JobKey("a", "a")}
