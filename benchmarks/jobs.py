"""The jobs that the scenarios run, and the notes that they take in the process of their node."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from functools import cache

from quartzpy import Job, JobExecutionContext

WAIT_SECONDS = 0.05
BURN_SECONDS = 0.5


class Counter:
    """A counter that threads increment without a lock, at the cost of one call."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._reads = 0
        self._reading = threading.Lock()
        self.add = self._numbers.__next__

    @property
    def value(self) -> int:
        # Reading takes a number as well, so the earlier reads are subtracted.
        with self._reading:
            value = next(self._numbers) - self._reads
            self._reads += 1
        return value


runs = Counter()
starts: deque[tuple[str, float, float]] = deque()
"""The name of the job, the scheduled instant and the instant of the start, in seconds since 1970."""


class Nothing(Job, type_name="benchmark-nothing"):
    """Does nothing."""

    def execute(self, context: JobExecutionContext) -> None:
        runs.add()


class AsyncNothing(Job, type_name="benchmark-async-nothing"):
    """Does nothing, on the event loop."""

    async def execute(self, context: JobExecutionContext) -> None:
        runs.add()


class Wait(Job, type_name="benchmark-wait"):
    """Waits as long as a short call to another service takes."""

    def execute(self, context: JobExecutionContext) -> None:
        threading.Event().wait(WAIT_SECONDS)
        runs.add()


class NoteStart(Job, type_name="benchmark-note-start"):
    """Notes when it was to start and when it started."""

    def execute(self, context: JobExecutionContext) -> None:
        starts.append((context.job_key.name, context.scheduled_fire_time.timestamp(), time.time()))
        runs.add()


class Burn(Job, type_name="benchmark-burn"):
    """Keeps the interpreter busy with pure Python."""

    def execute(self, context: JobExecutionContext) -> None:
        end = time.perf_counter() + BURN_SECONDS
        number = 0
        while time.perf_counter() < end:
            number = (number * 31 + 7) % 1_000_003


class Aside(Job, type_name="benchmark-aside"):
    """Does nothing, beside the jobs whose runs are counted."""

    def execute(self, context: JobExecutionContext) -> None:
        pass


class Lasting(Job, type_name="benchmark-lasting"):
    """Lasts for longer than a measurement of lateness, unless it is asked to stop."""

    def execute(self, context: JobExecutionContext) -> None:
        context.wait_cancelled(20.0)


class Remote(Job, type_name="benchmark-remote"):
    """Lasts so many seconds, unless it is asked to stop."""

    def execute(self, context: JobExecutionContext) -> None:
        context.wait_cancelled(context.job_data["seconds"])


@cache
def numbered_type(number: int) -> type[Job]:
    """Return the type of this number, which does nothing: each number is a type of its own."""
    name = f"Nothing{number}"
    return type(name, (Nothing,), {"__module__": __name__}, type_name=f"benchmark-nothing-{number}")
