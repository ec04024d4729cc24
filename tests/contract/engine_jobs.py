"""Jobs for the contract tests of engines. They and their test tell each other things by files."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from quartzpy import Job, JobExecutionContext
from quartzpy.errors import JobCancelledError


def note(context: JobExecutionContext, what: str) -> None:
    """Add a line with the process id to a file of this execution."""
    with (Path(context.job_data["directory"]) / f"{context.fire_id}.{what}").open("a") as file:
        file.write(f"{os.getpid()}\n")


class Gate(Job):
    """Runs until its gate is opened, or until it is asked to stop. Returns its fire id."""

    def execute(self, context: JobExecutionContext) -> int:
        note(context, "begun")
        gate = Path(context.job_data["directory"]) / f"{context.fire_id}.open"
        while not gate.exists():
            threading.Event().wait(0.01)
            if context.cancelled:
                note(context, "stopped")
                raise JobCancelledError
        note(context, "ended")
        return context.fire_id


class Stubborn(Job):
    """Runs until its gate is opened, and does not look whether it is asked to stop."""

    def execute(self, context: JobExecutionContext) -> int:
        note(context, "begun")
        gate = Path(context.job_data["directory"]) / f"{context.fire_id}.open"
        while not gate.exists():
            threading.Event().wait(0.01)
        note(context, "ended")
        return context.fire_id


class Once(Job):
    """Writes down that it runs, and returns its fire id."""

    def execute(self, context: JobExecutionContext) -> int:
        note(context, "begun")
        return context.fire_id
