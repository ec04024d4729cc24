"""Builds with one guard taken out: each must be caught by the suite, or the suite is worth nothing.

A sabotage is a function that changes the loaded modules of a node before it starts. Where what it wants to take out is
not there any more, it says so and the node does not start: a sabotage that changes nothing would prove nothing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

SABOTAGES: dict[str, Callable[[], None]] = {}


class NothingToSabotageError(Exception):
    """What a sabotage takes out is no longer where it was."""


def sabotage(function: Callable[[], None]) -> Callable[[], None]:
    """Make a sabotage known by its function's name."""
    SABOTAGES[function.__name__] = function
    return function


def taken_out(module: str, constant: str, old: str, new: str) -> str:
    """Replace a part of a statement; the statement as it is then."""
    found: Any = importlib.import_module(module)
    before = getattr(found, constant)
    if old not in before:
        raise NothingToSabotageError(f"{module}.{constant} does not hold {old!r}")
    after: str = before.replace(old, new)
    setattr(found, constant, after)
    return after


@sabotage
def no_lock() -> None:
    """The row of `locks` is read, not locked."""
    after = taken_out("quartzpy.store.sql.locks", "LOCK", "FOR UPDATE", "")
    importlib.import_module("quartzpy.store.sql.session").LOCK = after  # type: ignore[attr-defined]


@sabotage
def unfenced_complete() -> None:
    """A completion counts whatever its epoch, and whether or not its claim still stands."""
    guard = "f.epoch = %(epoch)s::bigint AND f.state = 'EXECUTING'\n       AND"
    taken_out("quartzpy.store.sql.complete", "COMPLETE", guard, "true\n       AND")


@sabotage
def every_node_is_dead() -> None:
    """A peer is judged by half an interval of silence."""
    module = importlib.import_module("quartzpy.runtime.cluster_manager")
    plain = module.PeerWatch.__init__

    def hasty(self: Any, interval: Any, window: Any, *rest: Any, **named: Any) -> None:
        plain(self, interval, interval / 2, *rest, **named)

    module.PeerWatch.__init__ = hasty


def apply(name: str) -> None:
    """Take out what is named. Raises KeyError: no such sabotage."""
    SABOTAGES[name]()
