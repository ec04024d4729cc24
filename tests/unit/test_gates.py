"""Tests of the decision about triggers at gates."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import pytest

from quartzpy.states import OverlapPolicy
from quartzpy.store.gates import Candidate, Decision, decide

FIRE, REFILL, PARK, UNPARK = Decision.FIRE, Decision.REFILL, Decision.PARK, Decision.UNPARK
SKIP, LEAVE = Decision.SKIP, Decision.LEAVE


class Room:
    """The room of a node for so many triggers."""

    def __init__(self, number: int) -> None:
        self.number = number

    def takes(self, _: int) -> bool:
        self.number -= 1
        return self.number >= 0


def decided(
    met: Sequence[Candidate], running: Mapping[str, int], room: int, occupied: Collection[str] = ()
) -> list[Decision]:
    return decide(met, running, occupied, Room(room).takes)


def at(order: int, gate: str | None = "a", limit: int = 2, **values: bool | OverlapPolicy) -> Candidate:
    return Candidate((order,), gate, limit, **values)  # type: ignore[arg-type]


def test_the_first_in_order_get_the_places_whether_they_are_parked_or_not() -> None:
    met = [at(1, is_parked=True), at(2), at(3, is_parked=True), at(4)]
    assert decided(met, {"a": 0}, 9) == [FIRE, FIRE, LEAVE, PARK]


def test_what_has_a_place_and_finds_no_room_waits_for_any_node() -> None:
    met = [at(1, is_parked=True), at(2), at(3, None), at(4, "b")]
    assert decided(met, {"a": 0, "b": 2}, 0) == [UNPARK, LEAVE, LEAVE, PARK]


def test_a_full_gate_takes_no_room_from_others() -> None:
    met = [at(1, "full"), at(2, None), at(3)]
    assert decided(met, {"full": 2, "a": 1}, 2) == [PARK, FIRE, FIRE]


def test_nothing_is_parked_beside_a_place_that_is_left() -> None:
    met = [at(1), at(2), at(3)]
    assert decided(met, {"a": 0}, 1) == [FIRE, LEAVE, LEAVE]
    assert decided([at(1, is_filled=False), at(2), at(3)], {"a": 0}, 9) == [REFILL, FIRE, LEAVE]


def test_what_this_node_does_not_run_keeps_its_place() -> None:
    met = [at(1, is_parked=True, runs_here=False), at(2)]
    assert decided(met, {"a": 1}, 9) == [UNPARK, LEAVE]


def test_what_is_late_comes_behind_all_others_of_its_gate() -> None:
    met = [at(1, is_parked=True, is_late=True, runs_here=False), at(2), at(3)]
    assert decided(met, {"a": 0}, 9) == [LEAVE, FIRE, FIRE]
    assert decided(met[:2], {"a": 0}, 9) == [UNPARK, FIRE]


def test_skip() -> None:
    how = {"limit": 1, "policy": OverlapPolicy.SKIP}
    assert decided([at(1, **how), at(2, **how), at(3, **how)], {"a": 0}, 2) == [FIRE, SKIP, LEAVE]  # type: ignore[arg-type]


def test_buffer_one() -> None:
    def met(**values: bool) -> list[Candidate]:
        buffered = [at(0, limit=1, policy=OverlapPolicy.BUFFER_ONE, is_parked=True)] if values.get("parked") else []
        return [*buffered, *(at(n, limit=1, policy=OverlapPolicy.BUFFER_ONE) for n in (1, 2))]

    assert decided(met(), {"a": 0}, 9) == [FIRE, PARK]
    assert decided(met(), {"a": 1}, 9) == [PARK, SKIP]
    assert decided(met(), {"a": 1}, 9, occupied={"a"}) == [SKIP, SKIP]
    assert decided(met(parked=True), {"a": 0}, 9) == [FIRE, PARK, SKIP]


def test_cancel_other_takes_the_newest() -> None:
    met = [at(n, policy=OverlapPolicy.CANCEL_OTHER) for n in (1, 2, 3)]
    assert decided(met, {"a": 0}, 9) == [SKIP, FIRE, FIRE]
    assert decided(met, {"a": 1}, 9) == [SKIP, PARK, FIRE]
    assert decided(met, {"a": 2}, 9) == [SKIP, PARK, PARK]


@pytest.mark.parametrize("seed", range(20))
def test_no_gate_gets_more_than_it_has_and_nothing_is_parked_at_one_with_a_place(seed: int) -> None:
    chance = random.Random(seed)
    running = {gate: chance.randint(0, 4) for gate in "abc"}
    gates = [chance.choice([None, *"abc"]) for _ in range(40)]
    met = [at(n, gate, 4, is_parked=gate is not None and chance.random() < 0.4) for n, gate in enumerate(gates)]
    room = chance.randint(0, 12)
    made = list(zip(met, decided(met, running, room), strict=True))
    fires = Counter(one.gate for one, decision in made if decision is FIRE)
    assert fires.total() <= room
    for gate, executions in running.items():
        of_gate = [decision for one, decision in made if one.gate == gate]
        assert executions + fires[gate] <= 4
        assert PARK not in of_gate or executions + fires[gate] == 4
        assert {*of_gate[4 - executions :]} <= {PARK, LEAVE}
