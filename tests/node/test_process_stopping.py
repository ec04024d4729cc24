"""Stopping jobs in child processes, and the ends of the processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from quartzpy import JobDetail
from quartzpy.errors import (
    JobCancelledError,
    JobTimeoutError,
    SchedulerStateError,
    WorkerDiedError,
)
from quartzpy.job_data import decode
from quartzpy.jobs.job import new_instance
from quartzpy.node.engines import runs
from quartzpy.node.engines.child_process import serve
from quartzpy.node.engines.process_messages import BEGUN, DONE, READY, RUN, STOP, fired_to_json, pack, unpack
from quartzpy.node.engines.runs import KILL_AFTER, EngineRuns
from quartzpy.states import Outcome
from tests.node import process_jobs as jobs
from tests.node.processes import begun, ended, execution_of, is_there, pid_said, workers


@pytest.fixture(autouse=True)
def _a_child_has_time_to_obey(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a job that obeys is not always that quick."""
    monkeypatch.setattr(runs, "KILL_AFTER", 60.0)


# --- stopping


@pytest.mark.parametrize("raises", [True, False])
def test_a_job_that_obeys_a_request_to_stop_is_cancelled(
    shared: EngineRuns, fifo: Callable[[str], str], raises: bool
) -> None:
    path = fifo("begun")
    execution = execution_of(jobs.Waits, begun=path, raises=raises)
    runner = begun(shared, execution)
    pid = pid_said(path)
    execution.stop()
    found = runner.end()
    assert found.completion.outcome is Outcome.CANCELLED
    assert found.told.context.result == (None if raises else "lease lost: False")
    assert ended(shared, execution_of(jobs.Pid)).result == pid


def test_a_request_to_stop_that_comes_before_the_child_has_the_task_is_obeyed_too(fifo: Callable[[str], str]) -> None:
    own = workers(1)
    path, go_on = fifo("begun"), fifo("go-on")
    first = begun(own, execution_of(jobs.Holds, begun=path, go_on=go_on))
    pid = pid_said(path)
    # It waits for the one child.
    waiting = execution_of(jobs.Waits, begun="nowhere")
    second = begun(own, waiting)
    waiting.stop()
    assert second.end().completion.outcome is Outcome.CANCELLED
    Path(go_on).write_text("")
    assert first.end().result == pid
    own.close(5)


def test_a_lost_lease_is_visible_in_the_child(shared: EngineRuns, fifo: Callable[[str], str]) -> None:
    path = fifo("begun")
    execution = execution_of(jobs.Waits, begun=path)
    runner = begun(shared, execution)
    pid_said(path)
    execution.epoch.lose()
    execution.stop()
    assert runner.end().told.context.result == "lease lost: True"


def test_a_request_to_stop_that_comes_late_does_not_stop_the_next_execution(fifo: Callable[[str], str]) -> None:
    path = fifo("begun")
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=serve, args=(theirs, new_instance, 65_536), daemon=True)
    process.start()
    theirs.close()
    fired = execution_of(jobs.Waits, begun=path).fired
    ours.send_bytes(pack(RUN, fired=fired_to_json(fired, jobs.Waits), refire_count=0, instance_id="n1"))
    pid_said(path)
    ours.send_bytes(pack(STOP, fire_id=fired.fire_id - 1, cut_off_after=0.0, lease_lost=True))
    ours.send_bytes(pack(STOP, fire_id=fired.fire_id, cut_off_after=0.0, lease_lost=False))
    said = [unpack(ours.recv_bytes()) for _ in range(3)]
    assert [kind for kind, _ in said] == [READY, BEGUN, DONE]
    assert decode(said[-1][1]["result"]) == {"result": "lease lost: False"}
    ours.close()
    process.join()
    assert process.exitcode == 0


def test_an_async_job_is_cancelled_at_its_next_await(shared: EngineRuns, fifo: Callable[[str], str]) -> None:
    path = fifo("begun")
    execution = execution_of(jobs.WaitsAsync, begun=path)
    runner = begun(shared, execution)
    pid = pid_said(path)
    execution.stop()
    found = runner.end()
    assert found.completion.outcome is Outcome.CANCELLED
    assert type(found.error) is asyncio.CancelledError
    assert ended(shared, execution_of(jobs.Pid)).result == pid


def test_a_job_that_ignores_the_request_is_killed_and_the_next_has_another_child(
    shared: EngineRuns, fifo: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "KILL_AFTER", KILL_AFTER)
    path = fifo("begun")
    execution = execution_of(jobs.Stubborn, begun=path)
    runner = begun(shared, execution)
    pid = pid_said(path)
    asked_at = time.monotonic()
    execution.stop()
    found = runner.end()
    assert KILL_AFTER <= time.monotonic() - asked_at < KILL_AFTER + 30
    assert found.completion.outcome is Outcome.CANCELLED
    assert "its process was killed" in str(found.error)
    assert not is_there(pid)
    assert ended(shared, execution_of(jobs.Pid)).result != pid


