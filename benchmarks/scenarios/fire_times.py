"""Fire times: microseconds for the next one, beside croniter, cronsim and APScheduler in the same run.

Each peer is asked as its users ask it: from one fire time to the next. The mix is the same, in the five-field form
that all of them read, where one exists.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from croniter import croniter

from benchmarks.bench import Bench
from benchmarks.figures import Result, Table, rounded
from benchmarks.plots import HOW_TO_INSTALL
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
# Expressions of Quartz's dialect only, some that never fire, and some that fire once in decades.
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
    from cronsim import CronSim

    start = START.astimezone(ZoneInfo(zone))

    def chain() -> None:
        iterator = CronSim(text, start)
        for _ in range(TIMES):
            next(iterator)

    return chain


def with_apscheduler(text: str, zone: str) -> Callable[[], None]:
    from apscheduler.triggers.cron import CronTrigger as ApsCronTrigger

    trigger = ApsCronTrigger.from_crontab(text, timezone=ZoneInfo(zone))
    start = START.astimezone(ZoneInfo(zone))

    def chain() -> None:
        at = start
        for _ in range(TIMES):
            at = trigger.get_next_fire_time(at, at)

    return chain


def microseconds(chain: Callable[[], None], repeats: int) -> float:
    """Return the least of several repeats, because a disturbance only ever adds."""
    chain()
    spent = []
    for _ in range(repeats):
        began = time.perf_counter()
        chain()
        spent.append(time.perf_counter() - began)
    return min(spent) / TIMES * 1e6


def hard(text: str, zone: str, repeats: int) -> float:
    """Return the slowest of up to ten answers in a row, which may end with "never"; the least of several repeats."""
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


def run(bench: Bench) -> Result:
    repeats = 2 * bench.scale.rounds
    mix: list[tuple[str, ...]] = []
    hard_ones: list[tuple[str, ...]] = []
    figures: dict[str, dict[str, float]] = {}
    notes: list[str] = []
    peers = _peers(notes)
    for zone in ZONES:
        ours = {text: microseconds(quartzpy(text, zone), repeats) for text, _ in MIX}
        lines = {line: microseconds(quartzpy_crontab(line, zone), repeats) for _, line in MIX}
        figures[f"quartzpy, {zone}"], figures[f"quartzpy's crontab, {zone}"] = ours, lines
        mix.append((f"quartzpy, {zone}", *_cells(ours), ""))
        mix.append((f"quartzpy, crontab lines, {zone}", *_cells(lines), ""))
        for name, make in peers.items():
            # Rare expressions take some of them seconds: fewer repeats, the same statistic.
            theirs = {line: microseconds(make(line, zone), 2) for _, line in MIX}
            slower = statistics.median(theirs[line] / ours[text] for text, line in MIX)
            figures[f"{name}, {zone}"] = theirs
            mix.append((f"{name}, {zone}", *_cells(theirs), f"{rounded(slower)} times"))
        slowest = {text: hard(text, zone, repeats) for text in HARD}
        figures[f"hard ones, {zone}"] = slowest
        hard_ones += [(f"`{text}`", zone, rounded(spent)) for text, spent in slowest.items()]
    return Result(
        "fire-times",
        tables=[
            Table(
                "Microseconds for a fire time, a mix of 20 expressions", ("", "median", "most", "slower"), tuple(mix)
            ),
            Table("Microseconds of the slowest single answer, hard ones", ("", "zone", "µs"), tuple(hard_ones)),
        ],
        notes=notes,
        figures=figures,
    )


def _cells(spent: dict[str, float]) -> tuple[str, str]:
    return rounded(statistics.median(spent.values())), rounded(max(spent.values()))


def _peers(notes: list[str]) -> dict[str, Callable[[str, str], Callable[[], None]]]:
    """Return the peers that are installed beside quartzpy, and note the others."""
    peers: dict[str, Callable[[str, str], Callable[[], None]]] = {"croniter": with_croniter}
    for name, make in (("cronsim", with_cronsim), ("apscheduler", with_apscheduler)):
        if importlib.util.find_spec(name) is None:
            notes.append(f"{name} was left out because it is not installed: `{HOW_TO_INSTALL}`")
        else:
            peers[name] = make
    return peers
