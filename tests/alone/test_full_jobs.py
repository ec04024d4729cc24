"""A node whose jobs are at their limits: their ends are followed at once, and others do not wait behind them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.alone.simulation import SLACK, How, Simulation
from tests.contract.harness import SECOND, at, every, job, once, serial

Make = Callable[..., Simulation]
JOBS, EACH = 200, 8


def schedule_serial_jobs(simulation: Simulation, jobs: int, each: int, takes: timedelta) -> None:
    """Schedule serial jobs with a backlog: the first trigger of each job is due before the second of any."""
    for number in range(jobs):
        due = [once(f"{number}-{nth}", at(-1) + timedelta(microseconds=jobs * nth + number)) for nth in range(each)]
        simulation.harness.schedule(serial(f"serial-{number}"), *due)
        simulation.hows[f"serial-{number}"] = How(takes)


@pytest.mark.parametrize("workers", [2 * JOBS, 3])
def test_each_end_is_followed_by_the_next_fire(simulate: Make, workers: int) -> None:
    simulation = simulate(workers=workers)
    schedule_serial_jobs(simulation, JOBS, EACH if workers > JOBS else 1, timedelta(milliseconds=3))
    simulation.notify()
    simulation.run(5)
    assert len(simulation.fires) == JOBS * (EACH if workers > JOBS else 1)


def test_one_serial_job_uses_most_of_the_time(simulate: Make) -> None:
    simulation = simulate()
    schedule_serial_jobs(simulation, 1, 500, timedelta(milliseconds=10))
    simulation.notify()
    simulation.run(5)
    assert len(simulation.fires) >= 0.7 * 5 / 0.01


def test_a_full_node_leaves_what_waits_for_its_ends_to_others(simulate: Make) -> None:
    """Both nodes have a worker less than jobs, and the gate opens at the one without a worker."""
    simulation = simulate(2, workers=1)
    simulation.harness.schedule(serial("serial"), once("a", at(-1)), once("b", at(-0.5)))
    simulation.hows["serial"] = How(SECOND)
    simulation.notify()
    simulation.run(0.5)
    [a] = simulation.fires
    [runs] = [node for node in simulation.nodes if a.fire_id in node.fire_ids]
    runs.workers = 0
    simulation.run(4)
    [_, b] = simulation.fires
    assert b.trigger_name == "b"
    assert b.fire_id not in runs.fire_ids
    assert b.fire_time <= at(1.5)


@pytest.mark.parametrize("jobs", [1, 200])
def test_others_do_not_wait_behind_the_backlog_of_long_jobs(simulate: Make, jobs: int) -> None:
    """A claim parks as many triggers as it meets: 1,000 take five claims, which take nothing else."""
    simulation = simulate(workers=2 * JOBS)
    schedule_serial_jobs(simulation, jobs, 1_000 // jobs, timedelta(seconds=30))
    simulation.harness.schedule(job("short"), every(0.05, "beside"))
    simulation.notify()
    simulation.run(2)
    late = simulation.lateness("beside")
    assert len(late) >= 2 / 0.05
    assert max(late) < timedelta(milliseconds=40).total_seconds() + SLACK
