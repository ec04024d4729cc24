"""Whatever a job does, its execution ends in the history, with its error, and gives its slot back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import JobDetail, JobExecutionContext, RetryPolicy, Scheduler, SimpleTrigger, TriggerListener
from quartzpy.events import events
from quartzpy.jobs import stored_options
from quartzpy.node.workers import execution, job_runner
from quartzpy.states import Outcome
from tests.facade import poison
from tests.waiting import wait_until

SOON = timedelta(seconds=30)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    poison.ran.clear()
    poison.go_on.clear()
    yield
    poison.go_on.set()


def ended(scheduler: Scheduler, job: JobDetail, *, executions: int = 1) -> tuple[Outcome, str]:
    """Run a job to its end; what the history says. After it, nothing is left of it, and all slots are free."""
    scheduler.schedule_job(job, SimpleTrigger("once"))
    assert scheduler.wait_until_recorded(executions, SOON), "no execution in the history"
    [execution] = [one for one in scheduler.executions() if one.job_key == job.key][:1]
    all_is_free(scheduler)
    return execution.outcome, execution.error or ""


def all_is_free(scheduler: Scheduler) -> None:
    node = scheduler._node
    assert node is not None
    assert node.parts.executors.wait_until_idle(lambda: 20.0)
    assert {name: pool.pool.free for name, pool in node.parts.executors._all.items()} == {
        name: pool.pool.size for name, pool in node.parts.executors._all.items()
    }
    assert scheduler.running() == []
    assert node.running() == []


@pytest.mark.parametrize("kind", [poison.Poison, poison.PoisonAsync])
@pytest.mark.parametrize("body", poison.BODIES)
def test_a_poison_body(make_scheduler: Callable[..., Scheduler], kind: Any, body: str, url: str) -> None:
    scheduler = make_scheduler(workers=1)
    scheduler.start()
    _, outcome, error = poison.BODIES[body]
    found, described = ended(scheduler, poison.detail(kind, data={"body": body}))
    if body == "StopIteration" and kind is poison.PoisonAsync:
        # A coroutine cannot raise it: Python makes a RuntimeError of it.
        error = "RuntimeError"
    if body == "closes its connection" and url != "memory://":
        error = "closed the connection of its transaction"
    assert (found, error in described) == (outcome, True), described
    assert len(described) <= 8_200
    # The one worker there is works on.
    scheduler.schedule_job(JobDetail(poison.Fine, "fine"), SimpleTrigger("fine"))
    assert scheduler.wait_until_recorded(2, SOON)


@pytest.mark.parametrize("what", ["int", "instant", "other"])
def test_data_that_cannot_be_stored(scheduler: Scheduler, what: str) -> None:
    outcome, error = ended(scheduler, poison.detail(poison.Unstorable, data={"what": what}))
    assert outcome is Outcome.FAILED
    assert "InvalidJobDataError: data['bad']: " in error


def test_a_class_that_cannot_be_made(scheduler: Scheduler) -> None:
    outcome, error = ended(scheduler, poison.detail(poison.InitRaises))
    assert (outcome, "not made" in error) == (Outcome.FAILED, True)


def test_a_factory_that_does_not_return_a_job_is_refused(url: str, make_scheduler: Callable[..., Scheduler]) -> None:
    scheduler = make_scheduler(job_factory=poison.no_execute)
    scheduler.start()
    outcome, error = ended(scheduler, poison.detail(poison.WrappedAsync))
    assert outcome is Outcome.FAILED
    assert "has no execute(context)" in error


def test_an_infinite_loop_with_a_timeout(scheduler: Scheduler) -> None:
    outcome, error = ended(scheduler, poison.detail(poison.Endless, timeout=timedelta(milliseconds=50)))
    assert (outcome, "JobTimeoutError" in error) == (Outcome.FAILED, True)


def test_a_very_long_timeout_does_not_disable_other_timeouts(scheduler: Scheduler) -> None:
    ages = JobDetail(poison.DeafToItsTimeout, "ages", timeout=timedelta(days=36_500))
    scheduler.schedule_job(ages, SimpleTrigger("ages"))
    assert poison.ran.wait(20)
    job = poison.detail(poison.Endless, timeout=timedelta(milliseconds=50))
    scheduler.schedule_job(job, SimpleTrigger("once"))
    assert scheduler.wait_until_recorded(1, SOON)
    [execution] = scheduler.executions()
    assert (execution.outcome, "JobTimeoutError" in (execution.error or "")) == (Outcome.FAILED, True)
    poison.go_on.set()


@pytest.mark.parametrize("fails", [False, True])
def test_an_async_function_behind_a_plain_one_is_run(scheduler: Scheduler, fails: bool) -> None:
    outcome, error = ended(scheduler, poison.detail(poison.WrappedAsync, data={"fails": fails}))
    assert outcome == ("FAILED" if fails else "SUCCEEDED")
    assert poison.ran.is_set() is not fails
    assert "ValueError: awaited" in error or not fails


def test_a_failure_of_the_engine_itself_is_the_end_of_the_execution(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*args: object) -> Any:
        raise MemoryError("of the engine")

    monkeypatch.setattr(execution, "final_completion", out_of_memory)
    outcome, error = ended(scheduler, poison.detail(poison.Fine))
    assert (outcome, "MemoryError: of the engine" in error) == (Outcome.FAILED, True)


def test_a_log_handler_that_raises_changes_nothing(scheduler: Scheduler) -> None:
    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise poison.OwnBaseError

    handler = Raising()
    logger = logging.getLogger("quartzpy.node.workers.endings")
    logger.addHandler(handler)
    try:
        outcome, error = ended(scheduler, poison.detail(poison.Poison, data={"body": "raises"}))
    finally:
        logger.removeHandler(handler)
    assert (outcome, "ValueError: wrong" in error) == (Outcome.FAILED, True)


def test_a_failure_is_logged_with_its_exception_and_its_job(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    ended(scheduler, poison.detail(poison.Poison, data={"body": "raises"}))
    [record] = [one for one in caplog.records if "failed" in one.getMessage()]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)
    assert record.getMessage() == "job DEFAULT.poison, fired by DEFAULT.once, failed: ValueError: wrong"
    assert (vars(record)["job"], vars(record)["trigger"]) == ("DEFAULT.poison", "DEFAULT.once")
    assert isinstance(vars(record)["fire_id"], int)
    assert vars(record)["scheduler"] == "facade"
    assert vars(record)["node"] == scheduler.nodes().nodes[0].instance_id


# --- listeners


@pytest.mark.parametrize("error", [RuntimeError, poison.OwnBaseError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_listener_that_raises(scheduler: Scheduler, error: type[BaseException]) -> None:
    class Listener(TriggerListener):
        def veto_job_execution(self, context: JobExecutionContext) -> bool:
            raise error

        def __repr__(self) -> str:
            raise error

    def raises(event: events.Event) -> None:
        raise error

    scheduler.listeners.add_trigger_listener(Listener())
    scheduler.listeners.add_listener(raises)
    assert ended(scheduler, poison.detail(poison.Fine)) == (Outcome.SUCCEEDED, "")


@pytest.mark.parametrize("kind", [poison.Fine, poison.PoisonAsync])
def test_a_listener_that_hangs_blocks_only_its_worker(
    make_scheduler: Callable[..., Scheduler], caplog: pytest.LogCaptureFixture, kind: Any
) -> None:
    scheduler = make_scheduler(workers=2)
    hangs = threading.Event()

    def hang(event: events.Event) -> None:
        assert isinstance(event, events.JobWasExecuted)
        if event.job_key.name == "poison":
            hangs.set()
            poison.go_on.wait(100)

    scheduler.listeners.add_listener(hang, events.JobWasExecuted)
    scheduler.start()
    scheduler.schedule_job(poison.detail(kind, data={"body": "huge int"}), SimpleTrigger("once"))
    assert hangs.wait(20)
    # Others are fired and complete on the other worker, and on the event loop.
    scheduler.schedule_job(
        JobDetail(poison.PoisonAsync, "others", data={"body": "huge int"}),
        SimpleTrigger("others", interval=timedelta(milliseconds=20), repeat_count=4),
    )
    # It is recorded while its listener still hangs.
    assert scheduler.wait_until_recorded(6, SOON)
    assert not poison.go_on.is_set()
    node = scheduler._node
    assert node is not None
    wait_until(lambda: node.parts.executors.occupied == 1)
    wait_until(lambda: "its listeners are still running: recording it without them" in caplog.text)
    wait_until(lambda: "called with JobWasExecuted, is still running after" in caplog.text)
    poison.go_on.set()
    all_is_free(scheduler)
    assert scheduler.executions().count() == 6


def test_a_listener_that_hangs_does_not_stop_the_threads_of_the_node(
    make_scheduler: Callable[..., Scheduler],
) -> None:
    scheduler = make_scheduler(workers=2)
    hangs = threading.Event()

    def hang(event: events.Event) -> None:
        hangs.set()
        poison.go_on.wait(100)

    scheduler.listeners.add_listener(hang, events.JobSkipped)
    scheduler.start()
    deaf = JobDetail(poison.DeafToItsTimeout, "deaf", max_concurrent=1, overlap_policy="skip")
    scheduler.schedule_job(deaf, SimpleTrigger("often", interval=timedelta(milliseconds=20), repeat_count=50))
    assert poison.ran.wait(20)
    assert hangs.wait(20)
    scheduler.schedule_job(JobDetail(poison.Fine, "fine", durable=True), SimpleTrigger("fine"))
    for _ in range(400):
        if any(one.job_key.name == "fine" for one in scheduler.executions().page(1_000)):
            break
        hangs.wait(0.05) and poison.go_on.wait(0.05)
    else:
        pytest.fail("the scheduler thread waits for a listener")
    poison.go_on.set()


# --- what is reported


def test_a_blocked_event_loop_is_reported_with_its_stack(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler.schedule_job(poison.detail(poison.BlocksTheLoop), SimpleTrigger("once"))
    assert poison.ran.wait(20)
    node = scheduler._node
    assert node is not None
    for _ in range(200):
        if node.parts.loop.blockages:
            break
        poison.go_on.wait(0.1)
    poison.go_on.set()
    assert scheduler.wait_until_recorded(1, SOON)
    assert node.parts.loop.blockages == 1
    assert "the event loop has been blocked for" in caplog.text
    assert "by job DEFAULT.poison, fire " in caplog.text
    assert "poison.py" in caplog.text
    assert "go_on.wait(100)" in caplog.text


def test_an_ignored_timeout_is_reported_at_growing_intervals(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_runner, "OVERRUN_AFTER", 0.05)
    job = poison.detail(poison.DeafToItsTimeout, timeout=timedelta(milliseconds=50))
    scheduler.schedule_job(job, SimpleTrigger("once"))
    node = scheduler._node
    assert node is not None
    for _ in range(200):
        if node.parts.runner.overrun_timeouts == 3:
            break
        poison.go_on.wait(0.05)
    poison.go_on.set()
    assert scheduler.wait_until_recorded(1, SOON)
    assert "job DEFAULT.poison ignores its timeout of 0:00:00.050000: fire " in caplog.text
    all_is_free(scheduler)


def test_a_retry_policy_that_fails_loses_only_the_retry(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: RetryPolicy, attempt: int, error: BaseException) -> Any:
        raise OverflowError("too far")

    monkeypatch.setattr(RetryPolicy, "delay_after", fails)
    job = poison.detail(poison.Poison, data={"body": "raises"}, retry=RetryPolicy(attempts=3))
    outcome, error = ended(scheduler, job)
    assert (outcome, "ValueError: wrong" in error) == (Outcome.FAILED, True)


def test_a_stored_retry_policy_that_cannot_be_read_loses_only_the_retry(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_options, "_plain", lambda policy: {"attempts": 0})
    job = poison.detail(poison.Poison, data={"body": "raises"}, retry=RetryPolicy(attempts=3))
    outcome, error = ended(scheduler, job)
    assert (outcome, "ValueError: wrong" in error) == (Outcome.FAILED, True)


def test_a_stored_timeout_that_cannot_be_read_fails_the_execution_and_says_why(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_options, "_plain", lambda span: "soon")
    outcome, error = ended(scheduler, poison.detail(poison.Fine, timeout="47s"))
    assert outcome is Outcome.FAILED
    assert "definition: timeout cannot be read: timeout: must be a length of time" in error
