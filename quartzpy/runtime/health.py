"""The health of a scheduler, as frozen values that are made when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from quartzpy.errors import NodeUnhealthyError
from quartzpy.runtime.epoch import Epoch
from quartzpy.store.protocol import ConnectionUsage


class HealthState(StrEnum):
    """The whole of a scheduler's health in one word."""

    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    """Something does not work now, and may come right by itself: the database is away, a thread is overdue."""
    FAILED = "FAILED"
    """A thread cannot be kept alive: only a new process helps."""
    STOPPED = "STOPPED"
    """It was not started, or was shut down."""


@dataclass(frozen=True, slots=True)
class ThreadHealth:
    """One thread of a node, or a group of threads that do the same."""

    name: str
    alive: bool
    last_pass_age: timedelta | None = None
    """The time since its last pass ended; None where it has made none, or has no passes."""
    overdue: bool = False
    """True if it has made no pass for three of its periods."""
    restarts: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class SchedulerHealth:
    """The health of a scheduler in this process. `problems` says in words what `state` sums up."""

    state: HealthState
    problems: tuple[str, ...] = ()
    instance_id: str | None = None
    epoch: int | None = None
    lease_left: timedelta | None = None
    """The time for which this node may still act, by its own clock."""
    checkin_age: timedelta | None = None
    """The time since the last check-in that was answered was sent."""
    outage: timedelta | None = None
    """For how long check-ins have failed; None: the last one was answered."""
    clock_skew: timedelta = timedelta()
    """The time by which this machine's wall clock is ahead of the database's; below zero where it is behind. A wrong
    clock harms nothing, because the database's clock decides what is due."""
    connections: ConnectionUsage | None = None
    """Those for steps and calls."""
    threads: tuple[ThreadHealth, ...] = ()

    def raise_if_failed(self) -> None:
        """Raise where only a new process helps.

        Raises:
            NodeUnhealthyError: a thread cannot be kept alive.
        """
        if self.state is HealthState.FAILED:
            raise NodeUnhealthyError(f"node {self.instance_id} cannot go on: {'; '.join(self.problems)}")


def health_of(
    *,
    instance_id: str,
    epoch: Epoch,
    now: float,
    answered_at: float | None,
    outage: float | None,
    refusal: str | None,
    failure: str | None,
    clock_skew: timedelta,
    connections: ConnectionUsage | None,
    threads: Sequence[ThreadHealth],
) -> SchedulerHealth:
    """The health of a node, at `now` of the steady clock, from what its parts say."""
    problems = [failure] if failure is not None else []
    problems += [f"thread {one.name} has ended" for one in threads if not one.alive]
    problems += [f"thread {one.name} is overdue" for one in threads if one.alive and one.overdue]
    if outage is not None:
        problems.append(f"the database has not answered a check-in for {outage:.1f} s")
    if not epoch.seconds_left:
        problems.append("this node has no lease" + (f": {refusal}" if refusal else ""))
    state = HealthState.UNHEALTHY if problems else HealthState.HEALTHY
    return SchedulerHealth(
        state if failure is None else HealthState.FAILED,
        tuple(problems),
        instance_id=instance_id,
        epoch=epoch.node.epoch,
        lease_left=timedelta(seconds=epoch.seconds_left),
        checkin_age=None if answered_at is None else timedelta(seconds=now - answered_at),
        outage=None if outage is None else timedelta(seconds=outage),
        clock_skew=clock_skew,
        connections=connections,
        threads=tuple(threads),
    )
