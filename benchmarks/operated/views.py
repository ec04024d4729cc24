"""The SQL views for operators, and the deletion of old history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg

from benchmarks.operated.measuring import times_of, times_of_each
from quartzpy import Scheduler
from quartzpy.config.config import SchedulerConfig
from quartzpy.store.postgresql.schema.operator_views import VIEWS
from quartzpy.store.postgresql.store import SqlJobStore

_MORE = {
    "the latest of qrtz_errors": "SELECT * FROM qrtz_errors ORDER BY ended_at DESC NULLS FIRST LIMIT 50",
    "the number of qrtz_errors": "SELECT count(*) FROM qrtz_errors",
    "the number of qrtz_next_24h": "SELECT count(*) FROM qrtz_next_24h",
}
SLICE = 1_000
"""The number of executions that one deletion removes."""


def measure(connection: psycopg.Connection[Any]) -> dict[str, list[float]]:
    """Return the milliseconds of 50 rows of each view, and of what needs all of its rows."""
    texts = {f"50 rows of {name}": f"SELECT * FROM {name} LIMIT 50" for name in VIEWS} | _MORE

    def reading(text: str) -> Callable[[], Any]:
        return lambda: connection.execute(text.encode()).fetchall()

    return times_of_each({name: reading(text) for name, text in texts.items()})


def measure_deletion(url: str, scheduler: Scheduler) -> dict[str, list[float]]:
    """Return the milliseconds of the deletion of slices of the oldest history."""
    store = SqlJobStore(url, SchedulerConfig(name=scheduler.name))
    try:
        purge = lambda: store.purge_history(older_than=timedelta(days=7), limit=SLICE)  # noqa: E731
        return {f"deletion of {SLICE:,} executions": times_of(purge)}
    finally:
        store.close()
