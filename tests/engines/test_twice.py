"""A node with an engine that runs each call twice: jobs run once, and what their workers write is what is recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import Job, JobDetail, Scheduler
from quartzpy.config import engine_names
from quartzpy.node.engines import worker
from quartzpy.scheduler.methods.handles import TriggeredExecution
from quartzpy.states import Outcome
from quartzpy.store.records import ExecutionRecord
from tests.engines import repeating
from tests.engines import worker_jobs as jobs
from tests.waiting import LIMIT, wait_until

LONG = timedelta(seconds=60)


@pytest.fixture
def scheduler(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    monkeypatch.setitem(engine_names.OURS, "repeating", "tests.engines.repeating:engine")
    monkeypatch.setattr(repeating, "MUTE", [])
    with Scheduler(
        postgres_dsn,
        executors={"big": "repeating:4:anywhere"},
        checkin_interval="500ms",
        failure_window="10s",
        engine_window="10s",
    ) as scheduler:
        scheduler.start()
        yield scheduler


def triggered(scheduler: Scheduler, job_class: type[Job], **options: Any) -> TriggeredExecution:
    detail = JobDetail(job_class, "job", durable=True, executor="big", **options)
    scheduler.add_job(detail, replace=True)
    return scheduler.trigger_job("job")


def fire_id_of(execution: TriggeredExecution) -> int:
    record = wait_until(lambda: (found := execution.record) and found.fire_id and found)
    assert isinstance(record, ExecutionRecord)
    assert record.fire_id is not None
    assert jobs.AT[record.fire_id].wait(LIMIT)
    return record.fire_id


def is_void(fire_id: int) -> bool:
    return any(job.fire_id == fire_id and job.lease_lost for job in worker._process._running)


def test_each_of_many_jobs_runs_once(scheduler: Scheduler) -> None:
    scheduler.add_job(JobDetail(jobs.Adds, "job", durable=True, executor="big", data={"a": 2, "b": 3}))
    records = [execution.wait(LONG) for execution in [scheduler.trigger_job("job") for _ in range(20)]]
    assert {record.outcome for record in records} == {Outcome.SUCCEEDED}
    assert {record.result_text for record in records} == {'{"sum": 5}'}
    for record in records:
        assert record.fire_id is not None
        assert jobs.RUNS.count(record.fire_id) == 1


def test_the_rows_tell_the_end_of_calls_whose_answers_are_lost(scheduler: Scheduler) -> None:
    repeating.MUTE.append(True)
    assert triggered(scheduler, jobs.Adds, data={"a": 2, "b": 3}).wait(LONG).outcome is Outcome.SUCCEEDED


def test_log_lines_and_progress_of_a_worker_are_those_of_the_execution(scheduler: Scheduler) -> None:
    execution = triggered(scheduler, jobs.Reports, capture_logs="INFO", data={"lines": 1})
    fire_id = fire_id_of(execution)
    [running] = wait_until(lambda: [row for row in scheduler.running() if row.progress])
    assert running.progress_message == "a quarter"
    jobs.GO[fire_id].set()
    log = execution.wait(LONG).log or ""
    assert "began" in log
    assert "line 0" in log


def test_a_request_to_stop_cancels_the_job(scheduler: Scheduler) -> None:
    execution = triggered(scheduler, jobs.WaitsToStop)
    fire_id_of(execution)
    assert execution.cancel()
    assert execution.wait(LONG).outcome is Outcome.CANCELLED


@pytest.mark.parametrize("timeout", [None, timedelta(seconds=1)])
def test_what_a_job_has_committed_is_its_end_whatever_comes_later(
    scheduler: Scheduler, saved: Callable[[], list[int]], time_is_up: threading.Event, timeout: timedelta | None
) -> None:
    execution = triggered(scheduler, jobs.Commits, data={"fails": True}, timeout=timeout)
    fire_id = fire_id_of(execution)
    time_is_up.set()
    if timeout is not None:
        execution.wait(LONG)
    jobs.GO[fire_id].set()
    record = execution.wait(LONG)
    assert record.outcome is Outcome.SUCCEEDED
    assert record.result_text == '"committed"'
    assert saved() == [fire_id]
    assert scheduler.job("job").detail.data == {"fails": True, "committed": True}


def test_what_a_job_writes_after_its_timeout_is_refused(
    scheduler: Scheduler, saved: Callable[[], list[int]], time_is_up: threading.Event
) -> None:
    execution = triggered(scheduler, jobs.WritesFenced, timeout=timedelta(seconds=1))
    fire_id = fire_id_of(execution)
    time_is_up.set()
    # Nothing can end it, so its submission is made void.
    wait_until(lambda: is_void(fire_id))
    jobs.GO[fire_id].set()
    assert execution.wait(LONG).outcome is Outcome.FAILED
    assert saved() == [fire_id]
