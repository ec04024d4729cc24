"""The probes of an orchestrator: is the process alive, and is the node ready? Neither asks the database."""

from __future__ import annotations

from dataclasses import dataclass

from quartzpy.metrics.collector import Watched
from quartzpy.node.health import HealthState


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of a probe. `problems` has the reasons if it is negative."""

    ok: bool
    state: HealthState
    problems: tuple[str, ...] = ()


def liveness(scheduler: Watched) -> Verdict:
    """Return whether the threads of the node make progress. If not, only a new process helps.

    An outage of the database is no reason to restart a process, so it does not count. A scheduler that was not started
    yet, or that drains, is alive.
    """
    health = scheduler.health()
    problems = [f"thread {one.name} has ended" for one in health.threads if not one.alive]
    problems += [f"thread {one.name} is overdue" for one in health.threads if one.alive and one.overdue]
    if health.state is HealthState.FAILED:
        problems = [*health.problems]
    return Verdict(not problems, health.state, tuple(problems))


def readiness(scheduler: Watched) -> Verdict:
    """Return whether the node runs jobs: it has started; its tables are those of this release; its last check-in
    was answered; it holds a lease; and it is not draining. A node in standby is ready.
    """
    health = scheduler.health()
    if scheduler.is_shut_down:
        return Verdict(False, health.state, ("the scheduler is shutting down, or has stopped",))
    if health.state is HealthState.STOPPED:
        return Verdict(False, health.state, ("the scheduler has not started",))
    return Verdict(health.state is HealthState.HEALTHY, health.state, health.problems)
