"""Nobody who is well is declared dead, and a node says how it is."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, Scheduler, SimpleTrigger
from quartzpy.clock import SystemClock
from quartzpy.errors import InstanceIdInUseError, NodeUnhealthyError, QuartzpyError
from quartzpy.records import HealthState
from quartzpy.states import Outcome
from tests.database import connect_to
from tests.proxy import Proxy
from tests.waiting import wait_until

WINDOW = 2.0
SETTINGS: dict[str, Any] = {
    "name": "liveness",
    "checkin_interval": "300ms",
    "lock_timeout": "300ms",
    "failure_window": timedelta(seconds=WINDOW),
    "idle_wait": "1s",
    "start_timeout": "60s",
}
LEASE = 0.75 * WINDOW
over = threading.Event()
seen: list[Any] = []


class Waiting(Job):
    """Says since when its lease is lost."""

    def execute(self, context: JobExecutionContext) -> None:
        seen.append("began")
        while not over.wait(0.02):
            if context.lease_lost and "lost" not in seen:
                seen.extend(["lost", time.monotonic()])


class Hammering(Job):
    """Calls the scheduler again and again for a row that somebody holds."""

    def execute(self, context: JobExecutionContext) -> None:
        while not over.is_set():
            try:
                context.scheduler.delete_job(JobKey("held", "DEFAULT"))
            except QuartzpyError:
                seen.append("waited in vain")


class Told(Job):
    def execute(self, context: JobExecutionContext) -> None:
        seen.append((context.scheduled_fire_time, SystemClock().now()))


class Idle(Job):
    def execute(self, context: JobExecutionContext) -> None: ...


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    over.clear()
    seen.clear()
    yield
    over.set()


@pytest.fixture
def make(postgres_dsn: str, proxy: Proxy) -> Iterator[Callable[..., Scheduler]]:
    """Schedulers, shut down while the network still stands."""
    made: list[Scheduler] = []

    def make(instance_id: str, dsn: str = postgres_dsn, **settings: Any) -> Scheduler:
        made.append(Scheduler(dsn, instance_id=instance_id, **{**SETTINGS, **settings}))
        return made[-1]

    yield make
    over.set()
    proxy.heal()
    for scheduler in made:
        scheduler.shutdown(timeout=timedelta(seconds=60), interrupt=True)


def epochs(scheduler: Scheduler) -> dict[str, int]:
    return {node.instance_id: node.epoch for node in scheduler.nodes().nodes}


def stay_the_same(observer: Scheduler, before: dict[str, int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert epochs(observer) == before, "a healthy node was declared dead"
        time.sleep(0.1)


# --- verdicts


def test_a_slow_import_of_a_job_module_does_not_make_a_node_look_dead(
    make: Callable[..., Scheduler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect: psycopg.Connection[Any]
) -> None:
    (tmp_path / "slow_jobs_of_liveness.py").write_text(
        f"import time; time.sleep({2 * WINDOW})\nfrom quartzpy import Job\n"
        "class Slow(Job):\n    def execute(self, context): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    a, b = make("a", job_modules=("slow_jobs_of_liveness",)), make("b")
    a.start()
    b.start()
    before = epochs(b)
    b.schedule_job(JobDetail(Idle, "job"), SimpleTrigger("t", start_time=datetime.now(UTC) + timedelta(hours=1)))
    for table in ("qrtz_job_details", "qrtz_triggers"):
        connect.execute(f"UPDATE {table} SET job_type = 'slow_jobs_of_liveness:Slow'")
    wait_until(lambda: "slow_jobs_of_liveness" in sys.modules, "the import to begin")
    stay_the_same(b, before, 1.5 * WINDOW)


def test_forty_jobs_that_wait_for_a_locked_row_do_not_make_a_node_look_dead(
    make: Callable[..., Scheduler], connect: psycopg.Connection[Any]
) -> None:
    a, b = make("a", workers=40, pool_size=3), make("b", workers=0)
    a.schedule_job(
        JobDetail(Idle, "held", durable=True),
        SimpleTrigger("held", start_time=datetime.now(UTC) + timedelta(hours=1)),
    )
    connect.execute("BEGIN")
    connect.execute("SELECT FROM qrtz_job_details FOR UPDATE")
    connect.execute("SELECT FROM qrtz_triggers FOR UPDATE")
    a.start()
    b.start()
    before = epochs(b)
    b.schedule_job(JobDetail(Hammering, "hammering"), [SimpleTrigger(f"t{n}") for n in range(40)])
    wait_until(lambda: len(a.currently_executing_jobs()) == 40, "all to run")
    stay_the_same(b, before, 2 * WINDOW)
    assert "waited in vain" in seen
    over.set()
    connect.execute("ROLLBACK")


def test_connections_lost_in_the_network_do_not_make_a_node_look_dead(
    make: Callable[..., Scheduler], postgres_dsn: str, proxy: Proxy
) -> None:
    a, b = make("a", proxy.through(postgres_dsn)), make("b")
    a.start()
    b.start()
    wait_until(lambda: (a.health().checkin_age or timedelta(9)) < timedelta(seconds=0.3), "a check-in")
    before = epochs(b)
    proxy.swallow()
    stay_the_same(b, before, 2 * WINDOW)
    assert a.health().lease_left


def test_a_node_of_short_windows_leaves_one_of_long_ones_alone(make: Callable[..., Scheduler]) -> None:
    patient = make("patient", checkin_interval="10s", failure_window="60s", lock_timeout="5s")
    hasty = make("hasty")
    patient.start()
    hasty.start()
    stay_the_same(hasty, epochs(hasty), 2.5 * WINDOW)


def test_a_second_node_with_the_same_name_is_refused_and_the_first_continues(make: Callable[..., Scheduler]) -> None:
    first, second = make("a"), make("a")
    first.start()
    before = epochs(first)
    with pytest.raises(InstanceIdInUseError, match="choose another"):
        second.start()
    stay_the_same(first, before, 1.0)


# --- clocks


class WrongClock(SystemClock):
    """Its wall is an hour wrong; its steady clock is the machine's."""

    def __init__(self, off: timedelta) -> None:
        self._off = off

    def now(self) -> datetime:
        return super().now() + self._off


