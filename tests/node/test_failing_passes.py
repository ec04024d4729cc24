"""A thread whose passes fail again and again is alive, and yet its node is unhealthy."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from quartzpy.errors import JobStoreError, SchemaError, StoreUnavailableError
from quartzpy.node.health import HealthState, ProblemTimes, SchedulerHealth, health_of
from quartzpy.node.registration import Epoch
from quartzpy.node.service import Service
from quartzpy.node.supervisor import Supervisor
from quartzpy.store.node_problems import NodeProblem
from quartzpy.store.protocol import Node
from tests.contract.harness import START
from tests.node.test_small_parts import ManualClock

REFUSED = JobStoreError("unexpected error of the database (22008): cannot subtract infinite timestamps")


class Failing(Service):
    """A service whose passes raise `trouble` as long as there is one."""

    trouble: Exception | None = None

    def run_once(self) -> float:
        if self.trouble is not None:
            raise self.trouble
        return 1.0


class Threads:
    """One service under a supervisor, by a clock that is moved."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.service = Failing("node-scheduler", clock=self.clock)
        self.supervisor = Supervisor("supervisor", self.clock, suspended=lambda: 0.0)
        self.supervisor.watch(self.service)

    def passes(self, count: int, trouble: Exception | None, *, every: float = 2.0) -> None:
        self.service.trouble = trouble
        for _ in range(count):
            self.service._guarded_pass()
            self.clock.seconds += every

    def health(self) -> SchedulerHealth:
        epoch = Epoch(Node("node", 1), self.clock, 10_000.0, self.clock.monotonic())
        return health_of(
            instance_id="node",
            epoch=epoch,
            now=self.clock.monotonic(),
            answered_at=None,
            outage=None,
            refusal=None,
            schema=None,
            failure=self.supervisor.failure,
            clock_skew=timedelta(),
            connections=None,
            threads=self.supervisor.threads(),
        )


@pytest.fixture
def threads() -> Threads:
    return Threads()


def test_passes_that_fail_again_and_again_are_a_problem_until_one_succeeds(threads: Threads) -> None:
    threads.passes(3, REFUSED)
    health = threads.health()
    assert health.state is HealthState.UNHEALTHY
    assert health.problems == (
        "thread node-scheduler does none of its work: its last 3 passes failed, the first of them 6 s ago:"
        f" JobStoreError: {REFUSED}",
    )
    # A new process would meet the same rows: it is not asked for.
    health.raise_if_failed()
    threads.passes(1, None)
    assert threads.health().state is HealthState.HEALTHY
    assert threads.health().threads[-1].last_error == f"JobStoreError: {REFUSED}"


def test_a_problem_says_since_when_it_lasts() -> None:
    clock = ManualClock()
    times = ProblemTimes(lambda: START + timedelta(seconds=clock.seconds - 100))
    first = NodeProblem("failing-thread", "its last 3 passes failed", "a")
    other = NodeProblem("failing-thread", "its last 3 passes failed", "b", START - timedelta(hours=1))
    assert [one.since for one in times.dated([first])] == [START]
    clock.seconds += 5.0
    assert [one.since for one in times.dated([replace(first, what="its last 4 passes failed"), other])] == [
        START,
        START - timedelta(hours=1),
    ]
    assert times.dated([]) == []
    assert [one.since for one in times.dated([first])] == [START + timedelta(seconds=5)]


def test_a_few_failures_are_no_problem(threads: Threads) -> None:
    threads.passes(2, REFUSED, every=60.0)
    assert threads.health().state is HealthState.HEALTHY
    threads.passes(1, None)
    threads.passes(2, REFUSED, every=60.0)
    assert threads.health().state is HealthState.HEALTHY


def test_failures_within_a_moment_are_no_problem(threads: Threads) -> None:
    threads.passes(20, REFUSED, every=0.2)
    assert threads.health().state is HealthState.HEALTHY
    threads.passes(10, REFUSED, every=0.2)
    assert threads.health().state is HealthState.UNHEALTHY


@pytest.mark.parametrize(
    ("trouble", "state"),
    [
        # The check-ins tell of an outage, and of its length.
        (StoreUnavailableError("connection refused"), HealthState.HEALTHY),
        (StoreUnavailableError("the server shuts down", sqlstate="57P01"), HealthState.HEALTHY),
        (StoreUnavailableError("canceling statement due to lock timeout", sqlstate="55P03"), HealthState.UNHEALTHY),
        (SchemaError("permission denied for table qrtz_triggers", sqlstate="42501"), HealthState.UNHEALTHY),
        (ValueError("a bug"), HealthState.UNHEALTHY),
    ],
)
def test_which_errors_count(threads: Threads, trouble: Exception, state: HealthState) -> None:
    threads.passes(10, trouble)
    assert threads.health().state is state
