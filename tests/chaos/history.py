"""What happened, in two records that share no fate with the system under test.

Every process appends JSON lines to one file, each by a single write: they survive SIGKILL and a restarted database. And
jobs write their effects into a table of a second database, on connections of their own. All processes are on one
machine: the instants are of its boot-time clock, which no fault changes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

FILE_VARIABLE = "QUARTZPY_TEST_CHAOS_HISTORY"
EFFECTS_VARIABLE = "QUARTZPY_TEST_CHAOS_EFFECTS"
NODE_VARIABLE = "QUARTZPY_TEST_CHAOS_NODE"

EFFECTS_TABLE = """
CREATE TABLE IF NOT EXISTS chaos_effects (
    id bigserial PRIMARY KEY, job text NOT NULL, trigger_name text NOT NULL, instant text NOT NULL,
    fire_id bigint NOT NULL, node text NOT NULL, recorded_ns bigint NOT NULL
)
"""
# In the scheduler's database: written inside `fenced_transaction` and `transaction`.
FENCED_TABLE = """
CREATE TABLE IF NOT EXISTS chaos_fenced (
    id bigserial PRIMARY KEY, job text NOT NULL, fire_id bigint NOT NULL, kind text NOT NULL
)
"""

_descriptors: dict[tuple[int, str], int] = {}
_lock = threading.Lock()


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def rest(seconds: float) -> None:
    """Sleep, also where libfaketime has given this process another clock: `time.sleep` fails there."""
    select.select([], [], [], max(0.0, seconds))


def append(event: str, path: str | None = None, **fields: Any) -> None:
    """Write one line, whole or not at all."""
    path = path or os.environ[FILE_VARIABLE]
    # A child process has the descriptor of its parent, but may not know it: each has its own.
    key = (os.getpid(), path)
    descriptor = _descriptors.get(key)
    if descriptor is None:
        with _lock:
            descriptor = _descriptors.setdefault(
                key, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            )
    line = {
        "event": event,
        "at": now_ns(),
        "node": os.environ.get(NODE_VARIABLE, "conductor"),
        "pid": os.getpid(),
        **fields,
    }
    os.write(descriptor, (json.dumps(line) + "\n").encode())


def read(path: Path) -> Iterator[dict[str, Any]]:
    """All lines of a history that are whole."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)


class Effects:
    """A process's own connection to the second database."""

    def __init__(self) -> None:
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()

    def write(self, job: str, trigger: str, instant: str, fire_id: int) -> bool:
        """Insert an effect; whether it is certain that it was."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = psycopg.connect(
                        os.environ[EFFECTS_VARIABLE],
                        autocommit=True,
                        connect_timeout=2,
                        application_name="chaos:effects",
                        options="-c synchronous_commit=on -c statement_timeout=1000",
                    )
                self._connection.execute(
                    "INSERT INTO chaos_effects (job, trigger_name, instant, fire_id, node, recorded_ns)"
                    " VALUES (%s, %s, %s, %s, %s, %s)",
                    [job, trigger, instant, fire_id, os.environ.get(NODE_VARIABLE, ""), now_ns()],
                )
            except psycopg.Error:
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
                return False
            return True


effects = Effects()
