"""Jobs that tell the test of themselves, through this module: tests and jobs are in one process."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from typing import Any

import pytest
from sqlalchemy import text

from quartzpy import (
    Job,
    JobExecutionContext,
    JobExecutionError,
    JobKey,
    disallow_concurrent_execution,
    persist_job_data_after_execution,
)
from quartzpy.errors import InvalidValueError

ran: queue.SimpleQueue[JobExecutionContext] = queue.SimpleQueue()
go_on = threading.Event()


class Recorded(Job):
    def execute(self, context: JobExecutionContext) -> str:
        ran.put(context)
        return "a result"


class Returning(Job):
    """Returns what the scheduler's context says."""

    def execute(self, context: JobExecutionContext) -> Any:
        return context.scheduler.context["result"]


class RecordedAsync(Job):
    async def execute(self, context: JobExecutionContext) -> str:
        await asyncio.sleep(0)
        ran.put(context)
        return threading.current_thread().name


class Waiting(Job):
    """Runs until the test says so, or until it is interrupted."""

    def execute(self, context: JobExecutionContext) -> None:
        ran.put(context)
        while not go_on.is_set() and not context.wait_cancelled(0.01):
            pass
        context.put("cancelled", context.cancelled)


class WaitingForAges(Job):
    """Until it is interrupted."""

    def execute(self, context: JobExecutionContext) -> None:
        ran.put(context)
        context.wait_cancelled(1e15)


class WaitingAsync(Job):
    """Runs until the test says so, on the event loop."""

    async def execute(self, context: JobExecutionContext) -> None:
        ran.put(context)
        while not go_on.is_set() and not context.cancelled:
            await asyncio.sleep(0.01)


class ThreadName(Job):
    def execute(self, context: JobExecutionContext) -> None:
        context.result = threading.current_thread().name
        ran.put(context)


class EndlessAsync(Job):
    """Has to be cut off."""

    async def execute(self, context: JobExecutionContext) -> None:
        ran.put(context)
        await asyncio.sleep(3600)


class Deaf(Job):
    """Runs until the test says so, and does not hear that it should stop."""

    def execute(self, context: JobExecutionContext) -> None:
        ran.put(context)
        go_on.wait(30)


class Paying(Job):
    """Writes a row in its transaction, and ends as its data says."""

    def execute(self, context: JobExecutionContext) -> None:
        how = context.job_data["how"]
        context.job_detail_data["paid"] = context.job_detail_data.get("paid", 0) + 1
        try:
            self.pay(context, how)
        except Exception as error:
            context.put("error", error)
            ran.put(context)
            raise
        context.put("after", [execution.outcome for execution in context.scheduler.executions()])
        if how == "twice":
            with pytest.raises(InvalidValueError) as refused:
                self.pay(context, how)
            context.put("error", refused.value)
        ran.put(context)
        if how == "raise afterwards":
            raise RuntimeError("too late")

    def pay(self, context: JobExecutionContext, how: str) -> None:
        with context.transaction() as connection:
            connection.execute(text("INSERT INTO payments VALUES (1)"))
            if how == "wait":
                ran.put(context)
                go_on.wait(30)
            if how == "raise at first" and context.attempt == 1:
                raise RuntimeError("not yet")


class TriggeringNext(Job):
    """Triggers the job of its data in its transaction, and ends as its data says."""

    def execute(self, context: JobExecutionContext) -> None:
        ran.put(context)
        with context.transaction() as connection:
            context.scheduler.using(connection).trigger_job(JobKey("next", "DEFAULT"), {"after": "first"})
            if context.job_data["fails"]:
                raise RuntimeError("not this time")


class Saving(Job):
    """Writes two rows, each in a fenced transaction, and ends as its data says."""

    def execute(self, context: JobExecutionContext) -> None:
        how = context.job_data["how"]
        try:
            self.save(context, 1)
            if how == "wait":
                ran.put(context)
                go_on.wait(30)
            if how == "after its transaction":
                with context.transaction():
                    pass
            self.save(context, 2, fails=how == "raise")
        except Exception as error:
            context.put("error", error)
            if how != "raise":
                raise
        finally:
            ran.put(context)

    def save(self, context: JobExecutionContext, number: int, *, fails: bool = False) -> None:
        with context.fenced_transaction() as connection:
            connection.execute(text("INSERT INTO payments VALUES (:number)"), {"number": number})
            if fails:
                raise RuntimeError("not this one")
        context.put("running", [row.state for row in context.scheduler.running()])


