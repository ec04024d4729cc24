"""An execution that is asked to stop before its job's code begins never begins, wherever it is at that moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, JobKey, Scheduler, SimpleTrigger
from quartzpy.node.completer import Completer
from quartzpy.node.reactions import Reactions
from quartzpy.node.workers.execution import Execution
from quartzpy.node.workers.job_runner import JobRunner
from tests.facade import process_jobs
from tests.waiting import wait_until

MakeScheduler = Callable[..., Scheduler]
LONG = timedelta(seconds=60)

began: list[str] = []


class Plain(Job, type_name="cancelled-before-start:plain"):
    def execute(self, context: JobExecutionContext) -> None:
        began.append("plain")


class Awaited(Job, type_name="cancelled-before-start:awaited"):
    async def execute(self, context: JobExecutionContext) -> None:
        began.append("awaited")


class Gate:
    """Holds the workers at a place of the way from the pool to the job's code."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self.opened.wait(60)


@pytest.fixture
def gate() -> Iterator[Gate]:
    began.clear()
    made = Gate()
    yield made
    made.opened.set()


WORKERS: dict[str, tuple[type[Job], dict[str, Any]]] = {
    "threads": (Plain, {}),
    "loop": (Awaited, {}),
    "asyncio": (Awaited, {"executor": "own"}),
    "processes": (process_jobs.Computing, {"executor": "own"}),
}
EXECUTORS = {"asyncio": {"own": "asyncio:1"}, "processes": {"own": "processes:1"}}


def out_of_the_pool(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Execution.__call__

    def called(self: Execution) -> None:
        gate.pass_through()
        original(self)

    monkeypatch.setattr(Execution, "__call__", called)


def before_the_code(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    original = JobRunner.can_begin_on_loop

    def asked(self: JobRunner, execution: Execution) -> bool:
        assert execution.began_at is not None
        gate.pass_through()
        return original(self, execution)

    monkeypatch.setattr(JobRunner, "can_begin_on_loop", asked)


@pytest.mark.parametrize("held", [out_of_the_pool, before_the_code])
@pytest.mark.parametrize("kind", list(WORKERS))
def test_it_does_not_begin(
    make_scheduler: MakeScheduler,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    gate: Gate,
    kind: str,
    held: Callable[[Gate, pytest.MonkeyPatch], None],
) -> None:
    held(gate, monkeypatch)
    # A check-in would find the request as well, much later.
    slow = {"checkin_interval": timedelta(seconds=60), "failure_window": timedelta(minutes=9)}
    scheduler = make_scheduler(workers=1, executors=EXECUTORS.get(kind, {}), **slow)
    scheduler.start()
    job_class, values = WORKERS[kind]
    scheduler.schedule_job(JobDetail(job_class, "job", durable=True, **values), SimpleTrigger("t"))
    assert gate.reached.wait(60)
    [running] = scheduler.running()
    elsewhere = scheduler if url == "memory://" else make_scheduler()
    assert elsewhere.cancel(running)
    assert scheduler._node is not None
    [attempt] = scheduler._node.parts.runner.accepted()
    wait_until(lambda: attempt.cancelled.is_requested)
    gate.opened.set()
    assert scheduler.wait_until_recorded(1, LONG)
    [record] = scheduler.executions(job=JobKey("job"))
    assert record.outcome == "CANCELLED"
    assert began == []


def test_a_request_that_only_the_store_knows_is_not_lost_in_a_hand_back(
    make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    """The request comes after the node has decided to hand the fire back, and before that is recorded."""
    monkeypatch.setattr(Execution, "__call__", lambda self: self.hand_back())
    monkeypatch.setattr(Reactions, "apply_cancel_requests", lambda self: None)
    original = Completer._record

    def recorded(self: Completer, batch: Any) -> None:
        gate.pass_through()
        original(self, batch)

    monkeypatch.setattr(Completer, "_record", recorded)
    scheduler = make_scheduler(workers=1)
    scheduler.start()
    scheduler.schedule_job(JobDetail(Plain, "job", durable=True), SimpleTrigger("t"))
    assert gate.reached.wait(60)
    [running] = scheduler.running()
    assert scheduler.cancel(running)
    gate.opened.set()
    assert scheduler.wait_until_recorded(1, LONG)
    [record] = scheduler.executions(job=JobKey("job"))
    assert (record.outcome, record.error) == ("CANCELLED", None)
    assert not list(scheduler.triggers(job=JobKey("job")))
