"""Starting, roles, and stopping: what `shutdown` is asked for, and by which node what is done."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, NoOpJob, Scheduler, SimpleTrigger, TriggerKey
from quartzpy.clock import SystemClock
from quartzpy.errors import (
    ExecutionNotFoundError,
    InvalidKeyError,
    InvalidValueError,
    JobNotFoundError,
    SettingsError,
    StoreUnavailableError,
)
from quartzpy.events import events
from quartzpy.states import Outcome
from tests.facade import jobs
from tests.waiting import wait_until

SOON = timedelta(seconds=30)
MakeScheduler = Callable[..., Scheduler]


# --- shutdown


@pytest.mark.parametrize("timeout", [50, 50.0, "50s", timedelta(seconds=50)])
def test_a_timeout_may_be_seconds_a_text_or_a_timedelta(scheduler: Scheduler, timeout: Any) -> None:
    assert scheduler.shutdown(timeout=timeout)


@pytest.mark.parametrize("timeout", ["soon", -1, [5], True])
def test_a_wrong_timeout_changes_nothing(scheduler: Scheduler, timeout: Any) -> None:
    with pytest.raises(SettingsError, match="timeout: "):
        scheduler.shutdown(timeout=timeout)
    assert not scheduler.is_shut_down
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job"), SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(1, SOON)


def test_a_shutdown_records_at_once_what_could_not_be_recorded_before(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = scheduler._node
    assert node is not None
    failed = threading.Event()

    def refuse(*args: object, **options: object) -> None:
        raise StoreUnavailableError("an outage")

    def retry_in(error: BaseException) -> float:
        failed.set()
        return 3600.0

    with monkeypatch.context() as outage:
        outage.setattr(scheduler._store, "complete", refuse)
        outage.setattr(node.parts.completer, "retry_in", retry_in)
        scheduler.schedule_job(JobDetail(jobs.Recorded, "job", durable=True), SimpleTrigger("t"))
        assert failed.wait(30)
    assert scheduler.shutdown(timeout=SOON)


def test_a_second_shutdown_tells_how_the_first_one_ended(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Deaf, "job"), SimpleTrigger("t"))
    wait_until(scheduler.currently_executing_jobs, "it to run")
    assert not scheduler.shutdown(timeout=0.1)
    assert not scheduler.shutdown()


def test_a_shutdown_in_the_background_can_be_waited_for(scheduler: Scheduler) -> None:
    ended: list[bool] = []
    scheduler.listeners.add_listener(lambda event: ended.append(event.drained), events.SchedulerShutDown)  # type: ignore[attr-defined]
    scheduler.schedule_job(JobDetail(jobs.Waiting, "job"), SimpleTrigger("t"))
    jobs.next_run()
    assert not scheduler.shutdown(wait=False)
    assert ended == []
    jobs.go_on.set()
    assert scheduler.shutdown()
    assert ended == [True]


def test_a_later_shutdown_may_shorten_the_time_of_the_first(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Deaf, "job"), SimpleTrigger("t"))
    wait_until(scheduler.currently_executing_jobs, "it to run")
    scheduler.shutdown(wait=False)
    began = time.monotonic()
    assert not scheduler.shutdown(timeout="100ms")
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("kind", [jobs.Waiting, jobs.EndlessAsync])
def test_a_shutdown_may_ask_what_runs_to_stop_and_wait_for_it(scheduler: Scheduler, kind: Any) -> None:
    outcomes: list[Outcome] = []
    scheduler.listeners.add_listener(lambda event: outcomes.append(event.outcome), events.JobWasExecuted)  # type: ignore[attr-defined]
    scheduler.schedule_job(JobDetail(kind, "job"), SimpleTrigger("t"))
    wait_until(scheduler.currently_executing_jobs, "it to run")
    assert scheduler.shutdown(interrupt=True)
    assert outcomes == [Outcome.CANCELLED]


def test_a_shutdown_without_waiting_may_interrupt_too(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(jobs.Waiting, "job"), SimpleTrigger("t"))
    context = jobs.next_run()
    scheduler.shutdown(wait=False, interrupt=True)
    assert context.wait_cancelled(20)


def test_a_job_that_asks_to_be_refired_for_ever_does_not_hold_up_a_shutdown(scheduler: Scheduler) -> None:
    told: list[timedelta | None] = []
    scheduler.listeners.add_listener(lambda event: told.append(event.retry_after), events.JobWasExecuted)  # type: ignore[attr-defined]
    scheduler.schedule_job(JobDetail(jobs.AlwaysAgain, "job"), SimpleTrigger("t"))
    jobs.next_run()
    assert scheduler.shutdown()
    assert told[-1] == timedelta(), "another node runs it again"


def test_what_asked_to_be_refired_at_a_shutdown_is_run_by_another_node(make_scheduler: MakeScheduler, url: str) -> None:
    if url == "memory://":
        pytest.skip("a store in memory has one node")
    a, b = make_scheduler(instance_id="a"), make_scheduler(instance_id="b")
    a.start()
    a.schedule_job(JobDetail(jobs.AlwaysAgain, "job"), SimpleTrigger("t"))
    jobs.next_run()
    assert a.shutdown()
    ran: list[JobExecutionContext] = []
    b.listeners.add_listener(lambda event: ran.append(event.context), events.JobToBeExecuted)  # type: ignore[attr-defined]
    b.start()
    wait_until(lambda: ran, "b to run something")
    assert (ran[0].attempt, ran[0].job_key) == (2, JobKey("job"))
    assert b.shutdown()


def test_a_node_leaves_no_refire_to_others_before_it_has_stopped_claiming(
    make_scheduler: MakeScheduler, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last pass would claim the refire, and count one attempt more."""
    scheduler = make_scheduler(instance_id="a")
    scheduler.start()
    scheduler.schedule_job(JobDetail(jobs.AlwaysAgain, "job"), SimpleTrigger("t"))
    jobs.next_run()
    in_pass, may_end = threading.Event(), threading.Event()
    acquire = scheduler._store.acquire

    def slowly(*args: Any, **values: Any) -> Any:
        in_pass.set()
        assert may_end.wait(SOON.total_seconds())
        return acquire(*args, **values)

    monkeypatch.setattr(scheduler._store, "acquire", slowly)
    assert scheduler._node is not None
    scheduler._node.parts.signals.scheduling_changed()
    assert in_pass.wait(SOON.total_seconds())
    assert not scheduler.shutdown(wait=False)
    while not jobs.ran.empty():
        jobs.ran.get()
    again = [jobs.next_run(), jobs.next_run()]
    assert again[1] == again[0] + 1, "the job is refired in the same execution"
    may_end.set()
    assert scheduler.shutdown()


