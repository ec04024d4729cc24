"""What a job does to its process costs its own execution, and nothing else."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import pytest

from quartzpy import JobDetail, Scheduler, SimpleTrigger
from quartzpy.config.pools import ExecutorConfig, ExecutorKind
from quartzpy.errors import SettingsError
from quartzpy.node.engines import processes
from quartzpy.states import Outcome
from tests.facade import poison
from tests.waiting import wait_until

SOON = timedelta(seconds=60)


@pytest.fixture
def url() -> str:
    return "memory://"


@pytest.fixture
def scheduler(make_scheduler: Callable[..., Scheduler]) -> Scheduler:
    running = make_scheduler(executors={"cpu": "processes:1:512MB"})
    running.start()
    return running


def outcomes(scheduler: Scheduler, executions: int) -> list[tuple[str, Outcome, str]]:
    assert scheduler.wait_until_recorded(executions, SOON), scheduler.executions()
    return [(one.job_key.name, one.outcome, one.error or "") for one in reversed(scheduler.executions())]


def all_is_free(scheduler: Scheduler) -> bool:
    node = scheduler._node
    assert node is not None
    return node.parts.executors.wait_until_idle(lambda: 20.0) and not scheduler.running()


def then_fine(scheduler: Scheduler, executions: int) -> None:
    """The one process there is has been replaced."""
    scheduler.schedule_job(JobDetail(poison.Fine, "fine", executor="cpu"), SimpleTrigger("fine"))
    assert outcomes(scheduler, executions + 1)[-1] == ("fine", Outcome.SUCCEEDED, "")
    assert all_is_free(scheduler)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (poison.Exits, "the worker process ended with exit code 9"),
        (poison.Allocates, "MemoryError: out of memory: this executor's processes have a memory_limit of 512 MB"),
    ],
)
def test_a_poison_process(scheduler: Scheduler, kind: Any, says: str) -> None:
    scheduler.schedule_job(poison.detail(kind, executor="cpu"), SimpleTrigger("once"))
    [(_, outcome, error)] = outcomes(scheduler, 1)
    assert outcome is Outcome.FAILED
    assert says in error
    then_fine(scheduler, 1)


@pytest.mark.parametrize("how", ["killed", "interrupted"])
def test_a_process_that_is_killed_after_it_forked(scheduler: Scheduler, how: str, tmp_path: Path) -> None:
    written = tmp_path / "forked"
    job = poison.detail(poison.Forks, executor="cpu", data={"how": how, "forked": str(written)})
    scheduler.schedule_job(job, SimpleTrigger("once"))
    wait_until(lambda: written.exists() and written.read_text() != "")
    forked = int(written.read_text())
    if how == "interrupted":
        assert scheduler.interrupt(job.key)
    [(_, outcome, error)] = outcomes(scheduler, 1)
    assert outcome is (Outcome.FAILED if how == "killed" else Outcome.CANCELLED)
    assert "signal SIGKILL" in error or how == "interrupted"
    wait_until(lambda: has_ended(forked))
    then_fine(scheduler, 1)


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_an_async_function_behind_a_plain_one_is_run_in_a_process(scheduler: Scheduler) -> None:
    scheduler.schedule_job(poison.detail(poison.WrappedInProcess, executor="cpu"), SimpleTrigger("once"))
    assert outcomes(scheduler, 1) == [("poison", Outcome.SUCCEEDED, "")]
    [execution] = scheduler.executions()
    assert execution.result == "awaited"


def test_an_execution_waits_for_a_process_that_cannot_be_started(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = []
    start = SpawnProcess.start

    def refused(process: SpawnProcess) -> None:
        tries.append(process)
        if len(tries) <= 2:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        start(process)

    monkeypatch.setattr(processes, "START_AGAIN_AFTER", 0.01)
    monkeypatch.setattr(SpawnProcess, "start", refused)
    then_fine(scheduler, 0)
    assert len(tries) == 3
    assert caplog.text.count("a worker process cannot be started") == 1
    assert "worker processes can be started again" in caplog.text


@pytest.mark.parametrize(
    ("kind", "limit", "says"),
    [
        ("processes", "lots", "memory_limit must be a number of bytes, or a string such as 512MB or 2GB (got 'lots')"),
        ("processes", 0, "memory_limit must be a number of bytes, or a string such as 512MB or 2GB (got 0)"),
        ("processes", "1MB", "memory_limit must be at least 128MB"),
        ("threads", "512MB", "memory_limit applies to processes only"),
    ],
)
def test_a_wrong_limit_is_refused(kind: str, limit: Any, says: str) -> None:
    with pytest.raises(SettingsError, match="executors: ") as refused:
        ExecutorConfig(kind, 2, limit)
    assert says in str(refused.value)


def test_a_limit_is_given_as_a_text() -> None:
    assert ExecutorConfig.of("processes:4:2GB") == ExecutorConfig(ExecutorKind.PROCESSES, 4, 2 * 2**30)
    with pytest.raises(SettingsError, match="memory_limit"):
        ExecutorConfig.of("processes:4:")
