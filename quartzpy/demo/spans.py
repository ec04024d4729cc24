"""Spans of time, and the division of a delay among its causes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

Span = tuple[datetime, datetime]

OURS = "ours"
"""The part of a delay that no other cause explains: the scheduler's own."""


def length(spans: Iterable[Span]) -> timedelta:
    """Return the sum of the lengths of spans that do not overlap."""
    return sum((end - start for start, end in spans), timedelta())


def subtract(spans: Iterable[Span], taken: Span) -> list[Span]:
    """Return the parts of `spans` outside of `taken`."""
    left: list[Span] = []
    for start, end in spans:
        before = (start, min(end, taken[0]))
        after = (max(start, taken[1]), end)
        left += [part for part in (before, after) if part[0] < part[1]]
    return left


def explain_delay(delay: Span, causes: Mapping[str, Sequence[Span]]) -> dict[str, timedelta]:
    """Divide a delay among its causes, in their order; the remainder is `OURS`.

    No moment is counted twice: a moment with two causes belongs to the first of them.
    """
    left = [delay] if delay[0] < delay[1] else []
    parts: dict[str, timedelta] = {}
    for cause, spans in causes.items():
        before = length(left)
        for span in spans:
            left = subtract(left, span)
        parts[cause] = before - length(left)
    parts[OURS] = length(left)
    return parts


def within(instant: datetime, spans: Iterable[Span]) -> bool:
    """Return True if the instant lies in one of the spans."""
    return any(start <= instant <= end for start, end in spans)
