"""An `async def` job begins on the event loop, unless code of the program runs first that could block the loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.node.workers.execution import Execution
from quartzpy.node.workers.job_runner import JobRunner
from quartzpy.states import Outcome
from tests.waiting import wait_until

SOON = timedelta(seconds=30)

ran: list[str] = []
began, go_on = threading.Event(), threading.Event()


class Plain(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        ran.append(context.job_key.name)


class WithConstructor(Job):
    def __init__(self) -> None:
        self.name = "constructed"

    async def execute(self, context: JobExecutionContext) -> None:
        ran.append(self.name)


class Blocks(Job):
    """Blocks the event loop, as a job should not."""

    async def execute(self, context: JobExecutionContext) -> None:
        began.set()
        go_on.wait(20)


@pytest.fixture
def url() -> str:
    return "memory://"


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the threads that made job instances."""
    names: list[str] = []
    new_instance = JobRunner.new_instance

    def noted(self: JobRunner, execution: Execution) -> Job:
        names.append(threading.current_thread().name)
        return new_instance(self, execution)

    monkeypatch.setattr(JobRunner, "new_instance", noted)
    ran.clear()
    began.clear()
    go_on.clear()
    yield names
    go_on.set()


def _listen(event: object) -> None:
    """A listener, which may block."""


def _make(job_class: type[Job]) -> Job:
    return job_class()


@pytest.mark.parametrize(
    ("job", "settings", "listens", "on_loop"),
    [
        (Plain, {}, False, True),
        (Plain, {"executors": {"io": "asyncio:5"}}, False, True),
        (WithConstructor, {}, False, False),
        (Plain, {"job_factory": _make}, False, False),
        (Plain, {}, True, False),
    ],
)
def test_it_begins_on_the_loop_if_no_other_code_of_the_program_runs_there(
    make_scheduler: Callable[..., Scheduler],
    threads: list[str],
    job: type[Job],
    settings: dict[str, Any],
    listens: bool,
    on_loop: bool,
) -> None:
    scheduler = make_scheduler(**settings)
    if listens:
        scheduler.listeners.add_listener(_listen)
    scheduler.start()
    detail = JobDetail(job, "job", executor="io" if "executors" in settings else None)
    scheduler.schedule_job(detail, SimpleTrigger("t"))
    assert scheduler.wait_until_recorded(1, SOON)
    assert [execution.outcome for execution in scheduler.executions()] == [Outcome.SUCCEEDED]
    assert ran
    [thread] = threads
    assert thread.endswith("event-loop") is on_loop


def test_one_that_is_cancelled_while_it_waits_for_the_loop_does_not_run(
    make_scheduler: Callable[..., Scheduler],
) -> None:
    scheduler = make_scheduler()
    scheduler.start()
    scheduler.schedule_job(JobDetail(Blocks, "blocks"), SimpleTrigger("blocks"))
    assert began.wait(20)
    scheduler.schedule_job(JobDetail(Plain, "waits"), SimpleTrigger("waits"))
    wait_until(lambda: len(scheduler.running()) == 2)
    scheduler.cancel_job("waits")
    go_on.set()
    assert scheduler.wait_until_recorded(2, SOON)
    outcomes = {execution.job_key.name: execution.outcome for execution in scheduler.executions()}
    assert outcomes == {"blocks": Outcome.SUCCEEDED, "waits": Outcome.CANCELLED}
    assert not ran
