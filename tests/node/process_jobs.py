"""Jobs for child processes. A test and its job synchronize through FIFOs, whose two ends wait for each other."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from quartzpy import Job, JobExecutionContext, JobExecutionError, job
from quartzpy.errors import InvalidValueError, JobCancelledError


class Color(Enum):
    RED = 1


class OwnError(ConnectionError):
    def __str__(self) -> str:
        return "its own words"


class OwnRequest(JobExecutionError):
    pass


def say(context: JobExecutionContext, name: str) -> None:
    Path(context.job_data[name]).write_text(str(os.getpid()))


class Echo(Job):
    def execute(self, context: JobExecutionContext) -> Any:
        return context.job_data["value"]


class Pid(Job):
    def execute(self, context: JobExecutionContext) -> int:
        return os.getpid()


class Told(Job):
    """Returns the properties of its context as texts."""

    def execute(self, context: JobExecutionContext) -> dict[str, str]:
        names = (
            "trigger", "trigger_key", "job_detail", "job_key", "calendar", "fire_time", "scheduled_fire_time",
            "previous_fire_time", "next_fire_time", "fire_id", "fire_id", "recovering", "coalesced_fire_times",
            "attempt", "retried_trigger_key", "job_data", "cancelled", "lease_lost", "refire_count",
        )  # fmt: skip
        return {name: str(getattr(context, name)) for name in names}


@dataclass(frozen=True)
class Order:
    number: int
    color: Color = Color.RED


class Typed(Job, data_type=Order):
    def execute(self, context: JobExecutionContext) -> Order:
        order: Order = context.data
        return order


class KeepsResult(Job):
    def execute(self, context: JobExecutionContext) -> None:
        context.result = "kept"
        raise ValueError("after all")


class ChangesData(Job):
    def execute(self, context: JobExecutionContext) -> None:
        data = context.job_detail_data
        match context.job_data["how"]:
            case "appends":
                data["list"].append(Color.RED)
            case "empties":
                data.clear()
            case "fails":
                data["list"] = [2]
                raise ValueError("after the change")
            case "spoils":
                data["list"] = object()


ERRORS = {
    "value": ValueError("no value"),
    "key": KeyError("k"),
    "own": OwnError("ignored"),
    "exit": SystemExit("bye"),
    "interrupt": KeyboardInterrupt("stop"),
    "cancelled": JobCancelledError("not asked"),
    "surrogate": ValueError("\udc80 and \0"),
    "long": ValueError("x" * 20_000),
}


class Raises(Job):
    def execute(self, context: JobExecutionContext) -> None:
        # A child may raise one of them twice, and an error keeps the traceback of the time before.
        raise ERRORS[context.job_data["error"]].with_traceback(None)


class RaisesCancelled(Job):
    def execute(self, context: JobExecutionContext) -> None:
        raise asyncio.CancelledError("by itself")


class Refires(Job):
    def execute(self, context: JobExecutionContext) -> int:
        if context.refire_count < 2:
            raise JobExecutionError("again", refire_immediately=True)
        return context.refire_count


class Mends(Job):
    def execute(self, context: JobExecutionContext) -> int:
        if context.job_data["number"] == 0:
            context.job_detail_data["number"] = 3
            raise JobExecutionError("mended", refire_immediately=True)
        return int(context.job_data["number"])


class Unschedules(Job):
    def execute(self, context: JobExecutionContext) -> None:
        try:
            raise OwnError("the cause")
        except OwnError as error:
            raise OwnRequest("no more", **context.job_data) from error


class Waits(Job):
    def execute(self, context: JobExecutionContext) -> str:
        say(context, "begun")
        if not context.wait_cancelled(60):
            return "never asked"
        if context.job_data.get("raises"):
            context.raise_if_cancelled()
        return f"lease lost: {context.lease_lost}"


class Holds(Job):
    """Signals that it has started, and waits for the test."""

    def execute(self, context: JobExecutionContext) -> int:
        say(context, "begun")
        Path(context.job_data["go_on"]).read_text()
        return os.getpid()


class WaitsAsync(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        say(context, "begun")
        await asyncio.sleep(60)


class ReturnsAsync(Job):
    async def execute(self, context: JobExecutionContext) -> int:
        await asyncio.sleep(0)
        return os.getpid()


class Stubborn(Job):
    def execute(self, context: JobExecutionContext) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say(context, "begun")
        while True:
            time.sleep(60)


class Dies(Job):
    def execute(self, context: JobExecutionContext) -> None:
        match context.job_data["how"]:
            case "exit":
                os._exit(3)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)


class TakesSignals(Job):
    def execute(self, context: JobExecutionContext) -> list[int]:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        endless = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=-1)
        assert endless.stdout
        endless.stdout.readline()
        endless.terminate()
        endless.stdout.close()
        return [endless.wait()]


class Tries(Job):
    """Uses the parts of the context that a child does not have."""

    def execute(self, context: JobExecutionContext) -> list[str]:
        refused = []
        for attempt in (lambda: context.scheduler.trigger_job, context.transaction):
            try:
                attempt()
            except InvalidValueError as error:
                refused.append(str(error))
        return refused


class ReturnsSet(Job):
    def execute(self, context: JobExecutionContext) -> set[int]:
        return {1}


class Modules(Job):
    def execute(self, context: JobExecutionContext) -> list[str]:
        return sorted({name.partition(".")[0] for name in sys.modules})


class Needs(Job):
    def __init__(self, number: int) -> None:
        self._number = number

    def execute(self, context: JobExecutionContext) -> int:
        return self._number


def made_with_seven(job_class: type[Job]) -> Job:
    if job_class is not Needs:
        raise RuntimeError("the factory makes nothing else")
    return Needs(7)


@job
def added(a: int, b: timedelta, context: JobExecutionContext) -> timedelta:
    print("printed in the child", flush=False)
    return b * a * context.attempt
