"""What jobs did, as they themselves wrote it down: one JSON line by a single write, which survives SIGKILL.

The journal shares nothing with the scheduler under test. All processes are on one machine, so their boot-time
clocks agree.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from quartzpy import JobExecutionContext
from tests.waiting import wait_until

VARIABLE = "QUARTZPY_TEST_JOURNAL"
_FILE = threading.local()


def write(event: str, context: JobExecutionContext) -> None:
    line = {
        "event": event,
        "job": context.job_key.name,
        "trigger": context.trigger_key.name,
        "group": context.trigger_key.group,
        "scheduled": context.scheduled_fire_time.isoformat(),
        "fire_id": context.fire_id,
        "recovering": context.recovering,
        "attempt": context.attempt,
        "pid": os.getpid(),
        "at": time.clock_gettime(time.CLOCK_BOOTTIME),
    }
    descriptor = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, (json.dumps(line) + "\n").encode())
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Line:
    event: str
    job: str
    trigger: str
    group: str
    scheduled: datetime
    fire_id: int
    recovering: bool
    attempt: int
    pid: int
    at: float


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, event: str | None = None, **equals: Any) -> list[Line]:
        if not self.path.exists():
            return []
        parsed = []
        for text in self.path.read_text().splitlines():
            line = json.loads(text)
            line["scheduled"] = datetime.fromisoformat(line["scheduled"])
            parsed.append(Line(**line))
        return [
            line
            for line in parsed
            if (event is None or line.event == event)
            and all(getattr(line, name) == value for name, value in equals.items())
        ]

    def wait_for(self, found: Callable[[list[Line]], bool], what: str) -> list[Line]:
        lines: list[Line] = []

        def is_there() -> bool:
            lines[:] = self.lines()
            return found(lines)

        wait_until(is_there, what, every=0.02, seen=lambda: f"the journal has {len(lines)} lines")
        return lines

    def starts_by_instant(self) -> Counter[tuple[str, datetime]]:
        return Counter((line.trigger, line.scheduled) for line in self.lines("start") if not line.recovering)
