"""The moves of a trigger's admission and of its policy for missed fires: each that is listed is made.

That no others are made is checked after each test of the contract, by a fixture.
"""

from __future__ import annotations

from datetime import timedelta

from quartzpy.states import Missed, Outcome
from quartzpy.store.protocol import NamedTriggers, Node
from tests.contract.harness import HOUR, Harness, every, job, once
from tests.moves import LISTED, MovesInMemory, MovesOfDatabase

Moves = MovesInMemory | MovesOfDatabase


def hand_back(store: Harness, node: Node) -> None:
    """Fire a trigger, and hand it back before its job begins."""
    [fired] = store.fire_due(node)
    store.complete(node, fired, outcome=Outcome.SNOOZED, retry_after=timedelta(), is_handed_back=True)


def test_a_rate_limit_admits_and_charges_fires_and_finds_them_late(store: Harness, moves: Moves) -> None:
    node = store.node()
    store.schedule(job(rate_limit="1/1m", durable=True), *(once(f"t{n}") for n in range(3)))
    hand_back(store, node)
    assert store.fire_due(node), "the one that was charged already"
    store.clock.advance(HOUR)
    assert not store.fire_due(node), "they are late"
    store.misfire(node)
    hand_back(store, node)
    store.schedule(job(rate_limit="2/1m", durable=True), replace=True)
    assert {move for move in moves.made() if move.column == "admission"} == {
        move for move in LISTED if move.column == "admission"
    }


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
