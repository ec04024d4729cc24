"""A trigger that is alone on idle nodes with default settings fires on time, by the rests that the passes return."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quartzpy import CronTrigger
from quartzpy.triggers.trigger import Trigger
from tests.alone.simulation import SLACK, Simulation
from tests.contract.harness import at, every, job, once

Make = Callable[..., Simulation]

SITUATIONS: dict[str, tuple[float, list[list[Trigger]], int]] = {
    # The seconds to run, the triggers of each job, and the fires that are expected.
    "one of every second": (10, [[every(1)]], 10),
    "one of every 200 ms": (3, [[every(0.2)]], 15),
    "one of every 4 s": (20, [[every(4)]], 5),
    "ten of every 100 ms": (0.5, [[every(0.1, f"t{n}", start=at(n / 100))] for n in range(10)], 50),
    "three of every 200 ms": (2, [[every(0.2, f"t{n}") for n in range(3)]], 30),
    "three jobs at each full second": (5, [[every(1, f"t{n}")] for n in range(3)], 15),
    "a cron of every minute": (240, [[CronTrigger("0 * * * * ?", "cron", time_zone="UTC")]], 4),
    "one that fires once": (90, [[once("once", at(61.5))]], 1),
    "one of every second beside one of every hour": (5, [[every(1)], [every(3600, "hourly", start=at(3600))]], 5),
}


@pytest.mark.parametrize("nodes", [1, 3], ids=["one node", "three nodes"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_each_fire_is_on_time(simulate: Make, situation: str, nodes: int) -> None:
    seconds, jobs, expected = SITUATIONS[situation]
    simulation = simulate(nodes)
    for number, triggers in enumerate(jobs):
        simulation.harness.schedule(job(f"job-{number}"), *triggers)
    simulation.notify()
    simulation.run(seconds - 0.005)
    late = simulation.lateness()
    assert len(late) == expected
    assert max(late) < SLACK


@pytest.mark.parametrize("nodes", [1, 3], ids=["one node", "three nodes"])
def test_the_fires_after_an_idle_hour_are_on_time(simulate: Make, nodes: int) -> None:
    simulation = simulate(nodes)
    simulation.run(3600)
    passes = simulation.passes
    assert passes < nodes * 3600 / 15 * 1.3, "an idle node looks as rarely as its settings say"
    simulation.harness.schedule(job(), every(1, start=at(3600.5)))
    simulation.notify()
    simulation.run(5)
    late = simulation.lateness()
    assert len(late) == 5
    assert max(late) < SLACK
    assert simulation.passes - passes < nodes * 5 + 5 * 12, "a fire takes a few passes"
