"""Jobs for process workers: a module that imports little, as each process imports it."""

from __future__ import annotations

import os
import signal
import time

from quartzpy import Job, JobExecutionContext


class Computing(Job):
    def execute(self, context: JobExecutionContext) -> int:
        return os.getpid()


class DeafForever(Job):
    def execute(self, context: JobExecutionContext) -> None:
        while True:
            time.sleep(60)


class Dying(Job):
    """Dies of its first attempt."""

    def execute(self, context: JobExecutionContext) -> None:
        if context.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
