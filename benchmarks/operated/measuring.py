"""Repeats reads, and notes the milliseconds of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

REPEATS = 20
MAX_SECONDS = 20.0
"""The time after which a slow read is not repeated again."""


def times_of(read: Callable[[], Any], repeats: int = REPEATS) -> list[float]:
    """Return the milliseconds of each repeat of a read. The first one, which warms the caches, does not count."""
    read()
    found: list[float] = []
    while len(found) < repeats and sum(found) < MAX_SECONDS * 1000:
        began = time.perf_counter()
        read()
        found.append((time.perf_counter() - began) * 1000)
    return found


def times_of_each(reads: Mapping[str, Callable[[], Any]]) -> dict[str, list[float]]:
    return {name: times_of(read) for name, read in reads.items()}
