"""`context.progress`: a running job reports its progress, and every process can read it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.clock import SystemClock
from quartzpy.errors import StoreUnavailableError
from quartzpy.jobs.context import Progress
from quartzpy.logs.captured import LogLines
from quartzpy.node.progress_writer import INTERVAL, RECENT_LOG_BYTES, ProgressWriter
from quartzpy.node.service import StoreWatch
from quartzpy.node.workers.execution import Execution
from quartzpy.states import Outcome
from quartzpy.store.memory.store import RamJobStore
from quartzpy.store.protocol import Node
from quartzpy.store.records import RunningRecord
from quartzpy.testing.clock import ManualClock
from quartzpy.testing.scheduler import SchedulerHarness
from tests.facade import process_jobs
from tests.node.processes import execution_of
from tests.waiting import wait_until

SOON = timedelta(seconds=30)
go_on = threading.Event()
seen: list[Any] = []


class Reports(Job, type_name="progress:reports"):
    """Reports often, then waits, so that the last report must become visible without another one."""

    def execute(self, context: JobExecutionContext) -> None:
        for done in range(1_001):
            context.progress(done, 2_000, f"row {done}")
        assert go_on.wait(100)


class ReportsAsync(Job, type_name="progress:reports-async"):
    async def execute(self, context: JobExecutionContext) -> None:
        context.progress(0.25)
        [row] = context.scheduler.running()
        seen.append((row.progress, row.progress_message))
        context.progress(0.5, "half")
        [row] = context.scheduler.running()
        seen.append((row.progress, row.progress_message))


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    go_on.clear()
    seen.clear()
    yield
    go_on.set()


def until_it_reports(scheduler: Scheduler, message: str) -> RunningRecord:
    return wait_until(
        lambda: next((row for row in scheduler.running() if row.progress_message == message), None),
        f"the progress {message!r}",
        seen=scheduler.running,
    )


def test_the_last_report_of_a_running_job_can_be_read(make_scheduler: Callable[..., Scheduler]) -> None:
    scheduler = make_scheduler()
    scheduler.start()
    scheduler.schedule_job(JobDetail(Reports, "reports"), SimpleTrigger("once"))
    assert until_it_reports(scheduler, "row 1000").progress == 0.5
    go_on.set()
    assert scheduler.wait_until_recorded(1, SOON)
    [execution] = scheduler.executions()
    assert (execution.outcome, scheduler.running()) == (Outcome.SUCCEEDED, [])


def test_a_job_in_a_process_reports_and_what_it_leaves_behind_does_not(
    make_scheduler: Callable[..., Scheduler],
) -> None:
    scheduler = make_scheduler(executors={"cpu": "processes:1"})
    scheduler.start()
    scheduler.schedule_job(JobDetail(process_jobs.Reporting, "job", executor="cpu"), SimpleTrigger("t"))
    row = until_it_reports(scheduler, "reading")
    assert row.progress == 0.25
    assert scheduler.cancel(row.fire_id)
    assert scheduler.wait_until_recorded(1, SOON)
    # The next job gets the same process, whose answers are not mixed with reports of the thread.
    scheduler.schedule_job(JobDetail(process_jobs.Computing, "next", executor="cpu"), SimpleTrigger("n"))
    assert scheduler.wait_until_recorded(2, SOON)
    last, first = scheduler.executions()
    assert (first.outcome, last.outcome) == (Outcome.CANCELLED, Outcome.SUCCEEDED)
    assert first.result == last.result, "an unexpected message of an idle process is the end of that process"


def test_the_scheduler_for_tests_shows_each_report_at_once() -> None:
    scheduler = SchedulerHarness()
    scheduler.schedule_job(JobDetail(ReportsAsync, "reports"), SimpleTrigger("once"))
    [record] = scheduler.run_pending()
    assert record.outcome is Outcome.SUCCEEDED, record.error
    assert seen == [(0.25, None), (0.5, "half")]


# --- the writer


class CountingStore(RamJobStore):
    """Counts the writes, and fails or passes rows over on request."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.writes: list[dict[int, Progress]] = []
        self.logs: list[dict[int, str]] = []
        self.error: Exception | None = None
        self.locked: set[int] = set()

    def report_progress(
        self, node: Node, reports: Mapping[int, Progress], logs: Mapping[int, str] | None = None
    ) -> Collection[int]:
        if self.error is not None:
            raise self.error
        self.writes.append(dict(reports))
        self.logs.append(dict(logs or {}))
        return (set(reports) | set(logs or {})) - self.locked


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def writer(store: CountingStore, clock: ManualClock) -> ProgressWriter:
    watch = StoreWatch(logging.getLogger("test"), "node", SystemClock())
    return ProgressWriter("progress", store=store, clock=clock, watch=watch)


