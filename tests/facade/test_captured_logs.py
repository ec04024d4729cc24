"""`capture_logs`: the log lines of an execution are kept with its record in the history."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, RetryPolicy, Scheduler, SimpleTrigger, at, job
from quartzpy.errors import ExecutionNotFoundError, InvalidValueError, JobExecutionError
from quartzpy.states import Outcome
from quartzpy.testing.scheduler import SchedulerHarness
from tests.facade import process_jobs

SOON = timedelta(seconds=20)
logger = logging.getLogger("program")
began = threading.Event()


@pytest.fixture(autouse=True)
def _levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    began.clear()


@pytest.fixture
def url() -> str:
    """Use the memory store: the contract of the stores has the storing of log lines."""
    return "memory://"


class Logs(Job):
    """Logs, and then does what its data says."""

    def execute(self, context: JobExecutionContext) -> None:
        logger.info("attempt %d", context.attempt)
        data = context.job_data
        if "refires" in data and context.refire_count < data["refires"]:
            raise JobExecutionError("again", refire_immediately=True)
        if data.get("fails"):
            raise ValueError("wrong")
        if data.get("waits"):
            began.set()
            context.wait_cancelled(20)
            logger.info("asked to stop")
            context.raise_if_cancelled()
        if data.get("commits"):
            with context.transaction():
                logger.info("in the transaction")
            logger.info("too late")


class LogsAsync(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        for step in range(20):
            await asyncio.create_task(self._log(context.job_data["number"], step))

    async def _log(self, number: int, step: int) -> None:
        logger.info("%d %d", number, step)
        await asyncio.sleep(0)


def run(scheduler: Scheduler, job_class: Any, executions: int = 1, **values: Any) -> None:
    values = {"capture_logs": "INFO", **values}
    scheduler.schedule_job(JobDetail(job_class, "job", **values), SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(executions, SOON)


def logs(scheduler: Scheduler) -> list[list[str]]:
    """Return the messages that are kept of each execution, the first execution first."""
    found = []
    for record in reversed(list(scheduler.executions())):
        text = scheduler.execution_log(record)
        found.append([] if text is None else [line.partition("program: ")[2] for line in text.split("\n")])
    return found


def outcomes(scheduler: Scheduler) -> list[Outcome | None]:
    return [record.outcome for record in reversed(list(scheduler.executions()))]


def test_the_records_that_handles_return_have_the_log(scheduler: Scheduler) -> None:
    handle = scheduler.schedule_job(Logs, name="job", capture_logs="INFO")
    triggered = handle.trigger()
    record = triggered.wait(SOON)
    assert (record.log or "").endswith("attempt 1")
    found = triggered.record
    assert found is not None
    assert (found, found.log) == (record, record.log)
    scheduled = scheduler.schedule_job(Logs, timedelta(seconds=0.2), name="scheduled", capture_logs="INFO")
    assert (scheduled.wait(SOON).log or "").endswith("attempt 1")


def test_the_log_of_an_execution_can_be_read(scheduler: Scheduler) -> None:
    run(scheduler, Logs)
    [record] = scheduler.executions()
    text = scheduler.execution_log(record)
    assert text is not None
    time, level, name, message = text.split(" ", 3)
    assert datetime.fromisoformat(time) <= datetime.now().astimezone() + timedelta(hours=1)
    assert (level, name, message) == ("INFO", "program:", "attempt 1")
    assert record.fire_id is not None
    found = scheduler.execution(record.fire_id)
    assert found is not None
    assert found.log == scheduler.execution_log(str(record.fire_id)) == text
    with pytest.raises(InvalidValueError, match=r"scheduler\.execution_log\(record\)"):
        record.log  # noqa: B018
    with pytest.raises(ExecutionNotFoundError, match="execution 999999999 is not known"):
        scheduler.execution_log(999_999_999)


@pytest.mark.parametrize("values", [{"capture_logs": None}, {"capture_logs": "OFF"}, {"capture_logs": "ERROR"}])
def test_a_job_that_does_not_ask_has_no_log(scheduler: Scheduler, values: dict[str, Any]) -> None:
    run(scheduler, Logs, **values)
    assert logs(scheduler) == [[]]


def test_capturing_can_be_the_default_of_a_scheduler(make_scheduler: Callable[..., Scheduler]) -> None:
    scheduler = make_scheduler(job_defaults={"capture_logs": "INFO"})
    scheduler.start()
    run(scheduler, Logs, capture_logs=None)
    assert logs(scheduler) == [["attempt 1"]]


def test_a_failed_execution_and_each_of_its_retries_has_its_own_log(scheduler: Scheduler) -> None:
    run(scheduler, Logs, 2, data={"fails": True}, retry=RetryPolicy(attempts=2, delay=timedelta()))
    assert logs(scheduler) == [["attempt 1"], ["attempt 2"]]
    assert outcomes(scheduler) == [Outcome.FAILED] * 2


def test_immediate_refires_share_the_log_of_their_execution(scheduler: Scheduler) -> None:
    run(scheduler, Logs, data={"refires": 2})
    assert logs(scheduler) == [["attempt 1"] * 3]


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
def test_an_execution_that_is_stopped_has_its_log(scheduler: Scheduler, how: str) -> None:
    timeout = timedelta(milliseconds=300) if how == "timed out" else None
    detail = JobDetail(Logs, "job", data={"waits": True}, capture_logs="INFO", timeout=timeout)
    scheduler.schedule_job(detail, SimpleTrigger("t"))
    assert began.wait(20)
    if how == "cancelled":
        scheduler.cancel_job("job")
    assert scheduler.wait_until_recorded(1, SOON)
    assert logs(scheduler) == [["attempt 1", "asked to stop"]]
    assert outcomes(scheduler) == [Outcome.CANCELLED if how == "cancelled" else Outcome.FAILED]


def test_async_jobs_on_one_loop_have_the_lines_of_their_own_tasks(scheduler: Scheduler) -> None:
    for number in range(3):
        detail = JobDetail(LogsAsync, f"job-{number}", data={"number": number}, capture_logs="INFO")
        scheduler.schedule_job(detail, SimpleTrigger(f"t-{number}"))
    assert scheduler.wait_until_recorded(3, SOON)
    assert sorted(logs(scheduler)) == [[f"{number} {step}" for step in range(20)] for number in range(3)]


def test_the_lines_of_middleware_belong_to_the_execution(make_scheduler: Callable[..., Scheduler]) -> None:
    @contextmanager
    def telling(context: JobExecutionContext) -> Iterator[None]:
        logger.info("before")
        yield
        logger.info("after")

    scheduler = make_scheduler(middleware=[telling])
    scheduler.start()
    run(scheduler, Logs)
    assert logs(scheduler) == [["before", "attempt 1", "after"]]


def test_the_setting_bounds_the_log(make_scheduler: Callable[..., Scheduler]) -> None:
    scheduler = make_scheduler(max_captured_log_bytes=2_000)
    scheduler.start()
    run(scheduler, Logs, data={"refires": 200})
    [record] = scheduler.executions()
    text = scheduler.execution_log(record)
    assert text is not None
    assert len(text) <= 2_000
    assert "lines are left out here]" in text


def test_lines_are_stored_with_a_transaction_of_the_job(make: Callable[..., Scheduler]) -> None:
    scheduler = make()
    run(scheduler, Logs, data={"commits": True})
    assert logs(scheduler) == [["attempt 1", "in the transaction"]]


@pytest.fixture
def make(postgres_dsn: str) -> Iterator[Callable[..., Scheduler]]:
    made: list[Scheduler] = []

    def make_one(**settings: Any) -> Scheduler:
        made.append(Scheduler(postgres_dsn, name="captured", **settings))
        made[-1].start()
        return made[-1]

    yield make_one
    for scheduler in made:
        scheduler.shutdown(timeout=timedelta(seconds=60))


@job(capture_logs="INFO", display_name="A function")
def function(context: JobExecutionContext) -> None:
    context.log.info("from a function")


def test_a_function_captures_what_its_decorator_says(scheduler: Scheduler) -> None:
    record = scheduler.schedule_job(function, at()).wait("20s")
    text = scheduler.execution_log(record)
    assert text is not None
    assert text.endswith(f"INFO {__name__}: from a function")


def test_the_harness_captures_too() -> None:
    scheduler = SchedulerHarness()
    scheduler.schedule_job(JobDetail(Logs, "job", capture_logs="INFO"), SimpleTrigger("t"))
    [record] = scheduler.run_pending()
    assert (record.log or "").endswith("program: attempt 1")


class Waits(Job):
    """Runs another job, and waits for it."""

    def execute(self, context: JobExecutionContext) -> None:
        logger.info("before")
        context.scheduler.trigger_job("inner").wait("1m")
        logger.info("after")


def test_a_job_that_waits_for_another_in_the_harness_has_only_its_own_lines() -> None:
    scheduler = SchedulerHarness()
    scheduler.schedule_job(JobDetail(Logs, "inner", durable=True))
    scheduler.schedule_job(JobDetail(Waits, "job", capture_logs="INFO"), SimpleTrigger("t"))
    scheduler.run_pending()
    assert logs(scheduler) == [[], ["before", "after"]]


# --- process workers


def messages(scheduler: Scheduler) -> list[str]:
    [record] = scheduler.executions()
    return [line.split(" ", 1)[1] for line in (scheduler.execution_log(record) or "").split("\n")]


EXPECTED = [
    "INFO program: in the process, attempt 1",
    "WARNING tests.facade.process_jobs: from a thread",
]


@pytest.fixture
def processes(make_scheduler: Callable[..., Scheduler]) -> Scheduler:
    scheduler = make_scheduler(executors={"cpu": "processes:1"})
    scheduler.start()
    return scheduler


def test_the_lines_of_a_job_in_a_process_are_kept(processes: Scheduler) -> None:
    run(processes, process_jobs.Logging, executor="cpu")
    assert messages(processes) == EXPECTED


def test_the_lines_of_an_async_job_in_a_process_are_kept(processes: Scheduler) -> None:
    run(processes, process_jobs.LoggingAsync, executor="cpu")
    assert messages(processes) == ["INFO program: in a task"]


def test_the_lines_of_a_process_that_is_killed_are_kept(processes: Scheduler, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    detail = JobDetail(process_jobs.Logging, "job", executor="cpu", data={"fifo": str(fifo)}, capture_logs="INFO")
    processes.schedule_job(detail, SimpleTrigger("t"))
    assert fifo.read_text() == "hangs"
    assert processes.interrupt(detail.key)
    assert processes.wait_until_recorded(1, SOON)
    assert outcomes(processes) == [Outcome.CANCELLED]
    assert messages(processes) == EXPECTED