def test_nodes_whose_clocks_are_an_hour_wrong_fire_at_the_right_instants(
    make: Callable[..., Scheduler],
) -> None:
    client = make("client")
    for name, hours in (("ahead", 1), ("behind", -1)):
        node = make(name, workers=2)
        # Before it is started, and with it its node: nothing has taken the clock from it yet.
        node._clock = WrongClock(timedelta(hours=hours))
        node.start()
    before = epochs(client)
    assert len(before) == 2
    begin = SystemClock().now() + timedelta(seconds=1)
    interval = timedelta(milliseconds=250)
    client.schedule_job(
        JobDetail(Told, "told"), SimpleTrigger("t", start_time=begin, interval=interval, repeat_count=15)
    )
    stay_the_same(client, before, 2 * WINDOW)
    wait_until(lambda: len(seen) == 16, "all to run")
    assert sorted(planned for planned, _ in seen) == [begin + n * interval for n in range(16)]
    assert all(timedelta(seconds=-0.01) < at - planned < timedelta(seconds=30) for planned, at in seen)
    assert not client.misfires()


# --- the lease


def test_a_job_sees_that_the_lease_ran_out_by_the_nodes_own_clock(
    make: Callable[..., Scheduler], postgres_dsn: str, proxy: Proxy
) -> None:
    a = make("a", proxy.through(postgres_dsn))
    a.schedule_job(JobDetail(Waiting, "waiting"), SimpleTrigger("t"))
    a.start()
    wait_until(lambda: seen, "the job")
    proxy.black_hole()
    cut_at = time.monotonic()
    wait_until(lambda: "lost" in seen, "the job to see it")
    assert seen[2] - cut_at < LEASE + 20, "long before the database answers"
    assert a.health().lease_left == timedelta()
    proxy.heal()
    wait_until(lambda: a.health().lease_left, "the lease: nobody else was there to take over")


# --- an outage, and stopping in one


