"""When a node waits for the ends of its executions, on a clock that the tests move."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quartzpy.node.own_ends import LONGEST_WAIT, MANY, PERIOD, OwnEnds
from tests.node.test_small_parts import ManualClock

BATCH = 40


class Ends:
    """The executions of a node, all running, and what it decides about its next claim."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.own = OwnEnds(self.clock.monotonic)
        self.running: set[int] = set()

    def fire(self, *fire_ids: int, limit: int | None = 1) -> None:
        fired: list[Any] = [SimpleNamespace(fire_id=fire_id, max_concurrent=limit) for fire_id in fire_ids]
        self.running.update(fire_ids)
        self.own.note_fired(fired, lambda: self.running)

    def wait(self) -> float:
        return self.own.wait(BATCH, lambda: self.running)

    def step(self, seconds: float) -> None:
        self.clock.seconds += seconds


@pytest.fixture
def ends() -> Ends:
    return Ends()


def test_a_node_that_took_what_it_asked_for_does_not_wait(ends: Ends) -> None:
    ends.fire(*range(BATCH))
    assert ends.wait() == 0


def test_it_waits_for_most_of_its_executions_with_a_limit(ends: Ends) -> None:
    ends.fire(*range(BATCH))
    ends.own.note_little()
    assert ends.wait() == pytest.approx(LONGEST_WAIT)
    ends.step(LONGEST_WAIT / 2)
    assert ends.wait() == pytest.approx(LONGEST_WAIT / 2)
    ends.running = set(range(BATCH // 4))
    assert ends.wait() == 0


def test_it_waits_before_each_claim_of_a_period(ends: Ends) -> None:
    for turn in range(3):
        ends.fire(*range(100 * turn, 100 * turn + BATCH))
        if turn == 0:
            ends.own.note_little()
        ends.step(PERIOD / 4)
        assert ends.wait() == pytest.approx(LONGEST_WAIT), "each wait is a new one"
        ends.running.clear()
        assert ends.wait() == 0
    ends.fire(*range(BATCH))
    ends.step(PERIOD)
    assert ends.wait() == 0


def test_a_wait_in_vain_is_the_only_one_of_a_period(ends: Ends) -> None:
    ends.fire(*range(BATCH))
    ends.own.note_little()
    assert ends.wait() > 0
    ends.step(LONGEST_WAIT)
    for _ in range(4):
        assert ends.wait() == 0
        ends.own.note_little()
        ends.step(PERIOD / 4)
    ends.own.note_little()
    assert ends.wait() == pytest.approx(LONGEST_WAIT)


@pytest.mark.parametrize(("count", "limit"), [(BATCH, None), (BATCH // 4, 1)], ids=["no limit", "few"])
def test_it_does_not_wait_for_executions_without_a_limit_nor_for_few(ends: Ends, count: int, limit: int | None) -> None:
    ends.fire(*range(count), limit=limit)
    ends.own.note_little()
    assert ends.wait() == 0


def test_it_forgets_what_was_recorded(ends: Ends) -> None:
    for number in range(10 * MANY):
        ends.fire(number)
        ends.running = {number}
    assert len(ends.own._limited) <= MANY