class FailingUntil(Job):
    """Fails before the attempt that its data names."""

    def execute(self, context: JobExecutionContext) -> None:
        ran.put(context)
        if context.attempt < context.job_data["attempt"]:
            raise ValueError(f"attempt {context.attempt}")


@disallow_concurrent_execution
class SerialWaiting(Waiting):
    pass


class OwnBaseError(BaseException):
    pass


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


RAISES: dict[str, BaseException] = {
    "Exception": ValueError("wrong"),
    "SystemExit": SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "GeneratorExit": GeneratorExit(),
    "OwnBaseError": OwnBaseError("mine"),
    "CancelledError": asyncio.CancelledError(),
    "Unprintable": Unprintable(),
    "StopIteration": StopIteration(),
}


class Raising(Job):
    def execute(self, context: JobExecutionContext) -> None:
        ran.put(context)
        raise RAISES[context.job_data["what"]].with_traceback(None)


class RaisingAsync(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        ran.put(context)
        raise RAISES[context.job_data["what"]].with_traceback(None)


class CannotBeMade(Job):
    def __init__(self) -> None:
        raise RuntimeError("no such luck")

    def execute(self, context: JobExecutionContext) -> None: ...


class Asking(Job):
    """Raises a JobExecutionError with the flag that its data names; a refire three times."""

    def execute(self, context: JobExecutionContext) -> None:
        ran.put(context)
        flag = context.job_data["flag"]
        if flag != "refire_immediately" or context.refire_count < 3:
            raise JobExecutionError("asks", **{flag: True})


class Mending(Job):
    """Divides by a number of its data. Where that fails it mends the number, and asks to be fired again at once."""

    def execute(self, context: JobExecutionContext) -> float:
        ran.put((context.refire_count, context.get("attempts", 0), context.job_run_time))
        context.put("attempts", context.get("attempts", 0) + 1)
        try:
            return 42 / context.job_data["denominator"]
        except ZeroDivisionError as error:
            context.job_detail_data["denominator"] = 7
            raise JobExecutionError("mended", refire_immediately=True) from error


class MendingDetail(Job):
    """Does so as Quartz's own example is written: it changes the data of its detail."""

    def execute(self, context: JobExecutionContext) -> float:
        own: Any = context.job_detail.data
        ran.put((context.refire_count, context.get("attempts", 0), context.job_run_time))
        context.put("attempts", context.get("attempts", 0) + 1)
        try:
            return 42 / own["denominator"]
        except ZeroDivisionError as error:
            own["denominator"] = 7
            raise JobExecutionError("mended", refire_immediately=True) from error


class MendingAsync(Mending):
    async def execute(self, context: JobExecutionContext) -> float:
        return super().execute(context)


class AlwaysAgain(Job):
    """Asks to be fired again at once, for ever."""

    def execute(self, context: JobExecutionContext) -> None:
        ran.put(context.refire_count)
        # Thousands of refires a second, each with a logged traceback, would take the time of what is tested.
        time.sleep(0.01)
        raise JobExecutionError("again", refire_immediately=True)


@disallow_concurrent_execution
@persist_job_data_after_execution
class Counting(Job):
    def execute(self, context: JobExecutionContext) -> None:
        context.job_detail_data["count"] = context.job_detail_data.get("count", 0) + 1
        context.job_data["not stored"] = True
        ran.put(context)


class NotJson(Job, type_name="not-json"):
    def execute(self, context: JobExecutionContext) -> None:
        context.job_detail_data["bad"] = object()
        ran.put(context)


def next_run(seconds: float = 90.0) -> JobExecutionContext:
    return ran.get(timeout=seconds)


def nothing_ran(seconds: float = 0.3) -> bool:
    try:
        ran.get(timeout=seconds)
    except queue.Empty:
        return True
    return False


def reset() -> None:
    go_on.clear()
    while not ran.empty():
        ran.get()


def arguments(**changes: Any) -> dict[str, Any]:
    return {
        "name": "facade",
        "idle_wait": "1s",
        "checkin_interval": "200ms",
        "lock_timeout": "5s",
        "failure_window": "6s",
        "workers": 4,
        **changes,
    }
