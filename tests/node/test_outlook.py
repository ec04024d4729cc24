"""What a node expects of its next step, and where that begins: by tables, and for any course of events."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quartzpy.instants import EARLIEST
from quartzpy.node.outlook import (
    BACKLOG_FLOOR,
    DEAR_READ,
    MARGIN,
    MAX_FLOOR,
    SHORTEST_FLOOR,
    Changed,
    Changes,
    Outlook,
)
from quartzpy.store.protocol import Acquisition, Expectation, Front

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DEAR = 2 * DEAR_READ
PLAIN = ("",)


def expects(outlook: Outlook, *pools: str, at: float = 0.0, **values: Any) -> Expectation:
    """Return what a step expects at this monotonic time that takes what is due now."""
    usual: dict[str, Any] = {"met_pools": PLAIN, "passed_over": (), "is_on_time": True, "until": NOW, "monotonic": at}
    return outlook.expectation(pools or PLAIN, **{**usual, "asks": False, "is_backlog": False, **values})


def read(
    outlook: Outlook = Outlook(),  # noqa: B008
    *pools: str,
    seconds: float = 0.0,
    at: float = 0.0,
    now: datetime = NOW,
    next_due: datetime | None = None,
    passed_over: tuple[int, ...] = (),
    is_backlog: bool = False,
    **front: Any,
) -> Outlook:
    """Return the outlook after a step at this monotonic time, which has read that nothing waited before `now`."""
    pools = pools or PLAIN
    expected = expects(outlook, *pools, at=at, passed_over=passed_over, is_backlog=is_backlog)
    acquired = Acquisition(now, next_due=next_due, front=Front(dict.fromkeys(pools, now), seconds=seconds, **front))
    return outlook.after_step(acquired, expected, passed_over, at)


# --- whether to read first


@pytest.mark.parametrize(
    ("outlook", "how", "reads_first"),
    [
        (Outlook(), {}, True),
        (Outlook(), {"asks": True}, True),
        (read(), {}, True),
        (read(next_due=NOW), {}, False),
        (read(next_due=NOW), {"is_on_time": False}, True),
        (read(next_due=NOW + MARGIN), {}, False),
        (read(next_due=NOW + SECOND), {}, True),
        (read(next_due=NOW + SECOND), {"until": NOW + SECOND}, False),
        (read(has_new=True), {}, False),
        (read(), {"asks": True}, False),
        (read().after(Changed(own=NOW - SECOND)), {}, False),
        (read().after(Changed(own=NOW + SECOND)), {}, True),
        (read().after(Changed(of_others=NOW - SECOND)), {}, True),
        (read(next_due=NOW).after(Changed(of_others=NOW - SECOND)), {}, False),
        (read(next_due=NOW).after(Changed(of_others=EARLIEST)), {}, True),
        (read(next_due=NOW).after(Changed(own=EARLIEST)), {}, True),
        (read(next_due=NOW, seconds=DEAR), {}, False),
        (read(next_due=NOW, seconds=DEAR), {"at": SHORTEST_FLOOR}, True),
        (read(next_due=NOW, seconds=DEAR), {"pools": ("", "another")}, False),
    ],
)
def test_a_step_reads_first_unless_something_is_due_and_it_walks_over_nothing(
    outlook: Outlook, how: dict[str, Any], reads_first: bool
) -> None:
    how = dict(how)
    assert expects(outlook, *how.pop("pools", PLAIN), **how).reads_first is reads_first


@pytest.mark.parametrize(
    ("outlook", "how", "has_limited"),
    [
        (read(), {}, False),
        (read(), {"asks": True}, True),
        (read(limited=NOW), {}, True),
        (read(limited=NOW + SECOND), {}, False),
        (read().after(Changed(own=NOW - SECOND)), {}, True),
        (read(limited=NOW + SECOND).after(Changed(of_others=NOW - SECOND)), {}, False),
    ],
)
def test_jobs_with_a_limit_are_expected_if_one_is_due_or_may_be(
    outlook: Outlook, how: dict[str, Any], has_limited: bool
) -> None:
    assert expects(outlook, **how).has_limited is has_limited


# --- where a step begins


def begins(outlook: Outlook, *pools: str, at: float = 0.0, **values: Any) -> dict[str, datetime]:
    expected = expects(outlook, *pools, at=at, **values)
    return {pool: expected.fronts[pool] for pool in expected.begins}


def test_a_quick_read_sets_a_floor_only_for_the_batches_of_a_backlog() -> None:
    outlook = read()
    assert begins(outlook) == {}
    assert expects(outlook).fronts == {"": NOW}, "but says which slot pools have the soonest triggers"
    assert begins(outlook, is_backlog=True) == {"": NOW}
    outlook = read(outlook, at=0.9 * BACKLOG_FLOOR, now=NOW + SECOND, is_backlog=True)
    assert begins(outlook, at=0.9 * BACKLOG_FLOOR, is_backlog=True) == {"": NOW + SECOND}
    assert begins(outlook, at=BACKLOG_FLOOR, is_backlog=True) == {}, "a full read follows"


def test_a_full_read_follows_at_once_after_the_last_batch_of_a_backlog() -> None:
    outlook = read()
    assert outlook.next_full_read(expects(outlook)) == math.inf
    expected = expects(outlook, at=0.01, is_backlog=True)
    assert outlook.next_full_read(expected) < 0.01
    assert Outlook().next_full_read(expected) == math.inf, "the next one is a full one in any case"


@pytest.mark.parametrize(
    ("seconds", "valid_for"),
    [(DEAR, SHORTEST_FLOOR), (0.1, 2.0), (3.0, MAX_FLOOR)],
)
def test_after_a_dear_read_the_next_ones_begin_there_until_it_is_time_for_another(
    seconds: float, valid_for: float
) -> None:
    outlook = read(seconds=seconds)
    assert begins(outlook, at=valid_for - 0.01) == {"": NOW}
    assert outlook.next_full_read(expects(outlook)) == valid_for
    assert begins(outlook, at=valid_for) == {}


def test_a_read_that_began_at_the_floor_raises_it_and_makes_it_last_no_longer() -> None:
    outlook = read(read(seconds=DEAR), at=0.9, seconds=DEAR, now=NOW + SECOND)
    assert begins(outlook, at=0.95) == {"": NOW + SECOND}
    assert begins(outlook, at=SHORTEST_FLOOR) == {}


def test_the_floor_is_that_of_a_slot_pool() -> None:
    outlook = read(Outlook(), "", "a", seconds=DEAR)
    assert begins(outlook, "a", "b") == {"a": NOW}, "the slots of another pool have become free"
    outlook = read(outlook, "a", now=NOW + SECOND)
    assert begins(outlook, "", "a") == {"": NOW, "a": NOW + SECOND}


def test_what_begins_to_wait_lowers_the_floors_above_it() -> None:
    outlook = read(read(Outlook(), "", "a", seconds=DEAR), "a", now=NOW + 2 * SECOND)
    for changed in (Changed(own=NOW + SECOND), Changed(of_others=NOW + SECOND)):
        assert begins(outlook.after(changed), "", "a") == {"": NOW, "a": NOW + SECOND}
    assert outlook.after(Changed()) == outlook, "none began to wait"
    for changed in (Changed(own=EARLIEST), Changed(of_others=EARLIEST)):
        assert begins(outlook.after(changed), "", "a") == {}, "it was not told which"


def test_what_a_step_lets_wait_lowers_the_floors_of_all_slot_pools() -> None:
    """What was parked may be of a pool that has no free slots, and fires again at a time that has passed."""
    outlook = read(read(Outlook(), "", "a", seconds=DEAR), "a", waits_from=NOW - SECOND)
    assert begins(outlook, "", "a") == {"": NOW - SECOND, "a": NOW - SECOND}
    assert begins(read(outlook, "a", waits_from=NOW + SECOND), "a") == {"a": NOW}


def test_a_floor_leaves_out_no_more_than_what_is_passed_over() -> None:
    outlook = read(seconds=DEAR, passed_over=(1,))
    assert begins(outlook, passed_over=(1, 2)) == {"": NOW}
    assert begins(outlook) == {}, "a trigger that was passed over is due below it"
    assert begins(read(outlook, passed_over=()), passed_over=()) == {}


def test_changes_are_collected_until_they_are_taken() -> None:
    changes = Changes()
    changes.add(own=NOW)
    changes.add(own=NOW - SECOND)
    changes.add(of_others=NOW + SECOND)
    assert changes.take() == Changed(NOW - SECOND, NOW + SECOND)
    assert changes.take() == Changed()


# --- any course of events

POOLS = ("", "a")
seconds_of = st.sampled_from([0.0, DEAR, 0.2])
events = st.lists(
    st.one_of(
        st.tuples(st.just("own"), st.integers(-20, 20), st.sampled_from(POOLS)),
        st.tuples(st.just("other"), st.integers(-20, 20), st.sampled_from(POOLS)),
        st.tuples(st.just("other untold"), st.integers(-20, 20), st.sampled_from(POOLS)),
        st.tuples(st.sampled_from(["step", "batch"]), seconds_of, st.sampled_from([POOLS, ("",), ("a",)])),
        st.tuples(st.just("time"), st.floats(0.1, 3.0), st.none()),
    ),
    max_size=30,
)


@given(events)
def test_nothing_waits_below_a_floor_but_what_nobody_told_of_and_that_not_for_long(course: list[Any]) -> None:
    outlook, monotonic = Outlook(), 0.0
    waiting: list[tuple[datetime, str, float | None]] = []
    """What waits, its slot pool, and since when if nobody told of it."""
    for kind, value, where in course:
        now = NOW + timedelta(seconds=monotonic)
        if kind == "time":
            monotonic += value
        elif kind in ("step", "batch"):
            expected = expects(outlook, *where, at=monotonic, is_backlog=kind == "batch")
            start = {pool: expected.fronts[pool] if pool in expected.begins else EARLIEST for pool in where}
            met = [one for one in waiting if one[1] in where and one[0] >= start[one[1]]]
            missed = [one for one in waiting if one[1] in where and one not in met]
            assert all(since is not None and monotonic - since <= MAX_FLOOR for _, _, since in missed)
            fronts = {pool: min([now, *(at for at, of, _ in met if of == pool)]) for pool in where}
            acquired = Acquisition(now, front=Front(fronts, seconds=value))
            outlook = outlook.after_step(acquired, expected, (), monotonic)
            waiting = [(at, of, None) if (at, of, since) in met else (at, of, since) for at, of, since in waiting]
        else:
            at = now + timedelta(seconds=value)
            waiting.append((at, where, monotonic if kind == "other untold" else None))
            if kind != "other untold":
                outlook = outlook.after(Changed(own=at) if kind == "own" else Changed(of_others=at))


@given(events)
def test_full_dear_reads_take_a_small_share_of_the_time(course: list[Any]) -> None:
    outlook, monotonic = Outlook(), 0.0
    last = None
    for kind, value, _ in course:
        if kind == "time":
            monotonic += value
        elif kind in ("step", "batch"):
            expected = expects(outlook, *POOLS, at=monotonic, is_backlog=kind == "batch")
            if not expected.begins:
                assert last is None or monotonic - last >= SHORTEST_FLOOR
                last = monotonic
            acquired = Acquisition(NOW, front=Front(dict.fromkeys(POOLS, NOW), seconds=DEAR))
            outlook = outlook.after_step(acquired, expected, (), monotonic)
        elif kind != "other untold":
            outlook = outlook.after(Changed(own=NOW + timedelta(seconds=value)))