# --- cancelling by job


def test_all_executions_of_a_job_are_cancelled_from_another_scheduler(make_scheduler: MakeScheduler, url: str) -> None:
    running = make_scheduler()
    running.start()
    for name in ("a", "b"):
        running.schedule_job(JobDetail(jobs.Waiting, name, durable=True), [SimpleTrigger(f"{name}{n}") for n in "12"])
    contexts = [jobs.next_run() for _ in range(4)]
    asking = running if url == "memory://" else make_scheduler()
    wanted = {context.fire_id for context in contexts if context.job_key.name == "a"}
    assert asking.cancel_job(JobKey("a")) == wanted
    assert running.wait_until_recorded(2, SOON)
    assert {row.job_key.name for row in running.running()} == {"b"}
    assert asking.cancel_job(JobKey("a")) == set(), "nothing of it runs any more"


def test_a_job_or_an_execution_that_is_not_there_cannot_be_cancelled(client: Scheduler) -> None:
    with pytest.raises(JobNotFoundError, match=r"job DEFAULT\.none is not stored"):
        client.cancel_job(JobKey("none"))
    with pytest.raises(InvalidKeyError):
        client.cancel_job(TriggerKey("none"))  # type: ignore[arg-type]
    with pytest.raises(ExecutionNotFoundError, match="fire_id 123"):
        client.cancel(123)
    with pytest.raises(InvalidValueError):
        client.cancel("x")


# --- job types that come later


def test_a_job_class_that_is_defined_after_the_start_is_run_at_once(make_scheduler: MakeScheduler) -> None:
    scheduler = make_scheduler(checkin_interval="60s", failure_window="10m", idle_wait="10m")
    scheduler.start()
    ran = threading.Event()

    class Later(Job, type_name=f"later-{uuid.uuid4().hex}"):
        def execute(self, context: JobExecutionContext) -> None:
            ran.set()

    scheduler.schedule_job(JobDetail(Later, "job"), SimpleTrigger("t"))
    assert ran.wait(SOON.total_seconds())


# --- roles


def test_a_scheduler_runs_nothing_and_handles_misfires_for_workers(make_scheduler: MakeScheduler) -> None:
    scheduler = make_scheduler(role="scheduler", executors={"cpu": "threads:2"}, misfire_threshold="1s")
    misfired = threading.Event()
    scheduler.listeners.add_listener(lambda event: misfired.set(), events.TriggerMisfired)
    scheduler.start()
    scheduler.schedule_job(JobDetail(jobs.Recorded, "job", executor="cpu"), SimpleTrigger("t"))
    assert misfired.wait(SOON.total_seconds())
    assert jobs.nothing_ran()
    [node] = scheduler.nodes().nodes
    assert (node.capabilities.job_types, node.capabilities.executors) == (frozenset(), frozenset())
    assert scheduler.shutdown()


