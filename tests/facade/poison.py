"""Jobs that break what they can. They tell the test of themselves, through this module."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import text

from quartzpy import Job, JobDetail, JobExecutionContext, SimpleTrigger, persist_job_data_after_execution
from quartzpy.errors import JobCancelledError

ran = threading.Event()
go_on = threading.Event()


class OwnBaseError(BaseException):
    pass


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt

    def __repr__(self) -> str:
        raise SystemExit


class ReprRaises:
    def __repr__(self) -> str:
        raise OwnBaseError

    __str__ = __repr__


def raises(error: Callable[[], BaseException]) -> Callable[[JobExecutionContext], Any]:
    def body(context: JobExecutionContext) -> None:
        raise error()

    return body


def close_connection(context: JobExecutionContext) -> None:
    with context.transaction() as connection:
        connection.execute(text("SELECT 1"))
        connection.close()


def schedule_itself(context: JobExecutionContext) -> None:
    again = SimpleTrigger("again", start_time=datetime(2999, 1, 1, tzinfo=UTC)).bound_to(context.job_key)
    context.scheduler.schedule(again)


def delete_itself(context: JobExecutionContext) -> None:
    context.scheduler.delete_job(context.job_key)


def sleep_through_interrupt(context: JobExecutionContext) -> None:
    context.scheduler.interrupt(context.job_key)
    time.sleep(0.3)


def endless(context: JobExecutionContext) -> None:
    while not context.cancelled:
        sum(range(1_000))
    raise JobCancelledError("at last")


BODIES: dict[str, tuple[Callable[[JobExecutionContext], Any], str, str]] = {
    # What it does, its outcome, and what its error says.
    "raises": (raises(lambda: ValueError("wrong")), "FAILED", "ValueError: wrong"),
    "BaseException": (raises(lambda: OwnBaseError("mine")), "FAILED", "OwnBaseError: mine"),
    "sys.exit": (lambda context: sys.exit(3), "FAILED", "SystemExit: 3"),
    "KeyboardInterrupt": (raises(KeyboardInterrupt), "FAILED", "KeyboardInterrupt"),
    "GeneratorExit": (raises(GeneratorExit), "FAILED", "GeneratorExit"),
    "MemoryError": (raises(MemoryError), "FAILED", "MemoryError"),
    "StopIteration": (raises(StopIteration), "FAILED", "StopIteration"),
    "unprintable error": (raises(UnprintableError), "FAILED", "UnprintableError"),
    "error of 10 MB": (raises(lambda: ValueError("x" * 10_000_000)), "FAILED", "[...]"),
    "error with NUL and surrogate": (raises(lambda: ValueError("\0 \ud800")), "FAILED", "\\0 \\ud800"),
    "error of unprintable values": (raises(lambda: ValueError(ReprRaises())), "FAILED", "ValueError"),
    "huge int": (lambda context: 10**5000, "SUCCEEDED", ""),
    "last instant": (
        lambda context: datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "SUCCEEDED", "",
    ),
    "result that cannot be shown": (lambda context: ReprRaises(), "SUCCEEDED", ""),
    "result of 10 MB": (lambda context: "x" * 10_000_000, "SUCCEEDED", ""),
    "surrogate": (lambda context: "\ud800", "SUCCEEDED", ""),
    "generator": (lambda context: (one for one in ()), "FAILED", "remove the yield"),
    "schedules itself": (schedule_itself, "SUCCEEDED", ""),
    "deletes itself": (delete_itself, "SUCCEEDED", ""),
    "sleeps through interrupt": (sleep_through_interrupt, "SUCCEEDED", ""),
    "closes its connection": (close_connection, "FAILED", "memory://"),
}  # fmt: skip


class Poison(Job):
    def execute(self, context: JobExecutionContext) -> Any:
        return BODIES[context.job_data["body"]][0](context)


class PoisonAsync(Job):
    async def execute(self, context: JobExecutionContext) -> Any:
        await asyncio.sleep(0)
        return BODIES[context.job_data["body"]][0](context)


@persist_job_data_after_execution
class Unstorable(Job):
    def execute(self, context: JobExecutionContext) -> None:
        values = {"int": 10**5000, "instant": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))}
        context.job_detail_data["bad"] = values.get(context.job_data["what"], ReprRaises())


class Endless(Job):
    def execute(self, context: JobExecutionContext) -> None:
        endless(context)


class InitRaises(Job):
    def __init__(self) -> None:
        raise OwnBaseError("not made")

    def execute(self, context: JobExecutionContext) -> None: ...


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """What many decorators do: a plain function that returns what the `async def` behind it returns."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


class WrappedAsync(Job):
    @wrapped
    async def execute(self, context: JobExecutionContext) -> str:
        await asyncio.sleep(0.01)
        if context.job_data.get("fails"):
            raise ValueError("awaited")
        ran.set()
        return "awaited"


class BlocksTheLoop(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        ran.set()
        go_on.wait(100)


class DeafToItsTimeout(Job):
    def execute(self, context: JobExecutionContext) -> None:
        ran.set()
        go_on.wait(100)


class Exits(Job):
    """Run in a process."""

    def execute(self, context: JobExecutionContext) -> None:
        os._exit(9)


class Allocates(Job):
    """Run in a process: far more than it may have."""

    def execute(self, context: JobExecutionContext) -> int:
        return len(bytearray(2 * 1024**3))


class Fine(Job):
    def execute(self, context: JobExecutionContext) -> str:
        return "fine"


def no_execute(job_class: type[Job]) -> Any:
    return job_class() if job_class is Fine else object()


def detail(job_class: type[Job], **values: Any) -> JobDetail:
    return JobDetail(job_class, "poison", **values)


class Forks(Job):
    """Run in a process: is killed after it forked. What it forked lives on, and writes its number down."""

    def execute(self, context: JobExecutionContext) -> None:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, b"x")
            time.sleep(60)
            os._exit(0)
        os.read(reading, 1)
        Path(context.job_data["forked"]).write_text(str(child))
        if context.job_data["how"] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)


class Writes(Job):
    def execute(self, context: JobExecutionContext) -> None:
        Path(context.job_data["file"]).write_text("it ran")


class WrappedInProcess(WrappedAsync):
    pass
