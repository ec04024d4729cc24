"""Jobs on a Dask cluster from end to end: a node, a database, and workers that take tickets."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from quartzpy import Job, RetryPolicy, Scheduler
from quartzpy.states import Outcome
from quartzpy.store.records import ExecutionRecord
from tests.cluster.nodes import Cluster
from tests.database import Server, connect_to, execute
from tests.engines.dask import jobs
from tests.engines.dask.clusters import DaskProcesses
from tests.waiting import wait_until

SETTINGS: dict[str, Any] = {
    "checkin_interval": "500ms",
    "lock_timeout": "1s",
    "failure_window": "20s",
    "engine_window": "8s",
}
"""A node that gets little time does not lose its lease."""


@pytest.fixture
def cluster(new_cluster: Callable[..., DaskProcesses], postgres_dsn: str) -> DaskProcesses:
    """A cluster with one worker that reaches the database of the test."""
    started = new_cluster(environment={"QUARTZPY_WORKER_URL": postgres_dsn})
    started.add_worker()
    return started


@pytest.fixture(scope="module")
def shared(postgres_server: Server, _worker_database: str) -> Iterator[DaskProcesses]:
    """A cluster with two workers that stay."""
    with tempfile.TemporaryDirectory(prefix="quartzpy-dask-") as directory:
        environment = {"QUARTZPY_WORKER_URL": postgres_server.dsn_of(_worker_database)}
        started = DaskProcesses(Path(directory), environment=environment)
        try:
            for _ in range(2):
                started.add_worker()
            yield started
        finally:
            started.close()


@pytest.fixture
def new_node(postgres_dsn: str) -> Iterator[Callable[..., Scheduler]]:
    with ExitStack() as stack:

        def new(cluster: DaskProcesses, **settings: Any) -> Scheduler:
            big = {"big": f"dask:{cluster.address}"}
            return stack.enter_context(Scheduler(postgres_dsn, **{**SETTINGS, "executors": big, **settings}))

        yield new


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """What the jobs write down, and wait for."""
    return {"runs": str(tmp_path / "runs"), "until": str(tmp_path / "go")}


def runs_of(files: dict[str, str]) -> list[str]:
    path = Path(files["runs"])
    return path.read_text().splitlines() if path.exists() else []


def begin(scheduler: Scheduler, job: type[Job], files: dict[str, str], name: str = "a", **values: Any) -> Any:
    handle = scheduler.schedule_job(job, name=name, data=dict(files), executor="big", **values).trigger()
    wait_until(lambda: runs_of(files), "the job to begin", seen=lambda: str(handle.record))
    return handle


def ended(scheduler: Scheduler, least: int) -> list[ExecutionRecord]:
    """The executions that have ended, by attempt, once there are so many."""
    wait_until(lambda: len(list(scheduler.executions())) >= least)
    return sorted(scheduler.executions(), key=lambda execution: execution.attempt)


def test_results_are_those_of_the_workers(
    shared: DaskProcesses, new_node: Callable[..., Scheduler], files: dict[str, str]
) -> None:
    node = new_node(shared)
    handles = [
        node.schedule_job(
            jobs.Computes, name=f"job-{number}", data={**files, "number": number}, executor="big"
        ).trigger()
        for number in range(20)
    ]
    assert [handle.wait("60s").result for handle in handles] == [number**2 for number in range(20)]
    assert len(set(runs_of(files))) == len(runs_of(files)) == 20


def test_progress_and_log_lines_come_back(
    shared: DaskProcesses, new_node: Callable[..., Scheduler], files: dict[str, str]
) -> None:
    node = new_node(shared)
    handle = begin(node, jobs.Tells, files, capture_logs="INFO")

    def progress() -> Any:
        [running] = node.running()
        return running.progress

    wait_until(lambda: progress() == 0.5)
    Path(files["until"]).touch()
    record = handle.wait("30s")
    assert record.result == "told"
    assert "from a worker" in str(record.log)


def test_a_job_whose_worker_is_killed_fails_once_and_its_retry_runs(
    cluster: DaskProcesses, new_node: Callable[..., Scheduler], files: dict[str, str]
) -> None:
    node = new_node(cluster)
    retry = RetryPolicy(attempts=2, delay="100ms")
    begin(node, jobs.Tells, files, retry=retry)
    cluster.add_worker()
    cluster.kill_worker(cluster.workers[0])
    Path(files["until"]).touch()
    failed, succeeded = ended(node, 2)
    assert len(runs_of(files)) == 2, "the second run by Dask itself was refused"
    assert failed.outcome is Outcome.FAILED
    assert "WorkerDiedError" in str(failed.error)
    assert succeeded.result == "told"


def test_a_scheduler_that_starts_again_doubles_nothing(
    cluster: DaskProcesses, new_node: Callable[..., Scheduler], files: dict[str, str]
) -> None:
    node = new_node(cluster)
    begin(node, jobs.Tells, files, retry=RetryPolicy(attempts=2, delay="100ms"))
    cluster.restart_scheduler()
    Path(files["until"]).touch()
    cluster.add_worker()
    # The worker of the old scheduler may come to the end, or end before that.
    wait_until(lambda: any(execution.outcome is Outcome.SUCCEEDED for execution in node.executions()))
    assert len(runs_of(files)) == len(ended(node, 1))


def test_a_job_is_cancelled_by_its_row(
    shared: DaskProcesses, new_node: Callable[..., Scheduler], files: dict[str, str]
) -> None:
    node = new_node(shared)
    handle = begin(node, jobs.Tells, files)
    assert handle.cancel()
    assert handle.wait("30s").outcome is Outcome.CANCELLED


def test_writes_after_the_timeout_are_refused(
    shared: DaskProcesses,
    new_node: Callable[..., Scheduler],
    files: dict[str, str],
    postgres_dsn: str,
    time_is_up: threading.Event,
) -> None:
    submission = "SELECT submission FROM qrtz_fired_triggers"
    with connect_to(postgres_dsn) as connection:
        connection.execute("CREATE TABLE written (fire_id bigint)")
        try:
            handle = begin(new_node(shared), jobs.Writes, files, timeout="1s")
            begun = execute(postgres_dsn, submission)
            time_is_up.set()
            wait_until(lambda: execute(postgres_dsn, submission) != begun, "the submission to be made void")
            Path(files["until"]).touch()
            record = handle.wait("30s")
            assert record.outcome is not Outcome.SUCCEEDED
            assert "JobTimeoutError" in str(record.error)
            assert connection.execute("SELECT * FROM written").fetchall() == []
        finally:
            connection.execute("DROP TABLE written")


def test_an_execution_outlives_its_node(
    shared: DaskProcesses, files: dict[str, str], postgres_dsn: str, tmp_path: Path
) -> None:
    big = {"big": f"dask:{shared.address}"}
    settings = {**SETTINGS, "executors": big, "job_modules": [jobs.__name__]}
    nodes = Cluster(postgres_dsn, tmp_path, **settings)
    try:
        nodes.start("first")
        handle = begin(nodes.client, jobs.Outlives, files)
        nodes.start("second")
        nodes.kill("first")
        nodes.expire("first")
        wait_until(lambda: [running.instance_id for running in nodes.client.running()] == ["second"], seen=nodes.logs)
        Path(files["until"]).touch()
        record = handle.wait("30s")
        assert record.result == "told", f"{record.error}\n{nodes.logs()}"
        assert len(runs_of(files)) == 1
    finally:
        nodes.stop()
