"""A trigger with a fixed delay: the next fire follows from the end of the execution before it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quartzpy import FixedDelayTrigger
from tests.contract.harness import SECOND, START, Harness, at, serial


def delayed(**values: object) -> FixedDelayTrigger:
    return FixedDelayTrigger("10s", "every", start_time=START, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("takes", [3, 25])
def test_the_next_fire_follows_from_the_end_of_the_execution(store: Harness, takes: int) -> None:
    node = store.node()
    store.schedule(serial(), delayed())
    expected = 0
    for _ in range(4):
        [fired] = store.fire_due(node)
        assert fired.scheduled_fire_time == at(expected)
        store.clock.advance(takes * SECOND)
        assert not store.fire_due(node), "the job still runs"
        store.complete(node, fired)
        expected += takes + 10
        assert store.progress("every").next_fire_time == at(expected)
        store.clock.advance(10 * SECOND - timedelta(milliseconds=1))
        assert not store.fire_due(node)
        store.clock.advance(timedelta(milliseconds=1))


def test_it_ends_where_the_next_fire_would_be_after_its_end(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(durable=True), delayed(end_time=at(12)))
    [fired] = store.fire_due(node)
    store.clock.advance(3 * SECOND)
    store.complete(node, fired)
    assert store.state("every") == "COMPLETE"
    assert store.progress("every").next_fire_time is None


def test_a_trigger_that_was_moved_meanwhile_is_left_alone(store: Harness) -> None:
    node = store.node()
    store.schedule(serial(), delayed())
    [fired] = store.fire_due(node)
    store.schedule(serial(), FixedDelayTrigger("1h", "every", start_time=at(500)), replace=True)
    store.complete(node, fired)
    assert store.progress("every").next_fire_time == at(500)