def test_a_job_that_takes_longer_than_its_timeout_has_failed(shared: EngineRuns, fifo: Callable[[str], str]) -> None:
    path = fifo("begun")
    data = {"begun": path, "raises": True}
    # The time to start a child counts. If it has passed before the job begins, nobody ever writes to the fifo.
    ended(shared, execution_of(jobs.Pid))
    runner = begun(shared, execution_of(JobDetail(jobs.Waits, "job", data=data, timeout=timedelta(seconds=3))))
    pid_said(path)
    found = runner.end()
    assert found.completion.outcome is Outcome.FAILED
    assert isinstance(found.error, JobTimeoutError)
    assert isinstance(found.error.__cause__, JobCancelledError)


def test_a_child_ignores_signals_but_programs_that_a_job_starts_do_not(shared: EngineRuns) -> None:
    assert ended(shared, execution_of(jobs.TakesSignals)).result == [-signal.SIGTERM]


def test_a_signal_does_not_end_a_child_that_is_still_being_started() -> None:
    own = workers()
    before = multiprocessing.active_children()
    runner = begun(own, execution_of(jobs.Pid))
    while not (starting := [child for child in multiprocessing.active_children() if child not in before]):
        time.sleep(0.001)
    os.kill(starting[0].pid or 0, signal.SIGINT)
    assert runner.end().result == starting[0].pid
    own.close(5)


# --- the ends of children


@pytest.mark.parametrize(
    ("how", "said"),
    [("exit", "exit code 3"), ("kill", "signal SIGKILL")],
)
def test_an_execution_whose_process_ends_has_failed(shared: EngineRuns, how: str, said: str) -> None:
    found = ended(shared, execution_of(jobs.Dies, how=how))
    assert found.completion.outcome is Outcome.FAILED
    assert isinstance(found.error, WorkerDiedError)
    assert str(found.error) == f"the worker process ended with {said}"
    assert ended(shared, execution_of(jobs.Echo, value=how)).result == how


def test_the_death_of_an_idle_child_fails_no_execution(shared: EngineRuns) -> None:
    pid = ended(shared, execution_of(jobs.Pid)).result
    os.kill(pid, signal.SIGKILL)
    assert ended(shared, execution_of(jobs.Pid)).result != pid


def test_two_jobs_run_at_once_and_the_child_that_was_used_last_is_used_first(fifo: Callable[[str], str]) -> None:
    own = workers(2)
    paths = [(fifo(f"begun-{n}"), fifo(f"go-on-{n}")) for n in range(2)]
    runners = [begun(own, execution_of(jobs.Holds, begun=begin, go_on=go_on)) for begin, go_on in paths]
    pids = [pid_said(begin) for begin, _ in paths]
    assert len(set(pids)) == 2
    for runner, (_, go_on), pid in zip(runners, paths, pids, strict=True):
        Path(go_on).write_text("")
        assert runner.end().result == pid
    assert ended(own, execution_of(jobs.Pid)).result == pids[-1]
    own.close(5)
    assert not any(map(is_there, pids))


def test_there_are_no_more_children_than_slots(fifo: Callable[[str], str]) -> None:
    own = workers(1)
    begin, go_on = fifo("begun"), fifo("go-on")
    first = begun(own, execution_of(jobs.Holds, begun=begin, go_on=go_on))
    pid = pid_said(begin)
    second = begun(own, execution_of(jobs.Pid))
    Path(go_on).write_text("")
    assert first.end().result == second.end().result == pid
    own.close(5)


def test_close_asks_jobs_to_stop_and_then_kills_them(fifo: Callable[[str], str]) -> None:
    own = workers(2)
    paths = [fifo("obedient"), fifo("stubborn")]
    obedient = begun(own, execution_of(jobs.Waits, begun=paths[0]))
    stubborn = begun(own, execution_of(jobs.Stubborn, begun=paths[1]))
    pids = [pid_said(path) for path in paths]
    own.close(0.5)
    assert not any(map(is_there, pids))
    assert obedient.end().completion.outcome is Outcome.CANCELLED
    assert isinstance(stubborn.end().error, JobCancelledError)
    assert isinstance(ended(own, execution_of(jobs.Pid)).error, SchedulerStateError)


def test_closing_an_unused_pool_does_nothing() -> None:
    workers().close(5)
