"""How early a fire is committed, for what its steps took."""

from __future__ import annotations

from random import Random

import pytest

from quartzpy.node.lead import MOST, Lead


def after(*seconds: float, lead: Lead | None = None) -> Lead:
    learned = lead or Lead()
    for one in seconds:
        learned = learned.after(one)
    return learned


def test_the_first_fires_are_early_enough_for_a_usual_step() -> None:
    assert 0.002 < Lead().seconds < MOST


def test_steps_that_take_the_same_time_need_little_more() -> None:
    assert after(*[0.001] * 100).seconds == pytest.approx(0.0015, abs=0.0001)


def test_a_lead_is_never_longer_than_a_worker_waits() -> None:
    assert after(*[5.0] * 50).seconds == MOST


def test_one_slow_step_counts_for_a_while_and_is_forgotten() -> None:
    usual = after(*[0.001] * 100)
    slow = after(0.02, lead=usual)
    assert slow.seconds > 0.01
    assert after(*[0.001] * 5, lead=slow).seconds > 2 * usual.seconds
    assert after(*[0.001] * 40, lead=slow).seconds < 1.2 * usual.seconds


def test_few_steps_take_longer_than_the_lead_where_their_durations_vary() -> None:
    random = Random(7)
    lead, late = Lead(), 0
    for _ in range(2_000):
        took = random.gammavariate(2, 0.0005)
        late += took > lead.seconds
        lead = lead.after(took)
    assert late < 2_000 * 0.02