def test_an_outage_is_two_lines_of_log_and_both_are_true(
    make: Callable[..., Scheduler], postgres_dsn: str, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    a = make("a", proxy.through(postgres_dsn))
    a.start()
    wait_until(lambda: a.health().checkin_age is not None, "the first check-in")
    caplog.clear()
    proxy.refuse()
    wait_until(lambda: (a.health().outage or timedelta()) > timedelta(seconds=2 * WINDOW), "a long outage")
    [began] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "the database is unavailable" in began.getMessage()
    assert a.health().state is HealthState.UNHEALTHY
    proxy.admit()
    wait_until(lambda: a.health().outage is None, "the end")
    wait_until(lambda: a.health().state is HealthState.HEALTHY, "health")
    time.sleep(0.5)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == 2, lines
    assert "the database is back after" in lines[1]


def test_a_drain_in_a_black_hole_ends_by_its_limit(
    make: Callable[..., Scheduler], postgres_dsn: str, proxy: Proxy
) -> None:
    a = make("a", proxy.through(postgres_dsn), statement_timeout="30s", lock_timeout="500ms")
    a.schedule_job(JobDetail(Waiting, "waiting"), SimpleTrigger("t"))
    a.start()
    wait_until(lambda: seen, "the job")
    proxy.black_hole()
    time.sleep(1.5)  # until its threads wait for answers
    began = time.monotonic()
    assert not a.shutdown(timeout=timedelta(seconds=2))
    assert time.monotonic() - began < 20, "less than one statement_timeout"
    proxy.heal()


# --- health


@pytest.fixture(params=["memory", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    return "memory://" if request.param == "memory" else request.getfixturevalue("postgres_dsn")


def test_a_scheduler_says_how_it_is(make: Callable[..., Scheduler], url: str) -> None:
    scheduler = make("a", url)
    assert scheduler.health().state is HealthState.STOPPED
    scheduler.start()
    wait_until(lambda: scheduler.health().checkin_age is not None, "the first check-in")
    health = scheduler.health()
    assert (health.state, health.problems, health.outage) == (HealthState.HEALTHY, (), None)
    assert health.instance_id == "a"
    assert health.epoch == scheduler.nodes().nodes[0].epoch
    assert health.lease_left is not None
    assert timedelta() < health.lease_left <= timedelta(seconds=LEASE)
    assert (health.connections is None) == url.startswith("memory")
    names = {thread.name.removeprefix("quartzpy-a-") for thread in health.threads}
    assert {"check-in", "cluster-manager", "scheduler", "completer", "misfire-handler", "worker"} <= names
    assert {"supervisor", "event-loop", "deadlines", "notifications"} <= names
    assert all(thread.alive and not thread.restarts for thread in health.threads)
    health.raise_if_failed()
    scheduler.shutdown()
    assert scheduler.health().state is HealthState.STOPPED


def kill(scheduler: Scheduler, name: str) -> None:
    """End a thread of a node by SystemExit in its next pass, and wait until it runs again."""
    node = scheduler._node
    assert node is not None
    service = next(one for one in node.parts.services() if one.name.endswith(name))
    passes = service._guarded_pass

    def die() -> float:
        service._guarded_pass = passes  # type: ignore[method-assign]
        raise SystemExit(1)

    service._guarded_pass = die  # type: ignore[method-assign]
    service.wakeup.set()
    wait_until(lambda: any(one.name == service.name and one.restarts for one in scheduler.health().threads), name)
    wait_until(lambda: scheduler.health().state is HealthState.HEALTHY, "health")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_of_a_node_that_is_killed_comes_back(make: Callable[..., Scheduler], url: str) -> None:
    scheduler = make("a", url)
    scheduler.start()
    names = ["check-in", "cluster-manager", "scheduler", "completer", "misfire-handler", "notifications"]
    for number, name in enumerate(names, 1):
        kill(scheduler, name)
        scheduler.schedule_job(JobDetail(Told, f"told-{number}"), SimpleTrigger(f"t{number}"))
        assert scheduler.wait_until_recorded(number, timedelta(seconds=20)), f"no job ran after the death of {name}"
        assert {one.outcome for one in scheduler.executions()} == {Outcome.SUCCEEDED}
    stay_the_same(scheduler, epochs(scheduler), LEASE)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_health_check_reports_a_thread_that_cannot_be_kept_alive(make: Callable[..., Scheduler]) -> None:
    scheduler = make("a", "memory://")
    scheduler.start()
    node = scheduler._node
    assert node is not None
    node.parts.misfires._guarded_pass = lambda: exec("raise SystemExit(1)")  # type: ignore[assignment,return-value]
    node.parts.misfires.wakeup.set()
    wait_until(lambda: scheduler.health().state is HealthState.FAILED, "the verdict")
    with pytest.raises(NodeUnhealthyError, match="misfire-handler ended 6 times within 60 s"):
        scheduler.health().raise_if_failed()


@pytest.fixture
def connect(postgres_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with connect_to(postgres_dsn) as connection:
        yield connection
