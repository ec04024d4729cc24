"""Microseconds for one next fire time, against croniter, cronsim and APScheduler in the same run.

Each peer is asked as its users ask it: from one fire time to the next. The mix is the same, in the five-field form
that all of them read, where one exists.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger as ApsCronTrigger
from croniter import croniter
from cronsim import CronSim

from benchmarks.harness import machine, report
from quartzpy.cron_expressions.crontab import CrontabExpression
from quartzpy.cron_expressions.expression import CronExpression

START = datetime(2026, 1, 15, 10, 20, 30, tzinfo=UTC)
# Quartz's dialect, and the crontab line that means the same.
MIX = [
    ("0 * * * * ?", "* * * * *"),
    ("0 0/5 * * * ?", "*/5 * * * *"),
    ("0 0/15 9-17 ? * MON-FRI", "*/15 9-17 * * 1-5"),
    ("0 0 * * * ?", "0 * * * *"),
    ("0 30 * * * ?", "30 * * * *"),
    ("0 0 0/6 * * ?", "0 */6 * * *"),
    ("0 0 2 * * ?", "0 2 * * *"),
    ("0 30 2 * * ?", "30 2 * * *"),
    ("0 0 2 ? * MON-FRI", "0 2 * * 1-5"),
    ("0 0 12 ? * SUN", "0 12 * * 0"),
    ("0 0 8,12,18 * * ?", "0 8,12,18 * * *"),
    ("0 5 4 1 * ?", "5 4 1 * *"),
    ("0 0 0 1,15 * ?", "0 0 1,15 * *"),
    ("0 0 0 1 1 ?", "0 0 1 1 *"),
    ("0 0 0 1 1,4,7,10 ?", "0 0 1 1,4,7,10 *"),
    ("0 15 10 ? JUN-AUG MON", "15 10 * 6-8 1"),
    ("0 10,40 14 ? * WED", "10,40 14 * * 3"),
    ("0 0-5 14 * * ?", "0-5 14 * * *"),
    ("0 0 3 29 2 ?", "0 3 29 2 *"),
    ("0 0 0 31 * ?", "0 0 31 * *"),
]
# What only Quartz's dialect can say, what never comes, and what comes once in decades.
HARD = [
    "0 0 0 L * ?",
    "0 0 0 LW * ?",
    "0 0 0 15W * ?",
    "0 0 0 ? * 6#3",
    "0 0 0 ? * 6L",
    "0 0 0 30 2 ?",
    "0 0 0 31 4,6,9,11 ?",
    "0 0 0 ? 2 1#5",
    "0 0 0 29 2 ? 2096-2104/4",
    "0 0 0 29 2 ? 2190-2199",
    "0 0 0 1 1 ? 2199",
    "* * * * * ?",
]
TIMES = 40
ZONES = ("UTC", "Europe/Berlin")


def quartzpy(text: str, zone: str) -> Callable[[], None]:
    expression = CronExpression(text, zone)

    def chain() -> None:
        at: datetime | None = START
        for _ in range(TIMES):
            assert at is not None
            at = expression.next_after(at)

    return chain


def quartzpy_crontab(line: str, zone: str) -> Callable[[], None]:
    expression = CrontabExpression(line, zone)

    def chain() -> None:
        at: datetime | None = START
        for _ in range(TIMES):
            assert at is not None
            at = expression.next_after(at)

    return chain


def with_croniter(text: str, zone: str) -> Callable[[], None]:
    start = START.astimezone(ZoneInfo(zone))

    def chain() -> None:
        iterator = croniter(text, start, ret_type=datetime)
        for _ in range(TIMES):
            iterator.get_next()

    return chain


def with_cronsim(text: str, zone: str) -> Callable[[], None]:
    start = START.astimezone(ZoneInfo(zone))

    def chain() -> None:
        iterator = CronSim(text, start)
        for _ in range(TIMES):
            next(iterator)

    return chain


def with_apscheduler(text: str, zone: str) -> Callable[[], None]:
    trigger = ApsCronTrigger.from_crontab(text, timezone=ZoneInfo(zone))
    start = START.astimezone(ZoneInfo(zone))

    def chain() -> None:
        at = start
        for _ in range(TIMES):
            at = trigger.get_next_fire_time(at, at)

    return chain


def microseconds(chain: Callable[[], None], repeats: int) -> float:
    """The least of several repeats: what disturbs a measurement only ever adds."""
    chain()
    spent = []
    for _ in range(repeats):
        began = time.perf_counter()
        chain()
        spent.append(time.perf_counter() - began)
    return min(spent) / TIMES * 1e6


def hard(text: str, zone: str, repeats: int) -> float:
    """A chain of up to ten, and the answer that there is no further one."""
    expression = CronExpression(text, zone)
    worst = 0.0
    for _ in range(repeats):
        at: datetime | None = START
        slowest = 0.0
        for _ in range(10):
            if at is None:
                break
            began = time.perf_counter()
            at = expression.next_after(at)
            slowest = max(slowest, time.perf_counter() - began)
        worst = slowest if not worst else min(worst, slowest)
    return worst * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    peers = {"croniter": with_croniter, "cronsim": with_cronsim, "apscheduler": with_apscheduler}
    for zone in ZONES:
        ours = {q: microseconds(quartzpy(q, zone), options.repeats) for q, _ in MIX}
        lines = {line: microseconds(quartzpy_crontab(line, zone), options.repeats) for _, line in MIX}
        report(
            "fire times, a mix of 20",
            zone=zone,
            quartzpy={
                "median": round(statistics.median(ours.values()), 2),
                "most": round(max(ours.values()), 2),
                "slowest": max(ours, key=ours.__getitem__),
            },
            crontab={
                "median": round(statistics.median(lines.values()), 2),
                "most": round(max(lines.values()), 2),
                "slowest": max(lines, key=lines.__getitem__),
            },
            **machine(),
        )
        for name, make in peers.items():
            # Rare expressions take some of them seconds: fewer repeats, the same statistic.
            theirs = {line: microseconds(make(line, zone), 2) for _, line in MIX}
            ratios = [theirs[line] / ours[q] for q, line in MIX]
            report(
                "fire times, a mix of 20",
                zone=zone,
                peer=name,
                median=round(statistics.median(theirs.values()), 2),
                most=round(max(theirs.values()), 2),
                times_slower={"median": round(statistics.median(ratios), 1), "least": round(min(ratios), 1)},
            )
        report(
            "fire times, hard ones: the slowest single answer",
            zone=zone,
            microseconds={text: round(hard(text, zone, options.repeats), 1) for text in HARD},
        )


if __name__ == "__main__":
    main()
