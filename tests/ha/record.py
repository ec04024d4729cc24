"""What jobs did, as they wrote it down themselves: a line by a single write each, in a file beside the system.

The file shares nothing with the database. All processes are on one machine, so their boot-time clocks agree.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from quartzpy import JobExecutionContext

VARIABLE = "QUARTZPY_TEST_HA_RECORD"


@dataclass(frozen=True, slots=True)
class Line:
    event: str
    job: str
    trigger: str
    scheduled: datetime
    fire_id: int
    recovering: bool
    attempt: int
    pid: int
    at: float
    """Seconds of the boot-time clock."""
    count: int | None = None
    """What a job that counts has come to."""


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write(event: str, context: JobExecutionContext, count: int | None = None) -> None:
    line = {
        "event": event,
        "job": context.job_key.name,
        "trigger": context.trigger_key.name,
        "scheduled": context.scheduled_fire_time.isoformat(),
        "fire_id": context.fire_id,
        "recovering": context.recovering,
        "attempt": context.attempt,
        "pid": os.getpid(),
        "at": now(),
        "count": count,
    }
    descriptor = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, (json.dumps(line) + "\n").encode())
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Line]:
    """All lines, by time."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text().splitlines():
        fields = json.loads(text)
        lines.append(Line(**{**fields, "scheduled": datetime.fromisoformat(fields["scheduled"])}))
    return sorted(lines, key=lambda line: line.at)
