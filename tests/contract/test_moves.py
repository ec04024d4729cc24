"""The moves of a trigger's policy for missed fires: each that is listed is made.

That no others are made is checked after each test of the contract, by a fixture.
"""

from __future__ import annotations

from quartzpy.states import Missed
from quartzpy.store.protocol import NamedTriggers
from tests.contract.harness import HOUR, Harness, every, job
from tests.moves import LISTED, MovesInMemory, MovesOfDatabase

Moves = MovesInMemory | MovesOfDatabase


def test_a_resumption_sets_the_policy_and_the_next_one_or_the_misfire_step_ends_it(
    store: Harness, moves: Moves
) -> None:
    node = store.node()
    trigger = every(60, "t")
    store.schedule(job(), trigger)

    def resume(missed: Missed) -> None:
        store.store.pause(NamedTriggers([trigger.key]))
        store.clock.advance(HOUR)
        store.store.resume(NamedTriggers([trigger.key]), missed=missed)

    for missed in (Missed.SKIP, Missed.ONCE, Missed.SKIP, Missed.MISFIRE, Missed.ONCE):
        resume(missed)
    assert not store.fire_due(node), "it is the misfire step's"
    store.misfire(node)
    assert store.fire_due(node)
    assert {move for move in moves.made() if move.column == "missed_policy"} == {
        move for move in LISTED if move.column == "missed_policy"
    }