def test_a_worker_leaves_misfires_to_others_while_there_are_any(make_scheduler: MakeScheduler, url: str) -> None:
    if url == "memory://":
        pytest.skip("a store in memory has one node")
    settings = {"checkin_interval": "100ms", "lock_timeout": "1s", "failure_window": "5s", "misfire_threshold": "500ms"}
    other = make_scheduler(role="scheduler", instance_id="s", **settings)
    worker = make_scheduler(role="worker", instance_id="w", **settings)
    by: list[str] = []
    for one, name in ((other, "s"), (worker, "w")):
        one.listeners.add_listener(lambda event, name=name: by.append(name), events.TriggerMisfired)  # type: ignore[misc]
    other.start()
    worker.start()
    capacity = worker._node.parts.capacity  # type: ignore[union-attr]
    wait_until(lambda: not capacity.performs_maintenance, "the worker to leave the house to the other")
    # Nobody has the executor: it is late, and stays so.
    late = SimpleTrigger("late", interval=timedelta(hours=1), repeat_count=3)
    other.schedule_job(JobDetail(jobs.Recorded, "job", requires=["gpu"]), late)
    wait_until(lambda: by == ["s"], "the other to handle it")
    other.shutdown()
    wait_until(lambda: capacity.performs_maintenance, "the worker to take over")
    worker.schedule_job(JobDetail(jobs.Recorded, "runs"), SimpleTrigger("t"))
    assert jobs.next_run().instance_id == "w"


def test_a_role_is_one_of_three() -> None:
    with pytest.raises(SettingsError, match="role must be one of both, scheduler, worker"):
        Scheduler("memory://", role="boss")


# --- clocks


class AnHourAhead(SystemClock):
    def now(self) -> datetime:
        return super().now() + timedelta(hours=1)


def test_a_clock_that_is_wrong_is_reported_once(
    make_scheduler: MakeScheduler, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    if url == "memory://":
        pytest.skip("a store in memory has this machine's clock")
    scheduler = make_scheduler(checkin_interval="50ms", lock_timeout="1s", failure_window="5s")
    scheduler._clock = AnHourAhead()
    scheduler.start()
    wait_until(lambda: scheduler.health().clock_skew > timedelta(minutes=59), "the skew to be known")
    wait_until(lambda: "s ahead of the database's" in caplog.text, "the warning")
    scheduler.shutdown()
    assert caplog.text.count("s ahead of the database's") == 1


# --- log records


def test_records_about_executions_say_which(make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = make_scheduler(log_executions="DEBUG", instance_id="n1")
    with caplog.at_level(logging.DEBUG, logger="quartzpy"):
        scheduler.start()
        failing = JobDetail(jobs.Raising, "badly", data={"what": "Exception"})
        scheduler.schedule_job(failing, SimpleTrigger("b"))
        assert scheduler.wait_until_recorded(1, SOON)
    about = [record for record in caplog.records if getattr(record, "job", None) == "DEFAULT.badly"]
    assert [record.levelname for record in about] == ["DEBUG", "ERROR", "WARNING"]
    for record in about:
        found = [getattr(record, name) for name in ("trigger", "node", "scheduler")]
        assert found == ["DEFAULT.b", "n1", scheduler.name]
        assert isinstance(record.fire_id, int)
    assert about[1].exc_info is not None, "error trackers see the exception"


class SlowStep(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        time.sleep(0.15)


def test_the_debug_mode_logs_executions_and_slow_steps_of_the_event_loop(
    make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler(debug=True)
    with caplog.at_level(logging.INFO):
        scheduler.start()
        scheduler.schedule_job(JobDetail(SlowStep, "slow"), SimpleTrigger("t"))
        assert scheduler.wait_until_recorded(1, SOON)
    assert "DEFAULT.slow starts" in caplog.text
    assert any(record.name == "asyncio" and " took " in record.getMessage() for record in caplog.records)


def test_a_job_that_does_nothing_succeeds(scheduler: Scheduler) -> None:
    scheduler.schedule_job(JobDetail(NoOpJob, "job"), SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(1, SOON)
    assert [execution.outcome for execution in scheduler.executions()] == [Outcome.SUCCEEDED]


@pytest.mark.parametrize("wrong", ["LOUD", 10])
def test_a_wrong_level_is_refused(wrong: Any) -> None:
    with pytest.raises(SettingsError, match="log_executions must be DEBUG, INFO, WARNING or None"):
        Scheduler("memory://", log_executions=wrong)
