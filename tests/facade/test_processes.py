"""Jobs on an executor of processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import JobDetail, RetryPolicy, Scheduler, SimpleTrigger
from quartzpy.errors import InvalidValueError
from quartzpy.events.events import JobWasExecuted
from quartzpy.states import Outcome
from tests.facade import jobs, process_jobs

SOON = timedelta(seconds=30)


@pytest.fixture
def scheduler(make_scheduler: Callable[..., Scheduler]) -> Iterator[Scheduler]:
    running = make_scheduler(executors={"cpu": "processes:2"})
    running.start()
    yield running
    running.shutdown(timeout=timedelta(seconds=60))


def run(scheduler: Scheduler, job: Any, executions: int = 1, **values: Any) -> None:
    scheduler.schedule_job(JobDetail(job, "job", executor="cpu", **values), SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(executions, SOON)


def test_a_job_runs_in_another_process_and_listeners_have_its_result(scheduler: Scheduler) -> None:
    results: list[Any] = []
    scheduler.listeners.add_listener(lambda event: results.append(event.context.result), JobWasExecuted)
    run(scheduler, process_jobs.Computing)
    assert len(results) == 1
    assert isinstance(results[0], int)
    assert results[0] != os.getpid()


def test_one_that_ignores_its_timeout_is_killed(scheduler: Scheduler) -> None:
    run(scheduler, process_jobs.DeafForever, timeout=timedelta(seconds=1))
    [execution] = scheduler.executions()
    assert execution.outcome is Outcome.FAILED
    assert "took longer than its timeout of 0:00:01" in (execution.error or "")


def test_one_that_is_cancelled_and_ignores_it_is_killed(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(process_jobs.DeafForever, "job", executor="cpu"), SimpleTrigger("t"))
    while not (running := [row for row in scheduler.running() if row.state == "EXECUTING"]):
        assert jobs.nothing_ran(0.05)
    assert scheduler.cancel(str(running[0].fire_id))
    assert scheduler.wait_until_recorded(1, SOON)
    assert scheduler.executions()[0].outcome is Outcome.CANCELLED


def test_an_execution_whose_process_dies_has_failed_and_is_retried(scheduler: Scheduler) -> None:
    run(scheduler, process_jobs.Dying, 2, retry=RetryPolicy(delay=timedelta(milliseconds=10)))
    last, first = scheduler.executions()
    assert (first.outcome, last.outcome) == (Outcome.FAILED, Outcome.SUCCEEDED)
    assert "SIGKILL" in (first.error or "")


def test_what_runs_when_the_node_shuts_down_is_cut_off(make_scheduler: Callable[..., Scheduler]) -> None:
    scheduler = make_scheduler(executors={"cpu": "processes:1"})
    scheduler.start()
    scheduler.schedule_job(JobDetail(process_jobs.DeafForever, "job", executor="cpu"), SimpleTrigger("t"))
    while not any(row.state == "EXECUTING" for row in scheduler.running()):
        assert jobs.nothing_ran(0.05)
    assert not scheduler.shutdown(timeout=timedelta(milliseconds=100))


def test_a_factory_that_no_process_can_be_given_is_refused_at_the_start(url: str) -> None:
    scheduler = Scheduler(url, **jobs.arguments(executors={"cpu": "processes:1"}), job_factory=lambda cls: cls())
    with pytest.raises(InvalidValueError, match="job_factory: with process workers it must be picklable"):
        scheduler.start()
