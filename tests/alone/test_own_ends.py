"""A node whose jobs are at their limits waits for the ends of its own executions, but not for long jobs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from quartzpy.node.own_ends import LONGEST_WAIT, PERIOD
from quartzpy.store.protocol import Acquisition
from tests.alone.simulation import SLACK, How, Simulation
from tests.contract.harness import at, every, job, once, serial

Make = Callable[..., Simulation]
JOBS, EACH = 200, 8


def schedule_serial_jobs(simulation: Simulation, takes: timedelta) -> None:
    """Schedule serial jobs with a backlog: the first trigger of each job is due before the second of any."""
    for number in range(JOBS):
        due = [once(f"{number}-{nth}", at(-1) + timedelta(microseconds=JOBS * nth + number)) for nth in range(EACH)]
        simulation.harness.schedule(serial(f"serial-{number}"), *due)
        simulation.hows[f"serial-{number}"] = How(takes)


def claims_of(simulation: Simulation) -> list[Acquisition]:
    """Return a list that gets the answers of the claims from now on."""
    [node] = simulation.nodes
    store: Any = node.store
    claims: list[Acquisition] = []

    def acquire(*values: Any, **how: Any) -> Acquisition:
        claims.append(store.acquire(*values, **how))
        return claims[-1]

    cast("Any", node.thread)._store.acquire = acquire
    return claims


@pytest.mark.parametrize("milliseconds", [3, 8])
def test_few_claims_meet_only_jobs_whose_executions_are_just_ending(simulate: Make, milliseconds: int) -> None:
    simulation = simulate(workers=2 * JOBS)
    schedule_serial_jobs(simulation, timedelta(milliseconds=milliseconds))
    claims = claims_of(simulation)
    simulation.notify()
    simulation.run(5)
    assert len(simulation.fires) == JOBS * EACH
    in_vain = [one for one in claims if not one.fired and one.next_due is not None and one.next_due <= one.now]
    assert len(in_vain) <= 2, "the first one asks which jobs the node runs, and the second one learns how it is"


@pytest.mark.parametrize("jobs", [1, 200])
def test_others_do_not_wait_behind_the_backlog_of_long_jobs(simulate: Make, jobs: int) -> None:
    """A claim lets as many triggers wait as it may take: 1,000 take five claims, which take nothing else."""
    simulation = simulate(workers=2 * JOBS)
    for number in range(jobs):
        due = [once(f"{number}-{nth}", at(-1) + timedelta(microseconds=nth)) for nth in range(1_000 // jobs)]
        simulation.harness.schedule(serial(f"serial-{number}"), *due)
        simulation.hows[f"serial-{number}"] = How(timedelta(seconds=30))
    simulation.harness.schedule(job("short"), every(0.05, "beside"))
    simulation.notify()
    simulation.run(2)
    late = simulation.lateness("beside")
    assert len(late) >= 2 / 0.05
    assert max(late) < 2 * LONGEST_WAIT + SLACK


def test_long_jobs_are_not_waited_for(simulate: Make) -> None:
    simulation = simulate(workers=2 * JOBS)
    schedule_serial_jobs(simulation, timedelta(seconds=30))
    simulation.harness.schedule(job("short"), every(0.05, "beside", start=at(1)))
    simulation.notify()
    simulation.run(10.98)
    late = simulation.lateness("beside")
    assert len(late) == 10 / 0.05
    assert max(late) < LONGEST_WAIT + SLACK
    assert sum(one > SLACK for one in late) <= 10 / PERIOD
