"""What an execution's end stores, releases or moves fires on time on nodes that have nothing else to do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pytest

from quartzpy import FixedDelayTrigger
from quartzpy.states import Outcome, OverlapPolicy
from tests.alone.simulation import SLACK, How, Simulation
from tests.contract.harness import SECOND, START, at, every, job, once, serial

Make = Callable[..., Simulation]
NODES = pytest.mark.parametrize("nodes", [1, 3], ids=["one node", "three nodes"])


def scheduled(simulation: Simulation) -> list[float]:
    return [(one.scheduled_fire_time - START).total_seconds() for one in simulation.fires]


@NODES
@pytest.mark.parametrize("takes", [0.3, 1.7])
def test_a_serial_job(simulate: Make, nodes: int, takes: float) -> None:
    simulation = simulate(nodes)
    simulation.hows["job"] = How(timedelta(seconds=takes))
    simulation.harness.schedule(serial(), every(1, misfire="ignore"))
    simulation.notify()
    simulation.run(6)
    gaps = [later.fire_time - one.fire_time for one, later in pairwise(simulation.fires)]
    assert max(gaps).total_seconds() < max(takes, 1) + SLACK, gaps


@NODES
def test_a_fixed_delay(simulate: Make, nodes: int) -> None:
    simulation = simulate(nodes)
    simulation.hows["job"] = How(timedelta(seconds=2.5))
    simulation.harness.schedule(serial(), FixedDelayTrigger("1s", "delayed", start_time=START))
    simulation.notify()
    simulation.run(13)
    late = simulation.lateness()
    assert len(late) == 4
    assert max(late) < SLACK


@NODES
@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.SNOOZED])
def test_a_retry_and_a_snooze(simulate: Make, nodes: int, outcome: Outcome) -> None:
    simulation = simulate(nodes)
    simulation.hows["job"] = How(ending={"outcome": outcome, "retry_after": 2 * SECOND})
    simulation.harness.schedule(job(), once("once", at(1)))
    simulation.notify()
    simulation.run(6)
    late = simulation.lateness()
    assert len(late) == 3
    assert max(late) < SLACK


@NODES
def test_fires_that_are_skipped(simulate: Make, nodes: int) -> None:
    """The claims of a job at its limit are skipped one after another, and the first that may run does."""
    simulation = simulate(nodes)
    simulation.hows["job"] = How(timedelta(seconds=3.25))
    simulation.harness.schedule(serial(overlap_policy=OverlapPolicy.SKIP), every(0.5))
    simulation.notify()
    simulation.run(8)
    assert scheduled(simulation) == [0, 3.5, 7]
    assert max(simulation.lateness()) < SLACK


@NODES
@pytest.mark.parametrize("policy", [OverlapPolicy.BUFFER_ONE, OverlapPolicy.CANCEL_OTHER])
def test_fires_that_wait_for_the_end(simulate: Make, nodes: int, policy: OverlapPolicy) -> None:
    simulation = simulate(nodes)
    simulation.hows["job"] = How(timedelta(seconds=1.3))
    simulation.harness.schedule(serial(overlap_policy=policy), every(1))
    simulation.notify()
    simulation.run(8)
    starts = [one.fire_time for one in simulation.fires]
    gaps = [(later - one).total_seconds() for one, later in pairwise(starts)]
    assert max(gaps) < 1.3 + SLACK, gaps


@NODES
def test_a_rate_limit(simulate: Make, nodes: int) -> None:
    simulation = simulate(nodes)
    simulation.harness.schedule(job(rate_limit="1/2s"), every(0.5, misfire="ignore"))
    simulation.notify()
    simulation.run(9)
    starts = [one.fire_time for one in simulation.fires]
    gaps = [(later - one).total_seconds() for one, later in pairwise(starts)]
    assert len(starts) >= 4
    assert max(gaps) < 2.5 + 5 * SLACK, gaps


@NODES
def test_a_trigger_that_fires_again_soon(simulate: Make, nodes: int) -> None:
    simulation = simulate(nodes)
    simulation.harness.schedule(job(), every(2))
    simulation.notify()
    simulation.run(12)
    late = simulation.lateness()
    assert len(late) >= 6
    assert max(late) < SLACK


def test_a_fire_whose_answer_was_lost(simulate: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node finds what it has fired beside what is due at the same time."""
    simulation = simulate()
    [node] = simulation.nodes
    simulation.harness.schedule(job(), every(1, start=at(1)))
    simulation.harness.schedule(job("other"), once("other", at(1.2)))
    simulation.notify()
    fire = node.store.acquire

    def lost(*arguments: object, **values: object) -> object:
        took = fire(*arguments, **values)  # type: ignore[arg-type]
        if not took.fired:
            return took
        monkeypatch.setattr(node.store, "acquire", fire)
        raise ConnectionError("the answer is lost")

    monkeypatch.setattr(node.store, "acquire", lost)
    with pytest.raises(ConnectionError):
        simulation.run(5)
    node.thread.after_failure(ConnectionError())
    node.thread.wakeup.set()
    simulation.run_until(at(5.5))
    assert {one.scheduled_fire_time for one in simulation.fires if one.job_name == "job"} == {
        at(n) for n in range(1, 6)
    }
    assert max(simulation.lateness("every")) < SLACK


def test_standby_and_start(simulate: Make) -> None:
    simulation = simulate()
    [node] = simulation.nodes
    simulation.harness.schedule(job(), every(1))
    simulation.notify()
    simulation.run(3.5)
    node.thread.signals.set_standby(True)
    simulation.run(2)
    node.thread.signals.set_standby(False)
    simulation.run_until(at(9.5))
    late = [one.fire_time for one in simulation.fires if one.scheduled_fire_time >= at(6)]
    assert late == [pytest.approx(at(n), abs=timedelta(seconds=SLACK)) for n in range(6, 10)]
