"""Tests of the decision about triggers at gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quartzpy.jobs.rate_limit import RateLimit
from quartzpy.states import OverlapPolicy
from quartzpy.store.gates import NO_LIMIT, Candidate, Decision, Free, decide, opens_at

FIRE, REFILL, PARK, REPLACE, UNPARK = Decision.FIRE, Decision.REFILL, Decision.PARK, Decision.REPLACE, Decision.UNPARK
PARK_AT_SET, SKIP, LEAVE = Decision.PARK_AT_SET, Decision.SKIP, Decision.LEAVE
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Room:
    """The room of a node for so many triggers."""

    def __init__(self, number: int) -> None:
        self.number = number

    def takes(self, _: int) -> bool:
        self.number -= 1
        return self.number >= 0


def decided(
    met: Sequence[Candidate], free: Mapping[str, int | Free], room: int = 9, occupied: Collection[str] = ()
) -> list[Decision]:
    """Decide for a node with this room; a number is one of free slots."""
    limits = {name: one if isinstance(one, Free) else Free(one) for name, one in free.items()}
    return decide(met, limits, occupied, Room(room).takes)


def at(order: int, gate: str | None = "a", *shares: str, slots: int = 2, **values: Any) -> Candidate:
    return Candidate((order,), gate, slots, shares, **values)


def rated(fires: int, slots: float = NO_LIMIT.slots) -> Free:
    return Free(slots, fires)


# --- a job's own limit


def test_the_first_in_order_get_the_places_whether_they_are_parked_or_not() -> None:
    met = [at(1, parked=PARK), at(2), at(3, parked=PARK), at(4)]
    assert decided(met, {"a": 2}) == [FIRE, FIRE, LEAVE, PARK]


def test_what_has_a_place_and_finds_no_room_waits_for_any_node() -> None:
    met = [at(1, parked=PARK), at(2), at(3, None), at(4, "b")]
    assert decided(met, {"a": 2, "b": 0}, 0) == [UNPARK, LEAVE, LEAVE, PARK]


def test_a_full_gate_takes_no_room_from_others() -> None:
    met = [at(1, "full"), at(2, None), at(3)]
    assert decided(met, {"full": 0, "a": 1}, 2) == [PARK, FIRE, FIRE]


def test_nothing_is_parked_beside_a_place_that_is_left() -> None:
    met = [at(1), at(2), at(3)]
    assert decided(met, {"a": 2}, 1) == [FIRE, LEAVE, LEAVE]
    assert decided([at(1, is_filled=False), at(2), at(3)], {"a": 2}) == [REFILL, FIRE, LEAVE]
    assert decided([at(1), at(2), at(3, parked=PARK)], {"a": 2}, 1) == [FIRE, LEAVE, UNPARK]


def test_what_this_node_does_not_run_keeps_its_place() -> None:
    met = [at(1, parked=PARK, runs_here=False), at(2)]
    assert decided(met, {"a": 1}) == [UNPARK, LEAVE]


def test_what_is_late_comes_behind_all_others_of_its_gate() -> None:
    met = [at(1, parked=PARK, is_late=True, runs_here=False), at(2), at(3)]
    assert decided(met, {"a": 2}) == [LEAVE, FIRE, FIRE]
    assert decided(met[:2], {"a": 2}) == [UNPARK, FIRE]


def test_skip() -> None:
    met = [at(n, slots=1, policy=OverlapPolicy.SKIP) for n in (1, 2, 3)]
    assert decided(met, {"a": 1}, 2) == [FIRE, SKIP, LEAVE]


def test_buffer_one() -> None:
    def met(*, parked: bool = False) -> list[Candidate]:
        how: dict[str, Any] = {"slots": 1, "policy": OverlapPolicy.BUFFER_ONE}
        return [*([at(0, parked=PARK, **how)] if parked else []), *(at(n, **how) for n in (1, 2))]

    assert decided(met(), {"a": 1}) == [FIRE, PARK]
    assert decided(met(), {"a": 0}) == [PARK, SKIP]
    assert decided(met(), {"a": 0}, occupied={"a"}) == [SKIP, SKIP]
    assert decided(met(parked=True), {"a": 1}) == [FIRE, PARK, SKIP]


def test_cancel_other_takes_the_newest() -> None:
    met = [at(n, policy=OverlapPolicy.CANCEL_OTHER) for n in (1, 2, 3)]
    assert decided(met, {"a": 2}) == [SKIP, FIRE, FIRE]
    assert decided(met, {"a": 1}) == [SKIP, REPLACE, FIRE]
    assert decided(met, {"a": 0}) == [SKIP, REPLACE, REPLACE]


# --- rates


def test_a_rate_admits_as_many_as_it_may_and_the_rest_is_parked() -> None:
    assert decided([at(1), at(2), at(3, parked=PARK)], {"a": rated(1)}) == [FIRE, PARK, LEAVE]
    assert decided([at(1), at(2)], {"a": rated(2, slots=1)}) == [FIRE, PARK]
    assert decided([at(1), at(2)], {"a": rated(1, slots=2)}) == [FIRE, PARK]


@pytest.mark.parametrize("policy", [OverlapPolicy.SKIP, OverlapPolicy.BUFFER_ONE, OverlapPolicy.CANCEL_OTHER])
def test_no_rate_and_no_shared_limit_skips_or_replaces_anything(policy: OverlapPolicy) -> None:
    own = [at(n, policy=policy) for n in (1, 2)]
    assert decided(own, {"a": rated(0, slots=2)}) == [PARK, PARK]
    assert decided([at(1, "a", "s", policy=policy)], {"a": 2, "s": 0}) == [PARK_AT_SET]


def test_what_skips_at_its_slots_does_so_under_a_rate_as_well() -> None:
    met = [at(n, slots=1, policy=OverlapPolicy.SKIP) for n in (1, 2)]
    assert decided(met, {"a": rated(1, slots=1)}) == [FIRE, SKIP]
    assert decided(met, {"a": rated(0, slots=0)}) == [SKIP, SKIP]
    assert decided(met, {"a": rated(0, slots=1)}) == [PARK, PARK]


def test_a_rate_opens_once_it_admits_the_next() -> None:
    def opens(tat: float | None, unparked: int = 0, *, burst: int = 1) -> float | None:
        stored = None if tat is None else NOW + timedelta(seconds=tat)
        instant = opens_at(RateLimit(60, "1m", burst), stored, NOW, unparked)
        return None if instant is None else (instant - NOW).total_seconds()

    assert (opens(None), opens(-5), opens(0)) == (None, None, None)
    assert (opens(3), opens(3, burst=3), opens(2, burst=3)) == (3, 1, None)
    assert (opens(None, 1), opens(0, 2, burst=2), opens(3, 1)) == (1, 1, 4)


# --- shared limits


def test_a_place_is_needed_at_each_limit() -> None:
    met = [at(1, None, "s", "t"), at(2, None, "s"), at(3, None, "t")]
    assert decided(met, {"s": 1, "t": 2}) == [FIRE, PARK_AT_SET, FIRE]
    assert decided(met, {"s": 0, "t": 1}) == [PARK_AT_SET, PARK_AT_SET, FIRE]


def test_what_has_no_place_at_its_own_limit_takes_none_of_those_that_others_share() -> None:
    met = [at(1, "a", "s"), at(2, None, "s")]
    assert decided(met, {"a": 0, "s": 1}) == [PARK, FIRE]


def test_what_is_parked_at_the_wrong_limit_is_parked_anew() -> None:
    full_job = [at(1, "a", "s", parked=PARK_AT_SET)]
    assert decided(full_job, {"a": 0, "s": 1}) == [PARK]
    full_set = [at(1, "a", "s", parked=PARK)]
    assert decided(full_set, {"a": 1, "s": 0}) == [PARK_AT_SET]
    assert decided([at(1, "a", "s", parked=PARK_AT_SET)], {"a": 1, "s": 0}) == [LEAVE]


def test_free_places_are_kept_for_what_is_overdue_and_lacks_another() -> None:
    both = at(1, None, "s", "t", parked=PARK_AT_SET)
    met = [both, at(2, None, "t")]
    assert decided(met, {"s": 0, "t": 1}) == [LEAVE, FIRE]
    overdue = [both._replace(is_overdue=True), met[1]]
    assert decided(overdue, {"s": 0, "t": 1}) == [LEAVE, PARK_AT_SET]
    assert decided(overdue, {"s": 0, "t": 2}) == [LEAVE, FIRE]
    # Only the first of a set has this right.
    second = at(2, None, "s", "t", parked=PARK_AT_SET, is_overdue=True)
    assert decided([overdue[0], second, at(3, None, "t")], {"s": 0, "t": 2}) == [LEAVE, LEAVE, FIRE]


def test_nothing_is_kept_for_what_lacks_a_place_at_its_own_limit() -> None:
    met = [at(1, "a", "s", "t", parked=PARK_AT_SET, is_overdue=True), at(2, None, "t")]
    assert decided(met, {"a": 0, "s": 0, "t": 1}) == [PARK, FIRE]


# --- properties

NAMES = "stu"


@st.composite
def worlds(draw: st.DrawFn, policies: Sequence[OverlapPolicy] = (OverlapPolicy.BLOCK,)) -> Any:
    """Candidates, what is free, and the room of the node."""
    places = st.integers(-1, 3)
    free = {gate: Free(draw(places), draw(st.sampled_from([0, 1, 2, NO_LIMIT.fires]))) for gate in "ab"}
    free |= {name: Free(draw(places | st.just(NO_LIMIT.slots)), draw(st.sampled_from([0, 1, 9]))) for name in NAMES}
    sets = st.sets(st.sampled_from(NAMES), max_size=3).map(sorted).map(tuple)
    of_gate = {gate: (draw(st.sampled_from(policies)), draw(sets)) for gate in "ab"}
    met = []
    for n in range(draw(st.integers(0, 12))):
        gate = draw(st.sampled_from([None, "a", "b"]))
        policy, shares = (OverlapPolicy.BLOCK, draw(sets)) if gate is None else of_gate[gate]
        where = [None, *([PARK] if gate else []), *([PARK_AT_SET] if shares else [])]
        met.append(
            Candidate(
                (n,),
                gate,
                3,
                shares,
                policy,
                draw(st.sampled_from(where)),
                is_filled=draw(st.sampled_from([True, True, True, False])),
                runs_here=draw(st.sampled_from([True, True, True, False])),
                is_overdue=draw(st.booleans()),
            )
        )
    return met, free, draw(st.integers(0, 12))


def limits_of(candidate: Candidate) -> list[Any]:
    return [*candidate.shares, *([] if candidate.gate is None else [candidate.gate])]


@settings(max_examples=500, deadline=None)
@given(worlds(policies=list(OverlapPolicy)))
def test_no_limit_and_no_room_is_exceeded(world: Any) -> None:
    met, free, room = world
    made = list(zip(met, decided(met, free, room), strict=True))
    fires = Counter(limit for one, decision in made if decision is FIRE for limit in limits_of(one))
    assert all(number <= max(free[limit].places, 0) for limit, number in fires.items())
    assert sum(decision in (FIRE, REFILL, SKIP) for _, decision in made) <= room
    assert all(one.runs_here for one, decision in made if decision in (FIRE, REFILL, SKIP))


@settings(max_examples=500, deadline=None)
@given(worlds())
def test_nothing_is_parked_beside_a_place(world: Any) -> None:
    met, free, room = world
    made = list(zip(met, decided(met, free, room), strict=True))
    fires = Counter(limit for one, decision in made if decision is FIRE for limit in limits_of(one))

    def has_left(limit: Any) -> bool:
        return free[limit].places > fires[limit]

    waits = {one.shares for one in met if one.is_overdue and len(one.shares) > 1}
    for one, decision in made:
        where = one.parked if decision is LEAVE else decision
        if where is PARK:
            assert not has_left(one.gate)
        elif where is PARK_AT_SET:
            # Unless what is left there is kept for others that are overdue.
            assert not all(map(has_left, one.shares)) or any(not {*one.shares}.isdisjoint(names) for names in waits)


@settings(max_examples=500, deadline=None)
@given(worlds())
def test_those_of_one_limit_get_its_places_in_their_order(world: Any) -> None:
    met, free, _ = world
    alone = [one._replace(gate=None, shares=one.shares[:1], runs_here=True, is_filled=True) for one in met]
    alone = [one._replace(parked=PARK_AT_SET if one.shares and one.parked else None) for one in alone]
    made = decided(alone, free, len(alone))
    for name in NAMES:
        of_name = [decision for one, decision in zip(alone, made, strict=True) if one.shares == (name,)]
        places = int(max(min(free[name].places, len(of_name)), 0))
        assert of_name[:places] == [FIRE] * places
        assert FIRE not in of_name[places:]


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_each_step_takes_the_first_of_those_whose_limits_have_places(world: Any) -> None:
    """So steps go on as long as anything can fire; what is kept for others is kept for those that came before."""
    met, free, _ = world
    met = [one._replace(runs_here=True, is_filled=True, is_overdue=False) for one in met]
    made = decided(met, free, len(met))
    able = [n for n, one in enumerate(met) if all(free[limit].places > 0 for limit in limits_of(one))]
    if able:
        assert made[able[0]] is FIRE


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["s", "t"]), min_size=2, max_size=10))
def test_what_needs_two_limits_is_not_passed_over_for_ever(arriving: list[str]) -> None:
    """Those that need one of them come without an end, and the executions of the two end in turns."""
    both = Candidate((0,), None, None, ("s", "t"), parked=PARK_AT_SET, is_overdue=True)
    running = {"s": 1, "t": 1}
    waiting: list[Candidate] = []
    for order, name in enumerate([*arriving, "s", "t"], start=1):
        waiting.append(Candidate((order,), None, None, (name,)))
        running["st"[order % 2]] = 0
        free = {limit: Free(1 - number) for limit, number in running.items()}
        made = decide([both, *waiting], free, (), lambda n: True)
        if made[0] is FIRE:
            return
        for one, decision in list(zip(waiting, made[1:], strict=True)):
            if decision is FIRE:
                waiting.remove(one)
                running[str(one.shares[0])] = 1
    raise AssertionError("it never fires")
