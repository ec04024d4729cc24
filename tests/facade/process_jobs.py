"""Jobs for process workers: a module that imports little, as each process imports it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from pathlib import Path

from quartzpy import Job, JobExecutionContext, Scheduler


class Computing(Job):
    def execute(self, context: JobExecutionContext) -> int:
        return os.getpid()


class Following(Job):
    """Triggers the next job with a scheduler of its own, once a file exists."""

    def execute(self, context: JobExecutionContext) -> None:
        while not Path(context.job_data["file"]).exists():
            time.sleep(0.01)
        Scheduler(context.job_data["url"], name="facade").trigger_job("next")


class DeafForever(Job):
    def execute(self, context: JobExecutionContext) -> None:
        while True:
            time.sleep(60)


class Dying(Job):
    """Dies of its first attempt."""

    def execute(self, context: JobExecutionContext) -> None:
        if context.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)


class Reporting(Job):
    """Reports its progress, also from a thread that outlives it, and waits until it is asked to stop."""

    def execute(self, context: JobExecutionContext) -> int:
        context.progress(1, 4, "reading")
        while not context.wait_cancelled(5):
            pass
        threading.Thread(target=report_for_ever, args=(context,), daemon=True).start()
        return os.getpid()


def report_for_ever(context: JobExecutionContext) -> None:
    while True:
        context.progress(1.0, "left behind")
        time.sleep(0.001)


class Logging(Job):
    """Logs with a logger of the program and with that of the run, also from a thread.

    With the path of a FIFO it then says there that it hangs, and hangs.
    """

    def execute(self, context: JobExecutionContext) -> None:
        logging.getLogger("program").info("in the process, attempt %d", context.attempt)
        logging.getLogger("program").debug("below the level")
        thread = threading.Thread(target=context.log.warning, args=("from a thread",))
        thread.start()
        thread.join()
        if (fifo := context.job_data.get("fifo")) is not None:
            Path(fifo).write_text("hangs")
            DeafForever().execute(context)


class LoggingAsync(Job):
    async def execute(self, context: JobExecutionContext) -> None:
        await asyncio.create_task(self._log())

    async def _log(self) -> None:
        logging.getLogger("program").info("in a task")
