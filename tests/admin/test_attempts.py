"""Tests of the attempts of a fire."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quartzpy.states import ExecutionState, Outcome
from quartzpy.store.postgresql.admin import admin
from quartzpy.store.protocol import FiredTrigger, Node
from tests.contract.harness import SECOND, Harness, job, names, once

DELAY = timedelta(seconds=10)


def fail(store: Harness, node: Node, fired: FiredTrigger) -> int:
    store.complete(node, fired, outcome=Outcome.FAILED, error="wrong", retry_after=DELAY)
    store.clock.advance(DELAY)
    return fired.fire_id


def test_the_attempts_of_a_fire_are_found_from_each_of_them(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once())
    fire_ids = [fail(store, node, store.fire_one(node)) for _ in range(3)]
    store.schedule(job("other", job_type="other"), once("other"))
    [other] = store.fire_due(node, types=["other"])
    found = admin(store.store).attempts([*fire_ids, other.fire_id, 10**9], 50)
    assert set(found) == {*fire_ids, other.fire_id}
    for fire_id in fire_ids:
        assert [one.fire_id for one in found[fire_id]] == [*fire_ids, None]
        assert [one.state for one in found[fire_id]] == [ExecutionState.FAILED] * 3 + [ExecutionState.SCHEDULED]
        assert [one.attempt for one in found[fire_id]] == [1, 2, 3, 4]
    assert [one.fire_id for one in found[other.fire_id]] == [other.fire_id]
    assert admin(store.store).attempts([], 50) == {}


def test_an_attempt_is_found_at_every_stage(store: Harness) -> None:
    node = store.node()
    store.schedule(job(), once())
    first = fail(store, node, store.fire_one(node))

    def states() -> list[ExecutionState]:
        return [one.state for one in admin(store.store).attempts([first], 50)[first]]

    assert states() == [ExecutionState.FAILED, ExecutionState.SCHEDULED]
    second = store.fire_one(node)
    assert states() == [ExecutionState.FAILED, ExecutionState.PROCESSING]
    store.complete(node, second)
    assert states() == [ExecutionState.FAILED, ExecutionState.SUCCEEDED]


def test_a_recovery_is_an_attempt_without_the_lost_execution_which_the_history_does_not_have(store: Harness) -> None:
    node = store.node()
    store.schedule(job(requests_recovery=True), once())
    lost = store.fire_one(node)
    store.clock.advance(60 * SECOND)
    survivor = store.node("b")
    store.recover(survivor, node)
    again = store.fire_one(survivor)
    found = admin(store.store).attempts([lost.fire_id, again.fire_id], 50)
    assert {fire_id: [one.recovering for one in chain] for fire_id, chain in found.items()} == {again.fire_id: [True]}


@pytest.mark.parametrize(
    ("limit", "expected"), [(1, [2]), (2, [1, 2]), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3, 4])]
)
def test_attempts_before_an_execution_come_first_up_to_a_limit(store: Harness, limit: int, expected: list[int]) -> None:
    node = store.node()
    store.schedule(job(), once())
    fire_ids = [fail(store, node, store.fire_one(node)) for _ in range(5)]
    found = admin(store.store).attempts([fire_ids[2]], limit)[fire_ids[2]]
    assert [fire_ids.index(one.fire_id) for one in found if one.fire_id is not None] == expected


@pytest.mark.parametrize(
    "name", ["retry_1_none", "retry_1_", "by hand", "recover_a_99999999999999999999", "retry_1_7 "]
)
def test_a_trigger_in_the_group_of_retries_that_names_no_execution_repeats_none(store: Harness, name: str) -> None:
    node = store.node()
    store.schedule(job(), once(name, group="RETRYING_JOBS"))
    fired = store.fire_one(node)
    assert names([fired]) == [name]
    assert [one.fire_id for one in admin(store.store).attempts([fired.fire_id], 50)[fired.fire_id]] == [fired.fire_id]
