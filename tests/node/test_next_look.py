"""When a node looks next, as a pure function, by tables and for anything that it may know."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.node.next_look import (
    AT_ONCE,
    FIRST_RETRY,
    MAX_GRACE,
    MAX_RETRY,
    NEXT_GRACE,
    SHORTEST_GRACE,
    SHORTEST_RETRY,
    TURN,
    Knowledge,
    NextLook,
    Peers,
    after_look,
    next_look,
)
from quartzpy.node.outlook import Outlook
from quartzpy.placement import Capabilities
from quartzpy.states import NodeMode
from quartzpy.store.protocol import Acquisition, CheckIn
from quartzpy.store.records import NodeRecord

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
COMMON = Capabilities(frozenset({"report"}), frozenset({"default"}), workers={"default": 10})
ALONE = Peers()
LEAD = 0.004


def cluster(nodes: int) -> list[Peers]:
    """What each node of a cluster thinks who its peers are."""
    return [Peers(tuple(range(nodes)), own) for own in range(nodes)]


def one_in_place(place: int, at: datetime, nodes: int = 3) -> Peers:
    return next(peers for peers in cluster(nodes) if peers.place(at) == place)


def known(**values: Any) -> Knowledge:
    return Knowledge(**{"looked_at": 0.0, "rests": 12.0, "looks_at_once": False, **values})


def look(
    known: Knowledge, peers: Peers = ALONE, *, lead: float = LEAD, now: datetime = NOW, monotonic: float = 0.0
) -> NextLook:
    return next_look(known, peers, lead, now, monotonic)


def of(seconds: float, *, is_on_time: bool) -> Any:
    return SimpleNamespace(seconds=pytest.approx(seconds, abs=1e-5), is_on_time=is_on_time)


def same(one: NextLook, other: Any) -> bool:
    return bool(one.seconds == other.seconds and one.is_on_time == other.is_on_time)


# --- a node that is alone


@pytest.mark.parametrize(
    ("knows", "expected"),
    [
        (Knowledge(), of(0, is_on_time=True)),
        (known(), of(12, is_on_time=True)),
        (known(more_is_due=True), of(0, is_on_time=True)),
        (known(looks_at_once=True), of(0, is_on_time=True)),
        (known(next_due=NOW + SECOND), of(1 - LEAD, is_on_time=True)),
        (known(next_due=NOW + 60 * SECOND), of(12, is_on_time=True)),
        (known(told_at=NOW), of(-LEAD, is_on_time=True)),
        (known(told_at=NOW, next_due=NOW + SECOND), of(-LEAD, is_on_time=True)),
        (known(next_due=NOW + timedelta(milliseconds=2)), of(FIRST_RETRY, is_on_time=True)),
        (known(next_due=NOW, is_due=True), of(FIRST_RETRY, is_on_time=True)),
        (known(next_due=NOW, is_due=True, retry=SHORTEST_RETRY), of(SHORTEST_RETRY, is_on_time=True)),
    ],
)
def test_a_node_that_is_alone_is_on_time(knows: Knowledge, expected: Any) -> None:
    assert same(look(knows), expected)


def test_the_time_since_the_last_look_counts() -> None:
    assert same(look(known(), monotonic=5.0), of(7, is_on_time=True))
    assert same(
        look(known(next_due=NOW, is_due=True, retry=SHORTEST_RETRY), monotonic=0.015), of(0.005, is_on_time=True)
    )
    assert same(look(known(next_due=NOW + SECOND), now=NOW + 0.9 * SECOND), of(0.1 - LEAD, is_on_time=True))


# --- one of several


@pytest.mark.parametrize("nodes", [2, 3, 10, 41])
def test_each_turn_belongs_to_one_node_and_each_node_has_one_in_each_round(nodes: int) -> None:
    peers = cluster(nodes)
    first = datetime.fromtimestamp(nodes * TURN.total_seconds() * 7_000_000, UTC)
    for number in range(20):
        turns = [first + (nodes * number + turn) * TURN for turn in range(nodes)]
        places = [[one.place(at) for one in peers] for at in turns]
        assert all(sorted(of_turn) == list(range(nodes)) for of_turn in places)
        assert sorted(of_turn.index(0) for of_turn in places) == list(range(nodes))


@pytest.mark.parametrize("step", [SECOND, 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND])
def test_what_is_due_at_full_seconds_minutes_and_hours_does_not_all_fall_to_one_node(step: timedelta) -> None:
    [peers, *_] = cluster(3)
    assert 20 < sum(peers.place(NOW + step * number) == 0 for number in range(100)) < 50


def test_the_node_whose_turn_it_is_is_on_time_and_the_others_come_one_after_another() -> None:
    at = NOW + SECOND
    looks = sorted((look(known(next_due=at), peers) for peers in cluster(10)), key=lambda one: one.seconds)
    assert same(looks[0], of(1 - LEAD, is_on_time=True))
    assert all(MAX_GRACE >= one.seconds - 1 >= 0 for one in looks[1:])
    graced = [one.seconds - 1 for one in looks[1:] if not one.is_on_time]
    assert graced[0] >= SHORTEST_GRACE
    assert all(later - one > 0.005 for one, later in pairwise(graced))


def test_a_node_looks_when_its_own_turn_begins_if_something_was_due_before() -> None:
    at = NOW + SECOND
    before = at + TURN - timedelta(milliseconds=10)
    peers = one_in_place(0, at + TURN)
    assert peers.place(before) != 0
    assert same(look(known(next_due=before), peers), of(1 + TURN.total_seconds() - LEAD, is_on_time=True))


def test_the_node_that_took_something_last_comes_just_after_the_one_whose_turn_it_is() -> None:
    at = NOW + SECOND
    peers = one_in_place(1, at)
    assert same(look(known(next_due=at, took_last=True), peers), of(1 + NEXT_GRACE, is_on_time=False))
    assert same(look(known(next_due=at, took_last=False), peers), of(1 + peers.grace(at), is_on_time=False))


def test_what_a_node_is_told_it_looks_for_as_if_it_were_due_when_it_was_asked() -> None:
    assert same(look(known(told_at=NOW), one_in_place(0, NOW)), of(-LEAD, is_on_time=True))
    peers = one_in_place(1, NOW)
    assert same(look(known(told_at=NOW, took_last=True), peers), of(peers.grace(NOW), is_on_time=False))


def test_a_due_trigger_that_is_locked_is_tried_by_each_node() -> None:
    for peers in cluster(3):
        assert same(
            look(known(next_due=NOW, is_due=True, retry=SHORTEST_RETRY), peers), of(SHORTEST_RETRY, is_on_time=True)
        )


# --- anything that a node may know

instants = st.integers(-2_000_000, 30_000_000).map(lambda number: NOW + timedelta(microseconds=number))
anything = st.builds(
    Knowledge,
    looked_at=st.floats(-20, 0),
    rests=st.floats(0, 15),
    next_due=st.none() | instants,
    is_due=st.booleans(),
    retry=st.floats(FIRST_RETRY, MAX_RETRY),
    took_last=st.booleans(),
    more_is_due=st.booleans(),
    looks_at_once=st.booleans(),
    told_at=st.none() | instants,
).map(lambda one: one if one.is_due and one.next_due is not None else replace(one, is_due=False, retry=FIRST_RETRY))
peers_of_anyone = st.integers(1, 50).flatmap(
    lambda nodes: st.builds(Peers, st.just(tuple(range(nodes))), st.integers(0, nodes - 1))
)


@given(anything, peers_of_anyone, st.floats(0, 0.0125))
def test_no_node_is_later_than_the_grace(knows: Knowledge, peers: Peers, lead: float) -> None:
    seconds = look(knows, peers, lead=lead).seconds
    assert seconds <= max(0.0, knows.rests + knows.looked_at)
    for at in (knows.next_due, knows.told_at):
        if at is not None:
            assert seconds <= max((at - NOW).total_seconds() + MAX_GRACE, MAX_RETRY)


@given(anything, peers_of_anyone, st.floats(0, 0.0125))
def test_a_node_is_on_time_in_its_turn_and_early_in_none(knows: Knowledge, peers: Peers, lead: float) -> None:
    one = look(knows, peers, lead=lead)
    told = knows.told_at
    for at in (knows.next_due if not knows.is_due else None, told):
        if at is not None and peers.place(at) == 0:
            assert one.seconds <= max((at - NOW).total_seconds() - lead, FIRST_RETRY)
    soonest = min((at for at in (knows.next_due, told) if at is not None), default=None)
    if one != AT_ONCE and soonest is not None and not knows.is_due:
        rest = knows.rests + knows.looked_at
        assert one.seconds >= min(rest, (soonest - NOW).total_seconds() - lead) - 1e-6


@given(
    st.lists(st.integers(10_000, 3_000_000), min_size=1, max_size=30),
    st.integers(0, 2_000_000),
    st.integers(1, 300),
    st.integers(2, 10),
)
def test_the_node_whose_turn_it_is_knows_what_is_due_in_it(
    periods: list[int], first: int, apart: int, nodes: int
) -> None:
    """Other nodes take triggers and move them on; a node that has read before looks again in time for its turn."""
    peers = cluster(nodes)[0]
    begin = NOW + SECOND + timedelta(microseconds=first)
    waiting = [(begin + timedelta(milliseconds=apart * number), period) for number, period in enumerate(periods)]
    read, _ = waiting[0]
    for _ in range(50):
        at, period = waiting.pop(0)
        waiting = sorted([*waiting, (at + timedelta(microseconds=period), period)])
        soonest, _ = waiting[0]
        if peers.place(soonest) == 0:
            one = look(known(next_due=read), peers)
            assert one.seconds <= (soonest - NOW).total_seconds() - LEAD + 1e-6
            read = soonest


# --- what a look teaches


def learned(before: Knowledge, *, taken: int = 0, limit: int = 10, **values: Any) -> Knowledge:
    next_due = values.pop("next_due", None)
    acquired = Acquisition(NOW, [anything_fired()] * taken, next_due)
    how = {"was_asked": False, "looks_at_once": False, "slot_pools": frozenset({""}), "looked_at": 5.0, "rests": 12.0}
    more = {"look_ahead": timedelta(), "outlook": Outlook(), **how, **values}
    return after_look(before, acquired, limit=limit, **more)


def anything_fired() -> Any:
    return object()


def test_a_look_that_takes_all_that_it_may_is_followed_by_another_one() -> None:
    assert learned(known(), taken=10).more_is_due
    assert not learned(known(), taken=9).more_is_due


def test_a_look_that_opened_something_is_followed_by_another_one() -> None:
    assert learned(known(), looks_at_once=True).looks_at_once
    assert not learned(known()).looks_at_once


def test_a_look_that_has_set_some_of_what_is_due_aside_is_followed_by_another_one() -> None:
    before = known(next_due=NOW - 2 * SECOND, is_due=True)
    assert learned(before, next_due=NOW - SECOND).looks_at_once
    assert not learned(before, next_due=NOW - 2 * SECOND).looks_at_once
    assert not learned(before, next_due=NOW + SECOND).looks_at_once
    assert not learned(known(next_due=NOW - 2 * SECOND), next_due=NOW - SECOND).looks_at_once


def test_what_is_due_and_locked_is_tried_less_and_less_often() -> None:
    one = learned(known(), next_due=NOW)
    assert (one.is_due, one.retry) == (True, SHORTEST_RETRY)
    assert learned(one, next_due=NOW).retry == 2 * SHORTEST_RETRY
    assert learned(one, next_due=NOW, taken=1).retry == FIRST_RETRY
    assert learned(one, next_due=NOW + SECOND).retry == FIRST_RETRY
    for _ in range(2_000):
        one = learned(one, next_due=NOW)
    assert one.retry == MAX_RETRY


@pytest.mark.parametrize(
    ("before", "values", "expected"),
    [
        (known(), {"taken": 1}, True),
        (known(), {"was_asked": True}, True),
        (known(), {}, False),
        (known(took_last=True, next_due=NOW + SECOND), {}, True),
        (known(took_last=True, next_due=NOW), {"next_due": NOW + SECOND}, False),
        (known(took_last=True, next_due=NOW + 0.01 * SECOND), {"look_ahead": 0.02 * SECOND}, False),
        (known(took_last=True, next_due=NOW), {"next_due": NOW}, True),
    ],
    ids=["took", "was asked", "neither", "too early", "lost", "lost ahead", "locked"],
)
def test_which_node_took_something_last(before: Knowledge, values: dict[str, Any], expected: bool) -> None:
    look_ahead = values.pop("look_ahead", timedelta())
    taken = values.pop("taken", 0)
    acquired = Acquisition(NOW, [anything_fired()] * taken, values.pop("next_due", None))
    how: dict[str, Any] = {"looks_at_once": False, "slot_pools": frozenset(), "looked_at": 5.0, "rests": 12.0}
    more = {"outlook": Outlook(), "was_asked": False, **how, **values}
    after = after_look(before, acquired, limit=10, look_ahead=look_ahead, **more)
    assert after.took_last == expected


def test_a_look_answers_what_was_asked_before() -> None:
    assert learned(known(told_at=NOW)).told_at is None


# --- the peers


def node(epoch: int, **values: Any) -> NodeRecord:
    fields: dict[str, Any] = {
        "instance_id": f"node-{epoch}",
        "epoch": epoch,
        "host": "host",
        "pid": epoch,
        "started_at": NOW,
        "last_checkin": NOW,
        "checkin_count": 1,
        "checkin_interval": timedelta(seconds=5),
        "failure_window": timedelta(seconds=20),
        "capabilities": COMMON,
    }
    return NodeRecord(**{**fields, **values})


@pytest.mark.parametrize(
    "other",
    [
        node(8, last_checkin=NOW - timedelta(seconds=21)),
        node(8, mode=NodeMode.STANDBY),
        node(8, mode=NodeMode.DRAINING),
        node(8, capabilities=Capabilities(frozenset({"another"}), COMMON.executors)),
        node(8, capabilities=Capabilities(COMMON.job_types, COMMON.executors, frozenset({"gpu"}))),
        node(8, capabilities=Capabilities(COMMON.job_types, COMMON.executors, groups={"heavy": 0})),
    ],
    ids=["dead", "in standby", "draining", "of other types", "with other labels", "with other groups"],
)
def test_a_node_that_is_alone_in_what_it_takes_has_each_turn(other: NodeRecord) -> None:
    peers = Peers.of(CheckIn(NOW, (node(7), other)), 7)
    assert peers.epochs == (7,)
    assert all(peers.place(NOW + SECOND * number) == 0 for number in range(50))


def test_nodes_with_other_numbers_of_workers_are_peers() -> None:
    other = node(8, capabilities=Capabilities(COMMON.job_types, COMMON.executors, workers={}))
    assert Peers.of(CheckIn(NOW, (other, node(7))), 8) == Peers((7, 8), 1)


def test_a_node_that_its_answer_does_not_name_is_alone() -> None:
    assert Peers.of(CheckIn(NOW, (node(7), node(8))), 9) == ALONE
