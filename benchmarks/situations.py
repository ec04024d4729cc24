"""Schedules on nodes that have little to do: what a program has on its first day, and what the tutorial shows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from benchmarks.jobs import NoteStart
from quartzpy import CronTrigger, JobDetail, SimpleTrigger
from quartzpy.triggers.trigger import Trigger

Jobs = list[tuple[JobDetail, list[Trigger]]]


def _every(milliseconds: int, name: str, begin: datetime) -> tuple[JobDetail, list[Trigger]]:
    interval = timedelta(milliseconds=milliseconds)
    return JobDetail(NoteStart, name), [SimpleTrigger(name, start_time=begin, interval=interval, repeat_count=None)]


SITUATIONS: dict[str, Callable[[datetime], Jobs]] = {
    "one of every second": lambda begin: [_every(1_000, "second", begin)],
    "one of every 200 ms": lambda begin: [_every(200, "fifth", begin)],
    "ten of every 100 ms": lambda begin: [
        _every(100, f"tenth-{n}", begin + timedelta(milliseconds=10 * n)) for n in range(10)
    ],
    "a cron of every minute": lambda begin: [(JobDetail(NoteStart, "minute"), [CronTrigger("0 * * * * ?", "minute")])],
    "three at each full second": lambda begin: [_every(1_000, f"of-three-{n}", begin) for n in range(3)],
    "one that fires once": lambda begin: [
        (JobDetail(NoteStart, "once"), [SimpleTrigger("once", start_time=begin + timedelta(seconds=5))])
    ],
    "one of every 2 s, as in the tutorial": lambda begin: [_every(2_000, "tutorial", begin)],
    "one of every 5 s": lambda begin: [_every(5_000, "five", begin)],
}
"""By name: the jobs with their triggers, which begin at an instant that is a full second."""
