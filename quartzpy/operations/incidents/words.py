"""Sentences that several kinds of incidents share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta

from quartzpy.instants import short
from quartzpy.keys import JobKey, Naming, TriggerKey
from quartzpy.operations.views.executions import RunningView
from quartzpy.operations.views.internal_triggers import kind_of
from quartzpy.texts import numbered

MAX_NAMED = 5
"""The number of objects, and of remedies for them, that an incident names one by one."""


def short_span(span: timedelta) -> str:
    return short(timedelta(seconds=round(span.total_seconds(), 1 if span < timedelta(seconds=10) else 0)))


def runs(row: RunningView) -> str:
    elapsed = "about to start" if row.elapsed is None else f"running for {short_span(row.elapsed)}"
    if row.is_unrecorded:
        elapsed = "it has ended, and its node cannot record that"
    cancelled = ", and asked to stop" if row.cancel_requested else ""
    place = f"node {row.node}" if row.worker is None else f"worker {row.worker} of node {row.node}"
    return Naming(f"Execution {row.fire_id} of job {row.job} on {place}: {elapsed}{cancelled}.", row.job)


def longest(rows: Iterable[RunningView]) -> list[RunningView]:
    """Return executions, those that have run longest first."""
    return sorted(rows, key=lambda row: row.elapsed or timedelta(), reverse=True)


def waiting(keys: Sequence[TriggerKey], number: int | None = None) -> str:
    """Return a sentence that names the first of `number` triggers, by default all of `keys`."""
    return f"Waiting: {named_first(keys, number)}."


def named_first(keys: Sequence[object], number: int | None = None) -> str:
    """Return the first of `number` names, by default all of `keys`: "a, b and 7 more"."""
    shown = keys[:MAX_NAMED]
    rest = max(len(keys), number or 0) - len(shown)
    names = ", ".join(map(_called, shown)) or "none of them is listed"
    return f"{names}{f' and {rest:,} more' if rest else ''}"


def _called(subject: object) -> str:
    return (kind_of(subject) if isinstance(subject, TriggerKey) else None) or str(subject)


def triggers_of(number: int, jobs: Collection[JobKey], is_one: str, are: str) -> str:
    """Return "1 trigger of job a is", "7 triggers of 2 jobs are"."""
    whose = f"job {next(iter(jobs))}" if len(jobs) == 1 else f"{len(jobs):,} jobs"
    return numbered(number, f"trigger of {whose} {is_one}", f"triggers of {whose} {are}")
