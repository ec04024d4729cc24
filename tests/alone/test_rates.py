"""Nodes look when a rate admits the next fire: nothing else wakes them for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pytest

from quartzpy.jobs.shared_limit import Limit
from quartzpy.node.next_look import MAX_GRACE
from tests.alone.simulation import SLACK, Simulation
from tests.contract.harness import REPORT, Harness, at, job, once

Make = Callable[..., Simulation]
FIRES = 20
GAP = 0.5


def schedule_backlog(harness: Harness, *, shared: bool, job_type: str = REPORT) -> None:
    limits = {"limits": ["mail"]} if shared else {"rate_limit": "2/s"}
    if shared:
        harness.store.put_limit("mail", Limit(rate_limit="2/s"))
    due = [once(f"t{n}", at(-1) + n * timedelta(milliseconds=1)) for n in range(FIRES)]
    harness.schedule(job(job_type=job_type, **limits), *due)


def gaps(simulation: Simulation) -> list[float]:
    return [(later.fire_time - one.fire_time).total_seconds() for one, later in pairwise(simulation.fires)]


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("nodes", [1, 3])
def test_what_a_rate_holds_back_fires_in_order_as_soon_as_it_may(simulate: Make, nodes: int, shared: bool) -> None:
    simulation = simulate(nodes)
    schedule_backlog(simulation.harness, shared=shared)
    simulation.notify()
    simulation.run(FIRES * (GAP + MAX_GRACE))
    assert [one.trigger_name for one in simulation.fires] == [f"t{n}" for n in range(FIRES)]
    most = SLACK if nodes == 1 else MAX_GRACE + SLACK
    assert all(GAP <= gap <= GAP + most for gap in gaps(simulation))
    assert simulation.passes <= 4 * FIRES * nodes


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_a_node_that_does_not_run_what_a_rate_admits_leaves_it_to_those_that_do(simulate: Make, shared: bool) -> None:
    simulation = simulate(2, types=([REPORT], ["other"]))
    schedule_backlog(simulation.harness, shared=shared, job_type="other")
    simulation.notify()
    simulation.run(FIRES * (GAP + MAX_GRACE))
    assert [one.trigger_name for one in simulation.fires] == [f"t{n}" for n in range(FIRES)]
    assert all(GAP <= gap <= GAP + MAX_GRACE + SLACK for gap in gaps(simulation))


def test_a_limit_that_is_raised_wakes_nodes(simulate: Make) -> None:
    simulation = simulate()
    simulation.harness.store.put_limit("mail", Limit(0))
    simulation.harness.schedule(job(limits=["mail"]), once("t"))
    simulation.run(2)
    assert not simulation.fires
    simulation.harness.store.put_limit("mail", Limit(1))
    simulation.notify()
    simulation.run(MAX_GRACE + SLACK)
    assert [one.trigger_name for one in simulation.fires] == ["t"]
