"""The health of a scheduler, as immutable snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from quartzpy.errors import NodeUnhealthyError
from quartzpy.node.registration import Epoch
from quartzpy.node.workers.executors import ExecutorLoad
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.protocol import ConnectionUsage
from quartzpy.store.records import LastingIncident

FAILED_PASSES, FAILING_FOR = 3, timedelta(seconds=5)
"""A thread whose passes have failed at least so often in a row, and for at least so long, is a problem of its node."""
NO_CHECK_IN, NO_LEASE = "no-check-in", "no-lease"
"""The kinds of problems that a successful check-in ends, so that none can report them."""


class HealthState(StrEnum):
    """The overall health of a scheduler."""

    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    """There is a problem that may be temporary: the database is unavailable, a thread is overdue, or the passes of a
    thread fail."""
    FAILED = "FAILED"
    """A thread cannot be kept alive. Only a new process can continue."""
    STOPPED = "STOPPED"
    """The scheduler was not started, or was shut down."""


@dataclass(frozen=True, slots=True)
class ThreadHealth:
    """The health of one thread of a node, or of a group of equal threads."""

    name: str
    alive: bool
    last_pass_age: timedelta | None = None
    """The time since the end of its last pass. None if it has not made one, or does not work in passes."""
    overdue: bool = False
    """True if its next pass is late by more than three of its periods."""
    restarts: int = 0
    last_error: str | None = None
    """The last error of a pass or of the thread, even if the passes have succeeded since."""
    failed_passes: int = 0
    """The number of passes in a row that have failed, except for want of a connection to the database."""
    failing_for: timedelta | None = None
    """The time since the first of these passes. None if there is none."""

    @property
    def is_failing(self) -> bool:
        """True if so many passes in a row have failed, and for so long, that the next one will probably fail as well.

        Such a thread is alive and yet does none of its work.
        """
        return self.failed_passes >= FAILED_PASSES and self.failing_for is not None and self.failing_for >= FAILING_FOR


@dataclass(frozen=True, slots=True)
class SchedulerHealth:
    """The health of a scheduler in this process. `problems` has the reasons for `state` in words."""

    state: HealthState
    problems: tuple[str, ...] = ()
    instance_id: str | None = None
    epoch: int | None = None
    lease_left: timedelta | None = None
    """The remaining time of the lease, by the clock of this node."""
    checkin_age: timedelta | None = None
    """The time since the last successful check-in was sent."""
    outage: timedelta | None = None
    """The time for which check-ins have failed. None if the last one succeeded."""
    is_oldest: bool = False
    """True if this is the node that joined the cluster first among those alive, as the last check-in showed."""
    clock_skew: timedelta = timedelta()
    """The time by which the wall clock of this machine is ahead of the database's; negative if it is behind. It has no
    effect on scheduling, because the clock of the database decides when triggers are due."""
    connections: ConnectionUsage | None = None
    """The use of the connection pool."""
    threads: tuple[ThreadHealth, ...] = ()
    executors: tuple[ExecutorLoad, ...] = ()
    unrecorded: int = 0
    """The number of executions that have ended and are not recorded yet."""
    is_draining: bool = False
    """True if the node fires nothing more and lets its executions end, by request of a program or an operator."""
    details: tuple[NodeProblem, ...] = ()
    """The same problems with their kinds, and the instants since when they last."""
    incidents: tuple[LastingIncident, ...] = ()
    """What is wrong with the cluster by the last judgement that this node knows: what operators have stopped, too.

    It is for information, and `state` does not depend on it. A node that does no housekeeping has none."""

    def raise_if_failed(self) -> None:
        """Raise an error if `state` is FAILED.

        Raises:
            NodeUnhealthyError: a thread cannot be kept alive, and only a new process can continue.
        """
        if self.state is HealthState.FAILED:
            raise NodeUnhealthyError(f"node {self.instance_id} cannot continue: {'; '.join(self.problems)}")


def health_of(
    *,
    instance_id: str,
    epoch: Epoch,
    now: float,
    answered_at: float | None,
    outage: float | None,
    refusal: str | None,
    schema: str | None,
    failure: str | None,
    clock_skew: timedelta,
    connections: ConnectionUsage | None,
    threads: Sequence[ThreadHealth],
    executors: Sequence[ExecutorLoad] = (),
    unrecorded: int = 0,
    is_oldest: bool = False,
    is_draining: bool = False,
    outage_error: str | None = None,
    others: Iterable[NodeProblem] = (),
    dated: Callable[[Sequence[NodeProblem]], Sequence[NodeProblem]] = tuple,
    incidents: Sequence[LastingIncident] = (),
) -> SchedulerHealth:
    """Return the health of a node at `now` (of the monotonic clock) from the values of its parts.

    `others` are problems that the parts themselves have found, and `dated` says since when each problem lasts.
    """
    problems = [NodeProblem("failed", failure)] if failure is not None else []
    problems += [
        NodeProblem("ended-thread", f"thread {thread.name} has ended", thread.name)
        for thread in threads
        if not thread.alive
    ]
    problems += [
        NodeProblem("overdue-thread", f"thread {thread.name} is overdue", thread.name)
        for thread in threads
        if thread.alive and thread.overdue
    ]
    problems += [
        NodeProblem("failing-thread", _of_failing(thread), thread.name)
        for thread in threads
        if thread.alive and thread.is_failing
    ]
    problems += others
    if schema is not None:
        problems.append(NodeProblem("schema", schema))
    if outage is not None:
        what = "the database has not answered a check-in" if schema is None else "no check-in has succeeded"
        why = f": {outage_error}" if outage_error is not None and schema is None else ""
        problems.append(NodeProblem(NO_CHECK_IN, f"{what} for {outage:.1f} s{why}"))
    if not epoch.seconds_left:
        problems.append(NodeProblem(NO_LEASE, "this node has no lease" + (f": {refusal}" if refusal else "")))
    problems = list(dated(problems))
    state = HealthState.UNHEALTHY if problems else HealthState.HEALTHY
    return SchedulerHealth(
        state if failure is None else HealthState.FAILED,
        tuple(problem.what for problem in problems),
        instance_id=instance_id,
        epoch=epoch.node.epoch,
        lease_left=timedelta(seconds=epoch.seconds_left),
        checkin_age=None if answered_at is None else timedelta(seconds=now - answered_at),
        outage=None if outage is None else timedelta(seconds=outage),
        clock_skew=clock_skew,
        connections=connections,
        threads=tuple(threads),
        executors=tuple(executors),
        unrecorded=unrecorded,
        is_oldest=is_oldest,
        is_draining=is_draining,
        details=tuple(problems),
        incidents=tuple(incidents),
    )


class ProblemTimes:
    """Knows since when each problem of a node lasts."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._since: dict[tuple[str, str], datetime] = {}

    def dated(self, problems: Sequence[NodeProblem]) -> list[NodeProblem]:
        """Return the present problems with the instants at which they were first among them."""
        now, before = self._now(), self._since
        self._since = {key: before.get(key, problem.since or now) for problem in problems if (key := _key(problem))}
        return [replace(problem, since=self._since[_key(problem)]) for problem in problems]


def _key(problem: NodeProblem) -> tuple[str, str]:
    return problem.kind, problem.subject


def _of_failing(thread: ThreadHealth) -> str:
    seconds = (thread.failing_for or timedelta()).total_seconds()
    return (
        f"thread {thread.name} does none of its work: its last {thread.failed_passes} passes failed, the first of them"
        f" {seconds:.0f} s ago: {thread.last_error}"
    )
