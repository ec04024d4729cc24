"""A cluster in five troubles: a dead node, a full pool, a blocked job, a poisoned trigger, a change of the clock."""

from __future__ import annotations

import os
import struct
import zoneinfo
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from quartzpy import Scheduler
from quartzpy.jobs.context import JobExecutionContext
from quartzpy.jobs.job import Job, JobDetail, disallow_concurrent_execution
from quartzpy.keys import TriggerKey
from quartzpy.operations.incidents.kinds import clock_change
from quartzpy.triggers.cron import CronTrigger
from quartzpy.triggers.simple import SimpleTrigger
from quartzpy.triggers.trigger import Trigger

DSN_VARIABLE, INSTANCE_VARIABLE = "QUARTZPY_TEST_TROUBLES_DSN", "QUARTZPY_TEST_TROUBLES_INSTANCE"
SETTINGS: dict[str, Any] = {
    "name": "troubles",
    "workers": 4,
    "checkin_interval": "500ms",
    "lock_timeout": "1s",
    "idle_wait": "2s",
    # A dead node stays to be seen; a node that is started again under its name takes over at once.
    "failure_window": "10m",
    "misfire_threshold": "10m",
}
ZONE = "Test/Summer"
LONGEST = 600.0
LATE = timedelta(seconds=30)
NIGHTLY, POISONED, LOST = TriggerKey("nightly"), TriggerKey("poisoned"), TriggerKey("lost")
JobWithTriggers = tuple[JobDetail, Sequence[Trigger]]


class Hold(Job):
    """Runs until it is cancelled."""

    def execute(self, context: JobExecutionContext) -> None:
        context.wait_cancelled(LONGEST)
        context.raise_if_cancelled()


@disallow_concurrent_execution
class Serial(Hold):
    """Runs until it is cancelled, and no other execution of it does meanwhile."""


class Quick(Job):
    """Takes no time."""

    def execute(self, context: JobExecutionContext) -> None: ...


@contextmanager
def changing_zone(directory: Path, now: datetime) -> Iterator[dict[str, str]]:
    """Make the zone `ZONE` known, whose clock soon moves forward by an hour; yield the environment of processes."""
    at = change_after(now)
    header = b"TZif" + b"\0" * 16 + struct.pack(">6l", 0, 0, 0, 1, 2, 8)
    offsets = struct.pack(">lBB", 0, 0, 0) + struct.pack(">lBB", 3600, 1, 4)
    (directory / "Test").mkdir(parents=True)
    (directory / ZONE).write_bytes(header + struct.pack(">lB", int(at.timestamp()), 1) + offsets + b"TST\0TSU\0")
    before = zoneinfo.TZPATH
    places = (str(directory), *before)
    zoneinfo.reset_tzpath(to=places)
    clock_change._zones_that_change.cache_clear()
    try:
        yield {"PYTHONTZPATH": os.pathsep.join(places)}
    finally:
        zoneinfo.reset_tzpath(to=before)
        clock_change._zones_that_change.cache_clear()


def change_after(now: datetime) -> datetime:
    """Return the full hour from three to four hours after `now`, at which the clock of the zone changes."""
    return now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=4)


def make_scheduler() -> Scheduler:
    """The scheduler of a node; each node has a pool of its own name."""
    instance = os.environ[INSTANCE_VARIABLE]
    return Scheduler(os.environ[DSN_VARIABLE], instance_id=instance, executors={instance: "threads:1"}, **SETTINGS)


def of_node_b(now: datetime) -> JobWithTriggers:
    """A job that runs on node-b, because only it has the pool."""
    return JobDetail(Hold, LOST.name, executor="node-b", durable=True), [SimpleTrigger(LOST.name, start_time=now)]


def holding(now: datetime) -> list[JobWithTriggers]:
    """Jobs that take what others wait for."""
    return [
        (JobDetail(Hold, "hog", executor="node-a"), [SimpleTrigger("hog", start_time=now - LATE)]),
        (JobDetail(Serial, "serial", durable=True), [SimpleTrigger("serial-1", start_time=now - LATE)]),
    ]


def in_trouble(now: datetime) -> list[JobWithTriggers]:
    """Jobs that cannot run, and one around the change of the clock."""
    # Half an hour after the change, by the clock of the zone, which has moved by then.
    around = change_after(now).astimezone(UTC) + timedelta(hours=1, minutes=30)
    return [
        (JobDetail(Quick, "thumbnails", executor="node-a"), [SimpleTrigger("thumbnails", start_time=now - LATE)]),
        (JobDetail(Serial, "serial", durable=True), [SimpleTrigger("serial-2", start_time=now - LATE)]),
        (JobDetail(Quick, "poison"), [SimpleTrigger(POISONED.name, start_time=now + timedelta(hours=12))]),
        (JobDetail(Quick, "nightly"), [CronTrigger(f"0 30 {around.hour} * * ?", NIGHTLY.name, time_zone=ZONE)]),
    ]