def test_a_node_writes_once_an_interval_and_only_the_latest(
    store: CountingStore, clock: ManualClock, writer: ProgressWriter
) -> None:
    execution = execution_of(Reports)
    fire_id = execution.fired.fire_id
    writer.report(execution, Progress(0.1))
    assert writer.run_once() == INTERVAL
    for percent in range(20, 30):
        writer.report(execution, Progress(percent / 100))
        assert 0 < writer.run_once() <= INTERVAL
    clock.advance(timedelta(seconds=INTERVAL))
    writer.run_once()
    assert store.writes == [{fire_id: Progress(0.1)}, {fire_id: Progress(0.29)}]
    clock.advance(timedelta(seconds=INTERVAL))
    assert writer.run_once() > INTERVAL, "nothing is left to write"
    assert len(store.writes) == 2


def test_a_failed_or_passed_over_report_is_written_later_unless_a_newer_one_replaces_it(
    store: CountingStore, clock: ManualClock, writer: ProgressWriter
) -> None:
    execution = execution_of(Reports)
    fire_id = execution.fired.fire_id
    writer.report(execution, Progress(0.1))
    store.error = StoreUnavailableError("away")
    with pytest.raises(StoreUnavailableError):
        writer.run_once()
    store.error, store.locked = None, {fire_id}
    clock.advance(timedelta(seconds=INTERVAL))
    writer.run_once()
    writer.report(execution, Progress(0.2))
    store.locked.clear()
    clock.advance(timedelta(seconds=INTERVAL))
    writer.run_once()
    clock.advance(timedelta(seconds=INTERVAL))
    writer.run_once()
    assert store.writes == [{fire_id: Progress(0.1)}, {fire_id: Progress(0.2)}]


def test_nothing_is_written_for_an_execution_that_has_ended(store: CountingStore, writer: ProgressWriter) -> None:
    execution = execution_of(Reports)
    writer.report(execution, Progress(0.1))
    assert execution.is_recorded_first()
    writer.run_once()
    assert store.writes == []


# --- log lines


def logging_execution(clock: ManualClock) -> Execution:
    execution = execution_of(Reports)
    execution.log_lines = LogLines()
    execution.began_at = clock.monotonic()
    return execution


def test_lines_are_written_from_the_second_second_on_and_only_if_they_have_changed(
    store: CountingStore, clock: ManualClock, writer: ProgressWriter
) -> None:
    execution = logging_execution(clock)
    fire_id, lines = execution.fired.fire_id, execution.log_lines
    assert lines is not None
    writer.follow_log(execution)
    lines.add("one")
    assert writer.run_once() == INTERVAL
    assert store.logs == [], "an execution that ends within a second costs no write"
    for text in ("two", None, None, "three"):
        clock.advance(timedelta(seconds=INTERVAL))
        if text:
            lines.add(text)
        assert writer.run_once() == INTERVAL
    assert store.logs == [{fire_id: "one\ntwo"}, {fire_id: "one\ntwo\nthree"}]
    assert execution.is_recorded_first()
    lines.add("four")
    clock.advance(timedelta(seconds=INTERVAL))
    assert writer.run_once() > INTERVAL, "nothing is followed any more"
    assert len(store.logs) == 2


def test_lines_that_could_not_be_stored_are_written_later(
    store: CountingStore, clock: ManualClock, writer: ProgressWriter
) -> None:
    execution = logging_execution(clock)
    fire_id, lines = execution.fired.fire_id, execution.log_lines
    assert lines is not None
    writer.follow_log(execution)
    for number in range(2_000):
        lines.add(f"line {number}")
    clock.advance(timedelta(seconds=INTERVAL))
    store.error = StoreUnavailableError("away")
    with pytest.raises(StoreUnavailableError):
        writer.run_once()
    store.error, store.locked = None, {fire_id}
    for _ in range(3):
        clock.advance(timedelta(seconds=INTERVAL))
        writer.run_once()
        store.locked.clear()
    first, second = store.logs
    assert first == second, "the row was locked at first, and nothing is written after the second time"
    text = first[fire_id]
    assert len(text) <= RECENT_LOG_BYTES
    kept = text.count("line ")
    assert text.startswith(f"[{2_000 - kept} lines are left out here]\nline {2_000 - kept}\n")
    assert text.endswith("line 1999")
    assert kept > 700


class LogsAndWaits(Job, type_name="progress:logs-and-waits"):
    def execute(self, context: JobExecutionContext) -> None:
        context.log.info("begun")
        assert go_on.wait(100)
        context.log.info("ended")


def test_the_log_of_a_running_job_can_be_read(make_scheduler: Callable[..., Scheduler]) -> None:
    scheduler = make_scheduler()
    scheduler.start()
    scheduler.schedule_job(JobDetail(LogsAndWaits, "logs", capture_logs="INFO"), SimpleTrigger("once"))
    text = wait_until(
        lambda: next((scheduler.execution_log(row.fire_id) for row in scheduler.running()), None), "the log"
    )
    assert text.endswith(": begun")
    go_on.set()
    assert scheduler.wait_until_recorded(1, SOON)
    [record] = scheduler.executions()
    assert (scheduler.execution_log(record) or "").splitlines()[-1].endswith(": ended")
