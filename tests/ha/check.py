"""The checker: compares what ought to have run with what jobs wrote down and with what the system says.

What ought to have run is computed here from the schedules alone, without the system under test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from tests.ha.record import Line


@dataclass(frozen=True)
class Series:
    """The instants of a recurring trigger: `start`, and one `interval` after the other."""

    start: datetime
    interval: timedelta

    def until(self, end: datetime) -> set[datetime]:
        """Those before `end`."""
        count = -((self.start - end) // self.interval) if end > self.start else 0
        return {self.start + n * self.interval for n in range(count)}


@dataclass(frozen=True)
class History:
    """A run, from all sides."""

    series: Mapping[str, Series]
    """By trigger."""
    due: datetime
    """All instants before this one must have fired."""
    lines: Sequence[Line]
    """What the jobs wrote down, by time."""
    acknowledged: frozenset[str] = frozenset()
    """One-shots whose scheduling returned."""
    unknown: frozenset[str] = frozenset()
    """One-shots whose scheduling ended with OutcomeUnknownError."""
    refused: frozenset[str] = frozenset()
    """One-shots whose scheduling ended with any other error: it says that nothing was changed."""
    succeeded: frozenset[int] | None = None
    """The fire_ids of the executions that the system's history has as SUCCEEDED; None where that is not compared."""
    serial: frozenset[str] = frozenset()
    """Jobs that must not overlap."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """What the system has as the count of each job that counts."""
    left: Sequence[str] = ()
    """What the system still shows as claimed, running or blocked after all had the time to end."""


@dataclass
class Findings:
    """What is wrong with a run; each list is empty where all is well."""

    lost: list[str] = field(default_factory=list)
    """An instant of a series, or an acknowledged one-shot, that never ran."""
    doubled: list[str] = field(default_factory=list)
    """What ran more than once, or at an instant that no schedule has."""
    denied: list[str] = field(default_factory=list)
    """One-shots that ran although the client was told that nothing was changed."""
    overlapped: list[str] = field(default_factory=list)
    counted_wrong: list[str] = field(default_factory=list)
    unrecorded: list[str] = field(default_factory=list)
    """Executions whose history differs from what they wrote down."""
    recovered: list[str] = field(default_factory=list)
    """Executions that were repeated as if their node had died."""
    stuck: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not any(vars(self).values())

    def counts(self) -> dict[str, int]:
        return {name: len(found) for name, found in vars(self).items()}

    def sample(self, most: int = 5) -> dict[str, Any]:
        return {name: found[:most] for name, found in vars(self).items() if found}


def check(history: History) -> Findings:
    """All that is wrong with a run."""
    findings = Findings(stuck=list(history.left))
    starts = [line for line in history.lines if line.event == "start"]
    findings.recovered = [f"{line.job} of {line.trigger}" for line in starts if line.recovering]
    _check_series(history, [line for line in starts if not line.recovering], findings)
    _check_one_shots(history, starts, findings)
    _check_overlaps(history, findings)
    _check_counters(history, starts, findings)
    _check_history(history, starts, findings)
    return findings


def _check_series(history: History, starts: Sequence[Line], findings: Findings) -> None:
    ran: dict[str, Counter[datetime]] = {name: Counter() for name in history.series}
    for line in starts:
        if line.trigger in ran:
            ran[line.trigger][line.scheduled] += 1
    for name, series in history.series.items():
        happened = ran[name]
        # What fired after `due` fired in its order, so nothing may be missing before it.
        end = max([history.due, *(instant + timedelta(microseconds=1) for instant in happened)])
        expected = series.until(end)
        findings.lost += [f"{name} at {instant.isoformat()}" for instant in sorted(expected - happened.keys())]
        findings.doubled += [
            f"{name} at {instant.isoformat()}: {times} times"
            for instant, times in sorted(happened.items())
            if times > 1
        ]
        findings.doubled += [
            f"{name} at {instant.isoformat()}: no such instant" for instant in sorted(happened.keys() - expected)
        ]


def _check_one_shots(history: History, starts: Sequence[Line], findings: Findings) -> None:
    ran = Counter(line.trigger for line in starts)
    findings.lost += [name for name in sorted(history.acknowledged) if not ran[name]]
    asked = history.acknowledged | history.unknown | history.refused
    findings.doubled += [f"{name}: {ran[name]} times" for name in sorted(asked) if ran[name] > 1]
    findings.denied += [name for name in sorted(history.refused) if ran[name]]


def _check_overlaps(history: History, findings: Findings) -> None:
    for job in sorted(history.serial):
        # Not by fire_id alone: where a failover took some back, two executions have the same one.
        latest: dict[tuple[int, int], list[float]] = {}
        spans: list[tuple[int, list[float]]] = []
        for line in history.lines:
            if line.job != job:
                continue
            if line.event == "start":
                latest[line.pid, line.fire_id] = [line.at]
                spans.append((line.fire_id, latest[line.pid, line.fire_id]))
            else:
                latest[line.pid, line.fire_id].append(line.at)
        findings.overlapped += [
            f"{job}: execution {later} began {ends[-1] - begins[0]:.3f} s before execution {earlier} ended"
            for (earlier, ends), (later, begins) in pairwise(spans)
            if begins[0] < ends[-1]
        ]


def _check_counters(history: History, starts: Sequence[Line], findings: Findings) -> None:
    for job, stored in history.counters.items():
        counts = [line.count for line in starts if line.job == job]
        if stored != len(counts):
            findings.counted_wrong.append(f"{job}: {stored} is stored after {len(counts)} executions")
        findings.counted_wrong += [
            f"{job}: counted to {later} after {earlier}"
            for earlier, later in pairwise(counts)
            if earlier is None or later != earlier + 1
        ]


def _check_history(history: History, starts: Sequence[Line], findings: Findings) -> None:
    if history.succeeded is None:
        return
    ran = {line.fire_id: line for line in starts}
    findings.unrecorded += [
        f"execution {fire_id} of {ran[fire_id].trigger} ran and is not recorded as SUCCEEDED"
        for fire_id in sorted(ran.keys() - history.succeeded)
    ]
    findings.unrecorded += [
        f"execution {fire_id} is recorded as SUCCEEDED and never ran"
        for fire_id in sorted(history.succeeded - ran.keys())
    ]
