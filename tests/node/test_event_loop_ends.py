"""No job ends the event loop of its node for the others, whatever it does to the loop."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from quartzpy import Job, JobDetail, JobExecutionContext, Scheduler, SimpleTrigger
from quartzpy.errors import SchedulerStateError
from quartzpy.node.health import HealthState
from quartzpy.node.workers.event_loop import EventLoopThread
from quartzpy.states import Outcome
from quartzpy.store.queries import ExecutionQuery
from tests.waiting import wait_until

Loop = Any


def _exits(error: type[BaseException]) -> Callable[[Loop], None]:
    def raises() -> None:
        raise error

    return lambda loop: loop.call_soon(raises)


def _stops_again_and_again(loop: Loop) -> None:
    def again() -> None:
        loop.call_soon(again)
        loop._stopping = True

    again()


def _closes_its_pipe(loop: Loop) -> None:
    loop._selector.unregister(loop._ssock)
    loop._ssock.close()
    loop._csock.close()


GOES_ON: dict[str, Callable[[Loop], object]] = {
    "stops by the class": lambda loop: type(loop).stop(loop),
    "is told to stop": lambda loop: setattr(loop, "_stopping", True),
    "SystemExit": _exits(SystemExit),
    "KeyboardInterrupt": _exits(KeyboardInterrupt),
    "GeneratorExit": _exits(GeneratorExit),
    "an error in a callback": _exits(ValueError),
    "another loop is set": lambda loop: asyncio.set_event_loop(None),
    "no loop is running": lambda loop: asyncio._set_running_loop(None),
    "another thread stops it": lambda loop: loop.call_soon_threadsafe(loop.stop),
}
"""After these, the tasks of the loop go on."""
ENDS: dict[str, Callable[[Loop], object]] = {
    "closed selector": lambda loop: loop._selector.close(),
    "closed descriptor": lambda loop: os.close(loop._selector.fileno()),
    "no selector": lambda loop: setattr(loop, "_selector", None),
    "closed pipe": _closes_its_pipe,
    "stops again and again": _stops_again_and_again,
    "closed": lambda loop: setattr(loop, "_closed", True),
}
"""After these, they end with an error."""
if sys.platform != "linux":
    del ENDS["closed descriptor"]


def supervised(loop: EventLoopThread, condition: Callable[[], bool]) -> Callable[[], bool]:
    def is_so() -> bool:
        loop.check()
        if not loop.is_alive():
            loop.restart()
        return condition()

    return is_so


@pytest.mark.parametrize("way", [*GOES_ON, *ENDS])
def test_later_jobs_run_and_those_that_were_running_end(way: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    loop = EventLoopThread("loop")
    ended: list[BaseException | None] = []
    cleaned, ran, go_on = threading.Event(), threading.Event(), threading.Event()

    async def patient() -> None:
        try:
            while way in GOES_ON and not go_on.is_set():
                await asyncio.sleep(0.01)
            if way in ENDS:
                await asyncio.get_running_loop().create_future()
        finally:
            cleaned.set()
            await asyncio.sleep(0)

    async def spoils() -> None:
        {**GOES_ON, **ENDS}[way](asyncio.get_running_loop())

    async def later() -> None:
        await asyncio.sleep(0.001)
        ran.set()

    loop.run(patient(), "patient", lambda lost=None: ended.append(lost))
    before = loop._loop
    spoiled = threading.Event()
    loop.run(spoils(), "spoils", lambda lost=None: spoiled.set())
    wait_until(supervised(loop, spoiled.is_set))
    if way in GOES_ON:
        loop.run(later())
        wait_until(supervised(loop, ran.is_set))
        assert loop._loop is before
        assert not ended
        go_on.set()
        wait_until(supervised(loop, lambda: bool(ended)))
        assert ended == [None]
    else:
        wait_until(supervised(loop, lambda: bool(ended)))
        [error] = ended
        assert isinstance(error, SchedulerStateError)
        assert str(error).startswith("the event loop of this node ended while the job was running: ")
        assert cleaned.is_set(), "the job has cleaned up"
        loop.run(later())
        wait_until(supervised(loop, ran.is_set))
        assert loop._loop is not before
    assert loop.problem() is None
    assert len(caplog.records) < 15
    thread = loop._thread
    began = time.monotonic()
    loop.close(60)
    assert time.monotonic() - began < 50
    assert thread is not None
    assert not thread.is_alive()


@pytest.mark.parametrize("method", ["stop", "close"])
def test_a_job_that_would_end_the_loop_fails_itself(method: str) -> None:
    loop = EventLoopThread("loop")
    errors: list[BaseException] = []
    ended = threading.Event()

    async def stops() -> None:
        try:
            getattr(asyncio.get_running_loop(), method)()
        except BaseException as error:
            errors.append(error)

    loop.run(stops(), "", ended.set)
    assert ended.wait(30)
    assert str(errors[0]).startswith(f"loop.{method}(): this event loop belongs to the node")
    loop.close(5)


class Patient(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        await asyncio.sleep(600)


class Untidy(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            raise ValueError("cleaning up failed")


class Spoils(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        loop: Loop = asyncio.get_running_loop()
        _closes_its_pipe(loop)
        loop._selector.close()


class Quick(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        await asyncio.sleep(0)


def test_a_node_whose_loop_was_destroyed_records_what_ran_and_goes_on() -> None:
    scheduler = Scheduler("memory://", name="loops")
    scheduler.start()

    def outcomes(job: str) -> list[tuple[Outcome, str | None]]:
        return [
            (record.outcome, record.error)
            for record in scheduler._store.find(ExecutionQuery(), 100)
            if record.job_key.name == job and record.outcome is not None
        ]

    scheduler.schedule_job(JobDetail(Patient, "patient"), SimpleTrigger("patient"))
    scheduler.schedule_job(JobDetail(Untidy, "untidy"), SimpleTrigger("untidy"))
    wait_until(lambda: len(scheduler.running()) == 2)
    scheduler.schedule_job(JobDetail(Spoils, "spoils"), SimpleTrigger("spoils"))
    wait_until(lambda: outcomes("patient"))
    [(outcome, error)] = outcomes("patient")
    assert outcome is Outcome.FAILED
    assert "the event loop of this node ended while the job was running" in (error or "")
    wait_until(lambda: outcomes("untidy"))
    [(outcome, error)] = outcomes("untidy")
    assert outcome is Outcome.FAILED
    assert "cleaning up failed" in (error or ""), "its own error says more"
    scheduler.schedule_job(JobDetail(Quick, "quick"), SimpleTrigger("quick"))
    wait_until(lambda: outcomes("quick"))
    assert [outcome for outcome, _ in outcomes("quick")] == [Outcome.SUCCEEDED]
    assert scheduler.health().state is HealthState.HEALTHY
    assert scheduler.shutdown()


def test_the_loop_of_a_node_ends_with_it() -> None:
    of_others = set(threading.enumerate())
    scheduler = Scheduler("memory://", name="loops")
    scheduler.start()
    scheduler.schedule_job(JobDetail(Quick, "quick"), SimpleTrigger("quick"))
    assert scheduler.wait_until_recorded(1, "30s")
    before = {thread for thread in set(threading.enumerate()) - of_others if "loop" in thread.name}
    assert before
    assert scheduler.shutdown()
    assert not any(thread.is_alive() for thread in before)
